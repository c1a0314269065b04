"""Options that several commands share, and how a command takes what is on its line before they are read."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

import typer
from typer import BadParameter
from typer.core import TyperCommand

import irtbench
from irtbench.data.harmless_text import printable
from irtbench.data.how_to_read import FormatName, HowToRead
from irtbench.data.place import without_credentials

if TYPE_CHECKING:
    import pandas as pd


Responses = Annotated[
    Path,
    typer.Argument(
        metavar="RESPONSES", help="Graded responses 1 / 0: a long or wide table, or a file or folder of a known format."
    ),
]
Answers = Annotated[
    Path,
    typer.Argument(metavar="ANSWERS", help="Raw answers: a long or wide table, or a file or folder of a known format."),
]
Folder = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.")]
MaybeFolder = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results; none if not given.")
]
AMONG_RESULTS = Path("-o")  # what --figures without a folder means
MAYBE_FOLDER = "[DIR]"
Figures = Annotated[
    Path | None,
    typer.Option("--figures", metavar="DIR", help="Draw the figures into this folder, each as SVG, PNG and PDF."),
]
#: The same where the option was there before without a folder.
FiguresOrAmong = Annotated[
    Path | None,
    typer.Option(
        "--figures",
        metavar=MAYBE_FOLDER,
        help="Draw the figures into this folder, each as SVG, PNG and PDF; without DIR as SVG among the results.",
    ),
]
Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write a page to read: result, figures, table to sort and search."),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the random numbers.", min=0, max=2**32 - 1)]
Columns = Annotated[
    list[str],
    typer.Option("--column", metavar="NAME=COLUMN", help="The table's column for one of our names: answer=label."),
]
ItemColumns = Annotated[
    list[str],
    typer.Option("--item-column", metavar="NAME=COLUMN", help="The same for the table of items: label=gold."),
]
Map = Annotated[
    list[str],
    typer.Option(
        "--map",
        metavar="OLD=NEW,...",
        help="What answers mean, where they differ from the key: 0=entailment; wrong ones: none=",
    ),
]
Content = Annotated[Literal["auto", "responses", "answers"], typer.Option("--content", help="What the file holds.")]
Where = Annotated[
    list[str], typer.Option("--where", metavar="COLUMN=VALUE", help="Keep the items whose column has this value.")
]
PriorItems = Annotated[
    Path | None,
    typer.Option(
        "--prior-items",
        metavar="FILE",
        help="Normal priors of the difficulty of single items: item_id, mean, sd (prior_items.csv of difficulty).",
    ),
]
Cache = Annotated[
    Path | None, typer.Option("--cache", metavar="DIR", help="Where such a table is encoded, as by `fit`.")
]
AllowAddress = Annotated[
    list[str],
    typer.Option(
        "--allow-address",
        metavar="ADDRESS",
        help="Read addresses that begin so, where the scheme, or a host that a study file names, is not read else.",
    ),
]


Levels = Annotated[
    str | None,
    typer.Option("--levels", metavar="A,B,...", help="Of grades that are labels: all in order, the lowest first."),
]
Level = Annotated[float, typer.Option("--level", help="Coverage of the intervals.")]
ItemTableFile = typer.Option("--items", metavar="ITEMS", help="Table of items: item_id, and key and label.")


@dataclass(frozen=True)
class ItemsFile:
    """The table of items that a command goes by, where it goes by one."""

    items: Annotated[Path | None, ItemTableFile] = None
    item_column: ItemColumns = field(default_factory=list)
    where: Where = field(default_factory=list)

    def read(self) -> irtbench.ItemTable | None:
        """The items that `--where` keeps; None where there is no table.

        Raises
        ------
        InputError
            If the table is wrong, or there is none and an option is about it.
        """
        if self.items is not None:
            columns, where = named("--item-column", self.item_column), named("--where", self.where)
            return irtbench.read_items(self.items, columns=columns, where=where)
        if self.item_column or self.where:
            raise irtbench.InputError(
                "--item-column and --where say something of the items: expected --items ITEMS with them"
            )
        return None

    def kept(self, table: pd.DataFrame, known: irtbench.ItemTable | None) -> pd.DataFrame:
        """The rows of a long table that are of the items which `--where` keeps; all without it."""
        if known is None or not self.where:
            return table
        return table[table["item_id"].isin(known.item_ids)].reset_index(drop=True)


@dataclass(frozen=True, kw_only=True)
class KnownItems(ItemsFile):
    """The table of items, which the command needs."""

    items: Annotated[Path, ItemTableFile] = field()  # without the default that it has above

    def known(self) -> irtbench.ItemTable:
        """The items that `--where` keeps."""
        found = self.read()
        assert found is not None
        return found


def say(message: str, *, place: str = "irtbench") -> None:
    """Print one line on standard error in one write, as several processes may share it."""
    print(f"{place}: {printable(' '.join(without_credentials(message).split()))}\n", end="", file=sys.stderr)


def refuse(cases: Mapping[str, bool]) -> None:
    """Refuse options that do not go together, in the words of the first case that is so."""
    if wrong := [words for words, is_so in cases.items() if is_so]:
        raise irtbench.InputError(wrong[0])


def named(option: str, given: list[str]) -> dict[str, str]:
    """Read ``NAME=VALUE`` arguments of an option.

    Raises
    ------
    InputError
        If one has no equals sign or no name, or a name is repeated.
    """
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals) or name in found:
            raise irtbench.InputError(f"{option} {text}: expected NAME=VALUE, each name once")
        found[name] = value
    return found


def mapped(given: list[str]) -> dict[str, str]:
    """Read the ``OLD=NEW,...`` arguments of ``--map``.

    Raises
    ------
    InputError
        If one has no equals sign or nothing before it, or an answer is mapped twice.
    """
    return named("--map", [pair.strip() for text in given for pair in text.split(",")])


def item_priors(file: Path | None, item_ids: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Priors of the difficulty of those of these items that ``--prior-items`` names; none where it is not given.

    Raises
    ------
    InputError
        If the file is wrong, or names none of the items.
    """
    if file is None:
        return {}
    given, items = irtbench.models.parameter_table.read_item_priors(file), set(item_ids)
    found = {item: moments for item, moments in given.items() if item in items}
    if not found:
        raise irtbench.InputError(f"{file}: none of its items is among those of the responses; expected some of them")
    return found


