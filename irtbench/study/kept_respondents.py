"""Who is kept, and how far those agree with each other and with the key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from irtbench.config import StudyFile
from irtbench.data.grading import as_compared
from irtbench.data.input_error import InputError
from irtbench.data.respondent_sample import some_respondents
from irtbench.data.responses import ResponseMatrix
from irtbench.data.screening import Screening, apply_rules, demand_given, demand_somebody
from irtbench.data.screening_outcomes import ScreeningOutcomes
from irtbench.estimation.settings import FEWEST_RESPONDENTS
from irtbench.evaluation.agreement import Agreement, agreement, agreement_by_label
from irtbench.scoring.item_error import abilities_of
from irtbench.study.person_screening import ScaleFit, fit_scales, joint_person_fit
from irtbench.study.study_data import StudyData, divide


@dataclass(frozen=True, eq=False)
class Screened:
    """Who of the respondents is kept.

    Parameters
    ----------
    kept
        Whether no rule removes the respondent, shape (n_respondents,).
    outcomes
        How many are kept and how many each rule removes, those without any response among them.
    last
        What is known of each respondent of the last block: of all of them where responses are in memory.
    fits
        Fits of the scales to those whom the other rules keep, or a sample of them, by which person fit is told; empty
        without that rule.
    """

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
    """Apply the rules of screening; rules that need a fit come last, on those whom the others keep.

    Parameters
    ----------
    settings, data
        The study file, and what its files hold.
    sample
        Most respondents of that fit, drawn by the study's seed; None for all.
    each
        Called with the screening of one block of respondents after the other, all of them together once.
    progress
        Called with a line now and then.

    Raises
    ------
    InputError
        If a rule lacks what it needs, nobody is left, or fewer respondents than items can be estimated from.
    """
    known = data.items.select(data.responses.item_ids)
    demand_given(settings.screening, known, seconds=data.seconds, answers=data.answers, approval=data.approval)
    if settings.screening.person_fit_p is None:
        return _screened(settings, data, (), each, progress)
    before = _screened(settings, data, (), lambda screening: None, progress)
    kept = data.responses.select_respondents(before.kept)
    drawn, some = some_respondents(kept, sample, settings.study.seed)
    progress(f"screening: person fit by a fit to {drawn.n} of {drawn.of} respondents")
    model = replace(settings.model, standard_errors=False)
    fits = fit_scales(some, divide(data.items, settings), model, seed=settings.study.seed)
    return _screened(settings, data, fits, each, progress)


def screening_of(
    responses: ResponseMatrix, settings: StudyFile, data: StudyData, fits: Sequence[ScaleFit] = ()
) -> Screening:
    """What the rules make of some of the respondents, of whom nobody may be left."""
    found = apply_rules(
        responses, data.items.select(responses.item_ids), settings.screening,
        seconds=data.seconds, answers=data.answers, approval=data.approval,
    )  # fmt: skip
    return found.judged_by_fit(_person_fit(responses, found, fits)) if fits else found


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
        demand_somebody([reason for reason, n in reasons.items() for _ in range(n)])  # type: ignore[misc]
    whole = ScreeningOutcomes.together(outcomes, settings.screening)
    if whole.n_kept < FEWEST_RESPONDENTS:
        raise InputError(
            f"{settings.data.answers}: {whole.n_kept} respondents are left; "
            f"expected at least {FEWEST_RESPONDENTS} to estimate items from"
        )
    return Screened(np.concatenate(kept)[: data.responses.n_respondents], whole, found, fits)


def _person_fit(part: ResponseMatrix, screening: Screening, fits: Sequence[ScaleFit]) -> NDArray[np.float64]:
    """lz* over all scales of those kept so far; NaN of the others."""
    kept = part.select_respondents(screening.kept)
    own = []
    for fit in fits:
        here = kept.select_items(fit.responses.item_ids).answered()
        if here.n_respondents:
            own.append(replace(fit, responses=here, abilities=abilities_of(fit.fitted, here, item_error="none")))
    return joint_person_fit(own, part.respondent_ids)


def agreement_of_kept(
    settings: StudyFile, data: StudyData, screening: Screening
) -> tuple[Agreement | None, dict[str, Agreement]]:
    """Agreement of the respondents kept, over all items and those of each label; None and empty without answers."""
    if data.answers is None:
        return None, {}
    kept = {r for r, is_kept in zip(screening.respondent_ids, screening.kept, strict=True) if is_kept}
    answers = data.answers[data.answers["respondent_id"].isin(kept)]
    answers = answers.assign(answer=as_compared(answers["answer"], settings.grading))
    rules = settings.grading.normalise
    return agreement(answers, items=data.items, normalise=rules), agreement_by_label(
        answers, data.items, normalise=rules
    )
