"""``irtbench form assemble``: a short test out of a bank."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import irtbench
from irtbench import report
from irtbench.building.form_wishes import FormWishes
from irtbench.cli.declared import Outcome, Run, command
from irtbench.cli.output import say, say_next, show_table
from irtbench.cli.reading import Reading
from irtbench.cli.settings_options import Fields
from irtbench.data.input_error import InputError

if TYPE_CHECKING:
    from irtbench.bank.bank import BankLike
    from irtbench.building.assembly import AssembledForms
    from irtbench.building.form_wishes import Limit
    from irtbench.data.given import ResponsesLike

_END = re.compile(r"(\d+(?:\.\d+)?)(%?)")


@dataclass(frozen=True)
class Purpose:
    """What a form of a length is best for."""

    objective: Annotated[
        Literal["maximin", "population"],
        typer.Option("--objective", help="Most information where there is least, or for the population's mean."),
    ] = "maximin"
    best_for: Annotated[
        Literal["ability", "accuracy"],
        typer.Option("--for", help="What --length items are to tell: ability, or the accuracy on all items."),
    ] = "ability"
    learn_from: Annotated[
        Path | None,
        typer.Option(
            "--learn-from", metavar="RESPONSES", help="For accuracy: responses 1 / 0 of known systems to all items."
        ),
    ] = None


@dataclass(frozen=True)
class FormContents:
    """The items of which a form is made, and the limits on them."""

    scale: Annotated[list[str], typer.Option("--scale", help="Of these scales of the bank alone; repeat.")] = field(
        default_factory=list
    )
    items: Annotated[
        Path | None, typer.Option("--items", metavar="FILE", help="More columns of each item: item_id and others.")
    ] = None
    limit: Annotated[
        list[str],
        typer.Option("--limit", metavar="COLUMN=VALUE:MIN..MAX", help="Items with a value: 5..10, ..3, 20%..; repeat."),
    ] = field(default_factory=list)
    enemies: Annotated[
        Path | None,
        typer.Option("--enemies", metavar="FILE", help="Pairs that may not stand together: item_1, item_2."),
    ] = None
    other_form: Annotated[
        list[Path],
        typer.Option("--other-form", metavar="FILE", help="A form in use: form.csv, or an id a line; repeat."),
    ] = field(default_factory=list)

    def of(self, bank: BankLike, path: Path) -> BankLike:
        """The bank, of which the scales named alone are taken."""
        if not self.scale:
            return bank
        if not isinstance(bank, irtbench.ItemBank):
            raise InputError(f"--scale {self.scale[0]}: {path} is no bank; expected bank.json")
        names = [one.name for one in bank.scales]
        if unknown := [name for name in self.scale if name not in names]:
            raise InputError(f"--scale {unknown[0]}: the bank has no such scale; it has: {', '.join(names)}")
        return replace(bank, scales=tuple(one for one in bank.scales if one.name in self.scale))

    def added_to(self, wishes: FormWishes, purpose: Purpose) -> FormWishes:
        """The wishes with what the files and limits say."""
        return replace(
            wishes,
            objective="accuracy" if purpose.best_for == "accuracy" else purpose.objective,
            limits=tuple(limit_of(text) for text in self.limit),
            enemies=() if self.enemies is None else pairs(self.enemies),
            other_forms=tuple(read_form(file) for file in self.other_form),
        )


@dataclass(frozen=True)
class HarnessIds:
    """The ids of a form's items for evaluation harnesses."""

    ids: Annotated[
        list[str],
        typer.Option("--ids", metavar="HARNESS", help="lm-eval, inspect, helm or plain; all that fit; repeat."),
    ] = field(default_factory=list)
    task: Annotated[
        list[str], typer.Option("--task", help="A task that item ids begin with, if it is not up to the last slash.")
    ] = field(default_factory=list)


@command("form.csv", "form.json", html=True)
def assemble(
    bank: Annotated[Path, typer.Argument(metavar="BANK", help="An item bank, bank.json, or a table items.csv.")],
    wishes: Annotated[
        FormWishes,
        Fields(
            {"required": "--require", "forbidden": "--forbid"},
            without=("objective", "limits", "enemies", "other_forms"),
        ),
    ],
    purpose: Purpose,
    contents: FormContents,
    harness: HarnessIds,
    run: Run,
) -> Outcome:
    """Choose the items of a short form: exactly one of --length, --se, --reliability says how short.

    Writes form.csv, form.json, bank.json (the form, which score takes), and the ids of its items for evaluation
    harnesses. Several forms: bank_1.json, bank_2.json and so on.
    """
    from irtbench.bank.bank import save_bank, scales_of
    from irtbench.building.binary_program import TimeOut

    given = contents.of(read_bank(bank), bank)
    columns = None if contents.items is None else table_of(contents.items)
    run.progress("choosing the items")
    known = None if purpose.learn_from is None else known_responses(given, purpose.learn_from)
    try:
        found = irtbench.assemble_forms(given, contents.added_to(wishes, purpose), columns=columns, known=known)
    except TimeOut as error:
        return Outcome(json=None, stopped=f"{error}; expected more --seconds or fewer wishes")
    ids: dict[str, str] = {}
    banks: dict[str, Any] = {}
    for number, form in enumerate(found.forms, start=1):
        own = partial(numbered, number=number, n_forms=wishes.forms)
        texts = irtbench.harness_ids(form, formats=tuple(harness.ids), tasks=tuple(harness.task))  # type: ignore[arg-type]
        ids |= {own(name): text for name, text in texts.items()}
        banks[own("bank.json")] = partial(save_bank, irtbench.form_bank(given, form, seed=run.seed))
    summary = found.summary() | {"seed": run.seed, "ids": sorted(ids)}
    return Outcome(
        json=summary, files={"form.csv": found.table(), "form.json": summary, **banks, **ids},
        figures=lambda: report.form_figures(scales_of(given), found),
        page=lambda: report.forms_page(scales_of(given), found), tell=lambda: show_forms(found, run),
    )  # fmt: skip


