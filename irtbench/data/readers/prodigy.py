"""Prodigy: JSON lines of annotated tasks, choices (``options`` and ``accept``) and accept or reject."""

from __future__ import annotations

from datetime import UTC, datetime

from irtbench.data.readers.observations import LINES, Head, LeftOut, Observation, Observations, Reader, Wanted, records


def read(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read the answers: the accepted options, or whether the task was accepted. The item is the task's hash."""
    for line in records(head):
        given, choices = line.name("answer"), line.entries("options")
        if given not in ("accept", "reject", "ignore"):
            raise line.wrong("answer", "accept, reject or ignore")
        accepted = [str(option) for option in line.entries("accept")]
        if given == "ignore" or (choices and given == "reject"):
            left_out[f"tasks that were {given.removesuffix('e')}ed"] += 1
            continue
        if choices and not accepted:
            left_out["tasks without a chosen option"] += 1
            continue
        who = line.text("_annotator_id") or line.text("_session_id")
        if not who:
            raise line.wrong("_annotator_id", "the name of an annotator")
        stamp, task = line.number_of("_timestamp"), line.name("_task_hash")
        yield Observation(
            respondent_id=who,
            item_id=task,
            number=line.number,
            answer="|".join(sorted(accepted)) if choices else given,
            date=None if stamp is None else datetime.fromtimestamp(stamp, UTC).isoformat(timespec="seconds"),
            item_hash=task,
        )


READER = Reader(
    "prodigy",
    "annotations of Prodigy",
    "answer",
    lambda head: head.kind in LINES and head.has("_input_hash", "_task_hash", "answer"),
    read,
    alone=True,
)
