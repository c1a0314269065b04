"""The order in which to ask a fixed list of items, so that the test can end after any of them (NumPy only)."""

from __future__ import annotations

import numpy as np

from irtbench.bank.scale import ScaleLike, as_scale
from irtbench.data.input_error import InputError
from irtbench.models.curves import information
from irtbench.models.theta_posterior import STANDARD_NORMAL

BEYOND = 1e-6  # what information beyond the goal counts for: it orders items where nothing else does


def item_order(scale: ScaleLike, *, se: float = 0.3) -> tuple[str, ...]:
    """The items, each in turn the one that brings the population nearest to a standard error of theta.

    That is the item that adds most to the population's mean of min(1 / s^2 + I_S(theta), 1 / se^2), where I_S is the
    information of the items so far and s the population's standard deviation. Information beyond the goal counts for
    nothing, so that items complement each other; the most informative ones by themselves may all measure the same
    abilities. What was answered does not enter, as it does in `Adaptive`. Items whose slope is not positive come last.

    Parameters
    ----------
    scale
        A scale of a bank, or item parameters.
    se
        The standard error at which the test is to end.

    Raises
    ------
    InputError
        If it is not positive.

    Examples
    --------
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([4.0, 4.0, 1.0, 3.0], [0.0, 0.0, 0.0, -1.0])
    >>> irtbench.item_order(items, se=0.5)
    ('item1', 'item4', 'item2', 'item3')
    """
    if not se > 0:
        raise InputError(f"item_order: se must be above 0 but got {se:g}")
    known = as_scale(scale)
    population = STANDARD_NORMAL if known.population is None else known.population
    each = information(population.nodes, known.items)
    mean = population.weights @ population.nodes
    total = np.full(population.nodes.size, 1 / (population.weights @ (population.nodes - mean) ** 2))
    asked = known.items.discrimination > 0
    free, order = np.flatnonzero(asked), []
    while free.size:
        then = total[:, None] + each[:, free]
        best = int((population.weights @ (np.minimum(then, se**-2) + BEYOND * then)).argmax())
        order.append(int(free[best]))
        total = then[:, best]
        free = np.delete(free, best)
    return tuple(known.items.item_ids[k] for k in [*order, *np.flatnonzero(~asked)])
