"""Parameters that items share within each of several scales, the items of one scale after those of the other."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from irtbench.models.pyro_model.shared import COMMON_SLOPE, SharedParameters


@dataclass(frozen=True)
class SharedByScale(SharedParameters):
    """The same of each scale: shared values have a second dimension, that of scales.

    Parameters
    ----------
    n_scales
        Number of scales, each with as many items; those that fill a scale up have a design of zero.
    """

    n_scales: int = field(kw_only=True)

    @classmethod
    def common_slopes(cls, present: Tensor) -> SharedByScale:
        """One slope for all items of a scale, and an intercept for each.

        Parameters
        ----------
        present
            1 for the items of a scale, 0 for what fills it up, shape (n_scales, n_items).
        """
        slopes = torch.nn.functional.pad(present.reshape(-1, 1), (0, 1))
        own = torch.zeros_like(slopes, dtype=torch.bool)
        own[:, -1] = True
        return cls((COMMON_SLOPE,), torch.zeros_like(slopes), slopes[None], own, n_scales=len(present))

    def in_parts(self, total: Tensor) -> Tensor:
        """What a shared value of each scale adds up to over items, as equal parts of these, shape (n_items,)."""
        number = (self.design != 0).any(dim=2).any(dim=0).view(self.n_scales, -1).sum(dim=1)
        return (total / number).repeat_interleave(len(self.own) // self.n_scales)

    def at(self, values: Tensor) -> Tensor:
        """Slopes and intercepts at these shared values, shape (n_shared, n_scales), the items' own being zero."""
        return self.offset + (
            self.design * values.repeat_interleave(len(self.own) // self.n_scales, 1)[:, :, None]
        ).sum(0)

    def nearest(self, linear: Tensor) -> Tensor:
        """Shared values closest to these slopes and intercepts by least squares, shape (n_shared, n_scales)."""
        design = self.design.view(self.n_values, self.n_scales, -1)
        excess = (linear - self.offset).view(self.n_scales, -1)
        products = torch.einsum("ksx,lsx->skl", design, design)
        return torch.linalg.solve(products, torch.einsum("ksx,sx->sk", design, excess)).T
