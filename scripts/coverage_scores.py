"""How often the intervals of scores cover the truth: simulated crowds, fitted banks, new respondents.

    python scripts/coverage_scores.py [--replications 40] [--seed 1] [--population estimated]
    python scripts/coverage_scores.py --own [--prior weak]

Every replication draws items, a crowd that the bank is fitted to and normed on, and new respondents of the same
population, who are scored on the bank. With an estimated population its density is fitted with the items, is the prior
of scoring, and gives the norm normal. Printed is the share of intervals, of nominal 95%, that cover the truth. Crowds
whose fit does not converge, or whose density collapses onto a few abilities, are drawn anew, and each is named.

With --own few people are fitted, and what is covered are their own abilities and percentiles, with items that count as
known and as `fit` tells them; "of the population" is theta against the population, of which the crowd's mean and
standard deviation are an estimate.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable
from typing import Literal

import numpy as np
import pandas as pd
import torch
from scipy.special import ndtr

from irtbench.bank.norms import Norms
from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.fit import fit_model
from irtbench.estimation.fitted import FittedModel
from irtbench.estimation.settings import FitSettings
from irtbench.models.curves import simulate_responses
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.quadrature import Quadrature
from irtbench.scoring.ability import Method, estimate_ability
from irtbench.scoring.item_error import ItemError, abilities_of, with_item_error
from irtbench.scoring.percentiles import Norm, percentiles

SIZES = ((1000, 30), (1000, 90), (200, 30), (200, 90), (100, 60), (50, 60))
METHODS: tuple[tuple[Method, ItemError], ...] = (
    ("eap", "none"),
    ("eap", "delta"),
    ("eap", "draw"),
    ("map", "delta"),
    ("ml", "delta"),
    ("wle", "delta"),
    ("eap_sum", "none"),
)
NORMS: tuple[Norm, ...] = ("normal", "empirical", "smoothed")
#: People, items, share missing, abilities, difficulties.
FEW = (
    (40, 15, 0.0, "normal", "normal"),
    (80, 25, 0.0, "normal", "normal"),
    (80, 25, 0.4, "normal", "normal"),
    (80, 25, 0.0, "skewed", "normal"),
    (80, 25, 0.0, "normal", "skewed"),
    (150, 30, 0.0, "normal", "normal"),
    (200, 30, 0.0, "normal", "normal"),
    (300, 30, 0.0, "normal", "normal"),
)
N_NEW = 400
FEWEST_NODES = 6  # that an estimated density must be spread over, (sum w)^2 / sum w^2; a normal one covers 18
OUTER = 1.5  # beyond this ability items are known least

Draw = Callable[[np.random.Generator, int], np.ndarray]


def normal(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(size=n)


def skewed(rng: np.random.Generator, n: int) -> np.ndarray:
    """A crowd with a tail of people who guess: gamma(4), mirrored, mean 0 and variance 1."""
    return -(rng.gamma(4.0, size=n) - 4.0) / 2.0


def skewed_share(theta: np.ndarray) -> np.ndarray:
    """Share of that crowd below theta: P(gamma(4) > 4 - 2 theta)."""
    from scipy.special import gammaincc

    return gammaincc(4.0, np.maximum(4.0 - 2.0 * theta, 0.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--population", choices=("normal", "estimated"), default="normal")
    parser.add_argument("--own", action="store_true", help="abilities of few people who were fitted")
    parser.add_argument("--prior", choices=("none", "weak"), default="none", help="of the items, with --own")
    arguments = parser.parse_args()
    if arguments.own:
        print(f"{arguments.replications} replications, seed {arguments.seed}, prior {arguments.prior}\n")
        print(markdown(own_scores(arguments.replications, arguments.seed, arguments.prior)))
        return
    theta_rows, percentile_rows = [], []
    for crowd, draw in (("normal", normal), ("skewed", skewed)):
        for n_people, n_items in SIZES if (crowd, arguments.population) == ("normal", "normal") else SIZES[:2]:
            rng = np.random.default_rng([arguments.seed, n_people, n_items, len(crowd)])
            covered = repeated(draw, crowd, n_people, n_items, arguments.replications, rng, arguments.population)
            for (kind, method, item_error, norm), shares in covered.items():
                row = {"crowd": crowd, "people": n_people, "items": n_items, "method": method, "item error": item_error}
                if kind == "theta":
                    theta_rows.append(row | {"coverage": np.mean(shares[0]), f"|theta| > {OUTER}": np.mean(shares[1])})
                else:
                    percentile_rows.append(row | {"norm": norm, "coverage": np.mean(shares[0])})
    print(f"{arguments.replications} replications of {N_NEW} new respondents, seed {arguments.seed}\n")
    print("Theta\n\n" + markdown(pd.DataFrame(theta_rows)))
    table = pd.DataFrame(percentile_rows).pivot_table(
        index=["crowd", "people", "items", "item error"], columns="norm", values="coverage", sort=False
    )
    print("\nPercentile\n\n" + markdown(table.reset_index()))


def repeated(
    draw: Draw,
    crowd: str,
    n_people: int,
    n_items: int,
    replications: int,
    rng: np.random.Generator,
    population: Literal["normal", "estimated"],
) -> dict[tuple[str, str, str, str], tuple[list[float], list[float]]]:
    """Shares of intervals that covered, one a replication, over all and over outer abilities."""
    covered: dict[tuple[str, str, str, str], tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for _ in range(replications):
        fitted = None
        while fitted is None:
            truth = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, n_items), rng.normal(size=n_items))
            people = draw(rng, n_people)
            answers = simulate_responses(people, truth, rng=rng)
            varied = [i for i, p in zip(truth.item_ids, answers.proportion_correct(), strict=True) if 0 < p < 1]
            answers = answers.select_items(varied)
            fitted = fit_converged(answers, population)
            if fitted is None:
                print(f"{crowd}, {n_people} people, {n_items} items: no fit with a density, drawn anew")
        own = estimate_ability(answers, fitted.items, quadrature=fitted.estimated_population)
        norms = Norms(own.theta, None, own.standard_error)
        new = draw(rng, N_NEW)
        responses = simulate_responses(new, truth, rng=rng).select_items(varied)
        aligned = (new - people.mean()) / people.std()
        share = 100 * (ndtr(new) if crowd == "normal" else skewed_share(new))
        record(covered, responses, fitted.items, fitted.estimated_population, norms, aligned, share, rng)
    return covered


def own_scores(replications: int, seed: int, prior: Literal["none", "weak"]) -> pd.DataFrame:
    """Coverage of the intervals of those whom the items were fitted to, a row a design and way; crowds drawn anew."""
    rows = []
    for n, n_items, missing, crowd, difficulties in FEW:
        rng = np.random.default_rng([seed, n, n_items, int(100 * missing), len(crowd), len(difficulties)])
        shares: dict[str, list[list[float]]] = {"none": [], "auto": []}
        tried = 0
        while len(shares["auto"]) < replications:
            tried += 1
            people = normal(rng, n) if crowd == "normal" else skewed(rng, n)
            b = rng.normal(size=n_items) if difficulties == "normal" else 1 - rng.gamma(1.5, size=n_items)
            truth = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, n_items), b)
            answers = simulate_responses(people, truth, rng=rng, missing=missing)
            varied = [i for i, p in zip(truth.item_ids, answers.proportion_correct(), strict=True) if 0 < p < 1]
            answers = answers.select_items(varied)
            fitted = fit_model(answers, FitSettings(prior=prior))
            if not fitted.converged:
                continue
            share = 100 * (ndtr(people) if crowd == "normal" else skewed_share(people))
            aligned = (people - people.mean()) / people.std()
            for item_error in ("none", "auto"):
                own = abilities_of(fitted, answers, item_error=item_error)
                norms = Norms(own.theta, None, own.standard_error)
                places = [percentiles(own, norms, norm=norm) for norm in NORMS]
                covered = [(own.lower <= theta) & (theta <= own.upper) for theta in (aligned, people)]
                covered += [(place.lower <= share) & (share <= place.upper) for place in places]
                shares[item_error].append([float(inside.mean()) for inside in covered])
        design = f"{n} x {n_items}" + (f", {missing:.0%} missing" if missing else "")
        design += ", skewed abilities" * (crowd == "skewed") + ", skewed b" * (difficulties == "skewed")
        for item_error, found in shares.items():
            names = ("theta", "of the population", *NORMS)
            row: dict[str, object] = {
                "design": design,
                "crowds": f"{replications} of {tried}",
                "item error": item_error,
            }
            rows.append(row | dict(zip(names, np.mean(found, axis=0).tolist(), strict=True)))
    return pd.DataFrame(rows)


def fit_converged(answers: ResponseMatrix, population: Literal["normal", "estimated"]) -> FittedModel | None:
    """The fit; None if it does not converge, or its density collapses onto fewer than ``FEWEST_NODES`` nodes."""
    try:
        fitted = fit_model(answers, FitSettings(prior="weak", population=population))
    except torch.linalg.LinAlgError:
        return None
    nodes_held = 1 / np.exp(2 * fitted.quadrature.log_weights).sum()
    if population == "estimated" and nodes_held < FEWEST_NODES:
        return None
    return fitted if fitted.converged else None


def record(
    covered: dict[tuple[str, str, str, str], tuple[list[float], list[float]]],
    responses: ResponseMatrix,
    items: ItemParameters,
    population: Quadrature | None,
    norms: Norms,
    theta: np.ndarray,
    share: np.ndarray,
    rng: np.random.Generator,
) -> None:
    outer = np.abs(theta) > OUTER
    for method, item_error in METHODS:
        plain = estimate_ability(responses, items, method=method, quadrature=population)
        found = with_item_error(
            plain, responses, items, item_error=item_error, quadrature=population, n_draws=50, rng=rng
        )
        covers = (found.lower <= theta) & (theta <= found.upper)
        entry = covered["theta", method, item_error, ""]
        entry[0].append(float(covers.mean()))
        entry[1].append(float(covers[outer].mean()))
        if method == "eap" and item_error != "draw":
            for norm in NORMS:
                place = percentiles(found, norms, norm=norm, population=population)
                inside = (place.lower <= share) & (share <= place.upper)
                covered["percentile", method, item_error, norm][0].append(float(inside.mean()))


def markdown(table: pd.DataFrame) -> str:
    """A table in Markdown, shares in percent."""
    lines = ["| " + " | ".join(table.columns) + " |", "|" + "---|" * table.shape[1]]
    for row in table.itertuples(index=False):
        lines.append("| " + " | ".join(f"{100 * v:.1f}" if isinstance(v, float) else str(v) for v in row) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
