"""py-irt: JSON lines of a subject and its responses; an item that is not named is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from irtbench.data.readers.head import Head
from irtbench.data.readers.observations import Observation, Reader, Wanted, records


def recognises(head: Head) -> bool:
    """Whether a file holds responses for py-irt."""
    return head.kind in ("lines", "object") and head.has("subject_id") and isinstance(head.first.get("responses"), dict)


def read(head: Head, settings: Wanted, left_out: Counter[str]) -> Iterator[Observation]:
    """Read the responses of each subject."""
    for line in records(head):
        respondent, responses = line.name("subject_id"), line.fields("responses")
        for item in responses.values:
            if responses.values[item] is None:
                left_out["without a response"] += 1
            else:
                yield Observation(respondent, item, line.number, responses.score(item))


READER = Reader("py-irt", "responses for py-irt", "response", recognises, read, alone=True)
