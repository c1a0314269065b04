"""The error of a link, carried on: in the items it moves, in the scores on them, and in the next link."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from irtbench.bank.scale import Scale
from irtbench.bank.scale_line import ScaleLine
from irtbench.building.linking import ScaleLink
from irtbench.data.responses import positions_of
from irtbench.models.item_parameters import ItemParameters, JointError

Array = NDArray[np.float64]


def moved_joint_error(link: ScaleLink, new: ItemParameters, error: JointError, old: JointError) -> JointError:
    """Joint error of the new items on the old scale: their own, that of A and B, and what both have in common.

    With T the derivatives of the moved (a / A, d - a B / A, c) by (a, d, c), P those by (A, B), S the covariance of the
    new items, V that of (A, B) and C = Cov((A, B), items), by the derivatives of A and B by the common items:

        T S T' + P V P' + T C' P' + P C T'.

    So the next link, which takes these items for its old ones, has the errors of all links before it, and a
    calibration that took part in two of them counts as it should: what moved its scale as a whole cancels.

    Parameters
    ----------
    link
        The line, with V from the joint errors of both scales.
    new
        All items of the new scale, before they are moved.
    error, old
        Joint errors of the new scale and of the old one, whose zero and unit the moved items have.
    """
    assert link.by_new is not None
    common = positions_of(link.item_ids, new.item_ids)
    with_line = np.einsum("kma,manc->knc", link.by_new, error.covariance[common])  # C, shape (2, n_items, 3)
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
