"""Items with several abilities: exploratory, or with a pattern of zero loadings."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.data.given import as_responses
from irtbench.data.input_error import InputError, refuse_any
from irtbench.data.responses import ResponseMatrix, share_correct
from irtbench.data.stored_responses import StoredScores
from irtbench.estimation.doubts import not_identified, outnumbered, unlinked
from irtbench.estimation.driver import fenced
from irtbench.estimation.fit import choose_device, choose_precision
from irtbench.estimation.fit_categories import Models
from irtbench.estimation.fitted import FittedItems
from irtbench.estimation.marginal.fisher_scoring import find_mode_on_right_nodes
from irtbench.estimation.marginal.missing_information import posteriors
from irtbench.estimation.marginal.nodes import (
    find_posteriors,
    integration_error,
    with_right_nodes,
)
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.scale_fit import judged, more_parameters_than_patterns, turned_round, with_names
from irtbench.estimation.settings import Device, FitSettings, Precision
from irtbench.estimation.several_abilities.abilities_mode import (
    ROOM,
    Abilities,
    FoundAbilities,
    find_mode_of_abilities,
)
from irtbench.estimation.several_abilities.answers import RIGHT_OR_WRONG, Answers, ResponsesOrScores, coded
from irtbench.estimation.several_abilities.factor_problem import NORMAL_OGIVE, factor_problem
from irtbench.estimation.several_abilities.rotation_freedom import Block, independent_blocks, number_of_turns
from irtbench.estimation.status import Status
from irtbench.estimation.threads import threads_for
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.coded_scores import CodedScores, Levels
from irtbench.models.item_models.item_model import ItemModel
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.priors import FLAT, Priors
from irtbench.models.pyro_model.tensors import ItemTensors

ONE_ABILITY_TOLERANCE = 1e-5  # of `fit_model`


@dataclass(frozen=True, eq=False, kw_only=True)
class SeveralAbilities(FittedItems, ABC):
    """Items with slopes on several independent standard normal abilities.

    Parameters
    ----------
    item_ids
        The items.
    models, categories
        Of each item its model, and the responses that its categories are; right or wrong are a 2PL of 0 and 1.
    slopes
        Slopes of each item, shape (n_items, n_slopes).
    intercepts
        The parameters behind the slopes: d of right and wrong, d1, d2, ... of categories; 0 behind the last of an item,
        shape (n_items, n_intercepts).
    log_likelihood
        Marginal log-likelihood of the responses.
    n_respondents
        Number of rows.
    status
        How the iterations ended.
    covariance
        Sampling covariance of slopes and intercepts of each item, shape (n_items, n_slopes + n_intercepts, the same),
        from the observed information; zero where slopes are zero; None if there is none.
    nodes
        The nodes over which abilities were integrated out, in words.
    integration_error
        Of the log-likelihood, a response, against other nodes; NaN if not known.
    n_by_item, n_correct_by_item
        Observed and correct responses to each item, shape (n_items,); the latter None of categories.
    log_binomial_coefficients
        What to add to the log-likelihood for that of the numbers right of several trials; 0 without trials.
    one_slope, rating_scale
        Whether all items have one slope on each ability, and the same distances between steps.
    priors
        Of asymptotes, which alone have any.
    n_shared
        How many parameters fewer there are than the items' own, because items share some.
    doubts
        Why items may not be on one scale.
    """

    item_ids: tuple[str, ...]
    models: tuple[ItemModel, ...]
    categories: tuple[tuple[Any, ...], ...]
    slopes: NDArray[np.float64]
    intercepts: NDArray[np.float64]
    covariance: NDArray[np.float64] | None = None
    integration_error: float = math.nan
    n_correct_by_item: NDArray[np.int64] | None = None
    log_binomial_coefficients: float = 0.0
    one_slope: bool = False
    rating_scale: bool = False
    priors: Priors = FLAT
    n_shared: int = 0

    @property
    def intercept(self) -> NDArray[np.float64]:
        """The first intercept of each item, of right and wrong the only one, shape (n_items,)."""
        return self.intercepts[:, 0]

    @property
    def right_or_wrong(self) -> bool:
        """Whether every item is a 2PL of right (1) and wrong (0)."""
        two = all(tuple(own) == RIGHT_OR_WRONG for own in self.categories)
        return two and all(model == Logistic() for model in self.models)

    @property
    def loadings(self) -> NDArray[np.float64]:
        """Slopes as factor loadings, a / sqrt(1.702^2 + a'a), shape (n_items, n_slopes)."""
        return self.slopes / np.sqrt(NORMAL_OGIVE**2 + (self.slopes**2).sum(axis=1, keepdims=True))

    @property
    @abstractmethod
    def steepest(self) -> NDArray[np.float64]:
        """The slope that an item's discrimination is, shape (n_items,)."""

    @property
    @abstractmethod
    def rates(self) -> NDArray[np.float64]:
        """Derivatives of that slope by the slopes, shape (n_items, n_slopes)."""

    @property
    @abstractmethod
    def slope_names(self) -> Sequence[str]:
        """Of the slopes, in their order."""

    @property
    @abstractmethod
    def determined(self) -> NDArray[np.bool_]:
        """Which slopes have a standard error, shape (n_items, n_slopes)."""

    @property
    @abstractmethod
    def what_errors_are_of(self) -> str:
        """What the standard errors are of, in words."""

    @cached_property
    def items(self) -> CategoryParameters:
        """The items as of one ability, that of `steepest`; their covariance is by the delta method."""
        n_slopes, x = self.slopes.shape[1], np.column_stack([self.steepest, self.intercepts])
        found = CategoryParameters(self.item_ids, self.models, self.categories, x, np.zeros(len(x), dtype=np.int64))
        for row, model, names in zip(x, self.models, found.names, strict=True):
            row[: len(names)] = model.unbounded(row[: len(names)])
        if self.covariance is None:
            return found
        turn = np.zeros((*x.shape, self.covariance.shape[1]))
        turn[:, 0, :n_slopes], turn[:, 1:, n_slopes:] = self.rates, np.eye(x.shape[1] - 1)
        return replace(found, covariance=turn @ self.covariance @ turn.transpose(0, 2, 1))

    @property
    def n_intercepts(self) -> int:
        """Number of parameters behind the slopes."""
        return sum(len(names) - 1 for names in self.items.names)

    @cached_property
    def _parameters(self) -> pd.DataFrame:
        """Discrimination, difficulty and what else describes an item as of one ability, with standard errors."""
        return self.items.table()

    def standard_errors(self) -> dict[str, NDArray[np.float64]]:
        """Standard errors of ``discrimination, difficulty, guessing, intercept`` and the slopes, each (n_items,).

        NaN where they are not known or axes may turn, and where a parameter is fixed.
        """
        unknown, n_slopes = np.full(len(self.item_ids), np.nan), self.slopes.shape[1]
        errors = np.full((len(unknown), n_slopes + self.intercepts.shape[1]), np.nan)
        if self.covariance is not None:
            variances = np.diagonal(self.covariance, axis1=1, axis2=2)
            errors = np.sqrt(np.where(variances > 0, variances, np.nan))
        own = np.where(self.determined, errors[:, :n_slopes], np.nan)
        table = self._parameters.reindex(columns=["se_discrimination", "se_difficulty"])
        found = {str(name).removeprefix("se_"): table[name].to_numpy() for name in table}
        found |= {"guessing": unknown, "intercept": errors[:, n_slopes]}
        return found | dict(zip(self.slope_names, own.T, strict=True))

    def not_identified(self) -> dict[str, list[str]]:
        """Items of whose slopes or difficulty the data say little, see `doubts.not_identified`."""
        errors = self.standard_errors()
        values = np.column_stack([self.slopes, self.steepest])
        own = np.column_stack([*(errors[name] for name in self.slope_names), errors["discrimination"]])
        difficulty = self._parameters.reindex(columns=["difficulty"])["difficulty"].to_numpy()
        return not_identified(self.item_ids, values, own, difficulty, errors["difficulty"])

    def summarised(self, model: str, what: Mapping[str, Any]) -> dict[str, Any]:
        """What fit.json holds, with what is this model's own; `model` is that of right and wrong."""
        of_items = {} if self.right_or_wrong else {"models": sorted({model.name for model in self.models})}
        return {
            **self.criteria(),
            "n_items": len(self.item_ids),
            "model": model if self.right_or_wrong or model == "bifactor" else of_items.pop("models"),
            **of_items,
            **what,
            "prior": self.priors.describe(),
            "converged": self.converged,
            "stopped_because": self.stopped_because,
            "steps": self.steps,
            "quadrature": self.nodes,
            "integration_error": None if math.isnan(self.integration_error) else self.integration_error,
            "standard_errors": self.what_errors_are_of,
            "doubts": [*outnumbered(len(self.item_ids), self.n_respondents), *self.doubts],
            "log_binomial_coefficients": self.log_binomial_coefficients,
            **self.not_identified(),
        }

    def answers(self, responses: ResponsesOrScores) -> Answers:
        """Responses to these items, in any order."""
        given = responses.given if isinstance(responses, Answers) else responses
        if self.right_or_wrong and not isinstance(given, CodedScores | StoredScores):
            matrix = as_responses(given, item_ids=self.item_ids).select_items(self.item_ids)
            return Answers(matrix, self.models, self.one_slope)
        scores = coded(given, self.item_ids, self.categories)
        return Answers(scores, self.models, self.one_slope, self.rating_scale, self.priors)

    def tensors(self, problem: Problem, axes: NDArray[np.intp], items: NDArray[np.intp]) -> ItemTensors:
        """Some of the items with their slopes on some of the axes, as the problem has them."""
        behind = self.items.steps_at[items, 1:]  # slopes, which do not enter here
        x = np.column_stack([self.slopes[np.ix_(items, axes)], behind, np.zeros(len(items))])
        return ItemTensors.from_matrix(torch.from_numpy(x[:, : problem.free.shape[1]]).to(problem.rows.device))

    def item_columns(self, model: str) -> dict[str, Any]:
        """The columns of items.csv that all models have; `model` is that of right and wrong."""
        table, n, n_correct = self._parameters, self.n_by_item, self.n_correct_by_item
        if not self.right_or_wrong:
            return {str(name): table[name] for name in table} | {"n_responses": n}
        errors = self.standard_errors()
        return {
            "item_id": self.item_ids,
            "model": model,
            "discrimination": self.steepest,
            "difficulty": table["difficulty"],
            "guessing": 0.0,
            "intercept": self.intercept,
            **{f"se_{name}": errors[name] for name in ("discrimination", "difficulty", "guessing", "intercept")},
            "n_responses": n,
            "proportion_correct": np.nan if n_correct is None else share_correct(n_correct, n),
        }


Model = TypeVar("Model", bound=SeveralAbilities)


@dataclass(frozen=True, eq=False, kw_only=True)
class FactorModel(SeveralAbilities, short="{n_factors:factor}, {item_ids:item}, {n_respondents:respondent}, {outcome}"):
    """Items with several independent standard normal abilities, of right and wrong P = 1 / (1 + exp(-(a' theta + d))).

    Exploratory slopes are turned to principal axes, the first carrying most; their sum over items is positive on every
    axis. Their covariance is that of slopes on principal axes; axes that a pattern lets turn are fixed.

    Parameters
    ----------
    zero_loadings
        Where slopes were fixed at zero, shape (n_items, n_factors); None if exploratory. A pattern of ones alone is
        exploratory.
    item_ids, models, categories, slopes, intercepts, log_likelihood, n_respondents, status, covariance, nodes,
    integration_error, n_by_item, n_correct_by_item, log_binomial_coefficients
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
            return self.n_intercepts + n_items * n_factors - n_factors * (n_factors - 1) // 2 - self.n_shared
        free = ~self.zero_loadings
        return int(self.n_intercepts + free.sum()) - number_of_turns(free) - self.n_shared

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

    @property
    def rates(self) -> NDArray[np.float64]:
        """Slopes over their length."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.slopes / self.steepest[:, None]

    @property
    def slope_names(self) -> Sequence[str]:
        """``slope_1, slope_2, ...``."""
        return [f"slope_{k + 1}" for k in range(self.n_factors)]

    @property
    def determined(self) -> NDArray[np.bool_]:
        """Those whose axes do not turn."""
        return np.broadcast_to(~self.turning, self.slopes.shape)

    def table(self) -> pd.DataFrame:
        """One row an item, columns of items.csv: slope where it is steepest, difficulty there, slopes, loadings.

        The discrimination is the length of the slopes, sqrt(a'a), the difficulty -d / sqrt(a'a) (Reckase, 1985).
        """
        errors = self.standard_errors()
        return pd.DataFrame(
            {
                **self.item_columns("2pl"),
                **dict(zip(self.slope_names, self.slopes.T, strict=True)),
                **{f"loading_{k + 1}": column for k, column in enumerate(self.loadings.T)},
                **{f"se_{name}": errors[name] for name in self.slope_names},
            }
        )


def fit_factors(
    responses: ResponsesOrScores,
    n_factors: int,
    *,
    models: Models = "2pl",
    levels: Levels = None,
    zero_loadings: NDArray[np.bool_] | None = None,
    prior_guessing: str | None = None,
    seed: int = 0,
    tolerance: float = 1e-3,
    max_steps: int = 1000,
    standard_errors: bool = True,
    device: Device = "auto",
    dtype: Precision = "float64",
) -> FactorModel:
    """Estimate items with several abilities by marginal maximum likelihood.

    Abilities are integrated out over a lattice as fine as the narrowest posterior asks, and the result is checked on
    another; with four abilities and more over quasi-Monte Carlo points, if the lattice would have too many nodes, and
    their error is reported. Where a pattern divides items and abilities into blocks without a slope between them each
    block is a model of its own; with simple structure these are fits of one ability each.

    Parameters
    ----------
    responses
        Responses, right or wrong (a matrix, array or data frame: `as_responses`) or in categories (as `fit_categories`
        takes them); missing ones are left out of the likelihood. Of several trials of an item, right or wrong, each is
        a response, independent of the others given the abilities.
    n_factors
        Number of abilities, independent of each other.
    models
        A model of right and wrong (``2pl``, ``3pl``, ...), ``grm`` or ``gpcm`` of categories, or an `ItemModel` of your
        own of several abilities; or one for each item by its name. ``rasch`` (or ``1pl``) and ``pcm`` have one slope on
        each ability, the standard deviation of that in logits, and go with a pattern.
    levels
        Labels in their order, as in `fit_categories`; None where responses are numbers.
    zero_loadings
        Where slopes are fixed at zero, shape (n_items, n_factors); None for an exploratory model.
    prior_guessing
        Of lower asymptotes, as in `FitSettings`; None for ``beta:5,15``.
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
        If the data do not determine the parameters (see `fit_model`, `fit_categories`), a model is of one ability, the
        pattern has another shape, or it leaves an item without any slope or an ability without any item.

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
    answers = Answers.of(responses, models, levels, prior_guessing)
    n_items = answers.given.n_items
    zero_loadings = checked_pattern(n_items, n_factors, zero_loadings)
    blocks = independent_blocks(n_items, n_factors, zero_loadings)
    turning = answers.one_slope and n_factors > 1 and (zero_loadings is None or number_of_turns(~zero_loadings))
    refuse_any((
        (turning,
         "factors: items of one slope on each ability go with a pattern of zero loadings, without which no ability "
         "is distinguished from another; expected one whose axes do not turn"),
        (answers.rating_scale and len(blocks) > 1,
         "factors: rsm has the same steps on all abilities, which are items' own here; expected pcm"),
    ))  # fmt: skip
    where, precision, found = choose_device(device), choose_precision(dtype), list[FoundAbilities]()
    with fenced(seed), torch.no_grad():
        for block in blocks:
            own, n = answers.to(block.items, answered=True), len(block.factors)
            begun = factor_problem(own, n, block.zero_loadings, seed, device=where, dtype=precision)
            abilities, mode, error = find_abilities(
                begun, tolerance=tolerance, max_steps=max_steps, standard_errors=standard_errors
            )
            problem, status = abilities.problem, mode.status
            turns = number_of_turns(problem.free[:, :n].cpu().numpy())
            if status.converged and answers.linear and more_parameters_than_patterns(problem, turns):
                mode = replace(mode, status=status.unless_loose([True] * len(block.items)), covariance=None)
            found.append((abilities, mode, error))
    return combined(FactorModel, answers, n_factors, blocks, found, zero_loadings=zero_loadings)


def find_abilities(abilities: Abilities, *, tolerance: float, max_steps: int, standard_errors: bool) -> FoundAbilities:
    """The mode and its curvature; of one ability, such as a block's, as `fit_model` has it."""
    find = find_one_ability if abilities.problem.n_factors == 1 else find_mode_of_abilities
    with threads_for(abilities.problem.n_cells):
        return find(abilities, tolerance=tolerance, max_steps=max_steps, standard_errors=standard_errors)


def find_one_ability(
    abilities: Abilities, *, tolerance: float, max_steps: int, standard_errors: bool
) -> FoundAbilities:
    """A block of one ability."""
    problem, error, covariance = abilities.problem, math.nan, None
    on_line, mode = find_mode_on_right_nodes(
        problem, problem.starting_values(), tolerance=min(tolerance, ONE_ABILITY_TOLERANCE), max_steps=max_steps
    )
    fit = judged(on_line, mode, FitSettings(), FLAT)
    if mode.status.converged:
        assert mode.counts is not None
        error = integration_error(on_line, mode.items, mode.counts, find_posteriors(on_line, mode.items))
    if fit.status.converged and fit.errors is not None and standard_errors:
        covariance = torch.from_numpy(fit.errors.items).to(problem.rows.device)
    mode = replace(mode, status=fit.status, covariance=covariance)
    mode = turned_round(problem, mode) if float(problem.slopes(mode.items).sum()) < 0 else mode
    return abilities.on(on_line.nodes), mode, error


def checked_pattern(n_items: int, n_factors: int, zero_loadings: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    """Refuse a pattern that fits no model, see `fit_factors`; None for one without zeros."""
    if not 1 <= n_factors < n_items:
        raise InputError(f"factors: expected between 1 and {n_items - 1} for {n_items} items but got {n_factors}")
    if zero_loadings is None:
        return None
    zero_loadings = np.asarray(zero_loadings, dtype=np.bool_)
    refuse_any((
        (zero_loadings.shape != (n_items, n_factors),
         f"factors: zero_loadings has shape {zero_loadings.shape}; expected {(n_items, n_factors)}"),
        (zero_loadings.all(axis=-1).any(), "factors: zero_loadings leaves an item without any slope"),
        (zero_loadings.all(axis=0).any(), "factors: zero_loadings leaves an ability without any item"),
    ))  # fmt: skip
    return zero_loadings if zero_loadings.any() else None


def combined(
    kind: type[Model],
    answers: Answers,
    n_slopes: int,
    blocks: Sequence[Block],
    found: Sequence[FoundAbilities],
    *,
    doubts: Iterable[str] = (),
    **own: Any,
) -> Model:
    """The model of all items from the modes of those of the blocks, and what else is its own."""
    n_items, modes = answers.given.n_items, [mode for _, mode, _ in found]
    widths = [abilities.scale.width for abilities, _, _ in found]
    width = n_slopes + max(n - len(block.factors) for block, n in zip(blocks, widths, strict=True))
    parameters, covariance = np.zeros((n_items, width)), np.zeros((n_items, width, width))
    for block, n, (abilities, mode, _) in zip(blocks, widths, found, strict=True):
        places = np.append(block.factors, n_slopes + np.arange(n - len(block.factors)))
        natural = abilities.scale.natural(mode.items.matrix[:, :n])
        parameters[np.ix_(block.items, places)] = natural.cpu().numpy()
        if mode.covariance is not None:
            covariance[np.ix_(block.items, places, places)] = mode.covariance[:, :n, :n].cpu().numpy()
    n_responses = [int(answers.given.n_by_item[block.items].sum()) for block in blocks]
    errors = [error * n for (_, _, error), n in zip(found, n_responses, strict=True)]
    nodes = dict.fromkeys(abilities.words for abilities, _, _ in found)
    links = [doubt for abilities, _, _ in found for doubt in unlinked(abilities.problem)]
    return kind(
        **answers.described,
        slopes=parameters[:, :n_slopes],
        intercepts=parameters[:, n_slopes:],
        log_likelihood=sum(mode.log_likelihood for mode in modes),
        status=with_names(combined_status(blocks, [mode.status for mode in modes]), answers.given),
        covariance=covariance if all(mode.covariance is not None for mode in modes) else None,
        nodes="; ".join(nodes) if len(found) == 1 else f"{len(found)} blocks: " + "; ".join(nodes),
        integration_error=sum(errors) / sum(n_responses),
        n_shared=sum(abilities.n_shared for abilities, _, _ in found),
        doubts=tuple(dict.fromkeys([*links, *doubts])),
        **own,
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
    fitted: FactorModel, responses: ResponsesOrScores, *, seed: int = 0, device: Device = "auto"
) -> pd.DataFrame:
    """Posterior means and standard deviations of each respondent's abilities.

    Parameters
    ----------
    fitted
        The model; abilities are on its axes.
    responses
        Responses to its items, in any order; missing ones are left out.
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
    answers = fitted.answers(responses)
    n_respondents = answers.given.n_respondents
    mean, deviation = (np.empty((n_respondents, fitted.n_factors)) for _ in range(2))
    where = choose_device(device)
    for block in independent_blocks(len(fitted.item_ids), fitted.n_factors, fitted.zero_loadings):
        mean[:, block.factors], deviation[:, block.factors] = block_scores(fitted, answers, block, seed, where)
    abilities: dict[str, NDArray[np.float64]] = {}
    for k in range(fitted.n_factors):
        abilities |= {f"theta_{k + 1}": mean[:, k], f"se_{k + 1}": deviation[:, k]}
    return scores_table(answers.given.to_matrix(), abilities)


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


def moments(problem: Problem, items: ItemTensors, theta: Tensor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means and standard deviations of abilities under everybody's posterior, at the nodes that it is at."""
    each = (posterior for _, posterior in posteriors(problem, items, 0))
    parts = [torch.stack([posterior @ theta, posterior @ theta**2]) for posterior in each]
    mean, square = torch.cat(parts, dim=1).cpu().numpy()
    return mean, np.sqrt(np.maximum(square - mean**2, 0.0))


@torch.no_grad()
def block_scores(
    fitted: FactorModel, answers: Answers, block: Block, seed: int, device: torch.device
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Posterior means and standard deviations of a block's abilities, shape (n_respondents, len(block.factors))."""
    own = factor_problem(answers.to(block.items), len(block.factors), block.zero_loadings, seed, device=device)
    items, problem = fitted.tensors(own.problem, block.factors, block.items), own.problem
    if problem.n_factors == 1:
        problem = with_right_nodes(problem, items, problem.counts(items))
    else:
        problem = own.placed(items, room=ROOM).problem
    return moments(problem, items, problem.nodes.theta)
