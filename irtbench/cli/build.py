"""``irtbench build``: a study file to a bank, scores and a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from irtbench.cli.options import AllowUnconverged, Json, Quiet
from irtbench.cli.output import output_folder, show_table, to_json, write_json, write_table
from irtbench.cli.progress import reporting
from irtbench.data.input_error import InputError


def build(
    study_file: Annotated[Path, typer.Argument(metavar="STUDY.toml", help="The study's settings.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Folder for the results; else [output] directory."),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Instead of the study's own seed.", min=0)] = None,
    allow_unconverged: AllowUnconverged = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Build scales from crowd answers: screen, grade, fit, prune, bank, scores, report.

    Writes bank.json, items.csv, pruning.csv, respondents.csv, scores.csv, summary.json and report.html.
    """
    # torch and matplotlib take seconds to import, and `irtbench --help` needs neither
    from dataclasses import replace

    from irtbench.building.bank import save_bank
    from irtbench.config import read_study
    from irtbench.report.html import render_report
    from irtbench.report.tables import items_table, pruning_table, scores_table, summary
    from irtbench.study import run_study

    settings = read_study(study_file)
    if seed is not None:
        settings = replace(settings, study=replace(settings.study, seed=seed))
    target = output or settings.output.directory
    if target is None:
        raise InputError(f"{study_file}: output.directory: missing; expected a folder there or with -o DIR")
    with output_folder(target) as folder, reporting(quiet=quiet) as progress:
        study = run_study(settings, progress=progress)
        progress("writing the report")
        if study.bank is not None:
            save_bank(study.bank, folder / "bank.json")
        write_table(items_table(study), folder / "items.csv")
        write_table(pruning_table(study), folder / "pruning.csv")
        write_table(study.screening.table(), folder / "respondents.csv")
        write_table(scores_table(study), folder / "scores.csv")
        found = summary(study)
        write_json(found, folder / "summary.json")
        (folder / "report.html").write_text(render_report(study), encoding="utf-8")
    if json:
        print(to_json(found))
    elif not quiet:
        show_summary(found, study.system_scores, target)
    if not study.converged and not allow_unconverged:
        raise typer.Exit(1)


def show_summary(found: dict, scores: pd.DataFrame | None, target: Path) -> None:  # type: ignore[type-arg]
    """Print what a person wants to know first."""
    print(
        f"{found['title']}: {found['n_respondents_kept']} of {found['n_respondents']} respondents kept, "
        f"{found['n_items_kept']} of {found['n_items']} items kept"
    )
    rows = [
        {
            "scale": scale["name"],
            "items": scale["n_items"],
            "kept": scale["n_items_kept"],
            "rounds": scale["rounds"],
            "difficulty": spread(scale.get("difficulty")),
            "discrimination": spread(scale.get("discrimination")),
            "outcome": outcome(scale),
        }
        for scale in found["scales"]
    ]
    show_table(pd.DataFrame(rows))
    if scores is not None:
        columns = ["respondent_id", "scale", "n_items", "accuracy", "theta", "se", "percentile", "percentile_lower"]
        show_table(scores[[*columns, "percentile_upper", "flags"]], title="Systems")
    print(f"written to {target}: report.html, bank.json and the tables")


def spread(bounds: list[float] | None) -> str:
    """Least and greatest, for people."""
    return "" if bounds is None else f"{bounds[0]:.2f} to {bounds[1]:.2f}"


def outcome(scale: dict) -> str:  # type: ignore[type-arg]
    """Say how a scale came out."""
    if scale["rejected"] is not None:
        return f"rejected: {scale['rejected']}"
    if not scale["fit"]["converged"]:
        return f"not converged: {scale['fit']['stopped_because']}"
    return "stands"
