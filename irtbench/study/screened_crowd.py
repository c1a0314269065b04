"""A crowd screened by the rules and, where it is asked for, by what a first fit can say; and what that changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from irtbench.data.answer_patterns import RapidGuesses, rapid_guesses
from irtbench.data.grading import grade
from irtbench.data.items import ItemTable
from irtbench.data.responses import ResponseMatrix
from irtbench.data.screening import Screening, ScreeningSettings, screen
from irtbench.estimation.settings import FitSettings

if TYPE_CHECKING:
    from irtbench.config import StudyFile
    from irtbench.study.person_screening import ScaleFit
    from irtbench.study.screening_effect import ScreeningEffect
    from irtbench.study.study_data import StudyData


@dataclass(frozen=True)
class AfterTheRules:
    """What is asked of a crowd besides the rules."""

    rapid: Literal["keep", "missing"] = "keep"
    similar: float | None = None
    effect: bool = False


@dataclass(frozen=True, eq=False)
class ScreenedCrowd:
    """Who is kept, whose answers stay, pairs too alike, and what screening changes."""

    screening: Screening
    people: pd.DataFrame
    times: RapidGuesses | None
    stays: pd.Series[bool]
    pairs: pd.DataFrame | None
    changed: ScreeningEffect | None

    def summary(self) -> dict[str, Any]:
        """What screening.json says."""
        counts = self.people["reason"].replace("", "kept").value_counts(sort=False)
        found: dict[str, Any] = {
            "n_respondents": len(self.people),
            "n_kept": int(self.screening.kept.sum()),
            "reasons": {str(name): int(n) for name, n in counts.items()},
            "n_answers": len(self.stays),
            "n_answers_kept": int(self.stays.sum()),
            "time_limit": self.screening.time_limit,
            "n_rapid_guesses": None if self.times is None else int(self.times.rapid.sum()),
            "n_similar_pairs": None if self.pairs is None else len(self.pairs),
            "settings": asdict(self.screening.settings),
        }
        return found if self.changed is None else found | {"effect": self.changed.scales}


def screen_crowd(
    given: pd.DataFrame, known: ItemTable, rules: ScreeningSettings, also: AfterTheRules,
    approval: pd.Series[float] | None, *, seed: int, progress: Callable[[str], None],
) -> ScreenedCrowd:  # fmt: skip
    """Screen a crowd's answers, with seconds if they are there."""
    timed = given if "seconds" in given else None
    responses, scales = grade(given, known), known.scales()
    screening = screen(responses, known, rules, seconds=timed, answers=given, approval=approval)
    if rules.person_fit_p is not None:
        from irtbench.study.person_screening import screen_by_fit

        progress("first fit")
        screening = screen_by_fit(screening, responses, scales, FitSettings(), seed=seed)

    def fit(kept: ResponseMatrix) -> tuple[Sequence[ScaleFit], ResponseMatrix]:
        from irtbench.study.person_screening import fit_scales

        return fit_scales(kept, scales, FitSettings(standard_errors=False), seed=seed), kept

    def effect() -> ScreeningEffect:
        from irtbench.study.screening_effect import screening_effect

        return screening_effect(screening, responses, known, scales, FitSettings(), answers=given, seed=seed)

    return after_the_rules(given, responses, screening, also, given, fit, effect, progress)


def screen_grades(
    settings: StudyFile, data: StudyData, also: AfterTheRules, progress: Callable[[str], None]
) -> ScreenedCrowd:
    """The same of the grades of a study, which have no keys."""
    from irtbench.study.person_screening import fits_of_study, screen_respondents
    from irtbench.study.screening_effect import effect_of_screening
    from irtbench.study.study_data import categories_left, divide, in_categories_of

    given, responses, categories = data.given, data.responses.to_matrix(), data.categories
    assert given is not None
    assert categories is not None
    screening = screen_respondents(settings, data, progress=progress).last

    def fit(kept: ResponseMatrix) -> tuple[Sequence[ScaleFit], ResponseMatrix]:
        return fits_of_study(kept, settings, data), in_categories_of(
            kept, categories, categories_left(kept, categories)
        )

    def effect() -> ScreeningEffect:
        return effect_of_screening(
            screening, responses, divide(data.items, settings),
            lambda chosen: fits_of_study(chosen, settings, data, errors=True),
        )  # fmt: skip

    return after_the_rules(given, responses, screening, also, None, fit, effect, progress)


def after_the_rules(
    given: pd.DataFrame,
    responses: ResponseMatrix,
    screening: Screening,
    also: AfterTheRules,
    answers: pd.DataFrame | None,
    fit: Callable[[ResponseMatrix], tuple[Sequence[ScaleFit], ResponseMatrix]],
    effect: Callable[[], ScreeningEffect],
    progress: Callable[[str], None],
) -> ScreenedCrowd:
    """Times, pairs too alike by a fit to those kept, the effect of screening, and whose answers stay."""
    times, pairs, changed, rules, people = None, None, None, screening.settings, screening.table()
    if "seconds" in given:
        times = rapid_guesses(given, method=rules.rapid_method, share=rules.rapid_share)
    if also.similar is not None:
        from irtbench.study.person_screening import crowd_similarity, most_similar

        progress("pairs of respondents")
        fits, kept = fit(responses.select_respondents(screening.kept))
        alike = crowd_similarity(answers, kept, fits)
        pairs = alike.table()
        pairs = pairs[pairs["p_adjusted"] < also.similar]
        people = people.join(most_similar(alike, responses.respondent_ids, level=also.similar))
    if also.effect:
        progress("before and after")
        changed = effect()
    stays = given["respondent_id"].isin(np.array(screening.respondent_ids)[screening.kept])
    if also.rapid == "missing" and times is not None:
        stays &= ~times.rapid
    return ScreenedCrowd(screening, people, times, stays, pairs, changed)
