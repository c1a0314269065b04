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

from irtbench.analysis.dimensions import MOST_FACTORS, Dimensions, find_dimensions
from irtbench.analysis.parallel_analysis import shuffled
from irtbench.bank.bank import ItemBank
from irtbench.bank.norms import Norms
from irtbench.bank.scale import Scale
from irtbench.building.checkpoint import Checkpoint, checkpoint_key
from irtbench.building.pruning import Pruning, answered, constant_items, prune
from irtbench.config import StudyFile
from irtbench.data.grading import grade
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.readers.item_table import read_items
from irtbench.data.readers.recognise import read_answers, read_responses
from irtbench.data.readers.respondents import read_respondents, respondents_of, weights_of
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.data.screening import Screening, screen
from irtbench.estimation.fit import FEWEST_RESPONDENTS, fit_model
from irtbench.estimation.fitted import FittedModel, software_versions
from irtbench.evaluation.agreement import Agreement, agreement, agreement_by_label
from irtbench.scoring.ability import Abilities, abilities_of
from irtbench.scoring.explanation import Explanation, explain_all
from irtbench.scoring.group_percentiles import percentiles_by_group
from irtbench.scoring.scores import grade_answers, score_responses


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
        Number of abilities of all items together; None if the rules do not ask for it or it cannot be counted.
    no_dimensions
        Why it could not be counted; empty if it was, or was not asked for.
    system_explanation
        Where systems differ from people of their ability; None without a bank or systems.
    group_percentiles
        Percentiles of the systems within each group of the norm samples, see ``percentiles_by_group``; None without a
        bank, systems or groups.
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
    no_dimensions: str = ""
    system_explanation: Explanation | None = None
    group_percentiles: pd.DataFrame | None = None

    @property
    def converged(self) -> bool:
        """Whether the last fit of every scale converged."""
        fits = [scale.pruning.fitted for scale in self.scales]
        return all(fitted is None or fitted.converged for fitted in fits)


@dataclass(frozen=True, eq=False)
class StudyData:
    """What the files of a study hold.

    Parameters
    ----------
    answers
        Raw answers; None if graded responses were given.
    responses
        Graded responses.
    items
        The items.
    respondents
        The columns of the respondents that norms are formed by, weights included; None if none is asked for.
    respondents_from
        The file that these are from.
    """

    answers: pd.DataFrame | None
    responses: ResponseMatrix
    items: ItemTable
    respondents: pd.DataFrame | None = None
    respondents_from: Path | None = None


