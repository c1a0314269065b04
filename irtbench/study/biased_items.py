"""Items compared between groups of people, or for systems with people: which differ, and what they do to the test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import pandas as pd

from irtbench.analysis.bias_by_score import MantelHaenszel, ScoreRegression, mantel_haenszel, score_regression
from irtbench.analysis.bias_of_test import DifferentialTestFunctioning, differential_test_functioning
from irtbench.analysis.item_bias import comparable_in_categories, comparable_items, item_bias
from irtbench.analysis.item_shifts import ItemShifts, ShiftControl, item_shifts, shift_control
from irtbench.building.prune_rules import without_constant
from irtbench.data.input_error import InputError, refuse_any
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.estimation.multiple_groups import GroupedModel, fit_groups
from irtbench.estimation.settings import FitSettings
from irtbench.models.coded_scores import CodedScores
from irtbench.models.item_parameters import ItemParameters
from irtbench.scoring.ability_comparison import EffectOfLeavingOut, leave_items_out

MOST_ITEMS = 1_000  # of whose parameters the joint covariance is computed; of more there are no intervals
Method = Literal["likelihood", "likelihood_ratio", "logistic", "mantel-haenszel"]

SCORE_IS_NOT_ABILITY = (
    "a sum score represents ability only where items discriminate alike: between groups of unequal ability clean items "
    "are flagged too often, the more the larger the groups; confirm with --method likelihood"
)


@dataclass(frozen=True)
class HowTested:
    """How each item is tested."""

    method: Method
    by_score: bool
    purify: bool
    continuity: bool
    alpha: float
    adjustment: Literal["fdr_bh", "holm"]
    settings: FitSettings
    model: str | None = None
    levels: tuple[str, ...] | None = None


@dataclass(frozen=True)
class BiasEffect:
    """What the items flagged do to the test, where that is known."""

    items: tuple[str, ...]
    grouped: GroupedModel
    test: DifferentialTestFunctioning
    abilities: EffectOfLeavingOut

    def about(self) -> dict[str, Any]:
        """What bias.json says of it."""
        return {
            "test": self.test.table(),
            "leaving_out": self.abilities.by_group(),
            "test_converged": self.grouped.converged,
        }

    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables, by name of their file."""
        return {
            "test_bias.csv": self.test.table(),
            "test_curves.csv": self.test.curves_table(),
            "ability_change.csv": self.abilities.table(),
        }


@dataclass(frozen=True, eq=False)
class ComparedItems:
    """Items tested between groups; `about` is what bias.json says."""

    names: tuple[str, ...]
    items: pd.DataFrame
    about: dict[str, Any]
    effect: BiasEffect | None


@dataclass(frozen=True, eq=False)
class Compared:
    """Responses, or grades, of the groups compared to the items that can be, and the items that cannot."""

    names: tuple[str, ...]
    data: ResponseMatrix | CodedScores
    groups: list[str]
    item_ids: list[str]
    left_out: list[str]

    @classmethod
    def of(
        cls,
        given: ResponseMatrix | pd.DataFrame,
        group_of: Mapping[str, str],
        named: tuple[str | None, str | None],
        how: HowTested,
    ) -> Compared:
        """The respondents of the groups that are compared, of which the reference and the focal one may be named."""
        respondents = tuple(given.index if isinstance(given, pd.DataFrame) else given.respondent_ids)
        items = given.columns if isinstance(given, pd.DataFrame) else given.item_ids
        names = compared_groups(group_of, respondents, *named, any_number=how.by_score)
        there = np.array([group_of.get(r) in names for r in respondents])
        groups = [group_of[r] for r in respondents if group_of.get(r) in names]
        members = [np.array(groups, dtype=object) == name for name in names]
        data: ResponseMatrix | CodedScores
        if isinstance(given, pd.DataFrame):
            data = CodedScores.of(given[there], levels=how.levels)
            kept = [*comparable_in_categories(data, members)]
        else:
            data = given.select_respondents(there)
            in_all = [set(comparable_items(data, own)) for own in members[1:]]
            kept = [item for item in data.item_ids if all(item in comparable for comparable in in_all)]
        return cls(names, data.select_items(kept), groups, kept, sorted(set(items) - set(kept)))

    def sizes(self) -> str:
        """How many respondents of each group."""
        return ", ".join(f"{self.groups.count(name)} {name}" for name in self.names)


