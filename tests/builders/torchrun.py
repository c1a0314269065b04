"""``irtbench`` in several processes started by torchrun: of unequal shares and speed, or one killed in the middle."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

LONGEST = 240  # seconds
FAULTS = "IRTBENCH_TEST_FAULTS"


@dataclass(frozen=True)
class Ran:
    """How it ended."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """What irtbench said on standard error; torchrun says much else where a process fails."""
        return [line for line in self.err.splitlines() if line.startswith("irtbench")]

    @property
    def faults(self) -> list[str]:
        """What the faults below said: passes of the processes."""
        return [line for line in self.err.splitlines() if line.startswith("pass")]


def torchrun(n: int, *arguments: object, restarts: int = 0, **faults: object) -> Ran:
    """Run ``irtbench`` in n processes.

    Faults are ``shares``, the numbers of respondents of the processes; ``slow``, a process that sleeps in every pass;
    ``killed``, the process, pass and number of the attempt at which it is killed; ``fails``, a process that cannot read
    in a pass; ``scored``, how many parts of scores are kept when the process that kept the last is killed.
    """
    # where one is killed the others say so, unless torchrun, which looks every so often, ends them first
    looks = ["--monitor-interval", "1"] if "killed" in faults else []
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(n), "--max-restarts", str(restarts),
        *looks, "--standalone", __file__, *map(str, arguments),
    ]  # fmt: skip
    root = Path(__file__).parents[2]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(root), FAULTS: json.dumps(faults)}
    started = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    try:
        out, err = started.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)  # torchrun and the processes that it has started
        raise
    return Ran(started.returncode, out, err)


def with_faults(shares=None, slow=None, killed=None, fails=None, scored=None) -> None:
    """Put them in place of what this process would do."""
    from irtbench.estimation import threads
    from irtbench.estimation.distributed import ranks

    rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    over_spans, n_passes = threads.over_spans, 0

    def faulty(*given):
        nonlocal n_passes
        n_passes += 1
        if killed == [rank, n_passes, attempt]:
            os.kill(os.getpid(), signal.SIGKILL)
        if fails == rank:
            raise OSError(5, "Input/output error", "responses.bin")
        if slow == rank:
            time.sleep(0.05)
        return over_spans(*given)

    threads.over_spans = faulty
    if shares is not None:
        ends = [sum(shares[:k]) for k in range(len(shares) + 1)]
        ranks.span_ends = lambda n_respondents, n: list(itertools.pairwise(ends))  # type: ignore[attr-defined]
    if scored is not None and attempt == 0:
        kill_when_kept(scored)
    import atexit

    # one write, end of line and all: the processes share the pipe, and run unbuffered under torchrun
    atexit.register(lambda: sys.stderr.write(f"pass {rank} {attempt} {n_passes}\n"))


def kill_when_kept(most: int) -> None:
    """Kill this process when it has kept scores of a part and there are so many."""
    from irtbench.scoring.part_scores import KeptScores

    put = KeptScores.put

    def fatal(self, *given):
        put(self, *given)
        if len(list(self.folder.glob("*.arrow"))) >= most:
            os.kill(os.getpid(), signal.SIGKILL)

    KeptScores.put = fatal  # type: ignore[method-assign]


if __name__ == "__main__":
    with_faults(**json.loads(os.environ[FAULTS]))
    from irtbench.cli.main import main

    main()
