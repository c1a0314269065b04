"""How a command reads the files it is given: the options that say so, the same for every command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from irtbench.cli.options import (
    Columns,
    Errored,
    ExcludeColumns,
    ItemPattern,
    Join,
    Metric,
    RespondentIs,
    Respondents,
    Table,
    Threshold,
    Trials,
    named,
)
from irtbench.data.how_to_read import HowToRead

if TYPE_CHECKING:
    import pandas as pd

    from irtbench.data.readers.long_table import LongTable
    from irtbench.data.responses import ResponseMatrix, Responses
    from irtbench.models.category_parameters import CategoryParameters


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

    def responses(self, path: Path) -> LongTable:
        """Graded responses of a file or folder."""
        from irtbench.data.readers.recognise import read_responses

        return read_responses(path, **vars(self))

    def answers(self, path: Path) -> LongTable:
        """Raw answers of a file or folder."""
        from irtbench.data.readers.recognise import read_answers

        return read_answers(path, **vars(self))

    def as_it_is(self, path: Path, content: Literal["auto", "responses", "answers"]) -> LongTable:
        """What a file holds, with all that is wrong with it: repeated trials and scores that are not 1 or 0 stay."""
        graded = content == "responses" or (content == "auto" and self.holds_responses(path))
        as_it_is = replace(self, trials="all", threshold=None) if self.trials == "error" else self
        return as_it_is.responses(path) if graded else as_it_is.answers(path)

    def scores(self, path: Path, levels: Sequence[str] = ()) -> pd.DataFrame:
        """Scores in categories, a row a respondent and a column an item."""
        from irtbench.data.readers.recognise import read_scores

        return read_scores(path, levels=levels, **vars(self))

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

    def matrix(self, path: Path) -> ResponseMatrix:
        """Graded responses as a matrix."""
        from irtbench.data.responses import ResponseMatrix

        return ResponseMatrix.from_long(self.responses(path).frame)


def labels_of(scales: Iterable[CategoryParameters]) -> list[str]:
    """The scores of these items that are no numbers, the lowest first."""
    values = dict.fromkeys(value for items in scales for own in items.categories for value in own)
    return [value for value in values if isinstance(value, str)]
