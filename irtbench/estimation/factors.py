"""The logistic model with several abilities: exploratory, or with a pattern of zero loadings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.criteria import InformationCriteria
from irtbench.estimation.driver import fenced
from irtbench.estimation.fit import check_estimable
from irtbench.estimation.marginal.mode import find_mode
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.marginal.start import starting_values
from irtbench.estimation.status import Status
from irtbench.models.factor_quadrature import factor_quadrature
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.pyro_model.model import logistic_model
from irtbench.models.pyro_model.node_tensors import NodeTensors
from irtbench.models.pyro_model.rows import encode_responses

NORMAL_OGIVE = 1.702


@dataclass(frozen=True, eq=False)
class FactorModel(InformationCriteria):
    """A 2PL with several independent standard normal abilities, P = 1 / (1 + exp(-(a' theta + d))).

    Parameters
    ----------
    item_ids
        The items.
    slopes
        a, shape (n_items, n_factors). Exploratory slopes are turned to principal axes, the first carrying most;
        their sum over items is positive on every axis.
    intercept
        d, shape (n_items,).
    zero_loadings
        Where slopes were fixed at zero, shape (n_items, n_factors); None if exploratory.
    log_likelihood
        Marginal log-likelihood of the responses.
    n_respondents
        Number of rows.
    status
        How the iterations ended.
    """

    item_ids: tuple[str, ...]
    slopes: NDArray[np.float64]
    intercept: NDArray[np.float64]
    zero_loadings: NDArray[np.bool_] | None
    log_likelihood: float
    n_respondents: int
    status: Status

    @property
    def converged(self) -> bool:
        """Whether the estimates are a maximum of the likelihood."""
        return self.status.converged

    @property
    def stopped_because(self) -> str:
        """Why the iterations ended, in words."""
        return str(self.status)

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.status.steps

    @property
    def n_factors(self) -> int:
        """Number of abilities."""
        return int(self.slopes.shape[1])

    @property
    def n_parameters(self) -> int:
        """Free parameters; an exploratory model loses F (F - 1) / 2 to the rotation that changes nothing."""
        n_items, n_factors = self.slopes.shape
        if self.zero_loadings is None:
            return n_items * (n_factors + 1) - n_factors * (n_factors - 1) // 2
        return int(n_items + (~self.zero_loadings).sum())

    def summary(self) -> dict[str, Any]:
        """What fit.json holds."""
        return {
            **self.criteria(),
            "n_items": len(self.item_ids),
            "model": "2pl",
            "n_factors": self.n_factors,
            "prior": Priors.named("none").describe(),
            "converged": self.converged,
            "stopped_because": self.stopped_because,
            "steps": self.steps,
        }

    def table(self, responses: ResponseMatrix) -> pd.DataFrame:
        """One row an item: its slope in the direction where it is steepest, its difficulty there, slopes and loadings.

        The discrimination is the length of the slopes, sqrt(a'a), the difficulty -d / sqrt(a'a) (Reckase, 1985);
        standard errors are not computed.
        """
        length = np.sqrt((self.slopes**2).sum(axis=1))
        unknown = np.full(len(length), np.nan)
        data = responses.select_items(self.item_ids)
        return pd.DataFrame(
            {
                "item_id": self.item_ids,
                "model": "2pl",
                "discrimination": length,
                "difficulty": -self.intercept / length,
                "guessing": 0.0,
                "intercept": self.intercept,
                **{f"se_{name}": unknown for name in ("discrimination", "difficulty", "guessing", "intercept")},
                "n_responses": data.n_by_item,
                "proportion_correct": data.proportion_correct(),
                **{f"slope_{k + 1}": column for k, column in enumerate(self.slopes.T)},
                **{f"loading_{k + 1}": column for k, column in enumerate(self.loadings.T)},
            }
        )

    @property
    def loadings(self) -> NDArray[np.float64]:
        """Slopes as factor loadings, a / sqrt(1.702^2 + a'a), shape (n_items, n_factors)."""
        length = np.sqrt(NORMAL_OGIVE**2 + (self.slopes**2).sum(axis=1, keepdims=True))
        return self.slopes / length


def fit_factors(
    responses: ResponseMatrix,
    n_factors: int,
    *,
    zero_loadings: NDArray[np.bool_] | None = None,
    seed: int = 0,
    tolerance: float = 1e-3,
    max_steps: int = 1000,
) -> FactorModel:
    """Estimate a 2PL with several abilities by marginal maximum likelihood.

    Abilities are integrated out over a tensor grid up to three factors, over quasi-Monte Carlo points above.

    Parameters
    ----------
    responses
        Graded responses; missing ones are left out of the likelihood.
    n_factors
        Number of abilities, independent of each other.
    zero_loadings
        Where slopes are fixed at zero, shape (n_items, n_factors); None for an exploratory model.
    seed
        Of the quasi-Monte Carlo points (more than three abilities).
    tolerance, max_steps
        As for `find_mode`.

    Raises
    ------
    InputError
        If the data do not determine the parameters (see `fit_model`), the pattern has another shape, or it leaves an
        item without any slope.
    """
    priors = Priors.named("none")
    check_estimable(responses, priors)
    n_items = responses.n_items
    if not 1 <= n_factors < n_items:
        raise InputError(f"factors: expected between 1 and {n_items - 1} for {n_items} items but got {n_factors}")
    if zero_loadings is not None:
        zero_loadings = np.asarray(zero_loadings, dtype=np.bool_)
        if zero_loadings.shape != (n_items, n_factors):
            raise InputError(f"factors: zero_loadings has shape {zero_loadings.shape}; expected {(n_items, n_factors)}")
        if zero_loadings.all(axis=1).any():
            raise InputError("factors: zero_loadings leaves an item without any slope")
    with fenced(seed), torch.no_grad():
        problem = factor_problem(responses, n_factors, zero_loadings, seed)
        mode = find_mode(problem, start=factor_start(problem), tolerance=tolerance, max_steps=max_steps)
    slopes = mode.items.slope.numpy()
    return FactorModel(
        item_ids=responses.item_ids,
        slopes=principal_axes(slopes) if zero_loadings is None else slopes * positive_sign(slopes),
        intercept=mode.items.intercept.numpy(),
        zero_loadings=zero_loadings,
        log_likelihood=mode.log_likelihood,
        n_respondents=responses.n_respondents,
        status=mode.status,
    )


def factor_problem(
    responses: ResponseMatrix, n_factors: int, zero_loadings: NDArray[np.bool_] | None, seed: int
) -> Problem:
    """Data and nodes of a model of several abilities without a prior."""
    quadrature = factor_quadrature(n_factors, seed=seed)
    model = partial(
        logistic_model,
        priors=Priors.named("none"),
        guessing_free=torch.zeros(responses.n_items, dtype=torch.bool),
        guessing_fixed=torch.zeros(responses.n_items, dtype=torch.float64),
        slopes_free=None if zero_loadings is None else torch.from_numpy(~zero_loadings),
    )
    nodes = NodeTensors(torch.from_numpy(quadrature.nodes), torch.from_numpy(quadrature.log_weights))
    return Problem.of(model, encode_responses(responses, torch.device("cpu")), nodes)


def factor_scores(fitted: FactorModel, responses: ResponseMatrix, *, seed: int = 0) -> pd.DataFrame:
    """Posterior means and standard deviations of each respondent's abilities.

    Parameters
    ----------
    fitted
        The model; abilities are on its axes.
    responses
        Graded responses to its items, in any order; missing ones are left out.
    seed
        Of the quasi-Monte Carlo points (more than three abilities).

    Returns
    -------
    DataFrame
        Columns ``respondent_id, n_items, n_correct, accuracy, theta_1, se_1, theta_2, ...``.
    """
    data = responses.select_items(fitted.item_ids)
    problem = factor_problem(data, fitted.n_factors, fitted.zero_loadings, seed)
    slope, intercept = torch.from_numpy(fitted.slopes), torch.from_numpy(fitted.intercept)
    items = ItemTensors(slope, intercept, torch.zeros_like(intercept))
    theta = problem.nodes.theta
    row = problem.row(items)
    means, squares = [], []
    for batch in problem.batches():
        posterior = torch.softmax(row.log_shape(batch.correct, batch.observed), dim=1)
        means.append(posterior @ theta)
        squares.append(posterior @ theta**2)
    mean = torch.cat(means).numpy()
    deviation = np.sqrt(np.maximum(torch.cat(squares).numpy() - mean**2, 0.0))
    n_correct = np.nansum(data.values, axis=1).astype(int)
    table = pd.DataFrame(
        {"respondent_id": data.respondent_ids, "n_items": data.n_by_respondent, "n_correct": n_correct}
    )
    table["accuracy"] = n_correct / np.maximum(data.n_by_respondent, 1)
    for k in range(fitted.n_factors):
        table[f"theta_{k + 1}"] = mean[:, k]
        table[f"se_{k + 1}"] = deviation[:, k]
    return table


def factor_start(problem: Problem) -> ItemTensors:
    """Starting values: slopes from the principal axes of the items' correlations."""
    items = starting_values(problem)
    (batch,) = problem.rows.batches(len(problem.rows), torch.float64)
    correct = batch.correct
    observed = torch.ones_like(correct) if batch.observed is None else batch.observed
    p = correct.sum(dim=0) / observed.sum(dim=0).clamp(min=1)
    standard = observed * (correct - p) / (p * (1 - p)).sqrt().clamp(min=1e-6)
    correlation = (standard.T @ standard) / (observed.T @ observed).clamp(min=1)
    # the largest correlation of each item with another stands for its communality
    off_diagonal = correlation - torch.diag(torch.diagonal(correlation))
    reduced = off_diagonal + torch.diag(off_diagonal.abs().max(dim=1).values)
    sizes, axes = torch.linalg.eigh(reduced)
    n_factors = problem.n_factors
    loadings = axes[:, -n_factors:].flip(1) * sizes[-n_factors:].flip(0).clamp(min=0.01).sqrt()
    communality = (loadings**2).sum(dim=1, keepdim=True).clamp(max=0.8)
    slopes = NORMAL_OGIVE * loadings / (1 - communality).sqrt()
    if problem.prior.slopes_free is not None:
        # each factor takes the common part of the items that load on it
        slopes = torch.where(problem.prior.slopes_free, items.slope[:, :1].abs().clamp(min=0.5), 0.0)
    return replace(items, slope=slopes)


def principal_axes(slopes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Turn slopes so that the first axis carries most of their sum of squares, the next most of the rest."""
    _, _, axes = np.linalg.svd(slopes, full_matrices=False)
    turned = slopes @ axes.T
    return turned * positive_sign(turned)


def positive_sign(slopes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sign of each column that makes its sum positive."""
    return np.where(slopes.sum(axis=0) < 0, -1.0, 1.0)
