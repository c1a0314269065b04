"""Propagation: what a model is unsure of, carried through any function of its predictions.

Samples of a structured prediction go through a deterministic function each, and the standard deviation of the results
is the uncertainty (Nguyen & O'Connor 2015, doi:10.18653/v1/D15-1182, sections 5 and 6). The two structures of the
paper stand in `coreference` and `event_counts`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from irtbench.data.input_error import InputError
from irtbench.data.shown import Shown
from irtbench.evaluation.proportion import check_level

Structure = TypeVar("Structure")
Interval = Literal["normal", "quantile"]


@dataclass(frozen=True, eq=False)
class Propagated(Shown):
    """A function of a prediction, with the prediction's uncertainty.

    Parameters
    ----------
    samples
        The function of each sample, shape (n_samples, ...).
    mean, sd, lower, upper
        Mean and standard deviation over samples, and the interval, each of the shape of the function's value.
    level
        Nominal coverage of each interval, reached if the model is calibrated.
    """

    samples: NDArray[np.float64]
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    level: float

    def table(self) -> pd.DataFrame:
        """One row a value of the function, in the order of its elements: ``mean, sd, lower, upper``."""
        return pd.DataFrame({name: np.ravel(getattr(self, name)) for name in ("mean", "sd", "lower", "upper")})


def propagate(
    samples: Iterable[Structure],
    function: Callable[[Structure], ArrayLike],
    *,
    level: float = 0.95,
    interval: Interval = "normal",
) -> Propagated:
    """Apply a deterministic function to samples of a structured prediction.

    Parameters
    ----------
    samples
        Independent draws of the whole prediction: taggings, parses, clusterings, an array with one a row.
    function
        Gives a number, or an array of the same shape for every sample.
    level
        Nominal coverage of each interval.
    interval
        ``normal``: mean +- z sd, as the paper has it; ``quantile``: the quantiles of the samples, for values that are
        skewed or near a bound.

    Raises
    ------
    InputError
        If there is no sample, or ``level`` does not lie between 0 and 1.

    Warns
    -----
    RuntimeWarning
        If there is one sample (sd and interval are NaN), or the function is undefined (NaN) for some samples: what
        depends on these is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> taggings = rng.random((1000, 50)) < 0.3
    >>> found = irtbench.propagate(taggings, np.mean)
    >>> found.table().round(2)
       mean    sd  lower  upper
    0   0.3  0.06   0.17   0.43
    """
    values = [np.asarray(function(sample), dtype=np.float64) for sample in samples]
    if not values:
        raise InputError("propagation: expected at least one sample but there is none")
    return summarise_samples(np.stack(values), level=level, interval=interval)


def summarise_samples(
    samples: NDArray[np.float64], *, level: float = 0.95, interval: Interval = "normal"
) -> Propagated:
    """Mean and interval over samples, shape (n_samples, ...); options, errors and warnings as for ``propagate``."""
    z = check_level(level, where="propagation")
    samples = np.asarray(samples, dtype=np.float64)
    mean = samples.mean(axis=0)
    if len(samples) == 1:
        warnings.warn("propagation: one sample has no standard deviation", RuntimeWarning, stacklevel=3)
        unknown = np.full(mean.shape, np.nan)
        return Propagated(samples, mean, unknown, unknown, unknown, level)
    if np.isnan(mean).any():
        warnings.warn(
            "propagation: the function is undefined for some samples, and so is its mean", RuntimeWarning, stacklevel=3
        )
    sd = samples.std(axis=0, ddof=1)
    if interval == "normal":
        lower, upper = mean - z * sd, mean + z * sd
    else:
        lower, upper = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return Propagated(samples, mean, sd, lower, upper, level)


# -- coreference: each mention draws an antecedent, clusters are the connected components ----------------------------
