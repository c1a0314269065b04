"""One row for each respondent and item: items by name or content, repeated pairs kept apart, counted or reduced."""

from __future__ import annotations

import warnings
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first
from irtbench.data.trial_counts import trial_counts

#: What becomes of repeated (respondent, item) pairs.
Trials = Literal["error", "keep", "first", "last", "mean", "majority", "any", "count", "all"]

PAIR = ["respondent_id", "item_id"]
SAID_BY = "(--trials, or trials=)"
CHOICES = f"first, last, mean, majority or any, or count: k right of n {SAID_BY}"
COUNTED = f"mean, majority or any, or count: k right of n {SAID_BY}"

#: Columns that tell occasions apart, after the Item Response Warehouse's standard 1.0, the surest first.
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
    if trials not in get_args(Trials):
        raise InputError(f"trials: expected one of {', '.join(get_args(Trials))} but got '{trials}'")
    if trials == "mean" and threshold is None:
        raise InputError("trials: the mean of several responses needs a threshold (1 where mean >= threshold)")


def occasion_columns(frame: pd.DataFrame) -> list[str]:
    """The columns that tell the repeated pairs of a long table apart; none if no pair is repeated, or nothing does."""
    if not frame.duplicated(PAIR).any():
        return []
    there = [name for name in OCCASIONS if name in frame.columns]
    there += [name for name in frame.columns if name.startswith("trial_")]
    for name in there:
        if not frame.duplicated([*PAIR, name]).any():
            return [name]
    return there if there and not frame.duplicated([*PAIR, *there]).any() else []


