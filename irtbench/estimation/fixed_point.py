"""Anderson acceleration of updates of a few numbers (Anderson, 1965; Walker & Ni, 2011)."""

from __future__ import annotations

from collections import deque

import torch
from torch import Tensor

MEMORY = 4  # differences of past updates kept
FURTHEST = 0.5  # no value is moved further than this
WORSE = 2.0  # an update that is so many times longer than the last begins anew
RELATIVE_RIDGE = 1e-10


class FixedPoint:
    """Where repeated updates x -> f(x) lead, from the updates seen so far."""

    def __init__(self) -> None:
        self._values: deque[Tensor] = deque(maxlen=MEMORY + 1)
        self._moves: deque[Tensor] = deque(maxlen=MEMORY + 1)

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
