"""The accuracy of language models on 338 items from 20, 50 or 100 of them.

    python scripts/predict_benchmark.py DATA [--seed 1]

DATA is the folder of the Open LLM Leaderboard responses (1,000 systems x 338 items: ARC, MMLU, TruthfulQA). Half of the
systems, drawn at random, build the bank, one scale for all or one a benchmark, and the form is chosen on them. The
other half answer the form only. Printed is the mean absolute error of the accuracy on all 338 items, taken for that of
the form (plain), predicted by the model, and corrected by regression on the first half; and how often the 95% interval
covered it. Random forms: the mean over 20 of them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from irtbench.bank.scale import Scale
from irtbench.data.items import ItemTable
from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.fit import fit_model
from irtbench.estimation.settings import FitSettings
from irtbench.models.curves import information
from irtbench.models.theta_posterior import ability_posterior
from irtbench.scoring.prediction import learn_correction, predict_accuracy

LENGTHS = (20, 50, 100)
RANDOM_FORMS = 20
MEASURES = ("plain error", "model error", "model coverage", "corrected error", "corrected coverage")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    table = pd.read_csv(arguments.data / "responses.csv.gz").rename(columns={"correct": "response"})
    responses = ResponseMatrix.from_long(table)
    training = rng.permutation(responses.n_respondents) < responses.n_respondents // 2
    known, new = responses.select_respondents(training), responses.select_respondents(~training)
    truth = new.values.mean(axis=1)
    banks = {"one scale": (fit_scale("all", known, responses.item_ids),)}
    by_benchmark: dict[str, list[str]] = {}
    for item in responses.item_ids:
        by_benchmark.setdefault(item.split(".")[0], []).append(item)
    banks["three scales"] = tuple(fit_scale(name, known, items) for name, items in by_benchmark.items())

    rows = []
    for n in LENGTHS:
        random_forms = [list(rng.choice(responses.item_ids, n, replace=False)) for _ in range(RANDOM_FORMS)]
        for kind in ("random", "information", "stratified"):
            for name, bank in banks.items():
                forms = random_forms if kind == "random" else [choose(bank, known, n, kind)]
                found = np.mean([measure(bank, known, new, form, truth) for form in forms], axis=0)
                rows.append({"items": n, "form": kind, "bank": name} | dict(zip(MEASURES, found, strict=True)))
    print(f"seed {arguments.seed}; {known.n_respondents} systems build the bank, {new.n_respondents} are predicted\n")
    print(markdown(pd.DataFrame(rows)))


def fit_scale(name: str, known: ResponseMatrix, items: list[str] | tuple[str, ...]) -> Scale:
    """A scale of all the items: they are what is to be predicted, so none is dropped."""
    fitted = fit_model(known.select_items(items), FitSettings(prior="weak"))
    return Scale(name, fitted.items, ItemTable.plain(fitted.items.item_ids))


def choose(bank: tuple[Scale, ...], known: ResponseMatrix, n: int, kind: str) -> list[str]:
    """A form with each scale's share of the items.

    ``information``: the items with the most information, averaged over the abilities of the known systems.
    ``stratified``: the same within parts of equal number by proportion right.
    """
    total = sum(scale.items.n_items for scale in bank)
    form: list[str] = []
    for k, scale in enumerate(bank):
        left = n - len(form)
        share = left if k == len(bank) - 1 else round(n * scale.items.n_items / total)
        own = known.select_items(scale.items.item_ids)
        posterior = ability_posterior(own, scale.items)
        mean = posterior.mass.mean(axis=0) @ information(posterior.nodes, scale.items)
        if kind == "information":
            chosen = np.argsort(-mean)[:share]
        else:
            strata = np.array_split(np.argsort(own.proportion_correct()), share)
            chosen = np.array([part[np.argmax(mean[part])] for part in strata])
        form += [scale.items.item_ids[j] for j in chosen]
    return form


def measure(
    bank: tuple[Scale, ...], known: ResponseMatrix, new: ResponseMatrix, form: list[str], truth: np.ndarray
) -> list[float]:
    """Mean absolute errors, and shares of intervals that covered, in the order of MEASURES."""
    answered = new.select_items(form)
    model = predict_accuracy(bank, answered)
    corrected = predict_accuracy(bank, answered, correction=learn_correction(bank, known, form))
    found = [float(np.abs(answered.values.mean(axis=1) - truth).mean())]
    for prediction in (model, corrected):
        found.append(float(np.abs(prediction.accuracy - truth).mean()))
        found.append(float(((prediction.lower <= truth) & (truth <= prediction.upper)).mean()))
    return found


def markdown(table: pd.DataFrame) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(table.columns) + " |", "|" + "---|" * table.shape[1]]
    for row in table.itertuples(index=False):
        lines.append("| " + " | ".join(f"{v:.4f}" if isinstance(v, float) else str(v) for v in row) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
