"""Do two items share more than ability: LD-X2, LD-G2, signed Cramér's V and Q3 of every pair."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import chdtrc, rel_entr

from irtbench.data.given import ResponsesLike
from irtbench.data.multiple_testing import adjust
from irtbench.data.responses import ResponseMatrix
from irtbench.data.shown import Drawn, counted, significant
from irtbench.diagnostics.checks import check_items_agree, check_theta
from irtbench.diagnostics.correlation import pairwise_correlation
from irtbench.diagnostics.person_fit import residuals
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.curves import log_icc
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, responses_and_items
from irtbench.models.quadrature import Quadrature, normal_grid


@dataclass(frozen=True, eq=False)
class LocalDependence(
    Drawn,
    columns="item_1, item_2, x2, df=degrees_of_freedom, p, p_adjusted, cramers_v, g2, q3, n_respondents, q3_centred, "
    "p_bootstrap, p_bootstrap_adjusted, bootstrap_samples",
):
    """Local dependence of each pair of items; all arrays have shape (n_items (n_items - 1) / 2,).

    Pairs are in the order (1, 2), (1, 3) ... (1, J), (2, 3) ...

    Parameters
    ----------
    item_1, item_2
        The items of each pair.
    x2, g2
        Pearson's and the likelihood-ratio statistic of the observed table of two items against the model's.
    p
        Of X2 as chi-square with `df` degrees of freedom; NaN with several trials of an item.
    p_adjusted
        p after Holm over the pairs.
    cramers_v
        sqrt(X2 / N), of items in categories sqrt(X2 / (N (fewer categories - 1))); negative where the items go together
        less than the model says.
    q3
        Correlation of the residuals x - P(theta); NaN if no abilities were given.
    n_respondents
        Respondents who answered both items.
    p_bootstrap, p_bootstrap_adjusted
        p of X2 by parametric bootstrap, each pair for itself and over all pairs; None until
        `dependence_bootstrap.with_bootstrap` computes them.
    bootstrap_samples
        Number of samples of the bootstrap; 0 without one.
    df
        (m_1)(m_2) of items with categories 0, ..., m; None for 1, of right and wrong.
    """

    item_1: tuple[str, ...]
    item_2: tuple[str, ...]
    x2: NDArray[np.float64]
    g2: NDArray[np.float64]
    p: NDArray[np.float64]
    p_adjusted: NDArray[np.float64]
    cramers_v: NDArray[np.float64]
    q3: NDArray[np.float64]
    n_respondents: NDArray[np.int64]
    p_bootstrap: NDArray[np.float64] | None = None
    p_bootstrap_adjusted: NDArray[np.float64] | None = None
    bootstrap_samples: int = 0
    df: NDArray[np.int64] | None = None

    @classmethod
    def none(cls) -> LocalDependence:
        """Of no pair."""
        none = np.empty(0)
        return cls((), (), none, none, none, none, none, none, np.empty(0, dtype=np.int64))

    @property
    def q3_centred(self) -> NDArray[np.float64]:
        """Q3 less its mean over the pairs, which is about -1 / (J - 1) and not 0 (Christensen et al., 2017)."""
        defined = self.q3[~np.isnan(self.q3)]
        return self.q3 - (defined.mean() if defined.size else np.nan)

    @property
    def degrees_of_freedom(self) -> NDArray[np.int64]:
        """Of each pair's X2."""
        return np.ones(self.x2.size, dtype=np.int64) if self.df is None else self.df

    def table(self) -> pd.DataFrame:
        """One row a pair, columns of local_dependence.csv; those of the bootstrap only where it was done."""
        return super().table().drop(columns="bootstrap_samples" if self.p_bootstrap is None else [])

    def in_short(self) -> str:
        """How many pairs, and how many are dependent."""
        p = self.p_adjusted if self.p_bootstrap_adjusted is None else self.p_bootstrap_adjusted
        return f"{counted(len(self.item_1), 'pair')} of items, {significant(p)}"


