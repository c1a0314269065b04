"""False alarms and power of every diagnostic, simulated: the tables of docs/diagnostics.md.

Responses are drawn from the 2PL, items fitted and tested at .05. Clean data give the false alarms; the same data with
one planted fault (see `FAULTS`) give the power. The bootstrap and the faults are dear, and done in fewer replications.
Each cell of the table is a mean over replications with its standard error. A second table has all of them by design of
what is missing, also where it depends on ability; with --replications 0 it is made alone. Use:

    python scripts/diagnostics_error_rates.py [--replications 200] [--dear 30] [--samples 59] [--designs 60] [--seed 1]
        [--output FILE]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.special import expit

from irtbench.analysis.item_bias import item_bias
from irtbench.building.prune_rules import PruneRules
from irtbench.building.pruned import misfit_as_a_whole
from irtbench.data.responses import ResponseMatrix
from irtbench.diagnostics.global_fit import global_fit
from irtbench.diagnostics.item_fit import item_fit
from irtbench.diagnostics.local_dependence import LocalDependence, local_dependence, with_bootstrap
from irtbench.diagnostics.person_fit import person_fit
from irtbench.estimation.fit import fit_model
from irtbench.estimation.many_scales.fit_many import fit_many
from irtbench.estimation.settings import FitSettings
from irtbench.models.curves import simulate_responses
from irtbench.models.item_parameters import ItemParameters
from irtbench.scoring.ability import estimate_ability

ALPHA = 0.05
LOWEST_5_PERCENT = -1.6449  # of a standard normal
FAST = FitSettings(standard_errors=False, tolerance=1e-4)
SIZES = [(500, 20, 0.0), (1000, 30, 0.0), (1000, 30, 0.3), (1000, 30, 0.7), (3000, 20, 0.0), (1000, 60, 0.0)]
ODD, FIRST_TWIN, SECOND_TWIN, BIASED = 0, 1, 2, 3  # the items with a planted fault
CARELESS = 0.05  # share of respondents who answer at random
COPIED = 0.15
SHIFT = 0.4  # in difficulty
IMPACT = -0.7  # mean ability of the second group
BETWEEN = 0.7  # correlation of two abilities, each of half of the items
MORE_COPIED = 0.3
DESIGN_SIZES = [(500, 20), (1000, 20)]
METHODS = ("likelihood_ratio", "logistic")  # of item bias

Found = dict[str, list[float]]  # shares of alarms by "false|statistic" or "power|statistic"

FAULTS = {
    "S-X2": "one item that is right most often in the middle of the scale",
    "local dependence": f"one pair of items, {COPIED:.0%} of the answers copied",
    "lz": f"{CARELESS:.0%} of the respondents answer at random",
    "item bias": f"one item harder by {SHIFT} for the second group, whose mean ability lies {-IMPACT} lower",
}


def refit(responses: ResponseMatrix) -> ItemParameters:
    return fit_model(responses, FAST).items


def with_values(responses: ResponseMatrix, values: np.ndarray) -> ResponseMatrix:
    return ResponseMatrix(values, responses.respondent_ids, responses.item_ids)


def draw(n: int, n_items: int, missing: float, rng: np.random.Generator) -> Iterator[tuple[str, ResponseMatrix, tuple]]:
    """Data sets of one replication: clean, then each fault, with what the fault is in."""
    a, b = rng.uniform(0.8, 2.2, n_items), np.clip(rng.normal(0, 0.9, n_items), -2, 2)  # none that all get right
    b[[ODD, FIRST_TWIN, SECOND_TWIN, BIASED]] = [0.0, 0.2, 0.2, 0.0]
    a[SECOND_TWIN] = a[FIRST_TWIN]
    items = ItemParameters.from_difficulty(a, b)
    theta = rng.normal(size=n)
    holes = rng.random((n, n_items)) < missing
    holes[np.arange(n), rng.integers(n_items, size=n)] = False

    def holed(values: np.ndarray) -> ResponseMatrix:
        ids = tuple(f"r{i}" for i in range(n))
        return ResponseMatrix(np.where(holes, np.nan, values), ids, items.item_ids)

    clean = simulate_responses(theta, items, rng=rng).values
    yield "clean", holed(clean), (items, theta)

    odd = clean.copy()
    odd[:, ODD] = rng.random(n) < 0.25 + 0.5 * np.exp(-(theta**2) / 2)
    yield "S-X2", holed(odd), (items, theta)

    twins = clean.copy()
    copied = rng.random(n) < COPIED
    twins[copied, SECOND_TWIN] = twins[copied, FIRST_TWIN]
    yield "local dependence", holed(twins), (items, theta)

    careless = clean.copy()
    at_random = np.arange(n) < CARELESS * n
    careless[at_random] = rng.random((int(at_random.sum()), n_items)) < 0.5
    yield "lz", holed(careless), (items, theta)

    second = np.arange(n) >= n // 2
    shifted = ItemParameters.from_difficulty(a, b + SHIFT * (np.arange(n_items) == BIASED))
    abilities = theta + IMPACT * second
    same = simulate_responses(abilities, items, rng=rng).values
    yield "bias clean", holed(same), (second,)
    biased = same.copy()
    biased[second] = simulate_responses(abilities[second], shifted, rng=rng).values
    yield "item bias", holed(biased), (second,)


def false_alarms(n: int, n_items: int, missing: float, rng: np.random.Generator, found: Found) -> None:
    """Note the alarms of the statistics that take no time in data without a fault."""
    data = {kind: (responses, about) for kind, responses, about in draw(n, n_items, missing, rng)}
    responses = data["clean"][0]
    items = refit(responses)
    found[f"false|{item_statistic(responses)}"].append(share(item_fit(responses, items).p < ALPHA))
    for name, values in person_statistics(responses, items).items():
        found[f"false|{name}"].append(share(values[~np.isnan(values)] < LOWEST_5_PERCENT))
    same, (second,) = data["bias clean"]
    for method in METHODS:
        result = item_bias(same, second, method=method)
        found[f"false|item bias, {method}"].append(share(result.p < ALPHA))
        found[f"false|item bias, {method}, any item after Benjamini-Hochberg"].append(
            float((result.p_adjusted < ALPHA).any())
        )
    if responses.is_complete:
        found["false|M2"].append(float(global_fit(responses, items).p < ALPHA))


def missing_by_design(
    theta: np.ndarray, difficulty: np.ndarray, values: np.ndarray, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Where nothing is asked or answered: by chance, by booklets, and as ability or earlier answers have it."""
    n, n_items = values.shape
    of_three, of_five = (np.arange(n_items) * k // n_items for k in (3, 5))
    first = rng.integers(4, size=n)[:, None]
    chance = rng.random((n, n_items))
    alike = 0.5 * theta + np.sqrt(0.75) * rng.normal(size=n)  # speed, or activity, correlated .5 with ability
    reached = np.clip(np.round(n_items * (0.75 + 0.25 * alike)), 3, n_items)[:, None]
    return {
        "complete": np.zeros((n, n_items), dtype=bool),
        "20% missing by chance": chance < 0.2,
        "50% missing by chance": chance < 0.5,
        "booklets, two of three blocks": of_three == rng.integers(3, size=n)[:, None],
        "booklets, neighbours of five blocks": (of_five < first) | (of_five > first + 1),
        "answered with P = logistic(1 + .5 theta)": chance > expit(1 + 0.5 * theta)[:, None],
        "answered with P = logistic(1 + theta)": chance > expit(1 + theta)[:, None],
        "hard items skipped": chance > expit(1.5 + 0.7 * theta[:, None] - difficulty),
        "drop-out, the faster the abler": np.arange(n_items) >= reached,
        "second stage by the first": routed(values, difficulty),
        "log activity correlated .5 with ability": chance > np.clip(0.6 * np.exp(0.45 * alike), 0.15, 1)[:, None],
    }


def routed(values: np.ndarray, difficulty: np.ndarray) -> np.ndarray:
    """What is not asked where two fifths of the items choose between the easier and the harder of the others."""
    n_first = values.shape[1] * 2 // 5
    order = n_first + np.argsort(difficulty[n_first:])
    easy, hard = np.array_split(order, 2)
    up = values[:, :n_first].sum(axis=1) >= n_first / 2
    holes = np.zeros(values.shape, dtype=bool)
    holes[np.ix_(up, easy)] = holes[np.ix_(~up, hard)] = True
    return holes


def by_design(n: int, n_items: int, n_samples: int, rng: np.random.Generator, found: dict[str, Found]) -> None:
    """Note, for each design, the alarms of all tests in clean data, of M2 with two abilities, of a dependent pair."""
    b = np.clip(rng.normal(0, 0.9, n_items), -2, 2)
    items = ItemParameters.from_difficulty(rng.uniform(0.8, 2.2, n_items), b)
    theta = rng.normal(size=n)
    clean = simulate_responses(theta, items, rng=rng)
    other = simulate_responses(BETWEEN * theta + np.sqrt(1 - BETWEEN**2) * rng.normal(size=n), items, rng=rng)
    two = np.where(np.arange(n_items) % 2, other.values, clean.values)
    twins = clean.values.copy()
    copied = rng.random(n) < MORE_COPIED
    twins[copied, 1] = twins[copied, 0]
    holes = missing_by_design(theta, b, clean.values, rng)
    for design in holes:
        noted = found[design]
        for kind, values in (("clean", clean.values), ("two abilities", two), ("a copied pair", twins)):
            responses = with_values(clean, np.where(holes[design], np.nan, values)).answered()
            fitted = refit(responses)
            fit = global_fit(responses, fitted)
            noted[f"{kind}: p of M2 below .05"].append(float(fit.p < ALPHA))
            if kind == "clean":
                noted["clean: M2 / df"].append(fit.m2 / fit.df)
                noted["clean: items misfit"].append(share(item_fit(responses, fitted).p < ALPHA))
                lz = person_statistics(responses, fitted)["lz*"]
                noted["clean: lz* below -1.645"].append(share(lz[~np.isnan(lz)] < LOWEST_5_PERCENT))
            if kind == "two abilities":
                noted[f"{kind}: CFI"].append(fit.cfi)
                noted[f"{kind}: rejected as a whole"].append(float(misfit_as_a_whole(fit, PruneRules()) is not None))
            elif n_samples:
                pairs = with_bootstrap(
                    local_dependence(responses, fitted), responses, fitted, None, rng=rng, n_samples=n_samples,
                    refit_many=lambda samples: [one and one.items for one in fit_many(samples, FAST).fits],
                )  # fmt: skip
                p = pairs.p_bootstrap[pairs.n_respondents > 0]
                noted[f"{kind}: pairs dependent" if kind == "clean" else f"{kind}: found"].append(
                    share(p <= ALPHA) if kind == "clean" else float(pairs.p_bootstrap[0] <= ALPHA)
                )


def table_by_design(replications: int, n_samples: int, seed: int) -> str:
    """Alarms by design of what is missing, a row for each size and design."""
    columns: dict[str, Found] = {}
    for size in DESIGN_SIZES:
        found: dict[str, Found] = defaultdict(lambda: defaultdict(list))
        for replication in range(replications):
            by_design(*size, n_samples, np.random.default_rng([seed, *size, replication]), found)
        columns |= {f"{size[0]:,} x {size[1]}, {design}": noted for design, noted in found.items()}
    rows = list(next(iter(columns.values())))
    lines = ["| design | " + " | ".join(rows) + " |", "|---" * (len(rows) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(cell(noted[row]) for row in rows) + " |" for name, noted in columns.items()]
    return "\n".join(lines)


def power_and_bootstrap(
    n: int, n_items: int, missing: float, n_samples: int, rng: np.random.Generator, found: Found
) -> None:
    """Note the alarms of local dependence, and of every statistic where a fault is planted."""
    for kind, responses, about in draw(n, n_items, missing, rng):
        if kind == "bias clean":
            continue
        if kind == "item bias":
            for method in METHODS:
                p = item_bias(responses, about[0], method=method).p
                found[f"power|item bias, {method}"].append(float(p[BIASED] < ALPHA))
            continue
        items = refit(responses)
        if kind == "S-X2":
            p = item_fit(responses, items).p
            found[f"power|{item_statistic(responses)}"].append(float(p[ODD] < ALPHA))
        if kind in ("clean", "local dependence"):
            pairs = local_dependence(responses, items)
            pairs = with_bootstrap(pairs, responses, items, refit, rng=rng, n_samples=n_samples)
            note_pairs(pairs, items.item_ids[FIRST_TWIN], items.item_ids[SECOND_TWIN], kind == "clean", found)
        if kind == "lz":
            for name, values in person_statistics(responses, items).items():
                found[f"power|{name}"].append(share(values[: int(CARELESS * n)] < LOWEST_5_PERCENT))


def note_pairs(pairs: LocalDependence, first: str, second: str, clean: bool, found: Found) -> None:
    """Note the alarms over all pairs of clean data, or that of the planted pair."""
    planted = list(zip(pairs.item_1, pairs.item_2, strict=True)).index((first, second))
    for name, p, adjusted in (
        ("LD-X2, chi-square", pairs.p, pairs.p_adjusted),
        ("LD-X2, bootstrap", pairs.p_bootstrap, pairs.p_bootstrap_adjusted),
    ):
        if clean:
            found[f"false|{name}"].append(float(np.nanmean(p <= ALPHA)))
            found[f"false|{name}, any pair after adjustment"].append(float((adjusted <= ALPHA).any()))
        else:
            found[f"power|{name}"].append(float(p[planted] <= ALPHA))
            found[f"power|{name}, after adjustment"].append(float(adjusted[planted] <= ALPHA))


def person_statistics(responses: ResponseMatrix, items: ItemParameters) -> dict[str, np.ndarray]:
    person = person_fit(responses, items, estimate_ability(responses, items).theta)
    return {"lz": person.lz, "lz*": person.lz_star}


def share(alarms: np.ndarray) -> float:
    return float(np.mean(alarms))


def item_statistic(responses: ResponseMatrix) -> str:
    return "item fit, S-X2" if responses.is_complete else "item fit, scores"


def cell(shares: list[float]) -> str:
    """Mean and its standard error without the leading 0; nothing where nothing was run."""
    if not shares:
        return ""
    error = np.std(shares, ddof=1) / np.sqrt(len(shares)) if len(shares) > 1 else np.nan
    return f"{np.mean(shares):.3f} ± {error:.3f}".replace("0.", ".")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=200, help="data sets without a fault a size")
    parser.add_argument("--dear", type=int, default=30, help="of them with a bootstrap, and with each fault")
    parser.add_argument("--samples", type=int, default=59, help="bootstrap samples")
    parser.add_argument("--designs", type=int, default=60, help="data sets of the table of global fit by design")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)
    print("\n".join(f"planted for {name}: {fault}" for name, fault in FAULTS.items()), flush=True)
    results: dict[str, dict[tuple, list[float]]] = defaultdict(dict)
    for size in SIZES if chosen.replications else []:
        began = time.perf_counter()
        found: dict[str, list[float]] = defaultdict(list)
        for replication in range(chosen.replications):
            key = [chosen.seed, *size[:2], int(100 * size[2]), replication]
            false_alarms(*size, np.random.default_rng(key), found)
            if replication < chosen.dear:
                power_and_bootstrap(*size, chosen.samples, np.random.default_rng([*key, 1]), found)
        for name, shares in found.items():
            results[name][size] = shares
        print(f"{size}: {time.perf_counter() - began:.0f} s", flush=True)
    heads = [f"{n:,} x {j}" + (f", {missing:.0%} missing" if missing else "") for n, j, missing in SIZES]
    lines = []
    for part, title in (("false", "False alarms at .05"), ("power", "Power at .05")):
        lines += [f"| {title} | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
        for name in sorted(key for key in results if key.startswith(part)):
            cells = [cell(results[name].get(size, [])) for size in SIZES]
            lines.append(f"| {name.split('|')[1]} | " + " | ".join(cells) + " |")
        lines.append("")
    if not chosen.replications:
        lines = []
    if chosen.designs:
        lines.append(table_by_design(chosen.designs, chosen.samples, chosen.seed))
    text = "\n".join(lines)
    print(text)
    if chosen.output:
        chosen.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
