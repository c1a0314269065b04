"""Grades of systems without a bank, as shares of the points between the lowest grade and the highest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.evaluation.agreement_of_grades import numbers_of


def scores_named(levels: Sequence[str]) -> tuple[str, ...]:
    """The labels of the levels; none if they are numbers."""
    try:
        [float(level) for level in levels]
    except ValueError:
        return tuple(levels)
    return ()


@dataclass(frozen=True, eq=False)
class SharesOfPoints:
    """What systems scored, shape (n_respondents, n_items), NaN where nothing."""

    respondent_ids: tuple[str, ...]
    shares: NDArray[np.float64]

    @classmethod
    def of(cls, scores: pd.DataFrame, levels: Sequence[str], file: Path) -> SharesOfPoints:
        """Grades read from a file as shares of the way from the lowest level to the highest.

        Raises
        ------
        InputError
            If a grade is none of the levels.
        """
        number = numbers_of(levels)
        names: Sequence[Any] = scores_named(levels) or [float(level) for level in levels]
        named = dict(zip(names, number, strict=True))
        given = pd.unique(scores.to_numpy().ravel())
        if strange := [value for value in given if not pd.isna(value) and value not in named]:
            raise InputError(f"file {file}: grade {strange[0]}: none of --levels {','.join(levels)}")
        shares = (scores.map(named.get, na_action="ignore").astype(np.float64) - number.min()) / np.ptp(number)
        return cls(tuple(map(str, scores.index)), shares.to_numpy())
