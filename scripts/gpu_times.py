"""Seconds of fits on the processor and on a GPU: where `--device auto` should take which.

    python scripts/gpu_times.py [--quick] [--threads 8]

Each fit is run once to warm up and then timed, the median of three by the clock, with standard errors. The last
column is the largest difference of an estimated intercept or category parameter between the two, in standard errors.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from irtbench.estimation.fit import fit_model
from irtbench.estimation.fit_categories import fit_categories
from irtbench.estimation.multiple_groups import fit_groups
from irtbench.models.curves import simulate_responses
from irtbench.models.item_parameters import ItemParameters

SIZES = [(200, 10), (1_000, 30), (5_000, 100), (20_000, 200), (100_000, 100), (1_000_000, 100)]
QUICK = SIZES[:2]
Fit = Callable[[str], NDArray[np.float64]]


def data(n: int, n_items: int, guessing: float = 0.0) -> Any:
    """Responses of normal abilities."""
    rng = np.random.default_rng(n)
    items = ItemParameters.from_difficulty(
        rng.lognormal(0.2, 0.3, n_items), rng.normal(0, 1, n_items).clip(-2.5, 2.5), np.full(n_items, guessing)
    )
    return simulate_responses(rng.normal(size=n), items, rng=rng)


def grades(n: int, n_items: int) -> NDArray[np.float64]:
    """Scores from 0 to 4: the sum of four of the items each."""
    return data(n, 4 * n_items).values.reshape(n, n_items, 4).sum(axis=2)


def in_errors(fitted: Any) -> NDArray[np.float64]:
    """Intercepts in standard errors."""
    return fitted.items.intercept / fitted.items.standard_errors()["intercept"]


def fits(quick: bool) -> dict[str, Fit]:
    """The fits that are timed, by name."""
    found: dict[str, Fit] = {}
    for n, n_items in QUICK if quick else SIZES:
        responses = data(n, n_items)
        found[f"2pl {n:,} x {n_items}"] = lambda device, r=responses: in_errors(fit_model(r, device=device))
    for n, n_items in QUICK if quick else [(1_000, 30), (5_000, 100), (100_000, 100)]:
        responses = data(n, n_items, 0.2)
        found[f"3pl {n:,} x {n_items}"] = lambda device, r=responses: in_errors(fit_model(r, kind="3pl", device=device))
    few = data(100, 300)
    found["hierarchical 100 x 300"] = lambda device: in_errors(fit_model(few, prior="hierarchical", device=device))
    for n, n_items in QUICK if quick else [(1_000, 30), (20_000, 50)]:
        table = grades(n, n_items)
        found[f"grm {n:,} x {n_items}"] = lambda device, t=table: of_grades(fit_categories(t, "grm", device=device))
    crowds = data(5_000, 50)
    names = np.repeat(["a", "b"], 2_500)
    found["two groups 5,000 x 50"] = lambda device: in_errors_of_groups(fit_groups(crowds, names, device=device))
    return found


def of_grades(fitted: Any) -> NDArray[np.float64]:
    """Parameters in standard errors, about, of the steps."""
    error = np.sqrt(np.diagonal(fitted.items.covariance, axis1=1, axis2=2))
    return np.divide(fitted.items.steps_at, error, where=error > 0, out=np.zeros_like(error))


def in_errors_of_groups(fitted: Any) -> NDArray[np.float64]:
    """Intercepts of the second group in standard errors."""
    items = fitted.items[1]
    return items.intercept / items.standard_errors()["intercept"]


def seconds(work: Fit, device: str, repeats: int = 3) -> tuple[float, NDArray[np.float64]]:
    """The median by the clock, and what was estimated."""
    found, times = work(device), []
    for _ in range(repeats):
        began = time.perf_counter()
        found = work(device)
        times.append(time.perf_counter() - began)
    return median(times), found


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes alone")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else "no GPU: the processor twice"
    print(f"{name}; the processor with {options.threads} threads\n\n| fit | processor | GPU | apart |")
    print("|---|---|---|---|")
    for fit, work in fits(options.quick).items():
        (here, found), (there, other) = seconds(work, "cpu"), seconds(work, device)
        print(f"| {fit} | {here:.3f} | {there:.3f} | {np.nanmax(np.abs(found - other)):.1e} |", flush=True)


if __name__ == "__main__":
    main()