def with_trials(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with a column ``trial`` if occasions under another name tell its repeated pairs apart.

    Several such columns are joined by a slash.
    """
    chosen = occasion_columns(frame)
    if not chosen or chosen == ["trial"]:
        return frame
    joined = frame[chosen[0]].astype(str)
    for name in chosen[1:]:
        joined = joined + "/" + frame[name].astype(str)
    return frame.assign(trial=joined)


def reduce_trials(
    frame: pd.DataFrame, trials: Trials, *, threshold: float | None = None, place: str = "long table"
) -> pd.DataFrame:
    """One row for each (respondent, item) of a long table.

    Parameters
    ----------
    frame
        Columns ``respondent_id, item_id``, ``response`` or ``answer``, and perhaps ``trial``.
    trials
        ``keep`` leaves rows as they are, if a trial tells them apart, and ``all`` in any case, with scores ungraded;
        ``error`` refuses repeated pairs; ``first`` and ``last`` count by trial (by number where all are numbers, else
        in the order of the file). For responses without those missing: ``mean`` is 1 where their mean is at least the
        threshold, ``majority`` where more than half are 1, ``any`` where one is. ``count`` loses nothing: ``n_correct``
        of ``n_trials`` take the place of ``response`` where a trial tells repeated pairs apart, and raw answers stay as
        with ``keep``.
    threshold
        For ``mean``.
    place
        Where the table is from, for the errors.

    Raises
    ------
    InputError
        If pairs are repeated and nothing tells them apart or ``trials`` says no how, it is none of those named, a
        threshold lacks, or raw answers are to be averaged.
    """
    demand_trials(trials, threshold)
    if trials == "all":
        return frame
    if "n_trials" in frame.columns:
        return _reduce_counts(frame, trials, threshold, place)
    repeated = frame.duplicated(PAIR)
    if not repeated.any() and trials != "mean":
        return frame
    told_apart = "trial" in frame.columns and not frame.duplicated([*PAIR, "trial"]).any()
    if trials == "count" and told_apart and "response" in frame.columns:
        counted = trial_counts(frame)
        assert counted is not None
        return counted
    if trials in ("keep", "count") and told_apart:
        return frame
    if trials in ("error", "keep", "count"):
        why = (
            "several trials of a pair" if told_apart else "duplicate (respondent, item) pairs that no trial tells apart"
        )
        raise InputError(f"{place}: {why}: {_pairs(frame[repeated])}; choose {CHOICES}")
    if trials in ("first", "last"):
        ordered = frame if not told_apart else frame.iloc[np.argsort(_order(frame["trial"]), kind="stable")]
        kept = ordered[~ordered.duplicated(PAIR, keep=trials)].sort_index()
        return kept.drop(columns="trial", errors="ignore").reset_index(drop=True)
    if "response" not in frame.columns:
        raise InputError(f"{place}: raw answers have no {trials}; expected trials first or last, or graded responses")
    share = frame.groupby(PAIR, sort=False)["response"].mean().to_numpy()
    first = frame[~repeated].drop(columns="trial", errors="ignore").reset_index(drop=True)
    return first.assign(response=_of_share(share, trials, threshold))


def _of_share(share: NDArray[np.float64], trials: Trials, threshold: float | None) -> NDArray[np.float64]:
    """Responses by the share, or the mean score, of the trials of each pair."""
    right = {"mean": share >= (threshold or 0.0), "any": share > 0}.get(trials, share > 0.5)
    return np.where(np.isnan(share), np.nan, right)


def _reduce_counts(frame: pd.DataFrame, trials: Trials, threshold: float | None, place: str) -> pd.DataFrame:
    """The same where the file counts trials already."""
    counts = trial_counts(frame)
    assert counts is not None
    repeated = counts.duplicated(PAIR)
    if repeated.any():
        raise InputError(
            f"{place}: duplicate (respondent, item) pairs that no trial tells apart: {_pairs(counts[repeated])}"
        )
    if trials in ("keep", "count"):
        return counts
    n, k = counts["n_trials"].to_numpy(), counts["n_correct"].to_numpy()
    if trials not in ("mean", "majority", "any") and (n > 1).any():
        raise InputError(f"{place}: several trials of a pair, counted without their order; choose {COUNTED}")
    share = np.divide(k, n, out=np.full(len(n), np.nan), where=n > 0)
    return counts.drop(columns=["n_correct", "n_trials"]).assign(response=_of_share(share, trials, threshold))


def _pairs(repeated: pd.DataFrame) -> str:
    """The first pairs of these rows."""
    return name_first([f"({r}, {i})" for r, i in repeated[PAIR].drop_duplicates().itertuples(index=False)])


def _order(trials: pd.Series[str]) -> NDArray[np.float64]:
    numbers = pd.to_numeric(trials, errors="coerce")
    return numbers.to_numpy(dtype=np.float64) if numbers.notna().all() else np.arange(len(trials), dtype=np.float64)


#: Whether items are joined by their name (``id``, whatever their content), or by the hash of their content; ``None``
#: joins by name and refuses a name with two contents.
Join = Literal["id", "hash"] | None


def join_items(frame: pd.DataFrame, join: Join, place: str) -> pd.DataFrame:
    """Name the items of a long table by their hash, or check that each name has one content only.

    Parameters
    ----------
    frame
        Has columns ``item_id`` and perhaps ``item_hash``.
    join
        See ``Join``.
    place
        Where the table is from, for the errors.

    Raises
    ------
    InputError
        If a name has several hashes and ``join`` does not say what to go by, or items are to be joined by a hash that
        is missing.

    Warns
    -----
    UserWarning
        If names and contents clash, and the user chose by which of them to join.
    """
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
        missing = frame.loc[frame["item_hash"].isna(), "item_id"].unique().tolist()
        if missing:
            raise InputError(f"{place}: items cannot be joined by hash: none for {name_first(missing)}")
        twice = known[known["item_hash"].duplicated(keep=False)].groupby("item_hash", sort=False)["item_id"]
        names = [" = ".join(group) for _, group in twice]
        clashes += [f"one content under several names: {name_first(names)}"] if names else []
        frame = frame.assign(item_id=frame["item_hash"])
    if clashes:
        warnings.warn(f"{place}: {'; '.join(clashes)}", stacklevel=2)
    return frame