def compare_items(of: Compared, how: HowTested, *, seed: int, progress: Callable[[str], None]) -> ComparedItems:
    """Test each item, and say what those that differ do to the test."""
    items, about = tested_items(of, how, progress)
    flagged = list(items["item_id"][items["p_adjusted"] < how.alpha])
    worst_first = [item for item in items.sort_values("p", kind="stable")["item_id"] if item in set(flagged)]
    effect, why_not = effect_or_reason(of, worst_first, how.settings, seed)
    about |= {"flagged": flagged, "items_left_out": of.left_out} | ({} if effect is None else effect.about())
    return ComparedItems(of.names, items, about | ({"test_not_available": why_not} if why_not else {}), effect)


def tested_items(of: Compared, how: HowTested, progress: Callable[[str], None]) -> tuple[pd.DataFrame, dict[str, Any]]:
    """A row an item, and what bias.json says of the comparison."""
    together: dict[str, Any] = {"purify": how.purify, "alpha": how.alpha, "adjustment": how.adjustment}
    if how.method == "mantel-haenszel":
        by_tables = mantel_haenszel(of.data, of.groups, reference=of.names[0], continuity=how.continuity, **together)
        return by_tables.table(), about_scores(by_tables, how.method)
    if how.by_score:
        regressed = score_regression(
            of.data, of.groups, reference=of.names[0], in_categories=how.model is not None, levels=how.levels,
            **together,
        )  # fmt: skip
        return regressed.table(), about_scores(regressed, how.method)
    result = item_bias(
        of.data, np.array(of.groups, dtype=object) == of.names[1], settings=how.settings,
        method="logistic" if how.method == "logistic" else "likelihood_ratio", models=how.model, levels=how.levels,
        **together,
    )  # fmt: skip
    if not result.status.converged:
        progress(f"the fit with the last anchors did not converge: {result.status}")
    about = {
        "reference": of.names[0],
        "focal": of.names[1],
        "n_reference": result.sizes[0],
        "n_focal": result.sizes[1],
        "method": result.method,
        "match": "ability",
        "prior": how.settings.priors.describe(),
        "converged": result.status.converged,
        "stopped_because": str(result.status),
        "focal_mean": result.focal_mean,
        "focal_sd": result.focal_sd,
        "rounds": result.rounds,
        "model": how.model or how.settings.kind,
    }
    return result.table(), about | ({"categories_merged": list(result.merged)} if result.merged else {})


def about_scores(result: MantelHaenszel | ScoreRegression, method: str) -> dict[str, Any]:
    """What bias.json says of a comparison at the same score."""
    return {
        "reference": next(iter(result.groups)),
        "groups": result.groups,
        "method": method,
        "match": "score",
        "caution": SCORE_IS_NOT_ABILITY,
        "n_left_out": result.n_left_out,
        "rounds": result.rounds,
        "settled": result.settled,
    }


def compared_groups(
    group_of: Mapping[str, str],
    respondent_ids: Iterable[str],
    reference: str | None,
    focal: str | None,
    *,
    any_number: bool,
) -> tuple[str, ...]:
    """Names of the groups among the respondents, the reference first: two, or all where any number may be compared.

    The reference is the largest unless named, and of two the smaller is focal.
    """
    sizes = Counter(group_of[r] for r in respondent_ids if r in group_of)
    named_groups = [name for name in (reference, focal) if name is not None]
    known = ", ".join(sorted(sizes))
    refuse_any(
        (name not in sizes, f"--groups: no respondent is in group {name}; expected one of {known}")
        for name in named_groups
    )
    if focal is None and any_number and len(sizes) > 2:
        first = reference or max(sizes, key=lambda name: sizes[name])
        return (first, *sorted(name for name in sizes if name != first))
    others = [name for name, _ in sorted(sizes.items(), key=lambda entry: -entry[1]) if name not in named_groups]
    refuse_any((
        (len(set(named_groups)) < len(named_groups) or len(others) + len(named_groups) < 2,
         "--groups: expected respondents of two groups but all are in one"),
        (len(named_groups) < 2 and len(sizes) > 2,
         f"--groups: {len(sizes)} groups; say which two with --reference and --focal"),
    ))  # fmt: skip
    return reference or others[0], focal or others[-1]


