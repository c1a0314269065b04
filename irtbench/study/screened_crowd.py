"""A crowd screened by the rules and, where it is asked for, by what a first fit can say; and what that changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from irtbench.data.answer_patterns import RapidGuesses, rapid_guesses
from irtbench.data.grading import grade
from irtbench.data.items import ItemTable
from irtbench.data.screening import Screening, ScreeningSettings, screen
from irtbench.estimation.settings import FitSettings

if TYPE_CHECKING:
    from irtbench.study.screening_effect import ScreeningEffect


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
    times, pairs, changed = None, None, None
    if timed is not None:
        times = rapid_guesses(timed, method=rules.rapid_method, share=rules.rapid_share)
    if rules.person_fit_p is not None:
        from irtbench.study.person_screening import screen_by_fit

        progress("first fit")
        screening = screen_by_fit(screening, responses, scales, FitSettings(), seed=seed)
    people = screening.table()
    if also.similar is not None:
        from irtbench.study.person_screening import crowd_similarity, fit_scales, most_similar

        progress("pairs of respondents")
        kept = responses.select_respondents(screening.kept)
        alike = crowd_similarity(given, kept, fit_scales(kept, scales, FitSettings(standard_errors=False), seed=seed))
        pairs = alike.table()
        pairs = pairs[pairs["p_adjusted"] < also.similar]
        people = people.join(most_similar(alike, responses.respondent_ids, level=also.similar))
    if also.effect:
        from irtbench.study.screening_effect import screening_effect

        progress("before and after")
        changed = screening_effect(screening, responses, known, scales, FitSettings(), answers=given, seed=seed)
    stays = given["respondent_id"].isin(np.array(screening.respondent_ids)[screening.kept])
    if also.rapid == "missing" and times is not None:
        stays &= ~times.rapid
    return ScreenedCrowd(screening, people, times, stays, pairs, changed)
