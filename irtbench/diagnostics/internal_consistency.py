"""Classical test theory: what items, options and sum score say before any model, coefficient alpha and omega."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import fdtri, ndtri

from irtbench.data.given import AnswersLike, ResponsesLike, as_answers, as_responses
from irtbench.data.input_error import InputError, demand_share, refuse_any
from irtbench.data.responses import ResponseMatrix
from irtbench.data.shown import Figures, Shown
from irtbench.diagnostics.correlation import pairwise_covariance, tetrachoric

Array = NDArray[np.float64]
EXTREME_SHARE = 0.27  # of the respondents in the upper and in the lower group (Kelley, 1939)


@dataclass(frozen=True, eq=False)
class ClassicalStatistics(
    Shown,
    columns="item_ids, n, proportion_correct, item_total, item_rest, biserial, discrimination_index, "
    "alpha_if_dropped, biserial_rest",
    short="{item_ids:item}, proportion correct {proportion_correct:spanned}, item-rest {item_rest:spanned}",
):
    """Classical statistics of each item; all arrays have shape (n_items,), NaN where undefined.

    Its table has one row an item, the columns of classical.csv.

    Parameters
    ----------
    item_ids
        The items.
    n
        Responses to the item.
    proportion_correct
        Share of them that is right.
    item_total
        Correlation with the sum score, the item included: the point-biserial correlation.
    item_rest
        Correlation with the sum score of the other items.
    biserial, biserial_rest
        The same two as biserial correlations: with the normal variable that right and wrong cut in two. Beyond 1 where
        that variable cannot be normal.
    discrimination_index
        Proportion right among the upper 27% of the respondents by sum score, less that among the lower 27%.
    alpha_if_dropped
        Coefficient alpha of the other items.
    complete
        Whether every respondent answered every item. If not, correlations and alpha rest on the respondents of each
        pair of items, and the groups of the discrimination index on the proportion right of what was answered.
    """

    item_ids: tuple[str, ...]
    n: NDArray[np.int64]
    proportion_correct: NDArray[np.float64]
    item_total: NDArray[np.float64]
    item_rest: NDArray[np.float64]
    biserial: NDArray[np.float64]
    biserial_rest: NDArray[np.float64]
    discrimination_index: NDArray[np.float64]
    alpha_if_dropped: NDArray[np.float64]
    complete: bool


def classical_statistics(responses: ResponsesLike) -> ClassicalStatistics:
    """Classical statistics of every item.

    With c_ij the covariance of items i and j over the respondents who answered both, the sum score's variance is the
    sum of all c_ij, and

        item-total = sum_j c_ij / sqrt(c_ii sum_jk c_jk)
        item-rest = sum_{j != i} c_ij / sqrt(c_ii sum_{j, k != i} c_jk)
        biserial = r sqrt(p (1 - p)) / phi(Phi^-1(p)),  r either of the two
        alpha without i = k' / (k' - 1) (1 - sum_{j != i} c_jj / sum_{j, k != i} c_jk),  k' = n_items - 1

    Of several trials of an item the share right counts, and there is no biserial correlation.

    On complete responses these are the usual figures; a pair of items that nobody answered together counts with the
    covariance that one common factor would give; an item that fewer than two answered is no part of the sum. The two
    groups of the discrimination index hold 27% of the respondents each; those tied at the limit count in equal parts.

    Sources: Lord and Novick (1968); Kelley (1939) for the 27%.

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`).

    Raises
    ------
    InputError
        If there are fewer than two items.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> responses = pd.DataFrame({"easy": [1, 1, 1, 0], "middle": [1, 1, 0, 0], "hard": [1, 0, 0, 0]})
    >>> found = irtbench.classical_statistics(responses)
    >>> found
    <ClassicalStatistics: 3 items, proportion correct 0.25 to 0.75, item-rest 0.52 to 0.71>
    >>> found.table()[["item_id", "proportion_correct", "item_rest", "alpha_if_dropped"]].round(3)
      item_id  proportion_correct  item_rest  alpha_if_dropped
    0    easy                0.75      0.522             0.727
    1  middle                0.50      0.707             0.500
    2    hard                0.25      0.522             0.727
    """
    responses = as_responses(responses)
    if responses.n_items < 2:
        raise InputError(f"classical statistics: {responses.n_items} items; expected at least 2")
    own, with_item = covariances_with_sum(responses)
    rest, p = with_item.sum() - 2 * with_item + own, responses.proportion_correct()
    rest[rest < 1e-12 * with_item.sum()] = 0.0  # but for rounding
    counted = in_sum(responses)
    n_rest = np.where(counted.sum() - counted > 1, counted.sum() - counted, np.nan)
    dropped = n_rest / (n_rest - 1) * (1 - (own.sum() - own) / np.where(rest > 0, rest, np.nan))
    item_total, item_rest = _correlation(with_item, own, with_item.sum()), _correlation(with_item - own, own, rest)
    # a share of several trials was not cut in two
    to_biserial = _biserial_by(p) if responses.trials is None else np.full_like(p, np.nan)
    return ClassicalStatistics(
        item_ids=responses.item_ids,
        n=responses.n_by_item,
        proportion_correct=p,
        item_total=item_total,
        item_rest=item_rest,
        biserial=item_total * to_biserial,
        biserial_rest=item_rest * to_biserial,
        discrimination_index=_discrimination_index(responses),
        alpha_if_dropped=dropped,
        complete=responses.is_complete,
    )


def _correlation(covariance: Array, own: Array, other: Array) -> Array:
    """By covariance and variances; NaN where one of these is 0."""
    return np.asarray(covariance / np.sqrt(np.where((own > 0) & (other > 0), own * other, np.nan)))


def _biserial_by(p: Array) -> Array:
    """The biserial correlation as a multiple of the point-biserial one, by the proportion correct; NaN at 0 and 1."""
    inside = np.where((p > 0) & (p < 1), p, np.nan)
    return np.asarray(np.sqrt(2 * np.pi * inside * (1 - inside)) * np.exp(ndtri(inside) ** 2 / 2))


def covariances_with_sum(responses: ResponseMatrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Variance of each item, and its covariance with the sum score, shape (n_items,) each; see `filled_covariance`."""
    if responses.is_complete and responses.n_respondents > 1:  # without the covariances of all pairs
        centred, score = responses.shares - responses.shares.mean(axis=0), responses.shares.sum(axis=1)
        n = len(score) - 1
        return (centred**2).sum(axis=0) / n, (score - score.mean()) @ centred / n
    covariance, counted = filled_covariance(responses), in_sum(responses)
    if counted.any():
        covariance = np.where(np.outer(counted, counted), covariance, 0.0)
    return covariance.diagonal(), covariance.sum(axis=1)


def in_sum(responses: ResponseMatrix) -> NDArray[np.bool_]:
    """Items that are part of the sum score, since two respondents answered them, shape (n_items,)."""
    return np.asarray(responses.observed.sum(axis=0) > 1)


def filled_covariance(responses: ResponseMatrix) -> NDArray[np.float64]:
    """Covariance of every two items; pairs that fewer than two respondents answered get m_i m_j / m.

    m_i is the mean of item i's covariances that are known, m of all: as of one common factor. NaN where none is known.
    """
    covariance, _ = pairwise_covariance(responses.shares)
    between = np.ma.masked_invalid(np.where(np.eye(responses.n_items, dtype=bool), np.nan, covariance))
    if not between.count():
        return np.where(np.isfinite(covariance), covariance, np.nan)
    overall = float(between.mean())
    by_item = np.asarray(between.mean(axis=1).filled(overall))
    guess = np.outer(by_item, by_item) / overall if overall != 0 else np.zeros_like(covariance)
    np.fill_diagonal(guess, np.nan)
    return np.where(np.isfinite(covariance), covariance, guess)


def _discrimination_index(responses: ResponseMatrix) -> NDArray[np.float64]:
    """Proportion right among the upper 27% less that among the lower 27%, shape (n_items,)."""
    answered = responses.n_by_respondent > 0
    values = responses.shares[answered]
    score = np.nanmean(values, axis=1)
    number = int(np.floor(EXTREME_SHARE * len(score) + 0.5))
    if number == 0:
        return np.full(responses.n_items, np.nan)
    upper, lower = (_share_in_extreme(sign * score, number) for sign in (1, -1))
    right, seen = np.nan_to_num(values), ~np.isnan(values)
    in_upper, in_lower = (share @ right / np.where(share @ seen > 0, share @ seen, np.nan) for share in (upper, lower))
    return np.asarray(in_upper - in_lower, dtype=np.float64)


def _share_in_extreme(score: NDArray[np.float64], number: int) -> NDArray[np.float64]:
    """Share of each respondent in the group of the `number` highest: 1, 0, or between for those tied at the limit."""
    limit = np.sort(score)[-number]
    above, tied = score > limit, score == limit
    return above + tied * (number - above.sum()) / tied.sum()


TINY = 1e-12  # least variance that one divides by
FEWEST_FOR_OMEGA = 3  # one factor of two items has no unique loadings
MOST_FOR_OMEGA = 2_000  # whose tetrachoric correlations take a minute


@dataclass(frozen=True)
class InternalConsistency(Figures):
    """Reliability of the sum score by the covariances of its items; NaN where undefined.

    Parameters
    ----------
    alpha, alpha_lower, alpha_upper
        Coefficient alpha, for right and wrong responses the same as KR-20, and its interval, NaN where all items of
        each respondent are alike, which says nothing of how sure that is.
    omega
        Omega total of one factor of the tetrachoric correlations: for the normal variables behind the responses.
    standard_error
        Standard error of measurement of the sum score.
    n_respondents
        On whom the interval rests: all, or the harmonic mean over the pairs of items with missing responses.
    complete
        Whether every respondent answered every item.
    reason
        Why a figure is missing, in words; empty if none is.
    """

    alpha: float
    alpha_lower: float
    alpha_upper: float
    omega: float
    standard_error: float
    n_respondents: float
    complete: bool
    reason: str = ""


def internal_consistency(responses: ResponsesLike, *, level: float = 0.95) -> InternalConsistency:
    """Coefficient alpha, omega and the standard error of measurement.

        alpha = k / (k - 1) (1 - sum_i c_ii / C),  C = sum_ij c_ij          (Cronbach, 1951)
        standard error of measurement = sqrt(C (1 - alpha))

    with c_ij the covariance of items i and j over the respondents who answered both. KR-20 is the same number: the
    variances of item and sum score have the same denominator there. The interval is Feldt's (1965),
    1 - (1 - alpha) F(q; n - 1, (n - 1)(k - 1)) at q = (1 + level) / 2 and (1 - level) / 2, for normal scores. Where the
    jackknife variance of log(1 - alpha), whatever the distribution (compare Maydeu-Olivares et al., 2007), is above
    the 2 k / ((n - 1)(k - 1)) of that, as of items that nearly all get right, n is the number of respondents for whom
    the two are equal. Omega total is (sum l)^2 / ((sum l)^2 + sum (1 - l^2)) for loadings l of one factor, least
    squares on the tetrachoric correlations (McDonald, 1999).

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`).
    level
        Coverage of the interval of alpha.

    Raises
    ------
    InputError
        If there are fewer than two items, or `level` is not between 0 and 1.

    Examples
    --------
    >>> import irtbench
    >>> found = irtbench.internal_consistency([[1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 0, 0]])
    >>> found.alpha
    0.75
    >>> found.table()[["alpha", "alpha_lower", "alpha_upper", "standard_error"]].round(3)
       alpha  alpha_lower  alpha_upper  standard_error
    0   0.75       -0.967        0.988           0.645
    """
    responses = as_responses(responses)
    demand_share("internal consistency: level", level)
    if responses.n_items < 2:
        raise InputError(f"internal consistency: {responses.n_items} items; expected at least 2")
    (own, with_sum), k = covariances_with_sum(responses), int(in_sum(responses).sum())
    total = float(with_sum.sum())
    omega, reason = _omega_of(responses)
    if not (total > 0 and k > 1):
        why = "the sum score does not vary" if total == 0 else "the items' covariances do not give it a variance"
        return InternalConsistency(
            np.nan, np.nan, np.nan, omega, np.nan, np.nan, responses.is_complete, f"alpha: {why}"
        )
    alpha = k / (k - 1) * (1 - own.sum() / total)
    n = float(responses.n_respondents) if responses.is_complete else _typical_respondents(responses)
    variance = _variance_by_jackknife(responses, float(own.sum()), total)
    lower, upper = feldt_interval(alpha, min(n, max(2.0, 1 + 2 * k / (k - 1) / max(variance, TINY))), k, level)
    return InternalConsistency(
        float(alpha), lower, upper, omega, float(np.sqrt(total * max(0.0, 1 - alpha))), n, responses.is_complete, reason
    )


def feldt_interval(alpha: float, n: float, k: int, level: float) -> tuple[float, float]:
    """Interval of alpha of k items and n respondents with normal scores; NaN for one respondent, or an alpha of 1."""
    if n < 2 or alpha > 1 - TINY:
        return np.nan, np.nan
    lower, upper = 1 - (1 - alpha) * fdtri(n - 1, (n - 1) * (k - 1), [(1 + level) / 2, (1 - level) / 2])
    return float(lower), float(upper)


def _variance_by_jackknife(responses: ResponseMatrix, own: float, total: float) -> float:
    """Sampling variance of log(1 - alpha), each respondent left out in turn; infinite where one of them carries all."""
    values = responses.shares[:, in_sum(responses)]
    seen, k, n_rows = ~np.isnan(values), values.shape[1], len(values)
    centred = np.where(seen, values - np.nanmean(values, axis=0), 0.0)
    if responses.is_complete:  # without the covariances of all pairs
        lost = np.stack([(centred**2).sum(axis=1), centred.sum(axis=1) ** 2]) * n_rows / (n_rows - 1)
        lost = (lost - [[own], [total]]) / max(n_rows - 2, TINY)
    else:
        covariance, n = pairwise_covariance(values)
        left = np.where(n > 2, n - 2, np.inf)
        share, mean = n / np.maximum(n - 1, 1) / left, np.nan_to_num(covariance) / left
        parts = centred**2 @ share.diagonal(), (centred @ share * centred).sum(axis=1)
        lost = np.stack(parts) - [seen @ mean.diagonal(), (seen @ mean * seen).sum(axis=1)]
    without, varying = np.array([[own], [total]]) - lost
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithms = np.log(np.where(varying > TINY * total, k * without / varying - 1, np.nan))
        variance = float((n_rows - 1) * logarithms.var())
    return variance if np.isfinite(variance) else np.inf


def omega_total(correlations: ArrayLike) -> float:
    """Omega total of one factor, its loadings by least squares on the correlations off the diagonal (minres).

    Parameters
    ----------
    correlations
        Of the items, shape (n_items, n_items), at least three items.

    Examples
    --------
    Loadings of .8, .7 and .6 give omega = 2.1^2 / (2.1^2 + .36 + .51 + .64).

    >>> import irtbench
    >>> round(irtbench.omega_total([[1, 0.56, 0.48], [0.56, 1, 0.42], [0.48, 0.42, 1]]), 3)
    0.745
    """
    correlations = np.asarray(correlations, dtype=np.float64)
    apart = correlations - np.diag(correlations.diagonal())
    values, vectors = np.linalg.eigh(correlations)
    start = vectors[:, -1] * np.sqrt(values[-1])
    start *= 1.0 if start.sum() >= 0 else -1.0

    def loss_and_slope(loading: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        product = np.outer(loading, loading)
        residual = product - np.diag(product.diagonal()) - apart
        return float((residual**2).sum() / 4), residual @ loading

    found = minimize(
        loss_and_slope, np.clip(start, -1.0, 1.0), jac=True, method="L-BFGS-B",
        bounds=[(-1.0, 1.0)] * len(start), options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10_000},
    )  # fmt: skip
    common = found.x.sum() ** 2
    return float(common / (common + (1 - found.x**2).sum()))


def _omega_of(responses: ResponseMatrix) -> tuple[float, str]:
    """Omega total of the tetrachoric correlations, and why it is missing."""
    try:
        refuse_any((
            (responses.n_items < FEWEST_FOR_OMEGA,
             f"{responses.n_items} items; one factor needs at least {FEWEST_FOR_OMEGA}"),
            (responses.n_items > MOST_FOR_OMEGA, f"the pairs of {responses.n_items:,} items are too many"),
            (responses.trials is not None, "of right and wrong, not of several trials or categories"),
        ))  # fmt: skip
        correlations = tetrachoric(responses).correlations
    except InputError as error:
        return np.nan, f"omega: {error}"
    return omega_total(correlations), ""


def _typical_respondents(responses: ResponseMatrix) -> float:
    """Harmonic mean, over the pairs of items answered together, of their respondents."""
    _, n = pairwise_covariance(responses.shares[:, in_sum(responses)])
    pairs = n[np.triu_indices(len(n), 1)]
    return float(1 / (1 / pairs[pairs > 0]).mean()) if (pairs > 0).any() else 0.0


NOBODY = "chosen by nobody"
BY_THE_ABLE = "chosen more by the able than by the weak"
MORE_THAN_KEY = "draws the able more than the key does"


def distractor_table(
    answers: AnswersLike,
    keys: dict[str, str],
    responses: ResponsesLike,
    *,
    options: dict[str, list[str]] | None = None,
    scored: Collection[str] | None = None,
) -> pd.DataFrame:
    """Every option of every item, columns of distractors.csv.

    Shares are of all who were asked the item, those without an answer included. The score groups are thirds of the
    respondents by sum score (by the share right of what they answered, where responses are missing), at its quantiles
    1/3 and 2/3. ``point_biserial`` is the correlation of choosing the option with the score; ``point_biserial_rest``
    with the score without this item.

    Flags: nobody chose it; a wrong option that more of the able than of the weak third chose; a wrong option whose
    correlation with the rest of the score is above the key's.

    Parameters
    ----------
    answers
        Raw answers, a long or wide data frame (`as_answers`); an empty answer is none.
    keys
        The key of each item.
    responses
        The answers as graded by the keys, by the same respondents (`as_responses`).
    options
        Options offered by an item, if known: those that nobody chose are then listed too.
    scored
        Items that the score is made of; None for all of the responses.

    Returns
    -------
    DataFrame
        ``item_id, option, is_key, n, share, point_biserial, flags, share_low, share_middle, share_high,
        point_biserial_rest``, the key first, then by how many chose it.

    Raises
    ------
    InputError
        If the responses have an item without a key, or somebody who answered is not among them.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> answers = pd.DataFrame(
    ...     {"i1": list("aaabbc"), "i2": list("dddede"), "i3": list("ffgggg")},
    ...     index=["ann", "bob", "cy", "dee", "eve", "fay"],
    ... )
    >>> keys = {"i1": "a", "i2": "d", "i3": "f"}
    >>> table = irtbench.distractor_table(answers, keys, irtbench.grade(answers, pd.DataFrame({"key": keys})))
    >>> table[["item_id", "option", "is_key", "n", "share_low", "share_high", "point_biserial_rest"]].round(2)
      item_id option  is_key  n  share_low  share_high  point_biserial_rest
    0      i1      a    True  3        0.0         1.0                 0.82
    1      i1      b   False  2        0.5         0.0                -0.43
    2      i1      c   False  1        0.5         0.0                -0.55
    3      i2      d    True  4        0.0         1.0                 0.66
    4      i2      e   False  2        1.0         0.0                -0.66
    5      i3      f    True  2        0.0         1.0                 0.66
    6      i3      g   False  4        1.0         0.0                -0.66
    """
    answers, responses = as_answers(answers), as_responses(responses)
    seen = ~np.isnan(responses.values)
    counts = np.array([scored is None or item in scored for item in responses.item_ids])
    right = np.where(seen & counts, responses.values, 0.0)
    n_seen = (seen & counts).sum(axis=1)
    score = right.sum(axis=1) / np.where(n_seen > 0, n_seen, np.nan)
    low, high = np.nanquantile(score, [1 / 3, 2 / 3]) if n_seen.any() else (np.nan, np.nan)
    thirds = np.column_stack([score <= low, (score > low) & (score <= high), score > high])
    rows = []
    for k, (item, people, texts) in enumerate(answers_by_item(answers, keys, responses)):
        asked = seen[:, k]
        n_others = n_seen - (asked & counts[k])
        rest = (right.sum(axis=1) - right[:, k]) / np.where(n_others > 0, n_others, np.nan)
        chosen = np.full(responses.n_respondents, "", dtype=object)
        chosen[people] = texts.to_numpy()
        counted = Counter(chosen[asked])
        names = {keys[item], *(options or {}).get(item, []), *counted} - {""}
        rest_of_key = _point_biserial((chosen == keys[item])[asked], rest[asked])
        for option in sorted(names, key=lambda name: (name != keys[item], -counted[name], name)):
            picks = chosen == option
            shares = [_share(picks[asked & third]) for third in thirds.T]
            with_rest = _point_biserial(picks[asked], rest[asked])
            wrong = option != keys[item]
            flags = [
                flag
                for flag, raised in (
                    (NOBODY, not picks.any()),
                    (BY_THE_ABLE, wrong and shares[2] > shares[0]),
                    (MORE_THAN_KEY, wrong and with_rest > rest_of_key),
                )
                if raised
            ]
            rows.append(
                {
                    "item_id": item,
                    "option": option,
                    "is_key": not wrong,
                    "n": int(picks[asked].sum()),
                    "share": _share(picks[asked]),
                    "point_biserial": _point_biserial(picks[asked], score[asked]),
                    "flags": "; ".join(flags),
                    "share_low": shares[0],
                    "share_middle": shares[1],
                    "share_high": shares[2],
                    "point_biserial_rest": with_rest,
                }
            )
    return pd.DataFrame(rows)


def answers_by_item(
    answers: pd.DataFrame, keys: Collection[str], responses: ResponseMatrix
) -> Iterator[tuple[str, NDArray[np.intp], pd.Series[str]]]:
    """Each item, who answered it (rows of the responses), and what; the first of several answers, no empty ones."""
    if without := [item for item in responses.item_ids if item not in keys]:
        raise InputError(f"keys: item {without[0]} has no key; expected one for every item")
    given = answers[answers["item_id"].isin(responses.item_ids) & (answers["answer"].fillna("") != "")]
    rows = pd.Index(responses.respondent_ids).get_indexer(pd.Index(given["respondent_id"]))
    if (rows < 0).any():
        raise InputError(
            f"answers: respondent {given['respondent_id'].iloc[rows.argmin()]} has answers but no row in the "
            "responses; expected the same respondents (an array's are named r1 ...)"
        )
    given = given.assign(row=rows).drop_duplicates(["item_id", "respondent_id"])
    by_item = dict(tuple(given.groupby("item_id", sort=False)))
    for item in responses.item_ids:
        chosen = by_item.get(item, given[:0])
        yield item, chosen["row"].to_numpy(), chosen["answer"]


def _share(picks: NDArray[np.bool_]) -> float:
    return float(picks.mean()) if picks.size else float("nan")


def _point_biserial(picks: NDArray[np.bool_], score: NDArray[np.float64]) -> float:
    """Correlation over those with a score; NaN where one of the two does not vary."""
    known = np.isfinite(score)
    x, y = picks[known].astype(np.float64), score[known]
    if x.size < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])
