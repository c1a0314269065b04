"""Which items leave in a round, and why: one function a rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from irtbench.building.prune_rules import PruneRules
from irtbench.data.responses import ResponseMatrix, Responses
from irtbench.diagnostics.item_fit import ItemFit
from irtbench.diagnostics.local_dependence import LocalDependence
from irtbench.estimation.fitted import FittedModel
from irtbench.models.item_models.partial_credit import PartialCredit
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.quadrature import normal_population

Answered = TypeVar("Answered", bound=Responses)
NORMAL_OGIVE = 1.702  # logistic slopes divided by this are those of the normal ogive

Reason = Literal[
    "excluded", "no_response", "all_correct", "all_wrong", "negative_slope", "low_communality", "item_fit",
    "local_dependence", "runaway_slope",
]  # fmt: skip

MOST_NAMED = 40  # items of a round that are named one by one


@dataclass(frozen=True)
class Removal:
    """One item that left, in the round in which it left.

    `statistic` names what `value` is; `p` and `p_adjusted` are NaN where the rule is no test. `note` says the rest: a
    user's reason, or the partner of a dependent pair.
    """

    round: int
    item_id: str
    reason: Reason
    statistic: str = ""
    value: float = float("nan")
    p: float = float("nan")
    p_adjusted: float = float("nan")
    note: str = ""


def describe_removals(removals: list[Removal]) -> str:
    """Say in one line what a round removed."""
    if not removals:
        return "nothing to remove"
    if len(removals) > MOST_NAMED:
        reasons = Counter(removal.reason for removal in removals)
        return f"removed {len(removals)} items: " + ", ".join(f"{n} {reason}" for reason, n in reasons.items())
    return "removed " + ", ".join(f"{removal.item_id} ({removal.reason})" for removal in removals)


def constant_items(responses: Responses) -> list[Removal]:
    """Items that no fit can use: nobody asked, nobody right, everybody right."""
    reasons: dict[float, Reason] = {0.0: "all_wrong", 1.0: "all_correct"}
    return [
        Removal(0, item, "no_response" if np.isnan(p) else reasons[p], "proportion_correct", float(p))
        for item, p in zip(responses.item_ids, responses.proportion_correct(), strict=True)
        if np.isnan(p) or p in reasons
    ]


def without_constant(responses: Answered) -> Answered:
    """The responses without the items that no fit can use, and without the respondents who then have none."""
    constant = {removal.item_id for removal in constant_items(responses)}
    return responses.select_items([item for item in responses.item_ids if item not in constant]).answered()


def runaway_slopes(number: int, fitted: FittedModel, data: ResponseMatrix) -> list[Removal]:
    """Items whose slope grew without end in a fit, with which no other item can be fitted without a prior."""
    n, correct = data.n_by_item, data.n_correct_by_item
    return [
        Removal(
            number, data.item_ids[j], "runaway_slope", "discrimination", float(fitted.items.discrimination[j]),
            note=f"{correct[j]} of {n[j]} right: the likelihood has no maximum; a prior (model.prior) would keep it",
        )
        for j in fitted.status.steep
    ]  # fmt: skip


@dataclass
class Removable:
    """Which items may go: not the protected, none below the floor, none below the least of its content group."""

    number: int
    items: Sequence[str]
    rules: PruneRules
    groups: Mapping[str, str]

    def __post_init__(self) -> None:
        self.n_left = len(self.items)
        self.left_in = Counter(self.groups.get(item) for item in self.items)

    def __contains__(self, item: str) -> bool:
        group = self.groups.get(item)
        return (
            item not in self.rules.protect
            and self.n_left > self.rules.min_items
            and (group is None or self.left_in[group] > self.rules.min_per_group)
        )

    def take(
        self, item: str, reason: Reason, statistic: str, value: float, p: float = np.nan, p_adjusted: float = np.nan,
        note: str = "",
    ) -> Removal:  # fmt: skip
        """The item's removal; from now on it counts as gone."""
        self.n_left -= 1
        self.left_in[self.groups.get(item)] -= 1
        return Removal(self.number, item, reason, statistic, float(value), float(p), float(p_adjusted), note)


def flat_or_reversed(
    items: ItemParameters, removable: Removable, *, sd: float = 1.0, beside_guessing: ItemParameters | None = None
) -> list[Removal]:
    """Items with a negative slope or a communality under the limit, see `communalities`, the worst first.

    ``sd`` is the population's standard deviation; with ``beside_guessing``, the items of a 3PL, the communality is
    theirs.
    """
    removals, rules = [], removable.rules
    slopes, by = dict(zip(items.item_ids, items.discrimination.tolist(), strict=True)), beside_guessing or items
    shares = dict(zip(by.item_ids, communalities(by, sd).tolist(), strict=True))
    for item, a in sorted(slopes.items(), key=lambda entry: entry[1]):
        h2 = shares[item]
        if item not in removable:
            continue
        if rules.drop_negative_slopes and a < 0:
            removals.append(removable.take(item, "negative_slope", "discrimination", a))
        elif rules.min_communality is not None and h2 < rules.min_communality:
            removals.append(removable.take(item, "low_communality", "communality", h2))
    return removals


