"""``irtbench build``: a study file to a bank, scores and a report."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pandas as pd
import typer

from irtbench.cli.assemble import numbered
from irtbench.cli.build_study import StudyToBuild
from irtbench.cli.options import AllowAddress, AllowUnconverged, Cache, Figures, Json, Quiet, SampleToPrune
from irtbench.cli.output import output_folder, say, say_next, show_table, to_json, write_json, write_table
from irtbench.cli.presenting import figures_in
from irtbench.cli.progress import demand_converged, reporting, say_doubts
from irtbench.cli.ranks import ranks_of_run
from irtbench.cli.result_files import OF_STUDY, unfinished_folder
from irtbench.cli.score import show_scores
from irtbench.data.harmless_text import printable
from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first

if TYPE_CHECKING:
    from irtbench.analysis.dimensions import Dimensions
    from irtbench.building.pruned import Pruning
    from irtbench.config import StudyFile
    from irtbench.study.results import ScaleStudy, Study


CONTROL_FILES = ("control.csv", "control.json")


def build(
    study_file: Annotated[Path, typer.Argument(metavar="STUDY.toml", help="The study's settings.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Folder for the results; else [output] directory."),
    ] = None,
    figures: Figures = None,
    sample: SampleToPrune = None,
    cache: Cache = None,
    allow_address: AllowAddress = [],  # noqa: B006 - typer copies it
    seed: Annotated[
        int | None, typer.Option("--seed", help="Instead of the study's own seed.", min=0, max=2**32 - 1)
    ] = None,
    control: Annotated[
        bool, typer.Option("--control", help="Shuffle each item's responses first: no scale may be found then.")
    ] = False,
    allow_unconverged: AllowUnconverged = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Build scales from crowd answers: screen, grade, fit, prune, bank, scores, report.

    Writes bank.json, items.csv, pruning.csv, respondents.csv, scores.csv, summary.json, report.html, methods.md (the
    methods section of a paper), study.json, of which `report` makes the page again, and what every round of pruning
    found: rounds_items.csv and rounds_pairs.csv.
    Where the rules compare factors, checks.json too; with study.screening_effect, screening_effect.csv and
    items_effect.csv.

    A run that was interrupted goes on from its last finished step when it is started again with the same data and
    settings.

    Of graded responses that `fit` reads from disk, Parquet of more than ten million fields or at an address, all
    respondents are screened, items leave by what a random sample of them shows (--sample), and those left are fitted to
    all, who are all scored. The output says so, and summary.json has sampled_from and sample_seed.

    With --control, only control.csv and control.json: the same steps on shuffled responses, status 1 if one is
    retained.
    """
    # torch and matplotlib take seconds to import, and `irtbench --help` needs neither
    from irtbench.config import read_study

    settings = read_study(study_file)
    if seed is not None:
        settings = replace(settings, study=replace(settings.study, seed=seed))
    target = output or settings.output.directory
    if target is None:
        raise InputError(f"{study_file}: output.directory: missing; expected a folder there or with -o DIR")
    if control and figures is not None:
        raise InputError("--figures: a control has none; expected it without --control")
    study = StudyToBuild.of(settings, sample, cache, ranks_of_run.get(), allow_address)
    if study.together is not None and not study.together.ranks.is_first:
        study.together.follow()
    elif control:
        run_control(study, target, quiet=quiet, json=json)
    else:
        write_study(study, target, figures=figures, allow_unconverged=allow_unconverged, quiet=quiet, json=json)


