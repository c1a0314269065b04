"""What every reader of a foreign format yields: observations, with the place each stands at."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from irtbench.data.how_to_read import HowToRead
from irtbench.data.input_error import InputError
from irtbench.data.readers.head import Head

Want = Literal["answer", "response"]


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
    trial: str | None = None
    seconds: float | None = None
    date: str | None = None
    gold: str | None = None
    item_hash: str | None = None
    tags: Mapping[str, str] = {}


@dataclass(frozen=True)
class Wanted:
    """What is taken from files, and what the user decides where a file leaves a choice.

    Parameters
    ----------
    want
        Graded responses, or raw answers.
    how
        What the user decides.
    raw, levels
        Whether scores stay as they are, and the labels that stand for them, the lowest first.
    """

    want: Want = "response"
    how: HowToRead = field(default_factory=HowToRead)
    raw: bool = False
    levels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.how.errored not in ("missing", "wrong"):
            raise InputError(f"errored: expected 'missing' or 'wrong' but got '{self.how.errored}'")

    @property
    def metrics(self) -> tuple[str, ...]:
        """The score or the question to take where a file has several; the first of these that it has."""
        return self.how.metric

    @property
    def threshold(self) -> float | None:
        """From which score on a response is right."""
        return self.how.threshold if self.want == "response" else None

    @property
    def raw_scores(self) -> bool:
        """Whether scores stay as they are: in categories, or for a mean over trials."""
        return self.raw or self.how.trials in ("mean", "all")

    def failed(self, reason: str) -> tuple[float | None, str | None, str]:
        """Score, answer and reason of being left out of an item at which the run failed."""
        wrong = self.want == "response" and self.how.errored == "wrong"
        return (0.0, None, "") if wrong else (None, None, reason)


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
    """

    name: str
    title: str
    holds: Want
    recognises: Callable[[Head], bool]
    read: Callable[[Head, Wanted, Counter[str]], Iterator[Observation]]
    accompanies: Callable[[Head], bool] = field(default=lambda head: False)
    record: str = ""
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a record, each checked as it is taken.

    Parameters
    ----------
    values
        The record.
    path, word, number
        Where it stands: ``file X, line 3``.
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
        """Fields of a whole record.

        Raises
        ------
        InputError
            If it is no object.
        """
        if not isinstance(value, dict):
            raise InputError(f"file {path}, {word} {number}: expected an object but got {_shown(value)}")
        return cls(value, path, word, number)

    def wrong(self, name: str, expected: str) -> InputError:
        """Say that a field is not what was expected."""
        got = f"it is {_shown(self.values[name])}" if name in self.values else "it is missing"
        return InputError(f"{self.place(name)}: expected {expected} but {got}")

    def place(self, name: str) -> str:
        """Where a field stands."""
        return f"file {self.path}, {self.word} {self.number}, field {self.inside}{name}"

    def name(self, name: str) -> str:
        """A field that names something: text that is not empty, or a whole number, as text."""
        value = self.values.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, str) and value.strip():
            return value
        raise self.wrong(name, "a name")

    def text(self, name: str) -> str | None:
        """A field of text or a number, None where it is missing or null."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, str):
            return value
        if isinstance(value, bool | int | float):
            return json.dumps(value)
        raise self.wrong(name, "text")

    def number_of(self, name: str) -> float | None:
        """A field that holds a number, None where it is missing or null; true and false are 1 and 0."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool | int | float):
            return number_in(value)
        raise self.wrong(name, "a number")

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
        value = self.values.get(name)
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise self.wrong(name, "an object")
        return Fields(value, self.path, self.word, self.number, f"{self.inside}{name}.")

    def entries(self, name: str) -> list[Any]:
        """A field that is a list; empty where it is missing or null."""
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.wrong(name, "a list")
        return value

    def objects(self, name: str) -> Iterator[Fields]:
        """The objects of a field that is a list of them."""
        for k, value in enumerate(self.entries(name)):
            if not isinstance(value, dict):
                raise InputError(f"{self.place(name)}[{k}]: expected an object but got {_shown(value)}")
            yield Fields(value, self.path, self.word, self.number, f"{self.inside}{name}[{k}].")


def records(head: Head) -> Iterator[Fields]:
    """The records of JSON lines, of a JSON array or of a table, one at a time."""
    for number, value in head.values():
        yield Fields.of(value, head.path, head.record_word, number)


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
