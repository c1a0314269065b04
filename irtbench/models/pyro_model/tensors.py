"""Item parameters as tensors, on the scale of the curve and on the unbounded one, and abilities as nodes.

As a matrix, one row an item, the columns are slopes, intercept and guessing; only optimisers and covariance matrices
need that form, and the names below say which column is which. Everything is differentiable and keeps the precision of
its arguments. The population of abilities is nodes with log-weights, on the same device.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import torch
from torch import Tensor

from irtbench.models.curves import Curve
from irtbench.models.quadrature import Quadrature

SLOPES = slice(None, -2)
INTERCEPT = -2
GUESSING = -1
LINEAR = slice(None, -1)  # slopes and intercept


@dataclass(frozen=True)
class ItemTensors:
    """Parameters of the curves P = c + (1 - c) / (1 + exp(-(a theta + d))).

    Parameters
    ----------
    slope
        a, shape (n_items, n_factors).
    intercept
        d, shape (n_items,).
    guessing
        c, shape (n_items,): 0 for a 2PL item.
    """

    slope: Tensor
    intercept: Tensor
    guessing: Tensor

    @classmethod
    def from_matrix(cls, matrix: Tensor) -> Self:
        """Read the columns of a matrix of shape (n_items, n_factors + 2)."""
        return cls(matrix[:, SLOPES], matrix[:, INTERCEPT], matrix[:, GUESSING])

    @property
    def matrix(self) -> Tensor:
        """Slopes, intercept and guessing as columns, shape (n_items, n_factors + 2)."""
        return torch.cat([self.linear, self.guessing[:, None]], dim=1)

    @property
    def linear(self) -> Tensor:
        """Slopes and intercept, shape (n_items, n_factors + 1): times `NodeTensors.basis` they are logits."""
        return torch.cat([self.slope, self.intercept[:, None]], dim=1)

    def __len__(self) -> int:
        return len(self.intercept)

    def logits(self, basis: Tensor) -> Tensor:
        """Log odds without guessing, z = a theta + d, shape (n_items, n_nodes)."""
        return self.linear @ basis.T

    def turned(self) -> ItemTensors:
        """The same items for abilities of the opposite sign."""
        return ItemTensors(-self.slope, self.intercept, self.guessing)

    def rescaled(self, mean: float, deviation: float) -> ItemTensors:
        """The same curves for theta' with theta = mean + deviation theta': a' = deviation a, d' = d + mean a."""
        return ItemTensors(deviation * self.slope, self.intercept + mean * self.slope[:, 0], self.guessing)


def logistic(z: Tensor) -> Tensor:
    """1 / (1 + exp(-z)), no less than the smallest normal number of its precision."""
    return torch.sigmoid(z).clamp(min=torch.finfo(z.dtype).tiny)


def curve(z: Tensor, c: Tensor) -> Curve[Tensor]:
    """P and its derivatives at these linear predictors; c broadcasts against z."""
    return Curve(z, c, logistic)


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


COMMON_SLOPE = "common_slope"


@dataclass(frozen=True)
class KnownLinear:
    """Slopes and intercepts of which some are known and stay.

    Parameters
    ----------
    values
        The known ones, elsewhere without meaning, shape (n_items, n_factors + 1).
    free
        Where they are estimated, of the same shape.
    """

    values: Tensor
    free: Tensor


@dataclass(frozen=True)
class SharedParameters:
    """What parameters of items are made of that are not an item's own.

    Parameters
    ----------
    design
        Derivatives of the items' parameters by each shared value, 0 of an item's own, shape (n_shared, n_items, width).
    unit_slopes
        Whether slopes by theta are 1 where they are common (Rasch), and difficulties minus the intercepts.
    n_scales
        Number of scales, each with as many items and with values of its own, which then have a second dimension; items
        that fill a scale up have a design of zero. None of one scale.
    """

    design: Tensor
    unit_slopes: bool = False
    n_scales: int | None = None

    @classmethod
    def common_slope(cls, present: Tensor, *, rasch: bool) -> SharedParameters:
        """One slope for all items of a scale, and an intercept for each: Rasch and 1PL.

        Parameters
        ----------
        present
            1 for items, 0 for what fills a scale up, float64, shape (n_items,), or of scales (n_scales, n_items).
        rasch
            Whether slopes by theta are 1.
        """
        slopes = torch.nn.functional.pad(present.reshape(-1, 1), (0, 2))
        n_scales = len(present) if present.dim() > 1 else None
        return cls(slopes[None], unit_slopes=rasch, n_scales=n_scales)

    @cached_property
    def _slopes(self) -> Tensor:
        """1 where an item has the common slope, else 0, shape (n_scales, n_items / n_scales)."""
        return self.design[0, :, 0].view(self.n_scales or 1, -1)

    def in_parts(self, total: Tensor) -> Tensor:
        """What the slope of each scale adds up to over items, as equal parts of these, shape (n_items,)."""
        return (self._slopes * (total / self._slopes.sum(dim=1))[:, None]).flatten()

    @cached_property
    def made(self) -> Tensor:
        """Where parameters are made of what is shared, shape (n_items, width)."""
        return (self.design != 0).any(dim=0)

    def values(self, matrix: Tensor) -> Tensor:
        """What is shared, nearest to these parameters by least squares, shape (n_shared,)."""
        return torch.linalg.pinv(self.design.flatten(1).T) @ matrix.flatten()  # a GPU has no gelsd

    def onto(self, matrix: Tensor) -> Tensor:
        """These parameters, with the nearest that are made of what is shared."""
        return torch.where(self.made, torch.einsum("s,sjk->jk", self.values(matrix), self.design), matrix)

    def at(self, slope: Tensor) -> Tensor:
        """Slopes and intercepts at this common slope, the items' own being zero, shape (n_items, n_factors + 1)."""
        return torch.nn.functional.pad((self._slopes * slope.view(-1, 1)).view(-1, 1), (0, 1))

    def nearest(self, linear: Tensor) -> Tensor:
        """The common slope closest to these by least squares: a number, or of several scales shape (n_scales,)."""
        slope = (self._slopes * linear[:, 0].view(self._slopes.shape)).sum(dim=1) / self._slopes.sum(dim=1)
        return slope if self.n_scales is not None else slope[0]
