"""``irtbench report``: the page of a finished study again, without its data and without a fit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from irtbench.cli.declared import Outcome, Run, command
from irtbench.cli.output import say
from irtbench.cli.result_files import output_file


@command("report.html", output=None)
def report(
    study: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that build wrote, with study.json.")],
    run: Run,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The page to write; DIR/report.html unless said."),
    ] = None,
) -> Outcome:
    """Write report.html of a study again, as this version writes it, from what build left behind.

    All that the page says is in study.json, so that neither the answers nor a fit is needed; with the version that
    wrote it the page is the same to the last byte.
    """
    from irtbench.report.html import study_page
    from irtbench.report.page import render_page
    from irtbench.study.record import RECORD, load_study

    target = output or study / "report.html"
    found = load_study(study)
    file = run.opened(target, output_file(target, inputs=[study / RECORD], of_study=True))
    page = study_page(found)
    file.write_text(render_page(page), encoding="utf-8")
    return Outcome(
        json={"title": found.settings.study.title, "report": target, "n_scales": len(found.scales)},
        tell=lambda: say(f"written to {target}"), figures=lambda: list(page.all_blocks()),
    )  # fmt: skip
