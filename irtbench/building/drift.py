"""Common items whose parameters drifted between two calibrations, so that a link is to do without them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from irtbench.analysis.robust_linking import (
    PlacedItems,
    degrees_of_freedom,
    disagreement_with_others,
    linked_by_agreement,
    nearest,
    starting_place,
)
from irtbench.building.linking import common_items, in_one_form
from irtbench.data.multiple_testing import adjust
from irtbench.data.shown import Drawn, counted
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, as_parameters

FEWEST_TO_TELL = 5  # common items; of fewer there is no clear majority
LARGEST_Z = 2.7
LEVEL = 0.05
IQR_TO_SD = 0.74  # of a normal density
EXACT = 1e-9  # differences in difficulty smaller than this are none
MOST_CONDITION = 1e12
MOST_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class Drift(
    Drawn,
    columns="item_ids, difficulty_old, difficulty_new, difference, robust_z, w, p, p_adjusted, released",
):
    """The common items of two scales, and which of them no longer fit.

    Its table has one row a common item, the columns of drift.csv.

    Parameters
    ----------
    item_ids
        The common items.
    difficulty_old, difficulty_new
        b on the old scale as it was, and as the new calibration has it there, shape (n_items,).
    robust_z
        Their difference less its median, over .74 of its interquartile range.
    w, p, p_adjusted
        Lord's chi-square of slope and intercept with two degrees of freedom (of items in categories of slope and
        intercepts, with as many), for the line by the other items and with
        its error, and p adjusted by Holm; NaN where the sampling covariance of the items is not known.
    released
        Whether the item drifted: adjusted p below .05, and without p robust z beyond 2.7.
    """

    item_ids: tuple[str, ...]
    difficulty_old: NDArray[np.float64]
    difficulty_new: NDArray[np.float64]
    robust_z: NDArray[np.float64]
    w: NDArray[np.float64]
    p: NDArray[np.float64]
    p_adjusted: NDArray[np.float64]
    released: NDArray[np.bool_]

    @property
    def difference(self) -> NDArray[np.float64]:
        """New less old difficulty."""
        return self.difficulty_new - self.difficulty_old

    @property
    def kept(self) -> tuple[str, ...]:
        """The items to link by."""
        return tuple(item for item, gone in zip(self.item_ids, self.released, strict=True) if not gone)

    def in_short(self) -> str:
        """How many items, and how many drifted."""
        return f"{counted(len(self.item_ids), 'common item')}, {int(self.released.sum())} drifted"


def find_drift(old: ParametersLike, new: ParametersLike) -> Drift:
    """Find the common items whose curves differ between two scales once one is turned into the other.

    The scales are linked by the items that agree best, so that a minority that drifted has no part in it: with the
    items' covariances by least trimmed squares of Lord's (1980) chi-square W, then by all items that W does not show to
    have drifted (Candell & Drasgow, 1988), W of each for the line by the others, with that line's error; without them
    by the medians of log a and b. Robust z is that of Huynh & Meyer (2010). With fewer than 5 common items
    nothing is tested: NaN, and none is released.

    Parameters
    ----------
    old, new
        Items of both scales (`as_parameters`); those of the same name are common.

    Raises
    ------
    InputError
        If there are fewer than 2 common items.

    Examples
    --------
    >>> import irtbench
    >>> old = irtbench.ItemParameters.from_difficulty([1.0] * 7, [-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5])
    >>> new = irtbench.ItemParameters.from_difficulty([1.0] * 7, [-1.9, -1.6, -1.0, -0.6, 0.0, 1.9, 1.0])
    >>> drift = irtbench.find_drift(old, new)
    >>> drift
    <Drift: 7 common items, 1 drifted>
    >>> drift.table().loc[4:5, ["item_id", "difficulty_old", "difficulty_new", "released"]]
      item_id  difficulty_old  difficulty_new  released
    4   item5             0.5             0.5     False
    5   item6             1.0             2.4      True
    """
    old, new = in_one_form(as_parameters(old, categories=True), as_parameters(new, categories=True))
    item_ids = common_items(old, new)
    old, new = old.select(item_ids), new.select(item_ids)
    unknown = np.full(len(item_ids), np.nan)
    place = starting_place(old, new)
    if few := len(item_ids) < FEWEST_TO_TELL:
        w = z = p_adjusted = p = unknown
    elif errors_known(old, new):
        place, w = link_of_those_that_stay(old, new, place)
        p = chdtrc(degrees_of_freedom(old), w)
        p_adjusted = adjust(p)
    else:
        w = p = p_adjusted = unknown
    moved = np.exp(place[0]) * new.difficulty + place[1]
    if not few:
        z = robust_z(moved - old.difficulty)
    released = np.where(np.isnan(p_adjusted), np.abs(z) > LARGEST_Z, p_adjusted < LEVEL)
    return Drift(item_ids, old.difficulty, moved, z, w, p, p_adjusted, released)


def link_of_those_that_stay(
    old: ItemParameters, new: ItemParameters, start: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(log A, B) of the least sum of W over the items that have not drifted, and W of all items for the others' line.

    At first over those that agree best, then over all whose W is no proof of drift, over again, until they stay: a line
    through the best alone would find fault with too many of the others. With few items the line's own error is much of
    an item's difference from it, so that it is part of W.
    """
    staying = linked_by_agreement(old, new)
    for _ in range(MOST_ROUNDS):
        start = nearest(old, new, staying, start)
        w = disagreement_with_others(old, new, start, staying)
        before, staying = staying, adjust(chdtrc(degrees_of_freedom(old), w)) >= LEVEL
        if (staying == before).all() or not staying.any():
            break
    return start, w


def errors_known(old: ItemParameters, new: ItemParameters) -> bool:
    """Whether differences of slope and intercept have a covariance that can be inverted; a fixed slope has none."""
    if any((items if items.categories is None else items.categories).covariance is None for items in (old, new)):
        return False
    parts = [PlacedItems.of(items) for items in (old, new)]
    both = parts[0].covariance + parts[1].covariance + np.eye(parts[0].own.shape[1]) * ~parts[0].own[:, :, None]
    return bool(np.isfinite(both).all() and (np.linalg.cond(both) < MOST_CONDITION).all())


def robust_z(difference: NDArray[np.float64]) -> NDArray[np.float64]:
    """Differences less their median, over .74 of their interquartile range; NaN for what is not finite."""
    finite = np.isfinite(difference)
    if not finite.any():
        return np.full(difference.shape, np.nan)
    lower, middle, upper = np.quantile(difference[finite], [0.25, 0.5, 0.75])
    away = np.where(finite, difference - middle, np.nan)
    return away / max(IQR_TO_SD * (upper - lower), EXACT)
