"""Which items agree in two groups: each group on a scale of its own, linked by the items that agree best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import chdtri

from irtbench.analysis.item_differences import most_alike
from irtbench.models.category_parameters import CategoryParameters, turned
from irtbench.models.item_parameters import ItemParameters

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
