"""Items and the regression of their difficulty on features, fitted at once to responses.

    b_j ~ N(w_0 + x_j'w, s^2),   log a_j ~ N(m, t^2),   theta_i ~ N(0, 1)

(an item response model with random items and item predictors: De Boeck, 2008; Rasch: a_j = 1, theta_i ~ N(0, sd^2)).
The likelihood and these priors are those of the Pyro model (`logistic_model`); w, s, m and t are estimated with the
items. Under the priors as they are, the mode of all items is found with abilities integrated out, and around it each
item's posterior by quadrature, the others being at the mode. With its prior taken out (a normal density by a normal
density) that leaves what the responses alone say of b_j: an estimate with an error, which an item that all got right
has too. On these the priors are learnt anew (`meta_regression`: w integrated out, so that s is REML's), and so on until
they stay. Where the posteriors are normal the end is the maximum of the marginal likelihood of w and s.

What items share through abilities that are not known, the zero and the unit of the scale above all, is taken from the
observed information of all items and enters the errors at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.analysis.meta_regression import Errors, meta_regression, with_intercept
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.estimation.driver import alternate, fenced
from irtbench.estimation.few_respondents.empirical_bayes import location_and_scale, standardised
from irtbench.estimation.few_respondents.item_grid import hermite_axis
from irtbench.estimation.few_respondents.item_posteriors import Surroundings
from irtbench.estimation.few_respondents.learnt_prior import SEEN_DEVIATION
from irtbench.estimation.fit import choose_device
from irtbench.estimation.fixed_point import FixedPoint
from irtbench.estimation.marginal.mode import find_mode
from irtbench.estimation.marginal.nodes import ROOM, with_adapted_nodes
from irtbench.estimation.marginal.observed_information import (
    MOST_COUPLED_ITEMS,
    joint_parameter_covariance,
    own_information,
)
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.marginal.shared_scale import population_of, whole_theta_covariance
from irtbench.estimation.marginal.start import starting_values
from irtbench.estimation.settings import Device
from irtbench.estimation.status import Learning
from irtbench.estimation.threads import threads_for
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.difficulty_prior import DifficultyPrior, difficulty_of
from irtbench.models.pyro_model.item_tensors import LINEAR, ItemTensors
from irtbench.models.pyro_model.model import logistic_model
from irtbench.models.pyro_model.node_tensors import NodeTensors
from irtbench.models.pyro_model.rows import encode_responses
from irtbench.models.pyro_model.shared import SharedParameters
from irtbench.models.quadrature import Quadrature, normal_grid, normal_population

Kind = Literal["rasch", "2pl"]
Array = NDArray[np.float64]

CPU = torch.device("cpu")
LEAST_RESIDUAL, LEAST_OF_SLOPES = 0.25, 0.05  # of the priors under which items are looked at, whatever s and t are
LEAST_TOLD = 0.05  # of an item by its responses, as a share of its prior's precision: as much as one answer tells
MOST_CELLS = 10**6  # respondents x items; with more, answers are so many that posteriors are normal
NODES = 9  # an axis
MOST_UPDATES, TOLERANCE, MODE_TOLERANCE = 60, 1e-3, 1e-4


@dataclass(frozen=True, eq=False)
class ExplanatoryItems:
    """What was found.

    Parameters
    ----------
    items
        At the posterior means of log |a| and b.
    estimates, errors
        Of the difficulties, as the responses alone have them.
    posterior_mean, posterior_sd
        Of the difficulties under the model.
    population
        Of ability.
    learning
        How the updates ended; the change is of a coefficient, a mean, or the logarithm of a standard deviation.
    """

    items: ItemParameters
    estimates: Array
    errors: Errors
    posterior_mean: Array
    posterior_sd: Array
    population: Quadrature
    learning: Learning


@dataclass(frozen=True, eq=False)
class ItemPriors:
    """The priors as they stand, and theta's origin and unit in terms of those at the start.

    Parameters
    ----------
    coefficients
        w_0 and the effects of the columns, shape (n_columns + 1,).
    residual
        Standard deviation of b about what they say.
    slope
        Mean and standard deviation of log |a|.
    origin, log_unit
        theta at the start = origin + exp(log_unit) theta now.
    """

    coefficients: Array
    residual: float
    slope: tuple[float, float]
    origin: float = 0.0
    log_unit: float = 0.0

    def rescaled(self, mean: float, deviation: float) -> ItemPriors:
        """The same for theta' with theta = mean + deviation theta'."""
        coefficients = self.coefficients / deviation
        coefficients[0] -= mean / deviation
        return ItemPriors(
            coefficients,
            self.residual / deviation,
            (self.slope[0] + math.log(deviation), self.slope[1]),
            self.origin + math.exp(self.log_unit) * mean,
            self.log_unit + math.log(deviation),
        )

    @property
    def values(self) -> Tensor:
        """All of it as numbers that may be any, standard deviations by their logarithms."""
        others = [math.log(self.residual), self.slope[0], math.log(self.slope[1]), self.origin, self.log_unit]
        return torch.from_numpy(np.concatenate([self.coefficients, others]))

    @classmethod
    def at(cls, values: Tensor) -> ItemPriors:
        """The priors that have these values."""
        log_residual, mean, log_deviation, origin, log_unit = values[-5:].tolist()
        residual = max(math.exp(log_residual), LEAST_RESIDUAL)
        return cls(values[:-5].numpy(), residual, (mean, math.exp(log_deviation)), origin, log_unit)

    def seen_from(self, other: ItemPriors) -> tuple[float, float]:
        """Mean and standard deviation that theta has in the other's origin and unit where it is standard in this."""
        return (self.origin - other.origin) / math.exp(other.log_unit), math.exp(self.log_unit - other.log_unit)


