"""The rules of pruning as data, and the items that leave by each: one function a rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from irtbench.data.checked_settings import Count, Inside, Range, Settings, Share
from irtbench.data.input_error import refuse_any
from irtbench.data.responses import ResponseMatrix, Responses, name_first
from irtbench.diagnostics.item_fit import ItemFit
from irtbench.diagnostics.local_dependence import LocalDependence
from irtbench.models.item_models.partial_credit import PartialCredit
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.quadrature import normal_population

if TYPE_CHECKING:
    from irtbench.estimation.fitted import FittedModel

FEWEST_ITEMS = 3  # below this neither item fit nor local dependence has a degree of freedom
FEWEST_SAMPLES = 19  # of a bootstrap: with fewer no p is as small as .05
ITEMS_FOR_ONE = 30  # of a scale, for so many of which one may leave in a round

Rule = Literal["slope", "item_fit", "local_dependence"]


@dataclass(frozen=True)
class Exclusion(Settings):
    """An item that the user takes out beforehand, and why.

    Parameters
    ----------
    item_id
        The item.
    reason
        Why, in words for pruning.csv and the report.
    """

    item_id: str
    reason: str


@dataclass(frozen=True)
class PruneRules(Settings):
    """When an item leaves a scale, and when a scale is rejected as a whole. None switches a rule off.

    The defaults are the cut-offs of the procedure of 2016 with the p of local dependence that keeps its level;
    `LALOR2016` is the procedure itself.

    Parameters
    ----------
    order
        The rules in the order in which they are asked; the first that finds something decides the round.
    at_once
        Items that item fit or local dependence may always remove in a round. One is safest, since one bad item may be
        what makes another look bad; more take fewer fits.
    share_at_once
        Where many items are to leave they leave together, the worst first: this share of them (of twenty, two), or one
        for every 30 items of the scale if that is more, which is how fast scales of 30 items were pruned in 2016. So
        scales of fewer than 60 items with fewer than twenty to leave lose `at_once` a round. 0: never more than
        `at_once`.
    min_communality
        Items with h2 = a^2 / (a^2 + 1.702^2) below this are dropped; .15 is a slope of .715. Of partial credit h2 is
        the share of the score's variance that ability explains.
    drop_negative_slopes
        Whether items with a negative slope are dropped.
    max_share_runaway
        Items whose slope grows without end, as where one respondent alone was wrong, leave before the fit is taken for
        one, up to this share of the items given (at least one; none for 0). Beyond it the fit stays as it is, not
        converged: a prior is for such data.
    item_fit_alpha
        Items whose S-X2 has a Holm-adjusted p of at most this are dropped, the worst first.
    local_dependence_alpha
        Of a pair whose LD-X2 has an adjusted p of at most this one item is dropped, the worst pair first.
    local_dependence_p
        ``bootstrap`` for a p that keeps its level (adjusted by the largest of all pairs), ``chi_square`` for the
        published one (adjusted by Holm), too careful with complete responses; where some are missing it is always
        the bootstrap.
    bootstrap_samples
        Most samples of the bootstrap in each round that comes to this rule, see `with_bootstrap`: fewer are drawn where
        they settle it. None for 99, or fewer, but no less than 19, of more than half a million responses.
    min_cfi, min_tli
        Reject the scale if one ability fits the items that pruning leaves worse than this, and significantly badly:
        with few respondents to a pair of items CFI and TLI fall below the cut-off by chance, and M2 has p >= .05.
    max_share_bad
        Reject the scale, too, if one ability fits all the items given so badly, and the rules remove more than this
        share of them, or parallel analysis counts several abilities in what is left: a few twin items may make a scale
        look bad, but of two abilities pruning would leave one, or a part of the other.
    min_share_kept
        Reject the scale if fewer than this share of the items given survive.
    min_items
        Never go below this many items.
    min_per_group
        Never go below this many items of one content group.
    compare_factors
        Whether one and two abilities are compared, and guessing is tested, before any removal.
    good_rmsea
        The global fit of the retained items is called good at the end if the lower 5% limit of RMSEA lies below this;
        nothing is removed for it.
    good_cfi, good_tli
        And if CFI and TLI lie above these.
    exclude
        Items taken out beforehand.
    protect
        Items that no rule removes. One that nobody or everybody got right leaves all the same, and one whose slope
        grows without end: they cannot be fitted.

    Raises
    ------
    InputError
        If a rule is unknown or named twice, a value has the wrong type or lies outside its range, or an item is
        excluded twice or both excluded and protected.
    """

    order: tuple[Rule, ...] = ("slope", "item_fit", "local_dependence")
    at_once: Annotated[int, Range(at_least=1)] = 1
    share_at_once: Share = 0.1
    min_communality: Inside | None = 0.15
    drop_negative_slopes: bool = True
    max_share_runaway: Share = 0.05
    item_fit_alpha: Inside | None = 0.05
    local_dependence_alpha: Inside | None = 0.05
    local_dependence_p: Literal["bootstrap", "chi_square"] = "bootstrap"
    bootstrap_samples: Annotated[int, Range(at_least=FEWEST_SAMPLES)] | None = None
    min_cfi: Share | None = 0.90
    min_tli: Share | None = 0.90
    max_share_bad: Share = 0.3
    min_share_kept: Inside | None = 0.5
    min_items: Annotated[int, Range(at_least=FEWEST_ITEMS)] = FEWEST_ITEMS
    min_per_group: Count = 0
    compare_factors: bool = False
    good_rmsea: Annotated[float, Range(above=0)] = 0.05
    good_cfi: Share = 0.95
    good_tli: Share = 0.95
    exclude: tuple[Exclusion, ...] = ()
    protect: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        excluded = Counter(exclusion.item_id for exclusion in self.exclude)
        twice, both = sorted(item for item in excluded if excluded[item] > 1), sorted({*excluded} & {*self.protect})
        refuse_any((
            (len(set(self.order)) < len(self.order), f"pruning: order names a rule twice: {', '.join(self.order)}"),
            (twice, f"pruning: {name_first(twice)} is excluded twice"),
            (both, f"pruning: {name_first(both)} is both excluded and protected"),
        ))  # fmt: skip

    def by_bootstrap(self) -> PruneRules:
        """The same where LD-X2 has the p of a bootstrap alone: with missing responses or several trials of an item."""
        return replace(self, local_dependence_p="bootstrap")

    def most_in_a_round(self, n_to_leave: int, n_items: int) -> int:
        """How many of these items leave before the next fit, see `share_at_once`.

        Examples
        --------
        >>> rules = PruneRules()
        >>> rules.most_in_a_round(12, 30), rules.most_in_a_round(25, 30), rules.most_in_a_round(12, 340)
        (1, 2, 11)
        """
        together = max(int(self.share_at_once * n_to_leave), n_items // ITEMS_FOR_ONE) if self.share_at_once else 0
        return max(self.at_once, together)


class PruneKeywords(TypedDict, total=False):
    """`PruneRules` as keywords."""

    order: tuple[Rule, ...]
    at_once: int
    share_at_once: Share
    min_communality: Inside | None
    drop_negative_slopes: bool
    max_share_runaway: Share
    item_fit_alpha: Inside | None
    local_dependence_alpha: Inside | None
    local_dependence_p: Literal["bootstrap", "chi_square"]
    bootstrap_samples: int | None
    min_cfi: Share | None
    min_tli: Share | None
    max_share_bad: Share
    min_share_kept: Inside | None
    min_items: int
    min_per_group: Count
    compare_factors: bool
    good_rmsea: float
    good_cfi: Share
    good_tli: Share
    exclude: tuple[Exclusion, ...]
    protect: tuple[str, ...]


#: The procedure of Lalor, Wu & Yu (2016), section 3.3.
LALOR2016 = PruneRules(local_dependence_p="chi_square", compare_factors=True)

#: No rule at all: every item that can be fitted stays.
KEEP_ALL = PruneRules(
    order=(), min_communality=None, drop_negative_slopes=False, item_fit_alpha=None, local_dependence_alpha=None,
    min_cfi=None, min_tli=None, min_share_kept=None,
)  # fmt: skip


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
    items: ItemParameters, removable: Removable, *, sd: float = 1.0, with_guessing: ItemParameters | None = None
) -> list[Removal]:
    """Items with a negative slope or a communality under the limit, see `communalities`, the worst first.

    ``sd`` is the population's standard deviation; with ``with_guessing``, the items of a 3PL, the communality is
    theirs.
    """
    removals, rules = [], removable.rules
    slopes, by = dict(zip(items.item_ids, items.discrimination.tolist(), strict=True)), with_guessing or items
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
    by_bootstrap, by_chi_square = (pairs.p_bootstrap, pairs.p_bootstrap_adjusted), (pairs.p, pairs.p_adjusted)
    p, p_adjusted = by_bootstrap if rules.local_dependence_p == "bootstrap" else by_chi_square
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
