"""The posterior of each item's log |a| and d by quadrature, where items are many and so abilities are well known.

With a dozen respondents an item's posterior is far from normal: its mode lies well below its mean, and a prior learnt
from modes and curvatures narrows for ever. With thousands of items, on the other hand, abilities are known to a few
hundredths, and given them every item is a logistic regression on its own, whose two-dimensional posterior adaptive
Gauss-Hermite quadrature integrates exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from irtbench.estimation.mode import Problem
from irtbench.estimation.response_rows import DenseRows
from irtbench.models.priors import Hierarchy

NODES_PER_AXIS = 7
KNOWN = 0.15  # abilities count as known if the root mean square of their posterior standard deviations is below this
MOST_CELLS = 4 * 10**8  # respondents x items x nodes, beyond which the normal approximation has to do
CHUNK_CELLS = 2**21  # of them at once
NEWTON_STEPS = 4
EM_STEPS = 3  # of the prior with the nodes as they lie


@dataclass(frozen=True)
class ItemQuadrature:
    """Nodes of each item's posterior with its likelihood there.

    Parameters
    ----------
    nodes
        Values of (log |a|, d), shape (n_items, n_nodes, 2).
    log_weights
        Log-likelihood of the item's responses at the node, plus the log weight of the node (its area of the plane),
        shape (n_items, n_nodes); the prior is not in it.
    sign
        Of a, shape (n_items,).
    """

    nodes: Tensor
    log_weights: Tensor
    sign: Tensor

    def log_mass(self, hierarchy: Hierarchy) -> Tensor:
        """Log of likelihood times prior times area at each node, but for a constant, shape (n_items, n_nodes)."""
        precision = torch.linalg.inv(self.nodes.new_tensor(hierarchy.covariance))
        excess = self.nodes - self.nodes.new_tensor(hierarchy.mean)
        return self.log_weights - 0.5 * ((excess @ precision) * excess).sum(dim=2)

    def mass(self, hierarchy: Hierarchy) -> Tensor:
        """Posterior mass of each node under this prior, shape (n_items, n_nodes), rows summing to 1."""
        return torch.softmax(self.log_mass(hierarchy), dim=1)

    def log_evidence(self, hierarchy: Hierarchy) -> Tensor:
        """Log marginal likelihood of each item under this prior, but for a constant, shape (n_items,)."""
        return torch.logsumexp(self.log_mass(hierarchy), dim=1)

    def learn(self, hierarchy: Hierarchy) -> Hierarchy:
        """A bivariate normal density of (log |a|, d) under which the items are likelier: a few steps of EM.

        Only a few, since the nodes lie where the items' posteriors are under the density that they were laid for.
        """
        for _ in range(EM_STEPS):
            mass = self.mass(hierarchy)
            mean = torch.einsum("jg,jgk->k", mass, self.nodes) / len(mass)
            excess = self.nodes - mean
            total = torch.einsum("jg,jgk,jgl->kl", mass, excess, excess) / len(mass)
            deviation = torch.diagonal(total).sqrt()
            hierarchy = Hierarchy(
                (float(mean[0]), float(mean[1])),
                (float(deviation[0]), float(deviation[1])),
                float(total[0, 1] / (deviation[0] * deviation[1])),
            )
        return hierarchy

    def moments(self, hierarchy: Hierarchy) -> tuple[Tensor, Tensor]:
        """Posterior mean of (a, d) and their covariance, shapes (n_items, 2) and (n_items, 2, 2)."""
        mass = self.mass(hierarchy)
        values = torch.stack([self.sign[:, None] * self.nodes[:, :, 0].exp(), self.nodes[:, :, 1]], dim=2)
        mean = torch.einsum("jg,jgk->jk", mass, values)
        excess = values - mean[:, None, :]
        return mean, torch.einsum("jg,jgk,jgl->jkl", mass, excess, excess)


def largest_change(before: Hierarchy, after: Hierarchy) -> float:
    """Largest change of a standard deviation or the correlation; the mean is theta's origin and unit."""
    return max(
        abs(after.deviation[0] - before.deviation[0]),
        abs(after.deviation[1] - before.deviation[1]),
        abs(after.correlation - before.correlation),
    )


def known_abilities(problem: Problem, parameters: Tensor) -> Tensor | None:
    """Posterior means of theta, shape (n_respondents,); None where theta is not known well enough to be taken as given.

    That is so where the root mean square of the posterior standard deviations is above .15, an item is guessed, rows
    are sparse, or the data are so large that the normal approximation does.
    """
    if problem.guesses or not isinstance(problem.rows, DenseRows):
        return None
    if len(problem.rows) * problem.rows.n_items * NODES_PER_AXIS**2 > MOST_CELLS:
        return None
    nodes = replace(problem.nodes, dtype=torch.float64)
    row = replace(problem, nodes=nodes).row(parameters)
    theta = nodes.theta[:, 0]
    means, variances = [], []
    for batch in problem.batches(dtype=torch.float64):
        posterior = torch.softmax(row.log_shape(batch.correct, batch.observed), dim=1)
        mean = posterior @ theta
        means.append(mean)
        variances.append(posterior @ theta**2 - mean**2)
    spread = float(torch.cat(variances).mean().clamp(min=0).sqrt())
    return torch.cat(means) if spread < KNOWN else None


