"""The population of abilities as nodes and log-weights on a device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from irtbench.models.quadrature import Quadrature

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
    most_bins
        Of neighbouring nodes, at most.
    """

    theta: Tensor
    log_weights: Tensor
    dtype: torch.dtype = torch.float64
    most_bins: int = MOST_BINS
    divisible: ClassVar[bool] = True  # some of them alone give their part of a likelihood

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
        """Which nodes are neighbours: 1 where a node is in a bin, else 0, shape (n_nodes, at most `most_bins`)."""
        n_nodes = len(self.theta)
        width = -(-n_nodes // self.most_bins)
        number = torch.arange(n_nodes, device=self.theta.device) // width
        return torch.nn.functional.one_hot(number).to(self.theta.dtype)

    @cached_property
    def binned_basis(self) -> Tensor:
        """Abilities and ones in each bin of nodes, shape (n_nodes, (n_factors + 1) * n_bins)."""
        return (self.basis[:, :, None] * self.bins[:, None, :]).flatten(1)

    @classmethod
    def from_quadrature(cls, quadrature: Quadrature, *, dtype: torch.dtype, device: torch.device) -> NodeTensors:
        """Copy a shared one-dimensional quadrature to the device."""
        return cls(
            torch.as_tensor(quadrature.nodes, dtype=torch.float64, device=device)[:, None],
            torch.as_tensor(quadrature.log_weights, dtype=torch.float64, device=device),
            dtype,
        )
