"""Scores of the parts of a large table that are finished, kept on disk for a run that goes on where one was stopped."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather

IDENTITY = "identity.json"
_PART = re.compile(r"part-(\d{7})-(\d+)-([0-9a-f]{32})\.arrow")

log = logging.getLogger(__name__)


class KeptScores:
    """A folder with a file for each finished part, complete or absent.

    Parameters
    ----------
    folder
        Made if it is not there. Parts of another identity are removed from it. The name of a part has a hash of what
        it holds and of the identity.
    identity
        All that the scores depend on but the version of irtbench: plain JSON values.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self.folder = folder
        wanted = json.dumps({**identity, "version": version("irtbench")}, sort_keys=True)
        self.sealed = hashlib.sha256(wanted.encode())
        folder.mkdir(parents=True, exist_ok=True)
        try:
            same = (folder / IDENTITY).read_text(encoding="utf-8") == wanted
        except (OSError, ValueError):
            same = False
        if not same:
            self.remove()
            (folder / IDENTITY).write_text(wanted, encoding="utf-8")

    def has(self, number: int) -> bool:
        """Whether a part is finished."""
        return number in self._parts()

    def put(self, number: int, scores: pa.Table, n_rows: int) -> None:
        """Keep the scores of a part that is so many rows of the table, in one step of the file system."""
        beside, written = self.folder / f"{number}.{os.getpid()}.unfinished", pa.BufferOutputStream()
        pyarrow.feather.write_feather(scores, written, compression="lz4")
        content = written.getvalue()
        beside.write_bytes(content)
        os.replace(beside, self.folder / f"part-{number:07d}-{n_rows}-{self._seal(number, n_rows, content)}.arrow")

    def tables(self) -> Iterator[tuple[pa.Table, int]]:
        """The first parts up to one that is missing or damaged, with their numbers of rows of the table.

        A warning says what is damaged.
        """
        parts = self._parts()
        for number in range(len(parts)):
            if number not in parts:
                return
            file, n_rows = parts[number]
            content = file.read_bytes()
            if not file.name.endswith(f"-{self._seal(number, n_rows, content)}.arrow"):
                file.unlink(missing_ok=True)
                log.warning("scores kept in %s are not what was written; scored anew from there on", file)
                return
            yield pyarrow.feather.read_table(pa.BufferReader(content), memory_map=False), n_rows

    def remove(self) -> None:
        """Remove all of them."""
        for file in self.folder.iterdir():
            if _PART.fullmatch(file.name) or file.name == IDENTITY or file.suffix == ".unfinished":
                file.unlink(missing_ok=True)

    def _seal(self, number: int, n_rows: int, content: bytes | pa.Buffer) -> str:
        sealed = self.sealed.copy()
        sealed.update(f"{number} {n_rows} ".encode())
        sealed.update(content)
        return sealed.hexdigest()[:32]

    def _parts(self) -> dict[int, tuple[Path, int]]:
        found = ((file, _PART.fullmatch(file.name)) for file in self.folder.iterdir())
        return {int(match[1]): (file, int(match[2])) for file, match in found if match}
