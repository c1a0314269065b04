"""Faults on purpose: kills at random moments, full disks, several runs in one folder, folders that vanish or cannot be
written to, a clock set back, an input, bank or setting that is another one when a run that was killed is started again.

After each fault: every file that was there before is there, the results are those of one whole run or those that were
there, and a rerun gives the bytes of a run that nothing disturbed (times taken left out).

    python scripts/faults.py [--kills N] [--sizes N] [--others N] [--seed S] [--only NAME] [--command NAME]

Each run is a process of its own, a copy of one in which the libraries are loaded: so a kill falls into the work. On
Linux and as root disks are really full and really read-only: small file systems in memory, mounted for the while.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

from builders.valid_inputs import write_valid_inputs  # noqa: E402
from irtbench.bank.bank import load_bank, save_bank  # noqa: E402
from irtbench.cli import large  # noqa: E402
from irtbench.cli.main import main as main_of_command  # noqa: E402
from irtbench.data.readers import large_table  # noqa: E402

for _module in (
    "cli.build",
    "cli.convert",
    "cli.fit",
    "cli.score",
    "estimation.fit",
    "study.run",
    "report.html",
    "scoring.bulk",
):
    import_module(f"irtbench.{_module}")

TIMES = re.compile(rb'"(seconds": ?[0-9.eE+-]+|hash":"[^"]+")')  # and the hash of what has them
STUDY = """[data]
answers = "answers.csv"
items = "items.csv"
[pruning]
local_dependence_p = "chi_square"
[score]
systems = ["systems.csv"]
"""
STORE = ".store"  # cache of a fit, which is there after it too
COMMANDS = {
    "build": ["build", "study.toml", "-o", "out", "-q", "--allow-unconverged"],
    "fit": ["fit", "responses.csv", "-o", "out", "-q", "--allow-unconverged"],
    "convert": ["convert", "answers.csv", "-o", "out/long.csv", "-q"],
    "score": ["score", "bank.json", "people.parquet", "-o", "out/scores.csv", "-q"],
    "cached": ["fit", "people.parquet", "-o", "out", "-q", "--allow-unconverged", "--cache", STORE],
}
INPUTS = {
    "build": ("study.toml", "answers.csv", "items.csv", "systems.csv"),
    "fit": ("responses.csv",),
    "convert": ("answers.csv",),
    "score": ("bank.json", "people.parquet"),
    "cached": ("people.parquet",),
}
#: What is another one when a run is started again: a file, or options.
CHANGES: dict[str, tuple[str | tuple[str, ...], ...]] = {
    "build": ("answers.csv", "study.toml", ("--seed", "7")),
    "fit": ("responses.csv", ("--model", "rasch")),
    "convert": ("answers.csv",),
    "score": ("people.parquet", "bank.json", ("--level", "0.9")),
    "cached": ("people.parquet", ("--model", "rasch"), ("--exclude-columns", "item3")),
}
DISK = 2**26  # bytes of a disk in memory
PEOPLE = 120_000  # enough to be scored part by part
ROWS = 2**13  # of a part of them that a cache takes up again
YEAR = 365 * 86_400.0  # seconds
DROP_FROM_BOUNDS, OVERRIDE_PERMISSIONS = 24, 1  # PR_CAPBSET_DROP and CAP_DAC_OVERRIDE of Linux


class Run:
    """A command at work in a folder.

    Parameters
    ----------
    name, folder
        Which of `COMMANDS`, and where.
    before
        Done in the process first.
    options
        More of them.
    """

    def __init__(
        self, name: str, folder: Path, before: Callable[[], None] = lambda: None, options: tuple[str, ...] = ()
    ) -> None:
        self.name, self.folder, self.before, self.options = name, folder, before, options
        reading, writing = os.pipe()
        self.process = multiprocessing.get_context("fork").Process(target=self.work, args=(writing,))
        self.process.start()
        os.close(writing)
        self.said = os.fdopen(reading)

    def work(self, errors: int) -> None:
        os.chdir(self.folder)
        os.dup2(errors, 2)
        self.before()
        sys.argv = ["irtbench", *COMMANDS[self.name], *self.options]
        if self.name == "cached":
            large.MOST_FIELDS, large_table.ROWS_OF_PART = 0, ROWS
        main_of_command()

    def send(self, number: signal.Signals) -> None:
        if self.process.pid is not None and self.process.exitcode is None:
            os.kill(self.process.pid, number)

    def end(self) -> tuple[int, str]:
        """Status (that of a signal negative) and what was said on standard error."""
        said = self.said.read()
        self.process.join()
        self.said.close()
        return int(self.process.exitcode or 0), said.strip()


def run(
    name: str, folder: Path, before: Callable[[], None] = lambda: None, options: tuple[str, ...] = ()
) -> tuple[int, str]:
    return Run(name, folder, before, options).end()


def run_anew(name: str, folder: Path, before: Callable[[], None] = lambda: None) -> tuple[int, str]:
    """The same from the beginning, as a user's shell starts it."""
    if name == "cached":  # a table that is small
        return run(name, folder, before)
    done = subprocess.run(
        [sys.executable, "-m", "irtbench", *COMMANDS[name]],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
        preexec_fn=before,
    )  # fmt: skip
    return done.returncode, done.stderr.strip()


