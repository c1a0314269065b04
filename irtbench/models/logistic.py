"""The Pyro model: 2PL and 3PL with ability integrated out.

There is one model. An item's lower asymptote is free (3PL), or held at a value; held at zero the item is a 2PL.
A respondent's row is one draw from `CollapsedLogistic`, so inference is over items only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import pyro
import pyro.distributions as dist
import torch
from pyro.distributions import constraints
from torch import Tensor
from torch.nn.functional import logsigmoid

from irtbench.models.priors import Priors
from irtbench.models.quadrature import Quadrature

MISSING = -1  # in rows of responses 1 and 0
MOST_BINS = 32  # of neighbouring nodes


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

    @cached_property
    def basis(self) -> Tensor:
        """Abilities and a column of ones, shape (n_nodes, n_factors + 1): slopes and intercept times it are logits."""
        return torch.cat([self.theta, torch.ones_like(self.theta[:, :1])], dim=1)

    @cached_property
    def basis_products(self) -> Tensor:
        """Products of each two columns of `basis`, shape (n_nodes, (n_factors + 1) ** 2)."""
        return (self.basis[:, :, None] * self.basis[:, None, :]).flatten(1)

    @cached_property
    def bins(self) -> Tensor:
        """Which nodes are neighbours: 1 where a node is in a bin, else 0, shape (n_nodes, at most `MOST_BINS`)."""
        n_nodes = len(self.theta)
        width = -(-n_nodes // MOST_BINS)
        number = torch.arange(n_nodes, device=self.theta.device) // width
        return torch.nn.functional.one_hot(number).to(self.theta.dtype)

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
    P = c + (1 - c) / (1 + exp(-(a theta + d))). The inner product is the sum of x log(P / (1 - P)) + log(1 - P), two
    matrix products. Without guessing the log odds are a theta + d, so that the first needs only the sums of a and d
    over a respondent's correct responses, which are sufficient for theta (Birnbaum, 1968).

    This is the probability of the whole row: abilities have been summed over, and items are not independent of each
    other here.

    Parameters
    ----------
    slope
        a, shape (n_items, n_factors).
    intercept
        d, shape (n_items,).
    log_guessing
        log c, shape (n_items,), minus infinity for a 2PL item; None if every item is one.
    nodes
        The population of abilities.
    """

    arg_constraints: ClassVar[dict[str, object]] = {}
    support = constraints.independent(constraints.real, 1)

    def __init__(self, slope: Tensor, intercept: Tensor, log_guessing: Tensor | None, nodes: NodeTensors) -> None:
        self.nodes = nodes
        z = torch.cat([slope, intercept[:, None]], dim=1) @ nodes.basis.T
        log_q = logsigmoid(-z)
        if log_guessing is None:
            log_odds = slope
        else:
            log_guessing = log_guessing[:, None]
            log_slip = torch.log1p(-log_guessing.exp())
            log_q = log_slip + log_q
            guesses = torch.isfinite(log_guessing)
            # the 3PL form is used only where something is guessed, so that no infinity enters the gradient
            safe_guess = torch.where(guesses, log_guessing, torch.zeros_like(log_guessing))
            with_guessing = torch.logaddexp(safe_guess, log_slip + logsigmoid(z)) - log_q
            log_odds = torch.where(guesses, with_guessing, z)
        # curves in the parameters' precision, products over respondents in that of the nodes
        self.log_q, self.log_odds = log_q.to(nodes.dtype), log_odds.to(nodes.dtype)
        self.theta = nodes.theta.T.to(nodes.dtype) if log_guessing is None else None
        self.intercept = intercept.to(nodes.dtype)
        super().__init__(batch_shape=torch.Size(), event_shape=intercept.shape[-1:], validate_args=False)

    def expand(self, batch_shape: torch.Size, _instance: object = None) -> CollapsedLogistic:
        """Rows are independent draws of the same distribution: the batch's shape is that of the value."""
        new = object.__new__(CollapsedLogistic)
        new.nodes, new.log_q, new.log_odds = self.nodes, self.log_q, self.log_odds
        new.theta, new.intercept = self.theta, self.intercept
        dist.TorchDistribution.__init__(new, torch.Size(batch_shape), self.event_shape, validate_args=False)
        return new

    def log_shape(self, correct: Tensor, observed: Tensor | None, *, out: Tensor | None = None) -> Tensor:
        """Log of weight times likelihood at each node, but for a constant of each row, shape (n_rows, n_nodes).

        The constant is the sum of d over a row's correct responses if no item is guessed, else 0; it says nothing of
        theta.

        Parameters
        ----------
        correct
            1 where a response is correct, else 0, shape (n_rows, n_items).
        observed
            1 where there is a response, of the same shape; None if there is one everywhere.
        out
            Where to write the result.
        """
        rest = self.nodes.log_weights.to(self.nodes.dtype)
        rest = rest + (self.log_q.sum(dim=0) if observed is None else observed @ self.log_q)
        if self.theta is None:
            return torch.addmm(rest, correct, self.log_odds, out=out)
        # a product with one vector is several times faster than with a matrix of few columns
        sums = torch.stack([correct @ column for column in self.log_odds.unbind(1)], dim=1)
        return torch.addmm(rest, sums, self.theta, out=out)

    def log_joint(self, correct: Tensor, observed: Tensor | None) -> Tensor:
        """Log of weight times likelihood at each node, shape (n_rows, n_nodes); arguments as for `log_shape`."""
        shape = self.log_shape(correct, observed)
        return shape if self.theta is None else shape + (correct @ self.intercept)[:, None]

    def log_prob(self, value: Tensor) -> Tensor:
        """Log marginal likelihood of each row of 1, 0 and -1 for missing, shape (n_rows,)."""
        dtype = self.nodes.dtype
        return torch.logsumexp(self.log_joint((value == 1).to(dtype), (value != MISSING).to(dtype)), dim=-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw complete rows: an ability from the population's nodes, then each response given it."""
        shape = torch.Size(sample_shape) + self.batch_shape
        node = torch.distributions.Categorical(logits=self.nodes.log_weights).sample(shape)
        p = -torch.expm1(self.log_q.T)[node]
        return torch.bernoulli(p).to(torch.int8)


def logistic_model(
    rows: Tensor,
    nodes: NodeTensors,
    priors: Priors,
    guessing_free: Tensor,
    guessing_fixed: Tensor,
    *,
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
    log_guessing = torch.log(guessing_fixed) if bool((guessing_free | (guessing_fixed > 0)).any()) else None
    if log_guessing is not None and bool(guessing_free.any()):
        n_free = int(guessing_free.sum())
        logit = pyro.sample("guessing_logit", logit_beta_or_flat(priors.guessing, like(n_free)).to_event(1))
        log_guessing = log_guessing.masked_scatter(guessing_free, logsigmoid(logit))
    with pyro.plate("respondents", n_respondents, subsample_size=batch_size) as chosen:
        batch = rows if batch_size is None else rows[chosen]
        row = CollapsedLogistic(slope, intercept, log_guessing, nodes)
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
