"""py-irt: JSON lines of a subject and its responses; an item that is not named is missing."""

from __future__ import annotations

from irtbench.data.readers.observations import LINES, Head, LeftOut, Observation, Observations, Reader, Wanted, records


def read(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read the responses of each subject."""
    for line in records(head):
        responses = line.fields("responses")
        for item, response in responses.values.items():
            scored = (None, None, "without a response") if response is None else (responses.score(item), None, "")
            yield Observation(line.name("subject_id"), item, line.number, *scored)


READER = Reader(
    "py-irt",
    "responses for py-irt",
    "response",
    lambda head: head.kind in LINES and head.has("subject_id") and isinstance(head.first.get("responses"), dict),
    read,
    alone=True,
)
