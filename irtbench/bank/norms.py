"""A norm sample: the people of the reference population, as their abilities, and what is known of them besides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first
from irtbench.data.shown import Drawn, counted, spanned

LEAST_SPREAD = 0.01  # of an ability in the norm sample, so that the smoothed norm has a density
MOST_NORMS = 100_000  # respondents of a study that become its norm sample: a percentile is then known to .16 points
NORM_DECIMALS = 4  # of theta in the norm sample: far below any standard error, and ties stay ties
MOST_ABILITY, MOST_WEIGHT = 100.0, 1e12  # of a respondent, in size


@dataclass(frozen=True, eq=False)
class Norms(Drawn, columns="theta, se=standard_error, weight=weights"):
    """The screened respondents of the reference population, as their abilities.

    Parameters
    ----------
    theta
        Ability of each respondent (EAP, or as estimated with the items), kept to ``NORM_DECIMALS`` decimals, shape
        (n,).
    weights
        Positive weight of each respondent where the sample is not drawn evenly, shape (n,); None for equal weights.
    standard_error
        Standard deviation of each respondent's posterior, kept to as many decimals, shape (n,); None if not known.
    groups
        What is known of the respondents besides: for each column its value for every respondent, None where missing.
    on_form
        Where ``theta`` is from more items than the scale has: the ability of each respondent on these alone, kept to as
        many decimals, shape (n,), which a system's rank is compared with. None where it is ``theta``.

    Raises
    ------
    InputError
        If the sample is empty, a value is not finite, a weight is not positive, an error is negative, or lengths
        differ.
    """

    theta: NDArray[np.float64]
    weights: NDArray[np.float64] | None = None
    standard_error: NDArray[np.float64] | None = None
    groups: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    on_form: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        theta = np.array(self.theta, dtype=np.float64).round(NORM_DECIMALS)
        if theta.ndim != 1 or theta.size == 0 or not (np.abs(theta) <= MOST_ABILITY).all():
            raise InputError(
                f"norms: theta must be a list of at least one finite number, each of at most {MOST_ABILITY:g} in size"
            )
        object.__setattr__(self, "theta", read_only(theta))
        if self.weights is not None:
            weights = np.array(self.weights, dtype=np.float64)
            if weights.shape != theta.shape:
                raise InputError(f"norms: {weights.size} weights for {theta.size} respondents")
            if not ((weights <= MOST_WEIGHT) & (weights > 0)).all():
                raise InputError(f"norms: weights must be positive and finite, of at most {MOST_WEIGHT:g}")
            object.__setattr__(self, "weights", read_only(weights))
        if self.standard_error is not None:
            error = np.array(self.standard_error, dtype=np.float64).round(NORM_DECIMALS)
            if error.shape != theta.shape:
                raise InputError(f"norms: {error.size} standard errors for {theta.size} respondents")
            if not ((error <= MOST_ABILITY) & (error >= 0)).all():
                raise InputError(f"norms: standard errors must be finite and not negative, of at most {MOST_ABILITY:g}")
            object.__setattr__(self, "standard_error", read_only(error))
        if self.on_form is not None:
            on_form = np.array(self.on_form, dtype=np.float64).round(NORM_DECIMALS)
            if on_form.shape != theta.shape or not (np.abs(on_form) <= MOST_ABILITY).all():
                raise InputError(f"norms: on_form must have a finite ability for each of {theta.size} respondents")
            object.__setattr__(self, "on_form", read_only(on_form))
        groups = {name: tuple(values) for name, values in self.groups.items()}
        for name, values in groups.items():
            if len(values) != theta.size:
                raise InputError(f"norms: column {name} has {len(values)} values for {theta.size} respondents")
        object.__setattr__(self, "groups", groups)

    @property
    def n(self) -> int:
        """Number of respondents."""
        return self.theta.size

    @property
    def compared(self) -> NDArray[np.float64]:
        """Abilities as shrunk as those of a system that answers the scale's items, shape (n,)."""
        return self.theta if self.on_form is None else self.on_form

    @cached_property
    def ranked(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What is compared in ascending order, and the sum of the weights below each and of all, shape (n + 1,)."""
        order = np.argsort(self.compared)
        weights = np.ones(self.n) if self.weights is None else self.weights[order]
        return self.compared[order], np.concatenate([[0.0], np.cumsum(weights)])

    @property
    def effective_n(self) -> float:
        """Number of respondents of equal weight that would tell as much, (sum w)^2 / sum w^2 (Kish, 1965)."""
        return self.n if self.weights is None else float(self.weights.sum() ** 2 / (self.weights**2).sum())

    @property
    def spread(self) -> NDArray[np.float64]:
        """Standard deviation of each respondent's ability about the EAP, shape (n,).

        Where no standard errors are kept it is one for all, sqrt(1 - variance of the EAPs): the reference population
        has variance 1, and EAPs lack what is not known of each. At least ``LEAST_SPREAD``.
        """
        if self.standard_error is not None:
            return np.maximum(self.standard_error, LEAST_SPREAD)
        mean = np.average(self.theta, weights=self.weights)
        variance = float(np.average((self.theta - mean) ** 2, weights=self.weights))
        return np.full(self.n, max(np.sqrt(max(1 - variance, 0.0)), LEAST_SPREAD))

    def group(self, column: str, value: str) -> Norms:
        """The respondents whose ``column`` has this value, as a norm sample of its own.

        Raises
        ------
        InputError
            If there is no such column, or nobody with the value.
        """
        if column not in self.groups:
            known = ", ".join(self.groups) or "none"
            raise InputError(f"norms: no column {column} of the respondents is kept; there is: {known}")
        chosen = np.array([entry == value for entry in self.groups[column]])
        if not chosen.any():
            values = sorted({entry for entry in self.groups[column] if entry is not None})
            raise InputError(f"norms: nobody has {column} {value}; expected one of {name_first(values)}")
        return Norms(
            self.theta[chosen],
            None if self.weights is None else self.weights[chosen],
            self.spread[chosen],
            {
                name: tuple(entry for entry, keep in zip(values, chosen, strict=True) if keep)
                for name, values in self.groups.items()
            },
            None if self.on_form is None else self.on_form[chosen],
        )

    def table(self) -> pd.DataFrame:
        """One row a respondent: ``theta, se, weight`` and the groups, as `with_norms` reads them."""
        return super().table().assign(**{name: pd.Series(values, dtype=object) for name, values in self.groups.items()})

    def in_short(self) -> str:
        """How many people, the range of their abilities, and what else is known of them."""
        known = f", by {name_first(list(self.groups))}" if self.groups else ""
        return f"{counted(self.n, 'respondent')}, theta {spanned(self.theta)}{known}"


def norm_places(n: int, seed: int) -> NDArray[np.intp]:
    """Which of so many respondents become the norm sample: all up to ``MOST_NORMS``, else so many drawn at random."""
    if n <= MOST_NORMS:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, MOST_NORMS, replace=False, shuffle=False))


def read_only(array: NDArray[np.float64]) -> NDArray[np.float64]:
    """The array, closed to writing."""
    array.setflags(write=False)
    return array
