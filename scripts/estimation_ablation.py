"""What each part of the estimation's speed gives: the same fits with one part left out at a time.

    python scripts/estimation_ablation.py [--repeats 3] [--seed 1]

Fits simulated 2PL data with one thread, as it is and with one part replaced by the plain thing, and prints the number
of steps over all respondents and the seconds relative to the fit as it is, both of one run.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import numpy as np
import torch

from irtbench.data.responses import ResponseMatrix
from irtbench.estimation import mode, response_rows, svi
from irtbench.estimation.svi import FittedModel, SVISettings, fit_model
from irtbench.models.item_response import ItemParameters, simulate_responses

SIZES = ((1000, 90), (5000, 100), (20000, 200))


@contextmanager
def as_it_is() -> Iterator[None]:
    yield


@contextmanager
def without_lost_information() -> Iterator[None]:
    """The items' own information alone in the preconditioner."""

    def own_only(self: mode.Curvature, information: torch.Tensor, shared: torch.Tensor | None) -> None:
        object.__setattr__(self, "information", information)
        object.__setattr__(self, "shared", None)

    with patch.object(mode.Curvature, "__init__", own_only):
        yield


@contextmanager
def without_memory() -> Iterator[None]:
    """No limited-memory BFGS: each step by the preconditioner alone."""
    plain = mode.directions
    with patch.object(mode, "directions", lambda gradient, curvature, memory=(): plain(gradient, curvature)):
        yield


@contextmanager
def em() -> Iterator[None]:
    """Neither of the two: EM with one Newton step an item."""
    with ExitStack() as stack:
        stack.enter_context(without_lost_information())
        stack.enter_context(without_memory())
        yield


@contextmanager
def without_sums() -> Iterator[None]:
    """Counts at all nodes, as a model with guessing needs them."""
    with patch.object(mode.Problem, "guesses", True):
        yield


@contextmanager
def without_scratch() -> Iterator[None]:
    """Fresh memory for every batch."""
    fresh = lambda self, name, n_rows, n_columns, like: like.new_empty(n_rows, n_columns)  # noqa: E731
    with patch.object(response_rows.Scratch, "matrix", fresh):
        yield


@contextmanager
def in_one_batch() -> Iterator[None]:
    """All respondents at once."""
    with patch.dict(mode.BATCH_CELLS, {"cpu": 2**40}):
        yield


@contextmanager
def without_sample() -> Iterator[None]:
    """Starting values from correlations, with no steps on a sample of respondents first."""
    with patch.object(svi, "SAMPLE", 10**9):
        yield


WAYS = {
    "as it is": as_it_is,
    "lost information not in the preconditioner": without_lost_information,
    "no memory of past steps": without_memory,
    "neither: EM": em,
    "counts at nodes instead of sufficient sums": without_sums,
    "fresh memory for every batch": without_scratch,
    "all respondents in one batch": in_one_batch,
    "no start from a sample": without_sample,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cells: dict[str, list[str]] = {name: [] for name in [*WAYS, "float32"]}
    for n, n_items in SIZES:
        responses = simulated(n, n_items, arguments.seed)
        fit_model(responses, SVISettings(standard_errors=False))  # what libraries load on first use
        base = None
        for name in cells:
            settings = SVISettings(standard_errors=False, dtype="float32" if name == "float32" else "float64")
            with WAYS.get(name, as_it_is)():
                fitted, seconds = timed(responses, settings, arguments.repeats)
            base = base or seconds
            stopped = "" if fitted.converged else " (not converged)"
            cells[name].append(f"{fitted.steps}, {seconds / base:.2f}{stopped}")
    print("| steps, time | " + " | ".join(f"{n:,} x {k}" for n, k in SIZES) + " |\n" + "|---" * (len(SIZES) + 1) + "|")
    for name, row in cells.items():
        print(f"| {name} | " + " | ".join(row) + " |")


def simulated(n: int, n_items: int, seed: int) -> ResponseMatrix:
    rng = np.random.default_rng(seed)
    items = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, n_items), rng.normal(0, 1, n_items))
    return simulate_responses(rng.normal(size=n), items, rng=rng)


def timed(responses: ResponseMatrix, settings: SVISettings, repeats: int) -> tuple[FittedModel, float]:
    """A fit, and the median of the seconds it took."""
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        fitted = fit_model(responses, settings)
        seconds.append(time.perf_counter() - began)
    return fitted, statistics.median(seconds)


if __name__ == "__main__":
    main()
