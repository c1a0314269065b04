"""Scores of the parts of a large table that are finished, kept on disk for a run that goes on where one was stopped."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather

IDENTITY = "identity.json"
_PART = re.compile(r"part-(\d{7})-(\d+)\.arrow")


class KeptScores:
    """A folder with a file for each finished part, complete or absent.

    Parameters
    ----------
    folder
        Made if it is not there. Parts of another identity are removed from it.
    identity
        All that the scores depend on: plain JSON values.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self.folder = folder
        wanted = json.dumps(identity, sort_keys=True)
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
        beside = self.folder / f"{number}.{os.getpid()}.unfinished"
        pyarrow.feather.write_feather(scores, str(beside), compression="lz4")
        os.replace(beside, self.folder / f"part-{number:07d}-{n_rows}.arrow")

    def tables(self) -> Iterator[tuple[pa.Table, int]]:
        """The first parts up to one that is missing or damaged, with their numbers of rows of the table."""
        parts = self._parts()
        for number in range(len(parts)):
            try:
                file, n_rows = parts[number]
                table = pyarrow.feather.read_table(str(file), memory_map=False)
            except (KeyError, OSError, pa.ArrowException):
                return  # scored anew: nothing is lost but time
            yield table, n_rows

    def remove(self) -> None:
        """Remove all of them."""
        for file in self.folder.iterdir():
            if _PART.fullmatch(file.name) or file.name == IDENTITY or file.suffix == ".unfinished":
                file.unlink(missing_ok=True)

    def _parts(self) -> dict[int, tuple[Path, int]]:
        found = ((file, _PART.fullmatch(file.name)) for file in self.folder.iterdir())
        return {int(match[1]): (file, int(match[2])) for file, match in found if match}
