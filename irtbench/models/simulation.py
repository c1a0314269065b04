"""Responses of people with known abilities to items with known parameters (NumPy only)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix, numbered
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.curves import icc
from irtbench.models.parameter_table import ParametersLike, as_parameters


def simulate_responses(
    theta: ArrayLike,
    items: ParametersLike,
    *,
    rng: np.random.Generator,
    missing: float = 0.0,
    trials: int | NDArray[np.int64] = 1,
    respondent_ids: Sequence[str] | None = None,
) -> ResponseMatrix:
    """Draw responses of people with these abilities.

    Each is missing, completely at random, with probability ``missing``. With several ``trials`` of every item each
    counts the right ones, and is missing as a whole; an array of shape (n_respondents, n_items) has the number of each,
    0 for none. Of items in categories 0, ..., m each is k of m. Respondents are named ``r1 ...`` unless
    ``respondent_ids`` is given.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([1.0, 1.5], [-1.0, 1.0])
    >>> irtbench.simulate_responses([-1.0, 0.0, 1.0], items, rng=np.random.default_rng(1)).table()
      respondent_id  item1  item2
    0            r1    0.0    0.0
    1            r2    1.0    0.0
    2            r3    1.0    1.0
    """
    items = as_parameters(items, upper_asymptotes=True, categories=True)
    if items.categories is not None:
        return _in_categories(theta, items.categories, rng, missing, respondent_ids)
    p = icc(theta, items)
    each = np.asarray(trials)
    if each.ndim and each.shape != p.shape:
        raise InputError(f"simulation: numbers of trials of shape {each.shape} for responses of {p.shape}")
    if (each < (0 if each.ndim else 1)).any():
        raise InputError(f"simulation: expected at least one trial of an item but got {each.min()}")
    single = not each.ndim and trials == 1
    values = (rng.random(p.shape) < p if single else rng.binomial(trials, p)).astype(np.float64)
    values[np.broadcast_to(each == 0, p.shape)] = np.nan
    if missing > 0:
        values[rng.random(p.shape) < missing] = np.nan
    ids = numbered("r", p.shape[0]) if respondent_ids is None else tuple(respondent_ids)
    tried = None if single else np.where(np.isnan(values), 0, trials)
    return ResponseMatrix(values, ids, items.item_ids, tried)


def _in_categories(
    theta: ArrayLike,
    items: CategoryParameters,
    rng: np.random.Generator,
    missing: float,
    respondent_ids: Sequence[str] | None,
) -> ResponseMatrix:
    """Responses to items in categories, k of m."""
    drawn = items.draw(theta, rng=rng).astype(np.float64)
    drawn[rng.random(drawn.shape) < missing] = np.nan
    ids = numbered("r", len(drawn)) if respondent_ids is None else tuple(respondent_ids)
    return ResponseMatrix(drawn, ids, items.item_ids, np.where(np.isnan(drawn), 0, items.top))
