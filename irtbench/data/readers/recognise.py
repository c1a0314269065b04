"""Answers or responses from files of any format: recognise it by content, say which it is, read it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, Unpack

import numpy as np
import pandas as pd

from irtbench.data.how_to_read import HowToRead, ReadingOptions
from irtbench.data.input_error import InputError, demand_choice, refuse_any
from irtbench.data.place import address_of
from irtbench.data.readers.large_table import opened_table
from irtbench.data.readers.long_table import (
    OF_MODELS,
    LongTable,
    column_options,
    item_and_value,
    likely_column,
    long_columns,
    long_from_frame,
    plain,
)
from irtbench.data.readers.observations import RECORDS, Reader, Wanted, collect, names_of, record_table
from irtbench.data.readers.records import Head, look_at
from irtbench.data.readers.respondents import join_respondents, with_respondents
from irtbench.data.readers.sources import FORMATS_OF_MODELS, OR_A_TABLE, READERS, Sources, find_sources
from irtbench.data.readers.table import coded_cells, demand_columns, read_table, to_scores
from irtbench.data.readers.trials import PAIR, join_items, reduce_trials, with_trials
from irtbench.data.readers.wide_table import (
    choose_respondent_column,
    item_columns,
    likely_respondent_column,
    matrix_from_frame,
    share_graded,
    wide_from_frame,
    without_header_rows,
)
from irtbench.data.responses import Responses, name_first
from irtbench.data.sparse_responses import responses_from_long

logger = logging.getLogger(__name__)

Content = Literal["auto", "responses", "answers"]
TableFormat = Literal["long", "wide"]
#: ``auto``, ``long``, ``wide``, or the name of an outside format (see ``FORMATS``).
Format = str
FORMATS = ("auto", "long", "wide", *(reader.name for reader in READERS))

Paths = str | Path | Sequence[str | Path]


def read(path: Paths, *, content: Content = "auto", **how: Unpack[ReadingOptions]) -> LongTable:
    r"""Read files of any known format: responses where there are some, otherwise answers.

    What comes back is taken wherever responses or answers are wanted; its ``frame`` is the table, and it says the
    format and what was left out.

    Parameters
    ----------
    path
        A file, a folder of files (a study: a system each), or several of them.
    content
        ``responses`` (graded, 1 or 0), ``answers`` (raw), or ``auto`` for responses where the files hold some.
    **how
        As for `read_responses`.

    Raises
    ------
    InputError
        As `read_responses`.

    Examples
    --------
    >>> from pathlib import Path
    >>> import irtbench
    >>> _ = Path("wide.csv").write_text("name,i1,i2\nann,1,0\nbob,,1\n")
    >>> found = irtbench.read("wide.csv")
    >>> found
    <LongTable: wide table of 3 responses, 2 respondents, 2 items>
    >>> irtbench.as_responses(found)
    <ResponseMatrix: 2 respondents x 2 items, 75% observed, 67% correct>
    """
    demand_choice("content", content, Content)
    graded = holds_responses(path, **how) if content == "auto" else content == "responses"
    return _Files(path, Wanted.of(how, want="response" if graded else "answer")).long_table()


def read_responses(path: Paths, **how: Unpack[ReadingOptions]) -> LongTable:
    r"""Read graded responses.

    Parameters
    ----------
    path
        A file, a folder of files (a study: a system each), or several of them.
    format
        Their format; ``auto`` recognises it by content, and the result says which it was.
    columns
        For a long or wide table: the file's column for any of our names, where it is not to be recognised.
    trials
        What becomes of repeated (respondent, item) pairs; see ``reduce_trials``.
    threshold
        For scores that are not 1 or 0: 1 where score >= threshold.
    metric
        The score to take where a file holds several: a scorer, a metric, a question; of several names the first that
        a file has.
    errored
        Whether items at which a system's run failed are missing or wrong.
    join
        Items by name or by the hash of their content; see ``join_items``.
    items
        For a wide table: the pattern of the columns that are items, such as ``Q*``.
    exclude
        For a wide table: names or patterns of columns that are no items.
    respondents
        A table of respondents to join by their names, see ``join_respondents``.
    respondent
        Whom a log's responses are of: the ``model`` it names; each ``run`` of a model; each ``file``; each ``folder``;
        or what the group of a pattern finds in the file's path, ``runs/(.+?)/``.

    Raises
    ------
    InputError
        Naming file, row or record, and field of what is wrong; see ``long_from_frame`` and ``wide_from_frame``.

    Examples
    --------
    >>> from pathlib import Path
    >>> import irtbench
    >>> _ = Path("long.csv").write_text("worker,task,score\nann,i1,0.9\nann,i2,0.2\nbob,i1,0.7\n")
    >>> irtbench.read_responses("long.csv", threshold=0.5).frame
      respondent_id item_id  response
    0           ann      i1       1.0
    1           ann      i2       0.0
    2           bob      i1       1.0
    """
    return _Files(path, Wanted.of(how)).long_table()


def read_response_matrix(path: Paths, **how: Unpack[ReadingOptions]) -> Responses:
    """Read graded responses into what `responses_from_long` makes of them; a wide table is never made long.

    Parameters and errors as for ``read_responses``.
    """
    return _Files(path, Wanted.of(how)).matrix()


def read_scores(path: Paths, *, levels: Sequence[str] = (), **how: Unpack[ReadingOptions]) -> pd.DataFrame:
    r"""Read scores in several categories: grades, ratings, partial credit.

    Parameters
    ----------
    path
        As for `read_responses`.
    levels
        Labels in their order, the lowest first, where responses are not numbers.
    **how
        As for `read_responses`; of repeated (respondent, item) pairs the first or the last may count.

    Returns
    -------
    scores
        A row a respondent, a column an item, NaN or None where missing: what `fit_categories` takes.

    Raises
    ------
    InputError
        As `read_responses`, and where a response is none of the levels, or trials are to be reduced otherwise.

    Examples
    --------
    >>> from pathlib import Path
    >>> import irtbench
    >>> _ = Path("grades.csv").write_text("respondent_id,item_id,score\nann,i1,good\nann,i2,poor\nbob,i1,fair\n")
    >>> irtbench.read_scores("grades.csv", levels=["poor", "fair", "good"])
           i1    i2
    ann  good  poor
    bob  fair   NaN
    """
    frame = read_score_table(path, levels=levels, **how).frame
    respondents, items = (frame[name].drop_duplicates().tolist() for name in PAIR)
    wide = pd.DataFrame(frame.pivot(index="respondent_id", columns="item_id", values="response"))
    wide = wide.reindex(index=respondents, columns=items).rename_axis(index=None, columns=None)
    return labelled(wide, levels) if levels else wide


def labelled(places: pd.DataFrame, levels: Sequence[str]) -> pd.DataFrame:
    """The labels at these places among the levels; None where missing."""
    names = np.array([*levels, None], dtype=object)
    return places.apply(lambda column: names[column.fillna(len(levels)).astype(int)])


def read_score_table(path: Paths, *, levels: Sequence[str] = (), **how: Unpack[ReadingOptions]) -> LongTable:
    """The same as a long table with numbers in ``response``: of labels their place among the levels."""
    asked = Wanted.of(how, raw=True, levels=tuple(levels))
    refuse_any((
        (asked.threshold is not None,
         "threshold: makes scores right or wrong; expected none for scores in categories"),
        (asked.trials not in ("error", "first", "last", "count"),
         f"trials: {asked.trials} goes with right and wrong; expected error, first or last of scores"),
    ))  # fmt: skip
    asked = replace(asked, trials="error" if asked.trials == "count" else asked.trials)
    table = _Files(path, asked).long_table()
    if not {"response"} <= {*table.frame.columns}:
        raise InputError("scores: the table counts right responses; expected a column of scores")
    return table


def read_answers(path: Paths, *, levels: Sequence[str] = (), **how: Unpack[ReadingOptions]) -> LongTable:
    r"""Read raw answers; as ``read_responses``, of whose parameters ``threshold`` and ``errored`` say nothing here.

    With ``levels`` answers are these grades, and may be in a column of scores.

    Examples
    --------
    >>> from pathlib import Path
    >>> import irtbench
    >>> _ = Path("long.csv").write_text("respondent_id,item_id,answer\nann,i1,yes\nbob,i1,no\n")
    >>> irtbench.read_answers("long.csv").frame
      respondent_id item_id answer
    0           ann      i1    yes
    1           bob      i1     no
    """
    table = _Files(path, Wanted.of(how, want="answer", levels=tuple(levels))).long_table()
    if not levels:
        return table
    pairs = table.frame[[*PAIR]]
    places = to_scores(
        table.frame["answer"].fillna(""),
        place=lambda row: "file {}, respondent {}, item {}".format(table.path, *pairs.iloc[row]),
        levels=levels,
    )
    return replace(table, frame=table.frame.assign(answer=labelled(pd.DataFrame({"answer": places}), levels)["answer"]))


def holds_responses(path: Paths, **how: Unpack[ReadingOptions]) -> bool:
    """Whether a file holds graded responses (perhaps besides raw answers) or raw answers only.

    A long table does if it has a column of responses; a wide one if more than half of its filled cells are 1 or 0,
    so that a single slip is still reported as a wrong response; runs of systems do, exports of crowd platforms do not.
    Parameters and errors as for ``read_responses``.
    """
    asked = HowToRead.of(how)
    sources = _sources(path, asked, Counter())
    if sources.reader is not None:
        return sources.reader.holds == "response"
    first = sources.heads[0].path
    frame = _of_its_file(_read_frame(sources.heads[0]), first, asked)
    names = list(frame.columns)
    if _choose_format(frame, first, asked) == "long":
        return bool({"response", "n_trials"} & long_columns(names, asked.columns).keys())
    respondent = choose_respondent_column(frame, first, asked.columns)
    chosen, _ = item_columns(frame, respondent, first, items=asked.items, exclude=asked.exclude)
    return share_graded(coded_cells(without_header_rows(frame), chosen).to_list()) > 0.5


def holds_models(path: Paths, **how: Unpack[ReadingOptions]) -> bool:
    """Whether the respondents of a file are models: by its format, or by what the column of their names is called."""
    asked = HowToRead.of(how)
    sources = _sources(path, asked, Counter())
    if sources.reader is not None:
        return sources.reader.name in FORMATS_OF_MODELS
    head = sources.heads[0]
    names = names_of(head) if head.kind in RECORDS else list(head.columns)
    respondent = long_columns(names, asked.columns).get("respondent_id")
    return plain(respondent or likely_respondent_column(names or [""], asked.columns)) in OF_MODELS


def is_outside(path: str | Path) -> bool:
    """Whether a file is of an outside format, or a folder: no long or wide table of ours."""
    path = Path(path)
    if path.is_dir():
        return True
    head = look_at(path)
    return any(reader.recognises(head) or reader.accompanies(head) for reader in READERS)


def recognise(frame: pd.DataFrame, path: str | Path, columns: Mapping[str, str]) -> TableFormat:
    """Tell a long table from a wide one.

    It is long if it has a column for respondents and one for items, under names we know or that ``columns`` gives;
    wide if not and each row has its own name in the respondents' column (the first, unless ``columns`` names it).
    """
    names = list(frame.columns)
    if long_columns(names, columns):
        return "long"
    first = likely_respondent_column(names, columns)
    of_items = likely_column([first], "item_id") is not None and first not in columns.values()
    if of_items and likely_column(names, "respondent_id") is None:
        raise InputError(
            f"file {path}: a row for each item (column '{first}') and no column of respondents; right answers are "
            f"given as --items FILE, rows that are respondents named by --column respondent_id={first}, {OR_A_TABLE}"
        )
    if len(names) > 1 and "item_id" not in columns and frame[first].is_unique:
        return "wide"
    repeated = frame[first][frame[first].duplicated()].unique()
    if len(names) > 2 and first == "respondent_id" and repeated.size:
        raise InputError(
            f"file {path}, column {first}: {name_first(list(repeated))} is there more than once; expected one row for "
            "each respondent of a wide table, or a column item_id of a long one"
        )
    raise InputError(
        f"file {path}: neither a long table (columns respondent_id, item_id, ...) nor a wide one (a row for each "
        f"respondent, named in column '{first}'); it has: {name_first(names, most=12)}; "
        f"expected them named: {column_options(columns, names)}, a first column with a name for each row, {OR_A_TABLE}"
    )


def _choose_format(frame: pd.DataFrame, path: str | Path, how: HowToRead) -> TableFormat:
    demand_columns(frame, list(how.columns.values()), path)
    if how.format == "long":
        return "long"
    return "wide" if how.format == "wide" else recognise(frame, path, how.columns)


def _read_frame(head: Head) -> pd.DataFrame:
    if head.kind in RECORDS:
        return record_table(head)
    return read_table(head.path) if address_of(head.path) is None else opened_table(head.path).texts()


def _of_its_file(frame: pd.DataFrame, path: Path, how: HowToRead) -> pd.DataFrame:
    """A table of ours; one of items and responses, of nobody, is of whom the name of its file says."""
    names = list(frame.columns)
    if how.format == "wide" or long_columns(names, how.columns) or item_and_value(names, how.columns) is None:
        return frame
    return frame.assign(respondent_id=path.name.split(".")[0])


def _sources(path: Paths, how: HowToRead, left_out: Counter[str]) -> Sources:
    if how.format not in FORMATS:
        raise InputError(f"format: expected one of {', '.join(FORMATS)} but got '{how.format}'")
    paths = [path] if isinstance(path, str | Path) else list(path)
    if not paths:
        raise InputError("no file named; expected at least one")
    return find_sources([Path(one) for one in paths], how, left_out)


class _Files:
    """Files found and what the user decided about them; they are read when they are asked for.

    Parameters
    ----------
    path
        As for ``read_responses``.
    wanted
        What is taken from them.
    """

    def __init__(self, path: Paths, wanted: Wanted) -> None:
        self.wanted, self.left_out = wanted, Counter[str]()
        self.sources = _sources(path, wanted, self.left_out)
        self.place = str(path) if isinstance(path, str | Path) else name_first([str(one) for one in path], most=2)
        of_ours = self.sources.reader is None
        refuse_any((
            (of_ours and bool(wanted.metric),
             "metric: a long or wide table has one; name its column by columns={'response': ...}"),
            (of_ours and wanted.respondent != "model",
             "respondent: a long or wide table names them; expected its column (--column respondent_id=...)"),
        ))  # fmt: skip

    def long_table(self) -> LongTable:
        """Observations, one a row."""
        reader = self.sources.reader
        return self._finished(self._outside(reader) if reader is not None else self._tables(self._frames()))

    def matrix(self) -> Responses:
        """Responses; a wide table is never made long."""
        added = self.sources.participants or self.wanted.respondents is not None
        if self.sources.reader is not None or added or self.wanted.join or self.wanted.trials in ("mean", "all"):
            return responses_from_long(self.long_table().frame)
        frames = self._frames()
        if len(frames) > 1 or frames[0][1] == "long":
            return responses_from_long(self._finished(self._tables(frames)).frame)
        return matrix_from_frame(frames[0][0], self.sources.heads[0].path, self.wanted)

    def _finished(self, table: LongTable) -> LongTable:
        """Items joined, repeated pairs reduced, and what is known of participants added."""
        frame = join_items(table.frame, self.wanted.join, self.place)
        if self.wanted.trials == "mean" or "n_trials" in frame.columns or frame.duplicated(PAIR).any():
            frame = reduce_trials(
                with_trials(frame), self.wanted.trials, threshold=self.wanted.threshold, place=self.place
            )
        for table_of in (*self.sources.participants, *([self.wanted.respondents] if self.wanted.respondents else [])):
            frame = join_respondents(frame, table_of, self.left_out)
        taken = ", ".join(f"{ours} from '{theirs}'" for ours, theirs in table.columns.items())
        logger.info("file %s: read as a %s table of %ss, %s", self.place, table.format, self.wanted.want, taken)
        return replace(table, frame=frame, left_out=dict(self.left_out))

    def _outside(self, reader: Reader) -> LongTable:
        """Files of an outside format."""
        if self.wanted.columns:
            raise InputError(
                f"columns: {name_first(list(self.wanted.columns))} cannot be named for {reader.title} ({self.place})"
            )
        parts = [collect(reader, head, self.wanted, self.left_out) for head in self.sources.heads]
        parts = with_respondents(parts, [head.path for head in self.sources.heads], self.wanted.respondent)
        frame = pd.concat([part for part in parts if not part.empty] or parts[:1], ignore_index=True)
        if frame.empty:
            why = "; ".join(f"{n} {reason}" for reason, n in self.left_out.items() if n)
            raise InputError(
                f"{self.place}: a file of {reader.title} without any {self.wanted.want}{f' ({why})' if why else ''}"
            )
        if "trial" in frame.columns and not frame.duplicated(PAIR).any():
            frame = frame.drop(columns="trial")  # one trial of each item says nothing
        return LongTable(frame, self.sources.heads[0].path, reader.name, {})

    def _frames(self) -> list[tuple[pd.DataFrame, TableFormat]]:
        """Tables of ours, and whether they are long or wide."""
        read = [(_read_frame(head), head.path) for head in self.sources.heads]
        frames = [(_of_its_file(frame, path, self.wanted), path) for frame, path in read]
        named = [path for (before, path), (after, _) in zip(read, frames, strict=True) if after is not before]
        if named:
            logger.warning(
                "file %s: no column of respondents, so that its name says whose responses it holds",
                name_first([str(path) for path in named], most=2),
            )
        found = [(frame, _choose_format(frame, path, self.wanted)) for frame, path in frames]
        if len({layout for _, layout in found}) > 1:
            raise InputError(
                "tables of two layouts: "
                + "; ".join(f"file {path}: {layout}" for (_, path), (_, layout) in zip(frames[:5], found, strict=False))
            )
        return found

    def _tables(self, frames: Sequence[tuple[pd.DataFrame, TableFormat]]) -> LongTable:
        """Tables of ours as one."""
        tables = []
        for head, (frame, layout) in zip(self.sources.heads, frames, strict=True):
            take = long_from_frame if layout == "long" else wide_from_frame
            tables.append(take(frame, head.path, self.wanted))
            self.left_out.update(tables[-1].left_out)
        frame = pd.concat([table.frame for table in tables], ignore_index=True) if len(tables) > 1 else tables[0].frame
        return replace(tables[0], frame=frame)
