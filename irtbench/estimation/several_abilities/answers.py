"""Responses to items of a model each, right or wrong or in categories, with several abilities behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, Union

import numpy as np
import torch
from numpy.typing import NDArray

from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError, refuse_any
from irtbench.data.readers.long_table import LongTable
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.estimation.fit import check_estimable
from irtbench.estimation.fit_categories import Models, ScoresLike, check_categories, kind_of, models_of
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.settings import FitSettings
from irtbench.models.coded_scores import CodedScores, Levels
from irtbench.models.item_models.item_model import ItemModel
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.item_models.named import MODELS
from irtbench.models.item_models.partial_credit import Nominal
from irtbench.models.priors import FLAT, Priors
from irtbench.models.pyro_model.categories import CategoryItems
from irtbench.models.pyro_model.rows import ResponseRows, encode_responses, scores_on_device
from irtbench.models.pyro_model.tensors import equal_parameters, rating_scale_design

RIGHT_OR_WRONG = (0, 1)
SEVERAL = tuple(name for name in MODELS if name != "nominal")  # models that go with several abilities
#: Models of one slope on each ability: those whose slopes are made equal.
ONE_SLOPE = {"rasch": "2pl", "1pl": "2pl", "pcm": "gpcm", "rsm": "gpcm"}
#: Responses, right or wrong or in categories, in any form that `fit_factors` takes.
ResponsesOrScores = Union[ResponsesLike, ScoresLike, "Answers"]

AnyProblem = TypeVar("AnyProblem", bound=Problem)


@dataclass(frozen=True, eq=False)
class Answers:
    """Responses, right or wrong or in categories, and the models of their items.

    `one_slope` is whether all items have one slope on each ability, and `rating_scale` whether they also have the same
    distances between steps; `priors` are those of asymptotes.
    """

    given: ResponseMatrix | CodedScores
    models: tuple[ItemModel, ...]
    one_slope: bool = False
    rating_scale: bool = False
    priors: Priors = FLAT

    @classmethod
    def of(
        cls, responses: ResponsesOrScores, models: Models, levels: Levels = None, prior_guessing: str | None = None
    ) -> Answers:
        """Responses that determine the parameters of these models, see `fit_factors` for the errors."""
        if isinstance(responses, Answers):
            return responses
        one_slope, rating_scale = isinstance(models, str) and models in ONE_SLOPE, models == "rsm"
        models = ONE_SLOPE.get(models, models) if isinstance(models, str) else models
        if models == "2pl" and levels is None and not isinstance(responses, CodedScores):
            matrix, priors = as_responses(responses), priors_of([Logistic()], prior_guessing)
            check_estimable(matrix, priors)
            return cls(matrix, (Logistic(),) * matrix.n_items, one_slope)
        several = name_first(SEVERAL)
        if isinstance(models, str) and models not in SEVERAL:
            raise InputError(f"models: {models} is of one ability; expected {several}")
        scores = coded(responses, levels=levels)
        each = models_of(models, scores.item_ids)
        refuse_any(
            (isinstance(own, Nominal), f"models: item {item}: {own.name} is of one ability; expected {several}")
            for item, own in zip(scores.item_ids, each, strict=True)
        )
        check_categories(scores, each)
        scores = scores.on_one_scale(levels) if rating_scale else scores
        if rating_scale and len({len(own) for own in scores.categories}) > 1:
            raise InputError("models: rsm is of items with the same categories; expected pcm")
        return cls(scores, each, one_slope, rating_scale, priors_of(each, prior_guessing))

    @property
    def linear(self) -> bool:
        """Whether all items are right or wrong without asymptotes, so that log odds are linear in ability."""
        return not self.given.in_categories

    @property
    def described(self) -> dict[str, Any]:
        """What a fitted model says of its items and responses."""
        given, right = self.given, self.given.n_correct_by_item if self.linear else None
        of_right = {"n_correct_by_item": right, "log_binomial_coefficients": given.log_coefficients()}
        of_both = {name: getattr(given, name) for name in ("item_ids", "categories", "n_respondents", "n_by_item")}
        own = {name: getattr(self, name) for name in ("models", "one_slope", "rating_scale", "priors")}
        return {**of_both, **of_right, **own}

    def to(self, items: NDArray[np.intp], *, answered: bool = False) -> Answers:
        """Those to some of the items, of everybody or of those who answered any."""
        given = self.given.select_items([self.given.item_ids[j] for j in items])
        if answered:
            given = given.select_respondents(given.n_by_respondent > 0)
        return replace(self, given=given, models=tuple(self.models[j] for j in items))

    def designed(self, problem: AnyProblem, scale: CategoryItems, slopes: Sequence[Sequence[int]]) -> AnyProblem:
        """The problem with these sets of slopes, places in the flattened parameters, each of which is one."""
        if not self.rating_scale:
            return problem.with_shared(equal_parameters(problem.free, slopes)) if slopes else problem
        n, behind = scale.n_abilities, rating_scale_design(len(scale), scale.n_categories[0], scale.device)
        of_slopes = problem.free.clone()
        of_slopes[:, n:] = False
        steps = behind[1:, :, 1:]  # as of one ability, without its slope
        steps = torch.nn.functional.pad(steps, (n, problem.free.shape[1] - n - steps.shape[2]))
        return problem.with_shared(torch.cat([equal_parameters(of_slopes, slopes), steps]))

    def scale(self, n_abilities: int, device: torch.device) -> CategoryItems:
        """The items on a device."""
        return CategoryItems(self.models, [len(own) for own in self.given.categories], n_abilities, device)

    def rows(self, scale: CategoryItems) -> ResponseRows:
        """The responses on the device of the items."""
        if isinstance(self.given, CodedScores):
            return scores_on_device(self.given, scale.columns, scale.device)
        return encode_responses(self.given, scale.device)


def priors_of(models: Sequence[ItemModel], guessing: str | None) -> Priors:
    """The priors of the asymptotes that the models have, as `FitSettings` has them; slopes and intercepts have none."""
    usual = FitSettings(kind=kind_of(models), prior_guessing=guessing).priors
    return Priors("none", guessing=usual.guessing, upper=usual.upper)


def coded(
    responses: ResponsesLike | ScoresLike,
    item_ids: Sequence[str] | None = None,
    categories: Sequence[Sequence[Any]] | None = None,
    levels: Levels = None,
) -> CodedScores:
    """Responses in categories, a row a respondent; to items of a fit in their order and with their categories."""
    given: Any = responses.frame if isinstance(responses, LongTable) else responses
    return CodedScores.of(given, item_ids, categories, levels).wide()
