"""Tests in copies of one process in which the libraries are loaded: a run costs its tests, not the start of torch.

`ForkedTests(folder, python)` starts that process in a copy of the checkout; `run` lets a copy of it run some tests
there, until the first one fails. The package itself is not loaded before, so each run sees the files as they stand.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

LOADED = (
    "torch", "pyro.infer", "pyro.optim", "pyro.distributions", "numpy", "scipy.stats", "scipy.optimize", "scipy.linalg",
    "pandas", "pyarrow.parquet", "matplotlib.figure", "typer", "rich.progress", "pydantic", "jinja2", "hypothesis",
    "statsmodels.stats.multitest", "sklearn.linear_model", "pytest", "_pytest.doctest",
)  # fmt: skip
IGNORED = ("-W", "ignore::pytest.PytestAssertRewriteWarning")  # of libraries that were loaded before
BROKEN = 70
PASSED, FAILED, NO_TESTS = 0, 1, 5  # statuses of pytest; 2 and 4 are those of tests that cannot be imported


@dataclass(frozen=True)
class Ended:
    """Status of pytest (None: too long), the test that failed, and the last lines of what was said."""

    status: int | None
    failed: str
    said: str


class ForkedTests:
    """A process with the libraries loaded, at work in a folder."""

    def __init__(self, folder: Path, python: str, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [python, __file__], cwd=folder, env=os.environ | environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def run(self, tests: list[str], seconds: float) -> Ended:
        """Run tests (files or names), the quickest way to the first failure; `seconds` at most."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"tests": tests, "seconds": seconds}) + "\n")
        self.process.stdin.flush()
        return Ended(**json.loads(self.process.stdout.readline()))

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


class FirstFailure:
    """Plugin of pytest: the name of the test that failed."""

    name = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid


def work(tests: list[str], said: int) -> None:
    """The copy: run the tests, write the name of the failed one as the last line, end with pytest's status."""
    import pytest

    os.setsid()
    os.dup2(said, 1)
    os.dup2(said, 2)
    sys.path.insert(0, os.getcwd())
    first = FirstFailure()
    status = pytest.main(
        ["-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-cov", *IGNORED, *tests], plugins=[first]
    )
    sys.stdout.flush()
    os.write(said, f"\n{first.name}\n".encode())
    os._exit(int(status))


def one_run(tests: list[str], seconds: float) -> dict[str, Any]:
    said = os.memfd_create("said")
    child = os.fork()
    if child == 0:
        try:
            work(tests, said)
        except BaseException:
            os.write(said, traceback.format_exc().encode())
        finally:
            os._exit(BROKEN)
    status, deadline = None, time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, code = os.waitpid(child, os.WNOHANG)
        if ended:
            status = os.waitstatus_to_exitcode(code)
            break
        time.sleep(0.01)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # with what its tests have started
    if status is None:
        os.waitpid(child, 0)
    text = os.pread(said, os.fstat(said).st_size, 0).decode(errors="replace")
    os.close(said)
    lines = text.rstrip("\n").split("\n")
    return {"status": status, "failed": lines[-1] if status == FAILED else "", "said": text[-1500:]}


def main() -> None:
    for name in LOADED:
        import_module(name)
    import torch

    torch.set_num_threads(1)
    for line in sys.stdin:
        print(json.dumps(one_run(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
