"""Stated probabilities from a table: a row an item and system, one column of probabilities or one a class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError, refuse_first
from irtbench.data.readers.table import (
    WORDS,
    demand_cells,
    demand_filled,
    field_places,
    read_table,
    to_numbers,
)
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
        if only := sorted(set(self.item_ids) ^ set(other.item_ids)):
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


#: How far the probabilities of all classes may sum from 1, as printed digits leave them.
ROUNDING = 5e-3


def read_predictions(
    path: str | Path,
    *,
    probability: str = "probability",
    label: str = "label",
    item: str | None = None,
    classes: Mapping[str, str] | None = None,
    by: str | None = None,
) -> dict[str, Predictions]:
    r"""Read stated probabilities and outcomes.

    Parameters
    ----------
    path
        A CSV or Parquet file.
    probability
        The column of the probability that the label is 1.
    label
        The column of what happened: 1 or 0, or with ``classes`` the name of the right class.
    item
        The column of item names; None for rows without names, which then are their numbers within each system.
    classes
        For each class the column of its probability, instead of ``probability``.
    by
        The column of the system (or set of items) a row belongs to; None if all are of one, named ``all``.

    Returns
    -------
    dict
        Predictions of each system, in order of appearance.

    Raises
    ------
    InputError
        If a column is missing, a probability is not a number in [0, 1] or is missing, classes do not sum to 1, a label
        is missing or unknown, or an item has two rows of one system.

    Examples
    --------
    >>> from pathlib import Path
    >>> import irtbench
    >>> _ = Path("predictions.csv").write_text("probability,label\n0.9,1\n0.3,0\n")
    >>> irtbench.read_predictions("predictions.csv")
    {'all': <Predictions: 2 items, probabilities (2 x 1), outcomes (2 x 1)>}
    """
    given, columns = [name for name in (item, by) if name is not None], list((classes or {"": probability}).values())
    frame = read_table(path, [*columns, label, *given])
    demand_filled(frame, path, *given)
    stated = np.column_stack([_probabilities(frame, column, path) for column in columns])
    happened = _classes(frame, label, classes, stated, path) if classes else _events(frame, label, path)
    systems = pd.Series("all", index=frame.index) if by is None else frame[by]
    found = {}
    for system, rows in systems.groupby(systems, sort=False).indices.items():
        names = frame[item].iloc[rows] if item is not None else [str(k + 1) for k in range(len(rows))]
        try:
            found[str(system)] = Predictions(tuple(names), stated[rows], happened[rows])
        except InputError as error:
            raise InputError(f"file {path}: {system}: {error}") from None
    return found


def _probabilities(frame: pd.DataFrame, column: str, path: str | Path) -> NDArray[np.float64]:
    values = to_numbers(frame[column], place=field_places(path, column))
    demand_cells(frame, column, path, (values >= 0) & (values <= 1), "a probability in [0, 1]")
    return values


def _events(frame: pd.DataFrame, label: str, path: str | Path) -> NDArray[np.float64]:
    values = to_numbers(frame[label], place=field_places(path, label), words=WORDS)
    demand_cells(frame, label, path, (values == 0) | (values == 1), "the label 1 or 0")
    return values[:, None]


def _classes(
    frame: pd.DataFrame, label: str, classes: Mapping[str, str], stated: NDArray[np.float64], path: str | Path
) -> NDArray[np.float64]:
    columns, total = list(classes.values()), stated.sum(axis=1)
    refuse_first(
        np.abs(total - 1) > ROUNDING,
        lambda row: (
            f"{field_places(path, columns[0])(row)}: the probabilities of {name_first(columns)} must sum to 1 "
            f"but sum to {total[row]:g}"
        ),
    )
    names = list(classes)
    position = pd.Index(names).get_indexer(pd.Index(frame[label]))
    demand_cells(frame, label, path, position >= 0, f"one of {name_first(names)}")
    return (position[:, None] == np.arange(len(names))).astype(np.float64)
