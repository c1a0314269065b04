"""Ratings from a long table: who was rated, on which item, by whom, and the score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.readers.long_table import LIKELY, plain
from irtbench.data.readers.table import (
    demand_columns,
    demand_filled,
    demand_known,
    field_places,
    read_table,
    to_numbers,
    to_scores,
)
from irtbench.data.responses import name_first

#: Columns of ours by what people call them; who rates is no respondent here.
RATERS = (
    "raterid",
    "rater",
    "judgeid",
    "judge",
    "annotatorid",
    "annotator",
    "graderid",
    "grader",
    "workerid",
    "worker",
)
NAMES = {
    "respondent_id": tuple(name for name in LIKELY["respondent_id"] if name not in RATERS),
    "item_id": LIKELY["item_id"],
    "rater_id": RATERS,
    "score": ("score", "rating", "grade", "response", "label"),
}


def read_ratings(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    levels: Sequence[str] = (),
    interaction: str | None = None,
) -> pd.DataFrame:
    r"""Read a table with a row a rating, as `fit_raters` takes it.

    Parameters
    ----------
    path
        A CSV or Parquet file.
    columns
        The file's column for any of our names ``respondent_id, item_id, rater_id, score``, where it is not the one
        of that name or a usual other (``judge``, ``annotator``, ``grade``, ``rating``). Without a column of items all
        ratings are of one.
    levels
        Scores that are words, the lowest first; they become 0, 1, ....
    interaction
        Another column to keep.

    Returns
    -------
    pandas.DataFrame
        ``respondent_id, item_id, rater_id, score`` and that column, without the rows that have no score.

    Raises
    ------
    InputError
        If a column is missing or empty, or a score is neither missing nor a number (one of the levels).

    Examples
    --------
    >>> from pathlib import Path
    >>> import irtbench
    >>> _ = Path("grades.csv").write_text("model,prompt,judge,grade\nm1,p1,ann,good\nm1,p1,bob,fair\n")
    >>> irtbench.data.read_ratings("grades.csv", levels=["poor", "fair", "good"])
      respondent_id item_id rater_id  score
    0            m1      p1      ann    2.0
    1            m1      p1      bob    1.0
    """
    frame, given = read_table(path), columns or {}
    demand_known(given, NAMES)
    demand_columns(frame, [*given.values(), *([] if interaction is None else [interaction])], path)
    known = _columns_of(frame, given, path)
    found = pd.DataFrame({ours: frame[known[ours]] if ours in known else "all" for ours in NAMES})
    demand_filled(frame, path, *(column for ours, column in known.items() if ours != "score"))
    if interaction is not None:
        demand_filled(frame, path, interaction)
        found[interaction] = frame[interaction]
    texts, place = found["score"], field_places(path, known["score"])
    numbers = to_scores(texts, place=place, levels=levels) if levels else to_numbers(texts, place=place)
    return found.assign(score=numbers)[np.isfinite(numbers)].reset_index(drop=True)


def _columns_of(frame: pd.DataFrame, given: Mapping[str, str], path: str | Path) -> dict[str, str]:
    """The column for each of our names: the one given, else the likely one; there may be none of items alone."""
    theirs = {plain(name): name for name in reversed(list(frame.columns)) if name not in given.values()}
    likely = {ours: next((theirs[name] for name in usual if name in theirs), "") for ours, usual in NAMES.items()}
    known = {ours: column for ours, column in {**likely, **given}.items() if column}
    if lacking := [ours for ours in NAMES if ours not in known and ours != "item_id"]:
        options = " ".join(f"--column {name}=NAME" for name in lacking)
        raise InputError(
            f"file {path}: no column of {name_first(lacking)} among {name_first(list(frame.columns), most=12)}; "
            f"expected it, or its name: {options}"
        )
    return known
