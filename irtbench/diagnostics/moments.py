"""First and second moments of the responses: expected, their covariance and derivatives, and which M2 compares."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag
from scipy.sparse import csc_array, csr_array, eye_array, vstack
from scipy.special import expit

from irtbench.data.responses import ResponseMatrix
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.quadrature import Quadrature, factor_quadrature

BATCH_CELLS = 2**23  # moments x nodes at once


@dataclass(frozen=True, eq=False)
class Moments:
    """First and second moments of the responses under the model, and their covariance.

    M2 is the same in any basis of the moments. This one is the standardised responses u_j = (x_j - pi_j) / sd_j and
    their products u_j u_k, whose covariance is the identity but for what ability does. Vectors of moments hold the
    singles, then the pairs j < k; written as a symmetric matrix, the singles are on the diagonal.

    Given theta, u_j = z_j + t_j with independent z_j of mean 0 and variance s_j. So any f = sum v_j u_j +
    sum V_jk u_j u_k is uncorrelated terms: (v_j + sum_k V_jk t_k) z_j and V_jk z_j z_k, around a level m(theta). Its
    covariance with every moment is three products of (n_items, n_nodes) matrices: Xi need not be written out, which
    would take 3 GB for 200 items (`covariance_times`); where it must be, `covariance` does it.

    Parameters
    ----------
    mean, deviation
        pi_j and sd_j, shape (n_items,).
    weights
        Mass at the nodes, shape (n_nodes,).
    level
        t_j at the nodes, shape (n_items, n_nodes).
    spread
        s_j at the nodes, shape (n_items, n_nodes).
    derivative
        Of t_j at the nodes by the free parameters, shape (n_parameters, n_nodes).
    item_of
        The item of each parameter, shape (n_parameters,).
    shares
        Where items share parameters: what the estimated ones move of those, shape (n_parameters, n_estimated).
    """

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    weights: NDArray[np.float64]
    level: NDArray[np.float64]
    spread: NDArray[np.float64]
    derivative: NDArray[np.float64]
    item_of: NDArray[np.intp]
    shares: csc_array | None = None

    @classmethod
    def of(cls, items: ItemParameters, quadrature: Quadrature) -> Moments:
        """Moments of these items in this population."""
        free = np.ones((items.n_items, 3), dtype=np.bool_)
        free[:, 2] = items.guessing_estimated
        shares = None if items.kind is None else shares_of(items, free)
        return cls.of_curves(items.discrimination[:, None], items.intercept, items.guessing, free, quadrature, shares)

    @classmethod
    def of_factors(
        cls, slopes: NDArray[np.float64], intercept: NDArray[np.float64], free: NDArray[np.bool_]
    ) -> Moments:
        """Moments of a 2PL with several abilities; ``free`` says which slopes are estimated."""
        free, n = np.pad(free, ((0, 0), (0, 2)), constant_values=((0, 0), (0, 1))), len(free)
        free[:, -1] = False  # no guessing
        return cls.of_curves(slopes, intercept, np.zeros(n), free, factor_quadrature(slopes.shape[1], slopes=slopes))

    @classmethod
    def of_curves(
        cls,
        slopes: NDArray[np.float64],
        intercept: NDArray[np.float64],
        guessing: NDArray[np.float64],
        free: NDArray[np.bool_],
        quadrature: Quadrature,
        shares: csc_array | None = None,
    ) -> Moments:
        """Moments of right responses; ``free`` says which slopes, intercepts and guessing are estimated."""
        axes = np.vstack([quadrature.nodes.T, np.ones(quadrature.weights.size)])
        z, asymptote = slopes @ axes[:-1] + intercept[:, None], guessing[:, None]
        s, t = expit(z), expit(-z)
        p, q = asymptote + (1 - asymptote) * s, (1 - asymptote) * t
        (item_of, column), last = np.nonzero(free), len(axes) - 1
        derivative = (q * s)[item_of] * axes[np.minimum(column, last)]
        derivative[column > last] = t[item_of[column > last]]
        return cls.standardised(p, p * q, quadrature.weights, derivative, item_of, shares)

    @classmethod
    def standardised(
        cls,
        mean_at: NDArray[np.float64],
        variance_at: NDArray[np.float64],
        weights: NDArray[np.float64],
        derivative: NDArray[np.float64],
        item_of: NDArray[np.intp],
        shares: csc_array | None = None,
    ) -> Moments:
        """Moments of responses with this mean and variance at the nodes, and derivatives of the mean."""
        mean = mean_at @ weights
        away = mean_at - mean[:, None]
        deviation = np.sqrt((variance_at + away**2) @ weights)  # with all digits for very easy items too
        level, spread = away / deviation[:, None], variance_at / deviation[:, None] ** 2
        return cls(mean, deviation, weights, level, spread, derivative / deviation[item_of][:, None], item_of, shares)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return self.mean.size

    @property
    def n_moments(self) -> int:
        """Number of singles and pairs."""
        return self.n_items * (self.n_items + 1) // 2

    def log_probabilities(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Logarithms of P and 1 - P at the nodes, shape (n_items, n_nodes)."""
        p = self.mean[:, None] + self.level * self.deviation[:, None]
        least = np.finfo(np.float64).tiny
        return np.log(np.clip(p, least, 1.0)), np.log(np.clip(1 - p, least, 1.0))

    @cached_property
    def joint_spread(self) -> NDArray[np.float64]:
        """E[s_j s_k], shape (n_items, n_items)."""
        return (self.spread * self.weights) @ self.spread.T

    @cached_property
    def positions(self) -> NDArray[np.intp]:
        """Place of each entry of the symmetric matrix in the vector, shape (n_items, n_items)."""
        positions = np.diag(np.arange(self.n_items))
        first, second = np.triu_indices(self.n_items, 1)
        positions[first, second] = positions[second, first] = np.arange(self.n_items, self.n_moments)
        return positions

    def to_vector(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Singles from the diagonal, then pairs from above it."""
        return np.concatenate([np.diagonal(matrix), matrix[np.triu_indices(self.n_items, 1)]])

    def expected_products(self) -> NDArray[np.float64]:
        """E[u_j u_k] for j != k: the correlations the model expects, shape (n_items, n_items)."""
        return (self.level * self.weights) @ self.level.T

    @np.errstate(invalid="ignore")
    def residual(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Observed less expected moments, each over the rows that have it, shape (n_moments,); NaN where none has."""
        seen = ~np.isnan(values)
        standardised = np.where(seen, (values - self.mean) / self.deviation, 0.0)
        counted = seen.astype(np.float64)
        matrix = standardised.T @ standardised / (counted.T @ counted) - self.expected_products()
        np.fill_diagonal(matrix, standardised.sum(axis=0) / counted.sum(axis=0))
        return self.to_vector(matrix)

    def items_of(self, chosen: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The two items of these moments; a single's are the same one twice."""
        first, second = np.triu_indices(self.n_items, 1)
        singles = np.arange(self.n_items)
        return np.concatenate([singles, first])[chosen], np.concatenate([singles, second])[chosen]

    def jacobian(self) -> csc_array:
        """Derivatives of the moments by the parameters, shape (n_moments, n_parameters), sparse."""
        # d E[u_j u_k] by a parameter of j is E[t_j' t_k]; that of the single u_j takes the place of k = j
        entries = (self.derivative * self.weights) @ self.level.T
        parameters = np.arange(self.item_of.size)
        entries[parameters, self.item_of] = self.derivative @ self.weights
        rows = self.positions[self.item_of]
        columns = np.repeat(parameters, self.n_items)
        by_item = csc_array((entries.ravel(), (rows.ravel(), columns)), shape=(self.n_moments, parameters.size))
        return by_item if self.shares is None else csc_array(by_item @ self.shares)

    def covariance_times(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Xi times a vector of moments, both written as symmetric matrices."""
        singles = np.diagonal(matrix)
        pairs = matrix - np.diag(singles)
        through_others = pairs @ self.level
        slope = (singles[:, None] + through_others) * self.spread * self.weights
        mean_given_theta = singles @ self.level + (self.level * through_others).sum(axis=0) / 2
        common = self.weights * (mean_given_theta - self.weights @ mean_given_theta)
        cross = slope @ self.level.T
        product = cross + cross.T + (self.level * common) @ self.level.T + self.joint_spread * pairs
        np.fill_diagonal(product, slope.sum(axis=1) + self.level @ common)
        return product

    def covariance(self, chosen: NDArray[np.intp]) -> NDArray[np.float64]:
        """Xi of these moments written out, shape (n_chosen, n_chosen)."""
        first, second = self.items_of(chosen)
        single = (first == second)[:, None]
        expected, covariance = np.zeros(chosen.size), np.zeros((chosen.size, chosen.size))
        most = max(1, BATCH_CELLS // chosen.size)
        for at in (slice(start, start + most) for start in range(0, self.weights.size, most)):
            level, weights = self.level[:, at], self.weights[at]
            given_theta = level[first] * np.where(single, 1.0, level[second])
            expected += given_theta @ weights
            covariance += (given_theta * weights) @ given_theta.T
            for item in range(self.n_items):
                has = np.flatnonzero((first == item) | (second == item))
                other = np.where(single[has], 1.0, level[first[has] + second[has] - item])
                covariance[np.ix_(has, has)] += (other * (self.spread[item, at] * weights)) @ other.T
        covariance -= np.outer(expected, expected)
        np.einsum("ii->i", covariance)[:] += np.where(single[:, 0], 0.0, self.joint_spread[first, second])
        return covariance


def shares_of(items: ItemParameters, free: NDArray[np.bool_]) -> csc_array:
    """What each estimated parameter moves of slopes, intercepts and guessing, shape (n_free, n_estimated).

    A common slope moves all slopes alike. With anchors the standard deviation s and the mean m of ability move
    their slopes s a and intercepts d + m a by a.
    """
    kind = np.array(items.kind or ("own",) * items.n_items)
    own = free.copy()
    own[:, 0] &= kind == "own"
    own[:, 1] &= kind != "fixed"
    each = eye_array(free.size, format="csr")[np.flatnonzero(own)]
    columns = []
    one_slope, known = np.isin(kind, ("rasch", "1pl")), np.where(kind == "fixed", items.discrimination, 0.0)
    for moved, column in ((one_slope.astype(np.float64), 0), (known, 0), (known, 1)):
        if moved.any():
            direction = np.zeros(free.shape)
            direction[:, column] = moved
            columns.append(direction.ravel())
    return csc_array(vstack([each, csr_array(np.array(columns))]).T.tocsr()[np.flatnonzero(free)])


FEWEST_TOGETHER = 20  # respondents who answered both items of a pair
LEAST_VARIANCE = 1.0  # of the sum of (x_k - P_k)(x_l - P_l) over them, or their score hangs on one rare answer
MOST_COMPLETE_ITEMS = 1_000  # with complete responses, of which all pairs are used
MOST_MOMENTS = 4_100  # otherwise; a matrix of 134 MB
MOST_SCORES = 1_000, 2_000  # of incomplete responses: all of 44 items, four of each item up to 500


@dataclass(frozen=True, eq=False)
class Margins:
    """The singles and pairs of items on which limited-information statistics rest.

    Parameters
    ----------
    chosen
        Their positions among all moments (see `Moments`), singles first, shape (n_chosen,).
    n
        Respondents who answered the items of each, shape (n_chosen,).
    pairs
        First and second item of the pairs, shape (2, n_pairs).
    n_pairs_left_out
        Pairs that too few respondents answered together.
    n_pairs_not_drawn
        Pairs beyond what can be computed; those used were drawn at random.
    """

    chosen: NDArray[np.intp]
    n: NDArray[np.float64]
    pairs: NDArray[np.intp]
    n_pairs_left_out: int
    n_pairs_not_drawn: int

    @classmethod
    def of(cls, responses: ResponseMatrix, moments: Moments) -> Margins:
        """All margins of complete responses to no more than 1,000 items; otherwise those that can be computed.

        Pairs with too few respondents are left out; of the others as many are drawn as can be computed.
        """
        n_items = responses.n_items
        first, second = np.triu_indices(n_items, 1)
        if responses.is_complete and n_items <= MOST_COMPLETE_ITEMS:
            chosen = np.arange(moments.n_moments)
            n = np.full(chosen.size, float(responses.n_respondents))
            return cls(chosen, n, np.stack([first, second]), 0, 0)
        seen = responses.observed.astype(np.float64)
        n_together = seen.T @ seen
        singles = np.flatnonzero(np.diagonal(n_together) > 0)
        enough = n_together >= FEWEST_TOGETHER
        if not responses.is_complete:
            size = moments.deviation**2
            enough &= n_together * moments.joint_spread * np.outer(size, size) >= LEAST_VARIANCE
        pairs = np.flatnonzero(enough[first, second])
        left_out = first.size - pairs.size
        most_scores = min(max(MOST_SCORES[0], 4 * n_items), MOST_SCORES[1])
        most = max((MOST_MOMENTS if responses.is_complete else most_scores) - singles.size, 0)
        not_drawn = max(pairs.size - most, 0)
        if not_drawn:
            pairs = np.sort(np.random.default_rng(0).choice(pairs, most, replace=False))
        used = np.stack([first[pairs], second[pairs]])
        n = np.concatenate([np.diagonal(n_together)[singles], n_together[used[0], used[1]]])
        return cls(np.concatenate([singles, n_items + pairs]), n, used, left_out, not_drawn)

    @property
    def n_pairs(self) -> int:
        """Number of pairs used."""
        return int(self.pairs.shape[1])

    @property
    def n_per_pair(self) -> float:
        """Mean number of respondents of a pair; NaN without any."""
        return float(self.n[-self.n_pairs :].mean()) if self.n_pairs else np.nan


@dataclass(frozen=True, eq=False)
class CategoryMoments:
    """Shares of every category but the lowest of each item, then mean products of two items' standardised scores.

    Parameters
    ----------
    scores
        Moments of the items' scores 0, ..., m, of which the products are used.
    item, category
        Of each share, shape (n_shares,).
    share
        Probabilities of those categories at the nodes, shape (n_shares, n_nodes).
    rates
        Derivatives of the shares by the parameters, shape (n_shares, n_parameters).
    """

    scores: Moments
    item: NDArray[np.intp]
    category: NDArray[np.intp]
    share: NDArray[np.float64]
    rates: NDArray[np.float64]

    @classmethod
    def of(cls, items: CategoryParameters, population: Quadrature) -> CategoryMoments:
        """Of these items in this population; where n_free is one less, the slope is one of all those items."""
        nodes, weights = population.nodes, population.weights
        item = np.repeat(np.arange(items.n_items), items.top + 1)
        score = np.arange(item.size) - items.first[item]
        p, (mean_at, variance_at, _) = np.exp(items.log_probabilities(nodes)).T, items.score_moments(nodes)
        each = zip(items.probabilities(nodes), items.parameter_derivatives(nodes), strict=True)
        rates = [own[:, :, None] * of_log for own, of_log in each]  # (n_nodes, n_categories, n_parameters)
        n_own = np.array([rate.shape[2] for rate in rates])
        item_of, common = np.repeat(np.arange(items.n_items), n_own), np.zeros(n_own.sum())
        common[(np.cumsum(n_own) - n_own)[items.n_free < n_own]] = 1.0  # the slope is the first parameter of an item
        shared = np.column_stack([np.eye(common.size)[:, common == 0], *([common] if common.any() else [])])
        derivative = np.concatenate([np.einsum("qkp,k->pq", rate, np.arange(rate.shape[1])) for rate in rates])
        scores = Moments.standardised(mean_at.T, variance_at.T, weights, derivative, item_of, csc_array(shared))
        by_share = block_diag(*(np.einsum("q,qkp->kp", weights, rate) for rate in rates)) @ shared
        later = score > 0
        return cls(scores, item[later], score[later], p[later], by_share[later])

    def residual(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Observed less expected moments of complete responses, shape (n_moments,)."""
        shares = (values[:, self.item] == self.category).mean(axis=0) - self.share @ self.scores.weights
        return np.concatenate([shares, self.scores.residual(values)[self.scores.n_items :]])

    def covariance(self) -> NDArray[np.float64]:
        """Of one respondent's shares and products, shape (n_moments, n_moments).

        Items are independent given ability: what it does to both, but where two moments are of one item.
        """
        scores, weights = self.scores, self.scores.weights
        pairs = np.arange(scores.n_items, scores.n_moments)
        first, second = scores.items_of(pairs)
        centred = (self.share - (self.share @ weights)[:, None]) * weights
        within, across = centred @ self.share.T, centred @ (scores.level[first] * scores.level[second]).T
        for j in range(scores.n_items):
            own, theirs = np.flatnonzero(self.item == j), np.flatnonzero((first == j) | (second == j))
            share = self.share[own] * weights
            within[np.ix_(own, own)] += np.diag(share.sum(axis=1)) - share @ self.share[own].T
            of_score = share * ((self.category[own, None] - scores.mean[j]) / scores.deviation[j] - scores.level[j])
            across[np.ix_(own, theirs)] += of_score @ scores.level[first[theirs] + second[theirs] - j].T
        return np.block([[within, across], [across.T, scores.covariance(pairs)]])

    def jacobian(self) -> NDArray[np.float64]:
        """Derivatives of the moments by the items' parameters, shape (n_moments, n_parameters)."""
        return np.vstack([self.rates, self.scores.jacobian().tocsr()[self.scores.n_items :].toarray()])
