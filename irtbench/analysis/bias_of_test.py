"""What biased items do to the whole test: differential test functioning (NumPy only)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, ndtr, ndtri

from irtbench.data.input_error import demand_share, refuse_any
from irtbench.data.shown import Drawn, counted, crossed
from irtbench.models.curves import icc
from irtbench.models.quadrature import normal_population

if TYPE_CHECKING:
    from irtbench.estimation.multiple_groups import GroupedModel

Over = Literal["group", "even"]

OVERS: tuple[Over, ...] = ("group", "even")
EVEN = np.linspace(-6.0, 6.0, 1_000)  # abilities of the even weights, as R mirt has them
SHOWN = np.linspace(-4.0, 4.0, 161)  # abilities of the curves
DRAWS_AT_ONCE = 2**22  # draws x abilities


@dataclass(frozen=True, eq=False)
class DifferentialTestFunctioning(Drawn):
    """Expected score on the whole test in each group at the same ability, and its difference from the reference's.

    Parameters
    ----------
    groups
        The reference and the other groups.
    n_items
        Items of the test; its highest score.
    free_items
        Those that differ between the groups.
    over
        Over which abilities a difference is averaged: those of the ``group`` that is compared, or all between -6 and 6
        alike (``even``).
    signed, se_signed, signed_lower, signed_upper
        Mean difference in expected score, group less reference: negative where the group scores lower at the same
        ability; its standard error and interval, shapes (n_groups - 1, 2), one column for each of ``over``.
    p
        Of no signed difference, for items that were chosen without a look at these responses.
    unsigned, unsigned_lower, unsigned_upper
        Mean absolute difference, which differences at low and high ability do not cancel.
    theta
        Abilities of the curves, shape (n_theta,).
    expected
        Expected score of each group at them, shape (n_groups, n_theta).
    difference_lower, difference_upper
        Interval of the difference from the reference at each ability, shape (n_groups - 1, n_theta).
    level
        Nominal coverage of the intervals.
    """

    groups: tuple[str, ...]
    n_items: int
    free_items: tuple[str, ...]
    over: tuple[Over, ...]
    signed: NDArray[np.float64]
    se_signed: NDArray[np.float64]
    signed_lower: NDArray[np.float64]
    signed_upper: NDArray[np.float64]
    p: NDArray[np.float64]
    unsigned: NDArray[np.float64]
    unsigned_lower: NDArray[np.float64]
    unsigned_upper: NDArray[np.float64]
    theta: NDArray[np.float64]
    expected: NDArray[np.float64]
    difference_lower: NDArray[np.float64]
    difference_upper: NDArray[np.float64]
    level: float

    @property
    def difference(self) -> NDArray[np.float64]:
        """Difference in expected score from the reference at each ability, shape (n_groups - 1, n_theta)."""
        return self.expected[1:] - self.expected[0]

    def table(self) -> pd.DataFrame:
        """One row a group and kind of average: columns of test_bias.csv; score points, and per cent of the highest."""
        values = {
            name: getattr(self, name)
            for name in ("signed", "se_signed", "signed_lower", "signed_upper", "p",
                         "unsigned", "unsigned_lower", "unsigned_upper")
        }  # fmt: skip
        percent = {f"{name}_percent": 100 * values[name] / self.n_items for name in ("signed", "unsigned")}
        return crossed({"group": self.groups[1:], "over": self.over}, values | percent).assign(n_items=self.n_items)

    def curves_table(self) -> pd.DataFrame:
        """One row a group and ability: columns of test_curves.csv."""
        of_reference = np.full((1, self.theta.size), np.nan)
        names = ("difference", "difference_lower", "difference_upper")
        differences = {name: np.vstack([of_reference, getattr(self, name)]) for name in names}
        return crossed({"group": self.groups, "theta": self.theta}, {"expected_score": self.expected} | differences)

    def in_short(self) -> str:
        """The signed difference of each group over its own abilities."""
        found = ", ".join(
            f"{group} {self.signed[row, 0]:+.2f} ({self.signed_lower[row, 0]:+.2f} to {self.signed_upper[row, 0]:+.2f})"
            for row, group in enumerate(self.groups[1:])
        )
        return f"{found} of {self.n_items} points, {counted(len(self.free_items), 'free item')}"


def differential_test_functioning(
    grouped: GroupedModel, *, rng: np.random.Generator, n_draws: int = 1_000, level: float = 0.95
) -> DifferentialTestFunctioning:
    """How far expected test scores of equally able members of two groups lie apart (Chalmers et al., 2016).

    T_g(theta) = sum_j P_gj(theta) is the expected score of group g. Items common to the groups cancel, so the
    difference is that of the free ones:

        signed   = sum_q w_q (T_g(theta_q) - T_0(theta_q)),
        unsigned = sum_q w_q |T_g(theta_q) - T_0(theta_q)|,

    with 0 the reference. The weights w are even on [-6, 6], as R mirt's `DTF` has them (its sign is the other), or the
    group's own density of ability: what its members lose or gain on average.

    Intervals are from draws of the free items' parameters from their joint sampling covariance, in which the error of
    the groups' means and standard deviations is. The unsigned difference of a draw is larger than that of the
    estimate, which is larger than the true one, since errors count whatever their sign; its interval therefore reaches
    as far below the estimate as the draws reach above, and not below 0.

    Parameters
    ----------
    grouped
        A fit of the groups with the items that differ free, see `fit_groups`.
    rng
        For the draws.
    n_draws
        How many.
    level
        Nominal coverage of the intervals.

    Raises
    ------
    InputError
        If no item is free, ``level`` lies outside (0, 1), or there are fewer than two draws.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> harder = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 1.3, 0.9, 1.5])
    >>> parts = [irtbench.simulate_responses(rng.normal(size=500), part, rng=rng) for part in (items, harder)]
    >>> values = np.vstack([part.values for part in parts])
    >>> grouped = irtbench.fit_groups(values, ["old"] * 500 + ["new"] * 500, reference="old", free_items=["item4"])
    >>> irtbench.differential_test_functioning(grouped, rng=rng)
    <DifferentialTestFunctioning: new -0.24 (-0.29 to -0.19) of 6 points, 1 free item>
    """
    refuse_any((
        (not grouped.free_items,
         "test functioning: no item is free; expected those that differ between the groups"),
        (n_draws < 2, f"test functioning: expected at least two draws but got {n_draws}"),
    ))  # fmt: skip
    demand_share("test functioning: level", level)
    draws = _estimates_and_draws(grouped, n_draws, rng)
    n_others, tails = len(grouped.groups) - 1, [(1 - level) / 2, (1 + level) / 2]
    figures = np.full((8, n_others, len(OVERS)), np.nan)
    lower, upper = np.full((2, n_others, SHOWN.size), np.nan)
    for other, group in enumerate(range(1, n_others + 1)):
        population = normal_population(grouped.mean[group], grouped.sd[group])
        places = (population.nodes, population.weights), (EVEN, np.full(EVEN.size, 1 / EVEN.size))  # as in OVERS
        for column, (theta, weights) in enumerate(places):
            figures[:, other, column] = _summary(_differences(draws, group, theta, weights), level)
        if len(draws) > 1:
            lower[other], upper[other] = np.quantile(_differences(draws, group, SHOWN)[1:], tails, axis=0)
    return DifferentialTestFunctioning(
        groups=grouped.groups,
        n_items=grouped.items[0].n_items,
        free_items=grouped.free_items,
        over=OVERS,
        signed=figures[0],
        se_signed=figures[1],
        signed_lower=figures[2],
        signed_upper=figures[3],
        p=figures[4],
        unsigned=figures[5],
        unsigned_lower=figures[6],
        unsigned_upper=figures[7],
        theta=SHOWN,
        expected=np.stack([icc(SHOWN, items).sum(axis=1) for items in grouped.items]),
        difference_lower=lower,
        difference_upper=upper,
        level=level,
    )


def _estimates_and_draws(grouped: GroupedModel, n_draws: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """The free items' (a, a_1, d_1, ..., d, c), then draws of them if their covariance is known, (n, n_free, width)."""
    first, *others = (items.select(grouped.free_items) for items in grouped.items)
    columns = [first.discrimination]
    for items in others:
        columns += [items.discrimination - first.discrimination, items.intercept - first.intercept]
    mean = np.stack([*columns, first.intercept, first.guessing], axis=1)
    if grouped.free_covariance is None:
        return mean[None]
    whole = grouped.free_covariance.reshape(mean.size, mean.size)  # rows may be 0
    drawn = rng.multivariate_normal(mean.ravel(), (whole + whole.T) / 2, n_draws, check_valid="ignore", method="eigh")
    drawn = drawn.reshape(n_draws, *mean.shape)
    drawn[:, :, -1] = np.clip(drawn[:, :, -1], 0.0, 1.0 - 1e-9)
    return np.concatenate([mean[None], drawn])


