"""Beyond a link: a scale with more items, and common items whose parameters drifted between two calibrations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from irtbench.analysis.item_differences import TwoScales, starting_place
from irtbench.bank.scale import Scale, ScaleLike, ScaleLine, as_scale
from irtbench.building.linking import ScaleLink, common_items, in_one_form
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.multiple_testing import adjust
from irtbench.data.responses import positions_of
from irtbench.data.shown import Drawn, counted
from irtbench.models.item_parameters import ItemKind, ItemParameters, JointError
from irtbench.models.parameter_table import ParametersLike, as_parameters

Array = NDArray[np.float64]


def moved_joint_error(link: ScaleLink, new: ItemParameters, error: JointError, old: JointError) -> JointError:
    """Joint error of the new items on the old scale: their own, that of A and B, and what both have in common.

    With T the derivatives of the moved (a / A, d - a B / A, c) by (a, d, c), P those by (A, B), S the covariance of the
    new items, V that of (A, B) and C = Cov((A, B), items), by the derivatives of A and B by the common items:

        T S T' + P V P' + T C' P' + P C T'.

    So the next link, which takes these items for its old ones, has the errors of all links before it, and a
    calibration that took part in two of them counts as it should: what moved its scale as a whole cancels.
    """
    assert link.by_new is not None
    with_common = error.covariance[positions_of(link.item_ids, new.item_ids)]
    with_line = np.einsum("kma,manc->knc", link.by_new, with_common)  # C, shape (2, n_items, 3)
    a, slope, intercept = new.discrimination, link.slope, link.intercept
    by_line = np.zeros((new.n_items, 3, 2))
    by_line[:, 0, 0] = -a / slope**2
    by_line[:, 1, 0], by_line[:, 1, 1] = a * intercept / slope**2, -a / slope
    across = np.einsum("jak,kmb,cb->jamc", by_line, with_line, link.turn)
    covariance = np.einsum("ab,jbmc,dc->jamd", link.turn, error.covariance, link.turn)
    covariance += np.einsum("jak,kl,mbl->jamb", by_line, link.covariance, by_line)
    covariance += across + across.transpose(2, 3, 0, 1)
    return JointError(covariance, old.location, old.unit)


def covariance_as_fitted(link: ScaleLink, old: JointError, new: JointError) -> Array:
    """Covariance of (A, B) between the two scales as they were fitted, from that between their populations.

    Fitted scales have their respondents' mean m and standard deviation s for zero and unit, so that the line between
    them is A s_new / s_old and (A m_new + B - m_old) / s_old. What these vary by the joint errors hold; it is no error
    of a score on the scale as it was fitted, and is subtracted.
    """
    a, b = link.slope, link.intercept
    by_samples = np.array(
        [
            [a**2 * (new.unit + old.unit), a * b * old.unit],
            [a * b * old.unit, a**2 * new.location + old.location + b**2 * old.unit],
        ]
    )
    values, vectors = np.linalg.eigh(link.covariance - by_samples)
    return np.asarray((vectors * values.clip(0)) @ vectors.T)


def line_of(old: Scale, new: Scale, link: ScaleLink) -> ScaleLine | None:
    """The line of the scale that a link makes, with the error of all links back to the base; None if not known.

    Where the link rests on the joint errors of both scales, that of the old line is in its covariance
    (`moved_joint_error`). Without them it is added as an independent one: with dA_1 and dB_1 of the old line A turns
    into A + dA_1 A / A_1, and B into B + dA_1 (B - B_1) / A_1 + dB_1.
    """
    generation = 1 if old.line is None else old.line.generation + 1
    if not np.isfinite(link.covariance).all():
        return None
    if link.joint and old.joint_error is not None and new.joint_error is not None:
        covariance = covariance_as_fitted(link, old.joint_error, new.joint_error)
    elif old.line is None:
        if "link" in old.provenance:  # linked, by items whose covariance was not known
            return None
        covariance = link.covariance
    else:
        first = old.line
        by_first = np.array([[link.slope / first.slope, 0.0], [(link.intercept - first.intercept) / first.slope, 1.0]])
        covariance = link.covariance + by_first @ first.covariance @ by_first.T
    return ScaleLine(link.slope, link.intercept, covariance, generation)


def ancestry_of(provenance: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The links of a scale, the latest first: the line to the base scale with its errors, and the bank linked to."""
    found, at = [], provenance
    while at:
        old = at.get("old", {})
        if "link" in at:
            figures = {name: value for name, value in at["link"].items() if name != "items"}
            found.append(figures | {"bank": old.get("bank")})
        at = old
    return found


