"""A study carried out, its responses in memory or encoded on disk, by one process or several."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import irtbench.report
from irtbench.cli.large import demand_shared, encoded, hash_of, large_table, ranks_of_run, say_cache_unused
from irtbench.cli.options import Reading
from irtbench.cli.output import plain, write_table
from irtbench.data.response_blocks import enough_to_prune

ENCODED = "encoded"  # folder of the responses among the finished steps
PLACES, BANK = "places.npy", "bank.json"  # in the folder of the responses, for other processes to read
FIT, SCORE, END = "fit", "score", "end"  # what the first process asks them to do


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
