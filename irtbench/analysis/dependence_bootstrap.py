"""A p of local dependence that keeps its level: LD-X2 against responses simulated from the fitted model."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from irtbench.data.given import ResponsesLike
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.diagnostics.local_dependence import (
    LocalDependence,
    expected_tables,
    observed_tables,
    pearson_x2,
)
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, responses_and_items
from irtbench.models.quadrature import Quadrature, normal_grid
from irtbench.models.simulation import simulate_responses

Refit = Callable[[ResponseMatrix], ItemParameters | None]


def with_bootstrap(
    found: LocalDependence,
    responses: ResponsesLike,
    items: ParametersLike,
    refit: Refit,
    *,
    rng: np.random.Generator,
    n_samples: int = 199,
    quadrature: Quadrature | None = None,
    progress: Callable[[str], None] = lambda message: None,
) -> LocalDependence:
    """Add p by parametric bootstrap to the local dependence of every pair.

    Each sample draws abilities from the population and responses from the fitted items, missing where the data are
    missing, refits the items and computes X2*. Of B samples

        p = (1 + number of X2* >= X2 of the pair) / (B + 1)                            (Davison & Hinkley, 1997, ch. 4)

    and, over all pairs, with m the mean of each pair's X2 and all its X2*,

        p_adjusted = (1 + number of samples in which max over pairs of X2* / m >= X2 / m of the pair) / (B + 1),

    which keeps the chance of any false alarm at the level (Westfall & Young, 1993) and, unlike Holm's, can be small
    with few samples. Refitting is what makes p right: X2 at parameters estimated from the same responses is another
    statistic than X2 at the true ones. With several trials of an item the samples have as many, and this is the only p.

    Parameters
    ----------
    found
        The result of `local_dependence` for these responses and items.
    responses
        Graded responses (a matrix, array or data frame: `as_responses`).
    items
        Fitted parameters of the same items in the same order.
    refit
        Estimates the parameters of simulated responses, in the way in which ``items`` were estimated; None where it
        fails. A sample in which everyone is right or wrong on an item is refused by the fit, which counts as failed.
    rng
        Random numbers.
    n_samples
        Number of samples B; the smallest p is 1 / (B + 1).
    quadrature
        The population; None for the standard normal.
    progress
        Called with a line now and then.

    Raises
    ------
    InputError
        If fewer than 19 samples are asked for: then no p lies below .05.
    ArithmeticError
        If the refit fails in more than half of the samples.

    Warns
    -----
    RuntimeWarning
        If it fails in some: they are left out.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> found = irtbench.local_dependence(responses, items)
    >>> refit = lambda sample: irtbench.fit_model(sample, standard_errors=False).items
    >>> found = irtbench.with_bootstrap(found, responses, items, refit, rng=rng, n_samples=19)
    >>> bool(found.p_bootstrap.min() >= 1 / 20)
    True
    """
    responses, items = responses_and_items(responses, items)
    if n_samples < 19:
        raise InputError(f"local dependence: bootstrap needs at least 19 samples but got {n_samples}")
    population = normal_grid() if quadrature is None else quadrature
    simulated: list[NDArray[np.float64]] = []
    for number in range(1, n_samples + 1):
        sample = simulate_like(responses, items, population, rng)
        try:
            refitted = refit(sample)
        except InputError:
            refitted = None
        if refitted is not None:
            simulated.append(pearson_x2(observed_tables(sample), expected_tables(sample, refitted, population)))
        progress(f"local dependence: sample {number} of {n_samples}")
    failed = n_samples - len(simulated)
    if failed > n_samples / 2:
        raise ArithmeticError(f"local dependence: the refit failed in {failed} of {n_samples} bootstrap samples")
    if failed:
        warnings.warn(
            f"local dependence: the refit failed in {failed} of {n_samples} bootstrap samples, which are left out",
            RuntimeWarning,
            stacklevel=2,
        )
    p, p_adjusted = bootstrap_p(found.x2, np.stack(simulated))
    return replace(found, p_bootstrap=p, p_bootstrap_adjusted=p_adjusted)


def simulate_like(
    responses: ResponseMatrix, items: ItemParameters, population: Quadrature, rng: np.random.Generator
) -> ResponseMatrix:
    """Draw responses of as many respondents from the population, missing and tried as often as these are."""
    theta = rng.choice(population.nodes, size=responses.n_respondents, p=population.weights)
    if responses.trials is not None:
        return simulate_responses(
            theta, items, rng=rng, trials=responses.trials, respondent_ids=responses.respondent_ids
        )
    drawn = simulate_responses(theta, items, rng=rng).values
    return ResponseMatrix(np.where(responses.observed, drawn, np.nan), responses.respondent_ids, responses.item_ids)


def bootstrap_p(
    observed: NDArray[np.float64], simulated: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Share of simulated statistics at least as large as those observed, each alone and as the largest of all.

    Parameters
    ----------
    observed
        Shape (n_statistics,); NaN stays NaN.
    simulated
        Shape (n_samples, n_statistics).

    Examples
    --------
    >>> p, adjusted = bootstrap_p(np.array([4.0, 1.0]), np.array([[1.0, 2.0], [3.0, 0.0], [2.0, 1.0]]))
    >>> p.tolist(), adjusted.tolist()
    ([0.25, 0.75], [0.5, 1.0])
    """
    n_samples = len(simulated)
    defined = ~np.isnan(observed)
    p = np.full(observed.shape, np.nan)
    p_adjusted = p.copy()
    p[defined] = (1 + (simulated[:, defined] >= observed[defined]).sum(axis=0)) / (n_samples + 1)
    mean = (simulated[:, defined].sum(axis=0) + observed[defined]) / (n_samples + 1)
    largest = (simulated[:, defined] / mean).max(axis=1, initial=0.0)
    as_large = largest[:, None] >= observed[defined] / mean
    p_adjusted[defined] = (1 + as_large.sum(axis=0)) / (n_samples + 1)
    return p, p_adjusted
