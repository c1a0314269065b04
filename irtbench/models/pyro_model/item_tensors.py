"""Item parameters as tensors, on the scale of the curve and on the unbounded one.

As a matrix, one row an item, the columns are slopes, intercept and guessing; only optimisers and covariance matrices
need that form, and the names below say which column is which.

Everything is differentiable and keeps the precision of its arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from irtbench.models.curve_formulas import Curve

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

    @property
    def guesses(self) -> bool:
        """Whether any item has a lower asymptote."""
        return bool((self.guessing > 0).any())

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


def log_probabilities(z: Tensor, log_guessing: Tensor) -> tuple[Tensor, Tensor]:
    """Logarithms of P and of 1 - P without underflow.

    log P = log(c + (1 - c) s(z)),  log(1 - P) = log(1 - c) + log s(-z),  with s the logistic function.

    Parameters
    ----------
    z
        Linear predictor.
    log_guessing
        log c, minus infinity where nothing is guessed, a shape that broadcasts against z.
    """
    log_slip = torch.log1p(-log_guessing.exp())
    log_known = log_slip + logsigmoid(z)
    guesses = torch.isfinite(log_guessing)
    # an infinity would enter the gradient, though not the value
    log_guess = torch.where(guesses, log_guessing, 0.0)
    return torch.where(guesses, torch.logaddexp(log_guess, log_known), log_known), log_slip + logsigmoid(-z)
