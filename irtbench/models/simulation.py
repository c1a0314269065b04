"""Responses of people with known abilities to items with known parameters (NumPy only)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.models.curves import icc
from irtbench.models.item_parameters import ItemParameters


def simulate_responses(
    theta: ArrayLike,
    items: ItemParameters,
    *,
    rng: np.random.Generator,
    missing: float = 0.0,
    trials: int = 1,
    respondent_ids: Sequence[str] | None = None,
) -> ResponseMatrix:
    """Draw responses of people with these abilities.

    Each is missing, completely at random, with probability ``missing``. With several ``trials`` of every item each
    counts the right ones, and is missing as a whole. Respondents are named ``r1 ...`` unless ``respondent_ids`` is
    given.
    """
    p = icc(theta, items)
    if trials < 1:
        raise InputError(f"simulation: expected at least one trial of an item but got {trials}")
    values = (rng.random(p.shape) < p).astype(np.float64) if trials == 1 else rng.binomial(trials, p).astype(np.float64)
    if missing > 0:
        values[rng.random(p.shape) < missing] = np.nan
    ids = tuple(f"r{i + 1}" for i in range(p.shape[0])) if respondent_ids is None else tuple(respondent_ids)
    tried = None if trials == 1 else np.where(np.isnan(values), 0, trials)
    return ResponseMatrix(values, ids, items.item_ids, tried)
