"""Random data sets of every shape: is a fit that says "converged" at a maximum of the likelihood it reports?

The likelihood and its gradient are computed anew at the reported parameters by NumPy alone, on nodes of another kind
(Gauss-Legendre panels, 24 standard deviations wide). A fit is falsely called converged if the two likelihoods differ by
more than a millionth a response, or an item lies further from its maximum than a hundredth of its standard error.

    python scripts/convergence.py --sets 1000 --seed 1 -o convergence.csv

Data sets have 3 to 500 people, 2 to 2,000 items and up to 95% missing; fits with too few people are refused. With `-o`
each data set is written as it is done, and a run that was interrupted goes on where it ended.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit, log_expit, logsumexp

from irtbench import FitSettings, ItemParameters, ResponseMatrix, fit_model, simulate_responses

PANEL_NODES = 16
LIKELIHOOD_ERROR, GRADIENT_ERROR = 1e-6, 1e-2
COLUMNS = (
    "number", "respondents", "items", "missing", "uneven", "kind", "prior", "seconds", "nodes", "words", "outcome",
    "error", "distance",
)  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """A random design: sizes, share of missing responses, how unevenly people answer, model and prior."""

    respondents: int
    items: int
    missing: float
    uneven: bool
    kind: str
    prior: str


def random_shape(rng: np.random.Generator, largest: int) -> Shape:
    """Sizes are even on a log scale."""
    kind = str(rng.choice(["2pl", "3pl"], p=[0.7, 0.3]))
    return Shape(
        respondents=int(np.exp(rng.uniform(np.log(3), np.log(500.999)))),
        items=int(np.exp(rng.uniform(np.log(2), np.log(largest)))),
        missing=float(rng.choice([0.0, 0.2, 0.5, 0.8, 0.95])),
        uneven=bool(rng.integers(2)),
        kind=kind,
        prior=str(rng.choice(["none", "weak", "hierarchical"] if kind == "2pl" else ["none", "weak"])),
    )


def draw(shape: Shape, rng: np.random.Generator) -> ResponseMatrix | None:
    """Responses of that shape; None if nothing is left of them."""
    truth = ItemParameters.from_difficulty(
        rng.lognormal(0.2, 0.4, shape.items), rng.normal(0, 1.2, shape.items), 0.2 if shape.kind == "3pl" else 0.0
    )
    theta = rng.normal(size=shape.respondents)
    values = simulate_responses(theta, truth, rng=rng).values.copy()
    activity = rng.lognormal(0, 1.0 if shape.uneven else 0.05, shape.respondents)
    share = np.clip((1 - shape.missing) * activity / activity.mean(), 0, 1)
    values[rng.random(values.shape) > share[:, None]] = np.nan
    observed = ~np.isnan(values)
    p = np.nansum(values, axis=0) / np.maximum(observed.sum(axis=0), 1)
    kept = observed.any(axis=0) & ((p > 0) & (p < 1) | (shape.prior != "none"))
    values = values[:, kept]
    values = values[(~np.isnan(values)).any(axis=1)]
    if values.shape[0] < 3 or values.shape[1] < 2:
        return None
    names = tuple(f"r{i}" for i in range(len(values))), tuple(f"i{j}" for j in range(values.shape[1]))
    return ResponseMatrix(values, *names)


def panels(step: float) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and log-weights of the standard normal density on [-12, 12]."""
    x, w = np.polynomial.legendre.leggauss(PANEL_NODES)
    edges = np.linspace(-12, 12, int(np.ceil(24 / (step * PANEL_NODES / 3))) + 1)
    half = np.diff(edges)[:, None] / 2
    nodes = (edges[:-1, None] + half + half * x).ravel()
    return nodes, np.log((half * w).ravel()) - 0.5 * nodes**2 - 0.5 * np.log(2 * np.pi)


