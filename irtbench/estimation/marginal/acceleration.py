"""Limited-memory BFGS around steps that are nearly right already (Nocedal, 1980)."""

from __future__ import annotations

from collections import deque

import torch
from torch import Tensor

MEMORY = 6  # differences of past values kept
LEAST_CURVATURE = 1e-12  # relative; where the gradient rises along the step, a difference says nothing of a maximum


class StepMemory:
    """The last values, the gradients there, and the steps that were proposed from them."""

    def __init__(self) -> None:
        self._held: deque[tuple[Tensor, Tensor, Tensor]] = deque(maxlen=MEMORY + 1)

    def add(self, values: Tensor, gradient: Tensor, step: Tensor) -> None:
        """Remember what was proposed where, all of one shape."""
        self._held.append((values, gradient, step))

    def forget(self) -> None:
        """Keep the last one alone."""
        while len(self._held) > 1:
            self._held.popleft()

    def accelerated(self) -> Tensor:
        """The last step, with what past ones tell of the curvature.

        With S and Y the differences of values and of falling gradients, Z those of steps, which stand for H Y, R the
        upper triangle of S'Y and D its diagonal, the direction from a step f at a gradient g is

            f + S R'^-1 ((D + Y'Z) R^-1 S'g - Y'f) - Z R^-1 S'g:

        that of Byrd, Nocedal & Schnabel (1994) in compact form, f = H g and Z = H Y if steps were linear in gradients.
        """
        _, gradient, step = (part.flatten() for part in self._held[-1])
        if len(self._held) < 2:
            return self._held[-1][2]
        moved, risen, lengthened = (
            torch.stack(part).flatten(1).diff(dim=0).T for part in zip(*self._held, strict=True)
        )
        fallen, shortened = -risen, -lengthened
        curvature = (moved * fallen).sum(dim=0)
        kept = curvature > LEAST_CURVATURE * moved.norm(dim=0) * fallen.norm(dim=0)
        moved, fallen, shortened = moved[:, kept], fallen[:, kept], shortened[:, kept]
        upper = torch.triu(moved.T @ fallen)
        along = torch.linalg.solve_triangular(upper, (moved.T @ gradient)[:, None], upper=True)
        product = fallen.T @ shortened
        middle = torch.diag(torch.diagonal(upper)) + (product + product.T) / 2
        rest = middle @ along - (fallen.T @ step)[:, None]
        across = torch.linalg.solve_triangular(upper.T, rest, upper=False)
        direction = step + (moved @ across - shortened @ along)[:, 0]
        return direction.reshape(self._held[-1][2].shape)
