"""Partial credit and graded curves of many ratings at their own nodes, in closed form to the second derivative.

A rating's predictors are z_k = w_k u + d_k, k = 1..K, of its u (slope times ability) and its intercepts d; w_k = k with
``gpcm`` (P(k) proportional to exp z_k) and 1 with ``graded`` (P(at least k) = 1 / (1 + exp(-z_k))). Categories that an
item has not are those of intercept `NEVER`. The curves are those of `models.item_models`; automatic differentiation
would hold every category's derivative by every parameter at every node, of which only the observed one is needed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from irtbench.models.item_models.graded import Graded
from irtbench.models.item_models.item_model import NUMPY, ItemModel
from irtbench.models.item_models.partial_credit import PartialCredit

Floats = NDArray[np.float64]
NEVER, ALWAYS = -1e4, 1e4  # intercepts of categories that are not there, and of the lowest
LARGE = 300.0  # of an exponent, far from overflow


@dataclass(frozen=True, eq=False)
class CurvePoints(ABC):
    """Ratings at their nodes: ``scores`` k, shape (n,); ``intercepts``, (n, K); ``along`` u, (n, n_nodes)."""

    scores: NDArray[np.int64]
    intercepts: Floats
    along: Floats
    model: ClassVar[ItemModel]

    @staticmethod
    @abstractmethod
    def weights(n_steps: int) -> Floats:
        """What u counts in each predictor, w, shape (K,)."""

    @property
    @abstractmethod
    def log_likelihood(self) -> Floats:
        """Log P of the scores given, shape (n, n_nodes)."""

    @property
    @abstractmethod
    def by_predictors(self) -> Floats:
        """Derivatives of log P by the predictors, shape (n, K, n_nodes)."""

    @property
    @abstractmethod
    def by_ability(self) -> Floats:
        """Derivatives of log P by u, shape (n, n_nodes)."""

    @abstractmethod
    def gradient(self, weights: Floats) -> Floats:
        """Derivatives by the predictors, summed over the nodes with weights, shape (n, K)."""

    @abstractmethod
    def information(self, weights: Floats) -> Floats:
        """Negative second derivatives by the predictors, summed over the nodes with weights, shape (n, K, K)."""

    @abstractmethod
    def worth(self, values: Floats) -> Floats:
        """Mean of what categories 0..K are worth at each node, shape (n, n_nodes)."""

    @abstractmethod
    def worth_by_predictors(self, values: Floats) -> Floats:
        """Its derivatives by the predictors, shape (n, K, n_nodes)."""

    @classmethod
    def start(cls, shares: Floats) -> Floats:
        """Intercepts with these shares of categories, about."""
        return np.asarray(cls.model.natural(cls.model.start(shares, 1.0)[:, None], 1, NUMPY)[1:, 0])

    @property
    def numbers(self) -> Floats:
        """Of the categories, 0 to K."""
        return np.arange(self.intercepts.shape[1] + 1.0)


@dataclass(frozen=True, eq=False)
class PartialCreditPoints(CurvePoints):
    """Derivatives are those of a multinomial: [k = x] - P_k, and diag P - PP'."""

    model: ClassVar[ItemModel] = PartialCredit()

    @cached_property
    def _curves(self) -> tuple[Floats, Floats]:
        """P of the categories 1..K, shape (n, K, n_nodes), and log P of the score given."""
        n_steps, highest = self.intercepts.shape[1], np.zeros(1)
        p = np.empty((n_steps, *self.along.shape)).transpose(1, 0, 2)  # all of a category in one piece
        if n_steps * max(self.along.max(), 0.0) + self.intercepts.max() < LARGE:  # exp(k u + d) from powers of exp(u)
            first = np.exp(self.along)
            power, shares = first.copy(), np.exp(self.intercepts)
            for k in range(n_steps):
                np.multiply(power, shares[:, k, None], out=p[:, k])
                power *= first
        else:
            np.multiply(np.arange(1, n_steps + 1)[:, None], self.along[:, None], out=p)
            p += self.intercepts[..., None]
            highest = np.maximum(p.max(axis=1), 0.0)
            np.exp(np.subtract(p, highest[:, None], out=p), out=p)
        total = p.sum(axis=1) + np.exp(-highest)
        p *= (1 / total)[:, None]
        own = np.take_along_axis(np.pad(self.intercepts, ((0, 0), (1, 0))), self.scores[:, None], axis=1)
        return p, self.scores[:, None] * self.along + own - highest - np.log(total)

    @property
    def _given(self) -> NDArray[np.bool_]:
        """Whether the score is that of each category 1..K, shape (n, K)."""
        return self.scores[:, None] == self.numbers[1:]

    @staticmethod
    def weights(n_steps: int) -> Floats:
        """w, see `CurvePoints`."""
        return np.arange(1.0, n_steps + 1)

    @property
    def log_likelihood(self) -> Floats:
        """Log P of the scores given."""
        return self._curves[1]

    @property
    def by_predictors(self) -> Floats:
        """Derivatives by the predictors."""
        return np.asarray(self._given[..., None] - self._curves[0])

    @cached_property
    def by_ability(self) -> Floats:
        """Derivatives by u: the score less its mean."""
        return np.asarray(self.scores[:, None] - self.worth(self.numbers))

    def gradient(self, weights: Floats) -> Floats:
        """Derivatives, summed with weights."""
        return np.asarray(
            self._given * weights.sum(axis=1)[:, None] - np.einsum("nkq,nq->nk", self._curves[0], weights)
        )

    def information(self, weights: Floats) -> Floats:
        """Negative second derivatives, summed with weights."""
        p = self._curves[0]
        weighted = p * weights[:, None]
        return np.asarray(weighted.sum(axis=2)[..., None] * np.eye(p.shape[1]) - weighted @ p.transpose(0, 2, 1))

    def worth(self, values: Floats) -> Floats:
        """Mean worth."""
        return np.asarray(values[0] + np.einsum("k,nkq->nq", values[1:] - values[0], self._curves[0]))

    def worth_by_predictors(self, values: Floats) -> Floats:
        """Its derivatives by the predictors."""
        return np.asarray(self._curves[0] * (values[1:, None] - self.worth(values)[:, None]))


