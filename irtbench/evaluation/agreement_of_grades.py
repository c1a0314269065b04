"""Agreement in detail: item by item, respondent by respondent, and of grades (NumPy and SciPy)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import entr, fdtri

from irtbench.data.answer_patterns import peer_shares
from irtbench.data.given import AnswersLike, ItemsLike
from irtbench.data.grading import NormalisationRule, normalise_answers
from irtbench.data.input_error import refuse_any
from irtbench.data.shown import Drawn, Figures, Shown
from irtbench.evaluation.agreement import (
    EmptyAnswer,
    alpha_by,
    answers_that_count,
    coefficient_with_error,
    counts_of,
    gwet_by,
    kappa_by,
)
from irtbench.evaluation.gold_labels import GoldLabels, most_likely
from irtbench.evaluation.proportion import check_level


@dataclass(frozen=True, eq=False)
class ItemAgreement(
    Drawn,
    columns="item_ids, n_answers, plurality, share, agreement, entropy, key, key_share, contradicts_key",
):
    """How far people agree on each item; arrays have shape (n_items,).

    Its table has one row an item, the columns of item_agreement.csv.

    Parameters
    ----------
    item_ids
        Items with at least one answer, in order of appearance.
    n_answers
        Answers counted.
    plurality
        The most common answer; empty where several are equally common.
    share
        Its share of the answers.
    agreement
        Chance that two answers to the item are the same, NaN with a single answer.
    entropy
        - sum_k p_k log2 p_k of the shares of the answers, in bits.
    key
        The key; None where there is none.
    key_share
        Share of the answers that are the key; NaN where there is none.
    contradicts_key
        Whether more than half of the answers are one and the same that is not the key.
    """

    item_ids: tuple[str, ...]
    n_answers: NDArray[np.int64]
    plurality: tuple[str, ...]
    share: NDArray[np.float64]
    agreement: NDArray[np.float64]
    entropy: NDArray[np.float64]
    key: tuple[str | None, ...]
    key_share: NDArray[np.float64]
    contradicts_key: NDArray[np.bool_]


def item_agreement(
    answers: AnswersLike,
    *,
    items: ItemsLike | None = None,
    normalise: Sequence[NormalisationRule] = (),
    empty: EmptyAnswer = "missing",
) -> ItemAgreement:
    """Agreement on each item, and which items' majority contradicts their key.

    Parameters and errors as for ``agreement``.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> answers = pd.DataFrame(
    ...     {"i1": ["yes", "yes", "no", "yes"], "i2": ["no", "no", "no", "yes"], "i3": ["yes", "no", "no", None]},
    ...     index=["ann", "bob", "cy", "dee"],
    ... )
    >>> items = pd.DataFrame({"key": ["yes", "yes", "no"]}, index=["i1", "i2", "i3"])
    >>> found = irtbench.item_agreement(answers, items=items)
    >>> found.table()[["item_id", "plurality", "agreement", "key", "key_share", "contradicts_key"]].round(2)
      item_id plurality  agreement  key  key_share  contradicts_key
    0      i1       yes       0.50  yes       0.75            False
    1      i2        no       0.50  yes       0.25             True
    2      i3        no       0.33   no       0.67            False
    """
    rows, keys = answers_that_count(answers, items, normalise, empty)
    counts, item_ids, categories = counts_of(rows)
    n, most = counts.sum(axis=1), counts.max(axis=1)
    common = most_likely(counts / n[:, None], item_ids, categories, "majority")
    key = tuple(keys.get(item) for item in item_ids)
    keyed = np.array([each is not None for each in key])
    is_key = np.array(categories, dtype=object) == np.array(key, dtype=object)[:, None]
    votes = (counts * is_key).sum(axis=1)
    return ItemAgreement(
        item_ids=item_ids,
        n_answers=n,
        plurality=common.label,
        share=common.probability,
        agreement=(counts * (counts - 1)).sum(axis=1) / np.where(n > 1, n * (n - 1), np.nan),
        entropy=entr(counts / n[:, None]).sum(axis=1) / np.log(2),
        key=key,
        key_share=np.where(keyed, votes / n, np.nan),
        contradicts_key=keyed & (2 * most > n) & (votes < most),
    )


@dataclass(frozen=True, eq=False)
class RespondentAgreement(Shown, columns="respondent_ids, n_answers, agreement, expected, key_share, gold_share"):
    """How far each respondent agrees with the others; arrays have shape (n_respondents,).

    Its table has one row a respondent, the columns of respondent_agreement.csv.

    Parameters
    ----------
    respondent_ids
        Respondents with at least one answer, in order of appearance.
    n_answers
        Answers counted.
    agreement
        With one of the others drawn at random for each item, see ``peer_agreement``.
    expected
        Mean of the same over everybody's answers to these items: what a typical person reaches on them.
    key_share
        Share of the answers that are the key, of those to items that have one; NaN if there is none.
    gold_share
        Share of the answers that are the gold label, of those to items that have one; NaN without gold labels.
    """

    respondent_ids: tuple[str, ...]
    n_answers: NDArray[np.int64]
    agreement: NDArray[np.float64]
    expected: NDArray[np.float64]
    key_share: NDArray[np.float64]
    gold_share: NDArray[np.float64]


def respondent_agreement(
    answers: AnswersLike,
    *,
    items: ItemsLike | None = None,
    gold: GoldLabels | None = None,
    normalise: Sequence[NormalisationRule] = (),
    empty: EmptyAnswer = "missing",
) -> RespondentAgreement:
    """Agreement of each respondent with the others, with the keys and with gold labels.

    Parameters and errors as for ``agreement``; ``gold`` as made by ``majority_labels`` or ``dawid_skene_labels``.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> answers = pd.DataFrame(
    ...     {"i1": ["yes", "yes", "no", "yes"], "i2": ["no", "no", "no", "yes"], "i3": ["yes", "no", "no", None]},
    ...     index=["ann", "bob", "cy", "dee"],
    ... )
    >>> found = irtbench.respondent_agreement(answers, gold=irtbench.majority_labels(answers))
    >>> found.table()[["respondent_id", "n_answers", "agreement", "expected", "gold_share"]].round(2)
      respondent_id  n_answers  agreement  expected  gold_share
    0           ann          3       0.44      0.44        0.67
    1           bob          3       0.61      0.44        1.00
    2            cy          3       0.39      0.44        0.67
    3           dee          2       0.33      0.50        0.50
    """
    rows, keys = answers_that_count(answers, items, normalise, empty)
    with_others = peer_shares(rows)
    n = rows.groupby("respondent_id", sort=False).size()
    labels = {} if gold is None else {i: g for i, g in zip(gold.item_ids, gold.label, strict=True) if g}

    def by_person(values: pd.Series[float]) -> NDArray[np.float64]:
        return np.asarray(values.groupby(rows["respondent_id"]).mean().reindex(n.index), dtype=np.float64)

    def share_of(expected: dict[str, str]) -> NDArray[np.float64]:
        wanted = rows["item_id"].map(expected)
        return by_person((rows["answer"] == wanted).astype(np.float64).mask(wanted.isna()))

    return RespondentAgreement(
        respondent_ids=tuple(map(str, n.index)),
        n_answers=np.asarray(n, dtype=np.int64),
        agreement=by_person(with_others),
        expected=by_person(with_others.groupby(rows["item_id"]).transform("mean")),
        key_share=share_of(keys),
        gold_share=share_of(labels),
    )


Array = NDArray[np.float64]


@dataclass(frozen=True)
class OrderedAgreement(Figures):
    """How near the grades of an item are to each other, beyond chance.

    Parameters
    ----------
    n_items, n_respondents, n_answers
        Items with a grade, those who gave one, and grades.
    weighted_kappa
        Fleiss' kappa with quadratic weights: 1 less the mean squared difference of two grades of an item over that of
        two drawn from all.
    krippendorff_ordinal, krippendorff_interval
        Krippendorff's alpha for ordered grades, and for such whose distances count.
    gwet_ac2
        Gwet's AC2 with the same weights.
    icc, icc_mean
        Share of the variance of a grade that is the item's, whoever gave it, and of the mean of an item's grades: one
        way, ICC(1) and ICC(k) of Shrout & Fleiss (1979).
    icc_absolute, icc_consistency
        Two-way, ICC(2,1) and ICC(3,1): by grades themselves, and but for how severe each is on the average; NaN unless
        all graded all items.
    mean_grades
        Grades an item of `icc_mean`.
    weighted_kappa_se, ..., icc_lower, icc_upper
        Standard errors over items, and intervals.
    level
        Nominal coverage of the intervals.
    """

    n_items: int
    n_respondents: int
    n_answers: int
    weighted_kappa: float
    weighted_kappa_se: float
    weighted_kappa_lower: float
    weighted_kappa_upper: float
    krippendorff_ordinal: float
    krippendorff_ordinal_se: float
    krippendorff_ordinal_lower: float
    krippendorff_ordinal_upper: float
    krippendorff_interval: float
    krippendorff_interval_se: float
    krippendorff_interval_lower: float
    krippendorff_interval_upper: float
    gwet_ac2: float
    gwet_ac2_se: float
    gwet_ac2_lower: float
    gwet_ac2_upper: float
    icc: float
    icc_lower: float
    icc_upper: float
    icc_mean: float
    mean_grades: float
    icc_absolute: float
    icc_consistency: float
    level: float


def ordered_agreement(
    answers: AnswersLike,
    levels: Sequence[str],
    *,
    items: ItemsLike | None = None,
    normalise: Sequence[NormalisationRule] = (),
    level: float = 0.95,
) -> OrderedAgreement:
    """Agreement of grades, labels in their order or numbers.

    Where all levels are numbers their distances count as they are; labels are 1, 2, 3, ... apart. The ordinal alpha
    goes by their order and how many there are of each alone (Krippendorff, 2018, ch. 12).

    Parameters
    ----------
    answers
        Long table ``respondent_id, item_id, answer``; any item may have any number of answers.
    levels
        All grades in their order, the lowest first.
    items
        Leaves attention checks out.
    normalise
        Rules applied to answers and levels before they are compared.
    level
        Nominal coverage of the intervals.

    Raises
    ------
    InputError
        If an answer is none of the levels, there are fewer than two of these, or as ``agreement``.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> grades = pd.DataFrame(
    ...     {"i1": ["poor", "poor", "fair"], "i2": ["good", "good", "good"], "i3": ["fair", "good", "fair"]},
    ...     index=["ann", "bob", "cy"],
    ... )
    >>> found = irtbench.ordered_agreement(grades, ["poor", "fair", "good"])
    >>> round(found.weighted_kappa, 2), round(found.krippendorff_ordinal, 2), round(found.icc, 2)
    (0.64, 0.69, 0.74)
    """
    check_level(level, where="agreement")
    rows, _ = answers_that_count(answers, items, normalise, "missing")
    known = list(normalise_answers(pd.Series(list(map(str, levels))), normalise))
    refuse_any((
        (len(set(known)) < 2 or len(set(known)) < len(known),
         f"agreement: levels {', '.join(known)}: expected two or more, each once, the lowest first"),
        *((True, f"agreement: answer {strange!r} is none of the levels; expected {', '.join(known)}")
          for strange in sorted(set(rows["answer"]) - set(known))),
    ))  # fmt: skip
    (item, item_ids), (respondent, respondents) = (pd.factorize(rows[of]) for of in ("item_id", "respondent_id"))
    grade, number = pd.Categorical(rows["answer"], known).codes, numbers_of(known)
    counts = pd.crosstab(item, grade).reindex(columns=range(len(known)), fill_value=0).to_numpy()
    table = np.full((len(item_ids), len(respondents)), np.nan)
    table[item, respondent] = number[grade]
    figures = _beyond_chance(counts, number, level) | one_way(table, level) | two_way(table)
    return OrderedAgreement(len(item_ids), len(respondents), len(rows), **figures, level=level)


def _beyond_chance(counts: NDArray[np.int64], number: Array, level: float) -> dict[str, float]:
    """The coefficients with weights, by counts of each level for each item."""
    quadratic = ((number[:, None] - number) / np.ptp(number)) ** 2
    # distance of two ordered categories: the answers between them and half of each of theirs (Krippendorff)
    n = counts[counts.sum(axis=1) >= 2].sum(axis=0)
    middle = np.cumsum(n) - n / 2
    coefficients = {
        "weighted_kappa": kappa_by(quadratic),
        "krippendorff_ordinal": alpha_by(np.asarray((middle[:, None] - middle) ** 2)),
        "krippendorff_interval": alpha_by(quadratic),
        "gwet_ac2": gwet_by(quadratic),
    }
    figures: dict[str, float] = {}
    for name, coefficient in coefficients.items():
        found = coefficient_with_error(counts, coefficient, level=level)
        figures |= {name: found.value, f"{name}_se": found.standard_error}
        figures |= {f"{name}_lower": found.lower, f"{name}_upper": found.upper}
    return figures


def numbers_of(levels: Sequence[str]) -> Array:
    """The levels as numbers where all are, else their places."""
    try:
        return np.array([float(name) for name in levels])
    except ValueError:
        return np.arange(1.0, len(levels) + 1)


def one_way(table: Array, level: float) -> dict[str, float]:
    """ICC(1), its interval by the F distribution, and that of the mean of an item's grades, n_0 on the average.

    From mean squares between and within items, and n_0 = (N - sum n_i^2 / N) / (k - 1) for k items of n_i grades.
    """
    n = (~np.isnan(table)).sum(axis=1)
    table, n = table[n >= 1], n[n >= 1]
    total, k = int(n.sum()), len(n)
    unknown = dict.fromkeys(("icc", "icc_lower", "icc_upper", "icc_mean", "mean_grades"), np.nan)
    if k < 2 or total <= k:
        return unknown
    mean = np.nanmean(table, axis=1)
    between = float((n * (mean - np.nansum(table) / total) ** 2).sum() / (k - 1))
    within = float(np.nansum((table - mean[:, None]) ** 2) / (total - k))
    n_0 = float((total - (n**2).sum() / total) / (k - 1))
    if between + within == 0:
        return unknown
    f = between / within if within > 0 else np.inf
    above = 1 - (1 - level) / 2
    ends = [f / fdtri(k - 1, total - k, above), f * fdtri(total - k, k - 1, above)]
    value, lower, upper = (1.0 if at == np.inf else (at - 1) / (at + n_0 - 1) for at in (f, *ends))
    if not 1e-12 < f < 1e12:  # all grades of an item alike, or all items' means
        lower = upper = np.nan
    mean_of = 1 - within / between if between > 0 else np.nan
    return {"icc": value, "icc_lower": lower, "icc_upper": upper, "icc_mean": mean_of, "mean_grades": n_0}


def two_way(table: Array) -> dict[str, float]:
    """ICC(2,1) and ICC(3,1) of a complete table (Shrout & Fleiss, 1979)."""
    k, n = table.shape
    if np.isnan(table).any() or k < 2 or n < 2:
        return {"icc_absolute": np.nan, "icc_consistency": np.nan}
    mean, by_item, by_rater = table.mean(), table.mean(axis=1), table.mean(axis=0)
    items = n * ((by_item - mean) ** 2).sum() / (k - 1)
    raters = k * ((by_rater - mean) ** 2).sum() / (n - 1)
    left = ((table - by_item[:, None] - by_rater + mean) ** 2).sum() / ((k - 1) * (n - 1))
    absolute, alike = items + (n - 1) * left + n * (raters - left) / k, items + (n - 1) * left
    return {
        "icc_absolute": float((items - left) / absolute) if absolute > 0 else np.nan,
        "icc_consistency": float((items - left) / alike) if alike > 0 else np.nan,
    }
