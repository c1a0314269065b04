"""``irtbench assemble``: a short test out of a bank."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from irtbench.cli.options import Figures, Folder, Html, Json, Quiet, Seed, numbers
from irtbench.cli.output import output_folder, say, say_next, show_table, to_json, write_json, write_table
from irtbench.cli.presenting import figures_in, page_in
from irtbench.cli.progress import reporting
from irtbench.data.input_error import InputError

if TYPE_CHECKING:
    from irtbench.building.assembly import AssembledForms
    from irtbench.building.form_wishes import Limit
    from irtbench.building.item_pool import BankLike

_END = re.compile(r"(\d+(?:\.\d+)?)(%?)")


def assemble(
    bank: Annotated[Path, typer.Argument(metavar="BANK", help="An item bank, bank.json, or a table items.csv.")],
    output: Folder,
    length: Annotated[int | None, typer.Option("--length", help="Items of the form: most information.", min=1)] = None,
    se: Annotated[
        float | None, typer.Option("--se", help="The shortest form with no larger a standard error at any theta.")
    ] = None,
    reliability: Annotated[
        float | None, typer.Option("--reliability", help="The shortest form of this marginal reliability.")
    ] = None,
    theta: Annotated[
        str, typer.Option("--theta", metavar="T,T,...", help="Abilities at which information is asked for.")
    ] = "-1,-0.5,0,0.5,1",
    shape: Annotated[
        str | None, typer.Option("--shape", metavar="R,R,...", help="Information wanted there, relative to each other.")
    ] = None,
    objective: Annotated[
        Literal["maximin", "population"],
        typer.Option("--objective", help="Most information where there is least, or for the population's mean."),
    ] = "maximin",
    best_for: Annotated[
        Literal["ability", "accuracy"],
        typer.Option("--for", help="What --length items are to tell: ability, or the accuracy on all items."),
    ] = "ability",
    learn_from: Annotated[
        Path | None,
        typer.Option(
            "--learn-from", metavar="RESPONSES", help="For accuracy: responses 1 / 0 of known systems to all items."
        ),
    ] = None,
    limit: Annotated[
        list[str],
        typer.Option("--limit", metavar="COLUMN=VALUE:MIN..MAX", help="Items with a value: 5..10, ..3, 20%..; repeat."),
    ] = [],  # noqa: B006 - typer copies it
    items: Annotated[
        Path | None, typer.Option("--items", metavar="FILE", help="More columns of each item: item_id and others.")
    ] = None,
    scale: Annotated[list[str], typer.Option("--scale", help="Of these scales of the bank alone; repeat.")] = [],  # noqa: B006
    enemies: Annotated[
        Path | None,
        typer.Option("--enemies", metavar="FILE", help="Pairs that may not stand together: item_1, item_2."),
    ] = None,
    enemies_by: Annotated[
        str | None, typer.Option("--enemies-by", metavar="COLUMN", help="Items alike in this column are enemies.")
    ] = None,
    require: Annotated[list[str], typer.Option("--require", metavar="ITEM", help="On the form; repeat.")] = [],  # noqa: B006
    forbid: Annotated[list[str], typer.Option("--forbid", metavar="ITEM", help="Not on the form; repeat.")] = [],  # noqa: B006
    other_form: Annotated[
        list[Path],
        typer.Option("--other-form", metavar="FILE", help="A form in use: form.csv, or an id a line; repeat."),
    ] = [],  # noqa: B006
    most_overlap: Annotated[
        int | None, typer.Option("--most-overlap", help="Items shared with each other form at most.", min=0)
    ] = None,
    most_uses: Annotated[
        int | None, typer.Option("--most-uses", help="Forms that an item may be on, those in use counted.", min=1)
    ] = None,
    forms: Annotated[int, typer.Option("--forms", help="Parallel forms to make at once.", min=1)] = 1,
    ids: Annotated[
        list[str],
        typer.Option("--ids", metavar="HARNESS", help="lm-eval, inspect, helm or plain; all that fit; repeat."),
    ] = [],  # noqa: B006
    task: Annotated[
        list[str], typer.Option("--task", help="A task that item ids begin with, if it is not up to the last slash.")
    ] = [],  # noqa: B006
    gap: Annotated[float, typer.Option("--gap", help="How far from the best, relative, will do.")] = 0.0,
    seconds: Annotated[
        float | None, typer.Option("--seconds", help="After which the best found is taken: 300; 20 for several forms.")
    ] = None,
    figures: Figures = None,
    html: Html = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Choose the items of a short form: exactly one of --length, --se, --reliability says how short.

    Writes form.csv, form.json, bank.json (the form, which score takes), and the ids of its items for evaluation
    harnesses. Several forms: bank_1.json, bank_2.json and so on.
    """
    from dataclasses import replace

    from irtbench.bank.bank import ItemBank, save_bank
    from irtbench.building.assembly import assemble_forms
    from irtbench.building.binary_program import TimeOut
    from irtbench.building.form_bank import form_bank
    from irtbench.building.form_wishes import FormWishes
    from irtbench.building.item_pool import scales_given
    from irtbench.data.harness_ids import harness_ids
    from irtbench.data.readers.recognise import read_responses

    given = read_bank(bank)
    if scale:
        if not isinstance(given, ItemBank):
            raise InputError(f"--scale {scale[0]}: {bank} is no bank; expected bank.json")
        names = [one.name for one in given.scales]
        for name in scale:
            if name not in names:
                raise InputError(f"--scale {name}: the bank has no such scale; it has: {', '.join(names)}")
        given = replace(given, scales=tuple(one for one in given.scales if one.name in scale))
    wishes = FormWishes(
        length=length, se=se, reliability=reliability, theta=numbers("--theta", theta),
        shape=() if shape is None else numbers("--shape", shape),
        objective="accuracy" if best_for == "accuracy" else objective,
        limits=tuple(limit_of(text) for text in limit), enemies=() if enemies is None else pairs(enemies),
        enemies_by=enemies_by, required=tuple(require), forbidden=tuple(forbid),
        other_forms=tuple(read_form(file) for file in other_form), most_overlap=most_overlap, most_uses=most_uses,
        forms=forms, gap=gap, seconds=seconds,
    )  # fmt: skip
    columns = None if items is None else table_of(items)
    with reporting(quiet=quiet) as progress:
        progress("choosing the items")
        try:
            known = None if learn_from is None else read_responses(learn_from)
            found = assemble_forms(given, wishes, columns=columns, known=known)
        except TimeOut as error:
            print(f"irtbench form assemble: {error}; expected more --seconds or fewer wishes", file=sys.stderr)
            raise typer.Exit(1) from None
    banks = [form_bank(given, form, seed=seed) for form in found.forms]
    files: dict[str, str] = {}
    for number, form in enumerate(found.forms, start=1):
        texts = harness_ids(form, formats=tuple(ids), tasks=tuple(task))  # type: ignore[arg-type]
        files |= {numbered(name, number, forms): text for name, text in texts.items()}
    summary = found.summary() | {"seed": seed, "ids": sorted(files)}
    # what an earlier run may have written and this one does not
    names = [*files, *(numbered("bank.json", k, forms) for k in range(1, forms + 1))]
    with (
        output_folder(output, files=("form.csv", "form.json", *names)) as folder,
        figures_in(figures) as draw,
        page_in(html) as show,
    ):
        write_table(found.table(), folder / "form.csv")
        write_json(summary, folder / "form.json")
        for number, short in enumerate(banks, start=1):
            save_bank(short, folder / numbered("bank.json", number, forms))
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        if draw is not None:
            from irtbench.report.bank_figures import form_figures

            draw(form_figures(scales_given(given), found))
        if show is not None:
            from irtbench.report.item_pages import forms_page

            show(forms_page(scales_given(given), found))
    if json:
        print(to_json(summary))
    elif not quiet:
        show_forms(found, output)


