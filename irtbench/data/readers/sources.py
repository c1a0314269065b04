"""The outside formats, and the files of a study: those the user names and those in the folders he names."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

from irtbench.data.how_to_read import HowToRead
from irtbench.data.input_error import InputError
from irtbench.data.readers import (
    annotation_tools,
    harness_runs,
    harnesses,
    inspect_log,
    irt_programs,
    measurement_db,
    mturk,
)
from irtbench.data.readers.long_table import column_options, item_and_value, likely_long
from irtbench.data.readers.observations import RECORDS, Reader, names_of
from irtbench.data.readers.records import Head, look_at
from irtbench.data.readers.respondents import is_prolific
from irtbench.data.responses import name_first

GROUP = "irtbench.readers"
log = logging.getLogger(__name__)


def readers_of_others() -> Iterator[Reader]:
    """Readers that other packages name; a warning says which cannot be loaded, or is none."""
    for entry in entry_points(group=GROUP):
        try:
            found = entry.load()
        except Exception as error:  # of whatever the package does when it is loaded
            log.warning("reader %s (%s) is left out: it cannot be loaded (%s)", entry.name, entry.value, error)
            continue
        if isinstance(found, Reader):
            yield found
        else:
            log.warning(
                "reader %s (%s) is left out: expected a Reader of irtbench.data.readers.observations",
                entry.name,
                entry.value,
            )


READERS: tuple[Reader, ...] = (
    inspect_log.READER,
    harness_runs.LM_EVAL,
    harnesses.EVERY_EVAL_EVER,
    measurement_db.READER,
    harness_runs.HELM,
    annotation_tools.POTATO,
    harnesses.EVALPLUS,
    harnesses.LIGHTEVAL,
    annotation_tools.LABEL_STUDIO,
    annotation_tools.ARGILLA,
    annotation_tools.PRODIGY,
    mturk.READER,
    harnesses.OPENAI_EVALS,
    harnesses.PROMPTFOO,
    harnesses.DEEPEVAL,
    annotation_tools.DOCCANO,
    irt_programs.READER,
    *readers_of_others(),
)
#: Those whose respondents are models.
FORMATS_OF_MODELS = frozenset(reader.name for reader in READERS if reader.holds == "response") - {
    irt_programs.READER.name
}


TABLE, EXTRA, UNKNOWN = "table", "extra", "unknown"  # what a file is that no reader reads
OR_A_TABLE = "or a table of respondent_id, item_id, response"
_TABLE_SUFFIXES = {".csv", ".tsv", ".txt", ".gz", ".parquet"}


@dataclass(frozen=True)
class Sources:
    """The files of a study.

    Parameters
    ----------
    heads
        The files to read, in their order.
    reader
        Their format; None for long and wide tables.
    participants
        Tables of participants to join (Prolific).
    """

    heads: tuple[Head, ...]
    reader: Reader | None
    participants: tuple[Path, ...] = ()


def find_sources(paths: Sequence[Path], how: HowToRead, left_out: Counter[str]) -> Sources:
    """Find the files to read and recognise their format.

    Records of JSON are a table where by their names, or those of columns that the user named, they are a long one. In
    a folder, files of no known format are left out and counted; so are tables among files of an outside format.
    """
    named = list(_heads(paths, left_out))
    if how.format in ("long", "wide"):
        return Sources(
            tuple(head for head, found in named if not found or _is_table(head) or head.kind in RECORDS), None
        )
    participants = tuple(head.path for head, _ in named if is_prolific(head))
    kinds = [(head, found, _kind_of(head, found, how, left_out)) for head, found in named]
    outside = {kind.name: kind for _, _, kind in kinds if isinstance(kind, Reader)}
    of_format: dict[str, list[Head]] = {name: [] for name in outside}
    for head, found, kind in kinds:
        if kind == UNKNOWN or (kind == TABLE and outside and found):
            left_out["files of no known format"] += 1
        elif kind != EXTRA:
            of_format.setdefault(kind.name if isinstance(kind, Reader) else kind, []).append(head)
    if len(of_format) > 1:
        several = "; ".join(f"{name}: {heads[0].path}" for name, heads in of_format.items())
        raise InputError(f"several formats: {several}; expected one, or choose it (--from)")
    for head in (head for head, found, kind in kinds if kind == UNKNOWN and not found):
        raise InputError(_describe_unknown(head, how))
    for name, heads in of_format.items():
        return Sources(tuple(heads), outside.get(name), participants)
    raise InputError(
        f"{name_first([str(path) for path in paths])}: no file of a known format; expected answers or responses: "
        f"{', '.join(['long', 'wide', *(reader.name for reader in READERS)])}, {OR_A_TABLE}"
    )


def _heads(paths: Sequence[Path], left_out: Counter[str]) -> Iterator[tuple[Head, bool]]:
    """The files, those named first, and whether each was found in a folder."""
    yield from ((look_at(path), False) for path in paths if not path.is_dir())
    for folder in (path for path in paths if path.is_dir()):
        files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
        files = [file for file in files if not any(part[0] == "." for part in file.relative_to(folder).parts)]
        if not files:
            raise InputError(f"folder {folder}: no files in it; expected files of a known format")
        for file in files:
            try:
                yield look_at(file), True
            except InputError:
                left_out["files of no known format"] += 1


def _kind_of(head: Head, found: bool, how: HowToRead, left_out: Counter[str]) -> Reader | str:
    """The reader of a file, or what it is besides."""
    readers = [reader for reader in READERS if how.format in ("auto", reader.name)]
    reader = next((reader for reader in readers if reader.recognises(head)), None)
    if is_prolific(head):
        return EXTRA
    if any(reader.accompanies(head) for reader in (readers if reader is None else [reader])):
        left_out.update([f"files that accompany {reader.title}"] if reader is not None else [])
        return EXTRA
    if reader is not None or how.format != "auto":
        return reader or UNKNOWN
    if _is_table(head):
        return UNKNOWN if found and head.path.suffix not in _TABLE_SUFFIXES else TABLE
    names = names_of(head) if head.kind in RECORDS else []
    is_long = names and (likely_long(names, how.columns) or item_and_value(names, how.columns))
    return TABLE if is_long else UNKNOWN


def _is_table(head: Head) -> bool:
    return head.kind in ("table", "parquet")


def _describe_unknown(head: Head, how: HowToRead) -> str:
    if how.format != "auto":
        return f"file {head.path}: does not look like the format {how.format}; expected another, {OR_A_TABLE}"
    content = {
        "zip": f"a zip archive of {name_first(head.members)}",
        "array": f"a JSON array, its records with {name_first(names_of(head), most=12) or 'no names'}",
        "lines": f"JSON lines with {name_first(names_of(head), most=12)}",
        "object": f"a JSON object with {name_first(list(head.first), most=12)}",
    }[head.kind]
    if irt_programs.recognises(head):
        return f"file {head.path}: items that py-irt estimated, no responses; for score, diagnose --items and convert"
    known = ", ".join(reader.name for reader in READERS)
    own = f"their fields named ({column_options(how.columns, names_of(head))}), " if head.kind in RECORDS else ""
    return f"file {head.path}: {content}: no format that is known; expected one of {known}, {own}{OR_A_TABLE}"
