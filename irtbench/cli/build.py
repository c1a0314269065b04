"""``irtbench build``, ``report`` and ``quickstart``: a study to bank, scores and report, by one process or several."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import typer

import irtbench.report
from irtbench.cli.declared import Outcome, Run, command
from irtbench.cli.form import numbered
from irtbench.cli.large import demand_shared, encoded, hash_of, large_table, ranks_of_run, say_cache_unused
from irtbench.cli.options import AllowAddress, Cache, Levels, Reading, levels_of, say
from irtbench.cli.output import Shown, Words, next_command, plain, write_table
from irtbench.cli.result_files import OF_STUDY, output_file, output_folder, unfinished_folder
from irtbench.cli.score import scores_in_words
from irtbench.data.response_blocks import enough_to_prune
from irtbench.data.responses import name_first
from irtbench.data.shown import stacked

CONTROL_FILES = ("control.csv", "control.json")
STUDY, SYSTEMS = "study", "systems"  # folders of the copy
SCORED_NEXT = "average.csv"  # of the systems
ENCODED = "encoded"  # folder of the responses among the finished steps
PLACES, BANK = "places.npy", "bank.json"  # in the folder of the responses, for other processes to read
FIT, SCORE, END = "fit", "score", "end"  # what the first process asks them to do


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
    unfinished = run.ending.enter_context(unfinished_folder(target, until_written=True))
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


@dataclass(frozen=True)
class StudyToBuild:
    """A study and where its responses are.

    Parameters
    ----------
    settings
        The study file.
    table
        The responses where they are too many for memory, or at an address; None for any other.
    sample
        Most respondents of the sample that items leave by; None for all, or where they are on disk for so many that an
        item has 2,000 responses.
    cache
        Where such responses are, or are to be, encoded; None for among the finished steps of the run.
    ranks
        The processes that build it, of which the first says what they fit and score; None for this one alone.
    """

    settings: irtbench.StudyFile
    table: irtbench.data.LargeTable | None = None
    sample: int | None = None
    cache: Path | None = None
    ranks: irtbench.estimation.ranks.Ranks | None = None

    @classmethod
    def of(
        cls, settings: irtbench.StudyFile, sample: int | None, cache: Path | None, allow_address: Sequence[str] = ()
    ) -> StudyToBuild:
        """The study, of responses on disk where they are too many; several processes build any that could be there.

        Raises
        ------
        InputError
            If a setting needs these responses in memory, and they are at an address or far too many, or there are
            several processes.
        """
        table, ranks = None, ranks_of_run.get()
        if settings.data.content == "responses":
            table = large_table(
                settings.data.answers, Reading.of(settings.data.how_to_read()),
                in_memory=irtbench.study.study_data.needs_memory(settings), whatever_size=ranks is not None,
                of_study=True, allow_address=allow_address,
            )  # fmt: skip
        if ranks is not None:
            words = "build a study of graded responses in a Parquet table, wide or long, with settings that need no"
            demand_shared(settings.path, f"{words} response", table, cache, ranks)
        return cls(settings, table, sample, cache, ranks)

    @contextmanager
    def data(
        self, unfinished: Path | None, progress: Callable[[str], None]
    ) -> Iterator[irtbench.study.study_data.StudyData]:
        """What the files hold, and the size of the sample that items leave by, while the block runs.

        Encoded responses that a run leaves which was stopped are taken up.

        Parameters
        ----------
        unfinished
            Folder of finished steps; None where there is none.
        progress
            Called with a line now and then.
        """
        settings, table = self.settings, self.table
        if table is None:
            say_cache_unused(settings.data.answers, self.cache)
            progress(f"reading {settings.data.answers}")
            yield replace(irtbench.study.study_data.read_data(settings), sample=self.sample)
            return
        own_cache = None if self.cache is not None or unfinished is None else unfinished / ENCODED
        named = None if settings.data.answers.exists() else {table.place: hash_of(table)}
        reading = Reading.of(settings.data.how_to_read())
        try:
            with encoded(table, reading, own_cache or self.cache, progress, is_cache=own_cache is None) as stored:
                data = irtbench.study.study_data.read_data(settings, stored, table, named=named)
                yield replace(data, sample=self.sample or enough_to_prune(stored))
                self._send(END, stored)
        except irtbench.InputError:  # the run will not go on as it is
            if own_cache is not None:
                shutil.rmtree(own_cache, ignore_errors=True)
            raise

    def carry_out(
        self, folder: Path | None, unfinished: Path | None, progress: Callable[[str], None], *, control: bool = False
    ) -> irtbench.Study:
        """The study; respondents.csv and scores.csv, with a row for everybody, go into a folder if there is one."""
        began = time.perf_counter()

        def write(screening: irtbench.data.Screening) -> None:
            table = screening.table()
            # as in a table that is written whole
            people.write(people.rows_of(table.assign(kept=np.where(table["kept"], "True", "False"))))

        with (
            self.data(unfinished, progress) as data,
            irtbench.scoring.part_scores.ScoresFile((folder or Path()) / "respondents.csv") as people,
        ):
            study, kept = irtbench.study.run.carry_out(
                self.settings, data, control=control, checkpoints=unfinished,
                each=write if data.responses.on_disk and folder is not None else lambda screening: None,
                fit=None if self.ranks is None else self._fit, progress=progress,
            )  # fmt: skip
            if folder is not None:
                self._write_people(study, kept, folder, progress)
        return replace(study, seconds=time.perf_counter() - began)

    def _write_people(
        self,
        study: irtbench.Study,
        kept: irtbench.data.responses.Responses,
        folder: Path,
        progress: Callable[[str], None],
    ) -> None:
        """Write scores.csv, and respondents.csv where that was not done on the way."""
        file, scores = folder / "scores.csv", study.respondent_scores
        if not isinstance(kept, irtbench.StoredResponses):
            write_table(study.screening.table(), folder / "respondents.csv")
            if study.bank is not None and study.sample is not None:
                scores = irtbench.score_responses(
                    study.bank, kept.to_matrix(), self.settings.scoring, unknown_items="ignore"
                )
        if study.bank is None or not isinstance(kept, irtbench.StoredResponses):
            write_table(irtbench.report.scores_table(study.system_scores, scores), file)
            return
        on_a_scale = {item for scale in study.bank.scales for item in scale.items.item_ids}
        scored = kept.select_items([item for item in kept.item_ids if item in on_a_scale])
        systems = None if study.system_scores is None else irtbench.report.scores_table(study.system_scores, None)
        self._score(study.bank, scored, file, "respondent", before=systems, progress=progress)

    def follow(self) -> None:
        """Do what the first process says, to the end."""
        assert self.ranks is not None
        while (message := json.loads(self.ranks.text_from_first("")))["what"] != END:
            data = shared_responses(message["data"])
            if message["what"] == FIT:
                self._fit(data)
            else:
                before = None if message["columns"] is None else pd.DataFrame(columns=message["columns"])
                self._score(
                    irtbench.load_bank(data.folder / BANK), data, message["file"], message["role"], before=before
                )
        self.ranks.wait_for_all()

    def _send(self, what: str, data: irtbench.StoredResponses, **more: object) -> None:
        """Send the other processes, if there are any, what is done next."""
        if self.ranks is None or not self.ranks.is_first:
            return
        if what == END:
            (data.folder / PLACES).unlink(missing_ok=True)
        elif data.places is not None:
            np.save(data.folder / PLACES, data.places)
        message = {one.name: getattr(data, one.name) for one in fields(data)} | {"places": data.places is not None}
        message["folder"] = data.folder.resolve()
        self.ranks.text_from_first(json.dumps({"what": what, "data": plain(message), **more}))
        if what == END:
            self.ranks.wait_for_all()

    def _fit(self, data: irtbench.StoredResponses) -> irtbench.FittedModel:
        """Fit these responses, with all processes."""
        ranks = self.ranks
        assert ranks is not None
        self._send(FIT, data)
        if self.cache is not None:
            ranks.keep_passes(data)
        fitted = irtbench.fit_model(data, self.settings.model, seed=self.settings.study.seed, ranks=ranks)
        ranks.wait_for_all()  # all have read what they were asked to fit
        if ranks.kept is not None and ranks.is_first:
            ranks.kept.remove()
        ranks.kept = None
        return fitted

    def _score(
        self,
        bank: irtbench.ItemBank,
        data: irtbench.StoredResponses,
        file: str | Path,
        role: str,
        *,
        before: pd.DataFrame | None = None,
        progress: Callable[[str], None] = lambda message: None,
    ) -> None:
        """Score these responses, with all processes, into a file of its own."""
        is_first = self.ranks is not None and self.ranks.is_first
        if is_first:
            irtbench.save_bank(bank, data.folder / BANK)
            columns = None if before is None else list(before.columns)
            self._send(SCORE, data, file=Path(file).name, role=role, columns=columns)
        irtbench.scoring.bulk.score_matrix(
            bank, data, file, self.settings.scoring, before=before, role=role,
            together=self.ranks, progress=progress,
        )  # fmt: skip
        if is_first:
            (data.folder / BANK).unlink()


def shared_responses(message: dict[str, Any]) -> irtbench.StoredResponses:
    """The responses that the first process named."""
    folder = Path(message["folder"])
    arrays = {
        name: None if message[name] is None else np.array(message[name], dtype=np.int64)
        for name in ("n_by_item", "n_correct_by_item", "columns")
    }
    places = np.load(folder / PLACES, allow_pickle=False) if message["places"] else None
    return irtbench.StoredResponses(
        **message | arrays | {"folder": folder, "places": places, "item_ids": tuple(message["item_ids"])}
    )
