"""Does one ability fit all the items together: M2, RMSEA, SRMSR, TLI and CFI."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import pinvh
from scipy.optimize import brentq
from scipy.sparse import csc_array
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import chdtrc, chndtr, expit

from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.diagnostics.checks import check_items_agree
from irtbench.diagnostics.correlation import pairwise_correlation
from irtbench.models.curves import log_icc
from irtbench.models.factor_quadrature import factor_quadrature
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.quadrature import Quadrature, normal_grid

MOST_DENSE_MOMENTS = 2_000  # 62 items: a matrix of 32 MB
MOST_STEPS, MOST_STEPS_IF_DENSE = 5_000, 200  # of conjugate gradients; they take 20 to 60 where items do not coincide


@dataclass(frozen=True)
class GlobalFit:
    """Fit of the model to all items at once.

    Parameters
    ----------
    m2, df, p
        Limited-information statistic, its degrees of freedom and p; NaN where no degree of freedom is left.
    rmsea, rmsea_lower, rmsea_upper
        Root mean square error of approximation with its 90% interval.
    srmsr
        Standardised root mean square residual of the correlations.
    tli, cfi
        Tucker-Lewis and comparative fit index against the model of independent items.
    n_respondents
        Respondents on whom M2 and what follows from it rest.
    respondents_used
        Which respondents those are, in words.
    """

    m2: float
    df: int
    p: float
    rmsea: float
    rmsea_lower: float
    rmsea_upper: float
    srmsr: float
    tli: float
    cfi: float
    n_respondents: int
    respondents_used: str


def global_fit(responses: ResponseMatrix, items: ItemParameters, *, quadrature: Quadrature | None = None) -> GlobalFit:
    """Limited-information fit of the model to the responses of one and two items.

    M2 = N e' C e,  C = Xi^-1 - Xi^-1 D (D' Xi^-1 D)^-1 D' Xi^-1                        (Maydeu-Olivares & Joe, 2006)

    with e the observed less the expected shares of right responses to every item and every pair, Xi their
    covariance under the model and D the derivatives of the expected shares by the item parameters. It is chi-square
    with J (J + 1) / 2 less the number of parameters as degrees of freedom.

    RMSEA = sqrt(max(0, (M2 - df) / (df (N - 1)))), with the interval from the noncentral chi-square.
    TLI and CFI compare with the M2 of independent items, which is N times the sum of the squared correlations.
    SRMSR is the root mean square of observed less expected correlations.

    M2 needs respondents who answered every item and uses only those; SRMSR uses, for each pair of items, all who
    answered both.

    Parameters
    ----------
    responses
        Graded responses.
    items
        Parameters of the same items in the same order; ``n_free`` of them counts against df.
    quadrature
        The population; None for the standard normal.

    Raises
    ------
    InputError
        If the items differ.
    ArithmeticError
        If the equations for M2 are not solved in reasonable time, which items that nearly coincide may cause.

    Warns
    -----
    RuntimeWarning
        If no degree of freedom or no complete row is left: M2 and what follows from it is NaN.
    """
    check_items_agree(responses, items)
    moments = _Moments.of(items, normal_grid() if quadrature is None else quadrature)
    return _global_fit(responses, moments, int(items.n_free.sum()))


def global_fit_of_factors(
    responses: ResponseMatrix,
    slopes: NDArray[np.float64],
    intercept: NDArray[np.float64],
    *,
    n_parameters: int,
    zero_loadings: NDArray[np.bool_] | None = None,
) -> GlobalFit:
    """The same for a 2PL with several independent standard normal abilities, P = 1 / (1 + exp(-(a' theta + d))).

    Parameters
    ----------
    responses
        Graded responses.
    slopes, intercept
        a of shape (n_items, n_factors) and d of shape (n_items,), items in the order of the responses.
    n_parameters
        Number of free parameters; an exploratory model has fewer than slopes and intercepts, since a rotation changes
        nothing.
    zero_loadings
        Where slopes were held at zero, shape (n_items, n_factors); None if exploratory.

    Raises
    ------
    InputError
        If the shapes do not fit the responses.
    ArithmeticError
        As `global_fit`.

    Warns
    -----
    RuntimeWarning
        As `global_fit`.
    """
    if slopes.ndim != 2 or slopes.shape[0] != responses.n_items or intercept.shape != (responses.n_items,):
        raise InputError(
            f"global fit: slopes {slopes.shape} and intercepts {intercept.shape} for {responses.n_items} items"
        )
    free = np.ones(slopes.shape, dtype=np.bool_) if zero_loadings is None else ~zero_loadings
    return _global_fit(responses, _Moments.of_factors(slopes, intercept, free), n_parameters)


def _global_fit(responses: ResponseMatrix, moments: _Moments, n_parameters: int) -> GlobalFit:
    """The statistics of these moments."""
    complete = responses.values[responses.observed.all(axis=1)]
    n_respondents = len(complete)
    used = f"all {n_respondents}"
    if not responses.is_complete:
        used = f"{n_respondents} of {responses.n_respondents}, those who answered every item"
    df = max(moments.n_moments - n_parameters, 0)
    m2 = p = rmsea = lower = upper = tli = cfi = np.nan
    if df < 1 or n_respondents < 2:
        too_few = "fewer than two answered every item"
        reason = f"{moments.n_items} items leave no degree of freedom" if df < 1 else too_few
        warnings.warn(f"global fit: M2 is undefined because {reason}", RuntimeWarning, stacklevel=3)
    else:
        m2 = n_respondents * moments.discrepancy(complete)
        p = float(chdtrc(df, m2))
        rmsea, lower, upper = _rmsea(m2, df, n_respondents)
        tli, cfi = _against_independence(m2, df, complete)
    return GlobalFit(m2, df, p, rmsea, lower, upper, moments.srmsr(responses), tli, cfi, n_respondents, used)


@dataclass(frozen=True, eq=False)
class _Moments:
    """First and second moments of the responses under the model, and products with their covariance.

    M2 is the same in any basis of the moments. This one is the standardised responses u_j = (x_j - pi_j) / sd_j and
    their products u_j u_k, whose covariance is the identity but for what ability does. Vectors of moments hold the
    singles, then the pairs j < k; written as a symmetric matrix, the singles stand on the diagonal.

    Given theta, u_j = z_j + t_j with independent z_j of mean 0 and variance s_j. So any f = sum v_j u_j +
    sum V_jk u_j u_k is uncorrelated terms: (v_j + sum_k V_jk t_k) z_j and V_jk z_j z_k, around a level m(theta). Its
    covariance with every moment is three products of (n_items, n_nodes) matrices: Xi is never written out, which
    would take 3 GB for 200 items.

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
    """

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    weights: NDArray[np.float64]
    level: NDArray[np.float64]
    spread: NDArray[np.float64]
    derivative: NDArray[np.float64]
    item_of: NDArray[np.intp]

    @classmethod
    def of(cls, items: ItemParameters, quadrature: Quadrature) -> _Moments:
        """Moments of these items in this population."""
        log_p, log_q = log_icc(quadrature.nodes, items)
        p = np.exp(log_p).T
        mean = p @ quadrature.weights
        # 1 - mean loses its digits for very easy items
        deviation = np.sqrt(mean * (np.exp(log_q).T @ quadrature.weights))
        z = items.discrimination[:, None] * quadrature.nodes + items.intercept[:, None]
        by_intercept = (1 - items.guessing)[:, None] * expit(z) * expit(-z)
        derivative = np.stack([by_intercept * quadrature.nodes, by_intercept, expit(-z)], axis=1)
        free = np.ones((items.n_items, 3), dtype=np.bool_)
        free[:, 2] = items.guessing_estimated
        item_of = np.nonzero(free)[0]
        return cls(
            mean=mean,
            deviation=deviation,
            weights=quadrature.weights,
            level=(p - mean[:, None]) / deviation[:, None],
            spread=np.exp(log_p + log_q).T / deviation[:, None] ** 2,
            derivative=derivative[free] / deviation[item_of][:, None],
            item_of=item_of,
        )

    @classmethod
    def of_factors(
        cls, slopes: NDArray[np.float64], intercept: NDArray[np.float64], free: NDArray[np.bool_]
    ) -> _Moments:
        """Moments of a 2PL with several abilities; ``free`` says which slopes are estimated."""
        quadrature = factor_quadrature(slopes.shape[1])
        weights = np.exp(quadrature.log_weights)
        z = slopes @ quadrature.nodes.T + intercept[:, None]
        p, variance = expit(z), expit(z) * expit(-z)
        mean = p @ weights
        deviation = np.sqrt(mean * (expit(-z) @ weights))
        coordinates = np.vstack([quadrature.nodes.T, np.ones(len(weights))])
        item_of, factor_of = np.nonzero(np.column_stack([free, np.ones(len(free), dtype=np.bool_)]))
        return cls(
            mean=mean,
            deviation=deviation,
            weights=weights,
            level=(p - mean[:, None]) / deviation[:, None],
            spread=variance / deviation[:, None] ** 2,
            derivative=variance[item_of] * coordinates[factor_of] / deviation[item_of][:, None],
            item_of=item_of,
        )

    @property
    def n_items(self) -> int:
        """Number of items."""
        return self.mean.size

    @property
    def n_moments(self) -> int:
        """Number of singles and pairs."""
        return self.n_items * (self.n_items + 1) // 2

    @cached_property
    def joint_spread(self) -> NDArray[np.float64]:
        """E[s_j s_k], shape (n_items, n_items)."""
        return (self.spread * self.weights) @ self.spread.T

    @cached_property
    def positions(self) -> NDArray[np.intp]:
        """Where each entry of the symmetric matrix stands in the vector, shape (n_items, n_items)."""
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

    def residual(self, complete: NDArray[np.float64]) -> NDArray[np.float64]:
        """Observed less expected moments, shape (n_moments,)."""
        standardised = (complete - self.mean) / self.deviation
        matrix = standardised.T @ standardised / len(complete) - self.expected_products()
        np.fill_diagonal(matrix, standardised.mean(axis=0))
        return self.to_vector(matrix)

    def jacobian(self) -> csc_array:
        """Derivatives of the moments by the parameters, shape (n_moments, n_parameters), sparse."""
        # d E[u_j u_k] by a parameter of j is E[t_j' t_k]; that of the single u_j stands in the place of k = j
        entries = (self.derivative * self.weights) @ self.level.T
        parameters = np.arange(self.item_of.size)
        entries[parameters, self.item_of] = self.derivative @ self.weights
        rows = self.positions[self.item_of]
        columns = np.repeat(parameters, self.n_items)
        return csc_array((entries.ravel(), (rows.ravel(), columns)), shape=(self.n_moments, parameters.size))

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

    def discrepancy(self, complete: NDArray[np.float64]) -> float:
        """M2 / N = e' C e, by conjugate gradients.

        C e is the y that solves Xi y = e up to the directions in which the parameters move the moments, and is
        orthogonal to those: with R projecting them out, R Xi R y = R e, and e' C e = e' y.
        """
        jacobian = self.jacobian()
        jacobian = (jacobian / np.sqrt((jacobian**2).sum(axis=0))).tocsr()
        transposed = jacobian.T.tocsr()
        inverse = pinvh((transposed @ jacobian).toarray())

        def project(vector: NDArray[np.float64]) -> NDArray[np.float64]:
            return vector - jacobian @ (inverse @ (transposed @ vector))

        def times(vector: NDArray[np.float64]) -> NDArray[np.float64]:
            return project(self.to_vector(self.covariance_times(project(vector.ravel())[self.positions])))

        residual = project(self.residual(complete))
        operator = LinearOperator((self.n_moments, self.n_moments), matvec=times, dtype=np.float64)
        can_be_dense = self.n_moments <= MOST_DENSE_MOMENTS
        most_steps = MOST_STEPS_IF_DENSE if can_be_dense else MOST_STEPS
        solution, failed = cg(operator, residual, rtol=1e-8, atol=0.0, maxiter=most_steps)
        if failed and not can_be_dense:
            raise ArithmeticError(f"global fit: the equations for M2 were not solved in {failed} steps")
        if failed:  # items that nearly coincide: few enough to write the matrix out
            matrix = operator @ np.eye(self.n_moments)
            solution = pinvh((matrix + matrix.T) / 2) @ residual
        return float(residual @ solution)

    def srmsr(self, responses: ResponseMatrix) -> float:
        """Root mean square of observed less expected correlations over the pairs that have one; NaN if none has."""
        pairs = np.triu_indices(self.n_items, 1)
        difference = (pairwise_correlation(responses.values) - self.expected_products())[pairs]
        defined = difference[~np.isnan(difference)]
        return float(np.sqrt(np.mean(defined**2))) if defined.size else np.nan


def _rmsea(m2: float, df: int, n_respondents: int) -> tuple[float, float, float]:
    """RMSEA and the ends of its 90% interval."""
    ends = (max(m2 - df, 0.0), _noncentrality(m2, df, 0.95), _noncentrality(m2, df, 0.05))
    value, lower, upper = (float(np.sqrt(excess / (df * (n_respondents - 1)))) for excess in ends)
    return value, lower, upper


def _noncentrality(m2: float, df: int, probability: float) -> float:
    """Noncentrality under which a chi-square falls below m2 with this probability; 0 if none is small enough."""
    if chndtr(m2, df, 0.0) <= probability:
        return 0.0
    too_large = 1.0
    while chndtr(m2, df, too_large) > probability:
        too_large *= 2
    return float(brentq(lambda excess: chndtr(m2, df, excess) - probability, 0.0, too_large))


def _against_independence(m2: float, df: int, complete: NDArray[np.float64]) -> tuple[float, float]:
    """TLI and CFI; NaN where the items do not correlate more than independent ones would.

    Independent items have the identity for Xi, fit every single exactly, and leave the correlations as residuals.
    """
    correlations = pairwise_correlation(complete)[np.triu_indices(complete.shape[1], 1)]
    correlations = correlations[~np.isnan(correlations)]
    df_independent = correlations.size
    m2_independent = len(complete) * float(np.sum(correlations**2))
    if m2_independent <= df_independent:
        return np.nan, np.nan
    ratio = m2_independent / df_independent
    tli = (ratio - m2 / df) / (ratio - 1)
    cfi = 1 - (m2 - df) / (m2_independent - df_independent)
    return tli, min(max(cfi, 0.0), 1.0)
