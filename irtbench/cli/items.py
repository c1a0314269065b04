"""``irtbench items``: a bank as a thing to read: its items, a table from raw score to ability, a map."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pandas as pd
import typer

from irtbench.cli.options import BESIDE_RESULTS, FiguresOrBeside, ItemColumns, Json, Quiet, named
from irtbench.cli.output import say, say_next, show_table, to_json, write_table
from irtbench.cli.presenting import figures_in, maybe_folder
from irtbench.data.input_error import InputError

if TYPE_CHECKING:
    from irtbench.bank.bank import ItemBank
    from irtbench.bank.item_map import ItemMap
    from irtbench.bank.scale import Scale
    from irtbench.scoring.sum_score_table import SumScoreTable

FILES = ("items.csv", "score_table.csv", "test_information.csv", "items_mirt.csv", "items_catr.csv")
FIGURES = ("wright_map{}.svg", "test_information.svg")
MOST_ROWS, MOST_LETTERS = 31, 60  # of a score table, and of a text, on the screen
ENDS = {
    ("difficulty", "highest"): "hardest",
    ("difficulty", "lowest"): "easiest",
    ("discrimination", "highest"): "most discriminating",
    ("discrimination", "lowest"): "least discriminating",
    ("information", "highest"): "most informative",
    ("information", "lowest"): "least informative",
}


def items(
    bank: Annotated[
        Path, typer.Argument(metavar="BANK", help="bank.json as `build` and `fit` write it, or items.csv.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results; none if not said.")
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option("--items", metavar="ITEMS", help="Table of items with texts, keys, labels for the bank's."),
    ] = None,
    item_column: ItemColumns = [],  # noqa: B006 - typer copies it
    figures: FiguresOrBeside = None,
    export: Annotated[
        Literal["mirt", "catr"] | None,
        typer.Option(
            "--export",
            help="Write the items into DIR in the columns of R's mirt (a1, d, g, u: items_mirt.csv) or catR (a, b, c, "
            "d: items_catr.csv).",
        ),
    ] = None,
    norm: Annotated[
        Literal["normal", "empirical", "smoothed"], typer.Option("--norm", help="What percentiles compare with.")
    ] = "normal",
    most: Annotated[int, typer.Option("--most", min=1, help="Items shown at either end.")] = 3,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Show the data card, the items at either end by difficulty, discrimination and information, ability by raw score.

    Writes items.csv, the most difficult first, with what each expects of the population and tells of it;
    score_table.csv, for every raw score on all items the ability (EAP of the sum score), its standard error and
    percentile, a table to print; and test_information.csv.
    """
    from irtbench.bank.item_map import item_map
    from irtbench.bank.known_items import read_bank
    from irtbench.models.parameter_table import parameter_columns
    from irtbench.scoring.sum_score_table import MOST_ITEMS, sum_score_table

    for option, wanted in (("--figures", figures == BESIDE_RESULTS), ("--export", export is not None)):
        if wanted and output is None:
            raise InputError(f"{option}: expected a folder for them, -o DIR")
    if item_column and texts is None:
        raise InputError("--item-column says something of the items: expected --items ITEMS with it")
    known = read_bank(bank, categories=True)
    if texts is not None:
        known = with_texts(known, texts, named("--item-column", item_column))
    if norm != "normal" and (without := [scale.name for scale in known.scales if scale.norms is None]):
        raise InputError(f"--norm {norm}: scale {without[0]} has no norm sample; expected --norm normal")
    maps = {scale.name: item_map(scale) for scale in known.scales}
    tables = {
        scale.name: sum_score_table(scale, norm=norm) for scale in known.scales if scale.items.n_items <= MOST_ITEMS
    }
    by_item, by_score = (stacked({name: found.table() for name, found in each.items()}) for each in (maps, tables))
    files = (*FILES, *figure_names(known))
    with maybe_folder(output, files=files) as folder, figures_in(figures, beside=folder) as draw:
        if folder is not None:
            write_table(by_item, folder / "items.csv")
            if tables:
                write_table(by_score, folder / "score_table.csv")
            write_table(precision_table(known), folder / "test_information.csv")
            if export is not None:
                table = stacked({scale.name: parameter_columns(scale.items, export) for scale in known.scales})
                write_table(table, folder / f"items_{export}.csv")
        if draw is not None:
            from irtbench.report.bank_figures import bank_figures

            draw(bank_figures(maps))
    card = {} if known.card is None else known.card.stated()
    if json:
        print(to_json({"card": card, "items": by_item, "score_table": by_score}))
    elif not quiet:
        for field, said in card.items():
            say(f"{field}: {said}")
        for scale in known.scales:
            show_scale(scale, maps[scale.name], tables.get(scale.name), most, output)
        if output is not None and not any(scale.items.categories for scale in known.scales):
            say_next("irtbench", "assemble", bank, "--length", form_length(known), "-o", output / "form")


