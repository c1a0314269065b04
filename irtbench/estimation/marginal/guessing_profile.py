"""Likelihood-ratio intervals of items whose guessing is estimated, from the profile likelihood of c.

The likelihood of c is far from normal: its maximum is often at the bound c = 0, and b and a move with c. 1.96 standard
errors on either side then miss; an item at c = 0 has those of a 2PL, as if c were known, and those around the mode
under a prior of c are the prior's where the responses say little. For each item the likelihood, without the prior of c
but with that of (a, d) if there is one, is maximised over (a, d) at values of c, the other items at their estimates:

    D(c) = 2 (max l - max over a, d of l(a, d, c)).

The interval of b is the union over c of b(c) -+ sqrt(v(c) (3.84 - D(c))), b(c) and v(c) the estimate and its variance
at that c: the likelihood-ratio interval, b being near normal where c is known. That of a is found alike, on the scale
asinh(2 a). Errors that items share, the scale's location and unit, are added in squares.

The interval of c is where D(c) is below the 95% point of its distribution if c is true: 3.84, that of chi-square with
one degree of freedom, far from 0, and 2.71 at 0, where half of all estimates are (Self & Liang, 1987). Between them it
depends on k = c / (standard error of c): P(D <= q) = Phi(sqrt q) - Phi(-(q + k^2) / (2 k)), k < sqrt q, where the
likelihood is normal but for the bound (Feldman & Cousins, 1998).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import chdtri, ndtr
from torch import Tensor

from irtbench.estimation.marginal.item_likelihood import ItemLikelihoods
from irtbench.estimation.marginal.observed_information import (
    MOST_COUPLED_ITEMS,
    invert,
    on_guessing_scale,
    own_information,
)
from irtbench.estimation.marginal.problem import Estimate, Problem
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.pyro_model.tensors import GUESSING, ItemTensors, curve

Array = NDArray[np.float64]

CUT = float(chdtri(1, 0.05))  # 3.84
PLACES = np.array([0.4, 0.8, 1.2])  # of c, in units of the expected reach of its interval on either side
FURTHER = np.array([0.7, 1.5])  # beyond the last place, where the interval turns out longer, and again so
LONGER = 1.5  # each time
HIGHEST = 0.95  # of the item's proportion correct: no c beyond is tried
FIRST_REACH = 3.0  # of an item of which nothing else is known, over the root of the number of its responses
LONGEST_REACH = 0.15
MOST_ROUNDS = 12
DIGITS, SAME = 9, 1e-8  # to which places are told apart
LARGEST_ASINH = 300.0  # whose hyperbolic sine can still be squared
FINE = 200  # places at which the profile is read off


def ends_of(rows: Array) -> Array:
    """Lower and upper ends of (a, b, c) of items, and their maxima between them, shape (n_items, 3, 3).

    Parameters
    ----------
    rows
        The maximum of each item's likelihood over (a, d) at rising values of c, shape (6, n_items, n_places): c, D up
        to a constant, (asinh 2a, b) and their variances.
    """
    places, each = rows[0], np.arange(rows.shape[1])
    c = np.linspace(places[:, 0], places[:, -1], FINE, axis=1)
    fall, *others = interpolated(places, rows[1:], c)
    best = fall.argmin(axis=1).clip(1, FINE - 2)
    before, here, after = fall[each, best + np.array([[-1], [0], [1]])]
    bend = before - 2 * here + after
    move = (before - after) / (2 * np.where(bend > 0, bend, np.inf))
    top = c[each, best] + (c[:, 1] - c[:, 0]) * np.clip(move, -1.0, 1.0)
    least, *centre = interpolated(places, rows[1:4], top[:, None])
    fall = fall - least
    left, at = CUT - fall, np.array(others[:2])
    reach = np.where(left >= 0, np.sqrt(np.maximum(others[2:], 0.0) * np.maximum(left, 0.0)), -np.inf)
    inside, bounds = fall <= cuts(c, fall), [top, *np.array(centre)[:, :, 0]]
    lower = [*(at - reach).min(axis=2), np.minimum(np.where(inside, c, np.inf).min(axis=1), top)]
    upper = [*(at + reach).max(axis=2), np.maximum(np.where(inside, c, -np.inf).max(axis=1), top)]
    found = np.array([lower, [*bounds[1:], top], upper]).transpose(2, 0, 1)
    found[:, :, 0] = np.sinh(found[:, :, 0].clip(-LARGEST_ASINH, LARGEST_ASINH)) / 2  # endless slopes are finite, too
    return found


def interpolated(x: Array, rows: Array, at: Array) -> Array:
    """Rows of values of items at rising places, shapes (n_rows, n_items, n_places) and (n_items, n_places), at others.

    Cubic, shape (n_rows, n_items, n_others). Slopes are those of parabolas through three places; of two places the
    values between are linear.
    """
    h = np.diff(x)
    secant = np.diff(rows) / h
    slope = secant
    if x.shape[1] > 2:
        between = (h[:, 1:] * secant[..., :-1] + h[:, :-1] * secant[..., 1:]) / (h[:, 1:] + h[:, :-1])
        first, last = 2 * secant[..., :1] - between[..., :1], 2 * secant[..., -1:] - between[..., -1:]
        slope = np.concatenate([first, between, last], axis=-1)
    left, right = slope[..., : h.shape[1]], slope[..., -h.shape[1] :]
    k = (x[:, None, 1:-1] <= at[:, :, None]).sum(axis=2)
    each = np.arange(len(x))[:, None]
    step = h[each, k]
    t = (at - x[each, k]) / step
    # Hermite's cubics by powers of t
    second, third = (3 * secant - 2 * left - right), (left + right - 2 * secant)
    by_step = left[:, each, k] + t * (second[:, each, k] + t * third[:, each, k])
    return np.asarray(rows[:, each, k] + step * t * by_step)


def cuts(c: Array, fall: Array) -> Array:
    """The 95% point of D at each c of each item, the parabola through D saying what the standard error of c is."""
    n_places = c.shape[1]
    last = n_places - 1 - (fall <= fall.min(axis=1, keepdims=True) + CUT)[:, ::-1].argmax(axis=1)
    places = np.stack([np.zeros_like(last), np.maximum(last, 2) // 2, np.maximum(last, 2)], axis=1)
    x, y = (np.take_along_axis(part, places, axis=1) for part in (c, fall))
    slope = np.diff(y) / np.diff(x)
    bend = (slope[:, 1] - slope[:, 0]) / np.where(x[:, 2] > 0, x[:, 2], 1.0)
    k, points = boundary_cuts()
    found = np.interp(c * np.sqrt(np.maximum(bend, 0.0))[:, None], k, points)
    return np.where(((last < 2) | (c[:, 0] > 0))[:, None], CUT, found)


@cache
def boundary_cuts() -> tuple[Array, Array]:
    """The 95% point of D where the true value is k standard errors above its bound, and these k."""
    k = np.linspace(0.0, CUT**0.5, 50)
    low, high = np.full(50, 2.0), np.full(50, CUT)
    for _ in range(40):
        q = (low + high) / 2
        below = np.where(k < np.sqrt(q), (q + k**2) / (2 * np.maximum(k, 1e-9)), np.sqrt(q))
        enough = ndtr(np.sqrt(q)) - ndtr(-below) > 0.95
        low, high = np.where(enough, low, q), np.where(enough, q, high)
    return k, (low + high) / 2


def guessing_intervals(
    problem: Problem, items: ItemParameters, wanted: NDArray[np.bool_], joint: Array | None = None
) -> Array:
    """Lower and upper ends of (a, b, c) of each item, shape (2, n_items, 3).

    Parameters
    ----------
    problem
        The fit's, guessing fixed at 0 where its maximum is there.
    items
        The estimates, with their covariance.
    wanted
        Where c was to be estimated, shape (n_items,); elsewhere intervals are 1.96 standard errors on either side.
    joint
        Covariance of (a, d, c) of all items, if known; of several scales one after the other, of each.
    """
    estimate = np.stack([items.discrimination, items.difficulty, items.guessing], axis=1)
    error = np.sqrt(variances(items))
    ends = np.stack([estimate - CUT**0.5 * error, estimate + CUT**0.5 * error])
    tensors = problem.from_public(items)
    own = own_items(problem, items, tensors, joint)
    shared = np.maximum(np.nan_to_num(variances(items) - variances(own)), 0.0)
    n_responses, n_correct = (
        part.cpu().numpy() for part in (problem.n_by_item.clamp(min=1), problem.n_correct_by_item)
    )
    highest = HIGHEST * n_correct / n_responses
    start, reach = start_of_profiles(problem, own, tensors, n_responses, highest)
    chosen = np.flatnonzero(wanted & (items.guessing < highest))
    if not chosen.size:
        return ends
    sign = np.array([-1.0, 1.0])[:, None, None]
    item, rows = profiles(ItemLikelihoods.of(problem, tensors), chosen, start, reach, highest)
    item, first, number = np.unique(item, return_index=True, return_counts=True)
    for n in np.unique(number[number > 1]):
        some = number == n
        lower, centre, upper = ends_of(rows[:, first[some, None] + np.arange(n)]).transpose(1, 0, 2)
        beyond = np.maximum(sign * (np.stack([lower, upper]) - centre), 0.0)
        ends[:, item[some]] = centre + sign * np.sqrt(beyond**2 + CUT * shared[item[some]])
    ends[:, chosen, 2] = ends[:, chosen, 2].clip(0.0, 1.0)
    return ends


def variances(items: ItemParameters) -> Array:
    """Of (a, b, c) of each item, 0 where c is fixed, shape (n_items, 3)."""
    errors = items.standard_errors()
    found = np.stack([errors[name] for name in ("discrimination", "difficulty", "guessing")], axis=1) ** 2
    found[:, 2] = np.nan_to_num(found[:, 2])
    return found


def own_items(problem: Problem, items: ItemParameters, tensors: ItemTensors, joint: Array | None) -> ItemParameters:
    """The items with the covariances that they would have if the other items were known."""
    if joint is None and items.n_items > MOST_COUPLED_ITEMS:
        return items
    if joint is None:
        blocks, _ = invert(own_information(problem, tensors))
        return replace(
            items, covariance=on_guessing_scale(problem, tensors, torch.where(problem.estimated_pairs, blocks, 0.0))
        )
    free, shape = problem.free.view(problem.n_scales, -1), (problem.n_scales, len(tensors) // problem.n_scales, 3)
    whole = torch.from_numpy(joint).to(free.device).reshape(*free.shape, -1)
    whole = torch.where(free[:, :, None] & free[:, None], whole, torch.eye(free.shape[1]).to(whole))
    each = torch.linalg.inv_ex(whole).inverse.reshape(*shape, *shape[1:]).diagonal(dim1=1, dim2=3)
    own = torch.linalg.inv_ex(each.permute(0, 3, 1, 2)).inverse.flatten(0, 1)
    return replace(items, covariance=torch.where(problem.estimated_pairs, own, 0.0).cpu().numpy())


def start_of_profiles(
    problem: Problem, own: ItemParameters, tensors: ItemTensors, n_responses: Array, highest: Array
) -> tuple[Array, Array]:
    """Where the likelihood of c is expected to be highest, and the reach of its interval, shape (n_items,) each.

    One step of Newton's method from the mode, the prior of c taken out of gradient and information.
    """
    c = own.guessing
    gradient, information = (
        part.cpu().numpy() for part in problem.prior.derivatives(tensors, by_logit=True, positive=False)
    )
    rate = np.maximum(c * (1 - c), 1e-9)
    error = np.sqrt(variances(own)[:, 2])
    known = error > 0
    by_likelihood = 1 / np.where(known, error, 1.0) ** 2 - information[:, GUESSING, GUESSING] / rate**2
    shortest, longest = FIRST_REACH / np.sqrt(n_responses), LONGEST_REACH
    reach = np.where(
        known, CUT**0.5 / np.sqrt(np.maximum(by_likelihood, CUT / longest**2)), np.minimum(shortest, longest)
    )
    move = np.where(known, -gradient[:, GUESSING] / rate * reach**2 / CUT, 0.0)
    return np.clip(c + np.clip(move, -longest, longest), 0.0, 0.9 * highest), reach


def profiles(
    likelihoods: ItemLikelihoods, items: NDArray[np.intp], start: Array, reach: Array, highest: Array
) -> tuple[NDArray[np.intp], Array]:
    """The rows of each of these items (`ends_of`), up to where D is above the cut-off on either side, or c at a bound.

    Which item each place is of, and its values, shapes (n_places,) and (6, n_places): items and their places rise.
    Places at which a slope grows without end are left out: there the likelihood is not followed.
    """
    rows, item = np.zeros((6, 0)), np.zeros(0, dtype=np.intp)
    start, reach, highest = start[items], reach[items], highest[items]
    up = start[:, None] + np.minimum(reach, (highest - start) / PLACES[-1])[:, None] * PLACES
    down = start[:, None] - np.minimum(reach, start / PLACES[-1])[:, None] * PLACES
    place, c = apart(np.concatenate([np.maximum(down, 0.0), start[:, None], up], axis=1))
    for _ in range(MOST_ROUNDS):
        rows = np.concatenate([rows, profile_at(likelihoods, items[place], c)], axis=1)
        item = np.concatenate([item, place])
        order = np.lexsort((rows[0], item))
        rows, item = rows[:, order], item[order]
        reach = LONGER * reach
        place, c = apart(beyond(item, rows, reach, highest))
        if not len(c):
            break
    finite = np.isfinite(rows).all(axis=0)
    return items[item[finite]], rows[:, finite]


def beyond(item: NDArray[np.intp], rows: Array, reach: Array, highest: Array) -> Array:
    """Places at which a profile goes on, where it has not yet fallen by the cut-off; elsewhere NaN."""
    _, first = np.unique(item, return_index=True)
    last = np.append(first[1:], len(item)) - 1
    c, fall = rows[:2]
    cut = np.minimum.reduceat(fall, first) + CUT
    up = (fall[last] < cut) & (c[last] < highest - SAME)
    down = (fall[first] < cut) & (c[first] > SAME)
    above = np.minimum(c[last, None] + reach[:, None] * FURTHER, highest[:, None])
    below = np.maximum(c[first, None] - reach[:, None] * FURTHER, 0.0)
    return np.concatenate([np.where(up[:, None], above, np.nan), np.where(down[:, None], below, np.nan)], axis=1)


def apart(places: Array) -> tuple[NDArray[np.intp], Array]:
    """The item and c of places in rising order, those that only rounding tells apart once.

    Between two such a profile has no slope. `places` has a row an item, NaN where there is none.
    """
    places = np.sort(np.round(places, DIGITS), axis=1)
    new = np.diff(places, axis=1, prepend=-1.0) > 0
    return np.nonzero(new)[0], places[new]


def profile_at(likelihoods: ItemLikelihoods, item: NDArray[np.intp], c: Array) -> Array:
    """Rows c, D, asinh 2a, b and the variances of these two at each c, shape (6, n_places)."""
    device = likelihoods.basis.device
    places = torch.tensor(c, device=device)
    x, change, information = likelihoods.maximum(torch.tensor(item, device=device), places, least=-2 * CUT)
    slope, intercept = x.unbind(-1)
    covariance = torch.linalg.inv_ex(information).inverse
    b, var_a = -intercept / slope, covariance[:, 0, 0]
    var_b = (covariance[:, 1, 1] + b.square() * var_a + 2 * b * covariance[:, 0, 1]) / slope.square()
    by_asinh = 1 / (slope.square() + 0.25)
    return torch.stack([places, -2 * change, torch.asinh(2 * slope), b, var_a * by_asinh, var_b]).cpu().numpy()


def without_guessing_at_zero(problem: Problem, mode: Estimate) -> tuple[Problem, Estimate]:
    """Fix guessing at 0 where its maximum is there: such items have two parameters, and standard errors of these."""
    at_zero = problem.guessing_free & (mode.items.guessing == 0)
    if not bool(at_zero.any()):
        return problem, mode
    entries = problem.prior.entries
    left = {"guessing_logit": entries["guessing_logit"] & ~at_zero[:, None]}
    fixed = replace(problem.prior.fixed, guessing=torch.where(at_zero, 0.0, problem.prior.fixed.guessing))
    problem = replace(problem, prior=replace(problem.prior, entries={**entries, **left}, fixed=fixed))
    return problem, replace(mode, status=replace(mode.status, guessing_at_zero=int(at_zero.sum())))


def slope_at_zero(problem: Problem, items: ItemTensors) -> Tensor:
    """Derivative of the log-likelihood by each item's c at c = 0, shape (n_items,).

    sum_q r dlog P/dc + (n - r) dlog(1 - P)/dc. Where it is not positive the 2PL is the maximum.
    """
    counts = problem.counts(items, at_nodes=True)
    assert counts.r is not None
    at = curve(items.logits(problem.nodes.basis), torch.zeros_like(items.guessing)[:, None])
    return (counts.r * at.log_p_c + (counts.n - counts.r) * at.log_q_c).sum(dim=1)
