"""The sampling error of all items of a scale together: what theirs have in common, and what of it is the scale's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.shown import Shown, counted


@dataclass(frozen=True, eq=False)
class JointError(Shown):
    """Covariance of the parameters of all items of a scale, and how far its zero and unit are those of a sample.

    Ability is N(0, 1) in the population, and the respondents are a sample of it: the zero of the scale as fitted is
    their mean, its unit their standard deviation, and by both all items err alike. Of the covariance of the items that
    part is D diag(location, unit) D', D the derivatives of (a, d, c) by a shift of zero and a change of unit; what is
    left is their error on the scale as fitted.

    Parameters
    ----------
    covariance
        Of (a, d, c) of every item with every other, shape (n_items, 3, n_items, 3).
    location
        Sampling variance of the scale's zero: 1 / n where ability is N(0, 1) among n respondents; 0 where it is fixed.
    unit
        Relative sampling variance of its unit: 1 / (2 n) there; 0 where it is fixed, as by slopes of 1.

    Raises
    ------
    InputError
        If the shape is another, a value is not finite, or a variance is negative.
    """

    covariance: NDArray[np.float64]
    location: float
    unit: float

    def __post_init__(self) -> None:
        covariance = np.array(self.covariance, dtype=np.float64)
        if covariance.ndim != 4 or covariance.shape != (len(covariance), 3, len(covariance), 3):
            raise InputError(f"joint error: expected shape (n_items, 3, n_items, 3) but got {covariance.shape}")
        if not np.isfinite(covariance).all() or not 0 <= self.location < np.inf or not 0 <= self.unit < np.inf:
            raise InputError("joint error: covariances and variances must be finite, variances not negative")
        covariance.setflags(write=False)
        object.__setattr__(self, "covariance", covariance)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.covariance)

    def select(self, places: Sequence[int] | NDArray[np.intp]) -> JointError:
        """That of the items at these places, in this order."""
        rows = np.array(places, dtype=np.intp)
        return JointError(self.covariance[rows][:, :, rows], self.location, self.unit)

    def table(self) -> pd.DataFrame:
        """One row: number of items, standard deviations of the scale's zero and of its unit."""
        return pd.DataFrame([{"n_items": self.n_items, "sd_zero": self.location**0.5, "sd_unit": self.unit**0.5}])

    def in_short(self) -> str:
        """How many items, and the standard deviations of zero and unit."""
        return f"{counted(self.n_items, 'item')}, zero {self.location**0.5:.3f}, unit {self.unit**0.5:.3f}"
