"""Results on disk, complete or absent, and on the terminal."""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from irtbench.data.input_error import InputError


@contextmanager
def output_folder(target: Path) -> Iterator[Path]:
    """Folder to write results into; they reach `target` when the block ends well, and nothing does otherwise.

    A target that is not there yet appears whole. In one that is, each file is replaced by the new one of its name, and
    other files are left alone.

    Raises
    ------
    InputError
        If the target is no folder, or its parent cannot be written to.
    """
    target = target.absolute()
    if target.exists() and not target.is_dir():
        raise InputError(f"output {target}: is not a folder")
    made = first_missing(target.parent)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise InputError(f"output {target}: cannot be written: {error.strerror}") from None
    try:
        yield beside
        beside.chmod(0o755)
        if target.exists():
            for file in sorted(beside.iterdir()):
                os.replace(file, target / file.name)
        else:
            os.replace(beside, target)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        if made is not None and not target.exists():
            remove_empty(target.parent, made)
        raise
    shutil.rmtree(beside, ignore_errors=True)


def first_missing(folder: Path) -> Path | None:
    """The topmost folder of the path that does not exist yet."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    return missing[-1] if missing else None


def remove_empty(folder: Path, top: Path) -> None:
    """Remove the folders from `folder` up to `top` that this run made and that hold nothing."""
    while folder.exists() and not any(folder.iterdir()):
        folder.rmdir()
        if folder == top:
            return
        folder = folder.parent


def write_table(table: pd.DataFrame, file: Path) -> None:
    """Write a table as CSV (gzipped for ``.gz``), Parquet, JSON or Markdown, by the file's name."""
    if file.suffix == ".parquet":
        table.to_parquet(file, index=False)
    elif file.suffix == ".json":
        write_json(table, file)
    elif file.suffix == ".md":
        file.write_text(to_markdown(table), encoding="utf-8")
    else:
        table.to_csv(file, index=False, lineterminator="\n")


def to_markdown(table: pd.DataFrame) -> str:
    """The table in Markdown, numbers to three digits behind the point."""
    rows = [list(table.columns), *([readable(value) for value in row] for row in table.itertuples(index=False))]
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    line = ["---:" if pd.api.types.is_numeric_dtype(table[name]) else "---" for name in table.columns]
    return "".join("| " + " | ".join(row) + " |\n" for row in [cells[0], line, *cells[1:]])


def write_json(value: Any, file: Path) -> None:
    """Write plain values as JSON."""
    file.write_text(to_json(value) + "\n", encoding="utf-8")


def to_json(value: Any) -> str:
    """Plain values, arrays and tables as strict JSON; what is not a number (NaN, infinity) becomes null."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    """Turn NumPy and pandas values into those that JSON knows."""
    if isinstance(value, pd.DataFrame):
        return [plain(row) for row in value.to_dict(orient="records")]
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return [plain(entry) for entry in value.tolist()]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Path):
        return str(value)
    return None if value is pd.NA else value


def show_table(table: pd.DataFrame, *, title: str = "") -> None:
    """Print a table for people on standard output, numbers to three digits behind the point."""
    view = Table(title=title or None, title_justify="left")
    for name in table.columns:
        numeric = pd.api.types.is_numeric_dtype(table[name])
        view.add_column(str(name), justify="right" if numeric else "left", overflow="fold")
    for row in table.itertuples(index=False):
        view.add_row(*(readable(value) for value in row))
    Console(highlight=False, markup=False, width=None if os.isatty(1) else 160).print(view)


def readable(value: Any) -> str:
    """One cell for people: three digits behind the point, nothing for what is missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)