def numbers(option: str, text: str) -> tuple[float, ...]:
    """Numbers parted by commas."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise irtbench.InputError(f"{option} {text}: expected numbers parted by commas") from None


def levels_of(text: str | None) -> tuple[str, ...]:
    """The labels of ``--levels``."""
    levels = tuple(part.strip() for part in (text or "").split(",") if part.strip())
    if text is not None and len(set(levels)) < 2:
        raise irtbench.InputError(f"--levels {text!r}: expected two labels or more, each once, such as poor,fair,good")
    return levels


def chosen_scale(bank: irtbench.ItemBank, name: str | None, file: Path) -> irtbench.Scale:
    """The scale of this name, or the only one."""
    found = [scale for scale in bank.scales if name in (None, scale.name)]
    if len(found) != 1:
        wrong = "several scales" if name is None else f"no scale {name}"
        names = irtbench.data.responses.name_first([scale.name for scale in bank.scales])
        raise irtbench.InputError(f"{file}: {wrong}; expected --scale with one of {names}")
    return found[0]


class Command(TyperCommand):
    """A command whose options that may come without their folder (metavar ``[DIR]``) take the results' own then.

    Such an option has no folder where it is the last word, where another option follows, and where what follows is a
    file: what the command reads.
    An empty path, as of a variable that is not set, is refused: it would be the working folder.
    """

    paths: ClassVar[frozenset[str]] = frozenset()  # names of its parameters that are one

    @classmethod
    def of(cls, function: Callable[..., Any]) -> type[Command]:
        """The class of the command that this function is."""
        hints = {name: get_args(given.annotation)[:1] for name, given in inspect.signature(function).parameters.items()}
        paths = [name for name, (*hint,) in hints.items() if any(Path in (one, *get_args(one)) for one in hint)]
        return type(cls.__name__, (cls,), {"paths": frozenset(paths)})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of the line."""
        paths = {name for option in self.params if option.name in self.paths for name in option.opts}
        for before, word in zip(["", *args], args, strict=False):
            name, equals, value = word.partition("=")
            of_option = before if before.startswith("-") else ""
            if (not word and (of_option in paths or not of_option)) or (equals and not value and name in paths):
                named = of_option or (name if equals else "") or "an argument"
                raise BadParameter(f"{named}: expected a path but it is empty (a variable that is not set?)")
        alone = {name for option in self.params if option.metavar == MAYBE_FOLDER for name in option.opts}
        words = [
            f"{word}={AMONG_RESULTS}"
            if word in alone and (following.startswith("-") or Path(following).is_file())
            else word
            for word, following in zip(args, [*args[1:], "-"], strict=False)
        ]
        return super().parse_args(ctx, words)


