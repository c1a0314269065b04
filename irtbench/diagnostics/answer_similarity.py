"""Pairs of respondents whose answers are more alike than their abilities explain: copying, or one machine behind both.

Wrong answers tell most: two able people agree because both are right, but few pairs choose the same wrong options.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from irtbench.data.given import AnswersLike, ResponsesLike, as_answers
from irtbench.data.input_error import InputError, refuse_any
from irtbench.data.responses import ResponseMatrix, resolve_duplicates
from irtbench.data.shown import Shown
from irtbench.models.category_parameters import CategoryDerivatives, CategoryParameters
from irtbench.models.curves import Curve, logistic
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, responses_and_items
from irtbench.models.theta_posterior import sum_score_distribution

PSEUDO_COUNT = 0.5  # added to each wrong option's count, so that none is impossible
SUSPECT_Z = 2.0  # pairs above it get the tail of their own distribution; below it the normal one will do
LEAST_VARIANCE = 1e-9  # of the number of identical answers, where two people are sure to agree
LEAST_LEFT = 0.05  # share of that variance that estimated abilities leave at least
BLOCK = 256  # respondents compared with all others at a time


@dataclass(frozen=True, eq=False)
class AnswerSimilarity(Shown, short="{n_tested:pair} compared, {p_adjusted:significant}"):
    """Answer similarity of pairs of respondents; arrays have shape (n_pairs,).

    Parameters
    ----------
    pairs
        The two respondents of each pair, most suspect first.
    n_items
        Items that both answered.
    n_identical
        Items on which both gave the same answer.
    n_identical_wrong
        Of those, the same wrong answer; None of items in categories.
    expected
        Identical answers expected of two people of their abilities.
    z
        (n_identical - expected) / its standard deviation.
    p
        P(at least ``n_identical``) of two people who work alone.
    p_adjusted
        Holm's over all ``n_tested`` pairs.
    n_tested
        Pairs that were compared; those listed may be fewer.
    """

    pairs: tuple[tuple[str, str], ...]
    n_items: NDArray[np.int64]
    n_identical: NDArray[np.int64]
    n_identical_wrong: NDArray[np.int64] | None
    expected: NDArray[np.float64]
    z: NDArray[np.float64]
    p: NDArray[np.float64]
    p_adjusted: NDArray[np.float64]
    n_tested: int

    def table(self) -> pd.DataFrame:
        """One row a pair, columns of similar_pairs.csv."""
        table = pd.DataFrame(
            {
                "respondent_1": [first for first, _ in self.pairs],
                "respondent_2": [second for _, second in self.pairs],
                "n_items": self.n_items,
                "n_identical": self.n_identical,
                "n_identical_wrong": self.n_identical_wrong,
                "expected": self.expected,
                "z": self.z,
                "p": self.p,
                "p_adjusted": self.p_adjusted,
            }
        )
        return table if self.n_identical_wrong is not None else table.drop(columns="n_identical_wrong")


def answer_similarity(
    answers: AnswersLike | None,
    responses: ResponsesLike,
    items: ParametersLike,
    theta: ArrayLike,
    *,
    scale: ArrayLike | None = None,
    min_items: int = 10,
    most_listed: int = 1_000,
) -> AnswerSimilarity:
    """Compare every two respondents: identical answers against those expected at their abilities.

    The generalised binomial test of van der Linden & Sotaridona (2006), in its symmetric form, that knows no copier
    and no source: given the abilities, two people who work alone agree on item j with probability

        m_j = P_j(theta_1) P_j(theta_2) + sum_k Q_j(theta_1) s_jk Q_j(theta_2) s_jk,      Q = 1 - P,

    k over the wrong options and s_jk the option's share of the item's wrong answers (a nested logit model whose options
    are equally attractive at all abilities: Suh & Bolt, 2010); of an item in categories sum_k P_jk(theta_1)
    P_jk(theta_2) over all of them. The number M of identical answers is a sum of
    independent indicators with these probabilities.

    Abilities are estimated from these very answers (EAP), so that M varies less about sum_j m_j than V = sum_j
    m_j (1 - m_j) says, and the plain test finds too little. To first order the variance is

        V* = V - c_1^2 / (I_1 + 1) - c_2^2 / (I_2 + 1),    c_1 = sum_j sum_k P'_jk(theta_1) P_jk(theta_2),

    c_1 the covariance of M with the score of theta_1, k over all answers, I the test information and 1 that of the
    standard normal prior; with several scales the terms are summed over them. p is the upper tail of the generalised
    binomial distribution at sum m + (M - sum m) sqrt(V / V*), interpolated between whole numbers, or that of the normal
    distribution at z, whichever is larger. docs/crowds.md has false alarm rates and power.

    Parameters
    ----------
    answers
        Raw answers, a long or wide data frame (`as_answers`); empty answers are left out. None of items in categories,
        whose responses are k right of m.
    responses
        The same, graded: who is compared, on which items (`as_responses`).
    items
        Parameters of these items (`as_parameters`).
    theta
        EAP abilities, shape (n_respondents,), or (n_respondents, n_scales) with ``scale``; NaN, where a respondent
        has none on a scale, leaves those answers out. The prior is to be these people's: of honest pairs who are 2
        standard deviations abler than the prior .23 have p < .05, as theirs is drawn down.
    scale
        The column of ``theta`` for each item, shape (n_items,).
    min_items
        Fewest items that both must have answered.
    most_listed
        Pairs in the result, those of the largest z; all are tested.

    Raises
    ------
    InputError
        If items or shapes differ, no pair has enough items in common, or a pair (respondent, item) is repeated.

    Examples
    --------
    Thirty people answer twenty items of four options; the last copies the first.

    >>> import numpy as np
    >>> import pandas as pd
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 20, np.linspace(-1, 2, 20))
    >>> right = irtbench.simulate_responses(rng.normal(size=30), items, rng=rng).table().set_index("respondent_id")
    >>> answers = right.where(right == 1, rng.integers(2, 5, right.shape)).astype(int).astype(str)
    >>> answers.iloc[29] = answers.iloc[0]
    >>> responses = (answers == "1").astype(int)
    >>> theta = irtbench.estimate_ability(responses, items, method="eap").theta
    >>> found = irtbench.answer_similarity(answers, responses, items, theta)
    >>> found
    <AnswerSimilarity: 435 pairs compared, 1 with adjusted p < .05>
    >>> names = ["respondent_1", "respondent_2", "n_identical", "n_identical_wrong", "expected", "z"]
    >>> found.table()[names].round(1).head(2)
      respondent_1 respondent_2  n_identical  n_identical_wrong  expected    z
    0           r1          r30           20                 11       8.2  6.0
    1          r13          r22           12                  7       6.9  2.6
    """
    responses, items = responses_and_items(responses, items, categories=True)
    theta = np.asarray(theta, dtype=np.float64)
    abilities = theta.reshape(len(theta), -1)
    column = np.zeros(items.n_items, dtype=np.int64) if scale is None else np.asarray(scale)
    fits = len(abilities) == responses.n_respondents and column.size == items.n_items
    refuse_any((
        (items.item_ids != responses.item_ids,
         "answer similarity: the parameters are not those of the items answered, in their order"),
        (not fits or column.max() >= abilities.shape[1],
         f"answer similarity: abilities of shape {theta.shape} do not fit {responses.n_respondents} respondents and "
         f"{1 if scale is None else column.max() + 1} scales"),
    ))  # fmt: skip
    model = _model(answers, responses, items, abilities, column)
    answered = (model.coded >= 0).astype(np.float64)
    listed: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]] = []
    n_tested = 0
    for start in range(0, responses.n_respondents, BLOCK):
        own = np.arange(start, min(start + BLOCK, responses.n_respondents))
        excess, variance = np.zeros((2, own.size, responses.n_respondents))
        for j, block in enumerate(model.blocks):
            match = block[own] @ block.T
            excess += ((model.coded[own, j, None] == model.coded[:, j]) & (model.coded[:, j] >= 0)) - match
            variance += match * (1 - match)
        variance = np.maximum(variance, LEAST_VARIANCE)
        left = np.maximum(variance - model.explained(own), LEAST_LEFT * variance)
        tested = (own[:, None] < np.arange(responses.n_respondents)) & (answered[own] @ answered.T >= min_items)
        n_tested += int(tested.sum())
        z = np.where(tested, excess / np.sqrt(left), -np.inf)
        n_listed = min(most_listed, int(tested.sum()))
        first, second = np.unravel_index(np.argsort(z, axis=None)[::-1][:n_listed], z.shape)
        inflation = np.sqrt(variance / left)[first, second]
        listed.append((own[first], second, z[first, second], inflation))
    if n_tested == 0:
        raise InputError(f"answer similarity: no two respondents have {min_items} items in common")
    first, second, z, inflation = (np.concatenate(part) for part in zip(*listed, strict=True))
    most = np.argsort(-z, kind="stable")[:most_listed]
    first, second, z, inflation = first[most], second[most], z[most], inflation[most]
    match = np.stack([(block[first] * block[second]).sum(axis=1) for block in model.blocks], axis=1)
    coded = model.coded
    identical = (coded[first] == coded[second]) & (coded[first] >= 0)
    p = ndtr(-z)
    suspect = z > SUSPECT_Z
    expected = match.sum(axis=1)
    stretched = expected + (identical.sum(axis=1) - expected) * inflation
    p[suspect] = np.maximum(p[suspect], generalised_binomial_tail(match[suspect], stretched[suspect]))
    order = np.lexsort((-z, p))
    first, second, p = first[order], second[order], p[order]
    ids = responses.respondent_ids
    # Holm's method over all pairs, of which these have the smallest p
    adjusted = np.maximum.accumulate(p * (n_tested - np.arange(p.size)))
    return AnswerSimilarity(
        pairs=tuple((ids[i], ids[k]) for i, k in zip(first, second, strict=True)),
        n_items=((coded[first] >= 0) & (coded[second] >= 0)).sum(axis=1),
        n_identical=identical[order].sum(axis=1),
        n_identical_wrong=(identical[order] & (coded[first] > 0)).sum(axis=1) if items.categories is None else None,
        expected=expected[order],
        z=z[order],
        p=p,
        p_adjusted=np.minimum(adjusted, 1.0),
        n_tested=n_tested,
    )


def generalised_binomial_tail(probability: NDArray[np.float64], n: NDArray[np.float64]) -> NDArray[np.float64]:
    """P(sum of independent indicators >= n) for each row of their probabilities, shape (n_rows,).

    By recursion over the indicators: after each, P(sum = k) = P(k) (1 - p) + P(k - 1) p. Between whole numbers log P is
    interpolated; beyond the number of indicators it falls as it did before.

    Examples
    --------
    >>> generalised_binomial_tail(np.array([[0.5, 0.5, 0.5]]), np.array([2.0])).round(6).tolist()
    [0.5]
    """
    at_least = np.cumsum(sum_score_distribution(probability)[:, ::-1], axis=1)[:, ::-1]
    log_tail = np.log(np.maximum(at_least, np.finfo(np.float64).tiny))
    row, low = np.arange(len(n)), np.clip(np.floor(n).astype(np.int64), 0, probability.shape[1] - 1)
    at = log_tail[row, low]
    return np.exp(np.minimum(at + (log_tail[row, low + 1] - at) * (n - low), 0.0))


@dataclass(frozen=True, eq=False)
class _Model:
    """What everybody answered and would have been expected to.

    ``coded``: the answer as a number within the item, 0 the right one, or the category; -1 none; (n_respondents,
    n_items). ``blocks``, ``slopes``: for each item P of every answer at each respondent's ability and its derivative,
    rows of 0 where there is no answer. ``information``: of each respondent's answers on each scale. ``column``: the
    scale of each item.
    """

    coded: NDArray[np.int64]
    blocks: list[NDArray[np.float64]]
    slopes: list[NDArray[np.float64]]
    information: NDArray[np.float64]
    column: NDArray[np.int64]

    def explained(self, own: NDArray[np.int64]) -> NDArray[np.float64]:
        """The part of the variance that goes into the estimated abilities, for pairs of these with everybody."""
        total = np.zeros((own.size, len(self.coded)))
        for s in range(self.information.shape[1]):
            on = np.flatnonzero(self.column == s)
            p, slope = (np.hstack([of[j] for j in on]) for of in (self.blocks, self.slopes))
            first, second = slope[own] @ p.T, p[own] @ slope.T
            total += first**2 / (self.information[own, s, None] + 1) + second**2 / (self.information[:, s] + 1)
        return total


def _model(
    answers: AnswersLike | None,
    responses: ResponseMatrix,
    items: ItemParameters,
    abilities: NDArray[np.float64],
    column: NDArray[np.int64],
) -> _Model:
    theta = abilities[:, column]
    if items.categories is None:
        if answers is None:
            raise InputError("answer similarity: no answers; expected them, unless items are in categories")
        coded = np.where(np.isfinite(theta), _coded(as_answers(answers), responses), -1)
        each = _of_options(coded, np.nan_to_num(theta), items)
    else:
        coded = np.where(np.isfinite(theta) & responses.observed, np.nan_to_num(responses.correct), -1).astype(np.int64)
        each = _of_categories(items.categories, np.nan_to_num(abilities), column)
    observed = coded >= 0
    blocks, slopes, information = [], [], np.zeros(coded.shape)
    for j, (p, slope) in enumerate(each):
        blocks.append(np.where(observed[:, [j]], p, 0.0))
        slopes.append(np.where(observed[:, [j]], slope, 0.0))
        information[:, j] = np.divide(slopes[j] ** 2, p, out=np.zeros_like(p), where=p > 0).sum(axis=1)
    by_scale = np.stack([information[:, column == s].sum(axis=1) for s in range(abilities.shape[1])], axis=1)
    return _Model(coded, blocks, slopes, by_scale, column)


def _of_options(
    coded: NDArray[np.int64], theta: NDArray[np.float64], items: ItemParameters
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """P of the right answer and of each wrong option at each respondent's ability, and its derivative; by item."""
    curve = Curve(theta * items.discrimination + items.intercept, items.guessing, logistic)
    variance = curve.p * (1 - curve.p)
    rate = np.sign(items.discrimination) * np.sqrt(items.discrimination**2 * curve.information_zz * variance)
    for j in range(items.n_items):
        counts = np.bincount(coded[coded[:, j] > 0, j], minlength=2)[1:] + PSEUDO_COUNT
        share = counts / counts.sum()
        p, slope = curve.p[:, [j]], rate[:, [j]]
        yield np.hstack([p, (1 - p) * share]), np.hstack([slope, -slope * share])


