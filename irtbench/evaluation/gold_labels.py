"""Gold labels from a crowd's answers: by majority, or by the model of Dawid and Skene."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.given import AnswersLike, ItemsLike
from irtbench.data.grading import NormalisationRule
from irtbench.data.input_error import InputError
from irtbench.data.shown import Shown
from irtbench.evaluation.agreement import EmptyAnswer, answers_that_count, counts_of

GoldMethod = Literal["majority", "dawid-skene", "latent-class"]


@dataclass(frozen=True, eq=False)
class GoldLabels(Shown, columns="item_ids, gold=label, gold_probability=probability"):
    """The label of each item by the crowd.

    Its table has one row an item.

    Parameters
    ----------
    item_ids
        Items with at least one answer.
    label
        The label; empty where several are equally likely.
    probability
        Share of the answers (majority), or posterior probability under the model; shape (n_items,).
    method
        How they were found.
    """

    item_ids: tuple[str, ...]
    label: tuple[str, ...]
    probability: NDArray[np.float64]
    method: GoldMethod


def majority_labels(
    answers: AnswersLike,
    *,
    items: ItemsLike | None = None,
    normalise: Sequence[NormalisationRule] = (),
    empty: EmptyAnswer = "missing",
) -> GoldLabels:
    """The most common answer to each item, with its share; no label where several are equally common.

    Parameters and errors as for ``agreement``.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> answers = pd.DataFrame(
    ...     {"i1": ["yes", "yes", "no", "yes"], "i2": ["no", "no", "no", "yes"], "i3": ["yes", "no", "no", None]},
    ...     index=["ann", "bob", "cy", "dee"],
    ... )
    >>> irtbench.majority_labels(answers).table().round(2)
      item_id gold  gold_probability
    0      i1  yes              0.75
    1      i2   no              0.75
    2      i3   no              0.67
    """
    rows, _ = answers_that_count(answers, items, normalise, empty)
    counts, item_ids, categories = counts_of(rows)
    return most_likely(counts / counts.sum(axis=1, keepdims=True), item_ids, categories, "majority")


def dawid_skene_labels(
    answers: AnswersLike,
    *,
    items: ItemsLike | None = None,
    normalise: Sequence[NormalisationRule] = (),
    empty: EmptyAnswer = "missing",
    n_iterations: int = 100,
) -> GoldLabels:
    """The most probable label of each item if every respondent has a confusion matrix of their own.

    P(z_i = k | answers) is proportional to p_k prod_r e_r[k, answer of r], with p and e_r by maximum likelihood
    (Dawid & Skene, 1979), as crowd-kit computes it: ``pip install 'irtbench[crowd]'``. A respondent with few answers
    has a confusion matrix made of little: below some twenty answers each, look at the majority too.

    Parameters
    ----------
    answers, items, normalise, empty
        As for ``agreement``.
    n_iterations
        Most iterations of EM; it stops earlier once the likelihood rises by less than 1e-5.

    Raises
    ------
    InputError
        As for ``agreement``, or if crowd-kit is not installed.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> answers = pd.DataFrame(
    ...     {"i1": ["yes", "yes", "no", "yes"], "i2": ["no", "no", "no", "yes"], "i3": ["yes", "no", "no", None]},
    ...     index=["ann", "bob", "cy", "dee"],
    ... )
    >>> irtbench.dawid_skene_labels(answers).label  # doctest: +SKIP
    ('yes', 'no', 'no')
    """
    try:
        from crowdkit.aggregation.classification.dawid_skene import DawidSkene
    except ImportError:
        raise InputError(
            "gold labels: the model of Dawid and Skene needs crowd-kit; install it: pip install 'irtbench[crowd]', "
            "or take the majority"
        ) from None
    rows, _ = answers_that_count(answers, items, normalise, empty)
    model = DawidSkene(n_iter=n_iterations)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # how crowd-kit calls pandas is not for our users to mend
        model.fit(rows.rename(columns={"item_id": "task", "respondent_id": "worker", "answer": "label"}))
    found = model.probas_.reindex(pd.unique(rows["item_id"]))
    return most_likely(
        found.to_numpy(dtype=np.float64), tuple(map(str, found.index)), tuple(map(str, found)), "dawid-skene"
    )


def most_likely(
    probability: NDArray[np.float64], item_ids: tuple[str, ...], labels: tuple[str, ...], method: GoldMethod
) -> GoldLabels:
    """The label of highest probability of each item; none where several have it."""
    highest = probability.max(axis=1)
    single = np.isclose(probability, highest[:, None], rtol=0, atol=1e-9).sum(axis=1) == 1
    best = probability.argmax(axis=1)
    label = tuple(labels[k] if alone else "" for k, alone in zip(best, single, strict=True))
    return GoldLabels(item_ids, label, highest, method)
