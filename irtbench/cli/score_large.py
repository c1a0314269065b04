"""``irtbench score`` of a table too large to be read whole: part by part, by one process or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from irtbench.cli.large import first_parquet, large_table
from irtbench.cli.output import output_file
from irtbench.cli.progress import reporting
from irtbench.cli.ranks import ranks_of_run
from irtbench.cli.reading import Reading
from irtbench.cli.result_files import unfinished_folder
from irtbench.data.input_error import InputError
from irtbench.data.place import address_of
from irtbench.data.readers.recognise import is_outside

if TYPE_CHECKING:
    from irtbench.bank.bank import ItemBank
    from irtbench.bank.left_out import LeftOut
    from irtbench.data.grading import GradingSettings
    from irtbench.data.items import UnknownItems
    from irtbench.data.readers.large_columns import Content
    from irtbench.scoring.bulk import Layout
    from irtbench.scoring.scores import ScoringSettings

LARGE_FILE = 100_000  # respondents of a wide Parquet file, from which on it is scored part by part
LARGE_LONG_FILE = 1_000_000  # rows of a long one
LARGE_TEXT, LARGE_GZIP = 10_000_000, 1_000_000  # bytes of a CSV file, and of a gzipped one
WRITTEN = (".csv", ".csv.gz", ".parquet")


def goes_by_parts(file: Path, output: Path | None, reading: Reading, in_memory: str) -> bool:
    """Whether a table is scored part by part: a large one, CSV or Parquet, into CSV or Parquet.

    Parameters
    ----------
    file, output
        What is read, and what is written.
    reading
        How it is read.
    in_memory
        An option that needs all responses in memory; empty if there is none.

    Raises
    ------
    InputError
        If it must be, for it is at an address or several processes were started, and the options do not allow it.
    """
    reason = in_memory or option_in_memory(output, reading)
    started, address = ranks_of_run.get() is not None, address_of(file)
    if reason and (started or address is not None):
        who = "several processes score" if started else f"{address}: a table at an address is scored"
        raise InputError(f"{who} part by part into a CSV or Parquet file; {reason}")
    if reason or started or address is not None:
        return not reason
    if file.is_dir():
        return first_parquet(file) is not None and large_table(file, reading) is not None
    return not is_outside(file) and is_large(file, reading)


def option_in_memory(output: Path | None, reading: Reading) -> str:
    """What all responses must be in memory for, in words; empty if there is nothing."""
    if output is None or not output.name.lower().endswith(WRITTEN):
        return "expected -o FILE.csv or FILE.parquet"
    if reading.trials not in ("count", "error"):
        return f"--trials {reading.trials} needs all responses in memory"
    if reading != Reading(reading.format, reading.columns, reading.trials):
        return "options that choose or change responses need all of them in memory"
    return ""


def is_large(file: Path, reading: Reading) -> bool:
    """Whether a long or wide table is so large that it is not read whole."""
    import pyarrow as pa
    import pyarrow.parquet

    from irtbench.data.readers.long_table import find_id_columns
    from irtbench.data.readers.packed import GZIP, PARQUET, first_bytes

    start = first_bytes(file)
    if start != PARQUET:
        return file.stat().st_size >= (LARGE_GZIP if start.startswith(GZIP) else LARGE_TEXT)
    try:
        opened = pa.parquet.ParquetFile(file)
    except (OSError, pa.ArrowException):
        return False  # the reader says what is wrong
    names = opened.schema_arrow.names
    if reading.format == "wide" or (reading.format == "auto" and find_id_columns(names, reading.columns) is None):
        return bool(opened.metadata.num_rows >= LARGE_FILE)
    return bool(opened.metadata.num_rows >= LARGE_LONG_FILE)


def score_large(
    bank: ItemBank,
    file: Path,
    output: Path,
    settings: ScoringSettings,
    reading: Reading,
    *,
    content: Content,
    unknown_items: UnknownItems,
    grading: GradingSettings | None,
    allow_address: Sequence[str],
    quiet: bool,
) -> tuple[int, list[LeftOut]] | None:
    """Score a table into a file: how many respondents, and the items that the bank's study left out.

    None in all but the first of several processes, which says it.

    Raises
    ------
    InputError
        As `score_file`; or if another run writes the same file with several processes.
    """
    from irtbench.scoring.bulk import score_file

    layout: Layout = "long" if reading.format == "long" else "wide" if reading.format == "wide" else "auto"
    left_out: list[LeftOut] = []
    ranks = ranks_of_run.get()

    def score(target: Path, unfinished: Path | None, progress: Callable[[str], None]) -> int:
        place = address_of(file) or file
        return score_file(
            bank, place, target, settings, layout=layout, content=content, columns=reading.columns,
            unknown_items=unknown_items, grading=grading, left_out=left_out, unfinished=unfinished, progress=progress,
            together=ranks, allow_address=allow_address,
        )  # fmt: skip

    if ranks is not None and not ranks.is_first:
        score(output, Path(ranks.told_text("")), lambda message: None)
        return None
    with (
        output_file(output) as target,
        unfinished_folder(output) as unfinished,
        reporting(quiet=quiet) as progress,
    ):
        if ranks is not None:
            if unfinished is None:
                raise InputError(f"output {output}: another run works on this file; expected it to end first")
            ranks.told_text(str(unfinished))
        return score(target, unfinished, progress), left_out
