"""Fit the collapsed 2PL/3PL: the mode by preconditioned steps, or Pyro's SVI with a Delta guide."""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import polygamma
from torch import Tensor

from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.data.sparse_responses import SparseResponses
from irtbench.estimation.adam import adam_mode
from irtbench.estimation.adaptive import NARROW, with_adapted_nodes
from irtbench.estimation.asymptotes import without_guessing_at_zero
from irtbench.estimation.criteria import InformationCriteria
from irtbench.estimation.hierarchical import find_hierarchical_mode
from irtbench.estimation.mode import Mode, find_mode, starting_values
from irtbench.estimation.population import N_DENSITY_PARAMETERS, find_mode_with_population
from irtbench.estimation.posterior import ItemPosterior, PosteriorKind, fit_posterior
from irtbench.estimation.problem import Problem
from irtbench.estimation.response_rows import SparseRows, encode_responses
from irtbench.estimation.uncertainty import sampling_covariance
from irtbench.models.item_response import ItemParameters
from irtbench.models.logistic import NodeTensors
from irtbench.models.priors import PriorName, Priors
from irtbench.models.quadrature import Quadrature, normal_grid

logger = logging.getLogger(__name__)

ItemModel = Literal["2pl", "3pl"]
FEW_CELLS = 2**26  # respondents x (nodes or items) up to which a second thread gains next to nothing
WEAKLY_KNOWN = 0.9  # guessing is not identified where its posterior is wider than this share of the prior
FEWEST_RESPONDENTS = 10
SAMPLE, LEAST_STRIDE = 2_000, 4  # respondents from whom the start is estimated, and how many more there must be


