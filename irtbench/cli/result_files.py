"""Results on disk: complete or absent, together or not at all, and never over an input.

Results are written into a hidden folder ``.NAME.XXXXXXXX.part`` first. It is locked while its run lives, so that a
later run can tell one that was killed and remove what it left. A folder that holds nothing but results of the same
names is exchanged for the new one in one step of the file system. Where that cannot be (it holds other files too, is
the working folder or a mount point) the files are moved in one by one; the hidden folder is called ``.ready`` by then,
and if the run is killed meanwhile, the next run moves the rest.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar

from irtbench.data.input_error import InputError
from irtbench.data.place import lock_on

Value = TypeVar("Value")

#: Files and folders that the command at hand was given to read.
inputs_of_command: ContextVar[tuple[Path, ...]] = ContextVar("inputs_of_command", default=())

#: Whether the command may write over results of a finished study.
overwriting: ContextVar[bool] = ContextVar("overwriting", default=False)
#: What `build` writes; the folder of a finished study has the first of them.
OF_STUDY = (
    "study.json", "bank.json", "items.csv", "pruning.csv", "respondents.csv", "scores.csv", "group_percentiles.csv",
    "rounds_items.csv", "rounds_pairs.csv", "screening_effect.csv", "items_effect.csv", "checks.json", "summary.json",
    "report.html", "methods.md", "form.csv", "form.json", "form_bank.json",
)  # fmt: skip

#: Folders that this run removes at its end, each with the topmost of the folders that were made for it.
_unfinished: dict[Path, Path | None] = {}

OBSOLETE = ".obsolete"  # names of the last run's results that this run has none of, in a folder that is ready
AT_WORKING_FOLDER, EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


@contextmanager
def held(variable: ContextVar[Value], value: Value) -> Iterator[None]:
    """Let a variable have this value while the block runs."""
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)


@contextmanager
def output_folder(
    target: Path,
    *,
    files: Sequence[str] = (),
    inputs: Iterable[Path] = (),
    same_study: Callable[[Path], bool] = lambda record: False,
) -> Iterator[Path]:
    """Folder to write results into; they reach `target` when the block ends well, and nothing does otherwise.

    A target that is not there yet appears whole. In one that is, the results of the last run are replaced by the new
    ones; other files are left alone.

    Parameters
    ----------
    target
        The folder that the user named; a link is followed.
    files
        Every file that the command may write. Where the target holds the results of an earlier run, those of them
        that this run does not write are removed.
    inputs
        Files that are read besides those the command was given.
    same_study
        Whether a record of a finished study, study.json, is that of the study whose results these are.

    Raises
    ------
    InputError
        Before the block if the target is no folder or cannot be written to, or if a file of `files` would replace an
        input, or a result of another command's finished study; after it for any other file that would.
    """
    target = Path(os.path.realpath(target))
    read = (*inputs_of_command.get(), *inputs)
    if target.exists() and not target.is_dir():
        raise InputError(f"output {target}: is not a folder")
    finished = not overwriting.get() and (target / OF_STUDY[0]).is_file() and not same_study(target / OF_STUDY[0])
    demand_free(target, files, read, finished=finished)
    made = first_missing(target.parent)
    with _workplace(target, [target.parent, target] if target.exists() else [target.parent], made) as hidden:
        if target.exists() and not os.access(target, os.W_OK | os.X_OK):
            raise InputError(f"output {target}: cannot be written: Permission denied")
        yield hidden
        demand_free(target, os.listdir(hidden), read, finished=finished)
        _publish(hidden, target, files)


@contextmanager
def output_file(target: Path, *, inputs: Iterable[Path] = (), of_study: bool = False) -> Iterator[Path]:
    """Place to write one file to; it takes the target's name when the block ends well, and nothing is left otherwise.

    Where `of_study` it may be a result of the finished study in its folder.

    Raises
    ------
    InputError
        If the target is a folder or a device, is an input, is a result of a finished study, or cannot be written.
    """
    target = Path(os.path.realpath(target.parent)) / target.name
    if target.exists() and not target.is_file():
        raise InputError(f"output {target}: is {'a folder' if target.is_dir() else 'no plain file'}; expected a file")
    finished = not (of_study or overwriting.get()) and (target.parent / OF_STUDY[0]).is_file()
    demand_free(target.parent, [target.name], (*inputs_of_command.get(), *inputs), finished=finished)
    made = first_missing(target.parent)
    with _workplace(target, [target.parent], made) as hidden:
        yield hidden / target.name
        _sync(hidden)
        os.replace(hidden / target.name, target)


@contextmanager
def unfinished_folder(target: Path, *, until_written: bool = False) -> Iterator[Path | None]:
    """Folder next to the target for finished steps of work that may be interrupted, which a later run takes up.

    None where another run works in it, or where there can be none next to the target. If only until all is written, it
    is removed with what is in it when the block ends well.
    """
    target = Path(os.path.realpath(target))
    folder = target.parent / f".{target.name}.unfinished"
    lock = None
    with suppress(OSError):
        folder.mkdir(exist_ok=True)
        lock = None if folder.is_symlink() else lock_on(folder)
    try:
        yield None if lock is None else folder
        if until_written and lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        if lock is not None:
            with suppress(OSError):
                folder.rmdir()  # nothing was finished
            os.close(lock)


@contextmanager
def removed_at_the_end(folder: Path, made: Path | None = None) -> Iterator[Path]:
    """A folder of this run's own, removed when the block ends, however the run does."""
    _unfinished[folder] = made
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _unfinished.pop(folder, None)


