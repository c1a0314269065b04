"""The accuracy of a system on a whole benchmark from a short form: ways to choose the form, on the same splits.

    python scripts/short_forms.py LEADERBOARD [--stronger FOLDER] [--splits 3] [--lengths 10 30 100] [--seed 1]

LEADERBOARD is the folder of the Open LLM Leaderboard responses (1,000 systems x 338 items of three tasks). In every
split half of the systems, drawn at random, choose the form and learn the prediction; the others answer the form alone.
With --stronger the tables of FOLDER are split once each: the weakest 70% of the systems are known, the strongest 30%
new, and forms have 50 items. Ways to choose:

- random items (mean of five draws), and the most informative form of the 2PL (`assemble --objective population`);
- anchor points of tinyBenchmarks (Polo et al., 2024): the items nearest to the centres of k-means clusters of the 2PL's
  slopes and intercepts, each with its cluster's share as weight;
- metabench's preselection (Kipnis et al., 2025): of random subsets that whose number right predicts the accuracy best,
  by a smooth regression in cross-validation;
- DISCO (Rubinstein et al., 2025): where systems disagree most, which of right and wrong is a share near one half;
- fixed parameters (Habba et al., 2026): the tasks come one after the other; items of a task are fitted with the
  anchor points of those before fixed, and have anchor points in turn;
- ours: `assemble --for accuracy --learn-from`, for all items at once, and by task: a form of each task, as long as the
  task's share.

Printed is the mean absolute error of the accuracy on all items: by the prediction each was published with (share right;
gp-IRT, the mean of the weighted share and of what the 2PL expects, weighted as suits the known systems; a smooth
regression on the number right; a random forest on the responses; what the 2PL expects; `predict --learn-from`), and by
`predict --learn-from` for all.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from predict_benchmark import fitted, parted, read
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestRegressor
from sklearn.preprocessing import SplineTransformer

import irtbench

Array = NDArray[np.float64]
Form = NDArray[np.int64]

DRAWS, SUBSETS, FOLDS = 5, 1000, 5
STRONGER_LENGTH = 50
MIXTURES = np.linspace(0, 1, 11)  # shares of the weighted accuracy in gp-IRT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("leaderboard", type=Path)
    parser.add_argument("--stronger", type=Path)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--lengths", type=int, nargs="+", default=[10, 30, 100])
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    responses = read(arguments.leaderboard / "responses.csv.gz")
    rows: list[dict[str, object]] = []
    for _ in range(arguments.splits):
        known = rng.permutation(responses.n_respondents) < responses.n_respondents // 2
        split = Split.of(responses.select_respondents(known), responses.select_respondents(~known))
        for n in arguments.lengths:
            rows += [{"column": f"{n}", **row} for row in split.errors(n, rng)]
    for file in [] if arguments.stronger is None else sorted(arguments.stronger.glob("*.csv.gz")):
        split = Split.of(*parted(read(file), "stronger", 0.7, rng))
        rows += [{"column": f"stronger, {STRONGER_LENGTH}", **row} for row in split.errors(STRONGER_LENGTH, rng)]
        print(f"<!-- {file.name} -->", flush=True)
    table = pd.DataFrame(rows).groupby(["way", "column"], sort=False).mean()
    columns = list(dict.fromkeys(table.index.get_level_values("column")))
    print("| items chosen | prediction | " + " | ".join(columns) + " |")
    print("|---" * (2 + len(columns)) + "|")
    for way, prediction in WAYS.items():
        cells = [table.loc[(way, column)] for column in columns]
        shown = [f"{cell['own']:.4f} / {cell['predict']:.4f}" for cell in cells]
        print(f"| {way} | {prediction} | {' | '.join(shown)} |")


WAYS = {
    "random": "share right",
    "most informative form": "gp-IRT",
    "anchor points (tinyBenchmarks)": "gp-IRT",
    "best of random subsets (metabench)": "smooth regression",
    "share right nearest .5 (DISCO)": "random forest",
    "anchor points, fixed parameters": "2PL",
    "for accuracy, by task": "`predict`",
    "for accuracy": "`predict`",
}


@dataclass(frozen=True, eq=False)
class Split:
    """Systems known and new, and the bank of those known: one scale of all items."""

    known: irtbench.ResponseMatrix
    new: irtbench.ResponseMatrix
    bank: tuple[irtbench.Scale, ...]

    @classmethod
    def of(cls, known: irtbench.ResponseMatrix, new: irtbench.ResponseMatrix) -> Split:
        """With items in the order of the bank."""
        bank = fitted(known, by_prefix=False)
        ids = bank[0].items.item_ids
        return cls(known.select_items(ids), new.select_items(ids), bank)

    @property
    def items(self) -> irtbench.ItemParameters:
        return self.bank[0].items

    def tasks(self) -> list[Form]:
        """The items of each task: the beginning of the id up to a dot."""
        names = np.array([item.split(".")[0] for item in self.items.item_ids])
        several = len(set(names)) < len(names)
        return [np.flatnonzero(names == name) for name in dict.fromkeys(names)] if several else [np.arange(len(names))]

    def errors(self, n: int, rng: np.random.Generator) -> list[dict[str, object]]:
        """Of each way the mean absolute error by its own prediction and by `predict --learn-from`."""
        values, items = self.known.values, self.items
        informative = places(items, irtbench.assemble_forms(items, length=n, objective="population").forms[0])
        centred, weights = anchors(items, n)
        fixed, fixed_items = self.one_after_the_other(n)
        subset = best_subset(values, n, rng)
        disagreed = np.argsort(np.abs(values.mean(axis=0) - 0.5), kind="stable")[:n]
        rows = []
        for _ in range(DRAWS):
            form = rng.choice(items.n_items, n, replace=False)
            rows.append(self.row("random", form, lambda new, form=form: new[:, form].mean(axis=1)))
        rows += [
            self.row("most informative form", informative, self.gp_irt(informative, np.full(n, 1 / n))),
            self.row("anchor points (tinyBenchmarks)", centred, self.gp_irt(centred, weights)),
            self.row("best of random subsets (metabench)", subset, self.by_number_right(subset)),
            self.row("share right nearest .5 (DISCO)", disagreed, self.forest(disagreed)),
            self.row("anchor points, fixed parameters", fixed, lambda new: expected(new, fixed, fixed_items)),
            self.row("for accuracy, by task", self.for_accuracy(n, self.tasks())),
            self.row("for accuracy", self.for_accuracy(n, [np.arange(items.n_items)])),
        ]
        return rows

    def row(self, way: str, form: Form, own: Callable[[Array], Array] | None = None) -> dict[str, object]:
        """Errors of one form; without a prediction of its own that of `predict`."""
        names, truth = [self.items.item_ids[k] for k in form], self.new.values.mean(axis=1)
        learnt = irtbench.learn_correction(self.bank, self.known, names)
        by_predict = irtbench.predict_accuracy(self.bank, self.new.select_items(names), correction=learnt).accuracy
        predicted = by_predict if own is None else own(self.new.values)
        return {"way": way, "own": mean_error(predicted, truth), "predict": mean_error(by_predict, truth)}

    def for_accuracy(self, n: int, tasks: list[Form]) -> Form:
        """Ours, from each task as many as its share of the items."""
        ends = np.round(np.cumsum([task.size for task in tasks]) * n / self.items.n_items).astype(int)
        chosen: list[int] = []
        for task, length in zip(tasks, np.diff(ends, prepend=0), strict=True):
            names = [self.items.item_ids[k] for k in task]
            own, known = self.items.select(names), self.known.select_items(names)
            found = irtbench.assemble_forms(own, length=int(length), objective="accuracy", known=known)
            chosen += places(self.items, found.forms[0]).tolist()
        return np.array(chosen)

    def one_after_the_other(self, n: int) -> tuple[Form, irtbench.ItemParameters]:
        """Anchor points of each task, fitted with those of the tasks before fixed; and all items so fitted."""
        tasks = self.tasks()
        ends = np.round(np.cumsum([task.size for task in tasks]) * n / self.items.n_items).astype(int)
        form: list[int] = []
        slope, difficulty = self.items.discrimination.copy(), self.items.difficulty.copy()  # of one task all there is
        for task, length in zip(tasks, np.diff(ends, prepend=0), strict=True):
            if len(tasks) > 1:
                names, before = [self.items.item_ids[k] for k in task], [self.items.item_ids[k] for k in form]
                anchored = None if not form else parameters(slope[form], difficulty[form], before)
                data = self.known.select_items([*before, *names])
                own = irtbench.fit_model(data, anchors=anchored, prior="weak", standard_errors=False).items.select(
                    names
                )
                slope[task], difficulty[task] = own.discrimination, own.difficulty
            chosen = anchors(parameters(slope[task], difficulty[task], range(len(task))), int(length))[0]
            form += task[chosen].tolist()
        return np.array(form), parameters(slope, difficulty, self.items.item_ids)

    def gp_irt(self, form: Form, weights: Array) -> Callable[[Array], Array]:
        """The weighted share right mixed with what the model expects of all items."""

        def parts(values: Array) -> tuple[Array, Array]:
            return values[:, form] @ weights, expected(values, form, self.items)

        truth, (weighted, by_model) = self.known.values.mean(axis=1), parts(self.known.values)
        best = min(MIXTURES, key=lambda share: mean_error(share * weighted + (1 - share) * by_model, truth))

        def predicted(values: Array) -> Array:
            weighted, by_model = parts(values)
            return best * weighted + (1 - best) * by_model

        return predicted

    def forest(self, form: Form) -> Callable[[Array], Array]:
        """A random forest on the responses."""
        values = self.known.values
        grown = RandomForestRegressor(300, random_state=0).fit(values[:, form], values.mean(axis=1))
        return lambda new: np.asarray(grown.predict(new[:, form]))

    def by_number_right(self, form: Form) -> Callable[[Array], Array]:
        """Smooth regression on the number right."""
        values = self.known.values
        return lambda new: smooth(values[:, form].sum(axis=1), values.mean(axis=1), new[:, form].sum(axis=1))


def parameters(slope: Array, difficulty: Array, names: Iterable[object]) -> irtbench.ItemParameters:
    """Items of a 2PL."""
    return irtbench.ItemParameters.from_difficulty(slope, difficulty, item_ids=[str(name) for name in names])


def places(items: irtbench.ItemParameters, names: tuple[str, ...]) -> Form:
    """Where these items stand."""
    place = {item: k for k, item in enumerate(items.item_ids)}
    return np.array([place[item] for item in names])


def expected(values: Array, form: Form, items: irtbench.ItemParameters) -> Array:
    """Accuracy on all items: what was answered on the form, and what the 2PL expects of the others."""
    names, rest = [items.item_ids[k] for k in form], np.setdiff1d(np.arange(items.n_items), form)
    theta = irtbench.estimate_ability(values[:, form], items.select(names)).theta
    unseen = irtbench.icc(theta, items.select([items.item_ids[k] for k in rest]))
    return (values[:, form].sum(axis=1) + unseen.sum(axis=1)) / items.n_items


def anchors(items: irtbench.ItemParameters, n: int) -> tuple[Form, Array]:
    """The item nearest to each centre, and the share of all items that it stands for."""
    points = np.column_stack([items.discrimination, items.intercept])
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


def mean_error(predicted: Array, truth: Array) -> float:
    """Mean absolute error."""
    return float(np.abs(predicted - truth).mean())


if __name__ == "__main__":
    main()