@dataclass(frozen=True)
class SVISettings:
    """How a model is fitted.

    Parameters
    ----------
    kind
        ``2pl``, or ``3pl`` with an estimated guessing parameter for each item.
    guessing
        With ``2pl``: a lower asymptote held fixed for all items, such as 1 / options.
    by_item
        Where an item differs from `kind`: ``2pl``, ``3pl``, or a number at which its guessing is held. Items that the
        data lack are passed over.
    prior
        ``none`` for marginal maximum likelihood, ``weak`` for the priors of `Priors.named`, ``hierarchical`` for one
        learnt from the items (few respondents, sparse data); None chooses ``none`` for the 2PL and ``weak`` for the
        3PL.
    n_options
        Number of answers to choose from, for the weak prior of guessing.
    population
        ``normal``, or a smooth density ``estimated`` with the items, of mean 0 and standard deviation 1.
    optimiser
        ``preconditioned`` steps of the Delta guide (20 or so), or ``adam`` on Pyro's ELBO (hundreds).
    tolerance
        Converged when no item's gradient exceeds this many of its standard errors.
    max_steps
        Stop, unconverged, after this many preconditioned steps (a hundred times as many for Adam).
    n_nodes
        Size of the grid over which ability is integrated out.
    standard_errors
        Whether to compute the observed information and invert it; only a fit that converged has any.
    posterior
        ``normal`` or ``lowrank``: fit a variational posterior of the items, whose means and covariances then stand for
        the mode and the observed information; None for these.
    dtype
        Floating point numbers of the integration; parameters are float64 always.
    device
        Where the sums over respondents and items are computed; ``auto`` takes a GPU if there is one.
    """

    kind: ItemModel = "2pl"
    guessing: float = 0.0
    by_item: Mapping[str, ItemModel | float] = field(default_factory=dict)
    prior: PriorName | None = None
    n_options: int = 4
    population: Literal["normal", "estimated"] = "normal"
    optimiser: Literal["preconditioned", "adam"] = "preconditioned"
    tolerance: float = 1e-5
    max_steps: int = 500
    n_nodes: int = 61
    standard_errors: bool = True
    posterior: PosteriorKind | None = None
    dtype: Literal["float64", "float32"] = "float64"
    device: Literal["auto", "cpu", "cuda"] = "auto"

    def __post_init__(self) -> None:
        if not 0 <= self.guessing < 1:
            raise InputError(f"model: guessing must be in [0, 1) but got {self.guessing}")
        if self.kind == "3pl" and self.guessing > 0:
            raise InputError("model: guessing is estimated by a 3pl; a fixed value goes with 2pl")
        for item, choice in self.by_item.items():
            if isinstance(choice, float | int) and not 0 <= choice < 1:
                raise InputError(f"model: by_item {item}: guessing must be in [0, 1) but got {choice}")
        if self.n_options < 2:
            raise InputError(f"model: n_options must be at least 2 but got {self.n_options}")
        if self.population == "estimated" and (self.prior == "hierarchical" or self.optimiser == "adam"):
            raise InputError(
                "model: an estimated population goes with the preconditioned steps and with prior none or weak"
            )
        if self.n_nodes < 11:
            raise InputError(f"model: n_nodes must be at least 11 but got {self.n_nodes}")

    @property
    def estimates_guessing(self) -> bool:
        """Whether any item is a 3PL."""
        return self.kind == "3pl" or "3pl" in self.by_item.values()

    @property
    def priors(self) -> Priors:
        """The prior densities that these settings stand for."""
        name: PriorName = self.prior or ("weak" if self.estimates_guessing else "none")
        return Priors.named(name, n_options=self.n_options, guessing_estimated=self.estimates_guessing)

    def guessing_of(self, item_ids: Sequence[str]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Whether each item's guessing is estimated, and the value it is held at if not; shapes (n_items,)."""
        otherwise: ItemModel | float = "3pl" if self.kind == "3pl" else self.guessing
        choices = [self.by_item.get(item, otherwise) for item in item_ids]
        free = np.array([choice == "3pl" for choice in choices])
        return free, np.array([0.0 if isinstance(choice, str) else float(choice) for choice in choices])


@dataclass(frozen=True, eq=False)
class EstimatedAbilities:
    """Abilities estimated with the items integrated out, at the origin and unit of these respondents.

    Parameters
    ----------
    theta
        Shape (n_respondents,), of mean 0 and standard deviation 1.
    covariance
        Sampling covariance, shape (n_respondents, n_respondents).
    """

    theta: NDArray[np.float64]
    covariance: NDArray[np.float64]

    @property
    def standard_error(self) -> NDArray[np.float64]:
        """Of each ability, shape (n_respondents,)."""
        return np.sqrt(np.diagonal(self.covariance))


@dataclass(frozen=True, eq=False)
class FittedModel(InformationCriteria):
    """Item parameters estimated from a response matrix, and how that went.

    Parameters
    ----------
    items
        The estimates with their sampling covariance.
    quadrature
        The population of abilities on a grid.
    nodes
        The nodes over which ability was integrated out, in words.
    log_likelihood
        Marginal log-likelihood of the responses at the estimates.
    priors
        Prior densities used.
    n_respondents, n_responses
        Size of the data.
    converged
        Whether the estimates are a maximum of the likelihood (of the posterior, with a prior).
    stopped_because
        The reason in words.
    steps, seconds, seed, settings
        How it was computed.
    posterior
        The variational posterior, if one was asked for; the log-likelihood is that of the mode all the same.
    abilities
        Abilities of the respondents, where few respondents and many items had these estimated in place of the items.
        Scoring the same responses with the items as known would count every answer twice.
    """

    items: ItemParameters
    quadrature: Quadrature
    nodes: str
    log_likelihood: float
    priors: Priors
    n_respondents: int
    n_responses: int
    converged: bool
    stopped_because: str
    steps: int
    seconds: float
    seed: int
    settings: SVISettings = field(default_factory=SVISettings)
    posterior: ItemPosterior | None = None
    abilities: EstimatedAbilities | None = None

    @property
    def n_parameters(self) -> int:
        """Number of estimated parameters, those of an estimated population included."""
        density = N_DENSITY_PARAMETERS if self.settings.population == "estimated" else 0
        return int(self.items.n_free.sum()) + density

    @property
    def guessing_not_identified(self) -> tuple[str, ...]:
        """Items meant to be 3PL of whose guessing the data say nothing.

        Without a prior, those held at 0; with one, those whose posterior of logit c is about as wide as the prior, a
        Beta(alpha, beta) of c: its variance there is trigamma(alpha) + trigamma(beta).
        """
        wanted, _ = self.settings.guessing_of(self.items.item_ids)
        unknown = wanted & ~self.items.guessing_estimated
        if self.priors.guessing is not None and self.items.covariance is not None:
            c = self.items.guessing
            with np.errstate(divide="ignore", invalid="ignore"):
                width = np.sqrt(self.items.covariance[:, 2, 2]) / (c * (1 - c))
            prior_width = np.sqrt(polygamma(1, self.priors.guessing).sum())
            unknown |= self.items.guessing_estimated & (width > WEAKLY_KNOWN * prior_width)
        return tuple(self.items.item_ids[j] for j in np.flatnonzero(unknown))

    @property
    def estimated_population(self) -> Quadrature | None:
        """The estimated density of ability, the prior of scoring; None for the standard normal."""
        return self.quadrature if self.settings.population == "estimated" else None

    def summary(self) -> dict[str, Any]:
        """What fit.json holds."""
        return {
            **self.criteria(),
            "n_items": self.items.n_items,
            "n_responses": self.n_responses,
            "model": self.settings.kind,
            "prior": self.priors.describe(),
            "quadrature": self.nodes,
            "converged": self.converged,
            "stopped_because": self.stopped_because,
            "steps": self.steps,
            "seconds": round(self.seconds, 3),
            "seed": self.seed,
            "versions": software_versions(),
            "population": self.settings.population,
            "guessing_not_identified": list(self.guessing_not_identified),
            "posterior": None if self.posterior is None else self.posterior.summary(),
            "settings": asdict(self.settings),
        }


def software_versions() -> dict[str, str]:
    """Versions of what the estimates depend on."""
    packages = ("irtbench", "torch", "pyro-ppl", "numpy")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def fit_model(
    responses: ResponseMatrix | SparseResponses, settings: SVISettings | None = None, *, seed: int = 0
) -> FittedModel:
    """Estimate the parameters of all items of one scale.

    Collapsed SVI: ability is integrated out, a Delta guide over the items maximises the ELBO, which then is the
    marginal likelihood (plus the log prior). The sign of theta is such that it goes with the proportion correct.

    Parameters
    ----------
    responses
        Graded responses; missing ones are left out of the likelihood.
    settings
        Model, prior and numerics; None for a 2PL by marginal maximum likelihood.
    seed
        For Pyro's random numbers; the default optimiser draws none.

    Raises
    ------
    InputError
        If there are fewer than 10 respondents, a respondent or an item has no response, or (without a prior) all
        responses to an item are the same, so that its difficulty would be infinite.
    """
    settings = settings or SVISettings()
    check_estimable(responses, settings.priors)
    n_cells = responses.n_respondents * max(responses.n_items, settings.n_nodes)
    with threads_for(n_cells):
        return estimate(responses, settings, seed)


@contextmanager
def threads_for(n_cells: int) -> Iterator[None]:
    """Compute with one thread where there is little to compute: waiting for each other would cost threads more."""
    before = torch.get_num_threads()
    if n_cells <= FEW_CELLS:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def estimate(responses: ResponseMatrix | SparseResponses, settings: SVISettings, seed: int) -> FittedModel:
    """Fit data that `check_estimable` has passed."""
    began = time.perf_counter()
    device = choose_device(settings.device)
    quadrature = normal_grid(settings.n_nodes)
    free, fixed = settings.guessing_of(responses.item_ids)
    problem = Problem(
        rows=encode_responses(responses, device),
        nodes=NodeTensors.from_quadrature(quadrature, dtype=precision(responses, settings), device=device),
        priors=settings.priors,
        guessing_free=torch.from_numpy(free).to(device),
        guessing_fixed=torch.from_numpy(fixed).to(device),
    )
    with torch.no_grad():
        start = rough_start(problem)
        problem = with_adapted_nodes(problem, start, shrink=0.35)
    if settings.optimiser == "adam":
        mode = adam_mode(problem, start, tolerance=settings.tolerance, max_steps=settings.max_steps, seed=seed)
    else:
        with torch.no_grad():
            problem, mode = preconditioned_mode(problem, start, settings)
    with torch.no_grad():
        mode = with_positive_direction(problem, mode)
        items = item_parameters(problem, mode.parameters, responses.item_ids)
        converged, reason = mode.converged, mode.stopped_because
        if settings.standard_errors and converged and mode.covariance is not None:
            items = replace(items, covariance=mode.covariance.cpu().numpy())
        elif settings.standard_errors and converged:
            covariance, definite = sampling_covariance(problem, mode.parameters)
            items = replace(items, covariance=covariance)
            if not definite:
                converged, reason = False, "the observed information is not positive definite: not a maximum"
    posterior = None
    if settings.posterior is not None and mode.covariance is not None:
        raise InputError(
            "model: with so few respondents the hierarchical prior gives posterior means already; expected no posterior"
        )
    if settings.posterior is not None and converged:
        posterior = fit_posterior(problem, mode.parameters, settings.posterior, seed=seed, item_ids=responses.item_ids)
        items = with_posterior(items, posterior)
        converged, reason = posterior.converged, f"{reason}; posterior: {posterior.stopped_because}"
    logger.info("fit: %s (%d steps)", reason, mode.steps)
    return FittedModel(
        items=items,
        quadrature=shared_quadrature(problem.nodes) if settings.population == "estimated" else quadrature,
        nodes=describe_nodes(problem.nodes),
        log_likelihood=mode.log_likelihood,
        priors=problem.priors,
        n_respondents=responses.n_respondents,
        n_responses=responses.n_responses,
        converged=converged,
        stopped_because=reason,
        steps=mode.steps,
        seconds=time.perf_counter() - began,
        seed=seed,
        settings=settings,
        posterior=posterior,
        abilities=mode.abilities and EstimatedAbilities(*(part.cpu().numpy() for part in mode.abilities)),
    )


def precision(responses: ResponseMatrix | SparseResponses, settings: SVISettings) -> torch.dtype:
    """Precision of the sums; float64 with sparse rows, where nothing is gained by less."""
    single = settings.dtype == "float32" and isinstance(responses, ResponseMatrix)
    return torch.float32 if single else torch.float64


def choose_device(wanted: Literal["auto", "cpu", "cuda"]) -> torch.device:
    """The device of that name; ``auto`` is a GPU where there is one."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise InputError("model: device cuda was asked for, but torch sees no GPU; expected auto or cpu")
    return torch.device("cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu")


def rough_start(problem: Problem) -> Tensor:
    """Starting values where a few steps on a smaller problem lead, which cost next to nothing.

    With many respondents the smaller problem has some of them; with guessing, whose steps take longer and are more, it
    has every second node and single precision.
    """
    stride = len(problem.rows) // SAMPLE
    if isinstance(problem.rows, SparseRows):
        return starting_values(problem)
    if stride >= LEAST_STRIDE:
        smaller = replace(problem, rows=problem.rows.every(stride))
    elif problem.guesses:
        coarse = normal_grid(len(problem.nodes.theta) // 2 + 1)
        nodes = NodeTensors.from_quadrature(coarse, dtype=torch.float32, device=problem.rows.device)
        smaller = replace(problem, nodes=nodes)
    else:
        return starting_values(problem)
    mode = find_mode(smaller, tolerance=0.1, max_steps=20)
    return mode.parameters if mode.converged else starting_values(problem)


def preconditioned_mode(problem: Problem, start: Tensor, settings: SVISettings) -> tuple[Problem, Mode]:
    """Take preconditioned steps, learning the prior and laying nodes anew on the way where that is called for."""
    tolerance, max_steps = settings.tolerance, settings.max_steps
    if problem.priors.hierarchy is not None:
        return find_hierarchical_mode(problem, start, tolerance=tolerance, max_steps=max_steps)
    if settings.population == "estimated":
        problem, mode = find_mode_with_population(problem, start, tolerance=tolerance, max_steps=max_steps)
        return without_guessing_at_zero(problem, mode)
    mode = find_mode(problem, start=start, tolerance=tolerance, max_steps=max_steps)
    finer = with_adapted_nodes(problem, mode.parameters, shrink=0.7) if mode.converged else problem
    if finer is not problem:
        again = find_mode(finer, start=mode.parameters, tolerance=tolerance, max_steps=max_steps)
        problem, mode = finer, replace(again, steps=mode.steps + again.steps)
    return without_guessing_at_zero(problem, mode)


def shared_quadrature(nodes: NodeTensors) -> Quadrature:
    """The density on the nodes, as it leaves the device."""
    return Quadrature(nodes.theta[:, 0].cpu().numpy(), nodes.log_weights.cpu().numpy())


def describe_nodes(nodes: NodeTensors) -> str:
    """Say which nodes these are: the usual grid, or finer ones where the posteriors lie."""
    theta = nodes.theta[:, 0]
    steps = torch.diff(theta)
    if float(steps.max() - steps.min()) < 1e-9 and float(steps[0]) > NARROW:
        return f"grid of {len(theta)} nodes on +-{float(theta[-1]):g}"
    return f"adaptive: {len(theta)} nodes {float(steps.min()):.2g} apart where posteriors lie"


def check_estimable(responses: ResponseMatrix | SparseResponses, priors: Priors) -> None:
    """Refuse data that do not determine the parameters; see `fit_model` for the errors."""
    if responses.n_respondents < FEWEST_RESPONDENTS:
        raise InputError(
            f"fit: {responses.n_respondents} respondents; expected at least {FEWEST_RESPONDENTS} to estimate items from"
        )
    idle = [responses.respondent_ids[i] for i in np.flatnonzero(responses.n_by_respondent == 0)]
    if idle:
        raise InputError(f"fit: no response from respondent {name_first(idle)}; expected at least one each")
    p = responses.proportion_correct()
    unanswered = [responses.item_ids[j] for j in np.flatnonzero(np.isnan(p))]
    if unanswered:
        raise InputError(f"fit: no response to item {name_first(unanswered)}; expected at least one each")
    constant = [responses.item_ids[j] for j in np.flatnonzero((p == 0) | (p == 1))]
    if constant and not priors.bounds_difficulty:
        raise InputError(
            f"fit: all responses are the same for item {name_first(constant)}; "
            "leave such items out or use a prior (its difficulty would be infinite)"
        )


def with_positive_direction(problem: Problem, mode: Mode) -> Mode:
    """Turn theta's sign, if need be, so that the expected number of correct responses rises with it."""
    theta, parameters = problem.nodes.theta, mode.parameters
    above_guessing = 1 - problem.log_guessing(parameters).exp()
    n_correct = torch.sigmoid(theta @ parameters[:, :-2].T + parameters[:, -2]) @ above_guessing
    tilt = (problem.nodes.log_weights.exp() * theta[:, 0]) @ n_correct
    if float(tilt) >= 0:
        return mode
    turn = torch.ones_like(parameters)
    turn[:, :-2] = -1.0
    covariance = None if mode.covariance is None else mode.covariance * turn[:, :, None] * turn[:, None, :]
    abilities = None if mode.abilities is None else (-mode.abilities[0], mode.abilities[1])
    return replace(mode, parameters=parameters * turn, covariance=covariance, abilities=abilities)


def item_parameters(problem: Problem, parameters: Tensor, item_ids: tuple[str, ...]) -> ItemParameters:
    """Copy one-dimensional parameters from the device into the public form."""
    return ItemParameters(
        item_ids,
        parameters[:, 0].cpu().numpy(),
        parameters[:, 1].cpu().numpy(),
        problem.log_guessing(parameters).exp().cpu().numpy(),
        problem.guessing_free.cpu().numpy(),
    )


def with_posterior(items: ItemParameters, posterior: ItemPosterior) -> ItemParameters:
    """Posterior means and covariances in place of the mode and the observed information."""
    return replace(
        items,
        discrimination=posterior.mean[:, 0],
        intercept=posterior.mean[:, 1],
        guessing=posterior.mean[:, 2],
        covariance=posterior.covariance,
    )
