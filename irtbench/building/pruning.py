"""Remove misfitting items, one reason each, until nothing more is found: fit, diagnose, drop, again.

The preset ``lalor2016`` is the procedure of Lalor, Wu & Yu (2016), section 3.3: one ability or two, is guessing
needed; then items that discriminate too little or negatively go, then the item with the worst S-X2, one at a time,
then one item of the worst locally dependent pair, one at a time, with a new fit after each. A scale may fail as a
whole, and that is a result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Unpack

import numpy as np

from irtbench.analysis.parallel_analysis import parallel_analysis, why_not_counted
from irtbench.building.checkpoint import Checkpoint
from irtbench.building.prune_rules import FEWEST_ITEMS, PruneKeywords, PruneRules
from irtbench.building.pruned import Pruning, PruningRound, misfit_as_a_whole
from irtbench.building.pruning_round import Fit, Refit, RefitMany, prune_once
from irtbench.building.removals import Removal, constant_items, describe_removals
from irtbench.building.scale_checks import ScaleChecks, check_scale
from irtbench.data.checked_settings import shows_fields, with_keywords
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.estimation.fit import fit_model
from irtbench.estimation.settings import FEWEST_RESPONDENTS, Device

MISFIT = ("item_fit", "local_dependence")  # reasons for which items leave that follow the model badly
MANY_RESPONDENTS = 5_000  # from which on tests of fit find departures that matter little


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
    if responses.trials is not None or not responses.is_complete:
        rules = rules.by_bootstrap()
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

    def compared(data: ResponseMatrix) -> ScaleChecks | None:
        progress("one ability or two, and guessing")
        return check_scale(data, seed=seed, device=device)

    checkpoint = checkpoint or Checkpoint(None, "")
    finished = checkpoint.load_rounds(PruningRound)
    while len(state.items) >= FEWEST_ITEMS:
        number = len(state.rounds) + 1
        data = responses.select_items(state.items).answered()
        if data.n_respondents < FEWEST_RESPONDENTS:
            return _finish(
                responses, state, rules, checks,
                f"only {data.n_respondents} respondents answered it, fewer than {FEWEST_RESPONDENTS}",
            )  # fmt: skip
        if number == 1 and rules.compare_factors:
            checks = checkpoint.once("checks", ScaleChecks, partial(compared, data))
        if finished:
            state.close(finished.pop(0))
        else:
            most_runaway = _most_runaway(rules, responses.n_items) - sum(len(r.runaway) for r in state.rounds)
            state.close(
                prune_once(
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
            checkpoint.save(f"round_{number}", state.rounds[-1])
        found = list(state.rounds[-1].removals)
        progress(f"round {number}: {data.n_items} items, {describe_removals(found)}")
        several_left |= _several_by_misfit(found, rules)
        if several_left and _too_few_left(responses, state, rules):
            return _finish(responses, state, rules, checks, None)
        if rejected := _more_than_pairs(responses, state, rules, checks):
            return _finish(responses, state, rules, checks, rejected)
        if not found:
            rejected = misfit_as_a_whole(state.rounds[-1].global_fit, rules, checks)
            rejected = rejected or _several_abilities_left(data, state, rules, checks, seed)
            return _finish(responses, state, rules, checks, rejected)
    return _finish(responses, state, rules, checks, f"fewer than {FEWEST_ITEMS} items are left")


def _several_by_misfit(found: list[Removal], rules: PruneRules) -> bool:
    """Whether a round removed more items for their misfit than it may where there are few."""
    return sum(removal.reason in MISFIT for removal in found) > rules.at_once


def _more_than_pairs(
    responses: ResponseMatrix, state: _State, rules: PruneRules, checks: ScaleChecks | None
) -> str | None:
    """Say why one ability does not fit the items given, if more have to leave than a few bad items and pairs."""
    leaving = sum(removal.round > 0 for removal in state.removals)
    if leaving <= rules.max_share_bad * responses.n_items:
        return None
    verdict = misfit_as_a_whole(state.rounds[0].global_fit, rules, checks)
    return verdict and f"{verdict}; {leaving} items would have to leave, more than {rules.max_share_bad:.0%}"


def _several_abilities_left(
    data: ResponseMatrix, state: _State, rules: PruneRules, checks: ScaleChecks | None, seed: int
) -> str | None:
    """Say why one ability did not fit the items given, if parallel analysis still counts several in what is left.

    With few respondents the fit of two abilities passes once those items are gone that show it most.
    """
    verdict = misfit_as_a_whole(state.rounds[0].global_fit, rules, checks)
    if verdict is None or why_not_counted(data):
        return None
    number = parallel_analysis(data, rng=np.random.default_rng(seed)).n_abilities
    return None if number < 2 else f"{verdict}; without those that left parallel analysis counts {number} abilities"


def _too_few_left(responses: ResponseMatrix, state: _State, rules: PruneRules) -> bool:
    """Whether the scale is rejected for the number of items left."""
    share = len(state.items) / responses.n_items if responses.n_items else 0.0
    return rules.min_share_kept is not None and share < rules.min_share_kept


def _most_runaway(rules: PruneRules, n_items: int) -> int:
    """How many items may leave because their slope grows without end."""
    return max(1, int(rules.max_share_runaway * n_items)) if rules.max_share_runaway > 0 else 0


def _may_be_the_population(state: _State) -> str:
    """Another possible cause of the removals, or an empty string.

    With many respondents abilities that are not normal make items look misfitting, above all dependent.
    """
    by_misfit = sum(removal.reason in MISFIT for removal in state.removals)
    fitted = state.rounds[0].fitted if state.rounds else None
    if fitted is None or fitted.estimated_population is not None or 2 * by_misfit < len(state.removals):
        return ""
    n = fitted.n_respondents
    if n < MANY_RESPONDENTS:
        return ""
    return f"; with {n:,} respondents a population that is not normal may be why: try population estimated"


def _finish(
    responses: ResponseMatrix, state: _State, rules: PruneRules, checks: ScaleChecks | None, rejected: str | None
) -> Pruning:
    if rejected is None and _too_few_left(responses, state, rules):
        rejected = (
            f"only {len(state.items)} of {responses.n_items} items survive, fewer than {rules.min_share_kept:.0%}"
            f"{_may_be_the_population(state)}"
        )
    rounds = tuple(state.rounds)
    before = rounds[0].global_fit if rounds else None
    after = rounds[-1].global_fit if rounds and not rounds[-1].removals else None
    return Pruning(responses.item_ids, rounds, tuple(state.removals), before, after, rejected, rules, checks)
