"""Faults on purpose: kills at random moments, full disks, two runs in one folder, folders that vanish, a wrong clock.

After each fault: every file that was there before is there, the results are those of one whole run or those that were
there, and a rerun gives the bytes of a run that nothing disturbed (times taken left out).

    python scripts/faults.py [--kills N] [--seed S] [--only NAME]
"""

from __future__ import annotations

import argparse
import hashlib
import json
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
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECONDS = re.compile(rb'"seconds": [0-9.eE+-]+')
STUDY = """[data]
answers = "answers.csv"
items = "items.csv"
[pruning]
bootstrap_samples = 19
[score]
systems = ["systems.csv"]
"""
COMMANDS = {
    "build": ["build", "study.toml", "-o", "out", "-q", "--allow-unconverged"],
    "fit": ["fit", "responses.csv", "-o", "out", "-q", "--allow-unconverged"],
    "score": ["score", "bank.json", "people.csv", "-o", "out/scores.csv", "-q"],
}


def command(name: str) -> list[str]:
    return [sys.executable, "-m", "irtbench", *COMMANDS[name]]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def run(name: str, folder: Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        command(name), cwd=folder, env=environment(), capture_output=True, text=True, check=False, **options
    )


def write_inputs(folder: Path) -> None:
    """A crowd with a key each, a bank, and enough people to be scored part by part."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    import numpy as np

    from builders.valid_inputs import write_valid_inputs

    write_valid_inputs(folder)
    (folder / "study.toml").write_text(STUDY)
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (300_000, 8))
    with (folder / "people.csv").open("w") as file:
        file.write("respondent_id," + ",".join(f"item{k}" for k in range(1, 9)) + "\n")
        for number, row in enumerate(rows):
            file.write(f"person{number:07d}," + ",".join(map(str, row)) + "\n")


def digests(folder: Path) -> dict[str, str]:
    """Hash of each file that is no hidden one, times taken left out."""
    found = {}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in inside.parts):
            content = SECONDS.sub(b'"seconds": 0', path.read_bytes())
            found[str(inside)] = hashlib.sha256(content).hexdigest()
    return found


class Trial:
    """A folder with inputs, what an undisturbed run of a command makes of it, and what has gone wrong since."""

    def __init__(self, name: str, inputs: Path, place: Path) -> None:
        self.name, self.inputs = name, inputs
        self.folder = place / name
        self.wrong: list[str] = []
        self.fresh()
        self.before = digests(self.folder)
        began = time.monotonic()
        done = run(name, self.folder)
        self.seconds = time.monotonic() - began
        if done.returncode != 0:
            raise SystemExit(f"{name} does not work undisturbed: {done.stderr}")
        self.after = digests(self.folder)

    def fresh(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.inputs, self.folder)

    def check(self, what: str, *, may_finish: bool = True) -> None:
        """Nothing lost and nothing half; then run again, undisturbed."""
        found = digests(self.folder)
        if found not in ([self.before, self.after] if may_finish else [self.before]):
            self.wrong.append(f"{what}: lost or half: {sorted(set(found.items()) ^ set(self.before.items()))[:3]}")
        done = run(self.name, self.folder)
        if done.returncode != 0:
            self.wrong.append(f"{what}: the rerun ends with {done.returncode}: {done.stderr.strip()[:200]}")
        elif digests(self.folder) != self.after:
            self.wrong.append(f"{what}: the rerun differs")
        hidden = [path.name for path in self.folder.iterdir() if path.name.startswith(".")]
        if hidden:
            self.wrong.append(f"{what}: left behind: {hidden}")


def kills(trial: Trial, rng: random.Random, n: int) -> str:
    """SIGKILL, SIGTERM and SIGHUP in turn at a random moment of the run, the first and the second over old results."""
    for number in range(n):
        trial.fresh()
        sent = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)[number % 3]
        process = subprocess.Popen(command(trial.name), cwd=trial.folder, env=environment(), stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0.3, 1.05) * trial.seconds)
        process.send_signal(sent)
        process.wait()
        trial.check(f"kill {number} ({sent.name})")
    return f"{n} kills"


def full_disk(trial: Trial, rng: random.Random, n: int) -> str:
    """Writing fails beyond a size, as on a disk that is full (a limit on the size of any one file)."""
    sizes = (0, 100, 1_000, 5_000, 20_000, 200_000)
    for size in sizes:
        trial.fresh()

        def limit(size: int = size) -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

        done = run(trial.name, trial.folder, preexec_fn=limit)
        if done.returncode not in (0, 2) or "internal error" in done.stderr:
            trial.wrong.append(f"full at {size}: status {done.returncode}: {done.stderr.strip()[-200:]}")
        trial.check(f"full at {size}")
    return f"{len(sizes)} sizes"


def two_runs(trial: Trial, rng: random.Random, n: int) -> str:
    """Two runs in one folder at once, begun at different moments."""
    for number in range(n):
        trial.fresh()
        first = subprocess.Popen(command(trial.name), cwd=trial.folder, env=environment(), stderr=subprocess.PIPE)
        time.sleep(rng.uniform(0, 0.5) * trial.seconds)
        second = subprocess.Popen(command(trial.name), cwd=trial.folder, env=environment(), stderr=subprocess.PIPE)
        ends = [process.communicate()[1].decode() for process in (first, second)]
        if first.returncode or second.returncode:
            trial.wrong.append(f"two runs {number}: {first.returncode}, {second.returncode}: {ends}")
        if digests(trial.folder) != trial.after:
            trial.wrong.append(f"two runs {number}: the results are not those of one")
        trial.check(f"two runs {number}")
    return f"{n} pairs"


def vanishing_folder(trial: Trial, rng: random.Random, n: int) -> str:
    """The folder of the run is removed while it works."""
    for number in range(n):
        trial.fresh()
        process = subprocess.Popen(command(trial.name), cwd=trial.folder, env=environment(), stderr=subprocess.PIPE)
        time.sleep(rng.uniform(0.3, 0.9) * trial.seconds)
        shutil.rmtree(trial.folder, ignore_errors=True)
        said = process.communicate()[1].decode()
        if process.returncode not in (0, 2) or "internal error" in said:
            trial.wrong.append(f"vanished {number}: status {process.returncode}: {said.strip()[-200:]}")
        trial.fresh()
        trial.check(f"vanished {number}")
    return f"{n} times"


def read_only_folder(trial: Trial, rng: random.Random, n: int) -> str:
    """The folder cannot be written to."""
    if os.geteuid() == 0:
        return "skipped: root may write anywhere"
    trial.fresh()
    trial.folder.chmod(0o500)
    done = run(trial.name, trial.folder)
    trial.folder.chmod(0o700)
    if done.returncode != 2 or len(done.stderr.strip().splitlines()) != 1:
        trial.wrong.append(f"read-only: status {done.returncode}: {done.stderr.strip()[-200:]}")
    trial.check("read-only", may_finish=False)
    return "once"


def clock_set_back(trial: Trial, rng: random.Random, n: int) -> str:
    """The clock goes back by a year between a run and the next."""
    faketime = shutil.which("faketime")
    if faketime is None:
        return "skipped: no faketime here"
    trial.fresh()
    done = subprocess.run([faketime, "-f", "-365d", *command(trial.name)], cwd=trial.folder, env=environment(),
                          capture_output=True, text=True, check=False)  # fmt: skip
    if done.returncode != 0:
        trial.wrong.append(f"clock: {done.stderr}")
    if run(trial.name, trial.folder).returncode != 0:
        trial.wrong.append("clock: the next run fails")
    return "once"


FAULTS: tuple[Callable[[Trial, random.Random, int], str], ...] = (
    kills, full_disk, two_runs, vanishing_folder, read_only_folder, clock_set_back,
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30, help="kills of each command; other faults a tenth of that")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="name of one fault")
    parser.add_argument("--command", choices=list(COMMANDS), help="one command only")
    given = parser.parse_args()
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
                times = given.kills if fault is kills else max(1, given.kills // 10)
                said = fault(trial, random.Random(f"{given.seed} {name} {fault.__name__}"), times)
                failed += len(trial.wrong)
                print(
                    json.dumps({"command": name, "fault": fault.__name__, "run": said, "wrong": trial.wrong}),
                    flush=True,
                )
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
