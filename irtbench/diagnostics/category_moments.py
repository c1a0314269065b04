"""Moments of items in categories under the model, for limited-information fit: C2 of Cai & Monroe (2014)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from irtbench.models.category_parameters import CategoryDerivatives, CategoryParameters
from irtbench.models.quadrature import Quadrature

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CategoryMoments:
    """Shares of every category but the lowest of each item, then mean products of two items' scores 0, ..., m.

    Parameters
    ----------
    item, category
        Of each share, shape (n_shares,).
    pairs
        Places of the two items of each product, shape (2, n_pairs).
    share, mean, square
        At the nodes: probabilities of those categories, and mean and mean square of each item's score, shapes
        (n_nodes, n_shares) and (n_nodes, n_items).
    weights
        Of the nodes.
    """

    item: NDArray[np.intp]
    category: NDArray[np.intp]
    pairs: NDArray[np.intp]
    share: Array
    mean: Array
    square: Array
    weights: Array

    @classmethod
    def of(cls, items: CategoryParameters, population: Quadrature) -> CategoryMoments:
        """Of these items in this population."""
        each = np.repeat(np.arange(items.n_items), items.top + 1)
        score = np.arange(each.size) - items.first[each]
        p = np.exp(items.log_probabilities(population.nodes))
        mean, square = (np.add.reduceat(p * score**power, items.first, axis=1) for power in (1, 2))
        later = score > 0
        pairs = np.stack(np.triu_indices(items.n_items, 1))
        return cls(each[later], score[later], pairs, p[:, later], mean, square, population.weights)

    @property
    def product(self) -> Array:
        """Mean products at the nodes, shape (n_nodes, n_pairs)."""
        return self.mean[:, self.pairs[0]] * self.mean[:, self.pairs[1]]

    def expected(self) -> Array:
        """All moments in the population, shape (n_moments,)."""
        return self.weights @ np.hstack([self.share, self.product])

    def observed(self, values: Array) -> Array:
        """The same of complete responses."""
        shares = values[:, self.item] == self.category
        return np.hstack([shares, values[:, self.pairs[0]] * values[:, self.pairs[1]]]).mean(axis=0)

    def correlations(self) -> Array:
        """Of the items' scores in the population, shape (n_pairs,)."""
        mean, square = self.weights @ self.mean, self.weights @ self.square
        sd = np.sqrt(square - mean**2)
        first, second = self.pairs
        return (self.weights @ self.product - mean[first] * mean[second]) / (sd[first] * sd[second])

    def covariance(self) -> Array:
        """Of one respondent's shares and products, shape (n_moments, n_moments).

        Items are independent given ability: products of expectations, but where two moments are of one item.
        """
        n_shares, (first, second) = self.item.size, self.pairs
        both = np.hstack([self.share, self.product])
        found = (both.T * self.weights) @ both
        for j in range(self.mean.shape[1]):
            own, theirs = np.flatnonzero(self.item == j), np.flatnonzero((first == j) | (second == j))
            other = np.where(first[theirs] == j, second[theirs], first[theirs])
            rest, pair = self.mean[:, other], n_shares + theirs
            found[np.ix_(own, own)] = np.diag(self.weights @ self.share[:, own])
            found[np.ix_(own, pair)] = (self.share[:, own] * self.category[own]).T * self.weights @ rest
            found[np.ix_(pair, own)] = found[np.ix_(own, pair)].T
            found[np.ix_(pair, pair)] = (rest.T * (self.weights * self.square[:, j])) @ rest
        same = n_shares + np.arange(first.size)
        found[same, same] = self.weights @ (self.square[:, first] * self.square[:, second])
        expected = self.weights @ both
        return found - np.outer(expected, expected)

    def jacobian(self, items: CategoryParameters, population: Quadrature) -> Array:
        """Derivatives of the moments by the items' parameters, shape (n_moments, n_parameters).

        Where a slope is none of an item's own (n_free one less), one for all stands in the place of theirs.
        """
        (first, second), n_shares, columns = self.pairs, self.item.size, []
        common = np.zeros(n_shares + first.size)
        p = CategoryDerivatives.at(items, population.nodes).p
        for j, rates in enumerate(items.parameter_derivatives(population.nodes)):
            rate = p[:, items.first[j] : items.first[j] + items.top[j] + 1, None] * rates
            of_mean = np.einsum("qkp,k->qp", rate, np.arange(items.top[j] + 1.0))
            found = np.zeros((rates.shape[2], n_shares + first.size))
            found[:, np.flatnonzero(self.item == j)] = np.einsum("q,qkp->pk", self.weights, rate[:, 1:])
            theirs = np.flatnonzero((first == j) | (second == j))
            other = np.where(first[theirs] == j, second[theirs], first[theirs])
            found[:, n_shares + theirs] = (of_mean.T * self.weights) @ self.mean[:, other]
            if items.n_free[j] == len(found) - 1:
                common += found[0]
                found = found[1:]
            columns.append(found)
        return np.vstack([*columns, common[None]] if common.any() else columns).T
