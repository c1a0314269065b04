"""Settings as options: the fields of a class of settings among a command's parameters become options of their own."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import partial, wraps
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import ParameterInfo

from irtbench.cli.options import numbers
from irtbench.data.checked_settings import meanings

Option = tuple[inspect.Parameter, bool]


@dataclass(frozen=True)
class Fields:
    """How the fields of settings become options; part of the parameter's annotation.

    Parameters
    ----------
    names
        Options of another name than their field.
    without
        Fields that are none.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    without: Sequence[str] = ()


def expanded(function: Callable[..., Any], **usual: Any) -> Callable[..., None]:
    """The function as typer takes it: a parameter an option; `usual` are values in `reading` unless given.

    Where two options would have the same name, it is that of the one that comes first; `reading` comes last, and is
    before the seed in the help.
    """
    signature = inspect.signature(function, eval_str=True)
    own = dict(signature.parameters)
    groups: dict[str, tuple[Any, dict[str, tuple[str, bool]]]] = {}
    shown = {name: [one] for name, one in own.items() if settings_in(one.annotation)[0] is None}
    taken = {name for (one,) in shown.values() for name in names_of(one.annotation)}
    for name in sorted(own.keys() - shown.keys(), key=lambda name: (name == "reading", [*own].index(name))):
        cls, how = settings_in(own[name].annotation)
        unfinished = any(get_origin(part) is partial for part in get_args(own[name].annotation))  # for the command
        groups[name], shown[name] = (partial(partial, cls) if unfinished else cls, {}), []
        for place, (option, commas) in options_of(cls, how).items():
            if not (free := with_free_names(option, taken)):
                continue
            alone = place if place not in own and all(place not in known for _, known in groups.values()) else ""
            unless_said = usual.get(place, free.default) if name == "reading" else free.default
            free = free.replace(name=alone or f"{name}_{place}", default=unless_said)
            groups[name][1][free.name] = place, commas
            taken |= set(names_of(free.annotation))
            shown[name].append(free)

    @wraps(function)
    def typed(**given: Any) -> None:
        for name, (cls, places) in groups.items():
            values = {place: given.pop(option) for option, (place, _) in places.items()}
            for place in (place for place, commas in places.values() if commas):
                values[place] = numbers(f"--{place}", values[place]) if values[place] else ()
            given[name] = cls(**values)
        function(**given)

    order = [name for name in own if name != "reading"]
    if "reading" in own:
        order.insert(order.index("seed") if "seed" in order else len(order), "reading")
    parameters = [one.replace(kind=one.KEYWORD_ONLY) for name in order for one in shown[name]]
    typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return typed


def settings_in(hint: Any) -> tuple[Any, Fields]:
    """The class of settings that a parameter is annotated with, None if it is none, and how it becomes options."""
    cls, *others = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    how = next((part for part in others if isinstance(part, Fields)), Fields())
    cls = get_args(cls)[0] if get_origin(cls) is partial else cls
    return (cls if isinstance(cls, type) and is_dataclass(cls) else None), how


def info_of(hint: Any) -> Any:
    """What typer knows of an option or argument; None of anything else."""
    return next((part for part in getattr(hint, "__metadata__", ()) if isinstance(part, ParameterInfo)), None)


def names_of(hint: Any) -> list[str]:
    """The names of an option: in an annotation the first is where its default would be."""
    info = info_of(hint)
    return [] if info is None else [str(name) for name in (info.default, *(info.param_decls or ())) if name]


def with_free_names(option: inspect.Parameter, taken: set[str]) -> inspect.Parameter | None:
    """The option under those of its names that are not taken; None if all are."""
    names = [name for name in names_of(option.annotation) if name not in taken]
    if not names:
        return None
    info = copy(info_of(option.annotation))
    info.default, info.param_decls = names[0], tuple(names[1:])
    return option.replace(annotation=Annotated[get_args(option.annotation)[0], info])


def options_of(cls: Any, how: Fields) -> dict[str, Option]:
    """The option of each field, and whether it takes numbers parted by commas.

    A field that is declared as an option, in its annotation or in the class's ``OPTIONS``, is taken as it is. Of any
    other the help is what the class says of it.
    """
    declared = getattr(cls, "OPTIONS", {})
    hints, plain = (declared, {}) if declared else (get_type_hints(cls, include_extras=True), get_type_hints(cls))
    words, found = {name: _first_sentence(text) for name, text in meanings(cls).items()}, dict[str, Option]()
    for one in fields(cls):
        if one.name in how.without:
            continue
        default: Any = one.default if one.default_factory is MISSING else one.default_factory()
        hint, commas = hints[one.name], False
        if info_of(hint) is None:
            kind, name = plain[one.name], how.names.get(one.name, f"--{one.name.replace('_', '-')}")
            commas = get_origin(kind) is tuple and get_args(kind)[0] is float
            if commas:
                kind, default = str, ",".join(f"{number:g}" for number in default)
            elif get_origin(kind) is tuple:
                kind = list[str]
            hint = Annotated[kind, typer.Option(name, help=words[one.name], metavar="N,N,..." if commas else None)]
        if get_origin(get_args(hint)[0]) is list and default is not MISSING:
            default = [*default]
        default = inspect.Parameter.empty if default is MISSING else default
        found[one.name] = (
            inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint), commas
        )  # fmt: skip
    return found


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.) (?=[A-Z])", text.replace("`", ""))[0]


def options_given(*settings: Any) -> list[str]:
    """The options whose value is not the one that they have unless given."""
    return [
        names_of(option.annotation)[0].split("/")[-1]
        for given in settings
        for name, (option, _) in options_of(type(given), Fields()).items()
        if option.default is not option.empty and getattr(given, name) != option.default
    ]
