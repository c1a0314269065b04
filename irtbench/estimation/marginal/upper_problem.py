"""What a fit with upper asymptotes works on: the 4PL, P = c + (u - c) / (1 + exp(-(a theta + d))).

The E step is that of the 3PL with other curves. In matrices of parameters the logit of u is a column of its own behind
the slope's, as if it were a second slope, and takes the same steps: (a, logit u, d, c).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyro.distributions as dist
import torch
from torch import Tensor

from irtbench.estimation.marginal.e_step import Counts
from irtbench.estimation.marginal.m_step import ItemDerivatives
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.curve_formulas import CurveToUpper
from irtbench.models.curve_tensors import curve_to_upper
from irtbench.models.pyro_model.collapsed import CollapsedToUpper
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.pyro_model.node_tensors import NodeTensors
from irtbench.models.pyro_model.rows import ResponseRows, as_rows
from irtbench.models.pyro_model.sites import (
    ItemModel,
    ItemPrior,
    density_derivatives,
    is_flat,
    item_prior,
    log_densities,
    observed_site,
    trace_sites,
    without_independent,
)

UPPER_SITE = "upper_logit"
SLOPE, UPPER, INTERCEPT = 0, 1, 2  # columns; the last is c


def without_upper(parameters: ItemTensors) -> ItemTensors:
    """Slope, intercept and c alone."""
    return ItemTensors(parameters.slope[:, :1], parameters.intercept, parameters.guessing)


def with_upper(items: ItemTensors, upper_logit: Tensor) -> ItemTensors:
    """The inverse of `without_upper`."""
    slope = torch.cat([items.slope, upper_logit[:, None]], dim=1)
    return ItemTensors(slope, items.intercept, items.guessing)


@dataclass(frozen=True)
class UpperPrior(ItemPrior):
    """Prior densities of items with upper asymptotes.

    Parameters
    ----------
    items
        What the sites say of slope, intercept and guessing.
    upper
        The density of each logit of u.
    """

    items: ItemPrior
    upper: dist.TorchDistribution

    @classmethod
    def of(cls, items: ItemPrior, upper: dist.TorchDistribution) -> UpperPrior:
        """Extend the prior of items."""
        fixed = with_upper(items.fixed, torch.zeros_like(items.fixed.intercept))
        return cls(items.densities, items.guessing_free, fixed, None, None, items, upper)

    def values_of(self, items: ItemTensors) -> dict[str, Tensor]:
        """Values of the model's sites."""
        return self.items.values_of(without_upper(items)) | {UPPER_SITE: items.slope[:, UPPER]}

    def items_of(self, values: Mapping[str, Tensor]) -> ItemTensors:
        """Items at these values of the model's sites."""
        return with_upper(self.items.items_of(values), values[UPPER_SITE])

    def log_density(self, items: ItemTensors) -> Tensor:
        """Log prior density, on the scale of the logits."""
        total = self.items.log_density(without_upper(items))
        return total if is_flat(self.upper) else total + log_densities(self.upper, items.slope[:, UPPER]).sum()

    def derivatives(self, items: ItemTensors, *, by_logit: bool, positive: bool = True) -> tuple[Tensor, Tensor]:
        """Those of `ItemPrior`, and by the logit of u."""
        own, own_information = self.items.derivatives(without_upper(items), by_logit=by_logit, positive=positive)
        kept = torch.tensor([SLOPE, INTERCEPT, 3], device=own.device)
        gradient = own.new_zeros(len(items), 4)
        information = own.new_zeros(len(items), 4, 4)
        gradient[:, kept] = own
        information[:, kept[:, None], kept] = own_information
        if not is_flat(self.upper):
            first, second = density_derivatives(self.upper, items.slope[:, UPPER])
            gradient[:, UPPER], information[:, UPPER, UPPER] = first, second.clamp(min=0) if positive else second
        return gradient, information


@dataclass(frozen=True)
class UpperProblem(Problem):
    """A problem whose items all have an upper asymptote."""

    @classmethod
    def of(cls, model: ItemModel, rows: Tensor | ResponseRows, nodes: NodeTensors) -> UpperProblem:
        """Trace the model once."""
        drawn, trace = trace_sites(model, rows, nodes)
        upper = without_independent(drawn.pop(UPPER_SITE)["fn"])
        prior = item_prior(drawn, observed_site(trace)["fn"].items)
        return cls(model, as_rows(rows), nodes, UpperPrior.of(prior, upper))

    @cached_property
    def free(self) -> Tensor:
        """Which parameters are estimated: all, shape (n_items, 4)."""
        return torch.ones(len(self.guessing_free), 4, dtype=torch.bool, device=self.guessing_free.device)

    @cached_property
    def identity(self) -> Tensor:
        """Shape (4, 4)."""
        return torch.eye(4, dtype=torch.float64, device=self.guessing_free.device)

    def rate(self, items: ItemTensors) -> Tensor:
        """Derivative of each item's logit by theta, shape (n_items, 1)."""
        return items.slope[:, :1]

    def row(self, items: ItemTensors) -> CollapsedToUpper:
        """The distribution of a respondent's row at these items."""
        slope, upper_logit = items.slope[:, :1], items.slope[:, UPPER]
        return CollapsedToUpper(slope, items.intercept, items.guessing.log(), upper_logit, self.nodes)

    def curve(self, items: ItemTensors) -> CurveToUpper[Tensor]:
        """The curves at the nodes."""
        upper = torch.sigmoid(items.slope[:, UPPER, None])
        return curve_to_upper(without_upper(items).logits(self.nodes.basis), items.guessing[:, None], upper)

    def held(self, items: ItemTensors) -> HeldUpper:
        """The same with upper asymptotes held, for whatever places and checks nodes."""
        assert isinstance(self.prior, UpperPrior)
        return HeldUpper(self.model, self.rows, self.nodes, self.prior.items, upper_logit=items.slope[:, UPPER])