def read_bank(path: Path) -> BankLike:
    """A bank, or item parameters from a table or a file of py-irt."""
    from irtbench.bank.bank import load_bank
    from irtbench.data.readers.head import look_at
    from irtbench.data.readers.outside_parameters import recognises
    from irtbench.models.parameter_table import read_parameters

    if path.suffix.lower() == ".json" and path.is_file() and not recognises(look_at(path)):
        return load_bank(path, categories=True)
    parameters = read_parameters(path, categories=True)
    if path.suffix.lower() == ".json":
        return parameters
    table = table_of(path).set_index("item_id", drop=False).loc[list(parameters.item_ids)]
    own = parameters.table()
    others = [name for name in table.columns if name not in own and name != "categories"]
    return own.assign(**{name: table[name].to_numpy() for name in others})


def known_responses(bank: BankLike, path: Path) -> ResponsesLike:
    """What systems gave to the items of a bank: right or wrong, or scores."""
    from irtbench.bank.bank import ItemBank, scales_of
    from irtbench.cli.graded import read_graded
    from irtbench.data.readers.recognise import read_responses
    from irtbench.scoring.scores import in_categories

    whole = ItemBank(scales_of(bank))
    if not in_categories(whole):
        return read_responses(path)
    return read_graded(whole, path, Reading(), unknown_items="ignore").responses


def table_of(path: Path) -> Any:
    """A table of items as texts."""
    from irtbench.data.readers.table import demand_columns, read_table

    table = read_table(path)
    demand_columns(table, ["item_id"], path)
    return table


def read_form(path: Path) -> tuple[str, ...]:
    """The items of a form: the column item_id of a table, or a text with an id a line."""
    if path.suffix.lower() in (".csv", ".gz", ".parquet", ".tsv"):
        return tuple(table_of(path)["item_id"])
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"file {path}: cannot be read: {error}") from None
    return tuple(line.strip() for line in lines if line.strip())


def pairs(path: Path) -> tuple[tuple[str, ...], ...]:
    """Pairs of items from a table, as local_dependence.csv has them."""
    from irtbench.data.readers.table import demand_columns, read_table

    table = read_table(path)
    demand_columns(table, ["item_1", "item_2"], path)
    return tuple(zip(table["item_1"], table["item_2"], strict=True))


def limit_of(text: str) -> Limit:
    """``label=neutral:5..10``, either end left out for none, with % for shares.

    Raises
    ------
    InputError
        If it is written otherwise.
    """
    from irtbench.building.form_wishes import Limit

    which, colon, ends = text.rpartition(":")
    column, equals, value = which.partition("=")
    low, dots, high = ends.partition("..")
    if not dots:
        low = high = ends
    read = [_END.fullmatch(end) for end in (low, high) if end]
    if not (colon and equals and column and read) or any(end is None for end in read):
        raise InputError(f"--limit {text}: expected COLUMN=VALUE:MIN..MAX, such as label=neutral:5..10 or set=a:..20%")
    fields: dict[str, Any] = {}
    for end, count, share in ((low, "at_least", "least_share"), (high, "at_most", "most_share")):
        match = _END.fullmatch(end)
        if match is None:
            continue
        if match[2]:
            fields[share] = float(match[1]) / 100
        elif "." in match[1]:
            raise InputError(f"--limit {text}: expected a whole number or a share in % but got {end}")
        else:
            fields[count] = int(match[1])
    return Limit(column=column, value=value, **fields)


def numbered(name: str, number: int, n_forms: int) -> str:
    """``bank_2.json`` where there are several forms."""
    stem, dot, ending = name.rpartition(".")
    return name if n_forms == 1 else f"{stem}_{number}{dot}{ending}"


def show_forms(found: AssembledForms, run: Run) -> None:
    """Print how precise the forms are."""
    show_table(found.precision, rest=run.at("form.json"))
    assert run.output is not None
    n, forms = len(found.forms[0]), len(found.forms)
    many = f"{n} items" if forms == 1 else f"{forms} forms of {n} items each"
    best = "no other choice is better" + ("" if found.optimal else f" by more than {found.gap:.2%}")
    if found.wishes.objective == "accuracy":
        best = f"the accuracy on all items is known to a standard deviation of {found.objective:.3f}"
    say(f"{found.wishes.wanted}: {many}; {best}, {found.seconds:.1f} s; written to {run.output}")
    say_next("irtbench", "score", run.output / numbered("bank.json", 1, forms), "NEW.csv")
