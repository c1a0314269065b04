"""Items compared between groups: how large a difference is, anchors that have none, respondents of one score."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import compress
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError, refuse_any
from irtbench.data.responses import ResponseMatrix, demand_single, name_first
from irtbench.data.shown import Drawn
from irtbench.models.coded_scores import MISSING, CodedScores

Grade = Literal["A", "B", "C", ""]
Statistics = NDArray[np.float64]
Found = TypeVar("Found")

DELTA_PER_LOGIT = 2.35  # 4 / 1.7: the delta scale of the Educational Testing Service
MODERATE_DELTA, LARGE_DELTA = 1.0, 1.5  # Zieky (1993)
MODERATE_R2, LARGE_R2 = 0.035, 0.070  # Jodoin & Gierl (2001)
ONE_SIDED_95 = 1.645
FEWEST_IN_GROUP = 10
FEWEST_ITEMS = 3
LEAST_SHARE_OF_ANCHORS = 0.25
MOST_ROUNDS = 50


@np.errstate(invalid="ignore", divide="ignore")
def ets_class(
    delta: NDArray[np.float64], error: NDArray[np.float64], significant: NDArray[np.bool_]
) -> tuple[Grade, ...]:
    """Classes of the Educational Testing Service (Zieky, 1993).

    A: delta within 1 of 0, or not significantly different from 0. C: 1.5 or more to either side and significantly more
    than 1, one-sided at .05. B: what is neither. Empty where delta is not finite.
    """
    absolute = np.abs(delta)
    above_one = (absolute - MODERATE_DELTA) / error > ONE_SIDED_95
    negligible = (absolute < MODERATE_DELTA) | ~significant
    large = (absolute >= LARGE_DELTA) & above_one
    grades = np.where(negligible, "A", np.where(large, "C", "B"))
    return tuple(np.where(np.isfinite(delta), grades, "").tolist())


def jodoin_gierl_class(r2_change: NDArray[np.float64]) -> tuple[Grade, ...]:
    """Classes of the change of Nagelkerke's R2 (Jodoin & Gierl, 2001): A below .035, C from .070, B between.

    Examples
    --------
    >>> jodoin_gierl_class(np.array([0.034, 0.035, 0.07, np.nan]))
    ('A', 'B', 'C', '')
    """
    grades = np.where(r2_change < MODERATE_R2, "A", np.where(r2_change < LARGE_R2, "B", "C"))
    return tuple(np.where(np.isnan(r2_change), "", grades).tolist())


def nagelkerke(log_likelihood: float, counts: NDArray[np.float64]) -> float:
    """R2 = (1 - (L0 / L)^(2/n)) / (1 - L0^(2/n)), with L0 the likelihood of the outcomes' shares alone."""
    n, there = float(counts.sum()), counts[counts > 0]
    log_l0 = float((there * np.log(there / n)).sum())
    return float(-np.expm1(2 / n * (log_l0 - log_likelihood)) / -np.expm1(2 / n * log_l0))


@dataclass(frozen=True, eq=False)
class ItemDifferences(Drawn, short="{item_ids:item}, {p_adjusted:significant}"):
    """Base of results that compare each item between groups: arrays of shape (n_items,)."""

    item_ids: tuple[str, ...]
    p: NDArray[np.float64]
    p_adjusted: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DifferencesByScore(ItemDifferences):
    """Base of those that compare respondents of the same sum score, which the anchors make."""

    groups: dict[str, int]
    df: int
    anchor: NDArray[np.bool_]
    rounds: int
    settled: bool
    n_left_out: int


