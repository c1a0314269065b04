"""Human percentile: the share of the reference population below an ability, and whether it is reported (NumPy only).

A percentile says that a respondent is better than a share of people. That takes answers like a person's, and enough of
them on items that distinguish people of this ability.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from irtbench.bank.norms import NORM_DECIMALS, Norms
from irtbench.bank.scale import ScaleLike, as_scale
from irtbench.data.input_error import InputError, demand_choice, demand_share
from irtbench.data.shown import Drawn, Shown, spanned
from irtbench.models.quadrature import Quadrature, refine
from irtbench.models.theta_posterior import (
    STANDARD_NORMAL,
    Posterior,
    cell_edges,
    score_distribution,
    step_for_any_pattern,
)
from irtbench.scoring.ability import Abilities, Array, estimates
from irtbench.scoring.item_error import with_line_error

Norm = Literal["normal", "empirical", "smoothed"]

CELLS = 2**22  # abilities x norm respondents worked on at once
POPULATION_STEP = 0.02  # between nodes of an estimated density: its distribution function is then right to 1e-4

FEW_ITEMS = 5  # with fewer the prior says more than the answers, and lz* has no normal distribution
UNLIKELY_PATTERN = -1.645  # lz* below this has probability 0.05 for people of the reference population
LEAST_RELIABILITY = 0.5  # 1 - se^2 / variance of ability: with less, more is unknown of theta than the answers say


@dataclass(frozen=True, eq=False)
class Percentiles(
    Shown,
    columns="percentile, percentile_lower=lower, percentile_upper=upper",
    short="{percentile:respondent}, {percentile:spanned}, norm {norm}",
):
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

    percentile: Array
    lower: Array
    upper: Array
    norm: Norm


def percentiles(
    abilities: Abilities, norms: Norms | None = None, *, norm: Norm = "normal", population: Quadrature | None = None
) -> Percentiles:
    """Percentile of each ability by the norm of choice; NaN where ``norms`` is None and the norm needs a sample.

    - ``normal``: the share of the population below (Lalor, Wu & Yu, 2016, Table 5);
    - ``empirical``: mid-rank in the norm sample, the share below and half the share at the same ability. The sample's
      thetas are EAPs, shrunk towards the mean. So is the theta compared with them, which is fair when it comes from
      about as many items; the norm sample of a form has EAPs on the form for this. Theta is rounded like the sample,
      so that equal answers tie;
    - ``smoothed``: the share of the population below, 100 sum_i w_i Phi((theta - theta_i) / s_i) / sum_i w_i, with
      theta_i and s_i the posterior mean and standard deviation of the sample's respondents in its own population
      (`Norms.posteriors`): the distribution of true abilities that their posteriors add up to, of any shape, without
      steps and shrinkage.

    Ends of the interval: the shares at the ends of theta's, and the error of a share among n people (Wilson's
    interval), combined by squares, each end for itself (Zou & Donner, 2008).

    Parameters
    ----------
    abilities
        The abilities and their intervals.
    norms
        The norm sample; None where there is none.
    norm
        The norm of choice.
    population
        Density of ability that was fitted with the items: the norm ``normal`` is then its, and it was the prior of the
        norm sample's abilities; None for the standard normal.

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
    demand_choice("percentile: norm", norm, Norm)
    if norm == "normal" and population is None:
        return normal_percentile(abilities, norms)
    if norm != "normal" and norms is None:
        unknown = np.full(abilities.theta.shape, np.nan)
        return Percentiles(unknown, unknown, unknown, norm)
    share, lower, upper = map(share_below(norm, norms, population), (abilities.theta, abilities.lower, abilities.upper))
    if norms is not None:  # combined by squares, each end for itself
        least, most = _wilson(share, norms.effective_n, abilities.level)
        lower = (share - np.hypot(share - lower, share - least)).clip(0, 1)
        upper = (share + np.hypot(upper - share, most - share)).clip(0, 1)
    return Percentiles(100 * share, 100 * lower, 100 * upper, norm)


