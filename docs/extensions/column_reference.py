"""The reference of the columns of tables, made from the results: what each column of ``.table()`` means."""

from __future__ import annotations

from command_reference import as_markdown

import irtbench
from irtbench.data.shown import Shown


def results() -> dict[str, type[Shown]]:
    """The public results that list their columns, in alphabetical order."""
    found = {name: getattr(irtbench, name) for name in sorted(irtbench._HOMES)}
    return {
        name: cls for name, cls in found.items() if isinstance(cls, type) and issubclass(cls, Shown) and cls._columns
    }


def reference() -> str:
    """The whole reference in Markdown, a heading a result."""
    return "\n".join(_section(name, cls) for name, cls in results().items())


def _section(name: str, cls: type[Shown]) -> str:
    said = [" ".join(part.split()) for part in (cls.__doc__ or "").split("\n\n")]
    about = [part for part in said[:3] if not part.startswith("Parameters")]
    columns: dict[str, list[str]] = {}
    for column, meaning in cls.column_meanings().items():  # a row for those of one meaning
        columns.setdefault(as_markdown(meaning).replace("|", "\\|"), []).append(f"`{column}`")
    rows = (f"| {', '.join(names)} | {meaning} |" for meaning, names in columns.items())
    heading = (f"## `{name}`", "", as_markdown(" ".join(about)), "", "| columns | meaning |", "|---|---|")
    return "\n".join([*heading, *rows, ""])
