"""Linking of two scales by the items they have in common: separate calibrations brought onto one scale.

theta_old = A theta_new + B makes a_old = a_new / A and b_old = A b_new + B of the same item, and of each of its steps;
c stays.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import least_squares

from irtbench.analysis.item_differences import starting_place
from irtbench.bank.scale import Line, ScaleLike, as_scale
from irtbench.data.input_error import InputError, demand_choice, refuse_any
from irtbench.data.responses import name_first, positions_of
from irtbench.data.shown import counted
from irtbench.models.category_parameters import DIFFERENCE, STEP, CategoryParameters
from irtbench.models.curves import linear_predictor, logistic
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, as_parameters
from irtbench.models.quadrature import Quadrature, normal_grid

Array = NDArray[np.float64]
LinkMethod = Literal["mean-mean", "mean-sigma", "haebara", "stocking-lord"]

FEWEST_COMMON = 2
SMALLEST_SLOPE = 1e-3  # of a linking: new abilities would hardly differ on the old scale
PRECISION = 1e-13


@dataclass(frozen=True, eq=False)
class ScaleLink(
    Line,
    short="{method}, {item_ids:common item}, slope {slope:.3f} ({se_slope:.3f}), "
    "intercept {intercept:.3f} ({se_intercept:.3f})",
):
    """theta_old = A theta_new + B, and how well A and B are known.

    Parameters
    ----------
    method
        ``mean-mean``, ``mean-sigma``, ``haebara`` or ``stocking-lord``.
    slope, intercept
        A and B.
    covariance
        Sampling covariance of (A, B), shape (2, 2); NaN where that of the items is not known.
    item_ids
        The common items that A and B rest on.
    by_new
        Derivatives of (A, B) by (a, d, c), or an item's own parameters, of these items on the new scale, shape (2,
        n_common, 3).
    joint
        Whether the covariance has the errors that items of a calibration share.
    """

    method: LinkMethod
    slope: float
    intercept: float
    covariance: Array
    item_ids: tuple[str, ...]
    by_new: Array | None = None
    joint: bool = False

    @property
    def turn(self) -> Array:
        """Derivatives of (a, d, c) on the old scale by those on the new one, shape (3, 3)."""
        return np.array([[1 / self.slope, 0, 0], [-self.intercept / self.slope, 1, 0], [0, 0, 1]])

    def items(self, new: ParametersLike) -> ItemParameters:
        """Items of the new scale on the old one: (a, d, c) becomes (a / A, d - a B / A, c).

        Their covariance is turned with them. The error of A and B, which all of them share, is not in it.
        """
        new, turn = as_parameters(new, categories=True), self.turn
        if new.categories is not None:
            return new.categories.moved(self.slope, self.intercept).as_items()
        slope = new.discrimination / self.slope
        kind = None if new.kind is None else tuple("1pl" if kind == "rasch" else kind for kind in new.kind)
        return replace(
            new,
            discrimination=slope,
            intercept=new.intercept - slope * self.intercept,
            covariance=None if new.covariance is None else turn @ new.covariance @ turn.T,
            kind=kind,
        )

    def abilities(self, theta: ArrayLike, se: ArrayLike = 0.0) -> pd.DataFrame:
        """Abilities of the new scale on the old one: ``theta, se``, a row each.

        se^2 = A^2 se_new^2 + var(A) theta^2 + 2 theta cov(A, B) + var(B): the error of the linking is part of it.
        """
        theta, se = np.atleast_1d(np.asarray(theta, dtype=np.float64)), np.asarray(se, dtype=np.float64)
        (var_a, cov_ab), (_, var_b) = self.covariance
        variance = (self.slope * se) ** 2 + var_a * theta**2 + 2 * theta * cov_ab + var_b
        return pd.DataFrame({"theta": self.slope * theta + self.intercept, "se": np.sqrt(variance)})

    def population(self, mean: float = 0.0, sd: float = 1.0) -> dict[str, float]:
        """Mean and standard deviation of the new group on the old scale, ``mean, sd``, with the line's error of both.

        A m + B with variance m^2 var(A) + 2 m cov(A, B) + var(B), and A s with that of s A.
        """
        at = self.abilities(mean).iloc[0]
        return {"mean": at["theta"], "sd": self.slope * sd, "se_mean": at["se"], "se_sd": sd * self.se_slope}

    def table(self) -> pd.DataFrame:
        """One row: method, slope, intercept, their standard errors and covariance, and how many items they rest on."""
        return pd.DataFrame(
            [
                {
                    "method": self.method,
                    "slope": self.slope,
                    "intercept": self.intercept,
                    "se_slope": self.se_slope,
                    "se_intercept": self.se_intercept,
                    "covariance": float(self.covariance[0, 1]),
                    "n_items": len(self.item_ids),
                }
            ]
        )


def link_scales(
    old: ScaleLike,
    new: ScaleLike,
    *,
    method: LinkMethod = "stocking-lord",
    common: Collection[str] | None = None,
    population: Quadrature | None = None,
    old_covariance: ArrayLike | None = None,
    new_covariance: ArrayLike | None = None,
) -> ScaleLink:
    """Find the line theta_old = A theta_new + B by the items that two calibrations have in common.

    ``mean-mean``: A = mean(a_new) / mean(a_old) (Loyd & Hoover, 1980). ``mean-sigma``: A = sd(b_old) / sd(b_new)
    (Marco, 1977). Both: B = mean(b_old) - A mean(b_new). ``haebara`` minimises sum_q w_q sum_j (P_old - P_new)^2
    (Haebara, 1980), ``stocking-lord`` sum_q w_q (sum_j P_old - sum_j P_new)^2 (Stocking & Lord, 1983), with the new
    items' curves moved to the old scale, at the nodes of the old scale's population. Of items in categories every step
    is a b, Haebara's curves are those of all categories and Stocking and Lord's the expected scores; items whose
    categories are not the same on both scales are not common.

    Standard errors are by the delta method, for curves through the minimum as an implicit function (Ogasawara, 2001).
    With the items' own covariances alone, errors of different items count as independent: that is the error of a line
    between the two scales as they were calibrated. Errors that the items of a calibration share, for its respondents
    are a sample, move its scale as a whole; they are in the error where the whole covariance is given, which then is
    that of a line between the two populations' scales. Scales that both know it (`Scale.joint_error`) bring it along.

    Parameters
    ----------
    old, new
        Both scales, or their items (`as_parameters`); those of the same name are common.
    method
        How.
    common
        The common items to use; None for all.
    population
        Density of ability on the old scale, for the methods by curves; None for the scale's own, or N(0, 1).
    old_covariance, new_covariance
        Sampling covariance of (a, d, c) of all items of a scale with each other, in the order of its items, shape
        (n_items, 3, n_items, 3); None for those of the scales if both have theirs, else for the items' own, and errors
        of different items that do not correlate.

    Raises
    ------
    InputError
        If there are fewer than 2 common items, one of ``common`` is not, their figures do not determine the line, or a
        covariance has another shape.

    Examples
    --------
    >>> import irtbench
    >>> old = irtbench.ItemParameters.from_difficulty([1.2, 0.9, 1.6], [-1.0, 0.0, 1.0])
    >>> new = irtbench.ItemParameters.from_difficulty([1.44, 1.08, 1.92], [-1.25, -0.4166667, 0.4166667])
    >>> link = irtbench.link_scales(old, new, method="mean-mean")
    >>> round(link.slope, 3), round(link.intercept, 3)
    (1.2, 0.5)
    >>> link.items(new).table()[["item_id", "discrimination", "difficulty"]].round(3)
      item_id  discrimination  difficulty
    0   item1             1.2        -1.0
    1   item2             0.9        -0.0
    2   item3             1.6         1.0
    """
    demand_choice("link: method", method, LinkMethod)
    old, new = as_scale(old, categories=True), as_scale(new, categories=True)
    of_old, of_new = in_one_form(old.items, new.items)
    item_ids = common_items(of_old, of_new, common)
    parts = of_old.select(item_ids), of_new.select(item_ids)
    given = [old_covariance, new_covariance]
    by_name = old_covariance is None and new_covariance is None
    if by_name and old.joint_error is not None and new.joint_error is not None:
        given = [old.joint_error.covariance, new.joint_error.covariance]
    errors = [
        covariance_among(items, item_ids, covariance, name)
        for items, covariance, name in zip((of_old, of_new), given, ("old_covariance", "new_covariance"), strict=True)
    ]
    if method in ("mean-mean", "mean-sigma"):
        line, by_items = link_by_moments(*parts, by_deviation=method == "mean-sigma")
    else:
        nodes = population or old.population or normal_grid()
        line, by_items = link_by_curves(*parts, nodes, summed=method == "stocking-lord")
    covariance = np.zeros((2, 2))
    for by, error in zip(by_items, errors, strict=True):
        covariance += np.full((2, 2), np.nan) if error is None else np.einsum("kja,jalb,mlb->km", by, error, by)
    joint = all(part is not None for part in given)
    return ScaleLink(method, float(line[0]), float(line[1]), covariance, item_ids, by_items[1], joint)


def common_items(old: ItemParameters, new: ItemParameters, wanted: Collection[str] | None = None) -> tuple[str, ...]:
    """Items of both scales, in the old one's order; of those in categories such as have the same ones and one model."""
    both, alike = set(old.item_ids) & set(new.item_ids), ""
    if old.categories is not None and new.categories is not None:
        kinds = [
            {item: (type(model), own) for item, model, own in zip(at.item_ids, at.models, at.categories, strict=True)}
            for at in (old.categories, new.categories)
        ]
        both, alike = {item for item in both if kinds[0][item] == kinds[1][item]}, " in the same categories"
    chosen = both if wanted is None else set(wanted)
    found = tuple(item for item in old.item_ids if item in chosen)
    refuse_any((
        (chosen - both, f"link: item {name_first(sorted(chosen - both))} is not on both scales{alike}"),
        (len(found) < FEWEST_COMMON,
         f"link: {counted(len(found), 'common item')}; expected at least {FEWEST_COMMON} of the same item_id{alike}"),
    ))  # fmt: skip
    return found


