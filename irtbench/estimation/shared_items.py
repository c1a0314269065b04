"""Models whose items share parameters: Rasch, 1PL, and items on the scale of known ones (anchors)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first
from irtbench.estimation.marginal.observed_information import MOST_COUPLED_ITEMS
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.marginal.shared_scale import MOST_COUPLED_ITEMS as MOST_TOGETHER
from irtbench.estimation.marginal.shared_scale import (
    AnchorError,
    KnownItems,
    NormalMoments,
    moments_of,
    population_of,
    shared_errors,
    theta_covariance,
    whole_theta_covariance,
)
from irtbench.estimation.settings import FitSettings
from irtbench.models.item_parameters import ItemKind, ItemParameters
from irtbench.models.joint_error import JointError
from irtbench.models.parameter_table import ParametersLike, as_parameters
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.pyro_model.shared import SharedParameters


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
        If there are none that tell of ability, or anchors do not go with the settings.
    """
    alone = isinstance(given, ItemParameters | pd.DataFrame) or not hasattr(given, "joint_error")
    known = as_parameters(given if alone else given.items)  # type: ignore[union-attr, arg-type]
    joint = None if alone else given.joint_error  # type: ignore[union-attr]
    position = {item: k for k, item in enumerate(item_ids)}
    chosen = [k for k, item in enumerate(known.item_ids) if item in position]
    anchors = known.select([known.item_ids[k] for k in chosen])
    if not anchors.discrimination.any():
        raise InputError("fit: none of the anchors is among the items of the responses with a slope other than 0")
    takes = settings.kind in ("rasch", "2pl", "3pl") and settings.prior != "hierarchical"
    if not takes or settings.posterior is not None:
        raise InputError("fit: anchors go with model rasch, 2pl or 3pl, prior none or weak, and without a posterior")
    if settings.population == "estimated":
        raise InputError("fit: beside anchors the population is normal; expected population normal")
    if settings.estimates_guessing and settings.priors.guessing is None:
        raise InputError("fit: anchors beside guessing without a prior; expected prior weak, or a prior_guessing")
    joint = None if joint is None else joint.select(chosen)
    covariance = anchors.covariance
    if joint is not None:
        covariance = joint.covariance
    elif covariance is not None:  # what is not known of single ones counts as known
        each, blocks = np.arange(len(chosen)), np.nan_to_num(covariance)
        covariance = np.zeros((len(chosen), 3, len(chosen), 3))
        covariance[each, :, each, :] = blocks
    if covariance is not None and not covariance.any():
        covariance = None
    return KnownItems(anchors, tuple(position[item] for item in anchors.item_ids), covariance, joint)


def anchor_error(anchors: KnownItems | None, n_items: int) -> AnchorError | None:
    """How the anchors' error enters the standard errors of a fit of so many items; None without anchors."""
    if anchors is None:
        return None
    if anchors.covariance is None or n_items > MOST_TOGETHER:
        return "taken as known"
    return "by item" if anchors.joint is None else "joint"


def shared_parameters(
    item_ids: Sequence[str], settings: FitSettings, anchors: KnownItems | None, device: torch.device
) -> SharedParameters | None:
    """What items share by these settings; None where all parameters are their own."""
    if anchors is None:
        if not settings.has_common_slope:
            return None
        return SharedParameters.common_slope(len(item_ids), device, rasch=settings.kind == "rasch")
    known, slope, intercept = np.zeros((3, len(item_ids)))
    places, items = list(anchors.places), anchors.items
    known[places], slope[places], intercept[places] = 1.0, items.discrimination, items.intercept
    slopes, intercepts, where = (torch.from_numpy(part).to(device) for part in (slope, intercept, known))
    return SharedParameters.anchored(slopes, intercepts, where > 0, rasch=settings.kind == "rasch")


def demand_new_items(prior_items: Mapping[str, tuple[float, float]], anchors: KnownItems) -> None:
    """Refuse priors of items whose parameters are known and stay."""
    if known := [item for item in anchors.items.item_ids if item in prior_items]:
        raise InputError(f"fit: prior_items: {name_first(known)} is an anchor, which stays as it is; leave it out")


def at_anchors(free: NDArray[np.bool_], fixed: NDArray[np.float64], anchors: KnownItems) -> None:
    """Fix guessing of the anchors at what is known of them."""
    places = list(anchors.places)
    free[places], fixed[places] = False, anchors.items.guessing


def told(
    problem: Problem,
    by_z: ItemTensors,
    items: ItemParameters,
    settings: FitSettings,
    anchors: KnownItems | None = None,
    *,
    standard_errors: bool,
) -> tuple[ItemParameters, NormalMoments | None, NDArray[np.float64] | None, list[bool]]:
    """Items as they are told, the population if it is not N(0, 1), the items' covariance, the items not determined.

    Beside anchors the covariance of all items with each other is None where the anchors' own is not known.

    Parameters
    ----------
    problem, by_z
        The fit, its ability standard normal.
    items
        The same items in the public form.
    settings
        Of the fit.
    anchors
        The items that are known, if there are any; in the covariances they have that of their own.
    standard_errors
        Whether they are wanted.
    """
    shared = problem.prior.shared
    assert shared is not None
    standard = settings.kind == "1pl"
    mean, sd = (0.0, 1.0) if standard else population_of(problem, by_z)
    names = () if standard else shared.names
    errors = shared_errors(problem, by_z, anchors) if standard_errors else None
    joint = None if errors is None else errors.joint
    own: ItemKind = settings.kind if settings.kind in ("rasch", "1pl") else "own"
    kind: tuple[ItemKind, ...] = tuple(own if free else "fixed" for free in shared.own[:, 1].tolist())
    slope = by_z.slope[:, 0] / sd
    intercept = by_z.intercept - mean * slope
    if not standard:  # what is known, without rounding
        slope = torch.where(shared.own[:, 0], slope, shared.design[0, :, 0])
        intercept = torch.where(shared.own[:, 1], intercept, shared.offset[:, 1])
    items = replace(
        items,
        discrimination=slope.cpu().numpy(),
        intercept=intercept.cpu().numpy(),
        covariance=None if joint is None else theta_covariance(by_z, joint, names, mean, sd),
        kind=kind,
    )
    if anchors is not None and errors is not None and errors.by_known is not None:
        covariance, own_error = np.array(items.covariance), anchors.items.covariance
        covariance[list(anchors.places)] = 0.0 if own_error is None else np.nan_to_num(own_error)
        items = replace(items, covariance=covariance)
    whole, told_whole = None, settings.has_common_slope or (anchors is not None and anchors.joint is not None)
    if errors is not None and told_whole and items.n_items <= MOST_COUPLED_ITEMS:
        whole = whole_theta_covariance(problem, by_z, names, mean, sd, errors, anchors)
    loose = [False] * items.n_items if errors is None else errors.loose.tolist()
    return items, None if standard else moments_of(names, mean, sd, joint), whole, loose
