"""Remove misfitting items, one reason each, until nothing more is found: fit, diagnose, drop, again.

The preset ``lalor2016`` is the procedure of Lalor, Wu & Yu (2016), section 3.3: one ability or two, is guessing
needed; then items that discriminate too little or negatively go, then the item with the worst S-X2, one at a time,
then one item of the worst locally dependent pair, one at a time, with a new fit after each. A scale may fail as a
whole, and that is a result.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Unpack

import numpy as np

from irtbench.analysis.dimensions import parallel_analysis, why_not_counted
from irtbench.building.prune_rules import (
    FEWEST_ITEMS,
    PruneKeywords,
    PruneRules,
    Removable,
    Removal,
    constant_items,
    dependent_items,
    describe_removals,
    flat_or_reversed,
    most_dependent,
    runaway_slopes,
    worst_fitting,
)
from irtbench.building.pruned import (
    Checkpoint,
    Pruning,
    PruningRound,
    ScaleChecks,
    check_scale,
    misfit_as_a_whole,
    refit_with_guessing,
)
from irtbench.data.checked_settings import shows_fields, with_keywords
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.responses import ResponseMatrix, positions_of
from irtbench.diagnostics.global_fit import GlobalFit, global_fit
from irtbench.diagnostics.item_fit import item_fit
from irtbench.diagnostics.local_dependence import (
    FEWEST_SAMPLES,
    LocalDependence,
    local_dependence,
    n_exceeding,
    samples_for,
    with_bootstrap,
)
from irtbench.estimation.fit import fit_model
from irtbench.estimation.fitted import FittedModel
from irtbench.estimation.settings import FEWEST_RESPONDENTS, Device
from irtbench.models.item_parameters import ItemParameters

MOST_ITEMS_EACH_ROUND = 60  # up to which M2 takes next to nothing, and is computed in every round
MOST_ITEMS_IN_PAIRS = 2_000
TOO_MANY_PAIRS = (
    "local dependence is not tested: {:,} items have {:,} pairs; items leave for their slope and their own fit alone"
)
BETWEEN = f"not computed between the first round and the last of more than {MOST_ITEMS_EACH_ROUND} items"
MISFIT = ("item_fit", "local_dependence")  # reasons for which items leave that follow the model badly

Fit = Callable[..., FittedModel]  # of a ResponseMatrix; of very many items with their ``start``, if it takes one
Refit = Callable[[ResponseMatrix, ItemParameters], FittedModel]
RefitMany = Callable[[Sequence[ResponseMatrix], ItemParameters], Sequence[FittedModel | None]]


@shows_fields(PruneRules)
def prune(
    responses: ResponsesLike,
    fit: Fit | None = None,
    rules: PruneRules | None = None,
    *,
    refit: Refit | None = None,
    refit_many: RefitMany | None = None,
    groups: Mapping[str, str] | None = None,
    seed: int = 0,
    device: Device = "auto",
    checkpoint: Checkpoint | None = None,
    progress: Callable[[str], None] = lambda message: None,
    **keywords: Unpack[PruneKeywords],
) -> Pruning:
    """Drop items by `rules` until none is found any more, with a new fit after every removal.

    Each round fits the items left and applies the first rule that finds something: slopes (all such items at once),
    item fit (the worst), local dependence (one item of the worst pair). The others wait for the next fit, since one bad
    item may be what makes another look bad; of many, several go together (`PruneRules.share_at_once`). Where they did,
    pruning ends as soon as fewer items are left than `PruneRules.min_share_kept`, for the scale is rejected then.

    Where responses are missing, and with several trials of an item, k right of n, the p of local dependence is that of
    the bootstrap whatever the rules say; with several trials M2 is not known and rejects nothing.

    A scale is rejected as a whole if one ability does not fit the items left, or if it does not fit those given and
    more than a few have to leave (`PruneRules.max_share_bad`).

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`) of the items of one scale.
    fit
        Estimates the parameters of the items it is given; None for `fit_model`, a 2PL by marginal maximum likelihood.
        If it takes a ``start``, later rounds of more than 2,000 items give it these as the round before left them.
    rules
        When items leave; None for the defaults of `PruneRules`.
    refit
        The same for the samples of the bootstrap, which need no standard errors and may start from the items they are
        drawn from; None for `fit`.
    refit_many
        The same for several samples at once (`fit_many`), in place of ``refit``.
    groups
        Content group of items, for the rules' least number of each.
    seed
        Of the bootstrap and of the models with several abilities.
    device
        Of the models with several abilities, as in `FitSettings`.
    checkpoint
        Where finished steps are kept; those already there are not computed again.
    progress
        Called with a line about each round.
    keywords
        Of the rules: ``min_items=10``.

    Raises
    ------
    InputError
        If an excluded or protected item is not among the items.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> clicks = responses.values.copy()
    >>> clicks[:, 2] = rng.integers(0, 2, 300)  # nobody read the third item
    >>> found = irtbench.prune(clicks, local_dependence_p="chi_square", min_items=4)
    >>> found
    <Pruning: 5 of 6 items kept, 2 rounds>
    >>> found.table()[["round", "item_id", "reason"]]
       round item_id          reason
    0      1   item3  negative_slope
    """
    responses = as_responses(responses)
    rules = with_keywords(rules or PruneRules(), keywords)
    named = [*(exclusion.item_id for exclusion in rules.exclude), *rules.protect]
    positions_of(named, responses.item_ids, "pruning: {} is not among the items of the scale")
    going = UnderWay(responses, rules, fit or fit_model, refit, refit_many, groups or {}, seed, progress)
    going.drop([Removal(0, e.item_id, "excluded", note=e.reason) for e in rules.exclude])
    constant = constant_items(responses.select_items(going.items))
    if constant:
        progress(f"before any fit: {describe_removals(constant)}")
    going.drop(constant)
    checkpoint, several_left = checkpoint or Checkpoint(None, ""), False

    def compared(data: ResponseMatrix) -> ScaleChecks | None:
        progress("one ability or two, and guessing")
        return check_scale(data, seed=seed, device=device)

    while len(going.items) >= FEWEST_ITEMS:
        number, data = going.number, responses.select_items(going.items).answered()
        if data.n_respondents < FEWEST_RESPONDENTS:
            return going.ended(
                f"only {data.n_respondents} respondents answered it, fewer than {FEWEST_RESPONDENTS}",
            )
        if number == 1 and rules.compare_factors:
            going.checks = checkpoint.once("checks", ScaleChecks, partial(compared, data))
        one = checkpoint.once(f"round_{number}", PruningRound, partial(going.next_round, data))
        going.rounds.append(one)
        going.drop([*one.runaway, *one.removals])
        progress(f"round {number}: {data.n_items} items, {describe_removals(list(one.removals))}")
        several_left |= sum(removal.reason in MISFIT for removal in one.removals) > rules.at_once
        if several_left and going.too_few_left():
            return going.ended(None)
        if rejected := going.more_than_pairs():
            return going.ended(rejected)
        if not one.removals:
            rejected = misfit_as_a_whole(one.global_fit, rules, going.checks) or going.several_abilities_left(data)
            return going.ended(rejected)
    return going.ended(f"fewer than {FEWEST_ITEMS} items are left")


@dataclass
class UnderWay:
    """Pruning under way: what was asked for, the items still in, and what left."""

    responses: ResponseMatrix
    rules: PruneRules
    fit: Fit
    refit: Refit | None
    refit_many: RefitMany | None
    groups: Mapping[str, str]
    seed: int
    progress: Callable[[str], None]
    removals: list[Removal] = field(default_factory=list)
    rounds: list[PruningRound] = field(default_factory=list)
    checks: ScaleChecks | None = None

    def __post_init__(self) -> None:
        self.items = list(self.responses.item_ids)

    @property
    def number(self) -> int:
        """Of the next round."""
        return len(self.rounds) + 1

    def drop(self, removals: list[Removal]) -> None:
        """Take items out."""
        gone = {removal.item_id for removal in removals}
        self.items = [item for item in self.items if item not in gone]
        self.removals += removals

    def next_round(self, data: ResponseMatrix) -> PruningRound:
        """Fit the items left, diagnose, and apply the first rule that finds something."""
        number, before, progress = self.number, self.rounds, self.progress
        fitted, data, runaway = self.fit_without_runaway(data)
        if not self.responses.is_complete or (data.trials is not None and fitted.items.categories is None):
            self.rules = self.rules.by_bootstrap()  # chi-square gives no p of k of n trials
        rules = self.rules
        if runaway:
            progress(f"round {number}: {describe_removals(runaway)}")
        items, population = fitted.items, fitted.quadrature
        whole = GlobalFit(reason=BETWEEN)
        if not before or items.n_items <= MOST_ITEMS_EACH_ROUND:
            whole = global_fit(data, items, quadrature=population)
        fits = item_fit(data, items, quadrature=population)
        testable = items.n_items <= MOST_ITEMS_IN_PAIRS  # and a 3PL of all items is fitted in sensible time
        pairs = local_dependence(data, items, quadrature=population) if testable else LocalDependence.none()
        found, not_available, guessing = list[Removal](), "", before[-1].guessing if before else 0.0
        removable = Removable(number, items.item_ids, rules, self.groups)
        for rule in rules.order:
            if rule == "slope":
                sd = fitted.population["sd"]
                found = flat_or_reversed(items, removable, sd=sd)
                flat = any(removal.reason == "low_communality" for removal in found)
                if flat and testable and (third := refit_with_guessing(data, fitted, guessing)) is not None:
                    removable = Removable(number, items.item_ids, rules, self.groups)
                    by_third = flat_or_reversed(items, removable, with_guessing=third[0], sd=sd)
                    if [removal.item_id for removal in by_third] != [removal.item_id for removal in found]:
                        found, guessing = by_third, third[1]  # reported only where it keeps an item
                        progress(f"round {number}: guessing of about {guessing:g}; slopes are judged by a 3PL")
            elif rule == "item_fit":
                found = worst_fitting(fits, removable)
            elif rules.local_dependence_alpha is not None and not testable:
                not_available = TOO_MANY_PAIRS.format(items.n_items, items.n_items * (items.n_items - 1) // 2)
            elif rules.local_dependence_alpha is not None:
                try:
                    if rules.local_dependence_p == "bootstrap":
                        pairs = self.bootstrapped(pairs, data, fitted, rules.local_dependence_alpha)
                    found = most_dependent(pairs, removable)
                except ArithmeticError as error:
                    not_available = str(error)
                    progress(f"round {number}: {not_available}")
            if found:
                break
        if not found and whole.reason == BETWEEN:
            whole = global_fit(data, items, quadrature=population)
        return PruningRound(number, fitted, fits, pairs, whole, tuple(found), tuple(runaway), not_available, guessing)

    def fit_without_runaway(self, data: ResponseMatrix) -> tuple[FittedModel, ResponseMatrix, list[Removal]]:
        """The fit of the items, of very many from those of the round before, without those whose slopes grow without
        end: at most so many as the rules let leave.
        """  # fmt: skip
        near: dict[str, ItemParameters] = {}
        if self.rounds and data.n_items > MOST_ITEMS_IN_PAIRS and "start" in inspect.signature(self.fit).parameters:
            near["start"] = self.rounds[-1].fitted.items.select(data.item_ids)
        share, gone = self.rules.max_share_runaway, list[Removal]()
        most = max(1, int(share * self.responses.n_items)) if share > 0 else 0
        most -= sum(len(one.runaway) for one in self.rounds)
        fitted = self.fit(data, **near)
        while found := runaway_slopes(self.number, fitted, data):
            gone_now = {removal.item_id for removal in found}
            rest = data.select_items([item for item in data.item_ids if item not in gone_now]).answered()
            if len(gone) + len(found) > most or rest.n_items < FEWEST_ITEMS or rest.n_respondents < FEWEST_RESPONDENTS:
                break
            gone += found
            data = rest
            fitted = self.fit(data)
        return fitted, data, gone

    def bootstrapped(
        self, pairs: LocalDependence, data: ResponseMatrix, fitted: FittedModel, alpha: float
    ) -> LocalDependence:
        """Local dependence with as many samples of the bootstrap as tell what leaves.

        They end when more exceed the largest pair of the data than may if it is to be significant; after nineteen,
        where so many items are to leave that several leave together; and after 2 / alpha - 1 (39), where none exceeds
        it. The chance that a scale without a dependent pair loses one is then .052 at alpha = .05.
        """
        number, rules, many = self.number, self.rules, self.refit_many
        n_samples = rules.bootstrap_samples or samples_for(data.n_responses)

        def suffices(so_far: LocalDependence) -> bool:
            n, exceeding = so_far.bootstrap_samples, n_exceeding(so_far)
            if n == FEWEST_SAMPLES:
                removable = Removable(number, fitted.items.item_ids, rules, self.groups)
                n_to_leave = len(dependent_items(so_far, removable))
                if int(rules.share_at_once * n_to_leave) > rules.at_once:
                    return True
            if exceeding == 0:
                return n + 1 == round(2 / alpha)
            return (exceeding + 1) / (n_samples + 1) > alpha

        def again(sample: ResponseMatrix) -> ItemParameters | None:
            return _if_converged(self.fit(sample) if self.refit is None else self.refit(sample, fitted.items))

        def many_again(samples: Sequence[ResponseMatrix]) -> list[ItemParameters | None]:
            return [_if_converged(one) for one in many(samples, fitted.items)] if many else []

        return with_bootstrap(
            pairs, data, fitted.items, again if many is None else None, refit_many=None if many is None else many_again,
            rng=np.random.default_rng([self.seed, number]), n_samples=n_samples, suffices=suffices,
            quadrature=fitted.quadrature, progress=lambda message: self.progress(f"round {number}: {message}"),
        )  # fmt: skip

    def more_than_pairs(self) -> str | None:
        """Why one ability does not fit the items given, if more have to leave than a few bad items and pairs."""
        leaving, most = sum(removal.round > 0 for removal in self.removals), self.rules.max_share_bad
        if leaving <= most * self.responses.n_items:
            return None
        verdict = misfit_as_a_whole(self.rounds[0].global_fit, self.rules, self.checks)
        return verdict and f"{verdict}; {leaving} items would have to leave, more than {most:.0%}"

    def several_abilities_left(self, data: ResponseMatrix) -> str | None:
        """Why one ability did not fit the items given, if parallel analysis still counts several in what is left.

        With few respondents the fit of two abilities passes once those items are gone that show it most.
        """
        verdict = misfit_as_a_whole(self.rounds[0].global_fit, self.rules, self.checks)
        if verdict is None or why_not_counted(data):
            return None
        number = parallel_analysis(data, rng=np.random.default_rng(self.seed)).n_abilities
        return None if number < 2 else f"{verdict}; without those that left parallel analysis counts {number} abilities"

    def too_few_left(self) -> bool:
        """Whether the scale is rejected for the number of items left."""
        share = len(self.items) / self.responses.n_items if self.responses.n_items else 0.0
        return self.rules.min_share_kept is not None and share < self.rules.min_share_kept

    def may_be_the_population(self) -> str:
        """Another possible cause of the removals, or an empty string.

        Abilities that are not normal make items look misfitting, above all dependent.
        """
        by_misfit = sum(removal.reason in MISFIT for removal in self.removals)
        shape = self.rounds[0].fitted.ability_shape if self.rounds else None
        return f"; {shape.in_words}" if shape and shape.in_words and 2 * by_misfit >= len(self.removals) else ""

    def ended(self, rejected: str | None) -> Pruning:
        """The result, of a scale that is rejected for this reason, for too few items, or not."""
        if rejected is None and self.too_few_left():
            rejected = (
                f"only {len(self.items)} of {self.responses.n_items} items survive, fewer than "
                f"{self.rules.min_share_kept:.0%}{self.may_be_the_population()}"
            )
        rounds, item_ids = tuple(self.rounds), self.responses.item_ids
        before = rounds[0].global_fit if rounds else None
        after = rounds[-1].global_fit if rounds and not rounds[-1].removals else None
        return Pruning(item_ids, rounds, tuple(self.removals), before, after, rejected, self.rules, self.checks)


def _if_converged(fitted: FittedModel | None) -> ItemParameters | None:
    return fitted.items if fitted is not None and fitted.converged else None
