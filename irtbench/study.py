"""The whole road: crowd answers of a study file to scales, bank, norms and scores."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from irtbench.building.bank import ItemBank
from irtbench.building.checkpoint import Checkpoint, checkpoint_key
from irtbench.building.dimensions import MOST_FACTORS, Dimensions, find_dimensions
from irtbench.building.pruning import Pruning, answered, constant_items, prune
from irtbench.building.scale import Norms, Scale
from irtbench.config import StudyFile
from irtbench.data.grading import grade
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.readers.item_table import read_items
from irtbench.data.readers.recognise import read_answers, read_responses
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.data.screening import Screening, screen
from irtbench.diagnostics.dimensionality import shuffled
from irtbench.estimation.svi import FEWEST_RESPONDENTS, FittedModel, fit_model, software_versions
from irtbench.evaluation.agreement import Agreement, agreement, agreement_by_label
from irtbench.scoring.ability import Abilities, eap
from irtbench.scoring.scores import score_answers, score_responses


@dataclass(frozen=True, eq=False)
class ScaleStudy:
    """One scale from the items given to the items kept.

    Parameters
    ----------
    name
        The scale's name, in the paper a gold label.
    responses
        Graded responses of the screened respondents to all items given.
    pruning
        The removals, the fits and the diagnostics of each round.
    scale
        What goes into the bank; None if the scale is rejected.
    abilities
        Of the screened respondents on the items kept; None if the scale is rejected.
    """

    name: str
    responses: ResponseMatrix
    pruning: Pruning
    scale: Scale | None
    abilities: Abilities | None


@dataclass(frozen=True, eq=False)
class Study:
    """Everything a study found.

    Parameters
    ----------
    settings
        The study file.
    items
        The items, attention checks included.
    screening
        Who was kept and who was not.
    agreement, agreement_by_label
        Of the screened respondents' answers; None and empty where only graded responses were given.
    scales
        One after the other, rejected ones included.
    bank
        The scales that stand; None if none does.
    respondent_scores
        Scores of the screened respondents themselves, columns of scores.csv; None without a bank.
    system_scores
        Scores of the systems named in the study file; None without a bank or systems.
    provenance
        Data hashes, settings, versions, date and seed.
    seconds
        Time from reading to the last score.
    dimensions
        Number of abilities of all items together; None if the rules do not ask for it or there is one label.
    """

    settings: StudyFile
    items: ItemTable
    screening: Screening
    agreement: Agreement | None
    agreement_by_label: dict[str, Agreement]
    scales: tuple[ScaleStudy, ...]
    bank: ItemBank | None
    respondent_scores: pd.DataFrame | None
    system_scores: pd.DataFrame | None
    provenance: dict[str, Any]
    seconds: float
    dimensions: Dimensions | None = None

    @property
    def converged(self) -> bool:
        """Whether the last fit of every scale converged."""
        fits = [scale.pruning.fitted for scale in self.scales]
        return all(fitted is None or fitted.converged for fitted in fits)


def run_study(
    settings: StudyFile,
    *,
    control: bool = False,
    checkpoints: Path | None = None,
    progress: Callable[[str], None] = lambda message: None,
) -> Study:
    """Read, grade, screen, divide into scales, prune each, and score.

    Parameters
    ----------
    settings
        A study file, see `config.read_study`.
    control
        Shuffle each item's responses among the respondents who answered it: a negative control, in which no scale is
        to be found.
    checkpoints
        Folder for the finished rounds of pruning, a folder a scale; rounds found there are not computed again.
    progress
        Called with a line about each step.

    Raises
    ------
    InputError
        If the data or the settings do not fit together.
    """
    began = time.perf_counter()
    progress(f"reading {settings.data.answers}")
    answers, responses, items = read_data(settings)
    seconds = answers if answers is not None and "seconds" in answers else None
    screening = screen(responses, items, settings.screening, seconds=seconds, answers=answers)
    kept_ids = {r for r, kept in zip(screening.respondent_ids, screening.kept, strict=True) if kept}
    progress(f"screening: {len(kept_ids)} of {responses.n_respondents} respondents kept")
    if len(kept_ids) < FEWEST_RESPONDENTS:
        raise InputError(
            f"{settings.data.answers}: {len(kept_ids)} respondents are left; "
            f"expected at least {FEWEST_RESPONDENTS} to estimate items from"
        )
    screened = responses.select_respondents(screening.kept)
    if control:
        screened = shuffled(screened, np.random.default_rng(settings.study.seed))
        settings = replace(settings, pruning=replace(settings.pruning, compare_factors=False))
    overall, by_label = None, {}
    if answers is not None:
        kept_answers = answers[answers["respondent_id"].isin(kept_ids)]
        overall = agreement(kept_answers, items=items, normalise=settings.grading.normalise)
        by_label = agreement_by_label(kept_answers, items, normalise=settings.grading.normalise)
    provenance = describe_provenance(settings)
    parts = divide(items, settings)
    known_items = {item for item_ids in parts.values() for item in item_ids}
    stray = [e.item_id for e in settings.pruning.exclude if e.item_id not in known_items]
    stray += [item for item in settings.pruning.protect if item not in known_items]
    if stray:
        raise InputError(f"{settings.path}: pruning: unknown item {name_first(stray)}")
    dimensions = None
    if settings.pruning.compare_factors:
        dimensions = study_dimensions(screened, parts, settings.study.seed, progress)
    scales: list[ScaleStudy] = []
    for name, item_ids in parts.items():
        part = answered(screened.select_items(item_ids))
        folder = None if checkpoints is None else checkpoints / f"scale_{len(scales) + 1}"
        scales.append(study_scale(name, part, items, settings, provenance, folder, progress))
    standing = tuple(scale.scale for scale in scales if scale.scale is not None)
    bank = ItemBank(standing) if standing else None
    respondent_scores = system_scores = None
    if bank is not None:
        progress("scoring")
        respondent_scores = score_responses(bank, screened, unknown_items="ignore")
        system_scores = score_systems(bank, settings)
    return Study(
        settings=settings,
        items=items,
        screening=screening,
        agreement=overall,
        agreement_by_label=by_label,
        scales=tuple(scales),
        bank=bank,
        respondent_scores=respondent_scores,
        system_scores=system_scores,
        provenance=provenance,
        seconds=time.perf_counter() - began,
        dimensions=dimensions,
    )


def read_data(settings: StudyFile) -> tuple[pd.DataFrame | None, ResponseMatrix, ItemTable]:
    """Raw answers (None if graded responses were given), graded responses and items."""
    data = settings.data
    items = None
    if data.items is not None:
        items = read_items(data.items, columns=data.item_columns, where=data.where)
    elif data.where or data.item_columns:
        raise InputError(f"{settings.path}: data.where and data.item_columns need data.items")
    if data.content == "answers":
        if items is None:
            raise InputError(f"{settings.path}: data.items: missing; answers are graded by the key of the items")
        answers = read_answers(data.answers, format=data.format, columns=data.columns).frame
        if data.where:
            answers = answers[answers["item_id"].isin(items.item_ids)]
        return answers, grade(answers, items, settings.grading), items
    table = read_responses(data.answers, format=data.format, columns=data.columns).frame
    if items is not None and data.where:
        table = table[table["item_id"].isin(items.item_ids)]
    responses = ResponseMatrix.from_long(table, item_ids=None if items is None else items.item_ids)
    return None, responses, items or ItemTable.plain(responses.item_ids)


def divide(items: ItemTable, settings: StudyFile) -> dict[str, tuple[str, ...]]:
    """Items of each scale."""
    if settings.scales.by == "none":
        return {"all": items.scale_items}
    unlabelled = [i for i, label, check in zip(items.item_ids, items.label, items.attention, strict=True)
                  if label is None and not check]  # fmt: skip
    if unlabelled and any(label is not None for label in items.label):
        raise InputError(f"{settings.path}: scales.by: item {unlabelled[0]} has no label")
    return items.scales()


def study_dimensions(
    responses: ResponseMatrix, parts: dict[str, tuple[str, ...]], seed: int, progress: Callable[[str], None]
) -> Dimensions | None:
    """Number of abilities of all items together, where they have two labels or three; else None."""
    label_of = {item: name for name, item_ids in parts.items() for item in item_ids}
    together = responses.select_items(list(label_of))
    gone = {removal.item_id for removal in constant_items(together)}
    data = answered(together.select_items([item for item in together.item_ids if item not in gone]))
    labels = [label_of[item] for item in data.item_ids]
    if (
        not 1 < len(set(labels)) <= MOST_FACTORS
        or data.n_items <= MOST_FACTORS
        or data.n_respondents < FEWEST_RESPONDENTS
    ):
        return None
    answered_both = data.observed.astype(np.float64).T @ data.observed
    if (answered_both == 0).any():
        progress("number of abilities: not counted, since some two items were answered by nobody together")
        return None
    return find_dimensions(data, labels, n_samples=10, seed=seed, progress=progress)


def study_scale(
    name: str,
    responses: ResponseMatrix,
    items: ItemTable,
    settings: StudyFile,
    provenance: dict[str, Any],
    checkpoint_folder: Path | None,
    progress: Callable[[str], None],
) -> ScaleStudy:
    """Prune one scale, and make of what is left a scale with norms."""
    here = set(responses.item_ids)
    rules = settings.pruning
    rules = replace(
        rules,
        exclude=tuple(e for e in rules.exclude if e.item_id in here),
        protect=tuple(item for item in rules.protect if item in here),
    )

    def fit(data: ResponseMatrix) -> FittedModel:
        return fit_model(data, settings.model, seed=settings.study.seed)

    groups = {item: group for item, group in zip(items.item_ids, items.group, strict=True) if group is not None}
    checkpoint = None
    if checkpoint_folder is not None:
        depends_on = (rules, settings.model, settings.study.seed, groups, software_versions())
        checkpoint = Checkpoint(checkpoint_folder, checkpoint_key(responses, *depends_on))
    pruning = prune(
        responses, fit, rules, groups=groups, seed=settings.study.seed, checkpoint=checkpoint,
        progress=lambda message: progress(f"{name}: {message}"),
    )  # fmt: skip
    progress(f"{name}: {pruning.rejected or f'{len(pruning.kept)} of {responses.n_items} items kept'}")
    if pruning.rejected is not None or pruning.fitted is None:
        return ScaleStudy(name, responses, pruning, None, None)
    fitted = pruning.fitted
    population = fitted.estimated_population
    abilities = eap(answered(responses.select_items(pruning.kept)), fitted.items, quadrature=population)
    scale = Scale(
        name=name,
        items=fitted.items,
        details=items.select(pruning.kept),
        norms=Norms(abilities.theta, standard_error=abilities.standard_error),
        population=population,
        provenance=provenance
        | {
            "fit": fitted.summary(),
            "pruning": [{k: v for k, v in vars(r).items() if v == v} for r in pruning.removals],
        },
    )
    return ScaleStudy(name, responses, pruning, scale, abilities)


def score_systems(bank: ItemBank, settings: StudyFile) -> pd.DataFrame | None:
    """Scores of the systems that the study file names; None if it names none."""
    tables = []
    for path in settings.score.systems:
        if settings.data.content == "answers":
            answers = read_answers(path, columns=settings.data.columns).frame
            tables.append(score_answers(bank, answers, settings.grading, unknown_items="ignore"))
        else:
            table = read_responses(path, columns=settings.data.columns).frame
            tables.append(score_responses(bank, ResponseMatrix.from_long(table), unknown_items="ignore"))
    return pd.concat(tables, ignore_index=True) if tables else None


def describe_provenance(settings: StudyFile) -> dict[str, Any]:
    """Where results come from: hashes of the files, settings, versions, date and seed."""
    files = [settings.path, settings.data.answers, *([settings.data.items] if settings.data.items else [])]
    return {
        "data": {file.name: file_hash(file) for file in files},
        "model": asdict(settings.model),
        "pruning_rules": asdict(settings.pruning),
        "screening": asdict(settings.screening),
        "grading": asdict(settings.grading),
        "seed": settings.study.seed,
        "versions": software_versions(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def file_hash(path: Path) -> str:
    """Hash of a file's bytes, ``sha256:...``."""
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
