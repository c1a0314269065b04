"""``irtbench build`` in several processes: the first decides what is fitted and scored, and all do it together."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from irtbench.bank.bank import ItemBank
    from irtbench.config import StudyFile
    from irtbench.data.stored_responses import StoredResponses
    from irtbench.estimation.distributed.ranks import Ranks
    from irtbench.estimation.fitted import FittedModel

PLACES, BANK = "places.npy", "bank.json"  # in the folder of the responses, for the others to read
FIT, SCORE, END = "fit", "score", "end"


@dataclass(frozen=True)
class SharedBuild:
    """A process of those that build a study.

    Parameters
    ----------
    ranks
        Which it is.
    settings
        The study file.
    keeps_passes
        Whether the sums of every pass are kept until a fit is finished, for a run that goes on.
    """

    ranks: Ranks
    settings: StudyFile
    keeps_passes: bool

    def fit(self, data: StoredResponses) -> FittedModel:
        """The first process: fit these responses with all."""
        self._tell(FIT, data)
        return self._fitted(data)

    def score(
        self,
        bank: ItemBank,
        data: StoredResponses,
        file: Path,
        before: pd.DataFrame | None,
        role: str,
        progress: Callable[[str], None],
    ) -> None:
        """The first process: score these responses with all, into a file of its own."""
        from irtbench.bank.bank import save_bank
        from irtbench.scoring.bulk import score_matrix

        save_bank(bank, data.folder / BANK)
        columns = None if before is None else list(before.columns)
        self._tell(SCORE, data, file=file.name, role=role, columns=columns)
        scoring = self.settings.score.scoring(seed=self.settings.study.seed)
        score_matrix(
            bank, data, file, scoring, before=before, role=role, together=self.ranks, progress=progress
        )  # fmt: skip
        (data.folder / BANK).unlink()

    def end(self, data: StoredResponses) -> None:
        """The first process: tell the others that this was all."""
        (data.folder / PLACES).unlink(missing_ok=True)
        self.ranks.told_text(json.dumps({"what": END}))
        self.ranks.wait_for_all()

    def follow(self) -> None:
        """Another process: do what the first one says, to the end."""
        from irtbench.bank.bank import load_bank
        from irtbench.scoring.bulk import score_matrix

        while (told := json.loads(self.ranks.told_text("")))["what"] != END:
            data = responses_told(told)
            if told["what"] == FIT:
                self._fitted(data)
                continue
            scoring = self.settings.score.scoring(seed=self.settings.study.seed)
            score_matrix(
                load_bank(data.folder / BANK), data, told["file"], scoring,
                columns=told["columns"], role=told["role"], together=self.ranks,
            )  # fmt: skip
        self.ranks.wait_for_all()

    def _tell(self, what: str, data: StoredResponses, **more: object) -> None:
        if data.places is not None:
            np.save(data.folder / PLACES, data.places)
        said = {
            "what": what,
            "folder": str(data.folder.resolve()),
            "n_stored": data.n_stored,
            "stored_items": data.stored_items,
            "absent_items": data.absent_items,
            "n_by_item": data.n_by_item.tolist(),
            "n_correct_by_item": data.n_correct_by_item.tolist(),
            "columns_of": None if data.columns is None else data.columns.tolist(),
            "has_places": data.places is not None,
        }
        self.ranks.told_text(json.dumps(said | more))

    def _fitted(self, data: StoredResponses) -> FittedModel:
        from irtbench.estimation.fit import fit_model

        ranks = self.ranks
        if self.keeps_passes:
            ranks.keep_passes(data)
        fitted = fit_model(data, self.settings.model, seed=self.settings.study.seed, ranks=ranks)
        ranks.wait_for_all()  # all have read what they were told to fit
        if ranks.kept is not None and ranks.is_first:
            ranks.kept.remove()
        ranks.kept = None
        return fitted


def responses_told(told: dict[str, Any]) -> StoredResponses:
    """The responses that the first process named."""
    from irtbench.data.stored_responses import StoredResponses

    folder = Path(told["folder"])
    columns = told["columns_of"]
    return StoredResponses(
        folder,
        told["n_stored"],
        tuple(told["stored_items"]),
        np.array(told["n_by_item"], dtype=np.int64),
        np.array(told["n_correct_by_item"], dtype=np.int64),
        None if columns is None else np.array(columns, dtype=np.intp),
        np.load(folder / PLACES, allow_pickle=False) if told["has_places"] else None,
        tuple(told["absent_items"]),
    )
