"""``irtbench breakdown``: accuracy by the kind of item, and where one system gains over another."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray

from irtbench.cli.options import Figures, Json, Quiet, Responses, Seed, Where, named
from irtbench.cli.output import say, show_table, to_json, write_json, write_table
from irtbench.cli.presenting import figures_in, maybe_folder
from irtbench.cli.progress import reporting
from irtbench.cli.reading import Reading, reads_files
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.data.tags import ItemTags

MOST_SYSTEMS = 6  # of which all pairs are compared without being asked, and that one figure holds
FILES = (
    "types.csv", "breakdown.csv", "advantage.csv", "parameters.csv", "breakdown.json", "breakdown.svg",
    *(f"advantage_{number}.svg" for number in range(1, 1 + MOST_SYSTEMS * (MOST_SYSTEMS - 1) // 2)),
)  # fmt: skip


@reads_files
def breakdown(
    responses: Responses,
    items: Annotated[Path, typer.Option("--items", metavar="ITEMS", help="Table of items with their types.")],
    types: Annotated[
        list[str],
        typer.Option("--type", metavar="COLUMN", help="Column of types, or a 1 / 0 column that is a type; repeat."),
    ],
    separator: Annotated[
        str | None, typer.Option("--separator", help="Stands between the types of one item, such as ';'.")
    ] = None,
    item: Annotated[str, typer.Option("--item", metavar="COLUMN", help="Column of item names.")] = "item_id",
    where: Where = [],  # noqa: B006 - typer copies it
    system: Annotated[
        list[str], typer.Option("--system", metavar="NAME", help="Only this system; repeat. Default: all.")
    ] = [],  # noqa: B006
    against: Annotated[
        str | None, typer.Option("--against", metavar="NAME", help="Compare each other system with this one.")
    ] = None,
    bank: Annotated[
        Path | None, typer.Option("--bank", metavar="BANK", help="Difficulty and discrimination by type as well.")
    ] = None,
    adjustment: Annotated[
        Literal["holm", "fdr_bh"], typer.Option("--adjust", help="p for many types: Holm or Benjamini-Hochberg.")
    ] = "holm",
    level: Annotated[float, typer.Option("--level", help="Coverage of the intervals.")] = 0.95,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.")
    ] = None,
    figures: Figures = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Counts of item types, accuracy of each system by type, and the advantage of one system over another.

    Writes types.csv, breakdown.csv (accuracy), advantage.csv, breakdown.json and figures. Without --against all pairs
    of up to six systems are compared; of more, none.
    """
    from irtbench.data.readers.tagged_items import read_tags
    from irtbench.evaluation.breakdown import accuracy_by_type, advantage_by_type, type_counts, values_by_type

    with reporting(quiet=quiet) as progress:
        tags = read_tags(items, types, item=item, separator=separator, where=named("--where", where))
        given = reading.matrix(responses)
        wanted = [*system, against] if system and against is not None else system
        data = chosen(given, tags, wanted, some=bool(where))
        tags = tags.select(data.item_ids)
        counts = type_counts(tags)
        accuracy = accuracy_by_type(data, tags, level=level)
        pairs = pairs_of(data.respondent_ids, against)
        progress("advantages")
        advantage = (
            advantage_by_type(data, tags, pairs, level=level, rng=np.random.default_rng(seed), adjustment=adjustment)
            if pairs
            else None
        )
        parameters = None if bank is None else values_by_type(*parameters_of(bank, tags))
    found = {
        "types": counts.table(),
        "n_items": counts.n_all,
        "n_untyped": counts.n_untyped,
        "overlaps": counts.overlap_table(),
        "accuracy": accuracy,
        "advantage": advantage,
        "parameters": parameters,
        "seed": seed,
    }
    with maybe_folder(output, files=FILES) as folder, figures_in(figures, unasked=folder) as draw:
        if folder is not None:
            write_table(counts.table(), folder / "types.csv")
            write_table(accuracy, folder / "breakdown.csv")
            if advantage is not None:
                write_table(advantage, folder / "advantage.csv")
            if parameters is not None:
                write_table(parameters, folder / "parameters.csv")
            write_json(found, folder / "breakdown.json")
        if draw is not None:
            from irtbench.report.evaluation_figures import breakdown_figures

            shown = accuracy[accuracy["respondent_id"].isin(data.respondent_ids[:MOST_SYSTEMS])]
            draw(breakdown_figures(shown, advantage))
    if json:
        print(to_json(found))
    elif not quiet:
        title = f"Types of {counts.n_all} items, {counts.n_untyped} of them without"
        show_table(counts.table(), title=title, rest=(output, "types.csv"))
        if counts.overlap:
            say("Items with several types count in each: the rows share items and are not independent.")
        if len(data.respondent_ids) <= MOST_SYSTEMS:
            wide = accuracy.pivot(index="type", columns="respondent_id", values="accuracy")
            wide = wide.reindex(pd.unique(accuracy["type"])).reset_index()
            show_table(wide, title="Accuracy", rest=(output, "breakdown.csv"))
        if advantage is not None:
            shown = advantage.drop(columns=["accuracy_first", "accuracy_second"])
            title = "Advantage of the first over the second"
            show_table(shown, title=title, rest=(output, "advantage.csv"))
        if parameters is not None:
            show_table(parameters, title="Item parameters", rest=(output, "parameters.csv"))


def chosen(given: ResponseMatrix, tags: ItemTags, systems: list[str], *, some: bool) -> ResponseMatrix:
    """Responses of these systems (all, if none is named), to the tagged items alone if some were asked for."""
    unknown = [name for name in systems if name not in given.respondent_ids]
    if unknown:
        raise InputError(
            f"--system {name_first(unknown)}: no response of this system in the table; expected some of "
            f"{name_first(given.respondent_ids)}"
        )
    data = given.select_respondents(np.isin(given.respondent_ids, systems)) if systems else given
    if not some:
        return data
    known = set(tags.item_ids)
    wanted = [name for name in data.item_ids if name in known]
    if not wanted:
        raise InputError("--where: no response to any of the items left; expected at least one")
    return data.select_items(wanted)


def pairs_of(systems: tuple[str, ...], against: str | None) -> list[tuple[str, str]]:
    """The pairs to compare."""
    if against is not None:
        if against not in systems:
            raise InputError(
                f"--against {against}: no response of this system in the table; expected one of {name_first(systems)}"
            )
        return [(name, against) for name in systems if name != against]
    return list(combinations(systems, 2)) if len(systems) <= MOST_SYSTEMS else []


def parameters_of(path: Path, tags: ItemTags) -> tuple[dict[str, NDArray[np.float64]], ItemTags]:
    """Difficulty and discrimination of the bank's items that have a row in the tags, and the tags of these."""
    from irtbench.bank.bank import load_bank

    scales = [scale.items for scale in load_bank(path).scales]
    item_ids = np.concatenate([scale.item_ids for scale in scales])
    known = np.isin(item_ids, tags.item_ids)
    if not known.any():
        raise InputError(f"bank {path}: has none of the items with types; expected the bank that they belong to")
    values = {
        "difficulty": np.concatenate([scale.difficulty for scale in scales])[known],
        "discrimination": np.concatenate([scale.discrimination for scale in scales])[known],
    }
    return values, tags.select(item_ids[known].tolist())
