"""What ``irtbench bias`` says of the whole test: expected scores by group, and abilities without the items flagged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from irtbench.cli.output import say, write_table
from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first

if TYPE_CHECKING:
    from irtbench.analysis.bias_of_test import DifferentialTestFunctioning
    from irtbench.data.responses import ResponseMatrix
    from irtbench.estimation.multiple_groups import GroupedModel
    from irtbench.estimation.settings import FitSettings
    from irtbench.report.blocks import Block
    from irtbench.scoring.leaving_out import EffectOfLeavingOut

FILES = ("test_bias.csv", "test_curves.csv", "ability_change.csv")
FIGURES = ("item_curves.svg", "test_curves.svg", "item_differences.svg")
MOST_ITEMS = 1_000  # of whose parameters the joint covariance is computed; of more there are no intervals


@dataclass(frozen=True)
class BiasEffect:
    """What the items flagged do to the test, where that can be said.

    Parameters
    ----------
    items
        The items flagged, the worst first.
    grouped
        The fit with these items free.
    test
        Expected scores by group.
    abilities
        With and without the items.
    """

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

    def write(self, folder: Path) -> None:
        """The tables."""
        for name, table in zip(
            FILES, (self.test.table(), self.test.curves_table(), self.abilities.table()), strict=True
        ):
            write_table(table, folder / name)

    def figures(self, *, apart: bool = False) -> list[Block]:
        """Curves of the items by group, in one file or apart, and expected scores."""
        from irtbench.report.check_figures import effect_figures

        return effect_figures(self.items, self.grouped, self.test, apart=apart)

    def tell(self) -> None:
        """Print it in a few lines."""
        if not self.grouped.converged:
            say(f"the fit with the items that differ free did not converge: {self.grouped.status}")
        test = self.test.table()
        for row in test[test["over"] == "group"].to_dict("records"):
            say(
                f"on the whole test, equally able {row['group']} score {row['signed']:+.2f} of {row['n_items']} points "
                f"({row['signed_lower']:+.2f} to {row['signed_upper']:+.2f}) against {self.test.groups[0]}; "
                f"up or down {row['unsigned']:.2f} ({row['unsigned_lower']:.2f} to {row['unsigned_upper']:.2f})"
            )
        for row in self.abilities.by_group().to_dict("records"):
            say(
                f"without the items that differ, ability of {row['group']} changes by {row['mean_change']:+.2f} "
                f"(standard error {row['se_mean_change']:.2f}) and {row['mean_percentile_change']:+.1f} percentiles; "
                f"most by {row['largest_change']:+.2f} ({row['largest_of']})"
            )


def effect_on_test(
    data: ResponseMatrix,
    groups: Sequence[str],
    flagged: Sequence[str],
    *,
    reference: str,
    settings: FitSettings,
    seed: int,
) -> BiasEffect:
    """Fit the groups with the items flagged free, and say what these do to scores and abilities.

    Raises
    ------
    InputError
        If the fit cannot be made: a group answered an item flagged all alike, or all items are flagged.
    """
    from irtbench.analysis.bias_of_test import differential_test_functioning
    from irtbench.estimation.multiple_groups import fit_groups
    from irtbench.scoring.leaving_out import leave_items_out

    settings = replace(settings, standard_errors=data.n_items <= MOST_ITEMS)
    grouped = fit_groups(data, groups, settings, reference=reference, free_items=flagged, seed=seed)
    return BiasEffect(
        tuple(flagged),
        grouped,
        differential_test_functioning(grouped, rng=np.random.default_rng(seed)),
        leave_items_out(data, grouped.items[0], flagged, groups=groups),
    )


def varied_in_all(data: ResponseMatrix, groups: Sequence[str], items: Sequence[str]) -> list[str]:
    """Those of the items that no group answered all alike."""
    labels = np.asarray(groups, dtype=object)
    varied = np.ones(len(items), dtype=np.bool_)
    for group in dict.fromkeys(groups):
        own = data.select_respondents(labels == group).select_items(items)
        varied &= (own.n_correct_by_item > 0) & (own.n_correct_by_item < own.n_by_item)
    return [item for item, both in zip(items, varied, strict=True) if both]


def effect_or_reason(
    data: ResponseMatrix,
    groups: Sequence[str],
    flagged: Sequence[str],
    *,
    reference: str,
    settings: FitSettings,
    seed: int,
) -> tuple[BiasEffect | None, str]:
    """The effect of the items flagged, and what cannot be said of it and why."""
    if not flagged:
        return None, ""
    varied = varied_in_all(data, groups, flagged)
    alike = [item for item in flagged if item not in varied]
    reason = f"answered all alike by a group, and not in it: {name_first(alike)}" if alike else ""
    if not varied:
        return None, reason
    others = data.select_items([item for item in data.item_ids if item not in alike])
    try:
        return effect_on_test(others, groups, varied, reference=reference, settings=settings, seed=seed), reason
    except InputError as error:
        return None, str(error)