def read_bank(path: Path) -> BankLike:
    """A bank, or item parameters from a table or a file of py-irt."""
    from irtbench.bank.bank import load_bank
    from irtbench.data.readers.head import look_at
    from irtbench.data.readers.py_irt_parameters import recognises
    from irtbench.models.parameter_table import read_parameters

    if path.suffix.lower() == ".json" and path.is_file() and not recognises(look_at(path)):
        return load_bank(path)
    parameters = read_parameters(path)
    if path.suffix.lower() == ".json":
        return parameters
    table = table_of(path).set_index("item_id", drop=False).loc[list(parameters.item_ids)]
    own = parameters.table()
    others = [name for name in table.columns if name not in own]
    return own.assign(**{name: table[name].to_numpy() for name in others})


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


def show_forms(found: AssembledForms, output: Path) -> None:
    """Print how precise the forms are."""
    show_table(found.precision, rest=output / "form.json")
    n, forms = len(found.forms[0]), len(found.forms)
    many = f"{n} items" if forms == 1 else f"{forms} forms of {n} items each"
    best = "none is better" if found.optimal else f"none is better by more than {found.gap:.2%}"
    if found.wishes.objective == "accuracy":
        best = f"the accuracy on all items is known to a standard deviation of {found.objective:.3f}"
    say(f"{found.wishes.wanted}: {many}; {best}, {found.seconds:.1f} s; written to {output}")
    say_next("irtbench", "score", output / numbered("bank.json", 1, forms), "NEW.csv")
