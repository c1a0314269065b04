"""Commands as a user runs them: in this process, and in one of their own, with or without torch."""

import json
import os
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

from builders.commands_here import Ended, run_main

ROOT = Path(__file__).resolve().parents[2]
PROGRESS_LINE = re.compile(r"\[ *\d+\.\d s\] ")


class Run(Ended):
    """How a command ended, and what it printed."""

    @property
    def json(self) -> Any:
        """What was printed, read as JSON."""
        return json.loads(self.out)


def run(line: object, *words: object, cwd: Path | None = None, status: int | None = 0) -> Run:
    """Run the command as `main` does, in this process; it must end with ``status`` (None: with any).

    The line is split as a shell splits it, the words that follow are taken as they are.
    """
    with warnings.catch_warnings(), patch.dict(os.environ, {"COLUMNS": "200"}):
        warnings.simplefilter("default")  # a user sees a line, where tests would end
        warnings.simplefilter("ignore", DeprecationWarning)
        ended = run_main(*shlex.split(str(line)), *words, cwd=cwd)
    assert status is None or ended.status == status, ended.err
    return Run(ended.status, ended.out, ended.err)


def written(line: str, out: Path, files: str, cwd: Path | None = None) -> Any:
    """What a command prints with --json, which the JSON file among these, all that is in ``out``, holds too."""
    found = run(line, "-o", out, "--json", cwd=cwd).json
    names = sorted(file.name for file in out.iterdir())
    assert names == files.split()
    (record,) = [name for name in names if name.endswith(".json")]
    assert json.loads((out / record).read_text()) == found
    return found


def refused(line: object, *words: object, saying: str, cwd: Path | None = None) -> None:
    """Status 2 and one line that says what is wrong (there may be warnings and lines of progress before it).

    `` ... `` in ``saying`` is whatever is there.
    """
    done = run(line, *words, cwd=cwd, status=2)
    assert len(done.lines) == 1, done.err
    assert re.match(r"irtbench[a-z -]*: ", done.lines[0])
    assert re.search(".*".join(map(re.escape, saying.split(" ... "))), done.lines[0]), done.lines[0]
    assert "Traceback" not in done.err
    assert done.out == ""


def run_program(program: str, *words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program of Python in a process of its own, which finds this package from anywhere."""
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, words)],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        cwd=cwd,
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200", "PYTHONPATH": str(ROOT)},
        timeout=600,
        check=False,
    )


def run_apart(*arguments: object, cwd: Path | None = None, status: int | None = 0) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, where that is what is tested: it takes seconds to start."""
    done = run_program("from irtbench.cli.main import main; main()", *arguments, cwd=cwd)
    assert status is None or done.returncode == status, done.stderr
    return done


def run_without(modules: set[str], *arguments: object) -> str:
    """What the command prints, once it has ended well without having loaded any of ``modules``."""
    program = (
        "import sys\nfrom irtbench.cli.main import main\n"
        f"sys.argv = {['irtbench', *map(str, arguments)]!r}\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        f"heavy = {modules!r} & set(sys.modules)\nassert not heavy, heavy\n"
    )
    done = run_program(program)
    assert done.returncode == 0, done.stderr
    return done.stdout
