"""Models whose items share parameters: Rasch, 1PL, and items on the scale of known ones (anchors)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first
from irtbench.estimation.marginal.observed_information import MOST_COUPLED_ITEMS
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.marginal.shared_scale import (
    NormalMoments,
    joint_covariance,
    moments_of,
    population_of,
    theta_covariance,
    whole_theta_covariance,
)
from irtbench.estimation.settings import FitSettings
from irtbench.models.item_parameters import ItemKind, ItemParameters
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.pyro_model.shared import SharedParameters


def anchors_among(item_ids: Sequence[str], known: ItemParameters, settings: FitSettings) -> ItemParameters:
    """The known items that are among these.

    Raises
    ------
    InputError
        If there are none that tell of ability, or anchors do not go with the settings.
    """
    present = set(item_ids)
    anchors = known.select([item for item in known.item_ids if item in present])
    if not anchors.discrimination.any():
        raise InputError("fit: none of the anchors is among the items of the responses with a slope other than 0")
    if settings.has_common_slope or settings.prior == "hierarchical" or settings.posterior is not None:
        raise InputError("fit: anchors go with model 2pl or 3pl, prior none or weak, and without a posterior")
    if settings.population == "estimated":
        raise InputError("fit: beside anchors the population is normal; expected population normal")
    if settings.estimates_guessing and settings.priors.guessing is None:
        raise InputError("fit: anchors beside guessing without a prior; expected prior weak, or a prior_guessing")
    return anchors


def places_of(anchors: ItemParameters, item_ids: Sequence[str]) -> list[int]:
    """Positions of the anchors among the items."""
    position = {item: k for k, item in enumerate(item_ids)}
    return [position[item] for item in anchors.item_ids]


def shared_parameters(
    item_ids: Sequence[str], settings: FitSettings, anchors: ItemParameters | None, device: torch.device
) -> SharedParameters | None:
    """What items share by these settings; None where all parameters are their own."""
    if settings.has_common_slope:
        return SharedParameters.common_slope(len(item_ids), device)
    if anchors is None:
        return None
    known, slope, intercept = np.zeros((3, len(item_ids)))
    places = places_of(anchors, item_ids)
    known[places], slope[places], intercept[places] = 1.0, anchors.discrimination, anchors.intercept
    slopes, intercepts, where = (torch.from_numpy(part).to(device) for part in (slope, intercept, known))
    return SharedParameters.anchored(slopes, intercepts, where > 0)


def demand_new_items(prior_items: Mapping[str, tuple[float, float]], anchors: ItemParameters) -> None:
    """Refuse priors of items whose parameters are known and stay."""
    if known := [item for item in anchors.item_ids if item in prior_items]:
        raise InputError(f"fit: prior_items: {name_first(known)} is an anchor, which stays as it is; leave it out")


def at_anchors(
    free: NDArray[np.bool_], fixed: NDArray[np.float64], item_ids: Sequence[str], anchors: ItemParameters
) -> None:
    """Fix guessing of the anchors at what is known of them."""
    places = places_of(anchors, item_ids)
    free[places], fixed[places] = False, anchors.guessing


def told(
    problem: Problem, by_z: ItemTensors, items: ItemParameters, settings: FitSettings, *, standard_errors: bool
) -> tuple[ItemParameters, NormalMoments | None, NDArray[np.float64] | None, list[bool]]:
    """Items as they are told, the population if it is not N(0, 1), the items' covariance, the items not determined.

    The covariance of all items with each other is that of one slope for all; beside anchors, whose own error is not
    known here, it is None.

    Parameters
    ----------
    problem, by_z
        The fit, its ability standard normal.
    items
        The same items in the public form.
    settings
        Of the fit.
    standard_errors
        Whether they are wanted.
    """
    shared = problem.prior.shared
    assert shared is not None
    standard = settings.kind == "1pl"
    mean, sd = (0.0, 1.0) if standard else population_of(problem, by_z)
    names = () if standard else shared.names
    joint, loose = None, [False] * items.n_items
    if standard_errors:
        joint, found = joint_covariance(problem, by_z)
        loose = found.tolist()
    own = shared.own[:, 0].tolist()
    kind: tuple[ItemKind, ...] = tuple("own" if free else "fixed" for free in own)
    if settings.kind in ("rasch", "1pl"):
        kind = (settings.kind,) * items.n_items
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
    whole = None
    if joint is not None and settings.has_common_slope and items.n_items <= MOST_COUPLED_ITEMS:
        whole = whole_theta_covariance(problem, by_z, names, mean, sd)
    return items, None if standard else moments_of(names, mean, sd, joint), whole, loose
