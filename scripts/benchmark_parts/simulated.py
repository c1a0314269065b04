"""Simulated responses with known items, drawn in batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmark_parts.sizes import Size

BATCH = 4_096  # respondents drawn at a time


@dataclass(frozen=True, eq=False)
class Simulated:
    """Responses, and the items they were drawn from on the scale of the respondents drawn.

    Parameters
    ----------
    values
        Responses 1 and 0, shape (n_respondents, n_items).
    discrimination, difficulty, guessing
        The true items, each of shape (n_items,). Ability is standard normal in the population, but the respondents
        drawn have some mean m and standard deviation s, which no tool can tell from 0 and 1: on the scale on which
        they have 0 and 1, a is s a and b is (b - m) / s.
    """

    values: NDArray[np.uint8]
    discrimination: NDArray[np.float64]
    difficulty: NDArray[np.float64]
    guessing: NDArray[np.float64]
    theta: NDArray[np.float64]


def simulate(size: Size, *, seed: int) -> Simulated:
    """Draw items, abilities and responses.

    log a ~ N(.2, .3); b ~ N(0, 1), no further from 0 than 2.5; c uniform between .1 and .3 for the 3PL, 0 for the 2PL;
    theta ~ N(0, 1). An item to which all respondents give the same response is answered anew: without a prior no
    tool can place it.
    """
    rng = np.random.default_rng([seed, size.n_respondents, size.n_items, size.kind == "3pl"])
    a = np.exp(rng.normal(0.2, 0.3, size.n_items))
    b = np.clip(rng.normal(size=size.n_items), -2.5, 2.5)
    c = rng.uniform(0.1, 0.3, size.n_items) if size.kind == "3pl" else np.zeros(size.n_items)
    theta = rng.normal(size=size.n_respondents)
    values = np.empty((size.n_respondents, size.n_items), dtype=np.uint8)
    for start in range(0, size.n_respondents, BATCH):
        rows = slice(start, start + BATCH)
        values[rows] = _answers(theta[rows], a, b, c, rng)
    while (constant := np.flatnonzero(_constant(values))).size:
        values[:, constant] = _answers(theta, a[constant], b[constant], c[constant], rng)
    mean, sd = theta.mean(), theta.std()
    return Simulated(values, a * sd, (b - mean) / sd, c, (theta - mean) / sd)


def _answers(
    theta: NDArray[np.float64],
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    c: NDArray[np.float64],
    rng: np.random.Generator,
) -> NDArray[np.bool_]:
    single = np.float32
    z = np.outer(theta.astype(single), a.astype(single)) - (a * b).astype(single)
    p = c.astype(single) + (1 - c).astype(single) / (1 + np.exp(-z))
    return rng.random(p.shape, dtype=single) < p


def _constant(values: NDArray[np.uint8]) -> NDArray[np.bool_]:
    n_correct = values.sum(axis=0, dtype=np.int64)
    return (n_correct == 0) | (n_correct == values.shape[0])
