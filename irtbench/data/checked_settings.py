"""Settings that check themselves when they are made, from a study file and in Python alike and in the same words.

A class of settings is a frozen dataclass that inherits `Settings`; its annotations say what a value may be: a type, a
`Literal`, a `Range` of numbers. Pydantic does the checking and is loaded with the first settings that are made, so
that who makes none does not wait for it.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cache, partial
from inspect import cleandoc
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from irtbench.data.input_error import InputError

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidatorFunctionWrapHandler


Chosen = TypeVar("Chosen")
Function = TypeVar("Function", bound=Callable[..., Any])

MOST_LETTERS = 80  # of a wrong value, in the message about it
WORDS = {
    "bool_type": "true or false",
    "dict_type": "a table",
    "finite_number": "a finite number",
    "float_type": "a number",
    "int_type": "a whole number",
    "literal_error": "{expected}",
    "mapping_type": "a table",
    "missing": "one more value",
    "path_type": "a path",
    "string_type": "a text",
    "too_long": "no more than {max_length} values",
    "tuple_type": "a list",
}  # what was expected, by pydantic's type of error


@dataclass(frozen=True)
class Range:
    """The interval of a number, in its annotation: ``Annotated[float, Range(above=0, below=1)]``.

    Parameters
    ----------
    at_least, above
        The lower end, itself allowed or not; only one of the two.
    at_most, below
        The upper end in the same way.
    """

    at_least: float = -math.inf
    above: float = -math.inf
    at_most: float = math.inf
    below: float = math.inf

    def __contains__(self, value: float) -> bool:
        return self.at_least <= value <= self.at_most and self.above < value < self.below

    def __str__(self) -> str:
        low, high = max(self.at_least, self.above), min(self.at_most, self.below)
        opens, closes = "[" if self.at_least == low else "(", "]" if self.at_most == high else ")"
        if math.isinf(high):
            return f"a number {'of at least' if opens == '[' else 'above'} {low:g}"
        if math.isinf(low):
            return f"a number {'of at most' if closes == ']' else 'below'} {high:g}"
        return f"a number in {opens}{low:g}, {high:g}{closes}"

    def check(self, value: float) -> float:
        """Return a value that lies inside; another is a ValueError that says where it should."""
        if value not in self:
            raise ValueError(str(self))
        return value


Count = Annotated[int, Range(at_least=0)]
MOST_SEED = 2**32 - 1  # the largest that all generators take, of NumPy and of torch
Seed = Annotated[int, Range(at_least=0, at_most=MOST_SEED)]
Share = Annotated[float, Range(at_least=0, at_most=1)]
Inside = Annotated[float, Range(above=0, below=1)]  # a level, an alpha: neither never nor always


def checked_seed(seed: object) -> int:
    """A seed that every generator of random numbers takes; any other is an `InputError`."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed <= MOST_SEED:
        raise InputError(f"seed: expected a whole number from 0 to {MOST_SEED} but got {seed!r}")
    return int(seed)


def seeded(seed: object) -> np.random.Generator:
    """Random numbers from a seed that a caller named, see `checked_seed`."""
    return np.random.default_rng(checked_seed(seed))


class WrongSetting(InputError):
    """A value that settings cannot have: ``PruneRules.min_cfi: expected a number in [0, 1] but got 5``.

    Parameters
    ----------
    owner
        The class, or the table of the study file.
    place
        The field, and the place inside it: ``exclude.0.reason``.
    words
        What was expected and what was got.
    """

    def __init__(self, owner: str, place: str, words: str) -> None:
        super().__init__(f"{owner}.{place}: {words}")
        self.place, self.words = place, words


class Settings:
    """Base of frozen dataclasses whose fields are checked when they are made.

    Numbers are taken for numbers only (no text, no truth value), finite ones alone; lists become tuples, texts paths,
    and tables the settings they describe, where a field is annotated so. A ``__post_init__`` that asks whether fields
    agree with each other calls this one first.

    Raises
    ------
    InputError
        Naming the class, the first wrong field, what was expected and what was got.
    """

    def __post_init__(self) -> None:
        for name, value in check_fields(type(self), vars(self)).items():
            object.__setattr__(self, name, value)


def settings_from(cls: type[Chosen], table: Mapping[str, Any]) -> Chosen:
    """Make settings from a table of a study file."""
    known = {f.name: f.default is MISSING and f.default_factory is MISSING for f in fields(cls)}  # type: ignore[arg-type]
    for key in table:
        if key not in known:
            raise WrongSetting(cls.__name__, str(key), f"unknown key; expected one of {', '.join(known)}")
    for name, required in known.items():
        if required and name not in table:
            raise WrongSetting(cls.__name__, name, "missing; expected a value")
    return cls(**check_fields(cls, table))


