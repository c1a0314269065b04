"""Where the results of a study come from."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from irtbench.config import StudyFile
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
        | {"norm_groups": list(score.norm_columns), "norm_weight": score.norm_weight},
        "seed": settings.study.seed,
        "versions": software_versions(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def file_hash(path: Path) -> str:
    """Hash of a file's bytes, ``sha256:...``; of a folder that of its files' names and hashes."""
    if path.is_dir():
        files = sorted(inner for inner in path.rglob("*") if inner.is_file())
        listed = "".join(f"{inner.relative_to(path).as_posix()} {file_hash(inner)}\n" for inner in files)
        return "sha256:" + hashlib.sha256(listed.encode()).hexdigest()
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
