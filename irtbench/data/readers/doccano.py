"""doccano: JSON lines of classified texts (as of 1.8), a file an annotator, which its name says."""

from __future__ import annotations

from irtbench.data.readers.observations import (
    LINES,
    Head,
    LeftOut,
    Observation,
    Observations,
    Reader,
    Wanted,
    content_hash,
    records,
)


def read(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read the labels; several of one text are joined by a bar."""
    for line in records(head):
        labels = line.entries("label")
        if any(not isinstance(label, str) for label in labels):
            raise line.wrong("label", "names of labels; spans of a text are no answers to an item")
        yield Observation(
            respondent_id=head.path.name.split(".")[0],
            item_id=line.name("id"),
            number=line.number,
            answer="|".join(sorted(labels)),
            reason="" if labels else "texts without a label",
            item_hash=content_hash(line.values.get("text", line.values.get("data"))),
        )


READER = Reader(
    "doccano",
    "texts of doccano",
    "answer",
    lambda head: (
        head.kind in LINES
        and head.has("id", "label")
        and isinstance(head.first["label"], list)
        and (head.has("text") or head.has("data"))
    ),
    read,
    alone=True,
)
