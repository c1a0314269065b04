"""The systems of a study, read before anything is fitted and scored on its bank."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from irtbench.bank.bank import ItemBank
from irtbench.config import StudyFile
from irtbench.data.grading import grade
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.responses import ResponseMatrix
from irtbench.scoring.explanation import Explanation, explain_all
from irtbench.scoring.group_percentiles import percentiles_by_group
from irtbench.scoring.scores import score_responses
from irtbench.study.study_data import read_system_table

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class SystemResponses:
    """Graded responses of the systems of one file to items of the study."""

    path: Path
    responses: ResponseMatrix


@dataclass(frozen=True, eq=False)
class SystemScores:
    """The systems of a study: columns of scores.csv, explanations, and percentiles in groups of the norm samples.

    Explanations are of one response each: None where all systems have several trials of an item.
    """

    scores: pd.DataFrame
    explanation: Explanation | None
    group_percentiles: pd.DataFrame | None


def read_systems(settings: StudyFile, items: ItemTable) -> tuple[SystemResponses, ...]:
    """Read and grade the systems that the study file names.

    Raises
    ------
    InputError
        Naming the file, if it cannot be read or graded, or none of its items is one of the study's.
    """
    return tuple(SystemResponses(path, _graded(path, settings, items)) for path in settings.score.systems)


def _graded(path: Path, settings: StudyFile, items: ItemTable) -> ResponseMatrix:
    table = read_system_table(path, settings.data)
    own = table[table["item_id"].isin(items.scale_items)]
    if own.empty:
        raise InputError(f"file {path}: none of its items is one of the study's; expected such as {items.item_ids[0]}")
    try:
        return grade(own, items, settings.grading) if "answer" in own.columns else ResponseMatrix.from_long(own)
    except InputError as error:
        raise InputError(f"file {path}: {error}") from None


def score_systems(bank: ItemBank, settings: StudyFile, systems: Sequence[SystemResponses]) -> SystemScores | None:
    """Scores of the systems, and what they rest on; None without any on the items kept."""
    scoring, groups = settings.score.scoring(seed=settings.study.seed), settings.score.norm_columns
    kept = {item for scale in bank.scales for item in scale.items.item_ids}
    scores, explanations, in_groups = [], [], []
    for system in systems:
        graded = system.responses
        answered = [item for item, n in zip(graded.item_ids, graded.n_by_item, strict=True) if n and item in kept]
        if not answered:
            log.warning("file %s: answers no item that is kept, and is not scored", system.path)
            continue
        graded = graded.select_items(answered).answered()
        scores.append(score_responses(bank, graded, scoring))
        if graded.trials is None:
            explanations.append(explain_all(bank, graded))
        else:
            log.warning("file %s: several trials of an item: surprises are of one response each", system.path)
        if groups:
            in_groups.append(percentiles_by_group(bank, graded, groups, scoring))
    if not scores:
        return None
    return SystemScores(
        pd.concat(scores, ignore_index=True),
        Explanation.together(explanations) if explanations else None,
        pd.concat(in_groups, ignore_index=True) if in_groups else None,
    )
