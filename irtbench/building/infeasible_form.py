"""Which wish no form can meet, and what could be had: an elastic program for one wish after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from irtbench.building.binary_program import BinaryProgram, Constraint, Solution, TimeOut
from irtbench.data.responses import name_first

#: Constraints that are part of the program and no wish.
NO_WISH = ("an item", "equal lengths", "information", "information alike", "shared")
ENOUGH_SECONDS = 20.0  # for one wish

#: Solves a program until a time, cuts of the reliability added; wishes of these names are elastic.
Solver = Callable[[BinaryProgram, float, frozenset[str]], Solution | None]
#: What a solution has in place of the reliability wished for, of the wishes of these names.
ReliabilityHad = Callable[[NDArray[np.float64], frozenset[str]], list[str]]


def what_gives_way(
    program: BinaryProgram, names: Sequence[str], solver: Solver, had: ReliabilityHad, *, seconds: float
) -> str:
    """Say which wish has to give way, and how far.

    Each wish alone is made elastic: its rows may be missed by an amount whose sum is minimised, all others being met
    (Greenberg & Murphy, 1991). Where no single one suffices, all are, relative to their size.

    Parameters
    ----------
    program
        Without a solution.
    names
        The wishes to ask about, as the constraints call them.
    solver, had
        Solve the program with elastic wishes, and say what reliability a solution has.
    seconds
        In all.
    """
    until = time.monotonic() + seconds
    singly = []
    for name in names:
        given_way = _given_way(program, frozenset([name]), solver, had, until)
        singly += [" and ".join(given_way)] if given_way else []
    if singly:
        return f"{'one of these' if len(singly) > 1 else 'this'} has to give way: {'; '.join(singly)}"
    together = _given_way(program, frozenset(names), solver, had, time.monotonic() + ENOUGH_SECONDS)
    if not together:
        return "which of them has to give way was not found in the time allowed"
    return f"several have to give way together: {'; '.join(together)}"


def _given_way(
    program: BinaryProgram, names: frozenset[str], solver: Solver, had: ReliabilityHad, until: float
) -> list[str]:
    """What these wishes come to where they may be missed; empty if that does not suffice or time is out."""
    if time.monotonic() > until:
        return []
    found = _solved(program, names, solver, until)
    return [] if found is None else [*missed(program, found.x, names), *had(found.x, names)]


def _solved(program: BinaryProgram, elastic: frozenset[str], solver: Solver, until: float) -> Solution | None:
    try:
        return solver(program, min(until, time.monotonic() + ENOUGH_SECONDS), elastic)
    except TimeOut:
        return None


def with_slack(program: BinaryProgram, elastic: frozenset[str]) -> BinaryProgram:
    """The program in which rows of some constraints may be missed, and what they are missed by is minimised.

    A variable for what a row lacks and one for what it has too much, each relative to the end that it misses; the cuts
    of one reliability are missed by one amount.
    """
    width = program.cost.size
    place: dict[tuple[object, ...], int] = {}
    costs: list[float] = []
    found = []
    for number, constraint in enumerate(program.constraints):
        if constraint.name not in elastic:
            found.append(constraint)
            continue
        n_rows = constraint.rows.shape[0]
        at, signs, rows = [], [], []
        for row in range(n_rows):
            for end, sign in ((constraint.lower[row], 1.0), (constraint.upper[row], -1.0)):
                if not np.isfinite(end):
                    continue
                shared = constraint.unit == "error"
                key = (constraint.name,) if shared else (number, row, sign)
                if key not in place:
                    place[key] = width + len(costs)
                    costs.append(1.0 if shared else 1 / max(abs(float(end)), 1.0))
                at.append(place[key])
                signs.append(sign)
                rows.append(row)
        own = constraint.rows.copy()
        own.resize((n_rows, width + len(costs)))
        slack = sparse.csr_array((signs, (rows, at)), shape=(n_rows, width + len(costs)))
        found.append(Constraint(constraint.name, sparse.csr_array(own + slack), constraint.lower, constraint.upper))
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
            found.append(f"{constraint.name} at {constraint.what[worst]} ({least} can be had)")
        elif rows and constraint.what:
            found.append(f"{constraint.name}: {name_first([constraint.what[row] for row in rows])}")
        elif rows and constraint.unit == "share":
            found.append(f"{constraint.name} (missed by {short[rows[0]]:.3g} items)")
        elif rows:
            found.append(f"{constraint.name} ({has[rows[0]]:.4g} can be had)")
    return found
