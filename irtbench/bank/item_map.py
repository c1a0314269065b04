"""The items and people of a scale: difficulty, discrimination and information of each, and the Wright map."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.bank.scale import Scale, ScaleLike, as_scale
from irtbench.data.shown import Drawn, counted, spanned
from irtbench.models.curves import icc, information
from irtbench.models.quadrature import Quadrature, refine
from irtbench.models.theta_posterior import STANDARD_NORMAL, step_at

MEASURES = ("difficulty", "discrimination", "information")


@dataclass(frozen=True, eq=False)
class ItemMap(Drawn):
    """What each item of a scale asks of people and tells about them; its figure is the Wright map.

    Parameters
    ----------
    scale
        The scale.
    expected_correct
        Proportion correct expected in the population, E[P(theta)], shape (n_items,).
    information
        Fisher information expected of a person of the population, E[I(theta)], shape (n_items,).
    """

    scale: Scale
    expected_correct: NDArray[np.float64]
    information: NDArray[np.float64]

    @property
    def share_of_information(self) -> NDArray[np.float64]:
        """Share of the scale's expected information that is the item's, shape (n_items,); NaN if there is none."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.information / self.information.sum(), dtype=np.float64)

    def table(self) -> pd.DataFrame:
        """One row an item, the most difficult first: columns of items.csv, what is expected of the population, text."""
        items = self.scale.table()
        described = [name for name in ("label", "group", "key", "text") if items[name].notna().any()]
        known = [name for name in items if name not in ("label", "group", "key", "text")]
        return (
            items[known]
            .assign(
                expected_correct=self.expected_correct,
                information=self.information,
                share_of_information=self.share_of_information,
            )
            .join(items[described])
            .sort_values("difficulty", ascending=False, kind="stable", ignore_index=True)
        )

    def extremes(self, most: int = 5) -> pd.DataFrame:
        """The items at either end: hardest and easiest, most and least discriminating, most and least informative.

        Rows of `table` with ``measure`` and ``end`` (``highest`` or ``lowest``) before them, at most so many an end; an
        item is never at both ends of a measure.
        """
        items = self.table()
        most = min(most, len(items) // 2 or 1)
        parts = []
        for measure in MEASURES:
            if items[measure].nunique() < 2 < len(items):  # the slopes of a Rasch model
                continue
            ranked = items.sort_values(measure, ascending=False, kind="stable", ignore_index=True)
            ends = {"highest": ranked.head(most), "lowest": ranked.iloc[most:].tail(most).iloc[::-1]}
            for end, rows in ends.items():
                found = rows.copy()
                found.insert(0, "measure", measure)
                found.insert(1, "end", end)
                parts.append(found)
        return pd.concat([part for part in parts if len(part)], ignore_index=True)

    def in_short(self) -> str:
        """How many items, and the range of their difficulty."""
        items = self.scale.items
        return f"{counted(items.n_items, 'item')} of {self.scale.name}, difficulty {spanned(items.difficulty)}"


def item_map(scale: ScaleLike, *, population: Quadrature | None = None) -> ItemMap:
    """Place the items and the people of a scale on one line.

    Parameters
    ----------
    scale
        A scale of a bank, or item parameters (`as_parameters`).
    population
        Density of ability; None for the scale's own, the standard normal where it has none.

    Examples
    --------
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([1.5, 0.5, 2.0], [-1.0, 0.5, 1.5], item_ids=["a", "b", "c"])
    >>> found = irtbench.item_map(items)
    >>> found
    <ItemMap: 3 items of all, difficulty -1.00 to 1.50>
    >>> found.table()[["item_id", "difficulty", "expected_correct", "information"]].round(3)
      item_id  difficulty  expected_correct  information
    0       c         1.5             0.130        0.312
    1       b         0.5             0.441        0.058
    2       a        -1.0             0.746        0.315
    """
    scale = as_scale(scale, categories=True)
    items, steepest = scale.items, float(np.abs(scale.items.discrimination).max())
    fine = refine(population or scale.population or STANDARD_NORMAL, step_at(steepest**2))  # for the steepest item
    return ItemMap(scale, fine.weights @ icc(fine.nodes, items), fine.weights @ information(fine.nodes, items))
