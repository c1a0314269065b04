"""``irtbench human-bound``: the crowd filter, and what people reach on the items that pass it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import typer

from irtbench.cli.options import Figures, Json, Quiet, Responses, Seed
from irtbench.cli.output import say, show_table, to_json, write_json, write_table
from irtbench.cli.presenting import figures_in, maybe_folder
from irtbench.cli.progress import reporting
from irtbench.cli.reading import Reading, reads_files
from irtbench.data.input_error import InputError


@reads_files
def human_bound(
    responses: Responses,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.")
    ] = None,
    k: Annotated[int, typer.Option("--right", "-k", help="An item passes with this many right votes ...", min=1)] = 4,
    n: Annotated[int, typer.Option("--votes", "-n", help="... of this many.", min=1)] = 5,
    other_counts: Annotated[
        Literal["error", "exclude", "share"],
        typer.Option("--other-counts", help="Items with another number of votes: stop, let them fail, or go by share."),
    ] = "error",
    margin: Annotated[float, typer.Option("--margin", help="Hoeffding's bound lies this far below.")] = 0.03,
    level: Annotated[float, typer.Option("--level", help="Coverage of the intervals.")] = 0.95,
    runs: Annotated[
        Path | None,
        typer.Option("--runs", metavar="RUNS", help="Scores of systems by seed: columns system, seed, accuracy."),
    ] = None,
    figures: Figures = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Filter items by the crowd's votes and bound human accuracy on those that pass.

    Writes crowd_filter.csv (a row an item), human_bound.json, crowd_filter.svg and human_bound.svg.
    """
    from irtbench.evaluation.human_bound import crowd_filter, fresh_accuracy, human_accuracy

    rng = np.random.default_rng(seed)
    with reporting(quiet=quiet) as progress:
        progress("reading")
        given = reading.matrix(responses)
        result = crowd_filter(given, k=k, n=n, other_counts=other_counts)
        sets = {"all items": np.ones(given.n_items, dtype=np.bool_), "items kept": result.kept}
        people = {
            name: human_accuracy(result.n_correct[chosen], result.n_votes[chosen], margin=margin, level=level, rng=rng)
            for name, chosen in sets.items()
        }
        lower, upper = fresh_accuracy(result)
    found: dict[str, Any] = {
        "k": k,
        "n": n,
        "n_items": given.n_items,
        "n_kept": int(result.kept.sum()),
        "human_accuracy": {name: asdict(human) for name, human in people.items()},
        "new_vote_lower": lower,
        "new_vote_upper": upper,
        "runs": [] if runs is None else runs_over_seeds(runs),
        "seed": seed,
    }
    with maybe_folder(output) as folder, figures_in(figures, unasked=folder) as draw:
        if folder is not None:
            write_table(result.table().astype({"kept": int}), folder / "crowd_filter.csv")
            write_json(found, folder / "human_bound.json")
        if draw is not None:
            from irtbench.report.evaluation_figures import bound_figures

            draw(bound_figures(result, people))
    if json:
        print(to_json(found))
    elif not quiet:
        shown = ["n_items", "n_votes", "accuracy", "hoeffding_lower", "confidence", "wilson_lower", "wilson_upper"]
        rows = pd.DataFrame([{"items": name} | asdict(human) for name, human in people.items()])
        in_json = (output, "human_bound.json")
        show_table(rows[["items", *shown, "bootstrap_lower", "bootstrap_upper"]], rest=in_json)
        say(f"{found['n_kept']} of {given.n_items} items have at least {k} of {n} votes right")
        if np.isfinite([lower, upper]).all():
            say(f"a new person would get between {lower:.1%} and {upper:.1%} of the kept items right")
        if found["runs"]:
            show_table(pd.DataFrame(found["runs"]), title="Systems over seeds", rest=in_json)


def runs_over_seeds(path: Path) -> list[dict[str, object]]:
    """Mean and standard deviation of each system's accuracy over its runs."""
    from irtbench.data.readers.table import demand_columns, demand_filled, field_places, read_table, to_numbers
    from irtbench.evaluation.human_bound import over_seeds

    frame = read_table(path)
    demand_columns(frame, ["system", "seed", "accuracy"], path)
    demand_filled(frame, "system", path)
    place = field_places(path, "accuracy")
    accuracy = to_numbers(frame["accuracy"], place=place)
    if np.isnan(accuracy).any():
        raise InputError(f"{place(int(np.isnan(accuracy).argmax()))}: expected a number but it is missing")
    repeated = frame.duplicated(["system", "seed"])
    if repeated.any():
        first = int(repeated.argmax())
        raise InputError(f"{field_places(path, 'seed')(first)}: this system has two runs with this seed; expected one")
    groups = pd.Series(accuracy).groupby(frame["system"], sort=False)
    return [{"system": name} | asdict(over_seeds(scores.tolist())) for name, scores in groups]
