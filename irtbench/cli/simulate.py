"""``irtbench simulate``: graded responses with known truth."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pandas as pd
import typer

from irtbench.cli.options import Folder, Json, Quiet, Seed
from irtbench.cli.output import output_folder, say, say_next, to_json, write_table
from irtbench.data.input_error import InputError
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import parameter_table
from irtbench.models.simulation import simulate_responses

MOST_RESPONSES = 20_000_000


def simulate(
    output: Folder,
    respondents: Annotated[int, typer.Option("--respondents", help="How many people answer.", min=1)] = 1000,
    items: Annotated[int, typer.Option("--items", help="How many items they are asked.", min=1)] = 90,
    guessing: Annotated[
        float, typer.Option("--guessing", help="Lower asymptote of all items.", min=0.0, max=0.99)
    ] = 0.0,
    missing: Annotated[
        float, typer.Option("--missing", help="Share of responses missing at random.", min=0.0, max=0.99)
    ] = 0.0,
    trials: Annotated[
        int, typer.Option("--trials", help="How often each item is answered; more than one: k right of n.", min=1)
    ] = 1,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Draw responses of a standard normal population to items of known parameters.

    a is log-normal(.2, .3), b standard normal. Writes responses.csv, and the truth in items.csv and respondents.csv.
    With --trials responses.csv has n_correct and n_trials in place of response.
    """
    if respondents * items > MOST_RESPONSES:
        raise InputError(
            f"--respondents {respondents}, --items {items}: expected at most {MOST_RESPONSES} responses in all"
        )
    rng = np.random.default_rng(seed)
    width = len(str(items))
    truth = ItemParameters.from_difficulty(
        rng.lognormal(0.2, 0.3, items),
        rng.normal(0.0, 1.0, items),
        guessing,
        item_ids=[f"item{j:0{width}d}" for j in range(1, items + 1)],
        guessing_estimated=guessing > 0,
    )
    theta = rng.normal(size=respondents)
    width = len(str(respondents))
    ids = [f"r{i:0{width}d}" for i in range(1, respondents + 1)]
    responses = simulate_responses(theta, truth, rng=rng, missing=missing, trials=trials, respondent_ids=ids)
    with output_folder(output) as folder:
        write_table(responses.to_long(), folder / "responses.csv")
        write_table(parameter_table(truth, responses), folder / "items.csv")
        write_table(pd.DataFrame({"respondent_id": ids, "theta": theta}), folder / "respondents.csv")
    found = {
        "n_respondents": respondents,
        "n_items": items,
        "n_responses": responses.n_responses,
        "proportion_correct": float(responses.n_correct_by_item.sum() / responses.n_responses),
        "seed": seed,
    }
    if json:
        print(to_json(found))
    elif not quiet:
        say(
            f"{responses.n_responses} responses of {respondents} respondents to {items} items, "
            f"{found['proportion_correct']:.1%} correct; truth in items.csv and respondents.csv of {output}"
        )
        say_next("irtbench", "fit", output / "responses.csv", "-o", output / "fit")
