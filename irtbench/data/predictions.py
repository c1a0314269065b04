"""Probabilities that a system stated, with what happened."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.responses import demand_unique, name_first
from irtbench.data.shown import Shown


@dataclass(frozen=True, eq=False)
class Predictions(Shown):
    """Stated probabilities of one system, one row an item.

    Parameters
    ----------
    item_ids
        Unique names of what was predicted.
    probabilities
        Probability of the one event asked about, shape (n_items, 1), or of every class, shape (n_items, n_classes).
    outcomes
        1 where the event happened or the class is the right one, else 0; the same shape.

    Raises
    ------
    InputError
        If shapes and ids do not agree or an id is repeated.
    """

    item_ids: tuple[str, ...]
    probabilities: NDArray[np.float64]
    outcomes: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.probabilities.shape != self.outcomes.shape or len(self.probabilities) != len(self.item_ids):
            raise InputError(
                f"predictions: shapes {self.probabilities.shape} and {self.outcomes.shape} do not fit "
                f"{len(self.item_ids)} items"
            )
        demand_unique(self.item_ids, "predictions: item_id")

    @property
    def predicted(self) -> NDArray[np.float64]:
        """All probabilities one after the other, the classes of an item together; shape (n_pairs,)."""
        return self.probabilities.ravel()

    @property
    def labels(self) -> NDArray[np.float64]:
        """Outcomes in the order of ``predicted``."""
        return self.outcomes.ravel()

    @property
    def item(self) -> NDArray[np.int64]:
        """Row of the item each pair belongs to, shape (n_pairs,)."""
        return np.repeat(np.arange(len(self.item_ids)), self.probabilities.shape[1])

    def in_order_of(self, other: Predictions) -> Predictions:
        """The same predictions with the items in the order of another system's.

        Raises
        ------
        InputError
            If one system has items that the other has not, or the outcome of an item differs.
        """
        only = sorted(set(self.item_ids) ^ set(other.item_ids))
        if only:
            raise InputError(f"predictions: item {name_first(only)} is there for one of two systems that are compared")
        rows = pd.Index(self.item_ids).get_indexer(pd.Index(other.item_ids))
        differs = (self.outcomes[rows] != other.outcomes).any(axis=1)
        if differs.any():
            names = [other.item_ids[k] for k in np.flatnonzero(differs)]
            raise InputError(f"predictions: two systems disagree on what happened at item {name_first(names)}")
        return Predictions(other.item_ids, self.probabilities[rows], self.outcomes[rows])

    def table(self) -> pd.DataFrame:
        """One row a pair of a probability and what happened."""
        return pd.DataFrame(
            {
                "item_id": np.array(self.item_ids, dtype=object)[self.item],
                "probability": self.predicted,
                "label": self.labels,
            }
        )
