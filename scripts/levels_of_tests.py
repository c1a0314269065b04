"""False alarms and power where many items are biased one way, of one more factor, and of guessing: docs/diagnostics.md.

Item bias: two groups of 500, the second .7 less able, 20 items, five of them harder for it by a shift (or none); 2PL
slopes .8 to 2, and a 3PL with c = .2. Each data set is tested with all items as anchors and with purified ones.
One more factor: one ability, or with --between .85 two that correlate so; p is at most .05 if none of 19 samples
reaches the statistic, so that drawing stops at the first that does. Guessing: a 2PL. Regressions: item bias of clean
graded items by ordinal regression on ability, 160 people (--size 160 20), a quarter of them focal, .5 less able; how
much a person answers is skewed and grows with ability, a third is missing. Use:

    python scripts/levels_of_tests.py (bias | factors | guessing | regressions) [--sets 40] [--kind 2pl] [--shift .5]
        [--size 600 16] [--between 1]
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict

import numpy as np
import pandas as pd
from scipy.special import chdtrc, expit, softmax

from irtbench.analysis.bias_by_score import mantel_haenszel, score_regression
from irtbench.analysis.item_bias import item_bias
from irtbench.analysis.model_comparison import draw_sample, guessing_test
from irtbench.data.multiple_testing import adjust
from irtbench.data.responses import ResponseMatrix
from irtbench.diagnostics.empirical_curve import ordinal_regression, score_statistic
from irtbench.estimation.factors import FactorModel, fit_factors
from irtbench.estimation.settings import FitSettings
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.curves import simulate_responses
from irtbench.models.item_models.graded import Graded
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.quadrature import normal_grid

ALPHA = 0.05
N, N_ITEMS, N_BIASED, IMPACT = 500, 20, 5, -0.7
SAMPLES = 19


def two_groups(shift: float, guessing: float, rng: np.random.Generator) -> tuple[ResponseMatrix, np.ndarray]:
    """Responses, and who belongs to the focal group."""
    a, b = rng.uniform(0.8, 2.0, N_ITEMS), rng.normal(0, 0.8, N_ITEMS)
    harder = b + shift * (np.arange(N_ITEMS) < N_BIASED)
    parts = [
        simulate_responses(rng.normal(mean, 1, N), ItemParameters.from_difficulty(a, place, guessing), rng=rng).values
        for mean, place in ((0, b), (IMPACT, harder))
    ]
    ids = tuple(f"r{i}" for i in range(2 * N)), tuple(f"i{j}" for j in range(N_ITEMS))
    return ResponseMatrix(np.vstack(parts), *ids), np.arange(2 * N) >= N


def bias(sets: int, kind: str, shift: float) -> None:
    """Print a row a test."""
    settings = FitSettings(kind=kind, n_nodes=41)
    p = defaultdict(list)
    for number in range(sets):
        guessing = 0.2 if kind == "3pl" else 0.0
        responses, focal = two_groups(shift, guessing, np.random.default_rng(80_000 + number))
        for purify in (False, True):
            anchors = "purified" if purify else "all items"
            for method in ("likelihood_ratio", "logistic") if kind == "2pl" else ("likelihood_ratio",):
                found = item_bias(responses, focal, method=method, purify=purify, settings=settings)
                p[f"{method}, {anchors}"].append(found.p)
            groups = ["focal" if member else "reference" for member in focal]
            for test in (mantel_haenszel, score_regression):
                p[f"{test.__name__}, {anchors}"].append(test(responses, groups, purify=purify).p)
    n_biased = N_BIASED if shift else 0
    for name, each in p.items():
        found, holm = np.array(each), np.array([adjust(row) for row in each])
        clean = (found[:, n_biased:] < ALPHA).mean(axis=1)
        row = [name, cell(clean), cell((holm[:, n_biased:] < ALPHA).any(axis=1))]
        if n_biased:
            row += [cell((values[:, :n_biased] < ALPHA).mean(axis=1)) for values in (found, holm)]
        print("| " + " | ".join(row) + " |")


def one_ability_or_two(size: tuple[int, int], between: float, rng: np.random.Generator) -> ResponseMatrix:
    """Items that measure one ability in turn with another, which correlates with it."""
    n, n_items = size
    items = ItemParameters.from_difficulty(rng.uniform(0.8, 2.2, n_items), rng.uniform(-1.2, 1.2, n_items))
    theta = rng.normal(size=n)
    first = simulate_responses(theta, items, rng=rng)
    second = simulate_responses(between * theta + np.sqrt(1 - between**2) * rng.normal(size=n), items, rng=rng)
    values = np.where(np.arange(n_items) % 2, second.values, first.values)
    return ResponseMatrix(values, first.respondent_ids, items.item_ids)


def factors(sets: int, size: tuple[int, int], between: float) -> None:
    """Print the share of data sets in which no sample reaches the statistic."""
    alarms = []
    for number in range(sets):
        rng = np.random.default_rng([number, *size])
        responses = one_ability_or_two(size, between, rng)
        model, statistic = two_against_one(responses)
        drawn = (draw_sample(model.answers(responses), model, rng) for _ in range(SAMPLES))
        alarms.append(all(one is not None and two_against_one(one.matrix)[1] < statistic for one in drawn))
    print(f"{size[0]} x {size[1]}, correlation {between:g}: {cell(np.array(alarms))}")


def two_against_one(responses: ResponseMatrix) -> tuple[FactorModel, float]:
    one, two = (fit_factors(responses, number, standard_errors=False) for number in (1, 2))
    return one, max(0.0, 2 * (two.log_likelihood - one.log_likelihood))


def guessing(sets: int, size: tuple[int, int]) -> None:
    """Print the share of items, and of data sets after Holm, whose guessing is significant in a 2PL."""
    n, n_items = size
    found = []
    for number in range(sets):
        rng = np.random.default_rng([number, n, n_items])
        items = ItemParameters.from_difficulty(
            rng.uniform(0.8, 2.2, n_items), np.clip(rng.normal(0, 0.9, n_items), -2, 2)
        )
        found.append(guessing_test(simulate_responses(rng.normal(size=n), items, rng=rng)))
    each = np.array([(test.p < ALPHA).mean() for test in found])
    print(f"{n} x {n_items}: {cell(each)}, any {cell(np.array([(test.p_adjusted < ALPHA).any() for test in found]))}")


def regressions(sets: int, size: tuple[int, int], shift: float) -> None:
    """Print a row a test: level, and power for items that are harder by the shift, a fifth of them."""
    n, n_items = size
    biased = np.arange(n_items) < (n_items // 5 if shift else 0)
    grid, p = normal_grid(121), defaultdict(list)
    for number in range(sets):
        rng = np.random.default_rng([number, n, n_items])
        a, focal = rng.uniform(0.8, 2.2, n_items), np.arange(n) >= 3 * n // 4
        steps = np.sort(rng.normal(0, 0.6, (n_items, 1)) + np.linspace(-1.2, 1.2, 4), axis=1)
        theta = rng.normal(size=n) - 0.5 * focal
        items, harder = (graded(a, steps + by[:, None]) for by in (np.zeros(n_items), shift * biased))
        values = np.where(focal[:, None], *(part.simulate(theta, rng=rng).to_numpy(float) for part in (harder, items)))
        share = expit(theta + 1.5 * rng.normal(size=n) + rng.exponential(size=n))
        values[rng.random(values.shape) > np.clip(share * 0.667 / share.mean(), 0.05, 1)[:, None]] = np.nan
        chosen, logs = items.chosen(values - 1), items.log_probabilities(grid.nodes)
        prior = -0.5 * (grid.nodes + 0.5 * focal[:, None]) ** 2
        found = []
        for own in np.split(np.arange(logs.shape[1]), n_items):
            rest = np.delete(chosen, own, axis=1) @ np.delete(logs, own, axis=1).T
            ability, there = softmax(rest + prior, axis=1) @ grid.nodes, chosen[:, own].any(axis=1)
            columns = np.stack([ability, focal, focal * ability], axis=1)[there]
            counts = chosen[there][:, own].astype(float)
            counts = counts[:, counts.any(axis=0)]
            same, either = (ordinal_regression(columns[:, :width], counts, 1e-4) for width in (1, 3))
            ratio = 2 * (either.log_likelihood - same.log_likelihood)
            found.append([score_statistic(columns, counts, 1e-4, same), ratio])
        for name, x2 in zip(("score", "likelihood ratio"), np.transpose(found), strict=True):
            p[name].append(chdtrc(2, x2))
    for name, each in p.items():
        below = np.array(each) < ALPHA
        row = [name, cell(below[:, ~biased].mean(axis=1))]
        print("| " + " | ".join(row + ([cell(below[:, biased].mean(axis=1))] if shift else [])) + " |")


def graded(a: np.ndarray, steps: np.ndarray) -> CategoryParameters:
    """Graded response items with these slopes and steps."""
    names = {f"step_{k + 1}": column for k, column in enumerate(steps.T)}
    ids = [f"i{j}" for j in range(len(a))]
    levels = "|".join(map(str, range(1, steps.shape[1] + 2)))
    table = pd.DataFrame({"item_id": ids, "discrimination": a, "categories": levels} | names)
    return CategoryParameters.from_table(table, [Graded()] * len(a))


def cell(shares: np.ndarray) -> str:
    """Mean and its standard error over data sets."""
    return f"{np.mean(shares):.3f} ± {np.std(shares, ddof=1) / np.sqrt(len(shares)):.3f}".replace("0.", ".")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["bias", "factors", "guessing", "regressions"])
    parser.add_argument("--sets", type=int, default=40)
    parser.add_argument("--kind", choices=["2pl", "3pl"], default="2pl")
    parser.add_argument("--shift", type=float, default=0.5)
    parser.add_argument("--size", type=int, nargs=2, default=(600, 16), metavar=("N", "ITEMS"))
    parser.add_argument("--between", type=float, default=1.0)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)
    size = (chosen.size[0], chosen.size[1])
    if chosen.what == "bias":
        bias(chosen.sets, chosen.kind, chosen.shift)
    elif chosen.what == "factors":
        factors(chosen.sets, size, chosen.between)
    elif chosen.what == "guessing":
        guessing(chosen.sets, size)
    else:
        regressions(chosen.sets, size, chosen.shift)


if __name__ == "__main__":
    main()
