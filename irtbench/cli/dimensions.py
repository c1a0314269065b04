"""``irtbench dimensions``: how many abilities do the items measure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from irtbench.cli.options import (
    Figures,
    Folder,
    ItemColumns,
    Json,
    Quiet,
    Responses,
    Seed,
    Where,
    demand_varied_items,
    named,
)
from irtbench.cli.output import output_folder, say, say_next, show_table, to_json, write_json, write_table
from irtbench.cli.presenting import figures_in
from irtbench.cli.progress import reporting
from irtbench.cli.reading import Reading, reads_files
from irtbench.data.input_error import InputError

if TYPE_CHECKING:
    from irtbench.analysis.dimensions import Dimensions

EIGENVALUES_SHOWN = 10
FILES = ("eigenvalues.csv", "dimensions.json", "scree.png", "loadings.csv")


@reads_files
def dimensions(
    responses: Responses,
    output: Folder,
    items: Annotated[
        Path | None,
        typer.Option("--items", metavar="ITEMS", help="Items with labels, towards which factors are turned."),
    ] = None,
    factors: Annotated[
        int,
        typer.Option(
            "--factors", min=0, max=3, help="Compare models of 1 up to this many factors, which takes much longer."
        ),
    ] = 0,
    samples: Annotated[int, typer.Option("--samples", help="Samples of independent items.", min=1, max=10_000)] = 20,
    test_samples: Annotated[
        int, typer.Option("--test-samples", min=0, max=10_000, help="Samples for the p of one more factor; 0 for none.")
    ] = 19,
    item_column: ItemColumns = [],  # noqa: B006
    where: Where = [],  # noqa: B006
    figures: Figures = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Count abilities: eigenvalues against chance, models of several factors, loadings turned to the items' labels.

    Writes eigenvalues.csv, dimensions.json, scree.png and, with --items, loadings.csv. Items that all got right or all
    got wrong say nothing here: they are left out and named.
    """
    from irtbench.analysis.dimensions import find_dimensions
    from irtbench.building.removals import constant_items
    from irtbench.data.readers.item_table import read_items

    if items is None and (item_column or where):
        raise InputError("--item-column and --where say something of the items: expected --items ITEMS with them")
    with (
        reporting(quiet=quiet) as progress,
        output_folder(output, files=FILES) as folder,
        figures_in(figures, unasked=folder, ending="png") as draw,
    ):
        given = reading.matrix(responses)
        known = None
        if items is not None:
            known = read_items(items, columns=named("--item-column", item_column), where=named("--where", where))
            given = given.select_items(known.scale_items)
        left_out = {removal.item_id: removal.reason for removal in constant_items(given)}
        kept = [item for item in given.item_ids if item not in left_out]
        demand_varied_items(kept, responses)
        data = given.select_items(kept).answered()
        labels = None if known is None else [label or "" for label in known.select(data.item_ids).label]
        result = find_dimensions(
            data, labels,
            max_factors=factors, n_samples=samples, n_test_samples=test_samples, seed=seed, progress=progress,
        )  # fmt: skip
        found = result.summary() | {"items_left_out": left_out, "seed": seed}
        write_table(result.analysis.table(), folder / "eigenvalues.csv")
        write_json(found, folder / "dimensions.json")
        if draw is not None:
            from irtbench.report.check_figures import scree_figures

            draw(scree_figures(result.analysis))
        if result.rotated is not None:
            write_table(result.rotated.table(), folder / "loadings.csv")
    if json:
        print(to_json(found))
    elif not quiet:
        show_dimensions(result, output)
        if left_out:
            say(f"left out: {', '.join(f'{item} ({reason})' for item, reason in left_out.items())}")
        if reading == Reading():
            several = ["--factors", result.analysis.n_abilities] if result.analysis.n_abilities > 1 else []
            say_next("irtbench", "fit", responses, *several, "-o", output / "fit")


def show_dimensions(result: Dimensions, output: Path) -> None:
    """Print what a person wants to know."""
    eigenvalues = result.analysis.table().head(EIGENVALUES_SHOWN)
    show_table(eigenvalues, title="Eigenvalues", rest=output / "eigenvalues.csv")
    say(f"{result.analysis.n_abilities} abilities by parallel analysis")
    if result.analysis.tetrachoric.note:
        say(f"note: {result.analysis.tetrachoric.note}")
    if result.models is not None:
        show_table(result.models, title="Models", rest=output / "dimensions.json")
    if result.tests is not None:
        told = result.tests if result.tests["note"].any() else result.tests.drop(columns="note")
        title = "Likelihood-ratio tests, p by samples of the smaller model"
        show_table(told, title=title, rest=output / "dimensions.json")
    if result.rotated is not None:
        by_label = result.rotated.by_label()
        show_table(by_label, title="Mean loadings, turned to the labels", rest=output / "loadings.csv")
        say(f"{result.rotated.follows.mean():.0%} of the items load most on the factor of their label")
