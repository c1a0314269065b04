"""The item bank: scales ready to score any system, saved as one JSON document.

The file is made for people and for git: one item a line, stable order, floats in the shortest form that reads back to
the same number. A hash over its content tells whether it was changed by hand.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from irtbench.bank.data_card import DataCard
from irtbench.bank.item_file import is_of_py_irt, is_table, scales_of_items
from irtbench.bank.scale import Scale
from irtbench.data.harmless_text import lone_surrogate
from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first
from irtbench.data.shown import Drawn, counted
from irtbench.models.parameter_table import demand_no_upper, demand_right_or_wrong

if (
    TYPE_CHECKING
):  # the schema is imported where a bank is read or written: a fifth of a second that others need not wait
    from irtbench.bank.schema import BankDocument

SCHEMA_VERSION = 6


@dataclass(frozen=True, eq=False)
class ItemBank(Drawn):
    """Scales whose items are known, ready to score any system.

    Parameters
    ----------
    scales
        At least one, of different names.
    card
        What its maker says of it; None where nothing is said.

    Raises
    ------
    InputError
        If there is no scale or a name is repeated.
    """

    scales: tuple[Scale, ...]
    card: DataCard | None = None

    def __post_init__(self) -> None:
        if not self.scales:
            raise InputError("bank: expected at least one scale")
        names = [scale.name for scale in self.scales]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise InputError(f"bank: scale names must be unique but {name_first(repeated)} is repeated")

    @property
    def schema_version(self) -> int:
        """Of the file: the lowest that can hold this bank, so that earlier versions of irtbench read what they can."""
        return _to_document(self).schema_version

    @property
    def content_hash(self) -> str:
        """SHA-256 over everything in the file but the hash itself and the date."""
        return _to_document(self).content_hash()

    @property
    def respondents(self) -> str:
        """What its respondents are called, as the card says; nothing where it does not."""
        return "" if self.card is None else self.card.respondents

    def table(self) -> pd.DataFrame:
        """One row an item of each scale, as `Scale.table`, the scale in the last column."""
        return pd.concat([scale.table().assign(scale=scale.name) for scale in self.scales], ignore_index=True)

    def in_short(self) -> str:
        """The scales and the number of their items."""
        sizes = [f"{scale.name} ({counted(scale.items.n_items, 'item')})" for scale in self.scales]
        return f"{counted(len(self.scales), 'scale')}: {name_first(sizes)}"


def save_bank(bank: ItemBank, path: Path | str) -> None:
    """Write the bank, whole or not at all: into a file beside it that then takes its name.

    Raises
    ------
    OSError
        If the folder cannot be written to; a bank already there is left as it was.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> scale = irtbench.Scale("all", items, irtbench.ItemTable.plain(items.item_ids))
    >>> irtbench.save_bank(irtbench.ItemBank((scale,)), "bank.json")
    >>> irtbench.load_bank("bank.json")
    <ItemBank: 1 scale: all (6 items)>
    """
    target = Path(path)
    content = _to_document(bank).to_text().encode()
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with beside.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)


def load_bank(
    path: Path | str, *, upper_asymptotes: bool = False, categories: bool = False, scaling: float | None = None
) -> ItemBank:
    """Read a bank and check it: format, version, types, that every number is finite, and the hash.

    A table of items (items.csv of a fit or of a study), and py-irt's ``best_parameters.json``, is taken for a bank
    without norms and without the covariances of its items.

    Parameters
    ----------
    path
        The file.
    upper_asymptotes
        Whether items may have any, which scoring alone takes; otherwise they are refused.
    categories
        The same of items in categories.
    scaling
        Of a table of such items the constant D by which slopes are multiplied, see `read_parameters`.

    Raises
    ------
    InputError
        In one line, naming the file and the field, if anything is not as ``save_bank`` writes it.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> scale = irtbench.Scale("all", items, irtbench.ItemTable.plain(items.item_ids))
    >>> irtbench.save_bank(irtbench.ItemBank((scale,)), "bank.json")
    >>> irtbench.load_bank("bank.json").table()[["item_id", "difficulty", "scale"]].head(2)
      item_id  difficulty scale
    0   item1        -1.5   all
    1   item2        -0.9   all
    """
    from irtbench.bank.schema import scale_of

    path = Path(path)
    if is_table(path):
        try:
            return ItemBank(
                scales_of_items(path, upper_asymptotes=upper_asymptotes, categories=categories, scaling=scaling)
            )
        except InputError as error:
            raise InputError(f"{error}; expected bank.json, or a table of items such as items.csv of fit") from None
    if scaling is not None:
        raise InputError(f"bank {path}: a scaling constant goes with tables of items; a bank's slopes are logistic")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"bank {path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"bank {path}: not a text file; expected the JSON document of an item bank") from None
    try:
        content = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise InputError(f"bank {path}: not JSON: {error}") from None
    if broken := lone_surrogate(content):
        raise InputError(f"bank {path}: half a character in the text {broken}; expected text that is UTF-8")
    if is_of_py_irt(path, content):
        return ItemBank(scales_of_items(path))
    try:
        document = _read_document(content)
        card = None if document.card is None else DataCard(**document.card.model_dump())
        scales = tuple(scale_of(entry) for entry in document.scales)
        for scale in () if upper_asymptotes else scales:
            demand_no_upper(scale.items)
        for scale in () if categories else scales:
            demand_right_or_wrong(scale.items)
        return ItemBank(scales, card)
    except InputError as error:
        raise InputError(f"bank {path}: {error}") from None


def _finite(number: str) -> float:
    """Number as written; Python would read NaN, Infinity and 1e999, which JSON does not know."""
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number} is not a finite number")
    return value


def _read_document(content: object) -> BankDocument:
    """Check version, fields and hash, in this order: a newer version may differ in the other two."""
    from pydantic import ValidationError

    from irtbench.bank.schema import BankDocument

    if not isinstance(content, dict) or not {"schema_version", "scales"} <= content.keys():
        raise InputError("not an item bank: expected a JSON object with schema_version and scales")
    version = content["schema_version"]
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise InputError(f"has schema_version {version}, this irtbench reads up to {SCHEMA_VERSION}: update irtbench")
    stated = content.pop("content_hash", None)
    try:
        document = BankDocument.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
        raise InputError(f"{place}: {first['msg']}") from None
    if stated is None:
        raise InputError("content_hash: Field required")
    if stated not in (document.content_hash(), document.content_hash(dated=True)):
        raise InputError(
            "its content does not fit its hash: edited by hand? expected the file as irtbench wrote it; build it again"
        )
    return document


def _to_document(bank: ItemBank) -> BankDocument:
    from irtbench.bank.schema import BankDocument, CardEntry, entry_of

    entries = [entry_of(scale) for scale in bank.scales]
    stated = {} if bank.card is None else bank.card.stated()
    card = CardEntry(**stated) if stated else None
    version = max(*(entry.version for entry in entries), 1 if card is None else card.version)
    return BankDocument(schema_version=version, card=card, scales=entries)
