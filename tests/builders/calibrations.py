"""Two calibrations of the same items, each on a scale of its own."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from irtbench.models.item_parameters import ItemParameters


def two_calibrations(
    drift: Sequence[float] | NDArray[np.float64], *, seed: int, error: float, slope: float, intercept: float
) -> tuple[ItemParameters, ItemParameters]:
    """Slopes and intercepts with errors; theta of the first is slope times that of the second and the intercept.

    Between them the difficulties drift, in units of the first.
    """
    rng, n = np.random.default_rng(seed), len(drift)
    a, b = rng.uniform(0.8, 2, n), rng.normal(0, 0.8, n)
    covariance = np.tile(np.diag([error**2, error**2, 0.0]), (n, 1, 1))
    found = []
    for items in (
        ItemParameters.from_difficulty(a, b),
        ItemParameters.from_difficulty(a * slope, (b + drift - intercept) / slope),
    ):
        moved = [values + error * rng.normal(size=n) for values in (items.discrimination, items.intercept)]
        found.append(replace(items, discrimination=moved[0], intercept=moved[1], covariance=covariance))
    return found[0], found[1]
