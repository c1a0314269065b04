"""Planned against realised errors: plan a crowd, simulate it, fit it, and compare.

    python scripts/plan_check.py [--replications 20] [--seed 1]

Items are `typical_items`, abilities standard normal, items asked drawn at random for each respondent. Realised: root
mean squared errors over replications, of b and a for the median item, and of b over the nine tenths of the items with
the smallest planned error; of EAP abilities over all respondents; mean width of the percentile's interval. Prints the
table of docs/crowds.md.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.special import ndtr

from irtbench.analysis.crowd_plan import PlanSettings, plan_crowd
from irtbench.analysis.design_information import typical_items
from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.fit import fit_model
from irtbench.estimation.settings import FitSettings
from irtbench.models.curves import simulate_responses
from irtbench.scoring.item_error import abilities_of

DESIGNS = (
    (30, 30, 250), (30, 30, 1000), (30, 20, 500), (60, 20, 1000), (90, 30, 1000), (90, 90, 500),
    (40, 15, 200), (60, 20, 200), (40, 40, 100),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    print(
        "| items | each | respondents | b, median item | b, nine tenths | a, median item | theta | percentile width |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for n_items, n_each, n in DESIGNS:
        items = typical_items(n_items)
        planned = plan_crowd(items, PlanSettings(n_each=n_each, n_respondents=n), rng=rng).precision
        inner = planned.se_difficulty <= np.quantile(planned.se_difficulty, 0.9)
        errors_b, errors_a, errors_theta, widths = [], [], [], []
        for _ in range(arguments.replications):
            theta = rng.standard_normal(n)
            values = simulate_responses(theta, items, rng=rng).values.copy()
            values[np.argsort(rng.random(values.shape), axis=1).argsort(axis=1) >= n_each] = np.nan
            responses = ResponseMatrix(values, tuple(f"r{i}" for i in range(n)), items.item_ids)
            fitted = fit_model(responses, FitSettings(standard_errors=False))
            found = fitted.items
            if not fitted.converged:
                continue
            errors_b.append(-found.intercept / found.discrimination + items.intercept / items.discrimination)
            errors_a.append(found.discrimination - items.discrimination)
            abilities = abilities_of(fitted, responses)
            errors_theta.append(abilities.theta - theta)
            widths.append(ndtr(abilities.upper) - ndtr(abilities.lower))
        b, a = (np.sqrt(np.square(errors).mean(axis=0)) for errors in (errors_b, errors_a))
        pairs = (
            (np.median(planned.se_difficulty), np.median(b)),
            (np.sqrt((planned.se_difficulty[inner] ** 2).mean()), np.sqrt((b[inner] ** 2).mean())),
            (np.median(planned.se_discrimination), np.median(a)),
            (planned.se_theta, np.sqrt(np.square(errors_theta).mean())),
            (planned.percentile_width, np.mean(widths)),
        )
        cells = " | ".join(f"{plan:.3f}, {real:.3f} ({real / plan - 1:+.0%})" for plan, real in pairs)
        print(f"| {n_items} | {n_each} | {n} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
