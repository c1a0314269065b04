"""The people that ``score`` compares with: weighted to a population, and group by group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from irtbench.bank.bank import ItemBank
from irtbench.bank.raking import raked_norms, read_margins
from irtbench.cli.output import show_table, top_and_bottom
from irtbench.cli.score_words import interval_texts
from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first


def weighted_to(bank: ItemBank, margins: Path, norm: str | None) -> ItemBank:
    """The bank whose norm samples have a population's shares.

    Raises
    ------
    InputError
        If a scale has no norm sample, the norm leaves it aside, or the shares cannot be had (`rake`).
    """
    if norm == "normal":
        raise InputError("--margins: the normal norm has no weights; expected --norm smoothed or empirical with it")
    shares, scales = read_margins(margins), []
    for scale in bank.scales:
        if scale.norms is None:
            raise InputError(f"--margins: scale {scale.name} has no norm sample; expected --norms FILE")
        try:
            scales.append(replace(scale, norms=raked_norms(scale.norms, shares)))
        except InputError as error:
            raise InputError(f"{margins}: scale {scale.name}: {error}") from None
    return ItemBank(tuple(scales))


def demand_norm_columns(bank: ItemBank, columns: Sequence[str]) -> None:
    """Refuse columns that the norm sample of no scale has.

    Raises
    ------
    InputError
        Naming them, and those that there are.
    """
    known = list(dict.fromkeys(name for scale in bank.scales if scale.norms for name in scale.norms.groups))
    if missing := [name for name in columns if name not in known]:
        there = name_first(known) if known else "none"
        raise InputError(f"--norm-groups: no column {name_first(missing)} in the norm sample; there is: {there}")


def with_groups(scores: pd.DataFrame, groups: pd.DataFrame) -> pd.DataFrame:
    """scores.csv with the percentiles in each group at its end: ``percentile:country=de``, and its two ends."""
    keys, found = ["respondent_id", "scale"], scores
    for (column, value), rows in groups.groupby(["column", "value"], sort=False):
        names = {name: f"{name}:{column}={value}" for name in ("percentile", "percentile_lower", "percentile_upper")}
        found = found.merge(rows[[*keys, *names]].rename(columns=names), on=keys, how="left", validate="one_to_one")
    return found


def show_groups(groups: pd.DataFrame, scores: pd.DataFrame, rest: Path | None) -> None:
    """Print the percentile in each group of those whose percentile may be told."""
    told = scores.loc[scores["percentile_flags"] == "", ["respondent_id", "scale"]]
    found = told.merge(groups, on=["respondent_id", "scale"])
    shown = top_and_bottom(found)
    if shown.empty:
        return
    places = interval_texts(shown, "percentile", "percentile_lower", "percentile_upper", ".0f")
    show_table(
        pd.DataFrame(
            {
                "who": shown["respondent_id"],
                "scale": shown["scale"],
                "among people with": shown["column"] + " " + shown["value"],
                "people": shown["n_people"],
                "better than": [place.replace(" ", "% ", 1) for place in places],
            }
        ),
        title="Within groups of the norm sample",
        rest=rest,
        of=len(found),
    )
