"""Interval of the calibration error by sampling: Algorithm 2 of Nguyen & O'Connor (2015)."""

from __future__ import annotations

import warnings

import numpy as np

from irtbench.data.input_error import InputError
from irtbench.evaluation.proportion import check_level
from irtbench.evaluation.reliability import ReliabilityCurve


def error_interval(
    curve: ReliabilityCurve, *, n_samples: int = 10_000, level: float = 0.95, rng: np.random.Generator
) -> tuple[float, float]:
    """Interval of the calibration error: Algorithm 2, as printed.

    For each sample, ``p_B ~ N(p_B, p_B (1 - p_B) / |B|)``, clipped to [0, 1], gives an error by ``calibration_error``;
    the interval is their mean +- z sd. The observed gaps hold chance already and each sample adds as much again, so
    the interval lies above the truth, and misses it, unless the error is large beside ``sqrt(p (1 - p) / |B|)``; a bin
    in which all labels are the same adds nothing. ``debiased_squared_error`` stands beside it for that reason.

    Raises
    ------
    InputError
        If there are fewer than 2 samples or ``level`` does not lie between 0 and 1.

    Warns
    -----
    RuntimeWarning
        If in no bin the labels differ: nothing varies, and the interval is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> predicted = rng.random(400)
    >>> labels = (rng.random(400) < predicted**2).astype(float)
    >>> curve = irtbench.reliability_curve(predicted, labels, irtbench.adaptive_bins(predicted, 40))
    >>> lower, upper = irtbench.error_interval(curve, n_samples=1000, rng=rng)
    >>> lower < irtbench.calibration_error(curve) < upper
    True
    """
    z = check_level(level, where="calibration")
    if n_samples < 2:
        raise InputError(f"calibration: n_samples must be at least 2 but got {n_samples}")
    sd = np.sqrt(curve.observed_share * (1 - curve.observed_share) / curve.n)
    if not sd.any():
        warnings.warn(
            "calibration: the interval is undefined: in no bin do the labels differ", RuntimeWarning, stacklevel=3
        )
        return np.nan, np.nan
    errors = np.empty(n_samples)
    batch = max(1, 2_000_000 // sd.size)
    for start in range(0, n_samples, batch):
        part = errors[start : start + batch]
        drawn = np.clip(curve.observed_share + sd * rng.standard_normal((part.size, sd.size)), 0, 1)
        part[:] = np.sqrt((curve.mean_predicted - drawn) ** 2 @ curve.n / curve.n.sum())
    return float(errors.mean() - z * errors.std(ddof=1)), float(errors.mean() + z * errors.std(ddof=1))
