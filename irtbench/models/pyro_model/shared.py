"""Parameters that are not an item's own: known ones, and a common slope.

Slope and intercept of item j are sum_k value_k design_kj where they are shared. With several abilities there is a
column for each slope.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

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
    """Which parameters are an item's own, and what the others are made of.

    Parameters
    ----------
    design
        Derivatives of slopes and intercept by each shared value, shape (n_shared, n_items, n_factors + 1).
    own
        Where they are the item's own, shape (n_items, n_factors + 1); `design` is zero there.
    unit_slopes
        Whether slopes by theta are 1 where they are common (Rasch), and difficulties minus the intercepts.
    n_scales
        Number of scales, each with as many items and with values of its own, which then have a second dimension; items
        that fill a scale up have a design of zero. None of one scale.
    """

    design: Tensor
    own: Tensor
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
        slopes = torch.nn.functional.pad(present.reshape(-1, 1), (0, 1))
        own = torch.zeros_like(slopes, dtype=torch.bool)
        own[:, -1] = True
        n_scales = len(present) if present.dim() > 1 else None
        return cls(slopes[None], own, unit_slopes=rasch, n_scales=n_scales)

    @property
    def n_values(self) -> int:
        """How many numbers are shared."""
        return len(self.design)

    def by_site(self, values: Tensor) -> dict[str, Tensor]:
        """Shared values, shape (n_shared,), as those of the model's sites."""
        return {COMMON_SLOPE: values[0]}

    def values_at(self, sites: Mapping[str, Tensor]) -> Tensor:
        """What `by_site` takes apart."""
        return sites[COMMON_SLOPE][None]

    def in_parts(self, total: Tensor) -> Tensor:
        """What a shared value of each scale adds up to over items, as equal parts of these, shape (n_items,)."""
        number = (self.design != 0).any(dim=2).any(dim=0).view(self.n_scales or 1, -1).sum(dim=1)
        return (total / number).repeat_interleave(len(self.own) // len(number))

    @property
    def varies(self) -> Tensor:
        """Where slopes and intercept are not constants, shape (n_items, n_factors + 1)."""
        return self.own | (self.design != 0).any(dim=0)

    @cached_property
    def _by_scale(self) -> tuple[Tensor, Tensor]:
        """The design, shape (n_shared, n_scales, n_entries), and its products, (n_scales, n_shared, n_shared)."""
        design = self.design.view(self.n_values, self.n_scales or 1, -1)
        return design, torch.einsum("ksx,lsx->skl", design, design)

    def at(self, values: Tensor) -> Tensor:
        """Slopes and intercepts at these shared values, the items' own being zero, shape (n_items, n_factors + 1)."""
        each = self._by_scale[0] * values.view(self.n_values, -1, 1)
        return each.sum(dim=0).view(self.own.shape)

    def nearest(self, linear: Tensor) -> Tensor:
        """Shared values closest to these slopes and intercepts by least squares, shaped as for `at`."""
        design, products = self._by_scale
        along = (design * linear.reshape(len(products), -1)).sum(dim=2).T
        values = torch.linalg.solve(products, along).T
        return values if self.n_scales is not None else values[:, 0]
