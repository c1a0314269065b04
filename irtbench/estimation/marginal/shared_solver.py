"""Steps and covariances of items that share parameters.

With x_j the slope, intercept and guessing of item j, x_j = (its own parameters) + D_j y with y what items share. The
information of all is then an arrow: a block for each item's own parameters, and y beside them. Eliminating the former,

    K_j = D_j - M_j^-1 I_j D_j,   S = sum_j D_j' I_j K_j,   y = S^-1 sum_j K_j' g_j,   x_j = M_j^-1 g_j + K_j y,

with I_j the information of item j and M_j^-1 the inverse of its own block, zero elsewhere. Of several scales, the items
of one after those of the other, each has a y of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from irtbench.models.pyro_model.item_tensors import GUESSING, LINEAR
from irtbench.models.pyro_model.shared import SharedParameters


@dataclass(frozen=True)
class SharedSolver:
    """Solutions x of I x = g among the items that shared parameters allow.

    Parameters
    ----------
    own
        Which parameters are an item's own, shape (n_items, n_factors + 2).
    factor
        Lower triangular, of each item's own block, the identity elsewhere, of the shape of the items' information.
    response
        K_j, how item j moves with the shared parameters, shape (n_items, n_factors + 2, n_shared).
    inverse
        S^-1 of each scale, shape (n_scales, n_shared, n_shared).
    """

    own: Tensor
    factor: Tensor
    response: Tensor
    inverse: Tensor

    @classmethod
    def of(
        cls, shared: SharedParameters, guessing_free: Tensor, information: Tensor, *, n_scales: int = 1
    ) -> SharedSolver:
        """From the information of each item, shape (n_items, n_factors + 2, n_factors + 2)."""
        n_items, width = information.shape[:2]
        own = torch.zeros(n_items, width, dtype=torch.bool, device=information.device)
        own[:, LINEAR], own[:, GUESSING] = shared.own, guessing_free
        identity = torch.eye(width, dtype=information.dtype, device=information.device)
        block = torch.where(own[:, :, None] & own[:, None, :], information, identity)
        factor = torch.linalg.cholesky_ex(block).L
        design = torch.zeros(n_items, width, shared.n_values, dtype=information.dtype, device=information.device)
        design[:, LINEAR] = shared.design.permute(1, 2, 0)
        moved = information @ design
        response = design - torch.cholesky_solve(torch.where(own[:, :, None], moved, 0.0), factor)
        by_scale = n_scales, -1, shared.n_values
        left = moved.view(by_scale).mT @ response.view(by_scale)
        return cls(own, factor, response, torch.linalg.inv_ex((left + left.mT) / 2).inverse)

    def _by_scale(self, of_items: Tensor) -> Tensor:
        """Columns of all parameters of each scale, shape (n_scales, n_items / n_scales * width, n_columns)."""
        return of_items.reshape(len(self.inverse), -1, of_items.shape[2])

    def _by_shared(self, right: Tensor) -> Tensor:
        """S^-1 sum_j K_j' g_j, shape (n_scales, n_shared, n_columns)."""
        return self.inverse @ (self._by_scale(self.response).mT @ self._by_scale(right))

    def solve(self, right: Tensor) -> Tensor:
        """X for each column of g, shape (n_items, n_factors + 2, n_columns)."""
        alone = torch.cholesky_solve(torch.where(self.own[:, :, None], right, 0.0), self.factor)
        return alone + (self._by_scale(self.response) @ self._by_shared(right)).view(right.shape)

    def with_missing(self, missing: Tensor, step: Tensor) -> Tensor:
        """The step x of I x = g made that of (I - U U') x = g      (Woodbury, 1950).

        Parameters
        ----------
        missing
            U, shape (n_items, n_factors + 2, n_columns).
        step
            Shape (n_items, 3).
        """
        across, left = self._across(missing)
        along = self._by_scale(missing).mT @ self._by_scale(step[:, :, None])
        return step + (self._by_scale(across) @ torch.linalg.solve_ex(left, along).result).view(step.shape)

    def _across(self, missing: Tensor) -> tuple[Tensor, Tensor]:
        """I^-1 U, and 1 - U' I^-1 U of each scale."""
        across = self.solve(missing)
        within = self._by_scale(missing).mT @ self._by_scale(across)
        return across, torch.eye(within.shape[1], dtype=within.dtype, device=within.device) - within

    def covariance(self, missing: Tensor) -> tuple[Tensor, Tensor]:
        """Blocks of (I - U U')^-1, the shared parameters behind each item's, and the items not determined: all or none.

        Of one scale; shape (n_items, 3 + n_shared, 3 + n_shared).
        """
        across, left = self._across(missing)
        shared_across = self._by_shared(missing)
        root, failed = torch.linalg.cholesky_ex(left)
        definite = not bool(failed) and bool(torch.isfinite(root).all())
        each = torch.where(self.own[:, :, None] & self.own[:, None, :], torch.cholesky_inverse(self.factor), 0.0)
        n_items, width, n_shared = self.response.shape
        joint = torch.zeros(n_items, width + n_shared, width + n_shared, dtype=each.dtype, device=each.device)
        joint[:, :width, :width] = each
        identity = torch.eye(n_shared, dtype=each.dtype, device=each.device).expand(n_items, -1, -1)
        response = torch.cat([self.response, identity], dim=1)
        both = torch.cat([across, shared_across.expand(n_items, -1, -1)], dim=1)
        joint += response @ self.inverse @ response.transpose(1, 2)
        joint += both @ torch.linalg.inv_ex(left).inverse @ both.transpose(1, 2)
        return joint, torch.full_like(self.own[:, 0], not definite)
