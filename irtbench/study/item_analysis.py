"""The items of a scale as they were answered: classical statistics, reliability, options, keys that may be wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from irtbench.analysis.wrong_keys import WrongKeys, wrong_keys
from irtbench.bank.scale import Scale
from irtbench.building.removals import without_constant
from irtbench.data.grading import GradingSettings, as_compared, normalise_answers, normalised_keys
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.data.shown import Shown, counted
from irtbench.diagnostics.distractors import distractor_table
from irtbench.diagnostics.internal_consistency import ClassicalStatistics, classical_statistics
from irtbench.diagnostics.measurement_precision import ScaleReliability, scale_reliability
from irtbench.estimation.fit import fit_model
from irtbench.estimation.fitted import FittedModel
from irtbench.estimation.settings import FitSettings
from irtbench.models.theta_posterior import STANDARD_NORMAL
from irtbench.scoring.ability import Abilities

FEWEST_ITEMS = 3


@dataclass(frozen=True, eq=False)
class ItemAnalysis(Shown):
    """Item analysis of the items kept on one scale, by the screened respondents.

    Parameters
    ----------
    classical
        Classical statistics of each item.
    reliability
        Of the scale.
    options
        Every option of every item, see `distractor_table`; empty where there are no raw answers.
    removed_options
        The same of the items that were removed, by the score on those kept.
    """

    classical: ClassicalStatistics
    reliability: ScaleReliability
    options: pd.DataFrame
    removed_options: pd.DataFrame

    def table(self) -> pd.DataFrame:
        """One row an item, as `ClassicalStatistics.table`."""
        return self.classical.table()

    def in_short(self) -> str:
        """Items and alpha."""
        return f"{counted(len(self.classical.item_ids), 'item')}, alpha {self.reliability.alpha:.2f}"


def analyse_items(
    responses: ResponseMatrix,
    scale: Scale,
    abilities: Abilities,
    answers: pd.DataFrame | None,
    items: ItemTable,
    grading: GradingSettings,
) -> ItemAnalysis | None:
    """Item analysis of a scale; None with fewer than three items, or several trials of an item."""
    data = responses.select_items(scale.items.item_ids).answered()
    if data.trials is not None or data.n_items < FEWEST_ITEMS:
        return None
    reliability = scale_reliability(
        data, scale.items, abilities.theta, abilities.standard_error, population=scale.population or STANDARD_NORMAL
    )
    options = removed_options = pd.DataFrame()
    keys = normalised_keys(items, grading)
    if answers is not None and set(data.item_ids) <= set(keys):
        removed = [item for item in responses.item_ids if item in keys and item not in set(data.item_ids)]
        whole = responses.select_respondents(np.isin(responses.respondent_ids, data.respondent_ids))
        whole = whole.select_items([*data.item_ids, *removed])
        here = answers["item_id"].isin(whole.item_ids) & answers["respondent_id"].isin(data.respondent_ids)
        given = answers[here]
        given = given.assign(answer=as_compared(given["answer"], grading))
        found = distractor_table(given, keys, whole, scored=set(data.item_ids))
        gone = found["item_id"].isin(removed)
        options, removed_options = found[~gone].reset_index(drop=True), found[gone].reset_index(drop=True)
    return ItemAnalysis(classical_statistics(data), reliability, options, removed_options)


def suspected_keys(
    given: pd.DataFrame, known: ItemTable, file: Path, prior: Literal["weak", "hierarchical"] | None, *, seed: int,
    progress: Callable[[str], None],
) -> tuple[WrongKeys, pd.DataFrame, FittedModel]:  # fmt: skip
    """Each item's probability that its key is wrong, an option a row, and the fit."""
    grading = GradingSettings()
    right = normalised_keys(known, grading)
    if without := [item for item in pd.unique(given["item_id"]) if item not in right]:
        raise InputError(f"{file}: no key for item {name_first(without)}; expected one for every item answered")
    # any answer may be the right one here: none is too strange to be an option
    given = given.assign(answer=normalise_answers(given["answer"], grading.normalise))
    correct = (given["answer"] == given["item_id"].map(right)).astype(np.float64)
    responses = ResponseMatrix.from_long(given.assign(response=correct)).answered()
    varied = without_constant(responses)
    chosen = prior or ("hierarchical" if varied.n_items > varied.n_respondents else "weak")
    progress(f"fitting {varied.n_respondents} respondents x {varied.n_items} items")
    fitted = fit_model(varied, FitSettings(prior=chosen, standard_errors=False), seed=seed)
    progress("options of every item")
    found = wrong_keys(given, right, responses, fitted.items, population=fitted.quadrature, seed=seed)
    return found, distractor_table(given, right, responses), fitted
