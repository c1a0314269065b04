"""Parts of pages that are made from the package when the documentation is built.

A page says where, in a comment that is not seen where the page is read unbuilt: ``<!-- made here: commands -->``,
``<!-- made here: study file -->``, ``<!-- made here: columns -->``, ``<!-- made here: names of diagnostics -->``.
"""

import re
from typing import Any

import api_reference
import column_reference
import command_reference
from sphinx.application import Sphinx

import settings_reference

PLACE = re.compile(r"<!-- made here: (?:(?P<what>commands|study file|columns)|names of (?P<room>\w+)) -->")


def filled(match: re.Match[str]) -> str:
    """What stands in a place."""
    if match["room"]:
        return api_reference.reference(match["room"])
    made_of = {"commands": command_reference, "study file": settings_reference, "columns": column_reference}
    return made_of[match["what"]].reference()


def fill(app: Sphinx, page: str, source: list[str]) -> None:
    """Put them into a page that has just been read."""
    source[0] = PLACE.sub(filled, source[0])


def changed(app: Sphinx, environment: Any, *pages: Any) -> list[str]:
    """Pages to be read again in any case, since what they are made from is not theirs."""
    return [page for page in environment.found_docs
            if PLACE.search((app.srcdir / f"{page}.md").read_text(encoding="utf-8"))]  # fmt: skip


def setup(app: Sphinx) -> dict[str, bool]:
    """Ask Sphinx to be called with every page it has read."""
    app.connect("source-read", fill)
    app.connect("env-get-outdated", changed)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