def local_dependence(
    responses: ResponsesLike,
    items: ParametersLike,
    *,
    theta: NDArray[np.float64] | None = None,
    quadrature: Quadrature | None = None,
) -> LocalDependence:
    """Local dependence of every pair of items.

    X2 = sum over the four cells of (O - E)^2 / E,  G2 = 2 sum O log(O / E),
    E_11 = N sum_q w_q P_k(theta_q) P_l(theta_q), the other cells with 1 - P             (Chen & Thissen, 1997)

    N counts the respondents who answered both items. The expected table integrates over the population: expected
    counts at estimated abilities are another thing, and far too large a statistic comes of them. Cramér's V carries
    the sign of gamma(O) - gamma(E), where gamma is (ad - bc) / (ad + bc) of a table with rows a b and c d.

    Q3 is the correlation of the two items' residuals at the abilities given (Yen, 1984). Locally independent items
    have Q3 near -1 / (J - 1), not 0, since theta was estimated from them; ``q3_centred`` takes the mean away.

    X2 is not a chi-square with one degree of freedom once the parameters are estimated from the same responses: with
    complete responses it is smaller (about 1% of independent pairs fall below p = .05), with many missing larger.
    `dependence_bootstrap.with_bootstrap` gives a p that keeps its level.

    With several trials of an item the cells of a respondent are the products of the shares right and wrong, which have
    the same expectation: each respondent counts once. X2 is then too small for a chi-square, and p that of the
    bootstrap alone.

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`); each pair uses those who answered both.
    items
        Parameters of the same items in the same order.
    theta
        Abilities for Q3, shape (n_respondents,); expected a posteriori in R mirt's figures.
    quadrature
        The population; None for the standard normal.

    Raises
    ------
    InputError
        If the items differ or theta has another shape or is not finite.

    Warns
    -----
    RuntimeWarning
        If nobody answered both items of some pairs: theirs are NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> pairs = irtbench.local_dependence(responses, items)
    >>> pairs
    <LocalDependence: 15 pairs of items, 0 with adjusted p < .05>
    >>> pairs.table()[["item_1", "item_2", "x2", "p_adjusted"]].round(2).head(3)
      item_1 item_2    x2  p_adjusted
    0  item1  item2  4.83        0.28
    1  item1  item3  3.88        0.38
    2  item1  item4  4.28        0.35
    """
    responses, items = responses_and_items(responses, items, upper_asymptotes=True, categories=True)
    check_items_agree(responses, items)
    first, second = np.triu_indices(responses.n_items, 1)
    population = normal_grid() if quadrature is None else quadrature
    if items.categories is not None:
        tables = tables_of_categories(responses, items.categories, population)
    else:
        observed, expected = observed_tables(responses), expected_tables(responses, items, population)
        g2 = 2 * rel_entr(observed, expected).sum(axis=0)
        more = _gamma(observed) - _gamma(expected)
        tables = PairTables(observed.sum(axis=0), pearson_x2(observed, expected), g2, more, None, np.float64(1.0))
    n, x2, g2 = tables.n, tables.x2, tables.g2
    unanswered = n == 0
    if unanswered.any():
        warnings.warn(
            f"local dependence: nobody answered both items of {int(unanswered.sum())} of {n.size} pairs",
            RuntimeWarning,
            stacklevel=2,
        )
    g2[unanswered] = np.nan
    with np.errstate(invalid="ignore", divide="ignore"):
        cramers_v = np.where(tables.more < 0, -1, 1) * np.sqrt(x2 / (n * tables.fewer))
    single = responses.trials is None or items.categories is not None
    p = chdtrc(1 if tables.df is None else tables.df, x2) if single else np.full(n.size, np.nan)
    q3 = np.full(n.size, np.nan)
    if theta is not None:
        q3 = pairwise_correlation(residuals(responses.shares, check_theta(theta, responses), items))[first, second]
    return LocalDependence(
        item_1=tuple(items.item_ids[k] for k in first),
        item_2=tuple(items.item_ids[k] for k in second),
        x2=x2,
        g2=g2,
        p=p,
        p_adjusted=adjust(p),
        cramers_v=cramers_v,
        q3=q3,
        n_respondents=n.astype(np.int64),
        df=tables.df,
    )


@dataclass(frozen=True)
class PairTables:
    """Of each pair the respondents, X2, G2, what is more associated than expected, df, and fewer categories less 1."""

    n: NDArray[np.float64]
    x2: NDArray[np.float64]
    g2: NDArray[np.float64]
    more: NDArray[np.float64]
    df: NDArray[np.int64] | None
    fewer: NDArray[np.float64] | np.float64


