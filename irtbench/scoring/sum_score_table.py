"""From the raw score to ability, standard error and percentile: a table to print, for who scores by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from irtbench.bank.scale import ScaleLike, as_scale
from irtbench.data.input_error import InputError
from irtbench.data.shown import Drawn, spanned
from irtbench.models.quadrature import Quadrature, refine
from irtbench.models.sum_score_distribution import score_distribution
from irtbench.models.theta_posterior import STANDARD_NORMAL, Posterior, step_for_any_pattern
from irtbench.scoring.ability import Abilities
from irtbench.scoring.item_error import with_line_error
from irtbench.scoring.percentiles import Norm, Percentiles, percentiles

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
    if not 0 < level < 1:
        raise InputError(f"score table: level must be between 0 and 1 but got {level:g}")
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
        theta=posterior.mean(),
        standard_error=posterior.standard_deviation(),
        lower=posterior.quantile((1 - level) / 2),
        upper=posterior.quantile((1 + level) / 2),
        level=level,
        n_items=np.full(scores.size, items.n_items),
        n_correct=scores,
        at_bound=np.zeros(scores.size, dtype=np.bool_),
        method="eap_sum",
    )
    abilities = with_line_error(abilities, scale.line)
    return SumScoreTable(abilities, percentiles(abilities, scale.norms, norm=norm, population=population), probability)
