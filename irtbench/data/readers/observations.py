"""What every reader of a foreign format yields: observations, with their places, and their table."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from irtbench.data.harmless_text import lone_surrogate
from irtbench.data.how_to_read import HowToRead
from irtbench.data.input_error import InputError, demand_choice
from irtbench.data.readers.records import Head as Head
from irtbench.data.readers.table import graded, to_responses, to_scores
from irtbench.data.readers.trials import PAIR, demand_trials
from irtbench.data.responses import name_first

Want = Literal["answer", "response"]
Scored = tuple[float | None, str | None, str]  # score, answer, and why there is neither

LINES = ("lines", "object")  # kinds of files of JSON lines, of which there may be one
RECORDS = ("lines", "array")  # kinds that may be a table of ours
ROWS_MADE = 2**14  # observations made into a table at a time
_TEXTS = ("trial", "date", "gold", "item_hash")


class Observation(NamedTuple):
    """One answer of a respondent to an item.

    Parameters
    ----------
    respondent_id, item_id
        Their names.
    number
        The line, row or record of the file, from 1.
    score
        What the file gives for it, 1 and 0 or on a finer scale; NaN where it was not scored.
    answer
        The raw answer; None where there is none.
    reason
        Why it is left out; empty where it counts.
    trial
        Which of several answers of this respondent to this item; None where the format has no such thing.
    seconds, date
        How long it took and when it was given.
    gold
        The right answer.
    item_hash
        Hash of the item's content.
    tags
        What else the file says of it: a task, a condition.
    """

    respondent_id: str
    item_id: str
    number: int
    score: float | None = None
    answer: str | None = None
    reason: str = ""
    trial: str | None = None
    seconds: float | None = None
    date: str | None = None
    gold: str | None = None
    item_hash: str | None = None
    tags: Mapping[str, str] = {}


Observations = Iterator[Observation]
LeftOut = Counter[str]  # how many, by reason


@dataclass(frozen=True)
class Wanted(HowToRead):
    """What is taken from files, and what the user decides where a file leaves a choice.

    Parameters
    ----------
    want
        Graded responses, or raw answers.
    raw, levels
        Whether scores stay as they are, and their labels, the lowest first.
    """

    want: Want = "response"
    raw: bool = False
    levels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        demand_choice("errored", self.errored, Literal["missing", "wrong"])
        demand_trials(self.trials, self.threshold)

    @property
    def graded(self) -> bool:
        """Whether responses are taken, and not answers."""
        return self.want == "response"

    @property
    def raw_scores(self) -> bool:
        """Whether scores stay as they are: in categories, or for a mean over trials."""
        return self.raw or self.trials in ("mean", "all")

    def failed(self, reason: str) -> Scored:
        """Score, answer and reason of being left out of an item at which the run failed."""
        return (0.0, None, "") if self.graded and self.errored == "wrong" else (None, None, reason)

    def values_of(self, texts: pd.Series[str], *, place: Callable[[int], str]) -> NDArray[np.float64]:
        """Fields of a table as responses, or as raw scores where these are wanted."""
        if self.raw_scores:
            return to_scores(texts, place=place, levels=self.levels)
        return to_responses(texts, place=place, threshold=self.threshold)

    def choose(self, names: Sequence[str], place: str, *, word: str = "score") -> str:
        """The score or question to take: the one there is, or the one that the user named."""
        chosen = next((name for name in self.metric or names[:1] if name in names), None)
        if chosen is not None and (self.metric or len(names) == 1):
            return chosen
        if self.metric:
            wanted = " or ".join(f"'{name}'" for name in self.metric)
            raise InputError(f"{place}: no {word} {wanted}; expected one of {name_first(names, most=12)}")
        if not names:
            raise InputError(f"{place}: no {word} found; expected at least one")
        shown = name_first([f"'{name}'" for name in names], most=12)
        raise InputError(f"{place}: several {word}s: {shown}; choose one (--metric '{names[0]}', or metric=)")


class MetricChoice:
    """The one score or question of a file, by those that its records have so far.

    Parameters
    ----------
    wanted
        What the user named.
    word
        What it is called.
    """

    def __init__(self, wanted: Wanted, word: str = "score") -> None:
        self.seen: dict[str, None] = {}
        self._wanted, self._word, self._taken, self._first = wanted, word, "", ""

    def of(self, names: Sequence[str], place: str) -> str | None:
        """The one to take of a record's; None if it has not the one that the user named, or another has."""
        self.seen.update(dict.fromkeys(names))
        self._first = self._first or place
        metrics = self._wanted.metric
        if not self.seen or (metrics and not any(name in self.seen for name in metrics)):
            return None
        chosen = self._wanted.choose(list(self.seen), place, word=self._word)
        self._taken = self._taken or chosen
        if chosen != self._taken:
            Wanted().choose([self._taken, chosen], place, word=self._word)
        return chosen if chosen in names else None

    def demand(self, place: str = "") -> None:
        """Refuse a file that never had what the user named, by the place of its first record or another."""
        if self._wanted.metric and self.seen:
            self._wanted.choose(list(self.seen), place or self._first, word=self._word)