def write_inputs(folder: Path) -> None:
    """A crowd with a key each, a bank, and enough people to be scored part by part."""
    write_valid_inputs(folder)
    (folder / "study.toml").write_text(STUDY)
    rng = np.random.default_rng(0)
    chances = 1 / (1 + np.exp(np.linspace(-1.5, 1.5, 8) - 1.3 * rng.normal(size=(PEOPLE, 1))))
    right = (rng.random(chances.shape) < chances).astype(np.int8)
    people = pd.DataFrame(right, columns=[f"item{k}" for k in range(1, 9)])
    people.insert(0, "respondent_id", [f"person{k:07d}" for k in range(PEOPLE)])
    people.to_parquet(folder / "people.parquet")
    (others := folder / "others").mkdir()
    people.assign(item2=1 - people["item2"]).to_parquet(others / "people.parquet")
    (others / "study.toml").write_text(STUDY + '[model]\nkind = "rasch"\n')
    bank = load_bank(folder / "bank.json")
    (scale,) = bank.scales
    harder = replace(scale.items, intercept=scale.items.intercept - 0.25)
    save_bank(replace(bank, scales=(replace(scale, items=harder),)), others / "bank.json")
    for name in ("answers.csv", "responses.csv"):
        (others / name).write_text(with_two_exchanged((folder / name).read_text()))


def with_two_exchanged(table: str) -> str:
    """The table, of as many letters, with the last fields of two of its rows exchanged."""
    lines = table.splitlines()
    first, last = 1, lines[1].rpartition(",")[2]
    second = next(k for k in range(2, len(lines)) if lines[k].rpartition(",")[2] != last)
    other = lines[second].rpartition(",")[2]
    lines[first], lines[second] = lines[first].removesuffix(last) + other, lines[second].removesuffix(other) + last
    return "\n".join(lines) + "\n"


def digests(folder: Path) -> dict[str, str]:
    """Hash of each file that is no hidden one, times taken left out."""
    found = {}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in inside.parts):
            content = TIMES.sub(b"", path.read_bytes())
            found[str(inside)] = hashlib.sha256(content).hexdigest()
    return found


