"""The rules of pruning as data: when an item leaves a scale, and when a scale is rejected as a whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypedDict

from irtbench.data.checked_settings import Count, Inside, Range, Settings, Share
from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first

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
        if len(set(self.order)) < len(self.order):
            raise InputError(f"pruning: order names a rule twice: {', '.join(self.order)}")
        excluded = [exclusion.item_id for exclusion in self.exclude]
        twice = sorted({item for item in excluded if excluded.count(item) > 1})
        if twice:
            raise InputError(f"pruning: {name_first(twice)} is excluded twice")
        both = sorted({exclusion.item_id for exclusion in self.exclude} & set(self.protect))
        if both:
            raise InputError(f"pruning: {name_first(both)} is both excluded and protected")

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
