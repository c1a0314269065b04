"""Fit many scales at once: every task of a benchmark, every sample of a bootstrap."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, Unpack, overload

import pandas as pd
import torch
from torch import Tensor

from irtbench.data.checked_settings import shows_fields
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix, name_first, numbered
from irtbench.data.shown import Shown, counted
from irtbench.estimation.fit import (
    check_estimable,
    choose_device,
    fit_model,
)
from irtbench.estimation.fit_categories import (
    RASCH_KINDS,
    FittedCategories,
    Models,
    NotDetermined,
    ScoresLike,
    check_categories,
    described,
    fit_categories,
    models_of,
    plain_categories,
    scores_of,
    settings_of,
)
from irtbench.estimation.fitted import FittedModel
from irtbench.estimation.many_scales.category_stack import CategoryStack
from irtbench.estimation.many_scales.judged_scales import JudgedScales
from irtbench.estimation.many_scales.stack import Stack, StackProblem, find_modes, groups_of
from irtbench.estimation.marginal.nodes import is_usual_grid, with_right_nodes
from irtbench.estimation.marginal.observed_information import MOST_COUPLED_ITEMS
from irtbench.estimation.marginal.problem import Estimate, Problem
from irtbench.estimation.scale_fit import ScaleFit, judged, with_positive_direction
from irtbench.estimation.settings import WORDS, FitKeywords, FitSettings, fit_settings
from irtbench.estimation.threads import in_threads
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.coded_scores import CodedScores, Levels
from irtbench.models.item_models.item_model import ItemModel
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.pyro_model.categories import CategoryItems
from irtbench.models.pyro_model.tensors import ItemTensors, NodeTensors
from irtbench.models.quadrature import normal_grid

logger = logging.getLogger(__name__)

MOST_CELLS = 2**21  # respondents x (nodes or items) of a scale; with more a fit is mostly arithmetic, alone or not
FEWEST_TOGETHER = 3


Fitted = TypeVar("Fitted", FittedModel, FittedCategories)


@dataclass(frozen=True, eq=False)
class FittedScales(Shown, Generic[Fitted]):
    """Models of scales that were fitted together, in the order in which the scales were given.

    Parameters
    ----------
    names
        Of the scales.
    fits
        The model of each; None where its responses do not determine one.
    reasons
        Why there is none; empty where there is one.
    seconds
        That all of them took.
    """

    names: tuple[str, ...]
    fits: tuple[Fitted | None, ...]
    reasons: tuple[str, ...]
    seconds: float

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, name: str) -> Fitted:
        """The model of a scale.

        Raises
        ------
        InputError
            If there is no such scale, or its responses do not determine one.
        """
        if name not in self.names:
            raise InputError(f"fitted scales: no scale {name}; expected one of {name_first(self.names)}")
        place = self.names.index(name)
        if (fitted := self.fits[place]) is None:
            raise InputError(f"scale {name}: {self.reasons[place]}")
        return fitted

    @property
    def not_converged(self) -> tuple[str, ...]:
        """Names of the scales without estimates to be used: not fitted, or not converged."""
        return tuple(
            name for name, fitted in zip(self.names, self.fits, strict=True) if fitted is None or not fitted.converged
        )

    def table(self) -> pd.DataFrame:
        """One row a scale: its size, log-likelihood, whether it converged, and why the iterations ended."""
        rows = [
            {
                "scale": name,
                "n_items": None if fitted is None else fitted.items.n_items,
                "n_respondents": None if fitted is None else fitted.n_respondents,
                "log_likelihood": None if fitted is None else fitted.log_likelihood,
                "converged": fitted is not None and fitted.converged,
                "stopped_because": reason if fitted is None else fitted.stopped_because,
            }
            for name, fitted, reason in zip(self.names, self.fits, self.reasons, strict=True)
        ]
        table = pd.DataFrame(rows, columns=list(rows[0]) if rows else ["scale"])
        whole = {name: "Int64" for name in ("n_items", "n_respondents") if name in table}
        return table.astype(whole)

    def items_table(self) -> pd.DataFrame:
        """The items of all scales that have a model, columns of items.csv with the scale's name first."""
        parts = [
            fitted.table().assign(scale=name)
            for name, fitted in zip(self.names, self.fits, strict=True)
            if fitted is not None
        ]
        if not parts:
            return pd.DataFrame({"scale": []})
        table: pd.DataFrame = pd.concat(parts, ignore_index=True)
        return table[["scale", *(column for column in table if column != "scale")]]

    def in_short(self) -> str:
        """How many converged, and how many did not or have no model."""
        none = sum(fitted is None for fitted in self.fits)
        open_end = len(self.not_converged) - none
        parts = [counted(len(self), "scale"), f"{len(self) - none - open_end} converged"]
        parts += [f"{open_end} NOT CONVERGED"] if open_end else []
        parts += [f"{none} not fitted"] if none else []
        return ", ".join(parts)