@dataclass(frozen=True, eq=False)
class SystemScores:
    """The systems of a study: columns of scores.csv, explanations, and percentiles in groups of the norm samples."""

    scores: pd.DataFrame
    explanation: Explanation
    group_percentiles: pd.DataFrame | None


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
        Folder for finished steps, with a folder a scale; what is found there is not computed again.
    progress
        Called with a line about each step.

    Raises
    ------
    InputError
        If the data or the settings do not fit together.
    """
    began = time.perf_counter()
    progress(f"reading {settings.data.answers}")
    data = read_data(settings)
    answers, responses, items = data.answers, data.responses, data.items
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
    norm_columns = columns_of_norms(settings, data, screened, progress)
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
    if stray := sorted(set(settings.model.by_item) - known_items):
        raise InputError(f"{settings.path}: model.by_item: unknown item {name_first(stray)}")
    dimensions, no_dimensions = None, ""
    if settings.pruning.compare_factors:
        dimensions, no_dimensions = study_dimensions(screened, parts, settings.study.seed, checkpoints, progress)
    scales: list[ScaleStudy] = []
    for name, item_ids in parts.items():
        part = answered(screened.select_items(item_ids))
        folder = None if checkpoints is None else checkpoints / f"scale_{len(scales) + 1}"
        scales.append(study_scale(name, part, items, settings, provenance, folder, progress, norm_columns))
    standing = tuple(scale.scale for scale in scales if scale.scale is not None)
    bank = ItemBank(standing) if standing else None
    respondent_scores = systems = None
    if bank is not None:
        progress("scoring")
        scoring = settings.score.scoring(seed=settings.study.seed)
        respondent_scores = score_responses(bank, screened, scoring, unknown_items="ignore")
        systems = score_systems(bank, settings)
    return Study(
        settings=settings,
        items=items,
        screening=screening,
        agreement=overall,
        agreement_by_label=by_label,
        scales=tuple(scales),
        bank=bank,
        respondent_scores=respondent_scores,
        system_scores=None if systems is None else systems.scores,
        provenance=provenance,
        seconds=time.perf_counter() - began,
        dimensions=dimensions,
        no_dimensions=no_dimensions,
        system_explanation=None if systems is None else systems.explanation,
        group_percentiles=None if systems is None else systems.group_percentiles,
    )


def read_data(settings: StudyFile) -> StudyData:
    """Read the files that a study file names."""
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
        respondents = read_columns_of_norms(settings, answers)
        if data.where:
            answers = answers[answers["item_id"].isin(items.item_ids)]
        return StudyData(answers, grade(answers, items, settings.grading), items, *respondents)
    table = read_responses(data.answers, format=data.format, columns=data.columns).frame
    respondents = read_columns_of_norms(settings, table)
    if items is not None and data.where:
        table = table[table["item_id"].isin(items.item_ids)]
    responses = ResponseMatrix.from_long(table, item_ids=None if items is None else items.item_ids)
    return StudyData(None, responses, items or ItemTable.plain(responses.item_ids), *respondents)


def read_columns_of_norms(settings: StudyFile, table: pd.DataFrame) -> tuple[pd.DataFrame, Path] | tuple[None, None]:
    """Columns of the respondents that norms are formed by, and their file: a table of respondents, or the answers."""
    data, weight = settings.data, settings.score.norm_weight
    names = list(dict.fromkeys([*settings.score.norm_columns, *([] if weight is None else [weight])]))
    if not names:
        if data.respondents is not None:
            raise InputError(
                f"{settings.path}: data.respondents: no column of it is asked for; "
                "expected score.norm_groups, score.norm_group or score.norm_weight"
            )
        return None, None
    if data.respondents is not None:
        return read_respondents(data.respondents, names, columns=data.respondent_columns), data.respondents
    return respondents_of(table, names, data.answers), data.answers


def columns_of_norms(
    settings: StudyFile, data: StudyData, screened: ResponseMatrix, progress: Callable[[str], None]
) -> pd.DataFrame | None:
    """The same for the screened respondents, in their order, checked before anything is fitted."""
    if data.respondents is None or data.respondents_from is None:
        return None
    of_screened = data.respondents.reindex(list(screened.respondent_ids)).astype(object)
    of_screened = of_screened.where(of_screened.notna(), None)
    for name in settings.score.norm_columns:
        known = of_screened[name].notna()
        if not known.any():
            raise InputError(
                f"file {data.respondents_from}, column {name}: empty for all {screened.n_respondents} screened "
                "respondents; expected a value for some"
            )
        if not known.all():
            progress(f"{name}: known of {int(known.sum())} of {screened.n_respondents} respondents")
    for name, value in settings.score.norm_group.items():
        values = sorted(set(of_screened[name].dropna()))
        if value not in values:
            raise InputError(
                f"{settings.path}: score.norm_group: no screened respondent has {name} {value}; "
                f"expected one of {name_first(values)}"
            )
    if settings.score.norm_weight is not None:
        weights_of(of_screened, settings.score.norm_weight, data.respondents_from)
    return of_screened


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
    responses: ResponseMatrix,
    parts: dict[str, tuple[str, ...]],
    seed: int,
    checkpoint_folder: Path | None,
    progress: Callable[[str], None],
) -> tuple[Dimensions | None, str]:
    """Number of abilities of all items together, loadings turned to the scales; or None and why it is not counted."""
    label_of = {item: name for name, item_ids in parts.items() for item in item_ids}
    together = responses.select_items(list(label_of))
    gone = {removal.item_id for removal in constant_items(together)}
    data = answered(together.select_items([item for item in together.item_ids if item not in gone]))
    labels = [label_of[item] for item in data.item_ids]
    answered_both = data.observed.astype(np.float64).T @ data.observed
    why_not = ""
    if data.n_items <= MOST_FACTORS or data.n_respondents < FEWEST_RESPONDENTS:
        why_not = f"{data.n_respondents} respondents and {data.n_items} items are too few"
    elif (answered_both == 0).any():
        why_not = "some two items were answered by nobody together"
    if why_not:
        progress(f"number of abilities: not counted, since {why_not}")
        return None, why_not
    checkpoint = None
    if checkpoint_folder is not None:
        checkpoint = Checkpoint(checkpoint_folder, checkpoint_key(data, labels, seed, software_versions()))
        finished = checkpoint.load("dimensions", Dimensions)
        if finished is not None:
            return finished, ""
    found = find_dimensions(data, labels, seed=seed, progress=progress)
    if checkpoint is not None:
        checkpoint.save("dimensions", found)
    return found, ""


def study_scale(
    name: str,
    responses: ResponseMatrix,
    items: ItemTable,
    settings: StudyFile,
    provenance: dict[str, Any],
    checkpoint_folder: Path | None,
    progress: Callable[[str], None],
    norm_columns: pd.DataFrame | None = None,
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

    def refit(data: ResponseMatrix) -> FittedModel:
        return fit_model(data, replace(settings.model, standard_errors=False), seed=settings.study.seed)

    groups = {item: group for item, group in zip(items.item_ids, items.group, strict=True) if group is not None}
    checkpoint = None
    if checkpoint_folder is not None:
        depends_on = (rules, settings.model, settings.study.seed, groups, software_versions())
        checkpoint = Checkpoint(checkpoint_folder, checkpoint_key(responses, *depends_on))
    pruning = prune(
        responses, fit, rules, refit=refit, groups=groups, seed=settings.study.seed, checkpoint=checkpoint,
        progress=lambda message: progress(f"{name}: {message}"),
    )  # fmt: skip
    progress(f"{name}: {pruning.rejected or f'{len(pruning.kept)} of {responses.n_items} items kept'}")
    if pruning.rejected is not None or pruning.fitted is None:
        return ScaleStudy(name, responses, pruning, None, None)
    fitted = pruning.fitted
    abilities = abilities_of(fitted, answered(responses.select_items(pruning.kept)))
    scale = Scale(
        name=name,
        items=fitted.items,
        details=items.select(pruning.kept),
        norms=norms_of(abilities, norm_columns, settings),
        population=fitted.estimated_population,
        provenance=provenance
        | {
            "fit": fitted.summary(),
            "pruning": [{k: v for k, v in vars(r).items() if v == v} for r in pruning.removals],
        },
    )
    return ScaleStudy(name, responses, pruning, scale, abilities)


def norms_of(abilities: Abilities, columns: pd.DataFrame | None, settings: StudyFile) -> Norms:
    """The norm sample of a scale, with the weights and groups of its respondents."""
    if columns is None:
        return Norms(abilities.theta, standard_error=abilities.standard_error)
    own = columns.loc[list(abilities.respondent_ids)]
    weight = settings.score.norm_weight
    return Norms(
        abilities.theta,
        None if weight is None else weights_of(own, weight, settings.data.respondents or settings.data.answers),
        abilities.standard_error,
        {name: tuple(own[name]) for name in settings.score.norm_columns},
    )


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


def describe_provenance(settings: StudyFile) -> dict[str, Any]:
    """Where results come from: hashes of the files, settings, versions, date and seed."""
    data, score = settings.data, settings.score
    files = [settings.path, data.answers, *(file for file in (data.items, data.respondents) if file is not None)]
    return {
        "data": {file.name: file_hash(file) for file in files},
        "model": asdict(settings.model),
        "pruning_rules": asdict(settings.pruning),
        "screening": asdict(settings.screening),
        "grading": asdict(settings.grading),
        "scoring": asdict(score.scoring(seed=settings.study.seed))
        | {"norm_groups": list(score.norm_columns), "norm_weight": score.norm_weight},
        "seed": settings.study.seed,
        "versions": software_versions(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def file_hash(path: Path) -> str:
    """Hash of a file's bytes, ``sha256:...``."""
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
