"""The Pyro model: 2PL and 3PL with ability integrated out.

There is one model. An item's lower asymptote is free (3PL), or held at a value; held at zero the item is a 2PL.
A respondent's row is one draw from `CollapsedLogistic`, so inference is over items only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyro
import pyro.distributions as dist
import torch
from pyro.distributions import constraints
from torch import Tensor
from torch.nn.functional import logsigmoid

from irtbench.data.responses import ResponseMatrix
from irtbench.models.priors import Priors
from irtbench.models.quadrature import Quadrature

MISSING = -1


def encode_responses(responses: ResponseMatrix, device: torch.device) -> Tensor:
    """Responses as one byte each: 1, 0, or -1 where missing, shape (n_respondents, n_items)."""
    small = np.where(responses.observed, responses.values, MISSING).astype(np.int8)
    return torch.from_numpy(small).to(device)


@dataclass(frozen=True)
class NodeTensors:
    """A quadrature on a device, in float64, and the precision of the sums over respondents.

    Parameters
    ----------
    theta
        Abilities, shape (n_nodes, n_factors).
    log_weights
        Logarithm of the population's mass at each node, shape (n_nodes,).
    dtype
        Precision of the products over respondents and items.
    """

    theta: Tensor
    log_weights: Tensor
    dtype: torch.dtype = torch.float64

    @classmethod
    def from_quadrature(cls, quadrature: Quadrature, *, dtype: torch.dtype, device: torch.device) -> NodeTensors:
        """Copy a shared one-dimensional quadrature to the device."""
        return cls(
            torch.as_tensor(quadrature.nodes, dtype=torch.float64, device=device)[:, None],
            torch.as_tensor(quadrature.log_weights, dtype=torch.float64, device=device),
            dtype,
        )


class CollapsedLogistic(dist.TorchDistribution):
    """A respondent's row of responses, ability integrated out.

    log p(x) = log sum_q w_q prod_j P_j(theta_q)^x_j (1 - P_j(theta_q))^(1 - x_j), missing factors left out, with
    P = c + (1 - c) / (1 + exp(-(a theta + d))). The inner product is two matrix products (one for complete rows).

    This is the probability of the whole row: abilities have been summed over, and items are not independent of each
    other here.

    Parameters
    ----------
    slope
        a, shape (n_items, n_factors).
    intercept
        d, shape (n_items,).
    log_guessing
        log c, shape (n_items,); minus infinity for a 2PL item.
    nodes
        The population of abilities.
    complete
        Whether no row will hold a missing response; saves one of the two products.
    """

    arg_constraints: ClassVar[dict[str, object]] = {}
    support = constraints.independent(constraints.real, 1)

    def __init__(
        self, slope: Tensor, intercept: Tensor, log_guessing: Tensor, nodes: NodeTensors, *, complete: bool = False
    ) -> None:
        self.nodes = nodes
        self.complete = complete
        z = nodes.theta @ slope.T + intercept
        log_slip = torch.log1p(-log_guessing.exp())
        log_q = log_slip + logsigmoid(-z)
        guesses = torch.isfinite(log_guessing)
        # log P - log Q is z itself for a 2PL; the 3PL form is used only where something is guessed, so that no
        # infinity enters the gradient.
        safe_guess = torch.where(guesses, log_guessing, torch.zeros_like(log_guessing))
        with_guessing = torch.logaddexp(safe_guess, log_slip + logsigmoid(z)) - log_q
        log_odds = torch.where(guesses, with_guessing, z)
        # curves in the parameters' precision, products over respondents in that of the nodes
        self.log_q, self.log_odds = log_q.to(nodes.dtype), log_odds.to(nodes.dtype)
        super().__init__(batch_shape=torch.Size(), event_shape=intercept.shape[-1:], validate_args=False)

    def expand(self, batch_shape: torch.Size, _instance: object = None) -> CollapsedLogistic:
        """Rows are independent draws of the same distribution: the batch's shape is that of the value."""
        new = object.__new__(CollapsedLogistic)
        new.nodes, new.complete, new.log_q, new.log_odds = self.nodes, self.complete, self.log_q, self.log_odds
        dist.TorchDistribution.__init__(new, torch.Size(batch_shape), self.event_shape, validate_args=False)
        return new

    def log_joint(self, rows: Tensor) -> Tensor:
        """Log of weight times likelihood at each node, shape (n_rows, n_nodes); rows of 1, 0, -1 for missing."""
        dtype = self.nodes.dtype
        log_weights = self.nodes.log_weights.to(dtype)
        joint = (rows == 1).to(dtype) @ self.log_odds.T
        if self.complete:
            return joint + (self.log_q.sum(dim=1) + log_weights)
        return joint + (rows != MISSING).to(dtype) @ self.log_q.T + log_weights

    def log_prob(self, value: Tensor) -> Tensor:
        """Log marginal likelihood of each row, shape (n_rows,)."""
        return torch.logsumexp(self.log_joint(value), dim=-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw complete rows: an ability from the population's nodes, then each response given it."""
        shape = torch.Size(sample_shape) + self.batch_shape
        node = torch.distributions.Categorical(logits=self.nodes.log_weights).sample(shape)
        p = -torch.expm1(self.log_q)[node]
        return torch.bernoulli(p).to(torch.int8)


def logistic_model(
    rows: Tensor,
    nodes: NodeTensors,
    priors: Priors,
    guessing_free: Tensor,
    guessing_fixed: Tensor,
    *,
    complete: bool = False,
    batch_size: int | None = None,
    slope_sign: Tensor | None = None,
) -> None:
    """The generative model of a response matrix, for Pyro.

    a_j, d_j and logit c_j have the densities of ``priors`` (flat where None); every row of responses is a draw from
    `CollapsedLogistic`.

    Parameters
    ----------
    rows
        Responses 1, 0, -1 for missing, shape (n_respondents, n_items).
    nodes
        The population of abilities; as many factors as its second dimension.
    priors
        Densities of the item parameters.
    guessing_free
        Where c is estimated, shape (n_items,).
    guessing_fixed
        The value of c elsewhere, shape (n_items,).
    complete
        Whether no response is missing.
    batch_size
        Number of respondents in a minibatch; None for all.
    slope_sign
        1 or -1 for each slope, shape (n_items, n_factors), where a hierarchy is of log |a|; None for all positive.
    """
    n_respondents, n_items = rows.shape
    n_factors = nodes.theta.shape[1]
    like = nodes.theta.new_zeros
    if priors.hierarchy is None:
        slope = pyro.sample("slope", normal_or_flat(priors.slope, like((n_items, n_factors))).to_event(2))
        intercept = pyro.sample("intercept", normal_or_flat(priors.intercept, like(n_items)).to_event(1))
    else:
        pair = dist.MultivariateNormal(
            nodes.theta.new_tensor(priors.hierarchy.mean), nodes.theta.new_tensor(priors.hierarchy.covariance)
        )
        log_slope, intercept = pyro.sample("log_slope_and_intercept", pair.expand((n_items,)).to_event(1)).unbind(-1)
        slope = log_slope.exp()[:, None] if slope_sign is None else slope_sign * log_slope.exp()[:, None]
    log_guessing = torch.log(guessing_fixed)
    if bool(guessing_free.any()):
        n_free = int(guessing_free.sum())
        logit = pyro.sample("guessing_logit", logit_beta_or_flat(priors.guessing, like(n_free)).to_event(1))
        log_guessing = log_guessing.masked_scatter(guessing_free, logsigmoid(logit))
    with pyro.plate("respondents", n_respondents, subsample_size=batch_size) as chosen:
        batch = rows if batch_size is None else rows[chosen]
        row = CollapsedLogistic(slope, intercept, log_guessing, nodes, complete=complete)
        pyro.sample("responses", row, obs=batch)


def normal_or_flat(moments: tuple[float, float] | None, like: Tensor) -> dist.TorchDistribution:
    """Independent normal densities of the shape of ``like``, or flat ones."""
    if moments is None:
        return dist.ImproperUniform(constraints.real, like.shape, ())
    return dist.Normal(torch.full_like(like, moments[0]), torch.full_like(like, moments[1]))


def logit_beta_or_flat(shapes: tuple[float, float] | None, like: Tensor) -> dist.TorchDistribution:
    """Independent densities of logit c, c being Beta, or flat ones."""
    if shapes is None:
        return dist.ImproperUniform(constraints.real, like.shape, ())
    beta = dist.Beta(torch.full_like(like, shapes[0]), torch.full_like(like, shapes[1]))
    return dist.TransformedDistribution(beta, [dist.transforms.SigmoidTransform().inv])
