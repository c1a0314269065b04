"""A respondent's row where items of a testlet share an ability of their own: the bifactor model, for Pyro.

Items of one passage, or a pair of twins, go together more than ability explains. In the bifactor model an item has a
slope on a general ability, which all items share, and one on the specific ability of its testlet,

    z = a_0 theta_0 + a_s theta_s,

all abilities independent and standard normal. Given the general ability testlets are independent of each other, so that
the integral over all abilities is one over the general ability of a product of integrals over one specific ability each
(Gibbons & Hedeker, 1992; Cai, 2010): it costs what two abilities cost, however many testlets there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import torch
from torch import Tensor

from irtbench.models.pyro_model.categories import CategoryItems, CollapsedCategories
from irtbench.models.pyro_model.tensors import NodeTensors

ALONE = -1  # the testlet of an item that is in none
GENERAL, SPECIFIC = 0, 1  # columns of slopes and of nodes


@dataclass(frozen=True)
class ItemGroups:
    """Which items are of one testlet.

    Parameters
    ----------
    of_item
        Number of each item's testlet, 0, 1, ..., or `ALONE`, shape (n_items,).
    """

    of_item: Tensor

    @cached_property
    def members(self) -> tuple[Tensor, ...]:
        """Positions of each testlet's items."""
        return tuple(torch.nonzero(self.of_item == k)[:, 0] for k in range(int(self.of_item.max()) + 1))

    @cached_property
    def alone(self) -> Tensor:
        """Positions of the items in no testlet."""
        return torch.nonzero(self.of_item == ALONE)[:, 0]

    def __len__(self) -> int:
        return len(self.members)

    def to(self, device: torch.device) -> ItemGroups:
        """The same on a device."""
        return ItemGroups(self.of_item.to(device))


@dataclass(frozen=True)
class BifactorNodes(NodeTensors):
    """A grid over the general ability and any one specific ability: all of the latter at one node of the former."""

    n_specific: int = 1
    divisible: ClassVar[bool] = False

    @classmethod
    def grid(cls, general: Tensor, specific: Tensor) -> Self:
        """Every pair of equally spaced nodes on both axes, weighted by the standard normal density."""
        weights = [torch.log_softmax(-0.5 * axis**2, dim=0) for axis in (general, specific)]
        log_weights = (weights[0][:, None] + weights[1]).flatten()
        return cls(torch.cartesian_prod(general, specific), log_weights, n_specific=len(specific))

    @property
    def n_general(self) -> int:
        """Number of nodes of the general ability."""
        return len(self.theta) // self.n_specific

    @property
    def general(self) -> Tensor:
        """Nodes of the general ability, shape (n_general,)."""
        return self.theta[:: self.n_specific, GENERAL]

    @cached_property
    def log_general(self) -> Tensor:
        """Log-weights of the general ability, shape (n_general,)."""
        return self.log_weights.reshape(self.n_general, -1).logsumexp(dim=1)

    @cached_property
    def log_specific(self) -> Tensor:
        """Log-weights of a specific ability, shape (n_specific,)."""
        return self.log_weights.reshape(self.n_general, -1).logsumexp(dim=0)


class CollapsedBifactor(CollapsedCategories):
    """A respondent's row of responses, general and specific abilities integrated out.

    log p(x) = log sum_q w_q prod_s sum_r v_r prod_{j in s} P_j(x_j | q, r),

    missing factors left out; an item in no testlet is a factor of the outer sum alone.

    Parameters
    ----------
    x
        Parameters, the general and the specific slope first, shape (n_items, width); the specific slope of an item in
        no testlet is 0.
    items
        Whose they are.
    nodes
        Of the general ability and of any specific one.
    testlets
        Which items are of one testlet.
    """

    nodes: BifactorNodes

    def __init__(self, x: Tensor, items: CategoryItems, nodes: BifactorNodes, testlets: ItemGroups) -> None:
        super().__init__(x, items, nodes)
        self.testlets = testlets
        of_columns = testlets.of_item[items.item_of_column]
        self.columns = tuple(torch.nonzero(of_columns == k)[:, 0] for k in range(len(testlets)))
        self.columns_alone = torch.nonzero(of_columns == ALONE)[:, 0]

    @property
    def cells_a_row(self) -> int:
        """Numbers held at once for a row: its likelihood at each node."""
        return max(self.event_shape[0], len(self.nodes.theta))

    def within(self, testlet: int, correct: Tensor, observed: Tensor | None) -> Tensor:
        """Log of specific weight times likelihood of a testlet's responses, shape (n_rows, n_general, n_specific)."""
        members, columns, nodes = self.testlets.members[testlet], self.columns[testlet], self.nodes
        log_q = self.log_q[members]
        rest = nodes.log_specific.repeat(nodes.n_general).to(nodes.dtype)
        rest = rest + (log_q.sum(dim=0) if observed is None else observed[:, members] @ log_q)
        found = torch.addmm(rest, correct[:, columns], self.log_odds[columns])
        return found.reshape(len(found), -1, nodes.n_specific)

    def outside(self, correct: Tensor, observed: Tensor | None) -> Tensor:
        """Log of general weight times likelihood of the items in no testlet, shape (n_rows, n_general)."""
        alone, columns, nodes = self.testlets.alone, self.columns_alone, self.nodes
        log_q, log_odds = self.log_q[alone, :: nodes.n_specific], self.log_odds[columns, :: nodes.n_specific]
        rest = nodes.log_general.to(nodes.dtype)
        rest = rest + (log_q.sum(dim=0) if observed is None else observed[:, alone] @ log_q)
        return torch.addmm(rest, correct[:, columns], log_odds)

    def log_shape(self, correct: Tensor, observed: Tensor | None, *, out: Tensor | None = None) -> Tensor:
        """Log of weight times likelihood at each node of the general ability, shape (n_rows, n_general)."""
        total = self.outside(correct, observed)
        for testlet in range(len(self.testlets)):
            total += self.within(testlet, correct, observed).logsumexp(dim=2)
        return total if out is None else out.copy_(total)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw complete rows: abilities from the nodes, then each response given them."""
        shape = torch.Size(sample_shape) + self.batch_shape
        draw = torch.distributions.Categorical
        general = draw(logits=self.nodes.log_general).sample(shape)
        specific = draw(logits=self.nodes.log_specific).sample((*shape, len(self.testlets) + 1))
        node = general[..., None] * self.nodes.n_specific + specific[..., self.testlets.of_item]
        return self.drawn_at(node)