@overload
def fit_many(
    scales: Mapping[str, ResponsesLike] | Sequence[ResponsesLike],
    settings: FitSettings | None = ...,
    *,
    models: None = ...,
    start: ItemParameters | None = ...,
    seed: int = ...,
    **keywords: Unpack[FitKeywords],
) -> FittedScales[FittedModel]: ...


@overload
def fit_many(
    scales: Mapping[str, ScoresLike] | Sequence[ScoresLike],
    settings: FitSettings | None = ...,
    *,
    models: Models,
    start: CategoryParameters | None = ...,
    seed: int = ...,
    **keywords: Unpack[FitKeywords],
) -> FittedScales[FittedCategories]: ...


@shows_fields(FitSettings, words=WORDS)
def fit_many(
    scales: Mapping[str, Any] | Sequence[Any],
    settings: FitSettings | None = None,
    *,
    models: Models | None = None,
    start: Any = None,
    seed: int = 0,
    **keywords: Unpack[FitKeywords],
) -> FittedScales[Any]:
    """Estimate the parameters of the items of many scales, each with respondents of its own.

    Every scale has the estimates that `fit_model` gives it, up to the tolerance of both, and has converged by the same
    criterion. Scales of up to some 30,000 respondents take their steps together, which is several times quicker where
    they are small. Fitted one by one, by `fit_model` itself, are those with guessing estimated without a prior, or of
    items with one slope, with a prior learnt from the items, or of single items, an estimated population, or a
    posterior; with trials or very steep or many items (which need nodes of their own), and those that do not converge
    with the others: so their status is that of a single fit. Items in categories go together too, whatever their
    models, but for `pcm`, `rsm`, parameters that are equal, anchors, groups, and long tables.

    Parameters
    ----------
    scales
        Graded responses to each scale (`as_responses`), by name or in order (then named ``scale1 ...``). Their sizes
        may differ, and responses be missing. With ``models`` scores, as for `fit_categories`.
    settings
        Model, prior and numerics, as for `fit_model`.
    models
        Of items in categories, as for `fit_categories`, ``grm`` or one for each item; None for right and wrong.
    start
        Parameters from which all start, where all have the same items, as samples of a bootstrap do.
    seed
        As for `fit_model`.
    keywords
        Of the settings, see `fit_model`; with ``models`` all that `fit_categories` takes.

    Raises
    ------
    InputError
        If a scale is no matrix of responses, or ``start`` is of other items. Responses that do not determine a model
        (an item that everybody got right) are no error here: the scale has none, and the result says why.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> tasks = {name: irtbench.simulate_responses(rng.normal(size=300), items, rng=rng) for name in ("sums", "words")}
    >>> tasks["easy"] = np.ones((300, 6))
    >>> fitted = irtbench.fit_many(tasks, standard_errors=False)
    >>> fitted
    <FittedScales: 3 scales, 2 converged, 1 not fitted>
    >>> fitted["sums"]
    <FittedModel: 6 items (2pl), 300 respondents, log-likelihood -930.74, converged>
    >>> fitted.table()[["scale", "n_items", "converged"]]
       scale  n_items  converged
    0   sums        6       True
    1  words        6       True
    2   easy     <NA>      False
    """
    began = time.perf_counter()
    names = tuple(scales) if isinstance(scales, Mapping) else numbered("scale", len(scales))
    tables = list(scales.values() if isinstance(scales, Mapping) else scales)
    fits: tuple[Any, ...]
    if models is None:
        fits, reasons = _of_right_and_wrong(names, tables, fit_settings(settings, keywords), start, seed)
    else:
        fits, reasons = _in_categories(names, tables, models, settings, start, seed, **keywords)
    return FittedScales(names, fits, reasons, time.perf_counter() - began)


def _of_right_and_wrong(
    names: Sequence[str],
    tables: Sequence[ResponsesLike],
    settings: FitSettings,
    start: ItemParameters | None,
    seed: int,
) -> tuple[tuple[FittedModel | None, ...], tuple[str, ...]]:
    """The fits, and why there are none."""
    given = [as_responses(one, name=f"scale {name}") for name, one in zip(names, tables, strict=True)]
    _demand_same(names, [start is None or one.item_ids == start.item_ids for one in given])
    reasons = tuple(_not_estimable(one, settings) for one in given)
    left = [k for k, reason in enumerate(reasons) if not reason]
    small = [k for k in left if is_small(given[k], settings)] if takes_steps_together(settings) else []
    fits = _fitted(
        left, {k: ((given[k].is_complete,), *given[k].correct.shape) for k in small}, settings,
        together=lambda group: fit_group([given[k] for k in group], settings, start, seed),
        alone=lambda k: fit_model(given[k], settings, seed=seed, start=start),
    )  # fmt: skip
    return tuple(fits.get(k) for k in range(len(given))), reasons


