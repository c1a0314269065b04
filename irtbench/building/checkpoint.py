"""Finished steps of a study on disk, so that work that was interrupted goes on where it was."""

from __future__ import annotations

import logging
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd

from irtbench.data.place import read_sealed, write_sealed
from irtbench.data.responses import ResponseMatrix, Responses, hash_of
from irtbench.models.item_models.item_model import ItemModel
from irtbench.models.item_models.named import MODELS

log = logging.getLogger(__name__)

PLAIN = (str, float, int, bool, type(None))  # most values, by far

Record = TypeVar("Record")
Made = TypeVar("Made")


def checkpoint_key(responses: Responses, *settings: object) -> str:
    """Hash of the responses and of all settings on which the steps depend, by what they print as."""
    return hash_of(responses.content_hash, *settings)


class Checkpoint:
    """A folder with one JSON file for each finished step."""

    def __init__(self, folder: Path | None, key: str) -> None:
        self.folder, self.key = folder, key

    def load(self, name: str, cls: type[Record]) -> Record | None:
        """A finished step; None if it is absent, damaged or of another key."""
        try:
            record = None if self.folder is None else read_sealed(self.folder / f"{name}.json", self.key)
            return None if record is None else from_plain(cls, record)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def once(self, name: str, cls: type[Record], make: Callable[[], Made]) -> Record | Made:
        """A finished step, or what is made now and then kept."""
        if (finished := self.load(name, cls)) is not None:
            return finished
        made = make()
        self.save(name, made)
        return made

    def save(self, name: str, record: object) -> None:
        """Write one step, whole or not at all; where that fails the work goes on, and a warning says so."""
        if self.folder is None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_sealed(self.folder / f"{name}.json", to_plain(record), self.key)
        except OSError as error:
            log.warning("a finished step cannot be kept in %s: %s", self.folder, error.strerror)


def to_plain(value: Any) -> Any:
    """Dataclasses, tuples, mappings, arrays and tables as JSON values; every float survives to the last bit.

    Responses become None: they are written apart, where they are at all.
    """
    if isinstance(value, ResponseMatrix):
        return None
    if type(value) in PLAIN:
        return value
    if isinstance(value, ItemModel):
        return value.name
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, pd.DataFrame):
        return {str(name): column.tolist() for name, column in value.items()}
    if isinstance(value, np.ndarray):
        return {"dtype": str(value.dtype), "shape": value.shape, "values": value.ravel().tolist()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [to_plain(entry) for entry in value]
    if isinstance(value, Mapping):
        return {str(name): to_plain(entry) for name, entry in value.items()}
    if isinstance(value, Path):
        return str(value)
    return value


def is_array(hint: Any) -> bool:
    """Whether a hint is NumPy's ``NDArray[...]``: an alias of its class or, with later versions, one by name."""
    origin = get_origin(hint)
    return np.ndarray in (origin, get_origin(getattr(origin, "__value__", None)))


def from_plain(hint: Any, value: Any) -> Any:
    """Inverse of `to_plain` for a value of the type that the hint names."""
    if hint is ResponseMatrix:
        return None
    if get_origin(hint) in (Union, types.UnionType):
        if value is None:
            return None
        hint = next(choice for choice in get_args(hint) if choice is not type(None))
    if hint is ItemModel:
        return MODELS[value]
    if hint is pd.DataFrame:
        return pd.DataFrame(value)
    if isinstance(hint, type) and issubclass(hint, Enum | Path):
        return hint(value)
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        make: Callable[..., Any] = hint  # type: ignore[assignment]
        given = [f for f in fields(hint) if f.name in value or f.default is MISSING]  # what came later is left out
        return make(**{f.name: from_plain(hints[f.name], value[f.name]) for f in given})
    if isinstance(value, dict) and "dtype" in value:
        return np.array(value["values"], dtype=value["dtype"]).reshape(value["shape"])
    if is_array(hint):
        raise TypeError(f"expected an array but got {type(value).__name__}")
    if get_origin(hint) in (dict, Mapping) and (
        is_dataclass(get_args(hint)[1]) or get_origin(get_args(hint)[1]) is tuple
    ):
        return {name: from_plain(get_args(hint)[1], entry) for name, entry in value.items()}
    if get_origin(hint) is tuple:
        inner = get_args(hint)
        each = [inner[0]] * len(value) if len(inner) == 2 and inner[1] is Ellipsis else inner
        return tuple(from_plain(kind, entry) for kind, entry in zip(each, value, strict=True))
    return value
