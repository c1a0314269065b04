"""The accuracy of language models on a whole benchmark from 10, 30 or 100 of its items.

    python scripts/short_forms.py DATA [--splits 5] [--seed 1]

DATA is the folder of the Open LLM Leaderboard responses (1,000 systems x 338 items). In every split half of the
systems, drawn at random, are those to learn from; the others answer the form alone. Items are chosen one by one, each
the one that lowers the variance of the accuracy on all items given those on the form most, by the learning systems'
covariance with its off-diagonal entries shrunk by a factor. The accuracy is predicted linearly from the form by the
covariance shrunk by a second factor, or by the mean of that and of a kernel ridge regression. The factors and the
predictor are those of least mean absolute error in cross-validation over the learning systems, items being chosen anew
in each fold. The 95% interval is the prediction and the 95% quantile of the absolute errors of that cross-validation.
Printed are the mean absolute error over the new systems and the share of intervals that cover, mean and standard
deviation over splits, beside a ridge regression on random items.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]

LENGTHS = (10, 30, 100)
CHOOSE = (0.05, 0.1, 0.2, 0.35)  # shrinkage of the covariance that chooses
PREDICT = (0.05, 0.1, 0.2, 0.35)  # and of that which predicts
RIDGE = (None, 0.1, 0.3)  # penalty of the kernel ridge regression; None for the linear prediction alone
SCALE = 0.2  # share of different responses at which two systems count as far apart
FOLDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    table = pd.read_csv(arguments.data / "responses.csv.gz")
    values = table.pivot(index="respondent_id", columns="item_id", values="correct").to_numpy(np.float64)
    rng = np.random.default_rng(arguments.seed)
    rows = []
    for split in range(arguments.splits):
        learning = rng.permutation(len(values)) < len(values) // 2
        known, new = values[learning], values[~learning]
        fold = rng.integers(FOLDS, size=len(known))
        for n in LENGTHS:
            found = one_split(known, new, n, fold)
            drawn = rng.choice(values.shape[1], n, replace=False)
            found["random items"] = float(np.abs(kernel_ridge(known, drawn, new, 0.0, 0.3) - new.mean(axis=1)).mean())
            rows.append({"items": n, "split": split} | found)
    table = pd.DataFrame(rows)
    print("| items | random items, ridge | chosen items | sd over splits | cross-validated | coverage |")
    print("|---|---|---|---|---|---|")
    for n, own in table.groupby("items"):
        mean = own.mean(numeric_only=True)
        print(
            f"| {n} | {mean['random items']:.4f} | {mean['error']:.4f} | {own['error'].std():.4f} | "
            f"{mean['cross-validated']:.4f} | {mean['coverage']:.3f} |"
        )


def one_split(known: Array, new: Array, n: int, fold: NDArray[np.int64]) -> dict[str, float]:
    """Error and coverage for the new systems, and the error that cross-validation promised."""
    truth = known.mean(axis=1)
    options = list(product(CHOOSE, PREDICT, RIDGE))
    errors = np.empty((len(options), len(known)))
    for k in range(FOLDS):
        inside, outside = known[fold != k], known[fold == k]
        errors[:, fold == k] = [predicted - truth[fold == k] for predicted in predictions(inside, outside, n, options)]
    best = int(np.abs(errors).mean(axis=1).argmin())
    (predicted,) = predictions(known, new, n, [options[best]])
    wrong = np.abs(predicted - new.mean(axis=1))
    promised = np.abs(errors[best])
    return {
        "error": float(wrong.mean()),
        "cross-validated": float(promised.mean()),
        "coverage": float((wrong <= np.quantile(promised, 0.95)).mean()),
    }


def predictions(known: Array, new: Array, n: int, options: list[tuple[float, float, float | None]]) -> list[Array]:
    """What each option predicts of the new systems."""
    plain = np.cov(known.T)
    forms = {choose: chosen_items(shrunk(plain, choose), n) for choose in {option[0] for option in options}}
    found = []
    for choose, predict, ridge in options:
        form = forms[choose]
        linear = conditional_mean(known, shrunk(plain, predict), form, new)
        found.append(linear if ridge is None else (linear + kernel_ridge(known, form, new, 0.1, ridge)) / 2)
    return found


def shrunk(covariance: Array, share: float) -> Array:
    """The covariance with this share taken off its off-diagonal entries."""
    return (1 - share) * covariance + share * np.diag(np.diag(covariance))


def chosen_items(covariance: Array, n: int) -> list[int]:
    """Items one by one, each lowering the variance of the mean given those before most."""
    rest, with_mean = covariance.copy(), covariance.mean(axis=1)
    form: list[int] = []
    for _ in range(n):
        gain = with_mean**2 / np.maximum(np.diag(rest), 1e-9)
        gain[form] = -1
        item = int(gain.argmax())
        form.append(item)
        own = rest[:, item].copy()
        with_mean = with_mean - own * with_mean[item] / own[item]
        rest = rest - np.outer(own, own) / own[item]
    return form


def conditional_mean(known: Array, covariance: Array, form: list[int], new: Array) -> Array:
    """The accuracy expected given the responses to the form, by this covariance."""
    weights = np.linalg.solve(covariance[np.ix_(form, form)], covariance[form].mean(axis=1))
    means = known.mean(axis=0)
    expected: Array = means.mean() + (new[:, form] - means[form]) @ weights
    return expected


def kernel_ridge(known: Array, form: list[int] | NDArray[np.int64], new: Array, nearness: float, ridge: float) -> Array:
    """Ridge regression on the form, with a kernel that also knows how near systems are, and a free intercept."""
    ours, theirs = known[:, form], new[:, form]
    inner = kernel(ours, ours, nearness) + ridge * np.eye(len(ours))
    middle = known.mean()
    weights = np.linalg.solve(inner + 100.0, known.mean(axis=1) - middle)
    predicted: Array = middle + (kernel(theirs, ours, nearness) + 100.0) @ weights
    return predicted


def kernel(one: Array, other: Array, nearness: float) -> Array:
    """Mean product of centred responses, and what near systems have in common."""
    different = (one.sum(axis=1)[:, None] + other.sum(axis=1) - 2 * one @ other.T) / one.shape[1]
    alike: Array = (one - 0.5) @ (other - 0.5).T / one.shape[1] + nearness * np.exp(-different / SCALE)
    return alike


if __name__ == "__main__":
    main()
