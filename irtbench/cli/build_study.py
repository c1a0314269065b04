"""A study carried out, its responses in memory or encoded on disk, by one process or several."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from irtbench.cli.build_ranks import SharedBuild
from irtbench.cli.large import demand_shared, encoded, hash_of, large_table
from irtbench.cli.output import write_table
from irtbench.cli.reading import Reading
from irtbench.data.input_error import InputError
from irtbench.data.respondent_sample import enough_to_prune
from irtbench.data.stored_responses import StoredResponses

if TYPE_CHECKING:
    from irtbench.config import DataSettings, StudyFile
    from irtbench.data.readers.large_table import LargeTable
    from irtbench.data.responses import ResponseMatrix
    from irtbench.data.screening import Screening
    from irtbench.estimation.distributed.ranks import Ranks
    from irtbench.study.results import Study
    from irtbench.study.study_data import StudyData

ENCODED = "encoded"  # folder of the responses among the finished steps


@dataclass(frozen=True)
class StudyToBuild:
    """A study and how its responses are held.

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
    together
        The processes that build it; None for this one alone.
    """

    settings: StudyFile
    table: LargeTable | None = None
    sample: int | None = None
    cache: Path | None = None
    together: SharedBuild | None = None

    @classmethod
    def of(
        cls,
        settings: StudyFile,
        sample: int | None,
        cache: Path | None,
        ranks: Ranks | None = None,
        allow_address: Sequence[str] = (),
    ) -> StudyToBuild:
        """The study, of responses on disk where they are too many; several processes build any that could be there.

        Raises
        ------
        InputError
            If a setting needs these responses in memory, and they are at an address or far too many, or there are
            several processes.
        """
        table, together = None, None
        if settings.data.content == "responses":
            from irtbench.study.study_data import needs_memory

            table = large_table(
                settings.data.answers, reading_of(settings.data), in_memory=needs_memory(settings),
                whatever_size=ranks is not None, of_study=True, allow_address=allow_address,
            )  # fmt: skip
        if ranks is not None:
            words = "build a study of graded responses in a Parquet table, wide or long, with settings that need no"
            demand_shared(settings.path, f"{words} response", table, cache, ranks)
            together = SharedBuild(ranks, settings, keeps_passes=cache is not None)
        return cls(settings, table, sample, cache, together)

    @contextmanager
    def data(self, unfinished: Path | None, progress: Callable[[str], None]) -> Iterator[tuple[StudyData, int | None]]:
        """What the files hold, and the size of the sample that items leave by, None for all, while the block runs.

        Encoded responses that a run leaves which was stopped are taken up.

        Parameters
        ----------
        unfinished
            Folder of finished steps; None where there is none.
        progress
            Called with a line now and then.
        """
        from irtbench.study.study_data import read_data, stored_data

        settings, table = self.settings, self.table
        if table is None:
            progress(f"reading {settings.data.answers}")
            yield read_data(settings), self.sample
            return
        beside = None if self.cache is not None or unfinished is None else unfinished / ENCODED
        source = hash_of(table)
        named = None if settings.data.answers.exists() else {table.place: source}
        reading = reading_of(settings.data)
        try:
            with encoded(table, reading, beside or self.cache, progress, is_cache=beside is None) as stored:
                data = stored_data(settings, stored, source=source, named=named)
                yield data, self.sample or enough_to_prune(stored)
                if self.together is not None:
                    self.together.end(stored)
        except InputError:  # the run will not go on as it is
            if beside is not None:
                shutil.rmtree(beside, ignore_errors=True)
            raise

    def carry_out(
        self, folder: Path | None, unfinished: Path | None, progress: Callable[[str], None], *, control: bool = False
    ) -> Study:
        """The study; respondents.csv and scores.csv, with a row for everybody, go into a folder if there is one."""
        from irtbench.scoring.scores_file import ScoresFile
        from irtbench.study.run import carry_out

        began = time.perf_counter()

        def write(screening: Screening) -> None:
            table = screening.table()
            words = np.where(table["kept"], "True", "False")  # as in a table that is written whole
            people.write(people.rows_of(table.assign(kept=words)))

        with (
            self.data(unfinished, progress) as (data, sample),
            ScoresFile((folder or Path()) / "respondents.csv") as people,
        ):
            on_disk = isinstance(data.responses, StoredResponses)
            study, kept = carry_out(
                self.settings, data, control=control, checkpoints=unfinished,
                sample=sample,
                each=write if on_disk and folder is not None else lambda screening: None,
                fit=None if self.together is None else self.together.fit, progress=progress,
            )  # fmt: skip
            if folder is not None:
                self._write_people(study, kept, folder, progress)
        return replace(study, seconds=time.perf_counter() - began)

    def _write_people(
        self, study: Study, kept: ResponseMatrix | StoredResponses, folder: Path, progress: Callable[[str], None]
    ) -> None:
        """Write scores.csv, and respondents.csv where that was not done on the way."""
        from irtbench.report.tables import scores_table
        from irtbench.scoring.bulk import score_matrix
        from irtbench.scoring.scores import score_responses

        file, scoring = folder / "scores.csv", self.settings.score.scoring(seed=self.settings.study.seed)
        scores = study.respondent_scores
        if not isinstance(kept, StoredResponses):
            write_table(study.screening.table(), folder / "respondents.csv")
            if study.bank is not None and study.sample is not None:
                scores = score_responses(study.bank, kept, scoring, unknown_items="ignore")
        if study.bank is None or not isinstance(kept, StoredResponses):
            write_table(scores_table(study.system_scores, scores), file)
            return
        on_a_scale = {item for scale in study.bank.scales for item in scale.items.item_ids}
        scored = kept.select_items([item for item in kept.item_ids if item in on_a_scale])
        systems = None if study.system_scores is None else scores_table(study.system_scores, None)
        if self.together is not None:
            self.together.score(study.bank, scored, file, systems, "respondent", progress)
            return
        score_matrix(study.bank, scored, file, scoring, before=systems, role="respondent", progress=progress)


def reading_of(data: DataSettings) -> Reading:
    """How the responses of a study are read; what is known of respondents is the study's own matter."""
    return Reading(
        format=data.format, columns=data.columns, trials=data.trials, threshold=data.threshold, metric=data.metric,
        errored=data.errored, join=data.join, items=data.item_pattern, exclude=data.exclude_columns,
    )  # fmt: skip