@dataclass(frozen=True, eq=False)
class Told:
    """Posterior moments of (log |a|, b), and of b what the responses alone say.

    Parameters
    ----------
    mean, variance
        Of the posteriors, shape (n_items, 2).
    """

    mean: Array
    variance: Array

    def by_responses(self, column: int, prior_mean: Array | float, prior_sd: float) -> tuple[Array, Array]:
        """The posterior with its prior taken out: estimates and standard errors, shape (n_items,)."""
        precision = np.maximum(1 / self.variance[:, column] - prior_sd**-2, LEAST_TOLD * prior_sd**-2)
        mean = self.mean[:, column]
        return mean + (mean - prior_mean) / (prior_sd**2 * precision), precision**-0.5


def fit_explanatory_items(
    responses: ResponsesLike,
    columns: Array,
    *,
    kind: Kind = "2pl",
    shrink: bool = False,
    seed: int = 0,
    device: Device = "auto",
    progress: Callable[[str], None] = lambda message: None,
) -> ExplanatoryItems:
    """Fit items with the regression of their difficulty.

    Slopes are positive: an item that the able get wrong has a slope near 0, and its difficulty that of its features.

    Parameters
    ----------
    responses
        Graded responses. Items that all got right or all got wrong are items like others.
    columns
        Features of the items of the responses, of like scales where effects are shrunk, shape (n_items, n_columns).
    kind
        ``2pl`` or ``rasch``.
    shrink
        Whether effects are drawn to 0, see `meta_regression`.
    seed
        For Pyro's random numbers; none is drawn.
    device
        As in `FitSettings`.
    progress
        Told of each update.
    """
    given = as_responses(responses)
    with threads_for(given.n_respondents * given.n_items), fenced(seed), torch.no_grad():
        return ExplanatoryFit.of(given, columns, kind, shrink, choose_device(device)).settled(progress)


