"""The whole procedure: crowd answers of a study file to scales, bank, norms and scores."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from irtbench.analysis.parallel_analysis import shuffled
from irtbench.bank.bank import ItemBank
from irtbench.bank.left_out import NOT_ON_A_SCALE, on_no_scale
from irtbench.config import StudyFile
from irtbench.data.items import ItemTable
from irtbench.estimation.threads import threads_for
from irtbench.scoring.scores import score_responses
from irtbench.study.division import check_named_items, check_published, divide
from irtbench.study.item_analysis import analyse_items
from irtbench.study.kept_respondents import agreement_of_kept, screen_respondents
from irtbench.study.norm_columns import columns_of_norms
from irtbench.study.number_of_abilities import study_dimensions
from irtbench.study.provenance import describe_provenance
from irtbench.study.results import ScaleStudy, Study
from irtbench.study.scale_study import study_scale
from irtbench.study.screening_effect import exclusions_by_ability, screening_effect
from irtbench.study.short_forms import study_forms
from irtbench.study.study_data import read_data
from irtbench.study.systems import read_systems, score_systems


def run_study(
    settings: StudyFile,
    *,
    control: bool = False,
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
    data = read_data(settings)
    if data.responses.trials is not None:
        progress(
            f"up to {int(data.responses.trials.max())} trials of an item: k right of n; M2 and the number of abilities "
            "are of one response each and left open, local dependence has the p of a bootstrap alone"
        )
    parts = divide(data.items, settings)
    check_named_items(parts, settings)
    check_published(parts, settings)
    systems_read = read_systems(settings, data.items)
    screening = screen_respondents(settings, data)
    screened = data.responses.select_respondents(screening.kept)
    progress(f"screening: {screened.n_respondents} of {data.responses.n_respondents} respondents kept")
    if screened.trials is not None or not screened.is_complete:
        settings = replace(settings, pruning=settings.pruning.by_bootstrap())
    norm_columns = columns_of_norms(settings, data.respondents, data.respondents_from, screened, progress)
    if control:
        screened = shuffled(screened, np.random.default_rng(settings.study.seed))
        settings = replace(settings, pruning=replace(settings.pruning, compare_factors=False))
    overall, by_label = agreement_of_kept(settings, data, screening)
    provenance = describe_provenance(settings)
    with threads_for(screened.n_respondents * max(screened.n_items, settings.model.n_nodes)):
        dimensions, no_dimensions = None, ""
        if settings.pruning.compare_factors:
            dimensions, no_dimensions = study_dimensions(
                screened,
                parts,
                settings.study.seed,
                checkpoints,
                progress,
                settings.study.factors,
                settings.model.device,
            )
        scales: list[ScaleStudy] = []
        for name, item_ids in parts.items():
            part = screened.select_items(item_ids).answered()
            folder = None if checkpoints is None else checkpoints / f"scale_{len(scales) + 1}"
            found = study_scale(name, part, data.items, settings, provenance, folder, progress, norm_columns)
            if found.scale is not None and found.abilities is not None:
                analysis = analyse_items(part, found.scale, found.abilities, data.answers, data.items, settings.grading)
                found = replace(found, analysis=analysis)
            scales.append(found)
        bank = bank_of(scales, data.items, settings)
        respondent_scores = systems = forms = None
        if bank is not None:
            if settings.forms is not None and not control:
                progress("choosing the items of the forms")
                forms = study_forms(bank, settings)
            progress("scoring")
            scoring = settings.score.scoring(seed=settings.study.seed)
            respondent_scores = score_responses(bank, screened, scoring, unknown_items="ignore")
            systems = score_systems(bank, settings, systems_read)
        fits = {scale.name: scale.fitted for scale in scales if scale.scale is not None and scale.fitted is not None}
        by_ability = () if control else exclusions_by_ability(screening, data.responses, fits)
        effect = None
        if by_ability or (settings.study.screening_effect and not control):
            progress("what screening changes")
            effect = screening_effect(
                screening, data.responses, data.items, parts, settings.model, answers=data.answers,
                seed=settings.study.seed,
            )  # fmt: skip
    return Study(
        settings=settings,
        items=data.items,
        screening=screening,
        screening_effect=effect,
        exclusions_by_ability=by_ability,
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
        forms=forms,
    )


def bank_of(scales: Sequence[ScaleStudy], items: ItemTable, settings: StudyFile) -> ItemBank | None:
    """The scales retained, which say what items of the study are on none; None if none is."""
    rejected = {scale.name: scale.responses.item_ids for scale in scales if scale.scale is None}
    others = {NOT_ON_A_SCALE: on_no_scale(items, rejected)}
    standing = tuple(
        replace(scale.scale, provenance={**scale.scale.provenance, **others})
        for scale in scales
        if scale.scale is not None
    )
    return ItemBank(standing, settings.card) if standing else None
