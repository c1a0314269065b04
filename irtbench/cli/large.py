"""Tables too large to be read whole: which they are, and the folder in which they are encoded."""

from __future__ import annotations

import hashlib
import math
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

import irtbench
from irtbench.cli.options import AllowAddress, Reading, refuse, say
from irtbench.cli.result_files import held, removed_at_the_end
from irtbench.data.place import address_of, file_hash, text_hash

MOST_FIELDS = 10_000_000  # of a Parquet table that is read whole: rows times columns
WORTHWHILE = 4_000_000  # bytes: a smaller file is read before a library is found
ESTIMATION = "irtbench.estimation.fit"  # which brings torch
RUNNING = "running"  # lock of a run that reads what is encoded, so that no other encodes anew meanwhile


def large_table(
    file: Path,
    reading: Reading,
    *,
    in_memory: str = "",
    whatever_size: bool = False,
    of_study: bool = False,
    allow_address: Sequence[str] = (),
) -> irtbench.data.LargeTable | None:
    """The table, if it is one that is encoded on disk: at an address, or Parquet of more than ``MOST_FIELDS`` fields.

    Parameters
    ----------
    file
        What the user named.
    reading
        How it is to be read.
    in_memory
        An option that needs all responses in memory; empty if there is none.
    whatever_size
        Whether a small table is encoded too.
    of_study
        Whether the options are keys of a study file.
    allow_address
        Beginnings of addresses that are read besides those that are read anyway.

    Raises
    ------
    InputError
        If a table cannot be encoded with these options and is at an address, or far too large for memory; or if a
        file is damaged.
    """
    readers = irtbench.data.readers
    address = address_of(file)
    if address is None:
        first = first_parquet(file)
        if first is None or readers.recognise.is_outside(first) or readers.records.look_at(first).kind != "parquet":
            return None
    table = irtbench.data.LargeTable.open(file, allow_address=allow_address, of_study=of_study)
    if address is None and table.n_fields <= MOST_FIELDS and not whatever_size:
        return None
    needs = in_memory or option_in_memory(table, reading)
    if not needs:
        return table
    if of_study:
        needs = needs.replace("--", "data.")
    if address is not None:
        raise irtbench.InputError(
            f"{table.place}: {needs} goes with a table on this machine; expected a file or a folder"
        )
    demand_memory(table, needs, long=bool(readers.long_table.long_columns(table.names, reading.columns)))
    return None


def say_cache_unused(file: Path, cache: Path | None) -> None:
    """Say on standard error that a table is read into memory, if a cache was asked for."""
    if cache is not None:
        which = f"Parquet tables of more than {MOST_FIELDS:,} fields, and those at an address, are encoded there"
        say(f"warning: --cache: not used: {file} is read into memory; {which}")


def first_parquet(file: Path) -> Path | None:
    """The file if it is Parquet, or the first of a folder that holds Parquet files alone; None for anything else."""
    packed = irtbench.data.readers.packed
    if file.is_dir():
        inner = sorted(path for path in file.rglob("*") if path.is_file() and path.name[:1] not in "._")
        return inner[0] if inner and all(path.suffix == ".parquet" for path in inner) else None
    return file if file.is_file() and packed.first_bytes(file) == packed.PARQUET else None


def option_in_memory(table: irtbench.data.LargeTable, reading: Reading) -> str:
    """The first option, or content, for which a table must be read whole; empty if there is none."""
    long = irtbench.data.readers.long_table.long_columns(table.names, reading.columns)
    needs = {
        "a column of trials": bool(long) and ("trial" in table.names or "n_trials" in long),
        f"--format {reading.format}": reading.format not in ("auto", "long" if long else "wide"),
        f"--trials {reading.trials}": reading.trials not in ("count", "error"),
        "--metric": bool(reading.metric),
        "--errored wrong": reading.errored != "missing",
        "--join": reading.join is not None,
        "--respondents": reading.respondents is not None,
    }
    return next((name for name, asked in needs.items() if asked), "")


def choice_of(reading: Reading) -> irtbench.data.ColumnChoice:
    """What the options say of columns."""
    return irtbench.data.ColumnChoice(reading.columns, reading.items, reading.exclude, reading.threshold)


