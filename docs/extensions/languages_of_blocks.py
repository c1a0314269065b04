"""Indented blocks say no language: they are coloured by the one they are found to be in."""

from docutils import nodes
from sphinx.application import Sphinx

from code_blocks import language_of


def name_languages(app: Sphinx, doctree: nodes.document) -> None:
    """Set the language of blocks that have none."""
    for block in doctree.findall(nodes.literal_block):
        if block.get("language", "none") == "none":
            language = language_of(block.astext())
            prompted = block.astext().lstrip().startswith(">>> ")
            block["language"] = "pycon" if prompted else "sh" if language == "console" else language


def setup(app: Sphinx) -> dict[str, bool]:
    """Ask Sphinx to be called with every page it has read."""
    app.connect("doctree-read", name_languages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
