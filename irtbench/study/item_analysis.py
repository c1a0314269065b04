"""What a psychometrician looks at first: the items of a scale as they were answered, and how reliable it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from irtbench.bank.scale import Scale
from irtbench.data.grading import GradingSettings, as_compared, normalised_keys
from irtbench.data.items import ItemTable
from irtbench.data.responses import ResponseMatrix
from irtbench.data.shown import Shown, counted
from irtbench.diagnostics.classical import ClassicalStatistics, classical_statistics
from irtbench.diagnostics.distractors import distractor_table
from irtbench.diagnostics.scale_reliability import ScaleReliability, scale_reliability
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
    """Item analysis of a scale; None with fewer than three items, or several trials of an item.

    Parameters
    ----------
    responses
        Of the screened respondents, to the items of the scale and others.
    scale
        The scale retained.
    abilities
        Of the respondents who answered any of its items.
    answers
        Raw answers of these and others; None if there are none.
    items
        All items that were given, with their keys.
    grading
        How they were graded.
    """
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