def communalities(items: ItemParameters, sd: float) -> NDArray[np.float64]:
    """Of each item h2 = a^2 / (a^2 + 1.702^2), the slope in standard deviations of ability.

    The slope of partial credit is that from one category to the next, which says less the more categories there are: h2
    is then the share of the score's variance that ability explains, var E(x | theta) / var(x).
    """
    h2 = (sd * items.discrimination) ** 2 / ((sd * items.discrimination) ** 2 + NORMAL_OGIVE**2)
    if (own := items.categories) is None:
        return h2
    population = normal_population(0.0, sd)
    mean, variance, _ = own.score_moments(population.nodes)
    within, between = population.weights @ variance, population.weights @ (mean - population.weights @ mean) ** 2
    partial = [isinstance(model, PartialCredit) for model in own.models]
    return np.where(partial, between / (between + within), h2)


def worst_fitting(fits: ItemFit, removable: Removable) -> list[Removal]:
    """Items with a significant adjusted p of S-X2, the smallest p first; of equal ones the larger S-X2 per df."""
    if removable.rules.item_fit_alpha is None:
        return []
    significant = np.flatnonzero(fits.p_adjusted <= removable.rules.item_fit_alpha)
    worst_first = sorted(significant, key=lambda k: (fits.p[k], -fits.s_x2[k] / fits.df[k]))
    removals = [
        removable.take(fits.item_ids[k], "item_fit", fits.statistic, fits.s_x2[k], fits.p[k], fits.p_adjusted[k])
        for k in worst_first
        if fits.item_ids[k] in removable
    ]
    return removals[: removable.rules.most_in_a_round(len(removals), len(fits.item_ids))]


def most_dependent(pairs: LocalDependence, removable: Removable) -> list[Removal]:
    """One item of the pair with the largest significant LD-X2: the one whose removal clears more flagged pairs.

    If both clear as many, the one whose flagged pairs sum to the larger X2; then the one with the larger X2 over all
    its pairs. Where more than one item may go, the same among the pairs without it.
    """
    found = dependent_items(pairs, removable)
    return found[: removable.rules.most_in_a_round(len(found), len(removable.items))]


def dependent_items(pairs: LocalDependence, removable: Removable) -> list[Removal]:
    """The items whose removal would leave no flagged pair, in the order of `most_dependent`."""
    rules = removable.rules
    if rules.local_dependence_alpha is None:
        return []
    by_bootstrap = rules.local_dependence_p == "bootstrap"
    p = pairs.p_bootstrap if by_bootstrap else pairs.p
    p_adjusted = pairs.p_bootstrap_adjusted if by_bootstrap else pairs.p_adjusted
    if p is None or p_adjusted is None:
        raise ValueError("the bootstrap of local dependence was not done")
    place = {item: k for k, item in enumerate(dict.fromkeys((*pairs.item_1, *pairs.item_2)))}
    names = list(place)
    first, second = (np.array([place[item] for item in side], dtype=np.intp) for side in (pairs.item_1, pairs.item_2))
    significant = p_adjusted <= rules.local_dependence_alpha
    still_in = np.ones(first.size, dtype=np.bool_)
    removals: list[Removal] = []
    while True:
        may_go = np.array([item in removable for item in names], dtype=np.bool_)
        flagged = still_in & significant & (may_go[first] | may_go[second])
        if not flagged.any():
            return removals
        worst = int(np.argmax(np.where(flagged, pairs.x2, -np.inf)))
        burdens: dict[int, tuple[float, ...]] = {}  # how many flagged pairs, their X2, and that of all pairs
        for item in (int(first[worst]), int(second[worst])):
            mine = (first == item) | (second == item)
            sums = (pairs.x2[mine & flagged].sum(), np.nansum(pairs.x2[mine & still_in]))
            burdens |= {item: ((mine & flagged).sum(), *sums)} if may_go[item] else {}
        chosen = max(burdens, key=lambda item: burdens[item])
        partner = int(second[worst] if chosen == first[worst] else first[worst])
        figures, note = (pairs.x2[worst], p[worst], p_adjusted[worst]), f"depends on {names[partner]}"
        removals.append(removable.take(names[chosen], "local_dependence", "ld_x2", *figures, note))
        still_in &= (first != chosen) & (second != chosen)