def write_study(
    asked: StudyToBuild,
    target: Path,
    *,
    figures: Path | None = None,
    allow_unconverged: bool = False,
    quiet: bool,
    json: bool,
    new_system: Path = Path("NEW.csv"),
) -> None:
    """Run a study, write its results and say what they are; the last line scores `new_system` with its bank."""
    from irtbench.bank.bank import save_bank
    from irtbench.building.pruned import Pruning
    from irtbench.report.html import study_page
    from irtbench.report.methods_text import methods_text
    from irtbench.report.page import render_page
    from irtbench.report.tables import items_table, pruning_table, summary
    from irtbench.study.record import RECORD, save_study

    settings = asked.settings
    with (
        output_folder(
            target, files=OF_STUDY, inputs=settings.files, same_study=partial(same_study, settings)
        ) as folder,
        unfinished_folder(target) as unfinished,
        figures_in(figures) as draw,
        reporting(quiet=quiet) as progress,
    ):
        study = asked.carry_out(folder, unfinished, progress)
        progress("writing the report")
        if study.bank is not None:
            save_bank(study.bank, folder / "bank.json")
        write_table(items_table(study.scales), folder / "items.csv")
        write_table(pruning_table(study.scales), folder / "pruning.csv")
        if study.screening_effect is not None:
            write_table(study.screening_effect.scales, folder / "screening_effect.csv")
            write_table(study.screening_effect.items, folder / "items_effect.csv")
        if study.group_percentiles is not None:
            write_table(study.group_percentiles, folder / "group_percentiles.csv")
        if study.forms is not None and study.forms.assembled is not None:
            write_table(study.forms.assembled.table(), folder / "form.csv")
            write_json(study.forms.assembled.summary(), folder / "form.json")
            for number, short in enumerate(study.forms.banks, start=1):
                save_bank(short, folder / numbered("form_bank.json", number, len(study.forms.banks)))
        write_table(of_scales(study.scales, Pruning.rounds_items), folder / "rounds_items.csv")
        write_table(of_scales(study.scales, Pruning.rounds_pairs), folder / "rounds_pairs.csv")
        found = summary(study)
        if settings.pruning.compare_factors:
            write_json(checks(study.dimensions, study.scales), folder / "checks.json")
        write_json(found, folder / "summary.json")
        save_study(study, folder / RECORD)
        page = study_page(study)
        (folder / "report.html").write_text(render_page(page), encoding="utf-8")
        (folder / "methods.md").write_text(methods_text(study), encoding="utf-8")
        if draw is not None:
            draw(list(page.all_blocks()))
    if unfinished is not None:
        shutil.rmtree(unfinished, ignore_errors=True)
    if json:
        print(to_json(found))
    elif not quiet:
        show_summary(found, study, target, new_system)
    if study.forms is not None and study.forms.why_not:
        print(f"irtbench: warning: no form: {printable(study.forms.why_not.removeprefix('form: '))}", file=sys.stderr)
    doubts = [f"screening: {said}" for said in study.exclusions_by_ability]
    doubts += [f"scale {scale.name}: {doubt}" for scale in study.scales for doubt in scale.doubts]
    guessed = [(scale.name, scale.pruning.guessing_in_words) for scale in study.scales]
    say_doubts([*doubts, *(f"scale {name}: {words}" for name, words in guessed if words)])
    unconverged = [f"scale {scale.name}" for scale in study.scales if not scale.converged or scale.doubts]
    demand_converged(unconverged, allow_unconverged=allow_unconverged, quiet=quiet)


def same_study(settings: StudyFile, record: Path) -> bool:
    """Whether a record is that of an earlier build of this study: of its title, or of answers of that name."""
    from irtbench.study.record import told_of

    title, answers = told_of(record)
    return title == settings.study.title or answers == settings.data.answers.name


def of_scales(scales: Sequence[ScaleStudy], table: Callable[[Pruning], pd.DataFrame]) -> pd.DataFrame:
    """A table of each scale's pruning, one below the other, with the scale's name."""
    return pd.concat([table(scale.pruning).assign(scale=scale.name) for scale in scales], ignore_index=True)


