"""Text from a user's file that is safe to show: on a terminal, in a page, in a spreadsheet."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

GUARD = "'"  # before a text that a spreadsheet would take for a formula
MOST_SHOWN = 40  # letters around what is wrong
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

# what drives a terminal or breaks XML (C0 and C1 but for tab and line ends, DEL, U+FFFE, U+FFFF), and what makes text
# read in another order than it is written in (the bidirectional overrides and isolates)
_UNSAFE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe\uffff]")
# what a spreadsheet takes for a formula, but for plain numbers such as -3
_BEGINNINGS = frozenset("=+-@\t\r")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?|[+-]?nan", re.IGNORECASE)


def printable(text: str) -> str:
    r"""The text with every control character replaced by U+FFFD; tabs and line ends stay.

    Examples
    --------
    >>> printable("a\x1b[31mb")
    'a�[31mb'
    """
    return _UNSAFE.sub(REPLACEMENT, text)


def escaped(json: str) -> str:
    r"""A JSON text with control characters written as ``\uXXXX``, which is the same JSON.

    Examples
    --------
    >>> escaped('"a\x9bb"')
    '"a\\u009bb"'
    """
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", json)


def lone_surrogate(value: Any) -> str:
    r"""A text around half a character in what JSON holds, which no file can be written with; empty if there is none.

    Examples
    --------
    >>> lone_surrogate({"name": "item \ud8001"}), lone_surrogate(["é"])
    ("'item \\ud8001'", '')
    """
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        start = text.rfind('"', 0, error.start) + 1
        return ascii(text[max(start, error.start - MOST_SHOWN) : error.start + MOST_SHOWN].partition('"')[0])
    return ""


def guarded(text: str) -> str:
    """The text as a spreadsheet shows it: one that would be a formula gets an apostrophe before it.

    Examples
    --------
    >>> guarded("=1+1"), guarded("-3"), guarded("@model")
    ("'=1+1", '-3', "'@model")
    """
    return GUARD + text if text[:1] in _BEGINNINGS and not _NUMBER.fullmatch(text) else text


def unguarded(text: str) -> str:
    """Inverse of `guarded`: the reader takes the apostrophe away again.

    Examples
    --------
    >>> unguarded("'=1+1"), unguarded("'tis")
    ('=1+1', "'tis")
    """
    bare = text.removeprefix(GUARD)
    return bare if bare != text and guarded(bare) == text else text


def guarded_table(table: pd.DataFrame) -> pd.DataFrame:
    """The table with its texts guarded, names of columns included."""
    import pandas as pd  # a command line that shows its help does not wait for it

    found = table.rename(columns=lambda name: guarded(name) if isinstance(name, str) else name)
    for place in range(table.shape[1]):
        column = table.iloc[:, place]
        if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
            continue
        if {text[:1] for text in column.to_numpy(dtype=object) if isinstance(text, str)} & _BEGINNINGS:
            codes, distinct = pd.factorize(column)
            texts = [guarded(text) if isinstance(text, str) else text for text in distinct]
            found.isetitem(place, [texts[code] if code >= 0 else None for code in codes])
    return found
