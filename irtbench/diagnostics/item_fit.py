"""Does an item behave as its curve says: S-X2, infit and outfit."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import add
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from irtbench.data.given import ResponsesLike
from irtbench.data.input_error import InputError, demand_choice
from irtbench.data.multiple_testing import adjust
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.data.shown import Drawn
from irtbench.diagnostics.person_fit import check_items_agree, check_theta, mean_squares
from irtbench.diagnostics.quadratic_form import Residuals, dense_form, fine_enough, score_forms
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.curves import icc, item_curves
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, responses_and_items
from irtbench.models.quadrature import Quadrature, normal_grid
from irtbench.models.theta_posterior import category_score_distribution, sum_score_distribution

Missing = Literal["scores", "groups"]  # how respondents are compared where responses are missing
# Fewer respondents with one pattern of observed items than this tell too little about any sum score.
SMALLEST_GROUP = 30
LEAST_SHARE = 0.5  # of the respondents of an item in categories that S-X2 must compare

# Groups of abilities, and the least expected sum of P (1 - P) in one: then at least so many right and so many wrong
# responses are expected.
MOST_GROUPS = 10
LEAST_VARIANCE = 5.0
# Items beyond which each is compared within a part of them: every sum score of all would cost their number squared.
MOST_TOGETHER, ITEMS_OF_A_PART = 1_000, 125
LEAST_SIZE = 1e-3  # of a direction in which the groups differ, to the largest: of smaller ones a few answers decide


@dataclass(frozen=True, eq=False)
class ItemFit(
    Drawn,
    columns="item_ids, s_x2, df, p, p_adjusted, rmsea, infit, outfit, n_respondents",
    short="{item_ids:item}, {p_adjusted:significant} ({statistic})",
):
    """Fit of each item; all arrays have shape (n_items,).

    Its table has one row an item, the columns of item_fit.csv.

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


