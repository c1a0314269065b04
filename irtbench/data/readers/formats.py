"""The outside formats that are read, in the order in which a file is tried."""

from __future__ import annotations

from irtbench.data.readers import inspect_log, lm_eval
from irtbench.data.readers.observations import Reader

READERS: tuple[Reader, ...] = (
    inspect_log.READER,
    lm_eval.READER,
)
