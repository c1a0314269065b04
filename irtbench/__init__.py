"""irtbench: from crowd answers to a calibrated evaluation scale, and any system's place on it.

Arrays, data frames and files go in (``fit_model``, ``score_responses``, ``item_fit``, ``agreement`` ...), results with
``.table()`` come out. Names are loaded when they are first used, so that scoring does not wait for torch. Sources are
cited by author and year; docs/references.md has them in full.
"""

from importlib import import_module
from pathlib import Path
from textwrap import fill

from irtbench.data import exports
from irtbench.data.exports import homes_of

__version__ = "0.2.0"

_STUB = Path(__file__).with_suffix(".pyi")
_HOMES = {name: module.removeprefix("irtbench.") for name, module in homes_of(_STUB).items()}
_ROOMS = "analysis", "bank", "building", "data", "diagnostics", "estimation", "evaluation", "models", "scoring", "study"
_IN_ROOMS = {name: room for room in _ROOMS for name in homes_of(_STUB.parent / room / _STUB.name)}

#: The names in daily use; all others are in their room, and for a release here as well.
__all__ = [name for name in _HOMES if name not in _IN_ROOMS]


def _by_room() -> str:
    """The names in daily use and those of the rooms, a paragraph a room."""
    rooms: dict[str, list[str]] = {}
    for name, module in _HOMES.items():
        room = module.split(".")[0]
        rooms.setdefault(f"irtbench.{room}" if name in _IN_ROOMS else room, []).append(name)
    return "\n\n".join(
        fill(f"{room}: {', '.join(names)}", 116, subsequent_indent="    ") for room, names in rooms.items()
    )


__doc__ = f"{__doc__}\nThe public names, in the order of the procedure, and those of the rooms:\n\n{_by_room()}\n"


def _figure_of(result: object, ax: object) -> object:
    """The figure of a result; matplotlib is loaded with the first."""
    return import_module("irtbench.report.result_pages").figure_of(result, ax)


exports.figure_of = _figure_of  # type: ignore[assignment]  # the types of what is not loaded yet


def __getattr__(name: str) -> object:
    """Load a public name from the module that holds it, or a room."""
    if name in _ROOMS:
        return import_module(f"irtbench.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'irtbench' has no attribute {name!r}")
    return getattr(import_module(f"irtbench.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """The names in daily use, the rooms, and what every module has."""
    return sorted([*__all__, *_ROOMS, *(name for name in globals() if name.startswith("__"))])