class Trial:
    """A folder with inputs, what an undisturbed run of a command makes of it, and what has gone wrong since."""

    def __init__(self, name: str, inputs: Path, place: Path) -> None:
        self.name, self.inputs = name, inputs
        self.folder = place / name
        self.wrong: list[str] = []
        self.after: dict[str, str] = {}
        self.changed: dict[str | tuple[str, ...], dict[str, str]] = {}
        self.fresh()
        self.before = digests(self.folder)
        status, said = run_anew(name, self.folder)
        if status != 0:
            raise SystemExit(f"{name} does not work undisturbed: {said}")
        self.after = digests(self.folder)
        self.fresh()
        began = time.monotonic()
        run(name, self.folder)
        self.seconds = time.monotonic() - began
        self.check("undisturbed")

    def fresh(self) -> None:
        """The folder with the inputs alone; it stays the same folder where it is a disk of its own."""
        self.folder.mkdir(exist_ok=True)
        self.folder.chmod(0o755)
        for old in self.folder.iterdir():
            shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
        for name in INPUTS[self.name]:
            shutil.copy(self.inputs / name, self.folder)

    def demand_ended_well(self, what: str, status: int, said: str) -> None:
        """Status 0, or 2 with one line, warnings left out."""
        lines = [line for line in said.splitlines() if not line.startswith("irtbench: warning:")]
        if status not in (0, 2) or len(lines) != (status == 2) or "internal error" in said:
            self.wrong.append(f"{what}: status {status}: {said[-300:]}")

    def expected(self, change: str | tuple[str, ...]) -> dict[str, str]:
        """What an undisturbed run makes of an input, or with options, that are other ones."""
        if change not in self.changed:
            self.fresh()
            options = self.apply(change)
            status, said = run(self.name, self.folder, options=options)
            if status != 0:
                raise SystemExit(f"{self.name} does not work with {change}: {said}")
            self.changed[change] = digests(self.folder)
            if self.changed[change] == self.after:
                raise SystemExit(f"{self.name}: {change} changes nothing")
        return self.changed[change]

    def apply(self, change: str | tuple[str, ...]) -> tuple[str, ...]:
        """Put the other file in place of the first, with its time; the options of a change."""
        if isinstance(change, tuple):
            return change
        before = (self.folder / change).stat()
        shutil.copy(self.inputs / "others" / change, self.folder)
        os.utime(self.folder / change, ns=(before.st_atime_ns, before.st_mtime_ns))
        return ()

    def check_changed(self, what: str, change: str | tuple[str, ...], expected: dict[str, str]) -> None:
        """Run with an input or options that are other ones: the results are those of what is there now."""
        status, said = run(self.name, self.folder, options=self.apply(change))
        if status != 0 or digests(self.folder) != expected:
            self.wrong.append(f"{what} ({change}): status {status}, not the results of what is there: {said}")

    def check(self, what: str, *, may_finish: bool = True) -> None:
        """Nothing lost and nothing half; then run again, undisturbed."""
        found = digests(self.folder)
        if found not in ([self.before, self.after] if may_finish else [self.before]):
            self.wrong.append(f"{what}: lost or half: {sorted(set(found.items()) ^ set(self.before.items()))[:3]}")
        status, said = run(self.name, self.folder)
        if status != 0:
            self.wrong.append(f"{what}: the rerun ends with {status}: {said[:200]}")
        elif digests(self.folder) != self.after:
            self.wrong.append(f"{what}: the rerun differs")
        hidden = [path.name for path in self.folder.iterdir() if path.name.startswith(".") and path.name != STORE]
        if hidden:
            self.wrong.append(f"{what}: left behind: {hidden}")


def kills(trial: Trial, rng: random.Random, n: int) -> str:
    """SIGKILL, SIGTERM and SIGHUP in turn at a random moment of the run; every second time over results."""
    interrupted = 0
    for number in range(n):
        trial.fresh()
        if number % 2:
            run(trial.name, trial.folder)
        sent = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)[number % 3]
        interrupted += killed(trial, rng, sent)
        found = digests(trial.folder)
        if number % 2 and found != trial.after:
            trial.wrong.append(f"kill {number} ({sent.name}): the results that were there are gone or half")
        trial.check(f"kill {number} ({sent.name})")
    return f"{n} kills, {interrupted} before the end"


def killed(trial: Trial, rng: random.Random, sent: signal.Signals) -> bool:
    """Send the signal at a random moment of the run; whether the run was still at work."""
    working = Run(trial.name, trial.folder)
    time.sleep(rng.uniform(0, 1.05) * trial.seconds)
    working.send(sent)
    return working.end()[0] != 0


def changes(trial: Trial, rng: random.Random, n: int) -> str:
    """A run is killed, or has ended; then an input of the same size and time, a bank or a setting is another one."""
    interrupted = 0
    for number in range(n):
        change = CHANGES[trial.name][number % len(CHANGES[trial.name])]
        expected = trial.expected(change)
        trial.fresh()
        interrupted += killed(trial, rng, signal.SIGKILL)
        trial.check_changed(f"change {number}", change, expected)
    return f"{n} changes, {interrupted} after a kill before the end"


