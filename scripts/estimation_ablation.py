"""What each part of the estimation's speed gives: the same fits with one part left out at a time.

    python scripts/estimation_ablation.py [--repeats 3] [--seed 1]

Fits simulated data without a prior and with one thread, as it is and with one part replaced by the plain thing, and
prints the number of steps over all respondents and the seconds relative to the fit as it is, both of one run.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import torch

from irtbench.data.responses import ResponseMatrix
from irtbench.estimation import scale_fit
from irtbench.estimation.fit import fit_model
from irtbench.estimation.fitted import FittedModel
from irtbench.estimation.marginal import e_step, fisher_scoring, m_step
from irtbench.estimation.marginal.acceleration import StepMemory
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.settings import FitSettings
from irtbench.models.curves import simulate_responses
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.pyro_model import rows

CASES = (("2pl", 1000, 90), ("2pl", 5000, 100), ("2pl", 20000, 200), ("3pl", 1000, 90), ("3pl", 5000, 100))


@contextmanager
def as_it_is() -> Iterator[None]:
    yield


@contextmanager
def without_missing_information() -> Iterator[None]:
    """The items' own steps alone, as if abilities were seen."""
    with patch.object(fisher_scoring, "with_missing_information", lambda problem, derivatives, step: step):
        yield


@contextmanager
def without_memory() -> Iterator[None]:
    """No limited-memory BFGS: each step for itself."""
    with patch.object(StepMemory, "accelerated", lambda self: self.step):
        yield


@contextmanager
def one_step() -> Iterator[None]:
    """No second M step at the same counts."""
    with patch.object(m_step, "SHORT_STEP", float("inf")):
        yield


@contextmanager
def em() -> Iterator[None]:
    """Neither of the two: EM."""
    with ExitStack() as stack:
        stack.enter_context(without_missing_information())
        stack.enter_context(without_memory())
        yield


@contextmanager
def without_sums() -> Iterator[None]:
    """Counts at all nodes, as a model with guessing needs them."""
    with patch.object(Problem, "guesses", True):
        yield


@contextmanager
def without_scratch() -> Iterator[None]:
    """Fresh memory for every batch."""
    fresh = lambda self, name, n_rows, n_columns, like: like.new_empty(n_rows, n_columns)  # noqa: E731
    with patch.object(rows.Scratch, "matrix", fresh):
        yield


@contextmanager
def in_one_batch() -> Iterator[None]:
    """All respondents at once."""
    with patch.dict(e_step.BATCH_CELLS, {"cpu": 2**40}):
        yield


@contextmanager
def without_rough_start() -> Iterator[None]:
    """Starting values from correlations, with no steps on a smaller problem first."""
    with patch.object(scale_fit, "rough_start", lambda problem: (problem.starting_values(), None)):
        yield


WAYS = {
    "as it is": as_it_is,
    "no second M step": one_step,
    "missing information not in the steps": without_missing_information,
    "no memory of past steps": without_memory,
    "neither: EM": em,
    "counts at nodes instead of sufficient sums": without_sums,
    "fresh memory for every batch": without_scratch,
    "all respondents in one batch": in_one_batch,
    "no steps on a smaller problem first": without_rough_start,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cells: dict[str, list[str]] = {name: [] for name in [*WAYS, "float32"]}
    for kind, n, n_items in CASES:
        responses = simulated(kind, n, n_items, arguments.seed)
        plain = FitSettings(kind=kind, prior="none", standard_errors=False)
        fit_model(responses, plain)  # what libraries load on first use
        base = None
        for name in cells:
            settings = replace(plain, dtype="float32") if name == "float32" else plain
            with WAYS.get(name, as_it_is)():
                fitted, seconds = timed(responses, settings, arguments.repeats)
            base = base or seconds
            stopped = "" if fitted.converged else " (not converged)"
            cells[name].append(f"{fitted.steps}, {seconds / base:.2f}{stopped}")
    heads = [f"{kind.upper()} {n:,} x {n_items}" for kind, n, n_items in CASES]
    print("| steps, time | " + " | ".join(heads) + " |\n" + "|---" * (len(heads) + 1) + "|")
    for name, row in cells.items():
        print(f"| {name} | " + " | ".join(row) + " |")


def simulated(kind: str, n: int, n_items: int, seed: int) -> ResponseMatrix:
    rng = np.random.default_rng(seed)
    a, b = rng.lognormal(0.2, 0.3, n_items), rng.normal(0, 1, n_items)
    items = ItemParameters.from_difficulty(a, b, rng.uniform(0.1, 0.3, n_items) if kind == "3pl" else 0.0)
    return simulate_responses(rng.normal(size=n), items, rng=rng)


def timed(responses: ResponseMatrix, settings: FitSettings, repeats: int) -> tuple[FittedModel, float]:
    """A fit, and the median of the seconds it took."""
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        fitted = fit_model(responses, settings)
        seconds.append(time.perf_counter() - began)
    return fitted, statistics.median(seconds)


if __name__ == "__main__":
    main()
