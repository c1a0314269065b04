"""Sources in the references, named by DOI or arXiv number, become links."""

import re

from sphinx.application import Sphinx

SOURCE = re.compile(r"\b(?P<name>(?P<kind>doi|arXiv):(?P<number>\S+))$", re.MULTILINE)
SITES = {"doi": "https://doi.org/", "arXiv": "https://arxiv.org/abs/"}


def linked(match: re.Match[str]) -> str:
    """The source as a link in Markdown."""
    return f"[{match['name']}](<{SITES[match['kind']]}{match['number']}>)"


def link(app: Sphinx, page: str, source: list[str]) -> None:
    """Link the sources of the page of references."""
    if page == "references":
        source[0] = SOURCE.sub(linked, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Ask Sphinx to be called with every page it has read."""
    app.connect("source-read", link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
