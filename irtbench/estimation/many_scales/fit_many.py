"""Fit many scales at once: every task of a benchmark, every sample of a bootstrap."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    FittedCategories,
    Models,
    NotDetermined,
    ScoresLike,
    fit_categories,
    scores_of,
)
from irtbench.estimation.fitted import FittedModel
from irtbench.estimation.many_scales.judged_scales import JudgedScales
from irtbench.estimation.many_scales.stack import Stack, StackProblem, find_modes, groups_of
from irtbench.estimation.marginal.nodes import is_usual_grid
from irtbench.estimation.marginal.observed_information import MOST_COUPLED_ITEMS
from irtbench.estimation.settings import WORDS, FitKeywords, FitSettings, fit_settings
from irtbench.estimation.threads import in_threads
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.coded_scores import Levels
from irtbench.models.item_parameters import ItemParameters
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
    with the others: so their status is that of a single fit. Items in categories are fitted one by one too, by
    `fit_categories`: it takes as long as calling that.

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
    named = list(zip(names, scales.values() if isinstance(scales, Mapping) else scales, strict=True))
    if models is not None:
        each = [_fit_scores(name, one, models, settings, start=start, seed=seed, **keywords) for name, one in named]
        some, why = (tuple(part) for part in zip(*each, strict=True)) if each else ((), ())
        return FittedScales(names, some, why, time.perf_counter() - began)
    settings = fit_settings(settings, keywords)
    given = [as_responses(one, name=f"scale {name}") for name, one in named]
    if start is not None and any(one.item_ids != start.item_ids for one in given):
        other = [name for name, one in zip(names, given, strict=True) if one.item_ids != start.item_ids]
        raise InputError(f"fit: start is of other items than scale {name_first(other)}; expected the same in all")
    fits: list[FittedModel | None] = [None] * len(given)
    reasons = [_not_estimable(one, settings) for one in given]
    left = [k for k, reason in enumerate(reasons) if not reason]
    if takes_steps_together(settings):
        small = [k for k in left if is_small(given[k], settings)]
        device = choose_device(settings.device)
        groups = groups_of([given[k] for k in small], settings.n_nodes, device)
        groups = [[small[k] for k in group] for group in groups if len(group) >= FEWEST_TOGETHER]
        parts, n_threads = [[given[k] for k in group] for group in groups], torch.get_num_threads()
        together = in_threads(
            lambda part: fit_group(part, settings, start, seed), parts, n_threads if device.type == "cpu" else 1
        )
        for group, found in zip(groups, together, strict=True):
            for k, fitted in zip(group, found, strict=True):
                fits[k] = fitted
    alone = [k for k in left if fits[k] is None]
    for k in alone:
        fits[k] = fit_model(given[k], settings, seed=seed, start=start)
    logger.info("fit: %d scales, %d of them alone", len(given), len(alone))
    return FittedScales(names, tuple(fits), tuple(reasons), time.perf_counter() - began)


def _fit_scores(
    name: str,
    table: ScoresLike,
    models: Models,
    settings: FitSettings | None,
    *,
    start: CategoryParameters | None,
    levels: Levels = None,
    **words: Any,
) -> tuple[FittedCategories | None, str]:
    """The fit of a scale of items in categories, or why there is none."""
    try:
        scores = scores_of(table, levels)
    except InputError as error:
        raise InputError(f"scale {name}: {error}") from None
    if start is not None and start.item_ids != scores.item_ids:
        raise InputError(f"fit: start is of other items than scale {name}; expected the same in all")
    try:
        return fit_categories(scores, models, settings, start=start, **words), ""
    except NotDetermined as error:
        return None, str(error)


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
) -> list[FittedModel | None]:
    """Fit scales that take their steps together; None for those that are to be fitted alone."""
    began = time.perf_counter()
    grid, device = normal_grid(settings.n_nodes), choose_device(settings.device)
    nodes = NodeTensors.from_quadrature(grid, dtype=torch.float64, device=device)
    with torch.no_grad():
        stack = Stack.of(scales, device)
        problem = StackProblem.of_stack(stack, nodes, settings, guessing_of(scales, settings, stack))
        first = problem.start()
        if start is not None:
            first = ItemTensors.from_matrix(problem.from_public(start).matrix.repeat(len(scales), 1))
        items, modes = find_modes(problem, first, tolerance=settings.tolerance, max_steps=settings.max_steps)
        at = [k for k, found in enumerate(modes) if found is not None]
        if not at:
            return [None] * len(scales)
        if len(at) < len(scales):
            matrix = problem.by_scale(items.matrix)[at].flatten(0, 1)
            problem, items = problem.of_scales(torch.tensor(at, device=device)), ItemTensors.from_matrix(matrix)
        found = [mode for mode in modes if mode is not None]
        judged = JudgedScales(problem, items, found, [scales[k] for k in at], settings)
        models = dict(zip(at, judged.models(seed, (time.perf_counter() - began) / len(scales)), strict=True))
        return [models.get(k) for k in range(len(scales))]


def guessing_of(scales: Sequence[ResponseMatrix], settings: FitSettings, stack: Stack) -> tuple[Tensor, Tensor]:
    """Where guessing of the items is estimated, and what it is elsewhere, shape (n_scales, width) each."""
    free, fixed = torch.zeros_like(stack.items, dtype=torch.bool), torch.zeros_like(stack.items)
    for k, scale in enumerate(scales):
        own = settings.guessing_of(scale.item_ids)
        free[k, : scale.n_items], fixed[k, : scale.n_items] = (torch.from_numpy(part).to(free.device) for part in own)
    return free, fixed
