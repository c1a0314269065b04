"""Naive Bayes against logistic regression on generated text-like data: equal F1, unequal calibration.

    python scripts/calibrate_text.py [--seed 2015] [--documents 20000]

Words come in groups that share a cause (a phrase, a name and its title), so that one piece of evidence is seen several
times. Naive Bayes counts each, and becomes too sure; logistic regression learns to share the weight among them.
docs/calibration.md holds the table this prints.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.naive_bayes import BernoulliNB

from irtbench.evaluation.calibration import calibration, calibration_difference

N_CAUSES, WORDS_A_CAUSE = 60, 4
SEEN = 0.7  # chance that a cause that is there shows each of its words
NOISE = 0.02  # chance of a word whose cause is not there


def draw_documents(n: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Words in each document, shape (n, n_words), and its class, 1 or 0."""
    tilt = np.random.default_rng(1).normal(0, 0.35, N_CAUSES)  # the language stays the same whatever the seed
    label = rng.integers(2, size=n)
    log_odds = -2.0 + np.where(label[:, None] == 1, tilt, -tilt)
    cause = rng.random((n, N_CAUSES)) < 1 / (1 + np.exp(-log_odds))
    shown = np.repeat(cause, WORDS_A_CAUSE, axis=1)
    words = np.where(shown, rng.random(shown.shape) < SEEN, rng.random(shown.shape) < NOISE)
    return words.astype(np.int64), label


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=2015)
    parser.add_argument("--documents", type=int, default=20_000, help="to train on, and as many to test on")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    words, label = draw_documents(options.documents, rng)
    new_words, new_label = draw_documents(options.documents, rng)
    stated = {
        name: model.fit(words, label).predict_proba(new_words)[:, 1]
        for name, model in {
            "naive Bayes": BernoulliNB(),
            "logistic regression": LogisticRegression(C=0.1, max_iter=1_000),
        }.items()
    }
    print("| model | F1 | calibration error | 95% interval | debiased | Brier | refinement | overconfident |")
    print("|---|---|---|---|---|---|---|---|")
    for name, q in stated.items():
        found = calibration(q, new_label, bin_size=1_000, rng=rng)
        print(
            f"| {name} | {f1_score(new_label, q > 0.5):.3f} | {found.error:.4f} | {found.lower:.4f} to "
            f"{found.upper:.4f} | {found.debiased_error:.4f} | {found.brier:.4f} | {found.refinement:.4f} "
            f"| {found.overconfident:.0%} |"
        )
    paired = calibration_difference(*stated.values(), new_label, bin_size=1_000)
    print(f"\nDifference of the squared errors {paired.difference:.4f} [{paired.lower:.4f}, {paired.upper:.4f}]")


if __name__ == "__main__":
    main()
