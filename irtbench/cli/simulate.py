"""``irtbench simulate``: graded responses with known truth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import typer

import irtbench
from irtbench.cli.declared import Outcome, Run, command, options_given
from irtbench.cli.options import chosen_scale, refuse
from irtbench.cli.output import next_command
from irtbench.data.shown import counted
from irtbench.models.item_models.named import MODELS

MOST_RESPONSES = 20_000_000
N_ITEMS, N_CATEGORIES = 90, 5  # unless given
BETWEEN_STEPS = 0.8  # logits, on the average


@dataclass(frozen=True)
class TrueItems:
    """The items that are answered: drawn ones, or a bank's."""

    items: Annotated[
        int | None, typer.Option("--items", help=f"How many items they are asked; {N_ITEMS} unless given.", min=1)
    ] = None
    model: Annotated[
        Literal["2pl", "grm", "gpcm", "pcm", "rsm", "nominal"],
        typer.Option("--model", help="Right and wrong, or answers in categories."),
    ] = "2pl"
    categories: Annotated[
        int | None,
        typer.Option("--categories", help=f"Of each item, but for 2pl; {N_CATEGORIES} unless given.", min=2, max=100),
    ] = None
    guessing: Annotated[float, typer.Option("--guessing", help="Lower asymptote of all items.", min=0.0, max=0.99)] = (
        0.0
    )
    bank: Annotated[
        Path | None, typer.Option("--bank", metavar="BANK", help="In place of drawn items: bank.json or items.csv.")
    ] = None
    scale: Annotated[
        str | None, typer.Option("--scale", metavar="NAME", help="With --bank: the scale, where it has several.")
    ] = None

    def of(self, rng: np.random.Generator) -> tuple[irtbench.ItemParameters, irtbench.Quadrature | None]:
        """The items, and a bank's population."""
        if self.bank is None:
            if self.scale is not None:
                raise irtbench.InputError("--scale: goes with --bank alone")
            return drawn_items(self.items or N_ITEMS, self.model, self.categories, self.guessing, rng), None
        if others := [option for option in options_given(self) if option not in ("--bank", "--scale")]:
            raise irtbench.InputError(f"--bank: {others[0]} does not go with it; expected one or the other")
        found = chosen_scale(irtbench.read_bank(self.bank, categories=True), self.scale, self.bank)
        return found.items, found.population


@command("responses.csv", "items.csv", "respondents.csv", figures=None)
def simulate(
    asked: TrueItems,
    run: Run,
    respondents: Annotated[int, typer.Option("--respondents", help="How many people answer.", min=1)] = 1000,
    missing: Annotated[
        float, typer.Option("--missing", help="Share of responses missing at random.", min=0.0, max=0.99)
    ] = 0.0,
    trials: Annotated[
        int, typer.Option("--trials", help="How often each item is answered; more than one: k right of n.", min=1)
    ] = 1,
) -> Outcome:
    """Draw responses of a standard normal population to items of known parameters.

    a is log-normal(.2, .3), b standard normal. Writes responses.csv, and the truth in items.csv and respondents.csv.
    With --trials responses.csv has n_correct and n_trials in place of response. Items in categories have steps about b,
    .8 apart on the average; slopes are 1 with pcm and rsm; responses.csv has the scores, which fit --model takes.
    With --bank the items are a bank's, and abilities of its population.
    """
    rng = run.rng
    truth, population = asked.of(rng)
    refuse(
        {
            f"--respondents {respondents}, --items {truth.n_items}: expected at most {MOST_RESPONSES} responses in all":
            respondents * truth.n_items > MOST_RESPONSES,
            "--trials: several of an item go with right and wrong; expected one of items in categories":
            truth.categories is not None and trials > 1,
        }
    )  # fmt: skip
    theta = rng.normal(size=respondents)
    if population is not None:
        theta = population.mean + population.deviation * theta
    width = len(str(respondents))
    ids = [f"r{i:0{width}d}" for i in range(1, respondents + 1)]
    responses = irtbench.simulate_responses(theta, truth, rng=rng, missing=missing, trials=trials, respondent_ids=ids)
    known = truth.categories
    how = ["--model", truth.model[0] if asked.bank else asked.model] if known else []
    files = {
        "responses.csv": responses.to_long() if known is None else scores_of(responses, known),
        "items.csv": irtbench.parameter_table(truth, responses)
        if known is None
        else truth.table().assign(n_responses=responses.observed.sum(axis=0)),
        "respondents.csv": pd.DataFrame({"respondent_id": ids, "theta": theta}),
    }
    found: dict[str, Any] = {
        "n_respondents": respondents,
        "n_items": truth.n_items,
        "n_responses": responses.n_responses if known is None else int(responses.observed.sum()),
        "proportion_correct": float(responses.n_correct_by_item.sum() / responses.n_responses),
        "seed": run.seed,
    }
    return Outcome(
        json=found, files=files, words=[
            f"{counted(found['n_responses'], 'response')} of {counted(respondents, 'respondent')} to "
            f"{counted(truth.n_items, 'item')}, "
            f"{found['proportion_correct']:.1%}{' of the points' if known else ' correct'}; truth in items.csv and "
            f"respondents.csv of {run.folder}",
            next_command("fit", run.folder / "responses.csv", *how, "-o", run.folder / "fit"),
        ],
    )  # fmt: skip