def covariance_among(
    items: ItemParameters, item_ids: tuple[str, ...], whole: ArrayLike | None, name: str
) -> NDArray[np.float64] | None:
    """Covariance of the parameters of these items with each other, (n, 3, n, 3) of (a, d, c); None if not known."""
    rows = positions_of(item_ids, items.item_ids)
    own = items.covariance if items.categories is None else items.categories.covariance
    if whole is not None:
        given, n = np.asarray(whole, dtype=np.float64), items.n_items
        if given.shape != (n, 3, n, 3) or items.categories is not None:
            raise InputError(f"link: {name}: expected shape {(n, 3, n, 3)} of (a, d, c) but got {given.shape}")
        return np.ascontiguousarray(given[rows][:, :, rows])
    if own is None:
        return None
    width, each = own.shape[1], np.arange(rows.size)
    found = np.zeros((rows.size, width, rows.size, width))
    found[each, :, each, :] = own[rows]
    return found


def in_one_form(old: ItemParameters, new: ItemParameters) -> tuple[ItemParameters, ItemParameters]:
    """Both in categories where one of them is."""
    if (old.categories is None) == (new.categories is None):
        return old, new
    first, second = (
        items if items.categories is not None else CategoryParameters.of_right_or_wrong(items).as_items()
        for items in (old, new)
    )
    return first, second


