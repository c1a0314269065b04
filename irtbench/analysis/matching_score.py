"""Respondents of several groups compared at the same sum score, purified of biased items (NumPy and pandas)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix, demand_single, name_first

FEWEST_IN_GROUP = 10
FEWEST_ITEMS = 3
LEAST_SHARE_OF_ANCHORS = 0.25
MOST_ROUNDS = 50

Statistics = NDArray[np.float64]
Found = TypeVar("Found")


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
        counted = anchor.copy()
        counted[item] = True
        return self.values @ counted.astype(np.int64)


def match_groups(responses: ResponseMatrix, groups: Iterable[str | None], reference: str | None) -> MatchedGroups:
    """Keep who belongs to a group, not None, and answered every item; None for the largest as reference."""
    demand_single(responses, "matching by sum score (by ability it is)")
    return matched_values(responses.correct, responses.item_ids, groups, reference)


def matched_values(
    responses: NDArray[np.float64], item_ids: tuple[str, ...], groups: Iterable[str | None], reference: str | None
) -> MatchedGroups:
    """The same of responses 1 and 0, or categories 0, 1, ..., NaN where missing."""
    groups = [None if pd.isna(name) else str(name) for name in groups]
    if len(groups) != len(responses):
        raise InputError(f"item bias: {len(groups)} groups for {len(responses)} respondents; expected as many")
    if len(item_ids) < FEWEST_ITEMS:
        raise InputError(f"item bias: {len(item_ids)} items; expected at least {FEWEST_ITEMS}, to have a score")
    names = list(dict.fromkeys(name for name in groups if name is not None))
    if len(names) < 2:
        raise InputError("item bias: expected respondents of two groups or more but all are in one")
    if reference is None:
        reference = max(names, key=groups.count)
    if reference not in names:
        raise InputError(f"item bias: no respondent is in group {reference}; expected one of {name_first(names)}")
    ordered = (reference, *(name for name in names if name != reference))
    number = {name: position for position, name in enumerate(ordered)}
    kept = ~np.isnan(responses).any(axis=1) & np.array([name is not None for name in groups])
    group = np.array([number[str(name)] for name, there in zip(groups, kept, strict=True) if there], dtype=np.int64)
    matched = MatchedGroups(responses[kept].astype(np.int64), group, ordered, item_ids, int((~kept).sum()))
    for name, size in matched.sizes.items():
        if size < FEWEST_IN_GROUP:
            raise InputError(
                f"item bias: {size} respondents in group {name} answered all {len(item_ids)} items; a sum score "
                f"needs at least {FEWEST_IN_GROUP}, the likelihood ratio works with missing responses"
            )
    same = (matched.values == matched.values[:1]).all(axis=0)
    if constant := [item for item, alike in zip(item_ids, same, strict=True) if alike]:
        raise InputError(f"item bias: all responses are the same for item {name_first(constant)}; leave such items out")
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
