"""Responses to items of a model each, right or wrong or in categories, with several abilities behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
import torch
from numpy.typing import NDArray

from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError
from irtbench.data.readers.long_table import LongTable
from irtbench.data.responses import ResponseMatrix
from irtbench.data.stored_responses import StoredScores
from irtbench.estimation.fit import check_estimable
from irtbench.estimation.fit_categories import Models, ScoresLike, check_categories, models_of
from irtbench.models.coded_scores import CodedScores, Levels
from irtbench.models.item_models.item_model import ItemModel
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.item_models.partial_credit import Nominal
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.categories import CategoryItems
from irtbench.models.pyro_model.rows import ResponseRows, encode_responses, scores_on_device

RIGHT_OR_WRONG = (0, 1)
SEVERAL = ("2pl", "grm", "gpcm")  # models that go with several abilities, by name
#: Responses, right or wrong or in categories, in any form that `fit_factors` takes.
ResponsesOrScores = Union[ResponsesLike, ScoresLike, "Answers"]


@dataclass(frozen=True, eq=False)
class Answers:
    """Responses, right or wrong or in categories, and the models of their items."""

    given: ResponseMatrix | CodedScores
    models: tuple[ItemModel, ...]

    @classmethod
    def of(cls, responses: ResponsesOrScores, models: Models, levels: Levels = None) -> Answers:
        """Responses that determine the parameters of these models, see `fit_factors` for the errors."""
        if isinstance(responses, Answers):
            return responses
        if models == "2pl" and levels is None and not isinstance(responses, CodedScores):
            matrix = as_responses(responses)
            check_estimable(matrix, Priors.named("none"))
            return cls(matrix, (Logistic(),) * matrix.n_items)
        if isinstance(models, str) and models not in SEVERAL:
            raise InputError(f"models: {models} is of one ability; expected {', '.join(SEVERAL)} of several")
        scores = coded(responses, levels=levels)
        each = models_of(models, scores.item_ids)
        for item, model in zip(scores.item_ids, each, strict=True):
            if isinstance(model, Nominal) or (isinstance(model, Logistic) and (model.lower or model.upper)):
                raise InputError(f"models: item {item}: {model.name} is of one ability; expected {', '.join(SEVERAL)}")
        check_categories(scores, each)
        return cls(scores, each)

    @property
    def linear(self) -> bool:
        """Whether all items are right or wrong without asymptotes, so that log odds are linear in ability."""
        return isinstance(self.given, ResponseMatrix)

    @property
    def categories(self) -> tuple[tuple[Any, ...], ...]:
        """The responses that each item's categories stand for."""
        given = self.given
        return given.categories if isinstance(given, CodedScores) else (RIGHT_OR_WRONG,) * given.n_items

    @property
    def described(self) -> dict[str, Any]:
        """What a fitted model says of its items and responses."""
        given, of_right = self.given, dict[str, Any]()
        if isinstance(given, ResponseMatrix):
            of_right = {"n_correct_by_item": given.n_correct_by_item}
            of_right["log_binomial_coefficients"] = given.log_coefficients()
        of_both = {name: getattr(given, name) for name in ("item_ids", "n_respondents", "n_by_item")}
        return {**of_both, **of_right, "models": self.models, "categories": self.categories}

    def to(self, items: NDArray[np.intp], *, answered: bool = False) -> Answers:
        """Those to some of the items, of everybody or of those who answered any."""
        given = self.given.select_items([self.given.item_ids[j] for j in items])
        if answered:
            given = given.select_respondents(given.n_by_respondent > 0)
        return Answers(given, tuple(self.models[j] for j in items))

    def scale(self, n_abilities: int, device: torch.device) -> CategoryItems:
        """The items on a device."""
        return CategoryItems(self.models, [len(own) for own in self.categories], n_abilities, device)

    def rows(self, scale: CategoryItems) -> ResponseRows:
        """The responses on the device of the items."""
        if isinstance(self.given, CodedScores):
            return scores_on_device(self.given, scale.columns, scale.device)
        return encode_responses(self.given, scale.device)

    @property
    def matrix(self) -> ResponseMatrix:
        """As numbers right of trials."""
        return self.given.as_trials() if isinstance(self.given, CodedScores) else self.given


def coded(
    responses: ResponsesLike | ScoresLike,
    item_ids: Sequence[str] | None = None,
    categories: Sequence[Sequence[Any]] | None = None,
    levels: Levels = None,
) -> CodedScores:
    """Responses in categories, a row a respondent; to items of a fit in their order and with their categories."""
    given = responses.frame if isinstance(responses, LongTable) else responses
    if isinstance(given, StoredScores):
        raise InputError("responses: scores on disk go with one ability; expected some in memory")
    scores = given if isinstance(given, CodedScores) else CodedScores.of(given, item_ids, categories, levels)
    return scores.wide() if item_ids is None else scores.wide().select_items(item_ids)
