"""``irtbench calibration``: stated probabilities against what happened."""

from __future__ import annotations

from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from irtbench.cli.options import Figures, Json, Quiet, Seed, named
from irtbench.cli.output import show_table, to_json, write_json, write_table
from irtbench.cli.presenting import figures_in, maybe_folder
from irtbench.cli.progress import reporting
from irtbench.data.input_error import InputError


def calibration(
    predictions: Annotated[
        Path, typer.Argument(metavar="PREDICTIONS", help="A row a prediction: its probability and what happened.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.")
    ] = None,
    probability: Annotated[
        str, typer.Option("--probability", metavar="COLUMN", help="Probability that the label is 1.")
    ] = "probability",
    label: Annotated[
        str, typer.Option("--label", metavar="COLUMN", help="What happened: 1 or 0, or a class.")
    ] = "label",
    item: Annotated[str | None, typer.Option("--item", metavar="COLUMN", help="Names of what was predicted.")] = None,
    classes: Annotated[
        list[str], typer.Option("--class", metavar="CLASS=COLUMN", help="Probability of each class of a label.")
    ] = [],  # noqa: B006 - typer copies it
    by: Annotated[
        str | None, typer.Option("--by", metavar="COLUMN", help="The system, or the set of items, of each row.")
    ] = None,
    paired: Annotated[
        bool, typer.Option("--paired", help="With --by and --item: the difference of any two, on the same items.")
    ] = False,
    bin_size: Annotated[
        int | None,
        typer.Option("--bin-size", help="Pairs a bin; 5000, or a tenth of the pairs if that is less.", min=1),
    ] = None,
    width_bins: Annotated[
        int, typer.Option("--width-bins", help="Bins of equal width, for comparison.", min=1, max=10_000)
    ] = 10,
    samples: Annotated[
        int, typer.Option("--samples", help="Samples behind each interval.", min=2, max=1_000_000)
    ] = 10_000,
    level: Annotated[float, typer.Option("--level", help="Coverage of the intervals.")] = 0.95,
    figures: Figures = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Calibration error with its interval, parts of the Brier score, and the reliability curve.

    Writes reliability.csv (a row a bin), calibration.json and reliability.svg.
    """
    from irtbench.data.readers.prediction_table import read_predictions
    from irtbench.evaluation.calibration import calibration as calibration_of
    from irtbench.evaluation.calibration_difference import calibration_difference

    if paired and (by is None or item is None):
        raise InputError("--paired: expected --by, the system of each row, and --item, by which rows are paired")
    rng = np.random.default_rng(seed)
    given = read_predictions(
        predictions, probability=probability, label=label, item=item, classes=named("--class", classes), by=by
    )
    found, differences = {}, []
    with reporting(quiet=quiet) as progress:
        for name, system in given.items():
            progress(f"calibration of {name}")
            found[name] = calibration_of(
                system.predicted,
                system.labels,
                bin_size=bin_size,
                n_width_bins=width_bins,
                clusters=system.item,
                n_samples=samples,
                level=level,
                rng=rng,
            )
        for first, second in combinations(given, 2) if paired else ():
            progress(f"{first} against {second}")
            other = given[second].in_order_of(given[first])
            difference = calibration_difference(
                given[first].predicted,
                other.predicted,
                other.labels,
                bin_size=bin_size,
                clusters=other.item,
                level=level,
            )
            differences.append({"system_1": first, "system_2": second} | asdict(difference))
    summaries = [{"system": name} | result.summary() for name, result in found.items()]
    whole = {"systems": summaries, "differences": differences, "seed": seed}
    with maybe_folder(output) as folder, figures_in(figures, unasked=folder) as draw:
        bins = [result.table().assign(system=name) for name, result in found.items()]
        table = pd.concat(bins, ignore_index=True)
        if folder is not None:
            write_table(table[["system", *table.columns.drop("system")]], folder / "reliability.csv")
            write_json(whole, folder / "calibration.json")
        if draw is not None:
            from irtbench.report.evaluation_figures import calibration_figures

            draw(calibration_figures({name: result.curve for name, result in found.items()}))
    if json:
        print(to_json(whole))
    elif not quiet:
        shown = ["system", "n_pairs", "n_bins", "error", "lower", "upper", "debiased_error", "debiased_lower"]
        others = ["debiased_upper", "brier", "refinement", "overconfident", "underconfident"]
        show_table(pd.DataFrame(summaries)[[*shown, *others]], rest=(output, "calibration.json"))
        if differences:
            pairs = ["system_1", "system_2", "error_1", "error_2", "difference", "lower", "upper", "p"]
            title = "Paired differences of the squared errors, debiased"
            show_table(pd.DataFrame(differences)[pairs], title=title, rest=(output, "calibration.json"))
