"""Which tasks an agent solves, told of tasks held out by their features alone: area under the curve.

    python scripts/task_success.py DATA [DATA ...] [--model rasch] [--folds 10] [--seeds 3] [--straight]

DATA is a folder of features.csv (a row a task, first column its name) and responses.csv.gz (a row an agent, wide, 0/1).
Tasks are parted into folds at random. In each fold the regression of `explain_responses` (with curves, and effects
drawn to 0) is fitted to the other tasks, their features and the responses to them; a task held out is given the
difficulty m and variance v that its features predict, and an agent the ability of its responses to the others. Printed
is the area under the receiver operating characteristic over all (agent, task) pairs, each with the probability that its
agent solves its task (mean of seeds), beside that of the share right of the agent alone.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import rankdata

import irtbench
from irtbench.analysis.explained_difficulty import Design
from irtbench.analysis.explained_responses import fit_explanatory_items
from irtbench.analysis.meta_regression import meta_regression

Array = NDArray[np.float64]

AXIS, WEIGHTS = np.polynomial.hermite_e.hermegauss(15)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--model", choices=["rasch", "2pl"], default="2pl")
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--straight", action="store_true", help="straight lines alone; else with curves")
    arguments = parser.parse_args()
    print("| tasks | AUC, features | sd over seeds | AUC, agents alone | seconds |")
    print("|---|---|---|---|---|")
    for folder in arguments.data:
        table, features = pd.read_csv(folder / "responses.csv.gz"), pd.read_csv(folder / "features.csv")
        features.columns = ["item_id", *features.columns[1:]]
        known = irtbench.ItemFeatures.from_frame(features)
        tasks = list(known.item_ids)
        values = table.set_index(table.columns[0])[tasks].to_numpy(np.float64)
        began, found = time.process_time(), []
        for seed in range(arguments.seeds):
            fold = np.random.default_rng(seed).permutation(len(tasks)) % arguments.folds
            found.append(one_parting(values, known, fold, arguments.model, not arguments.straight))
        mean, spread = np.mean(found, axis=0), np.std(found, axis=0)
        print(
            f"| {folder.name} | {mean[0]:.4f} | {spread[0]:.4f} | {mean[1]:.4f} | {time.process_time() - began:.0f} |",
            flush=True,
        )


def one_parting(
    values: Array, features: irtbench.ItemFeatures, fold: NDArray[np.int64], model: str, curved: bool
) -> tuple[float, float]:
    """Area under the curve by features and abilities, and by the agents' share right alone."""
    p, share = np.empty(values.shape), np.empty(values.shape)
    for k in range(fold.max() + 1):
        there, out = fold != k, fold == k
        names = [item for item, own in zip(features.item_ids, there, strict=True) if own]
        design = Design.of(features, names, "learnt", curved=curved)
        p[:, out] = success(values[:, there], design.columns, design.columns_of(features.values[out]), model)
        share[:, out] = values[:, there].mean(axis=1)[:, None]
    return area_under_curve(p, values), area_under_curve(share, values)


def success(known: Array, columns: Array, new: Array, model: str) -> Array:
    """Probability that each agent solves each new task, (n_agents, n_new): over its difficulty and its slope."""
    found = fit_explanatory_items(known, columns, kind=model, shrink=True)  # type: ignore[arg-type]
    mean, variance = meta_regression(found.estimates, columns, shrink=True).predicted(new)
    theta = irtbench.estimate_ability(known, found.items, quadrature=found.population).theta
    total = np.zeros((len(known), len(new)))
    for axis, weight in zip(AXIS, WEIGHTS / WEIGHTS.sum(), strict=True):
        slope = np.exp(found.slope[0] + found.slope[1] * axis)
        for other, also in zip(AXIS, WEIGHTS / WEIGHTS.sum(), strict=True):
            total += weight * also * expit(slope * (theta[:, None] - mean - np.sqrt(variance) * other))
    return total


def area_under_curve(predicted: Array, values: Array) -> float:
    """Chance that a solved pair is predicted higher than one that is not; missing pairs left out."""
    there = ~np.isnan(values)
    right = values[there] == 1
    rank, n = rankdata(predicted[there]), int(right.sum())
    return float((rank[right].sum() - n * (n + 1) / 2) / (n * (len(right) - n)))


if __name__ == "__main__":
    main()
