"""Abilities compared: of systems, by joint draws; of each respondent with all items and without some (NumPy only)."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr

from irtbench.bank.scale import Scale
from irtbench.data.given import ResponsesLike
from irtbench.data.input_error import InputError, demand_share, refuse_any
from irtbench.data.responses import name_first, positions_of
from irtbench.data.shown import Drawn, Shown, counted
from irtbench.models.parameter_table import ParametersLike, responses_and_items
from irtbench.models.quadrature import Quadrature
from irtbench.models.theta_posterior import ability_posterior, known_items
from irtbench.scoring.ability import Abilities, Method, estimate_ability
from irtbench.scoring.item_error import demand_covariance, draw_items
from irtbench.scoring.percentiles import Norm, percentiles, share_below
from irtbench.scoring.scores import own_responses

N_DRAWS = 4_000
N_ITEM_DRAWS = 200
MOST_NAMED = 3  # pairs that the prior drew apart
ENOUGH_DRAWS = 200  # of each ability, for its variance
LEAST_LEFT = 0.01  # of the prior's variance, that answers took away


@dataclass(frozen=True, eq=False)
class AbilityComparison(Drawn, short="{respondent_ids:system} on {scale}, {theta.shape[1]} draws of each"):
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
        If there are fewer than two systems, an item answered has no covariance, a norm sample is wanted and there is
        none, ``level`` lies outside (0, 1), or nothing is to be drawn.

    Warns
    -----
    RuntimeWarning
        Naming pairs that differ significantly only because the prior draws the one of which less is known to the
        crowd's mean more: of two systems of ability 3.5 with answers to 20 and to 200 items .2 have a p below .05.

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
    demand_share("comparison: level", level)
    refuse_any((
        (n_draws < 1 or n_item_draws < 0,
         f"comparison: {n_draws} draws, {n_item_draws} of the items; expected 1 or more, and 0 or more"),
        (norm != "normal" and scale.norms is None,
         f"comparison: scale {scale.name} has no norm sample; expected the norm normal"),
    ))  # fmt: skip
    own = own_responses(scale.items.item_ids, responses)
    if n_item_draws > 0:
        demand_covariance(scale.items.select(own.item_ids), own)
    drawn = [scale.items] if n_item_draws == 0 else draw_items(scale.items, n_item_draws, rng=rng)
    places = np.argsort(np.argsort(own.respondent_ids))  # by name: the order of rows does not matter
    better = np.zeros((own.n_respondents, own.n_respondents))
    theta = []
    for items in drawn:
        posterior = ability_posterior(own, items, quadrature=scale.population)
        below = np.cumsum(posterior.mass, axis=1) - posterior.mass / 2
        better += posterior.mass @ below.T / len(drawn)
        theta.append(posterior.draw(-(-n_draws // len(drawn)), rng=rng, places=places))
    draws = np.concatenate(theta, axis=1)
    if scale.line is not None:
        draws = scale.line.draws(draws, rng)
    reached = share_below("normal" if norm == "normal" else "smoothed", scale.norms, scale.population)
    if norm == "normal":
        share = reached(draws)
    else:  # it is smooth, so it is worked out on a grid and interpolated
        grid = np.linspace(draws.min(), draws.max(), 2001)
        share = np.interp(draws, grid, reached(grid))
    if who := drawn_apart(draws, better, scale.population, level):
        pairs = [f"{own.respondent_ids[i]} and {own.respondent_ids[j]}" for i, j in who]
        warnings.warn(
            f"comparison: {name_first(pairs, most=MOST_NAMED)} on {scale.name}: abilities differ significantly only "
            "since less is known of one, which is drawn to the crowd's mean more; see the items that both answered",
            RuntimeWarning, stacklevel=2,
        )  # fmt: skip
    return AbilityComparison(scale.name, own.respondent_ids, draws, 100 * share, better, level)


def drawn_apart(
    draws: NDArray[np.float64], better: NDArray[np.float64], population: Quadrature | None, level: float
) -> list[tuple[int, int]]:
    """Pairs that differ significantly by their posteriors and not once the prior is taken from these.

    Of a normal posterior with mean m and variance v under a prior N(mu, s^2) the likelihood alone has the mean
    mu + (m - mu) / (1 - r) and the variance v / (1 - r), r = v / s^2.
    """
    mu, sd = (0.0, 1.0) if population is None else (population.mean, population.deviation)
    mean, variance = draws.mean(axis=1), draws.var(axis=1)
    left = np.maximum(1 - variance / sd**2, LEAST_LEFT)
    z, alone = (
        np.abs(m[:, None] - m) / np.sqrt(v[:, None] + v)
        for m, v in ((mean, variance), (mu + (mean - mu) / left, variance / left))
    )
    p = 2 * np.minimum(better, better.T)
    enough = draws.shape[1] >= ENOUGH_DRAWS
    apart = enough & (p < 1 - level) & (2 * ndtr(-alone) >= 1 - level) & (alone < z)
    return [(int(i), int(j)) for i, j in np.argwhere(np.triu(apart, 1))]


@dataclass(frozen=True, eq=False)
class EffectOfLeavingOut(
    Shown,
    columns="respondent_ids=all_items.respondent_ids, group=groups, theta=all_items.theta, "
    "se=all_items.standard_error, theta_without=without.theta, se_without=without.standard_error, change, "
    "percentile, percentile_without, percentile_change, n_items=all_items.n_items, "
    "n_items_without=without.n_items",
):
    """Ability and percentile with all items and without some.

    Its table has one row a respondent, the columns of ability_change.csv.

    Parameters
    ----------
    left_out
        The items that are left out.
    groups
        The group of each respondent.
    all_items, without
        Abilities by all items, and without those left out.
    percentile, percentile_without
        Share of a standard normal population below, shape (n_respondents,).
    """

    left_out: tuple[str, ...]
    groups: tuple[str, ...]
    all_items: Abilities
    without: Abilities
    percentile: NDArray[np.float64]
    percentile_without: NDArray[np.float64]

    @property
    def change(self) -> NDArray[np.float64]:
        """Ability without the items less that with all, shape (n_respondents,); NaN where no answer is left."""
        return self.without.theta - self.all_items.theta

    @property
    def percentile_change(self) -> NDArray[np.float64]:
        """The same of percentiles."""
        return self.percentile_without - self.percentile

    def by_group(self) -> pd.DataFrame:
        """One row a group: mean change with its standard error, the largest and whose it is, and of percentiles."""
        table = self.table()
        table = table[table["change"].notna()]
        rows = []
        for group, own in table.groupby("group", sort=False):
            furthest = own.iloc[int(np.argmax(np.abs(own["change"].to_numpy())))]
            rows.append(
                {
                    "group": group,
                    "n_respondents": len(own),
                    "mean_change": own["change"].mean(),
                    "se_mean_change": own["change"].sem(),
                    "largest_change": furthest["change"],
                    "largest_of": furthest["respondent_id"],
                    "mean_percentile_change": own["percentile_change"].mean(),
                    "largest_percentile_change": max(own["percentile_change"], key=abs),
                }
            )
        return pd.DataFrame(rows)

    def in_short(self) -> str:
        """Mean change of each group."""
        found = ", ".join(f"{row['group']} {row['mean_change']:+.2f}" for row in self.by_group().to_dict("records"))
        return f"{counted(len(self.left_out), 'item')} left out, mean change of theta: {found}"


def leave_items_out(
    responses: ResponsesLike,
    items: ParametersLike,
    left_out: Collection[str],
    *,
    groups: Sequence[str] | None = None,
    method: Method = "wle",
) -> EffectOfLeavingOut:
    """Ability and percentile of each respondent with all items and without some, such as biased ones.

    By Warm's estimates by default: a prior would draw abilities to the middle, and more so with fewer items, which
    would look like an effect of the items left out.

    Parameters
    ----------
    responses
        Graded responses.
    items
        Parameters of at least the items of the responses; of biased items those in the group whose scale is to hold.
    left_out
        Items of the responses to leave out, not all of them.
    groups
        The group of each respondent; None for one group of all.
    method
        The estimator, see `estimate_ability`.

    Raises
    ------
    InputError
        If an item to leave out is not among the responses, none or all are to be left out, or the groups are not one a
        respondent.

    Examples
    --------
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([1.0] * 5, [-1.0, -0.5, 0.0, 0.5, 1.0])
    >>> responses = [[1, 1, 0, 0, 0], [1, 0, 1, 1, 0], [1, 1, 1, 0, 1]]
    >>> found = irtbench.leave_items_out(responses, items, ["item3"], groups=["people", "machine", "machine"])
    >>> found.by_group()[["group", "mean_change", "largest_of"]].round(2)
         group  mean_change largest_of
    0   people         0.39         r1
    1  machine        -0.31         r2
    """
    responses, items = responses_and_items(responses, items)
    positions_of(sorted(set(left_out)), responses.item_ids, "items left out: {} is not among the responses")
    kept = [item for item in responses.item_ids if item not in set(left_out)]
    if not kept or len(kept) == responses.n_items:
        raise InputError("items left out: all or none; expected some of the items of the responses")
    names = ("all",) * responses.n_respondents if groups is None else tuple(groups)
    if len(names) != responses.n_respondents:
        raise InputError(f"items left out: {len(names)} groups for {responses.n_respondents} respondents")
    known = known_items(responses, items)
    whole = estimate_ability(responses, known, method=method)
    without = estimate_ability(responses.select_items(kept), known, method=method)
    return EffectOfLeavingOut(
        left_out=tuple(item for item in responses.item_ids if item in set(left_out)), groups=names, all_items=whole,
        without=without, percentile=percentiles(whole).percentile, percentile_without=percentiles(without).percentile,
    )  # fmt: skip
