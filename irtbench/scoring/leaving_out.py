"""What leaving items out does to ability and percentile: of each respondent, and of groups (NumPy only)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.given import ResponsesLike
from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first
from irtbench.data.shown import Shown, counted
from irtbench.models.parameter_table import ParametersLike, responses_and_items
from irtbench.models.theta_posterior import known_items
from irtbench.scoring.ability import Abilities, Method, estimate_ability
from irtbench.scoring.percentiles import percentiles


@dataclass(frozen=True, eq=False)
class EffectOfLeavingOut(
    Shown,
    columns="respondent_ids=all_items.respondent_ids, group=groups, theta=all_items.theta, "
    "se=all_items.standard_error, theta_without=without.theta, se_without=without.standard_error, change, "
    "percentile, percentile_without, percentile_change, n_items=all_items.n_items, "
    "n_items_without=without.n_items",
):
    """Ability and percentile with all items and without some.

    Its table has one row a respondent, the columns of ability_change.csv.

    Parameters
    ----------
    left_out
        The items that are left out.
    groups
        The group of each respondent.
    all_items, without
        Abilities by all items, and without those left out.
    percentile, percentile_without
        Share of a standard normal population below, shape (n_respondents,).
    """

    left_out: tuple[str, ...]
    groups: tuple[str, ...]
    all_items: Abilities
    without: Abilities
    percentile: NDArray[np.float64]
    percentile_without: NDArray[np.float64]

    @property
    def change(self) -> NDArray[np.float64]:
        """Ability without the items less that with all, shape (n_respondents,); NaN where no answer is left."""
        return self.without.theta - self.all_items.theta

    @property
    def percentile_change(self) -> NDArray[np.float64]:
        """The same of percentiles."""
        return self.percentile_without - self.percentile

    def by_group(self) -> pd.DataFrame:
        """One row a group: mean change with its standard error, the largest and whose it is, and of percentiles."""
        table = self.table()
        table = table[table["change"].notna()]
        rows = []
        for group, own in table.groupby("group", sort=False):
            furthest = own.iloc[int(np.argmax(np.abs(own["change"].to_numpy())))]
            rows.append(
                {
                    "group": group,
                    "n_respondents": len(own),
                    "mean_change": own["change"].mean(),
                    "se_mean_change": own["change"].sem(),
                    "largest_change": furthest["change"],
                    "largest_of": furthest["respondent_id"],
                    "mean_percentile_change": own["percentile_change"].mean(),
                    "largest_percentile_change": max(own["percentile_change"], key=abs),
                }
            )
        return pd.DataFrame(rows)

    def in_short(self) -> str:
        """Mean change of each group."""
        found = ", ".join(f"{row['group']} {row['mean_change']:+.2f}" for row in self.by_group().to_dict("records"))
        return f"{counted(len(self.left_out), 'item')} left out, mean change of theta: {found}"


def leave_items_out(
    responses: ResponsesLike,
    items: ParametersLike,
    left_out: Collection[str],
    *,
    groups: Sequence[str] | None = None,
    method: Method = "wle",
) -> EffectOfLeavingOut:
    """Ability and percentile of each respondent with all items and without some, such as biased ones.

    By Warm's estimates by default: a prior would draw abilities to the middle, and more so with fewer items, which
    would look like an effect of the items left out.

    Parameters
    ----------
    responses
        Graded responses.
    items
        Parameters of at least the items of the responses; of biased items those in the group whose scale is to hold.
    left_out
        Items of the responses to leave out, not all of them.
    groups
        The group of each respondent; None for one group of all.
    method
        The estimator, see `estimate_ability`.

    Raises
    ------
    InputError
        If an item to leave out is not among the responses, none or all are to be left out, or the groups are not one a
        respondent.

    Examples
    --------
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([1.0] * 5, [-1.0, -0.5, 0.0, 0.5, 1.0])
    >>> responses = [[1, 1, 0, 0, 0], [1, 0, 1, 1, 0], [1, 1, 1, 0, 1]]
    >>> found = irtbench.leave_items_out(responses, items, ["item3"], groups=["people", "machine", "machine"])
    >>> found.by_group()[["group", "mean_change", "largest_of"]].round(2)
         group  mean_change largest_of
    0   people         0.39         r1
    1  machine        -0.31         r2
    """
    responses, items = responses_and_items(responses, items)
    if unknown := sorted(set(left_out) - set(responses.item_ids)):
        raise InputError(f"items left out: {name_first(unknown)} is not among the responses")
    kept = [item for item in responses.item_ids if item not in set(left_out)]
    if not kept or len(kept) == responses.n_items:
        raise InputError("items left out: all or none; expected some of the items of the responses")
    names = ("all",) * responses.n_respondents if groups is None else tuple(groups)
    if len(names) != responses.n_respondents:
        raise InputError(f"items left out: {len(names)} groups for {responses.n_respondents} respondents")
    known = known_items(responses, items)
    whole = estimate_ability(responses, known, method=method)
    without = estimate_ability(responses.select_items(kept), known, method=method)
    return EffectOfLeavingOut(
        left_out=tuple(item for item in responses.item_ids if item in set(left_out)), groups=names, all_items=whole,
        without=without, percentile=percentiles(whole).percentile, percentile_without=percentiles(without).percentile,
    )  # fmt: skip
