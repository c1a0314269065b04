"""Agreement: how far people give the same answer to an item, among themselves and with the key."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.given import AnswersLike, ItemsLike, as_answers, as_items
from irtbench.data.grading import NormalisationRule, normalise_answers, normalise_text
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.responses import resolve_duplicates
from irtbench.data.shown import Figures

EmptyAnswer = Literal["missing", "category"]


@dataclass(frozen=True)
class Agreement(Figures):
    """Agreement of respondents on a set of items.

    Parameters
    ----------
    n_items, n_respondents, n_answers
        Items with at least one answer, respondents with at least one, and answers counted.
    majority
        Share of items on which more than half of the answers are the same one, whichever that is.
    supermajority
        Share of items on which at least two thirds are.
    key_majority, key_supermajority
        Shares of items on which more than half, at least two thirds, of the answers are the item's key; None where
        no key is known.
    proportion_correct
        Share of the answers that are the item's key; None where no key is known.
    fleiss_kappa
        Agreement beyond chance, see ``fleiss_kappa``.
    categories
        The answers that occur, sorted.
    category_kappa
        Agreement beyond chance on each category against all others, see ``category_kappas``.
    krippendorff_alpha
        Agreement beyond chance, see ``krippendorff_alpha``.
    """

    n_items: int
    n_respondents: int
    n_answers: int
    majority: float
    supermajority: float
    key_majority: float | None
    key_supermajority: float | None
    proportion_correct: float | None
    fleiss_kappa: float
    categories: tuple[str, ...]
    category_kappa: tuple[float, ...]
    krippendorff_alpha: float


def agreement(
    answers: AnswersLike,
    *,
    items: ItemsLike | None = None,
    normalise: Sequence[NormalisationRule] = (),
    empty: EmptyAnswer = "missing",
) -> Agreement:
    """Agreement over all items.

    Parameters
    ----------
    answers
        Long table ``respondent_id, item_id, answer``; any item may have any number of answers. An item with a single
        answer counts for the shares but says nothing on agreement beyond chance.
    items
        Gives the keys, and leaves attention checks out.
    normalise
        Rules applied to answers and keys before they are compared, see ``GradingSettings``.
    empty
        Whether an empty answer is missing or a category of its own.

    Raises
    ------
    InputError
        If a (respondent, item) pair is repeated, an item is not in the item table, or there is no answer.

    Warns
    -----
    RuntimeWarning
        If a statistic is undefined (NaN): no item has two answers, or all answers are the same.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> answers = pd.DataFrame(
    ...     {"i1": ["yes", "yes", "no", "yes"], "i2": ["no", "no", "no", "yes"], "i3": ["yes", "no", "no", None]},
    ...     index=["ann", "bob", "cy", "dee"],
    ... )
    >>> found = irtbench.agreement(answers)
    >>> found.majority, round(found.fleiss_kappa, 2), round(found.krippendorff_alpha, 2)
    (1.0, -0.12, 0.0)
    """
    answers, items = as_answers(answers), None if items is None else as_items(items)
    answers = _prepare(answers, items, normalise, empty)
    return _agreement(answers, _keys(items, normalise))


def agreement_by_label(
    answers: AnswersLike,
    items: ItemsLike,
    *,
    normalise: Sequence[NormalisationRule] = (),
    empty: EmptyAnswer = "missing",
) -> dict[str, Agreement]:
    """Agreement over the items of each label; labels without an answer are left out.

    Parameters, errors and warnings as for ``agreement``.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> answers = pd.DataFrame(
    ...     {"i1": ["yes", "yes", "no", "yes"], "i2": ["no", "no", "no", "yes"], "i3": ["yes", "no", "no", None]},
    ...     index=["ann", "bob", "cy", "dee"],
    ... )
    >>> items = pd.DataFrame({"key": ["yes", "no", "no"], "label": ["a", "a", "b"]}, index=["i1", "i2", "i3"])
    >>> {label: round(found.majority, 2) for label, found in irtbench.agreement_by_label(answers, items).items()}
    {'a': 1.0, 'b': 1.0}
    """
    answers, items = as_answers(answers), as_items(items)
    answers = _prepare(answers, items, normalise, empty)
    keys = _keys(items, normalise)
    rows_of = {label: answers[answers["item_id"].isin(members)] for label, members in items.scales().items()}
    return {label: _agreement(rows, keys) for label, rows in rows_of.items() if not rows.empty}


def fleiss_kappa(counts: NDArray[np.int64]) -> float:
    """Fleiss' kappa for any number of answers an item.

    kappa = (P - P_e) / (1 - P_e). With n_ik answers k to item i and n_i in all: P = mean over items with n_i >= 2 of
    sum_k n_ik (n_ik - 1) / (n_i (n_i - 1)), the chance that two answers to an item agree; P_e = sum_k p_k^2;
    p_k = mean over items with n_i >= 1 of n_ik / n_i.

    With equally many answers an item this is Fleiss (1971, doi:10.1037/h0031619), else its generalisation by Gwet
    (2014, Handbook of Inter-Rater Reliability, 4th ed., ch. 2). NaN with a warning if all answers are the same
    (0 / 0) or no item has two.

    Parameters
    ----------
    counts
        Answers of each category to each item, shape (n_items, n_categories).

    Examples
    --------
    >>> fleiss_kappa(np.array([[2, 0], [0, 2], [1, 1], [1, 1]]))
    0.0
    """
    observed, expected = _disagreement(counts)
    return _beyond_chance("Fleiss' kappa", float(observed.sum()), float(expected.sum()))


def category_kappas(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Fleiss' kappa of each category against all others taken together, shape (n_categories,).

    kappa_k = 1 - mean_i[n_ik (n_i - n_ik) / (n_i (n_i - 1))] / (p_k (1 - p_k)), in the terms of ``fleiss_kappa``,
    which is the mean of these with weights p_k (1 - p_k). NaN for a category that holds no answer, or all.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> irtbench.category_kappas(np.array([[3, 0, 0], [0, 3, 0], [1, 1, 1]])).round(2)
    array([ 0.55,  0.55, -0.12])
    """
    observed, expected = _disagreement(counts)
    return 1 - np.divide(observed, expected, out=np.full(expected.shape, np.nan), where=expected > 0)