def _in_categories(
    names: Sequence[str],
    tables: Sequence[ScoresLike],
    models: Models,
    settings: FitSettings | None,
    start: CategoryParameters | None,
    seed: int,
    levels: Levels = None,
    **words: Any,
) -> tuple[tuple[FittedCategories | None, ...], tuple[str, ...]]:
    """The same of items in categories."""
    given = []
    for name, table in zip(names, tables, strict=True):
        try:
            given.append(scores_of(table, levels))
        except InputError as error:
            raise InputError(f"scale {name}: {error}") from None
    _demand_same(names, [start is None or one.item_ids == start.item_ids for one in given])
    coded = {k: one for k, one in enumerate(given) if isinstance(one, CodedScores)}
    kinds = {k: kind for k, one in coded.items() if (kind := plain_kind(one, models, settings, start, words))}
    first, reasons = next(iter(kinds), None), [""] * len(given)

    def alone(k: int) -> FittedCategories | None:
        try:
            return fit_categories(given[k], models, settings, start=start, seed=seed, **words)
        except NotDetermined as error:
            reasons[k] = str(error)
            return None

    fits = _fitted(
        range(len(given)),
        {k: ((own.kind, coded[k].is_complete), *size_of(coded[k])) for k, (_, own) in kinds.items()},
        FitSettings() if first is None else kinds[first][1],
        together=lambda group: fit_group_in_categories(
            [coded[k] for k in group], [kinds[k][0] for k in group], kinds[group[0]][1], start, seed
        ),
        alone=alone,
    )
    return tuple(fits[k] for k in range(len(given))), tuple(reasons)


def plain_kind(
    scores: CodedScores,
    models: Models,
    settings: FitSettings | None,
    start: CategoryParameters | None,
    words: Mapping[str, Any],
) -> tuple[tuple[ItemModel, ...], FitSettings] | None:
    """Models and settings of a scale whose steps can be taken with others'; None where it is to be fitted alone."""
    rasch = isinstance(models, str) and models in RASCH_KINDS
    if rasch or words.keys() - FitKeywords.__annotations__.keys():
        return None
    each = models_of(models, scores.item_ids)
    own = settings_of(each, settings, words)
    try:
        check_categories(scores, each, own.priors)
    except NotDetermined:
        return None
    n_respondents, n_columns = size_of(scores)
    few = (
        n_respondents * max(n_columns, own.n_nodes) <= MOST_CELLS
        and scores.n_items <= MOST_COUPLED_ITEMS
        and scores.places is None
    )
    same = start is None or described(scores, each) == described(start, start.models)
    return (each, own) if few and same and takes_steps_together(own) else None


def size_of(scores: CodedScores) -> tuple[int, int]:
    """Numbers of respondents, and of categories but the first of all items."""
    return scores.n_respondents, sum(map(len, scores.categories)) - scores.n_items


def _demand_same(names: Sequence[str], same: Sequence[bool]) -> None:
    """Refuse a start of other items."""
    if other := [name for name, own in zip(names, same, strict=True) if not own]:
        raise InputError(f"fit: start is of other items than scale {name_first(other)}; expected the same in all")


def _fitted(
    left: Sequence[int],
    sizes: Mapping[int, tuple[tuple[object, ...], int, int]],
    settings: FitSettings,
    *,
    together: Callable[[list[int]], Mapping[int, Fitted | None]],
    alone: Callable[[int], Fitted | None],
) -> dict[int, Fitted | None]:
    """The fits of scales: of groups of those that have a size, and of each that none was found of so, alone."""
    fits: dict[int, Fitted | None] = {}
    device = choose_device(settings.device)
    small = list(sizes)
    groups = groups_of([sizes[k] for k in small], settings.n_nodes, device)
    parts = [[small[k] for k in group] for group in groups if len(group) >= FEWEST_TOGETHER]
    n_threads = torch.get_num_threads() if device.type == "cpu" else 1
    for part, found in zip(parts, in_threads(together, parts, n_threads), strict=True):
        fits |= {part[k]: fitted for k, fitted in found.items() if fitted is not None}
    rest = [k for k in left if k not in fits]
    logger.info("fit: %d scales, %d of them alone", len(left), len(rest))
    return fits | {k: alone(k) for k in rest}


def _not_estimable(responses: ResponseMatrix, settings: FitSettings) -> str:
    """Why these responses do not determine the parameters; empty where they do."""
    try:
        check_estimable(responses, settings.priors, common_slope=settings.has_common_slope)
    except InputError as error:
        return str(error)
    return ""


