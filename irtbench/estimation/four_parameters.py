"""The four-parameter logistic model: guessing, and an upper asymptote below 1, both with priors."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError
from irtbench.estimation.doubts import WEAKLY_KNOWN, find_doubts
from irtbench.estimation.driver import fenced
from irtbench.estimation.estimate import Estimate
from irtbench.estimation.fit import check_estimable, choose_device, with_names
from irtbench.estimation.fitted import FittedModel
from irtbench.estimation.marginal.mode import MOST_PLACINGS, find_mode
from irtbench.estimation.marginal.nodes import describe_nodes, with_right_nodes
from irtbench.estimation.marginal.observed_information import parameter_covariance
from irtbench.estimation.marginal.start import starting_values
from irtbench.estimation.marginal.upper_problem import (
    UpperProblem,
    upper_at,
    upper_curve_derivatives,
    upper_derivatives,
    with_natural_scales,
    with_upper,
    without_upper,
)
from irtbench.estimation.settings import FitSettings, fit_settings
from irtbench.estimation.status import Stop
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.priors import GuessingPrior
from irtbench.models.pyro_model.model import logistic_model
from irtbench.models.pyro_model.node_tensors import NodeTensors
from irtbench.models.pyro_model.rows import encode_responses
from irtbench.models.quadrature import normal_grid

USUAL_UPPER = GuessingPrior("beta", 19.0, 1.0)  # a mean of .95 with the weight of 20 answers
START_UPPER = 0.95


@dataclass(frozen=True, eq=False)
class FourParameterModel(FittedModel):
    """A fitted 4PL, P = c + (u - c) / (1 + exp(-(a theta + d))); `items` have the upper asymptotes."""

    @property
    def upper_not_identified(self) -> tuple[str, ...]:
        """Items of whose upper asymptote the data say nothing: logit u is about as uncertain as under the prior."""
        items, prior = self.items, self.priors.upper
        if items.covariance is None or items.upper_asymptote is None or prior is None:
            return ()
        u = items.upper_asymptote
        width = np.sqrt(items.covariance[:, 3, 3]) / (u * (1 - u))
        unknown = width > WEAKLY_KNOWN * prior.width_at_mode
        return tuple(items.item_ids[j] for j in np.flatnonzero(unknown))

    def summary(self) -> dict[str, Any]:
        """What fit.json holds."""
        return {**super().summary(), "model": "4pl", "upper_not_identified": list(self.upper_not_identified)}


def fit_4pl(
    responses: ResponsesLike,
    settings: FitSettings | None = None,
    *,
    prior_upper: str | None = None,
    seed: int = 0,
    **keywords: Any,
) -> FourParameterModel:
    """Estimate a 4PL by maximum a posteriori: an upper asymptote in addition to a 3PL (Barton & Lord, 1981).

    The few responses of the ablest to an easy item bear on its upper asymptote, so that it has a prior always, as
    guessing has unless there is none at all.

    Parameters
    ----------
    responses
        Graded responses, one to an item (a matrix, array or data frame: `as_responses`); missing ones are left out.
    settings
        Of the 3PL that upper asymptotes are added to; None for a 3PL with prior weak.
    prior_upper
        Prior of the upper asymptote: ``normal:MEAN,SD`` of logit u, or ``beta:ALPHA,BETA`` of u; None for Beta(19, 1),
        of mean .95.
    seed
        Of Pyro's random numbers, none of which are drawn.
    keywords
        Of the settings: ``prior_guessing="normal:-1.5,0.5"``.

    Raises
    ------
    InputError
        If the data do not determine the parameters (see `fit_model`), there are several trials of an item, or the
        settings ask for what does not go with a 4PL.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> truth = irtbench.ItemParameters.from_difficulty([2.0] * 8, np.linspace(-1.5, 1.5, 8), 0.2)
    >>> responses = irtbench.simulate_responses(rng.normal(size=2000), truth, rng=rng)
    >>> slips = rng.random(responses.values.shape) < 0.1
    >>> fitted = irtbench.fit_4pl(np.where(slips, 0, responses.values))
    >>> fitted.items.model[0], fitted.priors.describe()
    ('4pl', 'weak: a ~ Normal(1, 1.5), d ~ Normal(0, 4), c ~ Beta(5, 15), u ~ Beta(19, 1)')
    """
    responses = as_responses(responses)
    settings = of_three_parameters(settings, keywords)
    priors = replace(settings.priors, upper=USUAL_UPPER if prior_upper is None else upper_prior(prior_upper))
    if responses.trials is not None:
        raise InputError("fit: a 4pl is of one response to an item, not of several trials; --trials takes one of them")
    if responses.n_items > responses.n_respondents:
        raise InputError(
            f"fit: {responses.n_items} items and {responses.n_respondents} respondents: a 4pl needs more respondents "
            "than items; expected a 2pl or 3pl with prior hierarchical, which is learnt from the items"
        )
    check_estimable(responses, priors)
    began = time.perf_counter()
    device, quadrature = choose_device(settings.device), normal_grid(settings.n_nodes)
    everywhere = torch.ones(responses.n_items, dtype=torch.bool, device=device)
    model = partial(
        logistic_model,
        priors=priors,
        guessing_free=everywhere,
        guessing_fixed=torch.zeros(responses.n_items, dtype=torch.float64, device=device),
        upper=True,
    )
    with fenced(seed), torch.no_grad():
        nodes = NodeTensors.from_quadrature(quadrature, dtype=torch.float64, device=device)
        problem = UpperProblem.of(model, encode_responses(responses, device), nodes)
        problem, found = find_upper_mode(problem, tolerance=settings.tolerance, max_steps=settings.max_steps)
        status, covariance = with_names(found.status, responses), None
        if status.converged:
            on_logits, loose = parameter_covariance(problem, found.items, upper_curve_derivatives)
            status = with_names(status.unless_loose(loose.tolist()), responses)
            if status.converged and settings.standard_errors:
                covariance = with_natural_scales(found.items, on_logits).cpu().numpy()
        held = problem.held(found.items)
        doubts = find_doubts(held, replace(found, items=without_upper(found.items)), priors)
    return FourParameterModel(
        items=ItemParameters(
            responses.item_ids,
            found.items.slope[:, 0].cpu().numpy(),
            found.items.intercept.cpu().numpy(),
            found.items.guessing.cpu().numpy(),
            everywhere.cpu().numpy(),
            covariance,
            upper_asymptote=upper_at(found.items).cpu().numpy(),
        ),
        quadrature=quadrature,
        nodes=describe_nodes(problem.nodes),
        log_likelihood=found.log_likelihood,
        priors=priors,
        n_respondents=responses.n_respondents,
        n_responses=responses.n_responses,
        kind="mode",
        status=status,
        doubts=doubts,
        seconds=time.perf_counter() - began,
        seed=seed,
        n_by_item=responses.n_by_item,
        n_correct_by_item=responses.n_correct_by_item,
        settings=settings,
    )


def find_upper_mode(problem: UpperProblem, *, tolerance: float, max_steps: int) -> tuple[UpperProblem, Estimate]:
    """The mode on nodes that are right for everybody, of slopes whose sum is positive."""
    start = starting_values(problem)
    logit = torch.logit(torch.full_like(start.intercept, START_UPPER))
    at, steps = with_upper(start, logit), 0
    for _ in range(MOST_PLACINGS):
        mode = find_mode(problem, start=at, tolerance=tolerance, max_steps=max_steps, derive=upper_derivatives)
        steps += mode.status.steps
        mode = replace(mode, status=replace(mode.status, steps=steps))
        if not mode.status.converged:
            return problem, mode
        assert mode.counts is not None
        held = problem.held(mode.items)
        better = with_right_nodes(held, without_upper(mode.items), mode.counts)
        if better is held:
            return problem, mode
        problem, at = replace(problem, nodes=better.nodes), mode.items
    return problem, replace(mode, status=replace(mode.status, stop=Stop.NODES_NOT_RIGHT))


def of_three_parameters(settings: FitSettings | None, keywords: Mapping[str, Any]) -> FitSettings:
    """Settings of the 3PL beneath; what does not go with a 4PL is refused."""
    settings = fit_settings(settings or FitSettings(kind="3pl"), keywords)
    usual = FitSettings(kind="3pl")
    for name, expected in (
        ("kind", "3pl"), ("by_item", "every item a 4pl"), ("population", "normal"), ("optimiser", "fisher_scoring"),
        ("posterior", "none"), ("dtype", "float64"), ("guessing", "it estimated"),
    ):  # fmt: skip
        if getattr(settings, name) != getattr(usual, name):
            raise InputError(f"fit: {name} {getattr(settings, name)!r} does not go with a 4pl; expected {expected}")
    if settings.prior_items:
        raise InputError("fit: prior_items do not go with a 4pl; expected a 2pl or 3pl")
    if settings.prior == "hierarchical":
        raise InputError("fit: prior hierarchical does not go with a 4pl; expected weak or none")
    if settings.priors.guessing is None:
        raise InputError(
            "fit: guessing of a 4pl has a prior; with prior none expected one of its own (prior_guessing, "
            "--prior-guessing normal:-1.5,0.5)"
        )
    return settings


def upper_prior(text: str) -> GuessingPrior:
    """The density of the upper asymptote that a text stands for."""
    try:
        return GuessingPrior.read(text)
    except ValueError as error:
        expected = str(error).replace("logit c", "logit u").replace("of c", "of u")
        raise InputError(f"fit: prior of the upper asymptote: {expected} but got {text!r}") from None
