"""Remove misfitting items, one reason each, until nothing more is found: fit, diagnose, drop, again.

The preset ``lalor2016`` is the procedure of Lalor, Wu & Yu (2016), section 3.3: items that discriminate too little or
negatively go first, then the item with the worst S-X2, one at a time, then one item of the worst locally dependent
pair, one at a time, with a new fit after each. A scale may fail as a whole, and that is a result.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.diagnostics.global_fit import GlobalFit, global_fit
from irtbench.diagnostics.item_fit import ItemFit, item_fit
from irtbench.diagnostics.local_dependence import LocalDependence, local_dependence
from irtbench.estimation.svi import FEWEST_RESPONDENTS, FittedModel

logger = logging.getLogger(__name__)

NORMAL_OGIVE = 1.702  # logistic slopes divided by this are those of the normal ogive
FEWEST_ITEMS = 3  # below this neither item fit nor local dependence has a degree of freedom

Reason = Literal[
    "excluded", "no_response", "all_correct", "all_wrong", "negative_slope", "low_communality", "item_fit",
    "local_dependence",
]  # fmt: skip


@dataclass(frozen=True)
class Exclusion:
    """An item that the user takes out beforehand, and why."""

    item_id: str
    reason: str


@dataclass(frozen=True)
class PruneRules:
    """When an item leaves a scale, and when a scale is rejected as a whole.

    The defaults are those of the preset ``lalor2016``. None switches a rule off.

    Parameters
    ----------
    min_communality
        Items with h2 = a^2 / (a^2 + 1.702^2) below this are dropped; .15 is a slope of .715.
    drop_negative_slopes
        Whether items with a negative slope are dropped.
    item_fit_alpha
        Items whose S-X2 has a Holm-adjusted p below this are dropped, the worst first.
    local_dependence_alpha
        Of a pair whose LD-X2 has a Holm-adjusted p below this one item is dropped, the worst pair first.
    min_cfi, min_tli
        Reject the scale if one ability fits all its items worse than this before any removal.
    min_share_kept
        Reject the scale if fewer than this share of the items given survive.
    min_items
        Never go below this many items.
    good_rmsea, good_cfi, good_tli
        What the global fit of the retained items is compared with at the end: the lower 5% limit of RMSEA is to lie
        below the first, CFI and TLI above the others.
    exclude
        Items taken out beforehand.
    protect
        Items that no rule removes.
    """

    min_communality: float | None = 0.15
    drop_negative_slopes: bool = True
    item_fit_alpha: float | None = 0.05
    local_dependence_alpha: float | None = 0.05
    min_cfi: float | None = 0.90
    min_tli: float | None = 0.90
    min_share_kept: float | None = 0.5
    min_items: int = FEWEST_ITEMS
    good_rmsea: float = 0.05
    good_cfi: float = 0.95
    good_tli: float = 0.95
    exclude: tuple[Exclusion, ...] = ()
    protect: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("min_communality", "item_fit_alpha", "local_dependence_alpha", "min_share_kept"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1:
                raise InputError(f"pruning: {name} must be between 0 and 1 but got {value}")
        if self.min_items < FEWEST_ITEMS:
            raise InputError(f"pruning: min_items must be at least {FEWEST_ITEMS} but got {self.min_items}")
        both = sorted({exclusion.item_id for exclusion in self.exclude} & set(self.protect))
        if both:
            raise InputError(f"pruning: {name_first(both)} is both excluded and protected")


@dataclass(frozen=True)
class Removal:
    """One item that left, in the round in which it left.

    `statistic` names what `value` is; `p` and `p_adjusted` are NaN where the rule is no test. `note` says the rest: a
    user's reason, or the partner of a dependent pair.
    """

    round: int
    item_id: str
    reason: Reason
    statistic: str
    value: float
    p: float
    p_adjusted: float
    note: str


@dataclass(frozen=True, eq=False)
class PruningRound:
    """The fit of one round and what was found in it."""

    number: int
    fitted: FittedModel
    item_fit: ItemFit
    local_dependence: LocalDependence
    removals: tuple[Removal, ...]


@dataclass(frozen=True, eq=False)
class Pruning:
    """The way from the items given to the items kept.

    Parameters
    ----------
    item_ids
        The items given.
    rounds
        Every fit with its diagnostics, the last on the items kept.
    removals
        Every removal, those before the first fit included (round 0).
    fit_before, fit_after
        Global fit of one ability before any removal by a rule, and of the items kept.
    rejected
        Why the scale fails as a whole; None if it stands.
    rules
        The rules applied.
    """

    item_ids: tuple[str, ...]
    rounds: tuple[PruningRound, ...]
    removals: tuple[Removal, ...]
    fit_before: GlobalFit | None
    fit_after: GlobalFit | None
    rejected: str | None
    rules: PruneRules

    @property
    def fitted(self) -> FittedModel | None:
        """The fit of the last round; None if too few items were there to fit."""
        return self.rounds[-1].fitted if self.rounds else None

    @property
    def kept(self) -> tuple[str, ...]:
        """Items kept; none if the scale is rejected."""
        if self.rejected is not None or self.fitted is None:
            return ()
        return self.fitted.items.item_ids

    @property
    def globally_good(self) -> bool:
        """Whether the items kept meet the rules' marks for RMSEA, CFI and TLI."""
        after, rules = self.fit_after, self.rules
        return after is not None and bool(
            after.rmsea_lower < rules.good_rmsea and after.cfi > rules.good_cfi and after.tli > rules.good_tli
        )

    def table(self) -> pd.DataFrame:
        """One row a removed item, columns of pruning.csv."""
        columns = ["round", "item_id", "reason", "statistic", "value", "p", "p_adjusted", "note"]
        return pd.DataFrame([vars(removal) for removal in self.removals], columns=columns)


