"""The reference of the commands, made from their functions: arguments, options with type, default and help, files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from inspect import Parameter, getdoc
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from typer.models import ArgumentInfo, OptionInfo
from typer.utils import get_params_from_function

from irtbench.cli.declared import Declared
from irtbench.cli.main import COMMANDS, MODULES, function_of

FILE = re.compile(r"(?<![\w./*])\w+\.(?:csv|json|svg|png|html|parquet|xml|yaml|jsonl)\b")
NUMBER = re.compile(r"_\d+(?=\.)")  # of a figure among several
WORDS = {str: "text", int: "whole number", float: "number", Path: "path"}


@dataclass(frozen=True)
class Choice:
    """An argument or option of a command: its names, what it takes, its value unless said, and its help."""

    names: tuple[str, ...]
    takes: str
    default: str
    meaning: str
    is_argument: bool

    @property
    def row(self) -> str:
        """Its row in the table."""
        names = ", ".join(f"`{name}`" for name in self.names)
        cells = (names, self.takes, self.default, self.meaning.replace("|", "\\|"))
        return f"| {' | '.join(cells)} |"


def choices(command: str) -> list[Choice]:
    """Arguments and options of a command, in the order of its help."""
    return [_choice(parameter.annotation, parameter.default)
            for parameter in get_params_from_function(function_of(command)).values()]  # fmt: skip


def files_written(command: str) -> list[str]:
    """Names of the files that a command may write, as far as they are fixed: those listed, then those spoken of."""
    function = function_of(command)
    listed = [NUMBER.sub("_N", name) for name in _files_listed(command)]
    return list(dict.fromkeys([*listed, *FILE.findall(_text_on_writing(getdoc(function) or ""))]))


def reference() -> str:
    """The whole reference in Markdown, a heading a command."""
    return "\n".join(_section(command) for command in COMMANDS)


def _section(command: str) -> str:
    found = choices(command)
    arguments = " ".join(choice.names[0] for choice in found if choice.is_argument)
    rows = "\n".join(choice.row for choice in found)
    files = files_written(command)
    written = f"\nFiles: {', '.join(f'`{name}`' for name in files)}.\n" if files else ""
    return (
        f"## `{command}`\n\n{as_markdown(getdoc(function_of(command)) or '')}\n\n"
        f"```text\nirtbench {command} {arguments} [OPTIONS]\n```\n{written}\n"
        f"| | takes | unless said | meaning |\n|---|---|---|---|\n{rows}\n"
    )


def _choice(annotation: Any, info: Any) -> Choice:
    assert isinstance(info, ArgumentInfo | OptionInfo)
    is_argument = isinstance(info, ArgumentInfo)
    names = (info.metavar or "",) if is_argument else tuple(info.param_decls or ())
    is_switch = annotation is bool
    takes = "" if is_switch else _type_in_words(annotation, info)
    if not is_switch and not is_argument and info.metavar:
        takes = f"`{info.metavar}`" + (", repeatable" if get_origin(annotation) in (list, tuple) else "")
    return Choice(names, takes, "" if is_switch else _default_in_words(info.default), info.help or "", is_argument)


def _type_in_words(annotation: Any, info: ArgumentInfo | OptionInfo) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in inner)
    if origin in (Union, UnionType):
        return " or ".join(_type_in_words(part, info) for part in inner if part is not NoneType)
    if origin in (list, tuple):
        return f"{_type_in_words(inner[0], info)}, repeatable"
    low = "" if info.min is None else f" from {info.min:g}"
    high = "" if info.max is None else f" to {info.max:g}"
    return f"{WORDS[annotation]}{low}{high}"


def _default_in_words(default: Any) -> str:
    if default in (Ellipsis, Parameter.empty):
        return "must be said"
    return "" if default is None or default == [] or default == () else f"`{default}`"


def _files_listed(command: str) -> list[str]:
    """The files that a command is declared with, or its module's constants list."""
    group, _, own = command.rpartition(" ")
    known = vars(import_module(f"irtbench.cli.{MODULES.get(command, group or own)}"))
    declared = known[own.replace("-", "_")]
    if isinstance(declared, Declared):
        return list(declared.files)
    lists = [names for name, names in known.items() if name.endswith("FILES") and isinstance(names, tuple)]
    return [name for names in lists for name in names]


def _text_on_writing(text: str) -> str:
    """The sentences of a docstring that say what is written."""
    flat = " ".join(text.split())
    return " ".join(part for part in re.split(r"(?<=[.;])\s", flat) if re.search(r"\b[Ww]rites\b", part))


def as_markdown(text: str) -> str:
    """The docstring with names of files as code, and nothing in it taken for marks."""
    escaped = re.sub(r"([*_<\[])", r"\\\1", text)
    parts = escaped.split("`")  # what stands in backticks is code already
    plain = [FILE.sub(r"`\g<0>`", part.replace("\\_", "_")) if place % 2 == 0 else part.replace("\\", "")
             for place, part in enumerate(parts)]  # fmt: skip
    return "`".join(plain)
