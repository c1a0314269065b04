"""Who answered: names from logs and their places, groups, and what tables say of respondents.

Prolific's table of participants is one row a participant: ``Submission id, Participant id, Status, Started at,
Completed at, Time taken, Completion code, Total approvals`` and demographics. Answers come from the survey tool, this
says who gave them, how long and whether.
"""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from irtbench.data.input_error import InputError, refuse_first
from irtbench.data.readers.long_table import with_known_names
from irtbench.data.readers.records import Head, look_at
from irtbench.data.readers.table import (
    MISSING,
    demand_columns,
    demand_filled,
    field_places,
    one_value_each,
    read_table,
    to_numbers,
)
from irtbench.data.readers.trials import PAIR
from irtbench.data.responses import demand_unique, name_first

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
    shared = [f"{n} files share the name {name}" for name, n in sharing.items()]
    what = "their responses to one item are trials of one respondent"
    logger.warning("%s: %s; --respondent run, file or folder keeps them apart", name_first(shared, most=3), what)


#: What the column of respondents is called, in lower case: ours, then those of survey tools and crowd platforms.
RESPONDENT_COLUMNS = (
    "respondent_id", "participant id", "prolific_pid", "prolific id", "responseid", "workerid", "user_id", "worker",
    "model", "respondent", "id",
)  # fmt: skip


def join_respondents(frame: pd.DataFrame, path: str | Path, left_out: Counter[str]) -> pd.DataFrame:
    """Join a table of respondents to the long table of their answers, by the respondents' names.

    Prolific's table of participants also says whose answers count (see ``counted``). Of any other table the
    columns are added that the answers do not have; respondents whom it does not name keep their answers, and a warning
    counts them.
    """
    path = Path(path)
    table, of_prolific = read_table(path), is_prolific(look_at(path))
    column_of = {name.strip().lower(): name for name in reversed(table.columns)}
    key = next((column_of[name] for name in RESPONDENT_COLUMNS if name in column_of), None)
    if key is None:
        raise InputError(
            f"file {path}: no column that names respondents among {name_first(list(table.columns), most=12)}; expected "
            "respondent_id"
        )
    demand_filled(table, path, key)
    answered = frame["respondent_id"].unique()
    unknown = sorted(set(answered) - set(table[key]))
    if len(unknown) == len(answered):
        raise InputError(
            f"file {path}, column {key}: none of {name_first(list(table[key]))} gave answers; expected the ids of the "
            f"respondents, such as {name_first(list(answered))}"
        )
    if of_prolific:
        frame, table = counted(frame, table, path, left_out)
    demand_unique(
        table[key].tolist(), f"file {path}, column {key}: names", expected="; expected one row a respondent that counts"
    )
    if unknown and not of_prolific:
        warnings.warn(f"file {path}: no row for respondent {name_first(unknown)}", stacklevel=2)
    own = table.set_index(key)
    new = {name: frame["respondent_id"].map(own[name]) for name in own.columns if name not in frame.columns}
    return frame.assign(**new)


def read_respondents(
    path: str | Path, names: Sequence[str], *, columns: Mapping[str, str] | None = None
) -> pd.DataFrame:
    r"""Read columns of a table of respondents, CSV or Parquet.

    Parameters
    ----------
    path
        The file, with a column ``respondent_id`` and those asked for.
    names
        The columns to take.
    columns
        The file's column for ``respondent_id``, where it has another name.

    Raises
    ------
    InputError
        If the file cannot be read or a column is missing, and as ``respondents_of``.

    Examples
    --------
    >>> from pathlib import Path
    >>> import irtbench
    >>> _ = Path("people.csv").write_text("respondent_id,country,age\nann,de,31\nbob,fr,\n")
    >>> irtbench.read_respondents("people.csv", ["country"]).to_dict()
    {'country': {'ann': 'de', 'bob': 'fr'}}
    """
    if unknown := [name for name in columns or {} if name != "respondent_id"]:
        raise InputError(f"columns: unknown name {name_first(unknown)}; expected respondent_id")
    own = (columns or {}).get("respondent_id", "respondent_id")
    table = read_table(path, [own, *names])
    demand_filled(table, path, own)
    return respondents_of(table[[*names]].assign(respondent_id=table[own]), names, path)


def respondents_of(table: pd.DataFrame, names: Sequence[str], path: str | Path) -> pd.DataFrame:
    """Columns that are constant within a respondent, one row each, from a table that may have many rows each.

    A respondent may have a value in some rows and none in others (``MISSING``), but not two different ones.
    """
    demand_columns(table, names, path)
    if "respondent_id" in names:
        raise InputError(f"file {path}: column respondent_id names the respondents; expected one that says more")
    found = pd.DataFrame(index=pd.Index(table["respondent_id"].unique(), name="respondent_id"))
    for name in names:
        given = table[~table[name].isna() & ~table[name].isin(MISSING)]
        values = one_value_each(given, "respondent_id", name, "respondent", f"file {path}")
        values_of = values.reindex(found.index).astype(object)
        found[name] = values_of.where(values_of.notna(), None)
    return found


def weights_of(respondents: pd.DataFrame, name: str, path: str | Path) -> np.ndarray:
    """Weights from a column of respondents, shape (n,)."""
    weights = pd.to_numeric(respondents[name], errors="coerce").to_numpy(dtype=np.float64)

    def message(first: int) -> str:
        weight = respondents[name].iloc[first]
        given = "no weight" if weight is None else f"the weight {weight}"
        return (
            f"file {path}, column {name}: respondent {respondents.index[first]} has {given}; expected a positive number"
        )

    refuse_first(~(np.isfinite(weights) & (weights > 0)), message)
    return weights


