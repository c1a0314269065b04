"""Where a scale lies on the one it was linked to, and how well that is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.shown import Shown


@dataclass(frozen=True, eq=False)
class ScaleLine(Shown):
    """theta_base = A theta + B, theta on the scale that the items were fitted on, and the error of A and B.

    The items of the scale are on the base scale already; what they do not say is how well the line is known.

    Parameters
    ----------
    slope, intercept
        A, above 0, and B; over all links, where there were several.
    covariance
        Sampling covariance of (A, B) between the two scales as they were fitted, shape (2, 2).
    generation
        Number of links back to the base scale.

    Raises
    ------
    InputError
        If the slope is not positive, a figure is not finite, or the covariance has a negative variance.
    """

    slope: float
    intercept: float
    covariance: NDArray[np.float64]
    generation: int = 1

    def __post_init__(self) -> None:
        covariance = np.array(self.covariance, dtype=np.float64)
        if covariance.shape != (2, 2) or not np.isfinite(covariance).all() or (np.diagonal(covariance) < 0).any():
            raise InputError("link: expected a finite covariance of slope and intercept, shape (2, 2)")
        if not (np.isfinite(self.slope) and self.slope > 0 and np.isfinite(self.intercept) and self.generation >= 1):
            raise InputError("link: expected a finite line with a slope above 0, and at least one generation")
        covariance.setflags(write=False)
        object.__setattr__(self, "covariance", covariance)

    def upper(self) -> list[float]:
        """Variance of A, covariance of A and B, variance of B."""
        return [float(value) for value in self.covariance[np.triu_indices(2)]]

    def variance(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the line's error adds to the variance of abilities on the base scale, the shape of ``theta``.

        var(A) u^2 + 2 u cov(A, B) + var(B) at u = (theta - B) / A, the ability on the scale of the fit.
        """
        (var_a, cov_ab), (_, var_b) = self.covariance
        at = (theta - self.intercept) / self.slope
        return np.asarray(np.maximum(var_a * at**2 + 2 * at * cov_ab + var_b, 0.0))

    def draws(self, theta: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        """Abilities on the base scale under lines drawn from their sampling distribution, one line a column.

        Parameters
        ----------
        theta
            Draws of abilities, shape (n_respondents, n_draws).
        rng
            The random numbers.
        """
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(values.clip(0))
        slope, intercept = root @ rng.normal(size=(2, theta.shape[1]))
        return np.asarray(theta + slope * (theta - self.intercept) / self.slope + intercept)

    def table(self) -> pd.DataFrame:
        """One row: ``slope, intercept``, their standard errors, ``generation``."""
        se_slope, se_intercept = np.sqrt(np.diagonal(self.covariance))
        row = {"slope": self.slope, "intercept": self.intercept, "se_slope": se_slope, "se_intercept": se_intercept}
        return pd.DataFrame([row | {"generation": self.generation}])

    def in_short(self) -> str:
        """The line, its standard errors, and the generation."""
        se_slope, se_intercept = np.sqrt(np.diagonal(self.covariance))
        return (
            f"slope {self.slope:.3f} ({se_slope:.3f}), intercept {self.intercept:.3f} ({se_intercept:.3f}), "
            f"generation {self.generation}"
        )
