"""A respondent's row of responses as one Pyro distribution, ability integrated out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

import pyro.distributions as dist
import torch
from pyro.distributions import constraints
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from irtbench.models.pyro_model.rows import ResponseRows, as_rows
from irtbench.models.pyro_model.tensors import ItemTensors, NodeTensors

MOST_CELLS = 2**26  # of respondents x items at once
LEAST_EXPONENT = -700.0  # below it numbers are denormal, which are slow


class CollapsedLogistic(dist.TorchDistribution):
    """A respondent's row of responses, ability integrated out.

    log p(x) = log sum_q w_q prod_j P_j(theta_q)^x_j (1 - P_j(theta_q))^(1 - x_j), missing factors left out, with
    P = c + (1 - c) / (1 + exp(-(a theta + d))). The inner product is the sum of x log(P / (1 - P)) + log(1 - P), two
    matrix products. Without guessing the log odds are a theta + d, so that the first needs only the sums of a and d
    over a respondent's correct responses, which are sufficient for theta (Birnbaum, 1968).

    Where a respondent was right k times in n trials of an item, independent given theta, x is k and the factor is
    P^k (1 - P)^(n - k): the binomial probability of k but for the coefficient n over k, which no parameter is in. So a
    likelihood is that of the n responses one by one, whichever way they were counted.

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
    on_logits = False  # whether asymptotes are logits in the items' parameters

    def __init__(self, slope: Tensor, intercept: Tensor, log_guessing: Tensor | None, nodes: NodeTensors) -> None:
        self.nodes, self.slope, self.intercept, self.log_guessing = nodes, slope, intercept, log_guessing
        z = torch.cat([slope, intercept[..., None]], dim=-1) @ nodes.basis.T
        log_q = softplus(z, threshold=40.0).neg_()  # half the memory of logsigmoid(-z)
        if log_guessing is None:
            log_odds = slope
        else:
            log_guessing = log_guessing[..., None]
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
        super().__init__(batch_shape=intercept.shape[:-1], event_shape=intercept.shape[-1:], validate_args=False)

    def expand(self, batch_shape: torch.Size, _instance: object = None) -> CollapsedLogistic:
        """Rows are independent draws of the same distribution: the batch's shape is that of the value."""
        new = object.__new__(type(self))
        new.__dict__.update({name: value for name, value in vars(self).items() if not name.startswith("_")})
        dist.TorchDistribution.__init__(new, torch.Size(batch_shape), self.event_shape, validate_args=False)
        return new

    @cached_property
    def log_q_of_all(self) -> Tensor:
        """Log probability at each node that all items are answered wrong, shape (n_nodes,)."""
        return self.log_q.sum(dim=0)

    def log_shape(self, correct: Tensor, observed: Tensor | None, *, out: Tensor | None = None) -> Tensor:
        """Log of weight times likelihood at each node, but for a constant of each row, shape (n_rows, n_nodes).

        The constant is the sum of d over a row's correct responses if no item is guessed, else 0; it says nothing of
        theta.

        Parameters
        ----------
        correct
            Number of correct responses, shape (n_rows, n_items).
        observed
            Number of responses, of the same shape; None if there is one everywhere.
        out
            Where to write the result.
        """
        rest = self.nodes.log_weights.to(self.nodes.dtype)
        rest = rest + (self.log_q_of_all if observed is None else observed @ self.log_q)
        if self.theta is None:
            return torch.addmm(rest, correct, self.log_odds, out=out)
        # a product with one vector is several times faster than with a matrix of few columns
        sums = torch.stack([correct @ column for column in self.log_odds.unbind(1)], dim=1)
        return torch.addmm(rest, sums, self.theta, out=out)

    def log_joint(self, correct: Tensor, observed: Tensor | None) -> Tensor:
        """Log of weight times likelihood at each node, shape (n_rows, n_nodes); arguments as for `log_shape`."""
        shape = self.log_shape(correct, observed)
        return shape if self.theta is None else shape + (correct @ self.intercept.to(self.nodes.dtype))[:, None]

    def log_prob(self, value: Tensor | ResponseRows) -> Tensor:
        """Log marginal likelihood of each row, shape (n_rows,); as a tensor, rows are of 1, 0 and -1 for missing."""
        cells_a_row = max(self.event_shape[0], len(self.nodes.theta))
        batches = as_rows(value).batches(MOST_CELLS // cells_a_row, self.nodes.dtype)
        return torch.cat([torch.logsumexp(self.log_joint(batch.correct, batch.observed), dim=-1) for batch in batches])

    @classmethod
    def of(cls, items: ItemTensors, nodes: NodeTensors) -> CollapsedLogistic:
        """The distribution at these parameters; where nothing is guessed, that of the 2PL."""
        log_guessing = items.guessing.log() if bool((items.guessing > 0).any()) else None
        return cls(items.slope, items.intercept, log_guessing, nodes)

    def moved(self, difference: Tensor, nodes: NodeTensors) -> CollapsedLogistic:
        """The same with another population, and items whose parameters differ by so much; (n_items, n_factors + 2)."""
        items = ItemTensors.from_matrix(self.items.matrix + difference)
        log_guessing = None if self.log_guessing is None else items.guessing.log()
        return CollapsedLogistic(items.slope, items.intercept, log_guessing, nodes)

    @property
    def items(self) -> ItemTensors:
        """The parameters it was made of."""
        none = torch.zeros_like(self.intercept)
        return ItemTensors(self.slope, self.intercept, none if self.log_guessing is None else self.log_guessing.exp())

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw complete rows: an ability from the population's nodes, then each response given it."""
        shape = torch.Size(sample_shape) + self.batch_shape
        node = torch.distributions.Categorical(logits=self.nodes.log_weights).sample(shape)
        p = -torch.expm1(self.log_q.T)[node]
        return torch.bernoulli(p).to(torch.int8)


class CollapsedScales(CollapsedLogistic):
    """Rows of responses to scales, one population of ability for all.

    Parameters
    ----------
    slope
        Shape (n_scales, n_items, 1).
    intercept
        Shape (n_scales, n_items).
    log_guessing
        log c, of the same shape, minus infinity for a 2PL item; None if every item is one.
    nodes
        The population of abilities.
    present
        Which of the items a scale has, of the same shape as ``intercept``; None for all.
    """

    def __init__(
        self,
        slope: Tensor,
        intercept: Tensor,
        log_guessing: Tensor | None,
        nodes: NodeTensors,
        present: Tensor | None = None,
    ) -> None:
        super().__init__(slope, intercept, log_guessing, nodes)
        if present is not None:
            self.log_q = self.log_q * present[:, :, None].to(self.log_q.dtype)

    def of_scales(self, which: slice) -> CollapsedScales:
        """The distribution of some consecutive scales."""
        new = self.expand(self.batch_shape[:0])
        assert isinstance(new, CollapsedScales)
        new.log_q, new.log_odds = self.log_q[which], self.log_odds[which]
        return new

    def largest_exponent(self) -> float:
        """A bound of what `log_shape` gives, either way."""
        reach = self.log_odds.abs().sum(dim=1).max()
        if self.theta is not None:
            reach = self.theta.abs().max() * reach
        return float(reach - self.log_q.sum(dim=1).min() - self.nodes.log_weights.min())

    def posterior(self, correct: Tensor, observed: Tensor | None) -> Tensor:
        """Mass at each node, shape (n_scales, n_nodes, n_rows); arguments as for `log_shape`."""
        # softmax along this dimension takes three times as long
        joint = self.log_shape(correct, observed)
        mass = joint.sub_(joint.amax(dim=1, keepdim=True)).clamp_(min=LEAST_EXPONENT).exp_()
        return mass.div_(mass.sum(dim=1, keepdim=True))

    def log_shape(self, correct: Tensor, observed: Tensor | None, *, out: Tensor | None = None) -> Tensor:
        """As `CollapsedLogistic.log_shape` for each scale, but respondents last: shape (n_scales, n_nodes, n_rows).

        Parameters
        ----------
        correct, observed
            Shape (n_scales, n_items, n_rows); what a scale lacks was not ``observed``.
        out
            Where to write the result.
        """
        log_weights = self.nodes.log_weights.to(self.nodes.dtype)
        if self.theta is None:
            if observed is not None:
                rest = torch.baddbmm(log_weights[:, None], self.log_q.mT, observed, out=out)
                return rest.baddbmm_(self.log_odds.mT, correct)
            rest = self.log_q.sum(dim=1) + log_weights
            return torch.baddbmm(rest[:, :, None], self.log_odds.mT, correct, out=out)
        sums = self.log_odds.mT @ correct
        if observed is not None:
            rest = torch.baddbmm(log_weights[:, None], self.log_q.mT, observed, out=out)
            return rest.add_(self.theta.T * sums)
        # in one product: theta times the sums, and what is the same for all rows times 1
        rest = self.log_q.sum(dim=1) + log_weights
        by_node = torch.stack([self.theta[0].expand_as(rest), rest], dim=2)
        return torch.bmm(by_node, torch.cat([sums, torch.ones_like(sums)], dim=1), out=out)
