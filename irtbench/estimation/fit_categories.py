"""Fit items of any models to responses in categories: graded answers, partial credit, answers without an order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first
from irtbench.data.shown import Drawn, counted
from irtbench.estimation.criteria import InformationCriteria
from irtbench.estimation.doubts import find_doubts, named_items, not_identified, outnumbered
from irtbench.estimation.driver import fenced
from irtbench.estimation.estimate import Estimate
from irtbench.estimation.fit import choose_device, with_positive_direction
from irtbench.estimation.fitted import software_versions
from irtbench.estimation.marginal.category_problem import CategoryProblem
from irtbench.estimation.marginal.designed_problem import DesignedProblem, equal_parameters
from irtbench.estimation.marginal.designed_problem import rating_scale as rating_scale_design
from irtbench.estimation.marginal.group_problem import GroupProblem
from irtbench.estimation.marginal.mode import find_mode_on_right_nodes
from irtbench.estimation.marginal.nodes import ROOM, describe_nodes, with_adapted_nodes
from irtbench.estimation.marginal.observed_information import joint_sampling_covariance
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.marginal.shared_scale import NormalMoments
from irtbench.estimation.marginal.start import starting_values
from irtbench.estimation.multiple_groups import (
    BOUND,
    designed_in_groups,
    find_group_mode,
    group_names,
    group_nodes,
    groups_of,
    populations_told,
)
from irtbench.estimation.settings import FEWEST_RESPONDENTS, USUAL_UPPER, Device, FitSettings, asymptote_prior
from irtbench.estimation.status import Status
from irtbench.estimation.threads import threads_for
from irtbench.models.category_parameters import MISSING, CategoryParameters, Levels, coded
from irtbench.models.item_models.item_model import ItemModel
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.item_models.named import MODELS
from irtbench.models.item_models.nominal import Nominal
from irtbench.models.item_models.partial_credit import PartialCredit
from irtbench.models.parameter_table import POPULATION
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.categories import CategoryItems, category_model
from irtbench.models.pyro_model.node_tensors import NodeTensors
from irtbench.models.pyro_model.rows import DenseRows
from irtbench.models.quadrature import Quadrature, normal_grid, normal_population

#: Models whose slopes are 1 and ability N(0, s^2), as in their books: partial credit, rating scale.
RASCH_KINDS = ("pcm", "rsm")
KINDS = (*MODELS, *RASCH_KINDS)

Models = str | ItemModel | Mapping[str, str | ItemModel]


@dataclass(frozen=True, eq=False)
class FittedCategories(InformationCriteria, Drawn):
    """Items of one scale in categories, as they were estimated.

    Parameters
    ----------
    items
        The items, with what can be said of them: probabilities, information, abilities of respondents, ...
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
        Mean and standard deviation of ability where slopes are 1; None for N(0, 1).
    """

    items: CategoryParameters
    log_likelihood: float
    priors: Priors
    n_estimated: int
    n_respondents: int
    n_by_item: NDArray[np.int64]
    nodes: str
    status: Status
    doubts: tuple[str, ...]
    groups: pd.DataFrame | None = None
    seed: int = 0
    moments: NormalMoments | None = None

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
        return None if self.moments is None else normal_population(self.moments.mean, self.moments.sd)

    def table(self) -> pd.DataFrame:
        """One row an item, columns of items.csv, see `CategoryParameters.table`."""
        table = self.items.table().assign(n_responses=self.n_by_item)
        if self.moments is not None:
            table = table.assign(**dict(zip(POPULATION, (self.moments.mean, self.moments.sd), strict=True)))
        return table

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
            **{f"population_{name}": value for name, value in (asdict(self.moments) if self.moments else {}).items()},
            **({} if self.groups is None else {"groups": self.groups.to_dict(orient="records")}),
        }

    def in_short(self) -> str:
        """Items, respondents, and how the iterations ended."""
        return f"{self.items.in_short()}, {counted(self.n_respondents, 'respondent')}, {self.outcome()}"


def fit_categories(
    table: ArrayLike | pd.DataFrame,
    models: Models = "grm",
    *,
    levels: Levels = None,
    common_slope: bool = False,
    rating_scale: bool = False,
    equal: Sequence[Sequence[tuple[str, str]]] = (),
    prior: Literal["none", "weak"] = "none",
    prior_guessing: str | None = None,
    groups: Sequence[str] | None = None,
    reference: str | None = None,
    standard_errors: bool = True,
    tolerance: float = 1e-5,
    max_steps: int = 500,
    n_nodes: int = 61,
    device: Device = "auto",
    seed: int = 0,
) -> FittedCategories:
    """Estimate items whose responses are categories, by marginal maximum likelihood with ability N(0, 1).

    Parameters
    ----------
    table
        Responses, numbers or, with `levels`, labels: a row a respondent and a column an item; NaN or None where
        missing. Every item's categories are the values that it has, in their order.
    models
        ``grm`` (Samejima, 1969), ``gpcm`` (Muraki, 1992), ``nominal`` (Bock, 1972), ``2pl`` or ``3pl`` of two
        categories, or an `ItemModel` of your own; or one for each item by its name. ``pcm`` (Masters, 1982) and ``rsm``
        (Andrich, 1978) are ``gpcm`` with `common_slope` and `rating_scale`, told with slopes of 1 and the standard
        deviation of ability in their place.
    levels
        Labels in their order, the lowest first; None where responses are numbers. Of levels by item all are categories,
        given or not.
    common_slope
        Whether all items have one slope: with ``gpcm`` the partial credit model (Masters, 1982), whose ability in
        logits is this one times the slope. Without a prior, and not with ``nominal``.
    rating_scale
        Whether all items, with ``gpcm`` and as many categories each, have one slope and the same distances between
        steps (Andrich, 1978): d_jk = t_k + k c_j.
    equal
        Sets of parameters that are the same, each an item and the name that the table has:
        ``[[("item1", "a"), ("item2", "a")]]``. Of graded items the slope and the first intercept can be. Without a
        prior, as the other two.
    prior
        ``weak``: a ~ N(1, 1.5), intercepts ~ N(0, 4), but for the distances of a graded item's, and Beta(5, 15) of
        guessing.
    prior_guessing
        A prior of guessing in place of that one: ``normal:MEAN,SD`` of logit c or ``beta:ALPHA,BETA`` of c.
    groups
        The group of each respondent: ability is N(0, 1) in the reference and N(m, s^2) in each other group, the items
        are common to all. None for one group.
    reference
        The group with mean 0 and standard deviation 1; None for the largest.
    standard_errors
        Whether to invert the observed information (Louis, 1982).
    tolerance, max_steps, n_nodes, device, seed
        As in `FitSettings`.

    Raises
    ------
    InputError
        If there are fewer than 10 respondents, one without a response, an item with fewer than two categories or more
        than 100, a 2PL or 3PL of more than two, a response that is none of the levels, guessing without a prior, or
        prior weak and more items than respondents.

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
    codes, respondents, (item_ids, categories) = coded(table, None, None, levels)
    slopes_are_1 = models in RASCH_KINDS if isinstance(models, str) else False
    if slopes_are_1:
        if groups is not None:
            raise InputError(f"fit: {models} goes with one group; expected gpcm with a common slope for several")
        common_slope, rating_scale, models = models == "pcm", models == "rsm", "gpcm"
    each = models_of(models, item_ids)
    check_categories(codes, respondents, item_ids, categories, each)
    labels = None if groups is None else np.asarray(groups, dtype=object)
    names: tuple[str, ...] = () if labels is None else group_names(labels, len(codes), reference)
    if prior == "weak" and codes.shape[1] > codes.shape[0]:
        raise InputError(
            f"fit: {codes.shape[1]} items and {codes.shape[0]} respondents: with more items than respondents prior "
            "weak sets the scale of ability in their place; expected prior none, or more respondents"
        )
    guessed = any(isinstance(model, Logistic) and model.lower for model in each)
    priors = Priors.named(prior, guessing_estimated=guessed)
    if prior_guessing is not None:
        priors = replace(priors, guessing=asymptote_prior("prior_guessing", prior_guessing))
    if any(isinstance(model, Logistic) and model.upper for model in each):
        priors = replace(priors, upper=USUAL_UPPER)
    if guessed and priors.guessing is None:
        raise InputError(
            "fit: guessing without a prior may go to minus infinity; expected prior weak, or prior_guessing"
        )
    sets = equal_sets(each, item_ids, categories, equal, common_slope=common_slope)
    if (sets or rating_scale) and not priors.is_flat:
        raise InputError("fit: a common slope, a rating scale and equal parameters go without a prior")
    if rating_scale and (
        sets or {type(model) for model in each} != {PartialCredit} or len({len(own) for own in categories}) > 1
    ):
        raise InputError("fit: a rating scale is of gpcm items with as many categories each, and nothing else equal")
    with fenced(seed), torch.no_grad(), threads_for(codes.shape[0] * max(codes.shape[1], n_nodes)):
        where = choose_device(device)
        items = CategoryItems(each, [len(own) for own in categories], 1, where)
        model = partial(category_model, items=items, priors=priors)
        nodes = NodeTensors.from_quadrature(normal_grid(n_nodes), dtype=torch.float64, device=where)
        alone = CategoryProblem.of(model, rows_of(codes, items), nodes)
        design = None
        if rating_scale:
            design = rating_scale_design(len(items), items.width, where)
        elif sets:
            design = equal_parameters(items.free, sets)
        found: Estimate
        if labels is not None:
            members = [labels == name for name in names]
            differs = torch.zeros(len(items), (len(names) - 1) * items.width, dtype=torch.bool, device=where)
            at = replace(alone, nodes=group_nodes(BOUND, 12 / (n_nodes - 1), torch.float64, where))
            rows = tuple(rows_of(codes[part], items) for part in members)
            grouped = GroupProblem.of_groups(at, rows, differs)
            start, problem = grouped.group_prior.joined(starting_values(alone)), cast(Problem, grouped)
            if design is not None:
                designed = designed_in_groups(grouped, design)
                problem, start = designed, designed.free_of(start)
            problem, found = find_group_mode(problem, start, FitSettings(tolerance=tolerance, max_steps=max_steps))
        else:
            problem = alone
            if design is not None:
                problem = DesignedProblem.made_of(alone, design)
            start = starting_values(problem)
            problem = with_adapted_nodes(problem, start, room=ROOM)
            problem, found = find_mode_on_right_nodes(problem, start, tolerance=tolerance, max_steps=max_steps)
            found = with_positive_direction(problem, found)
        status, covariance, joint = found.status, None, None
        if standard_errors and status.converged:
            whole, loose = joint_sampling_covariance(problem, found.items)
            joint, first = torch.from_numpy(whole), np.arange(len(items))
            covariance = whole[first, :, first, :][:, -items.width :, -items.width :]
            status = status.unless_loose(loose.tolist())
        steep, undetermined = (tuple(f"item {item_ids[j]}" for j in which) for which in (status.steep, status.loose))
        status = replace(status, steep_items=steep, loose_items=undetermined)
        parameters, of_groups = problem.whole(found.items), None
        doubts: tuple[str, ...] = ()
        if labels is None:
            doubts = find_doubts(problem, found, priors)
        else:
            columns = populations_told(groups_of(problem), parameters, joint, 1.0)
            sizes = [int(part.sum()) for part in members]
            of_groups = pd.DataFrame({"group": names, "n_respondents": sizes})
            of_groups[["mean", "sd", "se_mean", "se_sd"]] = np.stack(columns, axis=1)
        x = parameters.matrix[: len(items), -items.width :]
    found_items = CategoryParameters(item_ids, each, categories, x.cpu().numpy(), own_parameters_of(items, design))
    if covariance is not None and status.converged:
        found_items = replace(found_items, covariance=covariance)
    moments = None
    if slopes_are_1:
        found_items, moments = with_slopes_of_1(found_items)
    elif covariance is not None and status.converged:
        slopes = items.where("slope").cpu().numpy()
        doubts += slopes_not_told(item_ids, found_items.parameters, covariance, slopes)
    if design is None:
        doubts += outnumbered(len(items), len(codes))
    return FittedCategories(
        found_items,
        found.log_likelihood,
        priors,
        int(problem.free.sum()),
        len(codes),
        (codes != MISSING).sum(axis=0),
        describe_nodes(problem.nodes),
        status,
        doubts,
        of_groups,
        seed,
        moments,
    )


