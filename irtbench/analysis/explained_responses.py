"""Why an item is hard, of responses: items and the regression of their difficulty on features, fitted at once.

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
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.analysis.explained_difficulty import Design, ExplainedDifficulty, Shrinkage, explained, features_of
from irtbench.analysis.meta_regression import Estimates, meta_regression, with_intercept
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.items import ItemFeatures
from irtbench.estimation.driver import alternate, fenced
from irtbench.estimation.few_respondents.empirical_bayes import location_and_scale, standardised
from irtbench.estimation.few_respondents.item_grid import hermite_axis
from irtbench.estimation.few_respondents.item_posteriors import Surroundings
from irtbench.estimation.few_respondents.learnt_prior import SEEN_DEVIATION
from irtbench.estimation.fit import problem_of
from irtbench.estimation.marginal.acceleration import FixedPoint
from irtbench.estimation.marginal.mode import find_mode
from irtbench.estimation.marginal.nodes import ROOM, with_adapted_nodes
from irtbench.estimation.marginal.observed_information import (
    MOST_COUPLED_ITEMS,
    joint_parameter_covariance,
    own_information,
)
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.marginal.shared_scale import shared_errors, slope_of_all
from irtbench.estimation.scale_fit import with_positive_direction
from irtbench.estimation.settings import Device, FitSettings
from irtbench.estimation.status import Learning
from irtbench.estimation.threads import threads_for
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.item_tensors import LINEAR, ItemTensors
from irtbench.models.pyro_model.model import (
    DifficultyPrior,
    by_slope_and_intercept,
    difficulty_of,
    intercept_of,
)
from irtbench.models.quadrature import Quadrature, normal_grid, normal_population

Kind = Literal["rasch", "2pl"]
Array = NDArray[np.float64]

LEAST_RESIDUAL, LEAST_OF_SLOPES = 0.25, 0.05  # of the priors under which items are looked at, whatever s and t are
LEAST_TOLD = 0.05  # of an item by its responses, as a share of its prior's precision: as much as one answer tells
MOST_CELLS = 10**6  # respondents x items; with more, answers are so many that posteriors are normal
NODES = 9  # an axis
MOST_UPDATES, TOLERANCE, MODE_TOLERANCE = 60, 1e-3, 1e-4


def explain_responses(
    responses: ResponsesLike,
    features: ItemFeatures | pd.DataFrame,
    *,
    model: Kind = "2pl",
    shrinkage: Shrinkage = "auto",
    curved: bool = False,
    level: float = 0.95,
    rng: np.random.Generator,
    device: Device = "auto",
    progress: Callable[[str], None] = lambda message: None,
) -> ExplainedDifficulty:
    """Difficulty regressed on features of the items, both fitted to the responses at once.

    The model is that of `explain_difficulty`, in which b_j is no estimate but a parameter of the likelihood, with
    abilities and items integrated out (`fit_explanatory_items`): no item is left out for being answered all right or
    all wrong, and with ten answers an item effects, residual and R2 are what they are with many. The standard deviation
    of the difficulties, with which R2 compares the residual, is that of the same model without features, whose
    estimates are also those that predictions of items left out are compared with, and that are reported.

    Parameters
    ----------
    responses
        Graded responses.
    features
        Of at least the items of the responses; items beyond are new ones, whose difficulty is predicted.
    model
        ``2pl`` or ``rasch``.
    shrinkage, curved, level, rng
        As for `explain_difficulty`.
    device
        As in `FitSettings`.
    progress
        Called with a line about each update.

    Raises
    ------
    InputError
        As `explain_difficulty`, but for the standard errors.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(3)
    >>> length = rng.normal(size=40)
    >>> items = irtbench.ItemParameters.from_difficulty(np.full(40, 1.2), 0.8 * length + rng.normal(0, 0.4, 40))
    >>> responses = irtbench.simulate_responses(rng.normal(size=200), items, rng=rng, missing=0.8)
    >>> features = irtbench.ItemFeatures(items.item_ids, ("length",), length[:, None])
    >>> found = irtbench.explain_responses(responses, features, rng=rng)
    >>> found.table().round(1)[["term", "effect", "se"]]
            term  effect   se
    0  intercept    -0.2  0.1
    1     length     0.9  0.1
    """
    data = as_responses(responses)
    given = features_of(features, data.item_ids, shrinkage, level)
    design, seed = Design.of(given, data.item_ids, shrinkage, curved=curved), int(rng.integers(2**31))

    def fitted(columns: Array, shrink: bool, words: str) -> ExplanatoryItems:
        progress(words)
        return fit_explanatory_items(
            data, columns, kind=model, shrink=shrink, seed=seed, device=device, progress=progress
        )

    full = fitted(design.columns, design.shrink, "items with the regression on their features")
    plain = fitted(design.columns[:, :0], False, "items without features")
    found = explained(full.items, full.estimates, plain.estimates, design, full.population, level, rng)
    return replace(found, with_items=True, converged=full.learning.settled and plain.learning.settled)


@dataclass(frozen=True, eq=False)
class ExplanatoryItems:
    """What was found.

    Parameters
    ----------
    items
        At the posterior means of log |a| and b.
    estimates
        Of the difficulties, as the responses alone have them, with their errors.
    population
        Of ability.
    learning
        How the updates ended; the change is of a coefficient, a mean, or the logarithm of a standard deviation.
    sd
        Posterior standard deviations of the difficulties, shape (n_items,).
    slope
        Mean and standard deviation of log a among items; 0 and 0 with ``rasch``.
    """

    items: ItemParameters
    estimates: Estimates
    population: Quadrature
    learning: Learning
    sd: Array
    slope: tuple[float, float]


@dataclass(frozen=True, eq=False)
class ItemPriors:
    """The current priors, and theta's origin and unit in terms of those at the start.

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
    """
    given = as_responses(responses)
    with threads_for(given.n_respondents * given.n_items), fenced(seed), torch.no_grad():
        fit = ExplanatoryFit.of(given, columns, kind, shrink, device)
        learning = alternate(
            "regression of difficulty", fit.update, tolerance=TOLERANCE, most=MOST_UPDATES, fewest=3, progress=progress
        )
        fit.to_mode()
        mean, variance = fit.moments()
        estimates = fit.by_responses(mean, variance)
        sd = slope_of_all(fit.problem, fit.items) if fit.rasch else 1.0
    slope = np.ones(given.n_items) if fit.rasch else np.exp(mean[:, 0])
    items = ItemParameters.from_difficulty(slope, mean[:, 1], item_ids=given.item_ids)
    among = (0.0, 0.0) if fit.rasch else fit.priors.slope
    return ExplanatoryItems(items, estimates, normal_population(0.0, sd), learning, np.sqrt(variance[:, 1]), among)


@dataclass
class ExplanatoryFit:
    """A fit on its way: the current priors, and the items at the mode under them."""

    problem: Problem
    priors: ItemPriors
    items: ItemTensors
    columns: Array
    rasch: bool
    shrink: bool
    path: FixedPoint = field(default_factory=FixedPoint)

    @classmethod
    def of(
        cls, responses: ResponsesLike, columns: Array, kind: Kind, shrink: bool, device: Device = "cpu"
    ) -> ExplanatoryFit:
        """Where the iterations start: all items alike in slope, difficulties by the proportion correct."""
        given = as_responses(responses)
        problem = problem_of(given, FitSettings(kind=kind, device=device), normal_grid()).in_float64()
        intercept = problem.starting_values().intercept.clamp(-4, 4)
        items = ItemTensors(torch.ones_like(intercept)[:, None], intercept, torch.zeros_like(intercept))
        answers, p = given.n_by_item, (given.n_correct_by_item + 0.5) / (given.n_by_item + 1)
        errors = (np.maximum(answers, 1) * p * (1 - p)) ** -0.5
        found = meta_regression(Estimates(-intercept.cpu().numpy(), errors), columns, shrink=shrink)
        priors = ItemPriors(found.coefficients, max(found.residual_sd, LEAST_RESIDUAL), (0.0, SEEN_DEVIATION))
        return cls(problem, priors, items, columns, kind == "rasch", shrink)

    @property
    def expected(self) -> Array:
        """Difficulties that the features say, shape (n_items,)."""
        return with_intercept(self.columns) @ self.priors.coefficients

    def update(self) -> tuple[float, bool]:
        """The mode under the priors, the posteriors around it, and the priors learnt anew."""
        before, converged = self.priors, self.to_mode()
        at, (mean, variance) = self.priors, self.moments()
        given = without_prior(mean[:, 1], variance[:, 1], self.expected, at.residual)
        found = meta_regression(given, self.columns, shrink=self.shrink)
        slope = at.slope
        if not self.rasch:
            slope = slopes_learnt(without_prior(mean[:, 0], variance[:, 0], *at.slope), at.slope)
        residual = max(found.residual_sd, LEAST_RESIDUAL)
        learnt = replace(at, coefficients=found.coefficients, residual=residual, slope=slope)
        self.priors = ItemPriors.at(self.path.after(before.values, learnt.values))
        shift, unit = self.priors.seen_from(learnt)
        self.items = self.items.rescaled(shift / slope_of_all(self.problem, self.items) if self.rasch else shift, unit)
        return float((self.priors.values - before.values).abs().max()), converged

    def to_mode(self) -> bool:
        """Find the mode, and set the scale by the respondents: its zero, and its unit where slopes do not fix it."""
        self.problem = with_adapted_nodes(self.with_priors(), self.items, room=ROOM)
        directions = location_and_scale(self.items)
        self.problem = replace(self.problem, fixed_directions=directions[:1] if self.rasch else directions)
        found = find_mode(self.problem, start=self.items, tolerance=MODE_TOLERANCE)
        found = with_positive_direction(self.problem, found)  # a common slope has two modes
        self.items, mean, deviation = standardised(self.problem, found.items)
        if self.rasch:  # whose unit slopes fix; b moves by the mean in that unit
            self.items = found.items.rescaled(mean, 1.0)
            mean, deviation = mean * slope_of_all(self.problem, found.items), 1.0
        self.priors = self.priors.rescaled(mean, deviation)
        self.problem = self.with_priors()
        return found.status.converged

    def with_priors(self) -> Problem:
        """The Pyro model with the current priors, its responses and nodes."""
        expected = torch.from_numpy(self.expected).to(self.items.intercept.device)
        every, residual = torch.ones_like(expected, dtype=torch.bool), torch.full_like(expected, self.priors.residual)
        named = Priors("hierarchical", log_slope=None if self.rasch else self.priors.slope)
        model = partial(self.problem.model, priors=named, difficulty=DifficultyPrior(every, expected, residual))
        return Problem.of(model, self.problem.rows, self.problem.nodes)

    def by_logs(self) -> tuple[Tensor, Tensor]:
        """(log |a|, b) at the mode, and its derivatives by (a, d), shapes (n_items, 2) and (n_items, 2, 2)."""
        slope, intercept = self.items.slope[:, 0], self.items.intercept
        ones, zeros = torch.ones_like(slope), torch.zeros_like(slope)
        rate, _ = by_slope_and_intercept(slope, intercept, ones, ones, by_theta=self.rasch, positive=True)
        logs = torch.stack([slope.abs().log(), difficulty_of(slope, intercept, by_theta=self.rasch)], dim=1)
        return logs, torch.stack([torch.stack([1 / slope, zeros], dim=1), rate], dim=1)

    def own_covariance(self) -> Tensor:
        """Of (log |a|, b) at each item's mode, the others being where they are, shape (n_items, 2, 2)."""
        information, (_, rate) = own_information(self.problem, self.items)[:, LINEAR, LINEAR], self.by_logs()
        if self.rasch:  # slopes are what all items share
            information = torch.diag_embed(information.diagonal(dim1=1, dim2=2))
        return rate @ torch.linalg.inv(information) @ rate.mT

    def moments(self) -> tuple[Array, Array]:
        """Posterior means and variances of each item's (log |a|, b), shape (n_items, 2).

        By quadrature, or with very many responses by the curvature at the mode.
        """
        covariance, (mode, _), prior = self.own_covariance(), self.by_logs(), self.priors
        if len(self.problem.rows) * len(mode) > MOST_CELLS:
            return mode.cpu().numpy(), covariance.diagonal(dim1=1, dim2=2).cpu().numpy()
        axis, weights = hermite_axis(NODES, mode)
        at = torch.stack([axis, weights.log() + 0.5 * axis**2], dim=1)
        of_slope = torch.zeros_like(at[:1]) if self.rasch else at
        offsets, log_weights = (torch.cartesian_prod(*pair) for pair in zip(of_slope.T, at.T, strict=True))
        usual = torch.diag(mode.new_tensor([prior.slope[1], prior.residual]))
        root, failed = torch.linalg.cholesky_ex(covariance)
        root = torch.where((failed > 0)[:, None, None], usual, root)
        places = mode[:, None, :] + offsets @ root.mT
        intercept = intercept_of(places[:, :, 0].exp(), places[:, :, 1], by_theta=self.rasch)
        around, every = Surroundings.of(self.problem, self.items), torch.arange(len(mode), device=mode.device)
        as_asked = torch.stack([places[:, :, 0], intercept, torch.zeros_like(intercept)], dim=2)
        log_mass = around.log_likelihoods(as_asked, torch.ones_like(mode[:, 0]), every) + log_weights.sum(dim=1)
        expected = torch.from_numpy(self.expected).to(mode)
        log_mass = log_mass - 0.5 * ((places[:, :, 1] - expected[:, None]) / prior.residual) ** 2
        log_mass = log_mass - 0.5 * ((places[:, :, 0] - prior.slope[0]) / prior.slope[1]) ** 2
        mass = torch.softmax(log_mass, dim=1)[:, :, None]
        mean = (mass * places).sum(dim=1)
        variance = (mass * (places - mean[:, None, :]) ** 2).sum(dim=1)
        return mean.cpu().numpy(), variance.cpu().numpy()

    def by_responses(self, mean: Array, variance: Array) -> Estimates:
        """What the responses say of the difficulties, with the errors that items share, if they are not too many.

        With P the posterior covariance of the difficulties, their own variances being those of the quadrature, the
        errors have the covariance E = (P^-1 - 1 / s^2)^-1 and the estimates are m + E (m - expected) / s^2.
        """
        b, expected, residual = mean[:, 1], self.expected, self.priors.residual
        whole = self.whole_covariance() if len(b) <= MOST_COUPLED_ITEMS else np.full((1, 1), np.nan)
        if not np.isfinite(whole).all():
            return without_prior(b, variance[:, 1], expected, residual)
        own = self.own_covariance()[:, 1, 1].cpu().numpy()
        values, axes = np.linalg.eigh(whole + np.diag(variance[:, 1] - own))
        along = without_prior(axes.T @ (b - expected), values.clip(min=1e-12), 0.0, residual)
        return Estimates(expected + axes @ along.values, along.sd, axes)

    def whole_covariance(self) -> Array:
        """Of all difficulties with each other at the mode; NaN where that is not a maximum."""
        if self.rasch:
            whole = shared_errors(self.problem, self.items).joint
            assert whole is not None
        else:
            whole = joint_parameter_covariance(self.problem, self.items)[0].cpu().numpy()
        rate = self.by_logs()[1][:, 1].cpu().numpy()
        return np.einsum("ja,jalb,lb->jl", rate, whole[:, LINEAR][:, :, :, LINEAR], rate)


def without_prior(mean: Array, variance: Array, prior_mean: Array | float, prior_sd: float) -> Estimates:
    """A posterior with its prior taken out."""
    precision = np.maximum(1 / variance - prior_sd**-2, LEAST_TOLD * prior_sd**-2)
    return Estimates(mean + (mean - prior_mean) / (prior_sd**2 * precision), precision**-0.5)


def slopes_learnt(given: Estimates, before: tuple[float, float]) -> tuple[float, float]:
    """Mean and standard deviation of log |a|, as if two slopes had been seen before (see `learnt_prior`)."""
    values = np.append(given.values, before[0] + SEEN_DEVIATION * np.array([-1.0, 1.0]))
    found = meta_regression(Estimates(values, np.append(given.sd, [0.0, 0.0])), np.empty((len(values), 0)))
    return float(found.coefficients[0]), max(found.residual_sd, LEAST_OF_SLOPES)