@dataclass(frozen=True, eq=False)
class MatchedGroups:
    """Complete responses of respondents of two groups or more.

    Parameters
    ----------
    values
        Responses 1 or 0, or categories 0, 1, ..., shape (n_respondents, n_items).
    group
        Number of each respondent's group, 0 for the reference, shape (n_respondents,).
    names
        Of the groups, the reference first.
    item_ids
        The items.
    n_left_out
        Respondents left out because they had no group or did not answer all items.
    """

    values: NDArray[np.int64]
    group: NDArray[np.int64]
    names: tuple[str, ...]
    item_ids: tuple[str, ...]
    n_left_out: int

    @property
    def sizes(self) -> dict[str, int]:
        """Respondents of each group."""
        return {name: int((self.group == number).sum()) for number, name in enumerate(self.names)}

    def score(self, item: int, anchor: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Number of right responses, or points, on the anchors and the studied item, shape (n_respondents,).

        The studied item is part of the score: without it the test is biased even under a Rasch model (Holland &
        Thayer, 1988).
        """
        counted = anchor | (np.arange(anchor.size) == item)
        return self.values @ counted.astype(np.int64)


def coded(responses: ResponseMatrix | CodedScores) -> NDArray[Any]:
    """Categories, or 1 and 0 (numbers right of several trials), -1 where missing, shape (n_respondents, n_items)."""
    return responses.codes if isinstance(responses, CodedScores) else responses.coded_responses


def match_groups(
    responses: ResponseMatrix | CodedScores, groups: Iterable[str | None], reference: str | None
) -> MatchedGroups:
    """Keep who belongs to a group, not None, and answered every item; None for the largest as reference."""
    demand_single(responses, "matching by sum score (by ability it is)")
    codes = coded(responses)
    groups = [None if pd.isna(name) else str(name) for name in groups]
    n_items, names = responses.n_items, list(dict.fromkeys(name for name in groups if name is not None))
    refuse_any((
        (len(groups) != len(codes),
         f"item bias: {len(groups)} groups for {len(codes)} respondents; expected as many"),
        (n_items < FEWEST_ITEMS, f"item bias: {n_items} items; expected at least {FEWEST_ITEMS}, to have a score"),
        (len(names) < 2, "item bias: expected respondents of two groups or more but all are in one"),
    ))  # fmt: skip
    reference = max(names, key=groups.count) if reference is None else str(reference)
    if reference not in names:
        raise InputError(f"item bias: no respondent is in group {reference}; expected one of {name_first(names)}")
    ordered = (reference, *(name for name in names if name != reference))
    group = pd.Categorical(groups, ordered).codes.astype(np.int64)  # -1 for None
    kept = (codes != MISSING).all(axis=1) & (group >= 0)
    values = codes[kept].astype(np.int64)
    matched = MatchedGroups(values, group[kept], ordered, responses.item_ids, int((~kept).sum()))
    constant = [*compress(responses.item_ids, (values == values[:1]).all(axis=0))]
    refuse_any((
        *((size < FEWEST_IN_GROUP,
           f"item bias: {size} respondents in group {name} answered all {n_items} items; a sum score "
           f"needs at least {FEWEST_IN_GROUP}, the likelihood ratio works with missing responses")
          for name, size in matched.sizes.items()),
        (constant,
         f"item bias: all responses are the same for item {name_first(constant)}; leave such items out"),
    ))  # fmt: skip
    return matched


def most_alike(statistic: NDArray[np.float64], flagged: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Anchors: the items not flagged, and always the quarter with the smallest statistics, shape (n_items,)."""
    anchor = ~flagged
    fewest = max(1, int(np.ceil(LEAST_SHARE_OF_ANCHORS * len(flagged))))
    anchor[np.argsort(statistic, kind="stable")[:fewest]] = True
    return anchor


def purified_anchors(
    test: Callable[[NDArray[np.bool_]], tuple[Statistics, Statistics, Found]],
    anchor: NDArray[np.bool_],
    *,
    alpha: float,
    purify: bool,
    most_rounds: int = MOST_ROUNDS,
) -> tuple[NDArray[np.bool_], tuple[Statistics, Statistics, Found], int, bool]:
    """The anchors, what the test found by them, the number of sets tried, and whether the last one stayed.

    Of one set of anchors the next has all items that are not significant by it, until a set comes again (Candell &
    Drasgow, 1988).
    """
    tried = set[bytes]()
    while True:
        tried.add(anchor.tobytes())
        found = test(anchor)
        following = most_alike(found[0], found[1] < alpha)
        if not purify or following.tobytes() in tried or len(tried) == most_rounds:
            return anchor, found, len(tried), not purify or bool((following == anchor).all())
        anchor = following
