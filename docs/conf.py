"""How Sphinx builds the documentation; `scripts/docs` runs it. Nothing is fetched, and no page asks the network."""

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER / "extensions"), str(FOLDER.parent)]

import irtbench  # noqa: E402 - of this checkout

project = "irtbench"
author = "irtbench developers"
release = version = irtbench.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinx_copybutton",
    "formulas_in_docstrings",
    "generated_references",
    "languages_of_blocks",
    "links_to_sources",
    "mathml",
    "short_signatures",
]
exclude_patterns = ["extensions"]
default_role = "py:obj"

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autodoc_preserve_defaults = False  # the signature of settings taken by keyword has fields that the source does not
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "irtbench"
html_copy_source = False
html_show_sourcelink = False
html_math_renderer = "mathml"
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "navbar_end": ["theme-switcher"],
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": []}