def largest_files(trial: Trial, rng: random.Random, n: int) -> str:
    """No file may grow beyond a size: from nothing to all of the largest result but its last byte."""
    run(trial.name, trial.folder)
    largest = max(path.stat().st_size for path in (trial.folder / "out").iterdir())
    sizes = sorted({0, largest - 1, *(int(largest ** (k / n)) for k in range(1, n - 1))})
    for size in sizes:
        trial.fresh()

        def limit(size: int = size) -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

        trial.demand_ended_well(f"files to {size}", *run(trial.name, trial.folder, limit))
        trial.check(f"files to {size}")
    return f"{len(sizes)} sizes, 0 to {largest - 1} bytes"


def full_disk(trial: Trial, rng: random.Random, n: int) -> str:
    """The disk has little room left, from none to more than the results take."""
    if not may_mount():
        return "skipped: only root may make a disk"
    needed = sum(path.stat().st_size for path in trial.folder.rglob("out/*"))
    rooms = [int(k / (n - 2) * needed) for k in range(n)]
    for room in rooms:
        with own_disk(trial.folder):
            trial.fresh()
            free = shutil.disk_usage(trial.folder).free
            (trial.folder / ".ballast").write_bytes(bytes(max(0, free - room)))
            before = digests(trial.folder)
            trial.demand_ended_well(f"room of {room}", *run(trial.name, trial.folder))
            if digests(trial.folder) not in (before, trial.after):
                trial.wrong.append(f"room of {room}: lost or half")
            (trial.folder / ".ballast").unlink()
            trial.check(f"room of {room}")
    return f"{len(rooms)} rooms, 0 to {rooms[-1]} bytes"


def two_runs(trial: Trial, rng: random.Random, n: int) -> str:
    """Two runs in one folder at once, begun at different moments."""
    return several_runs(trial, rng, n, 2)


def eight_runs(trial: Trial, rng: random.Random, n: int) -> str:
    """Eight."""
    return several_runs(trial, rng, n, 8)


def several_runs(trial: Trial, rng: random.Random, n: int, at_once: int) -> str:
    refused = 0
    for number in range(n):
        trial.fresh()
        working = []
        for _ in range(at_once):
            working.append(Run(trial.name, trial.folder))
            time.sleep(rng.uniform(0, 0.5) * trial.seconds)
        ends = [one.end() for one in working]
        for end in ends:
            trial.demand_ended_well(f"{at_once} runs {number}", *end)
        refused += (failed := sum(status != 0 for status, _ in ends))
        if failed > (at_once - 1 if trial.name == "cached" else 0):  # a cache is one run's alone
            trial.wrong.append(f"{at_once} runs {number}: {ends}")
        if digests(trial.folder) != trial.after:
            trial.wrong.append(f"{at_once} runs {number}: the results are not those of one")
        trial.check(f"{at_once} runs {number}")
    return f"{n} times {at_once} runs, {refused} refused"


def fit_and_score(trial: Trial, rng: random.Random, n: int) -> str:
    """A fit with a cache and a score of the same table at once, in one folder, to results of their own."""
    if trial.name != "cached":
        return "skipped: goes with cached"
    commands: dict[str, tuple[str, ...]] = {"cached": (), "score": ("-o", "scored.csv")}

    def begin() -> None:
        trial.fresh()
        shutil.copy(trial.inputs / "bank.json", trial.folder)

    begin()
    for name, options in commands.items():
        run(name, trial.folder, options=options)
    expected = digests(trial.folder)
    for number in range(n):
        begin()
        working = []
        for name in rng.sample(list(commands), 2):
            working.append(Run(name, trial.folder, options=commands[name]))
            time.sleep(rng.uniform(0, 0.5) * trial.seconds)
        ends = [one.end() for one in working]
        if any(status for status, _ in ends) or digests(trial.folder) != expected:
            trial.wrong.append(f"fit and score {number}: {ends}")
    return f"{n} times"


def vanishing_folder(trial: Trial, rng: random.Random, n: int) -> str:
    """The folder of the run is removed while it works."""
    for number in range(n):
        trial.fresh()
        working = Run(trial.name, trial.folder)
        time.sleep(rng.uniform(0, 1) * trial.seconds)
        shutil.rmtree(trial.folder, ignore_errors=True)
        trial.demand_ended_well(f"vanished {number}", *working.end())
        trial.fresh()
        trial.check(f"vanished {number}")
    return f"{n} times"


