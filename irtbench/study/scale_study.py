"""One scale of a study, from the items given to the items kept with their norms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from irtbench.bank.norms import Norms, norm_places
from irtbench.bank.scale import Scale
from irtbench.building.checkpoint import Checkpoint, checkpoint_key
from irtbench.building.pruned import Pruning
from irtbench.building.pruning import prune
from irtbench.config import StudyFile
from irtbench.data.items import ItemTable
from irtbench.data.responses import ResponseMatrix, Responses
from irtbench.estimation.fit import fit_model
from irtbench.estimation.fitted import FittedModel, software_versions
from irtbench.estimation.many_scales.fit_many import fit_many
from irtbench.estimation.threads import threads_for
from irtbench.models.item_parameters import ItemParameters
from irtbench.scoring.item_error import abilities_of
from irtbench.study.norm_columns import norms_of
from irtbench.study.results import FittedToAll, ScaleStudy

CHECKPOINT = "fit_of_all"


Fit = Callable[[Any], FittedModel]  # of Responses


@dataclass(frozen=True, eq=False)
class Everybody:
    """Responses of all respondents where a scale is pruned on a sample of them.

    Parameters
    ----------
    responses
        In memory or on disk, to all items of the study.
    fit
        Fits some of their items; None where the sample is all of them, so that its fit stands.
    """

    responses: Responses
    fit: Fit | None


def study_scale(
    name: str,
    responses: ResponseMatrix,
    items: ItemTable,
    settings: StudyFile,
    provenance: dict[str, Any],
    checkpoint_folder: Path | None,
    progress: Callable[[str], None],
    norm_columns: pd.DataFrame | None = None,
    everybody: Everybody | None = None,
) -> ScaleStudy:
    """Prune one scale, fit what is left to everybody where that is more, and make of it a scale with norms."""
    with threads_for(responses.n_respondents * max(responses.n_items, settings.model.n_nodes)):
        pruning = prune_scale(name, responses, items, settings, checkpoint_folder, progress)
    given = None if everybody is None else everybody.responses.select_items(responses.item_ids)
    of_all = None
    if given is not None:
        n = given.answered().n_respondents
        of_all = FittedToAll(given.item_ids, given.n_by_item, given.n_correct_by_item, n, fitted=None)
    if pruning.rejected is not None or pruning.fitted is None:
        return ScaleStudy(name, responses, pruning, None, None, of_all=of_all)
    fitted, own = pruning.fitted, responses.select_items(pruning.kept).answered()
    if everybody is None or given is None or of_all is None:
        abilities = abilities_of(fitted, own)
        norms = norms_of(abilities, norm_columns, settings)
    else:
        data = given.select_items(pruning.kept).answered()
        if everybody.fit is not None:
            progress(f"{name}: fitting {data.n_items} items to {data.n_respondents} respondents")
            key = checkpoint_key(data, settings.model, settings.study.seed, software_versions())
            once, fit = Checkpoint(checkpoint_folder, key).once, everybody.fit
            fitted = once(CHECKPOINT, FittedModel, lambda: fit(data))
        of_all = replace(of_all, fitted=fitted)
        abilities = abilities_of(fitted, own)
        if everybody.fit is None and norm_columns is None:
            norms = norms_of(abilities, None, settings)
        else:
            norms = norms_of_everybody(fitted, data, norm_columns, settings)
    scale = scale_of(name, pruning, fitted, items, norms, provenance)
    return ScaleStudy(name, responses, pruning, scale, abilities, of_all=of_all)


def norms_of_everybody(
    fitted: FittedModel, data: Responses, columns: pd.DataFrame | None, settings: StudyFile
) -> Norms:
    """The norm sample: the respondents, or so many of them drawn at random as `norm_places` takes."""
    some = data.sample(norm_places(data.n_respondents, fitted.seed))
    return norms_of(abilities_of(fitted, some), columns, settings)


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

    def fit(data: ResponseMatrix, start: ItemParameters | None = None) -> FittedModel:
        return fit_model(data, settings.model, seed=settings.study.seed, start=start)

    def refit_many(samples: Sequence[ResponseMatrix], items: ItemParameters) -> tuple[FittedModel | None, ...]:
        return fit_many(samples, settings.model.for_samples(), seed=settings.study.seed, start=items).fits

    groups = {item: group for item, group in zip(items.item_ids, items.group, strict=True) if group is not None}
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
