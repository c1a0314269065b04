"""By what a file that results come from is known again."""

from __future__ import annotations

import hashlib
from pathlib import Path


def file_hash(path: Path) -> str:
    """Hash of a file's bytes, ``sha256:...``; of a folder that of its files' names and hashes."""
    if path.is_dir():
        files = sorted(inner for inner in path.rglob("*") if inner.is_file())
        listed = "".join(f"{inner.relative_to(path).as_posix()} {file_hash(inner)}\n" for inner in files)
        return text_hash(listed)
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


def text_hash(text: str) -> str:
    """Hash of a text, ``sha256:...``."""
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
