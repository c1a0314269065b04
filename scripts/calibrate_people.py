"""Calibration of people's stated probabilities, and of irtbench's own predictions of held-out responses.

    python scripts/calibrate_people.py DATA [--seed 2015]

DATA is the folder with the real data sets gk_calibration and lalor2016_snli. The first table takes the probability that
459 judges gave to 300 statements; the second hides a fifth of the crowd's responses of each scale, fits the 2PL to the
others, and predicts what was hidden from a respondent's other responses. docs/calibration.md holds both tables.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.readers import read_items, read_responses
from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.fit import fit_model
from irtbench.evaluation.calibration import Calibration, calibration, calibration_difference
from irtbench.models.curves import icc
from irtbench.models.quadrature import normal_grid
from irtbench.models.theta_posterior import log_likelihood, node_posterior

HIDDEN = 0.2
HEADER = "| n | calibration error | 95% interval | debiased (95%) | equal width | Brier | refinement | over- / under- |"


def row(found: Calibration) -> str:
    return (
        f"| {found.n_pairs} | {found.error:.4f} | {found.lower:.4f} to {found.upper:.4f} "
        f"| {found.debiased_error:.4f} ({found.debiased_lower:.4f} to {found.debiased_upper:.4f}) "
        f"| {found.equal_width_error:.4f} | {found.brier:.4f} | {found.refinement:.4f} "
        f"| {found.overconfident:.0%} / {found.underconfident:.0%} |"
    )


def predict_hidden(seen: ResponseMatrix, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """P(right) of every respondent and item: over the posterior of ability, and at its mean alone."""
    items = fit_model(seen, seed=seed).items
    grid = normal_grid()
    mass, _ = node_posterior(log_likelihood(seen.values, grid.nodes, items), grid)
    return mass @ icc(grid.nodes, items), icc(mass @ grid.nodes, items)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seed", type=int, default=2015)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)

    folder = options.data / "gk_calibration"
    stated = pd.read_csv(folder / "responses.csv.gz").merge(pd.read_csv(folder / "items.csv"), on="item_id")
    print(f"| statements {HEADER}")
    print("|---" * 9 + "|")
    sets = {"all": stated} | {f"level {level}": rows for level, rows in stated.groupby("level")}
    for name, rows in sets.items():
        found = calibration(rows["prob_true"], rows["gold"], bin_size=1_000, clusters=rows["item_id"], rng=rng)
        print(f"| {name} {row(found)}")

    predicted: dict[str, list[NDArray[np.float64]]] = {"over the posterior": [], "at the mean ability": []}
    happened, respondent = [], []
    for name in ("4gs", "5gs"):
        given = ResponseMatrix.from_long(
            read_responses(options.data / "lalor2016_snli" / f"responses_{name}.csv.gz").frame
        )
        items = read_items(
            options.data / "lalor2016_snli" / "items.csv", columns={"label": "gold"}, where={"set": name}
        )
        for members in items.scales().values():
            scale = given.select_items(members)
            hidden = rng.random(scale.values.shape) < HIDDEN
            hidden[hidden.all(axis=1)] = False
            seen = ResponseMatrix(np.where(hidden, np.nan, scale.values), scale.respondent_ids, scale.item_ids)
            for collected, probability in zip(predicted.values(), predict_hidden(seen, options.seed), strict=True):
                collected.append(probability[hidden])
            happened.append(scale.values[hidden])
            respondent.append(np.array([f"{name} {r}" for r in scale.respondent_ids])[np.nonzero(hidden)[0]])
    y, clusters = np.concatenate(happened), np.concatenate(respondent)
    q = {name: np.concatenate(parts) for name, parts in predicted.items()}
    print(f"\n| P(right) {HEADER}")
    print("|---" * 9 + "|")
    for name, probability in q.items():
        print(f"| {name} {row(calibration(probability, y, bin_size=1_000, clusters=clusters, rng=rng))}")
    paired = calibration_difference(*q.values(), y, bin_size=1_000, clusters=clusters)
    print(
        f"\nDifference of the squared errors {paired.difference:.6f} "
        f"[{paired.lower:.6f}, {paired.upper:.6f}], p {paired.p:.2g}"
    )


if __name__ == "__main__":
    main()