@dataclass(frozen=True, eq=False)
class GradedPoints(CurvePoints):
    """P_x is a difference of two logistic curves: only their two predictors have derivatives."""

    model: ClassVar[ItemModel] = Graded()

    @cached_property
    def _ends(self) -> Floats:
        """The predictors of at least x and of at least x + 1, shape (2, n, n_nodes)."""
        every = np.pad(self.intercepts, ((0, 0), (1, 1)), constant_values=((0, 0), (ALWAYS, NEVER)))
        own = np.take_along_axis(every, self.scores[:, None] + np.arange(2), axis=1)
        return np.asarray(self.along + own.T[..., None])

    @staticmethod
    def weights(n_steps: int) -> Floats:
        """w, see `CurvePoints`."""
        return np.ones(n_steps)

    @cached_property
    def log_likelihood(self) -> Floats:
        """Log P of the scores given."""
        upper, lower = self._ends
        with np.errstate(divide="ignore"):  # where intercepts do not fall: minus infinity
            return np.asarray(log_expit(upper) + log_expit(-lower) + np.log(-np.expm1(np.minimum(lower - upper, 0.0))))

    @cached_property
    def _slopes(self) -> Floats:
        """Derivatives of P by the two predictors, as shares of it."""
        upper, lower = np.exp(log_expit(self._ends) + log_expit(-self._ends) - self.log_likelihood)
        return np.stack([upper, -lower])

    def _placed(self, values: Floats) -> Floats:
        """Values of the two predictors among those of all, shape (n, K, ...)."""
        rows = np.arange(len(self.scores))
        found = np.zeros((len(rows), len(self.numbers) + 1, *values.shape[2:]))
        found[rows, self.scores], found[rows, self.scores + 1] = values
        return found[:, 1:-1]

    @property
    def by_predictors(self) -> Floats:
        """Derivatives by the predictors."""
        return self._placed(self._slopes)

    @cached_property
    def by_ability(self) -> Floats:
        """Derivatives by u: of two predictors, without all others."""
        return np.asarray(self._slopes.sum(axis=0))

    def gradient(self, weights: Floats) -> Floats:
        """Derivatives, summed with weights."""
        return self._placed((self._slopes * weights).sum(axis=2))

    def information(self, weights: Floats) -> Floats:
        """Negative second derivatives, summed with weights."""
        bends = self._slopes * (self._slopes - 1 + 2 * expit(self._ends))
        found = self._placed((bends * weights).sum(axis=2))[..., None] * np.eye(self.intercepts.shape[1])
        both = np.flatnonzero((self.scores >= 1) & (self.scores < self.intercepts.shape[1]))
        x, across = self.scores[both], (self._slopes.prod(axis=0) * weights).sum(axis=1)[both]
        found[both, x - 1, x] = found[both, x, x - 1] = across
        return np.asarray(found)

    @cached_property
    def _at_least(self) -> Floats:
        """P of at least 1..K, shape (n, K, n_nodes)."""
        return np.asarray(expit(self.along[:, None] + self.intercepts[..., None]))

    def worth(self, values: Floats) -> Floats:
        """Mean worth."""
        return np.asarray(values[0] + np.diff(values) @ self._at_least)

    def worth_by_predictors(self, values: Floats) -> Floats:
        """Its derivatives by the predictors."""
        return np.asarray(np.diff(values)[:, None] * self._at_least * (1 - self._at_least))


CURVES: dict[str, type[CurvePoints]] = {"gpcm": PartialCreditPoints, "grm": GradedPoints}
