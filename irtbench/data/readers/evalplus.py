"""EvalPlus: *_eval_results.json (as of 0.3.1). Only the file's name says the model; several entries are trials."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from irtbench.data.readers.head import Head
from irtbench.data.readers.json_stream import JsonText
from irtbench.data.readers.metric_choice import choose_metric
from irtbench.data.readers.observations import Fields, Observation, Reader, Wanted
from irtbench.data.readers.packed import open_bytes

_NAME = re.compile(r"(?P<model>.*?)([-_.]sanitized)?[-_.]?eval_results\.json(\.gz)?")
_STATUS = {"pass": 1.0, "fail": 0.0, "timeout": 0.0}


def recognises(head: Head) -> bool:
    """Whether a file holds results of EvalPlus."""
    return head.kind == "object" and head.has("date", "hash", "eval")


def read(head: Head, settings: Wanted, left_out: Counter[str]) -> Iterator[Observation]:
    """Read the base tests or the base and extra tests (``plus``) of each problem."""
    model = _model(head.path)
    date: str | None = None
    chosen = ""
    number = 0
    for name, value in _members(head.path):
        if name == "date":
            date = str(value)
            continue
        problem, entries = value
        problems = Fields({problem: entries}, head.path, "problem", number + 1)
        for trial, entry in enumerate(problems.objects(problem), start=1):
            number += 1
            has = [name for name in ("base", "plus") if entry.values.get(f"{name}_status") is not None]
            if not chosen and has:
                chosen = choose_metric(has, settings, entry.place("base_status"))
            status = entry.text(f"{chosen}_status") if chosen else None
            if status is None:
                left_out["without a status"] += 1
                continue
            if status not in _STATUS:
                raise entry.wrong(f"{chosen}_status", "pass, fail or timeout")
            yield Observation(model, problem, number, _STATUS[status], trial=str(trial), date=date)


def _members(path: Path) -> Iterator[tuple[str, Any]]:
    """The date, and the problems with their entries one at a time."""
    with open_bytes(path) as file:
        text = JsonText(file, path)
        for name in text.members():
            if name == "eval":
                for problem in text.members():
                    yield "problem", (problem, text.value())
            else:
                value = text.value()
                if name == "date":
                    yield "date", value


def _model(path: Path) -> str:
    named = _NAME.fullmatch(path.name)
    model = named["model"] if named else path.stem
    return model or path.absolute().parent.name


READER = Reader("evalplus", "results of EvalPlus", "response", recognises, read, record="entry", alone=True)
