"""A hidden Markov model against a linear-chain CRF on generated tag sequences: calibration of their tag marginals.

    python scripts/calibrate_tagging.py [--seed 2015] [--sequences 1000]

Both see the same: a tag sequence, and at each place several observed features of a word. The features of a place share
a cause besides the tag, so that they are not independent given the tag as the hidden Markov model has it. Marginals of
both come from one forward-backward pass; docs/calibration.md holds the table this prints.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from irtbench.evaluation.calibration import calibration, calibration_difference
from irtbench.evaluation.reliability import concatenate_classes

N_TAGS, LENGTH = 4, 15
N_FEATURES, N_VALUES = 4, 12  # features of a word, and values each can have
COPIED = 0.6  # chance that a feature repeats what the first one says
RIDGE = 1.0  # of the CRF's weights


@dataclass(frozen=True)
class Potentials:
    """Scores of a chain: each tag at each place, shape (n, length, n_tags), and of each pair of neighbouring tags."""

    unary: NDArray[np.float64]
    pairwise: NDArray[np.float64]


def draw_sequences(n: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Features of each word, shape (n, length, n_features), and tags, shape (n, length)."""
    language = np.random.default_rng(3)  # stays the same whatever the seed
    transition = language.dirichlet(np.full(N_TAGS, 0.7), N_TAGS)
    emission = language.dirichlet(np.full(N_VALUES, 0.5), N_TAGS)
    tags = np.empty((n, LENGTH), dtype=np.int64)
    tags[:, 0] = rng.integers(N_TAGS, size=n)
    for place in range(1, LENGTH):
        steps = transition[tags[:, place - 1]].cumsum(axis=1)
        tags[:, place] = (rng.random((n, 1)) > steps[:, :-1]).sum(axis=1)
    steps = emission[tags].cumsum(axis=-1)[:, :, None, :-1]
    own = (rng.random((n, LENGTH, N_FEATURES, 1)) > steps).sum(axis=-1)
    copied = rng.random(own.shape) < COPIED
    return np.where(copied, own[..., :1], own), tags


def forward_backward(chain: Potentials) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Log partition of each sequence, log marginals of tags, and expected counts of neighbouring tags.

    alpha_t(k) = u_t(k) + log sum_j exp(alpha_{t-1}(j) + w(j, k)),  beta_t(j) = log sum_k exp(w(j, k) + u_t+1(k) +
    beta_t+1(k)),  p(y_t = k) = exp(alpha_t(k) + beta_t(k) - log Z).
    """
    length, n_tags = chain.unary.shape[1:]
    alpha, beta = np.empty_like(chain.unary), np.zeros_like(chain.unary)
    alpha[:, 0] = chain.unary[:, 0]
    for t in range(1, length):
        alpha[:, t] = chain.unary[:, t] + logsumexp(alpha[:, t - 1, :, None] + chain.pairwise, axis=1)
    for t in range(length - 2, -1, -1):
        beta[:, t] = logsumexp(chain.pairwise + (chain.unary[:, t + 1] + beta[:, t + 1])[:, None, :], axis=2)
    log_z = logsumexp(alpha[:, -1], axis=1)
    pairs = np.zeros((n_tags, n_tags))
    for t in range(length - 1):
        after = chain.unary[:, t + 1] + beta[:, t + 1] - log_z[:, None]
        pairs += np.exp(alpha[:, t, :, None] + chain.pairwise + after[:, None, :]).sum(axis=0)
    return log_z, alpha + beta - log_z[:, None, None], pairs


def fit_hmm(words: NDArray[np.int64], tags: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Log probabilities of features given the tag, and of the next tag, from counts with one added."""
    emission = np.ones((N_FEATURES, N_VALUES, N_TAGS))
    for feature in range(N_FEATURES):
        np.add.at(emission[feature], (words[..., feature], tags), 1)
    transition = np.ones((N_TAGS, N_TAGS))
    np.add.at(transition, (tags[:, :-1], tags[:, 1:]), 1)
    return np.log(emission / emission.sum(axis=1, keepdims=True)), np.log(transition / transition.sum(axis=1)[:, None])


def fit_crf(words: NDArray[np.int64], tags: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The same parameters as weights that maximise the conditional likelihood of the tags, with a ridge."""
    size = N_FEATURES * N_VALUES * N_TAGS
    one_hot = np.eye(N_TAGS)[tags]
    observed = np.zeros((N_FEATURES, N_VALUES, N_TAGS))
    for feature in range(N_FEATURES):
        np.add.at(observed[feature], words[..., feature], one_hot)
    observed_pairs = np.zeros((N_TAGS, N_TAGS))
    np.add.at(observed_pairs, (tags[:, :-1], tags[:, 1:]), 1)

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        unary, pairwise = weights[:size].reshape(observed.shape), weights[size:].reshape(N_TAGS, N_TAGS)
        log_z, log_marginal, pairs = forward_backward(potentials(words, unary, pairwise))
        expected = np.zeros_like(observed)
        for feature in range(N_FEATURES):
            np.add.at(expected[feature], words[..., feature], np.exp(log_marginal))
        value = (
            log_z.sum() - (observed * unary).sum() - (observed_pairs * pairwise).sum() + RIDGE * weights @ weights / 2
        )
        slope = np.concatenate([(expected - observed).ravel(), (pairs - observed_pairs).ravel()]) + RIDGE * weights
        return float(value), slope

    best = minimize(loss, np.zeros(size + N_TAGS**2), jac=True, method="L-BFGS-B", options={"maxiter": 200}).x
    return best[:size].reshape(observed.shape), best[size:].reshape(N_TAGS, N_TAGS)


def potentials(words: NDArray[np.int64], unary: NDArray[np.float64], pairwise: NDArray[np.float64]) -> Potentials:
    """Scores of the chains of these words."""
    return Potentials(sum(unary[k][words[..., k]] for k in range(N_FEATURES)), pairwise)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=2015)
    parser.add_argument("--sequences", type=int, default=1_000, help="to train on, and as many to test on")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    words, tags = draw_sequences(options.sequences, rng)
    new_words, new_tags = draw_sequences(options.sequences, rng)
    stated = {}
    sequence = np.repeat(np.arange(options.sequences), LENGTH * N_TAGS)
    print("| model | tag accuracy | calibration error | 95% interval | debiased | Brier | overconfident |")
    print("|---|---|---|---|---|---|---|")
    for name, fit in {"hidden Markov model": fit_hmm, "linear-chain CRF": fit_crf}.items():
        log_marginal = forward_backward(potentials(new_words, *fit(words, tags)))[1].reshape(-1, N_TAGS)
        q, label, _ = concatenate_classes(np.exp(log_marginal), new_tags.ravel())
        stated[name] = q
        found = calibration(q, label, clusters=sequence, rng=rng)
        print(
            f"| {name} | {(log_marginal.argmax(axis=1) == new_tags.ravel()).mean():.3f} | {found.error:.4f} "
            f"| {found.lower:.4f} to {found.upper:.4f} | {found.debiased_error:.4f} | {found.brier:.4f} "
            f"| {found.overconfident:.0%} |"
        )
    paired = calibration_difference(*stated.values(), label, clusters=sequence)
    print(f"\nDifference of the squared errors {paired.difference:.4f} [{paired.lower:.4f}, {paired.upper:.4f}]")


if __name__ == "__main__":
    main()
