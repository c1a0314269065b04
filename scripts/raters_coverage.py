"""Coverage of the intervals of `fit_raters`, in even and uneven designs, and where its assumptions fail.

    python scripts/raters_coverage.py [--repeats 100] [--only WORD]

Prints, for each design, the shares of severities, abilities and fair scores inside of their 95% intervals, the root
mean square error of severities over their mean standard error, and the mean estimates of the standard deviations of
ability (1.2 is true), of severities (.5) and of what raters of one answer share. Severities are about the mean of
the raters drawn, abilities about the mean of the respondents.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

import irtbench

SD, SEVERITY, N_STEPS = 1.2, 0.5, 3
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Design:
    """Who rates what.

    Parameters
    ----------
    n, n_items, n_raters, each
        Respondents, items, raters, and raters of an answer.
    graded, skewed, uneven
        The model; whether ability is gamma distributed; whether some raters do many times the work of others.
    skipped
        Chance that the least able skip an item; it falls to 0 with ability.
    allotted
        How far severe raters are given the able (0: not at all).
    answer, consistency
        Standard deviations of what raters of an answer share, and of the logarithm of consistency.
    words
        Of the fit.
    """

    n: int
    n_items: int
    n_raters: int
    each: int
    graded: bool = False
    skewed: bool = False
    uneven: bool = False
    skipped: float = 0.0
    allotted: float = 0.0
    answer: float = 0.0
    consistency: float = 0.0
    words: dict[str, Any] = field(default_factory=dict)


DESIGNS = {
    "12 raters, 2 an answer": Design(200, 6, 12, 2),
    "12 raters, 2 an answer, graded": Design(200, 6, 12, 2, graded=True, words={"model": "grm"}),
    "12 respondents, 60 items, 4 raters of all": Design(12, 60, 4, 4),
    "3 raters, uneven": Design(150, 4, 3, 1, uneven=True),
    "10 raters, ability skewed, uneven": Design(300, 5, 10, 1, skewed=True, uneven=True),
    "10 raters, the less able skip items, uneven": Design(300, 5, 10, 1, uneven=True, skipped=0.7),
    "8 raters of different consistency": Design(300, 6, 8, 2, consistency=0.3, words={"consistency": True}),
    "60 raters learnt, uneven": Design(400, 5, 60, 1, uneven=True),
    "150 raters learnt, 8 ratings each, uneven": Design(400, 3, 150, 1, uneven=True),
    "answers shared by 2 (sd .4), ignored": Design(200, 4, 8, 2, answer=0.4),
    "answers shared by 4 (sd .8), ignored": Design(200, 4, 8, 4, answer=0.8),
    "answers shared by 4 (sd .8), with their effect": Design(200, 4, 8, 4, answer=0.8, words={"answer_effect": True}),
    "severe raters given the able, a little": Design(300, 5, 10, 1, allotted=0.3),
    "severe raters given the able, much": Design(300, 5, 10, 1, allotted=1.0),
}


def probabilities(z: Floats, *, graded: bool) -> Floats:
    """Of the categories 0..K, of ability less severity less steps z, shape (n, K)."""
    if graded:
        ends = np.ones((len(z), 1)), expit(z), np.zeros((len(z), 1))
        return -np.diff(np.concatenate(ends, axis=1), axis=1)
    p = np.exp(np.concatenate([np.zeros((len(z), 1)), np.cumsum(z, axis=1)], axis=1))
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def measured(design: Design, rng: np.random.Generator) -> list[float]:
    """The figures of one data set."""
    theta = SD * (rng.gamma(2.0, size=design.n) - 2) / 2**0.5 if design.skewed else rng.normal(0, SD, design.n)
    severity, rank = rng.normal(0, SEVERITY, design.n_raters), np.argsort(np.argsort(theta)) / design.n
    consistency = np.exp(rng.normal(0, design.consistency, design.n_raters))
    consistency /= np.exp(np.log(consistency).mean())
    steps = rng.normal(0, 0.7, (design.n_items, 1)) + np.linspace(-1.2, 1.2, N_STEPS)
    work = np.log(rng.gamma(1.0, size=design.n_raters) + 0.15) if design.uneven else np.zeros(design.n_raters)
    i, j = (part.ravel() for part in np.meshgrid(np.arange(design.n), np.arange(design.n_items), indexing="ij"))
    kept = (rng.random(len(i)) > design.skipped * (1 - rank[i])) | (j == 0)
    i, j = i[kept], j[kept]
    liked = work + design.allotted * np.outer(2 * rank[i] - 1, severity / SEVERITY)
    r = np.argsort(-liked - rng.gumbel(size=liked.shape), axis=1)[:, : design.each].ravel()  # without replacement
    i, j = np.repeat(i, design.each), np.repeat(j, design.each)
    effect = design.answer * rng.normal(size=(design.n, design.n_items))
    z = (consistency[r] * (theta[i] + effect[i, j]) - severity[r])[:, None] - steps[j]
    chance = probabilities(z, graded=design.graded).cumsum(axis=1)
    score = np.minimum((chance < rng.random((len(z), 1))).sum(axis=1), N_STEPS)
    table = pd.DataFrame({"respondent_id": i, "item_id": j, "rater_id": r, "score": score})
    found = irtbench.fit_raters(table, **design.words)
    raters, scores = found.table(), found.scores()
    true = severity[raters["rater_id"].astype(int)]
    true = true - true.mean()
    able = theta[scores["respondent_id"].astype(int)]
    at, w = np.polynomial.hermite_e.hermegauss(21)
    fair = sum(
        weight * probabilities((able + design.answer * x - severity.mean())[:, None] - own, graded=design.graded)
        @ np.arange(N_STEPS + 1) / design.n_items
        for own in steps for x, weight in zip(at, w / w.sum(), strict=True)
    )  # fmt: skip
    shift = scores["theta"].mean() - able.mean()
    return [
        float(((true >= raters["severity_lower"]) & (true <= raters["severity_upper"])).mean()),
        float((np.abs(scores["theta"] - shift - able) < 1.96 * scores["se"]).mean()),
        float(((fair >= scores["fair_lower"]) & (fair <= scores["fair_upper"])).mean()),
        float(((raters["severity"] - true) ** 2).mean()), float((raters["se"] ** 2).mean()),
        found.ability_sd, found.rater_sd, found.answer_sd,
    ]  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    print("| design | severities | theta | fair scores | error / se | ability | severity | answer |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, design in DESIGNS.items():
        if given.only in name:
            runs = [measured(design, np.random.default_rng(k)) for k in range(given.repeats)]
            a, b, c, square, variance, *sds = np.mean(runs, axis=0)
            figures = [a, b, c, (square / variance) ** 0.5, *sds]
            print(f"| {name} | " + " | ".join("" if np.isnan(x) else f"{x:.3f}" for x in figures) + " |", flush=True)


if __name__ == "__main__":
    main()
