"""Ways to choose a short form, on the same splits: error of the whole benchmark's accuracy, and of theta.

    python scripts/form_selection.py DATA [--splits 3] [--seed 1] [--lengths 10 20 50 100] [--label entailment]

DATA is the folder of the Open LLM Leaderboard (1,000 systems x 338 items), or a file of responses such as those of the
paper's crowds (`responses_5gs.csv.gz`, whose items.csv beside it gives `--label`). In every split half of the
respondents, drawn at random, choose the form and learn the prediction; the others answer the form alone. Selections:

- random items (mean of five draws); the most discriminating of a 2PL; share of right answers nearest to one half, which
  for responses 1 and 0 is DISCO's greatest disagreement (Rubinstein et al., 2025); strata of difficulty;
- anchor points of tinyBenchmarks (Polo et al., 2024): the items nearest to the centres of k-means clusters, of the
  columns of responses or of the 2PL's slopes and intercepts, each with its cluster's share as weight;
- metabench's preselection (Kipnis et al., 2025): of 2,000 random subsets that whose number right predicts the accuracy
  best, by a smooth regression in cross-validation;
- ours: the most informative form by 0/1 programming (`assemble_forms`), and items chosen one by one for what they leave
  unsaid of the accuracy (`short_forms.py`).

Each is given the prediction it was published with: plain for the share of right answers on the form; gp-IRT, the mean
of the weighted share and of what the 2PL expects of the other items, weighted as suits the learning half best; a random
forest on the responses; a smooth regression on the number right. Beside it the same kernel ridge regression for all.
Theta's error is the root mean square difference of EAPs from the form and from all items.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from short_forms import FOLDS, chosen_items, kernel_ridge, one_split, shrunk
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestRegressor
from sklearn.preprocessing import SplineTransformer

import irtbench

Array = NDArray[np.float64]
Form = NDArray[np.int64]

DRAWS, SUBSETS, RESIDUAL = 5, 2000, 0.3
MIXTURES = np.linspace(0, 1, 11)  # shares of the weighted accuracy in gp-IRT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lengths", type=int, nargs="+", default=[10, 20, 50, 100])
    parser.add_argument("--label")
    arguments = parser.parse_args()
    responses = read(arguments.data, arguments.label)
    rng = np.random.default_rng(arguments.seed)
    rows = []
    for _ in range(arguments.splits):
        learning = rng.permutation(responses.n_respondents) < responses.n_respondents // 2
        known, new = responses.select_respondents(learning), responses.select_respondents(~learning)
        items = irtbench.fit_model(known, prior="weak", standard_errors=False).items
        for n in arguments.lengths:
            for name, form, weights, predict in selections(known, items, n, rng):
                rows.append({"selection": name, "items": n} | errors(known, new, items, form, weights, predict, n, rng))
    table = pd.DataFrame(rows).groupby(["items", "selection"], sort=False).mean().reset_index()
    print("| items | selection | error of accuracy, as published | the same by ridge regression | error of theta |")
    print("|---|---|---|---|---|")
    for row in table.to_dict("records"):
        own = [f"{row[name]:.4f}" for name in ("published", "ridge")]
        print(f"| {row['items']} | {row['selection']} | {' | '.join(own)} | {row['theta']:.3f} |")


def read(data: Path, label: str | None) -> irtbench.ResponseMatrix:
    """Complete responses, of the items of one label where it is named."""
    file = data / "responses.csv.gz" if data.is_dir() else data
    table = pd.read_csv(file).rename(columns={"correct": "response"})
    if label is not None:
        items = pd.read_csv(file.parent / "items.csv")
        named = items.columns[(items == label).any()][0]
        table = table[table["item_id"].isin(items.loc[items[named] == label, "item_id"])]
    found = irtbench.ResponseMatrix.from_long(table)
    return found.select_respondents(~np.isnan(found.values).any(axis=1))


def selections(
    known: irtbench.ResponseMatrix, items: irtbench.ItemParameters, n: int, rng: np.random.Generator
) -> list[tuple[str, Form | None, Array | None, str]]:
    """Name, items, weights and published predictor of each way; no items for random ones."""
    values, share = known.values, known.values.mean(axis=0)
    nearest_half = np.argsort(np.abs(share - 0.5), kind="stable")[:n]
    strata = np.argsort(share, kind="stable")[((np.arange(n) + 0.5) * share.size / n).astype(int)]
    by_columns = anchors(values.T, n)
    by_model = anchors(np.column_stack([items.discrimination, items.intercept]), n)
    assembled = irtbench.assemble_forms(items, length=n, objective="population").forms[0]
    places = {item: k for k, item in enumerate(items.item_ids)}
    greedy = np.array(chosen_items(shrunk(np.cov(values.T), 0.1), n))
    return [
        ("random", None, None, "plain"),
        ("most discriminating", np.argsort(-items.discrimination, kind="stable")[:n], None, "plain"),
        ("share right nearest .5 (DISCO)", nearest_half, None, "forest"),
        ("strata of difficulty", strata, None, "plain"),
        ("anchors by responses (tinyBenchmarks)", *by_columns, "gp-irt"),
        ("anchors by 2PL (tinyBenchmarks)", *by_model, "gp-irt"),
        ("best of random subsets (metabench)", best_subset(values, n, rng), None, "smooth"),
        ("most informative form", np.array([places[item] for item in assembled]), None, "gp-irt"),
        ("chosen for the accuracy", greedy, None, "chosen"),
    ]


def anchors(points: Array, n: int) -> tuple[Form, Array]:
    """The point nearest to each centre, and the share of all points that it stands for."""
    found = KMeans(n, n_init=5, random_state=0).fit(points)
    nearest = [
        int(own[np.linalg.norm(points[own] - centre, axis=1).argmin()])
        for own, centre in ((np.flatnonzero(found.labels_ == k), found.cluster_centers_[k]) for k in range(n))
    ]
    return np.array(nearest), np.bincount(found.labels_, minlength=n) / len(points)


def best_subset(values: Array, n: int, rng: np.random.Generator) -> Form:
    """Of random subsets that of least error in cross-validation."""
    truth, fold = values.mean(axis=1), rng.integers(FOLDS, size=len(values))
    best: tuple[float, Form] = (np.inf, np.arange(n))
    for _ in range(SUBSETS):
        form = rng.choice(values.shape[1], n, replace=False)
        right = values[:, form].sum(axis=1)
        wrong = np.empty(len(values))
        for k in range(FOLDS):
            inside = fold != k
            wrong[~inside] = smooth(right[inside], truth[inside], right[~inside]) - truth[~inside]
        best = min(best, (float(np.sqrt(np.mean(wrong**2))), form), key=lambda pair: pair[0])
    return best[1]


def smooth(right: Array, truth: Array, asked: Array) -> Array:
    """Regression on a cubic spline of the number right."""
    basis = SplineTransformer(n_knots=5, degree=3, extrapolation="linear").fit(right[:, None])
    design = basis.transform(right[:, None])
    ridge = np.sqrt(1e-3) * np.eye(design.shape[1])
    weights = np.linalg.lstsq(np.vstack([design, ridge]), np.r_[truth - truth.mean(), np.zeros(len(ridge))], rcond=None)
    predicted: Array = truth.mean() + basis.transform(asked[:, None]) @ weights[0]
    return predicted


def errors(
    known: irtbench.ResponseMatrix,
    new: irtbench.ResponseMatrix,
    items: irtbench.ItemParameters,
    form: Form | None,
    weights: Array | None,
    predict: str,
    n: int,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Mean absolute errors of the accuracy by either prediction, and theta's error."""
    if form is None:
        draws = [rng.choice(known.n_items, n, replace=False) for _ in range(DRAWS)]
        each = [errors(known, new, items, draw, weights, predict, n, rng) for draw in draws]
        return {name: float(np.mean([found[name] for found in each])) for name in each[0]}
    truth = new.values.mean(axis=1)
    names = [items.item_ids[k] for k in form]
    shares = np.full(n, 1 / n) if weights is None else weights
    theta = {
        data: irtbench.estimate_ability(data.select_items(names), items.select(names)).theta for data in (known, new)
    }
    if predict == "chosen":
        published = one_split(known.values, new.values, n, rng.integers(FOLDS, size=known.n_respondents))["error"]
    else:
        published = mean_error(PREDICTORS[predict](known, new, items, form, shares, theta), truth)
    whole = irtbench.estimate_ability(new, items).theta
    return {
        "published": published,
        "ridge": mean_error(kernel_ridge(known.values, form, new.values, 0.1, RESIDUAL), truth),
        "theta": float(np.sqrt(np.mean((theta[new] - whole) ** 2))),
    }


