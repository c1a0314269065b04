"""Fit items of any models to responses in categories: graded answers, partial credit, answers without an order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Unpack

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from irtbench.data.checked_settings import shows_fields
from irtbench.data.input_error import InputError, refuse_any
from irtbench.data.responses import name_first
from irtbench.data.shown import Drawn
from irtbench.data.stored_responses import StoredScores
from irtbench.estimation.anchors import Calibrated, KnownItems
from irtbench.estimation.doubts import find_doubts, named_items, not_identified, outnumbered, shape_of_ability, unlinked
from irtbench.estimation.driver import fenced
from irtbench.estimation.few_respondents.item_grid import check_learnable
from irtbench.estimation.fit import (
    choose_device,
    choose_precision,
    demand_streamed,
    population_of,
    without_slopes,
)
from irtbench.estimation.fitted import FittedItems, software_versions
from irtbench.estimation.marginal.category_problem import CategoryProblem
from irtbench.estimation.marginal.group_problem import GroupProblem, groups_of, problem_of_groups
from irtbench.estimation.marginal.nodes import describe_nodes
from irtbench.estimation.marginal.observed_information import NormalMoments
from irtbench.estimation.marginal.problem import common_slope as one_slope
from irtbench.estimation.marginal.problem import equal_parameters
from irtbench.estimation.marginal.problem import rating_scale as steps_of_rating_scale
from irtbench.estimation.multiple_groups import group_names, group_populations
from irtbench.estimation.scale_fit import ScaleFit, fit_in_groups, fit_scale, with_names
from irtbench.estimation.settings import (
    FEWEST_RESPONDENTS,
    WORDS,
    FitKeywordsOfAnyModel,
    FitSettings,
    ModelKind,
    fit_settings,
)
from irtbench.estimation.threads import threads_for
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.coded_scores import CodedScores, Levels
from irtbench.models.item_models.item_model import ItemModel
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.item_models.named import MODELS
from irtbench.models.item_models.partial_credit import Nominal, PartialCredit
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.categories import CategoryItems, category_model
from irtbench.models.pyro_model.rows import scores_on_device
from irtbench.models.pyro_model.tensors import ItemTensors, NodeTensors
from irtbench.models.quadrature import Quadrature, normal_grid

#: Models whose slopes are 1 and ability N(0, s^2), as in their books: partial credit, rating scale.
RASCH_KINDS = ("pcm", "rsm")
KINDS = (*MODELS, *RASCH_KINDS)

Models = str | ItemModel | Mapping[str, str | ItemModel]
#: Responses in categories in any form that `fit_categories` takes.
ScoresLike = ArrayLike | pd.DataFrame | StoredScores | CodedScores


class NotDetermined(InputError):
    """Responses that do not determine the parameters of a model."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedCategories(FittedItems, Drawn, short="{items.in_short}, {n_respondents:respondent}, {outcome}"):
    """Items of one scale in categories, as they were estimated.

    Parameters
    ----------
    items
        The items, with their methods: probabilities, information, abilities of respondents, ...
    log_likelihood
        Marginal log-likelihood of the responses, ability N(0, 1).
    priors
        Prior densities used.
    n_estimated
        Number of estimated parameters.
    n_respondents, n_by_item
        Size of the data, and responses to each item.
    nodes
        Over which ability was integrated out, in words.
    status
        How the iterations ended.
    doubts
        Why the scale may not be one of ability, and whose slope the responses hardly determine.
    groups
        Of several groups ``group, n_respondents, mean, sd, se_mean, se_sd``, the reference first; None for one.
    seed
        For random numbers, of which none are drawn.
    moments
        Mean and standard deviation of ability where slopes are 1, or with anchors; None for N(0, 1).
    density
        The density of ability, where that was estimated; None for a normal one.
    anchor_error, ability_shape
        As of `FittedModel`.
    """

    items: CategoryParameters
    priors: Priors
    n_estimated: int
    groups: pd.DataFrame | None = None
    density: Quadrature | None = None

    @property
    def _drawn_as(self) -> object:
        return self.items.as_items()

    @property
    def n_parameters(self) -> int:
        """Number of estimated parameters."""
        return self.n_estimated

    @property
    def parameters(self) -> NDArray[np.float64]:
        """As they are read, in the order of the model's names, shape (n_items, width); 0 behind the last of an item."""
        return self.items.parameters

    @property
    def covariance(self) -> NDArray[np.float64] | None:
        """Of each item's parameters as they are read, shape (n_items, width, width); None where not computed."""
        return self.items.covariance

    @property
    def estimated_population(self) -> Quadrature | None:
        """The prior of scoring where ability is not N(0, 1)."""
        return super().estimated_population if self.density is None else self.density

    def table(self) -> pd.DataFrame:
        """One row an item, columns of items.csv, see `CategoryParameters.table`."""
        return self.with_population(self.items.table().assign(n_responses=self.n_by_item))

    def coefficients(self) -> pd.DataFrame:
        """One row a parameter: ``item_id, model, n_categories, parameter, value, standard_error``."""
        return self.items.coefficients()

    def summary(self) -> dict[str, Any]:
        """What fit.json holds."""
        return {
            **self.criteria(),
            "n_items": self.items.n_items,
            "n_responses": int(self.n_by_item.sum()),
            "model": sorted({model.name for model in self.items.models}),
            "prior": self.priors.describe(),
            "quadrature": self.nodes,
            "converged": self.converged,
            "stopped_because": self.stopped_because,
            "steps": self.steps,
            "seed": self.seed,
            "versions": software_versions(),
            "doubts": list(self.doubts),
            "ability_shape": None if self.ability_shape is None else asdict(self.ability_shape),
            **({} if self.anchor_error is None else {"anchor_error": self.anchor_error}),
            **{f"population_{name}": value for name, value in (asdict(self.moments) if self.moments else {}).items()},
            **({} if self.groups is None else {"groups": self.groups.to_dict(orient="records")}),
        }


