"""The whole procedure: crowd answers of a study file to scales, bank, norms and scores."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from irtbench.analysis.dimensions import MOST_FACTORS, Dimensions, find_dimensions, shuffled, why_not_counted
from irtbench.bank.bank import NOT_ON_A_SCALE, ItemBank, on_no_scale
from irtbench.bank.norms import MOST_NORMS
from irtbench.bank.scale import Scale
from irtbench.building.prune_rules import Exclusion, without_constant
from irtbench.building.pruned import Checkpoint, Pruning, checkpoint_key
from irtbench.building.pruning import prune
from irtbench.config import StudyFile, StudySettings
from irtbench.data.items import ItemTable
from irtbench.data.place import file_hash
from irtbench.data.response_blocks import Sampled, some_respondents
from irtbench.data.responses import ResponseMatrix, Responses
from irtbench.data.screening import Screening, ScreeningOutcomes
from irtbench.estimation.fitted import FittedModel, software_versions
from irtbench.estimation.settings import Device
from irtbench.estimation.threads import threads_for
from irtbench.scoring.item_error import abilities_of
from irtbench.scoring.scores import score_responses
from irtbench.study.item_analysis import analyse_items
from irtbench.study.person_screening import (
    agreement_of_kept,
    fits_of_study,
    screen_respondents,
    screening_of,
)
from irtbench.study.results import FittedToAll, ScaleStudy, Study, StudySample
from irtbench.study.screening_effect import (
    ScreeningEffect,
    agreement_on,
    effect_of_screening,
    exclusions_by_ability,
)
from irtbench.study.study_data import (
    Categories,
    Fit,
    StudyData,
    check_named_items,
    columns_of_norms,
    divide,
    fit_of_study,
    in_own_categories,
    norms_of,
    read_data,
    refit_of_study,
    with_prior_of_grades,
)
from irtbench.study.systems import SystemsRead, read_systems, score_systems, study_forms

CHECKPOINT = "fit_of_all"
OF_TRIALS = (
    "k right of n; M2 and the number of abilities are of one response each and left open, local dependence has the p "
    "of a bootstrap alone"
)


@dataclass(frozen=True, eq=False)
class AllScales:
    """What the scales of a study share.

    Everybody is given where items leave by a sample; `fit` fits what is left to them, else its own fit is kept.
    """

    settings: StudyFile
    data: StudyData
    provenance: dict[str, Any]
    progress: Callable[[str], None]
    norm_columns: pd.DataFrame | None = None
    everybody: Responses | None = None
    fit: Fit | None = None
    categories: Categories | None = None


def study_scale(name: str, responses: ResponseMatrix, scales: AllScales, folder: Path | None) -> ScaleStudy:
    """Prune one scale on a sample of everybody, if there is one; fit what is left to them, with norms and analysis."""
    settings = scales.settings
    with threads_of(responses, settings):
        pruning = prune_scale(name, responses, scales, folder)
    of_all = None
    if scales.everybody is not None:
        given = scales.everybody.select_items(responses.item_ids)
        of_all = FittedToAll(
            given.item_ids, given.n_by_item, given.n_correct_by_item, given.answered().n_respondents, fitted=None
        )
    if pruning.rejected is not None or pruning.fitted is None:
        return ScaleStudy(name, responses, pruning, None, None, of_all=of_all)
    fitted, own, in_norms = pruning.fitted, responses.select_items(pruning.kept).answered(), None
    if of_all is not None:
        data = given.select_items(pruning.kept).answered()
        if scales.fit is not None:
            scales.progress(f"{name}: fitting {data.n_items} items to {data.n_respondents} respondents")
            key = checkpoint_key(data, settings.model, settings.study.seed, software_versions())
            fitted = Checkpoint(folder, key).once(CHECKPOINT, FittedModel, partial(scales.fit, data))
        of_all = replace(of_all, fitted=fitted)
        if scales.fit is not None or scales.norm_columns is not None:
            in_norms = some_respondents(data, MOST_NORMS, fitted.seed)[1]
    abilities = abilities_of(fitted, own)
    norms = norms_of(abilities if in_norms is None else abilities_of(fitted, in_norms), scales.norm_columns, settings)
    about = {name: value for name, value in fitted.summary().items() if name != "seconds"}
    removals = [{k: v for k, v in vars(r).items() if v == v} for r in pruning.removals]
    scale = Scale(
        name=name,
        items=fitted.items,
        details=scales.data.items.select(pruning.kept),
        norms=norms,
        population=fitted.estimated_population,
        provenance=scales.provenance | {"fit": about, "pruning": removals},
        joint_error=fitted.joint_error,
    )
    with threads_of(responses, settings):
        analysis = analyse_items(responses, scale, abilities, scales.data.answers, scales.data.items, settings.grading)
    return ScaleStudy(name, responses, pruning, scale, abilities, analysis, of_all)


def prune_scale(name: str, responses: ResponseMatrix, scales: AllScales, folder: Path | None) -> Pruning:
    """The items of a scale that the rules keep."""
    settings, categories, here = scales.settings, scales.categories, set(responses.item_ids)
    rules, items = settings.pruning, scales.data.items
    exclude = {e.item_id: e for e in rules.exclude if e.item_id in here}
    known = {} if categories is None else {item: categories[item] for item in responses.item_ids if item not in exclude}
    exclude |= {item: Exclusion(item, f"all scores are {own[0]}") for item, own in known.items() if len(own) == 1}
    rules = replace(
        rules, exclude=tuple(exclude.values()), protect=tuple(item for item in rules.protect if item in here)
    )
    groups = {item: group for item, group in zip(items.item_ids, items.group, strict=True) if group is not None}
    depends_on: tuple[Any, ...] = (rules, settings.model, settings.study.seed, groups, software_versions())
    if categories is not None:
        depends_on += (settings.grades, categories)
    pruning = prune(
        responses, fit_of_study(settings, categories), rules, groups=groups, seed=settings.study.seed,
        device=settings.model.device, checkpoint=Checkpoint(folder, checkpoint_key(responses, *depends_on)),
        progress=lambda message: scales.progress(f"{name}: {message}"), **refit_of_study(settings, categories),
    )  # fmt: skip
    scales.progress(f"{name}: {pruning.rejected or f'{len(pruning.kept)} of {responses.n_items} items kept'}")
    return pruning


def run_study(
    settings: StudyFile,
    *,
    control: bool = False,
    sample: int | None = None,
    checkpoints: Path | None = None,
    progress: Callable[[str], None] = lambda message: None,
) -> Study:
    r"""Read, grade, screen, divide into scales, prune each, and score.

    All files are read and all settings checked before anything is fitted.

    Parameters
    ----------
    settings
        A study file, see `config.read_study`.
    control
        Shuffle each item's responses among the respondents who answered it: a negative control, in which no scale is
        to be found.
    sample
        Most respondents, drawn by the study's seed, by whom items leave; those left are fitted to all. None for all.
    checkpoints
        Folder for finished steps, with a folder a scale; what is found there is not computed again.
    progress
        Called with a line about each step.

    Raises
    ------
    InputError
        If the data or the settings do not fit together.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> from pathlib import Path
    >>> responses.to_long().to_csv("answers.csv", index=False)
    >>> _ = Path("study.toml").write_text(
    ...     '[data]\nanswers = "answers.csv"\ncontent = "responses"\n[pruning]\npreset = "none"\n'
    ... )
    >>> study = irtbench.run_study(irtbench.read_study(Path("study.toml")))
    >>> study
    <Study: Untitled study, 300 of 300 respondents kept, 1 scale>
    >>> study.bank
    <ItemBank: 1 scale: all (6 items)>
    """
    began = time.perf_counter()
    progress(f"reading {settings.data.answers}")
    data = replace(read_data(settings), sample=sample)
    study, _ = carry_out(settings, data, control=control, checkpoints=checkpoints, progress=progress)
    return replace(study, seconds=time.perf_counter() - began)


def carry_out(
    settings: StudyFile,
    data: StudyData,
    *,
    control: bool = False,
    checkpoints: Path | None = None,
    fit: Fit | None = None,
    each: Callable[[Screening], None] = lambda screening: None,
    progress: Callable[[str], None] = lambda message: None,
) -> tuple[Study, Responses]:
    """The study of these data, and the responses of all whom screening kept, to all items.

    All are screened; items leave by a sample, if there is one, and what is left is fitted to all. Of responses on disk
    memory does not grow with the number of respondents but for some bytes of each.
    """
    items, parts = data.items, divide(data.items, settings)
    check_named_items(parts, settings)
    systems_read = read_systems(settings, items)
    crowd = screened_crowd(settings, data, each, progress)
    chosen, drawn = crowd.chosen, crowd.drawn
    settings = settings_for(chosen, settings, crowd.categories, control=control)
    shared = AllScales(
        settings, data, describe_provenance(settings, data.named) | drawn.stated, progress,
        columns_of_norms(settings, data.respondents, crowd.kept, progress),
        crowd.kept if crowd.is_sampled and not control else None,
        fit_of_study(settings, crowd.categories) if fit is None and not drawn.is_all else fit, crowd.categories,
    )  # fmt: skip
    if control:
        chosen = shuffled(chosen, np.random.default_rng(settings.study.seed))
    agreement, agreement_by_label = agreement_of_kept(settings, data, crowd.screening)
    with threads_of(chosen, settings):
        dimensions, no_dimensions = (
            study_dimensions(chosen, parts, settings.study, checkpoints, progress, device=settings.model.device)
            if settings.pruning.compare_factors
            else (None, "")
        )
    scales = [
        study_scale(name, chosen.select_items(item_ids).answered(), shared, checkpoints and checkpoints / f"scale_{n}")
        for n, (name, item_ids) in enumerate(parts.items(), start=1)
    ]
    bank = bank_of(scales, items, settings)
    fits = {scale.name: scale.fitted for scale in scales if scale.scale is not None and scale.fitted is not None}
    study = Study(
        settings=settings,
        items=items,
        screening=crowd.screening,
        exclusions_by_ability=() if control else exclusions_by_ability(crowd.screening, crowd.screened, fits),
        agreement=agreement,
        agreement_by_label=agreement_by_label,
        scales=tuple(scales),
        bank=bank,
        provenance=shared.provenance,
        dimensions=dimensions,
        no_dimensions=no_dimensions,
        sample=StudySample(drawn, crowd.outcomes) if crowd.is_sampled else None,
    )
    if bank is not None:
        progress("scoring")
        study = scored(study, bank, chosen, systems_read, forms=not control)
    if study.exclusions_by_ability or (settings.study.screening_effect and not control):
        progress("what screening changes")
        study = replace(study, screening_effect=crowd.effect(data, parts, settings))
    return study, crowd.kept


@dataclass(frozen=True, eq=False)
class ScreenedCrowd:
    """Whom screening kept, those of them by whom items leave, and those whose screening is reported."""

    kept: Responses
    categories: Categories | None
    outcomes: ScreeningOutcomes
    drawn: Sampled
    chosen: ResponseMatrix
    screened: ResponseMatrix
    screening: Screening

    @property
    def is_sampled(self) -> bool:
        """Whether items leave by a sample, or by responses that were read from disk."""
        return self.kept.on_disk or not self.drawn.is_all

    def effect(self, data: StudyData, parts: Mapping[str, Sequence[str]], settings: StudyFile) -> ScreeningEffect:
        """What screening changes in the scales."""
        with threads_of(self.chosen, settings):
            return effect_of_screening(
                self.screening, self.screened, parts,
                lambda chosen: fits_of_study(chosen, settings, data, errors=settings.model.standard_errors),
                lambda chosen: agreement_on(data.answers, data.items, chosen, settings.grading),
            )  # fmt: skip


def screened_crowd(
    settings: StudyFile, data: StudyData, each: Callable[[Screening], None], progress: Callable[[str], None]
) -> ScreenedCrowd:
    """Screen all respondents, and draw the sample."""
    if data.responses.trials is not None and data.categories is None:
        progress(f"up to {int(data.responses.trials.max())} trials of an item: {OF_TRIALS}")
    screened = screen_respondents(settings, data, sample=data.sample, each=each, progress=progress)
    kept, categories = in_own_categories(data.responses.select_respondents(screened.kept), data.categories)
    progress(f"screening: {kept.n_respondents} of {screened.outcomes.n} respondents kept")
    drawn, chosen = some_respondents(kept, data.sample, settings.study.seed)
    if not drawn.is_all:
        progress(f"pruning on {drawn}")
    some, screening = data.responses, screened.last
    if not isinstance(some, ResponseMatrix):
        _, some = some_respondents(some, data.sample, settings.study.seed)
        screening = screening_of(some, settings, data, screened.fits)
    return ScreenedCrowd(kept, categories, screened.outcomes, drawn, chosen, some, screening)


def threads_of(responses: ResponseMatrix, settings: StudyFile) -> AbstractContextManager[None]:
    """As many threads as there is to compute for a fit to these responses."""
    return threads_for(responses.n_respondents * max(responses.n_items, settings.model.n_nodes))


def settings_for(
    responses: ResponseMatrix, settings: StudyFile, categories: Categories | None, *, control: bool
) -> StudyFile:
    """The settings as they are for these responses: the prior of grades, and what missing responses rule out."""
    if settings.grades is not None:
        settings = with_prior_of_grades(settings, responses)
    if not (categories is not None or responses.trials is None) or not responses.observed.all():
        settings = replace(settings, pruning=settings.pruning.by_bootstrap())
    if control:
        settings = replace(settings, pruning=replace(settings.pruning, compare_factors=False))
    return settings


def scored(study: Study, bank: ItemBank, responses: ResponseMatrix, systems: SystemsRead, *, forms: bool) -> Study:
    """The study with the scores of its respondents and systems, and its short forms."""
    settings = study.settings
    with threads_of(responses, settings):
        found = score_systems(bank, settings, systems)
        return replace(
            study,
            forms=study_forms(bank, settings) if forms else None,
            respondent_scores=score_responses(bank, responses, settings.scoring, unknown_items="ignore"),
            system_scores=found.scores,
            system_explanation=found.explanation,
            group_percentiles=found.group_percentiles,
        )


def bank_of(scales: Sequence[ScaleStudy], items: ItemTable, settings: StudyFile) -> ItemBank | None:
    """The scales retained, which say what items of the study are on none; None if none is."""
    rejected = {scale.name: scale.responses.item_ids for scale in scales if scale.scale is None}
    others = {NOT_ON_A_SCALE: on_no_scale(items, rejected)}
    retained = tuple(
        replace(scale.scale, provenance={**scale.scale.provenance, **others})
        for scale in scales
        if scale.scale is not None
    )
    return ItemBank(retained, settings.card) if retained else None


def study_dimensions(
    responses: ResponseMatrix,
    parts: dict[str, tuple[str, ...]],
    study: StudySettings,
    folder: Path | None,
    progress: Callable[[str], None],
    *,
    device: Device = "auto",
) -> tuple[Dimensions | None, str]:
    """Number of abilities of all items together, with models of up to so many factors; or None and why not."""
    label_of = {item: name for name, item_ids in parts.items() for item in item_ids}
    data = without_constant(responses.select_items(list(label_of)))
    labels = [label_of[item] for item in data.item_ids]
    if why_not := why_not_counted(data, MOST_FACTORS + 1):
        progress(f"number of abilities: not counted, since {why_not}")
        return None, why_not
    seed, factors = study.seed, study.factors
    return Checkpoint(folder, checkpoint_key(data, labels, seed, factors, software_versions())).once(
        "dimensions", Dimensions,
        lambda: find_dimensions(data, labels, max_factors=factors, seed=seed, device=device, progress=progress),
    ), ""  # fmt: skip


def describe_provenance(settings: StudyFile, answers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Where results come from: hashes of the files, settings, versions, date and seed.

    `answers` are the name and hash of the answers, where these are no file.
    """
    data, score = settings.data, settings.score
    files = [settings.path, data.answers if answers is None else None, data.items, data.respondents]
    return {
        "data": {file.name: file_hash(file) for file in files if file is not None} | dict(answers or {}),
        "model": asdict(settings.model) | ({} if settings.grades is None else {"kind": settings.grades}),
        "pruning_rules": asdict(settings.pruning),
        "screening": asdict(settings.screening),
        "grading": asdict(settings.grading),
        "scoring": asdict(settings.scoring)
        | {"norm_groups": list(score.norm_columns), "norm_weight": score.norm_weight}
        | ({"norm_margins": score.norm_margins} if score.norm_margins else {}),
        "seed": settings.study.seed,
        "versions": software_versions(),
        "date": datetime.now(UTC).date().isoformat(),
    }