def with_texts(bank: ItemBank, file: Path, columns: dict[str, str]) -> ItemBank:
    """The bank with what a table of items says of its items in place of what it says itself."""
    from irtbench.data.readers.item_table import read_items
    from irtbench.data.responses import name_first

    details = read_items(file, columns=columns)
    wanted = [item for scale in bank.scales for item in scale.items.item_ids]
    if missing := sorted(set(wanted) - set(details.scale_items)):
        raise InputError(f"{file}: no row for item {name_first(missing)} of the bank")
    scales = (replace(scale, details=details.select(scale.items.item_ids)) for scale in bank.scales)
    return replace(bank, scales=tuple(scales))


def stacked(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The tables of all scales, one under the other, the scale's name last."""
    if not tables:
        return pd.DataFrame()
    return pd.concat([table.assign(scale=name) for name, table in tables.items()], ignore_index=True)


def precision_table(bank: ItemBank) -> pd.DataFrame:
    """Contents of test_information.csv."""
    from irtbench.diagnostics.measurement_precision import measurement_precision
    from irtbench.models.theta_posterior import STANDARD_NORMAL

    found = {
        scale.name: measurement_precision(scale.items, population=scale.population or STANDARD_NORMAL)
        for scale in bank.scales
    }
    return stacked({name: precision.table() for name, precision in found.items()})


def figure_names(bank: ItemBank) -> list[str]:
    """Names of the figures: a Wright map for each scale, numbered where there are several."""
    several = len(bank.scales) > 1
    return [FIGURES[0].format(f"_{k + 1}" if several else "") for k in range(len(bank.scales))] + [FIGURES[1]]


def form_length(bank: ItemBank) -> int:
    """Of a form that is half as long as the shortest scale."""
    return max(1, min(scale.items.n_items for scale in bank.scales) // 2)


def show_scale(scale: Scale, found: ItemMap, scores: SumScoreTable | None, most: int, output: Path | None) -> None:
    """Print one scale on one screen."""
    view = found.extremes(most)
    shown: dict[str, Any] = {
        "": [ENDS[pair] for pair in zip(view["measure"], view["end"], strict=True)],
        "item": view["item_id"],
        "difficulty": view["difficulty"],
        "discrimination": view["discrimination"],
        "% right": [f"{100 * share:.0f}" for share in view["expected_correct"]],
        "% of information": [f"{100 * share:.1f}" for share in view["share_of_information"]],
    }
    if "text" in view:
        shown["text"] = [shortened(text) for text in view["text"]]
    show_table(pd.DataFrame(shown), title=f"{scale.name}: {scale.items.n_items} items", rest=(output, "items.csv"))
    if scores is None:
        say(f"no score table: {scale.items.n_items} items; irtbench score gives ability by the responses themselves")
        return
    table = scores.table()
    step = -(-(len(table) - 1) // (MOST_ROWS - 1))
    rows = table.iloc[::step]
    show_table(
        pd.DataFrame(
            {
                "raw score": rows["score"],
                "ability": rows["theta"],
                "standard error": rows["se"],
                "percentile": [f"{value:.1f}" for value in rows["percentile"]],
            }
        ),
        title=f"Ability by the {'points on' if scale.items.categories else 'number of right responses to'} all "
        f"{scale.items.n_items} items" + (f" (one score in {step})" if step > 1 else ""),
        rest=(output, "score_table.csv"),
    )


def shortened(text: Any) -> str:
    """A text on one line of the screen."""
    words = "" if pd.isna(text) else " ".join(str(text).split())
    return words if len(words) <= MOST_LETTERS else f"{words[: MOST_LETTERS - 3]}..."
