"""Explained difficulty: the regression fitted with the items or after them; and predictions as a prior of new items.

    python scripts/coverage_difficulty.py regression [--kind rasch] [--replications 20] [--design NUMBER ...]
    python scripts/coverage_difficulty.py prior [--replications 20] [--effects 0.6 -0.4 0] [--joint]
    python scripts/coverage_difficulty.py horizon [--kind rasch] [--replications 20] [--design NUMBER ...]
    python scripts/coverage_difficulty.py grades [--replications 8] [--design NUMBER ...]

The difficulty of items is linear in three features of standard deviation 1, with effects .6, -.4 and 0, and a residual
of standard deviation .6; slopes are log-normal(.2, .3), or 1 with Rasch; abilities normal(0, 1).

``regression``: of `explain_responses` ("joint") and of `fit_model` with `explain_difficulty` ("two steps", where that
fit converged; items answered all right or all wrong are left out) the mean of the first effect, how often intervals of
nominal 95% cover effects, s, R2 and the difficulties of 20 new items, the mean of s, R2 and cross-validated R2.

``prior``: a bank of 100 items from 1,000 people is extended by 60 new items, answered by a few of 400 people with mean
.3 and standard deviation .9 who answered 30 items of the bank too. New items are estimated with the prior that the
features give, with one that they are items like the bank's, and with that and as many more answers as
`explain_difficulty` says that the features are worth; slopes have the prior of the bank's in each case. Printed are
root mean squared error of b and the coverage of b +- 1.96 se.

``grades``: of `explain_grades`, of 40 items with one effect of .6 on the mean step, the means of the effect in the true
difficulties drawn and of the one found, and how often intervals of nominal 95% cover .6, s and R2 (.5).

``horizon``: of `time_horizon` how often intervals of nominal 95% cover the length at which a system succeeds half and
80% of the time, over the systems, and of those whose horizon lies beyond the longest task; the median of estimate over
truth, of the interval's upper over its lower end, and the share of intervals without an end. And by the
formula, with the residual taken for 0, what the horizon would be over truth. Difficulty rises by .6 with the logarithm
of the length.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.analysis.explained_difficulty import ExplainedDifficulty, explain_difficulty
from irtbench.analysis.explained_responses import GradedKind, explain_grades, explain_responses
from irtbench.analysis.horizons import point_of, time_horizon
from irtbench.building.prune_rules import constant_items
from irtbench.data.items import ItemFeatures
from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.fit import fit_model
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.curves import simulate_responses
from irtbench.models.item_models.named import MODELS
from irtbench.models.item_parameters import ItemParameters

Array = NDArray[np.float64]
Kind = Literal["rasch", "2pl"]
N_NEW, RESIDUAL = 20, 0.6
EFFECTS = np.array([0.6, -0.4, 0.0])


@dataclass(frozen=True)
class Design:
    """People, items, the share of items that each answers, and whether some items are answered far more than others."""

    n_respondents: int
    n_items: int
    share: float
    uneven: bool = False

    @property
    def name(self) -> str:
        answers = f"{self.n_respondents * self.share:.0f} answers an item"
        return f"{self.n_respondents} x {self.n_items}, {answers}{', uneven' if self.uneven else ''}"


DESIGNS = (
    Design(100, 100, 0.1),
    Design(100, 100, 0.3),
    Design(300, 100, 0.1, uneven=True),
    Design(40, 60, 1.0),
    Design(300, 100, 1 / 3),
    Design(600, 100, 0.5),
)


def drawn_items(
    n_items: int, kind: Kind, effects: Array, rng: np.random.Generator
) -> tuple[ItemFeatures, Array, Array]:
    """Features, slopes and difficulties."""
    x = rng.normal(size=(n_items, effects.size))
    b = x @ effects + rng.normal(0, RESIDUAL, n_items)
    a = np.ones(n_items) if kind == "rasch" else rng.lognormal(0.2, 0.3, n_items)
    ids = tuple(f"item{k + 1}" for k in range(n_items))
    return ItemFeatures(ids, tuple(f"x{k + 1}" for k in range(effects.size)), x), a, b


def answered_by(design: Design, complete: ResponseMatrix, rng: np.random.Generator) -> ResponseMatrix:
    """Some of the responses, at least one of each item and each person."""
    weight = rng.lognormal(0, 1.0, design.n_items) if design.uneven else np.ones(design.n_items)
    kept = rng.random(complete.values.shape) < design.share * weight / weight.mean()
    kept[rng.integers(design.n_respondents, size=design.n_items), np.arange(design.n_items)] = True
    values = np.where(kept, complete.values, np.nan)
    there = kept.any(axis=1)
    ids = [name for name, one in zip(complete.respondent_ids, there, strict=True) if one]
    return ResponseMatrix(values[there], tuple(ids), complete.item_ids)


def two_steps(data: ResponseMatrix, features: ItemFeatures, kind: Kind, seed: int) -> ExplainedDifficulty | None:
    """Items first, then the regression of those that could be estimated; None where the fit did not converge."""
    gone = {removal.item_id for removal in constant_items(data)}
    some = data.select_items([item for item in data.item_ids if item not in gone])
    fitted = fit_model(some.select_respondents(some.n_by_respondent > 0), kind=kind)
    if not fitted.converged:
        return None
    own = features.select([item for item in features.item_ids if item not in gone])
    return explain_difficulty(fitted.items, own, population=fitted.quadrature, rng=np.random.default_rng(seed))


def figures(found: ExplainedDifficulty, b_new: Array) -> dict[str, float]:
    """What is averaged over replications."""
    r2 = EFFECTS @ EFFECTS / (EFFECTS @ EFFECTS + RESIDUAL**2)
    new = np.array([item.startswith("new") for item in found.new_item_ids])
    lower, upper = found.new_lower[new], found.new_upper[new]
    return {
        "effect": found.effect[1],
        "effects_covered": float(((found.lower[1:] <= EFFECTS) & (found.upper[1:] >= EFFECTS)).mean()),
        "s": found.residual_sd,
        "s_covered": float(found.residual_lower <= RESIDUAL <= found.residual_upper),
        "r2": found.r2,
        "r2_covered": float(found.r2_lower <= r2 <= found.r2_upper),
        "cross_validated": found.r2_cross_validated,
        "new_covered": float(((lower <= b_new) & (b_new <= upper)).mean()),
    }


def regression(kind: Kind, designs: list[int], replications: int, seed: int) -> None:
    """Print a row a design and way."""
    for number in designs:
        design = DESIGNS[number]
        found: dict[str, list[dict[str, float]]] = {"joint": [], "two steps": []}
        for k in range(replications):
            rng = np.random.default_rng([seed, number, k])
            features, a, b = drawn_items(design.n_items + N_NEW, kind, EFFECTS, rng)
            ids = features.item_ids[: design.n_items] + tuple(f"new{j}" for j in range(N_NEW))
            features, b_new = ItemFeatures(ids, features.names, features.values), b[design.n_items :]
            items = ItemParameters.from_difficulty(a, b, item_ids=list(ids)).select(ids[: design.n_items])
            complete = simulate_responses(rng.normal(size=design.n_respondents), items, rng=rng)
            data = answered_by(design, complete, rng)
            joint = explain_responses(data, features, model=kind, rng=np.random.default_rng(k))
            found["joint"].append(figures(joint, b_new) | {"settled": float(joint.converged)})
            if (steps := two_steps(data, features, kind, k)) is not None:
                found["two steps"].append(figures(steps, b_new) | {"settled": 1.0})
        for way, rows in found.items():
            told = pd.DataFrame(rows).mean().round(3).to_dict() if rows else {}
            print(f"{kind}, {design.name}, {way}, {len(rows)} of {replications}: {told}", flush=True)


def prior(effects: Array, replications: int, seed: int, *, joint: bool) -> None:
    """Print a row a number of answers and way; the predictions are of the bank, or of its responses."""
    rows = []
    for k in range(replications):
        rng = np.random.default_rng([seed, 7, k])
        features, a, b = drawn_items(160, "2pl", effects, rng)
        items = ItemParameters.from_difficulty(a, b)
        old = items.item_ids[:100]
        responses = simulate_responses(rng.normal(size=1000), items.select(old), rng=rng)
        bank = fit_model(responses)
        if joint:
            told = explain_responses(responses, features, rng=rng)
        else:
            told = explain_difficulty(bank.items, features, joint_error=bank.joint_error, rng=rng)
        mean, sd, worth = float(told.difficulty.mean()), told.total_sd, round(told.answers_worth)
        from_features = {row.item_id: (row.mean, row.sd) for row in told.prior_table().itertuples()}
        like_others = dict.fromkeys(from_features, (mean, sd))
        slopes = bank.items.discrimination
        complete = simulate_responses(rng.normal(0.3, 0.9, size=400), items, rng=rng).values
        order = np.argsort(rng.random((400, 60)), axis=0).argsort(axis=0)  # who is asked first
        for n in (10, 30, 100):
            for way, asked, expected in (
                ("features", n, from_features),
                ("like others", n, like_others),
                ("as many more", n + worth, like_others),
            ):
                values = complete.copy()
                values[:, 30:100] = np.nan
                values[:, 100:][order >= asked] = np.nan
                chosen = [*range(30), *range(100, 160)]
                data = ResponseMatrix(
                    values[:, chosen], tuple(f"r{i}" for i in range(400)), tuple(items.item_ids[j] for j in chosen)
                )
                fitted = fit_model(
                    data, anchors=bank.items.select(old[:30]), prior_items=expected,
                    prior_slope=f"normal:{slopes.mean():.4f},{slopes.std():.4f}",
                )  # fmt: skip
                new = fitted.items.select(items.item_ids[100:])
                error = np.abs(new.difficulty - b[100:])
                se = new.standard_errors()["difficulty"]
                rows.append((n, way, (error**2).mean(), (error < 1.96 * se).mean(), worth, fitted.converged))
    table = pd.DataFrame(rows, columns=["n", "way", "mse", "covered", "worth", "converged"])
    means = table.groupby(["n", "way"]).mean()
    means["rmse"] = np.sqrt(means.pop("mse"))
    print(means.round(3).to_string())


@dataclass(frozen=True)
class Suite:
    """Systems, tasks, the residual, mean ability, the share of tasks tried, and whether few tasks are long."""

    n_systems: int
    n_tasks: int
    residual: float
    strength: float = 0.0
    tried: float = 1.0
    skewed: bool = False
    by_task: bool = False

    @property
    def name(self) -> str:
        parts = [f"{self.n_systems} x {self.n_tasks}", f"s {self.residual:g}"]
        parts += [f"mean ability {self.strength:g}"] if self.strength else []
        parts += ["few long tasks"] if self.skewed else []
        parts += (
            [f"{self.tried:.0%} tried, {'hard' if self.by_task else 'long'} ones by the able"] if self.tried < 1 else []
        )
        return ", ".join(parts)

    def log_lengths(self, rng: np.random.Generator) -> Array:
        """Of tasks between a minute and a day."""
        longest = np.log(1440)
        drawn: Array = rng.beta(1.2, 4, self.n_tasks) if self.skewed else rng.uniform(size=self.n_tasks)
        return drawn * float(longest)

    def responses(
        self, complete: ResponseMatrix, theta: Array, expected: Array, rng: np.random.Generator
    ) -> ResponseMatrix:
        """Those that were tried, mostly tasks whose length (or own difficulty) is near what a system can do."""
        wish = 0.5 * rng.logistic(size=complete.values.shape) - np.abs(theta[:, None] - expected)
        values = np.where(wish >= np.quantile(wish, 1 - self.tried), complete.values, np.nan)
        return ResponseMatrix(values, complete.respondent_ids, complete.item_ids)


SUITES = (
    Suite(20, 40, 0.6),
    Suite(12, 150, 0.8),
    Suite(12, 150, 2.0),
    Suite(30, 170, 1.0, skewed=True),
    Suite(30, 100, 1.0, strength=2.0),
    Suite(60, 100, 1.0, tried=0.5),
    Suite(100, 300, 1.0),
    Suite(8, 60, 1.0),
    Suite(60, 100, 1.0, tried=0.5, by_task=True),
)
PER_LOG = 0.6


def horizon(kind: Kind, suites: list[int], replications: int, seed: int) -> None:
    """Print a row a suite and share."""
    slope = (0.0, 0.0) if kind == "rasch" else (0.2, 0.3)
    for number in suites:
        suite, rows = SUITES[number], []
        for k in range(replications):
            rng = np.random.default_rng([seed, number, k])
            x, theta = suite.log_lengths(rng), suite.strength + rng.normal(size=suite.n_systems)
            expected = PER_LOG * (x - np.log(1440) / 2)
            b = expected + rng.normal(0, suite.residual, suite.n_tasks)
            items = ItemParameters.from_difficulty(rng.lognormal(*slope, suite.n_tasks), b)
            data = suite.responses(
                simulate_responses(theta, items, rng=rng), theta, b if suite.by_task else expected, rng
            )
            found = time_horizon(data, dict(zip(items.item_ids, np.exp(x), strict=True)), model=kind)
            for at, share in enumerate(found.shares):
                point = point_of(share, suite.residual, slope)
                truth = (theta - point) / PER_LOG + np.log(1440) / 2
                lower, upper = np.log(found.lower[:, at]), np.log(found.upper[:, at])
                held, beyond = (lower <= truth) & (truth <= upper), truth > x.max()
                rows += [
                    (share, k, one, out, error, wide, np.isinf(wide), typical)
                    for one, out, error, wide, typical in zip(
                        held, beyond, np.log(found.horizon[:, at]) - truth, upper - lower,
                        (point - point_of(share, 0.0, slope)) / PER_LOG * np.ones(len(theta)), strict=True,
                    )
                ]  # fmt: skip
        names = ["share", "set", "covered", "beyond", "error", "width", "endless", "typical"]
        table = pd.DataFrame(rows, columns=names)
        for wanted, part in table.groupby("share"):
            out = part[part["beyond"]]
            by_set = part.groupby("set")["covered"].mean()
            print(
                f"{kind}, {suite.name}, {wanted:.0%}, {part['set'].nunique()} sets: covered {by_set.mean():.3f} "
                f"(se {by_set.std() / len(by_set) ** 0.5:.3f}), beyond {len(out)}: {out['covered'].mean():.3f}, "
                f"estimate / truth {np.exp(part['error'].median()):.2f}, upper / lower "
                f"{np.exp(part['width'].median()):.1f}, endless {part['endless'].mean():.2f}, typical / truth "
                f"{np.exp(part['typical'].median()):.1f}",
                flush=True,
            )


@dataclass(frozen=True)
class Graded:
    """People, grades, responses to an item, the model; whether difficulty is skewed, and the able get hard items."""

    n_respondents: int
    n_grades: int
    n_responses: int
    model: GradedKind
    skewed: bool = False
    by_ability: bool = False

    def drawn(self, rng: np.random.Generator, n_items: int = 40) -> tuple[pd.DataFrame, Array, Array]:
        """Grades, the feature, and the mean steps."""
        x, n_steps = rng.normal(size=n_items), self.n_grades - 1
        rest = (1.5 - rng.gamma(1.5, size=n_items)) / 1.5**0.5 if self.skewed else rng.normal(size=n_items)
        b = EFFECTS[0] * x + RESIDUAL * rest
        if self.model == "grm":
            rng.normal(0, 1, (n_items, n_steps))
            away = np.tile(np.linspace(-1.2, 1.2, n_steps), (n_items, 1))
        else:
            away = rng.normal(0, 0.7, (n_items, n_steps)) + np.linspace(-1, 1, n_steps)
            away -= away.mean(axis=1, keepdims=True)
        table = pd.DataFrame(b[:, None] + away, columns=[f"step_{k + 1}" for k in range(n_steps)])
        table = table.assign(item_id=[f"i{j}" for j in range(n_items)], discrimination=rng.lognormal(0.2, 0.3, n_items))
        items = CategoryParameters.from_table(table, [MODELS[self.model]] * n_items)
        theta = rng.normal(size=self.n_respondents)
        complete, share = items.simulate(theta, rng=rng), self.n_responses / self.n_respondents
        asked = np.full(complete.shape, share)
        if self.by_ability:
            asked = (2 * share / (1 + np.exp(-1.5 * theta[:, None] * np.sign(b)))).clip(0, 1)
        return complete.where(rng.random(complete.shape) < asked).dropna(how="all"), x, b


GRADED = (
    Graded(150, 4, 25, "gpcm"),
    Graded(150, 3, 25, "gpcm", by_ability=True),
    Graded(150, 5, 60, "grm", skewed=True),
    Graded(150, 3, 25, "grm"),
    Graded(300, 5, 200, "grm"),
    Graded(150, 5, 25, "gpcm", skewed=True),
)


def grades(designs: list[int], replications: int) -> None:
    """Print a row a design."""
    for number in designs:
        rows = []
        for k in range(replications):
            scores, x, b = GRADED[number].drawn(np.random.default_rng([7, k]))
            features = ItemFeatures(tuple(scores.columns), ("x",), x[:, None])
            found = explain_grades(scores, features, model=GRADED[number].model, rng=np.random.default_rng(k))
            rows.append(
                {
                    "true": np.polyfit(x, b, 1)[0],
                    "effect": found.effect[1],
                    "covered": found.lower[1] <= EFFECTS[0] <= found.upper[1],
                    "s": found.residual_sd,
                    "s_covered": found.residual_lower <= RESIDUAL <= found.residual_upper,
                    "r2_covered": found.r2_lower <= 0.5 <= found.r2_upper,
                    "settled": found.converged,
                }
            )
        print(f"{GRADED[number]}: {pd.DataFrame(rows).astype(float).mean().round(3).to_dict()}", flush=True)


def main() -> None:
    """Run one of the four."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["regression", "prior", "horizon", "grades"])
    parser.add_argument("--kind", choices=["rasch", "2pl"], default="2pl")
    parser.add_argument("--replications", type=int, default=20)
    parser.add_argument("--design", type=int, nargs="*")
    parser.add_argument("--effects", type=float, nargs="*", default=EFFECTS.tolist())
    parser.add_argument("--joint", action="store_true", help="predictions fitted with the bank's items")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.what == "regression":
        regression(given.kind, given.design or list(range(len(DESIGNS))), given.replications, given.seed)
    elif given.what == "horizon":
        horizon(given.kind, given.design or list(range(len(SUITES))), given.replications, given.seed)
    elif given.what == "grades":
        grades(given.design or list(range(len(GRADED))), given.replications)
    else:
        prior(np.array(given.effects), given.replications, given.seed, joint=given.joint)


if __name__ == "__main__":
    main()