RESPONDENT = "Participant id"
#: Submissions that count; others were returned, timed out, rejected or screened out.
COUNTED = ("APPROVED", "AWAITING REVIEW")
_OURS = {"Started at": "started_at", "Completed at": "completed_at", "Time taken": "submission_seconds"}
_NOT_TAKEN = {"Submission id", "Status", "Completion code", "Archived at", "Reviewed at"}


def is_prolific(head: Head) -> bool:
    """Whether a file is Prolific's table of participants."""
    return head.kind == "table" and head.has("Submission id", "Participant id", "Status")


def counted(
    frame: pd.DataFrame, table: pd.DataFrame, path: Path, left_out: Counter[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The answers of participants whose submission counts, and what Prolific says of these, under our names.

    Answers of others, and of respondents who are not in the table, are counted as left out. Times are
    ``submission_seconds, started_at, completed_at``; the rest are demographics.
    """
    kept = table[table["Status"].str.strip().str.upper().isin(COUNTED)]
    listed, taken = (frame["respondent_id"].isin(own[RESPONDENT]) for own in (table, kept))
    for others, why in (
        (~listed, "answers of respondents who are not among Prolific's participants"),
        (listed & ~taken, "answers of submissions that Prolific does not count (returned, timed out, rejected)"),
    ):
        if n := int(others.sum()):
            left_out[why] += n
    place = field_places(path, "Time taken")
    known = kept.drop(columns=[name for name in kept.columns if name in _NOT_TAKEN])
    known = known.mask(known.isin([*MISSING, "CONSENT_REVOKED", "DATA_EXPIRED"]))
    if "Time taken" in kept:
        known["Time taken"] = to_numbers(kept["Time taken"], place=lambda k: place(int(kept.index[k])))
    return frame[taken].reset_index(drop=True), known.rename(columns=_OURS).assign(**{RESPONDENT: kept[RESPONDENT]})


def read_groups(path: str | Path) -> dict[str, str]:
    r"""Read a table with columns ``respondent_id, group``: the group of each respondent.

    A single column besides the respondents' is the group, whatever its name. Others are ignored, and so are repeated
    rows that say the same (a long table of responses may serve).

    Raises
    ------
    InputError
        If the file cannot be read, a column is missing or has an empty field, or a respondent is in two groups.

    Examples
    --------
    >>> from pathlib import Path
    >>> import irtbench
    >>> _ = Path("groups.csv").write_text("respondent_id,group\nann,people\ngpt,machines\n")
    >>> irtbench.read_groups("groups.csv")
    {'ann': 'people', 'gpt': 'machines'}
    """
    table = with_known_names(read_table(path), "respondent_id")
    others = [name for name in table.columns if name != "respondent_id"]
    if len(others) == 1:
        table = table.rename(columns={others[0]: "group"})
    demand_columns(table, ["respondent_id", "group"], path)
    demand_filled(table, path, "respondent_id", "group")
    return dict(one_value_each(table, "respondent_id", "group", "respondent", f"file {path}").items())  # type: ignore[arg-type]


#: Columns of the rate: ours, and Mechanical Turk's.
APPROVAL_COLUMNS = ("approval_rate", "LifetimeApprovalRate")

_RATE = re.compile(r"\s*(?P<number>\d+(?:\.\d+)?|\.\d+)\s*(?P<percent>%?)\s*(?:\(\d+/\d+\))?\s*")


def read_approval(
    table: pd.DataFrame, answers: Path, respondents: Path | None, *, own: str = "respondent_id", wanted: str, lacks: str
) -> pd.Series[float]:
    """Approval rates from a table of respondents, if there is one, whose names are in the column `own`, or the answers.

    What wants them, and what the file lacks, are said where it has none.
    """
    file = respondents or answers
    if respondents is not None:
        table = read_table(file).rename(columns={own: "respondent_id"})
        demand_columns(table, ["respondent_id"], file)
    column = next((name for name in APPROVAL_COLUMNS if name in table), None)
    if column is None:
        raise InputError(f"{wanted}: file {file}{lacks} {' or '.join(APPROVAL_COLUMNS)}")
    return approval_rates(table, column, place=f"file {file}")


def approval_rates(table: pd.DataFrame, column: str, *, place: str) -> pd.Series[float]:
    """Approval rate of each respondent as a share; NaN where none is given.

    Read are ``97%``, ``97% (45/46)`` (Mechanical Turk), ``.97``, and, if a number of the column is above 1, ``97`` as
    percent.

    Parameters
    ----------
    table
        Text columns ``respondent_id`` and the rates, one row or many for each respondent.
    column
        The column of the rates.
    place
        The file, for the errors.

    Raises
    ------
    InputError
        If a rate is no number from 0 to 1 (or 100 percent), or a respondent has two.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> table = pd.DataFrame({"respondent_id": ["ann", "bob", "ann"], "rate": ["97% (45/46)", "100%", "97% (45/46)"]})
    >>> irtbench.approval_rates(table, "rate", place="workers.csv").to_dict()
    {'ann': 0.97, 'bob': 1.0}
    """
    known = table[~table[column].fillna("").isin(MISSING)]
    given = one_value_each(known, "respondent_id", column, "respondent", place)
    parts = given.str.extract(f"^{_RATE.pattern}$")
    number = parts["number"].astype(np.float64)
    percent = (parts["percent"] == "%").any() or (number > 1).any()
    rate = number / 100 if percent else number
    refuse_first(
        ~((rate >= 0) & (rate <= 1)).to_numpy(),
        lambda k: (
            f"{place}, column {column}: respondent {given.index[k]} has '{given.iloc[k]}'; expected a rate, 97% or .97"
        ),
    )
    return rate
