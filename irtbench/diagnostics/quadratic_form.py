"""The quadratic form of limited-information statistics, e' C e with C = Xi^-1 less what parameters explain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, solve_triangular
from scipy.sparse import csc_array, csr_array, hstack
from scipy.sparse.linalg import LinearOperator, cg

from irtbench.diagnostics.moments import Moments

Product = Callable[[NDArray[np.float64]], NDArray[np.float64]]  # with a symmetric matrix

PLAIN_STEPS, MOST_STEPS = 200, 1_000  # of conjugate gradients; they take 20 to 60 where items are not very steep
ACCURACY = 1e-8
SINGULAR = 1e-12  # of a pivot, to the largest
LEAST_OWN = 1e-10  # taken for the own variance of a pair whose answers ability all but determines
OWN_OF_SINGLES = 1e-4  # of their variance: they have none of their own, but the inverse needs some
SMALLEST_PART = 0.5  # variance of a part to the own variances of the moments, that the near inverse keeps
MOST_ITEMS = 400  # for which there is a preconditioner: 338 take 5 s and .5 GB
MOST_PARTS = 6_000  # it keeps, a matrix of 288 MB


def dense_form(
    covariance: NDArray[np.float64], residual: NDArray[np.float64], jacobian: NDArray[np.float64], n_parameters: int
) -> tuple[float, int]:
    """The form with the covariance written out, and the number of parameters that move the moments.

    With Xi = L L', it is the sum of squares of L^-1 e less its part in the space of L^-1 D.
    """
    try:
        root = cholesky(covariance, lower=True)
    except LinAlgError:
        root = np.zeros((1, 1))
    pivots = np.diagonal(root) ** 2
    if pivots.min() <= SINGULAR * pivots.max():
        raise ArithmeticError("the covariance matrix of the shares of right responses is not positive definite")
    whitened = solve_triangular(root, residual, lower=True)
    moved = solve_triangular(root, jacobian, lower=True)
    length = np.sqrt((moved**2).sum(axis=0))
    axes, sizes, _ = np.linalg.svd(moved[:, length > 0] / length[length > 0], full_matrices=False)
    # an exploratory model has more slopes than parameters: the least directions are its rotations
    rank = min(n_parameters, int((sizes > 1e-7 * sizes[0]).sum())) if sizes.size else 0
    explained = axes[:, :rank].T @ whitened
    left = whitened - axes[:, :rank] @ explained
    return float(left @ left), rank


def complete_form(moments: Moments, residual: NDArray[np.float64], n_parameters: int) -> float:
    """The form of all moments of complete responses, by conjugate gradients.

    C e is the y that solves Xi y = e up to the directions in which the parameters move the moments, and is orthogonal
    to those. Where very steep items make that slow, it starts again with a preconditioner (`_NearInverse`).
    """
    jacobian = moments.jacobian()
    jacobian = csc_array(jacobian / np.sqrt((jacobian**2).sum(axis=0)))
    project = _without_parameters(jacobian, n_parameters)
    solution = _solution(moments, project, project, residual, PLAIN_STEPS)
    most_steps = PLAIN_STEPS
    if solution is None and moments.n_items <= MOST_ITEMS:
        most_steps = MOST_STEPS
        inverse = _without_parameters(jacobian, n_parameters, _NearInverse.of(moments), project)
        solution = _solution(moments, project, inverse, residual, most_steps)
    if solution is None:
        raise ArithmeticError(
            f"its equations are not solved in {most_steps:,} steps, as happens where items are very steep or coincide"
        )
    return max(float(residual @ solution), 0.0)


def _solution(
    moments: Moments, project: Product, near_inverse: Product, residual: NDArray[np.float64], most_steps: int
) -> NDArray[np.float64] | None:
    """The y of P Xi P y = P e by conjugate gradients, P being the projection; None if it is not found in time."""
    shape = moments.n_moments, moments.n_moments

    def product(y: NDArray[np.float64]) -> NDArray[np.float64]:
        return project(moments.to_vector(moments.covariance_times(y[moments.positions])))

    xi, near = (LinearOperator(shape, matvec=each, dtype=np.float64) for each in (product, near_inverse))
    found, failed = cg(xi, project(residual), rtol=ACCURACY, maxiter=most_steps, M=near)
    return None if failed else np.asarray(found)


def _without_parameters(
    jacobian: csc_array, n_parameters: int, near: _NearInverse | None = None, project: Product | None = None
) -> Product:
    """M less M D (D' M D)^-1 D' M; M is the identity without ``near``.

    What it leads to is orthogonal to D, and what lies along D counts for nothing: ``project`` keeps both to that in
    spite of rounding.
    """
    gram = (jacobian.T @ jacobian).toarray() if near is None else near.between(jacobian)
    sizes, axes = np.linalg.eigh(gram)
    # an exploratory model has more slopes than parameters: the least directions are its rotations
    kept = np.flatnonzero(sizes > 1e-13 * sizes[-1])[-n_parameters:]
    inverse = (axes[:, kept] / sizes[kept]) @ axes[:, kept].T
    transposed = jacobian.T.tocsr()

    def product(vector: NDArray[np.float64]) -> NDArray[np.float64]:
        if near is None or project is None:
            return vector - jacobian @ (inverse @ (transposed @ vector))
        vector = project(vector)
        explained = jacobian @ (inverse @ (transposed @ near.times(vector)))
        return project(near.times(vector - explained))

    return product


@dataclass(frozen=True, eq=False)
class _NearInverse:
    """The inverse of a matrix near Xi.

    Given ability, Xi is the own variance of each pair, E[s_j s_k], and for each item j what its pairs share,
    E[s_j T T'] with T = (1, t_k), besides what ability does to all of them. Each of these has few large parts B
    next to the own variances S, and (S + B B')^-1 = S^-1 - S^-1 B (I + B' S^-1 B)^-1 B' S^-1   (Woodbury, 1950).

    Parameters
    ----------
    unit
        Square roots of S, shape (n_moments,).
    parts
        S^-1/2 B, sparse, shape (n_moments, n_parts).
    factor
        Cholesky factor of I + B' S^-1 B.
    """

    unit: NDArray[np.float64]
    parts: csr_array
    factor: tuple[NDArray[np.float64], bool]

    @classmethod
    def of(cls, moments: Moments) -> _NearInverse:
        """Keep the largest parts of each item, and what ability does to all."""
        own = moments.to_vector(moments.joint_spread - np.diag(np.diagonal(moments.joint_spread)))
        own[: moments.n_items] = OWN_OF_SINGLES * (moments.spread @ moments.weights)
        own = np.maximum(own, LEAST_OWN)
        first, second = moments.items_of(np.arange(moments.n_moments))
        level_of_second = np.where((first == second)[:, None], 1.0, moments.level[second])
        rows, columns, values, sizes = [], [], [], []
        n_columns = 0
        for item in range(moments.n_items):
            row = moments.positions[item]
            shared = moments.level.copy()
            shared[item] = 1.0
            shared *= np.sqrt(moments.spread[item] * moments.weights) / np.sqrt(own[row])[:, None]
            axes, lengths, _ = np.linalg.svd(shared, full_matrices=False)
            kept = int((lengths**2 > SMALLEST_PART).sum())
            part = axes[:, :kept] * lengths[:kept]
            rows.append(np.repeat(row, kept))
            columns.append(np.tile(np.arange(n_columns, n_columns + kept), row.size))
            values.append(part.ravel())
            sizes.append(lengths[:kept])
            n_columns += kept
        shape = (moments.n_moments, n_columns)
        of_items = csc_array((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=shape)
        largest = np.sort(np.argsort(-np.concatenate(sizes))[:MOST_PARTS])
        given_theta = moments.level[first] * level_of_second
        of_all = (given_theta - (given_theta @ moments.weights)[:, None]) * np.sqrt(moments.weights)
        # in units of the own variances
        parts = hstack([of_items[:, largest], csc_array(of_all / np.sqrt(own)[:, None])]).tocsr()
        gram = (parts.T.tocsr() @ parts).toarray()
        np.einsum("ii->i", gram)[:] += 1.0
        return cls(np.sqrt(own), parts, cho_factor(gram, lower=True, overwrite_a=True))

    def times(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Product with a vector of moments."""
        scaled = vector / self.unit
        return (scaled - self.parts @ cho_solve(self.factor, self.parts.T @ scaled)) / self.unit

    def between(self, jacobian: csc_array) -> NDArray[np.float64]:
        """D' M D, shape (n_parameters, n_parameters)."""
        scaled = csc_array(jacobian / self.unit[:, None])
        through = (self.parts.T @ scaled).toarray()
        return (scaled.T @ scaled).toarray() - through.T @ cho_solve(self.factor, through)
