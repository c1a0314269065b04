"""What the fields of a class mean, which is said once: in its docstring."""

from __future__ import annotations

import re
from inspect import cleandoc


def meanings(cls: type) -> dict[str, str]:
    """What each field means, from the section Parameters of the class's docstring; one entry may name several."""
    parameters = cleandoc(cls.__doc__ or "").partition("Parameters\n----------\n")[2].partition("\n\nRaises")[0]
    entries = re.findall(r"^(\w[\w, ]*)\n((?:    .*\n?|\n(?=    ))+)", parameters, re.MULTILINE)
    return {name: " ".join(text.split()) for names, text in entries for name in names.split(", ")}
