"""Responses as Parquet files: wide or long, in one file or several, with small row groups."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from irtbench.data.responses import ResponseMatrix


def wide_frame(responses: ResponseMatrix) -> pd.DataFrame:
    """A row a respondent; responses are integers, null where missing."""
    values = pd.DataFrame(responses.correct, columns=list(responses.item_ids)).astype("Int8")
    values.insert(0, "respondent_id", list(responses.respondent_ids))
    return values


def long_frame(responses: ResponseMatrix, *, shuffled: int | None = None) -> pd.DataFrame:
    """A row a response, in the order of respondents or, by a seed, in any."""
    frame = responses.to_long()
    return frame if shuffled is None else frame.sample(frac=1, random_state=shuffled).reset_index(drop=True)


def write_parts(frame: pd.DataFrame, folder: Path, *, n_files: int = 3, rows_of_group: int = 40) -> Path:
    """The rows of a table in order over several files."""
    folder.mkdir(parents=True)
    for number, rows in enumerate(np.array_split(np.arange(len(frame)), n_files)):
        table = pa.Table.from_pandas(frame.iloc[rows], preserve_index=False)
        pq.write_table(table, folder / f"part-{number}.parquet", row_group_size=rows_of_group)
    return folder
