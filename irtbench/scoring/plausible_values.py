"""Plausible values: draws of ability that keep its whole distribution (NumPy only)."""

from __future__ import annotations

import zlib

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.bank.bank import ItemBank
from irtbench.data.given import ResponsesLike
from irtbench.data.responses import ResponseMatrix
from irtbench.models.parameter_table import ParametersLike, responses_and_items
from irtbench.models.quadrature import Quadrature
from irtbench.models.theta_posterior import ability_posterior
from irtbench.scoring.item_error import draw_items
from irtbench.scoring.scores import ScoringSettings, item_error_on, own_responses


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
