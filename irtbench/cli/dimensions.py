"""``irtbench dimensions``: how many abilities do the items measure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

import irtbench
from irtbench import report
from irtbench.cli.declared import Outcome, Run, command
from irtbench.cli.options import ItemsFile, Responses
from irtbench.cli.output import say, say_next, show_table
from irtbench.cli.reading import Reading

if TYPE_CHECKING:
    from irtbench.analysis.dimensions import Dimensions

EIGENVALUES_SHOWN = 10


@command("eigenvalues.csv", "dimensions.json", "scree.png", "loadings.csv", draws="png")
def dimensions(
    responses: Responses,
    items: ItemsFile,
    reading: Reading,
    run: Run,
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
) -> Outcome:
    """Count abilities: eigenvalues against chance, models of several factors, loadings turned to the items' labels.

    Writes eigenvalues.csv, dimensions.json, scree.png and, with --items, loadings.csv. Items that all got right or all
    got wrong say nothing here: they are left out and named.
    """
    from irtbench.building.removals import constant_items
    from irtbench.study.fitted_scale import demand_varied_items

    known, given = items.read(), reading.matrix(responses)
    given = given if known is None else given.select_items(known.scale_items)
    left_out = {removal.item_id: removal.reason for removal in constant_items(given)}
    kept = [item for item in given.item_ids if item not in left_out]
    demand_varied_items(kept, responses)
    data = given.select_items(kept).answered()
    labels = None if known is None else [label or "" for label in known.select(data.item_ids).label]
    result = irtbench.find_dimensions(
        data, labels, max_factors=factors, n_samples=samples, n_test_samples=test_samples, seed=run.seed,
        progress=run.progress,
    )  # fmt: skip
    found = result.summary() | {"items_left_out": left_out, "seed": run.seed}

    def tell() -> None:
        show_dimensions(result, run)
        if left_out:
            say(f"left out: {', '.join(f'{item} ({reason})' for item, reason in left_out.items())}")
        if reading == Reading() and run.output is not None:
            several = ["--factors", result.analysis.n_abilities] if result.analysis.n_abilities > 1 else []
            say_next("irtbench", "fit", responses, *several, "-o", run.output / "fit")

    loadings = None if result.rotated is None else result.rotated.table()
    return Outcome(
        json=found, tell=tell, figures=lambda: report.scree_figures(result.analysis),
        files={"eigenvalues.csv": result.analysis.table(), "dimensions.json": found, "loadings.csv": loadings},
    )  # fmt: skip


def show_dimensions(result: Dimensions, run: Run) -> None:
    """Print what a person wants to know."""
    eigenvalues = result.analysis.table().head(EIGENVALUES_SHOWN)
    show_table(eigenvalues, title="Eigenvalues", rest=run.at("eigenvalues.csv"))
    say(f"{result.analysis.n_abilities} abilities by parallel analysis")
    if result.analysis.tetrachoric.note:
        say(f"note: {result.analysis.tetrachoric.note}")
    if result.models is not None:
        show_table(result.models, title="Models", rest=run.at("dimensions.json"))
    if result.tests is not None:
        told = result.tests if result.tests["note"].any() else result.tests.drop(columns="note")
        title = "Likelihood-ratio tests, p by samples of the smaller model"
        show_table(told, title=title, rest=run.at("dimensions.json"))
    if result.rotated is not None:
        by_label = result.rotated.by_label()
        show_table(by_label, title="Mean loadings, turned to the labels", rest=run.at("loadings.csv"))
        say(f"{result.rotated.follows.mean():.0%} of the items load most on the factor of their label")
