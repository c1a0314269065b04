"""Human percentile: the share of the reference population below an ability, from 0 to 100 (NumPy only)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from irtbench.bank.norms import NORM_DECIMALS, Norms
from irtbench.data.input_error import InputError
from irtbench.data.shown import Shown, counted, spanned
from irtbench.models.quadrature import Quadrature, refine
from irtbench.models.theta_posterior import cell_edges
from irtbench.scoring.ability import Abilities

Norm = Literal["normal", "empirical", "smoothed"]

CELLS = 2**22  # abilities x norm respondents worked on at once
POPULATION_STEP = 0.02  # between nodes of an estimated density: its distribution function is then right to 1e-4


@dataclass(frozen=True, eq=False)
class Percentiles(Shown, columns="percentile, percentile_lower=lower, percentile_upper=upper"):
    """Percentile of each respondent with its interval.

    Its table has one row a respondent, in the order of the abilities, the columns of scores.csv.

    Parameters
    ----------
    percentile
        From 0 to 100, shape (n_respondents,); NaN where theta is.
    lower, upper
        Ends of the interval at the level of theta's, shape (n_respondents,). It includes theta's error, the items' if
        theta's interval does, and the norm sample's if there is one.
    norm
        ``normal``: the share of the population below, standard normal unless its density was estimated with the items;
        ``empirical``: of the norm sample; ``smoothed``: of the population that the norm sample's posteriors add up to.
    """

    percentile: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    norm: Norm

    def in_short(self) -> str:
        """How many respondents, the range of their percentiles, and the norm."""
        return f"{counted(self.percentile.size, 'respondent')}, {spanned(self.percentile)}, norm {self.norm}"


def percentiles(
    abilities: Abilities, norms: Norms | None = None, *, norm: Norm = "normal", population: Quadrature | None = None
) -> Percentiles:
    """Percentile of each ability by the norm of choice; NaN where ``norms`` is None and the norm needs a sample.

    Parameters
    ----------
    abilities
        The abilities and their intervals.
    norms
        The norm sample; None where there is none.
    norm
        The norm of choice.
    population
        Density of ability that was estimated with the items, which the norm ``normal`` then stands on; None for the
        standard normal.

    Raises
    ------
    InputError
        If the norm is none of ``normal, empirical, smoothed``.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> abilities = irtbench.estimate_ability([[1, 1, 1, 0, 1, 0], [0, 0, 1, 0, 0, 0]], items)
    >>> irtbench.percentiles(abilities).table().round(0)
       percentile  percentile_lower  percentile_upper
    0        69.0              27.0              95.0
    1        16.0               1.0              56.0
    """
    if norm not in get_args(Norm):
        raise InputError(f"percentile: norm must be one of {', '.join(get_args(Norm))} but got {norm}")
    if norm == "normal":
        if population is None:
            return normal_percentile(abilities, norms)
        return population_percentile(abilities, population, norms)
    if norms is None:
        unknown = np.full(abilities.theta.shape, np.nan)
        return Percentiles(unknown, unknown, unknown, norm)
    return empirical_percentile(abilities, norms) if norm == "empirical" else smoothed_percentile(abilities, norms)


def normal_percentile(abilities: Abilities, norms: Norms | None = None) -> Percentiles:
    """Percentile in a standard normal population, 100 Phi(theta)      (Lalor, Wu & Yu, 2016, Table 5).

    The norm sample fixed the location and the scale of theta by its mean and standard deviation, and n people know
    these to 1 / sqrt(n) and 1 / sqrt(2 n): theta is uncertain by another (1 + theta^2 / 2) / n. This and theta's
    interval are combined by squares on the scale of theta, each end for itself (Zou & Donner, 2008). Without ``norms``
    the scale counts as known.
    """
    theta, lower, upper = abilities.theta, abilities.lower, abilities.upper
    if norms is not None:
        scale = ndtri((1 + abilities.level) / 2) * np.sqrt((1 + theta**2 / 2) / norms.effective_n)
        lower, upper = theta - np.hypot(theta - lower, scale), theta + np.hypot(upper - theta, scale)
    return Percentiles(100 * ndtr(theta), 100 * ndtr(lower), 100 * ndtr(upper), "normal")


def population_percentile(abilities: Abilities, population: Quadrature, norms: Norms | None = None) -> Percentiles:
    """Percentile in a population whose density was estimated, 100 F(theta) with F its distribution function.

    What is estimated here is the share of the norm sample's population below theta, so that the norm sample's error is
    that of a share among n people, combined with theta's as for ``empirical_percentile``. Without ``norms`` the density
    counts as known.
    """
    if norms is not None:
        return _with_sampling_error(abilities, norms, lambda theta, _: population_share(theta, population), "normal")
    share, lower, upper = (
        population_share(theta, population) for theta in (abilities.theta, abilities.lower, abilities.upper)
    )
    return Percentiles(100 * share, 100 * lower, 100 * upper, "normal")


def population_share(theta: NDArray[np.float64], population: Quadrature) -> NDArray[np.float64]:
    """Distribution function of a density on nodes, from 0 to 1, shape of ``theta``; NaN where theta is.

    The density is refined to ``POPULATION_STEP`` and each node's mass spread evenly over its cell, up to the midpoints
    to its neighbours.
    """
    fine = refine(population, POPULATION_STEP)
    reached = np.concatenate([[0.0], np.cumsum(np.exp(fine.log_weights))])
    share: NDArray[np.float64] = np.interp(theta, cell_edges(fine.nodes), reached / reached[-1])
    return share


def empirical_percentile(abilities: Abilities, norms: Norms) -> Percentiles:
    """Mid-rank in the norm sample: the share below, and half the share at the same ability, times 100.

    The norm sample's thetas are EAPs, shrunk towards the mean. So is the theta compared with them, which is fair when
    it comes from about as many items; the norm sample of a form has EAPs on the form for this. Theta is rounded like
    the norm sample, so that equal answers tie. Ends of the interval: the ranks of the ends of theta's, and the error of
    a share among n people (Wilson's interval), combined by squares, each end for itself (Zou & Donner, 2008).
    """
    return _with_sampling_error(abilities, norms, mid_rank, "empirical")


def smoothed_percentile(abilities: Abilities, norms: Norms) -> Percentiles:
    """Share of the population below, 100 sum_i w_i Phi((theta - theta_i) / s_i) / sum_i w_i.

    theta_i and s_i are the posterior mean and standard deviation of the norm sample's respondents, so the sum is the
    distribution of true abilities that their posteriors add up to: no steps, any shape, and no shrinkage. Interval as
    for ``empirical_percentile``.
    """
    return _with_sampling_error(abilities, norms, smooth_share, "smoothed")


def smooth_share(theta: NDArray[np.float64], norms: Norms) -> NDArray[np.float64]:
    """Share of the smoothed norm sample below each ability, from 0 to 1, shape of ``theta``."""
    weights = np.ones(norms.n) if norms.weights is None else norms.weights
    weights = weights / weights.sum()
    flat = np.ravel(theta)
    parts = np.array_split(flat, max(1, -(-flat.size * norms.n // CELLS)))
    found = [ndtr((part[:, None] - norms.theta) / norms.spread) @ weights for part in parts]
    return np.concatenate(found).reshape(np.shape(theta))


def mid_rank(theta: NDArray[np.float64], norms: Norms) -> NDArray[np.float64]:
    """Share of the norm sample below each ability, with half the share at it, from 0 to 1; NaN where theta is."""
    ascending, cumulative = norms.ranked
    rounded = theta.round(NORM_DECIMALS)
    order = np.argsort(rounded)  # places of neighbours are found one after the other, from the processor's cache
    below, not_above = np.empty((2, len(theta)), dtype=np.intp)
    below[order] = np.searchsorted(ascending, rounded[order], side="left")
    not_above[order] = np.searchsorted(ascending, rounded[order], side="right")
    share = (cumulative[below] + cumulative[not_above]) / (2 * cumulative[-1])
    return np.where(np.isnan(theta), np.nan, share)


def _with_sampling_error(
    abilities: Abilities,
    norms: Norms,
    share_below: Callable[[NDArray[np.float64], Norms], NDArray[np.float64]],
    norm: Norm,
) -> Percentiles:
    """Combine the interval from theta with Wilson's for a share of the norm sample, in percent."""
    share, lower, upper = (share_below(theta, norms) for theta in (abilities.theta, abilities.lower, abilities.upper))
    n, z = norms.effective_n, float(ndtri((1 + abilities.level) / 2))
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    lowest = share - np.hypot(share - lower, share - (middle - half))
    highest = share + np.hypot(upper - share, middle + half - share)
    return Percentiles(100 * share, 100 * lowest.clip(0, 1), 100 * highest.clip(0, 1), norm)
