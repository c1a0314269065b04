"""doccano: JSON lines of classified texts (as of 1.8), a file an annotator, which its name says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from irtbench.data.readers.head import Head
from irtbench.data.readers.observations import Observation, Reader, Wanted, content_hash, records


def recognises(head: Head) -> bool:
    """Whether a file holds classified texts of doccano."""
    if head.kind not in ("lines", "object") or not head.has("id", "label") or not isinstance(head.first["label"], list):
        return False
    return any(name in head.first for name in ("text", "data"))


def read(head: Head, settings: Wanted, left_out: Counter[str]) -> Iterator[Observation]:
    """Read the labels; several of one text are joined by a bar."""
    annotator = head.path.name.split(".")[0]
    for line in records(head):
        labels = line.entries("label")
        if any(not isinstance(label, str) for label in labels):
            raise line.wrong("label", "names of labels; spans of a text are no answers to an item")
        if not labels:
            left_out["texts without a label"] += 1
            continue
        yield Observation(
            respondent_id=annotator, item_id=line.name("id"), number=line.number, answer="|".join(sorted(labels)),
            item_hash=content_hash(line.values.get("text", line.values.get("data"))),
        )  # fmt: skip


READER = Reader("doccano", "texts of doccano", "answer", recognises, read, alone=True)
