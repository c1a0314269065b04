"""0/1 programs with linear constraints, solved by HiGHS; and which constraint has to give way where none is met."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from irtbench.data.responses import name_first

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
    try:
        found = _solve_part(program, free, fixed, gap, min(until, time.monotonic() + (until - time.monotonic()) / 3))
    except TimeOut:
        found = None
    if found is None:
        return _solve_part(program, everywhere, fixed, gap, until)
    allowed = gap * abs(found.cost)
    elsewhere = found.cost - allowed  # outside the variables that matter nothing costs less
    slack = found.cost - bound - max(allowed, 1 - 1e-6 if program.whole_cost else 0.0)
    matter = np.abs(reduced) <= max(slack, 0.0) + 1e-9
    if not (matter & ~free).any():
        return replace(found, bound=max(bound, min(found.bound, elsewhere)))
    try:
        again = _solve_part(program, matter | free, fixed, gap, until)
    except TimeOut:
        again = None
    if again is None or again.cost > found.cost:
        return replace(found, bound=bound)
    return replace(again, bound=max(bound, min(again.bound, elsewhere)))


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
    try:
        found = solver(program, min(until, time.monotonic() + ENOUGH_SECONDS), names)
    except TimeOut:
        return []
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
