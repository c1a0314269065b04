"""Several trials of a respondent at an item, one row each, as numbers right of numbers asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError

MOST_TRIALS = 1_000_000  # of a respondent at an item


def wrong_counts(right: NDArray[Any], asked: NDArray[Any]) -> NDArray[np.bool_]:
    """Where these are no whole number right of a whole number of trials, or the trials are too many."""
    wrong = (right < 0) | (right > asked) | (asked > MOST_TRIALS)
    wrong |= (right != np.floor(right)) | (asked != np.floor(asked))
    return wrong


def trial_counts(table: pd.DataFrame) -> pd.DataFrame | None:
    """A row for each pair with ``n_correct`` of ``n_trials``; None where no pair has several trials.

    Parameters
    ----------
    table
        Has these columns already, or ``response`` and perhaps ``trial``: a response that is missing is no trial.
    """
    pair = ["respondent_id", "item_id"]
    repeated = "trial" in table.columns and table.duplicated(pair).any()
    if "n_trials" in table.columns:
        counts = table.assign(n_trials=table["n_trials"].fillna(0), n_correct=table["n_correct"].fillna(0))
    else:
        if not repeated:
            return None
        response = table["response"].astype(np.float64)
        wrong = ~(response.isin((0, 1)) | response.isna())
        if wrong.any():
            raise InputError(f"responses: expected 1, 0 or missing in each trial but got {response[wrong].iloc[0]:g}")
        counts = table.drop(columns="response").assign(n_correct=response.fillna(0), n_trials=response.notna())
        counts["n_trials"] = counts["n_trials"].astype(np.int64)
    if not repeated or table.duplicated([*pair, "trial"]).any() or table[pair].isna().any(axis=None):
        return counts  # repeated pairs that nothing tells apart are refused by who asked
    sums = counts.groupby(pair, sort=False)[["n_correct", "n_trials"]].sum()
    rest = counts[~counts.duplicated(pair)].drop(columns=["trial", "n_correct", "n_trials"])
    return rest.assign(n_correct=sums["n_correct"].to_numpy(), n_trials=sums["n_trials"].to_numpy())
