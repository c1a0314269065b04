"""What a page is made of: sections of paragraphs, tables and figures, as data; the template writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from irtbench.report.drawing import Drawing
from irtbench.report.formatting import WrittenTable, write_table


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    kind: Literal["text"] = "text"


@dataclass(frozen=True)
class Table:
    """A table with a caption that says how to read it."""

    caption: str
    table: WrittenTable
    kind: Literal["table"] = "table"


@dataclass(frozen=True)
class ItemsTable:
    """The table of all items, each with an address.

    Parameters
    ----------
    caption
        How to read it.
    table
        The written values; the item's name comes first.
    anchors
        The address of each row's item.
    asides
        For each column whether a page with script shows it only where an item is opened.
    details
        Numbers that the script draws, as plain JSON values.
    """

    caption: str
    table: WrittenTable
    anchors: Sequence[str]
    asides: Sequence[bool]
    details: dict[str, object]
    kind: Literal["items"] = "items"


@dataclass(frozen=True)
class FigureOfPanels:
    """Panels beside each other under one caption."""

    caption: str
    panels: list[Drawing]
    kind: Literal["figure"] = "figure"


@dataclass(frozen=True)
class Heading:
    """What the blocks below are about."""

    text: str
    kind: Literal["heading"] = "heading"


Block = Text | Table | ItemsTable | FigureOfPanels | Heading


@dataclass(frozen=True)
class Section:
    """A part of the page; without blocks it is left out."""

    anchor: str
    title: str
    blocks: list[Block]


def table(frame: pd.DataFrame, caption: str) -> list[Block]:
    """A table block; none for an empty table."""
    return [] if frame.empty else [Table(caption, write_table(frame))]


def figure(panels: list[Drawing], caption: str) -> list[Block]:
    """A figure block; none without panels."""
    return [FigureOfPanels(caption, panels)] if panels else []
