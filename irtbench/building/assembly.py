"""Forms of a bank: the shortest of a precision, the most informative of a length, the best to predict accuracy."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.bank.bank import NOT_ON_A_SCALE, BankLike, ItemBank, LeftOut, item_ids_of, items_left_out, scales_of
from irtbench.bank.norms import Norms
from irtbench.bank.scale import Scale, population_of
from irtbench.building.form_program import (
    NO_WISH,
    BinaryProgram,
    Constraint,
    ErrorVariance,
    Solution,
    error_variances,
    in_time,
    length_constraints,
    most_informative,
    precision_constraints,
    relax,
    reliabilities_reached,
    shortest,
    solve_with_cuts,
    targets_of,
    what_gives_way,
    whole_shares,
    wish_constraints,
)
from irtbench.building.form_wishes import FormKeywords, FormWishes, ItemPool, make_pool
from irtbench.data.checked_settings import seeded, settings_from, shows_fields, with_keywords
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix, positions_of
from irtbench.data.shown import Shown, counted
from irtbench.diagnostics.measurement_precision import measurement_precision
from irtbench.models.curves import share_moments, simulate_responses
from irtbench.models.theta_posterior import STANDARD_NORMAL, posterior_of, row_batches

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
        return np.asarray(
            (1 - SHRINKAGE) * self.rows.T @ self.rows.mean(axis=1) + self.level + own_part / len(self.own)
        )

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
    rows, own, relative = _by_the_bank(pool)
    if known is not None:
        rows, own = _by_systems(pool, known)
    least = (NO_CHANCE, 0.0), (LEAST_CHANCE * relative, LEVEL_VARIANCE)  # of those like the known, and beyond them
    kinds = [Systems(rows, np.maximum(own, chance), level) for chance, level in least]
    required = list(dict.fromkeys(pool.positions(wishes.required, "required").tolist()))
    closed = np.unique(pool.positions(wishes.forbidden, "forbidden"))
    assert wishes.length is not None
    n_free = pool.n_items - len(closed)
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


def _by_the_bank(pool: ItemPool) -> tuple[Array, Array, Array]:
    """Deviations and variances of responses over each scale's population, scales being independent; and the variance by
    chance of each item's share of its score, relative to a right or wrong one's, shape (n_items,).
    """
    rows, own, relative = [], np.zeros(pool.n_items), np.ones(pool.n_items)
    for scale in pool.scales:
        density, here = population_of(scale), pool.positions(scale.items.item_ids)
        p, variance = share_moments(density.nodes, scale.items)
        mean = density.weights @ p
        rows.append(pool.spread((p - mean) * np.sqrt(density.weights)[:, None], scale))
        own[here] = density.weights @ ((p - mean) ** 2 + variance)
        relative[here] = (density.weights @ variance) / (density.weights @ (p * (1 - p)))
    return np.concatenate(rows), own, relative


def _by_systems(pool: ItemPool, known: ResponseMatrix) -> tuple[Array, Array]:
    """Deviations and variances of the responses of systems known."""
    own = known.select_items(pool.item_ids)
    if not own.is_complete or own.n_respondents < 2:
        raise InputError("form: expected complete responses of at least two known systems to all items of the bank")
    deviation = (own.shares - own.shares.mean(axis=0)) / np.sqrt(own.n_respondents)
    return deviation, (deviation**2).sum(axis=0)


GAP_OF_LIKENESS = 1e-3  # of the shortest forms' information, which are alike to that
ROUNDING = 1e-9  # a gap below this is none
SECONDS_TO_EXPLAIN = 60.0  # why there is no form

NOT_ON_THE_FORM = "not_on_the_form"


@dataclass(frozen=True, eq=False)
class AssembledForms(Shown):
    """Forms and how good they are.

    Parameters
    ----------
    forms
        The items of each form, in the order of the bank.
    wishes
        What was wished for.
    precision
        A row for each form, scale and theta point: ``form, scale, theta, information, se``; with the marginal
        reliability of the form on the scale.
    objective
        Number of items of a form, where the shortest was wished for; else the least information, relative to the
        shape; of several forms less the largest difference between two. For accuracy, the standard deviation that is
        left of the accuracy on all items.
    bound
        No forms are better than this; for accuracy, where items are chosen one by one, it is not known (NaN).
    seconds
        Taken.
    details
        A row an item of each form, columns of form.csv.
    """

    forms: tuple[tuple[str, ...], ...]
    wishes: FormWishes
    precision: pd.DataFrame
    objective: float
    bound: float
    seconds: float
    details: pd.DataFrame

    @property
    def gap(self) -> float:
        """How far the objective may be from the best there is, relative to it."""
        gap = abs(self.objective - self.bound) / max(abs(self.objective), 1e-12)
        return 0.0 if gap <= ROUNDING else gap

    @property
    def optimal(self) -> bool:
        """Whether nothing better than what was asked for with ``gap`` exists."""
        return self.gap <= max(self.wishes.gap, 1e-6)

    def table(self) -> pd.DataFrame:
        """One row an item of each form, columns of form.csv."""
        return self.details

    def summary(self) -> dict[str, Any]:
        """What form.json says."""
        reliability = self.precision.drop_duplicates(["form", "scale"])[["form", "scale", "reliability"]]
        return {
            "wanted": self.wishes.wanted,
            "n_forms": len(self.forms),
            "n_items": len(self.forms[0]),
            "objective": self.objective,
            "bound": self.bound,
            "gap": self.gap,
            "optimal": self.optimal,
            "seconds": self.seconds,
            "reliability": reliability,
            "precision": self.precision.drop(columns="reliability"),
        }

    def in_short(self) -> str:
        """How many forms of how many items, and whether they are the best there can be."""
        several = "" if len(self.forms) == 1 else f"{len(self.forms)} forms of "
        least = self.precision["reliability"].min()
        found = "optimal" if self.optimal else f"gap {self.gap:.2g}"
        if self.wishes.objective == "accuracy":
            found = f"accuracy known to {self.objective:.3f}"
        items = counted(len(self.forms[0]), "item")
        return f"{several}{items}, {self.wishes.wanted} wanted, reliability {least:.3f}, {found}"


@shows_fields(FormWishes)
def assemble_forms(
    bank: BankLike,
    wishes: FormWishes | None = None,
    *,
    columns: pd.DataFrame | None = None,
    known: ResponsesLike | None = None,
    **keywords: Unpack[FormKeywords],
) -> AssembledForms:
    """Choose the items of one form or several: exactly, by a 0/1 program over the items, or for accuracy one by one.

    - ``length``: most information: the least of the points ``theta``, relative to ``shape`` (maximin; van der Linden &
      Boekkooi-Timminga, 1989), or the population's mean; of several scales that of the scale with least;
    - ``se``: the fewest items with I(theta) >= 1 / se^2 at all points (Theunissen, 1985);
    - ``reliability``: the fewest items with 1 - E[SE^2] / var(theta) no less, SE^2 = 1 / (I + 1 / var(theta)). E[SE^2]
      is convex in the items, so tangents added one by one make the program exact (Kelley, 1960).

    Parameters
    ----------
    bank
        A bank, a scale, item parameters, or a data frame like items.csv, whose columns are known then.
    wishes
        See `FormWishes`.
    columns
        More of each item: a data frame with ``item_id``, whose other columns limits and enemies can name.
    known
        With ``objective="accuracy"``: responses of systems to all items, none missing, which say how items go together;
        None for what the bank says.
    keywords
        Of the wishes: ``length=30``.

    Raises
    ------
    InputError
        If a wish is not understood, or no form meets all: it names those that have to give way, and what is possible.
    TimeOut
        If no form was found in the time allowed.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty(rng.uniform(0.8, 2, 60), rng.normal(size=60))
    >>> irtbench.assemble_forms(items, length=10)
    <AssembledForms: 10 items, length 10 wanted, reliability 0.803, optimal>
    >>> irtbench.assemble_forms(items, reliability=0.9)
    <AssembledForms: 25 items, reliability 0.9 wanted, reliability 0.903, optimal>
    """
    began = time.monotonic()
    wishes = settings_from(FormWishes, keywords) if wishes is None else with_keywords(wishes, keywords)
    pool = make_pool(bank, columns)
    forms: tuple[tuple[str, ...], ...]
    if wishes.objective == "accuracy":
        form, objective = accuracy_form(
            pool, wishes, None if known is None else as_responses(known, item_ids=pool.item_ids)
        )
        forms, bound = (form,), np.nan
    elif known is not None:
        raise InputError("form: known responses go with the objective accuracy; expected none for information")
    else:
        forms, objective, bound = _informative_forms(pool, wishes)
    return AssembledForms(
        forms=forms,
        wishes=wishes,
        precision=_precision(pool, forms, wishes),
        objective=objective,
        bound=bound,
        seconds=time.monotonic() - began,
        details=_details(pool, forms),
    )


def _informative_forms(pool: ItemPool, wishes: FormWishes) -> tuple[tuple[tuple[str, ...], ...], float, float]:
    """The forms of most information, or the shortest that have enough; their objective, and the best there can be."""
    n, targets = pool.n_items, targets_of(pool, wishes)
    twice = wishes.length is None and wishes.forms > 1
    until = time.monotonic() + wishes.seconds_allowed / (2 if twice else 1)
    errors = [] if wishes.reliability is None else error_variances(pool, wishes.reliability)
    others = [*wish_constraints(pool, wishes), *precision_constraints(targets, wishes)]
    constraints = [*length_constraints(n, wishes, wishes.length), *others]
    if wishes.length is None:
        program = _with_whole_shares(pool, wishes, shortest(n, wishes, constraints))
    else:
        program = most_informative(n, wishes, targets, constraints).also(whole_shares(pool, wishes, wishes.length))
    found = solve_with_cuts(program, errors, wishes.forms, gap=wishes.gap, until=until)
    if found is None:
        raise InputError(
            f"form: no form of the bank's {n} items meets all wishes; {_why(n, wishes, constraints, errors)}"
        )
    forms = _forms_of(pool, wishes, found)
    if wishes.length is not None:
        return forms, -found.cost, -found.bound
    if twice:
        constraints = [*length_constraints(n, wishes, len(forms[0])), *others]
        forms = _alike(pool, wishes, most_informative(n, wishes, targets, constraints), errors) or forms
    return forms, found.cost, float(np.ceil(found.bound - 1e-6))


def _with_whole_shares(pool: ItemPool, wishes: FormWishes, program: BinaryProgram) -> BinaryProgram:
    """The program of the shortest forms with shares in whole items, as many as the least length there can be asks."""
    least, tighter = 0, program
    while any(limit.least_share or limit.most_share for limit in wishes.limits):
        relaxed = relax(tighter)
        if relaxed is None or (length := int(np.ceil(relaxed.cost - 1e-6))) <= least:
            break
        least = length
        tighter = program.also(whole_shares(pool, wishes, least))
    return tighter


def _why(n_items: int, wishes: FormWishes, constraints: Sequence[Constraint], errors: Sequence[ErrorVariance]) -> str:
    """Why there is no form: which wish has to give way."""
    names = [constraint.name for constraint in constraints if constraint.name not in NO_WISH]
    names += [error.wish for error in errors]

    def solver(program: BinaryProgram, until: float, elastic: frozenset[str]) -> Solution | None:
        return solve_with_cuts(program, errors, wishes.forms, elastic=elastic, gap=1e-4, until=until)

    at_least_one = length_constraints(n_items, wishes, None)[0]
    return what_gives_way(
        shortest(n_items, wishes, [at_least_one, *constraints]),
        list(dict.fromkeys(names)),
        solver,
        partial(reliabilities_reached, errors, wishes.forms),
        seconds=SECONDS_TO_EXPLAIN,
    )


def _alike(
    pool: ItemPool, wishes: FormWishes, program: BinaryProgram, errors: Sequence[ErrorVariance]
) -> tuple[tuple[str, ...], ...] | None:
    """Of forms of one length those whose information is as alike, and as much, as can be; None if time is out."""
    until, gap = time.monotonic() + wishes.seconds_allowed / 2, max(wishes.gap, GAP_OF_LIKENESS)
    found = in_time(solve_with_cuts, program, errors, wishes.forms, gap=gap, until=until)
    return None if found is None else _forms_of(pool, wishes, found)


def _forms_of(pool: ItemPool, wishes: FormWishes, found: Solution) -> tuple[tuple[str, ...], ...]:
    chosen = found.x[: pool.n_items * wishes.forms].reshape(wishes.forms, pool.n_items) > 0.5
    return tuple(tuple(item for item, has in zip(pool.item_ids, row, strict=True) if has) for row in chosen)


def _precision(pool: ItemPool, forms: Sequence[tuple[str, ...]], wishes: FormWishes) -> pd.DataFrame:
    """Information, standard error and reliability of each form on each scale that it has items of."""
    parts = []
    for number, form in enumerate(forms, start=1):
        for scale in pool.scales:
            own = [item for item in scale.items.item_ids if item in set(form)]
            if not own:
                continue
            found = measurement_precision(
                scale.items.select(own), population=scale.population or STANDARD_NORMAL, theta=wishes.theta
            )
            parts.append(pd.DataFrame({
                "form": number, "scale": scale.name, "theta": found.theta, "information": found.information,
                "se": found.standard_error, "reliability": found.marginal_reliability,
            }))  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def _details(pool: ItemPool, forms: Sequence[tuple[str, ...]]) -> pd.DataFrame:
    """A row an item of each form: what is known of it, and its parameters, on the first scale that has it."""
    columns = ["item_id", "model", "discrimination", "difficulty", "guessing", "intercept"]
    tables = [table[[name for name in table if name in columns]] for table in (s.items.table() for s in pool.scales)]
    parameters = pd.concat(tables).drop_duplicates("item_id").set_index("item_id")
    places = [(number, k, item) for number, form in enumerate(forms, start=1) for k, item in enumerate(form, start=1)]
    table = pd.DataFrame(places, columns=["form", "position", "item_id"]).join(pool.columns["scale"], on="item_id")
    table = table.join(parameters, on="item_id")
    return table.join(pool.columns[[name for name in pool.columns if name not in table]], on="item_id")


def form_bank(bank: BankLike, form: Sequence[str], *, seed: int = 0) -> ItemBank:
    """The bank with the items of a form alone, on the same scale of ability.

    The norm sample keeps the abilities and standard errors that it has from all items: they say what the population is
    like, and ``normal`` and ``smoothed`` percentiles are based on them. An empirical percentile compares estimates, and
    those from few items are shrunk more: for it every respondent gets an ability on the form as well, the EAP of
    responses to it drawn at an ability that is drawn from the respondent's posterior.

    Items of the bank that are not on the form are noted in the provenance: responses to them are left out, not refused.
    A scale without an item on the form is left out.

    Parameters
    ----------
    bank
        A bank, a scale, item parameters, or a data frame like items.csv.
    form
        Its items.
    seed
        Of the draws.

    Raises
    ------
    InputError
        If the form has no item or one that the bank has not.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.8, -0.3, 0.4, 1.1, 1.9])
    >>> people = irtbench.Norms(np.random.default_rng(1).normal(size=200))
    >>> scale = irtbench.Scale("all", items, irtbench.ItemTable.plain(items.item_ids), norms=people)
    >>> form = irtbench.assemble_forms(scale, length=3)
    >>> form.forms[0]
    ('item2', 'item3', 'item5')
    >>> short = irtbench.form_bank(scale, form.forms[0])
    >>> irtbench.score_responses(short, [[1, 1, 0]])[["n_items", "theta", "percentile"]].round(2)
       n_items  theta  percentile
    0        3   0.34        63.3
    """
    scales, chosen = scales_of(bank), set(form)
    positions_of(form, item_ids_of(bank), "form: item {} is not in the bank; expected its items")
    kept = [scale for scale in scales if not chosen.isdisjoint(scale.items.item_ids)]
    if not kept:
        raise InputError("form: has no item; expected at least one")
    rng = seeded(seed)
    dropped = [LeftOut(item, NOT_ON_THE_FORM, scale.name)
               for scale in scales for item in scale.items.item_ids if item not in chosen]  # fmt: skip
    left_out = [vars(item) for item in [*items_left_out(scales).values(), *dropped]]
    shortened = []
    for scale in kept:
        short = scale.select([item for item in scale.items.item_ids if item in chosen])
        about = {**scale.provenance, NOT_ON_A_SCALE: left_out, "form_of": scale.items.n_items}
        norms = scale.norms
        if norms is not None and short.items.n_items < scale.items.n_items:
            norms = _norms_on_form(norms, short, rng)
        shortened.append(replace(short, provenance=about, norms=norms))
    return ItemBank(tuple(shortened), bank.card if isinstance(bank, ItemBank) else None)


def _norms_on_form(norms: Norms, short: Scale, rng: np.random.Generator) -> Norms:
    """The norm sample with an ability on the form next to that on all items."""
    theta = norms.theta + norms.spread * rng.normal(size=norms.n)
    values = simulate_responses(theta, short.items, rng=rng).correct
    on_form = np.empty(norms.n)
    for rows in row_batches(norms.n, short.items.n_items):
        on_form[rows] = posterior_of(values[rows], short.items, short.population or STANDARD_NORMAL).mean()
    return replace(norms, standard_error=norms.spread, on_form=on_form)
