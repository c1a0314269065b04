"""Item bias among respondents of equal sum score: Mantel and Haenszel's test, and logistic regression."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtri

from irtbench.analysis.item_differences import (
    DELTA_PER_LOGIT,
    DifferencesByScore,
    Grade,
    MatchedGroups,
    ets_class,
    jodoin_gierl_class,
    match_groups,
    nagelkerke,
    purified_anchors,
)
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import demand_choice, demand_share
from irtbench.data.multiple_testing import Adjustment, adjust
from irtbench.data.responses import Responses
from irtbench.diagnostics.empirical_curve import ordinal_regression
from irtbench.models.coded_scores import CodedScores, Levels

TWO_SIDED_95 = float(ndtri(0.975))
CORRECTION = 0.5


@dataclass(frozen=True, eq=False)
class MantelHaenszel(
    DifferencesByScore,
    columns="item_ids, chi2, df, p, p_adjusted, odds_ratio, delta, ets_class, se_delta, delta_lower, delta_upper, "
    "anchor, method",
):
    """Difference of each item between groups at the same sum score; all arrays have shape (n_items,).

    Its table has one row an item, the columns of bias.csv.

    Parameters
    ----------
    item_ids
        The items.
    groups
        Respondents of each group, the reference first.
    chi2, df, p, p_adjusted
        Test of the same odds of a right response in all groups at every score.
    odds_ratio
        Common odds ratio, reference over focal; NaN with more than two groups.
    delta
        -2.35 log(odds_ratio); negative where the item is harder for the focal group.
    se_delta
        Its standard error.
    ets_class
        See `ets_class`; empty with more than two groups.
    anchor
        Items that make the score; the studied item always belongs to its own.
    rounds
        Number of sets of anchors tried.
    settled
        Whether the last set gave itself again.
    n_left_out
        Respondents without a group or without a response to every item.
    """

    chi2: NDArray[np.float64]
    odds_ratio: NDArray[np.float64]
    delta: NDArray[np.float64]
    se_delta: NDArray[np.float64]
    ets_class: tuple[Grade, ...]

    @property
    def method(self) -> str:
        """The test."""
        return "mantel-haenszel"

    @property
    def delta_lower(self) -> NDArray[np.float64]:
        """Lower end of the 95% interval of delta."""
        return self.delta - TWO_SIDED_95 * self.se_delta

    @property
    def delta_upper(self) -> NDArray[np.float64]:
        """Upper end of the 95% interval of delta."""
        return self.delta + TWO_SIDED_95 * self.se_delta


def mantel_haenszel(
    responses: ResponsesLike | Responses,
    groups: Iterable[str | None],
    *,
    reference: str | None = None,
    purify: bool = True,
    continuity: bool = True,
    alpha: float = 0.05,
    adjustment: Adjustment = "fdr_bh",
) -> MantelHaenszel:
    """Differential item functioning by the Mantel-Haenszel test, generalised to any number of groups.

    At each sum score k of the anchors and the item, with N_k respondents, n_gk of them in group g, R_k right responses
    and R_gk in group g, equal odds give R_gk the mean and covariance of a hypergeometric distribution,

        E_gk = n_gk R_k / N_k,   V_ghk = R_k (N_k - R_k) n_gk (N_k [g = h] - n_hk) / (N_k^2 (N_k - 1)),

    and chi2 = D' V^-1 D with D = sum_k R_gk - E_gk over the focal groups (Somes, 1986). For two groups
    chi2 = (abs(D) - .5)^2 / V (Holland & Thayer, 1988), with

        odds ratio = sum_k A_k D_k / N_k / sum_k B_k C_k / N_k,

    A and B right and wrong responses of the reference, C and D of the focal group; the variance of its logarithm is
    that of Phillips & Holland (1987).

    The score is a measure of ability only if all items discriminate equally. Where slopes differ and groups differ in
    ability, clean items are flagged too, the more the larger the groups (of 1,000, one standard deviation apart: .098
    at .05, any after adjustment in .27 of data sets): confirm with `item_bias`, which allows for that.

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`); respondents who did not answer all items have
        no score and are left out.
    groups
        The group of each respondent; None, or a missing value, leaves a respondent out.
    reference
        The group to which the others are compared; None for the largest.
    purify
        Whether items with p below ``alpha`` leave the score, until the set stays.
    continuity
        Whether .5 is subtracted; with more than two groups it never is.
    alpha
        Level of purification.
    adjustment
        Of p over the items.

    Raises
    ------
    InputError
        As `match_groups`, or if alpha is not between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> harder = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 3.0])
    >>> values = [irtbench.simulate_responses(rng.normal(size=300), each, rng=rng).values for each in (items, harder)]
    >>> found = irtbench.mantel_haenszel(np.concatenate(values), ["people"] * 300 + ["machines"] * 300)
    >>> found
    <MantelHaenszel: 6 items, 1 with adjusted p < .05>
    >>> found.table()[["item_id", "odds_ratio", "delta", "ets_class", "p_adjusted"]].round(2).tail(3)
      item_id  odds_ratio  delta ets_class  p_adjusted
    3   item4        1.00   0.01         A        0.93
    4   item5        0.81   0.50         A        0.93
    5   item6       10.53  -5.53         C        0.00
    """
    responses = as_responses(responses)
    demand_share("item bias: alpha", alpha)
    matched = match_groups(responses, groups, reference)
    n_items, n_focal = responses.n_items, len(matched.names) - 1

    def test(anchor: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64], None]:
        tables = [strata(matched, item, anchor) for item in range(n_items)]
        chi2 = np.array([chi_square(counts, continuity=continuity and n_focal == 1) for counts in tables])
        return chi2, chdtrc(n_focal, chi2), None

    anchor, (chi2, p, _), rounds, settled = purified_anchors(test, np.full(n_items, True), alpha=alpha, purify=purify)
    log_odds, error = np.full(n_items, np.nan), np.full(n_items, np.nan)
    if n_focal == 1:
        log_odds, error = np.array([log_odds_ratio(strata(matched, item, anchor)) for item in range(n_items)]).T
    delta, se_delta = -DELTA_PER_LOGIT * log_odds, DELTA_PER_LOGIT * error
    beyond_chance = np.abs(delta) > TWO_SIDED_95 * se_delta
    return MantelHaenszel(
        item_ids=responses.item_ids,
        groups=matched.sizes,
        chi2=chi2,
        df=n_focal,
        p=p,
        p_adjusted=adjust(p, adjustment),
        odds_ratio=np.exp(log_odds),
        delta=delta,
        se_delta=se_delta,
        ets_class=ets_class(delta, se_delta, beyond_chance),
        anchor=anchor,
        rounds=rounds,
        settled=settled,
        n_left_out=matched.n_left_out,
    )


def strata(matched: MatchedGroups, item: int, anchor: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Number of respondents by score, group and response, shape (n_scores, n_groups, 2)."""
    n_scores, n_groups = matched.values.shape[1] + 1, len(matched.names)
    cell = (matched.score(item, anchor) * n_groups + matched.group) * 2 + matched.values[:, item]
    return np.bincount(cell, minlength=n_scores * n_groups * 2).reshape(n_scores, n_groups, 2).astype(np.float64)


def chi_square(counts: NDArray[np.float64], *, continuity: bool) -> float:
    """D' V^-1 D, see `mantel_haenszel`; NaN where at no score both groups and both responses are found.

    Examples
    --------
    One stratum of 5 + 5: E = 2.5, V = 25 * 5 * 5 / (100 * 9), so (1.5 - .5)^2 / V = 1.44.

    >>> round(chi_square(np.array([[[1.0, 4.0], [4.0, 1.0]]]), continuity=True), 6)
    1.44
    """
    n_by_group, right = counts.sum(axis=2), counts[:, :, 1].sum(axis=1)
    n = n_by_group.sum(axis=1)
    some = n > 1
    n_by_group, right, n = n_by_group[some][:, 1:], right[some], n[some]
    difference = (counts[some][:, 1:, 1] - n_by_group * (right / n)[:, None]).sum(axis=0)
    by_stratum = right * (n - right) / (n**2 * (n - 1))
    covariance = np.diag((by_stratum * n) @ n_by_group) - (n_by_group * by_stratum[:, None]).T @ n_by_group
    if np.linalg.matrix_rank(covariance) < len(covariance):
        return float("nan")
    if continuity:
        difference = np.abs(difference) - CORRECTION
    return float(difference @ np.linalg.solve(covariance, difference))


@np.errstate(divide="ignore", invalid="ignore")
def log_odds_ratio(counts: NDArray[np.float64]) -> tuple[float, float]:
    """Logarithm of the common odds ratio of two groups and its standard error (Phillips & Holland, 1987).

    var = sum_k (A D + r B C) (A + D + r (B + C)) / N^2 / (2 (sum_k A D / N)^2) with r the odds ratio. Infinite or NaN,
    with an error of NaN, where one of the sums is 0.
    """
    n = counts.sum(axis=(1, 2))
    counts, n = counts[n > 0], n[n > 0]
    (wrong, right), (wrong_focal, right_focal) = counts[:, 0].T, counts[:, 1].T
    for_reference, for_focal = right * wrong_focal, wrong * right_focal
    above, below = (for_reference / n).sum(), (for_focal / n).sum()
    ratio = above / below
    log_ratio = float(np.log(ratio))
    if not np.isfinite(log_ratio):
        return log_ratio, float("nan")
    either = right + wrong_focal + ratio * (wrong + right_focal)
    variance = ((for_reference + ratio * for_focal) * either / n**2).sum() / (2 * above**2)
    return log_ratio, float(np.sqrt(variance))


Difference = Literal["any", "uniform", "crossing"]

FIRMNESS = 1e-7  # keeps the coefficients of a perfect prediction finite, and changes nothing else


@dataclass(frozen=True, eq=False)
class ScoreRegression(
    DifferencesByScore,
    columns="item_ids, x2, df, p, p_adjusted, r2_change, r2_class, x2_uniform, p_uniform, r2_uniform, "
    "x2_crossing, p_crossing, r2_crossing, anchor, method",
):
    """Difference of each item between groups at the same sum score; all arrays have shape (n_items,).

    Its table has one row an item, the columns of bias.csv.

    Parameters
    ----------
    item_ids
        The items.
    groups
        Respondents of each group, the reference first.
    difference
        What is tested, and decides which items leave the score.
    x2, df, p, p_adjusted
        Likelihood-ratio test of it.
    r2_change
        Change of Nagelkerke's R2 by it.
    r2_class
        See `jodoin_gierl_class`.
    x2_uniform, p_uniform, r2_uniform
        The groups added to the score.
    x2_crossing, p_crossing, r2_crossing
        Their products with the score added to both.
    anchor
        Items that make the score; the studied item always belongs to its own.
    rounds
        Number of sets of anchors tried.
    settled
        Whether the last set gave itself again.
    n_left_out
        Respondents without a group or without a response to every item.
    """

    difference: Difference
    x2: NDArray[np.float64]
    r2_change: NDArray[np.float64]
    r2_class: tuple[Grade, ...]
    x2_uniform: NDArray[np.float64]
    p_uniform: NDArray[np.float64]
    r2_uniform: NDArray[np.float64]
    x2_crossing: NDArray[np.float64]
    p_crossing: NDArray[np.float64]
    r2_crossing: NDArray[np.float64]

    @property
    def method(self) -> str:
        """The test."""
        return "logistic"


def score_regression(
    responses: ResponsesLike | Responses,
    groups: Iterable[str | None],
    *,
    reference: str | None = None,
    difference: Difference = "any",
    in_categories: bool = False,
    levels: Levels = None,
    purify: bool = True,
    alpha: float = 0.05,
    adjustment: Adjustment = "fdr_bh",
) -> ScoreRegression:
    """Differential item functioning by logistic regression on the sum score (Swaminathan & Rogers, 1990).

    Three regressions of the response are compared by their likelihoods: on the score; on score and group; on score,
    group and their product. With more than two groups each but the reference has its own terms (Magis et al., 2011).
    The effect size is the change of Nagelkerke's R2.

    The score is a measure of ability only if all items discriminate equally, see `mantel_haenszel`; `item_bias` with
    the logistic method regresses on the ability expected given the other responses instead.

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`); respondents who did not answer all items have
        no score and are left out.
    groups
        The group of each respondent; None, or a missing value, leaves a respondent out.
    reference
        The group to which the others are compared; None for the largest.
    difference
        ``uniform``: the same at all scores; ``crossing``: growing with the score; ``any``: both at once.
    in_categories, levels
        Whether responses are scores in categories, a row a respondent and a column an item, and labels in their order
        where these are no numbers. The score is the sum of the categories 0, 1, ..., and the regression that of
        cumulative logits (French & Miller, 1996).
    purify
        Whether items with p below ``alpha`` leave the score, until the set stays.
    alpha
        Level of purification.
    adjustment
        Of p over the items.

    Raises
    ------
    InputError
        As `match_groups`, or if alpha is not between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> harder = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 3.0])
    >>> values = [irtbench.simulate_responses(rng.normal(size=300), each, rng=rng).values for each in (items, harder)]
    >>> found = irtbench.score_regression(np.concatenate(values), ["people"] * 300 + ["machines"] * 300)
    >>> found
    <ScoreRegression: 6 items, 1 with adjusted p < .05>
    >>> found.table()[["item_id", "x2", "r2_change", "r2_class", "p_adjusted"]].round(2).tail(3)
      item_id     x2  r2_change r2_class  p_adjusted
    3   item4   0.59       0.00        A        0.81
    4   item5   1.67       0.00        A        0.81
    5   item6  27.36       0.09        C        0.00
    """
    demand_share("item bias: alpha", alpha)
    demand_choice("item bias: difference", difference, Difference)
    scores: Any = responses
    given = CodedScores.of(scores, levels=levels) if in_categories else as_responses(responses)
    matched = match_groups(given, groups, reference)
    n_items, n_focal = len(matched.item_ids), len(matched.names) - 1
    df = 2 * n_focal if difference == "any" else n_focal
    before, after = {"any": (0, 2), "uniform": (0, 1), "crossing": (1, 2)}[difference]

    def test(anchor: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        log_l = np.array([nested_log_likelihoods(matched, item, anchor) for item in range(n_items)])
        x2 = twice_gain(log_l, before, after)
        return x2, chdtrc(df, x2), log_l

    anchor, (x2, p, log_l), rounds, settled = purified_anchors(test, np.full(n_items, True), alpha=alpha, purify=purify)
    counts = [np.bincount(values).astype(np.float64) for values in matched.values.T]
    r2 = np.array([[nagelkerke(each, counts[item]) for each in log_l[item]] for item in range(n_items)])
    uniform, crossing = twice_gain(log_l, 0, 1), twice_gain(log_l, 1, 2)
    return ScoreRegression(
        item_ids=matched.item_ids,
        groups=matched.sizes,
        difference=difference,
        x2=x2,
        df=df,
        p=p,
        p_adjusted=adjust(p, adjustment),
        r2_change=r2[:, after] - r2[:, before],
        r2_class=jodoin_gierl_class(r2[:, after] - r2[:, before]),
        x2_uniform=uniform,
        p_uniform=chdtrc(n_focal, uniform),
        r2_uniform=r2[:, 1] - r2[:, 0],
        x2_crossing=crossing,
        p_crossing=chdtrc(n_focal, crossing),
        r2_crossing=r2[:, 2] - r2[:, 1],
        anchor=anchor,
        rounds=rounds,
        settled=settled,
        n_left_out=matched.n_left_out,
    )


def nested_log_likelihoods(matched: MatchedGroups, item: int, anchor: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Log-likelihoods of the regressions on the score, on the groups too, and on their products too."""
    score = matched.score(item, anchor).astype(np.float64)
    score = (score - score.mean()) / max(float(score.std()), 1e-12)  # the likelihood is the same, the steps are better
    in_group = (matched.group[:, None] == np.arange(1, len(matched.names))).astype(np.float64)
    columns = np.column_stack([score, in_group, in_group * score[:, None]])
    answers = matched.values[:, item]
    counts = (answers[:, None] == np.unique(answers)).astype(np.float64)
    n_focal, coefficients, found = in_group.shape[1], None, []
    for width in (1, 1 + n_focal, 1 + 2 * n_focal):
        fitted = ordinal_regression(columns[:, :width], counts, FIRMNESS, start=coefficients)
        coefficients = fitted.coefficients
        found.append(fitted.log_likelihood)
    return found[0], found[1], found[2]


def twice_gain(log_likelihoods: NDArray[np.float64], smaller: int, larger: int) -> NDArray[np.float64]:
    """Likelihood-ratio statistics of two of the models, columns of the log-likelihoods."""
    return np.maximum(2 * (log_likelihoods[:, larger] - log_likelihoods[:, smaller]), 0.0)
