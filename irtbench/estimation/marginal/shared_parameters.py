"""Which parameters of items are one, or made of the same few: the designs of `SharedParameters`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def common_slope(free: Tensor) -> Tensor:
    """The design by which all slopes that are estimated, of the first column, are one parameter."""
    return equal_parameters(free, [range(0, free.numel(), free.shape[1])])


def equal_parameters(free: Tensor, sets: Sequence[Sequence[int]]) -> Tensor:
    """The design by which the entries of each set, places in the flattened parameters, are one.

    A set of which nothing is estimated is none.
    """
    found = torch.zeros(len(sets), free.numel(), dtype=torch.float64, device=free.device)
    for k, places in enumerate(sets):
        found[k, list(places)] = 1.0
    found *= free.flatten()
    return found[found.any(dim=1)].view(-1, *free.shape)


def rating_scale(n_items: int, n_categories: int, device: torch.device) -> Tensor:
    """The design of the rating scale model: one slope, d_jk = t_k + k c_j with c_1 = 0 (Andrich, 1978).

    What is shared are the slope, t_1, t_2, ... that all items have, and c_2, c_3, ...; an item has a, d_1, d_2, ...
    """
    found = torch.zeros(n_categories + n_items - 1, n_items, n_categories, dtype=torch.float64, device=device)
    found[:n_categories] = torch.eye(n_categories, dtype=torch.float64, device=device)[:, None]
    for item in range(1, n_items):
        found[n_categories + item - 1, item, 1:] = torch.arange(1, n_categories, dtype=torch.float64, device=device)
    return found
