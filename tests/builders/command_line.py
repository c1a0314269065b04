"""Commands as a user runs them: in this process, and in one of their own, with or without torch."""

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from unittest.mock import patch

import typer

from builders.commands_here import run_main
from irtbench.cli.main import application, command_in

PROGRESS_LINE = re.compile(r"\[ *\d+\.\d s\] ")


def run(*arguments: object, cwd: Path | None = None, status: int | None = 0) -> subprocess.CompletedProcess[str]:
    """Run the command as `main` does, in this process; it must end with ``status`` (None: with any)."""
    with warnings.catch_warnings(), patch.dict(os.environ, {"COLUMNS": "200"}):
        warnings.simplefilter("default")  # a user sees a line, where tests would end
        warnings.simplefilter("ignore", DeprecationWarning)
        ended = run_main(*arguments, cwd=cwd)
    assert status is None or ended.status == status, ended.err
    return subprocess.CompletedProcess([*map(str, arguments)], ended.status, ended.out, ended.err)


def printed_by(*arguments: object) -> str:
    """What the command prints, once it has ended well."""
    return run(*arguments).stdout


def run_apart(*arguments: object, cwd: Path | None = None, status: int | None = 0) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, where that is what is tested: it takes seconds to start."""
    done = subprocess.run(
        [sys.executable, "-c", "from irtbench.cli.main import main; main()", *map(str, arguments)],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        cwd=cwd,
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"},
        timeout=600,
        check=False,
    )
    assert status is None or done.returncode == status, done.stderr
    return done


def refused(*arguments: object, saying: str, cwd: Path | None = None) -> None:
    """Status 2 and one line that says what is wrong (a slow machine may print lines of progress before it)."""
    done = run(*arguments, cwd=cwd, status=2)
    lines = [line for line in done.stderr.strip().splitlines() if not PROGRESS_LINE.match(line)]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("irtbench: ")
    assert saying in lines[0], lines[0]
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def run_without(modules: set[str], *arguments: object) -> str:
    """What the command prints, once it has ended well without having loaded any of ``modules``."""
    program = (
        "import sys\nfrom irtbench.cli.main import main\n"
        f"sys.argv = {['irtbench', *map(str, arguments)]!r}\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        f"heavy = {modules!r} & set(sys.modules)\nassert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_without_torch(*arguments: object) -> str:
    """What the command prints, once it has ended well without torch and pyro."""
    return run_without({"torch", "pyro"}, *arguments)


def run_here(*arguments: object) -> None:
    """Run the command in this process, where its errors can be seen as they are raised."""
    words = list(map(str, arguments))
    typer.main.get_command(application(command_in(words)))(words, standalone_mode=False)