def with_keywords(settings: Chosen, keywords: Mapping[str, Any], *, words: Mapping[str, str] | None = None) -> Chosen:
    """Settings with what a caller's keywords say in their place."""
    if not keywords:
        return settings
    words, known = words or {}, [f.name for f in fields(settings)]  # type: ignore[arg-type]
    given = {words.get(name, name): value for name, value in keywords.items()}
    for name in given:
        if name not in known:
            names = [word for word, field in words.items() if field in known]
            expected = ", ".join([*names, *(field for field in known if field not in words.values())])
            raise InputError(f"unknown keyword {name}; expected some of {expected}")
    try:
        return replace(settings, **given)  # type: ignore[type-var]
    except WrongSetting as error:
        field, dot, inner = error.place.partition(".")
        typed = next((word for word, known in words.items() if known == field and word in keywords), field)
        raise InputError(f"{typed}{dot}{inner}: {error.words}") from None


def shows_fields(
    cls: type, *, words: Mapping[str, str] | None = None, without: Collection[str] = ()
) -> Callable[[Function], Function]:
    """Have `help` and completion show, in place of ``**keywords``, the fields of settings that a function takes so.

    Type checkers read them in its annotation, a ``TypedDict`` of the same fields.
    """

    def shown(function: Function) -> Function:
        own, words_of = inspect.signature(function), words or {}
        given = {one.name: one for one in fields(cls) if one.name not in without}
        more = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, annotation=one.type,
                default=one.default if one.default_factory is MISSING else one.default_factory(),
            )
            for name, one in (given | {word: given[name] for word, name in words_of.items() if name in given}).items()
        ]  # fmt: skip
        named = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
        function.__signature__ = own.replace(parameters=[*named, *more])  # type: ignore[attr-defined]
        return function

    return shown


def check_fields(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of some fields of a dataclass, checked, in the types that the fields are annotated with."""
    from pydantic import ValidationError

    checks = _checks(cls)
    found = {}
    for name, value in values.items():
        try:
            found[name] = checks[name].validate_python(value.item() if isinstance(value, np.generic) else value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place, words = [name, *(str(part) for part in first["loc"])], _words(first)
            inner = first.get("ctx", {}).get("error")
            if isinstance(inner, WrongSetting):
                raise WrongSetting(cls.__name__, ".".join([*place, inner.place]), inner.words) from None
            if isinstance(inner, InputError):
                raise InputError(f"{cls.__name__}.{'.'.join(place)}: {inner}") from None
            got = repr(first["input"])
            got = got if len(got) <= MOST_LETTERS else f"{got[:MOST_LETTERS]}..."
            words = f"expected {words} but got {' '.join(got.split())}"
            raise WrongSetting(cls.__name__, ".".join(place), words) from None
    return found


@cache
def _checks(cls: type) -> dict[str, TypeAdapter[Any]]:
    """What checks each field of a dataclass."""
    from pydantic import ConfigDict, TypeAdapter

    strict = ConfigDict(strict=True, allow_inf_nan=False)
    hints = get_type_hints(cls, include_extras=True)
    return {f.name: TypeAdapter(_checked(hints[f.name]), config=strict) for f in fields(cls)}


def _checked(hint: Any) -> Any:
    """An annotation as pydantic is to read it: strictly, but for lists, paths and tables, which TOML writes its way."""
    from pydantic import AfterValidator, BeforeValidator, Strict, WrapValidator

    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        limits = [AfterValidator(limit.check) for limit in inner[1:] if isinstance(limit, Range)]
        return Annotated[(_checked(inner[0]), *limits)] if limits else _checked(inner[0])
    if origin in (Union, UnionType):
        choice: Any = Union.__getitem__(tuple(_checked(part) for part in inner))
        return Annotated[choice, WrapValidator(_one_of)] if len(set(inner) - {NoneType}) > 1 else choice
    if origin is tuple:
        parts = tuple(part if part is Ellipsis else _checked(part) for part in inner)
        return Annotated[origin[parts], Strict(False)]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return origin[tuple(_checked(part) for part in inner)]  # type: ignore[index]
    if hint is Path:
        return Annotated[Path, Strict(False)]
    if isinstance(hint, type) and is_dataclass(hint):
        return Annotated[Any, BeforeValidator(partial(_made, hint))]
    return hint


def _made(cls: type[Chosen], given: object) -> Chosen:
    """Settings as they are given, or from their table."""
    if isinstance(given, cls):
        return given
    if isinstance(given, Mapping):
        return settings_from(cls, given)
    raise ValueError(cls.__name__)


def _one_of(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """Check against several types, and say all that were expected if it is none of them."""
    from pydantic import ValidationError

    try:
        return check(value)
    except ValidationError as error:
        raise ValueError(" or ".join(_words(dict(each)) for each in error.errors(include_url=False))) from None


def _words(error: Mapping[str, Any]) -> str:
    """What one of pydantic's errors expected."""
    context = error.get("ctx", {})
    if error["type"] == "value_error":
        return str(context["error"])
    return WORDS.get(error["type"], error["msg"]).format(**context)


def meanings(cls: type) -> dict[str, str]:
    """What each field means, from the section Parameters of the class's docstring; one entry may name several."""
    parameters = cleandoc(cls.__doc__ or "").partition("Parameters\n----------\n")[2].partition("\n\nRaises")[0]
    entries = re.findall(r"^(\w[\w, ]*)\n((?:    .*\n?|\n(?=    ))+)", parameters, re.MULTILINE)
    return {name: " ".join(text.split()) for names, text in entries for name in names.split(", ")}
