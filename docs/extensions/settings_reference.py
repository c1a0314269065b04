"""The reference of the study file, made from the settings' classes: every key with its type, default and meaning."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from inspect import cleandoc
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from numpydoc.docscrape import NumpyDocString

from irtbench.building.prune_rules import PruneRules
from irtbench.config import PRESETS, StudyFile
from irtbench.data.checked_settings import Range, Settings

NO_TABLES = ("path", "grades")  # the latter is [model] kind, of grades
WORDS = {bool: "true or false", str: "text", int: "whole number", float: "number", Path: "path"}


def tables() -> dict[str, type[Settings]]:
    """The tables of a study file and the settings that each is read into, in the order in which they are written."""
    hints = get_type_hints(StudyFile)
    return {f.name: _settings_in(hints[f.name])[0] for f in fields(StudyFile) if f.name not in NO_TABLES}


def inner_tables(cls: type[Settings], path: str) -> dict[str, type[Settings]]:
    """Tables inside a table as TOML writes them, ``[[pruning.exclude]]`` or ``[published.scales.NAME]``."""
    hints = get_type_hints(cls)
    found = {}
    for f in fields(cls):  # type: ignore[arg-type]  # a class of settings is a dataclass
        for inner in _settings_in(hints[f.name]):
            is_list = get_origin(hints[f.name]) is tuple
            found[f"[[{path}.{f.name}]]" if is_list else f"[{path}.{f.name}.NAME]"] = inner
    return found


def meanings(cls: type) -> dict[str, str]:
    """What each field means, from the section Parameters of the class's docstring; one entry may name several."""
    found = {}
    for entry in NumpyDocString(_docstring(cls))["Parameters"]:
        for name in (entry.name or entry.type).split(", "):
            found[name] = _paragraphs(entry.desc)
    return found


def keys(cls: type[Settings]) -> list[tuple[str, str, str, str]]:
    """Name, type, default and meaning of every key of a table."""
    hints, meaning = get_type_hints(cls, include_extras=True), meanings(cls)
    return [
        (f.name, type_in_words(hints[f.name]), default_in_toml(f), meaning.get(f.name, ""))
        for f in fields(cls)  # type: ignore[arg-type]
    ]


def type_in_words(hint: Any) -> str:
    """A type as it is written in TOML: ``list of texts``, ``"eap" or "map"``, ``number in (0, 1)``."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        limits = [str(limit) for limit in inner[1:] if isinstance(limit, Range)]
        number = WORDS[inner[0]]
        return limits[0].removeprefix("a ").replace("number", number, 1) if limits else number
    if origin is Literal:
        return " or ".join(f'`"{value}"`' for value in inner)
    if origin in (Union, UnionType):
        return " or ".join(type_in_words(part) for part in inner if part is not NoneType)
    if origin is tuple:
        parts = [part for part in inner if part is not Ellipsis]
        return f"list of {len(parts)} numbers" if len(parts) > 1 else f"list: each {type_in_words(parts[0])}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"table: each value {type_in_words(inner[1])}"
    if is_dataclass(hint):
        return "table"
    return WORDS[hint]


def default_in_toml(field: Field[Any]) -> str:
    """The value a key has unless it is said, as TOML writes it."""
    value = field.default if field.default_factory is MISSING else field.default_factory()
    if value is MISSING:
        return "must be said"
    if value is None:
        return "none"
    return f"`{_toml(value)}`"


def reference() -> str:
    """The whole reference in Markdown, a heading a table."""
    parts = []
    for name, cls in tables().items():
        parts.append(_section(f"## `[{name}]`", cls))
        parts += [_section(f"### `{heading}`", inner) for heading, inner in inner_tables(cls, name).items()]
    return "\n".join(parts)


def _section(heading: str, cls: type[Settings]) -> str:
    summary = " ".join(NumpyDocString(_docstring(cls))["Summary"])
    rows = [f"| `{name}` | {kind} | {default} | {_cell(meaning)} |" for name, kind, default, meaning in keys(cls)]
    if cls is PruneRules:
        names = " or ".join(f'`"{name}"`' for name in PRESETS)
        rows.insert(0, f'| `preset` | {names} | `"standard"` | The rules that the other keys begin from. |')
    table = "\n".join(["| key | type | default | meaning |", "|---|---|---|---|", *rows])
    return f"{heading}\n\n{markdown(summary)}\n\n{table}\n"


def markdown(text: str) -> str:
    """A docstring's marks in Markdown: names in single and double backticks alike are code."""
    return re.sub(r"``([^`]+)``", r"`\1`", text)


def _cell(text: str) -> str:
    return markdown(text).replace("|", "\\|")


def _paragraphs(lines: list[str]) -> str:
    """Lines of a docstring as one cell of a table: lists and paragraphs with a break between them."""
    text = re.sub(r"\n\s*- ", "<br>• ", "\n".join(lines).strip())
    return re.sub(r"\s*\n\s*", " ", re.sub(r"\n\s*\n", "<br>", text)).replace("<br> ", "<br>")


def _docstring(cls: type) -> str:
    """The docstring of the class itself, its lines without their common indent."""
    return cleandoc(cls.__doc__ or "")


def _settings_in(hint: Any) -> list[type[Settings]]:
    """Classes of settings anywhere in a type."""
    if isinstance(hint, type) and issubclass(hint, Settings):
        return [hint]
    return [cls for part in get_args(hint) for cls in _settings_in(part)]


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | Path):
        return f'"{value}"'
    if isinstance(value, tuple):
        return f"[{', '.join(_toml(part) for part in value)}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name} = {_toml(part)}" for name, part in value.items()) + "}"
    return f"{value:g}" if isinstance(value, float) else str(value)
