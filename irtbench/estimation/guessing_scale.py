"""The scale on which guessing without a prior is sought: c = g^2 / (1 + g^2).

On the scale of logit c, an item whose likelihood is highest at c = 0 has no maximum, and c sinks for ever. As a
function of g the likelihood is even, so that g = 0 is a maximum like any other, with a curvature of its own.

`where` says which items, shape (n_items,); None for none.
"""

from __future__ import annotations

import torch
from torch import Tensor

LEAST_ROOT = 1e-9  # of |g|: c = 1e-18, and its logarithm is still a number


def with_root(parameters: Tensor, where: Tensor | None) -> Tensor:
    """Parameters with g = exp(logit c / 2) in place of the logit of c, the last column."""
    if where is None:
        return parameters
    changed = parameters.clone()
    changed[:, -1] = torch.where(where, (parameters[:, -1] / 2).exp(), parameters[:, -1])
    return changed


def with_logit(changed: Tensor, where: Tensor | None) -> Tensor:
    """The way back: 2 log |g| in place of g."""
    if where is None:
        return changed
    parameters = changed.clone()
    logit = 2 * changed[:, -1].abs().clamp(min=LEAST_ROOT).log()
    parameters[:, -1] = torch.where(where, logit, changed[:, -1])
    return parameters


def by_root(
    gradient: Tensor, information: Tensor, shared: Tensor | None, parameters: Tensor, where: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Derivatives by g from derivatives by logit c, of which the derivative by g is 2 / g.

    To the information comes what the scale itself adds to the curvature, in size (a step must rise where the curvature
    is negative too): |dl/dc d2c/dg2| with dl/dc = dl/dlogit / (c (1 - c)) and d2c/dg2 = 2 (1 - 3 g^2) / (1 + g^2)^3.

    Parameters
    ----------
    gradient, information, shared
        By the parameters, shapes (n_items, width), (n_items, width, width) and (n_items, width, k).
    parameters
        Where they were taken, shape (n_items, width), the last column the logit of c.
    """
    if where is None:
        return gradient, information, shared
    root = (parameters[:, -1] / 2).exp()
    square = root**2
    bend = (2 * gradient[:, -1] * (1 - 3 * square) / (square * (1 + square))).abs()
    scale = torch.ones_like(gradient)
    scale[:, -1] = torch.where(where, 2 / root, 1.0)
    information = information * scale[:, :, None] * scale[:, None, :]
    information[:, -1, -1] += torch.where(where, bend, 0.0)
    return gradient * scale, information, None if shared is None else shared * scale[:, :, None]
