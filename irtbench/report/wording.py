"""The words of the report: captions of tables and figures, and sentences, filled with what a result says."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

from jinja2 import Environment, StrictUndefined, Template

from irtbench.report import formatting

SOURCES = ("captions.toml", "prose.toml")
OF_FORMATTING = ("count", "decimal", "interval", "listing", "p_value", "plural")


@cache
def templates() -> dict[str, Template]:
    """The template of each caption and sentence, by its name."""
    environment = Environment(undefined=StrictUndefined)  # the page escapes what it takes
    environment.filters |= {name: getattr(formatting, name) for name in OF_FORMATTING}
    environment.filters |= {
        "share": formatting.percent, "percent": lambda share: f"{100 * share:g}%", "g": "{:g}".format,
    }  # fmt: skip
    folder = files("irtbench.report") / "templates"
    texts = [tomllib.loads((folder / name).read_text(encoding="utf-8")) for name in SOURCES]
    return {name: environment.from_string(text) for each in texts for name, text in each.items()}


def words(name: str, /, **found: object) -> str:
    """A caption, or a sentence, with what was found in its places.

    Examples
    --------
    >>> words("table_form_items", n_forms=2)
    'The items of each form.'
    """
    return templates()[name].render(found)


def lines(name: str, /, **found: object) -> list[str]:
    """The lines of such a text, without the empty ones."""
    return [line for line in words(name, **found).splitlines() if line]
