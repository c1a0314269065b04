"""Observations of one file as a table: checked, graded, and what was left out counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.harmless_text import lone_surrogate
from irtbench.data.input_error import InputError
from irtbench.data.readers.head import Head
from irtbench.data.readers.observations import Reader, Wanted

_TEXTS = ("trial", "date", "gold", "item_hash")


def collect(reader: Reader, head: Head, wanted: Wanted, left_out: Counter[str]) -> pd.DataFrame:
    """Read a file into a long table.

    Parameters
    ----------
    reader, head
        The format and the file.
    wanted
        What is taken.
    left_out
        Here is counted what is left out, by reason.

    Returns
    -------
    pandas.DataFrame
        ``respondent_id, item_id``, ``response`` or ``answer``, and as far as the file has them ``trial, seconds, date,
        gold, item_hash`` and tags.

    Raises
    ------
    InputError
        If the format never holds what is wanted, the reader finds something wrong, or a score is not 1, 0 or missing
        and there is no threshold.
    """
    if reader.alone and wanted.want != reader.holds:
        advice = "grade them with a key" if reader.holds == "answer" else "read responses"
        raise InputError(
            f"file {head.path}: {wanted.want}s were wanted but {reader.title} hold {reader.holds}s: {advice}"
        )
    one: Callable[[Any, Any], Any] = {}.setdefault  # each text once in memory, however often it occurs
    numbers: list[int] = []
    ids: tuple[list[str], list[str]] = ([], [])
    values: list[Any] = []
    seconds: list[float] = []
    texts: dict[str, list[str | None]] = {name: [] for name in _TEXTS}
    for k, found in enumerate(reader.read(head, wanted, left_out)):
        numbers.append(found.number)
        ids[0].append(one(found.respondent_id, found.respondent_id))
        ids[1].append(one(found.item_id, found.item_id))
        values.append(found.score if wanted.want == "response" else found.answer)
        seconds.append(np.nan if found.seconds is None else found.seconds)
        for name in _TEXTS:
            text = getattr(found, name)
            texts[name].append(one(text, text))
        for name in found.tags:
            if name not in texts:
                texts[name] = [None] * k
        for name in texts.keys() - set(_TEXTS):
            text = found.tags.get(name)
            texts[name].append(one(text, text))

    def series(column: Sequence[Any]) -> pd.Series[str]:
        try:
            return pd.Series(column, dtype="str")
        except UnicodeEncodeError:
            number, broken = next(
                (n, b) for n, text in zip(numbers, column, strict=True) if (b := lone_surrogate(text))
            )
            place = _place(reader, head, number)
            raise InputError(f"{place}: half a character in the text {broken}; expected whole characters") from None

    frame = pd.DataFrame({"respondent_id": series(ids[0]), "item_id": series(ids[1])})
    if wanted.want == "response":
        scores = np.array(values, dtype=np.float64)
        frame["response"] = scores if wanted.raw_scores else _graded(scores, wanted.threshold, numbers, reader, head)
    else:
        frame["answer"] = series(values)
    if not np.isnan(seconds).all():
        frame["seconds"] = seconds
    for name, column in texts.items():
        if any(text is not None for text in column):
            frame[name] = series(column)
    return frame


def _place(reader: Reader, head: Head, number: int) -> str:
    return f"file {head.path}, {reader.record or head.record_word} {number}"


def _graded(
    scores: NDArray[np.float64],
    threshold: float | None,
    numbers: list[int],
    reader: Reader,
    head: Head,
) -> NDArray[np.float64]:
    if threshold is not None:
        return np.where(np.isnan(scores), np.nan, scores >= threshold)
    wrong = ~((scores == 0) | (scores == 1) | np.isnan(scores))
    if wrong.any():
        first = int(wrong.argmax())
        raise InputError(
            f"{_place(reader, head, numbers[first])}: expected a score of 1, 0 or missing but got {scores[first]:g}; "
            "name a threshold to grade scores (1 where score >= threshold)"
        )
    return scores
