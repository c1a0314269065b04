"""Do systems differ in ability: differences, ranks and ties from joint draws of their abilities (NumPy only)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.bank.scale import Scale
from irtbench.data.given import ResponsesLike
from irtbench.data.input_error import InputError
from irtbench.data.shown import Drawn, counted
from irtbench.models.parameter_table import responses_and_items
from irtbench.models.theta_posterior import ability_posterior
from irtbench.scoring.item_error import demand_covariance, draw_items
from irtbench.scoring.percentiles import Norm, share_below
from irtbench.scoring.scores import own_responses

N_DRAWS = 4_000
N_ITEM_DRAWS = 200


@dataclass(frozen=True, eq=False)
class AbilityComparison(Drawn):
    """Joint draws of the abilities of several systems on one scale.

    Parameters
    ----------
    scale
        Its name.
    respondent_ids
        The systems.
    theta
        Draws from the posterior, shape (n_systems, n_draws). In one column all systems are scored with the same set
        of item parameters: an error of the items that moves both of a pair alike does not blur their difference.
    percentile
        The same draws as percentiles of the reference population, from 0 to 100.
    better
        Probability that the system of the row is abler than that of the column, shape (n_systems, n_systems); from
        the posteriors themselves, not the draws, so that it is right far into the tails.
    level
        Of the intervals.
    """

    scale: str
    respondent_ids: tuple[str, ...]
    theta: NDArray[np.float64]
    percentile: NDArray[np.float64]
    better: NDArray[np.float64]
    level: float

    def pairs(self) -> pd.DataFrame:
        """One row a pair, in the order of the systems.

        Columns ``first, second, theta_difference, theta_lower, theta_upper, theta_p, percentile_difference,
        percentile_lower, percentile_upper, probability_first_better``. The difference is the mean of first minus
        second, the interval its quantiles. ``theta_p`` is twice the smaller posterior probability of either order: a
        two-sided p in the sense that it is below .05 where the 95% interval leaves out 0.
        """
        first, second = np.triu_indices(len(self.respondent_ids), 1)
        names = np.array(self.respondent_ids, dtype=object)
        columns: dict[str, NDArray[Any]] = {"first": names[first], "second": names[second]}
        for name, draws in (("theta", self.theta), ("percentile", self.percentile)):
            middle = draws.mean(axis=1)
            columns[f"{name}_difference"] = middle[first] - middle[second]
            columns[f"{name}_lower"], columns[f"{name}_upper"] = quantiles_of_differences(draws, self._tails())
            if name == "theta":
                columns["theta_p"] = 2 * np.minimum(self.better[first, second], self.better[second, first])
        return pd.DataFrame(columns | {"probability_first_better": self.better[first, second]})

    def ranking(self, p_adjusted: NDArray[np.float64], *, significance: float = 0.05) -> pd.DataFrame:
        """One row a system, the ablest first.

        Columns ``rank, rank_lower, rank_upper, respondent_id, theta, theta_lower, theta_upper, percentile,
        percentile_lower, percentile_upper, probability_best, indistinguishable_from``. Ranks count from 1, the interval
        covers the rank in the share ``level`` of the draws. ``indistinguishable_from`` lists, parted by semicolons, the
        systems whose difference is not significant.

        Parameters
        ----------
        p_adjusted
            One p a pair, in the order of ``pairs``, adjusted for their number.
        significance
            Pairs with p at or above it are indistinguishable.
        """
        n = len(self.respondent_ids)
        first, second = np.triu_indices(n, 1)
        tied = np.zeros((n, n), dtype=np.bool_)
        tied[first, second] = tied[second, first] = ~(p_adjusted < significance)
        place = n - self.theta.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
        lower, upper = np.quantile(place, self._tails(), axis=1, method="inverted_cdf")
        theta, percentile = (np.quantile(draws, self._tails(), axis=1) for draws in (self.theta, self.percentile))
        mean = self.theta.mean(axis=1)
        order = np.argsort(-mean, kind="stable")
        rows = [
            {
                "rank": k + 1,
                "rank_lower": int(lower[i]),
                "rank_upper": int(upper[i]),
                "respondent_id": self.respondent_ids[i],
                "theta": mean[i],
                "theta_lower": theta[0, i],
                "theta_upper": theta[1, i],
                "percentile": self.percentile[i].mean(),
                "percentile_lower": percentile[0, i],
                "percentile_upper": percentile[1, i],
                "probability_best": float((place[i] == 1).mean()),
                "indistinguishable_from": ";".join(self.respondent_ids[j] for j in order if tied[i, j]),
            }
            for k, i in enumerate(order)
        ]
        return pd.DataFrame(rows)

    def _tails(self) -> list[float]:
        return [(1 - self.level) / 2, (1 + self.level) / 2]

    def table(self) -> pd.DataFrame:
        """The same as `pairs`."""
        return self.pairs()

    def in_short(self) -> str:
        """Scale, systems and draws."""
        return f"{counted(len(self.respondent_ids), 'system')} on {self.scale}, {self.theta.shape[1]} draws of each"


def quantiles_of_differences(draws: NDArray[np.float64], shares: Sequence[float]) -> NDArray[np.float64]:
    """Quantiles of the difference of every two rows of draws, first less second, shape (n_shares, n_pairs).

    Linear between the two nearest draws, as NumPy's; sorting a row takes a tenth of the time of its `quantile`.

    Examples
    --------
    >>> quantiles_of_differences(np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]]), [0.5]).tolist()
    [[2.0]]
    """
    place = np.array(shares) * (draws.shape[1] - 1)
    below = np.floor(place).astype(np.intp)
    above = np.minimum(below + 1, draws.shape[1] - 1)
    found = [np.empty((len(place), 0))]
    for k in range(len(draws) - 1):
        differences = draws[k] - draws[k + 1 :]
        differences.sort(axis=1)
        low, high = differences[:, below], differences[:, above]
        found.append((low + (high - low) * (place - below)).T)
    return np.concatenate(found, axis=1)


def compare_abilities(
    scale: Scale,
    responses: ResponsesLike,
    *,
    rng: np.random.Generator,
    norm: Norm = "normal",
    n_draws: int = N_DRAWS,
    n_item_draws: int = N_ITEM_DRAWS,
    level: float = 0.95,
) -> AbilityComparison:
    """Draw the abilities of systems jointly, with the error of the items they share.

    Each of ``n_item_draws`` sets of item parameters, drawn from their sampling distribution, gives every system its
    posterior of theta under the scale's population, from which ``n_draws / n_item_draws`` abilities are drawn, rounded
    up. Given the items the systems are independent. On a linked scale each draw of all systems has a line drawn too.

    Parameters
    ----------
    scale
        The items, with a covariance unless ``n_item_draws`` is 0.
    responses
        Graded responses of two systems or more; items that the scale has not are left aside.
    rng
        The random numbers.
    norm
        What the percentile refers to; ``empirical`` is drawn as ``smoothed``, which has no steps.
    n_draws
        Draws of each ability.
    n_item_draws
        Sets of item parameters; 0: the items count as known.
    level
        Of the intervals.

    Raises
    ------
    InputError
        If there are fewer than two systems, an item answered has no covariance, or a norm sample is wanted and there
        is none.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> scale = irtbench.Scale("all", items, irtbench.ItemTable.plain(items.item_ids))
    >>> answers = [[1, 1, 1, 1, 1, 0], [1, 0, 0, 0, 0, 0]]
    >>> found = irtbench.compare_abilities(scale, answers, rng=rng, n_item_draws=0)
    >>> found
    <AbilityComparison: 2 systems on all, 4000 draws of each>
    >>> found.table()[["first", "second", "theta_difference", "theta_p"]].round(1)
      first second  theta_difference  theta_p
    0    r1     r2               2.0      0.0
    """
    responses, _ = responses_and_items(responses, scale.items, categories=True)
    if responses.n_respondents < 2:
        raise InputError(f"comparison: expected at least two systems but got {responses.n_respondents}")
    own = own_responses(scale, responses)
    if n_item_draws > 0:
        demand_covariance(scale.items.select(own.item_ids), own)
    drawn = [scale.items] if n_item_draws == 0 else draw_items(scale.items, n_item_draws, rng=rng)
    better = np.zeros((own.n_respondents, own.n_respondents))
    theta = []
    for items in drawn:
        posterior = ability_posterior(own, items, quadrature=scale.population)
        below = np.cumsum(posterior.mass, axis=1) - posterior.mass / 2
        better += posterior.mass @ below.T / len(drawn)
        theta.append(posterior.draw(-(-n_draws // len(drawn)), rng=rng))
    draws = np.concatenate(theta, axis=1)
    if scale.line is not None:
        draws = scale.line.draws(draws, rng)
    percentile = 100 * _share_below(draws, scale, norm)
    return AbilityComparison(scale.name, own.respondent_ids, draws, percentile, better, level)


def _share_below(theta: NDArray[np.float64], scale: Scale, norm: Norm) -> NDArray[np.float64]:
    below = share_below("normal" if norm == "normal" else "smoothed", scale.norms, scale.population)
    if norm == "normal":
        return below(theta)
    if scale.norms is None:
        raise InputError(f"comparison: scale {scale.name} has no norm sample; expected the norm normal")
    # the share is smooth, so it is worked out on a grid and interpolated
    grid = np.linspace(theta.min(), theta.max(), 2001)
    return np.interp(theta, grid, below(grid))
