"""A proportion: its interval, and its variance over items and over trials (NumPy and SciPy's special functions)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from irtbench.data.input_error import InputError, demand_share, refuse_any
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.data.shown import Figures


def check_level(level: float, *, where: str) -> float:
    """Return the standard normal quantile that leaves (1 - level) / 2 above it."""
    demand_share(f"{where}: level", level)
    return float(ndtri((1 + level) / 2))


@np.errstate(invalid="ignore", divide="ignore")
def wilson_interval(
    n_successes: ArrayLike, n: ArrayLike, *, level: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Wilson's score interval of proportions, of the shape of its arguments; NaN where n is 0.

    (p + z^2 / 2n +- z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)            (Wilson, 1927)

    Unlike p +- z sqrt(p (1 - p) / n) it stays in [0, 1] and has a width at p = 0 and p = 1. It always covers p itself:
    at 0 and n successes it ends there, which rounding must not change, and so lower <= p <= upper holds to the last bit
    for p as n_successes / n gives it.

    Raises
    ------
    InputError
        If ``level`` does not lie between 0 and 1.

    Examples
    --------
    >>> lower, upper = wilson_interval(0, 10)
    >>> print(f"{lower:.4f} {upper:.4f}")
    0.0000 0.2775
    """
    z = check_level(level, where="Wilson interval")
    count, size = np.asarray(n_successes, dtype=np.float64), np.asarray(n, dtype=np.float64)
    p = count / size
    centre = (p + z**2 / (2 * size)) / (1 + z**2 / size)
    half = z * np.sqrt(p * (1 - p) / size + z**2 / (4 * size**2)) / (1 + z**2 / size)
    return np.minimum(np.clip(centre - half, 0, 1), p), np.maximum(np.clip(centre + half, 0, 1), p)


#: Numbers of trials of the table.
TRIALS = (1, 2, 5, 10)


@dataclass(frozen=True)
class TrialVariance(Figures):
    """How a system's probability of a right response varies over items, and its responses over trials of an item.

    Parameters
    ----------
    accuracy
        Mean over items of the probability p.
    between
        Variance of p over items.
    within
        Mean over items of p (1 - p), the variance of one trial.
    """

    accuracy: float
    between: float
    within: float

    @property
    def agreement(self) -> float:
        """Probability that two trials of an item are both right or both wrong, 1 - 2 within."""
        return 1 - 2 * self.within

    def standard_error(self, n_items: int, n_trials: int) -> float:
        """Standard error of the accuracy on so many items drawn at random, each tried so many times.

        sqrt(between / n_items + within / (n_items n_trials)), the variance of a mean in two-stage sampling (Cochran,
        1977, ch. 10).

        Examples
        --------
        >>> variance = TrialVariance.of_agreement(0.7, 0.9)
        >>> round(variance.standard_error(100, 1), 4), round(variance.standard_error(100, 5), 4)
        (0.0458, 0.0412)
        """
        return float(np.sqrt((self.between + self.within / n_trials) / n_items))

    @classmethod
    def of_agreement(cls, accuracy: float, agreement: float) -> TrialVariance:
        """From an accuracy and the share of items on which two trials agree.

        Raises
        ------
        InputError
            If the accuracy lies outside [0, 1], or trials agree less often than if items did not matter.
        """
        least = 1 - 2 * accuracy * (1 - accuracy)
        refuse_any((
            (not 0 <= accuracy <= 1, f"trials: accuracy must be between 0 and 1 but got {accuracy:g}"),
            (not least - 1e-12 <= agreement <= 1,
             f"trials: an agreement of {agreement:g}; expected {least:.3g}, where all items are alike, to 1 with an "
             f"accuracy of {accuracy:g}"),
        ))  # fmt: skip
        within = (1 - agreement) / 2
        return cls(accuracy, max(accuracy * (1 - accuracy) - within, 0.0), within)

    @classmethod
    def of_shares(cls, mean: ArrayLike, variance: ArrayLike) -> TrialVariance:
        """From mean and variance of one response to each item, as a share of its points."""
        p, within = np.asarray(mean, dtype=np.float64), np.asarray(variance, dtype=np.float64)
        return cls(float(p.mean()), float(p.var(ddof=1)) if p.size > 1 else 0.0, float(within.mean()))

    @classmethod
    def of_responses(cls, responses: ResponseMatrix) -> TrialVariance:
        """Estimated from k right of n trials, averaged over respondents.

        Without bias: within from k (n - k) / (n (n - 1)) of the items tried twice or more; between from the variance of
        k / n over items less what the trials add to it, within times the mean of 1 / n, at least 0.

        Raises
        ------
        InputError
            Naming respondents who tried no item twice, or only one item.
        """
        k, n = np.nan_to_num(responses.correct), responses.n_trials
        short = ~(n > 1).any(axis=1) | ((n > 0).sum(axis=1) < 2)
        if names := [responses.respondent_ids[i] for i in np.flatnonzero(short)]:
            raise InputError(
                f"trials: respondent {name_first(names)}: expected responses to two items at least, and one of them "
                "tried twice"
            )
        tried, again = np.where(n > 0, n, np.nan), np.where(n > 1, n, np.nan)
        within = np.nanmean(k * (again - k) / (again * (again - 1)), axis=1)
        between = np.nanvar(k / tried, axis=1, ddof=1) - within * np.nanmean(1 / tried, axis=1)
        figures = np.nanmean(k / tried, axis=1), np.maximum(between, 0.0), within
        return cls(*np.mean(figures, axis=1).tolist())


