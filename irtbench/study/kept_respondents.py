"""Who is kept, and how far those agree with each other and with the key."""

from __future__ import annotations

from irtbench.config import StudyFile
from irtbench.data.grading import as_compared
from irtbench.data.input_error import InputError
from irtbench.data.screening import Screening, screen
from irtbench.estimation.settings import FEWEST_RESPONDENTS
from irtbench.evaluation.agreement import Agreement, agreement, agreement_by_label
from irtbench.study.division import divide
from irtbench.study.person_screening import screen_by_fit
from irtbench.study.study_data import StudyData


def screen_respondents(settings: StudyFile, data: StudyData) -> Screening:
    """Apply the rules of screening; those that ask for a fit come last, after one of each scale to the others' keep.

    Raises
    ------
    InputError
        If fewer respondents are left than items can be estimated from.
    """
    answers = data.answers
    seconds = answers if answers is not None and "seconds" in answers else None
    screening = screen(
        data.responses, data.items, settings.screening, seconds=seconds, answers=answers, approval=data.approval
    )
    if settings.screening.person_fit_p is not None:
        demand_enough(int(screening.kept.sum()), settings)
        scales = divide(data.items, settings)
        screening = screen_by_fit(screening, data.responses, scales, settings.model, seed=settings.study.seed)
    demand_enough(int(screening.kept.sum()), settings)
    return screening


def demand_enough(n_kept: int, settings: StudyFile) -> None:
    """Refuse a screening that leaves so few respondents.

    Raises
    ------
    InputError
        If fewer respondents are left than items can be estimated from.
    """
    if n_kept < FEWEST_RESPONDENTS:
        raise InputError(
            f"{settings.data.answers}: {n_kept} respondents are left; "
            f"expected at least {FEWEST_RESPONDENTS} to estimate items from"
        )


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