def independent(responses: ResponseMatrix, items: ItemParameters) -> tuple[float, np.ndarray, np.ndarray]:
    """Marginal log-likelihood; gradient of each item by (a, d), and their information were theta known."""
    a, d, c = items.discrimination, items.intercept, items.guessing
    narrowest = 1 / np.sqrt(1 + (a**2).sum() / 4)
    theta, log_weights = panels(min(narrowest, 0.5 / np.abs(a).max(), 0.3))
    z = theta[:, None] * a + d
    with np.errstate(divide="ignore"):
        log_p = np.logaddexp(np.log(c), np.log1p(-c) + log_expit(z))
    log_q = np.log1p(-c) + log_expit(-z)
    observed = ~np.isnan(responses.values)
    right = np.where(observed, responses.values, 0.0)
    total, r, n = 0.0, np.zeros_like(z), np.zeros_like(z)
    for rows in np.array_split(np.arange(len(right)), max(1, len(right) * len(theta) // 2_000_000)):
        joint = right[rows] @ log_p.T + (observed[rows] - right[rows]) @ log_q.T + log_weights
        top = logsumexp(joint, axis=1)
        posterior = np.exp(joint - top[:, None])
        total += top.sum()
        r += posterior.T @ right[rows]
        n += posterior.T @ observed[rows]
    s, p = expit(z), np.exp(log_p)
    by_z = s * (r / np.maximum(p, 1e-300) - n)
    weight = n * (1 - c) * s**2 * (1 - s) / np.maximum(p, 1e-300)
    gradient = np.stack([theta @ by_z, by_z.sum(axis=0)], axis=1)
    information = np.empty((len(a), 2, 2))
    information[:, 0, 0], information[:, 1, 1] = theta**2 @ weight, weight.sum(axis=0)
    information[:, 0, 1] = information[:, 1, 0] = theta @ weight
    return float(total), gradient, information


def check(shape: Shape, rng: np.random.Generator) -> dict[str, object] | None:
    """One data set: what the fit says, and what is so."""
    responses = draw(shape, rng)
    if responses is None:
        return None
    row: dict[str, object] = {**vars(shape), "respondents": responses.n_respondents, "items": responses.n_items}
    began = time.perf_counter()
    settings = FitSettings(kind=shape.kind, prior=shape.prior, standard_errors=False)  # type: ignore[arg-type]
    try:
        fitted = fit_model(responses, settings)
    except ValueError as error:
        return row | {"outcome": "refused", "words": str(error)}
    row |= {"seconds": time.perf_counter() - began, "nodes": fitted.nodes, "words": fitted.stopped_because}
    if not fitted.converged:
        return row | {"outcome": "not converged"}
    log_likelihood, gradient, information = independent(responses, fitted.items)
    row["error"] = abs(log_likelihood - fitted.log_likelihood) / responses.n_responses
    row["distance"] = np.nan
    if shape.prior != "hierarchical" and shape.kind == "2pl":
        excess = gradient.copy()
        if shape.prior == "weak":
            excess[:, 0] += (1.0 - fitted.items.discrimination) / 1.5**2
            excess[:, 1] -= fitted.items.intercept / 4.0**2
            information = information + np.diag([1.5**-2, 4.0**-2])
        step = np.linalg.solve(information, excess[:, :, None])[:, :, 0]
        row["distance"] = float(np.sqrt((step * excess).sum(axis=1).max()))
    wrong = row["error"] > LIKELIHOOD_ERROR or row["distance"] > GRADIENT_ERROR  # type: ignore[operator]
    return row | {"outcome": "falsely converged" if wrong else "converged"}


def main() -> None:
    """Print the table of outcomes and the worst cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--largest", type=int, default=2000, help="number of items at most")
    parser.add_argument("-o", "--output", type=Path, help="CSV of every data set, written as they are done")
    arguments = parser.parse_args()
    table = pd.DataFrame(columns=list(COLUMNS))
    if arguments.output and arguments.output.exists():
        table = pd.read_csv(arguments.output)
    done = set(table["number"])
    for number in range(arguments.sets):
        if number in done:
            continue
        rng = np.random.default_rng([arguments.seed, number])
        row = check(random_shape(rng, arguments.largest), rng) or {"outcome": "nothing left"}
        new = pd.DataFrame([{"number": number, **row}], columns=list(COLUMNS))
        table = new if table.empty else pd.concat([table, new], ignore_index=True)
        if arguments.output:
            new.to_csv(arguments.output, mode="a", header=not arguments.output.exists(), index=False)
    table = table[table["outcome"] != "nothing left"]
    print(pd.crosstab([table["kind"], table["prior"]], table["outcome"], margins=True).to_string())
    said = table[table["outcome"].isin(["converged", "falsely converged"])]
    print(f"\nlargest error of the log-likelihood a response: {said['error'].max():.1e}")
    print(f"furthest item from its maximum, in standard errors (2PL, none and weak): {said['distance'].max():.1e}")
    print(table.loc[table["outcome"] == "falsely converged"].to_string())


if __name__ == "__main__":
    main()
