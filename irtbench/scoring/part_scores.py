"""Scores of blocks of respondents, several of which are worked on at once, in the order of their rows.

Scores are written by one process, or made by several of which each takes the next piece.
"""

from __future__ import annotations

import json
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
from threadpoolctl import threadpool_limits

from irtbench.bank.bank import ItemBank
from irtbench.data import response_blocks
from irtbench.data.harmless_text import guarded_table
from irtbench.data.input_error import InputError
from irtbench.data.place import keep, kept_in
from irtbench.data.readers.table import without_guards
from irtbench.data.response_blocks import Blocks, SeenNames, Unmade
from irtbench.data.responses import ResponseMatrix
from irtbench.scoring.scores import ScoringSettings, score_responses

END = pa.table({"end": pa.array([], pa.bool_())})  # behind the blocks of a piece
WORKERS = max(2, min(8, os.cpu_count() or 1))

#: What is done to the scores of a block, given its responses.
Finish = Callable[[pd.DataFrame, ResponseMatrix], pd.DataFrame]

IDENTITY = "identity.json"
_BLOCK = re.compile(r"part-\d{7}-\d{5}\.arrow")


class Processes(Protocol):
    """What one of several processes that score together knows of the others, as `Ranks` of torchrun does."""

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes the file."""

    def next_of(self, what: str) -> int:
        """Numbers from 0, each handed out once to whichever process asks."""

    def wait_for_all(self) -> None:
        """Go on when all processes have come here."""


@dataclass(frozen=True)
class BlockScores:
    """Scores of blocks on their way into a file."""

    bank: ItemBank
    blocks: Blocks
    settings: ScoringSettings
    target: Path
    finish: Finish | None = None
    before: pd.DataFrame | None = None
    unfinished: Path | None = None
    trials: bool = False

    def write(self, progress: Callable[[str], None], together: Processes | None = None) -> int:
        """Write them, with other processes if there are any, and say of how many respondents they are."""
        kept = None if self.unfinished is None else self._kept(self.unfinished, together)
        if together is not None and kept is not None:
            numbers = iter(partial(together.next_of, "pieces of scores"), None)
            for call in self._calls(takewhile(lambda piece: piece < len(self.blocks.pieces), numbers), kept):
                call()
            together.wait_for_all()
            if not together.is_first:
                return self.blocks.n_respondents or 0
        try:
            n = self._written(kept, progress)
        except InputError:  # what was scored is of no use to a run with other input
            if kept is not None:
                kept.remove()
            raise
        if kept is not None:
            kept.remove()
        return n

    def _kept(self, folder: Path, together: Processes | None) -> KeptScores:
        """The scores that an earlier run has kept; the first process makes the folder before the others look there."""
        identity = {
            **self.blocks.identity(), "bank": self.bank.content_hash, "settings": repr(self.settings),
            "rows": response_blocks.ROWS, "target": "".join(self.target.suffixes), "pieces": len(self.blocks.pieces),
        }  # fmt: skip
        if together is not None and not together.is_first:
            together.wait_for_all()
        kept = KeptScores(folder, identity)
        if together is not None and together.is_first:
            together.wait_for_all()
        return kept

    def _of(self, kept: KeptScores | None, piece: int, number: int, block: Unmade) -> pa.Table:
        """The scores of a block, kept if they are to be."""
        scores = kept.get(piece, number) if kept is not None else None
        if scores is None:
            responses = block()
            table = score_responses(self.bank, responses, self.settings)
            if self.trials and "n_trials" not in table:
                table["n_trials"] = table["n_items"]  # the columns of all blocks are the same
            table = table if self.finish is None else self.finish(table, responses)
            scores = ScoresFile(self.target).rows_of(table)
            if kept is not None:
                kept.put(piece, number, scores)
        return scores

    def _calls(self, pieces: Iterable[int], kept: KeptScores | None) -> Iterator[Callable[[], pa.Table]]:
        """What gives the scores of the blocks of these pieces, in order; pieces that are kept whole are not read."""
        for piece in pieces:
            n_kept = 0
            while kept is not None and (scores := kept.get(piece, n_kept)) is not None:
                if len(scores) == 0:
                    break
                n_kept += 1
                yield partial(pa.Table.slice, scores)
            else:
                number = -1
                for number, block in enumerate(self.blocks.pieces[piece]()):
                    if number >= n_kept:
                        yield partial(self._of, kept, piece, number, block)
                if kept is not None:
                    kept.put(piece, number + 1, END)

    def _written(self, kept: KeptScores | None, progress: Callable[[str], None]) -> int:
        """Write the scores of all blocks, and say how many respondents they are of."""
        blocks, n, n_scales, seen = self.blocks, 0, len(self.bank.scales), SeenNames()
        of = "" if blocks.n_respondents is None else f" of {blocks.n_respondents}"
        with ScoresFile(self.target) as file:
            if self.before is not None:
                file.write(file.rows_of(self.before))
            for table in in_turn(self._calls(range(len(blocks.pieces)), kept)):
                if not blocks.distinct:
                    seen.add(without_guards(table.column("respondent_id").combine_chunks()).to_pylist()[::n_scales])
                file.write(table)
                n += len(table) // n_scales
                progress(f"{n}{of} respondents scored")
            again = (block().respondent_ids for piece in blocks.pieces for block in piece())
            if (twice := seen.repeated(again)) is not None:
                raise InputError(f"responses: respondent {twice} comes twice; expected a row for each")
        if n == 0:
            raise InputError("responses: no rows; expected at least one respondent")
        return n


def in_turn(calls: Iterator[Callable[[], pa.Table]]) -> Iterator[pa.Table]:
    """Results of calls in their order, a few of which are worked on at a time."""
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(WORKERS) as pool:
        waiting: deque[Future[pa.Table]] = deque()
        for call in calls:
            waiting.append(pool.submit(call))
            if len(waiting) > WORKERS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


class KeptScores:
    """A folder with a file for each finished block, complete or absent."""

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self.folder = folder
        self.identity = wanted = json.dumps({**identity, "version": version("irtbench")}, sort_keys=True)
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

        After the last block of a piece there is one without rows.
        """
        written = pa.BufferOutputStream()
        pyarrow.feather.write_feather(scores, written, compression="lz4")
        keep(self._file(piece, number), f"{self.identity} {piece} {number}", memoryview(written.getvalue()))

    def get(self, piece: int, number: int) -> pa.Table | None:
        """The scores of a block; None if they are not there, or, with a warning, damaged."""
        content = kept_in(self._file(piece, number), f"{self.identity} {piece} {number}")
        return None if content is None else pyarrow.feather.read_table(pa.BufferReader(content), memory_map=False)

    def remove(self) -> None:
        """Remove all of them."""
        for file in self.folder.iterdir():
            if _BLOCK.fullmatch(file.name) or file.name == IDENTITY or file.suffix == ".part":
                file.unlink(missing_ok=True)

    def _file(self, piece: int, number: int) -> Path:
        return self.folder / f"part-{piece:07d}-{number:05d}.arrow"


