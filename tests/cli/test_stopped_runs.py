"""Runs that end without warning at each of their steps on the file system, one after the other."""

import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from irtbench.cli.result_files import output_file, output_folder

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a process of its own is made by fork")

STEPS = ("open", "os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.chmod", "shutil.rmtree", "tempfile.mkdtemp")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def ends_at_step(work: Callable[[], None], step: int) -> bool:
    """Do the work in a process that vanishes before its n-th step on the file system; whether it came so far."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which none of this needs
        child = os.fork()
    if child == 0:
        taken = 0

        def vanish(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal taken
            reads = event == "open" and not (isinstance(arguments[2], int) and arguments[2] & WRITING)
            if event in STEPS and not reads:
                taken += 1
                if taken == step:
                    os._exit(9)

        try:
            sys.addaudithook(vanish)
            work()
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9)
    return status == 9


def contents(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir()} if folder.exists() else {}


def write_folder(target: Path, text: str) -> None:
    with output_folder(target, files=("a.csv", "b.csv", "extra.csv")) as folder:
        for name in ("a.csv", "b.csv") if text == "new" else ("a.csv", "b.csv", "extra.csv"):
            (folder / name).write_text(text)


@pytest.mark.parametrize(("old", "others"), [(True, {}), (True, {"notes.txt": "mine"}), (False, {})])
def test_a_folder_of_results(tmp_path: Path, old: bool, others: dict[str, str]) -> None:
    """Beside files of others it is not replaced in one step."""
    before = others | (dict.fromkeys(("a.csv", "b.csv", "extra.csv"), "old") if old else {})
    after = others | dict.fromkeys(("a.csv", "b.csv"), "new")
    for step in range(1, 1_000):
        folder = tmp_path / str(step)
        out = folder / "out"
        folder.mkdir()
        if old:
            write_folder(out, "old")
        for name, text in others.items():
            out.mkdir(exist_ok=True)
            (out / name).write_text(text)
        vanished = ends_at_step(partial(write_folder, out, "new"), step)
        found = contents(out)
        assert others.items() <= found.items()
        if not others:
            assert found in (before, after)
        assert set(found.values()) <= {"old", "new", *others.values()}  # no file is half
        with suppress(RuntimeError), output_folder(out):
            raise RuntimeError  # a run that itself comes to nothing finishes what was begun
        assert contents(out) in ((before, after) if old else (before, after, {}))
        write_folder(out, "new")
        assert contents(out) == after
        assert os.listdir(folder) == ["out"]
        if not vanished:
            break
    assert not vanished
    assert step > 5


def write_file(file: Path, text: str) -> None:
    with output_file(file) as place:
        place.write_text(text)


@pytest.mark.parametrize("old", [False, True])
def test_a_file_of_results(tmp_path: Path, old: bool) -> None:
    file = tmp_path / "a.csv"
    for step in range(1, 1_000):
        if old:
            write_file(file, "old")
        else:
            file.unlink(missing_ok=True)
        vanished = ends_at_step(partial(write_file, file, "new"), step)
        visible = [name for name in os.listdir(tmp_path) if not name.startswith(".")]
        assert visible in ([], ["a.csv"])
        if visible:
            assert file.read_text() in (("old", "new") if old else ("new",))
        assert visible or not old
        write_file(file, "new")
        assert os.listdir(tmp_path) == ["a.csv"]
        if not vanished:
            break
    assert not vanished
    assert step > 3
