"""What pages of single results have in common: their frame, how many rows they show, how to read them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

import pandas as pd

from irtbench.report.addresses import Sentence
from irtbench.report.blocks import Block, Heading, Text
from irtbench.report.formatting import count, plural
from irtbench.report.page import Page

MOST_SENTENCES = 12
MOST_ROWS = 5_000  # of a page's table; the command's own file has all


def result_page(command: str, title: str, lead: str, results: Sequence[Sentence], blocks: Sequence[Block]) -> Page:
    """The page of a command's result; without a date, so that the same input gives the same page."""
    own = version("irtbench")
    return Page(title, f"irtbench {command}, version {own}", lead, results, blocks, own)


def how_to_read(*paragraphs: str) -> list[Block]:
    """The end of such a page."""
    return [Heading("How to read it"), *(Text(paragraph) for paragraph in paragraphs)]


def first_rows(rows: pd.DataFrame, noun: str) -> tuple[pd.DataFrame, str]:
    """As many rows as a page has, and the sentence that says where there are more; empty where these are all."""
    if len(rows) <= MOST_ROWS:
        return rows, ""
    said = f" The first {count(MOST_ROWS)} of {plural(len(rows), noun)}; the table of results has all."
    return rows.head(MOST_ROWS), said
