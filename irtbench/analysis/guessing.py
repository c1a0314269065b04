"""Is guessing needed: the 3PL of one item against the 2PL of all, item by item."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import chdtrc

from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.multiple_testing import Adjustment, adjust
from irtbench.data.shown import Shown, counted, significant
from irtbench.estimation.driver import fenced
from irtbench.estimation.fit import check_estimable, choose_device
from irtbench.estimation.marginal.guessing_profile import slope_at_zero
from irtbench.estimation.marginal.mode import find_mode
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.settings import Device
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.model import logistic_model
from irtbench.models.pyro_model.rows import encode_responses
from irtbench.models.pyro_model.tensors import ItemTensors, NodeTensors
from irtbench.models.quadrature import normal_grid

START = 0.2  # of guessing


@dataclass(frozen=True, eq=False)
class GuessingTest(Shown, columns="item_ids, guessing, statistic, p, p_adjusted"):
    """Likelihood-ratio tests of c = 0, one for each item; arrays of shape (n_items,).

    Its table has one row an item.

    Parameters
    ----------
    item_ids
        The items.
    guessing
        c of the item where it alone is a 3PL.
    statistic
        2 (log L with c free - log L of the 2PL), 1 degree of freedom.
    p
        Half of P(chi-squared(1) >= statistic), since c = 0 lies on the boundary (Self & Liang, 1987).
    p_adjusted
        Adjusted over items by `method`.
    method
        ``holm`` or ``fdr_bh``.
    """

    item_ids: tuple[str, ...]
    guessing: NDArray[np.float64]
    statistic: NDArray[np.float64]
    p: NDArray[np.float64]
    p_adjusted: NDArray[np.float64]
    method: Adjustment

    def in_short(self) -> str:
        """How many items, and how many differ from what was supposed."""
        return f"{counted(len(self.item_ids), 'item')}, {significant(self.p_adjusted)}"


def guessing_test(
    responses: ResponsesLike, *, method: Adjustment = "holm", tolerance: float = 1e-3, device: Device = "auto"
) -> GuessingTest:
    """Test each item's guessing parameter by marginal maximum likelihood.

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`).
    method
        How p is adjusted for the number of items.
    tolerance
        As for `find_mode`; every fit starts where the 2PL of all items ended.
    device
        As in `FitSettings`.

    Raises
    ------
    InputError
        If the data do not determine the parameters, see `fit_model`.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> irtbench.guessing_test(responses)
    <GuessingTest: 6 items, 0 with adjusted p < .05>
    """
    responses = as_responses(responses)
    priors = Priors.named("none")
    check_estimable(responses, priors)
    n_items, where = responses.n_items, choose_device(device)
    model = partial(
        logistic_model,
        priors=priors,
        guessing_free=torch.zeros(n_items, dtype=torch.bool, device=where),
        guessing_fixed=torch.zeros(n_items, dtype=torch.float64, device=where),
    )
    nodes = NodeTensors.from_quadrature(normal_grid(), dtype=torch.float64, device=where)
    with fenced(0), torch.no_grad():
        problem = Problem.of(model, encode_responses(responses, where), nodes)
        without = find_mode(problem, tolerance=tolerance / 100)
        rises = slope_at_zero(problem, without.items) > 0
        found = [
            with_guessing(problem, without.items, j, tolerance) if rises[j] else (0.0, without.log_likelihood)
            for j in range(n_items)
        ]
    guessing = np.array([c for c, _ in found])
    statistic = np.array([max(0.0, 2 * (log_l - without.log_likelihood)) for _, log_l in found])
    p = chdtrc(1, statistic) / 2
    return GuessingTest(responses.item_ids, guessing, statistic, p, adjust(p, method), method)


def with_guessing(problem: Problem, without: ItemTensors, item: int, tolerance: float) -> tuple[float, float]:
    """Guessing of one item with all other items 2PL, and the log-likelihood.

    The steps start well away from c = 0.
    """
    only = torch.zeros_like(problem.guessing_free)
    only[item] = True
    start = replace(without, guessing=torch.where(only, START, without.guessing))
    alone = Problem.of(partial(problem.model, guessing_free=only), problem.rows, problem.nodes)
    mode = find_mode(alone, start=start, tolerance=tolerance)
    return float(mode.items.guessing[item]), mode.log_likelihood
