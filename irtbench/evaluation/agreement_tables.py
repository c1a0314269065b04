"""Agreement item by item and respondent by respondent: which items people dispute, and who disputes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import entr

from irtbench.data.answer_patterns import peer_shares
from irtbench.data.given import AnswersLike, ItemsLike
from irtbench.data.grading import NormalisationRule
from irtbench.data.shown import Drawn, Shown
from irtbench.evaluation.agreement import EmptyAnswer, answers_that_count, counts_of
from irtbench.evaluation.gold_labels import GoldLabels


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
    key = tuple(keys.get(item) for item in item_ids)
    keyed = np.array([each is not None for each in key])
    is_key = np.array(categories, dtype=object) == np.array(key, dtype=object)[:, None]
    votes = (counts * is_key).sum(axis=1)
    pairs = np.where(n > 1, n * (n - 1), 1)
    single = (counts == most[:, None]).sum(axis=1) == 1
    return ItemAgreement(
        item_ids=item_ids,
        n_answers=n,
        plurality=tuple(categories[k] if alone else "" for k, alone in zip(counts.argmax(axis=1), single, strict=True)),
        share=most / n,
        agreement=np.where(n > 1, (counts * (counts - 1)).sum(axis=1) / pairs, np.nan),
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
    typical = peer_shares(rows).groupby(rows["item_id"]).mean()
    by_respondent = rows.groupby("respondent_id", sort=False)
    n = by_respondent.size()
    labels = {} if gold is None else {i: g for i, g in zip(gold.item_ids, gold.label, strict=True) if g}

    def by_person(values: pd.Series[float]) -> NDArray[np.float64]:
        return np.asarray(values.groupby(rows["respondent_id"]).mean().reindex(n.index), dtype=np.float64)

    def share_of(expected: dict[str, str]) -> NDArray[np.float64]:
        wanted = rows["item_id"].map(expected)
        right = (rows["answer"] == wanted).astype(np.float64).mask(wanted.isna())
        return by_person(right)

    return RespondentAgreement(
        respondent_ids=tuple(map(str, n.index)),
        n_answers=np.asarray(n, dtype=np.int64),
        agreement=by_person(peer_shares(rows)),
        expected=by_person(rows["item_id"].map(typical)),
        key_share=share_of(keys),
        gold_share=share_of(labels),
    )
