"""Agreement: how far people give the same answer to an item, among themselves and with the key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.given import AnswersLike, ItemsLike, as_answers, as_items
from irtbench.data.grading import NormalisationRule, normalise_answers, normalise_text
from irtbench.data.input_error import InputError, demand_choice
from irtbench.data.responses import resolve_duplicates
from irtbench.data.shown import Drawn, Figures
from irtbench.evaluation.chance_agreement import (
    ALPHA,
    GWET_AC1,
    KAPPA,
    category_kappas,
    coefficient_with_error,
    fleiss_kappa,
    krippendorff_alpha,
    observed_agreement,
)
from irtbench.evaluation.proportion import check_level

EmptyAnswer = Literal["missing", "category"]


@dataclass(frozen=True)
class Agreement(Figures, Drawn):
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
    observed_agreement
        Chance that two answers to an item are the same, mean over items.
    gwet_ac1
        Agreement beyond chance, see ``gwet_ac1``.
    fleiss_se, krippendorff_se, gwet_se
        Standard errors of the three, the items being a sample, see ``coefficient_with_error``.
    fleiss_lower, fleiss_upper, krippendorff_lower, krippendorff_upper, gwet_lower, gwet_upper
        Their intervals.
    level
        Nominal coverage of the intervals.
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
    observed_agreement: float
    gwet_ac1: float
    fleiss_se: float
    fleiss_lower: float
    fleiss_upper: float
    krippendorff_se: float
    krippendorff_lower: float
    krippendorff_upper: float
    gwet_se: float
    gwet_lower: float
    gwet_upper: float
    level: float


def agreement(
    answers: AnswersLike,
    *,
    items: ItemsLike | None = None,
    normalise: Sequence[NormalisationRule] = (),
    empty: EmptyAnswer = "missing",
    level: float = 0.95,
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
    level
        Nominal coverage of the intervals.

    Raises
    ------
    InputError
        If a (respondent, item) pair is repeated, an item is not in the item table, or there is no answer; if the
        level lies outside (0, 1).

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
    return _agreement(*answers_that_count(answers, items, normalise, empty), level)


def agreement_by_label(
    answers: AnswersLike,
    items: ItemsLike,
    *,
    normalise: Sequence[NormalisationRule] = (),
    empty: EmptyAnswer = "missing",
    level: float = 0.95,
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
    answers, keys = answers_that_count(answers, items, normalise, empty)
    rows_of = {label: answers[answers["item_id"].isin(members)] for label, members in items.scales().items()}
    return {label: _agreement(rows, keys, level) for label, rows in rows_of.items() if not rows.empty}


def answers_that_count(
    answers: AnswersLike, items: ItemsLike | None, rules: Sequence[NormalisationRule], empty: EmptyAnswer
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Answers that are not to attention checks and not empty, and keys, normalised; errors as for ``agreement``."""
    demand_choice("agreement: empty", empty, EmptyAnswer)
    answers, known = as_answers(answers), None if items is None else as_items(items)
    rows, keys = resolve_duplicates(answers), dict[str, str]()
    if known is not None:
        asked = known.select(list(pd.unique(rows["item_id"])))
        rows = rows[rows["item_id"].isin(asked.scale_items)]
        pairs = zip(known.item_ids, known.key, strict=True)
        keys = {item: normalise_text(key, rules) for item, key in pairs if key is not None}
    rows = rows.assign(answer=normalise_answers(rows["answer"], rules))
    if empty == "missing":
        rows = rows[rows["answer"] != ""]
    if rows.empty:
        raise InputError("agreement: expected at least one answer but there is none")
    return rows, keys


def counts_of(rows: pd.DataFrame) -> tuple[NDArray[np.int64], tuple[str, ...], tuple[str, ...]]:
    """Answers of each category to each item, shape (n_items, n_categories), the items, and the categories sorted."""
    item, item_ids = pd.factorize(rows["item_id"])
    category, categories = pd.factorize(rows["answer"], sort=True)
    counts = np.zeros((len(item_ids), len(categories)), dtype=np.int64)
    np.add.at(counts, (item, category), 1)
    return counts, tuple(map(str, item_ids)), tuple(map(str, categories))


def _agreement(rows: pd.DataFrame, keys: Mapping[str, str], level: float) -> Agreement:
    check_level(level, where="agreement")
    counts, item_ids, categories = counts_of(rows)
    n = counts.sum(axis=1)
    majority, supermajority = _majorities(counts.max(axis=1), n)
    key = pd.Series(item_ids, dtype=object).map(keys)
    keyed = key.notna().to_numpy()
    votes = (counts * (np.array(categories, dtype=object) == key.to_numpy()[:, None])).sum(axis=1)[keyed]
    key_majority, key_supermajority = _majorities(votes, n[keyed]) if keyed.any() else (None, None)
    kappa, alpha, ac1 = (coefficient_with_error(counts, which, level=level) for which in (KAPPA, ALPHA, GWET_AC1))
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
        categories=categories,
        category_kappa=tuple(category_kappas(counts).tolist()),
        krippendorff_alpha=krippendorff_alpha(counts),
        observed_agreement=observed_agreement(counts),
        gwet_ac1=ac1.value,
        fleiss_se=kappa.standard_error,
        fleiss_lower=kappa.lower,
        fleiss_upper=kappa.upper,
        krippendorff_se=alpha.standard_error,
        krippendorff_lower=alpha.lower,
        krippendorff_upper=alpha.upper,
        gwet_se=ac1.standard_error,
        gwet_lower=ac1.lower,
        gwet_upper=ac1.upper,
        level=level,
    )


def _majorities(votes: NDArray[np.int64], n: NDArray[np.int64]) -> tuple[float, float]:
    """Shares of items on which more than half, and at least two thirds, of n answers are ``votes``."""
    return float((2 * votes > n).mean()), float((3 * votes >= 2 * n).mean())
