"""Whom a log's responses are of: the model it names, its run, its file, its folder, or a part of its path."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.readers.trials import PAIR
from irtbench.data.responses import name_first

logger = logging.getLogger(__name__)

BY = ("model", "run", "file", "folder")
EXPECTED = "expected model, run, file, folder, or a pattern of the file's path with one group, such as runs/(.+?)/"


def with_respondents(parts: Sequence[pd.DataFrame], files: Sequence[Path], by: str) -> list[pd.DataFrame]:
    """The tables of several files with their respondents, until now the models they name, named as the user says."""
    if by == "model":
        say_who_shares_a_name(parts)
        return list(parts)
    root = Path(os.path.commonpath([file.absolute().parent for file in files]))
    return [
        part.assign(respondent_id=named(part, file.absolute(), root, by))
        for part, file in zip(parts, files, strict=True)
    ]


def named(part: pd.DataFrame, file: Path, root: Path, by: str) -> pd.Series[str] | str:
    """The respondents of one file."""
    own = file.relative_to(root)
    if by == "folder":
        return own.parent.as_posix() if own.parent.parts else root.name
    without_endings = own.with_name(own.name.split(".jsonl")[0].split(".json")[0].removesuffix(".eval")).as_posix()
    if by == "file":
        return without_endings
    if by == "run":
        run = part["run"] if "run" in part.columns else without_endings
        return part["respondent_id"] + " " + run
    try:
        pattern = re.compile(by)
    except re.error as error:
        raise InputError(f"respondent {by}: no pattern ({error}); {EXPECTED}") from None
    if pattern.groups != 1:
        raise InputError(f"respondent {by}: {EXPECTED}")
    found = pattern.search(file.as_posix())
    if found is None or not found[1]:
        raise InputError(f"file {file}: its path has nothing of the pattern {by}; {EXPECTED}")
    return found[1]


def say_who_shares_a_name(parts: Sequence[pd.DataFrame]) -> None:
    """Warn of files that answer the same items under one name, whose responses become trials of one respondent."""
    each = [part[PAIR].drop_duplicates().assign(file=k) for k, part in enumerate(parts)]
    pairs = pd.concat(each, ignore_index=True)
    twice = pairs[pairs.duplicated(PAIR, keep=False)]
    sharing = twice.groupby("respondent_id", sort=False)["file"].nunique()
    if sharing.empty:
        return
    said = [f"{n} files share the name {name}" for name, n in sharing.items()]
    what = "their responses to one item are trials of one respondent"
    logger.warning("%s: %s; --respondent run, file or folder keeps them apart", name_first(said, most=3), what)
