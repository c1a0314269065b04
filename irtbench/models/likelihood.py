"""The likelihood of response patterns at given abilities (NumPy only)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from irtbench.models.curves import log_icc
from irtbench.models.item_parameters import ItemParameters

#: Number of trials of each respondent at each item, 0 where missing; None for one response each.
Trials = NDArray[np.int64] | None
Curves = Callable[[ArrayLike, ItemParameters], tuple[NDArray[np.float64], NDArray[np.float64]]]


def log_likelihood(
    values: NDArray[np.float64],
    theta: ArrayLike,
    items: ItemParameters,
    *,
    trials: Trials = None,
    curves: Curves = log_icc,
) -> NDArray[np.float64]:
    """Log-likelihood of each response pattern at each ability, shape (n_respondents, n_theta).

    sum over observed items j of x_j log P_j + (n_j - x_j) log(1 - P_j), n_j = 1 without trials; missing factors are
    left out, so a row without any response is 0 everywhere. With trials it is that of the responses one by one, without
    the binomial coefficients. Of items in categories 0, ..., m, whose responses are k of m, it is the sum of log P(k).

    Parameters
    ----------
    values
        Responses 1, 0 or NaN, or numbers right, shape (n_respondents, n_items), columns in the order of ``items``.
    theta
        Abilities, shape (n_theta,).
    items
        The items' parameters.
    trials
        Number of trials, 0 where missing, of the same shape; None for one response each.
    curves
        What gives log P and log(1 - P), each of shape (n_theta, n_items).

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([1.0, 1.0], [0.0, 0.0])
    >>> irtbench.log_likelihood(np.array([[1.0, 0.0], [1.0, np.nan]]), [0.0, 1.0], items).round(3)
    array([[-1.386, -1.627],
           [-0.693, -0.313]])
    """
    if items.categories is not None:
        return items.categories.log_likelihood(values, theta)
    log_p, log_q = curves(theta, items)
    observed = ~np.isnan(values)
    complete = trials is None and observed.all()
    all_wrong = log_q.sum(axis=1) if complete else (observed if trials is None else trials) @ log_q.T
    correct = values if complete else np.where(observed, values, 0.0)
    if curves is log_icc and not items.has_asymptotes:  # log P - log(1 - P) is a theta + d
        return (
            np.outer(correct @ items.discrimination, np.asarray(theta))
            + (correct @ items.intercept)[:, None]
            + all_wrong
        )
    return correct @ (log_p - log_q).T + all_wrong


def some_rows(trials: Trials, rows: slice | NDArray[np.intp]) -> Trials:
    """The trials of some respondents."""
    return None if trials is None else trials[rows]
