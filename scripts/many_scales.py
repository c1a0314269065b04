"""How much quicker scales are fitted together than one after the other, and how far the estimates are apart.

    python scripts/many_scales.py [--scales 1000] [--respondents 1000] [--items 30] [--missing 0] [--rounds 3]
        [--model 2pl] [--fixed-guessing 0] [--prior none] [--guessed 0] [--categories 5]

The same responses are fitted both ways in turns, in blocks, in one process. Seconds are the processor's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import irtbench

RIGHT_OR_WRONG = "rasch", "1pl", "2pl", "3pl"


def simulated(
    n: int, n_items: int, missing: float, seed: int, *, alike: bool = False, guessed: float = 0.0
) -> irtbench.ResponseMatrix:
    """Responses to items of slopes of their own, or of one slope, with a lower asymptote."""
    rng = np.random.default_rng(seed)
    slopes = rng.lognormal(0.2, 0.3, n_items)
    slopes = np.full(n_items, 1.2) if alike else slopes
    items = irtbench.ItemParameters.from_difficulty(slopes, rng.normal(size=n_items), guessed)
    responses = irtbench.simulate_responses(rng.normal(size=n), items, rng=rng, missing=missing)
    return responses.select_respondents(responses.n_by_respondent > 0)


def graded(n: int, n_items: int, missing: float, seed: int, n_categories: int) -> pd.DataFrame:
    """Grades by graded items of slopes and steps of their own."""
    rng = np.random.default_rng(seed)
    slopes, steps = rng.lognormal(0.2, 0.3, n_items), np.sort(rng.normal(size=(n_items, n_categories - 1)))
    chance = rng.normal(size=n)[:, None, None] + rng.logistic(size=(n, n_items, 1)) / slopes[:, None]
    given = pd.DataFrame((chance > steps).sum(axis=2).astype(float))
    return given.mask(rng.random(given.shape) < missing).dropna(how="all").add_prefix("item")


def timed(fit: Callable[[], Any]) -> tuple[float, float, Any]:
    clock, processor = time.perf_counter(), time.process_time()
    found = fit()
    return time.process_time() - processor, time.perf_counter() - clock, found


def linear(fitted: irtbench.FittedModel | irtbench.FittedCategories) -> tuple[NDArray[np.float64], ...]:
    """The parameters that are compared: slopes and intercepts, or all in categories."""
    if isinstance(fitted, irtbench.FittedCategories):
        return (fitted.parameters,)
    return fitted.items.discrimination, fitted.items.intercept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scales", type=int, default=1000)
    parser.add_argument("--respondents", type=int, default=1000)
    parser.add_argument("--items", type=int, default=30)
    parser.add_argument("--missing", type=float, default=0.0)
    parser.add_argument("--rounds", type=int, default=3, help="blocks of scales, fitted both ways in turns")
    parser.add_argument("--tolerance", type=float, default=1e-5)
    parser.add_argument("--standard-errors", action="store_true")
    parser.add_argument("--model", choices=[*RIGHT_OR_WRONG, "grm", "gpcm", "nominal"], default="2pl")
    parser.add_argument("--categories", type=int, default=5)
    parser.add_argument("--fixed-guessing", type=float, default=0.0, help="of the model that is fitted")
    parser.add_argument("--prior", choices=["none", "weak"], default=None)
    parser.add_argument("--guessed", type=float, default=0.0, help="lower asymptote of the items that answers are to")
    options = parser.parse_args()
    keywords = {
        "standard_errors": options.standard_errors,
        "tolerance": options.tolerance,
        "prior": options.prior,
    }
    size = options.respondents, options.items, options.missing
    if options.model in RIGHT_OR_WRONG:
        keywords |= {"kind": options.model, "guessing": options.fixed_guessing}
        alike, fit_one = options.model in ("rasch", "1pl"), irtbench.fit_model
        scales = [simulated(*size, seed, alike=alike, guessed=options.guessed) for seed in range(options.scales)]
    else:
        keywords |= {"models": options.model}
        fit_one, scales = irtbench.fit_categories, [graded(*size, k, options.categories) for k in range(options.scales)]
    irtbench.fit_many(scales[:5], **keywords)
    rows, apart = [], []
    for block in np.array_split(np.arange(len(scales)), options.rounds):
        some = [scales[k] for k in block]
        one_by_one = timed(lambda some=some: [fit_one(one, **keywords) for one in some])
        together = timed(lambda some=some: irtbench.fit_many(some, **keywords))
        rows.append((*one_by_one[:2], *together[:2]))
        for one, other in zip(together[2].fits, one_by_one[2], strict=True):
            assert one is not None
            assert one.converged == other.converged
            if other.converged:
                apart.append(max(np.abs(x - y).max() for x, y in zip(*map(linear, (one, other)), strict=True)))
        print(together[2], "ms a scale:", *(f"{1000 * part / len(block):.2f}" for part in rows[-1]), flush=True)
    total = np.array(rows)
    ratios = total[:, 0] / total[:, 2], total[:, 1] / total[:, 3]
    print(f"one by one / together, processor: median {np.median(ratios[0]):.1f}, clock: {np.median(ratios[1]):.1f}")
    print(f"estimates apart: median of the largest of a scale {np.median(apart):.1e}, largest {np.max(apart):.1e}")


if __name__ == "__main__":
    main()
