"""``irtbench plan``: how many people, items each and attention checks, before anybody is paid."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from irtbench.cli.options import Figures, Json, Quiet, Seed
from irtbench.cli.output import output_folder, say, show_table, to_json, write_json, write_table
from irtbench.cli.presenting import figures_in
from irtbench.cli.progress import reporting
from irtbench.data.input_error import InputError

SHOWN = {
    "n_respondents": "respondents whose answers count",
    "n_recruited": "people to recruit",
    "n_each": "items each answers",
    "n_checks": "attention checks each answers",
    "checks_right": "of which must be right",
    "n_answers": "answers to pay for",
    "n_by_item": "answers that count for an item",
    "se_difficulty": "standard error of b, reached by the share of the items",
    "se_difficulty_median": "standard error of b, median item",
    "se_discrimination_median": "standard error of a, median item",
    "se_theta": "standard error of theta",
    "percentile_width": "width of a percentile's interval",
}


def plan(
    n_items: Annotated[
        int | None, typer.Option("--items", "-n", metavar="N", help="How many items there are, of typical parameters.")
    ] = None,
    pilot: Annotated[
        Path | None, typer.Option("--pilot", metavar="ITEMS.csv", help="Parameters of items like them, as fit writes.")
    ] = None,
    se_difficulty: Annotated[
        float | None, typer.Option("--se-difficulty", help="Standard error of b wanted for the share of the items.")
    ] = None,
    se_theta: Annotated[float | None, typer.Option("--se-theta", help="Standard error of theta wanted.")] = None,
    percentile_width: Annotated[
        float | None, typer.Option("--percentile-width", help="Mean width wanted of a percentile's interval, as .3.")
    ] = None,
    each: Annotated[int | None, typer.Option("--each", help="Items that each answers; as few as will do.")] = None,
    respondents: Annotated[
        int | None, typer.Option("--respondents", help="Respondents, if given: what can be expected of them.")
    ] = None,
    share: Annotated[float, typer.Option("--share", help="Share of the items that is to reach --se-difficulty.")] = 0.9,
    level: Annotated[float, typer.Option("--level", help="Coverage of the percentile's interval.")] = 0.95,
    mean_log_a: Annotated[float, typer.Option("--mean-log-a", help="Mean of log a of typical items.")] = 0.2,
    sd_log_a: Annotated[float, typer.Option("--sd-log-a", help="Standard deviation of log a.")] = 0.3,
    mean_b: Annotated[float, typer.Option("--mean-b", help="Mean of b of typical items.")] = 0.0,
    sd_b: Annotated[float, typer.Option("--sd-b", help="Standard deviation of b.")] = 1.0,
    guess: Annotated[float, typer.Option("--guess", help="Chance to guess an attention check right.")] = 1 / 3,
    slip: Annotated[float, typer.Option("--slip", help="Chance that a reader answers a check wrong.")] = 0.015,
    guesser_passes: Annotated[
        float, typer.Option("--guesser-passes", help="Highest chance that a guesser passes the checks.")
    ] = 0.05,
    reader_fails: Annotated[
        float, typer.Option("--reader-fails", help="Highest chance that a reader fails the checks.")
    ] = 0.05,
    careless: Annotated[float, typer.Option("--careless", help="Share of the recruited who do not read.")] = 0.05,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Folder for plan.json and items.csv.")
    ] = None,
    figures: Figures = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Plan a crowd: respondents, items each and attention checks for a wanted standard error of b or theta.

    Writes plan.json and items.csv (the standard errors to expect of each item).
    """
    from irtbench.analysis.crowd_plan import PlanSettings, plan_crowd
    from irtbench.analysis.design_information import typical_items
    from irtbench.models.parameter_table import read_parameters

    if (n_items is None) == (pilot is None):
        raise InputError("expected either --items N, for typical items, or --pilot ITEMS.csv, for known ones")
    settings = PlanSettings(
        se_difficulty=se_difficulty, se_theta=se_theta, percentile_width=percentile_width, n_each=each,
        n_respondents=respondents, share=share, level=level, guess=guess, slip=slip, guesser_passes=guesser_passes,
        reader_fails=reader_fails, careless=careless,
    )  # fmt: skip
    if pilot is not None:
        items = read_parameters(pilot)
    else:
        items = typical_items(n_items or 0, discrimination=(mean_log_a, sd_log_a), difficulty=(mean_b, sd_b))
    with reporting(quiet=quiet) as progress:
        found = plan_crowd(items, settings, rng=np.random.default_rng(seed), progress=progress)
    summary = found.summary()
    if output is not None:
        used = found.items
        by_item = pd.DataFrame(
            {
                "item_id": used.item_ids,
                "discrimination": used.discrimination,
                "difficulty": -used.intercept / used.discrimination,
                "intercept": used.intercept,
                "se_discrimination": found.precision.se_discrimination,
                "se_difficulty": found.precision.se_difficulty,
            }
        )
        with output_folder(output) as folder:
            write_json(summary, folder / "plan.json")
            write_table(by_item, folder / "items.csv")
    with figures_in(figures) as draw:
        if draw is not None:
            from irtbench.report.bank_figures import plan_figures

            draw(plan_figures(found))
    if json:
        print(to_json(summary))
    elif not quiet:
        rows = [{"what": words, "value": shown(summary[name])} for name, words in SHOWN.items()]
        show_table(pd.DataFrame(rows), title=f"Plan for {found.n_items} items", rest=(output, "plan.json"))
        if found.not_converged:
            say(
                f"{found.not_converged:.0%} of the samples fitted without a prior did not converge: with so few "
                "answers an item take prior weak"
            )


def shown(value: object) -> str:
    """A count with commas, anything else to three digits."""
    return f"{value:,.3f}" if isinstance(value, float) and value < 10 else f"{value:,.0f}"
