"""Parameters that items share: a common slope, or the population's mean and standard deviation beside known items.

Ability is z ~ N(0, 1) in the model, and theta = m + s z. An item with the curve a theta + d has the logit

    (s a) z + (d + m a),

so that slope and intercept by z of items whose a and d are known are linear in s and m; where all slopes are alike
(Rasch: a = 1) they are s itself. Whichever it is, slope and intercept of item j by z are

    offset_j + sum_k value_k design_kj,

but for those that are the item's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

COMMON_SLOPE, POPULATION_SD, POPULATION_MEAN = "common_slope", "population_sd", "population_mean"


@dataclass(frozen=True)
class SharedParameters:
    """Which parameters are an item's own, and what the others are made of.

    Parameters
    ----------
    names
        The shared parameters: sites of the model, one number each.
    offset
        Slope and intercept at shared values of zero, shape (n_items, 2).
    design
        Their derivatives by each shared value, shape (n_shared, n_items, 2).
    own
        Where they are the item's own, shape (n_items, 2); `offset` and `design` are zero there.
    """

    names: tuple[str, ...]
    offset: Tensor
    design: Tensor
    own: Tensor

    @classmethod
    def common_slope(cls, n_items: int, device: torch.device) -> SharedParameters:
        """One slope for all items, and an intercept for each: Rasch and 1PL."""
        slopes = torch.tensor([1.0, 0.0], dtype=torch.float64, device=device).expand(n_items, 2)
        return cls((COMMON_SLOPE,), torch.zeros_like(slopes), slopes[None], slopes == 0)

    @classmethod
    def anchored(cls, slope: Tensor, intercept: Tensor, known: Tensor) -> SharedParameters:
        """Known items and a population whose standard deviation and mean are estimated.

        Parameters
        ----------
        slope, intercept
            a and d where they are known, else without meaning, shape (n_items,).
        known
            Where, shape (n_items,).
        """
        a, d = torch.where(known, slope, 0.0), torch.where(known, intercept, 0.0)
        none = torch.zeros_like(a)
        design = torch.stack([torch.stack([a, none], dim=1), torch.stack([none, a], dim=1)])
        own = ~known[:, None].expand(-1, 2)
        return cls((POPULATION_SD, POPULATION_MEAN), torch.stack([none, d], dim=1), design, own)

    @property
    def varies(self) -> Tensor:
        """Where slope and intercept are not constants, shape (n_items, 2)."""
        return self.own | (self.design != 0).any(dim=0)

    def at(self, values: Tensor) -> Tensor:
        """Slopes and intercepts at these shared values, the items' own being zero, shape (n_items, 2)."""
        return self.offset + torch.einsum("k,kjc->jc", values, self.design)

    def nearest(self, linear: Tensor) -> Tensor:
        """Shared values closest to these slopes and intercepts by least squares, shape (n_shared,)."""
        design = self.design.flatten(1)
        return torch.linalg.solve(design @ design.T, design @ (linear - self.offset).flatten())
