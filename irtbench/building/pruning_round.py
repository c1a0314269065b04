"""One round of pruning: fit the items left, diagnose, and apply the first rule that finds something."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from irtbench.analysis.dependence_bootstrap import (
    FEWEST_SAMPLES,
    n_exceeding,
    samples_for,
    with_bootstrap,
)
from irtbench.analysis.dependence_bootstrap import RefitMany as BootstrapRefits
from irtbench.building.prune_rules import FEWEST_ITEMS, PruneRules
from irtbench.building.pruned import PruningRound
from irtbench.building.removals import (
    Removable,
    Removal,
    dependent_items,
    describe_removals,
    flat_or_reversed,
    most_dependent,
    runaway_slopes,
    worst_fitting,
)
from irtbench.building.scale_checks import slopes_beside_guessing
from irtbench.data.responses import ResponseMatrix
from irtbench.diagnostics.global_fit import GlobalFit, global_fit
from irtbench.diagnostics.item_fit import item_fit
from irtbench.diagnostics.local_dependence import LocalDependence, local_dependence
from irtbench.estimation.fitted import FittedModel
from irtbench.estimation.settings import FEWEST_RESPONDENTS
from irtbench.models.item_parameters import ItemParameters

MOST_ITEMS_EACH_ROUND = 60  # up to which M2 takes next to nothing, and is computed in every round
MOST_ITEMS_IN_PAIRS = 2_000
TOO_MANY_PAIRS = (
    "local dependence is not tested: {:,} items have {:,} pairs; items leave for their slope and their own fit alone"
)
BETWEEN = f"not computed between the first round and the last of more than {MOST_ITEMS_EACH_ROUND} items"

Fit = Callable[..., FittedModel]  # of a ResponseMatrix; of very many items with their ``start``, if it takes one
Refit = Callable[[ResponseMatrix, ItemParameters], FittedModel]
RefitMany = Callable[[Sequence[ResponseMatrix], ItemParameters], Sequence[FittedModel | None]]


def prune_once(
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
    starts = data.n_items > MOST_ITEMS_IN_PAIRS and "start" in inspect.signature(fit).parameters
    near = before[-1].fitted.items if before and starts else None
    fitted, data, runaway = _fit_without_runaway(number, data, fit, most_runaway, near)

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
    testable = items.n_items <= MOST_ITEMS_IN_PAIRS  # and a 3PL of all items is fitted in sensible time
    pairs = local_dependence(data, items, quadrature=population) if testable else LocalDependence.none()
    found: list[Removal] = []
    not_available, guessing = "", before[-1].guessing if before else 0.0
    removable = Removable(list(items.item_ids), rules, groups)
    for rule in rules.order:
        if rule == "slope":
            sd = fitted.population["sd"]
            found = flat_or_reversed(number, items, rules, removable, sd=sd)
            flat = any(removal.reason == "low_communality" for removal in found)
            if flat and testable and (third := slopes_beside_guessing(data, fitted, guessing)) is not None:
                removable = Removable(list(items.item_ids), rules, groups)
                beside = flat_or_reversed(number, items, rules, removable, beside_guessing=third[0], sd=sd)
                if [removal.item_id for removal in beside] != [removal.item_id for removal in found]:
                    found, guessing = beside, third[1]  # said only where it keeps an item
                    progress(f"round {number}: guessing of about {guessing:g}; slopes are judged by a 3PL")
        elif rule == "item_fit":
            found = worst_fitting(number, fits, rules, removable)
        elif rule == "local_dependence" and rules.local_dependence_alpha is not None and not testable:
            not_available = TOO_MANY_PAIRS.format(items.n_items, items.n_items * (items.n_items - 1) // 2)
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
    return PruningRound(number, fitted, fits, pairs, whole, tuple(found), tuple(runaway), not_available, guessing)


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


def _fit_without_runaway(
    number: int, data: ResponseMatrix, fit: Fit, most: int, near: ItemParameters | None
) -> tuple[FittedModel, ResponseMatrix, list[Removal]]:
    """Fit, from items near by if there are any, and without those whose slopes grow without end, at most so many."""
    fitted, gone = fit(data) if near is None else fit(data, start=near.select(data.item_ids)), list[Removal]()
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
