"""One scale of a study, from the items given to the items kept with their norms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from irtbench.bank.norms import Norms
from irtbench.bank.scale import Scale
from irtbench.building.checkpoint import Checkpoint, checkpoint_key
from irtbench.building.pruned import Pruning
from irtbench.building.pruning import prune
from irtbench.config import StudyFile
from irtbench.data.items import ItemTable
from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.fit import fit_model
from irtbench.estimation.fitted import FittedModel, software_versions
from irtbench.estimation.many_scales.fit_many import fit_many
from irtbench.models.item_parameters import ItemParameters
from irtbench.scoring.item_error import abilities_of
from irtbench.study.norm_columns import norms_of
from irtbench.study.results import ScaleStudy


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
    pruning = prune_scale(name, responses, items, settings, checkpoint_folder, progress)
    if pruning.rejected is not None or pruning.fitted is None:
        return ScaleStudy(name, responses, pruning, None, None)
    abilities = abilities_of(pruning.fitted, responses.select_items(pruning.kept).answered())
    norms = norms_of(abilities, norm_columns, settings)
    return ScaleStudy(
        name, responses, pruning, scale_of(name, pruning, pruning.fitted, items, norms, provenance), abilities
    )


def prune_scale(
    name: str,
    responses: ResponseMatrix,
    items: ItemTable,
    settings: StudyFile,
    checkpoint_folder: Path | None,
    progress: Callable[[str], None],
) -> Pruning:
    """The items of a scale that the rules keep."""
    here = set(responses.item_ids)
    rules = settings.pruning
    rules = replace(
        rules,
        exclude=tuple(e for e in rules.exclude if e.item_id in here),
        protect=tuple(item for item in rules.protect if item in here),
    )

    def fit(data: ResponseMatrix) -> FittedModel:
        return fit_model(data, settings.model, seed=settings.study.seed)

    def refit_many(samples: Sequence[ResponseMatrix], items: ItemParameters) -> tuple[FittedModel | None, ...]:
        return fit_many(samples, settings.model.for_samples(), seed=settings.study.seed, start=items).fits

    groups = {item: group for item, group in zip(items.item_ids, items.group, strict=True) if group is not None}
    checkpoint = None
    if checkpoint_folder is not None:
        depends_on = (rules, settings.model, settings.study.seed, groups, software_versions())
        checkpoint = Checkpoint(checkpoint_folder, checkpoint_key(responses, *depends_on))
    pruning = prune(
        responses, fit, rules, refit_many=refit_many, groups=groups, seed=settings.study.seed,
        device=settings.model.device, checkpoint=checkpoint,
        progress=lambda message: progress(f"{name}: {message}"),
    )  # fmt: skip
    progress(f"{name}: {pruning.rejected or f'{len(pruning.kept)} of {responses.n_items} items kept'}")
    return pruning


def scale_of(
    name: str, pruning: Pruning, fitted: FittedModel, items: ItemTable, norms: Norms, provenance: dict[str, Any]
) -> Scale:
    """The items kept as a scale, with their last fit."""
    return Scale(
        name=name,
        items=fitted.items,
        details=items.select(pruning.kept),
        norms=norms,
        population=fitted.estimated_population,
        provenance=provenance
        | {
            "fit": {name: value for name, value in fitted.summary().items() if name != "seconds"},
            "pruning": [{k: v for k, v in vars(r).items() if v == v} for r in pruning.removals],
        },
        joint_error=fitted.joint_error,
    )
