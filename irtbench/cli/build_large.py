"""``irtbench build`` of responses that are encoded on disk."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from irtbench.cli.build_ranks import SharedBuild, demand_shared
from irtbench.cli.large import cache_folder, choice_of, hash_of, large_table
from irtbench.cli.output import write_table
from irtbench.cli.reading import Reading
from irtbench.data.input_error import InputError
from irtbench.data.respondent_sample import enough_to_prune

if TYPE_CHECKING:
    from irtbench.config import DataSettings, StudyFile
    from irtbench.data.readers.large_table import LargeTable
    from irtbench.data.screening import Screening
    from irtbench.data.stored_responses import StoredResponses
    from irtbench.estimation.distributed.ranks import Ranks
    from irtbench.study.results import Study
    from irtbench.study.stored_run import StoredStudy

ENCODED = "encoded"  # folder of the responses among the finished steps


@dataclass(frozen=True)
class OnDisk:
    """How a study is built whose responses stay on disk.

    Parameters
    ----------
    table
        The responses.
    sample
        Most respondents of the sample that items leave by; None for so many that an item has 2,000 responses.
    cache
        Where the responses are, or are to be, encoded; None for among the finished steps of the run.
    together
        The processes that build it; None for this one alone.
    """

    table: LargeTable
    sample: int | None
    cache: Path | None
    together: SharedBuild | None = None

    @classmethod
    def of(
        cls,
        settings: StudyFile,
        sample: int | None,
        cache: Path | None,
        ranks: Ranks | None = None,
        allow_address: Sequence[str] = (),
    ) -> OnDisk | None:
        """How a study is built whose responses are too many for memory, or at an address; None for any other.

        Several processes build any that could be.

        Raises
        ------
        InputError
            If a setting needs these responses in memory, and they are at an address or far too many, or there are
            several processes.
        """
        table = cls._table(settings, allow_address, whatever_size=ranks is not None)
        if ranks is not None:
            demand_shared(settings, cache, ranks, on_disk=table is not None)
        together = None if ranks is None else SharedBuild(ranks, settings, keeps_passes=cache is not None)
        return None if table is None else cls(table, sample, cache, together)

    @staticmethod
    def _table(settings: StudyFile, allow_address: Sequence[str], *, whatever_size: bool) -> LargeTable | None:
        data = settings.data
        if data.content != "responses":
            return None
        from irtbench.study.stored_run import needs_memory

        return large_table(
            data.answers,
            reading_of(data),
            in_memory=needs_memory(settings),
            whatever_size=whatever_size,
            of_study=True,
            allow_address=allow_address,
        )

    @contextmanager
    def responses(
        self, settings: StudyFile, unfinished: Path | None, progress: Callable[[str], None]
    ) -> Iterator[StoredResponses]:
        """The responses, encoded on disk while the block runs; what a run leaves that was stopped is taken up.

        Parameters
        ----------
        settings
            Of the study.
        unfinished
            Folder of finished steps; None where there is none.
        progress
            Called with a line now and then.
        """
        from irtbench.data.readers.encode import encode_table
        from irtbench.data.response_store import unchanged

        with ExitStack() as stack:
            beside = self.cache is None and unfinished is not None
            folder = Path() if unfinished is None else unfinished / ENCODED
            if not beside:
                folder = stack.enter_context(cache_folder(self.cache, self.table))
            try:
                stored = encode_table(self.table, folder, choice_of(reading_of(settings.data)), progress=progress)
                with unchanged(stored):
                    yield stored
                if self.together is not None:
                    self.together.end(stored)
            except InputError:  # the run will not go on as it is
                if beside:
                    shutil.rmtree(folder, ignore_errors=True)
                raise

    def run(
        self,
        settings: StudyFile,
        stored: StoredResponses,
        *,
        control: bool = False,
        checkpoints: Path | None = None,
        each: Callable[[Screening], None] = lambda screening: None,
        progress: Callable[[str], None],
    ) -> StoredStudy:
        """The study of these responses, see `run_stored_study`."""
        from irtbench.study.stored_run import run_stored_study

        identified = hash_of(self.table)
        at_address = not settings.data.answers.exists()
        return run_stored_study(
            settings, stored, sample=self.sample or enough_to_prune(stored), source=identified, control=control,
            checkpoints=checkpoints,
            answers={self.table.place: identified} if at_address else None, each=each, progress=progress,
            fit=None if self.together is None else self.together.fit,
        )  # fmt: skip

    def build(
        self, settings: StudyFile, folder: Path, unfinished: Path | None, progress: Callable[[str], None]
    ) -> Study:
        """The study; respondents.csv and scores.csv, which have a row for everybody, go into the folder."""
        from irtbench.report.tables import scores_table
        from irtbench.scoring.bulk import score_stored
        from irtbench.scoring.scores_file import ScoresFile

        began = time.perf_counter()
        with self.responses(settings, unfinished, progress) as stored:
            with ScoresFile(folder / "respondents.csv") as respondents:

                def write(screening: Screening) -> None:
                    table = screening.table()
                    words = np.where(table["kept"], "True", "False")  # as in a table that is written whole
                    respondents.write(respondents.rows_of(table.assign(kept=words)))

                found = self.run(settings, stored, checkpoints=unfinished, each=write, progress=progress)
            study, scores = found.study, folder / "scores.csv"
            if study.bank is None:
                write_table(scores_table(None, None), scores)
            else:
                on_a_scale = {item for scale in study.bank.scales for item in scale.items.item_ids}
                kept = found.kept.select_items([item for item in found.kept.item_ids if item in on_a_scale])
                systems = None if study.system_scores is None else scores_table(study.system_scores, None)
                scoring = settings.score.scoring(seed=settings.study.seed)
                if self.together is None:
                    score_stored(
                        study.bank, kept, scores, scoring, before=systems, role="respondent", progress=progress
                    )
                else:
                    self.together.score(study.bank, kept, scores, systems, "respondent", progress)
        return replace(study, seconds=time.perf_counter() - began)


def reading_of(data: DataSettings) -> Reading:
    """How the responses of a study are read."""
    return Reading(
        format=data.format, columns=data.columns, trials=data.trials, threshold=data.threshold, metric=data.metric,
        errored=data.errored, join=data.join, items=data.item_pattern, exclude=data.exclude_columns,
        respondents=data.respondents,
    )  # fmt: skip
