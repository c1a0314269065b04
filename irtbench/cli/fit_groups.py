"""Concurrent calibration: several groups of people on one scale, as ``irtbench fit --groups`` writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from irtbench.cli.fit_results import item_error_of
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix, name_first

if TYPE_CHECKING:
    from irtbench.bank.scale import Scale
    from irtbench.estimation.settings import FitSettings


def groups_of(respondent_ids: Sequence[str], file: Path) -> list[str]:
    """The group of each respondent, from a table of them.

    Raises
    ------
    InputError
        If the table does not have one of them.
    """
    from irtbench.data.readers.respondents import read_groups

    group_of = read_groups(file)
    if missing := [name for name in respondent_ids if name not in group_of]:
        raise InputError(f"{file}: no group of respondent {name_first(missing)}; expected one of each who answered")
    return [group_of[name] for name in respondent_ids]


def fit_several_groups(
    data: ResponseMatrix, groups: list[str], reference: str | None, settings: FitSettings, seed: int
) -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame, Scale]:
    """Contents of fit.json, items.csv, scores.csv and bank.json: the items of all, and the reference group's norms.

    The prior of a respondent's ability is the population of the group.
    """
    from irtbench.bank.norms import Norms
    from irtbench.bank.scale import Scale
    from irtbench.data.items import ItemTable
    from irtbench.estimation.multiple_groups import fit_groups
    from irtbench.models.quadrature import normal_population
    from irtbench.scoring.ability import eap
    from irtbench.scoring.item_error import with_item_error
    from irtbench.scoring.scores import with_person_fit

    fitted = fit_groups(data, groups, settings, reference=reference, seed=seed)
    items, label = fitted.items[0], np.array(groups, dtype=object)
    parts = [data.select_respondents(label == name) for name in fitted.groups]
    populations = [normal_population(mean, sd) for mean, sd in zip(fitted.mean, fitted.sd, strict=True)]
    abilities = [
        with_item_error(
            eap(part, items, quadrature=density), part, items,
            item_error="auto", quadrature=density, joint_error=fitted.joint_error,
        )
        for part, density in zip(parts, populations, strict=True)
    ]  # fmt: skip
    norms = Norms(abilities[0].theta, standard_error=abilities[0].standard_error)
    scale = Scale("all", items, ItemTable.plain(items.item_ids), norms, joint_error=fitted.joint_error)
    tables = [
        with_person_fit(scale, part, found).assign(group=name)
        for name, part, found in zip(fitted.groups, parts, abilities, strict=True)
    ]
    place = {name: k for k, name in enumerate(data.respondent_ids)}
    scores = pd.concat(tables).sort_values("respondent_id", key=lambda ids: ids.map(place)).reset_index(drop=True)
    carried = item_error_of(scale, abilities[0], several_trials=data.trials is not None)
    return fitted.summary() | carried, fitted.common_table(), scores, scale
