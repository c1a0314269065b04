"""Rows of several scales at once: of each the distribution of `CollapsedLogistic`, products batched over scales."""

from __future__ import annotations

import torch
from torch import Tensor

from irtbench.models.pyro_model.collapsed import CollapsedLogistic
from irtbench.models.pyro_model.node_tensors import NodeTensors


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