def drawn_items(
    n: int, model: str, categories: int | None, guessing: float, rng: np.random.Generator
) -> irtbench.ItemParameters:
    """Items of the kind that `simulate` says."""
    width = len(str(n))
    ids = [f"item{j:0{width}d}" for j in range(1, n + 1)]
    a, b = rng.lognormal(0.2, 0.3, n), rng.normal(0.0, 1.0, n)
    if model == "2pl":
        if categories is not None:
            raise irtbench.InputError("--categories: goes with --model grm, gpcm, pcm, rsm or nominal")
        return irtbench.ItemParameters.from_difficulty(a, b, guessing, item_ids=ids, guessing_estimated=guessing > 0)
    if guessing:
        raise irtbench.InputError("--guessing: goes with --model 2pl")
    steps = (categories or N_CATEGORIES) - 1
    apart = rng.uniform(0.5, 1.5, (1 if model == "rsm" else n, steps)).cumsum(axis=1)
    b_k = b[:, None] + BETWEEN_STEPS * (apart - apart.mean(axis=1, keepdims=True))
    table = pd.DataFrame({"item_id": ids, "discrimination": 1.0 if model in ("pcm", "rsm") else a})
    table = table.join(pd.DataFrame(b_k, columns=[f"step_{k}" for k in range(1, steps + 1)]))
    if model == "nominal":  # categories in no order: partial credit whose slopes and intercepts are moved
        k = np.arange(1, steps + 1)
        slopes = a[:, None] * (k + rng.normal(0.0, 0.5, (n, steps)))
        values = np.hstack([slopes, -a[:, None] * b_k.cumsum(axis=1) + rng.normal(0.0, 0.5, (n, steps))])
        names = [f"{kind}{each}" for kind in "ad" for each in k]
        table = pd.DataFrame({"item_id": ids, "n_categories": steps + 1}).join(pd.DataFrame(values, columns=names))
    named = MODELS["gpcm" if model in ("pcm", "rsm") else model]
    return irtbench.CategoryParameters.from_table(table, [named] * n).as_items()


def scores_of(responses: irtbench.ResponseMatrix, items: irtbench.CategoryParameters) -> pd.DataFrame:
    """The score of the category of each response, ``respondent_id, item_id, score``."""
    rows, columns = np.nonzero(responses.observed)
    codes = responses.correct[rows, columns].astype(np.int64)
    return pd.DataFrame(
        {
            "respondent_id": np.array(responses.respondent_ids)[rows],
            "item_id": np.array(items.item_ids)[columns],
            "score": [items.categories[j][k] for j, k in zip(columns, codes, strict=True)],
        }
    )