def _of_categories(
    items: CategoryParameters, abilities: NDArray[np.float64], column: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """The same of the categories of each item."""
    of_scale = [CategoryDerivatives.at(items, theta) for theta in abilities.T]
    for j, (start, top) in enumerate(zip(items.first, items.top, strict=True)):
        found, own = of_scale[column[j]], slice(start, start + top + 1)
        yield found.p[:, own], (found.p * found.slope)[:, own]


def _coded(answers: pd.DataFrame, responses: ResponseMatrix) -> NDArray[np.int64]:
    """The answer of each respondent to each item as a number within the item: 0 right, wrong ones from 1, -1 none.

    All right answers to an item are one, however they are written.
    """
    rows = resolve_duplicates(answers)
    row = pd.Index(responses.respondent_ids).get_indexer(pd.Index(rows["respondent_id"]))
    column = pd.Index(responses.item_ids).get_indexer(pd.Index(rows["item_id"]))
    given = (row >= 0) & (column >= 0) & (rows["answer"].fillna("") != "").to_numpy()
    row, column, text = row[given], column[given], rows["answer"].to_numpy(dtype=object)[given]
    response = responses.values[row, column]
    coded = np.full(responses.values.shape, -1)
    coded[row[response == 1], column[response == 1]] = 0
    wrong = pd.DataFrame({"row": row, "column": column, "text": text})[response == 0]
    number = wrong.groupby("column")["text"].transform(lambda texts: pd.factorize(texts, sort=True)[0] + 1)
    coded[wrong["row"], wrong["column"]] = number.to_numpy(dtype=np.int64)
    return coded
