"""How often the intervals of item parameters and abilities cover the truth, and how far the estimates are from it.

    python scripts/coverage_items.py [--replications 40] [--large 5] [--seed 1] [--design NUMBER ...] [--exact]

Every replication draws items and respondents, simulates the responses, fits them and scores the respondents (EAP; with
few respondents by the abilities of the fit itself). Slopes are log-normal(.2, .3), difficulties normal(0, 1), guessing
Beta(5, 15), abilities normal(0, 1). With few respondents the scale itself is uncertain (the mean ability of 100 is
known to .1), so there the truth is first aligned to the sample's mean and standard deviation of ability, items
accordingly; these rows say "aligned". Printed is the share of intervals, of nominal 95%, that cover the truth, with its
standard error over data sets, and the root mean squared error. Intervals are those that users are given: posterior
quantiles of a, b and c where items.csv has them, and otherwise 1.96 standard errors on either side. Of 300 new
respondents too, with the items as known ("new, coverage") and with curves averaged over the items' error
("integrated"). ``--large`` replications are made of the designs with 1,000 items and more;
``--design`` prints some rows only, counted from 0.

Of b coverage is also printed of the far items alone, |b| > 1.5 in truth, and of those whose estimate (median) is as
far. ``--exact`` prints these three of intervals that are right by construction: of each item's posterior with the true
abilities and the density that the items were drawn from (2PL).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.stats import gamma

from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.few_respondents.item_grid import ItemGrid
from irtbench.estimation.few_respondents.messages import Beliefs, Surroundings
from irtbench.estimation.fit import fit_model
from irtbench.estimation.settings import FitSettings
from irtbench.models.curves import simulate_responses
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.priors import Hierarchy, PriorName, Priors
from irtbench.scoring.ability import estimate_ability
from irtbench.scoring.item_error import abilities_of, with_item_error


@dataclass(frozen=True)
class Design:
    """Size of the data, the model, and whether the truth is aligned to the sample."""

    n_respondents: int
    n_items: int
    kind: Literal["2pl", "3pl"] = "2pl"
    prior: PriorName = "none"
    missing: float = 0.0
    aligned: bool = False
    tail: Literal["", "easy tail", "long tail"] = ""
    guessing: float = 0.25
    spread: float = 0.3  # standard deviation of log a
    uneven: bool = False  # respondents answer 40% of the items on average, log-normal(., .8)

    @property
    def name(self) -> str:
        share = f", {self.missing:.0%} missing" if self.missing else ""
        tail = f", {self.tail}" if self.tail else ""
        guessing = f", mean guessing {self.guessing:g}" if self.guessing != 0.25 else ""
        spread = f", log a {self.spread:g}" if self.spread != 0.3 else ""
        aligned = ", aligned" if self.aligned else ""
        uneven = ", unevenly answered" if self.uneven else ""
        return f"{self.n_respondents:,} x {self.n_items:,}{share}{uneven}{tail}{guessing}{spread}{aligned}"

    def difficulties(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Normal(0, 1); with an easy tail three of ten are normal(-3, 1.2) and the others normal(.5, .6).

        With a long one they are 1 - gamma(1.5).
        """
        if self.tail == "":
            return rng.normal(0, 1, self.n_items)
        if self.tail == "long tail":
            return 1 - rng.gamma(1.5, size=self.n_items)
        easy = rng.random(self.n_items) < 0.3
        return np.where(easy, rng.normal(-3, 1.2, self.n_items), rng.normal(0.5, 0.6, self.n_items))

    @property
    def density(self) -> Hierarchy:
        """That of (log a, b); of a long tail by narrow normal ones."""
        if self.tail == "long tail":
            edges = 1 - gamma.ppf(np.linspace(0.002, 0.998, NARROW + 1), 1.5)
            middle, width = (edges[1:] + edges[:-1]) / 2, np.abs(np.diff(edges)).clip(min=0.05)
            return Hierarchy.mixture(
                [(1 / NARROW, Hierarchy((0.2, m), (self.spread, w), of="difficulty"))
                 for m, w in zip(middle.tolist(), width.tolist(), strict=True)]
            )  # fmt: skip
        shares = ((0.3, -3.0, 1.2), (0.7, 0.5, 0.6)) if self.tail == "easy tail" else ((1.0, 0.0, 1.0),)
        parts = [(w, Hierarchy((0.2, mean), (self.spread, sd), of="difficulty")) for w, mean, sd in shares]
        return Hierarchy.mixture(parts)


