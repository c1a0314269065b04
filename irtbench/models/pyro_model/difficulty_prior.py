"""A prior of difficulty for single items: what features, or a glance at an item, say of it before anybody answers.

The density is one of b, where the item's curve has its middle, and not of the intercept d = -a b: b is what features
predict, on the scale of ability that the bank has, whatever the slope of the new item turns out to be. A prior of d
would be one of b only for a slope that is known, which after ten answers it is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyro.distributions as dist
import torch
from torch import Tensor


@dataclass(frozen=True)
class DifficultyPrior:
    """Normal densities of the difficulty of some items.

    Parameters
    ----------
    chosen
        Of which items, shape (n_items,).
    mean, deviation
        Of each of these, in their order, shape (n_chosen,).
    """

    chosen: Tensor
    mean: Tensor
    deviation: Tensor

    @classmethod
    def of_items(
        cls, item_ids: Sequence[str], known: Mapping[str, tuple[float, float]], device: torch.device
    ) -> DifficultyPrior | None:
        """That of the items of which means and standard deviations are known; None if it is none."""
        if not any(item in known for item in item_ids):
            return None
        moments = torch.tensor([known[item] for item in item_ids if item in known], dtype=torch.float64, device=device)
        chosen = torch.tensor([item in known for item in item_ids], device=device)
        return cls(chosen, moments[:, 0], moments[:, 1])

    @property
    def density(self) -> dist.Normal:
        """Of the difficulties of these items, independent of each other."""
        return dist.Normal(self.mean, self.deviation)


def difficulty_of(slope: Tensor, intercept: Tensor, *, by_theta: bool) -> Tensor:
    """B = -d / a; or -d, where slopes by theta are 1 and the slope is the standard deviation of theta (Rasch).

    Parameters
    ----------
    slope, intercept
        Shape (n_items,).
    by_theta
        Whether slopes by theta are 1.
    """
    return -intercept if by_theta else -intercept / slope


def intercept_of(slope: Tensor, difficulty: Tensor, *, by_theta: bool) -> Tensor:
    """The inverse of `difficulty_of`: d = -a b, or -b."""
    return -difficulty if by_theta else -slope * difficulty


def by_slope_and_intercept(
    slope: Tensor, intercept: Tensor, first: Tensor, second: Tensor, *, by_theta: bool, positive: bool
) -> tuple[Tensor, Tensor]:
    """Derivatives by (a, d) of a log density of b.

    With J = (db/da, db/dd) = (-b, -1) / a and H the Hessian of b, the gradient is l' J and minus the Hessian
    -l'' J J' - l' H; the second term is left out where that is to be positive.

    Parameters
    ----------
    slope, intercept
        Shape (n,).
    first, second
        l' and -l'' by b, shape (n,).
    by_theta
        See `difficulty_of`.
    positive
        Whether the second term is left out.

    Returns
    -------
    gradient
        Shape (n, 2).
    information
        Shape (n, 2, 2).
    """
    ones, zeros = torch.ones_like(slope), torch.zeros_like(slope)
    b = difficulty_of(slope, intercept, by_theta=by_theta)
    rate = torch.stack([zeros, -ones] if by_theta else [-b / slope, -1 / slope], dim=1)
    information = second[:, None, None] * rate[:, :, None] * rate[:, None, :]
    if not positive and not by_theta:
        bend = torch.stack([2 * b, ones, ones, zeros], dim=1).view(-1, 2, 2) / slope.square()[:, None, None]
        information = information - first[:, None, None] * bend
    return first[:, None] * rate, information
