"""The item bank: scales ready to score any system, saved as one JSON document.

The file is made for people and for git: one item a line, stable order, floats in the shortest form that reads back to
the same number. A hash over its content tells whether it was changed by hand.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from irtbench.bank.norms import Norms
from irtbench.bank.scale import DataCard, Scale, ScaleLike, as_scale
from irtbench.data.checked_settings import settings_from
from irtbench.data.harmless_text import lone_surrogate
from irtbench.data.input_error import InputError, refuse_any
from irtbench.data.items import ItemTable
from irtbench.data.place import write_whole
from irtbench.data.readers.irt_programs import recognises
from irtbench.data.readers.item_table import read_items
from irtbench.data.readers.long_table import likely_column
from irtbench.data.readers.records import Head, look_at
from irtbench.data.readers.table import MISSING, field_places, read_table, to_numbers
from irtbench.data.responses import demand_unique, name_first
from irtbench.data.shown import Drawn, counted
from irtbench.models.parameter_table import (
    as_parameters,
    in_categories,
    read_categories,
    read_parameters,
    read_population,
    scale_names,
    stated_population,
)

if TYPE_CHECKING:
    from irtbench.bank.schema import BankDocument

log = logging.getLogger(__name__)

SCHEMA_VERSION = 6

#: Fields of a scale's provenance: the removals of its pruning, and other items of the study that are on no scale.
PRUNING, NOT_ON_A_SCALE = "pruning", "items_on_no_scale"

ENDINGS = (".csv", ".csv.gz", ".tsv", ".parquet")
ALL = "all"  # the scale where the file names none


@dataclass(frozen=True, eq=False)
class ItemBank(Drawn):
    """Scales whose items are known, ready to score any system.

    Parameters
    ----------
    scales
        At least one, of different names.
    card
        What its maker says of it; None where it says nothing.

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
        demand_unique(sorted(scale.name for scale in self.scales), "bank: scale names")

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
    """Write the bank, whole or not at all: into a file next to it that then takes its name.

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
    write_whole(Path(path), _to_document(bank).to_text().encode())


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
    content = _read_json(path)
    if isinstance(content, dict) and recognises(Head(path, "object", content)):  # of py-irt
        return ItemBank(scales_of_items(path))
    try:
        bank = _bank_of(_read_document(content))
        for scale in bank.scales:
            as_parameters(scale.items, upper_asymptotes=upper_asymptotes, categories=categories)
    except InputError as error:
        raise InputError(f"bank {path}: {error}") from None
    for scale in bank.scales:
        if scale.doubt:
            log.warning("bank %s: scale %s is in doubt: %s", path, scale.name, scale.doubt)
    return bank


def _read_json(path: Path) -> object:
    """What the file holds: JSON of whole characters and finite numbers."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=_finite, parse_float=_finite)
    except OSError as error:
        raise InputError(f"bank {path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"bank {path}: not a text file; expected the JSON document of an item bank") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"bank {path}: not JSON: {error}") from None
    if broken := lone_surrogate(content):
        raise InputError(f"bank {path}: half a character in the text {broken}; expected text that is UTF-8")
    return content


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
    refuse_any((
        (stated is None, "content_hash: Field required"),
        (stated not in (document.content_hash(), document.content_hash(dated=True)),
         "its content does not fit its hash: edited by hand? expected the file as irtbench wrote it; build it again"),
    ))  # fmt: skip
    return document


def _bank_of(document: BankDocument) -> ItemBank:
    from irtbench.bank.schema import scale_of

    card = None if document.card is None else settings_from(DataCard, document.card)
    return ItemBank(tuple(scale_of(entry) for entry in document.scales), card)


def _to_document(bank: ItemBank) -> BankDocument:
    from irtbench.bank.schema import BankDocument, entry_of

    card: dict[str, str] | None = None
    if bank.card is not None and bank.card.stated():
        card = {name: text for name, text in vars(bank.card).items() if text or name != "respondents"}
    document = BankDocument(schema_version=1, card=card, scales=[entry_of(scale) for scale in bank.scales])
    version = max(document.version, 5 if bank.respondents else 1)
    return document.model_copy(update={"schema_version": version})


def read_bank(path: str | Path, *, upper_asymptotes: bool = False, categories: bool = False) -> ItemBank:
    """Read a bank, or item parameters (items.csv) as a bank of one scale without norms.

    Items in categories, and those with an upper asymptote, are refused unless these are true.

    Raises
    ------
    InputError
        As `load_bank` or `read_parameters`.

    Examples
    --------
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([1.0, 1.5], [-1.0, 1.0])
    >>> items.table().to_csv("items.csv", index=False)
    >>> irtbench.read_bank("items.csv")
    <ItemBank: 1 scale: all (2 items)>
    """
    path = Path(path)
    if path.is_file():
        head = look_at(path)
        if head.kind != "object" or recognises(head):
            items = read_parameters(path, upper_asymptotes=upper_asymptotes, categories=categories)
            return ItemBank((Scale(ALL, items, ItemTable.plain(items.item_ids), population=read_population(path)),))
    return load_bank(path, upper_asymptotes=upper_asymptotes, categories=categories)


@dataclass(frozen=True)
class LeftOut:
    """An item that a study asked and no scale of its bank has."""

    item_id: str
    reason: str
    scale: str | None = None


def on_no_scale(items: ItemTable, rejected: Mapping[str, Sequence[str]]) -> list[dict[str, str | None]]:
    """The attention checks of a study and the items of its rejected scales, as provenance holds them."""
    found = [LeftOut(item, "attention_check") for item in items.attention_items]
    found += [LeftOut(item, "scale_rejected", name) for name, item_ids in rejected.items() for item in item_ids]
    return [vars(item) for item in found]


def items_left_out(scales: Sequence[Scale]) -> dict[str, LeftOut]:
    """What the provenance of the scales says of items that none of them has, by the item's name."""
    found: dict[str, LeftOut] = {}
    for scale in scales:
        for entry in _entries(scale.provenance.get(PRUNING)):
            found[entry["item_id"]] = LeftOut(entry["item_id"], entry["reason"], scale.name)
        for entry in _entries(scale.provenance.get(NOT_ON_A_SCALE)):
            where = entry.get("scale")
            found.setdefault(entry["item_id"], LeftOut(entry["item_id"], entry["reason"], where))
    kept = {item for scale in scales for item in scale.items.item_ids}
    return {item: why for item, why in found.items() if item not in kept}


def among(left_out: Mapping[str, LeftOut], item_ids: Iterable[str]) -> tuple[LeftOut, ...]:
    """Those of the items that were left out, in their order."""
    return tuple(left_out[item] for item in dict.fromkeys(item_ids) if item in left_out)


def _entries(record: Any) -> list[Mapping[str, Any]]:
    """Entries that name an item and a reason; provenance is plain JSON that others may have written."""
    entries = record if isinstance(record, list) else []
    return [
        entry
        for entry in entries
        if isinstance(entry, Mapping) and isinstance(entry.get("item_id"), str) and isinstance(entry.get("reason"), str)
    ]


def is_table(path: Path) -> bool:
    """Whether a file is a table, by its name."""
    return path.name.endswith(ENDINGS)


def scales_of_items(
    path: Path, *, upper_asymptotes: bool = False, categories: bool = False, scaling: float | None = None
) -> tuple[Scale, ...]:
    """A scale for each name in a column ``scale``, or one of all items; without norms, with keys if there are any."""
    if categories and is_table(path) and in_categories(table := read_table(path)):
        by_scale = table.groupby(scale_names(table), sort=False) if scale_names(table) is not None else [(ALL, table)]
        found = [(str(name), read_categories(part, path, scaling).as_items(), part) for name, part in by_scale]
        return tuple(
            Scale(name, known, ItemTable.plain(known.item_ids), population=stated_population(part, path),
                  provenance={"items": path.name})
            for name, known, part in found
        )  # fmt: skip
    items = read_parameters(path, upper_asymptotes=upper_asymptotes, scaling=scaling)
    details, table = ItemTable.plain(items.item_ids), pd.DataFrame(index=range(items.n_items))
    if is_table(path):
        table = read_table(path)
        if likely_column(list(table.columns), "item_id") is not None:  # else R's names of rows, in the first column
            details = read_items(path)
    named = table.groupby(table.get("scale", pd.Series(ALL, table.index)), sort=False)
    rows = [(str(name), [items.item_ids[row] for row in part.index], part) for name, part in named]
    return tuple(
        Scale(name, items.select(own), details.select(own), population=stated_population(part, path),
              provenance={"items": path.name})
        for name, own, part in rows
    )  # fmt: skip


NUMBERS = ("theta", "se", "weight")
OWN = ("respondent_id", "role", "scale", *NUMBERS)
#: What scores.csv says of a respondent's test, and is no property of people by which they could be grouped.
OF_SCORES = frozenset(
    ("n_items", "n_correct", "n_trials", "accuracy", "theta_lower", "theta_upper", "person_fit", "method", "flags")
)


def with_norms(bank: ItemBank, path: str | Path) -> ItemBank:
    r"""The bank with the norm samples of a table, as scores.csv of ``build`` is one.

    The table has a column ``theta`` and, if there, ``scale``, ``se``, ``weight`` and ``role`` (rows other than
    ``respondent`` are left out). Without ``scale`` the bank must have one scale. All other columns become columns of
    the respondents, by which a norm group can be chosen, but for those that scores.csv has of every test (accuracy,
    percentiles, ...).

    Raises
    ------
    InputError
        If the file cannot be read, theta is missing or no number, a scale is unknown, or the bank has several scales
        and the table does not tell them apart.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> scale = irtbench.Scale("all", items, irtbench.ItemTable.plain(items.item_ids))
    >>> from pathlib import Path
    >>> _ = Path("people.csv").write_text("theta,country\n-0.4,de\n0.1,fr\n0.9,de\n")
    >>> bank = irtbench.with_norms(irtbench.ItemBank((scale,)), "people.csv")
    >>> bank.scales[0].norms
    <Norms: 3 respondents, theta -0.40 to 0.90, by country>
    """
    table = read_table(path, ["theta"])
    numbers = {name: to_numbers(table[name], place=field_places(path, name)) for name in NUMBERS if name in table}
    table = table.assign(**numbers)
    if "role" in table:
        table = table[table["role"] == "respondent"]
    if "scale" not in table:
        if len(bank.scales) > 1:
            raise InputError(f"norms {path}: column 'scale' missing; the bank has {len(bank.scales)} scales")
        table = table.assign(scale=bank.scales[0].name)
    scales = (
        replace(scale, norms=_norms(table[table["scale"] == scale.name], path, scale.name)) for scale in bank.scales
    )
    return replace(bank, scales=tuple(scales))


def _norms(rows: pd.DataFrame, path: str | Path, scale: str) -> Norms:
    if rows.empty:
        raise InputError(f"norms {path}: no respondent for scale {scale}")
    rows = rows[np.isfinite(rows["theta"])]
    groups = {
        str(name): tuple(None if text in MISSING else text for text in rows[name])
        for name in rows.columns
        if name not in OWN and name not in OF_SCORES and not str(name).startswith("percentile")
    }
    weights, error = (rows[name].to_numpy() if name in rows else None for name in ("weight", "se"))
    if error is not None and "method" in rows:
        error = np.where(rows["method"].isin(["ml", "wle"]), 0.0, error)  # no prior drew these in: as they are
    return Norms(rows["theta"].to_numpy(), weights, error, groups)


#: Items with known parameters in any form: a bank, a scale, item parameters, or the table items.csv.
BankLike = ItemBank | ScaleLike


def scales_of(bank: BankLike) -> tuple[Scale, ...]:
    """The scales of a bank, or the one scale; parameters alone are the scale ``all``."""
    if isinstance(bank, ItemBank):
        return bank.scales
    return (bank if isinstance(bank, Scale) else as_scale(bank, categories=True),)


def item_ids_of(bank: BankLike) -> tuple[str, ...]:
    """All items of a bank, each once: what the columns of an array are."""
    return tuple(dict.fromkeys(item for scale in scales_of(bank) for item in scale.items.item_ids))
