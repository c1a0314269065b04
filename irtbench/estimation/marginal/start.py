"""Where the iterations start: items from their correlations with the score."""

from __future__ import annotations

import math
from functools import singledispatch

import torch
from torch import Tensor

from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.threads import total
from irtbench.models.pyro_model.item_tensors import ItemTensors

LEAST_SLOPE = 0.5  # where difficulty has a prior
START_GUESSING = 1 / (1 + math.exp(1.7))


@singledispatch
def starting_values(problem: Problem) -> ItemTensors:
    """Slopes from the correlation of each item with the standardised score, intercepts from its proportion correct.

    With several abilities these are the slopes on the first; the others are zero. Where difficulty has a prior slopes
    are positive, for between a slope and one of the other sign there is no way of finite difficulties.
    """
    n_observed = torch.zeros_like(problem.rows.n_correct)
    for batch in problem.batches(dtype=torch.float64):
        n_observed += batch.observed_by_item_sums(n_observed.new_ones(len(batch)))
    (n_observed,) = total(problem.rows, n_observed)
    p = (problem.rows.n_correct + 0.5) / (n_observed + 1)
    deviation_of_item = (p * (1 - p)).sqrt()
    # the sum over observed items of (x - p) / sd, over the root of their number
    scores, of_scores = [], p.new_zeros(2)
    for batch in problem.batches(dtype=torch.float64):
        number = batch.observed_sums(torch.ones_like(p)).clamp(min=1)
        excess = batch.correct @ (1 / deviation_of_item) - batch.observed_sums(p / deviation_of_item)
        scores.append(excess / number.sqrt())
        of_scores += torch.stack([scores[-1].sum(), scores[-1].square().sum()])
    (of_scores,) = total(problem.rows, of_scores)
    n = problem.rows.n_respondents
    mean = of_scores[0] / n
    deviation = ((of_scores[1] - n * mean.square()) / (n - 1)).clamp(min=1e-24).sqrt()
    covariance = torch.zeros_like(p)
    for batch, part in zip(problem.batches(dtype=torch.float64), scores, strict=True):
        standard = (part - mean) / deviation
        covariance += batch.correct_by_item @ standard - p * batch.observed_by_item_sums(standard)
    (covariance,) = total(problem.rows, covariance)
    correlation = covariance / n_observed / deviation_of_item
    c = torch.where(problem.guessing_free, START_GUESSING, problem.prior.fixed.guessing)
    return items_of_correlations(p, correlation, c, problem.n_factors, drawn=problem.prior.difficulty_drawn)


def items_of_correlations(
    p: Tensor, correlation: Tensor, c: Tensor, n_factors: int = 1, *, drawn: Tensor | None = None
) -> ItemTensors:
    """Items by their proportions correct, their correlations with the score and their guessing, shape (n_items,).

    Where difficulty has a prior (`drawn`), slopes are not near 0 at first.
    """
    correlation = correlation.clamp(-0.9, 0.9)
    slope = 1.7 * correlation / (1 - correlation**2).sqrt()
    if drawn is not None:
        slope = torch.where(drawn, slope.clamp(min=LEAST_SLOPE), slope)
    above_guessing = ((p - c) / (1 - c)).clamp(0.05, 0.999)
    p_start = torch.where(c > 0, above_guessing, p)
    intercept = torch.logit(p_start) * (1 + slope**2 / 2.89).sqrt()
    slopes = torch.zeros(len(p), n_factors, dtype=torch.float64, device=p.device)
    slopes[:, 0] = slope
    return ItemTensors(slopes, intercept, c)