class ScoresFile(ExitStack):
    """A table that grows by parts; nothing is kept in memory. Parquet, or CSV by any other name (gzipped for .gz)."""

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self.path = Path(path)
        self._parquet = self.path.suffix == ".parquet"
        self._writer: pa.parquet.ParquetWriter | pa.csv.CSVWriter | None = None

    def rows_of(self, scores: pd.DataFrame) -> pa.Table:
        """Scores in the form in which they are written."""
        return pa.Table.from_pandas(scores if self._parquet else guarded_table(scores), preserve_index=False)

    def write(self, table: pa.Table) -> None:
        """Add rows; all parts have the columns of the first."""
        if self._writer is None:
            self._schema = table.schema
            self._writer = self.enter_context(self._begun())
        self._writer.write_table(table.cast(self._schema))

    def _begun(self) -> pa.parquet.ParquetWriter | pa.csv.CSVWriter:
        if self._parquet:
            return pa.parquet.ParquetWriter(self.path, self._schema)
        compression = "gzip" if self.path.suffix == ".gz" else None
        stream = self.enter_context(pa.output_stream(self.path, compression=compression))
        stream.write((",".join(self._schema.names) + "\n").encode())
        options = pa.csv.WriteOptions(include_header=False, quoting_style="needed")
        return pa.csv.CSVWriter(stream, self._schema, write_options=options)
