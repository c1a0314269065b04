"""A few systems against the people on whom a bank stands: which items shift for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from irtbench.analysis.item_shifts import ItemShifts, ShiftControl, item_shifts, shift_control
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.models.item_parameters import ItemParameters


@dataclass(frozen=True)
class PeopleInTheirPlace:
    """The negative control: people, how many groups of them take the systems' place, and when an item is flagged."""

    responses: ResponseMatrix
    n_groups: int
    alpha: float


@dataclass(frozen=True, eq=False)
class ShiftedItems:
    """Shifts of items, the negative control, and items that are not in the bank."""

    shifts: ItemShifts
    control: ShiftControl | None
    left_out: list[str]

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
    given: ResponseMatrix, items: ItemParameters, family_of: Mapping[str, str] | None,
    people: PeopleInTheirPlace | None, *, adjustment: Literal["fdr_bh", "holm"],
    rng: np.random.Generator, progress: Callable[[str], None],
) -> ShiftedItems:  # fmt: skip
    """Each item's shift for the systems, a random effect, beside what is known of the items.

    Raises
    ------
    InputError
        If the systems, or the people of the control, answered none of the items, or items several times.
    """
    data, left_out = shared(given, items.item_ids, "--bank: none of its items is among the responses; expected some")
    if data.trials is not None:
        raise InputError(
            "--bank: several trials of an item; expected one response of each system (--trials first or majority)"
        )
    families = None if family_of is None else [family_of.get(system, system) for system in data.respondent_ids]
    progress(f"{data.n_respondents} systems, {data.n_items} items")
    if items.covariance is None:
        progress("the bank has no covariance of its items: their error counts as shift (bank.json has it)")
    found = item_shifts(data, items, families=families, adjustment=adjustment, rng=rng)
    control = None
    if people is not None:
        refusal = "--control: none of the items that the systems answered; expected them"
        own, _ = shared(people.responses, found.item_ids, refusal)
        control = shift_control(
            own, items, found, n_groups=people.n_groups, alpha=people.alpha, rng=rng, progress=progress
        )
    return ShiftedItems(found, control, left_out)


def shared(given: ResponseMatrix, item_ids: Sequence[str], refusal: str) -> tuple[ResponseMatrix, list[str]]:
    """The responses to these items, and the others' names."""
    known = [item for item in given.item_ids if item in set(item_ids)]
    if not known:
        raise InputError(refusal)
    return given.select_items(known), sorted(set(given.item_ids) - set(known))