@dataclass
class _State:
    """The items still in, while pruning goes on."""

    items: list[str]
    removals: list[Removal] = field(default_factory=list)
    rounds: list[PruningRound] = field(default_factory=list)

    def drop(self, removals: list[Removal]) -> None:
        gone = {removal.item_id for removal in removals}
        self.items = [item for item in self.items if item not in gone]
        self.removals += removals


def prune(
    responses: ResponseMatrix,
    fit: Callable[[ResponseMatrix], FittedModel],
    rules: PruneRules | None = None,
    *,
    progress: Callable[[str], None] = lambda message: None,
) -> Pruning:
    """Drop items by `rules` until none is found any more, with a new fit after every removal.

    Each round fits the items left and applies the first rule that finds something: slopes (all such items at once),
    item fit (the worst), local dependence (one item of the worst pair). The others wait for the next fit, since one bad
    item may be what makes another look bad.

    Parameters
    ----------
    responses
        Graded responses of the items of one scale.
    fit
        Estimates the parameters of the items it is given.
    rules
        When items leave; None for the preset ``lalor2016``.
    progress
        Called with a line about each round.

    Raises
    ------
    InputError
        If an excluded or protected item is not among the items.
    """
    rules = rules or PruneRules()
    known = set(responses.item_ids)
    unknown = [item for item in (*(e.item_id for e in rules.exclude), *rules.protect) if item not in known]
    if unknown:
        raise InputError(f"pruning: {name_first(unknown)} is not among the items of the scale")
    state = _State(list(responses.item_ids))
    state.drop([_removal(0, e.item_id, "excluded", note=e.reason) for e in rules.exclude])
    state.drop(constant_items(responses.select_items(state.items)))
    before: GlobalFit | None = None
    while len(state.items) >= FEWEST_ITEMS:
        number = len(state.rounds) + 1
        data = answered(responses.select_items(state.items))
        if data.n_respondents < FEWEST_RESPONDENTS:
            unanswered = f"only {data.n_respondents} respondents answered it, fewer than {FEWEST_RESPONDENTS}"
            return _finish(responses, state, rules, before, None, unanswered)
        fitted = fit(data)
        if before is None:
            before = global_fit(data, fitted.items, quadrature=fitted.quadrature)
        fits = item_fit(data, fitted.items, quadrature=fitted.quadrature)
        pairs = local_dependence(data, fitted.items, quadrature=fitted.quadrature)
        rejected = misfit_as_a_whole(before, rules)
        found = [] if rejected else find_removals(number, fitted, fits, pairs, rules)
        room = len(state.items) - rules.min_items
        if len(found) > room:
            logger.warning("pruning: stopped by the floor of %d items", rules.min_items)
            found = found[: max(0, room)]
        state.rounds.append(PruningRound(number, fitted, fits, pairs, tuple(found)))
        state.drop(found)
        progress(f"round {number}: {data.n_items} items, {describe_removals(found)}")
        if not found:
            after = global_fit(data, fitted.items, quadrature=fitted.quadrature) if number > 1 else before
            return _finish(responses, state, rules, before, after, rejected)
    return _finish(responses, state, rules, before, None, f"fewer than {FEWEST_ITEMS} items are left")


def _finish(
    responses: ResponseMatrix,
    state: _State,
    rules: PruneRules,
    before: GlobalFit | None,
    after: GlobalFit | None,
    rejected: str | None,
) -> Pruning:
    share = len(state.items) / responses.n_items if responses.n_items else 0.0
    if rejected is None and rules.min_share_kept is not None and share < rules.min_share_kept:
        rejected = (
            f"only {len(state.items)} of {responses.n_items} items survive, fewer than {rules.min_share_kept:.0%}"
        )
    return Pruning(responses.item_ids, tuple(state.rounds), tuple(state.removals), before, after, rejected, rules)


def _removal(
    number: int,
    item_id: str,
    reason: Reason,
    statistic: str = "",
    value: float = np.nan,
    p: float = np.nan,
    p_adjusted: float = np.nan,
    note: str = "",
) -> Removal:
    return Removal(number, item_id, reason, statistic, float(value), float(p), float(p_adjusted), note)


