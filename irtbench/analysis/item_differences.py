"""Items compared between groups: how large a difference is, anchors that have none, respondents of one score.

Which items agree in two groups is seen where each group has a scale of its own, linked by those that agree best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import compress
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import chdtri

from irtbench.data.input_error import refuse_any
from irtbench.data.responses import ResponseMatrix, demand_single, name_first
from irtbench.data.shown import Drawn
from irtbench.models.category_parameters import CategoryParameters, turned
from irtbench.models.coded_scores import MISSING, CodedScores
from irtbench.models.item_parameters import ItemParameters

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
    reference = max(names, key=groups.count, default="") if reference is None else str(reference)
    refuse_any((
        (len(groups) != len(codes),
         f"item bias: {len(groups)} groups for {len(codes)} respondents; expected as many"),
        (n_items < FEWEST_ITEMS, f"item bias: {n_items} items; expected at least {FEWEST_ITEMS}, to have a score"),
        (len(names) < 2, "item bias: expected respondents of two groups or more but all are in one"),
        (reference not in names,
         f"item bias: no respondent is in group {reference}; expected one of {name_first(names)}"),
    ))  # fmt: skip
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


FEWEST_TO_LINK = 50  # respondents of a group from which its items are estimated alone
SHARE_TRUSTED = 0.5  # of the items, those that agree best
LEVEL = 0.05  # of W, from which on an item does not agree
ASYMPTOTES = ("c", "u")  # which do not say where an item is
MOST_STEPS = 20


def agreeing_items(
    estimated: Callable[[NDArray[np.bool_]], ItemParameters | None],
    focal: NDArray[np.bool_],
    observed: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Items with the same curve in both groups as far as one can see, shape (n_items,).

    The items are estimated in each group alone and linked, see `TwoScales.agreeing`. All items where a group is too
    small for that, or a fit fails.
    """
    everything = np.ones(observed.shape[1], dtype=np.bool_)
    parts = [part & observed.any(axis=1) for part in (~focal, focal)]
    if any(part.sum() < max(FEWEST_TO_LINK, observed.shape[1]) for part in parts):
        return everything
    reference, other = (estimated(part) for part in parts)
    return everything if reference is None or other is None else TwoScales.of(reference, other).agreeing()


@dataclass(frozen=True, eq=False)
class PlacedItems:
    """The parameters of items that say where they are and how steep.

    Parameters
    ----------
    values, covariance
        All parameters but asymptotes, shape (n_items, width), and their covariance; 0 where an item has none.
    own
        Which an item has.
    slopes, loads
        See `CategoryParameters.moves`.
    """

    values: NDArray[np.float64]
    covariance: NDArray[np.float64]
    own: NDArray[np.bool_]
    slopes: NDArray[np.float64]
    loads: NDArray[np.float64]

    @classmethod
    def of(cls, items: ItemParameters) -> PlacedItems:
        """Of items whose covariances are known; right and wrong are two categories."""
        known = CategoryParameters.of_right_or_wrong(items) if items.categories is None else items.categories
        assert known.covariance is not None
        slopes, loads = known.moves
        own = np.zeros(slopes.shape, dtype=np.bool_)
        for row, names in zip(own, known.names, strict=True):
            row[: len(names)] = [name not in ASYMPTOTES for name in names]
        covariance = known.covariance * own[:, :, None] * own[:, None, :]
        return cls(np.where(own, known.parameters, 0.0), covariance, own, slopes, loads)


