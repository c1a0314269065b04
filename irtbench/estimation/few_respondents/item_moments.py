"""Posterior moments and quantiles of (a, d, c), the posterior being normal in (log |a|, d, logit c)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from irtbench.estimation.item_quantiles import normal_points, weighted_quantiles
from irtbench.models.pyro_model.item_tensors import GUESSING, INTERCEPT, LINEAR, ItemTensors

HERMITE_NODES = 15
POINTS = 1024  # of each item's posterior of (log |a|, d)
LEAST_VARIANCE = 1e-12


@dataclass(frozen=True)
class ItemMoments:
    """Mean and covariance of three parameters of each item: (a, d, c), or (log |a|, d, logit c).

    Parameters
    ----------
    mean
        Shape (n_items, 3).
    covariance
        Zeros where c is fixed, shape (n_items, 3, 3).
    """

    mean: Tensor
    covariance: Tensor

    @property
    def items(self) -> ItemTensors:
        """The means as items."""
        return ItemTensors.from_matrix(self.mean)


def moments_of(mode: ItemTensors, covariance: Tensor, guessing_free: Tensor) -> ItemMoments:
    """Moments of (a, d, c) from the mode and the covariance of (a, d, logit c) by the delta method there.

    In (log |a|, d, logit c) = (x, d, l) the posterior is taken as normal with the covariance V that the delta method
    gives, which is that of the curvature there. Then

        E a = a exp(V_xx / 2),   Var a = (E a)^2 (exp(V_xx) - 1),   Cov(a, d) = E a V_xd,
        Cov(a, c) = E a (E c(l + V_xl) - E c(l)),   Cov(d, c) = V_dl E c'(l),

    with expectations over l by Gauss-Hermite quadrature.

    Parameters
    ----------
    mode
        Where the posterior is highest.
    covariance
        Of (a, d, logit c), shape (n_items, 3, 3).
    guessing_free
        Where c is estimated, shape (n_items,).
    """
    slope, intercept, guessing = mode.matrix.unbind(1)
    v_xx = covariance[:, 0, 0] / slope**2
    v_xd, v_xl = covariance[:, 0, INTERCEPT] / slope, covariance[:, 0, GUESSING] / slope
    mean_a = slope * (v_xx / 2).exp()
    moments = torch.zeros_like(covariance)
    moments[:, 0, 0] = mean_a**2 * torch.expm1(v_xx)
    moments[:, INTERCEPT, INTERCEPT] = covariance[:, INTERCEPT, INTERCEPT]
    moments[:, 0, INTERCEPT] = mean_a * v_xd
    mean_c = guessing
    if bool(guessing_free.any()):
        axis, weights = (torch.from_numpy(part).to(slope) for part in np.polynomial.hermite_e.hermegauss(HERMITE_NODES))
        weights = torch.where(guessing_free[:, None], weights / weights.sum(), 0.0)
        centre = torch.logit(torch.where(guessing_free, guessing, 0.5))
        logit = centre[:, None] + covariance[:, GUESSING, GUESSING].sqrt()[:, None] * axis
        c = torch.sigmoid(logit)
        mean = (weights * c).sum(dim=1)
        moments[:, GUESSING, GUESSING] = (weights * (c - mean[:, None]) ** 2).sum(dim=1)
        shifted = (weights * torch.sigmoid(logit + v_xl[:, None])).sum(dim=1)
        moments[:, 0, GUESSING] = mean_a * (shifted - mean)
        rate = (weights * c * (1 - c)).sum(dim=1)
        moments[:, INTERCEPT, GUESSING] = covariance[:, INTERCEPT, GUESSING] * rate
        mean_c = torch.where(guessing_free, mean, guessing)
    lower = torch.tril(moments.mT, diagonal=-1)
    return ItemMoments(torch.stack([mean_a, intercept, mean_c], dim=1), moments + lower)


def quantiles_of(logs: ItemMoments, items: ItemTensors, guessing_free: Tensor) -> Tensor:
    """Quantiles of (a, b, c), the posterior being normal in (log |a|, d, logit c), shape (3, n_items, 3).

    Parameters
    ----------
    logs
        Moments of (log |a|, d, logit c).
    items
        Whose slopes have the sign, and whose c is that of items where it is fixed.
    guessing_free
        Where c is estimated, shape (n_items,).
    """
    z = normal_points(2, POINTS, logs.mean)
    own = logs.covariance[:, LINEAR, LINEAR]
    root = torch.linalg.cholesky_ex(own + LEAST_VARIANCE * torch.eye(2).to(own)).L
    log_slope, intercept = (logs.mean[:, None, LINEAR] + z @ root.mT).unbind(-1)
    slope = items.slope[:, :1].sign() * log_slope.exp()
    logit = logs.mean[:, GUESSING, None] + logs.covariance[:, GUESSING, GUESSING, None].clamp(min=0).sqrt() * z[:, 0]
    c = torch.where(guessing_free[:, None], torch.sigmoid(logit), items.guessing[:, None])
    mass = torch.full_like(slope, 1 / POINTS)
    return torch.stack([weighted_quantiles(values, mass) for values in (slope, -intercept / slope, c)], dim=2)


def mixed(parts: list[ItemMoments], weights: Tensor) -> ItemMoments:
    """Moments of a mixture: E[mean], and E[covariance] + Cov[mean].

    Parameters
    ----------
    parts
        Moments of the components.
    weights
        Summing to 1, shape (n_parts,).
    """
    means = torch.stack([part.mean for part in parts])
    mean = torch.einsum("k,kjp->jp", weights, means)
    within = torch.einsum("k,kjpq->jpq", weights, torch.stack([part.covariance for part in parts]))
    away = means - mean
    return ItemMoments(mean, within + torch.einsum("k,kjp,kjq->jpq", weights, away, away))