def link_by_moments(
    old: ItemParameters, new: ItemParameters, *, by_deviation: bool
) -> tuple[Array, tuple[Array, Array]]:
    """(A, B) by means of a or standard deviations of b, and its derivatives by the parameters of old and new items.

    Each of shape (2, n_items, n_parameters). Of items in categories every step is a b.
    """
    of_old, of_new = (SlopesAndSteps.of(items) for items in (old, new))
    n, n_steps = old.n_items, of_old.b.size
    mean_old, mean_new = float(of_old.b.mean()), float(of_new.b.mean())
    by_a, by_b = np.zeros((2, 2, n)), np.zeros((2, 2, n_steps))  # of (A, B), old and new
    if by_deviation:
        spread_old, spread_new = float(of_old.b.std()), float(of_new.b.std())
        if min(spread_old, spread_new) <= 0:
            raise InputError("link: the common items are all of one difficulty; expected method mean-mean")
        slope = spread_old / spread_new
        by_b[0, 0] = (of_old.b - mean_old) / (n_steps * spread_old * spread_new)
        by_b[0, 1] = -slope * (of_new.b - mean_new) / (n_steps * spread_new**2)
    else:
        slope = float(of_new.a.mean() / of_old.a.mean())
        by_a[0, 0] = -slope / (n * of_old.a.mean())
        by_a[0, 1] = 1 / (n * of_old.a.mean())
    by_a[1], by_b[1] = -mean_new * by_a[0], -mean_new * by_b[0] + np.array([[1 / n_steps], [-slope / n_steps]])
    by_old, by_new = (part.by_parameters(by_a[:, k], by_b[:, k]) for k, part in enumerate((of_old, of_new)))
    return np.array([slope, mean_old - slope * mean_new]), (by_old, by_new)


