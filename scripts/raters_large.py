"""Time, memory and coverage of `fit_raters` in the shape of a large crowd: 39,565 comments, 7,912 raters, 10 items.

    python scripts/raters_large.py [--raters 7912] [--threads 2]

Most raters saw few comments (their numbers are gamma distributed), most comments were seen by few raters; 135,556
pairs of a comment and a rater in all, each rated on ten items with five categories by partial credit. Prints seconds,
the greatest memory of the process and the share of severities, abilities and fair scores inside of their intervals.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import pandas as pd
import torch

import irtbench

N_COMMENTS, N_RATERS, N_PAIRS, N_ITEMS = 39_565, 7_912, 135_556, 10
ABILITY, SEVERITY = 1.5, 0.6  # standard deviations


def simulate(n_raters: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """A table of ratings, abilities and severities."""
    share = rng.gamma(0.7, size=n_raters)
    comments = np.concatenate([np.arange(N_COMMENTS), rng.integers(0, N_COMMENTS, N_PAIRS - N_COMMENTS)])
    raters = rng.choice(n_raters, size=N_PAIRS, p=share / share.sum())
    raters[:n_raters] = rng.permutation(n_raters)
    comments, raters = pd.DataFrame({"comment": comments, "rater": raters}).drop_duplicates().to_numpy().T
    theta, severity = rng.normal(0, ABILITY, N_COMMENTS), rng.normal(0, SEVERITY, n_raters)
    steps = rng.normal(0, 1, (N_ITEMS, 1)) + np.linspace(-1.5, 1.5, 4)
    scores = np.empty((len(comments), N_ITEMS), dtype=np.int8)
    for j, own in enumerate(steps):
        z = np.cumsum((theta[comments] - severity[raters])[:, None] - own, axis=1)
        chance = np.exp(np.concatenate([np.zeros((len(z), 1)), z], axis=1)).cumsum(axis=1)
        scores[:, j] = (chance < chance[:, -1:] * rng.random((len(z), 1))).sum(axis=1)
    items = pd.Categorical.from_codes(np.tile(np.arange(N_ITEMS), len(comments)), [f"item{j}" for j in range(N_ITEMS)])
    table = pd.DataFrame({"respondent_id": np.repeat(comments, N_ITEMS), "item_id": items,
                          "rater_id": np.repeat(raters, N_ITEMS), "score": scores.reshape(-1)})  # fmt: skip
    return table, theta, severity


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--raters", type=int, default=N_RATERS)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    table, theta, severity = simulate(given.raters, np.random.default_rng(1))
    start, busy = time.perf_counter(), time.process_time()
    found = irtbench.fit_raters(table)
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    raters, scores = found.table(), found.scores()
    true = severity[raters["rater_id"].astype(int)] - severity.mean()
    inside = (true >= raters["severity_lower"]) & (true <= raters["severity_upper"])
    able = theta[scores["respondent_id"].astype(int)]
    shift = scores["theta"].mean() - able.mean()
    print(
        found,
        f"\n{len(table):,} ratings: {seconds:.0f} s ({busy:.0f} s of processor), {memory:.2f} GiB, {found.steps} steps",
    )
    print(f"severities: coverage {inside.mean():.3f}, root mean square error "
          f"{np.sqrt(((raters['severity'] - true) ** 2).mean()):.3f}; "
          f"theta: {(np.abs(scores['theta'] - shift - able) < 1.96 * scores['se']).mean():.3f}; ability sd "
          f"{found.ability_sd:.3f}, severity sd {found.rater_sd:.3f}")  # fmt: skip
    few = raters["n"] <= 30
    print(f"raters with at most 30 ratings ({few.sum()}): coverage {inside[few].mean():.3f}")


if __name__ == "__main__":
    main()