@dataclass(frozen=True, eq=False)
class TwoScales:
    """The same items on the scales of two groups: theta_reference = A theta_focal + B, at the place (log A, B)."""

    reference: PlacedItems
    focal: PlacedItems
    start: NDArray[np.float64]

    @classmethod
    def of(cls, reference: ItemParameters, focal: ItemParameters) -> TwoScales:
        """Of items with covariances; in categories both or neither."""
        return cls(PlacedItems.of(reference), PlacedItems.of(focal), starting_place(reference, focal))

    @property
    def df(self) -> NDArray[np.int64]:
        """Degrees of freedom of an item's difference, shape (n_items,): the number of parameters but asymptotes."""
        return self.reference.own.sum(axis=1)

    def differences(self, place: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Parameters of each item less those of the focal group's, turned, (n_items, width), and their covariance.

        What is behind an item's last differs by 0.
        """
        turn = turned(self.focal.slopes, self.focal.loads, np.exp(place[0]), place[1])
        covariance = self.reference.covariance + turn @ self.focal.covariance @ turn.transpose(0, 2, 1)
        covariance += np.eye(turn.shape[1]) * ~self.focal.own[:, :, None]
        return self.reference.values - np.einsum("jab,jb->ja", turn, self.focal.values), covariance

    def disagreement(self, place: NDArray[np.float64]) -> NDArray[np.float64]:
        """Lord's chi-square of each item, shape (n_items,)."""
        return squared(*self.differences(place))

    def disagreement_with_others(self, place: NDArray[np.float64], items: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Lord's chi-square of each item for the line by the others of these items, the line's error included.

        With X the derivatives of an item's difference by (log A, B), C its covariance and V that of the line of the
        least sum of W over the items, a difference has the variance C + X V X' where the item took no part in the line,
        and C - X V X' where it did, for that drew the line to itself: so weighted it is that from the line without it.
        """
        difference, covariance = self.differences(place)
        at, each = self.focal, np.eye(self.focal.values.shape[1])
        by_scale = np.einsum("jab,jb->ja", at.slopes[:, :, None] * each + place[1] * at.loads, at.values)
        by_shift = -np.einsum("jab,jb->ja", at.loads, at.values)
        by_place = np.stack([by_scale, by_shift], axis=2) / np.exp(place[0])
        weight = np.einsum("jka,jkb->jab", by_place, np.linalg.solve(covariance, by_place))
        line = by_place @ np.linalg.inv(weight[items].sum(axis=0)) @ by_place.transpose(0, 2, 1)
        return squared(difference, np.where(items[:, None, None], covariance - line, covariance + line))

    def nearest(self, items: NDArray[np.bool_], start: NDArray[np.float64]) -> NDArray[np.float64]:
        """The log A and B of the least sum of W over some items."""
        return np.asarray(minimize(lambda at: float(self.disagreement(at)[items].sum()), start, method="BFGS").x)

    def agreeing(self) -> NDArray[np.bool_]:
        """Items whose parameters agree once the focal group's scale is turned into the reference group's.

        An item's difference is judged by Lord's (1980) chi-square W with as many degrees of freedom as it has slopes
        and intercepts. A and B are those for which the sum of W is least over half of the items, those of the smallest
        W (least trimmed squares, Rousseeuw, 1984, by his concentration steps): a minority of items biased one way has
        no part in them. Then all items with W below its 95% point take part, over again, until they stay (Candell &
        Drasgow, 1988).
        """
        n_items, place, largest = len(self.df), self.start, chdtri(self.df, LEVEL)
        agree, half = np.zeros(n_items, dtype=np.bool_), int(np.ceil(SHARE_TRUSTED * n_items))
        for trusted in (True, False):
            for _ in range(MOST_STEPS):
                w = self.disagreement(place)
                best = np.isin(np.arange(n_items), np.argsort(w / largest, kind="stable")[:half])
                following = best if trusted else most_alike(w / largest, w > largest)
                if (following == agree).all():
                    break
                agree = following
                place = self.nearest(agree, place)
        return agree


def starting_place(reference: ItemParameters, focal: ItemParameters) -> NDArray[np.float64]:
    """Median log A and B over the items with positive slopes in both groups; (0, 0) if there is none."""
    usable = (reference.discrimination > 0) & (focal.discrimination > 0)
    if not usable.any():
        return np.zeros(2)
    log_scale = float(np.median(np.log(focal.discrimination[usable] / reference.discrimination[usable])))
    shift = np.median(reference.difficulty[usable] - np.exp(log_scale) * focal.difficulty[usable])
    return np.array([log_scale, float(shift)])


def squared(difference: NDArray[np.float64], covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each difference in squares of its own standard errors."""
    return np.einsum("jk,jk->j", difference, np.linalg.solve(covariance, difference[:, :, None])[:, :, 0])
