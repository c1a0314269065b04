"""Where the results of a study come from."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from irtbench.config import StudyFile
from irtbench.data.file_hash import file_hash
from irtbench.estimation.fitted import software_versions


def describe_provenance(settings: StudyFile) -> dict[str, Any]:
    """Where results come from: hashes of the files, settings, versions, date and seed."""
    data, score = settings.data, settings.score
    files = [settings.path, data.answers, *(file for file in (data.items, data.respondents) if file is not None)]
    return {
        "data": {file.name: file_hash(file) for file in files},
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
