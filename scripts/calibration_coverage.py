"""Bias of calibration errors, and coverage of their intervals, where the truth is known.

    python scripts/calibration_coverage.py [--seed 2015] [--replicates 300]

Predictions q are Beta(.8, .8); the event happens with probability .5 + slope (q - .5): slope 1 is calibrated, .8 is too
sure. The truth of each data set is the error of its own bins, with the event's probabilities in place of the labels.
docs/calibration.md holds the tables this prints.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from irtbench.evaluation.calibration import calibration, calibration_difference
from irtbench.evaluation.reliability import adaptive_bins

BIN_SIZE = 100


def true_error(q: NDArray[np.float64], probability: NDArray[np.float64]) -> float:
    """Calibration error of the bins of q, with the event's probabilities in place of the labels."""
    bins = adaptive_bins(q, BIN_SIZE)
    return float(np.sqrt((np.bincount(bins, q - probability) ** 2 / np.bincount(bins)).sum() / q.size))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=2015)
    parser.add_argument("--replicates", type=int, default=300)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)

    print("| pairs | slope | true error | Algorithm 1 | debiased | Algorithm 2 covers | debiased interval covers |")
    print("|---" * 7 + "|")
    for n in (1_000, 10_000):
        for slope in (1.0, 0.9, 0.8, 0.5):
            results = np.empty((options.replicates, 5))
            for replicate in results:
                q = rng.beta(0.8, 0.8, n)
                probability = 0.5 + slope * (q - 0.5)
                y = (rng.random(n) < probability).astype(np.float64)
                found = calibration(q, y, bin_size=BIN_SIZE, n_samples=500, rng=rng)
                truth = true_error(q, probability)
                replicate[:] = (
                    truth,
                    found.error,
                    found.debiased_squared_error,
                    found.lower <= truth <= found.upper,
                    found.debiased_lower <= truth <= found.debiased_upper,
                )
            truth, error, squared, covered, debiased_covered = results.mean(axis=0)
            root = "0 (negative)" if squared < 0 else f"{np.sqrt(squared):.4f}"
            print(f"| {n} | {slope:g} | {truth:.4f} | {error:.4f} | {root} | {covered:.1%} | {debiased_covered:.1%} |")

    print("\n| pairs | slopes | true difference of the squared errors | mean estimate | covered | p < .05 |")
    print("|---" * 6 + "|")
    for n in (1_000, 5_000):
        for slopes in ((1.0, 1.0), (0.7, 0.7), (0.8, 1.0), (0.5, 0.7)):
            results = np.empty((options.replicates, 4))
            for replicate in results:
                seen = rng.uniform(-0.25, 0.25, (2, n))  # each model sees one of two causes
                y = (rng.random(n) < 0.5 + seen.sum(axis=0)).astype(np.float64)
                stated = [0.5 + part / slope for part, slope in zip(seen, slopes, strict=True)]
                errors = [true_error(q, 0.5 + part) for q, part in zip(stated, seen, strict=True)]
                truth = errors[0] ** 2 - errors[1] ** 2
                paired = calibration_difference(*stated, y, bin_size=BIN_SIZE)
                replicate[:] = truth, paired.difference, paired.lower <= truth <= paired.upper, paired.p < 0.05
            truth, mean, covered, rejected = results.mean(axis=0)
            print(f"| {n} | {slopes[0]:g}, {slopes[1]:g} | {truth:.5f} | {mean:.5f} | {covered:.1%} | {rejected:.1%} |")


if __name__ == "__main__":
    main()
