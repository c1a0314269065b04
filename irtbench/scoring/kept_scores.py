"""Scores of blocks of a large table that are finished, kept on disk for a run that goes on where one was stopped."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather

IDENTITY = "identity.json"
_BLOCK = re.compile(r"part-\d{7}-\d{5}\.arrow")
SEAL = 32  # bytes before the scores: a hash of them, their place and the identity

log = logging.getLogger(__name__)


class KeptScores:
    """A folder with a file for each finished block, complete or absent.

    Parameters
    ----------
    folder
        Made if it is not there. Blocks of another identity are removed from it. A file begins with a
        hash of what it holds and of the identity.
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

    def put(self, piece: int, number: int, scores: pa.Table) -> None:
        """Keep the scores of a block, by the numbers of its piece and within it, in one step of the file system.

        Behind the last block of a piece stands one without rows.
        """
        beside, written = self.folder / f"{piece}-{number}.{os.getpid()}.unfinished", pa.BufferOutputStream()
        pyarrow.feather.write_feather(scores, written, compression="lz4")
        content = written.getvalue()
        with beside.open("wb") as file:
            file.write(self._seal(piece, number, content))
            file.write(content)
        os.replace(beside, self._file(piece, number))

    def get(self, piece: int, number: int) -> pa.Table | None:
        """The scores of a block; None if they are not there, or, with a warning, damaged."""
        file = self._file(piece, number)
        if not file.exists():
            return None
        found = memoryview(file.read_bytes())
        seal, content = found[:SEAL], found[SEAL:]
        if seal == self._seal(piece, number, content):
            return pyarrow.feather.read_table(pa.BufferReader(content), memory_map=False)
        file.unlink(missing_ok=True)
        log.warning("scores kept in %s are not what was written; scored anew", file)
        return None

    def remove(self) -> None:
        """Remove all of them."""
        for file in self.folder.iterdir():
            if _BLOCK.fullmatch(file.name) or file.name == IDENTITY or file.suffix == ".unfinished":
                file.unlink(missing_ok=True)

    def _file(self, piece: int, number: int) -> Path:
        return self.folder / f"part-{piece:07d}-{number:05d}.arrow"

    def _seal(self, piece: int, number: int, content: bytes | memoryview | pa.Buffer) -> bytes:
        sealed = self.sealed.copy()
        sealed.update(f"{piece} {number} ".encode())
        sealed.update(content)
        return sealed.digest()
