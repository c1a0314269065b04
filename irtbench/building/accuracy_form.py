"""The items that best predict the accuracy on all items of a bank, for systems like those known and beyond."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from irtbench.bank.scale import population_of
from irtbench.building.form_wishes import FormWishes
from irtbench.building.item_pool import ItemPool
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.models.curves import share_moments

Array = NDArray[np.float64]

SHRINKAGE = 0.2  # taken off the covariances between items, which few systems estimate badly
LEVEL_VARIANCE = 0.25  # of a level common to all items: how able a system beyond is, nobody knows
LEAST_CHANCE = 0.15  # variance of a response: an item that all known fail, a system beyond them may not
NO_CHANCE = 1e-6  # an item that all known answer alike says nothing
TRIED = 3  # items of a form that may be given up in turn, those least missed


@dataclass(frozen=True, eq=False)
class Systems:
    """Responses of systems as they are expected to vary: covariances between items, and the variance of each."""

    rows: Array
    own: Array
    level: float

    def columns(self, items: Sequence[int]) -> Array:
        """Covariances of all responses with these, shape (n_items, n)."""
        found: Array = (1 - SHRINKAGE) * self.rows.T @ self.rows[:, items]
        found[items, np.arange(len(items))] = self.own[items]
        return found + self.level

    @cached_property
    def with_mean(self) -> Array:
        """Covariance of each response with the accuracy on all."""
        own_part = self.own - (1 - SHRINKAGE) * (self.rows**2).sum(axis=0)
        found: Array = (1 - SHRINKAGE) * self.rows.T @ self.rows.mean(axis=1) + self.level + own_part / len(self.own)
        return found

    def left(self, form: Sequence[int]) -> tuple[float, Array]:
        """Variance of the accuracy that a form leaves, and what it would be with each other item, infinite for its own.

        The accuracy is expected linearly from the responses to the form.
        """
        across = self.columns(form)
        weights = np.linalg.solve(across[form], np.column_stack([across.T, self.with_mean[form]]))
        left = float(self.with_mean.mean() - self.with_mean[form] @ weights[:, -1])
        own = np.maximum(self.own + self.level - (across.T * weights[:, :-1]).sum(axis=0), NO_CHANCE)
        others = left - (self.with_mean - across @ weights[:, -1]) ** 2 / own
        others[form] = np.inf
        return left, others


def accuracy_form(pool: ItemPool, wishes: FormWishes, known: ResponseMatrix | None) -> tuple[tuple[str, ...], float]:
    """Items of which the responses leave least variance of the accuracy on all items; and the deviation then left.

    What counts is v w: v for systems like those known, w for systems beyond, whose level is anybody's and whose
    response to no item is sure, so that the form is as hard as the whole. Covariances are those of the systems known,
    or what the bank's curves and population say, shrunk. Items are added one by one, then exchanged one by one as long
    as that lowers it. The deviation is that for systems beyond.
    """
    rows, own = _by_the_bank(pool) if known is None else _by_systems(pool, known)
    like_known = Systems(rows, np.maximum(own, NO_CHANCE), 0.0)
    kinds = like_known, Systems(rows, np.maximum(own, LEAST_CHANCE * _relative_to_right_or_wrong(pool)), LEVEL_VARIANCE)
    closed = pool.positions(wishes.forbidden)
    assert wishes.length is not None
    n_free, required = pool.n_items - len(closed), list(dict.fromkeys(pool.positions(wishes.required).tolist()))
    if n_free < wishes.length or len(required) > wishes.length:
        raise InputError(f"form: {n_free} items are left and {len(required)} required, length {wishes.length}")

    def best(form: list[int]) -> tuple[float, int]:
        """What is left with the item that lowers it most next to these."""
        total = np.zeros(pool.n_items)
        for kind in kinds:
            total += np.log(np.maximum(kind.left(form)[1], np.finfo(np.float64).tiny))
        total[closed] = np.inf
        item = int(total.argmin())
        return float(total[item]), item

    form, left = required, np.inf
    while len(form) < wishes.length:
        left, item = best(form)
        form = [*form, item]
    for _ in range(3 * wishes.length):
        for out in least_missed(form, kinds, required):
            rest = [item for item in form if item != out]
            found, item = best(rest)
            if found < left - 1e-9:
                form, left = [*rest, item], found
                break
        else:
            break
    return tuple(pool.item_ids[k] for k in sorted(form)), float(np.sqrt(max(kinds[1].left(form)[0], 0.0)))


def least_missed(form: list[int], kinds: Sequence[Systems], required: Sequence[int]) -> list[int]:
    """The few items of a form whose absence would cost least, of those that may be left out."""
    loss = np.zeros(len(form))
    for kind in kinds:
        inverse = np.linalg.inv(kind.columns(form)[form])
        weights = inverse @ kind.with_mean[form]
        loss += np.log1p(weights**2 / np.diag(inverse) / max(kind.left(form)[0], NO_CHANCE**2))
    order = [form[k] for k in np.argsort(loss, kind="stable")]
    return [item for item in order if item not in set(required)][:TRIED]


def _by_the_bank(pool: ItemPool) -> tuple[Array, Array]:
    """Deviations and variances of responses over each scale's population, scales being independent."""
    rows, own = [], np.zeros(pool.n_items)
    for scale in pool.scales:
        density = population_of(scale)
        p, variance = share_moments(density.nodes, scale.items)
        mean = density.weights @ p
        rows.append(pool.spread((p - mean) * np.sqrt(density.weights)[:, None], scale))
        own[pool.positions(scale.items.item_ids)] = density.weights @ ((p - mean) ** 2 + variance)
    return np.concatenate(rows), own


def _relative_to_right_or_wrong(pool: ItemPool) -> Array:
    """Variance by chance of each item's share of its score, relative to a right or wrong one's, shape (n_items,)."""
    found = np.ones(pool.n_items)
    for scale in pool.scales:
        density = population_of(scale)
        p, variance = share_moments(density.nodes, scale.items)
        found[pool.positions(scale.items.item_ids)] = (density.weights @ variance) / (density.weights @ (p * (1 - p)))
    return found


def _by_systems(pool: ItemPool, known: ResponseMatrix) -> tuple[Array, Array]:
    """The same of the responses of systems known."""
    own = known.select_items(pool.item_ids)
    if not own.is_complete or own.n_respondents < 2:
        raise InputError("form: expected complete responses of at least two known systems to all items of the bank")
    deviation = (own.shares - own.shares.mean(axis=0)) / np.sqrt(own.n_respondents)
    return deviation, (deviation**2).sum(axis=0)
