"""Further columns of scores.csv: percentiles within groups of the norm sample, and plausible values (NumPy only)."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.bank.bank import ItemBank, item_ids_of, scales_of
from irtbench.bank.scale import Scale
from irtbench.data.checked_settings import shows_fields, with_keywords
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.items import UnknownItems
from irtbench.data.responses import ResponseMatrix
from irtbench.models.parameter_table import ParametersLike, responses_and_items
from irtbench.models.quadrature import Quadrature
from irtbench.models.theta_posterior import ability_posterior
from irtbench.scoring.item_error import draw_items
from irtbench.scoring.percentiles import percentiles
from irtbench.scoring.scores import (
    ScoringKeywords,
    ScoringSettings,
    check_known,
    in_order_of_respondents,
    item_error_on,
    own_responses,
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


def with_plausible_values(
    scores: pd.DataFrame,
    bank: ItemBank,
    responses: ResponseMatrix,
    settings: ScoringSettings,
    n_values: int,
    *,
    of_many: bool = False,
) -> pd.DataFrame:
    """Rows of scores.csv with draws of ability at their end, ``pv1, pv2, ...``; NaN where nothing was answered.

    Of one block of many the draws of abilities are its own, by the name of its first respondent; those of the items are
    the same for all blocks.
    """
    names, rng = [f"pv{k + 1}" for k in range(n_values)], np.random.default_rng(settings.seed)
    of_items = rng
    if of_many:
        rng = np.random.default_rng([settings.seed, zlib.crc32(responses.respondent_ids[0].encode())])
    parts = []
    for scale in bank.scales:
        own = own_responses(scale, responses)
        carried = item_error_on(scale, settings) != "none" and scale.items.covariance is not None
        drawn = plausible_values(
            own, scale.items, n_values=n_values, rng=rng, quadrature=scale.population,
            n_item_draws=n_values if carried else 0, item_rng=of_items,
        )  # fmt: skip
        drawn[own.n_by_respondent == 0] = np.nan
        part = pd.DataFrame(drawn, columns=names)
        parts.append(part.assign(respondent_id=own.respondent_ids, scale=scale.name))
    return scores.merge(pd.concat(parts), on=["respondent_id", "scale"], how="left", validate="one_to_one")


def plausible_values(
    responses: ResponsesLike,
    items: ParametersLike,
    *,
    n_values: int = 5,
    rng: np.random.Generator,
    quadrature: Quadrature | None = None,
    n_item_draws: int = 0,
    item_rng: np.random.Generator | None = None,
) -> NDArray[np.float64]:
    """Draw abilities of each respondent from the posterior, shape (n_respondents, n_values).

    Point estimates misstate a group's distribution: EAPs vary too little, ML estimates too much. Statistics computed
    from plausible values, column by column and then averaged, do not (Mislevy, 1991).

    Parameters
    ----------
    responses, items, quadrature
        As for ``ability_posterior``.
    n_values
        Values of each respondent.
    rng
        The random numbers.
    n_item_draws
        So many sets of items are drawn from their sampling distribution, and each gives its share of the values to
        all respondents at once: what respondents share, their values then share. 0: the items count as known.
    item_rng
        The random numbers of these items, where others are drawn for with the same; None for `rng`.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> values = irtbench.plausible_values(responses, items, rng=rng)
    >>> values.shape, values.std(axis=0).round(1)
    ((300, 5), array([1. , 1.1, 1. , 1. , 1. ]))
    """
    responses, items = responses_and_items(responses, items, categories=True)
    if n_item_draws == 0:
        return ability_posterior(responses, items, quadrature=quadrature).draw(n_values, rng=rng)
    each, extra = divmod(n_values, n_item_draws)
    shares = [each + (k < extra) for k in range(min(n_item_draws, n_values))]
    return np.concatenate(
        [
            ability_posterior(responses, drawn, quadrature=quadrature).draw(share, rng=rng)
            for drawn, share in zip(draw_items(items, len(shares), rng=item_rng or rng), shares, strict=True)
        ],
        axis=1,
    )