def item_quadrature(problem: Problem, parameters: Tensor, theta: Tensor, hierarchy: Hierarchy) -> ItemQuadrature:
    """Lay nodes around each item's mode under this prior, as wide as the curvature there, abilities being given.

    Parameters
    ----------
    problem
        The data.
    parameters
        Slopes and intercepts to start from, shape (n_items, 3).
    theta
        Abilities, shape (n_respondents,).
    hierarchy
        The prior.
    """
    assert isinstance(problem.rows, DenseRows)
    axis, weights = np.polynomial.hermite_e.hermegauss(NODES_PER_AXIS)
    offsets = torch.from_numpy(np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)).to(theta)
    log_weights = torch.from_numpy(np.log(np.outer(weights, weights)).reshape(-1)).to(theta)
    log_weights = log_weights + 0.5 * (offsets**2).sum(dim=1)
    sign = torch.where(parameters[:, 0] < 0, -1.0, 1.0).to(theta)
    start = torch.stack([parameters[:, 0].abs().log(), parameters[:, -2]], dim=1)
    most = max(1, CHUNK_CELLS // (len(theta) * len(offsets)))
    nodes, levels = [], []
    for at, signs, rows in zip(start.split(most), sign.split(most), problem.rows.values.T.split(most), strict=True):
        right, wrong = (rows == 1).to(theta), (rows == 0).to(theta)
        place, factor = mode_of_each(at, signs, right, wrong, theta, hierarchy)
        laid = place[:, None, :] + offsets @ factor.transpose(1, 2)
        slope = signs[:, None] * laid[:, :, 0].exp()
        z = slope[:, :, None] * theta + laid[:, :, 1:]
        level = (right[:, None, :] * logsigmoid(z) + wrong[:, None, :] * logsigmoid(-z)).sum(dim=2)
        nodes.append(laid)
        levels.append(level + log_weights + torch.diagonal(factor, dim1=1, dim2=2).log().sum(dim=1, keepdim=True))
    return ItemQuadrature(torch.cat(nodes), torch.cat(levels), sign)


def likelier_signs(problem: Problem, parameters: Tensor, theta: Tensor, hierarchy: Hierarchy) -> Tensor:
    """Parameters with the slopes that are negative for no good reason made positive, abilities being given.

    With a dozen respondents the correlation that the start had its sign from is negative by chance for many items. An
    item stays reversed where its marginal likelihoods with either sign say so against the odds, which are the share of
    reversed items.
    """
    reversed_ = parameters[:, 0] < 0
    turned = torch.where(reversed_[:, None], parameters * parameters.new_tensor([-1.0, 1.0, 1.0]), parameters)
    as_it_is = item_quadrature(problem, parameters, theta, hierarchy).log_evidence(hierarchy)
    against = item_quadrature(problem, turned, theta, hierarchy).log_evidence(hierarchy) - as_it_is
    while bool(reversed_.any()):
        share = float(reversed_.double().mean().clamp(max=0.5))
        stays = reversed_ & (against < math.log(share / (1 - share)))
        if bool((stays == reversed_).all()):
            break
        reversed_ = stays
    return torch.where((parameters[:, :1] < 0) & ~reversed_[:, None], turned, parameters)


def mode_of_each(
    start: Tensor, sign: Tensor, right: Tensor, wrong: Tensor, theta: Tensor, hierarchy: Hierarchy
) -> tuple[Tensor, Tensor]:
    """Mode of (log |a|, d) of each item by Newton's method, and the root of the inverse curvature there.

    Shapes (n_items, 2) and (n_items, 2, 2). The curvature is the expected one, which is positive.
    """
    precision = torch.linalg.inv(theta.new_tensor(hierarchy.covariance))
    centre = theta.new_tensor(hierarchy.mean)
    at = start.clone()
    for step in range(NEWTON_STEPS + 1):
        slope = (sign * at[:, 0].exp())[:, None]
        s = torch.sigmoid(slope * theta + at[:, 1:])
        observed = right + wrong
        residual, weight = right - observed * s, observed * s * (1 - s)
        across = (weight * slope * theta).sum(dim=1)
        curvature = torch.stack(
            [
                torch.stack([(weight * (slope * theta) ** 2).sum(dim=1), across], dim=1),
                torch.stack([across, weight.sum(dim=1)], dim=1),
            ],
            dim=1,
        )
        inverse = torch.linalg.inv(curvature + precision)
        if step == NEWTON_STEPS:
            break
        gradient = torch.stack([(residual * slope * theta).sum(dim=1), residual.sum(dim=1)], dim=1)
        move = inverse @ (gradient - (at - centre) @ precision)[:, :, None]
        at = at + move[:, :, 0].clamp(-1.0, 1.0)
    return at, torch.linalg.cholesky(inverse)
