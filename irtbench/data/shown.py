"""How results show themselves: in one line, as a table, as single figures, and what each column means."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from inspect import getdoc
from operator import attrgetter
from string import Formatter
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data import exports
from irtbench.data.checked_settings import meanings
from irtbench.data.harmless_text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LETTERS, MOST_NUMBERS = 40, 8  # of a text, and of single figures, in one line
MOST_ROWS, MOST_COLUMNS = 8, 14  # of the small table

#: What names of things are names of.
THINGS = {"respondent_ids": "respondents", "item_ids": "items", "system_ids": "systems"}


class LineOfResult(Formatter):
    """Fills a line with attributes of a result, or of its parts, and with what their methods return.

    Formats are those of Python and in addition a noun, which counts (``{item_ids:item}`` is ``3 items``), ``distinct``
    of names, and ``spanned`` and ``significant``, the functions below.
    """

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The value, and what it was looked up by."""
        found, first = super().get_field(f"0.{field_name}", args, kwargs)
        return found() if callable(found) else found, first

    def format_field(self, value: Any, format_spec: str) -> str:
        """The value in words."""
        if format_spec in WAYS:
            return WAYS[format_spec](value)
        if len(format_spec) > 1 and format_spec.replace(" ", "").isalpha():
            return counted(int(value) if isinstance(value, int | np.integer) else len(value), format_spec)
        return str(super().format_field(value, format_spec))


class Shown:
    """Base of results, which say in one line what they are, where a dataclass would print every number.

    The line counts what is named (items, respondents) and has the single figures. A class for which other numbers
    matter more gives the line as ``short``, which `LineOfResult` fills, or has an ``in_short`` of its own.

    ``columns``, given with the class, are the columns of its table: attributes with a value a row or one for all rows,
    in their order, parted by commas. ``item_ids`` is the column ``item_id``, ``se=standard_error`` the column ``se``,
    and ``theta=abilities.theta`` is of a part of the result. What they mean is written once, in the docstring: of the
    class, in its section Parameters, or of the property.
    """

    _columns: ClassVar[Mapping[str, str]] = {}
    _short: ClassVar[str] = ""

    def __init_subclass__(cls, *, columns: str = "", short: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._short = short or cls._short
        if columns:
            parts = [part.partition("=") for part in columns.split(", ")]
            cls._columns = {re.sub("_ids$", "_id", name): source or name for name, _, source in parts}
        if "__repr__" not in vars(cls):
            cls.__repr__ = Shown.__repr__  # type: ignore[method-assign]  # a dataclass leaves it as it finds it

    @classmethod
    def column_meanings(cls) -> dict[str, str]:
        """What each column of the table means."""
        return {name: meaning_of(cls, source) for name, source in cls._columns.items()}

    def table(self) -> pd.DataFrame:
        """The result as a table, see `column_meanings`: without None; of single figures alone it has one row."""
        if not self._columns:
            return pd.DataFrame([self.summary()])
        found = {name: attrgetter(source)(self) for name, source in self._columns.items()}
        known = {name: values for name, values in found.items() if values is not None}
        has_rows = any(isinstance(values, tuple) or np.ndim(values) for values in known.values())
        return pd.DataFrame(known, index=None if has_rows else range(1))

    def summary(self) -> Any:
        """The single figures, by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, str | int | float | np.generic)}

    def in_short(self) -> str:
        """Size and key numbers, parted by commas."""
        if self._short:
            return LineOfResult().vformat(self._short, (self,), {})
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
        line = f"<b>{type(self).__name__}</b>: {html.escape(printable(self.in_short()))}"
        return f"<div>{line}{html_table(self.table())}</div>"


class Figures(Shown):
    """Base of results that are single figures: their table has one row."""

    def summary(self) -> dict[str, Any]:
        """All figures, by name."""
        return {name: value for name, value in vars(self).items() if not is_dataclass(value)}


class Drawn(Shown):
    """Base of results that have a figure."""

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the result on these axes of matplotlib, or on new ones, and return them."""
        assert exports.figure_of is not None  # the package sets it
        return exports.figure_of(self._drawn_as, ax)

    @property
    def _drawn_as(self) -> object:
        """What is drawn, where that is a part of the result."""
        return self


def meaning_of(cls: type, attribute: str) -> str:
    """What an attribute means: a field, a property, or one of a part of the result (``abilities.theta``)."""
    first, _, rest = attribute.partition(".")
    if rest:
        return meaning_of(get_type_hints(cls)[first], rest)
    described = {name: text for one in reversed(cls.__mro__) for name, text in meanings(one).items()}
    text = described.get(first) or " ".join((getdoc(getattr(cls, first, None)) or "").split("\n\n")[0].split())
    return re.sub(r"[,;]? (of )?shape \([^)]*\)", "", text)


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


WAYS: Mapping[str, Callable[[Any], str]] = {
    "spanned": spanned, "significant": significant, "distinct": lambda names: ", ".join(dict.fromkeys(names)),
}  # fmt: skip


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


def stacked(tables: Mapping[str, pd.DataFrame], empty: Sequence[str] = (), *, by: str = "scale") -> pd.DataFrame:
    """Tables one below the other, the name of each in a last column; without any an empty table of these columns."""
    named = [table.assign(**{by: name}) for name, table in tables.items()]
    return pd.concat(named, ignore_index=True) if named else pd.DataFrame(columns=[*empty])


def crossed(names: Mapping[str, Sequence[Any] | NDArray[Any]], figures: Mapping[str, NDArray[Any]]) -> pd.DataFrame:
    """One row for each two names of two kinds, the second kind changing first: figures of that shape as columns."""
    rows = pd.MultiIndex.from_product([*names.values()], names=[*names])
    return pd.DataFrame({name: values.ravel() for name, values in figures.items()}, rows).reset_index()


WORTH_SAYING = 10.0  # seconds
MINUTE, HOUR = 60.0, 3600.0


def time_left(seconds: float, done: int, n_samples: int) -> str:
    """What a line says of the time that is left if all samples are drawn; nothing below ten seconds.

    Examples
    --------
    >>> time_left(30.0, 2, 8), time_left(30.0, 10, 12), time_left(0.0, 0, 19)
    (', up to about 90 s more', '', '')
    >>> time_left(30.0, 2, 19), time_left(30.0, 2, 1000)
    (', up to about 4 min more', ', up to about 4.2 h more')
    """
    left = seconds / done * (n_samples - done) if done else 0.0
    if left < WORTH_SAYING:
        return ""
    if left < 2 * MINUTE:
        words = f"{left:.0f} s"
    else:
        words = f"{left / MINUTE:.0f} min" if left < 2 * HOUR else f"{left / HOUR:.1f} h"
    return f", up to about {words} more"
