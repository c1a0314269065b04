"""Human percentile: the share of the reference population below an ability, from 0 to 100."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from irtbench.building.scale import NORM_DECIMALS, Norms
from irtbench.scoring.ability import Abilities


@dataclass(frozen=True, eq=False)
class Percentiles:
    """Percentile of each respondent with its interval.

    Parameters
    ----------
    percentile
        From 0 to 100, shape (n_respondents,).
    lower, upper
        Percentiles at the ends of theta's interval, shape (n_respondents,). A percentile rises with theta, so they
        hold with the level of that interval; the norm sample itself counts as known.
    norm
        ``normal``: the share of a standard normal population below; ``empirical``: of the norm sample.
    """

    percentile: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    norm: Literal["normal", "empirical"]


def normal_percentile(abilities: Abilities) -> Percentiles:
    """Percentile in a standard normal population, 100 Phi(theta)      (Lalor, Wu & Yu, 2016, Table 5)."""
    return Percentiles(
        100 * ndtr(abilities.theta), 100 * ndtr(abilities.lower), 100 * ndtr(abilities.upper), norm="normal"
    )


def empirical_percentile(abilities: Abilities, norms: Norms) -> Percentiles:
    """Mid-rank in the norm sample: the share below, and half the share at the same ability, times 100.

    The norm sample's thetas are EAPs, shrunk towards the mean. So is the theta compared with them, which is fair when
    it comes from about as many items. Theta is rounded like the norm sample, so that equal answers tie.
    """
    return Percentiles(
        _mid_rank(abilities.theta, norms),
        _mid_rank(abilities.lower, norms),
        _mid_rank(abilities.upper, norms),
        norm="empirical",
    )


def _mid_rank(theta: NDArray[np.float64], norms: Norms) -> NDArray[np.float64]:
    order = np.argsort(norms.theta)
    weights = np.ones(norms.n) if norms.weights is None else norms.weights[order]
    cumulative = np.concatenate([[0.0], np.cumsum(weights)])
    rounded = theta.round(NORM_DECIMALS)
    below, not_above = (np.searchsorted(norms.theta[order], rounded, side=side) for side in ("left", "right"))
    return 50 * (cumulative[below] + cumulative[not_above]) / cumulative[-1]
