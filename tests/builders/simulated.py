"""Crowds and items of known parameters: a ~ lognormal(.2, .3), b ~ N(0, 1), theta ~ N(0, 1), answers by the model."""

import numpy as np
from numpy.typing import NDArray

from irtbench.data.responses import ResponseMatrix
from irtbench.models.curves import simulate_responses
from irtbench.models.item_parameters import ItemParameters


def simulated(
    n_respondents: int, n_items: int, *, seed: int, guessing: float = 0.0, missing: float = 0.0
) -> tuple[ResponseMatrix, ItemParameters, NDArray[np.float64]]:
    """Responses, the items' true parameters, and the respondents' true abilities."""
    rng = np.random.default_rng(seed)
    items = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, n_items), rng.normal(0, 1, n_items), guessing)
    theta = rng.normal(size=n_respondents)
    return simulate_responses(theta, items, rng=rng, missing=missing), items, theta


def drawn(n: int, n_items: int, *, missing: float = 0.0) -> ResponseMatrix:
    """Responses alone, the same for every test that asks for this many."""
    return simulated(n, n_items, seed=7, missing=missing)[0]


def rearranged(responses: ResponseMatrix, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> ResponseMatrix:
    """The same responses in another order of respondents and items."""
    return ResponseMatrix(
        responses.values[np.ix_(rows, columns)],
        tuple(responses.respondent_ids[i] for i in rows),
        tuple(responses.item_ids[j] for j in columns),
    )


def with_a_constant_item() -> ResponseMatrix:
    """One item that all got right, and two respondents who answered that one alone, or none."""
    responses = drawn(240, 7, missing=0.2)
    values = responses.correct.copy()
    values[:, 4] = 1
    values[[5, 200]] = np.nan
    values[5, 4] = 1
    return with_values(responses, values)


def with_values(responses: ResponseMatrix, values: NDArray[np.float64]) -> ResponseMatrix:
    """Other responses of the same respondents to the same items."""
    return ResponseMatrix(values, responses.respondent_ids, responses.item_ids)