def krippendorff_alpha(counts: NDArray[np.int64]) -> float:
    """Krippendorff's alpha for nominal answers and any number of answers an item.

    alpha = 1 - D_o / D_e over the items with n_i >= 2 answers, n of them in all, n_k in category k:
    D_o = (1/n) sum_i (n_i^2 - sum_k n_ik^2) / (n_i - 1),   D_e = (n^2 - sum_k n_k^2) / (n (n - 1)).

    NaN with a warning if all answers are the same (0 / 0) or no item has two (Krippendorff 2018, Content Analysis,
    4th ed., ch. 12).

    Parameters
    ----------
    counts
        Answers of each category to each item, shape (n_items, n_categories).

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> round(irtbench.krippendorff_alpha(np.array([[3, 0], [0, 2], [1, 1]])), 3)
    0.5
    """
    n_i = counts.sum(axis=1)
    counts, n_i = counts[n_i >= 2], n_i[n_i >= 2]
    n = int(n_i.sum())
    if n == 0:
        return _beyond_chance("Krippendorff's alpha", np.nan, np.nan)
    # over ordered pairs of n answers, the sum of [the two differ] is n^2 - sum_k n_k^2
    observed = ((n_i**2 - (counts**2).sum(axis=1)) / (n_i - 1)).sum() / n
    expected = (n**2 - (counts.sum(axis=0) ** 2).sum()) / (n * (n - 1))
    return _beyond_chance("Krippendorff's alpha", float(observed), float(expected))


def _disagreement(counts: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Observed and expected disagreement on each category against all others, each of shape (n_categories,).

    Summed over categories they are 1 - P and 1 - P_e of ``fleiss_kappa``; NaN if no item has two answers.
    """
    n = counts.sum(axis=1, keepdims=True)
    answered, paired = n[:, 0] >= 1, n[:, 0] >= 2
    if not paired.any():
        unknown = np.full(counts.shape[1], np.nan)
        return unknown, unknown
    observed = (counts * (n - counts))[paired] / (n * (n - 1))[paired]
    share = (counts[answered] / n[answered]).mean(axis=0)
    return observed.mean(axis=0), share * (1 - share)


def _beyond_chance(name: str, observed: float, expected: float) -> float:
    """1 - observed / expected disagreement; NaN with a warning where none can be expected."""
    if expected > 0:
        return 1 - observed / expected
    reason = "no item has two answers" if np.isnan(expected) else "all answers are the same"
    warnings.warn(f"{name} is undefined: {reason}", RuntimeWarning, stacklevel=3)
    return np.nan


def _prepare(
    answers: pd.DataFrame, items: ItemTable | None, rules: Sequence[NormalisationRule], empty: EmptyAnswer
) -> pd.DataFrame:
    """The answers that count, normalised."""
    rows = resolve_duplicates(answers)
    if items is not None:
        known = items.select(list(pd.unique(rows["item_id"])))
        rows = rows[rows["item_id"].isin(known.scale_items)]
    rows = rows.assign(answer=normalise_answers(rows["answer"], rules))
    if empty == "missing":
        rows = rows[rows["answer"] != ""]
    if rows.empty:
        raise InputError("agreement: expected at least one answer but there is none")
    return rows


def _keys(items: ItemTable | None, rules: Sequence[NormalisationRule]) -> dict[str, str]:
    """The normalised key of each item that has one."""
    if items is None:
        return {}
    pairs = zip(items.item_ids, items.key, strict=True)
    return {item: normalise_text(key, rules) for item, key in pairs if key is not None}


def _agreement(rows: pd.DataFrame, keys: Mapping[str, str]) -> Agreement:
    item, item_ids = pd.factorize(rows["item_id"])
    category, categories = pd.factorize(rows["answer"], sort=True)
    counts = np.zeros((len(item_ids), len(categories)), dtype=np.int64)
    np.add.at(counts, (item, category), 1)
    n = counts.sum(axis=1)
    majority, supermajority = _majorities(counts.max(axis=1), n)
    key = pd.Series(item_ids).map(keys)
    keyed = key.notna().to_numpy()
    votes = (counts * (categories.to_numpy() == key.to_numpy()[:, None])).sum(axis=1)[keyed]
    key_majority, key_supermajority = _majorities(votes, n[keyed]) if keyed.any() else (None, None)
    return Agreement(
        n_items=len(item_ids),
        n_respondents=rows["respondent_id"].nunique(),
        n_answers=len(rows),
        majority=majority,
        supermajority=supermajority,
        key_majority=key_majority,
        key_supermajority=key_supermajority,
        proportion_correct=float(votes.sum() / n[keyed].sum()) if keyed.any() else None,
        fleiss_kappa=fleiss_kappa(counts),
        categories=tuple(str(name) for name in categories),
        category_kappa=tuple(category_kappas(counts).tolist()),
        krippendorff_alpha=krippendorff_alpha(counts),
    )


def _majorities(votes: NDArray[np.int64], n: NDArray[np.int64]) -> tuple[float, float]:
    """Shares of items on which more than half, and at least two thirds, of n answers are ``votes``."""
    return float((2 * votes > n).mean()), float((3 * votes >= 2 * n).mean())
