"""Which option do the able choose: a nominal response model of one item, ability integrated out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import ndtr, softmax

SLOPE_SD, INTERCEPT_SD = 1.0, 3.0  # of the normal priors on each option's slope and intercept
STEP = 1e-4  # of the differences that give the information from the gradient
TINY = np.finfo(np.float64).tiny


def fit_options(
    chosen: NDArray[np.intp], nodes: NDArray[np.float64], mass: NDArray[np.float64], n_options: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Slopes of the nominal response model of one item (Bock, 1972): their posterior's mode, and its covariance there.

        P(option o | theta) = exp(a_o theta + d_o) / sum_p exp(a_p theta + d_p)

    maximised over sum_n log sum_q mass_nq P(o_n | theta_q) with normal priors on a_o and d_o. The option with the
    largest slope is the one that the ablest choose; only differences of slopes mean anything.

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
    of_option, respondents = np.eye(n_options)[chosen].T, np.arange(len(chosen))
    share = np.log(of_option.sum(axis=1) + 0.5)
    precision = np.repeat([SLOPE_SD**-2, INTERCEPT_SD**-2], n_options)

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        slope, intercept = flat.reshape(2, n_options, 1)
        p = softmax(slope * nodes + intercept, axis=0)
        likelihood = np.maximum((mass @ p.T)[respondents, chosen], TINY)
        expected = p * ((of_option / likelihood) @ mass)  # respondents of each option at each node
        by_logit = expected - p * expected.sum(axis=0)
        gradient = precision * flat - np.concatenate([by_logit @ nodes, by_logit.sum(axis=1)])
        return 0.5 * float(precision @ flat**2) - float(np.log(likelihood).sum()), gradient

    start = np.concatenate([np.zeros(n_options), share - share.mean()])
    mode = minimize(loss, start, jac=True, method="L-BFGS-B", options={"gtol": 1e-6, "maxiter": 500}).x
    steps = STEP * np.eye(mode.size)
    information = np.array([(loss(mode + step)[1] - loss(mode - step)[1]) / (2 * STEP) for step in steps])
    covariance = np.linalg.inv((information + information.T) / 2)
    return mode[:n_options], covariance[:n_options, :n_options]


def steepest(
    slope: NDArray[np.float64], covariance: NDArray[np.float64], *, n_draws: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Probability of each option to have the largest slope, shape (n_options,).

    The share of draws from the normal approximation; where no draw says so, how probably the option passes the mode's
    steepest one.
    """
    draws = rng.multivariate_normal(slope, covariance, n_draws, method="eigh")
    share = np.bincount(draws.argmax(axis=1), minlength=slope.size) / n_draws
    first, own = int(slope.argmax()), covariance.diagonal()
    passing = ndtr((slope - slope[first]) / np.sqrt(np.maximum(own + own[first] - 2 * covariance[first], TINY)))
    share = np.where(share > 0, share, np.minimum(passing, 1 / n_draws))
    return np.asarray(share / share.sum(), dtype=np.float64)
