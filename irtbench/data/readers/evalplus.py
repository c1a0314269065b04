"""EvalPlus: *_eval_results.json (as of 0.3.1). Only the file's name says the model; several entries are trials."""

from __future__ import annotations

import re

from irtbench.data.readers.observations import Fields, Head, LeftOut, Observation, Observations, Reader, Scored, Wanted
from irtbench.data.readers.records import entries_in

_NAME = re.compile(r"(?P<model>.*?)([-_.]sanitized)?[-_.]?eval_results\.json(\.gz)?")
_STATUS = {"pass": 1.0, "fail": 0.0, "timeout": 0.0}


def read(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read the base tests or the base and extra tests (``plus``) of each problem."""
    named = _NAME.fullmatch(head.path.name)
    model = (named["model"] if named else head.path.stem) or head.path.absolute().parent.name
    date, chosen, number = None, "", 0
    for (name, *inner), value in entries_in(head.path, "eval"):
        date = str(value) if name == "date" else date
        problems = Fields({problem: value for problem in inner}, head.path, "problem", number + 1)
        for entry in (entry for problem in inner for entry in problems.objects(problem)):
            number += 1
            has = [name for name in ("base", "plus") if entry.values.get(f"{name}_status") is not None]
            if not chosen and has:
                chosen = settings.choose(has, entry.place("base_status"))
            status = entry.text(f"{chosen}_status") if chosen else None
            if status not in (None, *_STATUS):
                raise entry.wrong(f"{chosen}_status", "pass, fail or timeout")
            scored: Scored = (None, None, "without a status") if status is None else (_STATUS[status], None, "")
            yield Observation(model, inner[0], number, *scored, date=date)


READER = Reader(
    "evalplus",
    "results of EvalPlus",
    "response",
    lambda head: head.kind == "object" and head.has("date", "hash", "eval"),
    read,
    record="entry",
    alone=True,
    numbered=True,
)
