"""``irtbench init``: a study file from a data file, after a few questions."""

from __future__ import annotations

import os
import sys
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

import irtbench
from irtbench.cli.declared import Outcome, Run, command
from irtbench.cli.options import Content, ItemsFile, Map, mapped, named
from irtbench.cli.output import output_folder, say, write_table
from irtbench.cli.reading import Reading
from irtbench.cli.settings_options import Fields
from irtbench.data.input_error import InputError
from irtbench.study.study_template import Preset

if TYPE_CHECKING:
    import pandas as pd

    from irtbench.data.readers.long_table import LongTable

OF_ITEMS = ("key", "label", "group", "text", "attention")  # columns of the answers that say something of the items


@dataclass(frozen=True)
class NewStudy:
    """What is said of a study before it is asked for."""

    systems: Annotated[
        list[Path], typer.Option("--system", metavar="FILE", help="A system's file, scored at the end; repeat.")
    ] = field(default_factory=list)
    title: Annotated[str | None, typer.Option("--title", help="What the study is called.")] = None
    preset: Annotated[Preset | None, typer.Option("--preset", help="How items are pruned.")] = None
    content: Content = "auto"
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: what is not said is chosen by the data.")] = (
        False
    )
    answers_map: Map = field(default_factory=list)


@command(output=None, figures=None)
def init(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Answers or responses: a table, or a file or folder of any format.")
    ],
    items: Annotated[ItemsFile, Fields(without=("where",))],
    study: NewStudy,
    reading: Reading,
    run: Run,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="STUDY.toml", help="The study file to write.")
    ] = Path("study.toml"),
) -> Outcome:
    """Write a study file that `irtbench build` takes as it is: screening, scales, prior as the data have it.

    Asks for the title, the table of items where answers need a key, and how items are pruned; nothing with --yes.
    A file that holds the right answers itself gets a table of items beside the study file, and so does one of which
    --column says what its columns are of the items: label=COLUMN for a scale each, key, group, text, attention.
    """
    if output.suffix != ".toml":
        raise InputError(f"output {output}: expected a name that ends in .toml")
    if output.exists():
        raise InputError(f"output {output}: is there already; expected another name (-o), or that you remove it")
    of_items = {name: column for name, column in reading.columns.items() if name in OF_ITEMS}
    if of_items and items.items is not None:
        raise InputError(f"--column {next(iter(of_items))}: is said by the table of items; expected --item-column")
    columns = {name: column for name, column in reading.columns.items() if name not in of_items}
    reading = replace(reading, columns=columns)
    table = reading.as_it_is(file, study.content)
    run.hush()
    own = keys_within(table, of_items) if items.items is None else None
    if not study.yes:
        study = replace(study, title=study.title or ask("Title of the study", default=plain_name(file)))
        if "answer" in table.frame and items.items is None and (own is None or "key" not in own):
            if own is not None:
                raise InputError(f"file {file}: answers without a key; expected --column key=COLUMN too, or --items")
            items = replace(items, items=Path(ask("Table of the items, with their key")))
        study = replace(study, preset=study.preset or ask_preset())
    about = written_study(file, table, items, own, study, reading, output)

    def tell() -> None:
        for finding in about["examined"].findings[:5]:
            say(f"{finding.severity:8}{finding.text}")
        say(f"written to {output}; build it: irtbench build {output}")

    shown = {"output": output, "items": about["items"], "prior": about["examined"].prior, "study": about["study"]}
    return Outcome(json=shown, tell=tell)


def keys_within(table: LongTable, of_items: dict[str, str]) -> pd.DataFrame | None:
    """What the answers' own columns say of the items; None where they say nothing."""
    from irtbench.study.examination import items_from_keys
    from irtbench.study.study_template import items_from_columns

    keys = items_from_keys(table.frame) if "answer" in table.frame else None
    if not of_items:
        return keys
    said = items_from_columns(table, of_items)
    return said if keys is None or "key" in said else said.merge(keys, on="item_id", how="left")


def written_study(
    file: Path, table: LongTable, items: ItemsFile, own: pd.DataFrame | None, study: NewStudy, reading: Reading,
    output: Path,
) -> dict[str, Any]:  # fmt: skip
    """Write the study file, and the table of items that the answers hold themselves; what was written and seen."""
    from irtbench.config import study_from
    from irtbench.study.study_template import NORMALISE, Template, propose, study_text

    folder, names, meant = output.resolve().parent, named("--item-column", items.item_column), mapped(study.answers_map)
    own_items, table_of_items = folder / f"{output.stem}_items.csv", items.items
    if own is not None and own_items.exists():
        raise InputError(f"output {own_items}: is there already; expected another name for the study file (-o)")
    known = None if table_of_items is None else irtbench.read_items(table_of_items, columns=names)
    with output_folder(output.absolute().parent) as unfinished:
        if own is not None:
            write_table(own, unfinished / own_items.name)
            known, table_of_items = irtbench.read_items(unfinished / own_items.name), own_items
        grading = irtbench.GradingSettings(normalise=NORMALISE, map=meant)
        examined = irtbench.examine(table, items=known, grading=grading, threshold=reading.threshold)
        template = Template(
            title=study.title or plain_name(file),
            answers=beside(file, folder),
            content="answers" if "answer" in table.frame else "responses",
            format=reading.format,
            items=None if table_of_items is None else beside(table_of_items, folder),
            data=data_keys(reading, names, folder),
            answers_mapped=meant,
            preset=study.preset or "standard",
            systems=[beside(system, folder) for system in study.systems],
            respondents="models" if reading.holds_models(file) else "",
        )
        text = study_text(propose(template, examined, known), output=Path("results") / output.stem)
        tables = tomllib.loads(text)
        if own is not None:
            tables["data"]["items"] = str((unfinished / own_items.name).absolute())
        study_from(tables, output)  # refuses what build would refuse
        (unfinished / output.name).write_text(text, encoding="utf-8")
    return {"examined": examined, "items": table_of_items, "study": text}


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
    from irtbench.data.readers.respondents import is_prolific

    participants = reading.respondents
    if participants is not None and not is_prolific(look_at(participants)):
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
