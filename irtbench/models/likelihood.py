"""The likelihood of response patterns at given abilities (NumPy only)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from irtbench.models.curves import log_icc
from irtbench.models.item_parameters import ItemParameters

#: Number of trials of each respondent at each item, 0 where missing; None for one response each.
Trials = NDArray[np.int64] | None
CURVE_CELLS = 2**19  # abilities x items at which curves are held at once
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
    theta = np.atleast_1d(np.asarray(theta, dtype=np.float64))
    part = max(1, CURVE_CELLS // max(1, items.n_items))
    spans = [slice(start, start + part) for start in range(0, theta.size, part)]
    found = np.empty((len(values), theta.size))
    if items.categories is not None:
        for span in spans:
            found[:, span] = items.categories.log_likelihood(values, theta[span])
        return found
    observed = ~np.isnan(values)
    complete = trials is None and bool(observed.all())
    asked = None if complete else np.asarray(observed if trials is None else trials, dtype=np.float64)
    correct = values if complete else np.where(observed, values, 0.0)
    linear = curves is log_icc and not items.has_asymptotes  # log P - log(1 - P) is a theta + d
    if linear:
        found[:] = np.outer(correct @ items.discrimination, theta) + (correct @ items.intercept)[:, None]
    for span in spans:
        log_p, log_q = curves(theta[span], items)
        if not linear:
            found[:, span] = correct @ (log_p - log_q).T
        found[:, span] += log_q.sum(axis=1) if asked is None else asked @ log_q.T
    return found


def some_rows(trials: Trials, rows: slice | NDArray[np.intp]) -> Trials:
    """The trials of some respondents."""
    return None if trials is None else trials[rows]
