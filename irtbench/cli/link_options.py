"""What ``link`` and ``extend`` share: their options, and the old scale that new people are brought to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first

if TYPE_CHECKING:
    from irtbench.bank.bank import ItemBank
    from irtbench.bank.scale import Scale
    from irtbench.building.drift import Drift

OldBank = Annotated[Path, typer.Argument(metavar="BANK", help="The old scale: bank.json, or items.csv.")]
DriftOption = Annotated[
    Literal["release", "keep"],
    typer.Option("--drift", help="Whether common items that no longer fit are left out, of the link or the anchors."),
]
ScaleName = Annotated[str | None, typer.Option("--scale", metavar="NAME", help="The scale, where a bank has several.")]
ModelOfNew = Annotated[
    Literal["2pl", "3pl", "grm", "gpcm", "pcm", "nominal"] | None,
    typer.Option("--model", help="Of the new items, from responses; the bank's of grades, else 2pl, unless said."),
]
PriorOfNew = Annotated[
    Literal["none", "weak"] | None,
    typer.Option("--prior", help="Of the new items; none for 2pl and weak for 3pl unless said otherwise."),
]


def chosen_scale(bank: ItemBank, name: str | None, file: Path) -> Scale:
    """The scale of this name, or the only one."""
    names = [scale.name for scale in bank.scales]
    if len(names) == 1 and name is None:
        return bank.scales[0]
    if name is None:
        raise InputError(f"{file}: several scales; expected --scale with one of {name_first(names)}")
    if name not in names:
        raise InputError(f"{file}: no scale {name}; expected --scale with one of {name_first(names)}")
    return bank.scales[names.index(name)]


def model_of(old: Scale, model: str | None) -> tuple[str, list[str] | None]:
    """The model of new items, and where they are in categories the labels of the old ones, if these are no numbers.

    Raises
    ------
    InputError
        If the bank has items of several models and none is said.
    """
    known = old.items.categories
    if known is None and model in (None, "2pl", "3pl"):
        return model or "2pl", None
    if model is None:
        models = dict.fromkeys(old.items.model)
        if len(models) > 1:
            raise InputError(f"--model: the bank's items are {', '.join(models)}; expected the new items' model")
        (model,) = models
    values = dict.fromkeys(value for own in (known.categories if known is not None else ()) for value in own)
    return model, [value for value in values if isinstance(value, str)]


def parted(drift: Drift, wanted: Literal["release", "keep"]) -> tuple[list[str], list[str]]:
    """The common items to go by, and those released for their drift."""
    released = [] if wanted == "keep" else sorted(set(drift.item_ids) - set(drift.kept))
    return [item for item in drift.item_ids if item not in released], released


def ancestry(old: Scale, bank: Path, came: dict[str, Any]) -> dict[str, Any]:
    """Provenance of what was made of an old bank and what came to it: the file and what it says of itself; the date."""
    from datetime import UTC, datetime

    from irtbench.data.file_hash import file_hash

    return {
        "old": {"bank": {bank.name: file_hash(bank)}, **old.provenance},
        "new": came,
        "date": datetime.now(UTC).date().isoformat(),
    }
