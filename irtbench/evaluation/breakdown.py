"""Where does a system gain? Its accuracy by the kind of item, with one kind an item or several.

After Jansen, Balasubramanian, Surdeanu & Clark (2016), What's in an explanation? (COLING): questions sorted by the
knowledge they need, either into one type each (top-down) or by all the types that their explanation uses (bottom-up).
An item of several types counts once in each of them. So the rows of a breakdown share items, do not add up to the
whole, and are not independent; `TypeCounts` says how far they overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError, refuse_any
from irtbench.data.items import ItemTags
from irtbench.data.multiple_testing import Adjustment, adjust
from irtbench.data.shown import Shown
from irtbench.evaluation.paired_tests import IntervalMethod, paired_bootstrap, permutation_test, same_draws
from irtbench.evaluation.proportion import wilson_interval

#: The rows over all items, and over the items without any type.
ALL, UNTYPED = "(all items)", "(no type)"
#: The advantage on items of which no response of both systems is there.
NOTHING: dict[str, object] = {
    "n_items": 0, "accuracy_first": np.nan, "accuracy_second": np.nan, "advantage": np.nan, "lower": np.nan,
    "upper": np.nan, "helped": 0, "hurt": 0, "p": np.nan, "permutation_p": np.nan,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class TypeCounts(Shown, columns="type=types, n_items, n_only, share_of_items, share_of_mentions"):
    """How often each type occurs, and how far types overlap; arrays of shape (n_types,), types sorted.

    Its table has one row a type.

    Parameters
    ----------
    types
        Their names.
    n_items
        Items of the type.
    n_only
        Items of this type and no other.
    share_of_items
        ``n_items`` over all items; these add up to the mean number of types an item.
    share_of_mentions
        ``n_items`` over all mentions of a type; these add up to 1.
    shared
        Items that have both of two types, shape (n_types, n_types); ``n_items`` on the diagonal.
    n_all, n_untyped
        Items in all, and those without a type.
    """

    types: tuple[str, ...]
    n_items: NDArray[np.int64]
    n_only: NDArray[np.int64]
    share_of_items: NDArray[np.float64]
    share_of_mentions: NDArray[np.float64]
    shared: NDArray[np.int64]
    n_all: int
    n_untyped: int

    @property
    def overlap(self) -> bool:
        """Whether any item has more than one type."""
        return bool((self.n_only < self.n_items).any())

    def overlap_table(self) -> pd.DataFrame:
        """One row a pair of types that share items: their number, and its share of the smaller type."""
        rows = [
            (self.types[k], self.types[m], n, n / min(self.n_items[k], self.n_items[m]))
            for k in range(len(self.types))
            for m in range(k + 1, len(self.types))
            if (n := int(self.shared[k, m]))
        ]
        return pd.DataFrame(rows, columns=["type_1", "type_2", "n_shared", "share_of_smaller"])


def type_counts(tags: ItemTags) -> TypeCounts:
    """Count the types of items.

    Raises
    ------
    InputError
        If no item has a type.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> tags = irtbench.ItemTags(("q1", "q2", "q3", "q4"), (("maths",), ("maths", "physics"), ("physics",), ()))
    >>> responses = pd.DataFrame([[1, 1, 1, 0], [1, 0, 0, 0]], index=["new", "old"], columns=["q1", "q2", "q3", "q4"])
    >>> irtbench.type_counts(tags).table().round(2)
          type  n_items  n_only  share_of_items  share_of_mentions
    0    maths        2       1             0.5                0.5
    1  physics        2       1             0.5                0.5
    """
    rows = _rows_by_type(tags)
    member = np.column_stack([rows[name] for name in tags.names]).astype(np.int64)
    n_types, n_items = member.sum(axis=1), member.sum(axis=0)
    return TypeCounts(
        types=tags.names,
        n_items=n_items,
        n_only=member[n_types == 1].sum(axis=0),
        share_of_items=n_items / len(member),
        share_of_mentions=n_items / n_items.sum(),
        shared=member.T @ member,
        n_all=len(member),
        n_untyped=int((n_types == 0).sum()),
    )


def accuracy_by_type(responses: ResponsesLike, tags: ItemTags, *, level: float = 0.95) -> pd.DataFrame:
    """Accuracy of each system on the items of each type, with Wilson's interval.

    Returns
    -------
    pandas.DataFrame
        Columns ``respondent_id, type, n_items, n_correct, accuracy, lower, upper``: for each system a row over all
        items, one a type, and one of the items without a type if there are any. Only observed responses count;
        where there are none, accuracy and interval are NaN.

    Raises
    ------
    InputError
        If the tags lack an item of the responses, or no item has a type.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> tags = irtbench.ItemTags(("q1", "q2", "q3", "q4"), (("maths",), ("maths", "physics"), ("physics",), ()))
    >>> responses = pd.DataFrame([[1, 1, 1, 0], [1, 0, 0, 0]], index=["new", "old"], columns=["q1", "q2", "q3", "q4"])
    >>> irtbench.accuracy_by_type(responses, tags).round(2).head(4)
      respondent_id         type  n_items  n_correct  accuracy  lower  upper
    0           new  (all items)        4          3      0.75   0.30   0.95
    1           new        maths        2          2      1.00   0.34   1.00
    2           new      physics        2          2      1.00   0.34   1.00
    3           new    (no type)        1          0      0.00   0.00   0.79
    """
    responses = as_responses(responses)
    known = tags.select(responses.item_ids)
    rows = _rows_by_type(known)
    which = np.column_stack(list(rows.values())).astype(np.float64)
    n = responses.observed.astype(np.float64) @ which
    correct = np.nan_to_num(responses.values) @ which
    lower, upper = wilson_interval(correct, n, level=level)
    accuracy = np.divide(correct, n, out=np.full(n.shape, np.nan), where=n > 0)
    return pd.DataFrame(
        {
            "respondent_id": np.repeat(responses.respondent_ids, len(rows)),
            "type": np.tile(list(rows), responses.n_respondents),
            "n_items": n.ravel().astype(np.int64),
            "n_correct": correct.ravel().astype(np.int64),
            "accuracy": accuracy.ravel(),
            "lower": lower.ravel(),
            "upper": upper.ravel(),
        }
    )


def advantage_by_type(
    responses: ResponsesLike,
    tags: ItemTags,
    pairs: Sequence[tuple[str, str]],
    *,
    groups: Sequence[str | None] | None = None,
    interval: IntervalMethod = "bca",
    level: float = 0.95,
    n_resamples: int = 10_000,
    rng: np.random.Generator | None = None,
    adjustment: Adjustment = "holm",
) -> pd.DataFrame:
    """Advantage of one system over another on the items of each type, by the paired bootstrap.

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`) of the systems.
    tags
        Types of at least the same items.
    pairs
        First and second system of each comparison.
    groups
        Groups of items that are resampled together, in the order of the responses' items; see ``paired_bootstrap``.
    interval, level, n_resamples, rng
        See ``paired_bootstrap``.
    adjustment
        Holm or Benjamini-Hochberg over all types and pairs; the rows over all items are no part of this family.

    Returns
    -------
    pandas.DataFrame
        Columns ``first, second, type, n_items, accuracy_first, accuracy_second, advantage, lower, upper, helped, hurt,
        p, p_adjusted, permutation_p, permutation_p_adjusted``, rows as in ``accuracy_by_type``; p is two-sided. In
        types of few items the bootstrap is too sure of itself, and the permutation test the one to trust. Where no
        item has both responses, all but the counts is NaN.

    Raises
    ------
    InputError
        If a system or an item is unknown, or no item has a type.

    Warns
    -----
    RuntimeWarning
        As ``paired_bootstrap``, where the two differ alike on all items of a type.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> kinds = (("maths",), ("maths", "physics"), ("physics",)) * 20
    >>> many = irtbench.ItemTags(tuple(f"q{k}" for k in range(60)), kinds)
    >>> right = pd.DataFrame(rng.random((2, 60)) < [[0.8], [0.5]], index=["new", "old"], columns=many.item_ids)
    >>> found = irtbench.advantage_by_type(right, many, [("new", "old")], rng=rng)
    >>> found[["first", "second", "type", "n_items", "advantage"]].round(2)
      first second         type  n_items  advantage
    0   new    old  (all items)       60       0.23
    1   new    old        maths       40       0.32
    2   new    old      physics       40       0.20
    """
    responses = as_responses(responses)
    rows = _rows_by_type(tags.select(responses.item_ids))
    values, position = responses.values, {name: k for k, name in enumerate(responses.respondent_ids)}
    seed = same_draws(rng)
    found = []
    refuse_any(
        (name not in position, f"breakdown: unknown system {name}; expected one of the responses")
        for pair in pairs
        for name in pair
    )
    for first, second in pairs:
        x, y = values[position[first]], values[position[second]]
        for name, which in rows.items():
            found.append({"first": first, "second": second, "type": name} | NOTHING)
            if np.isnan((x - y)[which]).all():
                continue
            rng = np.random.default_rng(seed)
            own = None if groups is None else [group for group, is_in in zip(groups, which, strict=True) if is_in]
            result = paired_bootstrap(
                x[which], y[which], groups=own, interval=interval, level=level, n_resamples=n_resamples, rng=rng
            )
            permutation = permutation_test(x[which], y[which], groups=own, n_resamples=n_resamples, rng=rng)
            found[-1] |= {
                "n_items": result.n_items,
                "accuracy_first": result.mean_first,
                "accuracy_second": result.mean_second,
                "advantage": result.difference,
                "lower": result.lower,
                "upper": result.upper,
                "helped": result.helped,
                "hurt": result.hurt,
                "p": result.p,
                "permutation_p": permutation.p,
            }
    table = pd.DataFrame(found)
    of_types = (table["type"] != ALL).to_numpy()
    for p in ("permutation_p", "p"):
        adjusted = np.full(len(table), np.nan)
        adjusted[of_types] = adjust(table[p].to_numpy(dtype=np.float64)[of_types], adjustment)
        table.insert(list(table.columns).index(p) + 1, f"{p}_adjusted", adjusted)
    return table


def values_by_type(values: Mapping[str, ArrayLike], tags: ItemTags) -> pd.DataFrame:
    """Distribution of item figures, such as difficulty and discrimination, within each type.

    Parameters
    ----------
    values
        Arrays of shape (n_items,) by the name of the figure, in the order of the tags' items; NaN where unknown.
    tags
        Types of the items.

    Returns
    -------
    pandas.DataFrame
        Columns ``figure, type, n_items, mean, sd, lowest, median, highest``, rows as in ``accuracy_by_type``; sd is
        that of a sample, NaN below two items, and everything is NaN without any.

    Raises
    ------
    InputError
        If an array has another length than the tags, or no item has a type.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> tags = irtbench.ItemTags(("q1", "q2", "q3", "q4"), (("maths",), ("maths", "physics"), ("physics",), ()))
    >>> responses = pd.DataFrame([[1, 1, 1, 0], [1, 0, 0, 0]], index=["new", "old"], columns=["q1", "q2", "q3", "q4"])
    >>> irtbench.values_by_type({"difficulty": [0.0, 1.0, 2.0, 3.0]}, tags)
           figure         type  n_items  mean        sd  lowest  median  highest
    0  difficulty  (all items)        4   1.5  1.290994     0.0     1.5      3.0
    1  difficulty        maths        2   0.5  0.707107     0.0     0.5      1.0
    2  difficulty      physics        2   1.5  0.707107     1.0     1.5      2.0
    3  difficulty    (no type)        1   3.0       NaN     3.0     3.0      3.0
    """
    rows = _rows_by_type(tags)
    found = []
    for figure, given in values.items():
        numbers = np.asarray(given, dtype=np.float64)
        if numbers.shape != (len(tags.item_ids),):
            raise InputError(f"breakdown: {figure} has shape {numbers.shape} for {len(tags.item_ids)} items")
        for name, which in rows.items():
            known = pd.Series(numbers[which]).dropna()
            found.append(
                {
                    "figure": figure,
                    "type": name,
                    "n_items": len(known),
                    "mean": known.mean(),
                    "sd": known.std(),
                    "lowest": known.min(),
                    "median": known.median(),
                    "highest": known.max(),
                }
            )
    return pd.DataFrame(found)


def _rows_by_type(tags: ItemTags) -> dict[str, NDArray[np.bool_]]:
    """Which items belong to each row of a breakdown: all, each type, and those without a type if there are any."""
    refuse_any((
        (not tags.names, "breakdown: no item has a type; expected at least one"),
        *((name in tags.names, f"breakdown: a type cannot be called {name}") for name in (ALL, UNTYPED)),
    ))  # fmt: skip
    untyped = np.array([not given for given in tags.tags], dtype=np.bool_)
    rows = {ALL: np.ones(untyped.size, dtype=np.bool_)} | {name: tags.has(name) for name in tags.names}
    return rows | ({UNTYPED: untyped} if untyped.any() else {})
