"""A list of names on disk that grows at its end and is read from any place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class NameFile:
    """Names in two files: their UTF-8 one after the other, and where each ends.

    Parameters
    ----------
    texts
        File of the names.
    ends
        File of the ends, eight bytes each.
    """

    texts: Path
    ends: Path

    @classmethod
    def within(cls, folder: Path, name: str) -> NameFile:
        """The list of that name in a folder."""
        return cls(folder / f"{name}.bin", folder / f"{name}-ends.bin")

    @property
    def files(self) -> tuple[Path, Path]:
        """Both files."""
        return self.texts, self.ends

    def __len__(self) -> int:
        return self.ends.stat().st_size // 8

    def append(self, names: pa.Array) -> None:
        """Add names, none of them null, at the end."""
        if not len(names):
            return
        names = pa.concat_arrays([names.cast(pa.large_string())])
        _, offsets, data = names.buffers()
        ends = np.frombuffer(offsets, dtype=np.int64)[names.offset : names.offset + len(names) + 1]
        with self.texts.open("ab") as texts, self.ends.open("ab") as file:
            before = texts.tell()
            if data is not None:
                texts.write(memoryview(data)[ends[0] : ends[-1]])
            file.write((ends[1:] - ends[0] + before).tobytes())

    def read(self, start: int, stop: int) -> pa.Array:
        """Names from one place to another, the last not among them."""
        stop = max(start, stop)
        first = max(start - 1, 0)
        ends = np.fromfile(self.ends, dtype=np.int64, offset=8 * first, count=stop - first)
        if start == 0:
            ends = np.concatenate([[np.int64(0)], ends])
        data = np.fromfile(self.texts, dtype=np.uint8, offset=int(ends[0]), count=int(ends[-1] - ends[0]))
        offsets = pa.py_buffer(np.ascontiguousarray(ends - ends[0]))
        return pa.LargeStringArray.from_buffers(stop - start, offsets, pa.py_buffer(data))
