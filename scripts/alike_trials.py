"""Trials of an item that are more alike than the model has them: item fit, infit, and coverage of theta.

    python scripts/alike_trials.py --seed 0

Responses follow a 2PL with slopes log-normal(0, .3), plus, for each pair of respondent and item, a normal deviation on
the logit that is the same at every trial. Each respondent tries each item as often.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from irtbench.data.responses import ResponseMatrix
from irtbench.diagnostics.item_fit import item_fit
from irtbench.estimation.dispersion import fit_trials
from irtbench.estimation.fit import fit_model
from irtbench.scoring.ability import estimate_ability

SHAPES = ((500, 20, 4), (200, 40, 8))  # respondents, items, trials
DEVIATIONS = (0.0, 0.5, 1.0)
REPLICATIONS = 10


def replicate(shape: tuple[int, int, int], deviation: float, rng: np.random.Generator) -> tuple[float, ...]:
    """Mean infit, share of items with p below .05, and of abilities in their interval without and with dispersion."""
    n_respondents, n_items, n_trials = shape
    slope, difficulty = rng.lognormal(0.0, 0.3, n_items), rng.normal(size=n_items)
    theta = rng.normal(size=n_respondents)
    theta = (theta - theta.mean()) / theta.std()
    z = slope * (theta[:, None] - difficulty) + deviation * rng.normal(size=(n_respondents, n_items))
    right = rng.binomial(n_trials, 1 / (1 + np.exp(-z))).astype(float)
    names = tuple(f"r{i}" for i in range(n_respondents)), tuple(f"i{j}" for j in range(n_items))
    responses = ResponseMatrix(right, *names, np.full(right.shape, n_trials))
    items = fit_model(responses).items
    found = estimate_ability(responses, items)
    fit = item_fit(responses, items, theta=found.theta)
    inside = (found.lower <= theta) & (theta <= found.upper)
    dispersed = estimate_ability(*fit_trials(responses).matrix(responses))
    covered = (dispersed.lower <= theta) & (theta <= dispersed.upper)
    return float(fit.infit.mean()), float((fit.p < 0.05).mean()), float(inside.mean()), float(covered.mean())


def main() -> None:
    """Print a row for each shape and deviation: means over replications."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    rng = np.random.default_rng(parser.parse_args().seed)
    print("| respondents x items, trials | deviation | infit | p < .05 | theta in the 95% interval | with dispersion |")
    print("|---|---|---|---|---|---|")
    for shape in SHAPES:
        for deviation in DEVIATIONS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                means = np.mean([replicate(shape, deviation, rng) for _ in range(REPLICATIONS)], axis=0)
            infit, rate, inside, covered = means.tolist()
            n, j, k = shape
            print(f"| {n} x {j}, {k} | {deviation:g} | {infit:.2f} | {rate:.3f} | {inside:.1%} | {covered:.1%} |")


if __name__ == "__main__":
    main()
