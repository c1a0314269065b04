"""How well do intervals of ability cover where the density of ability is estimated with the items?

    python scripts/coverage_population.py --replications 10 --seed 1

Abilities are normal, bimodal (.3 N(-1.6, .5) + .7 N(.69, .5), standardised), skewed (2 - Gamma(2), standardised) or
with a tail (.25 uniform on -2.4 to -.8 and .75 logistic of mean 1.6 / 3 and scale .3, standardised: no mixture of
normals), slopes log-normal(.2, .3), difficulties normal. Each data set is scored by EAP three times: with items and
density as they are in truth; both estimated; and with items estimated under a normal density. Shares of fewer than
fifty intervals are left out. docs/estimation.md holds the table this prints.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from irtbench.estimation.fit import fit_model
from irtbench.estimation.settings import FitSettings
from irtbench.models.curves import simulate_responses
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.quadrature import Quadrature, normal_grid
from irtbench.scoring.ability import estimate_ability

SHAPES = ("normal", "bimodal", "skewed", "tail")
SHARE, LOW, HIGH, WIDTH = 0.3, -1.6, 0.48 / 0.7, 0.5
UNIT = float(np.sqrt(WIDTH**2 + SHARE * LOW**2 + (1 - SHARE) * HIGH**2))
IN_TAIL, TAIL = 0.25, stats.uniform(-2.4, 1.6)
OTHERS = stats.logistic(-IN_TAIL * TAIL.mean() / (1 - IN_TAIL), 0.3)
TAIL_UNIT = float(
    np.sqrt(IN_TAIL * (TAIL.var() + TAIL.mean() ** 2) + (1 - IN_TAIL) * (OTHERS.var() + OTHERS.mean() ** 2))
)
LOWEST = 1e-12  # of the highest density: so low it is taken to be where it is zero in truth


def draw(shape: str, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Abilities of mean 0 and standard deviation 1 in the population."""
    if shape == "normal":
        return rng.normal(size=n)
    if shape == "skewed":
        return (2 - rng.gamma(2, size=n)) / np.sqrt(2)
    if shape == "tail":
        theta = np.where(rng.random(n) < IN_TAIL, TAIL.rvs(n, random_state=rng), OTHERS.rvs(n, random_state=rng))
        return theta / TAIL_UNIT
    return np.where(rng.random(n) < SHARE, rng.normal(LOW, WIDTH, n), rng.normal(HIGH, WIDTH, n)) / UNIT


def true_population(shape: str) -> Quadrature:
    """The density on the usual grid."""
    theta = normal_grid().nodes
    if shape == "normal":
        return normal_grid()
    if shape == "skewed":
        density = stats.gamma.pdf(2 - np.sqrt(2) * theta, 2)
    elif shape == "tail":
        density = IN_TAIL * TAIL.pdf(theta * TAIL_UNIT) + (1 - IN_TAIL) * OTHERS.pdf(theta * TAIL_UNIT)
    else:
        density = SHARE * stats.norm.pdf(theta * UNIT, LOW, WIDTH) + (1 - SHARE) * stats.norm.pdf(
            theta * UNIT, HIGH, WIDTH
        )
    density = np.maximum(density, LOWEST * density.max())
    return Quadrature(theta, np.log(density / density.sum()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--designs", nargs="+", default=["500x20", "1000x30", "2000x40"])
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=SHAPES)
    options = parser.parse_args()
    print(
        "| abilities | design | converged | items, density | all | theta < -1.5 | theta > 1.5 | estimates beyond 1.2 |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for shape in options.shapes:
        for design in options.designs:
            n, n_items = map(int, design.split("x"))
            found: dict[str, list[list[int]]] = {"true": [], "estimated": [], "normal": []}
            converged = 0
            for replication in range(options.replications):
                rng = np.random.default_rng([options.seed, n, n_items, SHAPES.index(shape), replication])
                theta = draw(shape, n, rng)
                truth = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, n_items), rng.normal(size=n_items))
                responses = simulate_responses(theta, truth, rng=rng)
                while np.isin(responses.proportion_correct(), (0, 1)).any():  # such an item has no estimate
                    responses = simulate_responses(theta, truth, rng=rng)
                estimated = fit_model(responses, FitSettings(population="estimated", standard_errors=False))
                normal = fit_model(responses, FitSettings(standard_errors=False))
                converged += estimated.converged
                for name, items, population in (
                    ("true", truth, true_population(shape)),
                    ("estimated", estimated.items, estimated.estimated_population),
                    ("normal", normal.items, None),
                ):
                    abilities = estimate_ability(responses, items, quadrature=population)
                    covered = (abilities.lower <= theta) & (theta <= abilities.upper)
                    groups = (theta == theta, theta < -1.5, theta > 1.5, np.abs(abilities.theta) > 1.2)
                    found[name].append([int(x) for g in groups for x in (covered[g].sum(), g.sum())])
            for name, counts in found.items():
                sums = np.sum(counts, axis=0).reshape(-1, 2)
                cells = [f"{covered / number:.3f}" if number >= 50 else "" for covered, number in sums]
                first = (
                    [shape, f"{n:,} x {n_items}", f"{converged} of {options.replications}"]
                    if name == "true"
                    else [""] * 3
                )
                print("| " + " | ".join([*first, name, *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
