"""The 0/1 program of a form: each wish as linear constraints on which item is in which form, solved by HiGHS.

Theunissen (1985), van der Linden & Boekkooi-Timminga (1989), van der Linden (2005). A reliability is no linear wish:
tangents of the error variance are added to the program until it is small enough (Kelley, 1960).
Where nothing meets all constraints, it says which has to give way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from irtbench.bank.scale import population_of
from irtbench.building.form_wishes import FormWishes, ItemPool, Limit
from irtbench.data.responses import name_first
from irtbench.models.curves import information

Array = NDArray[np.float64]

#: What the sums of a constraint's rows are.
Unit = Literal["count", "share", "information", "error", "none"]

SMALL = 400  # 0/1 variables up to which a program is solved as it is
CORE = 200  # that a large one starts from, besides those that its relaxation leaves between 0 and 1
INFEASIBLE = 2  # status of SciPy's solvers

#: Constraints that are part of the program and no wish.
NO_WISH = ("an item", "equal lengths", "information", "information alike", "shared")
ENOUGH_SECONDS = 20.0  # for one wish
#: What a solution has in place of the reliability wished for, of the wishes of these names.
Reached = Callable[[NDArray[np.float64], frozenset[str]], list[str]]


class TimeOut(RuntimeError):
    """Nothing was found in the time allowed."""


@dataclass(frozen=True, eq=False)
class Constraint:
    """Rows of a program that express one wish."""

    name: str
    rows: sparse.csr_array
    lower: Array
    upper: Array
    what: tuple[str, ...] = ()
    unit: Unit = "count"


@dataclass(frozen=True, eq=False)
class BinaryProgram:
    """Minimise cost @ x under constraints, the first of x being 0 or 1 and the others not negative."""

    cost: Array
    n_binary: int
    constraints: tuple[Constraint, ...]
    whole_cost: bool = False

    def also(self, more: Sequence[Constraint]) -> BinaryProgram:
        """The program with further constraints."""
        return replace(self, constraints=(*self.constraints, *more))


@dataclass(frozen=True, eq=False)
class Solution:
    """The best solution found, and no cost below the bound; of a relaxation the reduced costs of the 0/1 variables."""

    x: Array
    cost: float
    bound: float
    reduced: Array


def solve(program: BinaryProgram, *, gap: float, until: float) -> Solution | None:
    """The best solution to the relative gap; None where there is none.

    A large program is solved on a core first: the variables that its linear relaxation puts between 0 and 1, and those
    of the smallest reduced costs. With L the relaxation's value, U that of the core and r_j a reduced cost, no solution
    better than U moves a variable whose reduced cost is U - L or more, of either sign, away from where the relaxation
    has it; the others join the core, which then holds the best solution (Balas & Zemel, 1980).
    """
    everywhere = np.ones(program.n_binary, dtype=np.bool_)
    if program.n_binary <= SMALL:
        return _solve_part(program, everywhere, np.zeros(program.n_binary), gap, until)
    relaxed = relax(program)
    if relaxed is None:
        return None
    x, bound, reduced = relaxed.x[: program.n_binary], relaxed.cost, relaxed.reduced
    free = (x > 1e-6) & (x < 1 - 1e-6)
    order = np.argsort(np.abs(reduced))
    free[order[: CORE + int((x > 0.5).sum())]] = True
    fixed = (x > 0.5).astype(np.float64)
    soon = time.monotonic() + (until - time.monotonic()) / 3
    found = in_time(_solve_part, program, free, fixed, gap, min(until, soon))
    if found is None:
        return _solve_part(program, everywhere, fixed, gap, until)
    allowed = gap * abs(found.cost)
    elsewhere = found.cost - allowed  # outside the variables that matter nothing costs less
    slack = found.cost - bound - max(allowed, 1 - 1e-6 if program.whole_cost else 0.0)
    matter = np.abs(reduced) <= max(slack, 0.0) + 1e-9
    if not (matter & ~free).any():
        return replace(found, bound=max(bound, min(found.bound, elsewhere)))
    again = in_time(_solve_part, program, matter | free, fixed, gap, until)
    if again is None or again.cost > found.cost:
        return replace(found, bound=bound)
    return replace(again, bound=max(bound, min(again.bound, elsewhere)))


def in_time(solver: Callable[..., Solution | None], *given: Any, **settings: Any) -> Solution | None:
    """What a solver finds; None where there is no solution, or none is found in the time allowed."""
    try:
        return solver(*given, **settings)
    except TimeOut:
        return None


def relax(program: BinaryProgram) -> Solution | None:
    """The linear relaxation, 0/1 variables between 0 and 1; None where it has no solution."""
    rows, n = _stacked(program), program.n_binary
    above, below = np.isfinite(rows.ub), np.isfinite(rows.lb)
    upper = np.append(np.ones(n), np.full(program.cost.size - n, np.inf))
    found = linprog(
        program.cost, A_ub=sparse.vstack([rows.A[above], -rows.A[below]]),
        b_ub=np.concatenate([rows.ub[above], -rows.lb[below]]), bounds=np.column_stack([np.zeros(upper.size), upper]),
    )  # fmt: skip
    if found.status == INFEASIBLE:
        return None
    reduced = (found.lower.marginals + found.upper.marginals)[:n]
    return Solution(found.x, float(found.fun), float(found.fun), reduced)


def _solve_part(
    program: BinaryProgram, free: NDArray[np.bool_], fixed: Array, gap: float, until: float
) -> Solution | None:
    """The best solution in which the variables that are not free are as they are fixed."""
    n, more = program.n_binary, np.zeros(program.cost.size - program.n_binary)
    keep, x = np.append(free, more == 0), np.append(np.where(free, 0.0, fixed), more)
    rows, constant = _stacked(program), float(program.cost @ x)
    done, whole = rows.A @ x, np.append(np.ones(free.sum()), more)
    found = milp(
        program.cost[keep],
        integrality=whole,
        bounds=Bounds(0, np.where(whole > 0, 1.0, np.inf)),
        constraints=[LinearConstraint(rows.A[:, keep], rows.lb - done, rows.ub - done)],
        options={"mip_rel_gap": gap, "time_limit": max(until - time.monotonic(), 0.01)},
    )
    if found.x is None:
        if found.status == INFEASIBLE:
            return None
        raise TimeOut(f"no form was found in the time allowed ({found.message})")
    x[keep] = found.x
    x[:n] = x[:n].round()
    return Solution(x, float(found.fun) + constant, float(found.mip_dual_bound) + constant, np.empty(0))


def _stacked(program: BinaryProgram) -> LinearConstraint:
    """All rows, one below the other."""
    rows = [widened(constraint.rows, program.cost.size) for constraint in program.constraints]
    lower, upper = (
        np.concatenate([getattr(constraint, end) for constraint in program.constraints]) for end in ("lower", "upper")
    )
    return LinearConstraint(sparse.csr_array(sparse.vstack(rows)), lower, upper)


def widened(rows: sparse.csr_array, width: int) -> sparse.csr_array:
    """Rows about further variables, of which they say nothing."""
    return sparse.hstack([rows, sparse.csr_array((rows.shape[0], width - rows.shape[1]))], format="csr")


#: Solves a program until a time, cuts of the reliability added; wishes of these names are elastic.
Solver = Callable[[BinaryProgram, float, frozenset[str]], Solution | None]


def what_gives_way(
    program: BinaryProgram, names: Sequence[str], solver: Solver, reached: Reached, *, seconds: float
) -> str:
    """Say which wish has to give way, and how far.

    Each wish alone is made elastic: its rows may be missed by an amount whose sum is minimised, all others being met
    (Greenberg & Murphy, 1991). Where no single one suffices, all are, relative to their size.
    """
    until = time.monotonic() + seconds
    singly = []
    for name in names:
        given_way = _given_way(program, frozenset([name]), solver, reached, until)
        singly += [" and ".join(given_way)] if given_way else []
    if singly:
        return f"{'one of these' if len(singly) > 1 else 'this'} has to give way: {'; '.join(singly)}"
    together = _given_way(program, frozenset(names), solver, reached, time.monotonic() + ENOUGH_SECONDS)
    if not together:
        return "which of them has to give way was not found in the time allowed"
    return f"several have to give way together: {'; '.join(together)}"


def _given_way(
    program: BinaryProgram, names: frozenset[str], solver: Solver, reached: Reached, until: float
) -> list[str]:
    """What these wishes come to where they may be missed; empty if that does not suffice or time is out."""
    if time.monotonic() > until:
        return []
    found = in_time(solver, program, min(until, time.monotonic() + ENOUGH_SECONDS), names)
    return [] if found is None else [*missed(program, found.x, names), *reached(found.x, names)]


def with_slack(program: BinaryProgram, elastic: frozenset[str]) -> BinaryProgram:
    """The program in which rows of some constraints may be missed, and what they are missed by is minimised.

    A variable for what a row lacks and one for what it has too much, each relative to the end that it misses; the cuts
    of one reliability are missed by one amount.
    """
    width, shared = program.cost.size, dict[str, int]()
    costs, found = list[float](), list[Constraint]()
    for constraint in program.constraints:
        if constraint.name not in elastic:
            found.append(constraint)
            continue
        ends = np.column_stack([constraint.lower, constraint.upper])
        rows, side = np.nonzero(np.isfinite(ends))
        if constraint.unit == "error":
            if constraint.name not in shared:
                shared[constraint.name] = width + len(costs)
                costs.append(1.0)
            at = np.full(rows.size, shared[constraint.name])
        else:
            at = width + len(costs) + np.arange(rows.size)
            costs += (1 / np.maximum(np.abs(ends[rows, side]), 1.0)).tolist()
        slack = sparse.csr_array((1.0 - 2.0 * side, (rows, at)), shape=(len(ends), width + len(costs)))
        own = widened(constraint.rows, slack.shape[1]) + slack
        found.append(replace(constraint, rows=own, what=(), unit="count"))
    return BinaryProgram(np.concatenate([np.zeros(width), costs]), program.n_binary, tuple(found))


def missed(program: BinaryProgram, x: NDArray[np.float64], names: frozenset[str]) -> list[str]:
    """The wishes that a solution misses, and what it has in their place."""
    found = []
    for constraint in program.constraints:
        if constraint.name not in names or constraint.unit == "error":
            continue
        has = constraint.rows @ x[: constraint.rows.shape[1]]
        short = np.maximum(constraint.lower - has, has - constraint.upper)
        rows = [int(row) for row in np.flatnonzero(short > 1e-6 * np.maximum(1.0, np.abs(has)))]
        if rows and constraint.unit == "information":
            worst = min(rows, key=lambda row: float(has[row]))
            least = f"{has[worst] ** -0.5:.4g}" if has[worst] > 0 else "infinity"
            found.append(f"{constraint.name} at {constraint.what[worst]} ({least} is possible)")
        elif rows and constraint.what:
            found.append(f"{constraint.name}: {name_first([constraint.what[row] for row in rows])}")
        elif rows and constraint.unit == "share":
            found.append(f"{constraint.name} (missed by {short[rows[0]]:.3g} items)")
        elif rows:
            found.append(f"{constraint.name} ({has[rows[0]]:.4g} is possible)")
    return found


TOLERANCE = 1e-6  # of the error variance, relative to that of the population
MOST_CUTS = 100  # rounds of them


@dataclass(frozen=True, eq=False)
class Target:
    """Information wanted of a form: a weighted sum over its items, as much as another relative to the weight."""

    name: str
    each: Array
    relative: float


def targets_of(pool: ItemPool, wishes: FormWishes) -> list[Target]:
    """Information at each theta point, or over the population, on each scale."""
    theta, found = np.array(wishes.theta), []
    for scale in pool.scales:
        on = f" on {scale.name}" if len(pool.scales) > 1 else ""
        if wishes.objective == "population" and wishes.length is not None:
            population = population_of(scale)
            mean = population.weights @ information(population.nodes, scale.items)
            found.append(Target(f"the population's mean{on}", pool.spread(mean[None], scale)[0], 1.0))
        else:
            each = zip(theta, pool.information(theta, scale), wishes.shape or [1.0] * theta.size, strict=True)
            found += [Target(f"theta {point:g}{on}", row, relative) for point, row, relative in each]
    return found


def wish_constraints(pool: ItemPool, wishes: FormWishes) -> list[Constraint]:
    """Every wish but length and precision."""
    found = [part for limit in wishes.limits for part in _limit(pool, limit, wishes.forms)]
    found += _enemies(pool, wishes)
    each = sparse.csr_array(sparse.eye_array(pool.n_items))
    for word, names, has in (("required", wishes.required, 1), ("forbidden", wishes.forbidden, 0)):
        if names:
            rows = each[pool.positions(names, word)]
            found += _in_each_form(f"{word} items", rows, has, has, wishes.forms, what=names, unit="none")
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
    first, *others = (of_form(ones, form, wishes.forms) for form in range(wishes.forms))
    return [_bounded("an item", first, 1, np.inf), *(_bounded("equal lengths", first - one, 0, 0) for one in others)]


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
    z = n_binary + n_shared(n_items, wishes)  # and then d, all u and all l
    relative, one = np.array([target.relative for target in targets])[:, None], sparse.eye_array(n_targets)
    each = np.stack([target.each for target in targets])
    cost = np.concatenate([np.zeros(z), [-1.0], [] if forms == 1 else [1.0, *np.zeros(2 * n_targets)]])
    found = []
    for form in range(forms):
        own = of_form(each, form, forms)
        found.append(_bounded("information", _followed_by(own, z, -relative), 0.0, np.inf))
        if forms > 1:
            found.append(_bounded("information alike", _followed_by(own, z + 2, -one), -np.inf, 0.0))
            found.append(_bounded("information alike", _followed_by(own, z + 2 + n_targets, -one), 0.0, np.inf))
    if forms > 1:
        apart = sparse.hstack([sparse.csr_array((n_targets, z + 1)), -relative, one, -one])
        found.append(_bounded("information alike", apart, -np.inf, 0.0))
    return BinaryProgram(cost, n_binary, (*constraints, *found))


def n_shared(n_items: int, wishes: FormWishes) -> int:
    """Variables that say whether two of the forms made at once share an item."""
    pairs = wishes.forms * (wishes.forms - 1) // 2
    return 0 if wishes.most_overlap in (None, 0) else pairs * n_items


def _limit(pool: ItemPool, limit: Limit, forms: int) -> list[Constraint]:
    has, found = pool.has(limit.column, limit.value).astype(np.float64)[None], []
    for words, end, least, share in (
        ("at least {:g}", limit.at_least, True, False), ("at most {:g}", limit.at_most, False, False),
        ("at least {:.0%}", limit.least_share, True, True), ("at most {:.0%}", limit.most_share, False, True),
    ):  # fmt: skip
        if end is not None:
            rows, bound = (has - end, 0.0) if share else (has, end)
            low, high = (bound, np.inf) if least else (-np.inf, bound)
            name = f"{words.format(end)} of {limit.column}={limit.value}"
            found += _in_each_form(name, rows, low, high, forms, unit="share" if share else "count")
    return found


def _enemies(pool: ItemPool, wishes: FormWishes) -> list[Constraint]:
    sets = [tuple(dict.fromkeys(enemies)) for enemies in wishes.enemies]
    if wishes.enemies_by is not None:
        groups = pd.Series(pool.item_ids).groupby(pool.column(wishes.enemies_by), sort=False)
        sets += [tuple(items) for value, items in groups if value and len(items) > 1]
    if not sets:
        return []
    rows = sparse.lil_array((len(sets), pool.n_items))
    for k, enemies in enumerate(sets):
        rows[k, pool.positions(enemies, "enemies")] = 1
    names = tuple(f"({name_first(enemies)})" for enemies in sets)
    return _in_each_form("enemies", rows.tocsr(), -np.inf, 1.0, wishes.forms, what=names, unit="none")


def _overlaps(pool: ItemPool, wishes: FormWishes) -> list[Constraint]:
    """Items shared with forms in use, uses of each item, items shared by forms made at once."""
    n, forms, found = pool.n_items, wishes.forms, list[Constraint]()
    used = np.zeros(n)
    for number, other in enumerate(wishes.other_forms, start=1):
        row = np.array([[float(item in set(other)) for item in pool.item_ids]])
        used += row[0]
        if wishes.most_overlap is not None:
            name = f"at most {wishes.most_overlap} items of other form {number}"
            found += _in_each_form(name, row, -np.inf, wishes.most_overlap, forms)
    most_uses = wishes.most_uses
    if most_uses is None and forms > 1 and wishes.most_overlap in (None, 0):
        most_uses = 1 + int(used.max(initial=0))  # among the forms made at once
        used = np.full(n, most_uses - 1.0)
    if most_uses is not None:
        rows, left = sparse.hstack([sparse.eye_array(n)] * forms), np.maximum(most_uses - used, 0.0)
        name = f"at most {wishes.most_uses or 1} uses of an item"
        found.append(_bounded(name, rows, -np.inf, left, pool.item_ids, "none"))
    if n_shared(n, wishes):
        found += _shared_items(n, wishes)
    return found


def _shared_items(n: int, wishes: FormWishes) -> list[Constraint]:
    """Of forms made at once: y_j >= x_jf + x_jg - 1 for each pair, and no more than so many y."""
    found, forms, one = list[Constraint](), wishes.forms, sparse.eye_array(n)
    name = f"at most {wishes.most_overlap} items in two forms"
    for k, (first, second) in enumerate(combinations(range(forms), 2)):
        both, start = of_form(one, first, forms) + of_form(one, second, forms), n * (forms + k)
        found.append(_bounded("shared", _followed_by(both, start, -one), -np.inf, 1.0))
        total = _followed_by(sparse.csr_array((1, start)), start, np.ones((1, n)))
        found.append(_bounded(name, total, -np.inf, float(wishes.most_overlap or 0)))
    return found


def _followed_by(rows: sparse.csr_array, at: int, more: Array | sparse.csr_array) -> sparse.csr_array:
    """Rows with coefficients of further variables, which begin at this column."""
    return sparse.hstack([widened(rows, at), more])


def of_form(rows: Array | sparse.csr_array, form: int, n_forms: int) -> sparse.csr_array:
    """Rows about the items of one of the forms, shape (n_rows, n_forms * n_items)."""
    return sparse.csr_array(sparse.kron(np.eye(n_forms)[[form]], sparse.csr_array(rows)))


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
    names = [name if forms == 1 else f"{name} (form {form + 1})" for form in range(forms)]
    return [_bounded(own, of_form(rows, form, forms), low, high, what, unit) for form, own in enumerate(names)]


def _bounded(
    name: str,
    rows: sparse.csr_array,
    low: float,
    high: float | Array,
    what: tuple[str, ...] = (),
    unit: Unit = "count",
) -> Constraint:
    lower, upper = (np.broadcast_to(np.asarray(end, dtype=np.float64), rows.shape[:1]) for end in (low, high))
    return Constraint(name, sparse.csr_array(rows), lower, upper, what, unit)


@dataclass(frozen=True, eq=False)
class ErrorVariance:
    """The mean of SE^2 = 1 / (I + 1 / var(theta)) over a population, a convex function of the items chosen."""

    scale: str
    each: Array
    weights: Array
    variance: float
    most: float

    @property
    def wish(self) -> str:
        """The wish, as its constraints are called."""
        return f"reliability on {self.scale}"

    def of(self, chosen: Array) -> float:
        """Error variance of the form of these items, shape (n_items,)."""
        return float(self.weights @ (1 / (self.each @ chosen + 1 / self.variance)))

    def by_form(self, x: Array, n_forms: int) -> Array:
        """The items chosen for each form by a solution, shape (n_forms, n_items)."""
        return x[: n_forms * self.each.shape[1]].reshape(n_forms, -1)

    def cut(self, chosen: Array, form: int, n_forms: int) -> Constraint:
        """The tangent at these items, above which the error variance lies everywhere: it is no more than wanted."""
        slope = -(self.weights / (self.each @ chosen + 1 / self.variance) ** 2) @ self.each
        end = self.most - self.of(chosen) + float(slope @ chosen)
        return _bounded(self.wish, of_form(slope[None], form, n_forms), -np.inf, end, unit="error")


def error_variances(pool: ItemPool, reliability: float) -> list[ErrorVariance]:
    """What a reliability asks of each scale."""
    found = []
    for scale in pool.scales:
        population = population_of(scale)
        variance, each = population.deviation**2, pool.information(population.nodes, scale)
        found.append(ErrorVariance(scale.name, each, population.weights, variance, (1 - reliability) * variance))
    return found


def solve_with_cuts(
    program: BinaryProgram,
    errors: Sequence[ErrorVariance],
    n_forms: int,
    *,
    elastic: frozenset[str] = frozenset(),
    gap: float,
    until: float,
) -> Solution | None:
    """The best solution whose error variances are no more than wanted; None where there is none.

    They are convex functions of the items, so they lie above their tangents everywhere, and a program with some of
    these has every solution that is wanted. Where its best has too large an error variance, the tangent there is added
    (Kelley, 1960). The first tangents are found by the linear relaxation.
    """
    n_items = program.n_binary // n_forms
    cuts = [error.cut(np.ones(n_items), form, n_forms) for error in errors for form in range(n_forms)]

    def with_tangents(solver: Callable[[BinaryProgram], Solution | None]) -> Solution | None:
        for _ in range(MOST_CUTS):
            whole = program.also(cuts)
            found = solver(with_slack(whole, elastic) if elastic else whole)
            more = [] if found is None else _tangents(found.x, errors, n_forms, cuts, elastic)
            if not more:
                break
            cuts.extend(more)
        return found

    if errors and not elastic and with_tangents(relax) is None:
        return None
    return with_tangents(partial(solve, gap=gap, until=until))


def _tangents(
    x: Array, errors: Sequence[ErrorVariance], n_forms: int, cuts: Sequence[Constraint], elastic: frozenset[str]
) -> list[Constraint]:
    """Tangents at a solution whose error variance is more than wanted and more than those so far say it is."""
    found = []
    for error in errors:
        for form, chosen in enumerate(error.by_form(x, n_forms)):
            has, tolerance = error.of(chosen), TOLERANCE * error.variance
            new = error.cut(chosen, form, n_forms)
            if has <= error.most + tolerance:
                continue
            if new.name in elastic:
                own = [cut for cut in cuts if cut.name == new.name]
                known = max(float((cut.rows @ x[: cut.rows.shape[1]] - cut.upper)[0]) for cut in own)
                if has - error.most - known <= tolerance:
                    continue
            found.append(new)
    return found


def reliabilities_reached(errors: Sequence[ErrorVariance], n_forms: int, x: Array, names: frozenset[str]) -> list[str]:
    """What reliability a solution has on the scales of these wishes, where it is less than wanted."""
    sentences = []
    for error in errors:
        has = max(error.of(chosen) for chosen in error.by_form(x, n_forms))
        if error.wish in names and has > error.most + TOLERANCE * error.variance:
            wanted, most = 1 - error.most / error.variance, 1 - has / error.variance
            sentences.append(f"reliability {wanted:g} on {error.scale} ({most:.4g} is possible)")
    return sentences
