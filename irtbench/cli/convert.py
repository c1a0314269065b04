"""``irtbench convert``: answers or responses in any known format to the long table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import pandas as pd
import typer

from irtbench.cli.options import (
    Columns,
    Errored,
    ExcludeColumns,
    Formats,
    ItemPattern,
    Join,
    Json,
    Metric,
    Quiet,
    RespondentIs,
    Respondents,
    Seed,
    Threshold,
    named,
)
from irtbench.cli.output import demand_table_name, output_file, say, say_next, show_table, to_json, write_table
from irtbench.cli.progress import reporting
from irtbench.data.input_error import InputError

if TYPE_CHECKING:
    from irtbench.data.readers.summary import ReadingSummary

ENDINGS = (".csv", ".csv.gz", ".parquet")
FOR_PAPERS = (".tex", ".html", ".md")


def convert(
    inputs: Annotated[
        list[Path], typer.Argument(metavar="IN...", help="Files or folders of one format, such as a folder of logs.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="A long table .csv, .csv.gz, .parquet; for a paper .tex, .html, .md.",
        ),
    ],
    source: Annotated[Formats, typer.Option("--from", help="Format; auto recognises it by content.")] = "auto",
    content: Annotated[
        Literal["auto", "responses", "answers"],
        typer.Option("--content", help="What to take; auto: graded responses where there are some."),
    ] = "auto",
    trials: Annotated[
        Literal["keep", "count", "first", "last", "mean", "majority", "any"],
        typer.Option(
            "--trials", help="Several responses of one respondent to an item: kept a row each, counted, or reduced."
        ),
    ] = "keep",
    metric: Metric = [],  # noqa: B006 - typer copies it
    threshold: Threshold = None,
    errored: Errored = "missing",
    join: Join = None,
    items: ItemPattern = None,
    exclude_columns: ExcludeColumns = [],  # noqa: B006
    column: Columns = [],  # noqa: B006
    respondents: Respondents = None,
    respondent: RespondentIs = "model",
    chosen: Annotated[
        str, typer.Option("--columns", metavar="A,B", help="For a paper: these columns, in this order.")
    ] = "",
    digits: Annotated[int, typer.Option("--digits", help="For a paper: digits behind the point.", min=0, max=9)] = 2,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write the long table of any format: respondent_id, item_id, response or answer, and trial where there are some.

    With --trials count a row holds n_correct and n_trials in place of a response. Of py-irt's best_parameters.json the
    items are written, as items.csv of fit has them. A name that ends in .tex, .html or .md makes a table for a paper of
    any table, such as items.csv or scores.csv: numbers rounded, columns chosen (--columns, --digits).

    Says what was read and what was left out, and why.
    """
    from irtbench.data.readers.head import look_at
    from irtbench.data.readers.py_irt_parameters import recognises
    from irtbench.data.readers.recognise import read
    from irtbench.data.readers.summary import summarise

    if len(inputs) == 1 and inputs[0].is_file() and recognises(look_at(inputs[0])):
        convert_items(inputs[0], output, quiet=quiet, json=json)
        return
    if output.name.endswith(FOR_PAPERS):
        convert_for_paper(inputs, output, [name.strip() for name in chosen.split(",") if name.strip()], digits)
        if json:
            print(to_json({"output": output}))
        elif not quiet:
            say(f"written to {output}")
        return
    if not output.name.endswith(ENDINGS):
        raise InputError(f"output {output}: expected a name that ends in {', '.join([*ENDINGS, *FOR_PAPERS])}")
    if chosen:
        raise InputError(f"--columns: goes with a table for a paper; expected -o ending in {', '.join(FOR_PAPERS)}")
    columns = named("--column", column)
    with reporting(quiet=quiet) as progress, output_file(output.absolute()) as file:
        progress("reading")
        table = read(
            inputs, content=content, format=source, columns=columns, threshold=threshold, trials=trials, metric=metric,
            errored=errored, join=join, items=items, exclude=exclude_columns, respondents=respondents,
            respondent=respondent,
        )  # fmt: skip
        found = summarise(table)
        write_table(table.table(), file)
    if json:
        print(to_json(asdict(found) | {"output": output}))
    elif not quiet:
        show(found, output)


def convert_for_paper(inputs: Sequence[Path], output: Path, columns: Sequence[str], digits: int) -> None:
    """Write a table as a paper has it: chosen columns, numbers rounded, whole ones whole."""
    from irtbench.data.readers.table import demand_columns, read_table

    if len(inputs) != 1:
        raise InputError(f"output {output}: a table for a paper is made of one table but got {len(inputs)} files")
    table = read_table(inputs[0])
    demand_columns(table, columns, inputs[0])
    shown = table[list(columns)] if columns else table
    for name in shown.columns:
        numbers = pd.to_numeric(shown[name].replace("", None), errors="coerce")
        if numbers.notna().any() and not (numbers.isna() & (shown[name] != "")).any():
            whole = (numbers.dropna() % 1 == 0).all()
            texts = numbers.map(lambda number, d=0 if whole else digits: "" if pd.isna(number) else f"{number:z.{d}f}")
            shown = shown.assign(**{name: texts})
    with output_file(output.absolute()) as file:
        write_table(shown, file)


def convert_items(path: Path, output: Path, *, quiet: bool, json: bool) -> None:
    """Write the items that py-irt estimated."""
    from irtbench.models.parameter_table import read_parameters

    demand_table_name(output)
    items = read_parameters(path)
    with output_file(output.absolute()) as file:
        write_table(items.table(), file)
    if json:
        print(to_json({"format": "py-irt parameters", "n_items": items.n_items, "output": output}))
    elif not quiet:
        what = f"{items.n_items} items on the scale where its subjects have mean 0 and standard deviation 1"
        say(f"best_parameters.json of py-irt, a (theta - b): {what}")
        say(f"written to {output}")


def show(found: ReadingSummary, output: Path) -> None:
    """Print what was read."""
    what = f"{found.content}s"
    rows = [
        ("format", found.format),
        ("respondents", str(found.n_respondents)),
        ("items", str(found.n_items)),
        (what, str(found.n_responses)),
        ("density", f"{100 * found.density:.1f}% of the pairs of respondent and item"),
    ]
    if found.n_trials > 1:
        rows.append(("trials", f"up to {found.n_trials} {what} of one respondent to one item"))
    if found.proportion_correct is not None:
        rows.append(("correct", f"{100 * found.proportion_correct:.1f}%"))
    if found.answers:
        rows.append(("labels", ", ".join(f"{text} ({n})" for text, n in found.answers.items())))
    if found.tasks:
        rows.append(("tasks", ", ".join(f"{name} ({n} items)" for name, n in found.tasks.items())))
    if found.first_date is not None:
        rows.append(("time", f"{found.first_date} to {found.last_date}"))
    rows += [("left out", f"{n}: {reason}") for reason, n in found.left_out.items()]
    show_table(pd.DataFrame(rows, columns=["read", ""]))
    say(f"written to {output}")
    say_next("irtbench", "doctor", output)