@shows_fields(FitSettings, words=WORDS, without=("kind",))
def fit_categories(
    table: ScoresLike,
    models: Models = "grm",
    settings: FitSettings | None = None,
    *,
    levels: Levels = None,
    common_slope: bool = False,
    rating_scale: bool = False,
    equal: Sequence[Sequence[tuple[str, str]]] = (),
    anchors: AnchorsInCategories | None = None,
    groups: Sequence[str] | None = None,
    reference: str | None = None,
    start: CategoryParameters | None = None,
    seed: int = 0,
    **keywords: Unpack[FitKeywordsOfAnyModel],
) -> FittedCategories:
    """Estimate items whose responses are categories, by marginal maximum likelihood with ability N(0, 1).

    Parameters
    ----------
    table
        Responses, numbers or, with `levels`, labels: a row a respondent and a column an item, NaN or None where
        missing; or a data frame with columns ``respondent_id, item_id, response`` and a row a response, where few of
        all pairs have one, or several, which count as trials independent given ability; or scores on disk
        (`encode_scores`). Every item's categories are the values that it has, in their order.
    models
        ``grm`` (Samejima, 1969), ``gpcm`` (Muraki, 1992), ``nominal`` (Bock, 1972), ``2pl`` or ``3pl`` of two
        categories, or an `ItemModel` of your own; or one for each item by its name. ``pcm`` (Masters, 1982) and ``rsm``
        (Andrich, 1978) are ``gpcm`` with `common_slope` and `rating_scale`, with slopes of 1 and the standard deviation
        of ability in their place.
    settings
        Prior, population and numerics; None for no prior. Prior ``weak``: a ~ N(1, 1.5), intercepts ~ N(0, 4), but for
        the distances of a graded item's, and Beta(5, 15) of guessing. Prior ``hierarchical``: densities of slope, mean
        step and distances of intercepts learnt from the items themselves, for few respondents; of 2pl, grm and gpcm.
    levels
        Labels in their order, the lowest first; None where responses are numbers. Of levels by item all are categories,
        given or not.
    common_slope
        Whether all items have one slope: with ``gpcm`` the partial credit model (Masters, 1982), whose ability in
        logits is this one times the slope. Without a prior, and not with ``nominal``.
    rating_scale
        Whether all items, with ``gpcm``, have one slope and the same distances between steps (Andrich, 1978): d_jk =
        t_k + k c_j. Each has the categories of all, given or not.
    equal
        Sets of parameters that are the same, each an item and the name that the table has:
        ``[[("item1", "a"), ("item2", "a")]]``. Of graded items the slope and the first intercept can be. Without a
        prior, as the other two.
    anchors
        Items whose parameters are known and stay as they are: another fit, its items, or a scale of a bank. The others
        are estimated on their scale, with the mean and the standard deviation of these respondents. Standard errors
        carry the anchors' own, as if they were from other respondents item by item.
    groups
        The group of each respondent: ability is N(0, 1) in the reference and N(m, s^2) in each other group, the items
        are common to all. None for one group.
    reference
        The group with mean 0 and standard deviation 1; None for the largest.
    start
        Items from which the iterations start; None for a rough estimate from the data.
    seed
        For random numbers, of which none are drawn.
    keywords
        Of the settings: ``prior="weak"``, ``tolerance=1e-6``.

    Raises
    ------
    InputError
        If there are fewer than 10 respondents, one without a response, an item with fewer than two categories or more
        than 100, a 2PL or 3PL of more than two, a response that is none of the levels, guessing without a prior, prior
        weak and more items than respondents, anchors that are none of the items or of other models or categories, or a
        start of other items, models or categories.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> theta, steps = rng.normal(size=400), np.array([-1.0, 0.0, 1.0])
    >>> chance = rng.logistic(size=(400, 5, 1))
    >>> grades = (1.5 * theta[:, None, None] + chance > 1.5 * steps).sum(axis=2)
    >>> fitted = irtbench.fit_categories(grades)
    >>> fitted
    <FittedCategories: 5 items (grm), 400 respondents, log-likelihood -2597.97, converged>
    >>> fitted.table()[["item_id", "model", "discrimination", "step_1", "step_2", "step_3"]].head(2).round(1)
      item_id model  discrimination  step_1  step_2  step_3
    0   item1   grm             1.5    -1.0     0.1     1.1
    1   item2   grm             1.6    -0.9     0.1     1.0
    >>> fitted.coefficients().head(3).round(1)
      item_id model  n_categories parameter  value  standard_error
    0   item1   grm             4         a    1.5             0.2
    1   item1   grm             4        d1    1.6             0.2
    2   item1   grm             4        d2   -0.1             0.1
    """
    scores = scores_of(table, levels)
    slopes_are_1 = isinstance(models, str) and models in RASCH_KINDS
    if slopes_are_1:
        common_slope, rating_scale, models = models == "pcm" and anchors is None, models == "rsm", "gpcm"
    each = models_of(models, scores.item_ids)
    settings = settings_of(each, settings, keywords)
    check_categories(scores, each, None if anchors is not None else settings.priors)
    if isinstance(scores, StoredScores):
        demand_streamed(settings)
    elif rating_scale:
        scores = scores.on_one_scale(levels)
    if start is not None and described(scores, each) != described(start, start.models):
        raise InputError(
            "fit: start is of other items, models or categories than the responses; expected the same in their order"
        )
    anchored = () if anchors is None else items_among(anchors).item_ids
    sets = equal_sets(each, scores.item_ids, scores.categories, equal, common_slope=common_slope, anchored=anchored)
    check_together(scores, each, settings, sets, anchors=anchors, groups=groups, rating_scale=rating_scale)
    labels = None if groups is None else np.asarray(groups, dtype=object)
    names: tuple[str, ...] = () if labels is None else group_names(labels, scores.n_respondents, reference)
    with threads_for(scores.n_respondents * max(scores.n_items, settings.n_nodes)), fenced(seed), torch.no_grad():
        where = choose_device(settings.device)
        items = CategoryItems(each, [len(own) for own in scores.categories], 1, where)
        known, values = known_categories(anchors, scores, items, slopes_are_1=slopes_are_1)
        alone = problem_in_categories(scores, items, settings, values)
        begin = None if start is None else ItemTensors.from_matrix(torch.from_numpy(start.steps_at).to(where))
        design = equal_parameters(alone.free, sets) if sets else None
        if rating_scale:
            design = torch.cat([one_slope(alone.free), steps_of_rating_scale(alone.free)])
        if labels is None:
            fit = fit_scale(alone, settings, start=begin, anchors=known, design=design)
            doubts = find_doubts(fit.problem, fit.found, fit.priors)
        else:
            members = [labels == name for name in names]
            rows = tuple(scores_on_device(scores.select_respondents(part), items.columns, where) for part in members)
            grouped, begin = problem_of_groups(alone, rows, n_nodes=settings.n_nodes, start=begin)
            fit, doubts = fit_in_groups(grouped, begin, settings, design=design), unlinked(grouped)
        found = parameters_of(fit, scores, each, own_parameters_of(alone.free, design))
        if not slopes_are_1:
            doubts += undetermined_slopes(found, items.where("slope") & alone.free)
    if design is None and settings.priors.is_flat:
        of_anchors = 0 if known is None else len(known.places)
        doubts += outnumbered(scores.n_items - of_anchors, scores.n_respondents)
    fitted = categories_of(fit, found, scores, seed, doubts)
    if labels is not None:
        joint = None if fit.errors is None or fit.errors.joint is None else torch.from_numpy(fit.errors.joint)
        unit = float(found.steps_at[0, 0]) if slopes_are_1 else 1.0
        populations = group_populations(groups_of(fit.problem), fit.found.items, joint, unit)
        of_groups = pd.DataFrame({"group": names, "n_respondents": [int(part.sum()) for part in members]})
        of_groups[["mean", "sd", "se_mean", "se_sd"]] = np.stack(populations, axis=1)
        fitted = replace(fitted, groups=of_groups)
    if known is not None:
        fitted = replace(fitted, anchor_error=known.error)
    elif slopes_are_1:
        found, moments = with_slopes_of_1(found)
        fitted = replace(fitted, items=found, moments=moments)
    if settings.population == "estimated":
        fitted = replace(fitted, density=population_of(settings, fitted.moments, fit.problem.nodes))
    return fitted


