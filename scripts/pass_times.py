"""What a pass over stored responses takes in several processes: its parts, from which docs/scale.md reckons further.

    irtbench fit large -o results --scores none --cache cache
    torchrun --standalone --nproc-per-node 4 scripts/pass_times.py cache/*/

Of each of five passes over a process's share: processor time and clock of its sums, of what is computed alike in every
process (the table of posteriors, a step of the items), and the clock of the all-reduce of as many numbers as a pass
sums. The smallest of five are told: others use the machine too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch

from irtbench.data.response_store import ResponseStore
from irtbench.estimation.fit import problem_of
from irtbench.estimation.marginal.fisher_scoring import Climb, rough_start
from irtbench.estimation.ranks import Ranks, joined
from irtbench.estimation.settings import FitSettings
from irtbench.models.quadrature import normal_grid

REPEATS = 5
PAYLOADS = (1_000, 12_000, 100_000, 1_000_000)  # numbers of eight bytes


def smallest(work: Callable[[], object], ranks: Ranks) -> tuple[float, float]:
    """Processor time and clock, the smallest of some repeats."""
    times = []
    for _ in range(REPEATS):
        ranks.wait_for_all()
        began, clock = time.process_time(), time.perf_counter()
        work()
        times.append((time.process_time() - began, time.perf_counter() - clock))
    return min(cpu for cpu, _ in times), min(clock for _, clock in times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of encoded responses, in a cache")
    folder = parser.parse_args().folder
    with joined() as ranks, torch.no_grad():
        responses = ResponseStore.of_this_run(folder)
        problem = problem_of(responses, FitSettings(), normal_grid(61), ranks=ranks)
        items, _ = rough_start(problem)
        whole = smallest(lambda: problem.counts(items), ranks)
        counts = problem.counts(items)

        def step() -> None:
            Climb.begin(problem, items, counts, torch.zeros(1, dtype=torch.float64)).next_items()

        of_step = smallest(step, ranks)
        reduced = {n: smallest(lambda n=n: ranks.total(torch.zeros(n)), ranks)[1] for n in PAYLOADS}
        by_rank = [whole[0] if rank == ranks.rank else 0.0 for rank in range(ranks.n)]
        (processor,) = ranks.total(torch.tensor(by_rank, dtype=torch.float64))
        if ranks.is_first:
            print(f"{ranks.n} processes, {responses.n_respondents} x {responses.n_items}")
            print(f"pass: clock {whole[1]:.3f} s, processor s by process {[round(s, 3) for s in processor.tolist()]}")
            print(f"step of the items: processor {of_step[0] * 1e3:.1f} ms")
            for n, seconds in reduced.items():
                print(f"all-reduce of {8 * n / 1e3:.0f} kB: {seconds * 1e3:.2f} ms")


if __name__ == "__main__":
    main()
