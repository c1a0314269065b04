"""The log prior density of item parameters with its derivatives, as `mode` and `uncertainty` need them.

The same densities stand in the Pyro model (`models.logistic`); a test holds the two to each other.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from irtbench.models.priors import Hierarchy, Priors

SLOPES, INTERCEPT, GUESSING = slice(0, -2), slice(-2, -1), -1


def log_prior(priors: Priors, guessing_free: Tensor, parameters: Tensor) -> float:
    """Log prior density of the parameters, guessing on the scale of logit c, slopes under a hierarchy of log |a|.

    Parameters
    ----------
    priors
        The densities.
    guessing_free
        Where c is estimated, shape (n_items,).
    parameters
        Slopes, intercept and logit guessing, shape (n_items, n_factors + 2).
    """
    total = parameters.new_zeros(())
    for moments, columns in ((priors.slope, SLOPES), (priors.intercept, INTERCEPT)):
        if moments is not None:
            z = (parameters[:, columns] - moments[0]) / moments[1]
            total += (-0.5 * z**2 - math.log(moments[1] * math.sqrt(2 * math.pi))).sum()
    if priors.hierarchy is not None:
        excess, precision = hierarchy_terms(priors.hierarchy, parameters)
        scale = 0.5 * torch.logdet(precision) - math.log(2 * math.pi)
        total += len(excess) * scale - 0.5 * ((excess @ precision) * excess).sum()
    if priors.guessing is not None and bool(guessing_free.any()):
        alpha, beta = priors.guessing
        logit = parameters[guessing_free, GUESSING]
        constant = math.lgamma(alpha + beta) - math.lgamma(alpha) - math.lgamma(beta)
        total += (alpha * logsigmoid(logit) + beta * logsigmoid(-logit) + constant).sum()
    return float(total)


def hierarchy_terms(hierarchy: Hierarchy, parameters: Tensor) -> tuple[Tensor, Tensor]:
    """Deviations of (log |a|, d) from their average over items, shape (n_items, 2), and the precision matrix.

    The average maximises the density, so that the gradient by a value is what it would be at a fixed mean.
    """
    assert hierarchy.of == "intercept"
    values = torch.cat([parameters[:, :1].abs().log(), parameters[:, INTERCEPT]], dim=1)
    covariance = torch.tensor(hierarchy.covariance, dtype=torch.float64, device=parameters.device)
    return values - values.mean(dim=0), torch.linalg.inv(covariance)


def prior_derivatives(
    priors: Priors, parameters: Tensor, *, exact: bool = False, by_probability: bool = False
) -> tuple[Tensor, Tensor]:
    """Gradient of the log prior density and its negative Hessian, item by item.

    Parameters
    ----------
    priors, parameters
        As for `log_prior`.
    exact
        Whether the Hessian of the hierarchy includes the curvature of log |a| itself, which may be of either sign;
        without it the matrix is positive, as a step needs it.
    by_probability
        Whether the last column is c instead of its logit, and the derivatives are by c; the density is the same.

    Returns
    -------
    gradient
        Shape (n_items, n_factors + 2).
    information
        Shape (n_items, n_factors + 2, n_factors + 2).
    """
    gradient = torch.zeros_like(parameters)
    curvature = torch.zeros_like(parameters)
    for moments, columns in ((priors.slope, SLOPES), (priors.intercept, INTERCEPT)):
        if moments is not None:
            gradient[:, columns] = (moments[0] - parameters[:, columns]) / moments[1] ** 2
            curvature[:, columns] = 1 / moments[1] ** 2
    if priors.guessing is not None:
        alpha, beta = priors.guessing
        if by_probability:
            c = parameters[:, GUESSING]
            gradient[:, GUESSING] = alpha / c - beta / (1 - c)
            curvature[:, GUESSING] = alpha / c**2 + beta / (1 - c) ** 2
        else:
            c = torch.sigmoid(parameters[:, GUESSING])
            gradient[:, GUESSING] = alpha - (alpha + beta) * c
            curvature[:, GUESSING] = (alpha + beta) * c * (1 - c)
    information = torch.diag_embed(curvature)
    if priors.hierarchy is not None:
        excess, precision = hierarchy_terms(priors.hierarchy, parameters)
        pull = excess @ precision
        slope = parameters[:, 0]
        gradient[:, 0] = -pull[:, 0] / slope
        gradient[:, -2] = -pull[:, 1]
        information[:, 0, 0] = (precision[0, 0] - (pull[:, 0] if exact else 0.0)) / slope**2
        information[:, 0, -2] = information[:, -2, 0] = precision[0, 1] / slope
        information[:, -2, -2] = precision[1, 1]
    return gradient, information