def checks(dimensions: Dimensions | None, scales: Sequence[ScaleStudy]) -> dict[str, Any]:
    """What was asked before any item left: number of abilities, one or two to a scale, guessing."""
    return {
        "dimensions": None if dimensions is None else dimensions.summary(),
        "scales": {
            scale.name: {
                "models": found.models,
                "two_against_one": vars(found.two_against_one),
                "fit_of_two": vars(found.fit_of_two),
                "two_converged": found.two_converged,
                "n_guessing": found.n_guessing,
                "guessing": found.guessing.table(),
            }
            for scale in scales
            if (found := scale.pruning.checks) is not None
        },
    }


def run_control(asked: StudyToBuild, target: Path, *, quiet: bool, json: bool) -> None:
    """Run the steps on shuffled responses, in which there is nothing to be found, and say what they found."""
    settings = asked.settings
    with (
        output_folder(target, files=CONTROL_FILES, inputs=settings.files) as folder,
        reporting(quiet=quiet) as progress,
    ):
        study = asked.carry_out(None, None, progress, control=True)
        drawn = {} if study.sample is None else study.sample.drawn.stated
        table = pd.DataFrame(
            [
                {
                    "scale": scale.name,
                    "n_items": scale.responses.n_items,
                    "n_items_left": scale.responses.n_items - len(scale.pruning.removals),
                    "retained": scale.scale is not None,
                    "rejected": scale.pruning.rejected or "",
                }
                for scale in study.scales
            ]
        )
        found = {"n_scales_found": int(table["retained"].sum()), "seed": settings.study.seed, **drawn, "scales": table}
        write_table(table, folder / "control.csv")
        write_json(found, folder / "control.json")
    if json:
        print(to_json(found))
    elif not quiet:
        show_table(table, title="Control: each item's responses shuffled", rest=target / "control.csv")
        if study.sample is not None and not study.sample.drawn.is_all:
            say(f"shuffled: {study.sample.drawn}")
        verdict = "no scale is found, as it should be"
        say("the rules find a scale where there is nothing" if found["n_scales_found"] else verdict)
    if found["n_scales_found"]:
        if quiet or json:
            names = name_first(table.loc[table["retained"], "scale"].tolist())
            print(
                f"irtbench: control: the rules find a scale where there is nothing: {printable(names)}", file=sys.stderr
            )
        raise typer.Exit(1)


def show_summary(found: dict, study: Study, target: Path, new_system: Path) -> None:  # type: ignore[type-arg]
    """Print what a person wants to know first."""
    say(
        f"{found['title']}: {found['n_respondents_kept']} of {found['n_respondents']} respondents kept, "
        f"{found['n_items_kept']} of {found['n_items']} items kept"
    )
    if study.sample is not None and not study.sample.drawn.is_all:
        say(f"items left by a sample: {study.sample.drawn}; those kept are fitted to all, who are all scored")
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
    show_table(pd.DataFrame(rows), rest=target / "summary.json")
    if study.bank is not None and study.system_scores is not None:
        scoring = study.settings.score.scoring(seed=study.settings.study.seed)
        show_scores(study.bank, study.system_scores, scoring, rest=target / "scores.csv")
    bank = "no bank, for no scale stands" if study.bank is None else "bank.json"
    say(f"written to {target}: report.html, {bank}, and the tables")
    if study.bank is not None:
        say_next("irtbench", "score", target / "bank.json", new_system)


def spread(bounds: list[float] | None) -> str:
    """Least and greatest, for people."""
    return "" if bounds is None else f"{bounds[0]:.2f} to {bounds[1]:.2f}"


def outcome(scale: dict) -> str:  # type: ignore[type-arg]
    """Say how a scale came out."""
    if scale["rejected"] is not None:
        return f"rejected: {scale['rejected']}"
    if not scale["fit"]["converged"]:
        return f"not converged: {scale['fit']['stopped_because']}"
    unknown = [f"global fit not known: {scale['global_fit_before']['reason']}"] * bool(
        scale["global_fit_before"]["reason"]
    )
    unknown += [scale["mended"]] * bool(scale["mended"])
    unknown += [f"not judged: {scale['not_available']}"] * bool(scale["not_available"])
    return "; ".join(["retained", *unknown])
