"""The systems of a study, scored on its bank."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from irtbench.bank.bank import ItemBank
from irtbench.config import StudyFile
from irtbench.data.readers.recognise import read_answers, read_responses
from irtbench.data.responses import ResponseMatrix
from irtbench.scoring.explanation import Explanation, explain_all
from irtbench.scoring.group_percentiles import percentiles_by_group
from irtbench.scoring.scores import grade_answers, score_responses


@dataclass(frozen=True, eq=False)
class SystemScores:
    """The systems of a study: columns of scores.csv, explanations, and percentiles in groups of the norm samples."""

    scores: pd.DataFrame
    explanation: Explanation
    group_percentiles: pd.DataFrame | None


def score_systems(bank: ItemBank, settings: StudyFile) -> SystemScores | None:
    """Scores of the systems that the study file names, and what they rest on; None if it names none."""
    scoring, groups = settings.score.scoring(seed=settings.study.seed), settings.score.norm_columns
    scores, explanations, in_groups = [], [], []
    for path in settings.score.systems:
        if settings.data.content == "answers":
            answers = read_answers(path, columns=settings.data.columns).frame
            graded = grade_answers(bank, answers, settings.grading, unknown_items="ignore")
        else:
            graded = ResponseMatrix.from_long(read_responses(path, columns=settings.data.columns).frame)
        scores.append(score_responses(bank, graded, scoring, unknown_items="ignore"))
        explanations.append(explain_all(bank, graded, unknown_items="ignore"))
        if groups:
            in_groups.append(percentiles_by_group(bank, graded, groups, scoring, unknown_items="ignore"))
    if not scores:
        return None
    return SystemScores(
        pd.concat(scores, ignore_index=True),
        Explanation(
            pd.concat([found.items for found in explanations], ignore_index=True),
            pd.concat([found.difficulty for found in explanations], ignore_index=True),
        ),
        pd.concat(in_groups, ignore_index=True) if in_groups else None,
    )
