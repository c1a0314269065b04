"""Remove misfitting items, one reason each, until nothing more is found: fit, diagnose, drop, again.

The preset ``lalor2016`` is the procedure of Lalor, Wu & Yu (2016), section 3.3: one ability or two, is guessing
needed; then items that discriminate too little or negatively go, then the item with the worst S-X2, one at a time,
then one item of the worst locally dependent pair, one at a time, with a new fit after each. A scale may fail as a
whole, and that is a result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from irtbench.analysis.dependence_bootstrap import (
    FEWEST_SAMPLES,
    n_exceeding,
    samples_for,
    with_bootstrap,
)
from irtbench.analysis.dependence_bootstrap import RefitMany as BootstrapRefits
from irtbench.building.checkpoint import Checkpoint
from irtbench.building.prune_rules import FEWEST_ITEMS, Exclusion, PruneRules
from irtbench.building.removals import (
    NORMAL_OGIVE,
    Reason,
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
from irtbench.building.scale_checks import ScaleChecks, check_scale
from irtbench.data.checked_settings import with_keywords
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.data.shown import Shown, counted
from irtbench.diagnostics.global_fit import GlobalFit, global_fit
from irtbench.diagnostics.item_fit import ItemFit, item_fit
from irtbench.diagnostics.local_dependence import LocalDependence, local_dependence
from irtbench.estimation.fit import fit_model
from irtbench.estimation.fitted import FittedModel
from irtbench.estimation.settings import FEWEST_RESPONDENTS, Device
from irtbench.models.item_parameters import ItemParameters

__all__ = [
    "NORMAL_OGIVE", "Exclusion", "PruneRules", "Pruning", "PruningRound", "Reason", "Removal",
    "constant_items", "prune",
]  # fmt: skip

SIGNIFICANT_MISFIT = 0.05  # p of M2 below which a scale may be rejected as a whole
MOST_ITEMS_EACH_ROUND = 60  # up to which M2 takes next to nothing, and is computed in every round
BETWEEN = f"not computed between the first round and the last of more than {MOST_ITEMS_EACH_ROUND} items"

Fit = Callable[[ResponseMatrix], FittedModel]
Refit = Callable[[ResponseMatrix, ItemParameters], FittedModel]
RefitMany = Callable[[Sequence[ResponseMatrix], ItemParameters], Sequence[FittedModel | None]]


@dataclass(frozen=True, eq=False)
class PruningRound(Shown):
    """The fit of one round and what was found in it.

    Parameters
    ----------
    number
        From 1 on.
    fitted
        The fit of the items left.
    item_fit, local_dependence, global_fit
        Its diagnostics; local dependence with the bootstrap's p where a rule asked for it.
    removals
        What left after this round; none in the last.
    runaway
        What left before it could be fitted: items whose slope grew without end.
    not_available
        A rule that could not be asked, and why; empty where all could.
    """

    number: int
    fitted: FittedModel
    item_fit: ItemFit
    local_dependence: LocalDependence
    global_fit: GlobalFit
    removals: tuple[Removal, ...]
    runaway: tuple[Removal, ...] = ()
    not_available: str = ""

    def items_table(self) -> pd.DataFrame:
        """One row an item: its parameters and its fit in this round, and why it left after it."""
        items = self.fitted.items
        slope = items.discrimination * self.fitted.population["sd"]
        h2 = slope**2 / (slope**2 + NORMAL_OGIVE**2)
        left = {removal.item_id: removal.reason for removal in self.removals}
        parameters = {
            "round": self.number,
            "item_id": items.item_ids,
            "discrimination": items.discrimination,
            "difficulty": items.difficulty,
            "guessing": items.guessing,
            **{f"se_{name}": items.standard_errors()[name] for name in ("discrimination", "difficulty", "guessing")},
            "communality": h2,
        }
        fits = self.item_fit.table().drop(columns=["item_id", "infit", "outfit"])
        return pd.DataFrame(parameters).join(fits).assign(removed=[left.get(item, "") for item in items.item_ids])

    def pairs_table(self) -> pd.DataFrame:
        """One row a pair: its local dependence in this round."""
        table = self.local_dependence.table().drop(columns=["q3", "q3_centred"])
        table.insert(0, "round", self.number)
        return table

    def table(self) -> pd.DataFrame:
        """The same as `items_table`."""
        return self.items_table()

    def in_short(self) -> str:
        """Which round, and what left in it."""
        left = describe_removals(list(self.removals))
        return f"number {self.number}, {counted(self.fitted.items.n_items, 'item')}, {left}"


@dataclass(frozen=True, eq=False)
class Pruning(Shown):
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
        Why the scale fails as a whole; None if it is retained.
    rules
        The rules applied.
    checks
        Models with two abilities and with guessing, of all items that can be fitted; None if the rules ask for none.
    """

    item_ids: tuple[str, ...]
    rounds: tuple[PruningRound, ...]
    removals: tuple[Removal, ...]
    fit_before: GlobalFit | None
    fit_after: GlobalFit | None
    rejected: str | None
    rules: PruneRules
    checks: ScaleChecks | None = None

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
        """Whether the items kept meet the rules' cut-offs for RMSEA, CFI and TLI."""
        after, rules = self.fit_after, self.rules
        return after is not None and bool(
            after.rmsea_lower < rules.good_rmsea and after.cfi > rules.good_cfi and after.tli > rules.good_tli
        )

    @property
    def not_available(self) -> str:
        """A rule that could not be asked of the items kept, and why; empty where all could."""
        return self.rounds[-1].not_available if self.rounds else ""

    def table(self) -> pd.DataFrame:
        """One row a removed item, columns of pruning.csv."""
        columns = ["round", "item_id", "reason", "statistic", "value", "p", "p_adjusted", "note"]
        return pd.DataFrame([vars(removal) for removal in self.removals], columns=columns)

    def rounds_items(self) -> pd.DataFrame:
        """Parameters and fit of every item in every round."""
        return pd.concat([r.items_table() for r in self.rounds], ignore_index=True) if self.rounds else pd.DataFrame()

    def rounds_pairs(self) -> pd.DataFrame:
        """Local dependence of every pair in every round."""
        return pd.concat([r.pairs_table() for r in self.rounds], ignore_index=True) if self.rounds else pd.DataFrame()

    def in_short(self) -> str:
        """How many items are kept, in how many rounds, or why none is."""
        given = counted(len(self.item_ids), "item")
        if self.rejected is not None:
            return f"{given}, rejected: {self.rejected}"
        return f"{len(self.kept)} of {given} kept, {counted(len(self.rounds), 'round')}"


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

    def close(self, finished: PruningRound) -> None:
        self.rounds.append(finished)
        self.drop([*finished.runaway, *finished.removals])


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
    **keywords: Any,
) -> Pruning:
    """Drop items by `rules` until none is found any more, with a new fit after every removal.

    Each round fits the items left and applies the first rule that finds something: slopes (all such items at once),
    item fit (the worst), local dependence (one item of the worst pair). The others wait for the next fit, since one bad
    item may be what makes another look bad; of many, several go together (`PruneRules.share_at_once`). Where they did,
    pruning ends as soon as fewer items are left than `PruneRules.min_share_kept`, for the scale is rejected then.

    With several trials of an item, k right of n, M2 is not known and rejects nothing, and the p of local dependence is
    that of the bootstrap whatever the rules say.

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`) of the items of one scale.
    fit
        Estimates the parameters of the items it is given; None for `fit_model`, a 2PL by marginal maximum likelihood.
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
    if responses.trials is not None:
        rules = rules.of_trials()
    fit = fit or fit_model
    known = set(responses.item_ids)
    unknown = [item for item in (*(e.item_id for e in rules.exclude), *rules.protect) if item not in known]
    if unknown:
        raise InputError(f"pruning: {name_first(unknown)} is not among the items of the scale")
    state = _State(list(responses.item_ids))
    state.drop([Removal(0, e.item_id, "excluded", note=e.reason) for e in rules.exclude])
    constant = constant_items(responses.select_items(state.items))
    if constant:
        progress(f"before any fit: {describe_removals(constant)}")
    state.drop(constant)
    checks, several_left = None, False
    finished = [] if checkpoint is None else checkpoint.load_rounds(PruningRound)
    while len(state.items) >= FEWEST_ITEMS:
        number = len(state.rounds) + 1
        data = responses.select_items(state.items).answered()
        if data.n_respondents < FEWEST_RESPONDENTS:
            return _finish(
                responses, state, rules, checks,
                f"only {data.n_respondents} respondents answered it, fewer than {FEWEST_RESPONDENTS}",
            )  # fmt: skip
        if number == 1 and rules.compare_factors:
            checks = None if checkpoint is None else checkpoint.load("checks", ScaleChecks)
            if checks is None:
                progress("one ability or two, and guessing")
                checks = check_scale(data, seed=seed, device=device)
                if checkpoint is not None and checks is not None:
                    checkpoint.save("checks", checks)
        if finished:
            state.close(finished.pop(0))
        else:
            most_runaway = _most_runaway(rules, responses.n_items) - sum(len(r.runaway) for r in state.rounds)
            state.close(
                _round(
                    number,
                    data,
                    fit,
                    refit,
                    refit_many,
                    rules,
                    groups or {},
                    seed,
                    state.rounds,
                    most_runaway,
                    progress,
                )
            )
            if checkpoint is not None:
                checkpoint.save(f"round_{number}", state.rounds[-1])
        found = list(state.rounds[-1].removals)
        progress(f"round {number}: {data.n_items} items, {describe_removals(found)}")
        several_left |= _several_by_misfit(found, rules)
        if several_left and _too_few_left(responses, state, rules):
            return _finish(responses, state, rules, checks, None)
        if not found:
            return _finish(
                responses, state, rules, checks, misfit_as_a_whole(state.rounds[0].global_fit, rules, checks)
            )
    return _finish(responses, state, rules, checks, f"fewer than {FEWEST_ITEMS} items are left")


def _round(
    number: int,
    data: ResponseMatrix,
    fit: Fit,
    refit: Refit | None,
    refit_many: RefitMany | None,
    rules: PruneRules,
    groups: Mapping[str, str],
    seed: int,
    before: list[PruningRound],
    most_runaway: int,
    progress: Callable[[str], None],
) -> PruningRound:
    """Fit the items left, diagnose, and apply the first rule that finds something."""
    fitted, data, runaway = _fit_without_runaway(number, data, fit, most_runaway)

    def again(sample: ResponseMatrix) -> FittedModel:
        return fit(sample) if refit is None else refit(sample, fitted.items)

    def many_again(samples: Sequence[ResponseMatrix]) -> list[ItemParameters | None]:
        assert refit_many is not None
        return [_items_if_converged(one) for one in refit_many(samples, fitted.items)]

    many = None if refit_many is None else many_again
    if runaway:
        progress(f"round {number}: {describe_removals(runaway)}")
    items, population = fitted.items, fitted.quadrature
    whole = GlobalFit.not_available(BETWEEN)
    if not before or items.n_items <= MOST_ITEMS_EACH_ROUND:
        whole = global_fit(data, items, quadrature=population)
    fits = item_fit(data, items, quadrature=population)
    pairs = local_dependence(data, items, quadrature=population)
    found: list[Removal] = []
    not_available = ""
    if misfit_as_a_whole(before[0].global_fit if before else whole, rules) is None:
        removable = Removable(list(items.item_ids), rules, groups)
        for rule in rules.order:
            if rule == "slope":
                found = flat_or_reversed(number, items, rules, removable, sd=fitted.population["sd"])
            elif rule == "item_fit":
                found = worst_fitting(number, fits, rules, removable)
            elif rule == "local_dependence" and rules.local_dependence_alpha is not None:
                if rules.local_dependence_p == "bootstrap":
                    try:
                        pairs = _bootstrapped(number, pairs, data, fitted, again, rules, groups, seed, progress, many)
                    except ArithmeticError as error:
                        not_available = str(error)
                        progress(f"round {number}: {not_available}")
                        continue
                found = most_dependent(number, pairs, rules, removable)
            if found:
                break
    if not found and whole.reason == BETWEEN:
        whole = global_fit(data, items, quadrature=population)
    return PruningRound(number, fitted, fits, pairs, whole, tuple(found), tuple(runaway), not_available)


def _bootstrapped(
    number: int,
    pairs: LocalDependence,
    data: ResponseMatrix,
    fitted: FittedModel,
    refit: Fit,
    rules: PruneRules,
    groups: Mapping[str, str],
    seed: int,
    progress: Callable[[str], None],
    refit_many: BootstrapRefits | None = None,
) -> LocalDependence:
    """Local dependence with as many samples of the bootstrap as tell what leaves.

    They end when more exceed the largest pair of the data than may if it is to be significant; after nineteen, where
    so many items are to leave that several leave together; and after 2 / alpha - 1 (39), where none exceeds it. The
    chance that a scale without a dependent pair loses one is then .052 at alpha = .05.
    """
    n_samples = rules.bootstrap_samples or samples_for(data.n_responses)
    alpha = rules.local_dependence_alpha
    assert alpha is not None

    def suffices(so_far: LocalDependence) -> bool:
        n, exceeding = so_far.bootstrap_samples, n_exceeding(so_far)
        if n == FEWEST_SAMPLES:
            removable = Removable(list(fitted.items.item_ids), rules, groups)
            n_to_leave = len(dependent_items(number, so_far, rules, removable))
            if int(rules.share_at_once * n_to_leave) > rules.at_once:
                return True
        if exceeding == 0:
            return n + 1 == round(2 / alpha)
        return (exceeding + 1) / (n_samples + 1) > alpha

    return with_bootstrap(
        pairs, data, fitted.items, _converged(refit) if refit_many is None else None, refit_many=refit_many,
        rng=np.random.default_rng([seed, number]), n_samples=n_samples, suffices=suffices, quadrature=fitted.quadrature,
        progress=lambda message: progress(f"round {number}: {message}"),
    )  # fmt: skip


def _several_by_misfit(found: list[Removal], rules: PruneRules) -> bool:
    """Whether a round removed more items for their misfit than it may where there are few."""
    return sum(removal.reason in ("item_fit", "local_dependence") for removal in found) > rules.at_once


def _too_few_left(responses: ResponseMatrix, state: _State, rules: PruneRules) -> bool:
    """Whether the scale is rejected for the number of items left."""
    share = len(state.items) / responses.n_items if responses.n_items else 0.0
    return rules.min_share_kept is not None and share < rules.min_share_kept


def _most_runaway(rules: PruneRules, n_items: int) -> int:
    """How many items may leave because their slope grows without end."""
    return max(1, int(rules.max_share_runaway * n_items)) if rules.max_share_runaway > 0 else 0


def _fit_without_runaway(
    number: int, data: ResponseMatrix, fit: Fit, most: int
) -> tuple[FittedModel, ResponseMatrix, list[Removal]]:
    """Fit, and as long as slopes grow without end, at most so many, fit again without their items."""
    fitted, gone = fit(data), list[Removal]()
    while found := runaway_slopes(number, fitted, data):
        gone_now = {removal.item_id for removal in found}
        rest = data.select_items([item for item in data.item_ids if item not in gone_now]).answered()
        if len(gone) + len(found) > most or rest.n_items < FEWEST_ITEMS or rest.n_respondents < FEWEST_RESPONDENTS:
            break
        gone += found
        data = rest
        fitted = fit(data)
    return fitted, data, gone


def _converged(fit: Fit) -> Callable[[ResponseMatrix], ItemParameters | None]:
    """Parameters of a fit that converged; None otherwise."""

    def refit(sample: ResponseMatrix) -> ItemParameters | None:
        return _items_if_converged(fit(sample))

    return refit


def _items_if_converged(fitted: FittedModel | None) -> ItemParameters | None:
    return fitted.items if fitted is not None and fitted.converged else None


def _finish(
    responses: ResponseMatrix, state: _State, rules: PruneRules, checks: ScaleChecks | None, rejected: str | None
) -> Pruning:
    if rejected is None and _too_few_left(responses, state, rules):
        rejected = (
            f"only {len(state.items)} of {responses.n_items} items survive, fewer than {rules.min_share_kept:.0%}"
        )
    rounds = tuple(state.rounds)
    before = rounds[0].global_fit if rounds else None
    after = rounds[-1].global_fit if rounds and not rounds[-1].removals else None
    return Pruning(responses.item_ids, rounds, tuple(state.removals), before, after, rejected, rules, checks)


def misfit_as_a_whole(before: GlobalFit, rules: PruneRules, checks: ScaleChecks | None = None) -> str | None:
    """Say why one ability does not fit all the items, and whether two do, or None if one does."""
    failures = _failures(before, rules)
    if not failures:
        return None
    verdict = "one ability does not fit its items: " + ", ".join(failures)
    if checks is None:
        return verdict
    two = checks.fit_of_two
    if two.reason:
        return f"{verdict}; of two abilities it cannot be said: {two.reason}"
    words = "two abilities do not either" if _failures(two, rules) else "two abilities would"
    return f"{verdict}; {words} (CFI {two.cfi:.3f}, TLI {two.tli:.3f})"


def _failures(whole: GlobalFit, rules: PruneRules) -> list[str]:
    """Cut-offs of the rules that a global fit misses, in words; none where it is unknown or not significantly bad."""
    if not whole.p < SIGNIFICANT_MISFIT:
        return []
    return [
        f"{name} {value:.3f} < {limit:.2f}"
        for name, value, limit in (("CFI", whole.cfi, rules.min_cfi), ("TLI", whole.tli, rules.min_tli))
        if limit is not None and value < limit
    ]
