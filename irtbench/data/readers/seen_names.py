"""Whether a name comes twice among any number of them: eight bytes of each on disk, sorted at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Self

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

MOST = 2**22  # sorted in memory
SCHEMA = pa.schema([("hash", pa.uint64())])


class SeenNames:
    """Hashes of names, of 64 bits, in a file without a name; as a context it closes it.

    Parameters
    ----------
    folder
        Where the file is; None for the folder of temporary files.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder, self._file = folder, TemporaryFile(dir=folder)  # noqa: SIM115 - it is one

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def add(self, names: Sequence[str]) -> None:
        """Add names."""
        self._file.write(hashes_of(names).tobytes())

    def alike(self) -> NDArray[np.uint64]:
        """The hashes that two names or more have, ascending."""
        found, last = [np.empty(0, dtype=np.uint64)], np.empty(0, dtype=np.uint64)
        for part in self._sorted():
            hashes = np.concatenate([last, part])
            found.append(hashes[1:][hashes[1:] == hashes[:-1]])
            last = part[-1:]
        return np.unique(np.concatenate(found))

    def repeated(self, again: Iterable[Sequence[str]]) -> str | None:
        """A name that was added twice; those of one hash, of the names when they are read again, are compared."""
        alike, found = self.alike(), set[str]()
        for names in again if alike.size else ():
            for place in np.flatnonzero(np.isin(hashes_of(names), alike)).tolist():
                if names[place] in found:
                    return names[place]
                found.add(names[place])
        return None

    def _sorted(self) -> Iterator[NDArray[np.uint64]]:
        n = self._file.tell() // 8
        self._file.seek(0)
        parts = (np.frombuffer(part, dtype=np.uint64) for part in iter(partial(self._file.read, 8 * MOST), b""))
        if n <= MOST:
            yield from map(np.sort, parts)
            return
        from irtbench.data.readers.row_order import in_order

        rows = (pa.record_batch([pa.array(part)], schema=SCHEMA) for part in parts)
        with TemporaryDirectory(prefix="irtbench-", dir=self.folder) as place:
            for batch in in_order(rows, SCHEMA, Path(place) / "sorting", "names"):
                yield batch.column(0).to_numpy()


def hashes_of(names: Sequence[str]) -> NDArray[np.uint64]:
    """Hashes of names."""
    found: NDArray[np.uint64] = pd.util.hash_array(np.array(names, dtype=object), categorize=False)
    return found