def parameters_of(
    fit: ScaleFit, scores: CodedScores | StoredScores, models: tuple[ItemModel, ...], own: NDArray[np.int64]
) -> CategoryParameters:
    """The items with their covariance, of which so many parameters are an item's own."""
    width = max(len(model.parameters(len(k), 1)) for model, k in zip(models, scores.categories, strict=True))
    x = fit.found.items.matrix[: len(models), -width:].cpu().numpy()
    covariance = None
    if fit.errors is not None and fit.status.converged:
        covariance = fit.errors.items[: len(models), -width:, -width:]
    return CategoryParameters(scores.item_ids, models, scores.categories, x, own, covariance)


def plain_categories(
    fit: ScaleFit, scores: CodedScores | StoredScores, models: tuple[ItemModel, ...], settings: FitSettings, seed: int
) -> FittedCategories:
    """The model of a scale of one group whose items have parameters of their own alone."""
    problem = fit.problem
    found = parameters_of(fit, scores, models, own_parameters_of(problem.free, None))
    doubts = find_doubts(problem, fit.found, fit.priors)
    doubts += undetermined_slopes(found, problem.scale.where("slope") & problem.free)
    if settings.priors.is_flat:
        doubts += outnumbered(scores.n_items, scores.n_respondents)
    return categories_of(fit, found, scores, seed, doubts)


