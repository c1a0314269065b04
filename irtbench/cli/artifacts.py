"""``irtbench artifacts``: which items can be answered without their question."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from irtbench.cli.options import Figures, Json, Quiet, Seed
from irtbench.cli.output import say, show_table, to_json, write_json, write_table
from irtbench.cli.presenting import figures_in, maybe_folder
from irtbench.cli.progress import reporting
from irtbench.data.responses import name_first


def artifacts(
    items: Annotated[Path, typer.Argument(metavar="ITEMS", help="A row an item: its options and which is right.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.")
    ] = None,
    item: Annotated[str, typer.Option("--item", metavar="COLUMN", help="Names of the items.")] = "item_id",
    key: Annotated[
        str, typer.Option("--key", metavar="COLUMN", help="The right option: its text, its column or its letter.")
    ] = "gold",
    option: Annotated[
        list[str], typer.Option("--option", metavar="COLUMN", help="A column of options; else option_A, answer0, ...")
    ] = [],  # noqa: B006 - typer copies it
    group: Annotated[
        str | None, typer.Option("--group", metavar="COLUMN", help="Items that belong together, never parted.")
    ] = None,
    folds: Annotated[int, typer.Option("--folds", help="Parts of the cross-validation.", min=2, max=1_000)] = 10,
    repeats: Annotated[int, typer.Option("--repeats", help="Cross-validations.", min=1, max=1_000)] = 5,
    alpha: Annotated[float, typer.Option("--alpha", help="A baseline with a lower adjusted p beats chance.")] = 0.05,
    figures: Figures = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Try to answer items from their options alone, and flag those that are given away.

    Writes artifacts.csv (the table of items with a column `suspect`, 1 or 0), artifacts.json and artifacts.svg. A study
    file leaves the flagged items out with `items = "artifacts.csv"` and `where = {suspect = "0"}`.
    """
    from irtbench.data.readers.choice_items import read_choices
    from irtbench.evaluation import artifacts as baselines

    choices, frame = read_choices(items, item=item, key=key, options=option, group=group)
    with reporting(quiet=quiet) as progress:
        progress(f"{choices.n_items} items, {repeats} cross-validations")
        result = baselines.artifacts(
            choices, n_folds=folds, n_repeats=repeats, alpha=alpha, rng=np.random.default_rng(seed)
        )
    per_item = result.table().drop(columns="item_id")
    summary = result.summary()
    flagged = [name for name, suspect in zip(result.item_ids, result.suspect, strict=True) if suspect]
    found = {
        "n_items": choices.n_items,
        "alpha": alpha,
        "baselines": summary,
        "n_suspect": len(flagged),
        "suspect": flagged,
        "seed": seed,
    }
    with maybe_folder(output) as folder, figures_in(figures, unasked=folder) as draw:
        if folder is not None:
            write_table(frame.drop(columns=per_item.columns, errors="ignore").join(per_item), folder / "artifacts.csv")
            write_json(found, folder / "artifacts.json")
        if draw is not None:
            from irtbench.report.evaluation_figures import artifact_figures

            draw(artifact_figures(result))
    if json:
        print(to_json(found))
    elif not quiet:
        show_table(summary, rest=(output, "artifacts.json"))
        say(f"{len(flagged)} of {choices.n_items} items are given away{': ' if flagged else ''}{name_first(flagged)}")