def _wilson(share: NDArray[np.float64], n: float, level: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Wilson's interval of a share among n people."""
    z = float(ndtri((1 + level) / 2))
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return middle - half, middle + half


def share_below(norm: Norm, norms: Norms | None, population: Quadrature | None) -> Callable[[Array], Array]:
    """The share of people below an ability, from 0 to 1; without a norm sample that of the norm ``normal`` alone."""
    if norm == "normal" or norms is None:
        return ndtr if population is None else partial(population_share, population=population)
    if norm == "empirical":
        return partial(mid_rank, norms=norms)
    return partial(smooth_share, norms=norms, population=population)


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


def population_share(theta: Array, population: Quadrature) -> Array:
    """Distribution function of a density on nodes, from 0 to 1, shape of ``theta``; NaN where theta is.

    The density is refined to ``POPULATION_STEP`` and each node's mass spread evenly over its cell, up to the midpoints
    to its neighbours.
    """
    fine = refine(population, POPULATION_STEP)
    reached = np.concatenate([[0.0], np.cumsum(np.exp(fine.log_weights))])
    return np.asarray(np.interp(theta, cell_edges(fine.nodes), reached / reached[-1]))


_posteriors = lru_cache(16)(Norms.posteriors)  # for all blocks of respondents


def smooth_share(theta: Array, norms: Norms, population: Quadrature | None = None) -> Array:
    """Share of the smoothed norm sample below each ability, from 0 to 1, shape of ``theta``."""
    prior = (0.0, 1.0) if population is None else (population.mean, population.deviation)
    flat, (mean, deviation) = np.ravel(theta), _posteriors(norms, *prior)
    parts = np.array_split(flat, max(1, -(-flat.size * norms.n // CELLS)))
    found = [np.average(ndtr((part[:, None] - mean) / deviation), 1, norms.weights) for part in parts]
    return np.concatenate(found).reshape(np.shape(theta))


def mid_rank(theta: Array, norms: Norms) -> Array:
    """Share of the norm sample below each ability, with half the share at it, from 0 to 1; NaN where theta is."""
    ascending, cumulative = norms.ranked
    rounded = theta.round(NORM_DECIMALS)
    order = np.argsort(rounded)  # places of neighbours are found one after the other, from the processor's cache
    below, not_above = np.empty((2, len(theta)), dtype=np.intp)
    below[order] = np.searchsorted(ascending, rounded[order], side="left")
    not_above[order] = np.searchsorted(ascending, rounded[order], side="right")
    share = (cumulative[below] + cumulative[not_above]) / (2 * cumulative[-1])
    return np.where(np.isnan(theta), np.nan, share)


def reliability(standard_error: Array, deviation: float = 1.0) -> Array:
    """Share of the population's variance of ability that answers take away, 1 - se^2 / sd^2; at least 0."""
    return np.asarray(np.maximum(1 - (standard_error / deviation) ** 2, 0.0))


OF_PATTERN, OF_PERCENTILE = ("all_correct", "all_wrong"), ("little_information",)  # words of one column alone


def flags_of(abilities: Abilities, lz_star: Array, deviation: float = 1.0) -> dict[str, NDArray[np.object_]]:
    """Columns `flags` and `percentile_flags` of scores.csv, see `score_responses`: words parted by semicolons.

    Why no percentile is given, and empty where it is:

    - ``no_items``, ``few_items``: none, or fewer than ``FEW_ITEMS`` items answered;
    - ``little_information``: reliability of theta below ``LEAST_RELIABILITY``: too few of the items, or items too
      unlike those that tell people of this ability apart (all too easy, all too hard);
    - ``at_bound``: theta is at the end of its range;
    - ``unlikely_pattern``: lz* below ``UNLIKELY_PATTERN``, which 5% of people are.
    """
    answered, enough = abilities.n_items > 0, abilities.n_items >= FEW_ITEMS
    words = {
        "no_items": ~answered,
        "few_items": answered & ~enough,
        "all_correct": answered & (abilities.n_correct == abilities.n_responses),
        "all_wrong": answered & (abilities.n_correct == 0),
        "little_information": enough & ~(reliability(abilities.standard_error, deviation) >= LEAST_RELIABILITY),
        "at_bound": abilities.at_bound,
        "unlikely_pattern": lz_star < UNLIKELY_PATTERN,
    }
    found = {}
    for column, others in (("flags", OF_PERCENTILE), ("percentile_flags", OF_PATTERN)):
        own = {word: applies for word, applies in words.items() if word not in others}
        code = sum(applies.astype(np.int64) << k for k, applies in enumerate(own.values()))
        texts = [";".join(word for k, word in enumerate(own) if number >> k & 1) for number in range(2 ** len(own))]
        found[column] = np.array(texts, dtype=object)[code]
    return found


def as_given(scores: pd.DataFrame) -> pd.DataFrame:
    """Rows of scores.csv as tables for people show them: without the percentiles that are not to be given."""
    shown = scores.copy()
    places = ["percentile", "percentile_lower", "percentile_upper", "percentile_empirical"]
    shown.loc[shown["percentile_flags"] != "", [name for name in places if name in shown]] = np.nan
    return shown


def why_not_compared(row: Mapping[Any, Any]) -> str:
    """Why no percentile of a row of scores.csv is given; nothing where it is."""
    reasons = {
        "no_items": "no item was answered",
        "few_items": f"{row['n_items']} items answered are fewer than {FEW_ITEMS}",
        "little_information": f"the {row['n_items']} items answered say too little about this ability",
        "at_bound": "ability is at the end of its range",
        "unlikely_pattern": "the answers are unlike those of people of this ability "
        f"(lz* {row['person_fit']:.2f}, below {UNLIKELY_PATTERN})",
    }
    return "; ".join(reasons[flag] for flag in row["percentile_flags"].split(";") if flag)


MOST_ITEMS = 1_000  # of more, the probability of no right response at all is 0 in floating point numbers


@dataclass(frozen=True, eq=False)
class SumScoreTable(
    Drawn,
    columns="score, theta=abilities.theta, se=abilities.standard_error, theta_lower=abilities.lower, "
    "theta_upper=abilities.upper, percentile=percentiles.percentile, percentile_lower=percentiles.lower, "
    "percentile_upper=percentiles.upper, probability",
):
    """Ability of who got so many items right, arrays of shape (n_scores,) for the scores from 0 on.

    Its table has one row a score, the columns of score_table.csv.

    Parameters
    ----------
    abilities
        EAP of each score with its standard error and interval, in order of the scores.
    percentiles
        Percentile of each with its interval.
    probability
        Share of the population that is expected to have the score.
    """

    abilities: Abilities
    percentiles: Percentiles
    probability: NDArray[np.float64]

    @property
    def score(self) -> NDArray[np.int64]:
        """Number of right responses."""
        return self.abilities.n_correct

    def in_short(self) -> str:
        """The scores, the range of theta, and the norm."""
        return f"scores 0 to {self.score[-1]}, theta {spanned(self.abilities.theta)}, norm {self.percentiles.norm}"


def sum_score_table(
    scale: ScaleLike, *, population: Quadrature | None = None, norm: Norm = "normal", level: float = 0.95
) -> SumScoreTable:
    """Ability, standard error and percentile of every raw score on all items of a scale.

    theta is the mean and the standard error the standard deviation of the posterior given the score alone,

        p(theta_q | k) proportional to w_q S_k(theta_q)               (Thissen, Pommerich, Billeaud & Williams, 1995)

    with S_k(theta) the probability of the score k by Lord and Wingersky's recursion. It holds for who answered every
    item; the pattern of responses tells a little more (`estimate_ability`). On a linked scale the link's error is in
    standard errors and intervals (`ScaleLine`). A score whose probability is too small for a number has no ability.

    Parameters
    ----------
    scale
        A scale of a bank, or item parameters (`as_parameters`).
    population
        Density of ability; None for the scale's own, the standard normal where it has none.
    norm
        The norm of the percentile, see `percentiles`; ``empirical`` and ``smoothed`` need the scale's norm sample,
        and are NaN without one.
    level
        Nominal coverage of the intervals, between 0 and 1.

    Raises
    ------
    InputError
        If the items are more than a thousand, or the level or the norm is none.

    Examples
    --------
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([1.0, 1.5, 1.0], [-1.0, 0.0, 1.0])
    >>> found = irtbench.sum_score_table(items)
    >>> found
    <SumScoreTable: scores 0 to 3, theta -0.99 to 0.99, norm normal>
    >>> found.table()[["score", "theta", "se", "percentile", "probability"]].round(2)
       score  theta    se  percentile  probability
    0      0  -0.99  0.78       15.99         0.17
    1      1  -0.35  0.76       36.17         0.33
    2      2   0.35  0.76       63.83         0.33
    3      3   0.99  0.78       84.01         0.17
    """
    scale = as_scale(scale, categories=True)
    items = scale.items
    if items.n_items > MOST_ITEMS:
        raise InputError(
            f"score table: {items.n_items} items; expected at most {MOST_ITEMS} (irtbench score gives ability by the "
            "responses themselves)"
        )
    demand_share("score table: level", level)
    population = population or scale.population
    prior = population or STANDARD_NORMAL
    grid = refine(prior, step_for_any_pattern(items, prior))
    joint = score_distribution(grid.nodes, items).T * grid.weights
    probability = joint.sum(axis=1)
    happens = probability[:, None] > 0
    posterior = Posterior(
        grid.nodes, np.divide(joint, probability[:, None], out=np.full_like(joint, np.nan), where=happens)
    )
    scores = np.arange(len(probability))
    abilities = Abilities(
        respondent_ids=tuple(str(score) for score in scores),
        level=level,
        n_items=np.full(scores.size, items.n_items),
        n_correct=scores,
        method="eap_sum",
        **estimates(posterior.summary(level)) | {"at_bound": np.zeros(scores.size, dtype=np.bool_)},
    )
    abilities = with_line_error(abilities, scale.line)
    return SumScoreTable(abilities, percentiles(abilities, scale.norms, norm=norm, population=population), probability)