def categories_of(
    fit: ScaleFit, found: CategoryParameters, scores: CodedScores | StoredScores, seed: int, doubts: tuple[str, ...]
) -> FittedCategories:
    """The model of a scale of one group, with ability N(0, 1) or of the moments that the fit has."""
    return FittedCategories(
        items=found,
        log_likelihood=fit.found.log_likelihood,
        priors=fit.priors,
        n_estimated=fit.n_parameters,
        n_respondents=scores.n_respondents,
        n_by_item=scores.n_by_item,
        nodes=describe_nodes(fit.problem.nodes),
        status=with_names(fit.status, scores),
        doubts=doubts,
        ability_shape=None if isinstance(fit.problem, GroupProblem) else shape_of_ability(fit.problem, fit.found),
        seed=seed,
        moments=fit.moments,
    )


def problem_in_categories(
    scores: CodedScores | StoredScores, items: CategoryItems, settings: FitSettings, known: Tensor | None = None
) -> CategoryProblem:
    """The problem of one group, with what is known of its parameters, see `category_model`."""
    model = partial(category_model, items=items, priors=settings.priors, known=known)
    precision, grid = choose_precision(settings.dtype), normal_grid(settings.n_nodes)
    nodes = NodeTensors.from_quadrature(grid, dtype=precision, device=items.device)
    return CategoryProblem.of(model, scores_on_device(scores, items.columns, items.device), nodes)


