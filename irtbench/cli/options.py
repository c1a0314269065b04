"""Options that several commands share, and how a command takes what is on its line before they are read."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

import typer
from typer import BadParameter
from typer.core import TyperCommand

import irtbench
from irtbench.data.how_to_read import FormatName
from irtbench.data.input_error import InputError

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
BESIDE_RESULTS = Path("-o")  # what --figures without a folder means
MAYBE_FOLDER = "[DIR]"
Figures = Annotated[
    Path | None,
    typer.Option("--figures", metavar="DIR", help="Draw the figures into this folder, each as SVG, PNG and PDF."),
]
#: The same where the option was there before without a folder.
FiguresOrBeside = Annotated[
    Path | None,
    typer.Option(
        "--figures",
        metavar=MAYBE_FOLDER,
        help="Draw the figures into this folder, each as SVG, PNG and PDF; without DIR as SVG among the results.",
    ),
]
FigureWidth = Annotated[
    str | None,
    typer.Option(
        "--figure-width",
        metavar="WIDTH",
        help="How wide the figures are, in inches or millimetres: 3.3in is a journal's column, 6.9in its page.",
    ),
]
Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write a page to read: result, figures, table to sort and search."),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the random numbers.", min=0, max=2**32 - 1)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no table; errors and warnings only.")]
Json = Annotated[bool, typer.Option("--json", help="Result as JSON on standard output, progress on standard error.")]
#: As `irtbench.data.readers.recognise.FORMATS`; no reader is imported for the help.
Formats = FormatName
Table = Annotated[Formats, typer.Option("--format", help="Format of the file; auto recognises it by content.")]
Trials = Annotated[
    Literal["count", "error", "first", "last", "mean", "majority", "any"],
    typer.Option(
        "--trials",
        help="Several trials of an item: count takes k right of n; the others one response; mean >= threshold.",
    ),
]
Threshold = Annotated[
    float | None, typer.Option("--threshold", help="For scores that are not 1 or 0: 1 where score >= threshold.")
]
Metric = Annotated[
    list[str],
    typer.Option("--metric", metavar="NAME", help="The score or question to take, where a file has several."),
]
Errored = Annotated[
    Literal["missing", "wrong"], typer.Option("--errored", help="What an item means at which a system's run failed.")
]
Join = Annotated[
    Literal["id", "hash"] | None,
    typer.Option("--join", help="Items by name, or by the hash of their content; a clash is an error if not given."),
]
ItemPattern = Annotated[
    str | None,
    typer.Option("--items", "--item-pattern", metavar="PATTERN", help="Columns of a wide table that are items: 'Q*'."),
]
ExcludeColumns = Annotated[
    list[str],
    typer.Option("--exclude-columns", metavar="PATTERN", help="Columns of a wide table that are no items."),
]
Respondents = Annotated[
    Path | None,
    typer.Option(
        "--respondents", metavar="FILE", help="Table of respondents to join: Prolific's, or one with respondent_id."
    ),
]
RespondentIs = Annotated[
    str,
    typer.Option(
        "--respondent",
        metavar="model|run|file|folder|PATTERN",
        help="Whom a log's responses are of; a pattern of its path with one group: 'runs/(.+?)/'.",
    ),
]
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
UnknownItemsOption = Annotated[
    Literal["error", "ignore"],
    typer.Option("--unknown-items", help="What items mean that neither the bank nor its study had."),
]
Content = Annotated[Literal["auto", "responses", "answers"], typer.Option("--content", help="What the file holds.")]
Where = Annotated[
    list[str], typer.Option("--where", metavar="COLUMN=VALUE", help="Keep the items whose column has this value.")
]
NumberOfOptions = Annotated[int, typer.Option("--options", help="Answers to choose from, for the prior of guessing.")]
WhereToCompute = Annotated[
    Literal["auto", "cpu", "cuda"],
    typer.Option("--device", help="Where to compute; auto takes a GPU if there is one."),
]
PriorItems = Annotated[
    Path | None,
    typer.Option(
        "--prior-items",
        metavar="FILE",
        help="Normal priors of the difficulty of single items: item_id, mean, sd (prior_items.csv of difficulty).",
    ),
]
Sample = Annotated[
    int,
    typer.Option(
        "--sample", metavar="N", help="Respondents of a table too large for memory, drawn at random.", min=1_000
    ),
]
SampleToPrune = Annotated[
    int | None,
    typer.Option(
        "--sample",
        metavar="N",
        help="Most respondents by whom items leave; else all or, of a table too large for memory, so many that an item "
        "has 2,000 responses.",
        min=1_000,
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
AllowUnconverged = Annotated[
    bool, typer.Option("--allow-unconverged", help="Exit with 0 even if a fit did not converge.")
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
            If the table is wrong, or there is none of which something is said.
        """
        if self.items is not None:
            columns, where = named("--item-column", self.item_column), named("--where", self.where)
            return irtbench.read_items(self.items, columns=columns, where=where)
        if self.item_column or self.where:
            raise InputError("--item-column and --where say something of the items: expected --items ITEMS with them")
        return None

    def kept(self, table: pd.DataFrame, known: irtbench.ItemTable | None) -> pd.DataFrame:
        """The rows of a long table that are of the items which `--where` keeps; all, if nothing is said there."""
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
            raise InputError(f"{option} {text}: expected NAME=VALUE, each name once")
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
    from irtbench.models.parameter_table import read_item_priors

    if file is None:
        return {}
    given, items = read_item_priors(file), set(item_ids)
    found = {item: moments for item, moments in given.items() if item in items}
    if not found:
        raise InputError(f"{file}: none of its items is among those of the responses; expected some of them")
    return found


def numbers(option: str, text: str) -> tuple[float, ...]:
    """Numbers parted by commas."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option} {text}: expected numbers parted by commas") from None


def levels_of(text: str | None) -> tuple[str, ...]:
    """The labels of ``--levels``."""
    levels = tuple(part.strip() for part in (text or "").split(",") if part.strip())
    if text is not None and len(set(levels)) < 2:
        raise InputError(f"--levels {text!r}: expected two labels or more, each once, such as poor,fair,good")
    return levels


def chosen_scale(bank: irtbench.ItemBank, name: str | None, file: Path) -> irtbench.Scale:
    """The scale of this name, or the only one."""
    from irtbench.data.responses import name_first

    names = [scale.name for scale in bank.scales]
    if len(names) == 1 and name is None:
        return bank.scales[0]
    if name is None:
        raise InputError(f"{file}: several scales; expected --scale with one of {name_first(names)}")
    if name not in names:
        raise InputError(f"{file}: no scale {name}; expected --scale with one of {name_first(names)}")
    return bank.scales[names.index(name)]


class Command(TyperCommand):
    """A command whose options that may stand without their folder (metavar ``[DIR]``) take the results' own then.

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
        for place, word in enumerate(args):
            before = args[place - 1] if place else ""
            name, equals, value = word.partition("=")
            of_option = before if before.startswith("-") else ""
            if (not word and (of_option in paths or not of_option)) or (equals and not value and name in paths):
                named = of_option or (name if equals else "") or "an argument"
                raise BadParameter(f"{named}: expected a path but it is empty (a variable that is not set?)")
        alone = {name for option in self.params if option.metavar == MAYBE_FOLDER for name in option.opts}
        words = []
        for place, word in enumerate(args):
            following = args[place + 1] if place + 1 < len(args) else "-"
            if word in alone and (following.startswith("-") or Path(following).is_file()):
                word = f"{word}={BESIDE_RESULTS}"
            words.append(word)
        return super().parse_args(ctx, words)
