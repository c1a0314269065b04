"""``irtbench`` in several processes started by torchrun: of unequal shares and speed, or one killed in the middle.

torchrun imports torch, and so does each process that it starts, which takes longer than what they do. `as_torchrun`
forks them from a process that has imported everything once, with the variables, the store, the restarts and the signals
that torchrun would give them.
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection, get_context
from pathlib import Path

LONGEST = 240  # seconds
FAULTS = "IRTBENCH_TEST_FAULTS"
IMPORTED = [
    "irtbench.cli.large", "irtbench.cli.build", "irtbench.estimation.fit", "irtbench.report.drawing", "pytest",
]  # fmt: skip


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
    ``killed``, processes, and passes and numbers of attempts at which each is killed; ``fails``, a process that cannot
    read in a pass; ``scored``, how many parts of scores are kept when the process that kept the last is killed.
    """
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(n), "--max-restarts", str(restarts),
        "--monitor-interval", str(looks(faults)), "--standalone", __file__, *map(str, arguments),
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


def as_torchrun(n: int, *arguments: object, restarts: int = 0, **faults: object) -> Ran:
    """Run ``irtbench`` in n processes with faults as `torchrun` would."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    context = get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    shared = {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RUN_ID": "test", "WORLD_SIZE": str(n), "LOCAL_WORLD_SIZE": str(n), "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder) / name for name in ("out", "err")]
        for attempt in range(restarts + 1):
            ranks = []
            for number in map(str, range(n)):
                own = {"RANK": number, "LOCAL_RANK": number, "TORCHELASTIC_RESTART_COUNT": str(attempt)}
                given = list(map(str, arguments)), shared | own, json.dumps(faults), streams
                ranks.append(context.Process(target=one_of_them, args=given))
                ranks[-1].start()
            left = {rank.sentinel for rank in ranks}
            while left and not any(rank.exitcode for rank in ranks):
                ended = connection.wait(left, timeout=LONGEST)
                assert ended, f"not ended in {LONGEST} seconds"
                left -= set(ended)  # type: ignore[arg-type]
            time.sleep(looks(faults) if left else 0)
            for rank in ranks:
                rank.terminate()
            for rank in ranks:
                rank.join(LONGEST)
            if not (status := int(any(rank.exitcode for rank in ranks))):
                break
        return Ran(status, *(file.read_text() for file in streams))


def looks(faults: dict[str, object]) -> float:
    """Seconds between two looks at the processes: where one is killed, others have time to say so before their end."""
    return 1.0 if "killed" in faults else 0.1


def one_of_them(arguments: Sequence[str], variables: dict[str, str], faults: str, streams: Sequence[Path]) -> None:
    """What a forked process does, without the drawings of its pages."""
    from builders.commands_here import NOT_DRAWN
    from irtbench.report.drawing import Drawing

    for number, file in enumerate(streams, start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT), number)
    os.environ |= variables
    sys.argv = ["irtbench", *arguments]
    Drawing.image = NOT_DRAWN  # type: ignore[assignment]
    with_faults(faults)


def with_faults(given: str) -> None:
    """Run the command with faults."""
    from irtbench.cli.main import main

    with faulty(**json.loads(given)):
        main()


@contextmanager
def faulty(shares=None, slow=None, killed=(), fails=None, scored=None) -> Iterator[None]:
    """Put them in place of what this process would do."""
    from irtbench.estimation import ranks, threads

    rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    over_spans, n_passes = threads.over_spans, 0

    def a_pass(*given):
        nonlocal n_passes
        n_passes += 1
        if [rank, n_passes, attempt] in killed:
            os.kill(os.getpid(), signal.SIGKILL)
        if fails == rank:
            raise OSError(5, "Input/output error", "responses.bin")
        if slow == rank:
            time.sleep(0.05)
        return over_spans(*given)

    threads.over_spans = a_pass
    if shares is not None:
        ends = [sum(shares[:k]) for k in range(len(shares) + 1)]
        ranks.span_ends = lambda n_respondents, n: list(itertools.pairwise(ends))  # type: ignore[attr-defined]
    if scored is not None and attempt == 0:
        kill_when_kept(scored)
    try:
        yield
    finally:  # one write, end of line and all: the processes share the pipe, and run unbuffered under torchrun
        sys.stderr.write(f"pass {rank} {attempt} {n_passes}\n")


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
    with_faults(os.environ[FAULTS])