def described(
    items: CodedScores | StoredScores | CategoryParameters, models: Sequence[ItemModel]
) -> list[tuple[str, str, int]]:
    """Name, model and number of categories of each item."""
    each = zip(items.item_ids, models, items.categories, strict=True)
    return [(item, model.name, len(own)) for item, model, own in each]


def check_together(
    scores: CodedScores | StoredScores,
    models: Sequence[ItemModel],
    settings: FitSettings,
    sets: Sequence[Sequence[int]],
    *,
    anchors: AnchorsInCategories | None,
    groups: Sequence[str] | None,
    rating_scale: bool,
) -> None:
    """Refuse what does not go together."""
    if settings.prior == "hierarchical":
        check_learnable(models, [len(own) for own in scores.categories])
    designed, one_group = bool(sets) or rating_scale, anchors is None and groups is None
    alike = {type(model) for model in models} == {PartialCredit} and len({len(own) for own in scores.categories}) == 1
    refuse_any((
        (designed and not settings.priors.is_flat,
         "fit: equal parameters, one slope or a rating scale go without a prior"),
        (rating_scale and (bool(sets) or not alike), "fit: a rating scale is of gpcm items with the same categories, "
         "with nothing else equal; expected pcm where items have categories of their own"),
        (anchors is not None and (groups is not None or rating_scale), "fit: anchors go with one group, and not with a "
         "rating scale, whose distances between steps are those of all items"),
        (settings.prior == "hierarchical" and not one_group, "fit: prior hierarchical takes all respondents for one "
         "group, by which it sets the scale; expected prior none or weak with groups or anchors"),
        (settings.population != "normal" and not one_group, "fit: groups and anchors go with a normal population"),
        (settings.optimiser == "adam" and designed, "fit: equal parameters go with optimiser fisher_scoring"),
    ))  # fmt: skip


#: Items in categories whose parameters are known.
AnchorsInCategories = FittedCategories | CategoryParameters | ItemParameters | Calibrated


def items_among(given: AnchorsInCategories) -> CategoryParameters | ItemParameters:
    """The items of anchors in any form."""
    return given if isinstance(given, CategoryParameters | ItemParameters) else given.items


