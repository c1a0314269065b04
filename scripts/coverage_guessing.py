"""How often intervals of items fitted as 3PL without a prior cover the truth, half of the items being 2PL items.

    python scripts/coverage_guessing.py [--replications 20] [--seed 1] [--respondents 1000] [--items 40]

Slopes are log-normal(.2, .3), difficulties and abilities normal(0, 1), guessing 0 and .2 in turns. Printed is the share
of intervals, of nominal 95%, that cover the truth: likelihood-ratio intervals as in items.csv, and 1.96 standard errors
on either side (of c where it was estimated at 0: 0 alone). Fits that did not
converge, a slope growing without end, are left out. Items are divided by their guessing and by where it was
estimated; a share over some of the items only because of their estimates is not expected to be .95, over all it is.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
import torch

from irtbench.estimation.fit import fit_model
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.simulation import simulate_responses

NAMES = {"a": "discrimination", "b": "difficulty", "c": "guessing"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--respondents", type=int, default=1000)
    parser.add_argument("--items", type=int, default=40)
    arguments = parser.parse_args()
    fits = [
        replicate(arguments.respondents, arguments.items, np.random.default_rng([arguments.seed, k]))
        for k in range(arguments.replications)
    ]
    found = pd.concat(fits)
    print(f"{sum(len(fit) > 0 for fit in fits)} of {len(fits)} fits converged\n")
    shares = [name for name in found if str(name)[0] in NAMES]
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


def replicate(n_respondents: int, n_items: int, rng: np.random.Generator) -> pd.DataFrame:
    """Fit one simulated data set and compare, one row an item."""
    a, b = rng.lognormal(0.2, 0.3, n_items), rng.normal(size=n_items)
    c = np.where(np.arange(n_items) % 2, 0.2, 0.0)
    truth = dict(zip(NAMES, (a, b, c), strict=True))
    responses = simulate_responses(rng.normal(size=n_respondents), ItemParameters.from_difficulty(a, b, c), rng=rng)
    fitted = fit_model(responses, kind="3pl", prior="none")
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
    return found


def written(value: float) -> str:
    """A cell of the table."""
    return f"{value:.3f}".lstrip("0")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