def with_slopes_of_1(items: CategoryParameters) -> tuple[CategoryParameters, NormalMoments]:
    """Partial credit items of a common slope and ability N(0, 1) as such of slope 1 and ability N(0, slope^2)."""
    sd, steps, covariance = float(items.steps_at[0, 0]), items.steps_at.copy(), items.covariance
    steps[:, 0], se = 1.0, float("nan")
    if covariance is not None:
        se, covariance = float(np.sqrt(covariance[0, 0, 0])), covariance.copy()
        covariance[:, 0, :] = covariance[:, :, 0] = 0.0
    return replace(items, steps_at=steps, covariance=covariance), NormalMoments(0.0, sd, 0.0, se)


def equal_sets(
    models: Sequence[ItemModel],
    item_ids: Sequence[str],
    categories: Sequence[Sequence[Any]],
    equal: Sequence[Sequence[tuple[str, str]]],
    *,
    common_slope: bool,
) -> list[list[int]]:
    """Places in the flattened parameters that are the same, see `fit_categories`."""
    parameters = [model.parameters(len(own), 1) for model, own in zip(models, categories, strict=True)]
    width, slopes = max(map(len, parameters)), list[int]()
    places: dict[tuple[str, str], int] = {}
    for j, (item, own) in enumerate(zip(item_ids, parameters, strict=True)):
        places |= {(item, name): j * width + k for k, (name, role) in enumerate(own) if role != "gap"}
        slopes += [j * width + k for k, (_, role) in enumerate(own) if role == "slope"]
    if common_slope and any(isinstance(model, Nominal) for model in models):
        raise InputError("fit: a common slope goes with other models than nominal, which has a slope a category")
    if unknown := [(item, name) for pairs in equal for item, name in pairs if (item, name) not in places]:
        example = next(iter(places))
        raise InputError(f"fit: equal: no parameter {unknown[0]} that can be; expected an item and a name as {example}")
    found = [[places[item, name] for item, name in pairs] for pairs in equal]
    found += [slopes] if common_slope else []
    chosen = [place for places_ in found for place in places_]
    if len(set(chosen)) < len(chosen):
        raise InputError("fit: equal: a parameter is in two sets; expected each in one at most")
    return found


