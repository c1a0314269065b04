"""Run fits and whole commands in processes of their own, with so many threads and so much time."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SCRIPTS = Path(__file__).resolve().parents[1]
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")
PREPARATION = 600  # seconds that imports and reading may take beside the fit


def with_threads(threads: int) -> dict[str, str]:
    """This process's environment, in which numerical libraries use so many threads."""
    return os.environ | dict.fromkeys(THREAD_VARIABLES, str(threads))


def fit_in_process(job: dict[str, Any], folder: Path, *, python: str = sys.executable) -> dict[str, Any]:
    """Do one job of `one_fit`: its result with ``outcome`` ``fitted``, or only an outcome that says why there is none.

    Parameters
    ----------
    job
        data, tool, size, device, seed, repeats, threads, time_limit.
    folder
        For the files that the two processes exchange.
    python
        The interpreter that has the tool.
    """
    result = folder / "result.json"
    result.unlink(missing_ok=True)
    (folder / "job.json").write_text(json.dumps(job | {"result": str(result)}))
    command = [python, "-m", "benchmark_parts.one_fit", str(folder / "job.json")]
    over = f"over {job['time_limit']:g} s"
    try:
        done = subprocess.run(
            command,
            cwd=SCRIPTS,
            env=with_threads(job["threads"]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=PREPARATION + 2 * job["time_limit"],
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"outcome": f"{over}, its input included"}
    if done.returncode == 0:
        return {"outcome": "fitted"} | json.loads(result.read_text())
    if done.returncode == -signal.SIGALRM:
        return {"outcome": over}
    if done.returncode == -signal.SIGKILL:
        return {"outcome": "failed: killed, probably for want of memory"}
    said = [line for line in done.stderr.splitlines() if line.strip()]
    return {"outcome": f"failed: {said[-1] if said else f'exit status {done.returncode}'}"}


def whole_processes(values: NDArray[np.uint8], folder: Path, *, threads: int, repeats: int) -> dict[str, float]:
    """Median seconds of ``irtbench fit`` on a CSV file as a whole process, and of what it cannot do without.

    Each command is run once for nothing, so that all find its files read before; then in turns.
    """
    file = folder / "responses.csv"
    header = "respondent_id," + ",".join(f"i{j + 1}" for j in range(values.shape[1]))
    rows = [f"r{i + 1}," + ",".join(map(str, row)) for i, row in enumerate(values.tolist())]
    file.write_text("\n".join([header, *rows]) + "\n")
    call = "import sys; from irtbench.cli.main import main; sys.exit(main())"
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        'python -c "import torch, pyro"': [sys.executable, "-c", "import torch, pyro"],
        "irtbench fit": [sys.executable, "-c", call, "fit", str(file), "-o", str(folder / "fit"), "--quiet"],
    }
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(repeats + 1):
        for name, command in commands.items():
            began = time.perf_counter()
            subprocess.run(command, cwd=folder, env=with_threads(threads), check=True, stdout=subprocess.DEVNULL)
            taken[name].append(time.perf_counter() - began)
    return {name: statistics.median(seconds[1:]) for name, seconds in taken.items()}
