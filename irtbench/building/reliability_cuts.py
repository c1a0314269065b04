"""Forms of a wanted reliability: tangents of the error variance, added to the 0/1 program until it is small enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from irtbench.bank.scale import Scale
from irtbench.building.binary_program import BinaryProgram, Constraint, Solution, relax, solve
from irtbench.building.form_program import of_form
from irtbench.building.infeasible_form import with_slack
from irtbench.building.item_pool import ItemPool, population_of

Array = NDArray[np.float64]

TOLERANCE = 1e-6  # of the error variance, relative to that of the population
MOST_CUTS = 100  # rounds of them


@dataclass(frozen=True, eq=False)
class ErrorVariance:
    """The mean of SE^2 = 1 / (I + 1 / var(theta)) over a population, a convex function of the items chosen.

    Parameters
    ----------
    scale
        Name of the scale.
    each
        Information of each item at the nodes, shape (n_nodes, n_items).
    weights
        Of the nodes.
    variance
        Of theta in the population.
    most
        Error variance that the reliability wanted leaves, (1 - reliability) var(theta).
    """

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

    def slope(self, chosen: Array) -> Array:
        """Derivative by each item."""
        squared = (self.each @ chosen + 1 / self.variance) ** 2
        return -(self.weights / squared) @ self.each

    def cut(self, chosen: Array, form: int, n_forms: int) -> Constraint:
        """The tangent at these items, above which the error variance lies everywhere: it is no more than wanted."""
        slope = self.slope(chosen)
        end = self.most - self.of(chosen) + float(slope @ chosen)
        rows = of_form(slope[None], form, n_forms)
        return Constraint(self.wish, rows, np.array([-np.inf]), np.array([end]), unit="error")


def error_variances(pool: ItemPool, reliability: float) -> list[ErrorVariance]:
    """What a reliability asks of each scale."""
    return [_error_variance(pool, scale, reliability) for scale in pool.scales]


def _error_variance(pool: ItemPool, scale: Scale, reliability: float) -> ErrorVariance:
    population = population_of(scale)
    weights = population.weights
    variance = float(weights @ (population.nodes - weights @ population.nodes) ** 2)
    each = pool.information(population.nodes, scale)
    return ErrorVariance(scale.name, each, weights, variance, (1 - reliability) * variance)


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

    Parameters
    ----------
    program
        Without the wish for reliability.
    errors
        What it asks of each scale; none where no reliability is wanted.
    n_forms
        Forms made at once.
    elastic
        Wishes that may be missed, see ``with_slack``.
    gap, until
        As for ``solve``.
    """
    n_items = program.n_binary // n_forms
    cuts = [error.cut(np.ones(n_items), form, n_forms) for error in errors for form in range(n_forms)]
    now = _with(program, cuts, elastic)
    if errors and not elastic:
        for _ in range(MOST_CUTS):
            relaxed = relax(now)
            if relaxed is None:
                return None
            more = _tangents(relaxed[0], errors, n_forms, cuts, elastic)
            if not more:
                break
            cuts += more
            now = _with(program, cuts, elastic)
    found = solve(now, gap=gap, until=until)
    for _ in range(MOST_CUTS):
        more = [] if found is None else _tangents(found.x, errors, n_forms, cuts, elastic)
        if not more:
            break
        cuts += more
        found = solve(_with(program, cuts, elastic), gap=gap, until=until)
    return found


def _with(program: BinaryProgram, cuts: Sequence[Constraint], elastic: frozenset[str]) -> BinaryProgram:
    whole = program.also(cuts)
    return with_slack(whole, elastic) if elastic else whole


def _tangents(
    x: Array, errors: Sequence[ErrorVariance], n_forms: int, cuts: Sequence[Constraint], elastic: frozenset[str]
) -> list[Constraint]:
    """Tangents at a solution whose error variance is more than wanted and more than those so far say it is."""
    found = []
    n_items = errors[0].each.shape[1] if errors else 0
    for error in errors:
        for form in range(n_forms):
            chosen = x[form * n_items : (form + 1) * n_items]
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


def reliabilities_had(errors: Sequence[ErrorVariance], n_forms: int, x: Array, names: frozenset[str]) -> list[str]:
    """What reliability a solution has on the scales of these wishes, where it is less than wanted."""
    said = []
    for error in errors:
        n_items = error.each.shape[1]
        has = max(error.of(x[form * n_items : (form + 1) * n_items]) for form in range(n_forms))
        if error.wish in names and has > error.most + TOLERANCE * error.variance:
            wanted, most = 1 - error.most / error.variance, 1 - has / error.variance
            said.append(f"reliability {wanted:g} on {error.scale} ({most:.4g} can be had)")
    return said