@dataclass(frozen=True)
class HeldUpper(Problem):
    """A problem of items without the column of u, which is known.

    What an item tells of ability is taken to be that of a 3PL, which is more: nodes are no wider apart than need be.

    Parameters
    ----------
    upper_logit
        Logit of u, shape (n_items,).
    """

    upper_logit: Tensor | None = None

    def row(self, items: ItemTensors) -> CollapsedToUpper:
        """The distribution of a respondent's row at these items."""
        assert self.upper_logit is not None
        return CollapsedToUpper(items.slope, items.intercept, items.guessing.log(), self.upper_logit, self.nodes)


def upper_derivatives(problem: UpperProblem, items: ItemTensors, counts: Counts) -> ItemDerivatives:
    """Derivatives at these items and the counts there, as `item_derivatives` has them for the 3PL."""
    nodes, n, at = problem.nodes, counts.n, problem.curve(items)
    assert counts.r is not None
    r, wrong, theta = counts.r, counts.n - counts.r, nodes.theta[:, 0]
    gradient, information = problem.prior.derivatives(items, by_logit=False)
    by_z = r * at.log_p_z + wrong * at.log_q_z
    by_upper = r * at.log_p_v + wrong * at.log_q_v
    by_guessing = r * at.log_p_c + wrong * at.log_q_c
    gradient += torch.stack([by_z @ theta, by_upper.sum(dim=1), by_z.sum(dim=1), by_guessing.sum(dim=1)], dim=1)
    # each column's derivative of P is that by z times theta or 1, by logit u, or by c
    factors = (theta, torch.ones_like(theta), torch.ones_like(theta), torch.ones_like(theta))
    expected = {
        (0, 0): at.information_zz, (0, 1): at.information_zv, (0, 3): at.information_zc,
        (1, 1): at.information_vv, (1, 3): at.information_cv, (3, 3): at.information_cc,
    }  # fmt: skip
    of_z = {SLOPE: 0, UPPER: 1, INTERCEPT: 0, 3: 3}
    for first in range(4):
        for second in range(first, 4):
            low, high = sorted((of_z[first], of_z[second]))
            total = (n * expected[low, high]) @ (factors[first] * factors[second])
            information[:, first, second] += total
            if first != second:
                information[:, second, first] += total
    weights = (n * at.information_zz * theta, n * at.information_zv, n * at.information_zz, n * at.information_zc)
    missing = torch.stack(weights, dim=1) @ nodes.bins
    rate = problem.rate(items)
    precision = counts.respondents @ nodes.bins + (rate.square() * missing[:, INTERCEPT]).sum(dim=0)
    missing *= rate[:, None, :] * precision.clamp(min=1e-300).rsqrt()
    return ItemDerivatives(items, gradient, information, missing, precision)


def upper_curve_derivatives(problem: UpperProblem, items: ItemTensors) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """First and second derivatives of log P and log(1 - P) by (a, logit u, d, logit c), see `curve_derivatives`."""
    at, theta = problem.curve(items), problem.nodes.theta[:, 0]
    one = torch.ones_like(theta)
    factors = (theta, one, one, one)
    firsts, seconds = [], []
    right = (at.log_p_z, at.log_p_v, at.log_p_l, at.log_p_zz, at.log_p_zv, at.log_p_zl)
    wrong = (at.log_q_z, at.log_q_v, at.log_q_l, at.log_q_zz, at.log_q_zv, at.log_q_zl)
    for z, v, c, zz, zv, zc, vv, cv, cc in (
        (*right, at.log_p_vv, at.log_p_lv, at.log_p_ll),
        (*wrong, at.log_q_vv, at.log_q_lv, at.log_q_ll),
    ):
        by = ((zz, zv, zz, zc), (zv, vv, zv, cv), (zz, zv, zz, zc), (zc, cv, zc, cc))
        firsts.append(torch.stack([part * factor for part, factor in zip((z, v, z, c), factors, strict=True)], dim=2))
        rows = [torch.stack([by[k][m] * factors[k] * factors[m] for m in range(4)], dim=2) for k in range(4)]
        seconds.append(torch.stack(rows, dim=2))
    return firsts[0], firsts[1], seconds[0], seconds[1]


def upper_at(items: ItemTensors) -> Tensor:
    """U itself, shape (n_items,)."""
    return torch.sigmoid(items.slope[:, UPPER])


def with_natural_scales(items: ItemTensors, covariance: Tensor) -> Tensor:
    """Covariance of (a, d, c, u) from that of (a, logit u, d, logit c), shape (n_items, 4, 4)."""
    c, u = items.guessing, upper_at(items)
    one = torch.ones_like(c)
    scale = torch.stack([one, u * (1 - u), one, c * (1 - c)], dim=1)
    order = torch.tensor([SLOPE, INTERCEPT, 3, UPPER], device=c.device)
    scaled = covariance * scale[:, :, None] * scale[:, None, :]
    return scaled[:, order][:, :, order]
