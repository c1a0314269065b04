"""The reference of the public names, made from `irtbench`: a room's names in the order of the procedure."""

from __future__ import annotations

from inspect import getdoc, isclass

import irtbench


def names_of(room: str) -> list[str]:
    """The public names whose module lies in a room."""
    return [name for name, module in irtbench._HOMES.items() if module.split(".")[0] == room]


def first_sentence(name: str) -> str:
    """What a public name is, in the first paragraph of its docstring."""
    text = getdoc(getattr(irtbench, name)) or ""
    return " ".join(text.split("\n\n")[0].split())


def reference(room: str) -> str:
    """A list of the room's names and their entries, as a block of reStructuredText inside Markdown."""
    names = names_of(room)
    lines = [".. currentmodule:: irtbench", "", *(f"- :py:obj:`{name}`: {first_sentence(name)}" for name in names), ""]
    for name in names:
        if isclass(getattr(irtbench, name)):
            lines += [f".. autoclass:: {name}", "   :members:", ""]
        else:
            lines += [f".. autofunction:: {name}", ""]
    return "\n".join(["```{eval-rst}", *lines, "```"])
