"""Names that have been seen, any number of them: millions in memory, eight bytes each, those before them on disk."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

MOST = 2**21  # in memory
BUCKETS = 64  # files of names on disk, one of which is read at a time


class SeenNames:
    """Names by their hashes of 64 bits, in sorted runs that are merged as they grow; as a context it closes its files.

    Parameters
    ----------
    folder
        Where names go that are too many for memory, into files without a name; None for the folder of temporary files.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._runs: list[NDArray[np.uint64]] = []
        self._on_disk: list[IO[bytes]] = []
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def add(self, names: Sequence[str]) -> str | None:
        """Add names; the first that comes twice among them or was seen before, None if there is none.

        Of names that are on disk by now `twice` tells it at the end.
        """
        hashes = self.hashes_of(names)
        order = np.argsort(hashes, kind="stable")
        new = hashes[order]
        again = np.zeros(len(new), dtype=np.bool_)
        again[1:] = new[1:] == new[:-1]
        for run in self._runs:
            place = np.searchsorted(run, new).clip(max=len(run) - 1)
            again |= run[place] == new
        if again.any():
            return names[int(order[again].min())]
        while self._runs and len(self._runs[-1]) <= len(new):
            new = np.sort(np.concatenate([self._runs.pop(), new]), kind="stable")
        if len(new):
            self._runs.append(new)
        if sum(map(len, self._runs)) > MOST:
            self._put_on_disk()
        return None

    def twice(self) -> int | None:
        """Hash of a name that came twice, which `add` has not told; None if there is none."""
        if not self._on_disk:
            return None
        self._put_on_disk()
        for file in self._on_disk:
            file.seek(0)
            hashes = np.sort(np.frombuffer(file.read(), dtype=np.uint64))
            if (again := hashes[1:][hashes[1:] == hashes[:-1]]).size:
                return int(again[0])
        return None

    @classmethod
    def hash_of(cls, name: str) -> int:
        """Hash of a name."""
        return int(cls.hashes_of([name])[0])

    @staticmethod
    def hashes_of(names: Sequence[str]) -> NDArray[np.uint64]:
        """Hashes of names."""
        found: NDArray[np.uint64] = pd.util.hash_array(np.array(names, dtype=object), categorize=False)
        return found

    def _put_on_disk(self) -> None:
        while len(self._on_disk) < BUCKETS:
            self._on_disk.append(self._open.enter_context(TemporaryFile(dir=self.folder)))  # noqa: SIM115 - it is one
        firsts = np.arange(1, BUCKETS, dtype=np.uint64) * np.uint64(2**64 // BUCKETS)
        while self._runs:
            run = self._runs.pop()
            for file, part in zip(self._on_disk, np.split(run, np.searchsorted(run, firsts)), strict=True):
                file.write(part.tobytes())
