"""Files of answers and responses: what they hold, what is wrong with them, and the long table of any of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import pandas as pd
import typer

import irtbench
from irtbench.cli.declared import Outcome, Run, command
from irtbench.cli.options import (
    Columns,
    Content,
    Errored,
    ExcludeColumns,
    Formats,
    ItemPattern,
    ItemsFile,
    Join,
    Map,
    Metric,
    RespondentIs,
    Respondents,
    Threshold,
    mapped,
    named,
)
from irtbench.cli.output import say, say_next, show_table
from irtbench.cli.reading import Reading
from irtbench.data.input_error import InputError

if TYPE_CHECKING:
    from irtbench.data.readers.long_table import ReadingSummary
    from irtbench.study.effort import CommandAdvice
    from irtbench.study.examination import Examination


ENDINGS = (".csv", ".csv.gz", ".parquet")
FOR_PAPERS = (".tex", ".html", ".md")

LongTable = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="FILE", help="A long table .csv, .csv.gz, .parquet; for a paper .tex, .html, .md."
    ),
]


@dataclass(frozen=True)
class HowToConvert:
    """What is taken of the files: keywords of `irtbench.read`."""

    format: Annotated[Formats, typer.Option("--from", help="Format; auto recognises it by content.")] = "auto"
    content: Content = "auto"
    trials: Annotated[
        Literal["keep", "count", "first", "last", "mean", "majority", "any"],
        typer.Option(
            "--trials", help="Several responses of one respondent to an item: kept a row each, counted, or reduced."
        ),
    ] = "keep"
    metric: Metric = field(default_factory=list)
    threshold: Threshold = None
    errored: Errored = "missing"
    join: Join = None
    items: ItemPattern = None
    exclude: ExcludeColumns = field(default_factory=list)
    columns: Columns = field(default_factory=list)
    respondents: Respondents = None
    respondent: RespondentIs = "model"


@dataclass(frozen=True)
class PaperTable:
    """A table as a paper has it."""

    chosen: Annotated[
        str, typer.Option("--columns", metavar="A,B", help="For a paper: these columns, in this order.")
    ] = ""
    digits: Annotated[int, typer.Option("--digits", help="For a paper: digits behind the point.", min=0, max=9)] = 2

    def made_of(self, inputs: Sequence[Path], output: Path) -> pd.DataFrame:
        """Chosen columns, numbers rounded, whole ones whole."""
        from irtbench.data.readers.table import demand_columns, read_table

        if len(inputs) != 1:
            raise InputError(f"output {output}: a table for a paper is made of one table but got {len(inputs)} files")
        table, columns = read_table(inputs[0]), [name.strip() for name in self.chosen.split(",") if name.strip()]
        demand_columns(table, columns, inputs[0])
        shown = table[columns] if columns else table
        for name in shown.columns:
            numbers = pd.to_numeric(shown[name].replace("", None), errors="coerce")
            if numbers.notna().any() and not (numbers.isna() & (shown[name] != "")).any():
                digits = 0 if (numbers.dropna() % 1 == 0).all() else self.digits
                texts = ["" if pd.isna(number) else f"{number:z.{digits}f}" for number in numbers]
                shown = shown.assign(**{name: texts})
        return shown


@command(output=LongTable, figures=None)
def convert(
    inputs: Annotated[
        list[Path], typer.Argument(metavar="IN...", help="Files or folders of one format, such as a folder of logs.")
    ],
    how: HowToConvert,
    paper: PaperTable,
    run: Run,
) -> Outcome:
    """Write the long table of any format: respondent_id, item_id, response or answer, and trial where there are some.

    With --trials count a row holds n_correct and n_trials in place of a response. Of py-irt's best_parameters.json the
    items are written, as items.csv of fit has them. A name that ends in .tex, .html or .md makes a table for a paper of
    any table, such as items.csv or scores.csv: numbers rounded, columns chosen (--columns, --digits).

    Says what was read and what was left out, and why.
    """
    from irtbench.data.readers.head import look_at
    from irtbench.data.readers.long_table import summarise
    from irtbench.data.readers.outside_parameters import recognises

    output = run.output
    assert output is not None
    if len(inputs) == 1 and inputs[0].is_file() and recognises(look_at(inputs[0])):
        items = irtbench.read_parameters(inputs[0])
        about = f"{items.n_items} items on the scale where its subjects have mean 0 and standard deviation 1"
        told = [f"best_parameters.json of py-irt, a (theta - b): {about}", f"written to {output}"]
        known = {"format": "py-irt parameters", "n_items": items.n_items, "output": output}
        return Outcome(json=known, files=items.table(), tell=lambda: say("\n".join(told)))
    if output.name.endswith(FOR_PAPERS):
        shown = paper.made_of(inputs, output)
        return Outcome(json={"output": output}, files=shown, tell=lambda: say(f"written to {output}"))
    if not output.name.endswith(ENDINGS):
        raise InputError(f"output {output}: expected a name that ends in {', '.join([*ENDINGS, *FOR_PAPERS])}")
    if paper.chosen:
        raise InputError(f"--columns: goes with a table for a paper; expected -o ending in {', '.join(FOR_PAPERS)}")
    table = irtbench.read(inputs, **vars(how) | {"columns": named("--column", how.columns)})
    found = summarise(table)
    return Outcome(
        json=asdict(found) | {"output": output}, files=table.table(), tell=lambda: show_summary(found, output)
    )


def show_summary(found: ReadingSummary, output: Path) -> None:
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
) -> Outcome:
    """Say what a data set holds, what is wrong with it, which commands and which prior will work, how long they take.

    One line a finding, the worst first. The status is 0 whatever is found, and 2 only if the file cannot be read.
    """
    known, table = items.read(), reading.as_it_is(file, content)
    found = irtbench.examine(
        replace(table, frame=items.kept(table.frame, known)), items=known,
        grading=irtbench.GradingSettings(map=mapped(answers_map)), threshold=reading.threshold,
    )  # fmt: skip
    wrong = any(finding.severity == "error" for finding in found.findings)
    return Outcome(json=found.plain(), tell=lambda: show_examination(found, file), status=int(wrong))


def show_examination(found: Examination, file: Path) -> None:
    """Print the examination on one screen."""
    summary = found.summary
    say(
        f"{file}: {summary.format}, {summary.n_respondents} respondents x {summary.n_items} items, "
        f"{summary.n_responses} {summary.content}s, {100 * summary.density:.1f}% of all pairs"
    )
    more = []
    if summary.proportion_correct is not None:
        more.append(f"{100 * summary.proportion_correct:.1f}% right")
    if summary.n_trials > 1:
        more.append(f"up to {summary.n_trials} trials of a pair")
    if summary.answers:
        more.append("answers " + ", ".join(f"{text} ({n})" for text, n in list(summary.answers.items())[:8]))
    if more:
        say("; ".join(more))
    say("")
    if not found.findings:
        say("nothing is wrong with it, as far as can be seen before a fit")
    for finding in found.findings[:MOST_FINDINGS]:
        text = finding.text if len(finding.text) <= MOST_LETTERS else f"{finding.text[: MOST_LETTERS - 3]}..."
        say(f"{finding.severity:10}{text}")
    if len(found.findings) > MOST_FINDINGS:
        say(f"and {len(found.findings) - MOST_FINDINGS} more (--json has them all)")
    say("")
    say(f"{'prior':10}{found.prior}: {found.prior_reason}")
    for advice in found.commands:
        say(f"{advice.command:16}{'yes' if advice.works else 'no':4}{advice.why}{effort(advice)}")
    say("Times are rough, for one processor.")


def effort(command: CommandAdvice) -> str:
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
