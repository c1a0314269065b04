"""Responses as whole numbers, mostly a byte each: right or wrong, or numbers right of numbers of trials."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError

MISSING = -1  # the code of a missing response


def coded(values: Any) -> NDArray[Any]:
    """Numbers of correct responses, NaN where missing, in the smallest type that holds them, with `MISSING` for NaN.

    What is no whole number, or negative, stays as it is, to be refused by who knows whose response it is.
    """
    given = np.asarray(values)
    if given.dtype == np.bool_:
        return given.astype(np.int8)
    kinds: tuple[type[np.signedinteger[Any]], ...] = (np.int8, np.int32)
    if given.dtype.kind in "iu" and given.size and given.min() >= 0:
        for kind in kinds:
            if given.max() <= np.iinfo(kind).max:
                return given.astype(kind)
    if given.dtype.kind != "f":
        given = given.astype(np.float64)
    missing = np.isnan(given)
    for kind in kinds:
        with np.errstate(invalid="ignore"):  # of numbers too large for it, which then differ
            found: NDArray[Any] = given.astype(kind)
        found[missing] = MISSING
        as_given = found == given
        as_given |= missing
        as_given &= (found >= 0) | missing
        if as_given.all():
            return found
    return given.astype(np.float64)


def decoded(codes: NDArray[Any]) -> NDArray[np.float64]:
    """Floating point numbers with NaN for what is missing."""
    found = codes.astype(np.float64)
    found[codes == MISSING] = np.nan
    return found


MOST_TRIALS = 1_000_000  # of a respondent at an item


def wrong_counts(right: NDArray[Any], asked: NDArray[Any]) -> NDArray[np.bool_]:
    """Where these are no whole number right of a whole number of trials, or the trials are too many."""
    wrong = (right < 0) | (right > asked) | (asked > MOST_TRIALS)
    wrong |= (right != np.floor(right)) | (asked != np.floor(asked))
    return wrong


def trial_counts(table: pd.DataFrame) -> pd.DataFrame | None:
    """A row for each pair with ``n_correct`` of ``n_trials``; None where no pair has several trials."""
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
