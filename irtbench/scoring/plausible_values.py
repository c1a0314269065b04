"""Plausible values: draws of ability that keep its whole distribution (NumPy only)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from irtbench.data.given import ResponsesLike
from irtbench.models.parameter_table import ParametersLike, responses_and_items
from irtbench.models.quadrature import Quadrature
from irtbench.models.theta_posterior import ability_posterior
from irtbench.scoring.item_error import draw_items


def plausible_values(
    responses: ResponsesLike,
    items: ParametersLike,
    *,
    n_values: int = 5,
    rng: np.random.Generator,
    quadrature: Quadrature | None = None,
    n_item_draws: int = 0,
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
    responses, items = responses_and_items(responses, items)
    if n_item_draws == 0:
        return ability_posterior(responses, items, quadrature=quadrature).draw(n_values, rng=rng)
    each, extra = divmod(n_values, n_item_draws)
    shares = [each + (k < extra) for k in range(min(n_item_draws, n_values))]
    return np.concatenate(
        [
            ability_posterior(responses, drawn, quadrature=quadrature).draw(share, rng=rng)
            for drawn, share in zip(draw_items(items, len(shares), rng=rng), shares, strict=True)
        ],
        axis=1,
    )
