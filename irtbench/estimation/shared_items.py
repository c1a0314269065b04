"""Items that are not all estimated by themselves: Rasch, 1PL, and items on the scale of known ones (anchors)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import logit

from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first
from irtbench.estimation.marginal.beside_anchors import KnownItems, Placed, errors_beside, moments_beside
from irtbench.estimation.marginal.category_problem import NEGLIGIBLE
from irtbench.estimation.marginal.observed_information import MOST_COUPLED_ITEMS
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.marginal.shared_scale import NormalMoments, shared_errors, slope_of_all
from irtbench.estimation.settings import FitSettings, ModelKind
from irtbench.models.item_parameters import ItemKind, ItemParameters, JointError
from irtbench.models.parameter_table import ParametersLike, as_parameters
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.pyro_model.shared import KnownLinear


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
    if anchors.categories is not None:
        raise InputError("fit: the anchors are graded items; expected responses in categories and a model of these")
    if not anchors.discrimination.any():
        raise InputError("fit: none of the anchors is among the items of the responses with a slope other than 0")
    if settings.prior == "hierarchical" or settings.posterior is not None:
        raise InputError("fit: anchors go with prior none or weak, and without a posterior")
    if settings.population == "estimated":
        raise InputError("fit: beside anchors the population is normal; expected population normal")
    if settings.optimiser == "adam" and settings.kind == "1pl":
        raise InputError("fit: one slope for all beside anchors goes with optimiser fisher_scoring")
    if settings.estimates_guessing and settings.priors.guessing is None:
        raise InputError("fit: anchors beside guessing without a prior; expected prior weak, or a prior_guessing")
    if settings.kind == "1pl" and settings.priors.slope is not None:
        raise InputError("fit: anchors beside a 1pl, which has one slope, go without a prior of slopes")
    if anchors.upper_asymptote is not None and not settings.has_upper_asymptotes:
        raise InputError("fit: the anchors have upper asymptotes; expected a model with them")
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


def known_linear(
    item_ids: Sequence[str], settings: FitSettings, anchors: KnownItems | None, device: torch.device
) -> KnownLinear | None:
    """Slopes and intercepts that are known: the anchors', and slopes of 1 beside them; None without anchors."""
    if anchors is None:
        return None
    values, free = np.zeros((len(item_ids), 2)), np.ones((len(item_ids), 2), dtype=np.bool_)
    if settings.kind == "rasch":
        values[:, 0], free[:, 0] = 1.0, False
    places = list(anchors.places)
    values[places], free[places] = np.stack([anchors.items.discrimination, anchors.items.intercept], axis=1), False
    return KnownLinear(torch.from_numpy(values).to(device), torch.from_numpy(free).to(device))


def known_asymptotes(item_ids: Sequence[str], settings: FitSettings, anchors: KnownItems | None) -> NDArray[np.float64]:
    """What is known of the parameters of 4PL items, asymptotes as logits, NaN where estimated, shape (n_items, 4)."""
    known = np.full((len(item_ids), 4), np.nan)
    for place, item in enumerate(item_ids):
        choice = settings.by_item.get(item)
        if choice is not None:
            known[place, 3] = 1.0
            known[place, 2] = {"2pl": 0.0, "3pl": np.nan}[choice] if isinstance(choice, str) else choice
    if anchors is not None:
        own = anchors.items
        upper = np.ones(own.n_items) if own.upper_asymptote is None else own.upper_asymptote
        known[list(anchors.places)] = np.stack([own.discrimination, own.intercept, own.guessing, upper], axis=1)
    known[:, 2:] = logit(known[:, 2:].clip(NEGLIGIBLE, 1 - NEGLIGIBLE))
    return known


def demand_new_items(prior_items: Mapping[str, tuple[float, float]], anchors: KnownItems) -> None:
    """Refuse priors of items whose parameters are known and stay."""
    if known := [item for item in anchors.items.item_ids if item in prior_items]:
        raise InputError(f"fit: prior_items: {name_first(known)} is an anchor, which stays as it is; leave it out")


def at_anchors(free: NDArray[np.bool_], fixed: NDArray[np.float64], anchors: KnownItems) -> None:
    """Fix guessing of the anchors at what is known of them."""
    places = list(anchors.places)
    free[places], fixed[places] = False, anchors.items.guessing


#: Items as they are read, the population if it is not N(0, 1), the items' covariance, the items not determined.
AsRead = tuple[ItemParameters, NormalMoments | None, NDArray[np.float64] | None, list[bool]]


def read_with_one_slope(
    problem: Problem, found: ItemTensors, items: ItemParameters, *, rasch: bool, standard_errors: bool
) -> AsRead:
    """Items of one slope, of 1 and the population of its standard deviation where they are Rasch items."""
    errors = shared_errors(problem, found) if standard_errors else None
    each, whole = (None, None) if errors is None else errors.read(unit_slopes=rasch)
    kind: ItemKind = "rasch" if rasch else "1pl"
    slope = np.ones(items.n_items) if rasch else items.discrimination
    items = replace(items, discrimination=slope, covariance=each, kind=(kind,) * items.n_items)
    moments = None
    if rasch:
        error = float("nan") if errors is None else float(errors.joint[0, 3, 3].sqrt())
        moments = NormalMoments(0.0, slope_of_all(problem, found), 0.0, error)
    loose = [False] * items.n_items if errors is None else errors.loose.tolist()
    return items, moments, whole if items.n_items <= MOST_COUPLED_ITEMS else None, loose


def read_beside(
    placed: Placed, items: ItemParameters, anchors: KnownItems, model: ModelKind, *, standard_errors: bool
) -> AsRead:
    """Items beside anchors, with the covariance of all where that of the anchors is known."""
    errors = errors_beside(placed, anchors) if standard_errors else None
    own: ItemKind = model if model in ("rasch", "1pl") else "own"
    kinds: list[ItemKind] = [own] * items.n_items
    for place in anchors.places:
        kinds[place] = "fixed"
    covariance = None if errors is None else errors.items.copy()
    if covariance is not None:
        covariance[np.abs(covariance) < 1e-15] = 0.0
    items = replace(items, covariance=covariance, kind=tuple(kinds))
    whole = None if errors is None or anchors.joint is None else errors.joint
    whole = whole if items.n_items <= MOST_COUPLED_ITEMS else None
    loose = [False] * items.n_items if errors is None else errors.loose.tolist()
    return items, moments_beside(placed, errors), whole, loose
