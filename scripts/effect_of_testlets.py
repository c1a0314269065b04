"""Testlets with and without an effect: level and power of the test, coverage of ability, recovery: docs/testlets.md.

Responses follow a bifactor 2PL: general slopes lognormal(.2, .3), specific ones the effect times lognormal(0, .15),
intercepts N(0, 1). Each data set is fitted with equal or free specific slopes and without testlets. Use:

    python scripts/effect_of_testlets.py [--sets 40] [--size 1000] [--testlets 5 5 5 5] [--effect 0 .5 1]
        [--slopes equal]
"""

from __future__ import annotations

import argparse

import numpy as np

from irtbench.analysis.model_comparison import effect_of_testlets
from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.bifactor import SpecificSlopes, fit_bifactor


def drawn(
    n: int, sizes: list[int], effect: float, rng: np.random.Generator
) -> tuple[ResponseMatrix, list[str], np.ndarray, np.ndarray]:
    """Responses, the testlets, the true slopes (general, specific) and general abilities."""
    place = np.repeat(np.arange(len(sizes)), sizes)
    slopes = np.column_stack([rng.lognormal(0.2, 0.3, len(place)), effect * np.exp(rng.normal(0, 0.15, len(place)))])
    theta, own = rng.normal(size=n), rng.normal(size=(n, len(sizes)))
    z = slopes[:, 0] * theta[:, None] + slopes[:, 1] * own[:, place] + rng.normal(size=len(place))
    ids = tuple(f"r{i}" for i in range(n)), tuple(f"i{j}" for j in range(len(place)))
    return (
        ResponseMatrix((rng.random(z.shape) < 1 / (1 + np.exp(-z))).astype(float), *ids),
        list(map(str, place)),
        slopes,
        theta,
    )


def row(n: int, sizes: list[int], effect: float, kind: SpecificSlopes, sets: int) -> None:
    """Print what came of so many data sets."""
    found = []
    for number in range(sets):
        responses, testlets, slopes, theta = drawn(n, sizes, effect, np.random.default_rng(90_000 + number))
        fitted = fit_bifactor(responses, testlets, specific_slopes=kind, standard_errors=False)
        told = effect_of_testlets(responses, fitted)
        table, p = told.abilities, told.test.p
        error = np.sqrt(np.mean((fitted.slopes - slopes) ** 2, axis=0))
        inside = [
            np.mean(np.abs(table[f"theta{name}"] - theta) < 1.96 * table[f"se{name}"]) for name in ("", "_one_ability")
        ]
        one = [preferred == "one ability" for preferred in told.preferred.values()]
        found.append([fitted.converged, p < 0.05, p < 0.25, *one, *inside, *told.mean_error, *error])
    names = "converged,p < .05,p < .25,AIC one,BIC one,coverage,as if none,se,as if none,rmse a,rmse specific"
    means = np.mean(np.array(found, dtype=np.float64), axis=0)
    cells = (f"{name} {mean:.3f}" for name, mean in zip(names.split(","), means, strict=True))
    print(f"effect {effect:g}, {kind}, {sets} sets of {n}: " + ", ".join(cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=40)
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--testlets", type=int, nargs="+", default=[5, 5, 5, 5])
    parser.add_argument("--effect", type=float, nargs="+", default=[0.0, 0.5, 1.0])
    parser.add_argument("--slopes", choices=["equal", "free"], default="equal")
    chosen = parser.parse_args()
    for effect in chosen.effect:
        row(chosen.size, chosen.testlets, effect, chosen.slopes, chosen.sets)


if __name__ == "__main__":
    main()
