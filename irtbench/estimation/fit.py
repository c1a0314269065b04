"""Fit the model of one scale to responses, Rasch to 3PL: Pyro's SVI on the collapsed model, whatever the estimator."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from irtbench.data.checked_settings import shows_fields
from irtbench.data.given import ResponsesLike, as_any_responses
from irtbench.data.input_error import InputError, demand_choice, refuse_any
from irtbench.data.responses import ResponseMatrix, Responses, name_first
from irtbench.data.sparse_responses import SparseResponses
from irtbench.estimation.anchors import (
    AnchorsLike,
    KnownItems,
    anchors_among,
    known_parameters,
)
from irtbench.estimation.doubts import AbilityShape, find_doubts, shape_of_ability
from irtbench.estimation.driver import fenced
from irtbench.estimation.few_respondents.empirical_bayes import joint_abilities
from irtbench.estimation.fitted import EstimatedAbilities, FittedModel
from irtbench.estimation.marginal.category_problem import NEGLIGIBLE, CategoryProblem
from irtbench.estimation.marginal.guessing_profile import guessing_intervals
from irtbench.estimation.marginal.nodes import describe_nodes
from irtbench.estimation.marginal.observed_information import MOST_COUPLED_ITEMS, NormalMoments
from irtbench.estimation.marginal.problem import Problem, common_slope
from irtbench.estimation.ranks import Ranks
from irtbench.estimation.scale_fit import ScaleFit, fit_scale, with_names
from irtbench.estimation.settings import (
    FEWEST_RESPONDENTS,
    WORDS,
    Device,
    FitKeywords,
    FitSettings,
    Precision,
    fit_settings,
)
from irtbench.estimation.threads import threads_for
from irtbench.estimation.variational.item_posterior import ItemPosterior, fit_posterior
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.item_parameters import ItemParameters, JointError
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.categories import CategoryItems, category_model
from irtbench.models.pyro_model.model import DifficultyPrior, logistic_model
from irtbench.models.pyro_model.rows import StoredRows, encode_responses
from irtbench.models.pyro_model.tensors import KnownLinear, NodeTensors, SharedParameters
from irtbench.models.quadrature import Quadrature, normal_grid, rescaled

logger = logging.getLogger(__name__)


@shows_fields(FitSettings, words=WORDS)
def fit_model(
    responses: ResponsesLike | Responses,
    settings: FitSettings | None = None,
    *,
    anchors: AnchorsLike | None = None,
    seed: int = 0,
    start: ItemParameters | None = None,
    ranks: Ranks | None = None,
    **keywords: Unpack[FitKeywords],
) -> FittedModel:
    """Estimate the parameters of all items of one scale.

    Collapsed SVI: ability is integrated out, a Delta guide over the items maximises the ELBO, which then is the
    marginal likelihood (plus the log prior). The sign of theta is such that it goes with the proportion correct.

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`; or on disk: `encode_table`); missing ones are
        left out of the likelihood. k right of n trials count as n responses, independent of each other given theta.
    settings
        Model, prior and numerics; None for a 2PL by marginal maximum likelihood.
    anchors
        Items whose parameters are known and stay as they are, a scale of a bank, a fit or `as_parameters`: the others
        are estimated on their scale, with the mean and the standard deviation of these respondents. Items that the
        responses lack are passed over. Standard errors carry the anchors' own error, from other respondents: by the
        joint error of a scale or fit, else by the covariance of each item as if they were independent, which is too
        little, for items of one calibration err alike; without a covariance the anchors are taken as known.
    seed
        For Pyro's random numbers; the default optimiser draws none.
    start
        Parameters of these items from which the iterations start, as of a fit to like responses; None for a rough
        estimate from the data.
    ranks
        Processes started by torchrun, of which each reads its share of stored responses and all find the same; None
        for this one alone.
    keywords
        Of the settings, in the words of the command line too: ``model="3pl"`` is ``kind``, ``options=4`` ``n_options``.

    Raises
    ------
    InputError
        If there are fewer than 10 respondents, a respondent or an item has no response, (without a prior) all responses
        to an item are the same, so that its difficulty would be infinite, or (with prior weak) items outnumber
        respondents, so that the items' priors would set the scale of theta; if anchors are not among the items, all
        have a slope of 0, or go with a model or prior that does not take them; or if ``start`` is of other items.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> theta, difficulty = rng.normal(size=300), np.linspace(-1.5, 1.5, 6)
    >>> values = (rng.random((300, 6)) < 1 / (1 + np.exp(-1.5 * (theta[:, None] - difficulty)))).astype(float)
    >>> values[rng.random(values.shape) < 0.1] = np.nan
    >>> fitted = irtbench.fit_model(values)
    >>> fitted
    <FittedModel: 6 items (2pl), 300 respondents, log-likelihood -832.73, converged>
    >>> fitted.table()[["item_id", "discrimination", "difficulty", "se_difficulty"]].round(2)
      item_id  discrimination  difficulty  se_difficulty
    0   item1            1.34       -1.36           0.24
    1   item2            2.35       -0.63           0.11
    2   item3            1.33       -0.30           0.13
    3   item4            1.32        0.44           0.14
    4   item5            1.52        1.01           0.18
    5   item6            1.58        1.84           0.35
    >>> irtbench.fit_model(values, prior="weak", guessing=0.25).priors.name
    'weak'
    >>> rasch = irtbench.fit_model(values, model="rasch")
    >>> rasch
    <FittedModel: 6 items (rasch), 300 respondents, log-likelihood -834.50, converged>
    >>> {name: round(value, 2) for name, value in rasch.population.items()}
    {'mean': 0.0, 'sd': 1.52, 'se_mean': 0.0, 'se_sd': 0.13}
    """
    began, responses = time.perf_counter(), as_any_responses(responses)
    settings = fit_settings(settings, keywords)
    known = None if anchors is None else anchors_among(responses.item_ids, anchors, settings)
    if responses.on_disk:
        demand_streamed(settings)
    elif ranks is not None:
        raise InputError("fit: several processes fit responses on disk; expected those of encode_table")
    check_estimable(
        responses, settings.priors, () if known is None else known.items.item_ids,
        [item for item in settings.prior_items if settings.bounds(item)], settings.has_common_slope,
    )  # fmt: skip
    if start is not None and start.item_ids != responses.item_ids:
        raise InputError("fit: start is of other items than the responses; expected the same in the same order")
    with threads_for(responses.n_respondents * max(responses.n_items, settings.n_nodes)), fenced(seed):
        problem = problem_of(responses, settings, normal_grid(settings.n_nodes), known, ranks)
        with torch.no_grad():
            design = common_slope(problem.free) if known is not None and settings.kind == "1pl" else None
            first = None if start is None else problem.from_public(start)
            fit = fit_scale(problem, settings, start=first, anchors=known, design=design)
        fitted = model_of(fit, responses, settings, seed, began, known)
    logger.info("fit: %s (%d steps)", fitted.status, fitted.steps)
    return fitted


@dataclass(frozen=True)
class Findings:
    """What a fit says besides its mode.

    Parameters
    ----------
    items
        The items, with their covariances where they are known.
    joint
        Their joint covariance, if known.
    intervals, doubts, ability_shape
        As of `FittedModel`.
    """

    items: ItemParameters
    joint: NDArray[np.float64] | None
    intervals: NDArray[np.float64] | None
    doubts: tuple[str, ...]
    ability_shape: AbilityShape | None


def findings_of(
    fit: ScaleFit, responses: Responses, settings: FitSettings, anchors: KnownItems | None = None
) -> Findings:
    """Those of a scale, with what speaks against taking theta for ability."""
    problem, found = fit.problem, fit.found
    items, joint = items_of(fit, responses.item_ids, settings, anchors)
    intervals, plain = None, anchors is None and problem.prior.shared is None
    known = fit.errors is not None and fit.status.converged and not fit.status.integrates_items
    if plain and known and isinstance(responses, ResponseMatrix) and gives_intervals(settings):
        guessed, _ = settings.guessing_of(items.item_ids)
        intervals = guessing_intervals(problem, items, guessed, joint) if guessed.any() else None
    doubts, shape = find_doubts(problem, found, fit.priors), shape_of_ability(problem, found)
    return Findings(items, joint, intervals, doubts, shape)


def model_of(
    fit: ScaleFit,
    responses: Responses,
    settings: FitSettings,
    seed: int,
    began: float,
    anchors: KnownItems | None = None,
    findings: Findings | None = None,
) -> FittedModel:
    """The model of a scale; `findings` are found where they are not given."""
    problem, found, status = fit.problem, fit.found, with_names(fit.status, responses)
    with torch.no_grad():
        quantiles = None if fit.errors is None or found.quantiles is None else found.quantiles.cpu().numpy()
        if findings is None:
            findings = findings_of(fit, responses, settings, anchors)
            plain = anchors is None and problem.prior.shared is None and not fit.priors.is_flat
            if plain and found.abilities is None and found.status.converged:
                found = replace(found, abilities=joint_abilities(problem, found.items))
    items, joint = findings.items, findings.joint
    posterior, moments = None, fit.moments
    if settings.posterior is not None and status.converged:
        mode = found.mode or found.items
        posterior = fit_posterior(problem, mode, settings.posterior, seed=seed, item_ids=responses.item_ids)
        items, quantiles, joint = with_posterior(items, posterior), posterior.quantiles, None
        moments = posterior.population or moments
        status = replace(status, posterior=posterior.stopped_because)
    quadrature = population_of(settings, moments, problem.nodes)
    return FittedModel(
        items=items,
        quadrature=quadrature,
        nodes=describe_nodes(problem.nodes),
        log_likelihood=found.log_likelihood,
        priors=fit.priors,
        n_respondents=responses.n_respondents,
        n_responses=responses.n_responses,
        n_by_item=responses.n_by_item,
        n_correct_by_item=responses.n_correct_by_item,
        kind="mean" if posterior is not None else found.kind,
        status=status,
        doubts=findings.doubts,
        ability_shape=findings.ability_shape,
        seconds=time.perf_counter() - began,
        seed=seed,
        settings=settings,
        posterior=posterior,
        log_binomial_coefficients=responses.log_coefficients(),
        quantiles=quantiles,
        likelihood_intervals=findings.intervals,
        abilities=found.abilities and EstimatedAbilities(*(part.cpu().numpy() for part in found.abilities)),
        moments=moments,
        joint_error=joint_error(joint, quadrature, responses.n_respondents, settings, anchors),
        anchor_error=None if anchors is None else anchors.error,
        n_density_parameters=found.n_density_parameters,
    )


def population_of(settings: FitSettings, moments: NormalMoments | None, nodes: NodeTensors) -> Quadrature:
    """The population of abilities on a grid; an estimated one is the density on the nodes."""
    grid = normal_grid(settings.n_nodes)
    if settings.population == "estimated":
        grid = Quadrature(nodes.theta[:, 0].cpu().numpy(), nodes.log_weights.cpu().numpy())
    return grid if moments is None else rescaled(grid, moments.mean, moments.sd)


def items_of(
    fit: ScaleFit, item_ids: tuple[str, ...], settings: FitSettings, anchors: KnownItems | None
) -> tuple[ItemParameters, NDArray[np.float64] | None]:
    """The items with their covariances, and their joint covariance where it is known."""
    items = with_kinds(fit.problem.public(fit.found.items, item_ids), settings, anchors)
    if fit.errors is None:
        return items, None
    joint = items.n_items <= MOST_COUPLED_ITEMS and (anchors is None or anchors.joint is not None)
    return replace(items, covariance=fit.errors.items), fit.errors.joint if joint else None


def with_kinds(items: ItemParameters, settings: FitSettings, anchors: KnownItems | None = None) -> ItemParameters:
    """The items with the kind of each; Rasch items with slopes of 1."""
    own = settings.kind if settings.has_common_slope else "own"
    if own == "own" and anchors is None:
        return items
    places = () if anchors is None else anchors.places
    kinds: Any = tuple("fixed" if j in places else own for j in range(items.n_items))
    if settings.kind == "rasch" and anchors is None:
        covariance = without_slopes(items.covariance)
        items = replace(items, discrimination=np.ones(items.n_items), covariance=covariance)
    return replace(items, kind=kinds)


def without_slopes(covariance: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
    """Covariances of items whose first parameter, the slope, is known."""
    if covariance is None:
        return None
    own = np.arange(covariance.shape[1]) > 0
    return np.where(np.outer(own, own), covariance, 0.0)


def gives_intervals(settings: FitSettings) -> bool:
    """Whether guessing, where it is estimated, has likelihood-ratio intervals: no density of it is the user's own."""
    return settings.prior_guessing is None and settings.priors.upper is None and settings.posterior is None


def joint_error(
    covariance: NDArray[np.float64] | None,
    population: Quadrature,
    n_respondents: int,
    settings: FitSettings,
    anchors: KnownItems | None = None,
) -> JointError | None:
    """The items' covariance, and that of the scale's zero and unit: of mean and standard deviation of n people.

    var / n, and (kurtosis - 1) / (4 n) relative to the unit, which for a normal population is 1 / (2 n). Slopes of 1
    fix the unit; with anchors both are those of their scale.
    """
    if covariance is None or covariance.shape[1] != 3 or not np.isfinite(covariance).all():
        return None  # scores carry that of (a, d, c)
    if anchors is not None and anchors.joint is not None:
        return JointError(covariance, anchors.joint.location, anchors.joint.unit)
    fourth = population.weights @ (population.nodes - population.mean) ** 4 / population.deviation**4
    unit = 0.0 if settings.kind == "rasch" else (fourth - 1) / (4 * n_respondents)
    return JointError(covariance, population.deviation**2 / n_respondents, float(unit))


def problem_of(
    responses: Responses,
    settings: FitSettings,
    quadrature: Quadrature,
    anchors: KnownItems | None = None,
    ranks: Ranks | None = None,
) -> Problem:
    """The Pyro model that these settings stand for, with the responses (of this process) on their device."""
    device = choose_device(settings.device) if ranks is None else ranks.device(settings.device)
    known = torch.from_numpy(known_parameters(responses.item_ids, settings, anchors)).to(device)
    difficulty = DifficultyPrior.of_items(responses.item_ids, settings.prior_items, device)
    wanted = "float64" if isinstance(responses, SparseResponses) else settings.dtype  # nothing is gained by less
    nodes = NodeTensors.from_quadrature(quadrature, dtype=choose_precision(wanted), device=device)
    rows = encode_responses(responses, device)
    if ranks is not None:
        assert isinstance(rows, StoredRows)
        rows = ranks.share_of(rows)
    if settings.priors.upper is not None:
        each = [Logistic(lower=True, upper=True)] * responses.n_items
        items = CategoryItems(each, [2] * responses.n_items, 1, device)
        known[:, 2:] = torch.logit(known[:, 2:].clamp(NEGLIGIBLE, 1 - NEGLIGIBLE))
        model = partial(category_model, items=items, priors=settings.priors, known=known, difficulty=difficulty)
        return CategoryProblem.of(model, rows, nodes)
    shared = linear = None
    if anchors is not None:
        linear = KnownLinear(known[:, :2].nan_to_num(), known[:, :2].isnan())
    elif settings.has_common_slope:
        shared = SharedParameters.common_slope(torch.ones_like(known[:, 0]), rasch=settings.kind == "rasch")
    model = partial(
        logistic_model, priors=settings.priors, guessing_free=known[:, 2].isnan(),
        guessing_fixed=known[:, 2].nan_to_num(), shared=shared, known=linear, difficulty=difficulty,
    )  # fmt: skip
    return Problem.of(model, rows, nodes)


def choose_precision(wanted: Precision) -> torch.dtype:
    """The floating point numbers of that name."""
    demand_choice("model: dtype", wanted, Precision)
    return torch.float32 if wanted == "float32" else torch.float64


def choose_device(wanted: Device) -> torch.device:
    """The device of that name; ``auto`` is a GPU where there is one."""
    demand_choice("model: device", wanted, Device)
    if wanted == "cuda" and not torch.cuda.is_available():
        raise InputError("model: device cuda was asked for, but torch sees no GPU; expected auto or cpu")
    return torch.device("cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu")


def check_estimable(
    responses: Responses,
    priors: Priors,
    anchors: Sequence[str] = (),
    bounded: Sequence[str] = (),
    common_slope: bool = False,
) -> None:
    """Refuse data that do not determine the parameters; see `fit_model` for the errors.

    `bounded` are items whose own priors keep their parameters finite, whatever was answered. A prior of a common slope
    counts once, so that many items do not set the scale by it.
    """
    n, n_items, p = responses.n_respondents, responses.n_items, responses.proportion_correct()
    ids, apart = responses.item_ids, {*anchors, *bounded}
    which, idle = "weak" if priors.name == "weak" else "of slopes", responses.names_at(responses.unanswered)
    nobody = [ids[j] for j in np.flatnonzero(np.isnan(p))]
    constant = [ids[j] for j in np.flatnonzero((p == 0) | (p == 1)) if ids[j] not in apart]
    refuse_any((
        (n < FEWEST_RESPONDENTS, f"fit: {n} respondents; expected at least {FEWEST_RESPONDENTS} to estimate items "
         "from (fewer systems are compared on their accuracy, irtbench compare, or scored on a bank)"),
        (priors.slope is not None and not common_slope and n_items > n and not anchors,
         f"fit: {n_items} items and {n} respondents: with more items than respondents prior {which} sets the scale of "
         "ability in their place; expected prior hierarchical, or model rasch or 1pl"),
        (idle, f"fit: no response from respondent {name_first(idle)}; expected at least one each"),
        (nobody, f"fit: no response to item {name_first(nobody)}; expected at least one each"),
        *([right_or_wrong_alone(responses, "fit: all responses")] if anchors else []),
        (constant and not priors.bounds_difficulty,
         f"fit: all responses are the same for item {name_first(constant)}; "
         "leave such items out or use a prior (its difficulty would be infinite): weak, or hierarchical where items "
         "outnumber respondents"),
    ))  # fmt: skip


def right_or_wrong_alone(responses: Responses, which: str) -> tuple[bool, str]:
    """Why respondents are refused, next to items that are known from others, whose mean ability is infinite."""
    n, right = int(responses.n_by_item.sum()), int(responses.n_correct_by_item.sum())
    same, other = ("right", "wrong") if right else ("wrong", "right")
    why = f"{which} are {same}; expected some {other} ones, without which ability has no mean"
    return right in (0, n), why


def demand_streamed(settings: FitSettings) -> None:
    """Refuse settings that need all responses in memory.

    Raises
    ------
    InputError
        Naming the setting.
    """
    if name := setting_in_memory(settings):
        raise InputError(f"fit: {name} needs all responses in memory; expected fewer of them, or another setting")


def setting_in_memory(settings: FitSettings) -> str:
    """The first setting that needs all responses in memory, and its value; empty if none does."""
    needs = {
        "prior hierarchical": settings.priors.hierarchy is not None,
        "posterior": settings.posterior is not None,
        "optimiser adam": settings.optimiser == "adam",
    }
    return next((name for name, asked in needs.items() if asked), "")


def with_posterior(items: ItemParameters, posterior: ItemPosterior) -> ItemParameters:
    """Posterior means and covariances in place of the mode and the observed information."""
    return replace(
        items,
        discrimination=posterior.mean[:, 0],
        intercept=posterior.mean[:, 1],
        guessing=posterior.mean[:, 2],
        covariance=posterior.covariance,
        upper_asymptote=posterior.mean[:, 3] if posterior.mean.shape[1] > 3 else None,
    )
