"""``irtbench report``: the page of a finished study again, without its data and without a fit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from irtbench.cli.options import Figures, Json, Quiet, Seed
from irtbench.cli.output import output_file, say, to_json
from irtbench.cli.presenting import figures_in


def report(
    study: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that build wrote, with study.json.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The page to write; DIR/report.html unless said."),
    ] = None,
    figures: Figures = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write report.html of a study again, as this version writes it, from what build left behind.

    All that the page says is in study.json, so that neither the answers nor a fit is needed; with the version that
    wrote it the page is the same to the last byte.
    """
    from irtbench.report.html import study_page
    from irtbench.report.page import render_page
    from irtbench.study.record import RECORD, load_study

    target = output or study / "report.html"
    found = load_study(study)
    with output_file(target, inputs=[study / RECORD], of_study=True) as file, figures_in(figures) as draw:
        page = study_page(found)
        file.write_text(render_page(page), encoding="utf-8")
        if draw is not None:
            draw(list(page.all_blocks()))
    if json:
        print(to_json({"title": found.settings.study.title, "report": target, "n_scales": len(found.scales)}))
    elif not quiet:
        say(f"written to {target}")
