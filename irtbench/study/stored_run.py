"""The whole procedure where responses are on disk: all are screened and fitted, and items leave by a sample."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from irtbench.analysis.parallel_analysis import shuffled
from irtbench.config import StudyFile
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.respondent_sample import draw_respondents
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.data.screening import Screening, demand_given
from irtbench.data.stored_responses import StoredResponses
from irtbench.estimation.fit import setting_in_memory
from irtbench.estimation.threads import threads_for
from irtbench.scoring.scores import score_responses
from irtbench.study.division import check_named_items, check_published, divide
from irtbench.study.item_analysis import analyse_items
from irtbench.study.number_of_abilities import study_dimensions
from irtbench.study.provenance import describe_provenance
from irtbench.study.results import ScaleStudy, Study, StudySample
from irtbench.study.run import bank_of
from irtbench.study.scale_study import study_scale
from irtbench.study.screening_effect import screening_effect
from irtbench.study.short_forms import study_forms
from irtbench.study.stored_scale import Fit, study_stored_scale
from irtbench.study.stored_screening import screen_stored, screening_of_some
from irtbench.study.study_data import read_items_given
from irtbench.study.systems import read_systems, score_systems


@dataclass(frozen=True, eq=False)
class StoredStudy:
    """What a study found whose responses are on disk.

    Parameters
    ----------
    study
        What it found; its respondents are a sample.
    kept
        Responses of all respondents whom screening kept, to all items.
    """

    study: Study
    kept: StoredResponses


def needs_memory(settings: StudyFile) -> str:
    """The first key of a study file that needs all responses, or more than responses, in memory; empty if none does."""
    score = settings.score
    norms = {
        "score.norm_groups": score.norm_groups,
        "score.norm_group": score.norm_group,
        "score.norm_margins": score.norm_margins,
        "score.norm_weight": score.norm_weight,
    }
    needs = {
        "data.respondents": settings.data.respondents is not None,
        "screening.min_approval": settings.screening.min_approval is not None,
        **{name: bool(given) for name, given in norms.items()},
    }
    if named := next((name for name, asked in needs.items() if asked), ""):
        return named
    of_model = setting_in_memory(settings.model)
    return of_model and f"model.{of_model.replace(' ', ' = ')}"


def run_stored_study(
    settings: StudyFile,
    responses: StoredResponses,
    *,
    sample: int,
    source: str,
    answers: Mapping[str, str] | None = None,
    control: bool = False,
    checkpoints: Path | None = None,
    fit: Fit | None = None,
    each: Callable[[Screening], None] = lambda screening: None,
    progress: Callable[[str], None] = lambda message: None,
) -> StoredStudy:
    """Screen, divide into scales, prune each on a sample, fit what is left to all, and score the systems.

    Memory does not grow with the number of respondents but for some bytes of each.

    Parameters
    ----------
    settings
        A study file of graded responses.
    responses
        These responses.
    sample
        Most respondents of the samples that are drawn, by the study's seed.
    source
        A hash of what the responses were made of.
    answers
        Name and hash of these where they are no file of this machine.
    control
        As of `run_study`; nothing is fitted to all respondents then.
    checkpoints
        Folder for finished steps, with a folder a scale; what is found there is not computed again.
    fit
        Fits all respondents, where that is not done here alone.
    each
        Called with the screening of some respondents after the other.
    progress
        Called with a line about each step.

    Raises
    ------
    InputError
        If the data or the settings do not fit together.
    """
    began, seed = time.perf_counter(), settings.study.seed
    items, responses = _with_items(settings, responses)
    demand_given(settings.screening, items)
    parts = divide(items, settings)
    check_named_items(parts, settings)
    check_published(parts, settings)
    systems_read = read_systems(settings, items)
    screening = screen_stored(responses, items, settings, sample=sample, each=each, progress=progress)
    kept = responses.select_respondents(screening.kept)
    drawn, places = draw_respondents(kept.n_respondents, sample, seed)
    progress(f"screening: {kept.n_respondents} of {screening.outcomes.n} respondents kept")
    progress(f"pruning on {drawn}" if not drawn.is_all else "pruning on all of them")
    screened = kept.to_matrix() if drawn.is_all else kept.sample(places)
    if control:
        screened = shuffled(screened, np.random.default_rng(seed))
        settings = replace(settings, pruning=replace(settings.pruning, compare_factors=False))
    provenance = describe_provenance(settings, answers) | drawn.stated
    some = _some(responses, sample, seed)
    of_some = screening_of_some(some, items, settings.screening, screening.fits)
    effect = dimensions = None
    no_dimensions = ""
    with threads_for(screened.n_respondents * max(screened.n_items, settings.model.n_nodes)):
        if settings.study.screening_effect and not control:
            progress("what screening changes")
            effect = screening_effect(of_some, some, items, parts, settings.model, seed=seed)
        if settings.pruning.compare_factors:
            dimensions, no_dimensions = study_dimensions(
                screened, parts, seed, checkpoints, progress, settings.study.factors
            )
    scales: list[ScaleStudy] = []
    for name, item_ids in parts.items():
        part = screened.select_items(item_ids).answered()
        folder = None if checkpoints is None else checkpoints / f"scale_{len(scales) + 1}"
        if control:
            scales.append(study_scale(name, part, items, settings, provenance, folder, progress))
            continue
        found = study_stored_scale(
            name, part, kept.select_items(item_ids), items, settings, provenance, source, folder, progress, fit
        )
        if found.scale is not None and found.abilities is not None:
            analysis = analyse_items(part, found.scale, found.abilities, None, items, settings.grading)
            found = replace(found, analysis=analysis)
        scales.append(found)
    bank = bank_of(scales, items, settings)
    respondent_scores = systems = forms = None
    if bank is not None and not control:
        if settings.forms is not None:
            progress("choosing the items of the forms")
            forms = study_forms(bank, settings)
        scoring = settings.score.scoring(seed=seed)
        respondent_scores = score_responses(bank, screened, scoring, unknown_items="ignore")
        systems = score_systems(bank, settings, systems_read)
    study = Study(
        settings=settings,
        items=items,
        screening=of_some,
        screening_effect=effect,
        agreement=None,
        agreement_by_label={},
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
        forms=forms,
        sample=StudySample(drawn, screening.outcomes),
    )
    return StoredStudy(study, kept)


def _with_items(settings: StudyFile, responses: StoredResponses) -> tuple[ItemTable, StoredResponses]:
    """The items of the study, and the responses to them in their order."""
    items = read_items_given(settings)
    if items is None:
        return ItemTable.plain(responses.item_ids), responses
    known = set(items.item_ids)
    unknown = [item for item in responses.item_ids if item not in known]
    if unknown and not settings.data.where:
        raise InputError(f"responses: unknown item {name_first(unknown)}")
    return items, responses.with_items(items.item_ids)


def _some(responses: StoredResponses, sample: int, seed: int) -> ResponseMatrix:
    """Some of all respondents."""
    drawn, places = draw_respondents(responses.n_respondents, sample, seed)
    return responses.to_matrix() if drawn.is_all else responses.sample(places)