def item_fit(
    responses: ResponsesLike,
    items: ParametersLike | CategoryParameters,
    *,
    theta: NDArray[np.float64] | None = None,
    quadrature: Quadrature | None = None,
    min_expected: float = 1.0,
    missing: Missing = "scores",
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

    Of more than 1,000 items each is compared within its part, about 125 items drawn at random: sum score, or posterior,
    is that of the part.

    With several trials of an item the sum scores of S-X2 are not defined, and it is always ``scores``, x being the
    number right of n trials: n P takes the place of P.

    Items in categories (`fit_categories`) are compared category by category among the respondents of a sum score, by
    groups where responses are missing (Kang & Chen, 2008). Of more than two categories the sum scores at either end
    that some category cannot have are one row, and a category with a smaller expected count joins the next one of its
    row, as in R mirt; df are the categories left less one of each row, less the item's parameters. Where those compared
    are fewer than half of the item's respondents S-X2 is NaN: its parameters rest on the others, and few people with
    many scores would be far too often significant.

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`).
    items
        Parameters of the same items in the same order; ``n_free`` of them counts against df. Or items in categories,
        whose responses are then as they were fitted.
    theta
        Abilities for infit and outfit, shape (n_respondents,); expected a posteriori in R mirt's figures.
    quadrature
        The population; None for the standard normal. It is made finer where the items tell abilities apart that lie
        closer together than its nodes.
    min_expected
        Rows (of more than two categories: categories) are collapsed while an expected count lies below this.
    missing
        How respondents are compared where responses are missing, see above.

    Raises
    ------
    InputError
        If the items differ, theta has another shape or is not finite, or ``min_expected`` is negative.

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
    population = normal_grid() if quadrature is None else quadrature
    items = items.as_items() if isinstance(items, CategoryParameters) else items
    responses, items = responses_and_items(responses, items, upper_asymptotes=True, categories=True)
    if items.categories is not None:
        responses = responses.select_items(items.item_ids)
    check_items_agree(responses, items)
    infit, outfit = np.full((2, items.n_items), np.nan)
    in_categories = items.categories is not None
    if theta is not None:
        theta, trials = check_theta(theta, responses), None if in_categories else responses.trials
        infit, outfit = mean_squares(responses.correct, theta, items, over="respondents", trials=trials)
    demand_choice("item fit: missing", missing, Missing)
    if not min_expected >= 0:
        raise InputError(f"item fit: min_expected: expected 0 or more but got {min_expected:g}")
    by_sums = in_categories or (responses.trials is None and (responses.is_complete or missing == "groups"))
    parts = [np.arange(items.n_items)] if in_categories else _parts(items.n_items)
    each = []
    for part in parts:
        names = [items.item_ids[j] for j in part]
        part_of = responses.select_items(names), items.select(names), population
        each.append(_by_sums(*part_of, min_expected) if by_sums else _by_scores(*part_of))
    found = each[0] if len(parts) == 1 else _joined(each, parts)
    df = np.maximum(found.n_compared - items.n_free, 0)
    undefined = df < 1
    if undefined.any():
        lacking = name_first([item for item, none in zip(items.item_ids, undefined, strict=True) if none])
        warnings.warn(
            f"item fit: no degree of freedom is left for S-X2 of {lacking} (used: {found.used})",
            RuntimeWarning,
            stacklevel=2,
        )
    s_x2 = np.where(undefined, np.nan, found.s_x2)
    excess = np.maximum(0, s_x2 - df) / np.where(undefined, np.nan, df * (found.n_respondents - 1))
    p = chdtrc(df, s_x2)
    return ItemFit(
        items.item_ids, s_x2, df, p, adjust(p), np.sqrt(excess), infit, outfit, found.n_respondents, found.used,
        "s_x2" if by_sums else "score",
    )  # fmt: skip


def _parts(n_items: int) -> list[NDArray[np.intp]]:
    """The items whose responses are compared with each other: all, or of very many parts drawn at random."""
    if n_items <= MOST_TOGETHER:
        return [np.arange(n_items)]
    drawn = np.random.default_rng(0).permutation(n_items)
    return [np.sort(part) for part in np.array_split(drawn, -(-n_items // ITEMS_OF_A_PART))]


@dataclass(frozen=True)
class Compared:
    """S-X2 of each item, how many expected counts it compares less one a row, of how many respondents, and of whom."""

    s_x2: NDArray[np.float64]
    n_compared: NDArray[np.int64]
    n_respondents: NDArray[np.int64]
    used: str


def _joined(each: Sequence[Compared], parts: Sequence[NDArray[np.intp]]) -> Compared:
    """All items in their order, from parts of them."""
    order = np.argsort(np.concatenate(parts))
    s_x2, n_compared, n = (
        np.concatenate([getattr(one, name) for one in each])[order] for name in ("s_x2", "n_compared", "n_respondents")
    )
    return Compared(s_x2, n_compared, n, f"{each[0].used}, each item within one of {len(parts)} parts of the items")


Probabilities = Sequence[NDArray[np.float64]]  # of each item's categories, shape (n_nodes, n_categories)


def _by_sums(responses: ResponseMatrix, items: ItemParameters, population: Quadrature, min_expected: float) -> Compared:
    """S-X2 of items that are right or wrong, or in categories, among respondents who answered the same items."""

    def curves(columns: NDArray[np.intp]) -> tuple[Quadrature, Probabilities]:
        known = items.select([items.item_ids[j] for j in columns])
        if known.categories is not None:
            return population, known.categories.probabilities(population.nodes)
        grid = fine_enough(population, known)
        return grid, [np.stack([1 - p, p], axis=1) for p in icc(grid.nodes, known).T]

    groups, used = _groups_of_same_items(responses.correct)
    s_x2 = np.zeros(items.n_items)
    n_compared, n_respondents = np.zeros((2, items.n_items), dtype=np.int64)
    for part, columns in groups:
        for j, (observed, expected) in zip(columns, _tables(part, *curves(columns), min_expected), strict=True):
            s_x2[j] += np.nansum((observed - expected) ** 2 / expected)
            n_compared[j] += np.isfinite(expected).sum() - len(expected)
        n_respondents[columns] += len(part)
    if items.categories is not None:
        n_compared[n_respondents < LEAST_SHARE * responses.observed.sum(axis=0)] = 0
    return Compared(s_x2, n_compared, n_respondents, used)


def _by_scores(responses: ResponseMatrix, items: ItemParameters, quadrature: Quadrature) -> Compared:
    """Score statistic of each item, and how many groups of abilities it compares."""
    grid = fine_enough(quadrature, items)
    residuals = Residuals.of_items(responses, items, grid)
    # groups of nodes with as much of an item's variance each: P (1 - P) as the posteriors of its respondents expect it
    variance = (residuals.n.T @ residuals.mass) * np.exp(residuals.log_p + residuals.log_q)
    so_far = np.cumsum(variance, axis=1)
    most = np.minimum(MOST_GROUPS, so_far[:, -1:] // LEAST_VARIANCE)
    place = np.divide(so_far - variance / 2, so_far[:, -1:], out=np.zeros_like(so_far), where=so_far[:, -1:] > 0)
    groups = (np.floor(np.minimum(place * most, most - 0.5))[:, :, None] == np.arange(MOST_GROUPS)) & (most > 0)[
        ..., None
    ]
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
        apart = sizes > max(LEAST_SIZE * sizes[-1], 0.0)  # few items hardly separate groups of abilities
        n_groups[j], free = apart.sum(), own[j].any(axis=0)
        if n_groups[j] > free.sum():
            root = axes[:, apart] / np.sqrt(sizes[apart])
            moved = root.T @ covariance[j, :k, k:][:, free]
            x2[j] = dense_form(np.eye(n_groups[j]), root.T @ total[j, :k], moved, int(free.sum()))[0]
    used = f"all {responses.n_respondents}, by the abilities that their responses let expect"
    return Compared(x2, n_groups, responses.observed.sum(axis=0), used)


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
    if items.upper_asymptote is not None:
        columns.append((curves.log_p_v - curves.log_q_v).T)
    return np.stack(columns, axis=2)


Group = tuple[NDArray[np.float64], NDArray[np.intp]]


def _groups_of_same_items(values: NDArray[np.float64]) -> tuple[list[Group], str]:
    """Split the respondents by the items they answered: values without a gap, their columns; and who that is."""
    n_respondents, n_items = values.shape
    observed = ~np.isnan(values)
    if observed.all():
        return [(values, np.arange(n_items))], f"all {n_respondents}"
    patterns, membership, sizes = np.unique(observed, axis=0, return_inverse=True, return_counts=True)
    groups: list[Group] = []
    for g, pattern in enumerate(patterns):
        if pattern.sum() > 1 and (sizes[g] >= SMALLEST_GROUP or pattern.all()):
            columns = np.flatnonzero(pattern)
            groups.append((values[np.ix_(membership.ravel() == g, columns)], columns))
    n_used = sum(len(part) for part, _ in groups)
    used = f"{n_used} of {n_respondents}"
    if len(groups) == 1 and groups[0][1].size == n_items:
        return groups, f"{used}, those who answered every item"
    return groups, f"{used}, in {len(groups)} groups who answered the same items"


#: Observed and expected numbers of responses in each category, a row a sum score; NaN where joined to another.
Table = tuple[NDArray[np.float64], NDArray[np.float64]]


def _tables(
    values: NDArray[np.float64], quadrature: Quadrature, probabilities: Probabilities, min_expected: float
) -> Iterator[Table]:
    """Responses and what is expected of them at each sum score left after collapsing, by item."""
    score = values.sum(axis=1).astype(np.intp)
    steps = [p.shape[1] - 1 for p in probabilities]
    n_scores = 1 + sum(steps)
    has_score = (score == np.arange(1, n_scores - 1)[:, None]).astype(np.float64)
    n = has_score.sum(axis=1)
    later = [has_score @ (values == k) for k in range(1, max(steps) + 1)]  # (n_scores, n_items) each
    for j, (own, rest) in enumerate(zip(probabilities, rest_score_distributions(probabilities), strict=True)):
        n_categories, n_rest = own.shape[1], rest.shape[1]
        joint = np.zeros((n_rest + n_categories - 1, n_categories))
        for k in range(n_categories):
            joint[k : k + n_rest, k] = (quadrature.weights * own[:, k]) @ rest
        above = np.stack([*(of_all[:, j] for of_all in later[: n_categories - 1])], axis=1)
        observed = np.column_stack([n - above.sum(axis=1), above])
        with np.errstate(invalid="ignore"):
            share = (joint / joint.sum(axis=1, keepdims=True))[1:-1]
        yield _collapse(observed, share, min_expected)


def rest_score_distributions(p: Probabilities) -> Iterator[NDArray[np.float64]]:
    """Distribution of the sum score on all the other items, one array for each item in order.

    Lord and Wingersky's recursion (see ``sum_score_distribution``), leaving each item out by halves: what is outside a
    half is added once for all of its items. So J items need J log J steps and no division, which would lose all digits
    where P is near 1/2 or the items are many.

    Examples
    --------
    >>> [rest.tolist() for rest in rest_score_distributions([np.array([[0.5, 0.5]]), np.array([[0.75, 0.25]])])]
    [[[0.75, 0.25]], [[0.5, 0.5]]]
    """
    yield from _leave_each_out(p, np.ones((len(p[0]), 1)))


def _leave_each_out(p: Probabilities, outside: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    """As above for the items of ``p``, given the distribution of the score on the items outside."""
    if len(p) == 1:
        yield outside
        return
    half = len(p) // 2
    yield from _leave_each_out(p[:half], _with_scores_of(p[half:], outside))
    yield from _leave_each_out(p[half:], _with_scores_of(p[:half], outside))


def _with_scores_of(p: Probabilities, outside: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distribution of the score with these items added."""
    if all(own.shape[1] == 2 for own in p):
        return sum_score_distribution(np.stack([own[:, 1] for own in p], axis=1), outside)
    return category_score_distribution(p, outside)


def _collapse(observed: NDArray[np.float64], share: NDArray[np.float64], min_expected: float) -> Table:
    """Join sparse rows, or categories, of one item's table, in the order in which R mirt does.

    Rows without a defined share go into the nearest defined one; rows without respondents are dropped; a row with one
    respondent joins the next (the last: the one before). Of two categories, while an expected count lies below the
    minimum, the first such row joins its neighbour with fewer respondents (on a tie the upper). Of more, the rows at
    either end in which a category is impossible are one with the next, and then a category below the minimum joins the
    next of its row that is left, the last one the one before.
    """
    n_rows, n_categories = observed.shape
    expected = observed.sum(axis=1, keepdims=True) * np.nan_to_num(share)
    defined = np.flatnonzero(np.isfinite(share).all(axis=1))
    if defined.size == 0:
        return np.empty((0, n_categories)), np.empty((0, n_categories))
    table = np.concatenate([observed.sum(axis=1, keepdims=True), expected, observed], axis=1)  # respondents first
    if defined.size < n_rows or n_categories > 2:
        place = defined[np.abs(np.arange(n_rows)[:, None] - defined).argmin(axis=1)]
        if n_categories > 2:
            ends = min(n_categories - 2, (n_rows - 1) // 2)
            place = np.clip(place, ends, n_rows - 1 - ends)
        given, table = table, np.zeros_like(table)
        np.add.at(table, place, given)
    rows = _merged(table[table[:, 0] > 0].tolist(), alone=True, min_expected=min_expected)
    if n_categories == 2:
        rows = _merged(rows, alone=False, min_expected=min_expected)
        if len(rows) == 1 and min(rows[0][1:3]) < min_expected:
            rows = []
    found = np.array(rows).reshape(-1, 2 * n_categories + 1)[:, 1:].reshape(-1, 2, n_categories)
    if n_categories > 2:
        found = np.array([_with_categories_joined(row, min_expected) for row in found])
    return found[:, 1], found[:, 0]


def _with_categories_joined(row: NDArray[np.float64], min_expected: float) -> NDArray[np.float64]:
    """Expected and observed counts of one row with small categories joined to others, NaN where they were."""
    last = row.shape[1] - 1
    for k in range(last):
        if row[0, k] < min_expected:
            row[:, k + 1] += row[:, k]
            row[:, k] = np.nan
    left = np.flatnonzero(np.isfinite(row[0, :last]))
    if row[0, last] < min_expected and left.size:
        row[:, left[-1]] += row[:, last]
        row[:, last] = np.nan
    return row


def _merged(rows: list[list[float]], *, alone: bool, min_expected: float) -> list[list[float]]:
    """Rows, each a number of respondents and counts, with those of one respondent, or of small counts, added to others.

    One respondent joins the next row; of two categories a small expected count that with fewer respondents. Counts only
    grow, so that the rows passed need no second look.
    """

    def lacks(row: list[float]) -> bool:
        return row[0] == 1 if alone else row[1] < min_expected or row[2] < min_expected

    ahead, passed, after = [*rows], [], 0
    for place in [k for k, row in enumerate(rows) if lacks(row)]:
        passed += ahead[after:place]
        row, after = ahead[place], place + 1
        if lacks(row) and after < len(ahead) and (alone or not passed or ahead[after][0] < passed[-1][0]):
            ahead[after] = [*map(add, ahead[after], row)]
        elif lacks(row) and passed:
            passed[-1] = [*map(add, passed[-1], row)]
        else:  # others were added to it
            passed.append(row)
    return passed + ahead[after:]
