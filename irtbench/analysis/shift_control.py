"""Negative control of item shifts: people in the place of the systems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.analysis.item_shifts import ItemShifts, item_shifts
from irtbench.data.given import ResponsesLike
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.data.shown import Shown
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, as_parameters, responses_and_items
from irtbench.models.theta_posterior import ability_posterior, known_items

NEAREST = 0.1  # share of the people from whom a system's double is drawn, the nearest in ability
FEWEST_TIMES = 3  # people must be so many times as many as the systems


@dataclass(frozen=True, eq=False)
class ShiftControl(Shown):
    """What `item_shifts` finds of people drawn in the place of the systems.

    Parameters
    ----------
    tau
        Standard deviation of the shifts of each group of people, shape (n_groups,).
    p_tau
        Its test in each.
    n_flagged
        Items with adjusted p below alpha in each.
    p
        Share of groups, the systems among them, whose tau is no smaller than that of the systems.
    """

    tau: NDArray[np.float64]
    p_tau: NDArray[np.float64]
    n_flagged: NDArray[np.int64]
    p: float

    def table(self) -> pd.DataFrame:
        """One row a group of people: columns of control.csv."""
        return pd.DataFrame({"tau": self.tau, "p_tau": self.p_tau, "n_flagged": self.n_flagged})

    def in_short(self) -> str:
        """The groups' mean tau, and how many have any item flagged."""
        return (
            f"{self.tau.size} groups of people, mean tau {self.tau.mean():.2f}, "
            f"{int((self.n_flagged > 0).sum())} with an item flagged, p {self.p:.3f}"
        )


def shift_control(
    people: ResponsesLike,
    items: ParametersLike,
    found: ItemShifts,
    *,
    n_groups: int = 20,
    alpha: float = 0.05,
    rng: np.random.Generator,
    progress: Callable[[str], None] | None = None,
) -> ShiftControl:
    """Put people in the place of the systems, group after group, and look for shifts of items.

    For each system one of the tenth of the people nearest to it in ability is drawn, nobody twice in a group, so
    that what the items' model misses at these abilities is in the control too. People have no shift against themselves:
    tau should be near 0 and hardly an item flagged. Where they are not, neither is the systems' result to be trusted.

    Parameters
    ----------
    people
        Responses of the people to the same items.
    items
        Their known parameters.
    found
        The systems' result, whose abilities, families and items are taken.
    n_groups
        How many groups are drawn.
    alpha
        Level of the adjusted p.
    rng
        For the draws.
    progress
        Called with a line now and then.

    Raises
    ------
    InputError
        If there are fewer than three times as many people as systems, or no groups are wanted.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty(np.full(20, 1.3), np.linspace(-2, 2, 20))
    >>> harder = irtbench.ItemParameters.from_difficulty(np.full(20, 1.3), items.difficulty + rng.normal(0, 1, 20))
    >>> systems = irtbench.simulate_responses(rng.normal(0.5, 0.5, 15), harder, rng=rng)
    >>> people = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> found = irtbench.item_shifts(systems, items, rng=rng)
    >>> control = irtbench.shift_control(people, items, found, n_groups=3, rng=rng)
    >>> bool(control.tau.max() < found.tau), control.p
    (True, 0.25)
    """
    people, given = responses_and_items(people, items)
    if n_groups < 1:
        raise InputError(f"control: {n_groups} groups; expected at least one")
    n_systems = len(found.system_ids)
    if people.n_respondents < FEWEST_TIMES * n_systems:
        raise InputError(
            f"control: {people.n_respondents} people for {n_systems} systems; "
            f"expected at least {FEWEST_TIMES} times as many"
        )
    people = people.select_items([item for item in people.item_ids if item in set(found.item_ids)])
    known = known_items(people, as_parameters(given))
    ability = ability_posterior(people, known).mean()
    tau, p_tau, flagged = [], [], []
    for group in range(n_groups):
        doubles = people.select_respondents(drawn_doubles(found.theta, ability, rng))
        one = _of_people(doubles, known, found.families, rng)
        tau.append(one.tau)
        p_tau.append(one.p_tau)
        flagged.append(int((one.p_adjusted < alpha).sum()))
        if progress is not None:
            progress(f"control {group + 1} of {n_groups}: tau {one.tau:.2f}, {flagged[-1]} items flagged")
    taus = np.array(tau)
    p = (1 + int((taus >= found.tau).sum())) / (1 + n_groups)
    return ShiftControl(taus, np.array(p_tau), np.array(flagged, dtype=np.int64), p)


def drawn_doubles(
    theta: NDArray[np.float64], ability: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Who of the people takes part: one for each system, at random among the nearest that are not taken."""
    taken = np.zeros(ability.size, dtype=np.bool_)
    n_near = max(2, round(NEAREST * ability.size))
    for system in rng.permutation(theta.size):
        distance = np.where(taken, np.inf, np.abs(ability - theta[system]))
        near = np.argsort(distance, kind="stable")[: min(n_near, int((~taken).sum()))]
        taken[rng.choice(near)] = True
    return taken


def _of_people(
    doubles: ResponseMatrix, known: ItemParameters, families: Sequence[str], rng: np.random.Generator
) -> ItemShifts:
    return item_shifts(doubles, known, families=families or None, rng=rng)