@dataclass(frozen=True, eq=False)
class SlopesAndSteps:
    """The slope of each item, and where its steps are, with their derivatives by the item's parameters."""

    a: Array
    b: Array
    item: NDArray[np.int64]
    rates: Array

    @classmethod
    def of(cls, items: ItemParameters) -> SlopesAndSteps:
        """Of these items; through b = -d / a: db/da = -b / a, db/dd = -1 / a."""
        if flat := [item for item, a in zip(items.item_ids, items.discrimination, strict=True) if not a > 0]:
            raise InputError(
                f"link: discrimination must be above 0 but is not for {name_first(flat)}; leave them out, or link with "
                "method stocking-lord or haebara"
            )
        a, known = items.discrimination, items.categories
        if known is None:
            rates = np.stack([-items.difficulty / a, -1 / a, np.zeros_like(a)], axis=1)
            return cls(a, items.difficulty, np.arange(items.n_items), rates)
        if none := [item for item, names in zip(known.item_ids, known.names, strict=True) if names[0] != "a"]:
            raise InputError(
                f"link: item {none[0]} has no slope and steps of its own; expected method stocking-lord or haebara"
            )
        each, of_item, slopes = [], [], []
        for j, (model, known_x, names, own) in enumerate(
            zip(known.models, known.parameters, known.names, known.categories, strict=True)
        ):
            at = known_x[: len(names)]
            around = [at, *(at + sign * step for step in DIFFERENCE * np.eye(at.size) for sign in (1, -1))]
            b = np.array([steps_of(model.columns(x, len(own))) for x in around])
            by = np.zeros((b.shape[1], known.steps_at.shape[1]))
            by[:, : at.size] = ((b[1::2] - b[2::2]) / (2 * DIFFERENCE)).T
            each.append(b[0])
            slopes.append(by)
            of_item += [j] * b.shape[1]
        return cls(a, np.concatenate(each), np.array(of_item), np.concatenate(slopes))

    def by_parameters(self, by_a: Array, by_b: Array) -> Array:
        """Derivatives by the items' parameters, of those by slopes and by steps, shape (2, n_items, n_parameters)."""
        found = np.zeros((2, self.a.size, self.rates.shape[1]))
        for each, by in zip(found, by_b, strict=True):
            np.add.at(each, self.item, by[:, None] * self.rates)
        found[:, :, 0] += by_a
        return found


def steps_of(columns: dict[str, float]) -> list[float]:
    """The steps of an item in the words of items.csv; of two categories its difficulty."""
    return [b for name, b in columns.items() if name.startswith("step_")] or [columns["difficulty"]]


def link_by_curves(
    old: ItemParameters, new: ItemParameters, population: Quadrature, *, summed: bool
) -> tuple[Array, tuple[Array, Array]]:
    """(A, B) of the least squared difference of curves or, ``summed``, test curves, and its derivatives by the items.

    At the minimum the gradient g(A, B; items) is zero, so the derivatives by the items are -(dg/d(A, B))^-1 dg/d items.
    """
    weights, theta = population.weights, population.nodes
    root, of_old = np.sqrt(weights)[:, None], curves_at(theta, old, summed=summed)

    def moved(line: Array) -> tuple[Array, Array, Array, LogisticCurves | CategoryCurves]:
        """D = P_old - P_new(u), dD/d(A, B), u = (theta - B) / A and 1 of each node, and the new curves there."""
        u = (theta - line[1]) / line[0]
        each, of_new = np.stack([u, np.ones_like(u)])[:, :, None], curves_at(u, new, summed=summed)
        return of_old.value - of_new.value, each * of_new.slope / line[0], each, of_new

    def together(differences: Array) -> Array:
        return differences.sum(axis=-1, keepdims=True) if summed else differences

    log_slope, shift = starting_place(old, new)
    found = least_squares(
        lambda line: (root * together(moved(line)[0])).ravel(),
        [max(np.exp(log_slope), 10 * SMALLEST_SLOPE), shift],
        jac=lambda line: (root * together(moved(line)[1])).reshape(2, -1).T,
        bounds=([SMALLEST_SLOPE, -np.inf], [np.inf, np.inf]),
        xtol=PRECISION,
        ftol=PRECISION,
        gtol=PRECISION,
        max_nfev=1000,
    )
    slope, undetermined = found.x[0], "link: the curves of the common items do not determine slope and intercept"
    if not found.success or slope <= 2 * SMALLEST_SLOPE:
        raise InputError(undetermined)
    difference, by_line, each, of_new = moved(found.x)
    by_line, left = together(by_line), np.broadcast_to(together(difference), difference.shape)
    hessian = np.einsum("q,kqj,mqj->km", weights, by_line, by_line)
    u, both = each[0], of_new.second * each[0] + of_new.slope
    by_line_twice = -np.array([[u * (both + of_new.slope), both], [both, of_new.second]]) / slope**2
    hessian += np.einsum("q,qj,kmqj->km", weights, left, by_line_twice)
    if np.linalg.cond(hessian) > 1 / PRECISION:
        raise InputError(undetermined)
    by_line = np.broadcast_to(by_line, (2, *difference.shape))
    by_old = np.einsum("q,kqj,qja->kja", weights, by_line, of_old.by_parameters)
    by_new = np.einsum("q,kqj,qja->kja", weights, by_line, -of_new.by_parameters)
    by_new += np.einsum("q,qj,kqja->kja", weights, left, each[:, :, :, None] * of_new.slope_by_parameters / slope)
    solved = [
        -np.linalg.solve(hessian, np.add.reduceat(by, side.first, axis=1).reshape(2, -1)).reshape(2, old.n_items, -1)
        for by, side in ((by_old, of_old), (by_new, of_new))
    ]
    return np.asarray(found.x), (solved[0], solved[1])