def known_categories(
    given: AnchorsInCategories | None, scores: CodedScores | StoredScores, items: CategoryItems, *, slopes_are_1: bool
) -> tuple[KnownItems | None, Tensor | None]:
    """The anchors among the items of the responses, and what is known on the scales without bounds, NaN elsewhere.

    Shape (n_items, width). Anchors of other models, or with other categories, are an error; None without any.
    """
    if given is None:
        return None, None
    of_items = items_among(given)
    known = of_items.categories if isinstance(of_items, ItemParameters) else of_items
    if known is None:
        raise InputError("fit: the anchors are of right and wrong; expected items in categories, of a fit or a bank")
    place = {item: j for j, item in enumerate(scores.item_ids)}
    names = [item for item in known.item_ids if item in place]
    if not names:
        raise InputError("fit: none of the anchors is among the items of the responses")
    anchors, places = known.select(names), tuple(place[item] for item in names)
    values = torch.full(items.free.shape, torch.nan, dtype=torch.float64)
    if slopes_are_1:
        values[:, 0] = 1.0
    error = np.zeros((len(names), items.width, len(names), items.width))
    for k, (j, own) in enumerate(zip(places, anchors.names, strict=True)):
        kinds = anchors.models[k].name, len(anchors.categories[k])
        if kinds != (items.models[j].name, items.n_categories[j]):
            raise InputError(
                f"fit: anchor {names[k]} is {kinds[0]} of {kinds[1]} categories, but the responses have "
                f"{items.models[j].name} of {items.n_categories[j]}; expected the same, or another name"
            )
        values[j, : len(own)] = torch.from_numpy(anchors.steps_at[k, : len(own)])
        if anchors.covariance is not None:
            error[k, : len(own), k, : len(own)] = np.nan_to_num(anchors.covariance[k, : len(own), : len(own)])
    return KnownItems(anchors.as_items(), places, error if error.any() else None), values.to(items.device)


def settings_of(models: Sequence[ItemModel], settings: FitSettings | None, keywords: Mapping[str, Any]) -> FitSettings:
    """The settings, with the asymptotes that the models have.

    Raises
    ------
    InputError
        If guessing has no prior, or settings are of right and wrong alone.
    """
    given, kind = settings or FitSettings(), kind_of(models)
    words: dict[str, Any] = {"prior": given.prior or "none", **keywords, "kind": kind}
    if kind != "2pl" and words["prior"] == "none" and words.get("prior_guessing", given.prior_guessing) is None:
        raise InputError(
            "fit: guessing without a prior may go to minus infinity; expected prior weak, or prior_guessing"
        )
    found = fit_settings(given, words)
    of_right = {"guessing": 0.0, "by_item": {}, "posterior": None, "prior_items": {}}
    why = "goes with right and wrong; expected none of it with items in categories"
    refuse_any((getattr(found, name) != usual, f"fit: {name} {why}") for name, usual in of_right.items())
    return found


def kind_of(models: Sequence[ItemModel]) -> ModelKind:
    """The model of right and wrong that has the asymptotes of all of these."""
    logistic = [model for model in models if isinstance(model, Logistic)]
    lower, upper = any(model.lower for model in logistic), any(model.upper for model in logistic)
    return "4pl" if upper else "3pl" if lower else "2pl"


def with_slopes_of_1(items: CategoryParameters) -> tuple[CategoryParameters, NormalMoments]:
    """Partial credit items of a common slope and ability N(0, 1) as such of slope 1 and ability N(0, slope^2)."""
    steps, covariance = items.steps_at.copy(), items.covariance
    sd, steps[:, 0] = float(steps[0, 0]), 1.0
    se = float("nan") if covariance is None else float(np.sqrt(covariance[0, 0, 0]))
    return replace(items, steps_at=steps, covariance=without_slopes(covariance)), NormalMoments(0.0, sd, 0.0, se)


def equal_sets(
    models: Sequence[ItemModel],
    item_ids: Sequence[str],
    categories: Sequence[Sequence[Any]],
    equal: Sequence[Sequence[tuple[str, str]]],
    *,
    common_slope: bool,
    anchored: Collection[str],
) -> list[list[int]]:
    """Places in the flattened parameters that are the same, see `fit_categories`."""
    parameters = [model.parameters(len(own), 1) for model, own in zip(models, categories, strict=True)]
    width = max(map(len, parameters))
    places: dict[tuple[str, str], int] = {}
    for j, (item, own) in enumerate(zip(item_ids, parameters, strict=True)):
        places |= {(item, name): j * width + k for k, (name, role) in enumerate(own) if role != "gap"}
    example = next(iter(places))
    refuse_any((
        (common_slope and any(isinstance(model, Nominal) for model in models),
         "fit: a common slope goes with other models than nominal, which has a slope a category"),
        *((pair not in places, f"fit: equal: no parameter {pair} that can be; expected an item and a name as {example}")
          for pairs in equal for pair in pairs),
        *((len({item in anchored for item, _ in pairs}) > 1,
           f"fit: equal: {pairs[0]}, ... are of an anchor and of another item; expected one or the other")
          for pairs in equal if pairs),
    ))  # fmt: skip
    found = [[places[item, name] for item, name in pairs] for pairs in equal]
    found += [[*range(0, len(models) * width, width)]] if common_slope else []
    chosen = [place for places_ in found for place in places_]
    if len(set(chosen)) < len(chosen):
        raise InputError("fit: equal: a parameter is in two sets; expected each in one at most")
    return found


