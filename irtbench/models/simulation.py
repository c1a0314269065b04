"""Responses of people with known abilities to items with known parameters (NumPy only)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from irtbench.data.responses import ResponseMatrix
from irtbench.models.curves import icc
from irtbench.models.item_parameters import ItemParameters


def simulate_responses(
    theta: ArrayLike,
    items: ItemParameters,
    *,
    rng: np.random.Generator,
    missing: float = 0.0,
    respondent_ids: Sequence[str] | None = None,
) -> ResponseMatrix:
    """Draw responses of people with these abilities.

    Each is missing, completely at random, with probability ``missing``. Respondents are named ``r1 ...`` unless
    ``respondent_ids`` is given.
    """
    p = icc(theta, items)
    values = (rng.random(p.shape) < p).astype(np.float64)
    if missing > 0:
        values[rng.random(p.shape) < missing] = np.nan
    ids = tuple(f"r{i + 1}" for i in range(p.shape[0])) if respondent_ids is None else tuple(respondent_ids)
    return ResponseMatrix(values, ids, items.item_ids)