@dataclass(frozen=True)
class Reader:
    """A format: its name, how it is recognised, and how it is read.

    Parameters
    ----------
    name
        What the user calls it by, and what a result says.
    title
        What it holds in words, in the plural.
    holds
        What it holds, where it may be asked for either.
    recognises
        Whether a file is of this format.
    read
        Its observations; what is left out is counted in the last argument, by reason.
    accompanies
        Whether a file belongs to this format without holding observations of its own.
    record
        What the numbers of its observations count, where it is not the lines or rows of the file.
    alone
        Whether it never holds the other.
    numbered
        Whether several observations of a pair are trials, numbered as they come.
    latest
        Columns by which several observations are one, of which the last counts, and what the others are left out as.
    """

    name: str
    title: str
    holds: Want
    recognises: Callable[[Head], bool]
    read: Callable[[Head, Wanted, LeftOut], Observations]
    accompanies: Callable[[Head], bool] = field(default=lambda head: False)
    record: str = ""
    alone: bool = False
    numbered: bool = False
    latest: tuple[Sequence[str], str] = ((), "")

    def place(self, head: Head, number: int) -> str:
        """The place of an observation of this number."""
        return f"file {head.path}, {self.record or head.record_word} {number}"


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a record, each checked as it is taken.

    Parameters
    ----------
    values
        The record.
    path, word, number
        Its place: ``file X, line 3``.
    inside
        The field of the record that these are the fields of; empty at the top.
    """

    values: Mapping[str, Any]
    path: Path
    word: str
    number: int
    inside: str = ""

    @classmethod
    def of(cls, value: Any, path: Path, word: str, number: int) -> Fields:
        """Fields of a whole record."""
        if not isinstance(value, dict):
            raise InputError(f"file {path}, {word} {number}: expected an object but got {_shown(value)}")
        return cls(value, path, word, number)

    def wrong(self, name: str, expected: str) -> InputError:
        """Say that a field is not what was expected."""
        got = f"it is {_shown(self.values[name])}" if name in self.values else "it is missing"
        return InputError(f"{self.place(name)}: expected {expected} but {got}")

    def place(self, name: str) -> str:
        """The place of a field."""
        return f"file {self.path}, {self.word} {self.number}, field {self.inside}{name}"

    def name(self, name: str) -> str:
        """A field that names something: text that is not empty, or a whole number, as text."""
        value = self.values.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, str) and value.strip():
            return value
        raise self.wrong(name, "a name")

    def name_in(self, name: str, own: str) -> str:
        """A field that names something, or an object that does by a field of its own, or else by its id."""
        if not isinstance(self.values.get(name), dict):
            return self.name(name)
        named = self.fields(name)
        return named.text(own) or named.name("id")

    def text(self, name: str) -> str | None:
        """A field of text or a number, None where it is missing or null."""
        value = self._of_kind(name, str | bool | int | float, "text", None)
        return value if value is None or isinstance(value, str) else json.dumps(value)

    def number_of(self, name: str) -> float | None:
        """A field that holds a number, None where it is missing or null; true and false are 1 and 0."""
        value = self._of_kind(name, bool | int | float, "a number", None)
        return None if value is None else number_in(value)

    def score(self, name: str) -> float:
        """A field that holds a score; NaN where it is null."""
        if name not in self.values:
            raise self.wrong(name, "a score")
        number = self.number_of(name)
        return math.nan if number is None else number

    def number_in_text(self, name: str) -> float | None:
        """A field that holds a number, perhaps as text; None where it is missing, null or empty."""
        value = self.values.get(name)
        try:
            return None if value in ("", None) else float(value)
        except (TypeError, ValueError):
            raise self.wrong(name, "a number") from None

    def score_in(self, name: str, answer: str) -> float:
        """The score that an answer found in a field is."""
        try:
            return float(answer)
        except ValueError:
            raise self.wrong(name, f"a score (it is an answer, '{answer}': grade it with the items' key)") from None

    def fields(self, name: str) -> Fields:
        """A field that is an object itself; without fields where it is missing or null."""
        return replace(self, values=self._of_kind(name, dict, "an object", {}), inside=f"{self.inside}{name}.")

    def entries(self, name: str) -> list[Any]:
        """A field that is a list; empty where it is missing or null."""
        found: list[Any] = self._of_kind(name, list, "a list", [])
        return found

    def _of_kind(self, name: str, kind: Any, expected: str, empty: Any) -> Any:
        value = self.values.get(name)
        if value is None or isinstance(value, kind):
            return empty if value is None else value
        raise self.wrong(name, expected)

    def objects(self, name: str) -> Iterator[Fields]:
        """The objects of a field that is a list of them."""
        for k, value in enumerate(self.entries(name)):
            if not isinstance(value, dict):
                raise InputError(f"{self.place(name)}[{k}]: expected an object but got {_shown(value)}")
            yield replace(self, values=value, inside=f"{self.inside}{name}[{k}].")


def records(head: Head) -> Iterator[Fields]:
    """The records of JSON lines, of a JSON array or of a table, one at a time."""
    for number, value in head.values():
        yield Fields.of(value, head.path, head.record_word, number)


def names_of(head: Head) -> list[str]:
    """The columns that the first record has, were its records a table."""
    return [name for name, _ in _texts(head.first)]


def record_table(head: Head) -> pd.DataFrame:
    """The records with every field as text, as ``read_table`` gives a table; lists, which are no fields, as JSON."""
    rows = [dict(_texts(record.values)) for record in records(head)]
    if not rows:
        raise InputError(f"file {head.path}: no records; expected at least one")
    return pd.DataFrame(rows).fillna("").astype(str)


def _texts(values: Mapping[str, Any], inside: str = "") -> Iterator[tuple[str, str]]:
    """The fields of a record, those of its objects under names such as ``scores.exact_match``."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _texts(value, f"{inside}{name}.")
        elif value is not None:
            yield f"{inside}{name}", value if isinstance(value, str) else json.dumps(value)


