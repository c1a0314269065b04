"""Responses in categories as codes 0, 1, ...: of a wide table, or of a long one, where pairs may be few or repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from irtbench.data.input_error import InputError, refuse_any, refuse_first
from irtbench.data.responses import ResponseMatrix, Responses, demand_unique, name_first, numbered, positions_of

Levels = Sequence[Any] | Mapping[str, Sequence[Any]] | None
MISSING = -1
MOST_CATEGORIES = 100
PAIR = ("respondent_id", "item_id")


@dataclass(frozen=True, eq=False)
class CodedScores(Responses):
    """A code for each response, and what it stands for.

    Parameters
    ----------
    respondent_ids, item_ids
        Names.
    categories
        What the codes of each item stand for, in their order.
    codes
        0, 1, ..., and -1 where missing, int8: of shape (n_respondents, n_items), or (n_responses,) of a long table.
    places
        Of a long table respondent and item of each response, shape (2, n_responses); None of a wide one.
    """

    respondent_ids: tuple[str, ...]
    item_ids: tuple[str, ...]
    categories: tuple[tuple[Any, ...], ...]
    codes: NDArray[np.int8]
    places: NDArray[np.int64] | None = None

    in_categories: ClassVar[bool] = True
    trials: ClassVar[None] = None

    @classmethod
    def of(
        cls,
        responses: ArrayLike | pd.DataFrame | Responses,
        item_ids: Sequence[str] | None = None,
        categories: Sequence[Sequence[Any]] | None = None,
        levels: Levels = None,
    ) -> CodedScores:
        """Those of a table.

        Parameters
        ----------
        responses
            A row a respondent and a column an item; or a data frame with columns ``respondent_id, item_id, response``
            (or ``score``) and a row a response, in which a pair may be repeated; scores that are coded stay so.
        item_ids, categories
            Of a fit; None for what the responses have.
        levels
            Labels in their order; of levels by item all are categories, given or not.

        Raises
        ------
        InputError
            If there is nothing, no column of an item, a name that is missing or twice, a response that is none of the
            categories, or more than 100.
        """
        if isinstance(responses, CodedScores):
            return responses if item_ids is None else responses.wide().select_items(item_ids)
        if isinstance(responses, Responses):
            if not isinstance(of := responses, ResponseMatrix):
                kinds = "stored and sparse ones are right or wrong; expected scores"
                one_ability = "scores on disk go with one ability; expected some in memory"
                raise InputError(f"responses: {one_ability if of.in_categories else kinds}")
            responses = pd.DataFrame(of.values, index=list(of.respondent_ids), columns=list(of.item_ids))
        if isinstance(responses, pd.DataFrame) and {*PAIR} <= {*responses.columns}:
            if item_ids is None:
                return cls._of_long(responses, levels)
            levels = levels if categories is None else dict(zip(item_ids, categories, strict=True))
            chosen = responses[responses["item_id"].astype(str).isin(item_ids)]
            return cls._of_long(chosen, levels).wide().select_items(item_ids)
        named = isinstance(responses, pd.DataFrame)
        table = responses if isinstance(responses, pd.DataFrame) else pd.DataFrame(np.asarray(responses))
        if table.empty:
            raise InputError("responses: none; expected a row a respondent and a column an item")
        names = [str(name) for name in table.columns] if named else list(numbered("item", table.shape[1]))
        demand_unique(names, "responses: item_id")
        table = table.set_axis(names, axis=1)
        if item_ids is not None:
            if not named and len(names) == len(item_ids):
                table = table.set_axis(list(item_ids), axis=1)
            if lacking := [item for item in item_ids if item not in table.columns]:
                raise InputError(f"responses: no column of item {name_first(lacking)}; expected one for each item")
            table = table[list(item_ids)]
        item = np.broadcast_to(np.arange(table.shape[1]), table.shape)
        codes, own = coded(table.to_numpy().ravel(), item.ravel(), tuple(table.columns), categories, levels)
        respondents = [str(name) for name in table.index] if named else list(numbered("respondent", len(table)))
        demand_unique(respondents, "responses: respondent_id")
        return cls(tuple(respondents), tuple(table.columns), own, codes.reshape(table.shape))

    @classmethod
    def _of_long(cls, table: pd.DataFrame, levels: Levels) -> CodedScores:
        """Those of a row a response."""
        column = next((name for name in ("response", "score") if name in table), None)
        if column is None:
            raise InputError(
                "responses: a long table without a column response; expected respondent_id, item_id, response"
            )
        given = table[table[column].notna()]
        for name in PAIR:
            refuse_first(
                given[name].isna().to_numpy(),
                lambda k, name=name: (
                    f"responses: row {given.index[k]}, column {name}: expected a name but it is missing"
                ),
            )
        (rows, respondents), (columns, items) = (pd.factorize(given[name].astype(str)) for name in PAIR)
        codes, own = coded(given[column].to_numpy(), columns, tuple(map(str, items)), None, levels)
        return cls(tuple(respondents), tuple(items), own, codes, np.stack([rows, columns]).astype(np.int64))

    @property
    def levels(self) -> tuple[Any, ...]:
        """All categories of any item."""
        return tuple(dict.fromkeys(chain(*self.categories)))

    def _counted(self, axis: int) -> NDArray[np.int64]:
        if self.places is None:
            return np.asarray((self.codes != MISSING).sum(axis=1 - axis))
        return np.bincount(self.places[axis], minlength=(self.n_respondents, self.n_items)[axis])

    @property
    def n_by_item(self) -> NDArray[np.int64]:
        """Responses to each item, shape (n_items,)."""
        return self._counted(1)

    @property
    def n_by_respondent(self) -> NDArray[np.int64]:
        """Responses of each respondent, shape (n_respondents,)."""
        return self._counted(0)

    def select_respondents(self, kept: NDArray[np.bool_]) -> CodedScores:
        """Some of the respondents, the items and their categories as they are."""
        ids = tuple(name for name, own in zip(self.respondent_ids, kept, strict=True) if own)
        if self.places is None:
            return CodedScores(ids, self.item_ids, self.categories, self.codes[kept])
        own = kept[self.places[0]]
        places = np.stack([(np.cumsum(kept) - 1)[self.places[0][own]], self.places[1][own]])
        return CodedScores(ids, self.item_ids, self.categories, self.codes[own], places)

    def select_items(self, item_ids: Sequence[str]) -> CodedScores:
        """Some of the items of a wide table, in this order."""
        refusal = "responses: none to item {}; expected some to each item of the fit"
        kept = positions_of(item_ids, self.item_ids, refusal)
        categories = tuple(self.categories[j] for j in kept)
        return CodedScores(self.respondent_ids, tuple(item_ids), categories, self.codes[:, kept])

    def on_one_scale(self, levels: Levels = None) -> CodedScores:
        """The same where each item has the categories of all, in the order of these levels, or of numbers.

        Items that all have equally many share them, whatever their labels.
        """
        together: set[Any] = set().union(*self.categories)
        order = None if levels is None or isinstance(levels, Mapping) else levels
        as_many = len({*map(len, self.categories)}) == 1
        if as_many or (order is None and any(isinstance(value, str) for value in together)):
            return self
        every = tuple(value for value in order or sorted(together) if value in together)
        return self.recoded([every] * self.n_items)

    def recoded(self, categories: Sequence[Sequence[Any]]) -> CodedScores:
        """The same with these categories of each item in their order; a response that is none of them is an error."""
        known = [
            categories_of_item(item, [*own], every, None)
            for item, own, every in zip(self.item_ids, self.categories, categories, strict=True)
        ]
        places = np.zeros((self.n_items, max(map(len, known))), dtype=np.int8)
        for own, every, at in zip(self.categories, known, places, strict=True):
            at[: len(own)] = positions_of(own, every)
        of_item = np.arange(self.n_items) if self.places is None else self.places[1]
        codes = np.where(self.codes == MISSING, np.int8(MISSING), places[of_item, self.codes])
        return replace(self, categories=tuple(known), codes=codes)

    def wide(self) -> CodedScores:
        """The same with a row a respondent; several responses of one to an item are an error."""
        if self.places is None:
            return self
        codes = np.full((self.n_respondents, self.n_items), MISSING, dtype=np.int8)
        codes[self.places[0], self.places[1]] = self.codes
        if int((codes != MISSING).sum()) < len(self.codes):
            raise InputError("responses: several to an item by one respondent; in categories they go with one ability")
        return CodedScores(self.respondent_ids, self.item_ids, self.categories, codes)

    def part(self, start: int, stop: int) -> ResponseMatrix:
        """Consecutive respondents of a wide table: category k of 0, ..., m as k right of m, which is 1 of one alone."""
        codes, top = self.codes[start:stop], [max(len(own) - 1, 1) for own in self.categories]
        trials = np.where(codes == MISSING, 0, top)
        return ResponseMatrix.from_coded(codes, self.respondent_ids[start:stop], self.item_ids, trials)


def coded(
    values: NDArray[Any],
    of_item: NDArray[np.intp],
    item_ids: Sequence[str],
    known: Sequence[Sequence[Any]] | None,
    levels: Levels,
) -> tuple[NDArray[np.int8], tuple[tuple[Any, ...], ...]]:
    """Codes of responses, -1 where missing, and the categories of each item; `of_item` says whose each response is."""
    given, distinct = pd.factorize(values)
    if len(distinct) > MOST_CATEGORIES * len(item_ids):
        raise InputError(f"responses: {len(distinct):,} different ones; expected at most {MOST_CATEGORIES} of an item")
    occurs = np.zeros((len(item_ids), len(distinct) + 1), dtype=bool)
    occurs[of_item, given] = True  # in the last column what is missing
    codes = np.full(occurs.shape, MISSING, dtype=np.int8)
    of_items = []
    for j, item in enumerate(item_ids):
        there = np.flatnonzero(occurs[j, :-1])
        present = distinct[there].tolist()
        every = levels[item] if isinstance(levels, Mapping) else known[j] if known is not None else None
        own = categories_of_item(item, present, every, levels)
        place = {value: k for k, value in enumerate(own)}
        codes[j, there] = [place[value] for value in present]
        of_items.append(own)
    return codes[of_item, given], tuple(of_items)


def categories_of_item(item: str, present: list[Any], every: Sequence[Any] | None, levels: Levels) -> tuple[Any, ...]:
    """The categories of an item in their order: `every`, or those that are present."""
    expected = list(every) if every is not None else list(levels) if levels is not None else None
    if expected is None:
        if wrong := [
            value for value in present if not (isinstance(value, int | float | np.number) and np.isfinite(value))
        ]:
            raise InputError(f"responses: item {item}: {wrong[0]!r} is no number; expected numbers, or levels")
        expected = sorted(int(value) if is_whole(value) else value for value in present)
    own = tuple(value for value in expected if every is not None or value in present)
    refuse_any((
        *((n > 1, f"levels: {written(value)} is there twice; expected each once")
          for value, n in Counter(expected).items()),
        *((True, f"responses: item {item}: {value} is none of its categories; expected {name_first(expected)}")
          for value in sorted(map(written, set(present) - set(expected)))),
        (len(own) > MOST_CATEGORIES,
         f"responses: item {item}: {len(own)} categories; expected at most {MOST_CATEGORIES}"),
    ))  # fmt: skip
    return own


def is_whole(value: Any) -> bool:
    """Whether a category is a whole number, or true or false, written as one."""
    return isinstance(value, bool) or (isinstance(value, float) and value.is_integer())


def written(value: Any) -> str:
    """A category as one writes it: a whole number without a point."""
    return f"{value:g}" if isinstance(value, float) else str(value)
