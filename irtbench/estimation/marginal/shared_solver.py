"""Steps and covariances of items that share parameters.

With x_j the slope, intercept and guessing of item j, x_j = (its own parameters) + D_j y with y what items share. The
information of all is then an arrow: a block for each item's own parameters, and y beside them. Eliminating the former,

    K_j = D_j - M_j^-1 I_j D_j,   S = sum_j D_j' I_j K_j,   y = S^-1 sum_j K_j' g_j,   x_j = M_j^-1 g_j + K_j y,

with I_j the information of item j and M_j^-1 the inverse of its own block, zero elsewhere.
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
        S^-1, shape (n_shared, n_shared).
    """

    own: Tensor
    factor: Tensor
    response: Tensor
    inverse: Tensor

    @classmethod
    def of(cls, shared: SharedParameters, guessing_free: Tensor, information: Tensor) -> SharedSolver:
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
        left = torch.einsum("jak,jal->kl", moved, response)
        return cls(own, factor, response, torch.linalg.inv_ex((left + left.T) / 2).inverse)

    def solve(self, right: Tensor) -> Tensor:
        """X for each column of g, shape (n_items, n_factors + 2, n_columns)."""
        alone = torch.cholesky_solve(torch.where(self.own[:, :, None], right, 0.0), self.factor)
        values = self.inverse @ torch.einsum("jak,jac->kc", self.response, right)
        return alone + self.response @ values

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
        along = torch.einsum("jac,ja->c", missing, step)
        return step + across @ torch.linalg.solve_ex(left, along).result

    def _across(self, missing: Tensor) -> tuple[Tensor, Tensor]:
        """I^-1 U, and 1 - U' I^-1 U."""
        across = self.solve(missing)
        within = torch.einsum("jac,jad->cd", missing, across)
        return across, torch.eye(len(within), dtype=within.dtype, device=within.device) - within

    def covariance(self, missing: Tensor) -> tuple[Tensor, bool]:
        """Blocks of (I - U U')^-1, the shared parameters behind each item's, and whether that is positive definite.

        Shape (n_items, 3 + n_shared, 3 + n_shared).
        """
        across, left = self._across(missing)
        shared_across = self.inverse @ torch.einsum("jak,jac->kc", self.response, missing)
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
        return joint, definite
