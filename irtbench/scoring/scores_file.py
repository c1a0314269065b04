"""Scores on disk, written a part at a time as CSV or Parquet."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from irtbench.data.harmless_text import guarded_table


class ScoresFile:
    """A table that grows by parts; nothing is kept in memory.

    Parameters
    ----------
    path
        Parquet, or CSV by any other name (gzipped for ``.gz``).
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._parquet = self.path.suffix == ".parquet"
        self._writer: pa.parquet.ParquetWriter | pa.csv.CSVWriter | None = None
        self._stream: pa.NativeFile | None = None

    def __enter__(self) -> ScoresFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for part in (self._writer, self._stream):
            if part is not None:
                part.close()

    def rows_of(self, scores: pd.DataFrame) -> pa.Table:
        """Scores in the form in which they are written."""
        return pa.Table.from_pandas(scores if self._parquet else guarded_table(scores), preserve_index=False)

    def write(self, table: pa.Table) -> None:
        """Add rows; all parts have the columns of the first."""
        if self._writer is None:
            self._writer = self._begin(table.schema)
        self._writer.write_table(table.cast(self._writer_schema))

    def _begin(self, schema: pa.Schema) -> pa.parquet.ParquetWriter | pa.csv.CSVWriter:
        self._writer_schema = schema
        if self._parquet:
            return pa.parquet.ParquetWriter(self.path, schema)
        self._stream = pa.output_stream(self.path, compression="gzip" if self.path.suffix == ".gz" else None)
        self._stream.write((",".join(schema.names) + "\n").encode())
        options = pa.csv.WriteOptions(include_header=False, quoting_style="needed")
        return pa.csv.CSVWriter(self._stream, schema, write_options=options)