def own_parameters_of(free: Tensor, design: Tensor | None) -> NDArray[np.int64]:
    """Number of parameters that are an item's own and no other's, shape (n_items,)."""
    if design is None:
        return np.asarray(free.sum(dim=1).cpu().numpy())
    touched = design != 0
    of_items, alone = touched.any(dim=2), free & ~touched.any(dim=0)  # of (n_shared, n_items) and as free
    of_one = of_items & (of_items.sum(dim=1, keepdim=True) == 1)
    return np.asarray((alone.sum(dim=1) + of_one.sum(dim=0)).cpu().numpy())


def undetermined_slopes(found: CategoryParameters, where: Tensor) -> tuple[str, ...]:
    """The items whose slope the responses hardly determine, in the words of `fit`; `where` slopes are estimated."""
    if found.covariance is None:
        return ()
    errors, slopes = np.sqrt(np.diagonal(found.covariance, axis1=1, axis2=2)), where.cpu().numpy()
    values, own = (np.where(slopes, of, 0.0) for of in (found.parameters, errors))
    each = not_identified(found.item_ids, values, own, np.zeros(len(own)), np.zeros(len(own)))
    return tuple(f"{words}: {name_first(items)}" for words, items in named_items(each).items())


def models_of(models: Models, item_ids: Sequence[str]) -> tuple[ItemModel, ...]:
    """The model of each item."""

    def one(given: str | ItemModel) -> ItemModel:
        if isinstance(given, ItemModel):
            return given
        if given not in MODELS:
            raise InputError(f"models: {given!r} is none; expected one of {', '.join(KINDS)}, or an ItemModel")
        return MODELS[given]

    if not isinstance(models, Mapping):
        return (one(models),) * len(item_ids)
    if lacking := [item for item in item_ids if item not in models]:
        raise InputError(f"models: none for item {name_first(lacking)}; expected one for each item")
    return tuple(one(models[item]) for item in item_ids)


def scores_of(table: ScoresLike, levels: Levels = None) -> CodedScores | StoredScores:
    """Responses in categories, in memory or on disk."""
    if isinstance(table, StoredScores) and levels is not None:
        raise InputError("fit: scores on disk have their levels; expected levels of encode_scores")
    return table if isinstance(table, StoredScores) else CodedScores.of(table, levels=levels)


def check_categories(
    scores: CodedScores | StoredScores, models: Sequence[ItemModel], priors: Priors | None = None
) -> None:
    """Refuse responses that do not determine the parameters under these priors; see `fit_categories` for the errors."""
    n, n_items, idle = scores.n_respondents, scores.n_items, scores.names_at(scores.unanswered)
    items = list(zip(scores.item_ids, map(len, scores.categories), models, strict=True))
    refuse_any((
        (n < FEWEST_RESPONDENTS, f"fit: {n} respondents; expected at least {FEWEST_RESPONDENTS}"),
        (idle, f"fit: no response from respondent {name_first(idle)}; expected at least one each"),
        *((k != 2 and (k < 2 or isinstance(model, Logistic)),
           f"fit: item {item}: all responses are the same, or none; expected two categories or more" if k < 2
           else f"fit: item {item}: {k} categories; expected two of a {model.name} item, or graded")
          for item, k, model in items),
        (priors is not None and priors.slope is not None and n_items > n,
         f"fit: {n_items} items and {n} respondents: with more items than respondents "
         "prior weak sets the scale of ability in their place; expected prior none, or more respondents"),
    ), NotDetermined)  # fmt: skip