def number_in(value: float) -> float:
    """A number of JSON as a float; infinite where it is a whole number beyond all floats."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def content_hash(*parts: Any) -> str:
    """Hash of an item's content: SHA-256 of the compact, sorted JSON of its parts, the first 32 hexadecimal digits."""
    text = json.dumps(parts, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()[:32]


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def collect(reader: Reader, head: Head, wanted: Wanted, left_out: LeftOut) -> pd.DataFrame:
    """Read a file into a long table."""
    if reader.alone and wanted.want != reader.holds:
        advice = "grade them with a key" if reader.holds == "answer" else "read responses"
        raise InputError(
            f"file {head.path}: {wanted.want}s were wanted but {reader.title} hold {reader.holds}s: {advice}"
        )
    found, parts = reader.read(head, wanted, left_out), list[pd.DataFrame]()
    while (rows := list(islice(found, ROWS_MADE))) or not parts:
        parts.append(_table_of(rows, wanted, lambda number: reader.place(head, number)))
    frame = pd.concat(parts, ignore_index=True)
    if reader.numbered:
        frame["trial"] = (frame.groupby(PAIR).cumcount() + 1).astype("str")
    if reader.latest[0]:
        frame.loc[frame.duplicated([*reader.latest[0]], keep="last"), "reason"] = reader.latest[1]
    left_out.update(frame["reason"][frame["reason"] != ""].tolist())
    frame = frame[frame["reason"] == ""].reset_index(drop=True)
    if wanted.graded and not wanted.raw_scores:

        def wrong(row: int) -> str:
            place = reader.place(head, int(frame["number"].iloc[row]))
            return (
                f"{place}: expected a score of 1, 0 or missing but got {frame['response'].iloc[row]:g}; "
                "name a threshold to grade scores (1 where score >= threshold)"
            )

        frame["response"] = graded(frame["response"].to_numpy(), wanted.threshold, wrong)
    known = [name for name in frame.columns[5:] if frame[name].notna().any()]  # behind number and reason
    return frame[[*PAIR, wanted.want, *known]]


def _table_of(rows: Sequence[Observation], wanted: Wanted, place: Callable[[int], str]) -> pd.DataFrame:
    """Observations as columns: names, response or answer, then number, reason, seconds, texts and tags."""
    column: dict[str, list[Any]] = {name: [row[k] for row in rows] for k, name in enumerate(Observation._fields)}
    tags = column.pop("tags")

    def series(texts: Sequence[Any]) -> pd.Series[str]:
        try:
            pa.array(texts, pa.string())  # pandas before 3 would keep what no file can be written with
            return pd.Series(texts, dtype="str")
        except UnicodeEncodeError:
            number, broken = next(
                (row.number, b) for row, text in zip(rows, texts, strict=True) if (b := lone_surrogate(text))
            )
            raise InputError(
                f"{place(number)}: half a character in the text {broken}; expected whole characters"
            ) from None

    values = np.array(column["score"], dtype=np.float64) if wanted.graded else series(column["answer"])
    frame = pd.DataFrame({name: series(column[name]) for name in PAIR} | {wanted.want: values})
    frame["number"], frame["reason"] = np.array(column["number"], dtype=np.int64), series(column["reason"])
    frame["seconds"] = np.array(column["seconds"], dtype=np.float64)
    names = dict.fromkeys(name for own in tags for name in own)
    return frame.assign(
        **{name: series(column[name]) for name in _TEXTS},
        **{name: series([own.get(name) for own in tags]) for name in names},
    )
