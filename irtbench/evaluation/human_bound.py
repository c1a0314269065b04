"""Human accuracy: a crowd filter on items, and bounds of what people reach on the items that pass it.

The procedure of OpenBookQA (Mihaylov, Clark, Khot & Sabharwal, EMNLP 2018, doi:10.18653/v1/D18-1260): an item stays if
at least k of n people answer it right, and the same votes bound human accuracy by Hoeffding's inequality.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError, demand_choice, demand_share, refuse_any
from irtbench.data.responses import name_first
from irtbench.data.shown import Drawn, Figures
from irtbench.evaluation.paired_tests import resampled_means
from irtbench.evaluation.proportion import check_level, wilson_interval

OtherCounts = Literal["error", "exclude", "share"]


@dataclass(frozen=True, eq=False)
class CrowdFilter(
    Drawn, columns="item_ids, n_votes, n_correct, kept", short="{kept.sum} of {item_ids:item} pass {k} of {n} right"
):
    """Which items enough people answer right; all arrays have shape (n_items,).

    Its table has one row an item.

    Parameters
    ----------
    item_ids
        The items.
    n_votes, n_correct
        People who answered, and who answered right.
    kept
        Whether the item passes.
    k, n
        The rule: at least k of n right.
    """

    item_ids: tuple[str, ...]
    n_votes: NDArray[np.int64]
    n_correct: NDArray[np.int64]
    kept: NDArray[np.bool_]
    k: int
    n: int


@dataclass(frozen=True)
class HumanAccuracy(Figures, Drawn):
    """What people reach on a set of items, with bounds.

    Parameters
    ----------
    n_items, n_votes
        Items, and votes on them.
    accuracy
        Share of right votes.
    margin, hoeffding_lower, confidence
        With at least this confidence the true accuracy is not below ``hoeffding_lower`` = accuracy - margin
        (``hoeffding_confidence``): one-sided, without any assumption on how items differ.
    level
        Nominal coverage of the two-sided intervals below.
    wilson_lower, wilson_upper
        Interval if votes were independent draws of one accuracy (``wilson_interval``).
    bootstrap_lower, bootstrap_upper
        Percentile interval if the items, each with its votes, are drawn again.
    """

    n_items: int
    n_votes: int
    accuracy: float
    margin: float
    hoeffding_lower: float
    confidence: float
    level: float
    wilson_lower: float
    wilson_upper: float
    bootstrap_lower: float
    bootstrap_upper: float


@dataclass(frozen=True)
class SeedSummary(Figures):
    """A score over runs that differ in their random seed: mean, standard deviation and range."""

    n_runs: int
    mean: float
    sd: float
    lowest: float
    highest: float


def crowd_filter(
    responses: ResponsesLike, *, k: int = 4, n: int = 5, other_counts: OtherCounts = "error"
) -> CrowdFilter:
    """Keep an item if at least k of its n votes are right.

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`) of people.
    k, n
        The rule; OpenBookQA's is 4 of 5.
    other_counts
        What an item with more or fewer votes than n means: an error, an item that does not pass (``exclude``), or one
        that passes if its share of right votes is at least k / n (``share``). An item without votes never passes.

    Raises
    ------
    InputError
        If not 1 <= k <= n, or (by default) an item has not n votes.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> votes = pd.DataFrame({"q1": [1, 1, 1, 1, 0], "q2": [1, 1, 0, 1, 0], "q3": [1, 1, 1, 1, 1]})
    >>> found = irtbench.crowd_filter(votes)
    >>> found
    <CrowdFilter: 2 of 3 items pass 4 of 5 right>
    >>> found.kept
    array([ True, False,  True])
    """
    responses = as_responses(responses)
    demand_choice("crowd filter: other_counts", other_counts, OtherCounts)
    votes = responses.observed.sum(axis=0)
    correct = np.nansum(responses.values, axis=0).astype(np.int64)
    other = [f"{responses.item_ids[j]} ({votes[j]})" for j in np.flatnonzero(votes != n)]
    refuse_any((
        (not 1 <= k <= n, f"crowd filter: expected 1 <= k <= n but got k = {k}, n = {n}"),
        (other_counts == "error" and other,
         f"crowd filter: expected {n} votes on every item but got other numbers on {name_first(other)}; "
         "say whether to exclude them or to go by their share"),
    ))  # fmt: skip
    by_share = (correct * n >= k * votes) & (votes > 0)
    kept = by_share if other_counts == "share" else by_share & (votes == n)
    return CrowdFilter(responses.item_ids, votes, correct, kept, k, n)


def human_accuracy(
    n_correct: ArrayLike,
    n_votes: ArrayLike,
    *,
    margin: float = 0.03,
    level: float = 0.95,
    n_resamples: int = 10_000,
    rng: np.random.Generator,
) -> HumanAccuracy:
    """Accuracy of people on a set of items, with Hoeffding's bound, Wilson's interval and the bootstrap's.

    OpenBookQA takes the votes of the items that the filter kept. These passed because of these very votes, so their
    accuracy lies above that of new votes; ``fresh_accuracy`` says by how much at most.

    Parameters
    ----------
    n_correct, n_votes
        Right votes and votes on each item, shape (n_items,).
    margin
        How far below the observed accuracy the bound lies.
    level
        Nominal coverage of the two-sided intervals.
    n_resamples
        Resamples of the items.
    rng
        Draws them.

    Raises
    ------
    InputError
        If the lengths differ, the counts are negative or more right than cast, or a setting is out of range.

    Warns
    -----
    RuntimeWarning
        If there is no vote: all figures are NaN. If all items have the same share of right votes: the bootstrap's are.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> people = irtbench.human_accuracy([5, 4, 5, 4] * 50, [5] * 200, rng=np.random.default_rng(1))
    >>> people.accuracy, round(people.confidence, 2)
    (0.9, 0.83)
    """
    correct, votes = _of_items_with_votes(np.asarray(n_correct), np.asarray(n_votes))
    check_level(level, where="human accuracy")
    if n_resamples < 2:
        raise InputError(f"human accuracy: n_resamples must be at least 2 but got {n_resamples}")
    n = int(votes.sum())
    confidence = hoeffding_confidence(n, margin)
    if n == 0:
        warnings.warn("human accuracy is undefined: there is no vote", RuntimeWarning, stacklevel=2)
        return HumanAccuracy(0, 0, np.nan, margin, np.nan, np.nan, level, np.nan, np.nan, np.nan, np.nan)
    accuracy = float(correct.sum() / n)
    low, high = map(float, wilson_interval(correct.sum(), n, level=level))
    drawn = _bootstrap(correct, votes, n_resamples, level, rng)
    return HumanAccuracy(votes.size, n, accuracy, margin, accuracy - margin, confidence, level, low, high, *drawn)


def fresh_accuracy(result: CrowdFilter) -> tuple[float, float]:
    """Bounds of the accuracy of a new vote on the items that pass, free of the filter's selection.

    Each vote is taken out in turn and the filter applied to the n - 1 others. Asked for k - 1 of them it is laxer than
    k of n, asked for k it is stricter, and the vote that is out had no say: its accuracy is what a new vote has. An
    item that the stricter rule keeps the rule k of n keeps, and what that keeps the laxer keeps, and easier items pass
    more often, so the accuracy on the filtered items lies between the two, up to their sampling error.
    With few items that error may turn them round; the smaller is the lower bound all the same.

    Returns
    -------
    lower, upper
        NaN with a warning where no vote is left, as for the upper bound if k = n.

    Notes
    -----
    Of an item with c right among n votes, the c right ones are out in turn with c - 1 right left, and the n - c wrong
    ones with c left. Items with other numbers of votes are left out.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> votes = pd.DataFrame({"q1": [1, 1, 1, 1, 0], "q2": [1, 1, 0, 1, 0], "q3": [1, 1, 1, 1, 1]})
    >>> lower, upper = irtbench.fresh_accuracy(irtbench.crowd_filter(votes))
    >>> round(lower, 2), round(upper, 2)
    (0.75, 0.83)
    """
    c = result.n_correct[result.n_votes == result.n]
    bounds = []
    for needed in (result.k - 1, result.k):
        right = c[c - 1 >= needed].sum()
        wrong = (result.n - c[c >= needed]).sum()
        if right + wrong == 0:
            warnings.warn(
                f"human accuracy of a new vote is undefined: no item has {needed} of {result.n - 1} others right",
                RuntimeWarning,
                stacklevel=2,
            )
        bounds.append(float(right / (right + wrong)) if right + wrong else np.nan)
    lower, upper = sorted(bounds)  # which leaves NaN in its place
    return lower, upper


def hoeffding_confidence(n: int, margin: float) -> float:
    """Confidence that the true mean of n independent votes is not below the observed one by ``margin`` or more.

    1 - exp(-2 n margin^2)                                                             (Hoeffding, 1963)

    Raises
    ------
    InputError
        If n is negative or the margin does not lie in (0, 1).

    Examples
    --------
    >>> print(f"{hoeffding_confidence(2_500, 0.03):.4f}, {hoeffding_confidence(2_500, 0.025):.4f}")
    0.9889, 0.9561
    """
    if n < 0:
        raise InputError(f"Hoeffding's bound: n must be at least 0 but got {n}")
    demand_share("Hoeffding's bound: margin", margin)
    return float(-np.expm1(-2 * n * margin**2))


def hoeffding_margin(n: int, confidence: float) -> float:
    """The margin that ``hoeffding_confidence`` gives this confidence: sqrt(-log(1 - confidence) / 2n).

    Raises
    ------
    InputError
        If n is below 1 or the confidence does not lie between 0 and 1.

    Examples
    --------
    >>> import irtbench
    >>> round(irtbench.hoeffding_margin(2500, 0.95), 3)
    0.024
    """
    if n < 1:
        raise InputError(f"Hoeffding's bound: n must be at least 1 but got {n}")
    demand_share("Hoeffding's bound: confidence", confidence)
    return float(np.sqrt(-np.log1p(-confidence) / (2 * n)))


def over_seeds(scores: Sequence[float] | NDArray[np.float64]) -> SeedSummary:
    """Mean and standard deviation (n - 1) of one system's score over runs with different seeds.

    Raises
    ------
    InputError
        If there is no score, or one is not finite.

    Warns
    -----
    RuntimeWarning
        If there is one run: its standard deviation is NaN.

    Examples
    --------
    >>> import irtbench
    >>> irtbench.over_seeds([0.71, 0.69, 0.73])
    <SeedSummary: n_runs 3, mean 0.71, sd 0.02, lowest 0.69, highest 0.73>
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.size == 0 or not np.isfinite(values).all():
        raise InputError("seeds: expected at least one score, and finite ones only")
    if values.size == 1:
        warnings.warn("seeds: one run has no standard deviation", RuntimeWarning, stacklevel=2)
    sd = float(values.std(ddof=1)) if values.size > 1 else np.nan
    return SeedSummary(values.size, float(values.mean()), sd, float(values.min()), float(values.max()))


def _of_items_with_votes(
    correct: NDArray[np.int64], votes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Right votes and votes on each item that has any."""
    fits = correct.ndim == 1 and correct.shape == votes.shape
    refuse_any((
        (not fits, f"human accuracy: {correct.size} counts of right votes for {votes.size} counts of votes"),
        (fits and ((correct < 0) | (correct > votes)).any(),
         "human accuracy: expected 0 <= right votes <= votes for every item"),
    ))  # fmt: skip
    return correct[votes > 0], votes[votes > 0]


def _bootstrap(
    correct: NDArray[np.int64], votes: NDArray[np.int64], n_resamples: int, level: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Percentile interval of the share of right votes; NaN with a warning where the items' shares do not differ."""
    if np.ptp(correct / votes) == 0:
        warnings.warn(
            "human accuracy: all items have the same share of right votes; nothing varies in resamples",
            RuntimeWarning,
            stacklevel=3,
        )
        return np.nan, np.nan
    tails = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(resampled_means(correct, votes, n_resamples, rng), tails)
    return float(low), float(high)