def read_only_folder(trial: Trial, rng: random.Random, n: int) -> str:
    """The folder cannot be written to: by its permissions (which root is made to heed), and as a disk that is so."""
    said = []
    trial.fresh()
    trial.folder.chmod(0o500)
    done = run_anew(trial.name, trial.folder, heed_permissions)
    trial.folder.chmod(0o700)
    demand_refused(trial, "read-only folder", done)
    said.append("by permission")
    if may_mount():
        with own_disk(trial.folder):
            trial.fresh()
            subprocess.run(["mount", "-o", "remount,ro", str(trial.folder)], check=True)
            done = run(trial.name, trial.folder)
            subprocess.run(["mount", "-o", "remount,rw", str(trial.folder)], check=True)
            demand_refused(trial, "read-only disk", done)
        said.append("as a disk")
    trial.fresh()
    return ", ".join(said)


def demand_refused(trial: Trial, what: str, done: tuple[int, str]) -> None:
    status, said = done
    if status != 2 or len(said.splitlines()) != 1:
        trial.wrong.append(f"{what}: status {status}: {said[-200:]}")
    trial.check(what, may_finish=False)


def heed_permissions() -> None:
    """Let root, who may write anywhere, have no more rights than the permissions of files give."""
    if os.geteuid() == 0 and ctypes.CDLL(None).prctl(DROP_FROM_BOUNDS, OVERRIDE_PERMISSIONS, 0, 0, 0) != 0:
        raise OSError("the right to pass over permissions cannot be given up")


def clock_set_back(trial: Trial, rng: random.Random, n: int) -> str:
    """A run is killed, the clock goes back: inputs, results and what the run left are a year in the future.

    Then an input is another one, of the same time or older than what was made of the last.
    """
    change = next(change for change in CHANGES[trial.name] if isinstance(change, str))
    expected = trial.expected(change)
    for number in range(n):
        trial.fresh()
        if number % 2:
            run(trial.name, trial.folder)
        killed(trial, rng, signal.SIGKILL)
        later = time.time() + YEAR
        for path in (*trial.folder.rglob("*"), trial.folder):
            os.utime(path, (later, later))
        trial.check(f"clock {number}")
        if number % 2:
            (trial.folder / change).touch()
        trial.check_changed(f"clock {number}", change, expected)
    return f"{n} times"


def may_mount() -> bool:
    return sys.platform.startswith("linux") and os.geteuid() == 0 and shutil.which("mount") is not None


@contextmanager
def own_disk(folder: Path) -> Iterator[None]:
    """The folder as a disk of its own, in memory."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


FAULTS: tuple[Callable[[Trial, random.Random, int], str], ...] = (
    kills, changes, largest_files, full_disk, two_runs, eight_runs, fit_and_score, vanishing_folder,
    read_only_folder, clock_set_back,
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30, help="kills of each command, and again with a change after")
    parser.add_argument("--sizes", type=int, default=6, help="sizes of disks and of files")
    parser.add_argument("--others", type=int, default=3, help="how often each other fault is made")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=[fault.__name__ for fault in FAULTS], help="one fault only")
    parser.add_argument("--command", choices=list(COMMANDS), help="one command only")
    given = parser.parse_args()
    counts = {kills: given.kills, changes: given.kills, largest_files: given.sizes, full_disk: given.sizes}
    failed = 0
    with tempfile.TemporaryDirectory() as place:
        inputs = Path(place) / "inputs"
        inputs.mkdir()
        write_inputs(inputs)
        for name in [given.command] if given.command else COMMANDS:
            trial = Trial(name, inputs, Path(place))
            print(
                f"{name}: {trial.seconds:.1f} s undisturbed, {len(trial.after) - len(trial.before)} files", flush=True
            )
            for fault in FAULTS:
                if given.only and fault.__name__ != given.only:
                    continue
                trial.wrong = []
                said = fault(
                    trial, random.Random(f"{given.seed} {name} {fault.__name__}"), counts.get(fault, given.others)
                )
                failed += len(trial.wrong)
                print(
                    json.dumps({"command": name, "fault": fault.__name__, "run": said, "wrong": trial.wrong}),
                    flush=True,
                )
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
