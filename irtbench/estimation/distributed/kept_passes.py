"""Sums of the passes that a run has finished, kept on disk so that a run that was killed goes on with the next.

What a fit does between two passes follows from their sums. Kept under what they are sums of (the responses, and all
tensors that they depend on), they are found again by a run that takes the same way, up to where the last one was
stopped, and its figures are the same to the last bit. Sums of other responses, parameters or versions of irtbench have
other names.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import zipfile
import zlib
from collections.abc import Sequence
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

from irtbench.data.response_store import STATE
from irtbench.data.stored_responses import StoredResponses

FOLDER = "passes"

log = logging.getLogger(__name__)


class KeptPasses:
    """A folder of sums, a file a pass.

    Parameters
    ----------
    responses
        Whose sums; the folder is beside them.
    """

    def __init__(self, responses: StoredResponses) -> None:
        self.folder = responses.folder / FOLDER
        self.base = hashlib.sha256((responses.folder / STATE).read_bytes())
        self.base.update(version("irtbench").encode())
        for chosen in (responses.columns, responses.places):
            self.base.update(b"all" if chosen is None else chosen.tobytes())

    def __len__(self) -> int:
        return len(list(self.folder.glob("*.npz")))

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
            with np.load(self.folder / f"{name}.npz", allow_pickle=False) as file:
                if str(file["name"]) != name:
                    raise ValueError("of another pass")
                found: NDArray[np.float64] = file["sums"]
                return found
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, NotImplementedError, zlib.error):
            log.warning("cache %s: the sums %s are not what was written; summed anew", self.folder.parent, name)
            return None

    def put(self, name: str, sums: NDArray[np.float64]) -> None:
        """Keep sums, in one step of the file system."""
        self.folder.mkdir(exist_ok=True)
        beside = self.folder / f"{name}.part"
        with beside.open("wb") as file:
            np.savez(file, sums=sums, name=name)
        os.replace(beside, self.folder / f"{name}.npz")

    def remove(self) -> None:
        """Remove them all."""
        shutil.rmtree(self.folder, ignore_errors=True)
