"""One scale of a study whose responses are on disk: pruned on a sample, its last fit and its norms of everybody."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from irtbench.bank.norms import Norms, norm_places
from irtbench.building.checkpoint import Checkpoint
from irtbench.config import StudyFile
from irtbench.data.items import ItemTable
from irtbench.data.responses import ResponseMatrix
from irtbench.data.stored_responses import StoredResponses
from irtbench.estimation.fit import fit_model
from irtbench.estimation.fitted import FittedModel, software_versions
from irtbench.estimation.threads import threads_for
from irtbench.scoring.item_error import abilities_of
from irtbench.study.results import FittedToAll, ScaleStudy
from irtbench.study.scale_study import prune_scale, scale_of

CHECKPOINT = "fit_of_all"

Fit = Callable[[StoredResponses], FittedModel]


def study_stored_scale(
    name: str,
    sample: ResponseMatrix,
    everybody: StoredResponses,
    items: ItemTable,
    settings: StudyFile,
    provenance: dict[str, Any],
    source: str,
    checkpoint_folder: Path | None,
    progress: Callable[[str], None],
    fit: Fit | None = None,
) -> ScaleStudy:
    """Prune a scale on a sample of the respondents, and fit what is left to all of them.

    Parameters
    ----------
    name
        The scale.
    sample, everybody
        Responses to its items of some respondents, in memory, and of all, on disk.
    items, settings, provenance
        The items, the study file, and where the results come from.
    source
        A hash of what the responses on disk were made of.
    checkpoint_folder
        Where finished steps are kept; None for nowhere.
    progress
        Called with a line about each step.
    fit
        Fits all respondents, as `fit_model` with the study's settings does; None for that.
    """
    with threads_for(sample.n_respondents * max(sample.n_items, settings.model.n_nodes)):
        pruning = prune_scale(name, sample, items, settings, checkpoint_folder, progress)
    n_respondents = everybody.answered().n_respondents
    of_all = FittedToAll(
        everybody.item_ids, everybody.n_by_item, everybody.n_correct_by_item, n_respondents, fitted=None
    )
    if pruning.rejected is not None or pruning.fitted is None:
        return ScaleStudy(name, sample, pruning, None, None, of_all=of_all)
    data = everybody.select_items(pruning.kept).answered()
    progress(f"{name}: fitting {data.n_items} items to {data.n_respondents} respondents")
    with threads_for(data.n_respondents * max(data.n_items, settings.model.n_nodes)):
        fitted = _fitted(data, settings, source, checkpoint_folder, fit or partial(fit_as_set, settings))
        norms = norms_of_stored(fitted, data)
    abilities = abilities_of(fitted, sample.select_items(pruning.kept).answered())
    scale = scale_of(name, pruning, fitted, items, norms, provenance)
    return ScaleStudy(name, sample, pruning, scale, abilities, of_all=replace(of_all, fitted=fitted))


def norms_of_stored(fitted: FittedModel, data: StoredResponses) -> Norms:
    """The norm sample: the respondents, or so many of them drawn at random as `norm_places` takes."""
    places = norm_places(data.n_respondents, fitted.seed)
    some = ResponseMatrix.from_coded(data.at(places), tuple(map(str, places)), data.item_ids)
    abilities = abilities_of(fitted, some)
    return Norms(abilities.theta, standard_error=abilities.standard_error)


def fit_as_set(settings: StudyFile, data: StoredResponses) -> FittedModel:
    """The fit that a study file asks for."""
    return fit_model(data, settings.model, seed=settings.study.seed)


def _fitted(data: StoredResponses, settings: StudyFile, source: str, folder: Path | None, fit: Fit) -> FittedModel:
    """The fit, or that which an interrupted run has left."""
    if folder is None:
        return fit(data)
    digest = hashlib.sha256(source.encode())
    for chosen in (data.places, data.n_by_item, data.n_correct_by_item):
        digest.update(b"all" if chosen is None else chosen.tobytes())
    digest.update(repr((data.item_ids, settings.model, settings.study.seed, software_versions())).encode())
    checkpoint = Checkpoint(folder, digest.hexdigest())
    found = checkpoint.load(CHECKPOINT, FittedModel)
    if found is None:
        found = fit(data)
        checkpoint.save(CHECKPOINT, found)
    return found
