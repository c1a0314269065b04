"""The log-posterior of a fit by its formula, ability by a rectangle rule; its maximum, and its Hessian by autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench import GroupedModel, Priors
from irtbench.estimation.fit_categories import FittedCategories
from irtbench.models.priors import GuessingPrior

NODES = torch.linspace(-7.5, 7.5, 61, dtype=torch.float64)[:, None]
AXIS = torch.linspace(-6.5, 6.5, 33, dtype=torch.float64)  # of each of two abilities


def log_p(kind: str, x: Tensor, theta: Tensor) -> Tensor:
    """Of every category, shape (n_items, n_categories, n_nodes), abilities (n_nodes, n_abilities)."""
    if kind == "nominal":  # a_1, a_2, ..., d_1, d_2, ...
        a, d = x[:, :, None].chunk(2, dim=1)
        z = a * theta[:, 0] + d
        return torch.cat([0 * z[:, :1], z], dim=1).log_softmax(dim=1)
    z, rest = (x[:, : theta.shape[1]] @ theta.T)[:, None], x[:, theta.shape[1] :, None]
    if kind == "gpcm":
        k = torch.arange(rest.shape[1] + 1)[:, None]
        return (k * z + torch.cat([0 * rest[:, :1], rest], dim=1)).log_softmax(dim=1)
    at_least = torch.sigmoid(z + rest)
    if kind == "logistic":  # d, c, u
        at_least = rest[:, 1:2] + (rest[:, 2:] - rest[:, 1:2]) * at_least[:, :1]
    return (-torch.cat([torch.ones_like(z), at_least, 0 * z], dim=1).diff(dim=1)).log()


def counts_of(values: NDArray[np.float64], trials: NDArray[np.int64] | None = None) -> Tensor:
    """How often each respondent gave each category of each item, shape (n_respondents, n_items, n_categories)."""
    if trials is not None:
        right = np.nan_to_num(values)
        return torch.from_numpy(np.stack([trials - right, right], axis=2))
    categories = np.unique(values[~np.isnan(values)])
    return torch.from_numpy((values[:, :, None] == categories).astype(np.float64))


def integral(counts: Tensor, log_p: Tensor, weights: Tensor) -> Tensor:
    """Log-likelihood of each respondent."""
    return torch.logsumexp(torch.einsum("ijc,jcq->iq", counts, log_p) + weights.log(), dim=1)


def total(counts: Tensor, log_p: Tensor, weights: Tensor) -> Tensor:
    """Log-likelihood of all, those with the same responses at once."""
    alike, n = counts.unique(dim=0, return_counts=True)
    return n.double() @ integral(alike, log_p, weights)


def with_testlets(kind: str, counts: Tensor, x: Tensor, testlets: Sequence[object]) -> Tensor:
    """Log-likelihood with a general ability and one of each testlet's own; items in none are with None."""
    counts, n = counts.unique(dim=0, return_counts=True)
    weight, both = torch.softmax(-(AXIS**2) / 2, dim=0), torch.cartesian_prod(AXIS, AXIS)
    at_general = torch.zeros(len(counts), len(AXIS), dtype=torch.float64)
    for name in dict.fromkeys(testlets):
        mine = [j for j, own in enumerate(testlets) if own == name]
        within = torch.einsum("ijc,jcq->iq", counts[:, mine], log_p(kind, x[mine], both))
        at_general = at_general + torch.logsumexp(within.unflatten(1, (len(AXIS),) * 2) + weight.log(), dim=2)
    return n.double() @ torch.logsumexp(at_general + weight.log(), dim=1)


def with_two_abilities(kind: str, counts: Tensor, x: Tensor) -> Tensor:
    """Log-likelihood with two independent abilities."""
    both, weight = torch.cartesian_prod(AXIS, AXIS), torch.softmax(-(AXIS**2) / 2, dim=0)
    return total(counts, log_p(kind, x, both), torch.outer(weight, weight).flatten())


