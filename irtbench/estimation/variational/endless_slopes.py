"""Whether a posterior without a prior of slopes is one: how far the likelihood falls as a slope grows without end.

As an item's slope grows, rising or falling, the item becomes a step and the likelihood tends to a positive number, so
that under a flat prior the posterior is improper, strictly speaking. A large fall from the mode says that what lies out
there does not matter. Far out the other items have other parameters than at the mode, for the step says much of
ability: where the fall with these fixed is not large by itself they are estimated anew.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from irtbench.estimation.marginal.fisher_scoring import SLOPE_BOUND, find_mode
from irtbench.estimation.marginal.item_likelihood import relative_to, right_and_wrong
from irtbench.estimation.marginal.missing_information import posteriors
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.pyro_model.tensors import GUESSING, INTERCEPT, ItemTensors, curve

MOST_PLACES = 120  # abilities at which a step is tried
REFITTED_BELOW = 60.0  # of the fall with the other items fixed; estimating them anew takes up to three quarters of it
LEFT_BY_REFIT = 0.25  # of a fall, by other parameters estimated anew
REFIT_TOLERANCE, REFIT_STEPS = 0.01, 50


def step_places(problem: Problem) -> Tensor:
    """Abilities between neighbouring nodes at which a step is tried, shape (n_places,)."""
    theta = problem.nodes.theta[:, 0]
    stride = -(-len(theta) // MOST_PLACES)
    return ((theta[:-1] + theta[1:]) / 2)[::stride]


@torch.no_grad()
def change_with_others_fixed(problem: Problem, items: ItemTensors) -> Tensor:
    """Change of the log-likelihood as each item becomes a step, all other items fixed.

    With P the item's curve at the mode and S the step, respondent i's likelihood changes by the factor
    E[S / P | x_i] where the response is correct, by E[(1 - S) / (1 - P) | x_i] where it is not, and by
    E[(S / P)^k ((1 - S) / (1 - P))^m | x_i] with k correct of k + m trials.

    Returns
    -------
    Tensor
        Shape (n_items, 2, n_places): rising and falling steps.
    """
    rising = SLOPE_BOUND * (problem.nodes.theta[:, 0][:, None] - step_places(problem))
    logits, at_mode = torch.cat([rising, -rising], dim=1), items.logits(problem.nodes.basis)
    change = items.intercept.new_zeros(len(items), logits.shape[1])
    for batch, posterior in posteriors(problem, items, logits.shape[1]):
        for j in range(len(items)):
            right = batch.correct[:, j]
            wrong = (1 if batch.observed is None else batch.observed[:, j]) - right
            step, now = (curve(z, items.guessing[j]) for z in (logits, at_mode[j, :, None]))
            for k, m in right_and_wrong(right, wrong):
                ratio, _, _ = relative_to(step, now, k, m)
                change[j] += (posterior[(right == k) & (wrong == m)] @ ratio).log().sum(dim=0)
    return change.unflatten(1, (2, -1))


@torch.no_grad()
def drop_at_endless_slopes(problem: Problem, items: ItemTensors) -> Tensor:
    """How far the log-likelihood falls from the mode as the slope of one item grows without end, shape (n_items,).

    The step is tried between all neighbouring nodes with the other items fixed. Where that fall is below
    `REFITTED_BELOW` the other items are estimated anew, with the best of these steps and with one at the ability
    that as many are above as got the item right. Where all have one slope it grows for
    all, difficulties as they are, and a quarter of the fall counts.
    """
    here = problem.evaluate(items).log_posterior
    if problem.prior.shared is not None:
        steeper = items.linear * (SLOPE_BOUND / items.slope)
        steep = problem.evaluate(ItemTensors(steeper[:, :1], steeper[:, 1], items.guessing)).log_posterior
        return items.intercept.new_full((len(items),), (here - steep) * LEFT_BY_REFIT)
    change = change_with_others_fixed(problem, items)
    drop = -change.flatten(1).amax(dim=1)
    for j in torch.nonzero(drop < REFITTED_BELOW)[:, 0].tolist():
        for sign, place in likely_steps(problem, items, change[j], j):
            there = refitted_with_step(problem, items, j, sign * SLOPE_BOUND, place)
            drop[j] = min(float(drop[j]), here - there)
    return drop


def likely_steps(problem: Problem, items: ItemTensors, change: Tensor, j: int) -> set[tuple[float, float]]:
    """Signs and places of the steps with which the other items are worth estimating anew."""
    places = step_places(problem)
    best = int(change.flatten().argmax())
    sign = 1.0 if float(items.slope[j, 0]) >= 0 else -1.0
    share = (problem.nodes.log_weights.exp() @ torch.sigmoid(items.logits(problem.nodes.basis)[j])).clamp(0.001, 0.999)
    median = float(torch.special.ndtri(share))
    nearest = int((places + sign * median).abs().argmin())
    return {
        (1.0 if best < len(places) else -1.0, float(places[best % len(places)])),
        (sign, float(places[int(change[0 if sign > 0 else 1].argmax())])),
        (sign, float(places[nearest])),
    }


def refitted_with_step(problem: Problem, items: ItemTensors, j: int, slope: float, place: float) -> float:
    """The log-posterior with one item fixed as a step, all others at their mode."""
    fixed = torch.zeros(3, *problem.free.shape, dtype=torch.float64, device=problem.rows.device)
    for k, column in enumerate((0, INTERCEPT, GUESSING)):
        fixed[k, j, column] = 1.0
    slopes, intercept = items.slope.clone(), items.intercept.clone()
    slopes[j], intercept[j] = slope, -slope * place
    others = replace(problem, fixed_directions=fixed)
    start = ItemTensors(slopes, intercept, items.guessing)
    return find_mode(others, start=start, tolerance=REFIT_TOLERANCE, max_steps=REFIT_STEPS).log_posterior