DESIGNS = (
    Design(1000, 30),
    Design(1000, 90),
    Design(300, 20),
    Design(3000, 40, missing=0.6),
    Design(1000, 90, kind="3pl", prior="weak"),
    Design(5000, 40, kind="3pl", prior="weak"),
    Design(100, 1000, prior="hierarchical", aligned=True),
    Design(100, 2000, prior="hierarchical", aligned=True),
    Design(100, 5000, prior="hierarchical", aligned=True),
    Design(12, 40000, prior="hierarchical", aligned=True),
    Design(40, 60, prior="hierarchical", aligned=True),
    Design(200, 30, prior="hierarchical", aligned=True),
    Design(300, 100, prior="hierarchical", missing=0.7, aligned=True),
    Design(500, 400, prior="hierarchical", missing=0.9, aligned=True),
    Design(12, 3000, prior="hierarchical", aligned=True, tail="easy tail"),
    Design(12, 3000, prior="hierarchical", aligned=True),
    Design(30, 2000, prior="hierarchical", aligned=True, tail="long tail"),
    Design(60, 300, kind="3pl", prior="hierarchical", aligned=True),
    Design(60, 300, kind="3pl", prior="hierarchical", aligned=True, guessing=0.2),
    Design(60, 800, kind="3pl", prior="hierarchical", aligned=True, guessing=0.2),
    Design(100, 1000, kind="3pl", prior="hierarchical", aligned=True, guessing=0.2),
    *(Design(40, 60, prior="hierarchical", aligned=True, spread=spread) for spread in (0.1, 0.2, 0.5, 0.8)),
    *(Design(200, 30, prior="hierarchical", aligned=True, spread=spread) for spread in (0.1, 0.2, 0.5, 0.8)),
    Design(60, 300, prior="hierarchical", aligned=True),
    Design(60, 800, prior="hierarchical", aligned=True),
    Design(30, 200, prior="hierarchical", aligned=True, tail="long tail"),
    Design(30, 200, prior="hierarchical", aligned=True),
    Design(100, 150, prior="hierarchical", aligned=True, uneven=True),
)
LARGE = 1000  # items
PLACINGS = 6  # of nodes, until they are where posteriors are
NARROW = 24  # normal densities that a long tail is made of
FAR = 1.5  # difficulties beyond this are far
COLUMNS = (
    *(
        "design",
        "model",
        "prior",
        "data sets",
        "converged",
        "a coverage",
        "b coverage",
        "far b coverage",
        "far estimates of b",
        "d coverage",
        "c coverage",
        "theta coverage",
    ),
    *("rmse a", "rmse b", "rmse c", "theta correlation", "new, coverage", "integrated"),
)
N_NEW = 300  # new respondents, scored with the items that the few have given


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=40)
    parser.add_argument("--large", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--design", type=int, nargs="*", default=range(len(DESIGNS)), help="only these rows")
    parser.add_argument("--exact", action="store_true", help="abilities and the items' density known")
    arguments = parser.parse_args()
    if arguments.exact:
        print_exact(arguments.design, arguments.replications, arguments.seed)
        return
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    for number, design in enumerate(DESIGNS):
        if number not in arguments.design:
            continue
        n = arguments.large if design.n_items >= LARGE else arguments.replications
        found = pd.DataFrame([replicate(design, np.random.default_rng([arguments.seed, number, k])) for k in range(n)])
        row = {"design": design.name, "model": design.kind, "prior": design.prior, "data sets": n}
        row |= {"converged": int(found.pop("converged").sum())}
        row |= {name: share_of(values) if "rmse" not in name else values.mean() for name, values in found.items()}
        print("| " + " | ".join(written(row.get(name)) for name in COLUMNS) + " |", flush=True)


def replicate(design: Design, rng: np.random.Generator) -> dict[str, float]:
    """Fit one simulated data set and compare."""
    n_items = design.n_items
    a, b = rng.lognormal(0.2, design.spread, n_items), design.difficulties(rng)
    c = (
        rng.beta(20 * design.guessing, 20 * (1 - design.guessing), n_items)
        if design.kind == "3pl"
        else np.zeros(n_items)
    )
    theta = rng.normal(size=design.n_respondents)
    truth = ItemParameters.from_difficulty(a, b, c)
    responses = simulate_responses(theta, truth, rng=rng, missing=design.missing)
    if design.uneven:
        activity = rng.lognormal(0.0, 0.8, design.n_respondents)
        asked = rng.random(responses.values.shape) < np.clip(0.4 * activity / activity.mean(), 0.05, 1)[:, None]
        correct = np.where(asked, responses.correct, np.nan)
        responses = ResponseMatrix(correct, responses.respondent_ids, responses.item_ids)
    responses = responses.select_respondents(responses.n_by_respondent > 0)
    fitted = fit_model(responses, FitSettings(kind=design.kind, prior=design.prior))
    if design.aligned:
        mean, deviation = theta.mean(), theta.std()
        a, b, theta = a * deviation, (b - mean) / deviation, (theta - mean) / deviation
    errors = fitted.items.standard_errors()
    abilities = abilities_of(fitted, responses)
    new_theta = rng.normal(size=N_NEW)
    new_responses = simulate_responses(new_theta, truth, rng=rng)
    if design.aligned:
        new_theta = (new_theta - mean) / deviation
    found: dict[str, float] = {"converged": fitted.converged}
    ends = fitted.interval_columns()
    for name, column, estimate, true in (
        ("a", "discrimination", fitted.items.discrimination, a),
        ("b", "difficulty", fitted.items.difficulty, b),
        ("d", "intercept", fitted.items.intercept, -a * b),
        ("c", "guessing", fitted.items.guessing, c),
    ):
        if name == "c" and design.kind == "2pl":
            continue
        lower = ends.get(f"{column}_lower", estimate - 1.96 * errors[column])
        upper = ends.get(f"{column}_upper", estimate + 1.96 * errors[column])
        covered = (lower < true) & (true < upper)
        found[f"{name} coverage"] = float(np.mean(covered))
        if name == "b":
            found |= far_coverage(covered, true, ends.get("difficulty_median", estimate))
        if name != "d":
            found[f"rmse {name}"] = float(np.sqrt(np.mean((estimate - true) ** 2)))
    found["theta coverage"] = float(np.mean((abilities.lower < theta) & (theta < abilities.upper)))
    new = estimate_ability(new_responses, fitted.items)
    integrated = with_item_error(new, new_responses, fitted.items, item_error="integrate")
    found["new, coverage"] = float(np.mean((new.lower < new_theta) & (new_theta < new.upper)))
    found["integrated"] = float(np.mean((integrated.lower < new_theta) & (new_theta < integrated.upper)))
    found["theta correlation"] = float(np.corrcoef(abilities.theta, theta)[0, 1])
    return found


def far_coverage(
    covered: NDArray[np.bool_], true: NDArray[np.float64], estimate: NDArray[np.float64]
) -> dict[str, float]:
    """Share that is covered of the items that are far out, and of those that are thought to be."""
    chosen = {"far b coverage": np.abs(true) > FAR, "far estimates of b": np.abs(estimate) > FAR}
    return {name: float(np.mean(covered[far])) for name, far in chosen.items() if far.any()}


def print_exact(numbers: Iterable[int], n: int, seed: int) -> None:
    """Coverage of b by each item's posterior with the true abilities and the true density of the items."""
    names = ("b coverage", "far b coverage", "far estimates of b")
    print("| design | data sets | " + " | ".join(names) + " |\n|" + "---|" * (2 + len(names)))
    for number in numbers:
        design = DESIGNS[number]
        if design.kind == "3pl":
            continue
        found = pd.DataFrame([exact(design, np.random.default_rng([seed, number, k])) for k in range(n)])
        print(f"| {design.name} | {n} | " + " | ".join(share_of(found[name]) for name in names) + " |", flush=True)


def exact(design: Design, rng: np.random.Generator) -> dict[str, float]:
    """Simulate a data set, and take each item's posterior given what is true of all else."""
    truth = ItemParameters.from_difficulty(rng.lognormal(0.2, design.spread, design.n_items), design.difficulties(rng))
    theta = rng.normal(size=design.n_respondents)
    values = torch.tensor(simulate_responses(theta, truth, rng=rng, missing=design.missing).values)
    ability, ones = torch.from_numpy(theta), torch.ones(design.n_items, dtype=torch.float64)
    each = torch.ones(design.n_items, design.n_respondents, dtype=torch.float64)
    asked = ~values.isnan()
    around = Surroundings(  # everybody has a node for himself
        ability, torch.eye(len(ability), dtype=torch.float64), torch.stack([each, each]),
        torch.stack([values == 0, values == 1]).to(torch.int16), ((0, 1), (1, 0)),
    )  # fmt: skip
    right = (torch.nansum(values, dim=0) + 0.5) / (asked.sum(dim=0) + 1)
    start = torch.stack([0 * ones, -torch.logit(right), 0 * ones], dim=1)
    wide = torch.diag(torch.tensor([0.1, 0.5, 0.0], dtype=torch.float64)).expand(len(start), 3, 3)
    grid = ItemGrid.around(start, wide, ones, ones == 0, 0 * ones).with_components([0] * len(design.density.parts))
    priors = Priors("hierarchical", hierarchy=design.density)
    beliefs = Beliefs(around, grid, priors, priors)
    for _ in range(PLACINGS):
        beliefs = replace(beliefs, grid=beliefs.with_levels().grid.placed(priors))
    _, _, quantiles = replace(beliefs, grid=beliefs.grid.on_points).with_levels().grid.estimates([(1.0, priors)])
    lower, median, upper = quantiles[:, :, 1].numpy()
    covered = (lower < truth.difficulty) & (truth.difficulty < upper)
    return {"b coverage": float(np.mean(covered)), **far_coverage(covered, truth.difficulty, median)}


def share_of(values: pd.Series) -> str:
    """A mean over data sets with its standard error."""
    return f"{written(float(values.mean()))} ({written(float(values.sem()))})"


def written(value: object) -> str:
    """A cell of the table."""
    if value is None:
        return ""
    return f"{value:.3f}".lstrip("0") if isinstance(value, float) else str(value)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
