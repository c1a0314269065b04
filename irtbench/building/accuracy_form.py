"""The items that best predict the accuracy on all items of a bank, for systems like those known and beyond."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from irtbench.building.form_wishes import FormWishes
from irtbench.building.item_pool import ItemPool, population_of
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.models.curves import share_moments

Array = NDArray[np.float64]

SHRINKAGE = 0.4  # taken off the covariances between items, which few systems tell badly
LEVEL_VARIANCE = 0.25  # of a level common to all items: how able a new system is, nobody knows
LEAST_CHANCE = 0.15  # variance of a right or wrong response: an item that all known fail, a system beyond them may not


def accuracy_form(pool: ItemPool, wishes: FormWishes, known: ResponseMatrix | None) -> tuple[tuple[str, ...], float]:
    """Items chosen one by one, each to leave least variance of the accuracy on all items; and the deviation then left.

    The covariance of responses is that of the systems known, or what the bank's curves and population say, shrunk; with
    a level common to all items whose variance is wide, so that a form is as hard as the whole, and chance in every
    response, so that no item is taken because it is sure.

    Raises
    ------
    InputError
        If a known response to an item of the bank is missing, or the wishes leave too few items.
    """
    n = pool.n_items
    covariance = _by_the_bank(pool) if known is None else _by_systems(pool, known)
    chance = np.maximum(np.diag(covariance), LEAST_CHANCE * _beside_right_or_wrong(pool))
    covariance = (1 - SHRINKAGE) * covariance
    np.fill_diagonal(covariance, chance)
    covariance += LEVEL_VARIANCE
    with_mean = covariance.mean(axis=1)
    left = float(with_mean.mean())
    free = np.ones(n, dtype=np.bool_)
    free[pool.positions(wishes.forbidden)] = False
    assert wishes.length is not None
    if free.sum() < wishes.length or len(set(wishes.required)) > wishes.length:
        raise InputError(
            f"form: {int(free.sum())} items are left and {len(set(wishes.required))} required, length {wishes.length}"
        )
    order = list(dict.fromkeys(pool.positions(wishes.required).tolist()))
    form: list[int] = []
    while len(form) < wishes.length:
        gain = np.where(free, with_mean**2 / np.diag(covariance).clip(1e-9), -1.0)
        item = order[len(form)] if len(form) < len(order) else int(gain.argmax())
        own = covariance[:, item].copy()
        left -= float(with_mean[item] ** 2 / own[item])
        with_mean = with_mean - own * with_mean[item] / own[item]
        covariance -= np.outer(own, own) / own[item]
        form.append(item)
        free[item] = False
    return tuple(pool.item_ids[k] for k in sorted(form)), float(np.sqrt(max(left, 0.0)))


def _by_the_bank(pool: ItemPool) -> Array:
    """Covariance of responses over each scale's population, scales being independent, shape (n_items, n_items)."""
    covariance = np.zeros((pool.n_items, pool.n_items))
    for scale in pool.scales:
        density = population_of(scale)
        p, variance = share_moments(density.nodes, scale.items)
        mean = density.weights @ p
        own = (p - mean).T @ ((p - mean) * density.weights[:, None])
        np.fill_diagonal(own, np.diag(own) + density.weights @ variance)
        at = pool.positions(scale.items.item_ids)
        covariance[np.ix_(at, at)] = own
    return covariance


def _beside_right_or_wrong(pool: ItemPool) -> Array:
    """Variance by chance of each item's share of its score, beside a right or wrong one's, shape (n_items,)."""
    found = np.ones(pool.n_items)
    for scale in pool.scales:
        density = population_of(scale)
        p, variance = share_moments(density.nodes, scale.items)
        found[pool.positions(scale.items.item_ids)] = (density.weights @ variance) / (density.weights @ (p * (1 - p)))
    return found


def _by_systems(pool: ItemPool, known: ResponseMatrix) -> Array:
    """Covariance of the responses of systems known."""
    own = known.select_items(pool.item_ids)
    if not own.is_complete or own.n_respondents < 2:
        raise InputError("form: expected complete responses of at least two known systems to all items of the bank")
    deviation = own.shares - own.shares.mean(axis=0)
    covariance: Array = deviation.T @ deviation / own.n_respondents
    return covariance