def demand_memory(table: irtbench.data.LargeTable, needs: str, *, long: bool) -> None:
    """Refuse to read a table whole that is larger than any one file may be, and than the machine's memory.

    Raises
    ------
    InputError
        Saying what asks for it, and how much it takes.
    """
    names = ("SC_PHYS_PAGES", "SC_PAGE_SIZE")
    if not set(names) <= os.sysconf_names.keys():
        return
    there = math.prod(map(os.sysconf, names))
    wanted = irtbench.study.examination.BYTES_PER_CELL * (table.n_rows if long else table.n_fields)
    if wanted > there and table.n_fields > irtbench.data.readers.table.MOST_FIELDS:
        raise irtbench.InputError(
            f"{table.place}: {needs} needs all responses in memory, about {wanted / 1e9:.0f} GB of the "
            f"{there / 1e9:.0f} there are; expected fewer responses, or the run without it"
        )


def hashed(file: Path, table: irtbench.data.LargeTable | None) -> dict[str, str]:
    """Name and hash of responses; of a table at an address that of the names, sizes and times of its files."""
    if table is None or file.exists():
        return {file.name: file_hash(file)}
    return {table.place: hash_of(table)}


def hash_of(table: irtbench.data.LargeTable) -> str:
    """Hash of the names, sizes and contents of the files."""
    from irtbench.cli.output import to_json

    return text_hash(to_json(table.identity))


@contextmanager
def cache_folder(cache: Path | None, table: irtbench.data.LargeTable, *, remove: bool = False) -> Iterator[Path]:
    """The folder in which a table is encoded: one of its own in the cache, or a temporary one, removed at the end.

    Raises
    ------
    InputError
        If the cache is no folder, or another run uses it for this table.
    """
    if cache is not None and cache.exists() and not cache.is_dir():
        raise irtbench.InputError(f"cache {cache}: is not a folder")
    if cache is None:
        folder = Path(tempfile.mkdtemp(prefix="irtbench-"))
    else:
        place = table.place if "://" in table.place else str(Path(table.place).resolve())
        folder = cache / hashlib.sha256(place.encode()).hexdigest()[:16]
    with (
        removed_at_the_end(folder)
        if cache is None
        else irtbench.data.response_store.locked(folder, RUNNING, remove=remove)
    ):
        yield folder


@contextmanager
def encoded(
    table: irtbench.data.LargeTable,
    reading: Reading,
    folder: Path | None,
    progress: Callable[[str], None],
    *,
    remove: bool = False,
    is_cache: bool = True,
    levels: Sequence[str] | None = None,
) -> Iterator[Any]:
    """The responses of a table encoded on disk, which no other program changes while the block runs.

    Parameters
    ----------
    table, reading
        What is encoded, and which columns are what.
    folder
        The cache, None for a temporary folder; or the folder of this table alone, if `is_cache` is false.
    progress
        Called with a line now and then.
    remove
        Whether the table's folder in the cache is removed at the end.
    levels
        As of `given_responses`; of scores there are `StoredScores`.
    """
    encode = (
        irtbench.data.encode_table if levels is None else partial(irtbench.data.encode_scores, levels=levels or None)
    )
    with (
        nullcontext(folder)
        if not is_cache and folder is not None
        else cache_folder(folder, table, remove=remove) as own
    ):
        with loading(ESTIMATION):
            stored = encode(table, own, choice=choice_of(reading), progress=progress)
        with irtbench.data.response_store.unchanged(stored):
            yield stored


def demand_shared(
    place: object,
    words: str,
    table: irtbench.data.LargeTable | None,
    cache: Path | None,
    ranks: irtbench.estimation.ranks.Ranks,
) -> None:
    """Refuse responses that several processes cannot share.

    Raises
    ------
    InputError
        If there is no table to encode on disk, or it would be in a folder that not all processes see.
    """
    refuse(
        {
            f"{place}: several processes {words} in memory; expected one, or a single process": table is None,
            "--cache: processes on several machines need a folder that all of them see; expected one":
            cache is None and not ranks.on_one_machine,
        }
    )  # fmt: skip


