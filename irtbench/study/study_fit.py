"""The fit that a study file asks for: of right and wrong, or of grades."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from irtbench.config import StudyFile
from irtbench.data.responses import ResponseMatrix, Responses
from irtbench.estimation.fit import fit_model
from irtbench.estimation.fit_categories import Models, fit_categories
from irtbench.estimation.fitted import FittedModel
from irtbench.estimation.many_scales.fit_many import fit_many
from irtbench.estimation.settings import FitSettings
from irtbench.estimation.threads import threads_for
from irtbench.models.coded_scores import MISSING, CodedScores
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.quadrature import normal_grid
from irtbench.study.examination import prior_of_grades
from irtbench.study.study_data import Categories

Fit = Callable[..., FittedModel]  # of Responses, and of items from which it starts, ``start``
#: Partial credit and rating scale with one slope for all and ability N(0, 1), as of all scales of a study.
ONE_SLOPE: dict[str, dict[str, Any]] = {"pcm": {"common_slope": True}, "rsm": {"rating_scale": True}}


def fit_of_study(settings: StudyFile, categories: Categories | None) -> Fit:
    """How responses of a study are fitted; grades are codes of these categories."""

    def fit(data: Responses, start: ItemParameters | None = None) -> FittedModel:
        model, seed = settings.model, settings.study.seed
        with threads_for(data.n_respondents * max(data.n_items, model.n_nodes)):
            if categories is None or settings.grades is None:
                return fit_model(data, model, seed=seed, start=start)
            return fit_grades(data.to_matrix(), settings.grades, categories, model, seed=seed)

    return fit


def with_prior_of_grades(settings: StudyFile, data: ResponseMatrix) -> StudyFile:
    """The settings with the prior that suits these grades, unless they say which."""
    size, asked = (data.n_respondents, data.n_items), settings.model.prior or "auto"
    prior, _ = prior_of_grades(asked, data.observed.sum(axis=0), size, alike=settings.grades in ONE_SLOPE)
    return replace(settings, model=replace(settings.model, prior=prior))


def refit_of_study(settings: StudyFile, categories: Categories | None) -> dict[str, Any]:
    """How samples of the bootstrap are fitted: ``refit`` or ``refit_many`` of `prune`."""
    model, seed, grades = settings.model.for_samples(), settings.study.seed, settings.grades

    def refit_many(samples: Sequence[ResponseMatrix], items: ItemParameters) -> Sequence[FittedModel | None]:
        return fit_many(samples, model, seed=seed, start=items).fits

    def refit(sample: ResponseMatrix, items: ItemParameters) -> FittedModel:
        return fit_grades(sample, grades or "", categories or {}, model, seed=seed, start=items)

    return {"refit_many": refit_many} if categories is None or grades is None else {"refit": refit}


def fit_grades(
    data: ResponseMatrix, kind: Models, categories: Categories, settings: FitSettings, *, seed: int,
    start: ItemParameters | None = None,
) -> FittedModel:  # fmt: skip
    """Fit categories 0, ..., m, given as k right of m, as `fit_model` does right and wrong."""
    began = time.perf_counter()
    codes = np.where(data.observed, data.correct, MISSING).astype(np.int8)
    own = tuple(categories[item] for item in data.item_ids)
    one_slope = ONE_SLOPE.get(kind, {}) if isinstance(kind, str) else {}
    found = fit_categories(
        CodedScores(data.respondent_ids, data.item_ids, own, codes), "gpcm" if one_slope else kind,
        prior=settings.prior or "none", seed=seed, start=None if start is None else start.categories, **one_slope,
        **{name: getattr(settings, name) for name in ("n_nodes", "standard_errors", "device", "tolerance")},
    )  # fmt: skip
    return FittedModel(
        items=found.items.as_items(), quadrature=normal_grid(settings.n_nodes),
        nodes=found.nodes, log_likelihood=found.log_likelihood, priors=found.priors, n_respondents=found.n_respondents,
        n_responses=int(found.n_by_item.sum()), kind="mode", status=found.status, doubts=found.doubts,
        seconds=time.perf_counter() - began, seed=seed, n_by_item=data.n_by_item,
        n_correct_by_item=data.n_correct_by_item, settings=settings,
    )  # fmt: skip
