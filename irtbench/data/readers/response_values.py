"""Fields of a file as responses: 1, 0 or NaN, and nothing silently made so."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.readers.observations import Wanted
from irtbench.data.readers.table import MISSING, to_numbers


def to_scores(texts: pd.Series[str], *, place: Callable[[int], str], levels: Sequence[str] = ()) -> NDArray[np.float64]:
    """Convert texts to numbers, NaN where missing; see ``to_responses``. Of levels to their places, 0, 1, ..."""
    if levels:
        known = pd.Index([level.strip().lower() for level in levels])
        places = known.get_indexer(pd.Index(texts.astype(str).str.strip().str.lower()))
        wrong = (places < 0) & ~texts.isin(MISSING).to_numpy()
        if wrong.any():
            first = int(wrong.argmax())
            raise InputError(f"{place(first)}: expected one of {', '.join(levels)} but got '{texts.iloc[first]}'")
        return np.where(places < 0, np.nan, places)
    scores = to_numbers(texts, place=place, words={"true": 1.0, "false": 0.0})
    scores[scores == -1] = np.nan
    return scores


def to_responses(
    texts: pd.Series[str], *, place: Callable[[int], str], threshold: float | None = None
) -> NDArray[np.float64]:
    """Convert texts to responses: 1, 0, or NaN where missing.

    ``true`` and ``false`` in any case mean 1 and 0. Missing is what ``MISSING`` lists, and -1.

    Parameters
    ----------
    texts
        Fields as they stand in the file.
    place
        Says where the field at a position stands, for the error.
    threshold
        For scores on a finer scale: the response is 1 where score >= threshold, else 0. None: only 1 and 0 occur.

    Raises
    ------
    InputError
        At the first field that is not a number, or without a threshold at the first that is not 1, 0 or missing.
    """
    scores = to_scores(texts, place=place)
    if threshold is not None:
        return np.where(np.isnan(scores), np.nan, scores >= threshold)
    wrong = ~((scores == 0) | (scores == 1) | np.isnan(scores))
    if wrong.any():
        first = int(wrong.argmax())
        raise InputError(
            f"{place(first)}: expected 1, 0 or missing but got '{texts.iloc[first]}'; "
            "say from which score on one is right (--threshold), or fit grades (--model grm); labels are answers "
            "(convert, score: --content answers)"
        )
    return scores


def to_wanted(texts: pd.Series[str], wanted: Wanted, *, place: Callable[[int], str]) -> NDArray[np.float64]:
    """Convert texts to responses, or to raw scores where these are wanted."""
    if wanted.raw_scores:
        return to_scores(texts, place=place, levels=wanted.levels)
    return to_responses(texts, place=place, threshold=wanted.threshold)