@dataclass(frozen=True)
class OnDisk:
    """Where a table too large for memory is encoded."""

    cache: Annotated[
        Path | None,
        typer.Option(
            "--cache",
            metavar="DIR",
            help="Where a table too large for memory is encoded, and kept for the next run; a temporary folder if not "
            "given.",
        ),
    ] = None
    remove_cache: Annotated[
        bool, typer.Option("--remove-cache", help="Remove what --cache holds of this table at the end.")
    ] = False
    allow_address: AllowAddress = field(default_factory=list)


@contextmanager
def given_responses(
    file: Path,
    table: irtbench.data.LargeTable | None,
    reading: Reading,
    disk: OnDisk,
    progress: Callable[[str], None],
    *,
    levels: Sequence[str] | None = None,
) -> Iterator[Any]:
    """The responses: in memory or, of a large table, encoded on disk, where they stay while the block runs.

    Of several processes the first encodes them, or takes what is there, and the others follow. With a cache the sums
    of every pass are kept in it until the block ends well.

    Parameters
    ----------
    levels
        Labels of scores in categories, none of them where these are numbers; None for right and wrong.
    """
    ranks = ranks_of_run.get()
    if ranks is not None:
        if table is None:
            file.stat()  # a file that is not there is the first thing to say
        demand_shared(
            file, "fit a Parquet table, wide or long, with options that need no response", table, disk.cache, ranks
        )
    if table is None:
        say_cache_unused(file, disk.cache)
        worthwhile = file.is_file() and file.stat().st_size >= WORTHWHILE
        with loading(ESTIMATION) if worthwhile else nullcontext():
            given = reading.response_matrix(file) if levels is None else reading.scores(file, levels)
        yield given
        return
    follows = ranks is not None and not ranks.is_first
    first = encoded(table, reading, disk.cache, progress, remove=disk.remove_cache, levels=levels)
    opened: Any = nullcontext() if follows else first
    with opened as stored:
        if ranks is None:
            yield stored
            return
        folder = ranks.text_from_first("" if follows else str(stored.folder.resolve()))
        if follows:
            stored = irtbench.data.response_store.ResponseStore.of_this_run(Path(folder))
        if disk.cache is not None:
            ranks.keep_passes(stored)
        yield stored
        ranks.wait_for_all()
        if ranks.kept is not None and not follows:
            ranks.kept.remove()


@contextmanager
def loading(module: str) -> Iterator[None]:
    """Load a module in a thread while the body runs; it is there, or has failed, at its end.

    One that cannot be imported is imported again where it is needed, and fails there.
    """

    def load() -> None:
        with suppress(ImportError):
            import_module(module)

    thread = Thread(target=load)
    thread.start()
    try:
        yield
    finally:
        thread.join()


STARTED = "TORCHELASTIC_RUN_ID"  # which torchrun sets
KNOWN_TO = ("fit", "build", "score")

#: This process among those that torchrun has started; None where it has started none.
ranks_of_run: ContextVar[irtbench.estimation.ranks.Ranks | None] = ContextVar("ranks_of_run", default=None)


@contextmanager
def processes_of_run(asked: Sequence[str]) -> Iterator[None]:
    """Join the processes of the run while the block runs, if torchrun has started any.

    Parameters
    ----------
    asked
        The command.

    Raises
    ------
    InputError
        If the command does not go with several processes.
    """
    if STARTED not in os.environ:
        yield
        return

    signal.signal(signal.SIGTERM, end_quietly)
    with irtbench.estimation.ranks.joined() as ranks:
        if asked and asked[0] not in KNOWN_TO:
            raise irtbench.InputError(
                f"{asked[0]}: is run by one process; torchrun goes with {', '.join(KNOWN_TO)} of a large table"
            )
        try:
            with held(ranks_of_run, ranks):
                yield
        except BaseException:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends already
            raise


def end_quietly(number: int, frame: FrameType | None) -> NoReturn:
    """End as torchrun asks its processes to when one of them has failed, which has printed why."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)
