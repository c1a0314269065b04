"""``irtbench init``: a study file from a data file, after a few questions."""

from __future__ import annotations

import os
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

from irtbench.cli.options import ItemColumns, Json, Map, Quiet, Seed, mapped, named
from irtbench.cli.output import output_folder, say, to_json, write_table
from irtbench.cli.progress import reporting
from irtbench.cli.reading import Reading, reads_files
from irtbench.data.input_error import InputError
from irtbench.study.study_template import Preset

OF_ITEMS = ("key", "label", "group", "text", "attention")  # columns of the answers that say something of the items


@reads_files
def init(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Answers or responses: a table, or a file or folder of any format.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="STUDY.toml", help="The study file to write.")
    ] = Path("study.toml"),
    items: Annotated[
        Path | None, typer.Option("--items", metavar="ITEMS", help="Items with key and label; answers need their key.")
    ] = None,
    systems: Annotated[
        list[Path], typer.Option("--system", metavar="FILE", help="A system's file, scored at the end; repeat.")
    ] = [],  # noqa: B006 - typer copies it
    title: Annotated[str | None, typer.Option("--title", help="What the study is called.")] = None,
    preset: Annotated[Preset | None, typer.Option("--preset", help="How items are pruned.")] = None,
    content: Annotated[
        Literal["auto", "responses", "answers"], typer.Option("--content", help="What the file holds.")
    ] = "auto",
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Ask nothing: what is not said is chosen by the data.")
    ] = False,
    answers_map: Map = [],  # noqa: B006
    item_column: ItemColumns = [],  # noqa: B006
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Write a study file that `irtbench build` takes as it is: screening, scales, prior as the data have it.

    Asks for the title, the table of items where answers need a key, and how items are pruned; nothing with --yes.
    A file that holds the right answers itself gets a table of items beside the study file, and so does one of which
    --column says what its columns are of the items: label=COLUMN for a scale each, key, group, text, attention.
    """
    from irtbench.config import study_from
    from irtbench.data.grading import GradingSettings
    from irtbench.data.readers.item_table import read_items
    from irtbench.study.examination import examine
    from irtbench.study.proposal import items_from_columns, items_from_keys, propose
    from irtbench.study.study_template import NORMALISE, Template, study_text

    if output.suffix != ".toml":
        raise InputError(f"output {output}: expected a name that ends in .toml")
    if output.exists():
        raise InputError(f"output {output}: is there already; expected another name (-o), or that you remove it")
    of_items = {name: column for name, column in reading.columns.items() if name in OF_ITEMS}
    if of_items and items is not None:
        raise InputError(f"--column {next(iter(of_items))}: is said by the table of items; expected --item-column")
    reading = replace(
        reading, columns={name: column for name, column in reading.columns.items() if name not in of_items}
    )
    with reporting(quiet=quiet) as progress:
        progress("reading")
        table = reading.as_it_is(file, content)
    graded = "answer" not in table.frame
    own_keys = None if graded or items is not None else items_from_keys(table.frame)
    if of_items:
        said = items_from_columns(table, of_items)
        own_keys = said if own_keys is None or "key" in said else said.merge(own_keys, on="item_id", how="left")
    if not yes:
        title = title or ask("Title of the study", default=plain_name(file))
        if not graded and items is None and (own_keys is None or "key" not in own_keys):
            if own_keys is not None:
                raise InputError(f"file {file}: answers without a key; expected --column key=COLUMN too, or --items")
            items = Path(ask("Table of the items, with their key"))
        preset = preset or ask_preset()
    folder = output.resolve().parent
    own_items = folder / f"{output.stem}_items.csv"
    if own_keys is not None and own_items.exists():
        raise InputError(f"output {own_items}: is there already; expected another name for the study file (-o)")
    names = named("--item-column", item_column)
    known = None if items is None else read_items(items, columns=names)
    with output_folder(output.absolute().parent) as unfinished:
        if own_keys is not None:
            write_table(own_keys, unfinished / own_items.name)
            known, items = read_items(unfinished / own_items.name), own_items
        meant = mapped(answers_map)
        grading = GradingSettings(normalise=NORMALISE, map=meant)
        examined = examine(table, items=known, grading=grading, threshold=reading.threshold)
        template = propose(
            Template(
                title=title or plain_name(file),
                answers=beside(file, folder),
                content="responses" if graded else "answers",
                format=reading.format,
                items=None if items is None else beside(items, folder),
                data=data_keys(reading, names, folder),
                answers_mapped=meant,
                preset=preset or "standard",
                systems=[beside(system, folder) for system in systems],
                respondents="models" if reading.holds_models(file) else "",
            ),
            examined,
            known,
        )
        text = study_text(template, output=Path("results") / output.stem)
        tables = tomllib.loads(text)
        if own_keys is not None:
            tables["data"]["items"] = str((unfinished / own_items.name).absolute())
        study_from(tables, output)  # refuses what build would refuse
        (unfinished / output.name).write_text(text, encoding="utf-8")
    if json:
        print(to_json({"output": output, "items": items, "prior": examined.prior, "study": text}))
    elif not quiet:
        for finding in examined.findings[:5]:
            say(f"{finding.severity:8}{finding.text}")
        say(f"written to {output}; build it: irtbench build {output}")


def ask(question: str, default: str | None = None) -> str:
    """Ask at the terminal, or read the next line of standard input."""
    try:
        return str(typer.prompt(question, default=default, err=True))
    except typer.Abort:
        if sys.stdin.isatty():
            raise
        raise InputError(f"no terminal to ask at: {question}; expected --yes, which asks nothing") from None


def ask_preset() -> Preset:
    """Ask how items are pruned."""
    given = ask("Prune items (standard, lalor2016, none)", default="standard")
    for preset in get_args(Preset):
        if given == preset:
            chosen: Preset = preset
            return chosen
    raise InputError(f"preset: expected standard, lalor2016 or none but got {given}")


def plain_name(file: Path) -> str:
    """The name of a file without its endings."""
    return file.name.split(".")[0] or file.name


def beside(path: Path, folder: Path) -> str:
    """A path as a study file in that folder names it."""
    return Path(os.path.relpath(path.resolve(), folder)).as_posix()


def data_keys(reading: Reading, item_columns: dict[str, str], folder: Path) -> dict[str, object]:
    """The keys of ``[data]`` that say the same as the options."""
    from irtbench.data.readers.head import look_at
    from irtbench.data.readers.prolific import recognises

    participants = reading.respondents
    if participants is not None and not recognises(look_at(participants)):
        participants = None  # of another table a study asks for columns: [score] norm_groups
    return {
        "columns": dict(reading.columns),
        "item_columns": item_columns,
        "trials": reading.trials,
        "threshold": reading.threshold,
        "metric": list(reading.metric),
        "errored": None if reading.errored == "missing" else reading.errored,
        "join": reading.join,
        "respondent": None if reading.respondent == "model" else reading.respondent,
        "item_pattern": reading.items,
        "exclude_columns": list(reading.exclude),
        "respondents": None if participants is None else beside(participants, folder),
    }
