"""Acceleration of what is repeated: steps of the items, and updates of a few numbers around them.

Limited-memory BFGS around steps that are nearly right already (Nocedal, 1980), of one scale or of many at once;
Anderson acceleration of updates (Anderson, 1965; Walker & Ni, 2011).
"""

from __future__ import annotations

from collections import deque

import torch
from torch import Tensor

MEMORY = 6  # differences of past values kept
UPDATES = 4  # differences of past updates kept
FURTHEST = 0.5  # no value is moved further than this
WORSE = 2.0  # an update that is so many times longer than the last begins anew
RELATIVE_RIDGE = 1e-10
LEAST_CURVATURE = 1e-12  # relative; where the gradient rises along the step, a difference says nothing of a maximum


class StepMemory:
    """The last values, the gradients there, and the steps that were proposed from them.

    Parameters
    ----------
    n_scales
        Number of scales that are fitted side by side, each with as many of the rows of what is added.
    """

    def __init__(self, n_scales: int = 1) -> None:
        self._held: deque[Tensor] = deque(maxlen=MEMORY + 1)  # values, gradients, steps: (3, n_scales, 1, n_values)
        self._age = torch.full((n_scales,), MEMORY)  # number of the latest differences that are not forgotten
        self.step = torch.zeros(0)

    def add(self, values: Tensor, gradient: Tensor, step: Tensor) -> None:
        """Remember what was proposed where, all of one shape."""
        self.step = step
        self._held.append(torch.stack([values, gradient, step]).view(3, len(self._age), 1, -1))
        self._age += 1

    def forget(self, which: Tensor | slice = slice(None)) -> None:
        """Keep the last one alone, of these scales."""
        self._age[which] = 0

    def of(self, which: Tensor) -> StepMemory:
        """The memory of some of the scales, by their positions."""
        some = StepMemory(len(which))
        some._held.extend(held[:, which.to(held.device)] for held in self._held)
        some._age = self._age[which.to(self._age.device)]
        some.step = some._held[-1][2].reshape(-1, *self.step.shape[1:])
        return some

    def accelerated(self) -> Tensor:
        """The last step, with what past ones tell of the curvature.

        With S and Y the differences of values and of falling gradients, Z those of steps, which stand for H Y, R the
        upper triangle of S'Y and D its diagonal, the direction from a step f at a gradient g is

            f + S R'^-1 ((D + Y'Z) R^-1 S'g - Y'f) - Z R^-1 S'g:

        that of Byrd, Nocedal & Schnabel (1994) in compact form, f = H g and Z = H Y if steps were linear in gradients.
        A difference that says nothing, or is forgotten, is a row of zeros here, with a one on R's diagonal.
        """
        n = len(self._held) - 1
        if n < 1:
            return self.step
        gradient, step = self._held[-1][1].mT, self._held[-1][2].mT
        differences = torch.cat(list(self._held), dim=2).diff(dim=2)
        differences[1:].neg_()
        moved, fallen, shortened = differences.unbind(0)  # S', Y' and Z'
        product = moved @ fallen.mT
        curvature = product.diagonal(dim1=1, dim2=2)
        lengths = differences[:2].norm(dim=3)
        recent = torch.arange(n, 0, -1) <= self._age[:, None]
        kept = (curvature > LEAST_CURVATURE * lengths[0] * lengths[1]) & recent.to(product.device)
        if not bool(kept.all()):
            moved, fallen, shortened = torch.where(kept[:, :, None], differences, 0.0).unbind(0)
            product = moved @ fallen.mT
        known = torch.where(kept, curvature, 0.0)
        upper = torch.triu(product, diagonal=1) + torch.diag_embed(known + ~kept)
        along = torch.linalg.solve_triangular(upper, moved @ gradient, upper=True)
        middle = fallen @ shortened.mT
        middle = (middle + middle.mT) / 2 + torch.diag_embed(known)
        across = torch.linalg.solve_triangular(upper.mT, middle @ along - fallen @ step, upper=False)
        direction = step + moved.mT @ across - shortened.mT @ along
        return direction.reshape(self.step.shape)


class FixedPoint:
    """Where repeated updates x -> f(x) lead, from the updates seen so far."""

    def __init__(self) -> None:
        self._values: deque[Tensor] = deque(maxlen=UPDATES + 1)
        self._moves: deque[Tensor] = deque(maxlen=UPDATES + 1)

    def after(self, before: Tensor, updated: Tensor) -> Tensor:
        """The next values to try.

        With differences S of past values and R of past updates r = f(x) - x, the next are x + r - (S + R) c, where c
        minimises |r - R c|: the linear combination of past values whose update is shortest, updated.

        Parameters
        ----------
        before, updated
            Values and what one update makes of them, shape (n,).
        """
        move = updated - before
        if self._moves and float(move.norm()) > WORSE * float(self._moves[-1].norm()):
            self._values.clear()
            self._moves.clear()
        self._values.append(before)
        self._moves.append(move)
        if len(self._values) > 1:
            values, moves = (torch.stack(list(part)).diff(dim=0).T for part in (self._values, self._moves))
            lengths = moves.norm(dim=0).clamp(min=torch.finfo(moves.dtype).tiny)
            unit = moves / lengths
            # not by `lstsq`, whose last digits depend on where in memory it works
            ridge = RELATIVE_RIDGE * torch.eye(len(lengths), dtype=moves.dtype, device=moves.device)
            weights = torch.linalg.solve(unit.T @ unit + ridge, unit.T @ move) / lengths
            move = move - (values + moves) @ weights
        return before + move.clamp(-FURTHEST, FURTHEST)