@dataclass(frozen=True)
class Read:
    """A fit of one ability as its tables say it: items, populations, variances, and what of it was estimated."""

    kind: str
    x: Tensor  # (n_items, width): a, d, c, u, or as the model has them
    free: Tensor
    one_slope: bool
    drawn: Tensor  # (n_items,): not anchors
    covariance: NDArray[np.float64]
    population: Tensor  # (n_groups, 2): mean, standard deviation
    free_population: Tensor
    population_error: NDArray[np.float64]
    priors: Priors
    with_prior_of_b: Tensor  # (n_items, 2), NaN where there is none

    @classmethod
    def of(cls, fitted: Any, *, anchored: int = 0) -> Read:
        """The first so many items are anchors."""
        if isinstance(fitted, FittedCategories):
            kind, x, covariance = fitted.items.models[0].name, fitted.parameters, fitted.covariance
            ids, free, one_slope, rasch = fitted.items.item_ids, np.ones(x.shape, dtype=bool), False, False
            moments = fitted.moments
            population, errors = np.array([[0.0, 1.0]]), np.zeros((1, 2))
            if moments is not None:
                population = np.array([[moments.mean, moments.sd]])
                errors = np.array([[moments.se_mean, moments.se_sd]])
            if fitted.groups is not None:
                population = fitted.groups[["mean", "sd"]].to_numpy()
                errors = fitted.groups[["se_mean", "se_sd"]].to_numpy()
            priors = fitted.priors
        else:
            grouped = isinstance(fitted, GroupedModel)
            items, kind = fitted.items[0] if grouped else fitted.items, "logistic"
            upper = np.ones(items.n_items) if items.upper_asymptote is None else items.upper_asymptote
            x = np.stack([items.discrimination, items.intercept, items.guessing, upper], axis=1)
            covariance, ids = np.zeros((len(x), 4, 4)), items.item_ids
            width = items.covariance.shape[1]
            covariance[:, :width, :width] = items.covariance
            rasch, one_slope = "rasch" in items.model, "1pl" in items.model
            free = np.ones(x.shape, dtype=bool)
            free[:, 0] = not (rasch or one_slope)
            free[:, 2], free[:, 3] = items.guessing_estimated, [model == "4pl" for model in items.model]
            of = vars(fitted) if grouped else {name: [value] for name, value in fitted.population.items()}
            population, errors = (np.stack([of[f"{se}mean"], of[f"{se}sd"]], axis=1) for se in ("", "se_"))
            priors = fitted.settings.priors if grouped else fitted.priors
        free[:anchored] = False
        free_population = np.ones(population.shape, dtype=bool)
        free_population[0] = (anchored > 0, anchored > 0 or rasch)
        of_b = np.array([priors.difficulty.get(item, (np.nan, np.nan)) for item in ids])
        return cls(
            kind, torch.from_numpy(np.array(x)), torch.from_numpy(free), one_slope, torch.arange(len(x)) >= anchored,
            covariance, torch.from_numpy(population), torch.from_numpy(free_population),
            errors, priors, torch.from_numpy(of_b),
        )  # fmt: skip

    @property
    def estimates(self) -> Tensor:
        """All that was estimated: of items, the slope that they share, of populations."""
        shared = self.x[-1:, 0] if self.one_slope else self.x[:0, 0]
        return torch.cat([self.x[self.free], shared, self.population[self.free_population]])

    @property
    def errors(self) -> NDArray[np.float64]:
        """Reported standard errors of these."""
        variance = np.diagonal(self.covariance, axis1=1, axis2=2)
        shared = variance[-1:, 0] if self.one_slope else variance[:0, 0]
        of_items = np.concatenate([variance[self.free.numpy()], shared]) ** 0.5
        return np.concatenate([of_items, self.population_error[self.free_population.numpy()]])

    def at(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Items and populations with these estimates, and behind them, if any, those of the anchors."""
        n, m = int(self.free.sum()), int(self.free.sum()) + self.one_slope
        x = self.x.masked_scatter(self.free, values[:n])
        values, known = values[: len(self.estimates)], values[len(self.estimates) :]
        if len(known):
            x = torch.cat([known.view(-1, x.shape[1]), x[self.drawn]])
        if self.one_slope:
            slope = torch.zeros_like(self.free)
            slope[self.drawn, 0] = True
            x = x.masked_scatter(slope, values[n:m].expand(len(x)))
        return x, self.population.masked_scatter(self.free_population, values[m:])

    def log_likelihood(self, values: Tensor, parts: Sequence[Tensor]) -> Tensor:
        """Of the groups' counts."""
        x, population = self.at(values)
        weights = torch.softmax(-(NODES[:, 0] ** 2) / 2, dim=0)
        each = [total(part, log_p(self.kind, x, m + s * NODES), weights)
                for part, (m, s) in zip(parts, population, strict=True)]  # fmt: skip
        return torch.stack(each).sum()

    def log_prior(self, values: Tensor) -> Tensor:
        """Normal of slopes and intercepts (of a graded item the first), or of difficulties; of logits of c and u."""
        x, population = self.at(values)
        own, total = x[self.drawn], values.new_zeros(())
        rasch = self.kind == "logistic" and not self.free[-1, 0] and not self.one_slope
        n = own.shape[1] // 2 if self.kind == "nominal" else 1
        slopes = population[0, 1:] if rasch else own[:1, 0] if self.one_slope else own[:, :n].flatten()
        last = {"logistic": 2, "grm": 2}.get(self.kind, own.shape[1])
        if self.priors.slope is not None:
            total = total + normal(slopes, *self.priors.slope).sum()
        of_b = self.with_prior_of_b[self.drawn]
        plain = of_b[:, 0].isnan()
        if self.priors.intercept is not None:
            total = total + normal(own[plain, n:last], *self.priors.intercept).sum()
        if not bool(plain.all()):
            total = total + normal(-own[~plain, 1] / own[~plain, 0], *of_b[~plain].T).sum()
        for column, density in ((2, self.priors.guessing), (3, self.priors.upper)):
            if self.kind == "logistic" and density is not None:
                total = total + of_logit(own[self.free[self.drawn, column], column], density).sum()
        return total


def normal(x: Tensor, mean: Any, deviation: Any) -> Tensor:
    """Log density but for a constant."""
    return -(((x - mean) / deviation) ** 2) / 2


def of_logit(x: Tensor, density: GuessingPrior) -> Tensor:
    """Log density of the logit of x but for a constant: of a Beta density x^alpha (1 - x)^beta."""
    if density.density == "normal":
        return normal(torch.logit(x), density.first, density.second)
    return density.first * x.log() + density.second * torch.log1p(-x)


def assert_by_hand(
    fitted: Any,
    parts: Sequence[Tensor],
    *,
    anchors: NDArray[np.float64] | None = None,
    within: float = 1e-4,
    rtol: float = 1e-3,
) -> None:
    """The likelihood is the integral, the estimates are its maximum, and their errors those of its Hessian.

    `anchors` are covariances of the parameters of the first items, which are known.
    """
    anchored = 0 if anchors is None else len(anchors)
    read = Read.of(fitted, anchored=anchored)
    at = read.estimates
    assert fitted.n_parameters == len(at)
    assert fitted.log_likelihood == pytest.approx(float(read.log_likelihood(at, parts)), abs=within)

    def posterior(values: Tensor) -> Tensor:
        return read.log_likelihood(values, parts) + read.log_prior(values)

    known = None
    if anchors is not None:
        known = torch.zeros(anchored, read.x.shape[1], read.x.shape[1], dtype=torch.float64)
        known[:, : anchors.shape[1], : anchors.shape[1]] = torch.from_numpy(anchors.copy())
    whole = torch.cat([at, read.x[:anchored].flatten()])
    demand_a_maximum(posterior, whole, read.errors, known, within=10 * within, rtol=rtol)


def demand_a_maximum(
    posterior: Callable[[Tensor], Tensor],
    at: Tensor,
    errors: NDArray[np.float64],
    known: Tensor | None = None,
    *,
    within: float,
    rtol: float,
) -> None:
    """The gradient is nothing, in standard errors, and these are of the inverse of minus the Hessian.

    With covariances of what is known, the last of the values, H^-1 + H^-1 C S C' H^-1.
    """
    own = slice(len(errors))
    gradient = torch.autograd.functional.jacobian(posterior, at)[own]
    hessian = -torch.autograd.functional.hessian(posterior, at, vectorize=False)
    covariance = torch.linalg.inv(hessian[own, own])
    distance = float(gradient @ covariance @ gradient) ** 0.5
    assert distance < within
    if known is not None:
        moved = covariance @ hessian[own, len(errors) :]
        covariance = covariance + moved @ torch.block_diag(*known) @ moved.T
    np.testing.assert_allclose(errors, covariance.diagonal().sqrt(), rtol=rtol)
