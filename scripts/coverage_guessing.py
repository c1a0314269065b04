"""How often intervals of items fitted as 3PL cover the truth, where guessing is not drawn from the fit's prior.

    python scripts/coverage_guessing.py [--replications 20] [--seed 1] [--respondents 1000] [--items 40]
    python scripts/coverage_guessing.py --prior weak --respondents 1500 --items 30 [--design uniform ...]

Slopes are log-normal(.2, .3), difficulties and abilities normal(0, 1). Printed is the share of intervals, of nominal
95%, that cover the truth: those of items.csv, and 1.96 standard errors on either side (of c where it was estimated at
0: 0 alone). Fits that did not converge, a slope growing without end, are left out.

Without a prior guessing is 0 and .2 in turns. Items are divided by it and by where it was estimated; a share over some
of the items only because of their estimates is not expected to be .95, over all it is. With a prior every design of
``DESIGNS`` is a part of the table, items are divided by their true guessing, and the last column is the share that the
fit names as decided by the prior.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from irtbench.estimation.fit import fit_model
from irtbench.models.curves import simulate_responses
from irtbench.models.item_parameters import ItemParameters

NAMES = {"a": "discrimination", "b": "difficulty", "c": "guessing"}
#: Guessing of so many items.
DESIGNS: dict[str, Callable[[int, np.random.Generator], NDArray[np.float64]]] = {
    "turns": lambda n, rng: np.where(np.arange(n) % 2, 0.2, 0.0),
    "uniform": lambda n, rng: rng.uniform(0, 0.35, n),
    "none": lambda n, rng: rng.uniform(0, 0.02, n),
    "half": lambda n, rng: np.where(np.arange(n) % 2, 0.25, 0.0),
    "alike": lambda n, rng: np.full(n, 0.2),
    "prior": lambda n, rng: rng.beta(5, 15, n),
    "high": lambda n, rng: rng.uniform(0.2, 0.5, n),
}
WORDS = {
    "turns": "0 and .2 in turns",
    "uniform": "U(0, .35)",
    "none": "U(0, .02)",
    "half": "0 and .25 in turns",
    "alike": ".2",
    "prior": "Beta(5, 15)",
    "high": "U(.2, .5)",
}
LIMITS = (0.0, 0.05, 0.15, 0.25, 1.0)  # of true guessing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--respondents", type=int, default=1000)
    parser.add_argument("--items", type=int, default=40)
    parser.add_argument("--prior", choices=["none", "weak", "hierarchical"], default="none")
    parser.add_argument("--design", nargs="*", choices=list(DESIGNS), default=["uniform", "none", "half", "alike"])
    arguments = parser.parse_args()
    print_by_estimate(arguments) if arguments.prior == "none" else print_by_truth(arguments)


def fits_of(arguments: argparse.Namespace, design: str) -> pd.DataFrame:
    """All fits of a design, one row an item, having said how many converged."""
    fits = [
        replicate(arguments, design, np.random.default_rng([arguments.seed, k])) for k in range(arguments.replications)
    ]
    print(f"{WORDS[design]}: {sum(len(fit) > 0 for fit in fits)} of {len(fits)} fits converged\n")
    return pd.concat(fits)


def shares_of(found: pd.DataFrame) -> list[str]:
    """Columns of coverage."""
    return [name for name in found.columns.astype(str) if name[0] in NAMES and name[1:2] in ("", ",")]


def print_by_truth(arguments: argparse.Namespace) -> None:
    """A table for each design, items divided by their true guessing."""
    for design in arguments.design:
        found = fits_of(arguments, design)
        shares = shares_of(found)
        print("| true c | items | " + " | ".join(shares) + " | width of b | by errors | b too high by | named |")
        print("|" + "---|" * (6 + len(shares)))
        for low, high in pairwise(LIMITS):
            rows = found[(found["true"] >= low) & (found["true"] < high)]
            if len(rows):
                cells = [written(float(rows[name].mean())) for name in shares]
                cells += [written(float(rows[name].median())) for name in ("width", "width by errors", "error of b")]
                named = written(float(rows["named"].mean()))
                print(f"| {low:g} to {high:g} | {len(rows)} | " + " | ".join([*cells, named]) + " |")
        print(flush=True)


def print_by_estimate(arguments: argparse.Namespace) -> None:
    """The table of fits without a prior, items divided by where guessing was estimated."""
    found = fits_of(arguments, "turns")
    shares = shares_of(found)
    print("| true c | estimated | items | " + " | ".join(shares) + " | width of b | by standard errors |")
    print("|" + "---|" * (5 + len(shares)))
    for true in (0.0, 0.2, None):
        for place in ("at 0", "above 0", None):
            rows = found[(true is None) | (found["true"] == true)]
            rows = rows[(place is None) | (rows["estimated"] == place)]
            cells = [written(float(rows[name].mean())) for name in shares]
            widths = [written(float(rows[name].median())) for name in ("width", "width by errors")]
            print(
                f"| {'all' if true is None else true} | {place or 'all'} | {len(rows)} | "
                + " | ".join(cells + widths)
                + " |"
            )


def replicate(arguments: argparse.Namespace, design: str, rng: np.random.Generator) -> pd.DataFrame:
    """Fit one simulated data set and compare, one row an item."""
    n_items, prior = arguments.items, arguments.prior
    a, b = rng.lognormal(0.2, 0.3, n_items), rng.normal(size=n_items)
    c = DESIGNS[design](n_items, rng)
    truth = dict(zip(NAMES, (a, b, c), strict=True))
    people = rng.normal(size=arguments.respondents)
    responses = simulate_responses(people, ItemParameters.from_difficulty(a, b, c), rng=rng)
    fitted = fit_model(responses, kind="3pl", prior=prior)
    if not fitted.converged:
        return pd.DataFrame()
    table = fitted.table()
    found = pd.DataFrame({"true": c, "estimated": np.where(table["guessing"] == 0, "at 0", "above 0")})
    for letter, name in NAMES.items():
        lower, upper = table[f"{name}_lower"], table[f"{name}_upper"]
        error = table[f"se_{name}"].fillna(0.0)
        found[letter] = (lower <= truth[letter]) & (truth[letter] <= upper)
        found[f"{letter}, standard errors"] = (table[name] - truth[letter]).abs() <= 1.96 * error
    found["width"] = table["difficulty_upper"] - table["difficulty_lower"]
    found["width by errors"] = 2 * 1.96 * table["se_difficulty"]
    found["error of b"] = table["difficulty"] - b
    found["named"] = table["item_id"].isin(fitted.prior_decides)
    return found


def written(value: float) -> str:
    """A cell of the table."""
    return f"{value:.3f}".replace("0.", ".", 1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
