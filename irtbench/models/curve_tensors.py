"""Item characteristic curves as torch tensors, for estimation: the formulas of `curve_formulas` on any device.

Everything is differentiable and keeps the precision of its arguments.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from irtbench.models.curve_formulas import Curve


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