def describe_removals(removals: list[Removal]) -> str:
    """Say in one line what a round removed."""
    if not removals:
        return "nothing to remove"
    return "removed " + ", ".join(f"{removal.item_id} ({removal.reason})" for removal in removals)


def answered(responses: ResponseMatrix) -> ResponseMatrix:
    """Leave out respondents who have no response to any of these items."""
    any_response = np.asarray(responses.observed.any(axis=1))
    return responses if any_response.all() else responses.select_respondents(any_response)


def constant_items(responses: ResponseMatrix) -> list[Removal]:
    """Items that no fit can use: nobody asked, nobody right, everybody right."""
    reasons: dict[float, Reason] = {0.0: "all_wrong", 1.0: "all_correct"}
    return [
        _removal(0, item, "no_response" if np.isnan(p) else reasons[p], "proportion_correct", p)
        for item, p in zip(responses.item_ids, responses.proportion_correct(), strict=True)
        if np.isnan(p) or p in reasons
    ]


def misfit_as_a_whole(before: GlobalFit, rules: PruneRules) -> str | None:
    """Say why one ability does not fit all the items, or None if it does."""
    failures = [
        f"{name} {value:.3f} < {limit:.2f}"
        for name, value, limit in (("CFI", before.cfi, rules.min_cfi), ("TLI", before.tli, rules.min_tli))
        if limit is not None and value < limit
    ]
    return "one ability does not fit its items: " + ", ".join(failures) if failures else None


def find_removals(
    number: int, fitted: FittedModel, fits: ItemFit, pairs: LocalDependence, rules: PruneRules
) -> list[Removal]:
    """Apply the first rule that finds something; an empty list when none does."""
    protected = set(rules.protect)
    return (
        flat_or_reversed(number, fitted, rules, protected)
        or worst_fitting(number, fits, rules, protected)
        or most_dependent(number, pairs, rules, protected)
    )


def flat_or_reversed(number: int, fitted: FittedModel, rules: PruneRules, protected: set[str]) -> list[Removal]:
    """Items with a negative slope or a communality h2 = a^2 / (a^2 + 1.702^2) under the limit."""
    removals = []
    for item, a in zip(fitted.items.item_ids, fitted.items.discrimination, strict=True):
        communality = a**2 / (a**2 + NORMAL_OGIVE**2)
        if item in protected:
            continue
        if rules.drop_negative_slopes and a < 0:
            removals.append(_removal(number, item, "negative_slope", "discrimination", a))
        elif rules.min_communality is not None and communality < rules.min_communality:
            removals.append(_removal(number, item, "low_communality", "communality", communality))
    return removals


def worst_fitting(number: int, fits: ItemFit, rules: PruneRules, protected: set[str]) -> list[Removal]:
    """The item with the smallest significant adjusted p of S-X2; of equal ones that with the larger S-X2 per df."""
    if rules.item_fit_alpha is None:
        return []
    table = fits.table()
    table = table[(table["p_adjusted"] < rules.item_fit_alpha) & ~table["item_id"].isin(protected)]
    if table.empty:
        return []
    worst = table.assign(ratio=-table["s_x2"] / table["df"]).sort_values(["p", "ratio"], kind="stable").iloc[0]
    return [_removal(number, worst["item_id"], "item_fit", "s_x2", worst["s_x2"], worst["p"], worst["p_adjusted"])]


def most_dependent(number: int, pairs: LocalDependence, rules: PruneRules, protected: set[str]) -> list[Removal]:
    """One item of the pair with the largest significant LD-X2: the one whose removal clears more flagged pairs.

    If both clear as many, the one whose flagged pairs sum to the larger X2; then the one with the larger X2 over all
    its pairs.
    """
    if rules.local_dependence_alpha is None:
        return []
    table = pairs.table()
    flagged = table[table["p_adjusted"] < rules.local_dependence_alpha]
    flagged = flagged[~(flagged["item_1"].isin(protected) & flagged["item_2"].isin(protected))]
    if flagged.empty:
        return []
    worst = flagged.sort_values("x2", kind="stable").iloc[-1]

    def burden(item: str) -> tuple[int, float, float]:
        in_flagged = flagged[(flagged["item_1"] == item) | (flagged["item_2"] == item)]
        in_all = table[(table["item_1"] == item) | (table["item_2"] == item)]
        return len(in_flagged), float(in_flagged["x2"].sum()), float(in_all["x2"].sum())

    candidates = [item for item in (worst["item_1"], worst["item_2"]) if item not in protected]
    chosen = max(candidates, key=burden)
    partner = worst["item_2"] if chosen == worst["item_1"] else worst["item_1"]
    return [
        _removal(
            number,
            chosen,
            "local_dependence",
            "ld_x2",
            worst["x2"],
            worst["p"],
            worst["p_adjusted"],
            note=f"depends on {partner}",
        )
    ]