def mean_error(predicted: Array, truth: Array) -> float:
    """Mean absolute error."""
    return float(np.abs(predicted - truth).mean())


def plain(known, new, items, form, shares, theta) -> Array:  # type: ignore[no-untyped-def]
    """The share of right answers on the form."""
    expected: Array = new.values[:, form] @ shares
    return expected


def gp_irt(known, new, items, form, shares, theta) -> Array:  # type: ignore[no-untyped-def]
    """The weighted share of right answers mixed with what the model expects of all items."""
    rest = np.setdiff1d(np.arange(items.n_items), form)

    def parts(data) -> tuple[Array, Array]:  # type: ignore[no-untyped-def]
        unseen = irtbench.icc(theta[data], items.select([items.item_ids[k] for k in rest]))
        expected = (data.values[:, form].sum(axis=1) + unseen.sum(axis=1)) / items.n_items
        return data.values[:, form] @ shares, expected

    weighted, expected = parts(known)
    truth = known.values.mean(axis=1)
    best = min(MIXTURES, key=lambda share: mean_error(share * weighted + (1 - share) * expected, truth))
    weighted, expected = parts(new)
    mixed: Array = best * weighted + (1 - best) * expected
    return mixed


def forest(known, new, items, form, shares, theta) -> Array:  # type: ignore[no-untyped-def]
    """A random forest on the responses to the form."""
    grown = RandomForestRegressor(300, random_state=0).fit(known.values[:, form], known.values.mean(axis=1))
    predicted: Array = grown.predict(new.values[:, form])
    return predicted


def by_number_right(known, new, items, form, shares, theta) -> Array:  # type: ignore[no-untyped-def]
    """Smooth regression on the number right."""
    return smooth(known.values[:, form].sum(axis=1), known.values.mean(axis=1), new.values[:, form].sum(axis=1))


PREDICTORS: dict[str, Callable[..., Array]] = {
    "plain": plain, "gp-irt": gp_irt, "forest": forest, "smooth": by_number_right,
}  # fmt: skip


if __name__ == "__main__":
    main()
