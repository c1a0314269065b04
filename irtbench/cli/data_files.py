"""Files of answers and responses: what they hold, the long table of any of them, and a study file for one."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast, get_args

import pandas as pd
import typer

import irtbench
from irtbench.cli.declared import Fields, Outcome, Run, command
from irtbench.cli.options import (
    Content,
    ItemsFile,
    Levels,
    Map,
    Reading,
    levels_of,
    mapped,
    named,
    refuse,
)
from irtbench.cli.output import Shown, Words, next_command, shortened, write_table
from irtbench.cli.result_files import output_folder
from irtbench.config import KEY_OF_OPTION, study_from
from irtbench.data.how_to_read import FormatName
from irtbench.data.place import address_of
from irtbench.data.readers.irt_programs import recognises
from irtbench.data.readers.long_table import LongTable, ReadingSummary, summarise
from irtbench.data.readers.records import look_at
from irtbench.data.readers.respondents import is_prolific
from irtbench.data.readers.table import read_table
from irtbench.data.shown import counted
from irtbench.study.examination import items_from_keys
from irtbench.study.study_template import NORMALISE, Preset, items_from_columns, study_text

ENDINGS = (".csv", ".csv.gz", ".parquet")
FOR_PAPERS = (".tex", ".html", ".md")


@dataclass(frozen=True)
class HowToConvert(Reading):
    """How the files are read: as by other commands, but that several responses to an item are kept."""

    OPTIONS: ClassVar[Mapping[str, Any]] = {
        **Reading.OPTIONS,
        "format": Annotated[FormatName, typer.Option("--from", help="Format; auto recognises it by content.")],
        "trials": Annotated[
            Literal["keep", "count", "first", "last", "mean", "majority", "any"],
            typer.Option(
                "--trials", help="Several responses of one respondent to an item: kept a row each, counted, or reduced."
            ),
        ],
    }
    trials: Any = "keep"


def for_paper(inputs: Sequence[Path], output: Path, chosen: str, digits: int) -> pd.DataFrame:
    """A table as a paper has it: chosen columns, numbers rounded, whole ones whole."""
    if len(inputs) != 1:
        raise irtbench.InputError(
            f"output {output}: a table for a paper is made of one table but got {len(inputs)} files"
        )
    columns = [name.strip() for name in chosen.split(",") if name.strip()]
    table = read_table(inputs[0], columns)
    shown = table[columns] if columns else table
    for name in shown.columns:
        numbers = pd.to_numeric(shown[name].replace("", None), errors="coerce")
        if numbers.notna().any() and not (numbers.isna() & (shown[name] != "")).any():
            own = 0 if (numbers.dropna() % 1 == 0).all() else digits
            texts = ["" if pd.isna(number) else f"{number:z.{own}f}" for number in numbers]
            shown = shown.assign(**{name: texts})
    return shown


@command(
    output=Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="A long table .csv, .csv.gz, .parquet; for a paper .tex, .html, .md."
        ),
    ],
    figures=None,
)
def convert(
    *,
    inputs: Annotated[
        list[Path], typer.Argument(metavar="IN...", help="Files or folders of one format, such as a folder of logs.")
    ],
    how: HowToConvert,
    chosen: Annotated[
        str, typer.Option("--columns", metavar="A,B", help="For a paper: these columns, in this order.")
    ] = "",
    digits: Annotated[int, typer.Option("--digits", help="For a paper: digits behind the point.", min=0, max=9)] = 2,
    run: Run,
    content: Content = "auto",
) -> Outcome:
    """Write the long table of any format: respondent_id, item_id, response or answer, and trial where there are some.

    With --trials count a row holds n_correct and n_trials in place of a response. Of py-irt's best_parameters.json the
    items are written, as items.csv of fit has them. A name that ends in .tex, .html or .md makes a table for a paper of
    any table, such as items.csv or scores.csv: numbers rounded, columns chosen (--columns, --digits).

    Says what was read and what was left out, and why.
    """
    output = run.output
    assert output is not None
    if len(inputs) == 1 and inputs[0].is_file() and recognises(look_at(inputs[0])):
        items = irtbench.read_parameters(inputs[0])
        return Outcome(
            json={"format": "py-irt parameters", "n_items": items.n_items, "output": output}, files=items.table(),
            words=[
                f"best_parameters.json of py-irt, a (theta - b): {items.n_items} items on the scale where its subjects "
                "have mean 0 and standard deviation 1",
                f"written to {output}",
            ],
        )  # fmt: skip
    if output.name.endswith(FOR_PAPERS):
        shown = for_paper(inputs, output, chosen, digits)
        return Outcome(json={"output": output}, files=shown, words=[f"written to {output}"])
    refuse(
        {
            f"output {output}: expected a name that ends in {', '.join([*ENDINGS, *FOR_PAPERS])}":
            not output.name.endswith(ENDINGS),
            f"--columns: goes with a table for a paper; expected -o ending in {', '.join(FOR_PAPERS)}":
            bool(chosen),
        }
    )  # fmt: skip
    table = irtbench.read(inputs, content=content, **vars(how))
    found = summarise(table)
    return Outcome(json=asdict(found) | {"output": output}, files=table.table(), words=summary_in_words(found, output))


def summary_in_words(found: ReadingSummary, output: Path) -> Words:
    """What was read, what was left out and why."""
    what = f"{found.content}s"
    read = {
        "format": found.format,
        "respondents": str(found.n_respondents),
        "items": str(found.n_items),
        what: str(found.n_responses),
        "density": f"{100 * found.density:.1f}% of the pairs of respondent and item",
        "trials": f"up to {found.n_trials} {what} of one respondent to one item" if found.n_trials > 1 else "",
        "correct": "" if found.proportion_correct is None else f"{100 * found.proportion_correct:.1f}%",
        "labels": ", ".join(f"{text} ({n})" for text, n in found.answers.items()),
        "tasks": ", ".join(f"{name} ({n} items)" for name, n in found.tasks.items()),
        "time": "" if found.first_date is None else f"{found.first_date} to {found.last_date}",
    }
    rows = [(name, text) for name, text in read.items() if text]
    rows += [("left out", f"{n}: {reason}") for reason, n in found.left_out.items()]
    return [
        Shown(pd.DataFrame(rows, columns=["read", ""])), f"written to {output}", next_command("doctor", output),
    ]  # fmt: skip


MOST_FINDINGS = 14  # lines of a screen
MOST_LETTERS = 220  # of one


@command(output=None, figures=None)
def doctor(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Answers or responses: a table, or a file or folder of any format.")
    ],
    items: ItemsFile,
    reading: Reading,
    run: Run,
    content: Content = "auto",
    answers_map: Map = [],  # noqa: B006 - typer copies it
    levels: Levels = None,
) -> Outcome:
    """Say what a data set holds, what is wrong with it, which commands and which prior will work, how long they take.

    One line a finding, the worst first. The status is 1 where one is an error, 2 if the file cannot be read, else 0.
    """
    known, table = items.read(), reading.as_it_is(file, content, levels_of(levels))
    found = irtbench.examine(
        replace(table, frame=items.kept(table.frame, known)), items=known,
        grading=irtbench.GradingSettings(map=mapped(answers_map)), threshold=reading.threshold,
    )  # fmt: skip
    wrong = any(finding.severity == "error" for finding in found.findings)
    return Outcome(json=found.plain(), words=examination_in_words(found, file), status=int(wrong))


def examination_in_words(found: irtbench.study.Examination, file: Path) -> Words:
    """The examination on one screen."""
    summary = found.summary
    yield (
        f"{file}: {summary.format}, {counted(summary.n_respondents, 'respondent')} x "
        f"{counted(summary.n_items, 'item')}, {counted(summary.n_responses, summary.content)}, "
        f"{100 * summary.density:.1f}% of all pairs"
    )
    answers = ", ".join(f"{text} ({n})" for text, n in list(summary.answers.items())[:8])
    more = [
        "" if summary.proportion_correct is None else f"{100 * summary.proportion_correct:.1f}% right",
        f"up to {summary.n_trials} trials of a pair" if summary.n_trials > 1 else "",
        answers and f"answers {answers}",
    ]
    yield "; ".join(filter(None, more))
    lines = [f"{finding.severity:10}{shortened(finding.text, MOST_LETTERS)}" for finding in found.findings]
    yield "\n" + "\n".join(lines[:MOST_FINDINGS] or ["nothing is wrong with it, as far as can be seen before a fit"])
    yield len(lines) > MOST_FINDINGS and f"and {len(lines) - MOST_FINDINGS} more (--json has them all)"
    yield f"\n{'prior':10}{found.prior}: {found.prior_reason}"
    for advice in found.commands:
        yield f"{advice.command:16}{'yes' if advice.works else 'no':4}{advice.why}{effort(advice)}"
    yield "Times are rough, for one processor."


def effort(command: irtbench.study.CommandAdvice) -> str:
    """Seconds and memory in words; nothing where they are not known."""
    if command.seconds is None or command.megabytes is None:
        return ""
    seconds = command.seconds
    time = (
        "some seconds" if seconds < 10 else f"about {round(seconds, -1):.0f} s" if seconds < 90
        else f"about {seconds / 60:.0f} min" if seconds < 5_400 else f"about {seconds / 3_600:.0f} h"
    )  # fmt: skip
    size = command.megabytes
    memory = f"{size:.0f} MB" if size < 1_000 else f"{size / 1_024:.1f} GB"
    return f" ({time}, {memory})"


OF_ITEMS = ("key", "label", "group", "text", "attention")  # columns of the answers that say something of the items


@dataclass(frozen=True)
class NewStudy:
    """What is given of a study before it is asked for."""

    systems: Annotated[
        list[Path], typer.Option("--system", metavar="FILE", help="A system's file, scored at the end; repeat.")
    ] = field(default_factory=list)
    title: Annotated[str | None, typer.Option("--title", help="What the study is called.")] = None
    preset: Annotated[Preset | None, typer.Option("--preset", help="How items are pruned.")] = None
    content: Content = "auto"
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: what is not given is chosen by the data.")] = (
        False
    )
    answers_map: Map = field(default_factory=list)
    levels: Levels = None


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
    A file that holds the right answers itself gets a table of items next to the study file, and so does one of which
    --column says what its columns are of the items: label=COLUMN for a scale each, key, group, text, attention.
    """
    of_items = {name: column for name, column in reading.columns.items() if name in OF_ITEMS}
    refuse(
        {
            f"output {output}: expected a name that ends in .toml": output.suffix != ".toml",
            f"output {output}: is there already; expected another name (-o), or that you remove it": output.exists(),
            f"--column {next(iter(of_items), '')}: is in the table of items; expected --item-column":
            bool(of_items) and items.items is not None,
        }
    )  # fmt: skip
    reading = replace(
        reading, columns={name: column for name, column in reading.columns.items() if name not in of_items}
    )
    table = reading.as_it_is(file, study.content, levels_of(study.levels))
    run.hush()
    own = keys_within(table, of_items) if items.items is None else None
    if not study.yes:
        study = replace(study, title=study.title or ask("Title of the study", default=plain_name(file)))
        if "answer" in table.frame and items.items is None and (own is None or "key" not in own):
            if own is not None:
                raise irtbench.InputError(
                    f"file {file}: answers without a key; expected --column key=COLUMN too, or --items"
                )
            items = replace(items, items=Path(ask("Table of the items, with their key")))
        study = replace(study, preset=study.preset or ask_preset())
    about = written_study(file, table, items, own, study, reading, output)
    return Outcome(
        json={"output": output, "items": about["items"], "prior": about["examined"].prior, "study": about["study"]},
        words=[
            *(f"{finding.severity:8}{finding.text}" for finding in about["examined"].findings[:5]),
            f"written to {output}; build it: irtbench build {output}",
        ],
    )


