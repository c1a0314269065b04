"""Anchors: known items among those of a fit, which stay as they are, and the error that they have of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError, refuse_any
from irtbench.data.responses import name_first
from irtbench.estimation.settings import FitSettings
from irtbench.models.item_parameters import ItemParameters, JointError
from irtbench.models.parameter_table import ParametersLike, as_parameters

#: How the anchors' own error enters standard errors: by their joint covariance, by that of each, or not at all.
AnchorError = Literal["joint", "by item", "taken as known"]

MOST_COUPLED_ITEMS = 1000  # with more each item's error is that where the population is known


@dataclass(frozen=True, eq=False)
class KnownItems:
    """Anchors: their places among the items of a fit, and the sampling error that they have.

    Parameters
    ----------
    items
        The anchors.
    places
        Their positions among the items of the fit.
    covariance
        Of their parameters with each other, shape (n_anchors, width, n_anchors, width); None where it is not known, and
        they are taken as known.
    joint
        The joint error that this is from; None where it is that of each item by itself, or there is none.
    """

    items: ItemParameters
    places: tuple[int, ...]
    covariance: NDArray[np.float64] | None = None
    joint: JointError | None = None

    @property
    def error(self) -> AnchorError:
        """How it enters the standard errors."""
        if self.covariance is None or len(self.places) > MOST_COUPLED_ITEMS:
            return "taken as known"
        return "by item" if self.joint is None else "joint"


class Calibrated(Protocol):
    """Items with the sampling error of all of them together, as a `Scale` of a bank or a fit has them."""

    @property
    def items(self) -> ItemParameters: ...  # noqa: D102
    @property
    def joint_error(self) -> JointError | None: ...  # noqa: D102


#: Anchors in any form that `fit_model` takes.
AnchorsLike = Calibrated | ParametersLike


def anchors_among(item_ids: Sequence[str], given: AnchorsLike, settings: FitSettings) -> KnownItems:
    """The known items that are among these, with their error as far as that is known.

    Raises
    ------
    InputError
        If there are none with a slope, or anchors do not go with the settings.
    """
    alone = isinstance(given, ItemParameters | pd.DataFrame) or not hasattr(given, "joint_error")
    known = as_parameters(given if alone else given.items)  # type: ignore[union-attr, arg-type]
    joint = None if alone else given.joint_error  # type: ignore[union-attr]
    position = {item: k for k, item in enumerate(item_ids)}
    chosen = [k for k, item in enumerate(known.item_ids) if item in position]
    anchors = known.select([known.item_ids[k] for k in chosen])
    one_slope, priors = settings.kind == "1pl", settings.priors
    refuse_any((
        (anchors.categories is not None,
         "fit: the anchors are graded items; expected responses in categories and a model of these"),
        (not anchors.discrimination.any(),
         "fit: none of the anchors is among the items of the responses with a slope other than 0"),
        (settings.prior == "hierarchical" or settings.posterior is not None,
         "fit: anchors go with prior none or weak, and without a posterior"),
        (settings.population == "estimated", "fit: with anchors the population is normal; expected population normal"),
        (settings.optimiser == "adam" and one_slope,
         "fit: one slope for all items goes, with anchors, with optimiser fisher_scoring"),
        (settings.estimates_guessing and priors.guessing is None,
         "fit: anchors with guessing without a prior; expected prior weak, or a prior_guessing"),
        (one_slope and priors.slope is not None,
         "fit: anchors with a 1pl, which has one slope, go without a prior of slopes"),
        (anchors.upper_asymptote is not None and not settings.has_upper_asymptotes,
         "fit: the anchors have upper asymptotes; expected a model with them"),
    ))  # fmt: skip
    joint = None if joint is None else joint.select(chosen)
    return KnownItems(
        anchors,
        tuple(position[item] for item in anchors.item_ids),
        *error_of(anchors, joint, four=settings.has_upper_asymptotes),
    )


def error_of(
    anchors: ItemParameters, joint: JointError | None, *, four: bool
) -> tuple[NDArray[np.float64] | None, JointError | None]:
    """The anchors' covariance with each other, None where there is none; what is not known of one counts as known."""
    covariance = anchors.covariance
    if joint is None and covariance is not None and four and covariance.shape[1] == 3:  # none of an asymptote of 1
        covariance = np.pad(covariance, ((0, 0), (0, 1), (0, 1)))
    if joint is not None:
        covariance = np.pad(joint.covariance, ((0, 0), (0, 1)) * 2) if four else joint.covariance
    elif covariance is not None:
        each, width = np.arange(anchors.n_items), covariance.shape[1]
        blocks, covariance = np.nan_to_num(covariance), np.zeros((anchors.n_items, width, anchors.n_items, width))
        covariance[each, :, each, :] = blocks
    return (None if covariance is None or not covariance.any() else covariance), joint


def known_parameters(item_ids: Sequence[str], settings: FitSettings, anchors: KnownItems | None) -> NDArray[np.float64]:
    """What is known of a, d, c and u of each item, NaN where it is estimated, shape (n_items, 4)."""
    known, named = np.full((len(item_ids), 4), np.nan), np.isin(item_ids, [*settings.by_item])
    free, fixed = settings.guessing_of(item_ids)
    own_asymptotes = free | (~named & settings.has_upper_asymptotes)
    known[:, 2], known[named, 3] = np.where(own_asymptotes, np.nan, fixed), 1.0
    if anchors is not None:
        own = anchors.items
        if priors := [item for item in own.item_ids if item in settings.prior_items]:
            raise InputError(f"fit: prior_items: {name_first(priors)} is an anchor, which stays as it is; leave it out")
        if settings.kind == "rasch":
            known[:, 0] = 1.0
        upper = np.ones(own.n_items) if own.upper_asymptote is None else own.upper_asymptote
        known[list(anchors.places)] = np.stack([own.discrimination, own.intercept, own.guessing, upper], axis=1)
    return known
