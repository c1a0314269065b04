"""Scores of one part of a large table after the other: what Spark, Ray and Dask call on their partitions (no torch)."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import numpy as np
import pandas as pd

from irtbench.bank.bank import ItemBank, load_bank
from irtbench.data.checked_settings import shows_fields, with_keywords
from irtbench.data.coded_responses import MISSING
from irtbench.data.input_error import InputError
from irtbench.data.items import UnknownItems
from irtbench.data.responses import ResponseMatrix, demand_unique, name_first
from irtbench.data.shown import counted
from irtbench.scoring.scores import ScoringKeywords, ScoringSettings, check_known, score_responses

#: Types of the columns of scores in Spark's words, by those of pandas.
SPARK_TYPES = {"int64": "bigint", "float64": "double"}


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
