"""The 0/1 program of a form: each wish as linear constraints on which item stands in which form.

Theunissen (1985), van der Linden & Boekkooi-Timminga (1989), van der Linden (2005).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from irtbench.building.binary_program import BinaryProgram, Constraint, Unit
from irtbench.building.form_wishes import FormWishes, Limit
from irtbench.building.item_pool import ItemPool, population_of
from irtbench.data.responses import name_first
from irtbench.models.curves import information

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Target:
    """Information wanted of a form: a weighted sum over its items, as much as another relative to the weight.

    Parameters
    ----------
    name
        Where: ``theta 1 on neutral``.
    each
        Information of each item, shape (n_items,).
    relative
        Weight in the shape.
    """

    name: str
    each: Array
    relative: float


def targets_of(pool: ItemPool, wishes: FormWishes) -> list[Target]:
    """Information at each theta point, or over the population, on each scale."""
    theta = np.array(wishes.theta)
    several = len(pool.scales) > 1
    found = []
    for scale in pool.scales:
        on = f" on {scale.name}" if several else ""
        if wishes.objective == "population" and wishes.length is not None:
            population = population_of(scale)
            mean = population.weights @ information(population.nodes, scale.items)
            found.append(Target(f"the population's mean{on}", pool.spread(mean[None], scale)[0], 1.0))
            continue
        for row, point, relative in zip(
            pool.information(theta, scale), theta, wishes.shape or [1.0] * theta.size, strict=True
        ):
            found.append(Target(f"theta {point:g}{on}", row, relative))
    return found


def wish_constraints(pool: ItemPool, wishes: FormWishes) -> list[Constraint]:
    """Every wish but length and precision.

    Raises
    ------
    InputError
        If a wish names a column, value or item that the pool has not.
    """
    found = [part for limit in wishes.limits for part in _limit(pool, limit, wishes.forms)]
    found += _enemies(pool, wishes)
    pool.demand_known(wishes.required, "required")
    pool.demand_known(wishes.forbidden, "forbidden")
    for word, names, low, high in (("required", wishes.required, 1, 1), ("forbidden", wishes.forbidden, 0, 0)):
        if names:
            rows = np.zeros((len(names), pool.n_items))
            rows[np.arange(len(names)), pool.positions(names)] = 1
            found += _in_each_form(f"{word} items", rows, low, high, wishes.forms, what=names, unit="none")
    return found + _overlaps(pool, wishes)


def whole_shares(pool: ItemPool, wishes: FormWishes, length: int) -> list[Constraint]:
    """What shares come to in whole items of a form that has no fewer than this: implied, and a tighter relaxation."""
    found = []
    for limit in wishes.limits:
        has = pool.has(limit.column, limit.value).astype(np.float64)[None]
        for share, rows in ((limit.least_share, has), (limit.most_share and 1 - limit.most_share, 1 - has)):
            if share:
                found += _in_each_form("whole shares", rows, np.ceil(share * length - 1e-9), np.inf, wishes.forms)
    return found


def length_constraints(n_items: int, wishes: FormWishes, length: int | None) -> list[Constraint]:
    """Forms of this length; None for any, the same for all."""
    ones = np.ones((1, n_items))
    if length is not None:
        return _in_each_form(f"length {length}", ones, length, length, wishes.forms)
    first = of_form(ones, 0, wishes.forms)
    alike = [first - of_form(ones, form, wishes.forms) for form in range(1, wishes.forms)]
    nothing = np.zeros(1)
    at_least_one = Constraint("an item", first, np.ones(1), np.full(1, np.inf))
    return [at_least_one, *(Constraint("equal lengths", sparse.csr_array(rows), nothing, nothing) for rows in alike)]


def precision_constraints(targets: Sequence[Target], wishes: FormWishes) -> list[Constraint]:
    """No larger a standard error than wanted anywhere: information of 1 / se^2."""
    if wishes.se is None:
        return []
    rows = np.stack([target.each for target in targets])
    names = tuple(target.name for target in targets)
    return _in_each_form(f"se {wishes.se:g}", rows, wishes.se**-2, np.inf, wishes.forms, what=names, unit="information")


def shortest(n_items: int, wishes: FormWishes, constraints: Sequence[Constraint]) -> BinaryProgram:
    """The program of the shortest forms."""
    cost = np.concatenate([np.ones(n_items), np.zeros(n_items * (wishes.forms - 1) + n_shared(n_items, wishes))])
    return BinaryProgram(cost, n_items * wishes.forms, tuple(constraints), whole_cost=True)


def most_informative(
    n_items: int, wishes: FormWishes, targets: Sequence[Target], constraints: Sequence[Constraint]
) -> BinaryProgram:
    """The program of the forms with most information at the target where they have least.

    It maximises z with I_f(t) >= r_t z for every form f and target t; of several forms z - d, with d the largest
    difference between two forms at a target, relative to r_t: they lie between l_t and u_t, and u_t - l_t <= r_t d.
    """
    n_binary, n_targets, forms = n_items * wishes.forms, len(targets), wishes.forms
    start = n_binary + n_shared(n_items, wishes)
    n_more = 1 if forms == 1 else 2 + 2 * n_targets
    z, d = start, start + 1
    relative = np.array([target.relative for target in targets])
    each = np.stack([target.each for target in targets])
    least = sparse.lil_array((n_targets, start + n_more))
    least[:, [z]] = -relative[:, None]
    found = []
    for form in range(forms):
        own = of_form(each, form, forms)
        own.resize((n_targets, start + n_more))
        found.append(_bounded("information", own + least.tocsr(), 0.0, np.inf))
        if forms > 1:
            for first, low, high in ((start + 2, -np.inf, 0.0), (start + 2 + n_targets, 0.0, np.inf)):
                end = sparse.lil_array((n_targets, start + n_more))
                end[np.arange(n_targets), first + np.arange(n_targets)] = -1
                found.append(_bounded("information alike", own + end.tocsr(), low, high))
    cost = np.zeros(start + n_more)
    cost[z] = -1
    if forms > 1:
        cost[d] = 1
        spread = sparse.lil_array((n_targets, start + n_more))
        spread[np.arange(n_targets), start + 2 + np.arange(n_targets)] = 1
        spread[np.arange(n_targets), start + 2 + n_targets + np.arange(n_targets)] = -1
        spread[:, [d]] = -relative[:, None]
        found.append(_bounded("information alike", spread.tocsr(), -np.inf, 0.0))
    return BinaryProgram(cost, n_binary, (*constraints, *found))


def n_shared(n_items: int, wishes: FormWishes) -> int:
    """Variables that say whether two of the forms made at once share an item."""
    pairs = wishes.forms * (wishes.forms - 1) // 2
    return 0 if wishes.most_overlap in (None, 0) else pairs * n_items


def _limit(pool: ItemPool, limit: Limit, forms: int) -> list[Constraint]:
    has = pool.has(limit.column, limit.value).astype(np.float64)[None]
    ends = (
        (limit.at_least, limit.at_most, 0.0, "{:g}"),
        (limit.least_share, limit.most_share, 1.0, "{:.0%}"),
    )
    found = []
    for low, high, share, form in ends:
        for end, word, sign in ((low, "at least", 1), (high, "at most", -1)):
            if end is None:
                continue
            rows = has - share * end
            limits = (0.0 if share else end, np.inf) if sign > 0 else (-np.inf, 0.0 if share else end)
            name = f"{word} {form.format(end)} of {limit.column}={limit.value}"
            found += _in_each_form(name, rows, limits[0], limits[1], forms, unit="share" if share else "count")
    return found


def _enemies(pool: ItemPool, wishes: FormWishes) -> list[Constraint]:
    sets = list(wishes.enemies)
    for enemies in sets:
        pool.demand_known(enemies, "enemies")
    if wishes.enemies_by is not None:
        by: dict[str, list[str]] = {}
        for item, value in zip(pool.item_ids, pool.column(wishes.enemies_by), strict=True):
            if value:
                by.setdefault(value, []).append(item)
        sets += [tuple(items) for items in by.values() if len(items) > 1]
    if not sets:
        return []
    rows = sparse.lil_array((len(sets), pool.n_items))
    for k, enemies in enumerate(sets):
        rows[k, pool.positions(tuple(dict.fromkeys(enemies)))] = 1
    names = tuple(f"({name_first(list(dict.fromkeys(enemies)))})" for enemies in sets)
    return _in_each_form("enemies", rows.tocsr(), -np.inf, 1.0, wishes.forms, what=names, unit="none")


def _overlaps(pool: ItemPool, wishes: FormWishes) -> list[Constraint]:
    """Items shared with forms in use, uses of each item, items shared by forms made at once."""
    n, forms = pool.n_items, wishes.forms
    found = []
    used = np.zeros(n)
    for number, other in enumerate(wishes.other_forms, start=1):
        known = set(pool.item_ids)
        row = np.zeros((1, n))
        row[0, pool.positions(tuple(item for item in dict.fromkeys(other) if item in known))] = 1
        used += row[0]
        if wishes.most_overlap is not None:
            name = f"at most {wishes.most_overlap} items of other form {number}"
            found += _in_each_form(name, row, -np.inf, wishes.most_overlap, forms)
    most_uses = wishes.most_uses
    if most_uses is None and forms > 1 and wishes.most_overlap in (None, 0):
        most_uses = 1 + int(used.max(initial=0))  # among the forms made at once
        used = np.full(n, most_uses - 1.0)
    if most_uses is not None:
        rows = sparse.hstack([sparse.eye_array(n)] * forms, format="csr")
        left = np.maximum(most_uses - used, 0.0)
        name = f"at most {wishes.most_uses or 1} uses of an item"
        found.append(Constraint(name, rows, np.full(n, -np.inf), left, pool.item_ids, "none"))
    if n_shared(n, wishes):
        found += _shared_items(n, wishes)
    return found


def _shared_items(n: int, wishes: FormWishes) -> list[Constraint]:
    """Of forms made at once: y_j >= x_jf + x_jg - 1 for each pair, and no more than so many y."""
    found = []
    forms, name = wishes.forms, f"at most {wishes.most_overlap} items in two forms"
    for k, (one, other) in enumerate(combinations(range(forms), 2)):
        start = n * forms + k * n
        both = sparse.lil_array((n, start + n))
        items = np.arange(n)
        both[items, one * n + items] = 1
        both[items, other * n + items] = 1
        both[items, start + items] = -1
        found.append(_bounded("shared", both.tocsr(), -np.inf, 1.0))
        total = sparse.lil_array((1, start + n))
        total[0, start + items] = 1
        most = np.array([float(wishes.most_overlap or 0)])
        found.append(Constraint(name, total.tocsr(), np.array([-np.inf]), most))
    return found


def of_form(rows: Array | sparse.csr_array, form: int, n_forms: int) -> sparse.csr_array:
    """Rows about the items of one of the forms, shape (n_rows, n_forms * n_items)."""
    own = sparse.csr_array(rows)
    n_rows, n = own.shape
    before, after = sparse.csr_array((n_rows, n * form)), sparse.csr_array((n_rows, n * (n_forms - form - 1)))
    return sparse.csr_array(sparse.hstack([before, own, after], format="csr"))


def _in_each_form(
    name: str,
    rows: Array | sparse.csr_array,
    low: float,
    high: float,
    forms: int,
    *,
    what: tuple[str, ...] = (),
    unit: Unit = "count",
) -> list[Constraint]:
    """The same rows for each form."""
    lower, upper = np.full(rows.shape[0], float(low)), np.full(rows.shape[0], float(high))
    return [
        Constraint(
            name if forms == 1 else f"{name} (form {form + 1})", of_form(rows, form, forms), lower, upper, what, unit
        )
        for form in range(forms)
    ]


def _bounded(name: str, rows: sparse.csr_array, low: float, high: float) -> Constraint:
    return Constraint(name, sparse.csr_array(rows), np.full(rows.shape[0], low), np.full(rows.shape[0], high))
