"""Item bias by logistic regression on the sum score and the groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import chdtrc

from irtbench.analysis.effect_size import Grade, jodoin_gierl_class, nagelkerke
from irtbench.analysis.item_differences import DifferencesByScore
from irtbench.analysis.matching_score import MatchedGroups, match_groups, matched_values, purified_anchors
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import demand_share
from irtbench.data.multiple_testing import Adjustment, adjust
from irtbench.diagnostics.logistic_regression import ordinal_regression
from irtbench.models.coded_scores import MISSING, CodedScores, Levels

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
    responses: ResponsesLike,
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

    The score stands for ability only if all items tell equally much of it, see `mantel_haenszel`; `item_bias` with the
    logistic method regresses on the ability that the other responses let expect instead.

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
    if in_categories:
        scores = responses if isinstance(responses, pd.DataFrame) else np.asarray(responses)
        given = CodedScores.of(scores, levels=levels)
        codes, item_ids = given.codes, given.item_ids
        matched = matched_values(np.where(codes == MISSING, np.nan, codes), item_ids, groups, reference)
    else:
        matched = match_groups(as_responses(responses), groups, reference)
    n_items, n_focal = len(matched.item_ids), len(matched.names) - 1
    df = 2 * n_focal if difference == "any" else n_focal
    before, after = {"any": (0, 2), "uniform": (0, 1), "crossing": (1, 2)}[difference]

    def test(anchor: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        log_l = np.array([nested_log_likelihoods(matched, item, anchor) for item in range(n_items)])
        x2 = twice_gain(log_l, before, after)
        return x2, chdtrc(df, x2), log_l

    every = np.ones(n_items, dtype=np.bool_)
    anchor, (x2, p, log_l), rounds, settled = purified_anchors(test, every, alpha=alpha, purify=purify)
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
