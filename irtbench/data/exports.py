"""What the package tells its rooms: public names, loaded when they are first used, and what draws results."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@cache
def homes_of(stub: Path) -> dict[str, str]:
    """The module that holds each name of a stub; those of another stub that it takes whole come last."""
    homes: dict[str, str] = {}
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            if node.names[0].name == "*":
                homes |= homes_of(stub.parent / node.module.split(".")[-1] / stub.name)
            else:
                homes |= dict.fromkeys((alias.name for alias in node.names), node.module)
    return homes


def exported(file: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of the package of this ``__init__.py``; its files are loaded too."""
    path = Path(file)
    homes = homes_of(path.with_suffix(".pyi"))

    def load(name: str) -> object:
        if name in homes:
            return getattr(import_module(homes[name]), name)
        if path.with_name(f"{name}.py").is_file() or path.with_name(name).joinpath("__init__.py").is_file():
            return import_module(f"irtbench.{path.parent.name}.{name}")
        raise AttributeError(f"module 'irtbench.{path.parent.name}' has no attribute {name!r}")

    return load, lambda: sorted(homes), list(homes)


#: The figure of a result, on axes that are given or on new ones.
figure_of: Callable[[object, Axes | None], Axes] | None = None
