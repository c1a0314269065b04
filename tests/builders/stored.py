"""Responses encoded on disk."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from irtbench.data.response_store import ResponseStore
from irtbench.data.responses import ResponseMatrix
from irtbench.data.stored_responses import StoredResponses


def on_disk(responses: ResponseMatrix, folder: Path) -> StoredResponses:
    folder.mkdir(exist_ok=True)
    store = ResponseStore.begin(folder, responses.item_ids, None)
    values = np.where(np.isnan(responses.correct), -1, responses.correct).astype(np.int8)
    store.add(pa.array(responses.respondent_ids), values)
    store.end_part()
    store.finish()
    return store.responses()
