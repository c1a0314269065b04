"""A system's file as responses to the items of a bank: graded by its key, without what its study left out."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from irtbench.cli.options import Map, UnknownItemsOption, mapped
from irtbench.cli.reading import Reading, labels_of
from irtbench.data.harmless_text import printable
from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first

if TYPE_CHECKING:
    from irtbench.bank.bank import ItemBank, LeftOut
    from irtbench.data.responses import ResponseMatrix


@dataclass(frozen=True, eq=False)
class GradedFile:
    """Responses, and the items among them that the bank's own study left out."""

    responses: ResponseMatrix
    left_out: tuple[LeftOut, ...]


def read_graded(
    bank: ItemBank,
    path: Path,
    reading: Reading,
    *,
    content: Literal["auto", "responses", "answers"] = "auto",
    unknown_items: Literal["error", "ignore"] = "error",
    answers_mapped: Mapping[str, str] | None = None,
) -> GradedFile:
    """Responses of a file that holds them, or answers that the bank's key grades.

    Raises
    ------
    InputError
        If the file cannot be read or graded, or has items that neither the bank nor its study had.
    """
    from irtbench.data.responses import ResponseMatrix
    from irtbench.scoring.scores import category_responses, check_known, grade_answers, grading_of, in_categories

    if in_categories(bank):
        known = [scale.items.categories for scale in bank.scales if scale.items.categories is not None]
        scores = reading.scores(path, labels_of(known))
        left_out = check_known(scores.columns, bank.scales, unknown_items)
        return GradedFile(category_responses(bank, scores), left_out)
    if content == "responses" or (content == "auto" and reading.holds_responses(path)):
        if answers_mapped:
            raise InputError(f"file {path}: holds graded responses; expected answers for --map, or --content answers")
        table = reading.responses(path).frame
        left_out = check_known(table["item_id"].unique(), bank.scales, unknown_items)
        return GradedFile(ResponseMatrix.from_long(table), left_out)
    table = reading.answers(path).frame
    left_out = check_known(table["item_id"].unique(), bank.scales, unknown_items)
    graded = grade_answers(bank, table, grading_of(bank, answers_mapped), unknown_items=unknown_items)
    return GradedFile(graded, left_out)


@dataclass(frozen=True)
class SystemFile:
    """How a system's file is graded by a bank."""

    unknown_items: UnknownItemsOption = "error"
    answers_map: Map = field(default_factory=list)

    def read(
        self, bank: ItemBank, path: Path, reading: Reading, *, say: bool = True
    ) -> tuple[ResponseMatrix, tuple[LeftOut, ...]]:
        """Its responses, and the items that the bank's own study left out, which are named on standard error."""
        found = read_graded(
            bank, path, reading, unknown_items=self.unknown_items, answers_mapped=mapped(self.answers_map)
        )
        if say:
            say_left_out(found.left_out)
        return found.responses, found.left_out


def say_left_out(left_out: Sequence[LeftOut]) -> None:
    """Say on standard error, in one line, which items do not count because the bank's study left them out."""
    if left_out:
        names = [f"{item.item_id} ({item.reason.replace('_', ' ')})" for item in left_out]
        what = "item" if len(names) == 1 else "items"
        print(
            printable(f"irtbench: {len(names)} {what} left out, as in the bank's own study: {name_first(names)}"),
            file=sys.stderr,
        )


def left_out_of(left_out: Sequence[LeftOut], scale: str, bank: ItemBank) -> list[dict[str, str]]:
    """What --json says of a scale: items removed from it, and those that are of no scale of the bank."""
    others = {other.name for other in bank.scales} - {scale}
    return [{"item_id": item.item_id, "reason": item.reason} for item in left_out if item.scale not in others]
