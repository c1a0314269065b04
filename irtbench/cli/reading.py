"""How a command reads the files it is given: the options that say so, the same for every command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from irtbench.cli.options import (
    Columns,
    Errored,
    ExcludeColumns,
    ItemPattern,
    ItemPatternBesideItems,
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
    from irtbench.data.readers.trials import Trials as HowTrials
    from irtbench.data.responses import ResponseMatrix
    from irtbench.data.sparse_responses import SparseResponses

Command = Callable[..., None]
#: Options of every command that reads answers or responses, with what they are unless said.
OPTIONS: Mapping[str, tuple[Any, Any]] = {
    "column": (Columns, []),
    "table": (Table, "auto"),
    "trials": (Trials, "error"),
    "threshold": (Threshold, None),
    "metric": (Metric, []),
    "errored": (Errored, "missing"),
    "join": (Join, None),
    "item_pattern": (ItemPattern, None),
    "exclude_columns": (ExcludeColumns, []),
    "respondents": (Respondents, None),
    "respondent": (RespondentIs, "model"),
}


@dataclass(frozen=True)
class Reading(HowToRead):
    """How a command reads its files; the readers are imported when they are needed."""

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

    def response_matrix(self, path: Path) -> ResponseMatrix | SparseResponses:
        """Graded responses as a matrix, a sparse one where it is large and mostly empty."""
        from irtbench.data.readers.recognise import read_response_matrix

        return read_response_matrix(path, **vars(self))

    def matrix(self, path: Path) -> ResponseMatrix:
        """Graded responses as a matrix."""
        from irtbench.data.responses import ResponseMatrix

        return ResponseMatrix.from_long(self.responses(path).frame)


@overload
def reads_files(command: Command) -> Command: ...
@overload
def reads_files(*, trials: HowTrials) -> Callable[[Command], Command]: ...
def reads_files(
    command: Command | None = None, *, trials: HowTrials = "error"
) -> Command | Callable[[Command], Command]:
    """The command with the options that say how files are read, which it gets as ``reading``.

    They stand before its ``seed``; ``trials`` is what becomes of repeated trials unless said. Where an option is the
    command's own it has none of that name; where that is ``--items``, the pattern of items is ``--item-pattern`` alone.
    """
    if command is None:
        return partial(reads_files, trials=trials)
    signature = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name != "reading"]
    options = dict(OPTIONS) | {"trials": (Trials, trials)}
    if any("--items" in (getattr(part, "param_decls", None) or ()) or getattr(part, "default", None) == "--items"
           for parameter in own for part in getattr(parameter.annotation, "__metadata__", ())):  # fmt: skip
        options["item_pattern"] = (ItemPatternBesideItems, None)
    options = {name: option for name, option in options.items() if name not in signature.parameters}
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in options.items()
    ]
    place = next(k for k, parameter in enumerate(own) if parameter.name == "seed")

    @wraps(command)
    def with_reading(**given: Any) -> None:
        taken = {
            name: given.pop(name) if name in options else unless_said for name, (_, unless_said) in OPTIONS.items()
        }
        reading = Reading(
            format=taken["table"],
            columns=named("--column", taken["column"]),
            trials=taken["trials"],
            threshold=taken["threshold"],
            metric=tuple(taken["metric"]),
            errored=taken["errored"],
            join=taken["join"],
            items=taken["item_pattern"],
            exclude=tuple(taken["exclude_columns"]),
            respondents=taken["respondents"],
            respondent=taken["respondent"],
        )
        command(**given, reading=reading)

    parameters = [one.replace(kind=one.KEYWORD_ONLY) for one in (*own[:place], *added, *own[place:])]
    with_reading.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return with_reading
