"""Sums of the passes that a run has finished, kept on disk so that a run that was killed goes on with the next.

What a fit does between two passes follows from their sums. Kept under what they are sums of (the responses, and all
tensors that they depend on), they are found again by a run that takes the same way, up to where the last one was
stopped, and its figures are the same to the last bit. Sums of other responses, parameters or versions of irtbench have
other names.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import shutil
from collections.abc import Sequence
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

from irtbench.data.stored_responses import StoredResponses

FOLDER = "passes"
SEAL = 32  # bytes of the hash before the sums of a file

log = logging.getLogger(__name__)


class KeptPasses:
    """A folder of sums, a file a pass.

    Parameters
    ----------
    responses
        Whose sums; the folder is inside theirs.
    """

    def __init__(self, responses: StoredResponses) -> None:
        self.folder = responses.folder / FOLDER
        self.base = hashlib.sha256(f"{responses.content_hash} {version('irtbench')}".encode())

    def __len__(self) -> int:
        return len(list(self.folder.glob("*.sums")))

    def name_of(self, what: str, at: Sequence[NDArray[np.generic]]) -> str:
        """The name of sums that depend on these numbers."""
        digest = self.base.copy()
        digest.update(what.encode())
        for part in at:
            digest.update(f"{part.dtype} {part.shape}".encode())
            digest.update(np.ascontiguousarray(part).data)
        return digest.hexdigest()[:32]

    def get(self, name: str) -> NDArray[np.float64] | None:
        """The sums of that name; None where there are none, or the file is damaged."""
        try:
            content = (self.folder / f"{name}.sums").read_bytes()
        except FileNotFoundError:
            return None
        except OSError:
            content = b""
        if content[:SEAL] != _seal(name, content[SEAL:]):
            log.warning("cache %s: the sums %s are not what was written; summed anew", self.folder.parent, name)
            return None
        found: NDArray[np.float64] = np.load(io.BytesIO(content[SEAL:]), allow_pickle=False)
        return found

    def put(self, name: str, sums: NDArray[np.float64]) -> None:
        """Keep sums, in one step of the file system."""
        self.folder.mkdir(exist_ok=True)
        content, part = io.BytesIO(), self.folder / f"{name}.part"
        np.save(content, sums, allow_pickle=False)
        part.write_bytes(_seal(name, content.getvalue()) + content.getvalue())
        os.replace(part, self.folder / f"{name}.sums")

    def remove(self) -> None:
        """Remove them all."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _seal(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + content).digest()
