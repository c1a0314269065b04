"""Fit the collapsed 2PL/3PL: the mode by preconditioned steps, or Pyro's SVI with a Delta guide."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.data.sparse_responses import SparseResponses
from irtbench.estimation.few_respondents.empirical_bayes import find_hierarchical_mode
from irtbench.estimation.fitted import EstimatedAbilities, FittedModel
from irtbench.estimation.marginal.asymptotes import without_guessing_at_zero
from irtbench.estimation.marginal.e_step import Problem
from irtbench.estimation.marginal.mode import Mode, find_mode, starting_values
from irtbench.estimation.marginal.nodes import NARROW, with_adapted_nodes
from irtbench.estimation.marginal.observed_information import sampling_covariance
from irtbench.estimation.marginal.population import find_mode_with_population
from irtbench.estimation.marginal.response_rows import SparseRows, encode_responses
from irtbench.estimation.settings import FitSettings
from irtbench.estimation.variational.adam import adam_mode
from irtbench.estimation.variational.item_posterior import ItemPosterior, fit_posterior
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.logistic import NodeTensors
from irtbench.models.priors import Priors
from irtbench.models.quadrature import Quadrature, normal_grid

logger = logging.getLogger(__name__)

FEW_CELLS = 2**26  # respondents x (nodes or items) up to which a second thread gains next to nothing
FEWEST_RESPONDENTS = 10
SAMPLE, LEAST_STRIDE = 2_000, 4  # respondents from whom the start is estimated, and how many more there must be


def fit_model(
    responses: ResponseMatrix | SparseResponses, settings: FitSettings | None = None, *, seed: int = 0
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
    settings = settings or FitSettings()
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


def estimate(responses: ResponseMatrix | SparseResponses, settings: FitSettings, seed: int) -> FittedModel:
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


def precision(responses: ResponseMatrix | SparseResponses, settings: FitSettings) -> torch.dtype:
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


def preconditioned_mode(problem: Problem, start: Tensor, settings: FitSettings) -> tuple[Problem, Mode]:
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
