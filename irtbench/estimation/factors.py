"""The logistic model with several abilities: exploratory, or with a pattern of zero loadings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix, share_correct
from irtbench.data.shown import counted
from irtbench.estimation.doubts import not_identified
from irtbench.estimation.driver import fenced
from irtbench.estimation.fit import check_estimable, choose_device, choose_precision
from irtbench.estimation.marginal.missing_information import posteriors
from irtbench.estimation.marginal.mode import find_mode_on_right_nodes
from irtbench.estimation.marginal.nodes import (
    describe_nodes,
    find_posteriors,
    integration_error,
    with_right_nodes,
)
from irtbench.estimation.marginal.observed_information import sampling_covariance
from irtbench.estimation.scale_fit import more_than_patterns, with_names
from irtbench.estimation.settings import Device, Precision
from irtbench.estimation.several_abilities.abilities_mode import ROOM, AbilitiesMode, find_mode_of_abilities
from irtbench.estimation.several_abilities.factor_problem import NORMAL_OGIVE, FactorProblem, factor_problem
from irtbench.estimation.several_abilities.rotation_freedom import Block, independent_blocks, number_of_turns
from irtbench.estimation.status import InformationCriteria, Status
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.item_tensors import LINEAR, ItemTensors

ONE_ABILITY_TOLERANCE = 1e-5  # of `fit_model`


@dataclass(frozen=True, eq=False, kw_only=True)
class SeveralAbilities(InformationCriteria):
    """A 2PL with slopes on several independent standard normal abilities.

    Parameters
    ----------
    item_ids
        The items.
    slopes
        Slopes of each item, shape (n_items, n_slopes).
    intercept
        d, shape (n_items,).
    log_likelihood
        Marginal log-likelihood of the responses.
    n_respondents
        Number of rows.
    status
        How the iterations ended.
    covariance
        Sampling covariance of slopes and intercept of each item, shape (n_items, n_slopes + 1, n_slopes + 1), from the
        observed information; zero where slopes are zero; None if there is none.
    nodes
        The nodes over which abilities were integrated out, in words.
    integration_error
        Of the log-likelihood, a response, against other nodes; NaN if not known.
    n_by_item, n_correct_by_item
        Observed and correct responses to each item, shape (n_items,); None if not known.
    log_binomial_coefficients
        What to add to the log-likelihood for that of the numbers right of several trials; 0 without trials.
    """

    item_ids: tuple[str, ...]
    slopes: NDArray[np.float64]
    intercept: NDArray[np.float64]
    log_likelihood: float
    n_respondents: int
    status: Status
    covariance: NDArray[np.float64] | None = None
    nodes: str = ""
    integration_error: float = math.nan
    n_by_item: NDArray[np.int64] | None = None
    n_correct_by_item: NDArray[np.int64] | None = None
    log_binomial_coefficients: float = 0.0

    @property
    def loadings(self) -> NDArray[np.float64]:
        """Slopes as factor loadings, a / sqrt(1.702^2 + a'a), shape (n_items, n_slopes)."""
        return self.slopes / np.sqrt(NORMAL_OGIVE**2 + (self.slopes**2).sum(axis=1, keepdims=True))

    @property
    def steepest(self) -> NDArray[np.float64]:
        """The slope that an item's discrimination is, shape (n_items,)."""
        raise NotImplementedError

    @property
    def what_errors_are_of(self) -> str:
        """What the standard errors are of, in words."""
        raise NotImplementedError

    def standard_errors(self) -> dict[str, NDArray[np.float64]]:
        """Standard errors of ``discrimination, difficulty, guessing, intercept`` and slopes, each (n_items,)."""
        raise NotImplementedError

    def not_identified(self) -> dict[str, list[str]]:
        """Items of whose slopes or difficulty the data say little, see `doubts.not_identified`."""
        errors = self.standard_errors()
        slopes = {name: own for name, own in errors.items() if name.startswith("slope_")}
        values = np.column_stack([self.slopes, self.steepest])
        own = np.column_stack([*slopes.values(), errors["discrimination"]])
        return not_identified(self.item_ids, values, own, -self.intercept / self.steepest, errors["difficulty"])

    def summarised(self, model: str, what: Mapping[str, Any]) -> dict[str, Any]:
        """What fit.json holds, with what is this model's own."""
        return {
            **self.criteria(),
            "n_items": len(self.item_ids),
            "model": model,
            **what,
            "prior": Priors.named("none").describe(),
            "converged": self.converged,
            "stopped_because": self.stopped_because,
            "steps": self.steps,
            "quadrature": self.nodes,
            "integration_error": None if math.isnan(self.integration_error) else self.integration_error,
            "standard_errors": self.what_errors_are_of,
            "log_binomial_coefficients": self.log_binomial_coefficients,
            **self.not_identified(),
        }

    def item_columns(self, model: str) -> dict[str, Any]:
        """The columns of items.csv that all models have."""
        errors, n, n_correct = self.standard_errors(), self.n_by_item, self.n_correct_by_item
        return {
            "item_id": self.item_ids,
            "model": model,
            "discrimination": self.steepest,
            "difficulty": -self.intercept / self.steepest,
            "guessing": 0.0,
            "intercept": self.intercept,
            **{f"se_{name}": errors[name] for name in ("discrimination", "difficulty", "guessing", "intercept")},
            "n_responses": np.nan if n is None else n,
            "proportion_correct": np.nan if n is None or n_correct is None else share_correct(n_correct, n),
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class FactorModel(SeveralAbilities):
    """A 2PL with several independent standard normal abilities, P = 1 / (1 + exp(-(a' theta + d))).

    Exploratory slopes are turned to principal axes, the first carrying most; their sum over items is positive on every
    axis. Their covariance is that of slopes on principal axes; axes that a pattern lets turn are held.

    Parameters
    ----------
    zero_loadings
        Where slopes were fixed at zero, shape (n_items, n_factors); None if exploratory. A pattern of ones alone is
        exploratory.
    item_ids, slopes, intercept, log_likelihood, n_respondents, status, covariance, nodes, integration_error,
    n_by_item, n_correct_by_item, log_binomial_coefficients
        As in `SeveralAbilities`.
    """

    zero_loadings: NDArray[np.bool_] | None

    @property
    def stopped_because(self) -> str:
        """Why the iterations ended, in words."""
        return self.status.in_words(instead="take fewer abilities" if self.n_factors > 1 else "")

    @property
    def n_factors(self) -> int:
        """Number of abilities."""
        return int(self.slopes.shape[1])

    @property
    def n_parameters(self) -> int:
        """Free parameters less the rotations that change nothing, F (F - 1) / 2 in an exploratory model."""
        n_items, n_factors = self.slopes.shape
        if self.zero_loadings is None:
            return n_items * (n_factors + 1) - n_factors * (n_factors - 1) // 2
        free = ~self.zero_loadings
        return int(n_items + free.sum()) - number_of_turns(free)

    @property
    def turning(self) -> NDArray[np.bool_]:
        """Abilities whose axes a pattern lets turn, so that their slopes are not determined, shape (n_factors,)."""
        turning = np.zeros(self.n_factors, dtype=np.bool_)
        for block in independent_blocks(len(self.item_ids), self.n_factors, self.zero_loadings):
            if block.zero_loadings is not None:
                turning[block.factors] = number_of_turns(~block.zero_loadings) > 0
        return turning

    @property
    def what_errors_are_of(self) -> str:
        """What the standard errors are of, in words."""
        if self.covariance is None:
            return "not computed"
        if self.turning.any():
            return "of intercepts, discriminations and difficulties; slopes turn with axes that the pattern leaves free"
        if self.zero_loadings is None and self.n_factors > 1:
            return "of intercepts and of slopes on principal axes, from the observed information"
        return "of intercepts and slopes, from the observed information"

    @property
    def steepest(self) -> NDArray[np.float64]:
        """The length of the slopes, sqrt(a'a), shape (n_items,)."""
        return np.asarray(np.sqrt((self.slopes**2).sum(axis=1)))

    def summary(self) -> dict[str, Any]:
        """What fit.json holds."""
        return self.summarised("2pl", {"n_factors": self.n_factors})

    def standard_errors(self) -> dict[str, NDArray[np.float64]]:
        """Standard errors of ``discrimination, difficulty, guessing, intercept, slope_1, ...``, each (n_items,).

        Those of the length of the slopes and of -d / length are by the delta method; neither changes when axes turn.
        NaN where they are not known or axes may turn, and where a parameter is fixed.
        """
        names = ("discrimination", "difficulty", "guessing", "intercept")
        n_items, n_factors = self.slopes.shape
        slopes = [f"slope_{k + 1}" for k in range(n_factors)]
        unknown = np.full(n_items, np.nan)
        if self.covariance is None:
            return dict.fromkeys((*names, *slopes), unknown)
        with np.errstate(divide="ignore", invalid="ignore"):
            length = np.sqrt((self.slopes**2).sum(axis=1))
            along = np.column_stack([self.slopes / length[:, None], np.zeros(n_items)])
            place = np.column_stack([self.intercept[:, None] * self.slopes / length[:, None] ** 3, -1 / length])
            of_length, of_place = (np.sqrt(np.einsum("jk,jkl,jl->j", by, self.covariance, by)) for by in (along, place))
            variances = np.diagonal(self.covariance, axis1=1, axis2=2)
            unknown_too = (variances == 0) | np.append(self.turning, False)
            own = np.sqrt(np.where(unknown_too, np.nan, variances))
        found = dict(zip(names, (of_length, of_place, unknown, own[:, -1]), strict=True))
        return found | dict(zip(slopes, own.T, strict=False))

    def table(self) -> pd.DataFrame:
        """One row an item, columns of items.csv: slope where it is steepest, difficulty there, slopes, loadings.

        The discrimination is the length of the slopes, sqrt(a'a), the difficulty -d / sqrt(a'a) (Reckase, 1985).
        """
        errors = self.standard_errors()
        return pd.DataFrame(
            {
                **self.item_columns("2pl"),
                **{f"slope_{k + 1}": column for k, column in enumerate(self.slopes.T)},
                **{f"loading_{k + 1}": column for k, column in enumerate(self.loadings.T)},
                **{f"se_{name}": error for name, error in errors.items() if name.startswith("slope_")},
            }
        )

    def in_short(self) -> str:
        """Abilities, items, respondents, and how the iterations ended."""
        sizes = (self.n_factors, "factor"), (len(self.item_ids), "item"), (self.n_respondents, "respondent")
        return f"{', '.join(counted(n, word) for n, word in sizes)}, {self.outcome()}"


def fit_factors(
    responses: ResponsesLike,
    n_factors: int,
    *,
    zero_loadings: NDArray[np.bool_] | None = None,
    seed: int = 0,
    tolerance: float = 1e-3,
    max_steps: int = 1000,
    standard_errors: bool = True,
    device: Device = "auto",
    dtype: Precision = "float64",
) -> FactorModel:
    """Estimate a 2PL with several abilities by marginal maximum likelihood.

    Abilities are integrated out over a lattice as fine as the narrowest posterior asks, and the result is checked on
    another; with four abilities and more over quasi-Monte Carlo points, if the lattice would have too many nodes, and
    their error given. Where a pattern divides items and abilities into blocks without a slope between them each block
    is a model of its own; with simple structure these are fits of one ability each.

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`); missing ones are left out of the likelihood.
        Of several trials of an item each is a response, independent of the others given the abilities.
    n_factors
        Number of abilities, independent of each other.
    zero_loadings
        Where slopes are fixed at zero, shape (n_items, n_factors); None for an exploratory model.
    seed
        Of the quasi-Monte Carlo points.
    tolerance, max_steps
        As for `find_mode`.
    standard_errors
        Whether to compute them. Whether the observed information is positive definite is tested all the same.
    device, dtype
        As in `FitSettings`: where to compute, and the floating point numbers of the sums that steps are made of.

    Raises
    ------
    InputError
        If the data do not determine the parameters (see `fit_model`), the pattern has another shape, or it leaves an
        item without any slope or an ability without any item.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> fitted = irtbench.fit_factors(responses, 1)
    >>> fitted
    <FactorModel: 1 factor, 6 items, 300 respondents, log-likelihood -930.74, converged>
    >>> fitted.table()[["item_id", "slope_1", "loading_1"]].round(2).head(2)
      item_id  slope_1  loading_1
    0   item1     1.33       0.62
    1   item2     2.64       0.84
    """
    responses = as_responses(responses)
    check_estimable(responses, Priors.named("none"))
    zero_loadings = checked_pattern(responses.n_items, n_factors, zero_loadings)
    blocks = independent_blocks(responses.n_items, n_factors, zero_loadings)
    where, precision, found = choose_device(device), choose_precision(dtype), []
    with fenced(seed), torch.no_grad():
        for block in blocks:
            problem = factor_problem(
                answers_to(responses, block), len(block.factors), block.zero_loadings, seed,
                device=where, dtype=precision,
            )  # fmt: skip
            find = find_one_ability if problem.n_factors == 1 else find_mode_of_abilities
            part = find(problem, tolerance=tolerance, max_steps=max_steps, standard_errors=standard_errors)
            n_free = problem.free.sum() - number_of_turns(problem.free[:, : problem.n_factors].cpu().numpy())
            if part.mode.status.converged and problem.rows.most_trials is None:
                too_many = more_than_patterns(n_free, torch.tensor(len(block.items)))
                status = part.mode.status.unless_loose([bool(too_many)] * len(block.items))
                covariance = None if bool(too_many) else part.covariance
                part = replace(part, mode=replace(part.mode, status=status), covariance=covariance)
            found.append(part)
    return combined(responses, n_factors, zero_loadings, blocks, found)


def find_one_ability(
    problem: FactorProblem, *, tolerance: float, max_steps: int, standard_errors: bool
) -> AbilitiesMode:
    """A block of one ability, estimated as `fit_model` does."""
    on_line, mode = find_mode_on_right_nodes(
        problem, problem.starting_values(), tolerance=min(tolerance, ONE_ABILITY_TOLERANCE), max_steps=max_steps
    )
    covariance, error, items = None, float("nan"), mode.items
    if mode.status.converged:
        assert mode.counts is not None
        error = integration_error(on_line, items, mode.counts, find_posteriors(on_line, items))
        blocks, loose = sampling_covariance(on_line, items)
        mode = replace(mode, status=mode.status.unless_loose(loose.tolist()))
        if mode.status.converged and standard_errors:
            covariance = torch.from_numpy(blocks[:, LINEAR, LINEAR]).to(problem.rows.device)
    if float(items.slope.sum()) < 0:
        mode = replace(mode, items=items.turned())
        if covariance is not None:
            covariance = covariance * covariance.new_tensor([[1.0, -1.0], [-1.0, 1.0]])
    return AbilitiesMode(mode, covariance, describe_nodes(on_line.nodes), error)


def checked_pattern(n_items: int, n_factors: int, zero_loadings: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    """Refuse a pattern that fits no model, see `fit_factors`; None for one without zeros."""
    if not 1 <= n_factors < n_items:
        raise InputError(f"factors: expected between 1 and {n_items - 1} for {n_items} items but got {n_factors}")
    if zero_loadings is None:
        return None
    zero_loadings = np.asarray(zero_loadings, dtype=np.bool_)
    if zero_loadings.shape != (n_items, n_factors):
        raise InputError(f"factors: zero_loadings has shape {zero_loadings.shape}; expected {(n_items, n_factors)}")
    if zero_loadings.all(axis=1).any():
        raise InputError("factors: zero_loadings leaves an item without any slope")
    if zero_loadings.all(axis=0).any():
        raise InputError("factors: zero_loadings leaves an ability without any item")
    return zero_loadings if zero_loadings.any() else None


def answers_to(responses: ResponseMatrix, block: Block) -> ResponseMatrix:
    """The responses to a block's items, of those who answered any."""
    some = responses.select_items([responses.item_ids[j] for j in block.items])
    return some.select_respondents(some.n_by_respondent > 0)


def combined(
    responses: ResponseMatrix,
    n_factors: int,
    zero_loadings: NDArray[np.bool_] | None,
    blocks: Sequence[Block],
    found: Sequence[AbilitiesMode],
) -> FactorModel:
    """The model of all items from those of the blocks."""
    n_items = responses.n_items
    slopes, intercept = np.zeros((n_items, n_factors)), np.zeros(n_items)
    covariance = np.zeros((n_items, n_factors + 1, n_factors + 1))
    for block, part in zip(blocks, found, strict=True):
        slopes[np.ix_(block.items, block.factors)] = part.mode.items.slope.cpu().numpy()
        intercept[block.items] = part.mode.items.intercept.cpu().numpy()
        if part.covariance is not None:
            places = np.append(block.factors, n_factors)
            covariance[np.ix_(block.items, places, places)] = part.covariance.cpu().numpy()
    n_responses = [int(responses.n_by_item[block.items].sum()) for block in blocks]
    errors = [part.integration_error * n for part, n in zip(found, n_responses, strict=True)]
    nodes = dict.fromkeys(part.nodes for part in found)
    return FactorModel(
        item_ids=responses.item_ids,
        slopes=slopes,
        intercept=intercept,
        zero_loadings=zero_loadings,
        log_likelihood=sum(part.mode.log_likelihood for part in found),
        n_respondents=responses.n_respondents,
        status=with_names(combined_status(blocks, [part.mode.status for part in found]), responses),
        covariance=covariance if all(part.covariance is not None for part in found) else None,
        nodes="; ".join(nodes) if len(found) == 1 else f"{len(found)} blocks: " + "; ".join(nodes),
        integration_error=sum(errors) / sum(n_responses),
        n_by_item=responses.n_by_item,
        n_correct_by_item=responses.n_correct_by_item,
        log_binomial_coefficients=responses.log_coefficients(),
    )


def combined_status(blocks: Sequence[Block], statuses: Sequence[Status]) -> Status:
    """How the first block ended that has not converged, with the largest numbers of all."""
    worst = next((status for status in statuses if not status.converged), statuses[0])
    parts = list(zip(blocks, statuses, strict=True))
    steep = tuple(int(block.items[j]) for block, status in parts for j in status.steep)
    loose = tuple(int(block.items[j]) for block, status in parts for j in status.loose)
    return replace(
        worst,
        steps=sum(status.steps for status in statuses),
        gradient=max(status.gradient for status in statuses),
        change=max(status.change for status in statuses),
        tolerance=max(status.tolerance for status in statuses),
        steep=steep,
        loose=loose,
    )


def factor_scores(
    fitted: FactorModel, responses: ResponsesLike, *, seed: int = 0, device: Device = "auto"
) -> pd.DataFrame:
    """Posterior means and standard deviations of each respondent's abilities.

    Parameters
    ----------
    fitted
        The model; abilities are on its axes.
    responses
        Graded responses to its items, in any order; missing ones are left out.
    seed
        Of the quasi-Monte Carlo points (four abilities and more).
    device
        As in `FitSettings`.

    Returns
    -------
    DataFrame
        Columns ``respondent_id, n_items, n_correct, accuracy, theta_1, se_1, theta_2, ...``. With several trials of an
        item ``n_correct`` and a last column ``n_trials`` count responses, and ``accuracy`` is the mean share right.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> fitted = irtbench.fit_factors(responses, 1)
    >>> irtbench.factor_scores(fitted, responses).round(2).head(2)
      respondent_id  n_items  n_correct  accuracy  theta_1  se_1
    0            r1        6          3      0.50    -0.20  0.53
    1            r2        6          4      0.67     0.56  0.57
    """
    data = as_responses(responses, item_ids=fitted.item_ids).select_items(fitted.item_ids)
    mean, deviation = (np.empty((data.n_respondents, fitted.n_factors)) for _ in range(2))
    where = choose_device(device)
    for block in independent_blocks(len(fitted.item_ids), fitted.n_factors, fitted.zero_loadings):
        mean[:, block.factors], deviation[:, block.factors] = block_scores(fitted, data, block, seed, where)
    abilities: dict[str, NDArray[np.float64]] = {}
    for k in range(fitted.n_factors):
        abilities |= {f"theta_{k + 1}": mean[:, k], f"se_{k + 1}": deviation[:, k]}
    return scores_table(data, abilities)


def scores_table(data: ResponseMatrix, abilities: Mapping[str, NDArray[np.float64]]) -> pd.DataFrame:
    """One row a respondent: numbers of items and of right ones, abilities, and with several trials their number."""
    table = pd.DataFrame(
        {
            "respondent_id": data.respondent_ids,
            "n_items": data.n_items_by_respondent,
            "n_correct": data.n_correct_by_respondent,
            "accuracy": np.nan_to_num(data.accuracy()),
            **abilities,
        }
    )
    return table if data.trials is None else table.assign(n_trials=data.n_by_respondent)


def moments(posteriors: Iterable[Tensor], theta: Tensor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means and standard deviations of abilities under batches of posteriors at nodes, shape (n_batch, n_nodes)."""
    parts = [torch.stack([posterior @ theta, posterior @ theta**2]) for posterior in posteriors]
    mean, square = torch.cat(parts, dim=1).cpu().numpy()
    return mean, np.sqrt(np.maximum(square - mean**2, 0.0))


@torch.no_grad()
def block_scores(
    fitted: FactorModel, responses: ResponseMatrix, block: Block, seed: int, device: torch.device
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Posterior means and standard deviations of a block's abilities, shape (n_respondents, len(block.factors))."""
    some = responses.select_items([responses.item_ids[j] for j in block.items])
    slope = torch.from_numpy(fitted.slopes[np.ix_(block.items, block.factors)]).to(device)
    intercept = torch.from_numpy(fitted.intercept[block.items]).to(device)
    items = ItemTensors(slope, intercept, torch.zeros_like(intercept))
    own = factor_problem(some, len(block.factors), block.zero_loadings, seed, device=device)
    one = own.n_factors == 1
    problem = with_right_nodes(own, items, own.counts(items)) if one else own.placed(items, room=ROOM)
    return moments((posterior for _, posterior in posteriors(problem, items, 0)), problem.nodes.theta)