def keys_within(table: LongTable, of_items: dict[str, str]) -> pd.DataFrame | None:
    """What the answers' own columns say of the items; None where they say nothing."""
    keys = items_from_keys(table.frame) if "answer" in table.frame else None
    if not of_items:
        return keys
    found = items_from_columns(table, of_items)
    return found if keys is None or "key" in found else found.merge(keys, on="item_id", how="left")


def written_study(
    file: Path, table: LongTable, items: ItemsFile, own: pd.DataFrame | None, study: NewStudy, reading: Reading,
    output: Path,
) -> dict[str, Any]:  # fmt: skip
    """Write the study file, and the table of items that the answers hold themselves; what was written and seen."""
    folder, names, meant = output.resolve().parent, named("--item-column", items.item_column), mapped(study.answers_map)
    own_items, table_of_items = folder / f"{output.stem}_items.csv", items.items
    if own is not None and own_items.exists():
        raise irtbench.InputError(
            f"output {own_items}: is there already; expected another name for the study file (-o)"
        )
    known = None if table_of_items is None else irtbench.read_items(table_of_items, columns=names)
    with output_folder(output.absolute().parent) as unfinished:
        if own is not None:
            write_table(own, unfinished / own_items.name)
            known, table_of_items = irtbench.read_items(unfinished / own_items.name), own_items
        grading = irtbench.GradingSettings(normalise=NORMALISE, map=meant)
        examined = irtbench.examine(table, items=known, grading=grading, threshold=reading.threshold)
        data = {
            "answers": relative(file, folder),
            "items": None if table_of_items is None else relative(table_of_items, folder),
            "content": None if "answer" in table.frame else "responses",
        }
        given: dict[str, dict[str, Any]] = {
            "study": {"title": study.title or plain_name(file)},
            "data": data | data_keys(reading, names, folder) | {"levels": list(levels_of(study.levels))},
            "grading": {"map": meant or None},
            "pruning": {"preset": study.preset or "standard"},
            "score": {"systems": [relative(system, folder) for system in study.systems]},
            "card": {"respondents": "models"} if reading.holds_models(file) else {},
        }
        text = study_text(given, examined, known, output=Path("results") / output.stem)
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
        raise irtbench.InputError(f"no terminal to ask at: {question}; expected --yes, which asks nothing") from None


def ask_preset() -> Preset:
    """Ask how items are pruned."""
    given = ask("Prune items (standard, lalor2016, none)", default="standard")
    if given not in get_args(Preset):
        raise irtbench.InputError(f"preset: expected standard, lalor2016 or none but got {given}")
    return cast("Preset", given)


def plain_name(file: Path) -> str:
    """The name of a file without its endings."""
    return file.name.split(".")[0] or file.name


def relative(path: Path, folder: Path) -> str:
    """A path as a study file in that folder names it, or an address."""
    return address_of(path) or Path(os.path.relpath(path.resolve(), folder)).as_posix()


def data_keys(reading: Reading, item_columns: dict[str, str], folder: Path) -> dict[str, object]:
    """The keys of ``[data]`` that say the same as the options."""
    given = {name: value for name, value in vars(reading).items() if value != vars(Reading())[name]}
    participants = given.pop("respondents", None)
    if participants is not None and is_prolific(look_at(participants)):
        given["respondents"] = relative(participants, folder)  # of another table a study asks for columns: norm_groups
    keys = {
        KEY_OF_OPTION.get(name, name): [*value] if isinstance(value, tuple) else value for name, value in given.items()
    }
    return {"trials": reading.trials, "item_columns": item_columns, **keys}
