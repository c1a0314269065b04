"""The response matrix: respondents x items of 1, 0 or NaN, or k right of n trials, and its long form.

It is stored at a byte a response, and given as floating point numbers with NaN for what is missing.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from irtbench.data.input_error import InputError, demand_choice, refuse_first
from irtbench.data.shown import Shown, counted

MISSING = -1  # the code of a missing response


def coded(values: Any) -> NDArray[Any]:
    """Numbers of correct responses, NaN where missing, in the smallest type that holds them, with `MISSING` for NaN.

    What is no whole number, or negative, stays as it is, to be refused by who knows whose response it is.
    """
    given = np.asarray(values)
    if given.dtype.kind not in "biuf":
        given = given.astype(np.float64)
    for kind in (np.int8, np.int32):
        with np.errstate(invalid="ignore"):  # of numbers too large for it, which then differ
            found: NDArray[Any] = given.astype(kind)
        found[np.isnan(given)] = MISSING
        if not ((found != given) & (given == given)).any() and not (given < 0).any():
            return found
    return given.astype(np.float64)


def decoded(codes: NDArray[Any]) -> NDArray[np.float64]:
    """Floating point numbers with NaN for what is missing."""
    found = codes.astype(np.float64)
    found[codes == MISSING] = np.nan
    return found


MOST_TRIALS = 1_000_000  # of a respondent at an item


def wrong_counts(right: NDArray[Any], asked: NDArray[Any]) -> NDArray[np.bool_]:
    """Where these are no whole number right of a whole number of trials, or the trials are too many."""
    wrong = (right < 0) | (right > asked) | (asked > MOST_TRIALS)
    wrong |= (right != np.floor(right)) | (asked != np.floor(asked))
    return wrong


Duplicates = Literal["error", "first", "last"]


def hash_of(*parts: Any) -> str:
    """A hash of arrays and of what else there is, by its repr."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(np.ascontiguousarray(part).data if isinstance(part, np.ndarray) else repr(part).encode())
    return digest.hexdigest()


def name_first(values: Sequence[object], *, most: int = 5) -> str:
    """List the first few values for an error message: ``'a, b, c and 4 more'``."""
    shown = ", ".join("''" if value == "" else str(value) for value in values[:most])
    return shown if len(values) <= most else f"{shown} and {len(values) - most} more"


def demand_unique(names: Sequence[str], what: str, *, expected: str = "") -> None:
    """Refuse names of which one comes twice, perhaps saying what is expected."""
    if len(set(names)) < len(names):
        index = pd.Index(names)
        repeated = list(index[index.duplicated()].unique())
        raise InputError(f"{what} must be unique but {name_first(repeated)} is repeated{expected}")


def numbered(prefix: str, n: int) -> tuple[str, ...]:
    """Names for what has none: ``item1, item2, ...``."""
    return tuple(f"{prefix}{k}" for k in range(1, n + 1))


def positions_of(item_ids: Sequence[str], known: Sequence[str], refusal: str = "") -> NDArray[np.intp]:
    """Positions of these items among the known ones, shape (n_items,).

    One that is not there is an `InputError` that names it: a sentence with `{}` for the names, of responses if empty.
    """
    position = {item: k for k, item in enumerate(known)}
    unknown = [item for item in item_ids if item not in position]
    if unknown:
        nobody = f": nobody was asked it; expected some of {name_first(list(known), most=3)}"
        named = name_first(unknown)
        raise InputError(refusal.replace("{}", named) or f"responses: unknown item {named}{nobody}")
    return np.array([position[item] for item in item_ids], dtype=np.intp)


def trials_words(got: Any) -> str:
    """What was expected in the place of this number of trials."""
    return "a whole number of trials" + (f", at most {MOST_TRIALS:,}," if got > MOST_TRIALS else "")


def share_correct(n_correct: NDArray[Any], n: NDArray[np.int64]) -> NDArray[np.float64]:
    """Shares of correct responses, NaN where there was none."""
    return np.divide(n_correct, n, out=np.full(n.shape, np.nan), where=n > 0)


