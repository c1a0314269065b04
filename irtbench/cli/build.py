"""``irtbench build``, ``report`` and ``quickstart``: a study, or the shipped one, to a bank, scores and a report."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
import typer

import irtbench.report
from irtbench.cli.build_study import StudyToBuild
from irtbench.cli.declared import Outcome, Run, command
from irtbench.cli.form import numbered
from irtbench.cli.options import AllowAddress, Cache, Levels, levels_of, say
from irtbench.cli.output import Shown, Words, next_command
from irtbench.cli.result_files import OF_STUDY, output_file, output_folder, unfinished_folder
from irtbench.cli.score import scores_in_words
from irtbench.data.responses import name_first
from irtbench.data.shown import stacked

CONTROL_FILES = ("control.csv", "control.json")
STUDY, SYSTEMS = "study", "systems"  # folders of the copy
SCORED_NEXT = "average.csv"  # of the systems


SampleToPrune = Annotated[
    int | None,
    typer.Option(
        "--sample",
        metavar="N",
        help="Most respondents by whom items leave; else all or, of a table too large for memory, so many that an "
        "item has 2,000 responses.",
        min=1_000,
    ),
]


@command(*OF_STUDY, *CONTROL_FILES, output=None, fits=True)
def build(
    study_file: Annotated[
        Path, typer.Argument(metavar="STUDY.toml", help="The study's settings, or a table of grades with --model.")
    ],
    run: Run,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Folder for the results; else [output] directory."),
    ] = None,
    sample: SampleToPrune = None,
    cache: Cache = None,
    allow_address: AllowAddress = [],  # noqa: B006 - typer copies it
    model: Annotated[
        Literal["grm", "gpcm", "pcm", "rsm"] | None,
        typer.Option("--model", help="Of a table of grades in place of a study file: one scale of all items."),
    ] = None,
    levels: Levels = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Instead of the study's own seed.", min=0, max=2**32 - 1)
    ] = None,
    control: Annotated[
        bool, typer.Option("--control", help="Shuffle each item's responses first: no scale may be found then.")
    ] = False,
) -> Outcome:
    """Build scales from crowd answers: screen, grade, fit, prune, bank, scores, report.

    Writes bank.json, items.csv, pruning.csv, respondents.csv, scores.csv, summary.json, report.html, methods.md (the
    methods section of a paper), study.json, of which `report` makes the page again, and what every round of pruning
    found: rounds_items.csv and rounds_pairs.csv.
    Where the rules compare factors, checks.json too; with study.screening_effect, screening_effect.csv and
    items_effect.csv.

    Grades, ratings and partial credit are built in their categories: ``[model] kind`` grm, gpcm, pcm or rsm in the
    study file, or without one `irtbench build GRADES.csv --model grm -o DIR`, with the rest as a study file has it
    unless it says otherwise.

    A run that was interrupted goes on from its last finished step when it is started again with the same data and
    settings.

    Of graded responses that `fit` reads from disk, Parquet of more than ten million fields or at an address, all
    respondents are screened, items leave by what a random sample of them shows (--sample), and those left are fitted to
    all, who are all scored. The output says so, and summary.json has sampled_from and sample_seed.

    With --control, only control.csv and control.json: the same steps on shuffled responses, status 1 if one is
    retained.
    """
    settings = settings_of(study_file, model, levels)
    if seed is not None:
        settings = replace(settings, study=replace(settings.study, seed=seed))
    target = output or settings.output.directory
    if target is None:
        raise irtbench.InputError(f"{study_file}: output.directory: missing; expected a folder there or with -o DIR")
    if control and run.figures is not None:
        raise irtbench.InputError("--figures: a control has none; expected it without --control")
    study = StudyToBuild.of(settings, sample, cache, allow_address)
    if study.ranks is not None and not study.ranks.is_first:
        study.follow()
        return Outcome(json=None)
    return controlled(study, target, run) if control else built(study, target, run)


def settings_of(
    file: Path, model: str | None, levels: str | None, keys: Mapping[str, object] | None = None
) -> irtbench.StudyFile:
    """Those of a study file, or with a model the usual ones for a table of grades, which `keys` of [data] read."""
    from irtbench.config import study_from

    if model is None:
        if levels is not None:
            raise irtbench.InputError("--levels: go with --model; expected data.levels in a study file")
        return irtbench.read_study(file)
    data = {key: value for key, value in (keys or {}).items() if value not in (None, [], {})}
    data |= {"answers": str(file.resolve()), "content": "responses", "levels": list(levels_of(levels))}
    return study_from(
        {"study": {"title": file.name.split(".")[0]}, "data": data, "scales": {"by": "none"}, "model": {"kind": model}},
        file,
    )


def built(asked: StudyToBuild, target: Path, run: Run, new_system: Path = Path("NEW.csv")) -> Outcome:
    """What a study has found; the last line scores `new_system` with its bank."""
    settings = asked.settings
    unfinished = run.ending.enter_context(until_written(target))
    own = partial(same_study, settings)
    folder = run.opened(target, output_folder(target, files=OF_STUDY, inputs=settings.files, same_study=own))
    study = asked.carry_out(folder, unfinished, run.progress)
    run.progress("writing the report")
    found, page, effect = irtbench.report.summary(study), irtbench.report.study_page(study), study.screening_effect
    results: dict[str, Any] = {
        "bank.json": None if study.bank is None else partial(irtbench.save_bank, study.bank),
        "items.csv": irtbench.report.items_table(study.scales),
        "pruning.csv": irtbench.report.pruning_table(study.scales),
        "screening_effect.csv": None if effect is None else effect.scales,
        "items_effect.csv": None if effect is None else effect.items,
        "group_percentiles.csv": study.group_percentiles,
        "rounds_items.csv": stacked({scale.name: scale.pruning.rounds_items() for scale in study.scales}),
        "rounds_pairs.csv": stacked({scale.name: scale.pruning.rounds_pairs() for scale in study.scales}),
        "checks.json": checks(study.dimensions, study.scales) if settings.pruning.compare_factors else None,
        "summary.json": found,
        irtbench.study.results.RECORD: partial(irtbench.study.results.save_study, study),
        "report.html": irtbench.report.render_page(page),
        "methods.md": irtbench.report.methods_text(study),
    }
    doubts = [f"screening: {words}" for words in study.exclusions_by_ability]
    doubts += [f"scale {scale.name}: {doubt}" for scale in study.scales for doubt in scale.doubts]
    for scale in study.scales:
        more = (scale.pruning.guessing_in_words, scale.not_normal)
        doubts += [f"scale {scale.name}: {words}" for words in more if words]
    if study.forms is not None and study.forms.assembled is not None:
        results |= {"form.csv": study.forms.assembled.table(), "form.json": study.forms.assembled.summary()}
        for number, short in enumerate(study.forms.banks, start=1):
            results[numbered("form_bank.json", number, len(study.forms.banks))] = partial(irtbench.save_bank, short)
    if study.forms is not None and study.forms.why_not:
        doubts.insert(0, f"no form: {study.forms.why_not.removeprefix('form: ')}")
    return Outcome(
        json=found, files=results, figures=lambda: list(page.all_blocks()), doubts=doubts,
        words=summary_in_words(found, study, target, new_system),
        unconverged=[f"scale {scale.name}" for scale in study.scales if not scale.converged or scale.doubts],
    )  # fmt: skip


@contextmanager
def until_written(target: Path) -> Iterator[Path | None]:
    """As `unfinished_folder`, removed with what is in it when all is written."""
    with unfinished_folder(target) as unfinished:
        yield unfinished
        if unfinished is not None:
            shutil.rmtree(unfinished, ignore_errors=True)


def same_study(settings: irtbench.StudyFile, record: Path) -> bool:
    """Whether a record is that of an earlier build of this study: of its title, or of answers of that name."""
    title, answers = irtbench.study.results.title_and_answers_of(record)
    return title == settings.study.title or answers == settings.data.answers.name


def checks(
    dimensions: irtbench.analysis.Dimensions | None, scales: Sequence[irtbench.study.ScaleStudy]
) -> dict[str, Any]:
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


def controlled(asked: StudyToBuild, target: Path, run: Run) -> Outcome:
    """What the steps find in shuffled responses, in which there is nothing to be found."""
    settings = asked.settings
    run.opened(target, output_folder(target, files=CONTROL_FILES, inputs=settings.files))
    study = asked.carry_out(None, None, run.progress, control=True)
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
    drawn = {} if study.sample is None else study.sample.drawn.stated
    there = table.loc[table["retained"], "scale"].tolist()
    found = {"n_scales_found": len(there), "seed": settings.study.seed, **drawn, "scales": table}
    if there:
        say(f"control: the rules find a scale where there is nothing: {name_first(there)}")

    return Outcome(
        json=found, files={"control.csv": table, "control.json": found}, status=int(bool(there)), words=[
            Shown(table, "Control: each item's responses shuffled", "control.csv"),
            study.sample is not None and not study.sample.drawn.is_all and f"shuffled: {study.sample.drawn}",
            "the rules find a scale where there is nothing" if there else "no scale is found, as it should be",
        ],
    )  # fmt: skip


def summary_in_words(found: Mapping[str, Any], study: irtbench.Study, target: Path, new_system: Path) -> Words:
    """What a person wants to know first."""
    yield (
        f"{found['title']}: {found['n_respondents_kept']} of {found['n_respondents']} respondents kept, "
        f"{found['n_items_kept']} of {found['n_items']} items kept"
    )
    yield (
        study.sample is not None
        and not study.sample.drawn.is_all
        and f"items left by a sample: {study.sample.drawn}; those kept are fitted to all, who are all scored"
    )
    yield Shown(
        pd.DataFrame(
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
        ),
        rest="summary.json",
    )
    if study.bank is not None and study.system_scores is not None:
        yield from scores_in_words(study.bank, study.system_scores, study.settings.scoring, "scores.csv")
    bank = "no bank, since no scale is retained" if study.bank is None else "bank.json"
    yield f"written to {target}: report.html, {bank}, and the tables"
    yield study.bank is not None and next_command("score", target / "bank.json", new_system)


def spread(bounds: list[float] | None) -> str:
    """Least and greatest, for people."""
    return "" if bounds is None else f"{bounds[0]:.2f} to {bounds[1]:.2f}"


def outcome(scale: Mapping[str, Any]) -> str:
    """Say how a scale came out."""
    if scale["rejected"] is not None:
        return f"rejected: {scale['rejected']}"
    if not scale["fit"]["converged"]:
        return f"not converged: {scale['fit']['stopped_because']}"
    reason = scale["global_fit_before"]["reason"]
    unknown = [f"global fit not known: {reason}" if reason else "", scale["mended"]]
    unknown.append(f"not judged: {scale['not_available']}" if scale["not_available"] else "")
    return "; ".join(["retained", *filter(None, unknown)])


@command("report.html", output=None)
def report(
    study: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that build wrote, with study.json.")],
    run: Run,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The page to write; DIR/report.html unless given."),
    ] = None,
) -> Outcome:
    """Write report.html of a study again, as this version writes it, from what build left behind.

    All that the page says is in study.json, so that neither the answers nor a fit is needed; with the version that
    wrote it the page is the same to the last byte.
    """
    target = output or study / "report.html"
    found = irtbench.study.results.load_study(study)
    file = run.opened(target, output_file(target, inputs=[study / irtbench.study.results.RECORD], of_study=True))
    page = irtbench.report.study_page(found)
    file.write_text(irtbench.report.render_page(page), encoding="utf-8")
    return Outcome(
        json={"title": found.settings.study.title, "report": target, "n_scales": len(found.scales)},
        words=[f"written to {target}"], figures=lambda: list(page.all_blocks()),
    )  # fmt: skip


@command(*OF_STUDY, output=None, figures=None, seed=None)
def quickstart(
    run: Run,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.")] = Path(
        "quickstart"
    ),
) -> Outcome:
    """Build a simulated crowd study (1,000 workers, 90 items, three labels), and score three example systems.

    Writes what `irtbench build` writes, and the study itself into the folder `study` there: study.toml, the answers,
    the items and the systems, as a pattern for your own. README.md in it says what is planted in the data.
    """
    import irtbench.study.run

    with as_file(shipped_study()) as shipped:
        copied = output / STUDY
        copy_files(shipped, copied)
        copy_files(shipped / SYSTEMS, copied / SYSTEMS)
    return built(StudyToBuild(irtbench.read_study(copied / "study.toml")), output, run, copied / SYSTEMS / SCORED_NEXT)


def shipped_study() -> Traversable:
    """The study's files: in the installed package, or in data/ of a checkout."""
    package = files("irtbench")
    packaged = package / "study" / "crowd_study"
    return packaged if packaged.is_dir() else Path(str(package)).parent / "data" / "crowd_study"


def copy_files(source: Path, target: Path) -> None:
    """Copy the files of a folder into another one.

    Raises
    ------
    InputError
        If one of their names is that of another file there, which stays as it is.
    """
    contents = {file.name: file.read_bytes() for file in sorted(source.iterdir()) if file.is_file()}
    there = {name: target / name for name in contents if (target / name).exists()}
    for name, file in there.items():
        if not file.is_file() or file.read_bytes() != contents[name]:
            raise irtbench.InputError(
                f"output {file}: is there already and no file of this study; expected another folder (-o)"
            )
    if len(there) < len(contents):
        with output_folder(target) as folder:
            for name, content in contents.items():
                (folder / name).write_bytes(content)
