"""``irtbench doctor``: a look at a data set before anything is fitted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import irtbench
from irtbench.cli.declared import Outcome, Run, command
from irtbench.cli.options import Content, ItemsFile, Map, mapped
from irtbench.cli.output import say
from irtbench.cli.reading import Reading

if TYPE_CHECKING:
    from irtbench.study.effort import CommandAdvice
    from irtbench.study.examination import Examination

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
    return Outcome(json=found.plain(), tell=lambda: show(found, file), status=int(wrong))


def show(found: Examination, file: Path) -> None:
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
