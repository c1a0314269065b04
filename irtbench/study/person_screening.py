"""Who is kept: the rules of screening, and respondents whose answers no ability explains after a first fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.building.extending import joined
from irtbench.building.prune_rules import without_constant
from irtbench.config import StudyFile
from irtbench.data.given import AnswersLike, ResponsesLike, as_responses
from irtbench.data.input_error import InputError
from irtbench.data.response_blocks import some_respondents
from irtbench.data.responses import ResponseMatrix
from irtbench.data.screening import Screening, ScreeningOutcomes, apply_rules, demand_given, demand_somebody
from irtbench.data.shown import Shown
from irtbench.diagnostics.answer_similarity import AnswerSimilarity, answer_similarity
from irtbench.diagnostics.person_fit import person_fit
from irtbench.estimation.fitted import FittedModel
from irtbench.estimation.many_scales.fit_many import fit_many
from irtbench.estimation.settings import FEWEST_RESPONDENTS, FitSettings
from irtbench.evaluation.agreement import Agreement
from irtbench.scoring.ability import Abilities
from irtbench.scoring.item_error import abilities_of
from irtbench.study.screening_effect import agreement_of
from irtbench.study.study_data import (
    StudyData,
    divide,
    fit_of_study,
    in_categories_of,
    in_own_categories,
    with_prior_of_grades,
)


@dataclass(frozen=True, eq=False)
class ScaleFit(Shown, short="{name}, {fitted.in_short}"):
    """A scale fitted to some respondents, without pruning.

    Parameters
    ----------
    name
        The scale.
    responses
        Of the respondents with a response to an item that some got right and others wrong.
    fitted
        The fit.
    abilities
        EAP of these respondents.
    """

    name: str
    responses: ResponseMatrix
    fitted: FittedModel
    abilities: Abilities

    def table(self) -> pd.DataFrame:
        """One row an item of the scale, as of `FittedModel`."""
        return self.fitted.table()


def fit_scales(
    responses: ResponsesLike,
    scales: Mapping[str, Sequence[str]],
    settings: FitSettings,
    *,
    seed: int,
) -> list[ScaleFit]:
    """Fit each scale's items once; scales that nothing can be estimated from are left out.

    Parameters
    ----------
    responses
        Graded responses of the respondents who count (a matrix, array or data frame: `as_responses`).
    scales
        Items of each scale.
    settings
        How the items are fitted.
    seed
        For the fit.

    Raises
    ------
    InputError
        If the responses to a scale do not determine the model, as `fit_model` says.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> truth = irtbench.ItemParameters.from_difficulty([1.5] * 6, np.linspace(-1.5, 1.5, 6))
    >>> responses = irtbench.simulate_responses(rng.normal(size=100), truth, rng=rng)
    >>> scales = {"easy": truth.item_ids[:3], "hard": truth.item_ids[3:]}
    >>> fits = irtbench.fit_scales(responses, scales, irtbench.FitSettings(standard_errors=False), seed=0)
    >>> fits[0]
    <ScaleFit: easy, 3 items (2pl), 100 respondents, log-likelihood -163.93, converged>
    >>> fits[0].table()[["item_id", "discrimination", "difficulty"]].round(1)
      item_id  discrimination  difficulty
    0   item1             1.1        -1.9
    1   item2             0.7        -1.4
    2   item3             3.8        -0.2
    """
    parts = estimable_parts(as_responses(responses), scales)
    fitted = fit_many(parts, settings, seed=seed)
    return [
        ScaleFit(name, part, fitted[name], abilities_of(fitted[name], part, item_error="none"))
        for name, part in parts.items()
    ]


def estimable_parts(responses: ResponseMatrix, scales: Mapping[str, Sequence[str]]) -> dict[str, ResponseMatrix]:
    """Responses to the items of each scale, without those that no fit can use; scales with too few are left out."""
    parts = {name: without_constant(responses.select_items(item_ids)) for name, item_ids in scales.items()}
    return {name: p for name, p in parts.items() if p.n_items >= 2 and p.n_respondents >= FEWEST_RESPONDENTS}


def joint_person_fit(fits: Sequence[ScaleFit], respondent_ids: Sequence[str]) -> NDArray[np.float64]:
    """Person fit of each respondent over all scales, standard normal under the model; NaN without any.

    sum_s lz*_s / sqrt(S) over the S scales of which the respondent has one: given the abilities the scales are
    independent (Stouffer et al., 1949). lz* is that of ``person_fit``.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> truth = irtbench.ItemParameters.from_difficulty([1.5] * 6, np.linspace(-1.5, 1.5, 6))
    >>> responses = irtbench.simulate_responses(rng.normal(size=100), truth, rng=rng)
    >>> scales = {"easy": truth.item_ids[:3], "hard": truth.item_ids[3:]}
    >>> fits = irtbench.fit_scales(responses, scales, irtbench.FitSettings(standard_errors=False), seed=0)
    >>> irtbench.joint_person_fit(fits, responses.respondent_ids)[:3].round(1).tolist()
    [-0.8, -0.5, 1.0]
    """
    total, n = np.zeros(len(respondent_ids)), np.zeros(len(respondent_ids))
    row = {respondent: i for i, respondent in enumerate(respondent_ids)}
    for fit in fits:
        if fit.responses.n_items < 2:
            continue
        found = person_fit(fit.responses, fit.fitted.items, fit.abilities.theta).lz_star
        rows = np.array([row[respondent] for respondent in fit.responses.respondent_ids])
        known = np.isfinite(found)
        total[rows[known]] += found[known]
        n[rows[known]] += 1
    return np.divide(total, np.sqrt(n), out=np.full(total.shape, np.nan), where=n > 0)


def screen_by_fit(
    screening: Screening,
    responses: ResponsesLike,
    scales: Mapping[str, Sequence[str]],
    settings: FitSettings,
    *,
    seed: int,
) -> Screening:
    """Fit the scales to the respondents kept so far, and remove those whom the model does not fit.

    Without ``person_fit_p`` nothing is fitted and the screening is what it was.

    Parameters
    ----------
    screening
        What the other rules made of the respondents.
    responses
        Graded responses of all of them (a matrix, array or data frame: `as_responses`).
    scales
        Items of each scale.
    settings, seed
        For the fit; standard errors are not computed.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> truth = irtbench.ItemParameters.from_difficulty([1.5] * 6, np.linspace(-1.5, 1.5, 6))
    >>> responses = irtbench.simulate_responses(rng.normal(size=100), truth, rng=rng)
    >>> scales = {"easy": truth.item_ids[:3], "hard": truth.item_ids[3:]}
    >>> items = irtbench.ItemTable.plain(truth.item_ids)
    >>> screening = irtbench.screen(responses, items, person_fit_p=0.05)
    >>> irtbench.screen_by_fit(screening, responses, scales, irtbench.FitSettings(), seed=0)
    <Screening: 97 of 100 respondents kept, 3 unlike the model>
    """
    if screening.settings.person_fit_p is None:
        return screening
    kept = as_responses(responses).select_respondents(screening.kept)
    fits = fit_scales(kept, scales, replace(settings, standard_errors=False), seed=seed)
    return screening.with_person_fit(joint_person_fit(fits, screening.respondent_ids))


def crowd_similarity(
    answers: AnswersLike | None, responses: ResponsesLike, fits: Sequence[ScaleFit]
) -> AnswerSimilarity:
    """Compare every two respondents on all scales fitted, each with the abilities on its own.

    Parameters
    ----------
    answers
        Long table ``respondent_id, item_id, answer``, or a wide one (`as_answers`); None of items in categories.
    responses
        Graded responses of the respondents who are compared (a matrix, array or data frame: `as_responses`).
    fits
        One fit a scale, whoever they are from.

    Raises
    ------
    InputError
        If no scale could be fitted.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> truth = irtbench.ItemParameters.from_difficulty([1.5] * 20, np.linspace(-1.5, 1.5, 20))
    >>> values = irtbench.simulate_responses(rng.normal(size=80), truth, rng=rng).values
    >>> answers = pd.DataFrame(np.where(values == 1, "a", rng.choice(["b", "c"], values.shape)), columns=truth.item_ids)
    >>> answers.iloc[1] = answers.iloc[0] = ["b", "c"] * 5 + ["a"] * 10  # one has copied from the other
    >>> responses = (answers == "a").astype(int)
    >>> fits = irtbench.fit_scales(responses, {"all": truth.item_ids}, irtbench.FitSettings(), seed=0)
    >>> found = irtbench.crowd_similarity(answers, responses, fits)
    >>> found.table()[["respondent_1", "respondent_2", "n_identical", "n_identical_wrong"]].head(1)
      respondent_1 respondent_2  n_identical  n_identical_wrong
    0            0            1           20                 10
    """
    responses = as_responses(responses)
    if not fits:
        raise InputError("answer similarity: no scale could be fitted, and without abilities nothing can be expected")
    items = reduce(joined, [fit.fitted.items for fit in fits])
    scale = np.repeat(np.arange(len(fits)), [fit.fitted.items.n_items for fit in fits])
    of_each = [pd.Series(fit.abilities.theta, [*fit.responses.respondent_ids]) for fit in fits]
    theta = np.column_stack([known.reindex([*responses.respondent_ids]).to_numpy() for known in of_each])
    return answer_similarity(answers, responses.select_items(items.item_ids), items, theta, scale=scale)


def most_similar(similarity: AnswerSimilarity, respondent_ids: Sequence[str], *, level: float) -> pd.DataFrame:
    """The other of the most suspect pair a respondent is in, if its adjusted p is below the level.

    Columns ``similar_to`` (empty if none) and ``similar_p``, a row for each respondent in order.
    """
    found: dict[str, tuple[str, float]] = {}
    for (first, second), p in zip(similarity.pairs, similarity.p_adjusted, strict=True):
        if p < level:
            found.setdefault(first, (second, p))
            found.setdefault(second, (first, p))
    rows = [found.get(respondent, ("", np.nan)) for respondent in respondent_ids]
    return pd.DataFrame(rows, columns=["similar_to", "similar_p"])


@dataclass(frozen=True, eq=False)
class Screened:
    """Who of the respondents is kept."""

    kept: NDArray[np.bool_]
    outcomes: ScreeningOutcomes
    last: Screening
    fits: Sequence[ScaleFit] = ()


def screen_respondents(
    settings: StudyFile,
    data: StudyData,
    *,
    sample: int | None = None,
    each: Callable[[Screening], None] = lambda screening: None,
    progress: Callable[[str], None] = lambda message: None,
) -> Screened:
    """Apply the rules of screening; rules that need a fit come last, on those whom the others keep."""
    known = data.items.select(data.responses.item_ids)
    demand_given(settings.screening, known, seconds=data.seconds, answers=data.given, approval=data.approval)
    if settings.screening.person_fit_p is None:
        return _screened(settings, data, (), each, progress)
    before = _screened(settings, data, (), lambda screening: None, progress)
    drawn, some = some_respondents(data.responses.select_respondents(before.kept), sample, settings.study.seed)
    progress(f"screening: person fit by a fit to {drawn.n} of {drawn.of} respondents")
    return _screened(settings, data, fits_of_study(some, settings, data), each, progress)


def fits_of_study(
    responses: ResponseMatrix, settings: StudyFile, data: StudyData, *, errors: bool = False
) -> list[ScaleFit]:
    """The scales of a study fitted to some of its respondents, right or wrong or in the categories that these gave."""
    model, scales = replace(settings.model, standard_errors=errors), divide(data.items, settings)
    if data.categories is None:
        return fit_scales(responses, scales, model, seed=settings.study.seed)
    own, left = in_own_categories(responses, data.categories)
    fit = fit_of_study(with_prior_of_grades(replace(settings, model=model), responses), left)
    parts = estimable_parts(own.to_matrix(), scales)
    return [
        ScaleFit(name, part, one := fit(part), abilities_of(one, part, item_error="none"))
        for name, part in parts.items()
    ]


def screening_of(
    responses: ResponseMatrix, settings: StudyFile, data: StudyData, fits: Sequence[ScaleFit] = ()
) -> Screening:
    """What the rules make of some of the respondents, of whom nobody may be left."""
    found = apply_rules(
        responses, data.items.select(responses.item_ids), settings.screening, seconds=data.seconds, answers=data.given,
        approval=data.approval, graded=data.categories is not None,
    )  # fmt: skip
    if not fits:
        return found
    kept, own = responses.select_respondents(found.kept), []
    for fit in fits:
        here = kept.select_items(fit.responses.item_ids).answered()
        if data.categories is not None and (known := fit.fitted.items.categories) is not None:
            in_fit = dict(zip(known.item_ids, known.categories, strict=True))
            here = in_categories_of(here, data.categories, in_fit).answered()
        if here.n_respondents:
            own.append(replace(fit, responses=here, abilities=abilities_of(fit.fitted, here, item_error="none")))
    return found.judged_by_fit(joint_person_fit(own, responses.respondent_ids))


def _screened(
    settings: StudyFile,
    data: StudyData,
    fits: Sequence[ScaleFit],
    each: Callable[[Screening], None],
    progress: Callable[[str], None],
) -> Screened:
    kept, outcomes, done = [], [], 0
    reasons: Counter[str] = Counter()
    for block in data.responses.everybody():
        found = screening_of(block, settings, data, fits)
        each(found)
        kept.append(found.kept)
        outcomes.append(ScreeningOutcomes.of(found))
        reasons.update(found.reason)
        done += len(found.reason)
        progress(f"screening: {done} respondents")
    if not reasons[""]:
        demand_somebody([*reasons.elements()])  # type: ignore[list-item]
    whole = ScreeningOutcomes.together(outcomes, settings.screening)
    if whole.n_kept < FEWEST_RESPONDENTS:
        raise InputError(
            f"{settings.data.answers}: {whole.n_kept} respondents are left; "
            f"expected at least {FEWEST_RESPONDENTS} to estimate items from"
        )
    return Screened(np.concatenate(kept)[: data.responses.n_respondents], whole, found, fits)


def agreement_of_kept(
    settings: StudyFile, data: StudyData, screening: Screening
) -> tuple[Agreement | None, dict[str, Agreement]]:
    """Agreement of the respondents kept, over all items and those of each label; None and empty without answers."""
    if data.answers is None:
        return None, {}
    kept = np.array(screening.respondent_ids)[screening.kept].tolist()
    return agreement_of(data.answers, data.items, kept, settings.grading)