def effect_or_reason(
    of: Compared, flagged: Sequence[str], settings: FitSettings, seed: int
) -> tuple[BiasEffect | None, str]:
    """The effect of the items flagged, and what is not known of it and why."""
    if not flagged:
        return None, ""
    if isinstance(of.data, CodedScores):
        return None, "of grades it is not known; items by group are in bias.csv"
    each = [of.data.select_respondents(np.array(of.groups, dtype=object) == name) for name in of.names]
    some_differ = [set(without_constant(own.select_items(flagged)).item_ids) for own in each]
    varied = [item for item in flagged if all(item in own for own in some_differ)]
    alike = [item for item in flagged if item not in varied]
    reason = f"answered all alike by a group, and not in it: {name_first(alike)}" if alike else ""
    if not varied:
        return None, reason
    data = of.data.select_items([item for item in of.data.item_ids if item not in alike])
    settings = replace(settings, standard_errors=data.n_items <= MOST_ITEMS)
    try:
        grouped = fit_groups(data, of.groups, settings, reference=of.names[0], free_items=varied, seed=seed)
        test = differential_test_functioning(grouped, rng=np.random.default_rng(seed))
        left = leave_items_out(data, grouped.items[0], varied, groups=of.groups)
    except InputError as error:
        return None, str(error)
    return BiasEffect(tuple(varied), grouped, test, left), reason


@dataclass(frozen=True, eq=False)
class ShiftedItems:
    """Shifts of items, items that are not in the bank, and the negative control if there is one."""

    shifts: ItemShifts
    left_out: list[str]
    control: ShiftControl | None = None

    def controlled(self, people: ResponseMatrix, items: ItemParameters, **how: Any) -> Self:
        """The same with the negative control, in which groups of people take the systems' place (`shift_control`)."""
        refusal = "--control: none of the items that the systems answered; expected them"
        own, _ = shared(people, self.shifts.item_ids, refusal)
        return replace(self, control=shift_control(own, items, self.shifts, **how))

    def about(self) -> dict[str, Any]:
        """What bias.json says of it."""
        found, control = self.shifts, self.control
        about: dict[str, Any] = {
            "method": "random_effects",
            "n_systems": len(found.system_ids),
            "n_items": len(found.item_ids),
            "tau": found.tau,
            "tau_lower": found.tau_lower,
            "tau_upper": found.tau_upper,
            "x2_tau": found.x2,
            "p_tau": found.p_tau,
            "n_families": len(set(found.families)) if found.families else None,
            "family_sd": found.omega,
            "ability_mean": float(found.theta.mean()),
            "ability_sd": float(found.theta.std(ddof=1)),
        }
        if control is not None:
            about["control"] = {
                "n_groups": int(control.tau.size),
                "mean_tau": float(control.tau.mean()),
                "largest_tau": float(control.tau.max()),
                "groups_with_p_tau_below_05": int((control.p_tau < 0.05).sum()),
                "groups_with_an_item_flagged": int((control.n_flagged > 0).sum()),
                "p": control.p,
            }
        return about


def shifted_items(
    given: ResponseMatrix, items: ItemParameters, family_of: Mapping[str, str] | None, *,
    adjustment: Literal["fdr_bh", "holm"], rng: np.random.Generator, progress: Callable[[str], None],
) -> ShiftedItems:  # fmt: skip
    """Each item's shift for the systems, a random effect, given what is known of the items."""
    data, left_out = shared(given, items.item_ids, "--bank: none of its items is among the responses; expected some")
    if data.trials is not None:
        raise InputError(
            "--bank: several trials of an item; expected one response of each system (--trials first or majority)"
        )
    families = None if family_of is None else [family_of.get(system, system) for system in data.respondent_ids]
    progress(f"{data.n_respondents} systems, {data.n_items} items")
    if items.covariance is None:
        progress("the bank has no covariance of its items: their error counts as shift (bank.json has it)")
    return ShiftedItems(item_shifts(data, items, families=families, adjustment=adjustment, rng=rng), left_out)


def shared(given: ResponseMatrix, item_ids: Sequence[str], refusal: str) -> tuple[ResponseMatrix, list[str]]:
    """The responses to these items, and the others' names."""
    known = [item for item in given.item_ids if item in set(item_ids)]
    if not known:
        raise InputError(refusal)
    return given.select_items(known), sorted(set(given.item_ids) - set(known))
