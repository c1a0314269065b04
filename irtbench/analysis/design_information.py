"""Standard errors that a crowd design will give: items, abilities and percentiles, before anybody is paid.

Everything is the expected information of marginal maximum likelihood, averaged over simulated answer patterns of the
design itself: each respondent answers some of the items, drawn at random, and ability is never seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, softmax

from irtbench.data.input_error import InputError, demand_share, refuse_any
from irtbench.data.responses import ResponseMatrix, numbered
from irtbench.data.shown import Shown
from irtbench.estimation.many_scales.fit_many import fit_many
from irtbench.estimation.settings import FitSettings
from irtbench.models.curves import item_curves, log_icc, simulate_responses
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, as_parameters
from irtbench.models.quadrature import Quadrature, normal_grid

N_NODES, BOUND = 161, 5.0  # .06 apart: a third of the posterior's standard deviation with 100 items
PATTERNS_A_PARAMETER = 30  # simulated patterns for each item parameter, so that the information can be inverted
FEWEST_PATTERNS = 6_000
MOST_ITEMS = 500
LEAST_SLOPE = 1e-3
MANY_ANSWERS = 500  # to an item, from which errors are those of the information to a few percent
MOST_SIMULATED = 60  # items of a sample, unless a respondent answers more
MOST_SAMPLES, FEWEST_SAMPLES = 120, 30  # fitted where there are fewer answers
CELLS = 2_400_000  # of all samples, unless that leaves too few
NEIGHBOURS = 19  # items of like standard error, whose stretch is one
FEWEST_FITS = 5  # that converged
BLOCK = 500  # patterns at a time


@dataclass(frozen=True, eq=False)
class ExpectedPrecision(
    Shown,
    columns="item_ids, se_discrimination, se_difficulty",
    short="{item_ids:item}, {n_each} each, {n_respondents:respondent}, se_theta {se_theta:.3f}, "
    "percentile_width {percentile_width:.3f}",
):
    """Standard errors to expect of a design; arrays have shape (n_items,).

    Its table has one row an item.

    Parameters
    ----------
    item_ids
        The items.
    n_respondents
        Respondents whose answers count.
    n_each
        Items that each answers.
    se_discrimination, se_difficulty
        Standard errors of a and b.
    se_theta
        Root mean squared error of a respondent's EAP ability from ``n_each`` items, over the population, the error of
        the items' parameters included.
    se_theta_items
        The part of it that comes from the items' parameters.
    percentile_width
        Mean width of the interval of a percentile (normal norm), as a share, from ``n_each`` items.
    level
        Nominal coverage of that interval.
    """

    item_ids: tuple[str, ...]
    n_respondents: int
    n_each: int
    se_discrimination: NDArray[np.float64]
    se_difficulty: NDArray[np.float64]
    se_theta: float
    se_theta_items: float
    percentile_width: float
    level: float


@dataclass(frozen=True, eq=False)
class DesignInformation(Shown, columns="n_items=items.n_items, n_each, posterior_variance, percentile_width, level"):
    """Information of one respondent of a design, from which any number of them follows.

    Its table has one row.

    Parameters
    ----------
    n_each
        Items that each answers.
    covariance
        Inverse of the expected information of (a, d) of all items from one respondent, divided by their number n it is
        the sampling covariance; order a_1, d_1, a_2, ...; shape (2 n_items, 2 n_items).
    posterior_variance
        Mean posterior variance of ability.
    sensitivity
        Mean over patterns of g g', with g the derivative of the EAP by the items' parameters; shape of the covariance.
    percentile_width
        Mean width of a percentile's interval.
    level
        Nominal coverage of that interval.
    items
        The items.
    """

    n_each: int
    covariance: NDArray[np.float64]
    posterior_variance: float
    sensitivity: NDArray[np.float64]
    percentile_width: float
    level: float
    items: ItemParameters

    def precision(self, n_respondents: float) -> ExpectedPrecision:
        """Standard errors with this many respondents, or as many answers an item as so many would give.

        var(a, d) = covariance / n;  b = -d / a, so that var(b) = (b, 1) var(a, d) (b, 1)' / a^2 (delta method);
        var(theta hat - theta) = posterior variance + trace(sensitivity covariance) / n.
        """
        a, b = self.items.discrimination, -self.items.intercept / self.items.discrimination
        n = self.items.n_items
        blocks = self.covariance.reshape(n, 2, n, 2)[np.arange(n), :, np.arange(n)] / n_respondents
        variance_b = (b**2 * blocks[:, 0, 0] + 2 * b * blocks[:, 0, 1] + blocks[:, 1, 1]) / a**2
        from_items = float((self.sensitivity * self.covariance).sum()) / n_respondents
        return ExpectedPrecision(
            item_ids=self.items.item_ids,
            n_respondents=round(n_respondents),
            n_each=self.n_each,
            se_discrimination=np.sqrt(blocks[:, 0, 0]),
            se_difficulty=np.sqrt(variance_b),
            se_theta=float(np.sqrt(self.posterior_variance + from_items)),
            se_theta_items=float(np.sqrt(from_items)),
            percentile_width=self.percentile_width,
            level=self.level,
        )


def typical_items(
    n_items: int,
    *,
    discrimination: tuple[float, float] = (0.2, 0.3),
    difficulty: tuple[float, float] = (0.0, 1.0),
    guessing: float = 0.0,
) -> ItemParameters:
    """Items such as a study may have: quantiles of a log-normal a and of a normal b, paired so as not to go together.

    Parameters
    ----------
    n_items
        How many.
    discrimination
        Mean and standard deviation of log a.
    difficulty
        Mean and standard deviation of b.
    guessing
        Lower asymptote of all, known beforehand.

    Raises
    ------
    InputError
        If there are fewer than two items, a standard deviation is negative or guessing lies outside [0, 1).

    Examples
    --------
    >>> import irtbench
    >>> irtbench.typical_items(40)
    <ItemParameters: 40 items (2pl), discrimination 0.62 to 2.39, difficulty -2.24 to 2.24>
    """
    if n_items < 2 or discrimination[1] < 0 or difficulty[1] < 0 or not 0 <= guessing < 1:
        raise InputError(
            f"plan: expected at least 2 items, standard deviations of at least 0 and guessing in [0, 1) but got "
            f"{n_items}, {discrimination[1]:g} and {difficulty[1]:g}, {guessing:g}"
        )
    quantile = (np.arange(n_items) + 0.5) / n_items
    # steps of the golden section spread a over all b
    paired = np.argsort(np.argsort((np.arange(n_items) * 0.6180339887498949) % 1))
    a = np.exp(discrimination[0] + discrimination[1] * ndtri(quantile[paired]))
    return ItemParameters.from_difficulty(a, difficulty[0] + difficulty[1] * ndtri(quantile), guessing)


def design_information(
    items: ParametersLike,
    n_each: int,
    *,
    level: float = 0.95,
    rng: np.random.Generator,
    progress: Callable[[str], None] = lambda message: None,
) -> DesignInformation:
    """Expected information of one respondent who answers ``n_each`` of the items, drawn at random.

    With p(q | x) the posterior of ability over the nodes given the pattern x, the score of item j is

        s_j = sum_q p(q | x) (x_j - P_j) / (P_j (1 - P_j)) (dP_j / da_j, dP_j / dd_j),

    and the information of all parameters together is E[s s'] (Bock & Lieberman, 1970): the expectation over abilities,
    items asked and patterns is taken by simulation, at the given parameters. Ability not being seen is in it (the
    missing information: Louis, 1982), and so is that items share the abilities. The derivative of the EAP is
    g = Cov(theta, score of the pattern given theta | x).

    The inverse of a mean over R patterns of rank p is too large by R / (R - p - 1); this is taken out.

    Parameters
    ----------
    items
        The items as they are believed to be (`as_parameters`): of an earlier study, or ``typical_items``. A guessing
        parameter counts as known.
    n_each
        Items that a respondent answers.
    level
        Coverage of a percentile's interval.
    rng
        Draws abilities, items and answers.
    progress
        Called with a line about the step at hand.

    Raises
    ------
    InputError
        If ``n_each`` is below 2 or above the number of items, the level is outside (0, 1), an item does not
        discriminate, or there are too many items for their joint information.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> found = irtbench.design_information(irtbench.typical_items(8), 5, rng=np.random.default_rng(1))
    >>> found.table().round(2)
       n_items  n_each  posterior_variance  percentile_width  level
    0        8       5                0.43              0.68   0.95
    >>> expected = found.precision(500)
    >>> expected
    <ExpectedPrecision: 8 items, 5 each, 500 respondents, se_theta 0.665, percentile_width 0.679>
    >>> expected.table().round(2).head(3)
      item_id  se_discrimination  se_difficulty
    0   item1               0.22           0.40
    1   item2               0.33           0.17
    2   item3               0.24           0.15
    """
    items = as_parameters(items)
    _check(items, n_each, level)
    n_items = items.n_items
    size = 2 * n_items
    n_patterns = max(FEWEST_PATTERNS, int(np.ceil(PATTERNS_A_PARAMETER * size)))
    if n_items > MOST_ITEMS:
        raise InputError(
            f"plan: {n_items} items are too many for their joint information; expected at most {MOST_ITEMS}"
        )
    grid = normal_grid(N_NODES, bound=BOUND)
    information, sensitivity = np.zeros((2, size, size))
    variance, width = 0.0, 0.0
    weight = item_curves(grid.nodes, items).weight  # 1 without guessing
    p = item_curves(grid.nodes, items).p
    for start in range(0, n_patterns, BLOCK):
        progress(f"{n_each} items each: pattern {start} of {n_patterns}")
        asked, right, posterior = _patterns(items, n_each, min(BLOCK, n_patterns - start), grid, rng)
        centred = posterior * (grid.nodes - (posterior @ grid.nodes)[:, None])
        variance += float((centred @ grid.nodes).sum())
        width += float(_percentile_widths(posterior, grid.nodes, level).sum())
        score, moved = np.empty((2, *right.shape, 2))
        for k, by in enumerate((grid.nodes[:, None] * weight, weight)):
            for out, over in ((score, posterior), (moved, centred)):
                out[:, :, k] = np.where(asked, right * (over @ by) - over @ (by * p), 0.0)
        information += score.reshape(-1, size).T @ score.reshape(-1, size)
        sensitivity += moved.reshape(-1, size).T @ moved.reshape(-1, size)
    return DesignInformation(
        n_each=n_each,
        covariance=np.linalg.inv(information / n_patterns) * (n_patterns - size - 1) / n_patterns,
        posterior_variance=variance / n_patterns,
        sensitivity=sensitivity / n_patterns,
        percentile_width=width / n_patterns,
        level=level,
        items=items,
    )


def errors_beyond_information(
    information: DesignInformation, n_respondents: int, *, rng: np.random.Generator
) -> tuple[NDArray[np.float64], float]:
    """How many times the standard errors of a and b are those of the information, and the share of unconverged fits.

    Shape (2, n_items).

    Errors of few answers are larger than the information says: b = -d / a has heavy tails where a is hardly known.
    Samples of the design, of 60 items if there are more, are fitted as `fit` does, without a prior; the root mean
    squared error of an item over its standard error by the information is the median of such ratios of its nineteen
    neighbours by that standard error. With 500 answers an item nothing is fitted. NaN where fewer than five samples
    can be fitted.
    """
    found, items, n_each = information.precision(n_respondents), information.items, information.n_each
    if n_respondents * n_each >= MANY_ANSWERS * items.n_items:
        return np.ones((2, items.n_items)), 0.0
    part, chosen = thinned(items, min(items.n_items, max(n_each, MOST_SIMULATED)))
    n = max(2, round(n_respondents * part.n_items / items.n_items))  # as many answers an item
    n_samples = int(np.clip(CELLS // (n * part.n_items), FEWEST_SAMPLES, MOST_SAMPLES))
    samples = []
    for _ in range(n_samples):
        values = simulate_responses(rng.standard_normal(n), part, rng=rng).values.copy()
        values[np.argsort(rng.random(values.shape), axis=1).argsort(axis=1) >= n_each] = np.nan
        samples.append(ResponseMatrix(values, numbered("r", n), part.item_ids))
    guessing = {item: float(c) for item, c in zip(part.item_ids, part.guessing, strict=True) if c > 0}
    fits = fit_many(samples, FitSettings(by_item=guessing).for_samples()).fits
    good = [fitted.items for fitted in fits if fitted is not None and fitted.converged]
    if len(good) < FEWEST_FITS:
        return np.full((2, items.n_items), np.nan), 1 - len(good) / n_samples
    a = np.array([one.discrimination for one in good]) - part.discrimination
    b = np.array([-one.intercept / one.discrimination for one in good]) + part.intercept / part.discrimination
    stretch = [
        _stretch(np.sqrt((errors**2).mean(axis=0)) / se[chosen], found.se_difficulty[chosen], found.se_difficulty)
        for se, errors in ((found.se_discrimination, a), (found.se_difficulty, b))
    ]
    return np.array(stretch), 1 - len(good) / n_samples


def thinned(items: ItemParameters, kept: int) -> tuple[ItemParameters, NDArray[np.int64]]:
    """So many of the items, at even distances in their order, and their places."""
    chosen = np.unique(np.linspace(0, items.n_items - 1, kept).round().astype(np.int64))
    return items.select([items.item_ids[k] for k in chosen]), chosen


def _stretch(ratio: NDArray[np.float64], by: NDArray[np.float64], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Median of neighbours' ratios in the order of `by`, at least 1, interpolated at other places."""
    order = np.argsort(by)
    ratio = ratio[order]
    firsts = np.clip(np.arange(order.size) - NEIGHBOURS // 2, 0, max(0, order.size - NEIGHBOURS))
    smooth = np.array([np.median(ratio[first : first + NEIGHBOURS]) for first in firsts])
    return np.asarray(np.maximum(np.interp(at, by[order], smooth), 1.0), dtype=np.float64)


def ability_precision(
    items: ParametersLike, n_each: int, *, level: float = 0.95, rng: np.random.Generator
) -> tuple[float, float]:
    """Root mean posterior variance of ability, and mean width of a percentile's interval, from ``n_each`` items.

    As in ``design_information``, the items' parameters counting as known; parameters and errors too.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> error, width = irtbench.ability_precision(irtbench.typical_items(20), 10, rng=np.random.default_rng(1))
    >>> round(error, 2), round(width, 2)
    (0.53, 0.55)
    """
    items = as_parameters(items)
    _check(items, n_each, level)
    grid = normal_grid(N_NODES, bound=BOUND)
    _, _, posterior = _patterns(items, n_each, FEWEST_PATTERNS, grid, rng)
    mean = posterior @ grid.nodes
    variance = posterior @ grid.nodes**2 - mean**2
    return float(np.sqrt(variance.mean())), float(_percentile_widths(posterior, grid.nodes, level).mean())


def _check(items: ItemParameters, n_each: int, level: float) -> None:
    refuse_any((
        (not 2 <= n_each <= items.n_items,
         f"plan: items each must be from 2 to the {items.n_items} items there are but got {n_each}"),
        ((np.abs(items.discrimination) < LEAST_SLOPE).any(),
         "plan: expected items that discriminate; one of them has a discrimination of 0"),
    ))  # fmt: skip
    demand_share("plan: level", level)


def _patterns(
    items: ItemParameters, n_each: int, n: int, grid: Quadrature, rng: np.random.Generator
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]]:
    """Which items each of n respondents is asked and gets right, (n, n_items), and the posterior, (n, n_nodes)."""
    log_p, log_q = log_icc(grid.nodes, items)
    right = rng.random((n, items.n_items)) < item_curves(rng.standard_normal(n), items).p
    asked = np.argsort(rng.random(right.shape), axis=1).argsort(axis=1) < n_each
    log_likelihood = (asked & right).astype(np.float64) @ log_p.T + (asked & ~right).astype(np.float64) @ log_q.T
    return asked, right, softmax(log_likelihood + grid.log_weights, axis=1)


def _percentile_widths(posterior: NDArray[np.float64], nodes: NDArray[np.float64], level: float) -> NDArray[np.float64]:
    """Width of the equal-tailed interval of Phi(theta) for each posterior over the nodes, a histogram."""
    edges = nodes + (nodes[1] - nodes[0]) / 2
    tails = ((1 - level) / 2, (1 + level) / 2)
    ends = np.array([np.interp(tails, row, edges) for row in np.cumsum(posterior, axis=1)])
    return ndtr(ends[:, 1]) - ndtr(ends[:, 0])
