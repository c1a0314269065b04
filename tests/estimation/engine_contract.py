"""What every way of estimating item parameters owes its users, whatever happens inside.

An `Engine` is a way to fit with the crowd it is tried on. The truth is stated once (`builders.simulated`), and fits are
compared by what they say: the curves of the items, P(correct | theta), which are determined where parameters are
nearly not, as with guessing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from builders.few_draws import few_draws
from builders.simulated import simulated
from irtbench import FitSettings, ResponseMatrix, SparseResponses, fit_factors, fit_model

Curves = NDArray[np.float64]  # P(correct | theta), shape (n_points, n_items)


@dataclass(frozen=True, eq=False)
class Estimates:
    """What a fit says: shapes (n_items, n_factors), (n_items,), (n_items,); errors of slopes where there are any."""

    item_ids: tuple[str, ...]
    slopes: NDArray[np.float64]
    intercept: NDArray[np.float64]
    guessing: NDArray[np.float64]
    log_likelihood: float
    errors: NDArray[np.float64] | None
    converged: bool

    def curves(self, item_ids: tuple[str, ...] | None = None) -> Curves:
        """Curves of these items at the same abilities for every fit."""
        n_factors = self.slopes.shape[1]
        if n_factors == 1:
            theta = np.linspace(-3, 3, 25)[:, None]
        else:
            theta = np.random.default_rng(0).normal(size=(100, n_factors))
        p = self.guessing + (1 - self.guessing) * expit(theta @ self.slopes.T + self.intercept)
        return p[:, [self.item_ids.index(item) for item in item_ids or self.item_ids]]


@dataclass(frozen=True, eq=False)
class Engine:
    """A way to fit and the crowd it is tried on.

    Parameters
    ----------
    fit
        From responses and a seed.
    n_respondents, n_items, guessing, missing
        Of the crowd.
    error
        Root mean square error of the curves that recovery allows: about 1.5 times what was measured.
    within
        Difference of curves that another order of the same data may make: what is left where the steps stop. A fifth of
        it is the relative difference of log-likelihoods.
    flat
        Whether nothing but the likelihood counts, so that data twice are the same estimates.
    apart
        Whether items of which no respondent answered two are fitted as if alone: a known population, no hierarchy.
    own_unit
        Whether theta has mean 0 and variance 1 over these respondents, not over a population.
    """

    fit: Callable[[ResponseMatrix, int], Estimates]
    n_respondents: int = 500
    n_items: int = 8
    guessing: float = 0.0
    missing: float = 0.1
    error: float = 0.065
    within: float = 1e-5
    flat: bool = False
    apart: bool = False
    own_unit: bool = False

    def crowd(self, *, seed: int = 1) -> tuple[ResponseMatrix, Estimates]:
        responses, items, theta = simulated(
            self.n_respondents, self.n_items, seed=seed, guessing=self.guessing, missing=self.missing
        )
        origin, unit = (float(theta.mean()), float(theta.std())) if self.own_unit else (0.0, 1.0)
        slopes, intercept = items.discrimination * unit, items.intercept + items.discrimination * origin
        return responses, Estimates(items.item_ids, slopes[:, None], intercept, items.guessing, np.nan, None, True)


def by_model(settings: FitSettings, *, sparse: bool = False) -> Callable[[ResponseMatrix, int], Estimates]:

    def fit(responses: ResponseMatrix, seed: int) -> Estimates:
        data = SparseResponses.from_long(responses.to_long()) if sparse else responses
        fitted = fit_model(data, settings, seed=seed)
        items, log_likelihood = fitted.items, fitted.log_likelihood
        errors = None if items.covariance is None else items.standard_errors()["discrimination"]
        slopes, c = items.discrimination[:, None], items.guessing
        return Estimates(items.item_ids, slopes, items.intercept, c, log_likelihood, errors, fitted.converged)

    return fit


def by_factors(n_factors: int) -> Callable[[ResponseMatrix, int], Estimates]:

    def fit(responses: ResponseMatrix, seed: int) -> Estimates:
        fitted = fit_factors(responses, n_factors, seed=seed, tolerance=1e-5)
        ids, log_likelihood = fitted.item_ids, fitted.log_likelihood
        return Estimates(
            ids, fitted.slopes, fitted.intercept, np.zeros(len(ids)), log_likelihood, None, fitted.converged
        )

    return fit


ENGINES = {
    "2pl": Engine(by_model(FitSettings()), flat=True, apart=True),
    "2pl, sparse": Engine(by_model(FitSettings(), sparse=True), missing=0.5, flat=True, apart=True),
    "2pl, weak": Engine(by_model(FitSettings(prior="weak")), apart=True),
    "2pl, adam": Engine(by_model(FitSettings(optimiser="adam")), 200, 5, error=0.1, within=1e-3, flat=True, apart=True),
    "3pl, weak": Engine(by_model(FitSettings(kind="3pl")), guessing=0.2, error=0.075, apart=True),
    "3pl, none": Engine(
        by_model(FitSettings(kind="3pl", prior="none")), 1000, guessing=0.2, error=0.075, flat=True, apart=True
    ),
    "hierarchical": Engine(by_model(FitSettings(prior="hierarchical")), n_respondents=200, error=0.08),
    "hierarchical, few": Engine(
        by_model(FitSettings(prior="hierarchical")), 15, 100, error=0.16, within=1e-3, own_unit=True
    ),
    "population": Engine(by_model(FitSettings(population="estimated", tolerance=1e-4)), flat=True, own_unit=True),
    "one factor": Engine(by_factors(1), flat=True),
    "two factors": Engine(by_factors(2), n_items=10, within=1e-3, flat=True),
}
SLOW_ENGINES: dict[str, Engine] = {}
for kind in ("normal", "lowrank"):
    posterior = by_model(FitSettings(prior="weak", posterior=kind, n_nodes=21))
    cheaper = few_draws(2000, particles=2, tolerance=0.02)(posterior)
    SLOW_ENGINES[kind] = Engine(
        cheaper, 150, 4, missing=0.0, error=0.115, within=0.01
    )  # means settle to .02 deviations


@cache
def fitted(engine: Engine) -> Estimates:
    return engine.fit(engine.crowd()[0], 0)


def twice(responses: ResponseMatrix) -> ResponseMatrix:
    """Every respondent a second time, right behind the first."""
    ids = tuple(f"{name}{copy}" for name in responses.respondent_ids for copy in ("", " again"))
    return ResponseMatrix(np.repeat(responses.values, 2, axis=0), ids, responses.item_ids)


def side_by_side(first: ResponseMatrix, second: ResponseMatrix) -> ResponseMatrix:
    """Two crowds with items of their own, of which the other crowd answered none."""
    values = np.full((first.n_respondents + second.n_respondents, first.n_items + second.n_items), np.nan)
    values[: first.n_respondents, : first.n_items] = first.values
    values[first.n_respondents :, first.n_items :] = second.values
    return ResponseMatrix(
        values,
        (*first.respondent_ids, *(f"other {name}" for name in second.respondent_ids)),
        (*first.item_ids, *(f"other {name}" for name in second.item_ids)),
    )


def root_mean_square(difference: Curves) -> float:
    """Of curves, over abilities as frequent as in a standard normal population, and over items."""
    theta = np.linspace(-3, 3, len(difference))
    weights = np.exp(-0.5 * theta**2)
    return float(np.sqrt(weights @ (difference**2).mean(axis=1) / weights.sum()))
