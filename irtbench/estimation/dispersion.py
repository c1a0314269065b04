"""Repeated trials that are more alike than independent ones: a 2PL with dispersion, and whether it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import betaln, chdtrc, logsumexp

from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError, demand_choice, refuse_any
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.data.shown import counted
from irtbench.estimation.doubts import outnumbered
from irtbench.estimation.fit import fit_model
from irtbench.estimation.fit_categories import fit_categories
from irtbench.estimation.fitted import FittedItems, software_versions
from irtbench.estimation.settings import Device
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.coded_scores import MOST_CATEGORIES
from irtbench.models.item_models.beta_binomial import BetaBinomial
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.quadrature import normal_grid

Dispersion = Literal["scale", "item"]
MOST_TRIALS = MOST_CATEGORIES - 1
SAME = 1e-6  # difference of log-likelihoods that is none
PROBE = 1e-3  # dispersion that is tried first
NODES = normal_grid(121, bound=8.0)
NONE = 1e-5  # dispersion below which trials are as good as independent


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedTrials(FittedItems):
    """A 2PL of k right of n trials with beta-binomial dispersion.

    Parameters
    ----------
    item_ids
        The items.
    parameters, covariance
        Slope, intercept and dispersion rho of each, shape (n_items, 3), and their sampling covariance, (n_items, 3, 3);
        None where it was not computed.
    by
        Whether one dispersion is of the whole scale, or every item has its own.
    log_likelihood, log_likelihood_binomial
        Of the numbers right, binomial coefficients included, with dispersion and without (rho = 0).
    n_respondents, status
        Size of the data, and how the iterations ended.
    doubts
        Why standard errors and intervals may be too small.
    """

    item_ids: tuple[str, ...]
    parameters: NDArray[np.float64]
    covariance: NDArray[np.float64] | None
    by: Dispersion
    log_likelihood_binomial: float

    @property
    def n_dispersions(self) -> int:
        """How many are estimated."""
        return 1 if self.by == "scale" else len(self.item_ids)

    @property
    def n_parameters(self) -> int:
        """Slopes, intercepts and dispersions."""
        return 2 * len(self.item_ids) + self.n_dispersions

    @property
    def likelihood_ratio(self) -> float:
        """Twice the difference of the log-likelihoods, 0 at least."""
        return max(0.0, 2 * (self.log_likelihood - self.log_likelihood_binomial))

    @property
    def p(self) -> float:
        """P of the likelihood ratio without dispersion.

        rho = 0 is at the end of its range: see `p_on_boundary`.
        """
        return p_on_boundary(self.likelihood_ratio * (self.likelihood_ratio > SAME), self.n_dispersions)

    def of_trials(self, trials: NDArray[np.int64]) -> tuple[ItemParameters, list[tuple[int, int]]]:
        """An item for each item and number of its trials that occurs, and which they are."""
        cells = cells_of(trials)
        rows = [j for j, _ in cells]
        found = CategoryParameters(
            tuple(named(self.item_ids[j], n) for j, n in cells),
            tuple(BetaBinomial(n) for _, n in cells),
            tuple(tuple(range(n + 1)) for _, n in cells),
            np.stack(
                [BetaBinomial(1).unbounded(np.maximum(own, [-np.inf, -np.inf, NONE])) for own in self.parameters[rows]]
            ),
            np.full(len(rows), 3),
            None if self.covariance is None else self.covariance[rows],
        )
        return found.as_items(), cells

    def matrix(self, responses: ResponsesLike) -> tuple[ResponseMatrix, ItemParameters]:
        """Responses and items as `estimate_ability` takes them: a column for each number of an item's trials.

        Raises
        ------
        InputError
            If the responses have an item that was not fitted, or other items than these.
        """
        data = as_responses(responses).select_items(self.item_ids)
        items, cells = self.of_trials(data.n_trials.astype(np.int64))
        return split(data, cells, items.item_ids), items

    def table(self) -> pd.DataFrame:
        """One row an item: ``item_id, model, discrimination, difficulty, dispersion`` and their standard errors."""
        items, _ = self.of_trials(np.ones((1, len(self.item_ids)), dtype=np.int64))
        assert items.categories is not None
        found = items.categories.table().drop(columns=["n_categories", "categories"])
        return found.assign(item_id=self.item_ids)

    def summary(self) -> dict[str, Any]:
        """What fit.json holds."""
        return {
            **self.criteria(),
            "dispersion": self.by,
            "log_likelihood_binomial": self.log_likelihood_binomial,
            "likelihood_ratio": self.likelihood_ratio,
            "p_dispersion": self.p,
            "prior": "none",
            "doubts": list(self.doubts),
            "converged": self.converged,
            "stopped_because": self.stopped_because,
            "versions": software_versions(),
        }

    def in_short(self) -> str:
        """Items, dispersion, and the test of it."""
        rho = self.parameters[:, 2]
        value = f"{rho[0]:.3f}" if self.by == "scale" else f"{rho.min():.3f} to {rho.max():.3f}"
        p = f"p {self.p:.2f}" if self.p >= 0.01 else "p below .01"
        ended = "" if self.converged else ", NOT CONVERGED"
        return f"{counted(len(self.item_ids), 'item')}, dispersion {value}, {p} of none{ended}"


def fit_trials(
    responses: ResponsesLike, dispersion: Dispersion = "scale", *, device: Device = "auto", seed: int = 0
) -> FittedTrials:
    """Estimate a 2PL of k right of n trials that scatter more than binomial, by marginal maximum likelihood.

    Trials of a respondent at an item are alike where what makes it hard for this respondent is the same each time:
    k of n is then beta-binomial, of mean n P(theta) and variance n P (1 - P) (1 + (n - 1) rho), with P of the 2PL. With
    rho = 0 it is `fit_model`. Standard errors of ability that take n trials for n pieces of evidence are too small.

    Parameters
    ----------
    responses
        Numbers right of several trials, at most 99 each; any may be missing.
    dispersion
        One rho for the ``scale``, or one for each ``item``.
    device, seed
        As in `FitSettings`.

    Raises
    ------
    InputError
        If there is one response each, or to an item of a dispersion of its own, there are more trials, or as
        `fit_model`.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> p = 1 / (1 + np.exp(-(rng.normal(size=(300, 1)) - np.linspace(-1, 1, 8))))
    >>> p = rng.beta(p * 3, (1 - p) * 3)  # rho = 1 / (1 + 3)
    >>> names = [f"r{k}" for k in range(300)], [f"i{k}" for k in range(8)]
    >>> trials = np.full(p.shape, 5)
    >>> data = irtbench.ResponseMatrix(rng.binomial(trials, p).astype(float), *map(tuple, names), trials)
    >>> irtbench.fit_trials(data)
    <FittedTrials: 8 items, dispersion 0.250, p below .01 of none>
    """
    demand_choice("trials: dispersion", dispersion, Dispersion)
    data = as_responses(responses)
    if data.trials is None:
        raise InputError("trials: one response each; expected several trials, whose scatter shows dispersion")
    once, most = [data.item_ids[j] for j in np.flatnonzero(data.trials.max(axis=0) < 2)], data.trials.max()
    refuse_any((
        (dispersion == "item" and once != [],
         f"trials: one of item {name_first(once)}; expected several of each, or dispersion scale"),
        (most > MOST_TRIALS, f"trials: {most} of an item; expected at most {MOST_TRIALS} for a dispersion"),
    ))  # fmt: skip
    binomial = fit_model(data, device=device, seed=seed)
    plain, likelihood = binomial.items, binomial.log_likelihood + binomial.log_binomial_coefficients
    none = FittedTrials(
        item_ids=data.item_ids,
        parameters=np.stack([plain.discrimination, plain.intercept, np.zeros(data.n_items)], axis=1),
        covariance=plain.covariance, by=dispersion, log_likelihood=likelihood, log_likelihood_binomial=likelihood,
        n_respondents=data.n_respondents, n_by_item=data.n_by_item, nodes=binomial.nodes, status=binomial.status,
        doubts=outnumbered(data.n_items, data.n_respondents), seed=seed,
    )  # fmt: skip
    if dispersion == "scale" and scatters_less(none, data):
        return none
    found = scattering(none, data, device=device, seed=seed)
    return none if found.parameters[:, 2].max() < NONE else found


def scattering(none: FittedTrials, data: ResponseMatrix, *, device: Device, seed: int) -> FittedTrials:
    """The fit with dispersion: an item in categories for each number of trials, those of an item being equal."""
    cells = cells_of(data.n_trials.astype(np.int64))
    names = [named(data.item_ids[j], n) for j, n in cells]
    by_item = [[name for name, (of, _) in zip(names, cells, strict=True) if of == j] for j in range(data.n_items)]
    equal = [[(name, part) for name in own] for own in by_item if len(own) > 1 for part in ("a", "d")]
    alike = [names] if none.by == "scale" else by_item
    equal += [[(name, "rho") for name in own] for own in alike if len(own) > 1]
    fitted = fit_categories(
        pd.DataFrame(split(data, cells, names).correct, index=list(data.respondent_ids), columns=names),
        {name: BetaBinomial(n) for name, (_, n) in zip(names, cells, strict=True)},
        levels={name: range(n + 1) for name, (_, n) in zip(names, cells, strict=True)},
        equal=equal, device=device, seed=seed,
    )  # fmt: skip
    first, items = [names.index(own[0]) for own in by_item], fitted.items
    return replace(
        none, parameters=items.parameters[first], log_likelihood=fitted.log_likelihood, status=fitted.status,
        covariance=None if items.covariance is None else items.covariance[first],
    )  # fmt: skip


def p_on_boundary(statistic: float, n_variances: int) -> float:
    """P(T >= statistic) of a likelihood ratio where so many variances are 0, the end of their range.

    T is chi-square, its degrees of freedom binomial(n_variances, 1/2): for one half of 0 and half of 1 (Self & Liang,
    1987).
    """
    degrees = np.arange(1, n_variances + 1)
    # n over k of 1,100 items has no floating point number
    ways = -np.log1p(n_variances) - betaln(n_variances - degrees + 1, degrees + 1)
    weights = np.exp(ways - n_variances * np.log(2))
    return float(weights @ chdtrc(degrees, statistic)) if statistic > 0 else 1.0


def cells_of(trials: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Each item with each number of its trials that occurs."""
    return [(j, int(n)) for j in range(trials.shape[1]) for n in np.unique(trials[:, j]) if n]


def scatters_less(none: FittedTrials, data: ResponseMatrix) -> bool:
    """Whether a little dispersion makes the responses less likely: it is then estimated as none."""

    def log_likelihood(rho: float) -> float:
        shifted = replace(none, parameters=none.parameters + np.array([0.0, 0.0, rho]))
        responses, items = shifted.matrix(data)
        assert items.categories is not None
        joint = items.categories.log_likelihood(responses.correct, NODES.nodes) + NODES.log_weights
        return float(logsumexp(joint, axis=1).sum())

    return log_likelihood(PROBE) <= log_likelihood(NONE)


def named(item: str, n: int) -> str:
    """A name for the trials of an item of which there are n."""
    return f"{item} ({counted(n, 'trial')})"


def split(data: ResponseMatrix, cells: Sequence[tuple[int, int]], names: Sequence[str]) -> ResponseMatrix:
    """The numbers right with a column for each item and number of its trials."""
    assert data.trials is not None
    columns = np.array([j for j, _ in cells]), np.array([n for _, n in cells])
    there = data.trials[:, columns[0]] == columns[1]
    values = np.where(there, data.correct[:, columns[0]], np.nan)
    return ResponseMatrix(values, data.respondent_ids, tuple(names), np.where(there, columns[1], 0))
