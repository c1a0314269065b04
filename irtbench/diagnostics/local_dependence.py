"""Do two items share more than ability: LD-X2, LD-G2, signed Cramér's V and Q3 of every pair."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import block_diag, csr_array
from scipy.special import chdtrc, rel_entr

from irtbench.data.given import ResponsesLike
from irtbench.data.multiple_testing import adjust
from irtbench.data.responses import ResponseMatrix
from irtbench.data.shown import Drawn, counted, significant
from irtbench.diagnostics.correlation import pairwise_correlation
from irtbench.diagnostics.person_fit import check_items_agree, check_theta, residuals
from irtbench.models.curves import outcomes
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, responses_and_items
from irtbench.models.quadrature import Quadrature, normal_grid

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LocalDependence(
    Drawn,
    columns="item_1, item_2, x2, df, p, p_adjusted, cramers_v, g2, q3, n_respondents, q3_centred, "
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
        (m_1)(m_2) of items with categories 0, ..., m; 1 of right and wrong.
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
    df: NDArray[np.int64]
    p_bootstrap: NDArray[np.float64] | None = None
    p_bootstrap_adjusted: NDArray[np.float64] | None = None
    bootstrap_samples: int = 0

    @classmethod
    def none(cls) -> LocalDependence:
        """Of no pair."""
        none, no_number = np.empty(0), np.empty(0, dtype=np.int64)
        return cls((), (), none, none, none, none, none, none, no_number, no_number)

    @property
    def q3_centred(self) -> NDArray[np.float64]:
        """Q3 less its mean over the pairs, which is about -1 / (J - 1) and not 0 (Christensen et al., 2017)."""
        defined = self.q3[~np.isnan(self.q3)]
        return self.q3 - (defined.mean() if defined.size else np.nan)

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
    tables = PairTables.of(responses, items, normal_grid() if quadrature is None else quadrature)
    n, x2 = tables.n, tables.x2
    unanswered = n == 0
    if unanswered.any():
        warnings.warn(
            f"local dependence: nobody answered both items of {int(unanswered.sum())} of {n.size} pairs",
            RuntimeWarning,
            stacklevel=2,
        )
    top = tables.top[first], tables.top[second]
    cramers_v = np.where(tables.less_together, -1, 1) * np.sqrt(x2 / np.where(unanswered, np.nan, n * np.minimum(*top)))
    single, df = responses.trials is None or items.categories is not None, top[0] * top[1]
    p, q3 = chdtrc(df, x2) if single else np.full(n.size, np.nan), np.full(n.size, np.nan)
    if theta is not None:
        q3 = pairwise_correlation(residuals(responses.shares, check_theta(theta, responses), items))[first, second]
    return LocalDependence(
        item_1=tuple(items.item_ids[k] for k in first),
        item_2=tuple(items.item_ids[k] for k in second),
        x2=x2,
        g2=tables.g2,
        p=p,
        p_adjusted=adjust(p),
        cramers_v=cramers_v,
        q3=q3,
        n_respondents=n.astype(np.int64),
        df=df,
    )


@dataclass(frozen=True, eq=False)
class PairTables:
    """Tables of all categories of one item by all of another, for every pair; right and wrong are two categories.

    Parameters
    ----------
    observed, expected
        Counts, and what the model expects, of all categories of all items by all, shape (n_categories, n_categories).
    n
        Respondents who answered both items, shape (n_pairs,).
    top
        Highest category of each item, the lowest being 0, shape (n_items,).
    """

    observed: Array
    expected: Array
    n: Array
    top: NDArray[np.int64]

    @classmethod
    def of(cls, responses: ResponseMatrix, items: ItemParameters, population: Quadrature) -> PairTables:
        """What these respondents answered, and what is expected of them."""
        answered, (log_p, first) = responses.observed.astype(np.float64), outcomes(population.nodes, items)
        p, top = np.exp(log_p), np.diff(first, append=log_p.shape[1]) - 1
        if items.categories is not None:
            chosen = items.categories.chosen(responses.correct)
        else:
            right = np.nan_to_num(responses.shares)
            chosen = np.stack([answered - right, right], axis=2).reshape(len(right), p.shape[1])
        n, item = answered.T @ answered, np.repeat(np.arange(items.n_items), top + 1)
        expected = (p.T * population.weights) @ p * n[np.ix_(item, item)]
        return cls(chosen.T @ chosen, expected, n[np.triu_indices(items.n_items, 1)], top)

    def by_pair(self, cells: Array) -> Array:
        """Sum over the cells of each pair's table, shape (n_pairs,)."""
        first = np.cumsum(self.top + 1) - self.top - 1
        sums = np.add.reduceat(np.add.reduceat(cells, first, axis=0), first, axis=1)
        return np.asarray(sums[np.triu_indices(self.top.size, 1)])

    @property
    def x2(self) -> Array:
        """Pearson's statistic: infinite where something impossible happened, NaN where nobody answered both."""
        deviation = (self.observed - self.expected) ** 2
        surprise = np.where(deviation > 0, np.inf, 0.0)
        x2 = self.by_pair(np.divide(deviation, self.expected, out=surprise, where=self.expected > 0))
        return np.where(self.n > 0, x2, np.nan)

    @property
    def g2(self) -> Array:
        """The likelihood-ratio statistic, NaN where nobody answered both."""
        return np.where(self.n > 0, 2 * self.by_pair(rel_entr(self.observed, self.expected)), np.nan)

    @property
    def less_together(self) -> NDArray[np.bool_]:
        """Whether the items of a pair go together less than expected, by gamma."""
        return self.gamma(self.observed) < self.gamma(self.expected)

    def gamma(self, cells: Array) -> Array:
        """Goodman and Kruskal's gamma of each table of ordered categories; 0 where it is undefined."""
        later = block_diag(
            [csr_array(np.triu(np.ones((k, k)), 1)) for k in self.top + 1], format="csr"
        )  # of the same item
        above = later @ cells
        concordant, discordant = (self.by_pair(cells * (above @ other)) for other in (later.T, later))
        pairs = concordant + discordant
        return np.divide(concordant - discordant, pairs, out=np.zeros_like(pairs), where=pairs > 0)
