"""Which option do the able choose: a nominal response model of one item, ability integrated out (NumPy and SciPy)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, ndtr

SLOPE_SD = 1.0  # of the normal prior on each option's slope
INTERCEPT_SD = 3.0
STEP = 1e-4  # of the differences that give the information from the gradient


@dataclass(frozen=True, eq=False)
class OptionModel:
    """Slopes and intercepts of an item's options; arrays have shape (n_options,).

    Parameters
    ----------
    slope, intercept
        At the mode of the posterior; only their differences between options mean anything.
    covariance
        Of the slopes, from the observed information, shape (n_options, n_options).
    """

    slope: NDArray[np.float64]
    intercept: NDArray[np.float64]
    covariance: NDArray[np.float64]

    def probabilities(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probability of each option at each ability, shape (n_theta, n_options)."""
        return np.exp(_log_probabilities(theta, self.slope, self.intercept).T)

    def steepest(self, *, n_draws: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Probability of each option to have the largest slope, shape (n_options,).

        The share of draws from the normal approximation; where no draw says so, how probably the option passes the
        mode's steepest one.
        """
        draws = rng.multivariate_normal(self.slope, self.covariance, n_draws, method="eigh")
        share = np.bincount(draws.argmax(axis=1), minlength=self.slope.size) / n_draws
        first, own = int(self.slope.argmax()), self.covariance.diagonal()
        spread = np.sqrt(np.maximum(own + own[first] - 2 * self.covariance[first], np.finfo(np.float64).tiny))
        passing = ndtr((self.slope - self.slope[first]) / spread)
        share = np.where(share > 0, share, np.minimum(passing, 1 / n_draws))
        return np.asarray(share / share.sum(), dtype=np.float64)


def fit_options(
    chosen: NDArray[np.intp], nodes: NDArray[np.float64], mass: NDArray[np.float64], n_options: int
) -> OptionModel:
    """Nominal response model of one item (Bock, 1972), its posterior's mode and the information there.

        P(option o | theta) = exp(a_o theta + d_o) / sum_p exp(a_p theta + d_p)

    maximised over sum_n log sum_q mass_nq P(o_n | theta_q) with normal priors on a_o and d_o. The option with the
    largest slope is the one that the ablest choose.

    Parameters
    ----------
    chosen
        Option of each respondent, 0 to n_options - 1, shape (n_respondents,).
    nodes
        Abilities, shape (n_nodes,).
    mass
        What the respondent's other answers say of theta, rows sum to 1, shape (n_respondents, n_nodes).
    n_options
        Options of the item.
    """
    by_option = [mass[chosen == option] for option in range(n_options)]
    share = np.log([len(rows) + 0.5 for rows in by_option])
    precision = np.repeat([SLOPE_SD**-2, INTERCEPT_SD**-2], n_options)

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        p = np.exp(_log_probabilities(nodes, flat[:n_options], flat[n_options:]))
        expected = np.zeros_like(p)  # respondents of each option at each node
        total = 0.0
        for option, rows in enumerate(by_option):
            likelihood = np.maximum(rows @ p[option], np.finfo(np.float64).tiny)
            total += np.log(likelihood).sum()
            expected[option] = p[option] * ((1 / likelihood) @ rows)
        by_logit = expected - p * expected.sum(axis=0)
        gradient = np.concatenate([by_logit @ nodes, by_logit.sum(axis=1)])
        return 0.5 * float(precision @ flat**2) - total, precision * flat - gradient

    start = np.concatenate([np.zeros(n_options), share - share.mean()])
    mode = minimize(loss, start, jac=True, method="L-BFGS-B", options={"gtol": 1e-6, "maxiter": 500}).x
    steps = STEP * np.eye(mode.size)
    information = np.array([(loss(mode + step)[1] - loss(mode - step)[1]) / (2 * STEP) for step in steps])
    covariance = np.linalg.inv((information + information.T) / 2)
    return OptionModel(mode[:n_options], mode[n_options:], covariance[:n_options, :n_options])


def _log_probabilities(
    theta: NDArray[np.float64], slope: NDArray[np.float64], intercept: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Shape (n_options, n_theta)."""
    return np.asarray(log_softmax(np.outer(slope, theta) + intercept[:, None], axis=0), dtype=np.float64)