def extended_scale(old: ScaleLike, items: ScaleLike) -> Scale:
    """The scale with the items that it does not have yet; its own, its norms and its population are unchanged.

    Parameters
    ----------
    old
        The scale, or its items.
    items
        Items on its scale, or a scale of them, as `fit_model` with the old one as anchors finds them; those that the
        old scale has are passed over. Where either side has no covariance, the others' is not known either. The joint
        error of all is known where both scales have theirs.

    Raises
    ------
    InputError
        If none of the items is new.

    Examples
    --------
    >>> import irtbench
    >>> old = irtbench.ItemParameters.from_difficulty([1.2, 0.9], [-1.0, 1.0], item_ids=["i1", "i2"])
    >>> more = irtbench.ItemParameters.from_difficulty([0.9, 1.1], [1.1, 0.5], item_ids=["i2", "i3"])
    >>> irtbench.extended_scale(old, more).table()[["item_id", "difficulty"]]
      item_id  difficulty
    0      i1        -1.0
    1      i2         1.0
    2      i3         0.5
    """
    old, found = as_scale(old, categories=True), as_scale(items, categories=True)
    items = found.items
    added = [item for item in items.item_ids if item not in set(old.items.item_ids)]
    if not added:
        raise InputError("extend: no item is new; expected responses to items that the bank does not have")
    new = items.select(added)
    return replace(
        old,
        items=joined(old.items, new),
        joint_error=extended_joint_error(old, found, added),
        details=joined_details((*old.items.item_ids, *added), old.details, ItemTable.plain(added)),
    )


def extended_joint_error(old: Scale, found: Scale, added: Sequence[str]) -> JointError | None:
    """Joint error of the old items and the new ones x; None where that of either scale is not known.

    x errs with the old items through the anchors y alone, so that with any others o

        Cov(x, o) = Cov(x, y) Cov(y)^-1 Cov(y, o).
    """
    if old.joint_error is None or found.joint_error is None or found.items.kind is None:
        return None
    fixed = {item for item, kind in zip(found.items.item_ids, found.items.kind, strict=True) if kind == "fixed"}
    anchors = [item for item in old.items.item_ids if item in fixed]
    in_old, in_found = ({item: k for k, item in enumerate(scale.items.item_ids)} for scale in (old, found))
    own = found.joint_error.select([in_found[item] for item in (*anchors, *added)]).covariance
    n_new, n_anchors = 3 * len(added), 3 * len(anchors)
    flat = own.reshape(n_anchors + n_new, -1)
    of_old = old.joint_error.covariance.reshape(3 * old.items.n_items, -1)
    rows = (3 * np.array([in_old[item] for item in anchors])[:, None] + np.arange(3)).flatten()
    across = flat[n_anchors:, :n_anchors] @ np.linalg.pinv(of_old[np.ix_(rows, rows)], hermitian=True) @ of_old[rows]
    n = old.items.n_items + len(added)
    covariance = np.block([[of_old, across.T], [across, flat[n_anchors:, n_anchors:]]]).reshape(n, 3, n, 3)
    return JointError(covariance, old.joint_error.location, old.joint_error.unit)


def joined(first: ItemParameters, second: ItemParameters) -> ItemParameters:
    """Items of both, the first before the second; in categories where those of one are."""
    first, second = in_one_form(first, second)
    if first.categories is not None and second.categories is not None:
        return first.categories.joined(second.categories).as_items()
    unsaid: ItemKind = "own"
    kinds = [kind for part in (first, second) for kind in part.kind or (unsaid,) * part.n_items]
    known = first.covariance is not None and second.covariance is not None
    return ItemParameters(
        (*first.item_ids, *second.item_ids),
        np.concatenate([first.discrimination, second.discrimination]),
        np.concatenate([first.intercept, second.intercept]),
        np.concatenate([first.guessing, second.guessing]),
        np.concatenate([first.guessing_estimated, second.guessing_estimated]),
        np.concatenate([np.asarray(part.covariance) for part in (first, second)]) if known else None,
        tuple(kinds),
    )