class Responses(Shown):
    """Graded responses of respondents to items, wherever they are: in memory, as a list of pairs, or on disk.

    Whoever takes responses asks no more of them than what is defined here: names, numbers, and parts of them in memory.
    """

    #: Whether few of them are in memory at once.
    on_disk: ClassVar[bool] = False
    #: Whether they are not right or wrong but categories of each item, of which their parts are k right of m.
    in_categories: ClassVar[bool] = False
    #: Respondents who are worked on together where it is all the same; None for all.
    at_once: ClassVar[int | None] = None

    if TYPE_CHECKING:  # what all have

        @property
        @abstractmethod
        def respondent_ids(self) -> tuple[str, ...]:
            """Names of the rows."""

        @property
        @abstractmethod
        def item_ids(self) -> tuple[str, ...]:
            """Names of the columns."""

        @property
        @abstractmethod
        def trials(self) -> NDArray[np.int64] | None:
            """Numbers of trials, where there are several of a pair."""

        @property
        @abstractmethod
        def n_by_item(self) -> NDArray[np.int64]:
            """Number of observed responses to each item, each trial being one, shape (n_items,)."""

        @property
        @abstractmethod
        def n_by_respondent(self) -> NDArray[np.int64]:
            """The same of each respondent, shape (n_respondents,)."""

        @abstractmethod
        def select_items(self, item_ids: Sequence[str]) -> Self:
            """Keep these items, in this order."""

        @abstractmethod
        def select_respondents(self, keep: NDArray[np.bool_]) -> Self:
            """Keep the respondents where ``keep`` (shape (n_respondents,)) is true, in their order."""

        @abstractmethod
        def part(self, start: int, stop: int) -> ResponseMatrix:
            """Consecutive respondents as a matrix in memory."""

        # what some have
        @property
        def categories(self) -> tuple[tuple[Any, ...], ...]: ...  # noqa: D102
        @property
        def levels(self) -> tuple[Any, ...]: ...  # noqa: D102
        @property
        def correct(self) -> NDArray[Any]: ...  # noqa: D102
        @property
        def n_correct_by_item(self) -> NDArray[np.int64]: ...  # noqa: D102
        @property
        def content_hash(self) -> str: ...  # noqa: D102

    @property
    def n_respondents(self) -> int:
        """Number of rows."""
        return len(self.respondent_ids)

    @property
    def n_items(self) -> int:
        """Number of columns."""
        return len(self.item_ids)

    @property
    def n_responses(self) -> int:
        """Number of observed responses, each trial being one."""
        return int(self.n_by_item.sum())

    @property
    def n_pairs(self) -> int:
        """Number of pairs of a respondent and an item with a response, or several."""
        return self.n_responses

    @cached_property
    def is_complete(self) -> bool:
        """Whether no response is missing."""
        return self.n_pairs == self.n_respondents * self.n_items

    @property
    def unanswered(self) -> NDArray[np.intp]:
        """Places of the respondents without any response."""
        return np.flatnonzero(self.n_by_respondent == 0)

    def proportion_correct(self) -> NDArray[np.float64]:
        """Share of correct among the observed responses of each item, NaN where none was observed, shape (n_items,)."""
        return share_correct(self.n_correct_by_item, self.n_by_item)

    def log_coefficients(self) -> float:
        """Sum of the logarithms of the binomial coefficients n over k, 0 without trials.

        A likelihood here is that of the responses one by one. Added to it, this gives that of the numbers right.
        """
        if self.trials is None:
            return 0.0
        n, k = self.trials, np.nan_to_num(self.correct)
        return float((gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)).sum())

    def answered(self) -> Self:
        """Leave out respondents who have no response to any of these items."""
        without = self.unanswered
        if not len(without):
            return self
        return self.select_respondents(~np.isin(np.arange(self.n_respondents), without))

    def names_at(self, respondents: NDArray[np.intp]) -> tuple[str, ...]:
        """Names of some respondents, by their places in ascending order."""
        return tuple(self.respondent_ids[k] for k in respondents)

    def idle_ids(self) -> tuple[str, ...]:
        """Names of the respondents without any response to these items."""
        return self.names_at(self.unanswered)

    def to_matrix(self) -> ResponseMatrix:
        """The same as a matrix in memory."""
        return self.part(0, self.n_respondents)

    def sample(self, respondents: NDArray[np.intp]) -> ResponseMatrix:
        """Some respondents as a matrix in memory, by their places in ascending order."""
        return self.select_respondents(np.isin(np.arange(self.n_respondents), respondents)).to_matrix()

    def parts(self, n_respondents: int | None = None) -> Iterator[ResponseMatrix]:
        """All respondents in their order, so many at a time, as matrices in memory; a matrix comes whole."""
        most = n_respondents or self.at_once or max(1, self.n_respondents)
        for start in range(0, max(1, self.n_respondents), most):
            yield self.part(start, min(start + most, self.n_respondents))

    def everybody(self) -> Iterator[ResponseMatrix]:
        """The same with the respondents whose names alone are stored, for they have no response, at the end."""
        return self.parts()

    def _long(
        self, rows: NDArray[np.intp], columns: NDArray[np.intp], right: NDArray[Any], asked: NDArray[np.int64] | None
    ) -> pd.DataFrame:
        """The long table of these pairs; see `ResponseMatrix.to_long`."""
        names = {
            "respondent_id": np.array(self.respondent_ids, dtype=object)[rows],
            "item_id": np.array(self.item_ids, dtype=object)[columns],
        }
        if asked is None:
            return pd.DataFrame(names | {"response": right.astype(np.int8)})
        return pd.DataFrame(names | {"n_correct": right.astype(np.int64), "n_trials": asked})

    def in_short(self) -> str:
        """``1000 respondents x 30 items, 98% observed, 61% correct``."""
        size = f"{counted(self.n_respondents, 'respondent')} x {counted(self.n_items, 'item')}"
        n_cells, n = self.n_respondents * self.n_items, self.n_responses
        if n == 0:
            return f"{size}, none observed"
        several = f" with {n / self.n_pairs:.3g} trials" if n > self.n_pairs else ""
        levels = counted(len(self.levels), "level") if self.in_categories else ""
        last = levels or f"{self.n_correct_by_item.sum() / n:.0%} correct"
        return f"{size}, {self.n_pairs / n_cells:.0%} observed{several}, {last}"


