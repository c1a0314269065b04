"""Percentiles within each group of the norm sample: the same answers against the people of one country, and another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

import pandas as pd

from irtbench.bank.bank import ItemBank
from irtbench.bank.scale import Scale
from irtbench.data.checked_settings import shows_fields, with_keywords
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.items import UnknownItems
from irtbench.scoring.percentiles import percentiles
from irtbench.scoring.scores import (
    ScoringKeywords,
    ScoringSettings,
    check_known,
    in_order_of_respondents,
    item_ids_of,
    own_responses,
    scales_of,
    score_abilities,
)

COLUMNS = (
    *("respondent_id", "scale", "column", "value", "n_people"),
    *("percentile", "percentile_lower", "percentile_upper"),
)


@shows_fields(ScoringSettings)
def percentiles_by_group(
    bank: ItemBank | Scale,
    responses: ResponsesLike,
    columns: Sequence[str],
    settings: ScoringSettings | None = None,
    *,
    most_values: int = 12,
    unknown_items: UnknownItems = "error",
    **keywords: Unpack[ScoringKeywords],
) -> pd.DataFrame:
    """Percentile of each respondent in each group of the norm samples.

    Theta is the same for all groups; only the people change that it is compared with. The norm is that of the settings,
    and ``smoothed`` where that is ``normal``, which knows no groups.

    Parameters
    ----------
    bank
        A bank, or one scale.
    responses
        Graded responses (a matrix, array or data frame: `as_responses`) of people or systems.
    columns
        Columns of the norm samples' respondents.
    settings
        As for ``score_responses``; its own norm group is left aside.
    most_values
        Of a column of more values than this the groups of most people.
    unknown_items
        What items mean that no scale has: an error that names the first five, or nothing.
    keywords
        Of the settings.

    Returns
    -------
    DataFrame
        A row for each respondent, scale, column and value, the groups of most people first: ``respondent_id, scale,
        column, value, n_people, percentile, percentile_lower, percentile_upper``.

    Raises
    ------
    InputError
        As ``score_responses``.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> people = irtbench.Norms([-0.4, 0.1, 0.9, 1.2], groups={"country": ("de", "de", "fr", "fr")})
    >>> scale = irtbench.Scale("all", items, irtbench.ItemTable.plain(items.item_ids), people)
    >>> found = irtbench.percentiles_by_group(scale, [[1, 1, 1, 0, 1, 0]], ["country"])
    >>> found[["respondent_id", "value", "n_people", "percentile"]].round(0)
      respondent_id value  n_people  percentile
    0            r1    de         2        78.0
    1            r1    fr         2        24.0
    """
    responses = as_responses(responses, item_ids=item_ids_of(bank))
    settings = replace(with_keywords(settings or ScoringSettings(), keywords), norm_group=None)
    norm = "smoothed" if settings.norm == "normal" else settings.norm
    scales = scales_of(bank)
    check_known(responses.item_ids, scales, unknown_items)
    tables = [pd.DataFrame(columns=COLUMNS)]
    for scale in scales:
        if scale.norms is None:
            continue
        abilities = score_abilities(scale, own_responses(scale, responses), settings)
        for column in columns:
            values = Counter(value for value in scale.norms.groups.get(column, ()) if value is not None)
            for value, n_people in values.most_common(most_values):
                place = percentiles(abilities, scale.norms.group(column, value), norm=norm)
                tables.append(
                    pd.DataFrame(
                        {
                            "respondent_id": responses.respondent_ids,
                            "scale": scale.name,
                            "column": column,
                            "value": value,
                            "n_people": n_people,
                            "percentile": place.percentile,
                            "percentile_lower": place.lower,
                            "percentile_upper": place.upper,
                        }
                    )
                )
    found = [table for table in tables if len(table)]
    return in_order_of_respondents(found) if found else tables[0]


def with_groups(scores: pd.DataFrame, groups: pd.DataFrame) -> pd.DataFrame:
    """scores.csv with the percentiles in each group at its end: ``percentile:country=de``, and its two ends."""
    keys, found = ["respondent_id", "scale"], scores
    for (column, value), rows in groups.groupby(["column", "value"], sort=False):
        names = {name: f"{name}:{column}={value}" for name in ("percentile", "percentile_lower", "percentile_upper")}
        found = found.merge(rows[[*keys, *names]].rename(columns=names), on=keys, how="left", validate="one_to_one")
    return found