def tables_of_categories(responses: ResponseMatrix, items: CategoryParameters, population: Quadrature) -> PairTables:
    """The tables of all categories of one item by all of another; associated by gamma."""
    pairs, chosen = np.triu_indices(items.n_items, 1), items.chosen(responses.correct)
    p, answered = np.exp(items.log_probabilities(population.nodes)), responses.observed.astype(np.float64)
    each = np.repeat(np.arange(items.n_items), items.top + 1)
    n = answered.T @ answered
    observed, expected = chosen.T @ chosen, (p.T * population.weights) @ p * n[np.ix_(each, each)]

    def by_pair(cells: NDArray[np.float64]) -> NDArray[np.float64]:
        rows = np.add.reduceat(cells, items.first, axis=0)
        return np.asarray(np.add.reduceat(rows, items.first, axis=1)[pairs])

    blocks = [
        tuple(slice(items.first[k], items.first[k] + items.top[k] + 1) for k in pair)
        for pair in zip(*pairs, strict=True)
    ]
    more = [_gamma_of(observed[block]) - _gamma_of(expected[block]) for block in blocks]
    x2 = by_pair(np.divide((observed - expected) ** 2, expected, out=np.zeros_like(expected), where=expected > 0))
    x2[n[pairs] == 0] = np.nan
    top = items.top[pairs[0]], items.top[pairs[1]]
    return PairTables(
        n[pairs], x2, 2 * by_pair(rel_entr(observed, expected)), np.array(more),
        top[0] * top[1], np.minimum(*top).astype(np.float64),
    )  # fmt: skip


def _gamma_of(table: NDArray[np.float64]) -> float:
    """Goodman and Kruskal's gamma of a table of ordered categories; 0 where it is undefined."""
    beyond = table[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1]  # at or above in both
    below = table[::-1].cumsum(axis=0)[::-1].cumsum(axis=1)  # at or above in the first, at or below in the other
    concordant = (table[:-1, :-1] * beyond[1:, 1:]).sum()
    discordant = (table[:-1, 1:] * below[1:, :-1]).sum()
    return float((concordant - discordant) / (concordant + discordant)) if concordant + discordant > 0 else 0.0


def observed_tables(responses: ResponseMatrix) -> NDArray[np.float64]:
    """Counts of the cells 11, 10, 01, 00 of every pair of items, shape (4, n_pairs)."""
    right = np.nan_to_num(responses.shares)
    wrong = responses.observed - right
    pairs = np.triu_indices(responses.n_items, 1)
    mixed = right.T @ wrong
    return np.stack([cell[pairs] for cell in (right.T @ right, mixed, mixed.T, wrong.T @ wrong)])


def expected_tables(responses: ResponseMatrix, items: ItemParameters, population: Quadrature) -> NDArray[np.float64]:
    """Counts that the model expects in the same cells, shape (4, n_pairs)."""
    p, q = map(np.exp, log_icc(population.nodes, items))
    weighted_p, weighted_q = (population.weights[:, None] * probability for probability in (p, q))
    pairs = np.triu_indices(responses.n_items, 1)
    mixed = weighted_p.T @ q
    shares = np.stack([cell[pairs] for cell in (weighted_p.T @ p, mixed, mixed.T, weighted_q.T @ q)])
    answered = responses.observed.astype(np.float64)
    return (answered.T @ answered)[pairs] * shares


def pearson_x2(observed: NDArray[np.float64], expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum of (O - E)^2 / E over the cells of each table, shape (n_pairs,); NaN for a table without respondents.

    A cell that the model and the data leave empty adds nothing; one that only the model does is impossible.
    """
    deviation = (observed - expected) ** 2
    surprise = np.where(deviation > 0, np.inf, 0.0)
    x2 = np.divide(deviation, expected, out=surprise, where=expected > 0).sum(axis=0)
    x2[observed.sum(axis=0) == 0] = np.nan
    return x2


def _gamma(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """Goodman and Kruskal's gamma of 2 x 2 tables of cells 11, 10, 01, 00, shape (4, ...); 0 where it is undefined."""
    both, only_first, only_second, neither = cells
    concordant, discordant = both * neither, only_first * only_second
    pairs = concordant + discordant
    return np.divide(concordant - discordant, pairs, out=np.zeros_like(pairs), where=pairs > 0)
