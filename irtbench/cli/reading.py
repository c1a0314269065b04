"""How a command reads the files it is given: the options that say so, and a system's file graded by a bank."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import irtbench
from irtbench.cli.options import (
    Columns,
    Errored,
    ExcludeColumns,
    ItemPattern,
    Join,
    Map,
    Metric,
    RespondentIs,
    Respondents,
    Table,
    Threshold,
    Trials,
    UnknownItemsOption,
    mapped,
    named,
)
from irtbench.data.harmless_text import printable
from irtbench.data.how_to_read import HowToRead
from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first

if TYPE_CHECKING:
    import pandas as pd

    from irtbench.bank.bank import LeftOut
    from irtbench.data.readers.table_blocks import Content
    from irtbench.data.responses import Responses


@dataclass(frozen=True)
class Reading(HowToRead):
    """How a command reads its files; the readers are imported when they are needed."""

    #: The options of every command that reads answers or responses.
    OPTIONS: ClassVar[Mapping[str, Any]] = {
        "format": Table, "columns": Columns, "trials": Trials, "threshold": Threshold, "metric": Metric,
        "errored": Errored, "join": Join, "items": ItemPattern, "exclude": ExcludeColumns, "respondents": Respondents,
        "respondent": RespondentIs,
    }  # fmt: skip

    def __post_init__(self) -> None:
        if isinstance(self.columns, list):  # as options give them
            object.__setattr__(self, "columns", named("--column", self.columns))
        for name in ("metric", "exclude"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def responses(self, path: Path) -> irtbench.LongTable:
        """Graded responses of a file or folder."""
        return irtbench.read_responses(path, **vars(self))

    def answers(self, path: Path, levels: Sequence[str] = ()) -> irtbench.LongTable:
        """Raw answers of a file or folder; with levels grades, which may be called scores."""
        return irtbench.read_answers(path, levels=levels, **vars(self))

    def as_it_is(self, path: Path, content: Content, levels: Sequence[str] = ()) -> irtbench.LongTable:
        """What a file holds, with all that is wrong with it: repeated trials and scores that are not 1 or 0 stay.

        Of grades with these labels their places, from 0 on.
        """
        if levels:
            from irtbench.data.readers.recognise import read_score_table

            table = read_score_table(path, levels=levels, **vars(self))
            return replace(table, frame=table.frame[table.frame["response"].notna()])
        graded = content == "responses" or (content == "auto" and self.holds_responses(path))
        as_it_is = replace(self, trials="all", threshold=None) if self.trials == "error" else self
        return as_it_is.responses(path) if graded else as_it_is.answers(path)

    def scores(self, path: Path, levels: Sequence[str] = ()) -> pd.DataFrame:
        """Scores in categories, a row a respondent and a column an item."""
        return irtbench.data.read_scores(path, levels=levels, **vars(self))

    def holds_responses(self, path: Path) -> bool:
        """Whether a file or folder holds graded responses, or answers alone."""
        from irtbench.data.readers.recognise import holds_responses

        return holds_responses(path, **vars(self))

    def holds_models(self, path: Path) -> bool:
        """Whether the respondents of a file or folder are models, by its format."""
        from irtbench.data.readers.recognise import holds_models

        return holds_models(path, **vars(self))

    def response_matrix(self, path: Path) -> Responses:
        """Graded responses as a matrix, a sparse one where it is large and mostly empty."""
        from irtbench.data.readers.recognise import read_response_matrix

        return read_response_matrix(path, **vars(self))

    def matrix(self, path: Path) -> irtbench.ResponseMatrix:
        """Graded responses as a matrix."""
        return irtbench.ResponseMatrix.from_long(self.responses(path).frame)


def labels_of(scales: Iterable[irtbench.CategoryParameters]) -> list[str]:
    """The scores of these items that are no numbers, the lowest first."""
    values = dict.fromkeys(value for items in scales for own in items.categories for value in own)
    return [value for value in values if isinstance(value, str)]


@dataclass(frozen=True, eq=False)
class GradedFile:
    """Responses, and the items among them that the bank's own study left out."""

    responses: irtbench.ResponseMatrix
    left_out: tuple[LeftOut, ...]


def read_graded(
    bank: irtbench.ItemBank,
    path: Path,
    reading: Reading,
    *,
    content: Content = "auto",
    unknown_items: Literal["error", "ignore"] = "error",
    answers_mapped: Mapping[str, str] | None = None,
) -> GradedFile:
    """Responses of a file that holds them, or answers that the bank's key grades.

    Raises
    ------
    InputError
        If the file cannot be read or graded, or has items that neither the bank nor its study had.
    """
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
        return GradedFile(irtbench.ResponseMatrix.from_long(table), left_out)
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
        self, bank: irtbench.ItemBank, path: Path, reading: Reading, *, content: Content = "auto", say: bool = True
    ) -> tuple[irtbench.ResponseMatrix, tuple[LeftOut, ...]]:
        """Its responses, and the items that the bank's own study left out, which are named on standard error."""
        found = read_graded(
            bank, path, reading, content=content, unknown_items=self.unknown_items,
            answers_mapped=mapped(self.answers_map),
        )  # fmt: skip
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


def left_out_of(left_out: Sequence[LeftOut], scale: str, bank: irtbench.ItemBank) -> list[dict[str, str]]:
    """What --json says of a scale: items removed from it, and those that are of no scale of the bank."""
    others = {other.name for other in bank.scales} - {scale}
    return [{"item_id": item.item_id, "reason": item.reason} for item in left_out if item.scale not in others]
