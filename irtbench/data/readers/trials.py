"""One row for each respondent and item: items by name or content, repeated pairs kept apart, counted or reduced."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
import pandas as pd

from irtbench.data.input_error import InputError, demand_choice
from irtbench.data.responses import name_first
from irtbench.data.sparse_responses import trial_counts

#: What becomes of repeated (respondent, item) pairs.
Trials = Literal["error", "keep", "first", "last", "mean", "majority", "any", "count", "all"]

PAIR = ["respondent_id", "item_id"]
OPTION = "(--trials, or trials=)"
CHOICES = f"first, last, mean, majority or any, or count: k right of n {OPTION}"
COUNTED = f"mean, majority or any, or count: k right of n {OPTION}"

#: Columns that distinguish occasions, after the Item Response Warehouse's standard 1.0, the most reliable first.
OCCASIONS = (
    "trial",
    "trialnum",
    "session",
    "occasion",
    "wave",
    "timepoint",
    "period",
    "block",
    "rater",
    "order",
    "date",
)


def demand_trials(trials: Trials, threshold: float | None) -> None:
    """Refuse a way to deal with trials that is not known, or a mean without a threshold."""
    demand_choice("trials", trials, Trials)
    if trials == "mean" and threshold is None:
        raise InputError("trials: the mean of several responses needs a threshold (1 where mean >= threshold)")


def with_trials(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with a column ``trial`` if occasions under other names tell its repeated pairs apart.

    One such column suffices if it does so alone; otherwise all are joined by slashes.
    """
    there = [name for name in OCCASIONS if name in frame.columns]
    there += [name for name in frame.columns if name.startswith("trial_")]
    if not there or not frame.duplicated(PAIR).any():
        return frame
    chosen = next(([name] for name in there if not frame.duplicated([*PAIR, name]).any()), there)
    if chosen == ["trial"] or frame.duplicated([*PAIR, *chosen]).any():
        return frame
    joined = frame[chosen[0]].astype(str)
    for name in chosen[1:]:
        joined = joined + "/" + frame[name].astype(str)
    return frame.assign(trial=joined)


def reduce_trials(
    frame: pd.DataFrame, trials: Trials, *, threshold: float | None = None, place: str = "long table"
) -> pd.DataFrame:
    """One row for each (respondent, item) of a long table."""
    demand_trials(trials, threshold)
    counted, repeated = "n_trials" in frame.columns, frame.duplicated(PAIR)
    if trials == "all" or not (counted or repeated.any() or trials == "mean"):
        return frame
    distinguished = "trial" in frame.columns and not frame.duplicated([*PAIR, "trial"]).any()
    if repeated.any() and (not distinguished if counted or trials in ("keep", "count") else trials == "error"):
        what = (
            "several trials of a pair"
            if distinguished
            else "duplicate (respondent, item) pairs that no trial distinguishes"
        )
        pairs = [f"({r}, {i})" for r, i in frame.loc[repeated, PAIR].drop_duplicates().itertuples(index=False)]
        raise InputError(f"{place}: {what}: {name_first(pairs)}" + ("" if counted else f"; choose {CHOICES}"))
    counts = trial_counts(frame) if counted or (trials == "count" and "response" in frame.columns) else None
    if trials in ("keep", "count"):
        return frame if counts is None else counts
    if counts is not None:
        n, k = counts["n_trials"].to_numpy(), counts["n_correct"].to_numpy()
        if trials not in ("mean", "majority", "any") and (n > 1).any():
            raise InputError(f"{place}: several trials of a pair, counted without their order; choose {COUNTED}")
        share = np.divide(k, n, out=np.full(len(n), np.nan), where=n > 0)
        first = counts.drop(columns=["n_correct", "n_trials"])
    elif trials in ("first", "last"):
        numbers = pd.to_numeric(frame["trial"], errors="coerce") if distinguished else pd.Series(np.nan, frame.index)
        ordered = frame.iloc[np.argsort(numbers, kind="stable")] if numbers.notna().all() else frame
        kept = ordered[~ordered.duplicated(PAIR, keep=trials)].sort_index()
        return kept.drop(columns="trial", errors="ignore").reset_index(drop=True)
    elif "response" not in frame.columns:
        raise InputError(f"{place}: raw answers have no {trials}; expected trials first or last, or graded responses")
    else:
        share = frame.groupby(PAIR, sort=False)["response"].mean().to_numpy()
        first = frame[~repeated].drop(columns="trial", errors="ignore").reset_index(drop=True)
    right = {"mean": share >= (threshold or 0.0), "any": share > 0}.get(trials, share > 0.5)
    return first.assign(response=np.where(np.isnan(share), np.nan, right))


#: Whether items are joined by their name (``id``, whatever their content), or by the hash of their content; ``None``
#: joins by name and refuses a name with two contents.
Join = Literal["id", "hash"] | None


def join_items(frame: pd.DataFrame, join: Join, place: str) -> pd.DataFrame:
    """Name the items of a long table by their hash, or check that each name has one content only."""
    if join not in (None, "id", "hash"):
        raise InputError(f"join: expected 'id' or 'hash' but got '{join}'")
    if "item_hash" not in frame.columns:
        if join == "hash":
            raise InputError(
                f"{place}: items cannot be joined by hash: the file has no content to hash; expected join by id"
            )
        return frame
    known = frame.loc[frame["item_hash"].notna(), ["item_id", "item_hash"]].drop_duplicates()
    several = known.loc[known["item_id"].duplicated(), "item_id"].unique().tolist()
    if several and join is None:
        raise InputError(
            f"{place}: items of one name and different content: {name_first(several)}; join by 'hash', or by 'id' if "
            "the content differs in nothing that matters (--join, or join=)"
        )
    clashes = [f"items of one name and different content: {name_first(several)}"] if several else []
    if join == "hash":
        if missing := frame.loc[frame["item_hash"].isna(), "item_id"].unique().tolist():
            raise InputError(f"{place}: items cannot be joined by hash: none for {name_first(missing)}")
        twice = known[known["item_hash"].duplicated(keep=False)].groupby("item_hash", sort=False)["item_id"]
        names = [" = ".join(group) for _, group in twice]
        clashes += [f"one content under several names: {name_first(names)}"] if names else []
        frame = frame.assign(item_id=frame["item_hash"])
    if clashes:
        warnings.warn(f"{place}: {'; '.join(clashes)}", stacklevel=2)
    return frame
