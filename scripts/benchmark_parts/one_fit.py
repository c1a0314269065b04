"""Fit one data set with one tool in a process of its own: python -m benchmark_parts.one_fit JOB.json.

The job names data, tool, size, device, seed, repeats, threads and time limit, and the file to write. Whatever takes
longer than the limit ends the process, with the signal of the alarm as its exit status.
"""

from __future__ import annotations

import gc
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmark_parts import memory
from benchmark_parts.simulated import simulate
from benchmark_parts.sizes import Size
from benchmark_parts.tools import TOOLS

WARM_UP = (200, 10)  # respondents and items of a first fit, after which a tool has loaded what it loads on first use
REPEAT_WITHIN = 0.1  # a fit is repeated while all fits together took less than this share of the limit


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Import, warm up, prepare, fit and repeat.

    Seconds of every fit by the clock and of the processor, memory in MB, the estimates and their errors.
    """
    tool, size, limit = TOOLS[job["tool"]], Size.parse(job["size"]), job["time_limit"]
    tool.import_libraries()
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(job["threads"])
    small = Size(size.kind, *WARM_UP, size.hierarchical)
    tool.prepare(simulate(small, seed=job["seed"]).values, small, job["device"], job["seed"]).fit()
    on_gpu = job["device"] == "cuda"
    if on_gpu:
        import torch

        torch.cuda.reset_peak_memory_stats()
    gc.collect()
    libraries = memory.resident()
    values = np.load(job["data"])
    prepared = tool.prepare(values, size, job["device"], job["seed"])
    del values
    gc.collect()
    with_input = memory.resident()
    memory.reset_peak()

    seconds: list[float] = []
    processor: list[float] = []
    while not seconds or (len(seconds) < job["repeats"] and sum(seconds) < REPEAT_WITHIN * limit):
        signal.setitimer(signal.ITIMER_REAL, limit)  # nobody handles the alarm: it ends the process
        began, spent = time.perf_counter(), time.process_time()
        result = prepared.fit()
        seconds.append(time.perf_counter() - began)
        processor.append(time.process_time() - spent)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if len(seconds) == 1:
            highest = memory.peak()
    found, errors = prepared.read(result), prepared.errors(result)
    return {
        "seconds": seconds,
        "processor": processor,
        "se_difficulty": None if errors.difficulty is None else errors.difficulty.tolist(),
        "theta": None if errors.theta is None else errors.theta.tolist(),
        "input_mb": with_input - libraries,
        "fit_mb": highest - with_input,
        "gpu_mb": torch.cuda.max_memory_allocated() / memory.MEGABYTE if on_gpu else float("nan"),
        "discrimination": found.discrimination.tolist(),
        "difficulty": found.difficulty.tolist(),
        "guessing": found.guessing.tolist(),
        "converged": found.converged,
        "said": found.said,
    }


if __name__ == "__main__":
    asked = json.loads(Path(sys.argv[1]).read_text())
    Path(asked["result"]).write_text(json.dumps(run(asked)))
