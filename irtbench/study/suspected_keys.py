"""Keys that may be wrong: the items fitted as they are keyed, and the options that the able choose."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from irtbench.analysis.wrong_keys import WrongKeys, wrong_keys
from irtbench.building.removals import constant_items
from irtbench.data.grading import GradingSettings, normalise_answers, normalised_keys
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.diagnostics.distractors import distractor_table
from irtbench.estimation.fit import fit_model
from irtbench.estimation.fitted import FittedModel
from irtbench.estimation.settings import FitSettings


def suspected_keys(
    given: pd.DataFrame, known: ItemTable, file: Path, prior: Literal["weak", "hierarchical"] | None, *, seed: int,
    progress: Callable[[str], None],
) -> tuple[WrongKeys, pd.DataFrame, FittedModel]:  # fmt: skip
    """Each item's probability that its key is wrong, an option a row, and the fit.

    Raises
    ------
    InputError
        If an item answered has no key in the table of items, which this file holds.
    """
    grading = GradingSettings()
    right = normalised_keys(known, grading)
    if without := [item for item in pd.unique(given["item_id"]) if item not in right]:
        raise InputError(f"{file}: no key for item {name_first(without)}; expected one for every item answered")
    # any answer may be the right one here: none is too strange to be an option
    given = given.assign(answer=normalise_answers(given["answer"], grading.normalise))
    correct = (given["answer"] == given["item_id"].map(right)).astype(np.float64)
    responses = ResponseMatrix.from_long(given.assign(response=correct)).answered()
    constant = {removal.item_id for removal in constant_items(responses)}
    varied = responses.select_items([item for item in responses.item_ids if item not in constant])
    chosen = prior or ("hierarchical" if varied.n_items > varied.n_respondents else "weak")
    progress(f"fitting {varied.n_respondents} respondents x {varied.n_items} items")
    fitted = fit_model(varied, FitSettings(prior=chosen, standard_errors=False), seed=seed)
    progress("options of every item")
    found = wrong_keys(given, right, responses, fitted.items, population=fitted.quadrature, seed=seed)
    return found, distractor_table(given, right, responses), fitted