def takes_steps_together(settings: FitSettings) -> bool:
    """Whether these settings are those of a model on the usual grid, with priors that are each item's own.

    Guessing has a prior where it is estimated, and does not go with one slope for all items.
    """
    if settings.has_common_slope and (settings.by_item or settings.guessing > 0):
        return False
    plain = not settings.prior_items and not (settings.estimates_guessing and settings.priors.guessing is None)
    usual = settings.population == "normal" and settings.optimiser == "fisher_scoring" and settings.posterior is None
    grid = NodeTensors.from_quadrature(normal_grid(settings.n_nodes), dtype=torch.float64, device=torch.device("cpu"))
    wanted = settings.priors.hierarchy is None and settings.dtype == "float64"
    return plain and usual and wanted and is_usual_grid(grid)


def is_small(responses: ResponseMatrix, settings: FitSettings) -> bool:
    """Whether a scale is one that gains by being fitted with others."""
    n_cells = responses.n_respondents * max(responses.n_items, settings.n_nodes)
    # with a prior and more items than respondents abilities are estimated too
    few_items = responses.n_items <= min(responses.n_respondents, MOST_COUPLED_ITEMS)
    return responses.trials is None and n_cells <= MOST_CELLS and few_items


def fit_group(
    scales: Sequence[ResponseMatrix], settings: FitSettings, start: ItemParameters | None, seed: int
) -> dict[int, FittedModel | None]:
    """Fit scales that take their steps together, by their positions; none or None where one is to be fitted alone."""
    began = time.perf_counter()
    grid, device = normal_grid(settings.n_nodes), choose_device(settings.device)
    nodes = NodeTensors.from_quadrature(grid, dtype=torch.float64, device=device)
    with torch.no_grad():
        stack = Stack.of(scales, device)
        problem = StackProblem.of_stack(stack, nodes, settings, guessing_of(scales, settings, stack))
        first = problem.starting_values()
        if start is not None:
            first = ItemTensors.from_matrix(problem.from_public(start).matrix.repeat(len(scales), 1))
        judged, items, found = find_modes(problem, first, tolerance=settings.tolerance, max_steps=settings.max_steps)
        if not found:
            return {}
        scales_found = JudgedScales(judged, items, [*found.values()], [scales[k] for k in found], settings)
        return dict(zip(found, scales_found.models(seed, (time.perf_counter() - began) / len(scales)), strict=True))


def fit_group_in_categories(
    scales: Sequence[CodedScores],
    models: Sequence[tuple[ItemModel, ...]],
    settings: FitSettings,
    start: CategoryParameters | None,
    seed: int,
) -> dict[int, FittedCategories]:
    """The same of items in categories."""
    where = choose_device(settings.device)
    nodes = NodeTensors.from_quadrature(normal_grid(settings.n_nodes), dtype=torch.float64, device=where)
    with torch.no_grad():
        kinds = [(own, tuple(map(len, scale.categories))) for own, scale in zip(models, scales, strict=True)]
        items_of = {kind: CategoryItems(*kind, 1, where) for kind in dict.fromkeys(kinds)}
        problem = CategoryStack.of_scores(scales, [items_of[kind] for kind in kinds], nodes, settings.priors)
        first = problem.starting_values()
        if start is not None:
            first = ItemTensors.from_matrix(torch.from_numpy(start.steps_at).to(where).repeat(len(scales), 1))
        problem, items, found = find_modes(problem, first, tolerance=settings.tolerance, max_steps=settings.max_steps)
        each = [problem.of_scale(place, scales[k]) for place, k in enumerate(found)]
        if settings.standard_errors and found:
            known = problem.inverses(items, each)
            each = [replace(own, inverse=inverse) for own, inverse in zip(each, known, strict=True)]
        return {
            k: plain_categories(fit, scales[k], models[k], settings, seed)
            for own, k in zip(each, found, strict=True)
            if (fit := judged_alone(own, found[k], settings)) is not None
        }


def guessing_of(scales: Sequence[ResponseMatrix], settings: FitSettings, stack: Stack) -> tuple[Tensor, Tensor]:
    """Where guessing of the items is estimated, and what it is elsewhere, shape (n_scales, width) each."""
    free, fixed = torch.zeros_like(stack.items, dtype=torch.bool), torch.zeros_like(stack.items)
    for k, scale in enumerate(scales):
        own = settings.guessing_of(scale.item_ids)
        free[k, : scale.n_items], fixed[k, : scale.n_items] = (torch.from_numpy(part).to(free.device) for part in own)
    return free, fixed


def judged_alone(problem: Problem, found: Estimate, settings: FitSettings) -> ScaleFit | None:
    """What is known of a scale with this maximum; None where nodes are not right, theta is turned, or it is none."""
    if with_right_nodes(problem, found.items, found.counts) is not problem:
        return None
    if with_positive_direction(problem, found) is not found:
        return None
    fit = judged(problem, found, settings, settings.priors)
    return fit if fit.status.converged else None