def linked_scale(old: ScaleLike, new: ScaleLike, link: ScaleLink) -> Scale:
    """The items of the new scale on the old one, where the old norms and population hold.

    Key, text, label and group of common items are the old scale's. The provenance has the link and, under ``old`` and
    ``new``, that of both scales. The scale has the error of its line, which scores on it carry, and, where both scales
    have theirs, the joint error of its items, by which the next link has it too.

    Parameters
    ----------
    old, new
        The scales that were linked, or their items.
    link
        What `link_scales` found for them.

    Examples
    --------
    >>> import irtbench
    >>> old = irtbench.ItemParameters.from_difficulty([1.2, 0.9], [-1.0, 1.0])
    >>> new = irtbench.ItemParameters.from_difficulty([1.2, 0.9, 1.0], [-1.5, 0.5, 2.0])
    >>> scale = irtbench.linked_scale(old, new, irtbench.link_scales(old, new))
    >>> scale.table()[["item_id", "difficulty"]].round(3)
      item_id  difficulty
    0   item1        -1.0
    1   item2         1.0
    2   item3         2.5
    """
    old, new = as_scale(old, categories=True), as_scale(new, categories=True)
    (figures,) = link.table().astype(object).where(link.table().notna(), None).to_dict("records")
    return replace(
        old,
        items=link.items(new.items),
        details=joined_details(new.items.item_ids, old.details, new.details),
        provenance={
            "link": figures | {"items": list(link.item_ids)},
            "old": dict(old.provenance),
            "new": dict(new.provenance),
        },
        joint_error=moved_joint_error(link, new.items, new.joint_error, old.joint_error)
        if link.joint and old.joint_error is not None and new.joint_error is not None
        else None,
        line=line_of(old, new, link),
    )


def joined_details(item_ids: tuple[str, ...], first: ItemTable, second: ItemTable) -> ItemTable:
    """Details of these items, from the first table that has them."""
    places = {item: (table, k) for table in (second, first) for k, item in enumerate(table.item_ids)}
    found = [places[item] for item in item_ids]
    return ItemTable(
        item_ids,
        tuple(table.key[k] for table, k in found),
        tuple(table.label[k] for table, k in found),
        tuple(table.group[k] for table, k in found),
        tuple(table.text[k] for table, k in found),
        tuple(table.attention[k] for table, k in found),
    )


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
        found = "drift not tested" if self.untested else f"{int(self.released.sum())} drifted"
        return f"{counted(len(self.item_ids), 'common item')}, {found}"

    @property
    def untested(self) -> str:
        """That too few items are common to tell drift, in words; empty where they are enough."""
        if (n := len(self.item_ids)) >= FEWEST_TO_TELL:
            return ""
        return f"drift not tested: {counted(n, 'common item')}, at least {FEWEST_TO_TELL} tell it; errors assume none"


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
    w = z = p = p_adjusted = np.full(len(item_ids), np.nan)
    place, few = starting_place(old, new), len(item_ids) < FEWEST_TO_TELL
    if not few and (scales := scales_with_errors(old, new)) is not None:
        place, w = link_of_those_that_stay(scales)
        p = chdtrc(scales.df, w)
        p_adjusted = adjust(p)
    moved = np.exp(place[0]) * new.difficulty + place[1]
    if not few:
        z = robust_z(moved - old.difficulty)
    released = np.where(np.isnan(p_adjusted), np.abs(z) > LARGEST_Z, p_adjusted < LEVEL)
    return Drift(item_ids, old.difficulty, moved, z, w, p, p_adjusted, released)


def link_of_those_that_stay(scales: TwoScales) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(log A, B) of the least sum of W over the items that have not drifted, and W of all items for the others' line.

    At first over those that agree best, then over all whose W is no proof of drift, over again, until they stay: a line
    through the best alone would find fault with too many of the others. With few items the line's own error is much of
    an item's difference from it, so that it is part of W.
    """
    staying, place = scales.agreeing(), scales.start
    for _ in range(MOST_ROUNDS):
        place = scales.nearest(staying, place)
        w = scales.disagreement_with_others(place, staying)
        before, staying = staying, adjust(chdtrc(scales.df, w)) >= LEVEL
        if (staying == before).all() or not staying.any():
            break
    return place, w


def scales_with_errors(old: ItemParameters, new: ItemParameters) -> TwoScales | None:
    """The items on both scales, where their differences have a covariance to invert; a fixed slope has none."""
    if any((items if items.categories is None else items.categories).covariance is None for items in (old, new)):
        return None
    scales = TwoScales.of(old, new)
    first, second = scales.reference, scales.focal
    both = first.covariance + second.covariance + np.eye(first.own.shape[1]) * ~first.own[:, :, None]
    return scales if np.isfinite(both).all() and (np.linalg.cond(both) < MOST_CONDITION).all() else None


def robust_z(difference: NDArray[np.float64]) -> NDArray[np.float64]:
    """Differences less their median, over .74 of their interquartile range; NaN for what is not finite."""
    finite = np.isfinite(difference)
    if not finite.any():
        return np.full(difference.shape, np.nan)
    lower, middle, upper = np.quantile(difference[finite], [0.25, 0.5, 0.75])
    away = np.where(finite, difference - middle, np.nan)
    return away / max(IQR_TO_SD * (upper - lower), EXACT)