def _differences(
    draws: NDArray[np.float64], group: int, theta: NDArray[np.float64], weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """T_g - T_0 of each draw at these abilities, or signed and unsigned by weights; a part of the draws at once."""
    found = []
    for part in np.array_split(draws, max(1, -(-len(draws) * theta.size // DRAWS_AT_ONCE))):
        total = np.zeros((len(part), theta.size))
        for item in part.transpose(1, 0, 2):
            a, d, c = item[:, :1], item[:, -2:-1], item[:, -1:]
            own = expit((a + item[:, 2 * group - 1, None]) * theta + d + item[:, 2 * group, None])
            total += (1 - c) * (own - expit(a * theta + d))
        found.append(total if weights is None else np.stack([total @ weights, np.abs(total) @ weights], axis=1))
    return np.concatenate(found)


def _summary(
    averages: NDArray[np.float64], level: float
) -> tuple[float, float, float, float, float, float, float, float]:
    """The signed difference, its standard error, interval and p; the unsigned one and its interval."""
    (signed, unsigned), drawn = averages[0].tolist(), averages[1:].T
    if not drawn.size:
        return signed, np.nan, np.nan, np.nan, np.nan, unsigned, np.nan, np.nan
    error = float(drawn[0].std(ddof=1))
    reach = error * float(ndtri((1 + level) / 2))
    p = float(2 * ndtr(-abs(signed) / error)) if error > 0 else np.nan
    above = max(float(np.quantile(drawn[1], (1 + level) / 2)) - unsigned, 0.0)
    return signed, error, signed - reach, signed + reach, p, unsigned, max(unsigned - above, 0.0), unsigned + above
