"""How to read each table and figure: the captions of templates/captions.toml, filled with what a result says."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

from jinja2 import Environment, StrictUndefined, Template

from irtbench.report.formatting import count


@cache
def templates() -> dict[str, Template]:
    """The caption of each table and figure, by its name."""
    environment = Environment(undefined=StrictUndefined)  # the page escapes what it takes
    environment.filters |= {"count": count, "percent": lambda share: f"{100 * share:g}%"}
    source = files("irtbench.report").joinpath("templates/captions.toml").read_text(encoding="utf-8")
    return {name: environment.from_string(text) for name, text in tomllib.loads(source).items()}


def caption(name: str, **found: object) -> str:
    """A caption with what was found in its places.

    Examples
    --------
    >>> caption("table_form_items", n_forms=2)
    'The items of each form.'
    """
    return templates()[name].render(found)
