"""Does an item behave as its curve says: S-X2, infit and outfit."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import chdtrc

from irtbench.data.given import ResponsesLike
from irtbench.data.multiple_testing import adjust
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.data.shown import Shown, counted, significant
from irtbench.diagnostics.checks import check_items_agree, check_theta
from irtbench.diagnostics.posterior_scores import Residuals, fine_enough, score_forms
from irtbench.diagnostics.quadratic_form import dense_form
from irtbench.diagnostics.residuals import mean_squares
from irtbench.models.curve_formulas import CurveToUpper
from irtbench.models.curves import icc, item_curves
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, responses_and_items
from irtbench.models.quadrature import Quadrature, normal_grid
from irtbench.models.sum_score_distribution import sum_score_distribution

# Fewer respondents with one pattern of observed items than this tell too little about any sum score.
SMALLEST_GROUP = 30

# Groups of abilities, and the least expected sum of P (1 - P) in one: then at least so many right and so many wrong
# responses are expected.
MOST_GROUPS = 10
LEAST_VARIANCE = 5.0
LEAST_SIZE = 1e-6  # of a direction in which the groups differ, to the largest


@dataclass(frozen=True, eq=False)
class ItemFit(Shown):
    """Fit of each item; all arrays have shape (n_items,).

    Parameters
    ----------
    item_ids
        The items, in the order of the responses.
    s_x2, df, p
        Orlando and Thissen's S-X2, its degrees of freedom and p; NaN where no degree of freedom is left.
    p_adjusted
        p after Holm over the items.
    rmsea
        sqrt(max(0, (S-X2 - df) / (df (N - 1)))).
    infit, outfit
        Mean squared residuals at the abilities given; NaN if none were.
    n_respondents
        Respondents whose responses entered the item's S-X2.
    respondents_used
        Which respondents those are, in words.
    statistic
        What ``s_x2`` holds: S-X2 itself, or the score statistic (see `item_fit`).
    """

    item_ids: tuple[str, ...]
    s_x2: NDArray[np.float64]
    df: NDArray[np.int64]
    p: NDArray[np.float64]
    p_adjusted: NDArray[np.float64]
    rmsea: NDArray[np.float64]
    infit: NDArray[np.float64]
    outfit: NDArray[np.float64]
    n_respondents: NDArray[np.int64]
    respondents_used: str
    statistic: Literal["s_x2", "score"] = "s_x2"

    def table(self) -> pd.DataFrame:
        """One row an item, columns of item_fit.csv."""
        return pd.DataFrame(
            {
                "item_id": self.item_ids,
                "s_x2": self.s_x2,
                "df": self.df,
                "p": self.p,
                "p_adjusted": self.p_adjusted,
                "rmsea": self.rmsea,
                "infit": self.infit,
                "outfit": self.outfit,
                "n_respondents": self.n_respondents,
            }
        )

    def in_short(self) -> str:
        """How many items, and how many misfit."""
        return f"{counted(len(self.item_ids), 'item')}, {significant(self.p_adjusted)} ({self.statistic})"


def item_fit(
    responses: ResponsesLike,
    items: ParametersLike,
    *,
    theta: NDArray[np.float64] | None = None,
    quadrature: Quadrature | None = None,
    min_expected: float = 1.0,
    missing: Literal["scores", "groups"] = "scores",
) -> ItemFit:
    """S-X2, infit and outfit of every item.

    S-X2 = sum over sum scores k of N_k (O_k - E_k)^2 / (E_k (1 - E_k)),
    E_k = sum_q w_q P S_(k-1) / sum_q w_q (P S_(k-1) + (1 - P) S_k)                    (Orlando & Thissen, 2000)

    with O_k the share of right responses to the item among the N_k respondents of sum score k = 1 .. J - 1, and S_k
    the probability of sum score k on the other items, by Lord and Wingersky's recursion. Sparse rows are collapsed.
    df is the number of rows left less the item's estimated parameters. A slope that all items share counts with none of
    them: it rests on all the responses, and S-X2 keeps its level so, while R mirt takes it off every item's df.

    A sum score compares respondents only if they answered the same items. With missing responses there are two ways,
    and ``respondents_used`` says whom they used:

    ``scores`` takes everyone. With w(i) the posterior of theta_i given all of respondent i's responses,

        T_g = sum over respondents and abilities theta_q of group g of w_q(i) (x_ij - P_j(theta_q)),

    for up to ten groups of abilities of equal expected sum of P (1 - P), at least 5 each, and s_x2 = T' C T with C the
    inverse of their covariance less what the item's own parameters explain, found by simulation (a score test; Glas,
    1999). Scores have expectation 0 also where who answers depends on earlier answers, as in a
    second stage chosen by the first, and keep their level where abler people answer more (docs: diagnostics).

    ``groups`` is S-X2 itself within the respondents who answered the same items: groups of 30 or more, and those who
    answered all the items, each give rows of their own; the others are left out.

    With several trials of an item the sum scores of S-X2 are not defined, and it is always ``scores``, x being the
    number right of n trials: n P stands for P.

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`).
    items
        Parameters of the same items in the same order; ``n_free`` of them counts against df.
    theta
        Abilities for infit and outfit, shape (n_respondents,); expected a posteriori in R mirt's figures.
    quadrature
        The population; None for the standard normal. It is made finer where the items tell abilities apart that lie
        closer together than its nodes.
    min_expected
        Rows are collapsed while an expected count of right or wrong responses lies below this.
    missing
        How respondents are compared where responses are missing, see above.

    Raises
    ------
    InputError
        If the items differ or theta has another shape or is not finite.

    Warns
    -----
    RuntimeWarning
        Naming the items without a degree of freedom: their S-X2 is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> fit = irtbench.item_fit(responses, items)
    >>> fit
    <ItemFit: 6 items, 0 with adjusted p < .05 (s_x2)>
    >>> fit.table()[["item_id", "s_x2", "df", "p"]].round(3)
      item_id   s_x2  df      p
    0   item1  1.321   2  0.517
    1   item2  2.936   2  0.230
    2   item3  4.711   3  0.194
    3   item4  1.347   3  0.718
    4   item5  2.592   2  0.274
    5   item6  2.760   2  0.252
    """
    responses, items = responses_and_items(responses, items, upper_asymptotes=True)
    check_items_agree(responses, items)
    infit = outfit = np.full(responses.n_items, np.nan)
    if theta is not None:
        infit, outfit = mean_squares(
            responses.correct, check_theta(theta, responses), items, over="respondents", trials=responses.trials
        )

    population = normal_grid() if quadrature is None else quadrature
    by_sum_score = responses.trials is None and (responses.is_complete or missing == "groups")
    if by_sum_score:
        s_x2, n_rows, n_respondents, respondents_used = _by_sum_score(responses, items, population, min_expected)
    else:
        s_x2, n_rows = _by_scores(responses, items, population)
        n_respondents = responses.observed.sum(axis=0)
        respondents_used = f"all {responses.n_respondents}, by the abilities that their responses let expect"

    df = np.maximum(n_rows - items.n_free, 0)
    undefined = df < 1
    if undefined.any():
        names = name_first([item for item, none in zip(items.item_ids, undefined, strict=True) if none])
        warnings.warn(
            f"item fit: no degree of freedom is left for S-X2 of {names} (used: {respondents_used})",
            RuntimeWarning,
            stacklevel=2,
        )
    s_x2[undefined] = np.nan
    with np.errstate(invalid="ignore", divide="ignore"):
        rmsea = np.sqrt(np.maximum(0, s_x2 - df) / (df * (n_respondents - 1)))
    p = chdtrc(df, s_x2)
    return ItemFit(
        item_ids=items.item_ids,
        s_x2=s_x2,
        df=df,
        p=p,
        p_adjusted=adjust(p),
        rmsea=rmsea,
        infit=infit,
        outfit=outfit,
        n_respondents=n_respondents,
        respondents_used=respondents_used,
        statistic="s_x2" if by_sum_score else "score",
    )


def _by_sum_score(
    responses: ResponseMatrix, items: ItemParameters, quadrature: Quadrature, min_expected: float
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], str]:
    """S-X2, number of rows and of respondents of each item, and who these are, in words."""
    groups, respondents_used = _groups_of_same_items(responses)
    s_x2 = np.zeros(responses.n_items)
    n_rows, n_respondents = np.zeros((2, responses.n_items), dtype=np.int64)
    for values, columns in groups:
        known = items.select([items.item_ids[j] for j in columns])
        rows = _sum_score_rows(values, known, fine_enough(quadrature, known), min_expected)
        for j, (n, n_correct, expected_correct) in zip(columns, rows, strict=True):
            s_x2[j] += np.sum((n_correct - expected_correct) ** 2 * n / (expected_correct * (n - expected_correct)))
            n_rows[j] += n.size
        n_respondents[columns] += len(values)
    return s_x2, n_rows, n_respondents, respondents_used


def _by_scores(
    responses: ResponseMatrix, items: ItemParameters, quadrature: Quadrature
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Score statistic of each item, and how many groups of abilities it compares."""
    grid = fine_enough(quadrature, items)
    residuals = Residuals.of_items(responses, items, grid)
    groups = _groups_of_abilities(residuals)
    own = _own_parameters(items, grid)
    weights = np.concatenate([groups, own], axis=2)

    def scores(of: Residuals) -> Iterator[NDArray[np.float64]]:
        for nodes, _, weighted in of.weighted():
            yield weighted.swapaxes(0, 1) @ weights[:, nodes]

    k = groups.shape[2]
    total, covariance = score_forms(residuals, scores, weights.shape[2], np.random.default_rng(0))
    x2, n_groups = np.zeros(items.n_items), np.zeros(items.n_items, dtype=np.int64)
    for j in range(items.n_items):
        sizes, axes = np.linalg.eigh(covariance[j, :k, :k])
        told = sizes > max(LEAST_SIZE * sizes[-1], 0.0)  # of few items groups of abilities are hardly told apart
        n_groups[j], free = told.sum(), own[j].any(axis=0)
        if n_groups[j] > free.sum():
            root = axes[:, told] / np.sqrt(sizes[told])
            moved = root.T @ covariance[j, :k, k:][:, free]
            x2[j] = dense_form(np.eye(n_groups[j]), root.T @ total[j, :k], moved, int(free.sum()))[0]
    return x2, n_groups


def _groups_of_abilities(residuals: Residuals) -> NDArray[np.float64]:
    """Which nodes belong together, 0 or 1, shape (n_items, n_nodes, MOST_GROUPS): groups of equal variance of an item.

    The variance is the sum of P (1 - P) that the posteriors of those who answered the item expect.
    """
    variance = (residuals.n.T @ residuals.mass) * np.exp(residuals.log_p + residuals.log_q)
    so_far = np.cumsum(variance, axis=1)
    most = np.minimum(MOST_GROUPS, so_far[:, -1:] // LEAST_VARIANCE)
    place = np.divide(so_far - variance / 2, so_far[:, -1:], out=np.zeros_like(so_far), where=so_far[:, -1:] > 0)
    return (np.floor(np.minimum(place * most, most - 0.5))[:, :, None] == np.arange(MOST_GROUPS)) & (most > 0)[
        :, :, None
    ]


def _own_parameters(items: ItemParameters, grid: Quadrature) -> NDArray[np.float64]:
    """What turns an item's residual into the scores of its own parameters, shape (n_items, n_nodes, 2 to 4).

    0 for those that are known or common to several items.
    """
    curves = item_curves(grid.nodes, items)
    kind = np.array(items.kind or ("own",) * items.n_items)
    columns = [
        curves.weight.T * grid.nodes * (kind == "own")[:, None],
        curves.weight.T * (kind != "fixed")[:, None],
        (curves.log_p_c - curves.log_q_c).T * items.guessing_estimated[:, None],
    ]
    if isinstance(curves, CurveToUpper):
        columns.append((curves.log_p_v - curves.log_q_v).T)
    return np.stack(columns, axis=2)


Group = tuple[NDArray[np.float64], NDArray[np.intp]]


def _groups_of_same_items(responses: ResponseMatrix) -> tuple[list[Group], str]:
    """Split the respondents by the items they answered: values without a gap, their columns; and who that is."""
    if responses.is_complete:
        return [(responses.values, np.arange(responses.n_items))], f"all {responses.n_respondents}"
    patterns, membership, sizes = np.unique(responses.observed, axis=0, return_inverse=True, return_counts=True)
    groups: list[Group] = []
    for g, pattern in enumerate(patterns):
        if pattern.sum() > 1 and (sizes[g] >= SMALLEST_GROUP or pattern.all()):
            columns = np.flatnonzero(pattern)
            groups.append((responses.values[np.ix_(membership.ravel() == g, columns)], columns))
    n_used = sum(len(values) for values, _ in groups)
    used = f"{n_used} of {responses.n_respondents}"
    if len(groups) == 1 and groups[0][1].size == responses.n_items:
        return groups, f"{used}, those who answered every item"
    return groups, f"{used}, in {len(groups)} groups who answered the same items"


Rows = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def _sum_score_rows(
    values: NDArray[np.float64], items: ItemParameters, quadrature: Quadrature, min_expected: float
) -> Iterator[Rows]:
    """Respondents, right responses and expected right responses at each sum score left after collapsing, by item."""
    n_items = values.shape[1]
    score = values.sum(axis=1).astype(np.intp)
    has_score = (score == np.arange(1, n_items)[:, None]).astype(np.float64)
    n = has_score.sum(axis=1)
    n_correct = has_score @ values
    p = icc(quadrature.nodes, items)
    for j, rest in enumerate(rest_score_distributions(p)):
        right = (quadrature.weights * p[:, j]) @ rest[:, :-1]
        wrong = (quadrature.weights * (1 - p[:, j])) @ rest[:, 1:]
        with np.errstate(invalid="ignore"):
            expected = right / (right + wrong)
        yield _collapse(n, n_correct[:, j], expected, min_expected)


def rest_score_distributions(p: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    """Distribution of the sum score on all the other items, one array for each item in order.

    Lord and Wingersky's recursion (see ``sum_score_distribution``), leaving each item out by halves: what is outside a
    half is added once for all of its items. So J items need J log J steps and no division, which would lose all digits
    where P is near 1/2 or the items are many.

    Parameters
    ----------
    p
        Probability of a right response, shape (n_nodes, n_items).

    Yields
    ------
    distribution
        P(sum score without the item = k | node), k = 0 .. n_items - 1, shape (n_nodes, n_items).

    Examples
    --------
    >>> [rest.tolist() for rest in rest_score_distributions(np.array([[0.5, 0.25]]))]
    [[[0.75, 0.25]], [[0.5, 0.5]]]
    """
    yield from _leave_each_out(p, np.ones((p.shape[0], 1)))


def _leave_each_out(p: NDArray[np.float64], outside: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    """As above for the items of ``p``, given the distribution of the score on the items outside."""
    n_items = p.shape[1]
    if n_items == 1:
        yield outside
        return
    left, right = p[:, : n_items // 2], p[:, n_items // 2 :]
    yield from _leave_each_out(left, sum_score_distribution(right, outside))
    yield from _leave_each_out(right, sum_score_distribution(left, outside))


def _collapse(
    n: NDArray[np.float64], n_correct: NDArray[np.float64], expected: NDArray[np.float64], min_expected: float
) -> Rows:
    """Merge sparse rows of one item's table, in the order in which R mirt does.

    Rows without a defined expectation go into the nearest defined one; rows without respondents are dropped; a row
    with one respondent joins the next (the last: the one before); then, while an expected count lies below the
    minimum, the first such row joins its neighbour with fewer respondents (on a tie the upper).
    """
    defined = np.flatnonzero(np.isfinite(expected))
    if defined.size == 0:
        return np.empty(0), np.empty(0), np.empty(0)
    nearest = defined[np.abs(np.arange(n.size)[:, None] - defined).argmin(axis=1)]
    table = np.zeros((n.size, 3))
    np.add.at(table, nearest, np.stack([n, n_correct, n * np.nan_to_num(expected)], axis=1))
    rows = [row for row in table.tolist() if row[0] > 0]

    k = 0
    while k < len(rows) and len(rows) > 1:
        if rows[k][0] == 1:
            _merge(rows, k, k + 1 if k + 1 < len(rows) else k - 1)
        else:
            k += 1

    def too_small(row: list[float]) -> bool:
        return min(row[2], row[0] - row[2]) < min_expected

    # Counts only grow, so that the rows passed need no second look.
    k = 0
    while k < len(rows) and len(rows) > 1:
        if not too_small(rows[k]):
            k += 1
        elif k == 0 or (k + 1 < len(rows) and rows[k + 1][0] < rows[k - 1][0]):
            _merge(rows, k, k + 1)
        else:
            _merge(rows, k, k - 1)
    if len(rows) == 1 and too_small(rows[0]):
        rows = []
    n, n_correct, expected = np.array(rows).reshape(-1, 3).T
    return n, n_correct, expected


def _merge(rows: list[list[float]], source: int, target: int) -> None:
    """Add one row of the table to another and delete it."""
    rows[target] = [there + here for there, here in zip(rows[target], rows[source], strict=True)]
    del rows[source]
