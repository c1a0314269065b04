"""Where the results of a study come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from irtbench.config import StudyFile
from irtbench.data.file_hash import file_hash
from irtbench.estimation.fitted import software_versions


def describe_provenance(settings: StudyFile, answers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Where results come from: hashes of the files, settings, versions, date and seed.

    `answers` are the name and hash of the answers, where these are no file.
    """
    data, score = settings.data, settings.score
    others = [file for file in (data.items, data.respondents) if file is not None]
    return {
        "data": {
            **_hashes([settings.path]),
            **(_hashes([data.answers]) if answers is None else answers),
            **_hashes(others),
        },
        "model": asdict(settings.model),
        "pruning_rules": asdict(settings.pruning),
        "screening": asdict(settings.screening),
        "grading": asdict(settings.grading),
        "scoring": asdict(score.scoring(seed=settings.study.seed))
        | {"norm_groups": list(score.norm_columns), "norm_weight": score.norm_weight}
        | ({"norm_margins": score.norm_margins} if score.norm_margins else {}),
        "seed": settings.study.seed,
        "versions": software_versions(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def _hashes(files: Sequence[Path]) -> dict[str, str]:
    return {file.name: file_hash(file) for file in files}