def remove_unfinished() -> None:
    """Remove what this run has begun, from a thread, where its blocks cannot be left in time."""
    for folder, made in list(_unfinished.items()):
        shutil.rmtree(folder, ignore_errors=True)
        if made is not None:
            with suppress(OSError):
                _remove_empty(folder.parent, made)


def demand_free(folder: Path, names: Sequence[str], inputs: Iterable[Path], *, finished: bool) -> None:
    """Refuse names of results that are an input, by whatever path or link, or a folder, or of a finished study's.

    Raises
    ------
    InputError
        Naming the first.
    """
    there = [folder / name for name in names if os.path.lexists(folder / name)]
    for file in there:
        if file.is_dir() and not file.is_symlink():
            raise InputError(f"output {file}: is a folder; expected a file of this name, or none")
        for read in inputs:
            same = file.exists() and read.exists() and file.samefile(read)
            inside = read.is_dir() and Path(os.path.realpath(read)) in file.resolve().parents
            if same or inside:
                raise InputError(f"output {file}: is an input of this command; expected another place with -o")
    if finished and (of_study := [name for name in names if name in OF_STUDY and (folder / name).exists()]):
        raise InputError(
            f"output {folder}: holds a finished study, whose {of_study[0]} would be replaced; expected another folder, "
            "or --overwrite"
        )


@contextmanager
def _workplace(target: Path, homes: Sequence[Path], made: Path | None) -> Iterator[Path]:
    """A locked hidden folder in the first home that takes one; removed at the end, with parents that were made."""
    hidden, lock = _make_hidden(target, homes)
    try:
        with removed_at_the_end(hidden, made):
            yield hidden
    finally:
        if lock is not None:
            os.close(lock)
        if made is not None and not os.path.lexists(target):
            _remove_empty(target.parent, made)


def _make_hidden(target: Path, homes: Sequence[Path]) -> tuple[Path, int | None]:
    reason = ""
    for home in homes:
        # a mount point is a file system of its own: nothing can be renamed into it from next to it
        if home == target.parent and os.path.ismount(target):
            continue
        try:
            home.mkdir(parents=True, exist_ok=True)
            _clear_stale(target, home)
            while True:
                hidden = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=home))
                lock = lock_on(hidden)
                if hidden.exists():  # another run may have taken it for stale before it was locked
                    return hidden, lock
        except OSError as error:
            reason = error.strerror or str(error)
    raise InputError(f"output {target}: cannot be written: {reason}")