@dataclass
class ExplanatoryFit:
    """A fit on its way: the priors as they stand, and the items at the mode under them."""

    problem: Problem
    priors: ItemPriors
    items: ItemTensors
    item_ids: tuple[str, ...]
    columns: Array
    rasch: bool
    shrink: bool
    path: FixedPoint = field(default_factory=FixedPoint)

    @classmethod
    def of(
        cls, responses: ResponsesLike, columns: Array, kind: Kind, shrink: bool, device: torch.device = CPU
    ) -> ExplanatoryFit:
        """Where the iterations start: all items alike in slope, difficulties by the proportion correct."""
        given = as_responses(responses)
        n_items, rasch = given.n_items, kind == "rasch"
        ones = torch.ones(n_items, dtype=torch.float64, device=device)
        model = partial(
            logistic_model,
            guessing_free=ones == 0,
            guessing_fixed=torch.zeros_like(ones),
            slope_sign=None if rasch else ones,
            shared=SharedParameters.common_slope(n_items, device) if rasch else None,
        )
        nodes = NodeTensors.from_quadrature(normal_grid(), dtype=torch.float64, device=device)
        rows = encode_responses(given, device)
        flat = partial(model, priors=Priors.named("none"))
        start = starting_values(Problem.of(flat, rows, nodes))
        slope = torch.full_like(start.slope, 1.0)
        items = ItemTensors(slope, start.intercept.clamp(-4, 4), torch.zeros_like(start.intercept))
        answers, p = given.n_by_item, (given.n_correct_by_item + 0.5) / (given.n_by_item + 1)
        b = -items.intercept.cpu().numpy()
        found = meta_regression(b, (np.maximum(answers, 1) * p * (1 - p)) ** -0.5, columns, shrink=shrink)
        priors = ItemPriors(found.coefficients, max(found.residual_sd, LEAST_RESIDUAL), (0.0, SEEN_DEVIATION))
        return cls(Problem.of(flat, rows, nodes), priors, items, given.item_ids, columns, rasch, shrink)

    def settled(self, progress: Callable[[str], None]) -> ExplanatoryItems:
        """Update until the priors stay; then what was found."""
        learning = alternate(
            "regression of difficulty", self.update, tolerance=TOLERANCE, most=MOST_UPDATES, fewest=3,
            progress=progress,
        )  # fmt: skip
        self.to_mode()
        told = self.told()
        estimates, errors = self.with_shared_error(told)
        slope = np.ones(len(estimates)) if self.rasch else np.exp(told.mean[:, 0])
        items = ItemParameters.from_difficulty(slope, told.mean[:, 1], item_ids=self.item_ids)
        sd = population_of(self.problem, self.items)[1] if self.rasch else 1.0
        return ExplanatoryItems(
            items,
            estimates,
            errors,
            told.mean[:, 1],
            np.sqrt(told.variance[:, 1]),
            normal_population(0.0, sd),
            learning,
        )

    @property
    def expected_difficulty(self) -> Array:
        """Difficulties that the features say, shape (n_items,)."""
        return with_intercept(self.columns) @ self.priors.coefficients

    @property
    def expected(self) -> Tensor:
        """The same on the items' device."""
        return torch.from_numpy(self.expected_difficulty).to(self.items.intercept.device)

    def update(self) -> tuple[float, bool]:
        """The mode under the priors, the posteriors around it, and the priors learnt anew."""
        before = self.priors
        converged = self.to_mode()
        at, told = self.priors, self.told()
        found = meta_regression(
            *told.by_responses(1, self.expected_difficulty, at.residual), self.columns, shrink=self.shrink
        )
        slope = at.slope if self.rasch else slopes_learnt(*told.by_responses(0, *at.slope), at.slope)
        residual = max(found.residual_sd, LEAST_RESIDUAL)
        learnt = replace(at, coefficients=found.coefficients, residual=residual, slope=slope)
        further = ItemPriors.at(self.path.after(before.values, learnt.values))
        self.items, self.priors = self.items.rescaled(*further.seen_from(learnt)), further
        return float((further.values - before.values).abs().max()), converged

    def to_mode(self) -> bool:
        """Find the mode, and set the scale by the respondents where slopes do not fix its unit."""
        problem = with_adapted_nodes(self.with_priors(), self.items, room=ROOM)
        if not self.rasch:
            problem = replace(problem, fixed_directions=location_and_scale(self.items))
        found = find_mode(problem, start=self.items, tolerance=MODE_TOLERANCE)
        self.problem, self.items = problem, found.items
        if not self.rasch:
            self.items, mean, deviation = standardised(problem, found.items)
            self.priors = self.priors.rescaled(mean, deviation)
            self.problem = replace(self.with_priors(), nodes=problem.nodes)
        return found.status.converged

    def with_priors(self) -> Problem:
        """The Pyro model with the priors as they stand, and its responses."""
        expected = self.expected
        every, residual = torch.ones_like(expected, dtype=torch.bool), torch.full_like(expected, self.priors.residual)
        difficulty = DifficultyPrior(every, expected, residual)
        named = Priors("hierarchical", log_slope=None if self.rasch else self.priors.slope)
        model = partial(self.problem.model, priors=named, difficulty=difficulty)
        return Problem.of(model, self.problem.rows, self.problem.nodes)

    @property
    def difficulty(self) -> Tensor:
        """Of the items at the mode."""
        return difficulty_of(self.items.slope[:, 0], self.items.intercept, by_theta=self.rasch)

    def by_logs(self) -> Tensor:
        """Derivatives of (log |a|, b) by (a, d) at the mode, shape (n_items, 2, 2)."""
        slope, zeros = self.items.slope[:, 0], torch.zeros_like(self.items.intercept)
        if self.rasch:  # slopes are what all items share
            return torch.stack([zeros, zeros, zeros, zeros - 1], dim=1).view(-1, 2, 2)
        return torch.stack([1 / slope, zeros, -self.difficulty / slope, -1 / slope], dim=1).view(-1, 2, 2)

    def own_covariance(self) -> Tensor:
        """Of (log |a|, b) at each item's mode, the others being where they are, shape (n_items, 2, 2)."""
        information = own_information(self.problem, self.items)[:, LINEAR, LINEAR]
        if self.rasch:
            covariance = torch.zeros_like(information)
            covariance[:, 1, 1] = 1 / information[:, 1, 1]
            return covariance
        rate = self.by_logs()
        return rate @ torch.linalg.inv(information) @ rate.mT

    def told(self) -> Told:
        """Posterior moments of each item: by quadrature, or with very many responses by the curvature at the mode."""
        covariance = self.own_covariance()
        mode = torch.stack([self.items.slope[:, 0].abs().log(), self.difficulty], dim=1)
        n_items = len(mode)
        if len(self.problem.rows) * n_items > MOST_CELLS:
            return Told(mode.cpu().numpy(), covariance.diagonal(dim1=1, dim2=2).cpu().numpy())
        axis, weights = hermite_axis(NODES, mode)
        log_weights = weights.log() + 0.5 * axis**2
        prior = self.priors
        if self.rasch:
            offsets, log_weights = torch.stack([torch.zeros_like(axis), axis], dim=1), log_weights
            root = covariance.sqrt()
        else:
            offsets = torch.cartesian_prod(axis, axis)
            log_weights = torch.cartesian_prod(log_weights, log_weights).sum(dim=1)
            usual = torch.diag(mode.new_tensor([prior.slope[1], prior.residual])).expand(n_items, 2, 2)
            root, failed = torch.linalg.cholesky_ex(covariance)
            root = torch.where((failed > 0)[:, None, None], usual, root)
        places = mode[:, None, :] + offsets @ root.mT
        intercept = -places[:, :, 1] if self.rasch else -places[:, :, 0].exp() * places[:, :, 1]
        as_asked = torch.stack([places[:, :, 0], intercept, torch.zeros_like(intercept)], dim=2)
        around, ones = Surroundings.of(self.problem, self.items), torch.ones_like(self.items.intercept)
        every = torch.arange(n_items, device=mode.device)
        log_mass = around.log_likelihoods(as_asked, ones, every) + log_weights
        log_mass = log_mass - 0.5 * ((places[:, :, 1] - self.expected[:, None]) / prior.residual) ** 2
        if not self.rasch:
            log_mass = log_mass - 0.5 * ((places[:, :, 0] - prior.slope[0]) / prior.slope[1]) ** 2
        mass = torch.softmax(log_mass, dim=1)[:, :, None]
        mean = (mass * places).sum(dim=1)
        variance = (mass * (places - mean[:, None, :]) ** 2).sum(dim=1)
        return Told(mean.cpu().numpy(), variance.cpu().numpy())

    def with_shared_error(self, told: Told) -> tuple[Array, Errors]:
        """What the responses say of the difficulties, with the errors that items share, if they are not too many.

        With P the posterior covariance of the difficulties, their own variances being those of the quadrature, the
        errors have the covariance E = (P^-1 - 1 / s^2)^-1 and the estimates are m + E (m - expected) / s^2.
        """
        expected, residual = self.expected_difficulty, self.priors.residual
        whole = self.whole_covariance() if len(self.items) <= MOST_COUPLED_ITEMS else None
        if whole is None:
            estimates, sd = told.by_responses(1, expected, residual)
            return estimates, Errors(sd)
        own = self.own_covariance()[:, 1, 1].cpu().numpy()
        posterior = whole + np.diag(told.variance[:, 1] - own)
        values, axes = np.linalg.eigh(posterior)
        precision = np.maximum(1 / values.clip(min=1e-12) - residual**-2, LEAST_TOLD * residual**-2)
        away = axes.T @ (told.mean[:, 1] - expected)
        return told.mean[:, 1] + axes @ (away / (precision * residual**2)), Errors(precision**-0.5, axes)

    def whole_covariance(self) -> Array | None:
        """Of all difficulties with each other at the mode; None where that is not a maximum."""
        if self.rasch:
            sd = population_of(self.problem, self.items)[1]
            names = self.problem.prior.shared.names  # type: ignore[union-attr]
            found = whole_theta_covariance(self.problem, self.items, names, 0.0, sd)[:, 1, :, 1]
            return found if np.isfinite(found).all() else None
        whole, loose = joint_parameter_covariance(self.problem, self.items)
        if bool(loose.any()):
            return None
        rate = self.by_logs()[:, 1]
        return torch.einsum("ja,jalb,lb->jl", rate, whole[:, LINEAR][:, :, :, LINEAR], rate).cpu().numpy()


def slopes_learnt(estimates: Array, errors: Array, before: tuple[float, float]) -> tuple[float, float]:
    """Mean and standard deviation of log |a|, as if two slopes had been seen before (see `learnt_prior`)."""
    seen = before[0] + SEEN_DEVIATION * np.array([-1.0, 1.0])
    values, errors = np.append(estimates, seen), np.append(errors, [0.0, 0.0])
    found = meta_regression(values, errors, np.empty((len(values), 0)), shrink=False)
    return float(found.coefficients[0]), max(found.residual_sd, LEAST_OF_SLOPES)