def own_parameters_of(items: CategoryItems, design: Tensor | None) -> NDArray[np.int64]:
    """Number of parameters that are an item's own and no other's, shape (n_items,)."""
    if design is None:
        return np.asarray(items.free.sum(dim=1).cpu().numpy())
    touched = (design.view(len(items), items.width, -1) != 0).any(dim=1)  # (n_items, n_free)
    return np.asarray((touched & (touched.sum(dim=0) == 1)).sum(dim=1).cpu().numpy())


def slopes_not_told(
    item_ids: tuple[str, ...], told: NDArray[np.float64], covariance: NDArray[np.float64], slopes: NDArray[np.bool_]
) -> tuple[str, ...]:
    """The items whose slope the responses hardly determine, in the words of `fit`; empty where there are none."""
    values, errors = (
        np.where(slopes, part, 0.0) for part in (told, np.sqrt(np.diagonal(covariance, axis1=1, axis2=2)))
    )
    found = not_identified(item_ids, values, errors, np.zeros(len(item_ids)), np.zeros(len(item_ids)))
    return tuple(f"{words}: {name_first(items)}" for words, items in named_items(found).items())


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


def check_categories(
    codes: NDArray[np.int8],
    respondents: Sequence[str],
    item_ids: Sequence[str],
    categories: Sequence[Sequence[Any]],
    models: Sequence[ItemModel],
) -> None:
    """Refuse responses that do not determine the parameters; see `fit_categories` for the errors."""
    if len(codes) < FEWEST_RESPONDENTS:
        raise InputError(f"fit: {len(codes)} respondents; expected at least {FEWEST_RESPONDENTS}")
    if idle := [respondents[int(i)] for i in np.flatnonzero((codes == MISSING).all(axis=1))]:
        raise InputError(f"fit: no response from respondent {name_first(idle)}; expected at least one each")
    for item, own, model in zip(item_ids, categories, models, strict=True):
        if len(own) < 2:
            raise InputError(f"fit: item {item}: all responses are the same, or none; expected two categories or more")
        if isinstance(model, Logistic) and len(own) != 2:
            raise InputError(f"fit: item {item}: {len(own)} categories; expected two of a {model.name} item, or graded")


def rows_of(codes: NDArray[np.int8], items: CategoryItems) -> DenseRows:
    """The responses on their device."""
    values = torch.from_numpy(codes).to(items.device)
    columns = items.item_of_column, items.category_of_column
    n = (values[:, columns[0]] == columns[1]).sum(dim=0).to(torch.float64)
    return DenseRows(values, n, bool((values != MISSING).all()), categories=columns)
