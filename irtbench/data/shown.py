"""How results show themselves: one line wherever they are printed, a line and a small table in a notebook."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data import drawn_by
from irtbench.data.harmless_text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LETTERS, MOST_NUMBERS = 40, 8  # of a text, and of single figures, in one line
MOST_ROWS, MOST_COLUMNS = 8, 14  # of the small table

#: What names of things are names of.
THINGS = {"respondent_ids": "respondents", "item_ids": "items", "system_ids": "systems"}


class Shown:
    """Base of results that say in one line what they are, where a dataclass would print every number.

    The line counts what is named (items, respondents) and has the single figures. A class for which other numbers
    matter more has an ``in_short`` of its own.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls):
            cls.__repr__ = Shown.__repr__  # type: ignore[method-assign]  # a dataclass leaves it as it finds it

    def in_short(self) -> str:
        """Size and key numbers, parted by commas."""
        found = []
        for name in (field.name for field in fields(self)):  # type: ignore[arg-type]
            value = getattr(self, name)
            if name in THINGS:
                found.append(f"{len(value)} {THINGS[name]}")
            elif isinstance(value, tuple | list | pd.DataFrame | Mapping) or getattr(value, "ndim", 0) > 1:
                size = " x ".join(str(n) for n in np.shape(value)) if hasattr(value, "shape") else len(value)
                found.append(f"{name} ({size})")
            elif isinstance(value, str | bool | int | float | np.number) and not isinstance(value, Enum):
                found.append(f"{name} {figure(value)}" if value != "" else "")
        return ", ".join([part for part in found if part][:MOST_NUMBERS])

    def __repr__(self) -> str:
        return printable(f"<{type(self).__name__}: {self.in_short()}>")

    def _repr_html_(self) -> str:
        """For notebooks: the line and the first rows of the table."""
        table = getattr(self, "table", None)
        line = f"<b>{type(self).__name__}</b>: {html.escape(printable(self.in_short()))}"
        return f"<div>{line}{'' if table is None else html_table(table())}</div>"


class Figures(Shown):
    """Base of results that are single figures: their table has one row."""

    def table(self) -> pd.DataFrame:
        """One row, a column a figure."""
        return pd.DataFrame([{name: value for name, value in vars(self).items() if not is_dataclass(value)}])


class Drawn(Shown):
    """Base of results that have a figure."""

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the result on these axes of matplotlib, or on new ones, and return them."""
        assert drawn_by.figure_of is not None  # the package sets it
        return drawn_by.figure_of(self._drawn_as, ax)

    @property
    def _drawn_as(self) -> object:
        """What is drawn, where that is a part of the result."""
        return self


def counted(n: int, word: str) -> str:
    """``1 item``, ``2 items``."""
    if n != 1:
        word = f"{word.removesuffix('y')}ies" if word.endswith("y") else f"{word}s"
    return f"{n} {word}"


def spanned(values: NDArray[np.float64]) -> str:
    """Least and greatest of the finite values: ``-1.52 to 2.10``."""
    finite = values[np.isfinite(values)]
    return f"{finite.min() + 0.0:.2f} to {finite.max() + 0.0:.2f}" if finite.size else "not known"


def significant(p: NDArray[np.float64]) -> str:
    """How many of adjusted p are below .05."""
    return f"{int((p < 0.05).sum())} with adjusted p < .05"


def figure(value: object) -> str:
    """One value in a line: four digits of a number, the beginning of a text."""
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    text = " ".join(str(value).split())
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}..."


def html_table(table: pd.DataFrame) -> str:
    """The first rows and columns of a table, every text escaped, and how many there are in all."""
    shown = table.iloc[:MOST_ROWS, :MOST_COLUMNS]
    shown = shown.map(lambda cell: printable(cell) if isinstance(cell, str) else cell)
    text = shown.rename(columns=lambda name: printable(str(name))).to_html(
        index=False, border=0, na_rep="", float_format=lambda number: f"{number:.3f}"
    )
    return text if shown.shape == table.shape else f"{text}<p>{table.shape[0]} rows x {table.shape[1]} columns</p>"