def trial_table(
    variance: TrialVariance,
    *,
    sizes: Sequence[int],
    trials: Sequence[int] = TRIALS,
    information: float | None = None,
) -> pd.DataFrame:
    """Standard errors by the number of items and of trials, and with one more of either.

    Parameters
    ----------
    variance
        Of the system.
    sizes, trials
        Numbers of items, and of trials of each.
    information
        Mean Fisher information of an item about theta at the system's ability, for the standard error of theta,
        1 / sqrt(1 + n_items n_trials information); None to leave it out.

    Returns
    -------
    DataFrame
        Columns ``n_items, n_trials, n_responses, se_accuracy, se_these_items`` (of the accuracy on these very items, by
        trials alone)``, se_with_trial`` (all items once more)``, se_with_item`` (an item more)``, items_worth`` (new
        items that would lower the standard error as much as the trial)``, response_worth`` (what a response to another
        trial is worth in responses to new items), and with information ``se_theta, se_theta_with_trial,
        se_theta_with_item``.

    Raises
    ------
    InputError
        If there is no item or no trial.

    Examples
    --------
    >>> import irtbench
    >>> variance = irtbench.TrialVariance.of_agreement(0.7, 0.9)
    >>> found = irtbench.trial_table(variance, sizes=[100], trials=[1, 5])
    >>> found[["n_trials", "n_responses", "se_accuracy", "se_with_trial", "items_worth"]].round(3)
       n_trials  n_responses  se_accuracy  se_with_trial  items_worth
    0         1          100        0.046          0.043       13.514
    1         5          500        0.041          0.041        0.990
    """
    if min(sizes) < 1 or min(trials) < 1:
        raise InputError(f"trials: expected at least one item and one trial but got {min(sizes)} and {min(trials)}")
    return pd.DataFrame([_row(variance, n_items, n, information) for n_items in sizes for n in trials])


def _row(variance: TrialVariance, n_items: int, n: int, information: float | None) -> dict[str, float]:
    """Of so many items with n trials of each."""
    now, then = (variance.between + variance.within / times for times in (n, n + 1))
    worth = n_items * (now / then - 1) if then > 0 else 0.0
    row = {
        "n_items": n_items,
        "n_trials": n,
        "n_responses": n_items * n,
        "se_accuracy": variance.standard_error(n_items, n),
        "se_these_items": float(np.sqrt(variance.within / n / n_items)),
        "se_with_trial": variance.standard_error(n_items, n + 1),
        "se_with_item": variance.standard_error(n_items + 1, n),
        "items_worth": worth,
        "response_worth": worth * n / n_items,
    }
    if information is not None:
        known = {"se_theta": n_items * n, "se_theta_with_trial": n_items * (n + 1)}
        known["se_theta_with_item"] = (n_items + 1) * n
        row |= {name: float(1 / np.sqrt(1 + number * information)) for name, number in known.items()}
    return row
