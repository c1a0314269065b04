"""Millions of patterns: scores of a table or of responses on disk, into a file or partition by partition (no torch)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, Unpack

import numpy as np
import pandas as pd

from irtbench.bank.bank import ItemBank, LeftOut, among, item_ids_of, items_left_out, load_bank, scales_of
from irtbench.bank.scale import Scale
from irtbench.data.checked_settings import shows_fields, with_keywords
from irtbench.data.grading import GradingSettings
from irtbench.data.input_error import InputError, demand_choice
from irtbench.data.items import UnknownItems
from irtbench.data.readers.cells import Grader, ScoreLevels
from irtbench.data.readers.large_table import LargeTable, opened_table
from irtbench.data.readers.long_table import long_columns
from irtbench.data.readers.table import demand_columns
from irtbench.data.readers.table_blocks import (
    FIRST_ROWS,
    ColumnChoice,
    Content,
    LongFile,
    RowsScattered,
    long_blocks,
    long_layout,
    ordered_blocks,
    wide_blocks,
)
from irtbench.data.readers.wide_table import is_metadata, likely_respondent_column, matching, share_graded
from irtbench.data.response_blocks import Blocks, blocks_of
from irtbench.data.responses import MISSING, ResponseMatrix, Responses, demand_unique, name_first
from irtbench.data.shown import counted
from irtbench.data.stored_responses import StoredResponses
from irtbench.scoring.adaptive import scores_of
from irtbench.scoring.optional_columns import explain_all, percentiles_by_group, with_groups, with_plausible_values
from irtbench.scoring.part_scores import BlockScores, Processes, ScoresFile
from irtbench.scoring.scores import (
    ScoringKeywords,
    ScoringSettings,
    check_known,
    grading_of,
    in_categories,
    keys_of,
    score_responses,
)

Layout = Literal["auto", "long", "wide"]
SCORES = "scores"  # folder of scores that are finished, in that of stored responses
NOT_TOGETHER = "several processes score a wide Parquet table; expected one, or a single process"


#: Types of the columns of scores in Spark's words, by those of pandas.
SPARK_TYPES = {"int64": "bigint", "float64": "double"}


def score_file(
    bank: ItemBank,
    source: str | Path,
    target: str | Path,
    settings: ScoringSettings | None = None,
    *,
    layout: Layout = "auto",
    content: Content = "auto",
    columns: Mapping[str, str] | ColumnChoice | None = None,
    unknown_items: UnknownItems = "error",
    grading: GradingSettings | None = None,
    left_out: list[LeftOut] | None = None,
    unfinished: Path | None = None,
    progress: Callable[[str], None] = lambda message: None,
    together: Processes | None = None,
    allow_address: Sequence[str] = (),
    norm_groups: Sequence[str] = (),
    plausible: int = 0,
    explain_in: Path | None = None,
) -> int:
    """Score a table of responses or answers, long or wide, into a table with the columns of scores.csv.

    Both are CSV (also gzipped) or Parquet; the table may be a folder of Parquet files, or one at an address. Only a few
    parts of the table are in memory at a time, each scored as ``score_responses`` does. Respondents are in the order
    of their first row.

    Parameters
    ----------
    bank
        The scales.
    source
        Wide: a row for each respondent; a column of names (the first, unless ``columns`` says otherwise) and one for
        each item, of 1, 0 and null, NaN or -1 where missing. Long: a row for each response, with columns of
        respondents, items and responses. The rows of a respondent need not be adjacent; where they are not,
        they are brought into order first, in the folder of temporary files. A column ``trial`` tells several trials of
        a pair apart, or ``n_correct`` and ``n_trials`` replace the responses. Answers are graded by the bank's
        keys; of items in categories there are scores.
    target
        The file to write: Parquet, or CSV by any other name.
    settings
        As for ``score_responses``.
    layout
        ``auto``: long if there are columns of respondents and of items.
    content
        ``auto``: responses in a long table with a column of them, and in a wide one if most of its first cells are.
    columns
        The file's column for ``respondent_id``, and in a long table for ``item_id`` and ``response`` or ``answer``; or
        a `ColumnChoice`, which also says which columns of a wide table are items, and from which score on a response is
        right.
    unknown_items
        What items outside the bank mean: an error that names the first five, or nothing.
    grading
        How answers are compared with the key; None for as the bank's study did.
    left_out
        Here are added the items of the table that the bank's own study left out, which are no error.
    unfinished
        A folder for the scores of finished parts of a wide table, which a run that was stopped leaves there and the
        next takes up; None to begin anew.
    progress
        Called with a line now and then.
    together
        The processes that score a wide Parquet table together, each calling this with the same arguments; the first
        writes the file. They need ``unfinished``.
    allow_address
        Beginnings of addresses that are read besides those that are read anyway, see `LargeTable.open`.
    norm_groups
        Columns of the norm samples, within whose groups there are percentiles too, in the last columns.
    plausible
        So many plausible values of each, see `plausible_values`, in further columns.
    explain_in
        Folder for surprises.csv and difficulty.csv, see `explain`, by a second pass; None for neither.

    Returns
    -------
    int
        Number of respondents.

    Raises
    ------
    InputError
        Naming file, row and column, if a value is none of these, a respondent of a wide table or a pair of respondent
        and item of a long one comes twice; if a file is changed meanwhile; and as ``score_responses`` and
        ``grade_answers``.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> scale = irtbench.Scale("all", items, irtbench.ItemTable.plain(items.item_ids))
    >>> import pandas as pd
    >>> responses.table().to_csv("responses.csv", index=False)
    >>> irtbench.score_file(irtbench.ItemBank((scale,)), "responses.csv", "scores.csv")
    300
    >>> pd.read_csv("scores.csv")[["respondent_id", "n_correct", "percentile"]].round(1).head(2)
      respondent_id  n_correct  percentile
    0            r1          3        50.0
    1            r2          4        68.7
    """
    for name, word, words in (
        ("layout", layout, Layout), ("content", content, Content), ("unknown_items", unknown_items, UnknownItems)
    ):  # fmt: skip
        demand_choice(name, word, words)
    settings = settings or ScoringSettings()
    choice = columns if isinstance(columns, ColumnChoice) else ColumnChoice(columns or {})
    left_out = [] if left_out is None else left_out
    table, rules = opened_table(source, allow_address), grading or grading_of(bank)
    demand_columns(table.names, choice.columns.values(), table.place)
    is_wide = layout == "wide" or (layout == "auto" and not long_columns(table.names, choice.columns))
    if together is not None and not (is_wide and table.text is None and unfinished is not None):
        raise InputError(f"{table.in_words if is_wide else source}: {NOT_TOGETHER}")

    def more(scores: pd.DataFrame, block: ResponseMatrix) -> pd.DataFrame:
        if plausible:
            scores = with_plausible_values(scores, bank, block, settings, plausible, of_many=True)
        return with_groups(scores, percentiles_by_group(bank, block, norm_groups, settings))

    def write(blocks: Blocks, *, trials: bool, place: Path | None = None) -> int:
        finish = more if norm_groups or plausible else None
        scores = BlockScores(bank, blocks, settings, Path(target), finish, unfinished=place, trials=trials)
        n = scores.write(progress, together)
        if explain_in is not None:
            progress("explaining")
            write_explanations(bank, blocks, explain_in)
        return n

    several = in_categories(bank)
    if is_wide:
        respondent, items, others = wide_columns(table, bank, choice)
        left_out[:] = check_known([*items, *others], bank.scales, unknown_items)
        answers = not several and holds_answers(table, items, content, choice.threshold)
        grader = grader_of(bank, choice, rules, answers=answers)
        depends_on = {
            "source": table.identity, "columns": [respondent, *items], "norm groups": [*norm_groups],
            "grading": repr(grader) if choice.threshold or several else repr(rules) if answers else None,
            "plausible": plausible,
        }  # fmt: skip
        blocks = replace(wide_blocks(table, respondent, items, grader), identity=lambda: depends_on)
        n = write(blocks, trials=several, place=unfinished)
    else:
        found = long_layout(table.names, choice.columns, content)
        if found is None or (several and found[0].n_trials):
            what = "responses or answers" if content == "auto" else content
            raise InputError(f"{table.in_words}: expected columns of respondents, items and {what} for a long table")
        columns_of, answers = found
        columns_of = replace(columns_of, trial="") if several else columns_of
        own, grader = items_left_out(bank.scales), grader_of(bank, choice, rules, answers=answers)
        file = LongFile(table, columns_of, item_ids_of(bank), unknown_items, grader, left_out=own.keys())
        trials = several or columns_of.has_trials
        try:
            n = write(long_blocks(file), trials=trials)
        except RowsScattered:
            progress("the rows of a respondent are not adjacent: sorting them first")
            n = write(ordered_blocks(file), trials=trials)
        left_out[:] = among(own, sorted(file.seen_left_out))
    table.demand_unchanged()
    return n


def wide_columns(table: LargeTable, bank: ItemBank, choice: ColumnChoice) -> tuple[str, list[str], list[str]]:
    """The respondents' column of a wide table, those of the bank's items, and the others that are taken for items."""
    respondent = likely_respondent_column(list(table.names), choice.columns)
    names = [name for name in table.names if name != respondent]
    chosen, known = (
        matching(names, table.in_words.partition(" ")[2], choice.items, choice.exclude),
        set(item_ids_of(bank)),
    )
    others = [name for name in chosen if name not in known and (choice.items is not None or not is_metadata(name))]
    return respondent, [name for name in chosen if name in known], others


def grader_of(bank: ItemBank, choice: ColumnChoice, rules: GradingSettings, *, answers: bool) -> Grader:
    """What grades the cells of a table: the items' categories, the bank's keys, or a threshold."""
    if in_categories(bank):
        if choice.threshold is not None:
            raise InputError("threshold: makes scores right or wrong; expected none for items in categories")
        of_each = ((scale.items, k) for scale in bank.scales for k in range(scale.items.n_items))
        return ScoreLevels(of_item={items.item_ids[k]: scores_of(items, k) for items, k in of_each})
    return keys_of(bank, rules) if answers else Grader(choice.threshold)


def write_explanations(bank: ItemBank, blocks: Blocks, folder: Path) -> None:
    """Write the surprises and the accuracy by difficulty of one block after the other."""
    with ScoresFile(folder / "surprises.csv") as surprises, ScoresFile(folder / "difficulty.csv") as difficulty:
        for found in (explain_all(bank, block()) for piece in blocks.pieces for block in piece()):
            texts = dict.fromkeys(["respondent_id", "scale", "item_id", "surprise"], "str")
            surprises.write(surprises.rows_of(found.surprises().astype(texts)))
            if len(found.difficulty):
                difficulty.write(difficulty.rows_of(found.difficulty))


def holds_answers(table: LargeTable, items: Sequence[str], content: Content, threshold: float | None) -> bool:
    """Whether a wide table holds answers, by what most of its first cells are."""
    if content != "auto":
        return content == "answers"
    texts = [item for item in items if table.is_text(item)]
    first = next(table.rows(texts, rows=FIRST_ROWS), None) if len(texts) == len(items) else None
    if first is None:
        return False
    cells = [text or "" for item in texts for text in first.cells(item).texts().to_pylist()]
    return not share_graded(cells, threshold) > 0.5


def score_matrix(
    bank: ItemBank | Scale,
    responses: Responses,
    target: str | Path,
    settings: ScoringSettings | None = None,
    *,
    before: pd.DataFrame | None = None,
    role: str = "",
    together: Processes | None = None,
    progress: Callable[[str], None] = lambda message: None,
) -> None:
    """Score responses, one of a respondent to an item, into a file as ``score_file`` does."""
    whole, columns = ItemBank(scales_of(bank)), None if before is None else list(before.columns)

    def finish(scores: pd.DataFrame, block: ResponseMatrix) -> pd.DataFrame:
        scores = scores.assign(role=role) if role else scores
        return scores if columns is None else scores.reindex(columns=columns)

    blocks, unfinished = blocks_of(responses), None
    if isinstance(responses, StoredResponses) and together is not None:
        depends_on = {"responses": responses.content_hash, "columns": columns, "role": role}
        unfinished, blocks = responses.folder / SCORES, replace(blocks, identity=lambda: depends_on)
    scores = BlockScores(
        whole, blocks, settings or ScoringSettings(), Path(target), finish, before, unfinished, responses.in_categories
    )
    scores.write(progress, together)
    if unfinished is not None and together is not None and together.is_first:
        unfinished.rmdir()


class PartitionScorer:
    """A data frame of responses in, a data frame of scores out, with the same columns for every part.

    A frame is wide: a row for each respondent, a column of their names, and a column for each item, of 1, 0 and NaN (or
    null, or -1) where missing. It can be pickled and sent to other processes and machines; there it needs irtbench
    without torch.

    Parameters
    ----------
    bank
        The scales, or the file that they are in.
    settings
        As for `score_responses`.
    respondent
        The column of names.
    unknown_items
        What columns that are no items of the bank mean: an error, or nothing.
    keywords
        Of the settings: ``method="wle"``.

    Raises
    ------
    InputError
        When called: if the column of names is missing, a name is missing or comes twice, a response is none of these,
        or as `score_responses`.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> bank = irtbench.ItemBank((irtbench.Scale("all", items, irtbench.ItemTable.plain(items.item_ids)),))
    >>> scorer = irtbench.PartitionScorer(bank)
    >>> part = pd.DataFrame([[1, 1, 1, 1, 0, 0], [1, 1, 0, 1, np.nan, 1]], columns=items.item_ids)
    >>> scorer(part.assign(respondent_id=["ann", "bob"]))[["respondent_id", "n_items", "theta"]].round(2)
      respondent_id  n_items  theta
    0           ann        6   0.49
    1           bob        5   0.72
    """

    @shows_fields(ScoringSettings)
    def __init__(
        self,
        bank: ItemBank | str | Path,
        settings: ScoringSettings | None = None,
        *,
        respondent: str = "respondent_id",
        unknown_items: UnknownItems = "error",
        **keywords: Unpack[ScoringKeywords],
    ) -> None:
        self.bank = bank if isinstance(bank, ItemBank) else load_bank(bank)
        self.settings = with_keywords(settings or ScoringSettings(), keywords)
        self.respondent, self.unknown_items = respondent, unknown_items

    def __repr__(self) -> str:
        return f"<PartitionScorer: {counted(len(self.bank.scales), 'scale')}, {self.settings.method}>"

    def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Scores of the respondents of one frame, columns of scores.csv, a row for each respondent and scale."""
        if frame.empty:
            return self.empty()
        ids = self._names(frame)
        known = {item for scale in self.bank.scales for item in scale.items.item_ids}
        items = [str(name) for name in frame.columns if name != self.respondent]
        check_known(items, self.bank.scales, self.unknown_items)
        items = [item for item in items if item in known]
        try:
            values = frame[items].to_numpy(dtype=np.float32, na_value=np.nan)
        except (TypeError, ValueError):
            raise InputError("responses: expected 1, 0 or missing but a column holds other values") from None
        responses = ResponseMatrix(np.where(values == MISSING, np.nan, values), ids, tuple(items))
        return score_responses(self.bank, responses, self.settings)

    def empty(self) -> pd.DataFrame:
        """No scores, with the columns and types that there are: Dask's ``meta``."""
        items = self.bank.scales[0].items.item_ids
        one = pd.DataFrame([[1.0] * len(items)], columns=list(items)).assign(**{self.respondent: "nobody"})
        return self(one).iloc[:0]

    def schema(self) -> str:
        """The columns and types in Spark's words, for ``mapInPandas``."""
        return ", ".join(f"{name} {SPARK_TYPES.get(str(kind), 'string')}" for name, kind in self.empty().dtypes.items())

    def _names(self, frame: pd.DataFrame) -> tuple[str, ...]:
        if self.respondent not in frame:
            raise InputError(f"responses: no column {self.respondent}; it has: {name_first(list(map(str, frame)))}")
        names = frame[self.respondent]
        if names.isna().any():
            raise InputError(f"responses: column {self.respondent}: expected a name in every row")
        ids = tuple(names.astype(str).to_numpy(dtype=object).tolist())
        demand_unique(ids, "responses: respondents of a part")
        return ids
