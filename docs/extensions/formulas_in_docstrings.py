"""Formulas stand in docstrings as indented lines, letter by letter as they are meant: they are kept so."""

from itertools import takewhile
from typing import Any

from sphinx.application import Sphinx

INDENT = "    "


def as_they_stand(text: list[str]) -> list[str]:
    """The docstring with every indented block before the first section marked as literal."""
    found: list[str] = []
    sections = len(list(takewhile(lambda line: not line.startswith("-----"), text)))
    inside = False
    for place, line in enumerate(text):
        begins = line.startswith(INDENT) and place > 0 and not text[place - 1].strip() and place < sections
        if begins and not inside:
            found += ["::", ""]
            inside = True
        elif line.strip() and not line.startswith(INDENT):
            inside = False
        found.append(line)
    return found


def mark(app: Sphinx, what: str, name: str, thing: object, options: Any, lines: list[str]) -> None:
    """Change the lines of a docstring in place."""
    lines[:] = as_they_stand(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    """Come before numpydoc, which reads sections."""
    app.connect("autodoc-process-docstring", mark, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