def _clear_stale(target: Path, home: Path) -> None:
    """Remove what runs that were killed left next to the target; a run that was killed while it moved is finished."""
    hidden = re.compile(rf"\.{re.escape(target.name)}\.[a-z0-9_]{{8}}\.(part|ready)")
    for entry in list(os.scandir(home)):
        if not hidden.fullmatch(entry.name) or not entry.is_dir(follow_symlinks=False):
            continue
        if sys.platform != "win32" and entry.stat(follow_symlinks=False).st_uid != os.getuid():
            continue
        with suppress(OSError):
            lock = lock_on(Path(entry.path))
            if lock is None:
                continue
            try:
                if entry.name.endswith(".ready"):
                    _move_in(Path(entry.path), target)
                shutil.rmtree(entry.path, ignore_errors=True)
            finally:
                os.close(lock)


def _publish(hidden: Path, target: Path, files: Sequence[str]) -> None:
    """Let the results take the place of those of the last run."""
    mask = os.umask(0o077)  # the permissions that new files are not given, which the system returns only when it is set
    os.umask(mask)
    hidden.chmod(target.stat().st_mode & 0o7777 if target.exists() else 0o777 & ~mask)
    _sync(hidden)
    if not target.exists():
        with suppress(OSError):  # another run may have made it meanwhile
            os.rename(hidden, target)
            return
    written, there = set(os.listdir(hidden)), set(os.listdir(target))
    obsolete = there & set(files) - written if there & written else set()
    here = Path.cwd().resolve()
    alone = there <= written | obsolete and hidden.parent == target.parent
    if alone and target not in (here, *here.parents) and _exchange(hidden, target):
        for name in set(os.listdir(hidden)) - written - obsolete:  # came between the look and the exchange
            os.replace(hidden / name, target / name)
        return
    (hidden / OBSOLETE).write_text("\n".join(sorted(obsolete)), encoding="utf-8")
    ready = hidden.with_suffix(".ready")
    os.rename(hidden, ready)
    _move_in(ready, target)
    shutil.rmtree(ready, ignore_errors=True)


def _move_in(ready: Path, target: Path) -> None:
    """Move finished results into the target and remove those that they have no counterpart of.

    The list of the latter stays until the end: where it is gone, all was done but for the empty folder.
    """
    if not (ready / OBSOLETE).exists():
        return
    target.mkdir(parents=True, exist_ok=True)
    obsolete = (ready / OBSOLETE).read_text(encoding="utf-8").splitlines()
    for name in sorted(set(os.listdir(ready)) - {OBSOLETE}):
        os.replace(ready / name, target / name)
    for name in obsolete:
        (target / name).unlink(missing_ok=True)


def _exchange(first: Path, second: Path) -> bool:
    """Let two folders change names in one step; False where the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        rename = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError):
        return False
    done: int = rename(AT_WORKING_FOLDER, os.fsencode(first), AT_WORKING_FOLDER, os.fsencode(second), EXCHANGE)
    return done == 0


def _sync(folder: Path) -> None:
    """Have the files on the disk before they take their names."""
    for entry in os.scandir(folder):
        if entry.is_file(follow_symlinks=False):
            with open(entry.path, "rb") as file:
                os.fsync(file.fileno())


def first_missing(folder: Path) -> Path | None:
    """The topmost folder of the path that does not exist yet."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    return missing[-1] if missing else None


def _remove_empty(folder: Path, top: Path) -> None:
    """Remove the folders from `folder` up to `top` that this run made and that hold nothing."""
    while folder.exists() and not any(folder.iterdir()):
        folder.rmdir()
        if folder == top:
            return
        folder = folder.parent