def resolve_duplicates(table: pd.DataFrame, *, duplicates: Duplicates = "error") -> pd.DataFrame:
    """Keep one row for each (respondent, item) of a long table of answers or responses."""
    demand_choice("long table: duplicates", duplicates, Duplicates)
    pair = table[["respondent_id", "item_id"]]
    if pair.isna().any(axis=None):
        raise InputError("long table: expected a respondent_id and an item_id in every row but one is missing")
    repeated = pair.duplicated(keep="last" if duplicates == "last" else "first")
    if not repeated.any():
        return table
    if duplicates == "error":
        pairs = [f"({r}, {i})" for r, i in pair[repeated].drop_duplicates().itertuples(index=False)]
        raise InputError(f"long table: duplicate (respondent, item) pairs: {name_first(pairs)}; expected one each")
    return table[~repeated]


@dataclass(frozen=True, eq=False, init=False)
class ResponseMatrix(Responses):
    """Graded responses of respondents (rows) to items (columns), one each or the number right of several trials.

    Parameters
    ----------
    correct
        Shape (n_respondents, n_items); 1 correct, 0 wrong, NaN not observed (the only missing value). With trials the
        number correct of them.
    respondent_ids, item_ids
        Unique names of the rows and columns.
    trials
        Number of trials of each respondent at each item, 0 where not observed, of the same shape. None where no item
        was tried twice, whatever was given.

    Raises
    ------
    InputError
        If shapes and ids do not agree, an id is repeated, a value is none of 1, 0, NaN, or, with trials, is no whole
        number from 0 to the number of trials.
    """

    coded_responses: NDArray[Any]  # whole numbers, -1 where missing: int8, or int32 of over 127 trials right
    respondent_ids: tuple[str, ...]
    item_ids: tuple[str, ...]
    trials: NDArray[np.int64] | None

    def __init__(
        self,
        correct: ArrayLike,
        respondent_ids: Sequence[str],
        item_ids: Sequence[str],
        trials: NDArray[Any] | None = None,
    ) -> None:
        self._hold(coded(correct), tuple(respondent_ids), tuple(item_ids), trials)

    @classmethod
    def from_coded(
        cls,
        values: NDArray[Any],
        respondent_ids: tuple[str, ...],
        item_ids: tuple[str, ...],
        trials: NDArray[Any] | None = None,
    ) -> ResponseMatrix:
        """The matrix of whole numbers, -1 where missing, as `coded_responses` are; they are checked and not copied."""
        found = cls.__new__(cls)
        found._hold(values, respondent_ids, item_ids, trials)
        return found

    def _hold(
        self,
        values: NDArray[Any],
        respondent_ids: tuple[str, ...],
        item_ids: tuple[str, ...],
        trials: NDArray[Any] | None,
    ) -> None:
        if values.shape != (len(respondent_ids), len(item_ids)):
            raise InputError(
                f"response matrix: shape {values.shape} does not fit {len(respondent_ids)} respondents x "
                f"{len(item_ids)} items"
            )
        demand_unique(respondent_ids, "response matrix: respondent_id")
        demand_unique(item_ids, "response matrix: item_id")
        values.setflags(write=False)
        vars(self).update(coded_responses=values, respondent_ids=respondent_ids, item_ids=item_ids, trials=None)
        if trials is not None:
            vars(self)["trials"] = self._checked(trials)
        if self.trials is None:
            refuse_first(
                values > 1 if values.dtype != np.float64 else ~((values == 0) | (values == 1) | np.isnan(values)),
                lambda row, column: (
                    f"{self._place(row, column)}: expected 1, 0 or missing but got {values[row, column]:g}"
                ),
            )

    @property
    def correct(self) -> NDArray[np.float64]:
        """Responses 1, 0 and NaN, or numbers right of the trials; read-only, made anew whenever they are asked for."""
        if self.coded_responses.dtype == np.float64:  # refused in a moment
            return self.coded_responses
        found = decoded(self.coded_responses)
        found.setflags(write=False)
        return found

    def _checked(self, trials: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """The numbers of trials, None where none is above 1."""
        given = np.asarray(trials)
        correct = self.correct
        if given.shape != correct.shape:
            raise InputError(f"response matrix: trials of shape {given.shape} for responses of {correct.shape}")
        whole = np.nan_to_num(given).astype(np.int64)
        right = np.where(np.isnan(correct), 0, correct)
        refuse_first(
            wrong_counts(right, given) | (np.isnan(correct) != (whole == 0)),
            lambda row, column: (
                f"{self._place(row, column)}: expected a whole number right of {trials_words(given[row, column])}, "
                f"missing where that is 0, but got {correct[row, column]:g} of {given[row, column]:g}"
            ),
        )
        whole.setflags(write=False)
        return whole if (whole > 1).any() else None

    def _place(self, row: int, column: int) -> str:
        return f"response matrix: respondent {self.respondent_ids[row]}, item {self.item_ids[column]}"

    @property
    def values(self) -> NDArray[np.float64]:
        """The responses 1, 0 and NaN, for what is defined for one response of a respondent to an item only.

        Raises
        ------
        InputError
            If there are several trials: so that nothing takes a number right for a response.
        """
        demand_single(self, "this")
        return self.correct

    @property
    def observed(self) -> NDArray[np.bool_]:
        """Where a response was observed, shape (n_respondents, n_items)."""
        return self.coded_responses != MISSING

    @property
    def n_trials(self) -> NDArray[np.float64]:
        """Number of responses observed, 0 where missing and else 1 or the trials, shape (n_respondents, n_items)."""
        return (self.observed if self.trials is None else self.trials).astype(np.float64)

    @property
    def shares(self) -> NDArray[np.float64]:
        """Responses 1, 0 and NaN, or the share right of several trials, shape (n_respondents, n_items)."""
        if self.trials is None:
            return self.correct
        return self.correct / np.where(self.trials > 0, self.trials, np.nan)

    @cached_property
    def is_complete(self) -> bool:
        """Whether no response is missing."""
        return not bool((self.coded_responses == MISSING).any())

    @property
    def categories(self) -> tuple[tuple[Any, ...], ...]:
        """What the codes 0, 1, ... of each item mean."""
        return ((0, 1),) * self.n_items

    @property
    def n_pairs(self) -> int:
        """Number of pairs of a respondent and an item with a response, or several."""
        return int(self.n_items_by_respondent.sum())

    @cached_property
    def n_by_respondent(self) -> NDArray[np.int64]:
        """Number of observed responses of each respondent, each trial being one, shape (n_respondents,)."""
        return self.n_items_by_respondent if self.trials is None else self.trials.sum(axis=1)

    @cached_property
    def n_items_by_respondent(self) -> NDArray[np.int64]:
        """Number of items each respondent answered, shape (n_respondents,)."""
        return np.full(self.n_respondents, self.n_items) if self.is_complete else self.observed.sum(axis=1)

    @cached_property
    def n_by_item(self) -> NDArray[np.int64]:
        """Number of observed responses to each item, each trial being one, shape (n_items,)."""
        if self.trials is not None:
            return self.trials.sum(axis=0)
        return np.full(self.n_items, self.n_respondents) if self.is_complete else self.observed.sum(axis=0)

    @cached_property
    def n_correct_by_item(self) -> NDArray[np.int64]:
        """Number of correct responses to each item, shape (n_items,)."""
        return self.coded_responses.sum(axis=0, dtype=np.int64, where=self.observed)

    @cached_property
    def n_correct_by_respondent(self) -> NDArray[np.int64]:
        """Number of correct responses of each respondent, shape (n_respondents,)."""
        return self.coded_responses.sum(axis=1, dtype=np.int64, where=self.observed)

    def accuracy(self) -> NDArray[np.float64]:
        """Mean over the items a respondent answered of the share right, NaN without any, shape (n_respondents,).

        An item counts once, however often it was tried.
        """
        n_correct = self.n_correct_by_respondent if self.trials is None else np.nansum(self.shares, axis=1)
        return share_correct(n_correct, self.n_items_by_respondent)

    @property
    def content_hash(self) -> str:
        """Hash of the responses and of the names."""
        return hash_of(self.coded_responses, self.trials, self.respondent_ids, self.item_ids)

    def select_items(self, item_ids: Sequence[str]) -> ResponseMatrix:
        """Keep these items, in this order.

        Raises
        ------
        InputError
            If an item is not in the matrix.
        """
        if tuple(item_ids) == self.item_ids:
            return self
        columns = positions_of(item_ids, self.item_ids)
        trials = None if self.trials is None else self.trials[:, columns]
        return self.from_coded(self.coded_responses[:, columns], self.respondent_ids, tuple(item_ids), trials)

    def select_respondents(self, keep: NDArray[np.bool_]) -> ResponseMatrix:
        """Keep the respondents where ``keep`` (shape (n_respondents,)) is true, in their order."""
        rows = np.flatnonzero(keep)
        trials = None if self.trials is None else self.trials[rows]
        names = tuple(self.respondent_ids[i] for i in rows)
        return self.from_coded(self.coded_responses[rows], names, self.item_ids, trials)

    def at(self, respondents: NDArray[np.intp]) -> NDArray[Any]:
        """Rows of some respondents as `coded_responses`, by their places."""
        return self.coded_responses[respondents]

    def part(self, start: int, stop: int) -> ResponseMatrix:
        """Consecutive respondents."""
        if (start, stop) == (0, self.n_respondents):
            return self
        trials = None if self.trials is None else self.trials[start:stop]
        return self.from_coded(self.coded_responses[start:stop], self.respondent_ids[start:stop], self.item_ids, trials)

    def to_long(self) -> pd.DataFrame:
        """Observed responses as the long table ``respondent_id, item_id, response``.

        With trials ``n_correct, n_trials`` take the place of ``response``.
        """
        rows, columns = np.nonzero(self.observed)
        asked = None if self.trials is None else self.trials[rows, columns]
        return self._long(rows, columns, self.coded_responses[rows, columns], asked)

    @classmethod
    def from_long(
        cls,
        table: pd.DataFrame,
        *,
        item_ids: Sequence[str] | None = None,
        duplicates: Duplicates = "error",
    ) -> ResponseMatrix:
        """Build the matrix from a long table with columns ``respondent_id, item_id, response``.

        Several rows of a pair that a column ``trial`` tells apart are trials; so are the ``n_correct`` of ``n_trials``
        of a table that has these columns in place of ``response``.

        Respondents are in order of first appearance. Items too, unless ``item_ids`` gives their order (items
        without a row are then all missing).

        Parameters
        ----------
        table
            One row a response; ``response`` is 1, 0 or NaN.
        item_ids
            The columns wanted; None for those that appear.
        duplicates
            What a second row for one (respondent, item) means that no trial tells from the first; see
            ``resolve_duplicates``.

        Raises
        ------
        InputError
            On a column missing, a duplicate pair (by default), a missing name, an item outside ``item_ids``, a value
            that is none of those expected, or an empty table.
        """
        from irtbench.data.sparse_responses import SparseResponses

        return SparseResponses.from_long(table, item_ids=item_ids, duplicates=duplicates).to_matrix()

    def table(self) -> pd.DataFrame:
        """One row a respondent: a wide table, the respondents in its first column."""
        table = pd.DataFrame(self.correct, columns=list(self.item_ids))
        table.insert(0, "respondent_id", self.respondent_ids, allow_duplicates=True)
        return table


def demand_single(responses: Responses, what: str) -> None:
    """Refuse several trials of a respondent at an item where a statistic is defined for one response each."""
    if responses.trials is not None:
        raise InputError(
            f"responses: up to {int(responses.trials.max())} trials of a respondent at an item, for which {what} is "
            "not available; reduce them to one response each (convert --trials first, last, mean, majority or any)"
        )