@dataclass(frozen=True)
class Reading(HowToRead):
    """How a command reads its files; the readers are imported when they are needed."""

    #: The options of every command that reads answers or responses.
    OPTIONS: ClassVar[Mapping[str, Any]] = {
        "format": Annotated[
            FormatName, typer.Option("--format", help="Format of the file; auto recognises it by content.")
        ],
        "columns": Columns,
        "trials": Annotated[
            Literal["count", "error", "first", "last", "mean", "majority", "any"],
            typer.Option(
                "--trials",
                help="Several trials of an item: count takes k right of n; the others one response; mean >= threshold.",
            ),
        ],
        "threshold": Annotated[
            float | None,
            typer.Option("--threshold", help="For scores that are not 1 or 0: 1 where score >= threshold."),
        ],
        "metric": Annotated[
            list[str],
            typer.Option("--metric", metavar="NAME", help="The score or question to take, where a file has several."),
        ],
        "errored": Annotated[
            Literal["missing", "wrong"],
            typer.Option("--errored", help="What an item means at which a system's run failed."),
        ],
        "join": Annotated[
            Literal["id", "hash"] | None,
            typer.Option(
                "--join", help="Items by name, or by the hash of their content; a clash is an error if not given."
            ),
        ],
        "items": Annotated[
            str | None,
            typer.Option(
                "--items", "--item-pattern", metavar="PATTERN", help="Columns of a wide table that are items: 'Q*'."
            ),
        ],
        "exclude": Annotated[
            list[str],
            typer.Option("--exclude-columns", metavar="PATTERN", help="Columns of a wide table that are no items."),
        ],
        "respondents": Annotated[
            Path | None,
            typer.Option(
                "--respondents",
                metavar="FILE",
                help="Table of respondents to join: Prolific's, or one with respondent_id.",
            ),
        ],
        "respondent": Annotated[
            str,
            typer.Option(
                "--respondent",
                metavar="model|run|file|folder|PATTERN",
                help="Whom a log's responses are of; a pattern of its path with one group: 'runs/(.+?)/'.",
            ),
        ],
    }

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
            table = irtbench.data.readers.recognise.read_score_table(path, levels=levels, **vars(self))
            return replace(table, frame=table.frame[table.frame["response"].notna()])
        graded = content == "responses" or (content == "auto" and self.holds_responses(path))
        as_it_is = replace(self, trials="all", threshold=None) if self.trials == "error" else self
        return as_it_is.responses(path) if graded else as_it_is.answers(path)

    def scores(self, path: Path, levels: Sequence[str] = ()) -> pd.DataFrame:
        """Scores in categories, a row a respondent and a column an item."""
        return irtbench.data.read_scores(path, levels=levels, **vars(self))

    def holds_responses(self, path: Path) -> bool:
        """Whether a file or folder holds graded responses, or answers alone."""
        return irtbench.data.readers.holds_responses(path, **vars(self))

    def holds_models(self, path: Path) -> bool:
        """Whether the respondents of a file or folder are models, by its format."""
        return irtbench.data.readers.recognise.holds_models(path, **vars(self))

    def response_matrix(self, path: Path) -> irtbench.data.responses.Responses:
        """Graded responses as a matrix, a sparse one where it is large and mostly empty."""
        return irtbench.data.readers.recognise.read_response_matrix(path, **vars(self))

    def matrix(self, path: Path) -> irtbench.ResponseMatrix:
        """Graded responses as a matrix."""
        return irtbench.ResponseMatrix.from_long(self.responses(path).frame)


