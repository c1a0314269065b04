"""Whether the weighted draws of each item are worth what their number says.

The effective number of draws is of all parameters together: it may be in the thousands while one item, of which the
data say little, has its width from a few draws far out. Judged item by item are the Monte Carlo error of each standard
deviation, and the shape k of a generalised Pareto density fitted to the largest terms w (x - mean)^2 that the variance
is made of: above .7 such a sum settles slowly, and what is missing from it does not show in its error (Vehtari,
Simpson, Gelman, Yao & Gabry, 2024). It errs on the safe side: standard deviations may be right all the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

MOST_SD_ERROR, LARGEST_SHAPE = 0.1, 0.7
FEWEST_IN_TAIL = 25


@dataclass(frozen=True, eq=False)
class ItemReliability:
    """How far the standard deviations of weighted draws can be trusted.

    Parameters
    ----------
    sd_error
        Monte Carlo error of the standard deviation of (a, d, c), as a share of it, shape (n_items, 3); 0 where c is
        fixed.
    tail_shape
        The largest Pareto k of the item's three variances, shape (n_items,).
    """

    sd_error: NDArray[np.float64]
    tail_shape: NDArray[np.float64]

    @property
    def doubtful(self) -> NDArray[np.intp]:
        """Items whose standard deviations may be too small."""
        return np.flatnonzero((self.sd_error.max(axis=1) > MOST_SD_ERROR) | (self.tail_shape > LARGEST_SHAPE))


def item_reliability(weights: Tensor, values: Tensor) -> ItemReliability:
    """Judge weighted draws item by item.

    Parameters
    ----------
    weights
        Summing to 1, shape (n_draws,).
    values
        Draws of (a, d, c), shape (n_draws, n_items, 3).
    """
    away = (values - torch.einsum("s,sjk->jk", weights, values)).square()
    variance = torch.einsum("s,sjk->jk", weights, away)
    squared_error = torch.einsum("s,sjk->jk", weights.square(), (away - variance).square())
    known = variance > 1e-16
    sd_error = torch.where(known, squared_error.sqrt() / (2 * variance.clamp(min=1e-300)), 0.0)
    terms = weights[:, None, None] * away
    shapes = [
        max((pareto_shape(terms[:, j, k]) for k in range(values.shape[2]) if bool(known[j, k])), default=-math.inf)
        for j in range(values.shape[1])
    ]
    return ItemReliability(sd_error.cpu().numpy(), np.array(shapes))


def pareto_shape(terms: Tensor) -> float:
    """Shape k of a generalised Pareto density fitted to the largest terms (Zhang & Stephens, 2009).

    The tail is of min(n / 5, 3 sqrt(n)) terms; a weak prior of mean .5 and the weight of ten of them keeps k in place
    (Vehtari et al., 2024). Infinite where there are too few terms.
    """
    n_tail = int(min(len(terms) / 5, 3 * math.sqrt(len(terms))))
    if n_tail < FEWEST_IN_TAIL:
        return math.inf
    top = terms.sort().values[-n_tail - 1 :].cpu().numpy()
    x = top[1:] - top[0]
    x = x[x > 0]
    if len(x) < FEWEST_IN_TAIL:
        return -math.inf
    n_tried = 30 + int(math.sqrt(len(x)))
    quarter = x[int(len(x) / 4 + 0.5) - 1]
    theta = 1 / x[-1] + (1 - np.sqrt(n_tried / (np.arange(1, n_tried + 1) - 0.5))) / (3 * quarter)
    k = np.log1p(-theta[:, None] * x).mean(axis=1)
    height = len(x) * (np.log(-theta / k) - k - 1)
    weight = np.exp(height - height.max())
    best = float(theta @ weight / weight.sum())
    shape = float(np.log1p(-best * x).mean())
    return (shape * len(x) + 0.5 * 10) / (len(x) + 10)