def curves_at(theta: Array, items: ItemParameters, *, summed: bool) -> LogisticCurves | CategoryCurves:
    """The curves of these items: of right ones, or of all categories; ``summed``, their expected scores."""
    if items.categories is None:
        return LogisticCurves(theta, items)
    return CategoryCurves(theta, items.categories, summed=summed)


class LogisticCurves:
    """Curves of right responses with their derivatives by ability and by (a, d, c).

    With z = a theta + d and s the logistic function: P = c + (1 - c) s, P_z = (1 - c) s (1 - s), P_zz = P_z (1 - 2 s).
    """

    def __init__(self, theta: Array, items: ItemParameters) -> None:
        self.theta, self.a = theta, items.discrimination
        self.s = logistic(linear_predictor(theta, items))
        self.z = (1 - items.guessing) * self.s * (1 - self.s)
        self.zz = self.z * (1 - 2 * self.s)
        self.value: Array = items.guessing + (1 - items.guessing) * self.s
        self.slope, self.second = self.a * self.z, self.a**2 * self.zz
        self.first = np.arange(items.n_items)

    @property
    def by_parameters(self) -> Array:
        """Shape (n_nodes, n_items, 3)."""
        return np.stack([self.z * self.theta[:, None], self.z, 1 - self.s], axis=2)

    @property
    def slope_by_parameters(self) -> Array:
        """Of the slope, the same shape."""
        by_slope = self.a * self.zz * self.theta[:, None] + self.z
        return np.stack([by_slope, self.a * self.zz, -self.a * self.s * (1 - self.s)], axis=2)


class CategoryCurves:
    """Curves of the categories of items, or their expected scores, with the same derivatives, as differences."""

    def __init__(self, theta: Array, items: CategoryParameters, *, summed: bool) -> None:
        self.theta, self.items, self.summed = theta, items, summed
        below, self.value, above = (self.curves(theta + step) for step in (-STEP, 0.0, STEP))
        self.slope, self.second = (above - below) / (2 * STEP), (above - 2 * self.value + below) / STEP**2
        self.first = np.arange(items.n_items) if summed else items.first

    def curves(self, theta: Array) -> Array:
        """Shape (n_nodes, n_curves)."""
        return self.items.expected_score(theta) if self.summed else np.exp(self.items.log_probabilities(theta))

    @property
    def by_parameters(self) -> Array:
        """Shape (n_nodes, n_curves, n_parameters)."""
        return self.rates(self.theta)

    @property
    def slope_by_parameters(self) -> Array:
        """Of the slope, the same shape."""
        return (self.rates(self.theta + STEP) - self.rates(self.theta - STEP)) / (2 * STEP)

    def rates(self, theta: Array) -> Array:
        """Derivatives of the curves by the items' parameters."""
        each = []
        for p, rate in zip(self.items.probabilities(theta), self.items.parameter_derivatives(theta), strict=True):
            by = p[:, :, None] * rate
            if self.summed:
                by = (np.arange(p.shape[1])[:, None] * by).sum(axis=1, keepdims=True)
            each.append(np.pad(by, ((0, 0), (0, 0), (0, self.items.steps_at.shape[1] - rate.shape[2]))))
        return np.concatenate(each, axis=1)
