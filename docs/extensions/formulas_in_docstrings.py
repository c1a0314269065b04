"""Formulas stand in docstrings letter by letter as they are meant, as indented lines or in a sentence: kept so."""

import re
from itertools import takewhile
from typing import Any

from sphinx.application import Sphinx

INDENT = "    "
BARS = re.compile(r"(``.*?``|`[^`]*`)|\|(?=\S)([^|`]*[^|`\s])\|")  # |a|, which elsewhere asks for a replacement


def as_they_stand(text: list[str]) -> list[str]:
    """The docstring with every indented block before the first section marked as literal, and bars as bars."""
    found: list[str] = []
    sections = len(list(takewhile(lambda line: not line.startswith("-----"), text)))
    inside = shown_as_code = False
    for place, line in enumerate(text):
        begins = line.startswith(INDENT) and place > 0 and not text[place - 1].strip() and place < sections
        if begins and not inside:
            found += ["::", ""]
            inside = True
        elif line.strip() and not line.startswith(INDENT):
            inside = False
        shown_as_code |= line.startswith("Examples")
        found.append(line if inside or shown_as_code else BARS.sub(_escaped, line))
    return found


def _escaped(match: re.Match[str]) -> str:
    return match[1] or f"\\|{match[2]}\\|"


def mark(app: Sphinx, what: str, name: str, thing: object, options: Any, lines: list[str]) -> None:
    """Change the lines of a docstring in place."""
    lines[:] = as_they_stand(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    """Come before numpydoc, which reads sections."""
    app.connect("autodoc-process-docstring", mark, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
