"""What follows the bank of a study: scores of its systems and short forms; grades of systems without a bank."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.bank.bank import ItemBank
from irtbench.building.assembly import AssembledForms, assemble_forms, form_bank
from irtbench.building.form_program import TimeOut
from irtbench.config import StudyFile
from irtbench.data.grading import grade
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.readers.item_table import read_items
from irtbench.data.readers.recognise import labelled
from irtbench.data.readers.table import read_table
from irtbench.data.responses import ResponseMatrix
from irtbench.evaluation.agreement_of_grades import numbers_of
from irtbench.scoring.optional_columns import Explanation, explain_all, percentiles_by_group
from irtbench.scoring.scores import category_responses, in_categories, score_responses
from irtbench.study.study_data import read_system_table

log = logging.getLogger(__name__)

#: Each file of systems, with their responses, or of grades a row a system and a column an item.
SystemsRead = list[tuple[Path, ResponseMatrix | pd.DataFrame]]


@dataclass(frozen=True, eq=False)
class SystemScores:
    """The systems of a study: columns of scores.csv, explanations, and percentiles in groups of the norm samples.

    All None without systems that answered items kept. Explanations are of one response each: None where all systems
    have several trials of an item.
    """

    scores: pd.DataFrame | None
    explanation: Explanation | None
    group_percentiles: pd.DataFrame | None


def read_systems(settings: StudyFile, items: ItemTable) -> SystemsRead:
    """Read and grade the systems that the study file names; grades are a row a system and a column an item."""
    return [(path, _graded(path, settings, items)) for path in settings.score.systems]


def _graded(path: Path, settings: StudyFile, items: ItemTable) -> ResponseMatrix | pd.DataFrame:
    table = read_system_table(path, settings)
    own = table[table["item_id"].isin(items.scale_items)]
    if own.empty:
        raise InputError(f"file {path}: none of its items is one of the study's; expected such as {items.item_ids[0]}")
    if settings.grades is not None:
        wide = pd.DataFrame(own.pivot(index="respondent_id", columns="item_id", values="response"))
        return wide if not settings.data.levels else labelled(wide, settings.data.levels)
    try:
        return grade(own, items, settings.grading) if "answer" in own.columns else ResponseMatrix.from_long(own)
    except InputError as error:
        raise InputError(f"file {path}: {error}") from None


def score_systems(bank: ItemBank, settings: StudyFile, systems: SystemsRead) -> SystemScores:
    """Scores of the systems, and what they rest on."""
    scoring, groups = settings.scoring, settings.score.norm_columns
    kept = {item for scale in bank.scales for item in scale.items.item_ids}
    scores, explanations, in_groups = [], [], []
    for path, given in systems:
        graded = category_responses(bank, given) if isinstance(given, pd.DataFrame) else given
        answered = [item for item, n in zip(graded.item_ids, graded.n_by_item, strict=True) if n and item in kept]
        if not answered:
            log.warning("file %s: answers no item that is kept, and is not scored", path)
            continue
        own = graded.select_items(answered).answered()
        scores.append(score_responses(bank, own, scoring))
        if own.trials is None and not in_categories(bank):
            explanations.append(explain_all(bank, own))
        elif not in_categories(bank):  # surprises are of right and wrong
            log.warning("file %s: several trials of an item: surprises are of one response each", path)
        if groups:
            in_groups.append(percentiles_by_group(bank, own, groups, scoring))
    return SystemScores(
        pd.concat(scores, ignore_index=True) if scores else None,
        Explanation.together(explanations) if explanations else None,
        pd.concat(in_groups, ignore_index=True) if in_groups else None,
    )


@dataclass(frozen=True, eq=False)
class StudyForms:
    """What became of the wish for forms: the forms and a bank of each, or why there are none."""

    assembled: AssembledForms | None
    banks: tuple[ItemBank, ...]
    why_not: str


def study_forms(bank: ItemBank, settings: StudyFile) -> StudyForms | None:
    """Forms as ``[forms]`` wishes; None without the table. A wish that cannot be met does not stop the study."""
    if settings.forms is None:
        return None
    try:
        found = assemble_forms(bank, settings.forms, columns=_columns(settings))
    except (InputError, TimeOut) as error:
        return StudyForms(None, (), str(error))
    return StudyForms(found, tuple(form_bank(bank, form, seed=settings.study.seed) for form in found.forms), "")


def _columns(settings: StudyFile) -> pd.DataFrame | None:
    """The table of items, whose columns limits and enemies may name; the rows that the study is about."""
    data = settings.data
    if data.items is None:
        return None
    known = read_items(data.items, columns=data.item_columns, where=data.where)
    table = read_table(data.items)
    for column, value in data.where.items():
        table = table[table[column] == value]
    return table.reset_index(drop=True).assign(item_id=list(known.item_ids))


def scores_named(levels: Sequence[str]) -> tuple[str, ...]:
    """The labels of the levels; none if they are numbers."""
    try:
        [float(level) for level in levels]
    except ValueError:
        return tuple(levels)
    return ()


@dataclass(frozen=True, eq=False)
class SharesOfPoints:
    """What systems scored, shape (n_respondents, n_items), NaN where nothing."""

    respondent_ids: tuple[str, ...]
    shares: NDArray[np.float64]

    @classmethod
    def of(cls, scores: pd.DataFrame, levels: Sequence[str], file: Path) -> SharesOfPoints:
        """Grades read from a file as shares of the way from the lowest level to the highest."""
        number = numbers_of(levels)
        names: Sequence[Any] = scores_named(levels) or [float(level) for level in levels]
        named = dict(zip(names, number, strict=True))
        given = pd.unique(scores.to_numpy().ravel())
        if strange := [value for value in given if not pd.isna(value) and value not in named]:
            raise InputError(f"file {file}: grade {strange[0]}: none of --levels {','.join(levels)}")
        shares = (scores.map(named.get, na_action="ignore").astype(np.float64) - number.min()) / np.ptp(number)
        return cls(tuple(map(str, scores.index)), shares.to_numpy())