def labels_of(scales: Iterable[irtbench.CategoryParameters]) -> list[str]:
    """The scores of these items that are no numbers, the lowest first."""
    values = dict.fromkeys(value for items in scales for own in items.categories for value in own)
    return [value for value in values if isinstance(value, str)]


def read_graded(
    bank: irtbench.ItemBank,
    path: Path,
    reading: Reading,
    *,
    content: Content = "auto",
    unknown_items: Literal["error", "ignore"] = "error",
    answers_mapped: Mapping[str, str] | None = None,
) -> tuple[irtbench.ResponseMatrix, tuple[irtbench.bank.bank.LeftOut, ...]]:
    """Responses of a file, or answers that the bank's key grades, and the items that the bank's own study left out."""
    from irtbench.scoring.scores import category_responses, check_known, grade_answers, grading_of, in_categories

    if in_categories(bank):
        known = [scale.items.categories for scale in bank.scales if scale.items.categories is not None]
        scores = reading.scores(path, labels_of(known))
        left_out = check_known(scores.columns, bank.scales, unknown_items)
        return category_responses(bank, scores), left_out
    graded = content == "responses" or (content == "auto" and reading.holds_responses(path))
    if graded and answers_mapped:
        raise irtbench.InputError(
            f"file {path}: holds graded responses; expected answers for --map, or --content answers"
        )
    table = (reading.responses(path) if graded else reading.answers(path)).frame
    left_out = check_known(table["item_id"].unique(), bank.scales, unknown_items)
    if graded:
        return irtbench.ResponseMatrix.from_long(table), left_out
    return grade_answers(bank, table, grading_of(bank, answers_mapped), unknown_items=unknown_items), left_out


@dataclass(frozen=True)
class SystemFile:
    """How a system's file is graded by a bank."""

    unknown_items: Annotated[
        Literal["error", "ignore"],
        typer.Option("--unknown-items", help="What items mean that neither the bank nor its study had."),
    ] = "error"
    answers_map: Map = field(default_factory=list)

    def read(
        self, bank: irtbench.ItemBank, path: Path, reading: Reading, *, content: Content = "auto", say: bool = True
    ) -> tuple[irtbench.ResponseMatrix, tuple[irtbench.bank.bank.LeftOut, ...]]:
        """Its responses, and the items that the bank's own study left out, which are named on standard error."""
        graded, left_out = read_graded(
            bank, path, reading, content=content, unknown_items=self.unknown_items,
            answers_mapped=mapped(self.answers_map),
        )  # fmt: skip
        if say:
            say_left_out(left_out)
        return graded, left_out


def say_left_out(left_out: Sequence[irtbench.bank.bank.LeftOut]) -> None:
    """Say on standard error, in one line, which items do not count because the bank's study left them out."""
    if left_out:
        first = irtbench.data.responses.name_first(
            [f"{item.item_id} ({item.reason.replace('_', ' ')})" for item in left_out]
        )
        what = "item" if len(left_out) == 1 else "items"
        say(f"{len(left_out)} {what} left out, as in the bank's own study: {first}")
