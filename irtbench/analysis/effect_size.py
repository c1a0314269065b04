"""Results of item bias: how large a difference is, by classes of delta and of the change of R2 (NumPy only)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from irtbench.data.shown import Drawn, counted, significant

Grade = Literal["A", "B", "C", ""]

DELTA_PER_LOGIT = 2.35  # 4 / 1.7: the delta scale of the Educational Testing Service
MODERATE_DELTA, LARGE_DELTA = 1.0, 1.5  # Zieky (1993)
MODERATE_R2, LARGE_R2 = 0.035, 0.070  # Jodoin & Gierl (2001)
ONE_SIDED_95 = 1.645


def ets_class(
    delta: NDArray[np.float64], error: NDArray[np.float64], significant: NDArray[np.bool_]
) -> tuple[Grade, ...]:
    """Classes of the Educational Testing Service (Zieky, 1993).

    A: delta within 1 of 0, or not significantly different from 0. C: 1.5 or more to either side and significantly more
    than 1, one-sided at .05. B: what is neither. Empty where delta is not finite.
    """
    absolute = np.abs(delta)
    with np.errstate(invalid="ignore", divide="ignore"):
        above_one = (absolute - MODERATE_DELTA) / error > ONE_SIDED_95
    negligible = (absolute < MODERATE_DELTA) | ~significant
    large = (absolute >= LARGE_DELTA) & above_one
    grades = np.where(negligible, "A", np.where(large, "C", "B"))
    return tuple(np.where(np.isfinite(delta), grades, "").tolist())


def jodoin_gierl_class(r2_change: NDArray[np.float64]) -> tuple[Grade, ...]:
    """Classes of the change of Nagelkerke's R2 (Jodoin & Gierl, 2001): A below .035, C from .070, B between.

    Examples
    --------
    >>> jodoin_gierl_class(np.array([0.034, 0.035, 0.07, np.nan]))
    ('A', 'B', 'C', '')
    """
    grades = np.where(r2_change < MODERATE_R2, "A", np.where(r2_change < LARGE_R2, "B", "C"))
    return tuple(np.where(np.isnan(r2_change), "", grades).tolist())


def nagelkerke(log_likelihood: float, counts: NDArray[np.float64]) -> float:
    """R2 = (1 - (L0 / L)^(2/n)) / (1 - L0^(2/n)), with L0 the likelihood of the outcomes' shares alone."""
    n, there = float(counts.sum()), counts[counts > 0]
    log_l0 = float((there * np.log(there / n)).sum())
    return float(-np.expm1(2 / n * (log_l0 - log_likelihood)) / -np.expm1(2 / n * log_l0))


@dataclass(frozen=True, eq=False)
class ItemDifferences(Drawn):
    """Base of results that compare each item between groups: arrays of shape (n_items,)."""

    item_ids: tuple[str, ...]
    p: NDArray[np.float64]
    p_adjusted: NDArray[np.float64]

    def in_short(self) -> str:
        """How many items, and how many differ between the groups."""
        return f"{counted(len(self.item_ids), 'item')}, {significant(self.p_adjusted)}"


@dataclass(frozen=True, eq=False)
class DifferencesByScore(ItemDifferences):
    """Base of those that compare respondents of the same sum score, which the anchors make."""

    groups: dict[str, int]
    df: int
    anchor: NDArray[np.bool_]
    rounds: int
    settled: bool
    n_left_out: int
