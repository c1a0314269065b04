"""Where the iterations start: items from their correlations with the score."""

from __future__ import annotations

import math

import torch

from irtbench.estimation.marginal.problem import Problem
from irtbench.models.pyro_model.item_tensors import ItemTensors

LEAST_SLOPE = 0.5  # where difficulty has a prior
START_GUESSING = 1 / (1 + math.exp(1.7))


def starting_values(problem: Problem) -> ItemTensors:
    """Slopes from the correlation of each item with the standardised score, intercepts from its proportion correct.

    With several abilities these are the slopes on the first; the others are zero. Where difficulty has a prior slopes
    are positive, for between a slope and one of the other sign there is no way of finite difficulties.
    """
    n_observed = torch.zeros_like(problem.rows.n_correct)
    for batch in problem.batches(dtype=torch.float64):
        n_observed += batch.observed_by_item_sums(n_observed.new_ones(len(batch)))
    p = (problem.rows.n_correct + 0.5) / (n_observed + 1)
    deviation_of_item = (p * (1 - p)).sqrt()
    # the sum over observed items of (x - p) / sd, over the root of their number
    scores = []
    for batch in problem.batches(dtype=torch.float64):
        number = batch.observed_sums(torch.ones_like(p)).clamp(min=1)
        excess = batch.correct @ (1 / deviation_of_item) - batch.observed_sums(p / deviation_of_item)
        scores.append(excess / number.sqrt())
    score = torch.cat(scores)
    mean, deviation = score.mean(), score.std().clamp(min=1e-12)
    covariance = torch.zeros_like(p)
    for batch, part in zip(problem.batches(dtype=torch.float64), scores, strict=True):
        standard = (part - mean) / deviation
        covariance += batch.correct_by_item @ standard - p * batch.observed_by_item_sums(standard)
    correlation = (covariance / n_observed / deviation_of_item).clamp(-0.9, 0.9)
    slope = 1.7 * correlation / (1 - correlation**2).sqrt()
    if (drawn := problem.prior.difficulty_drawn) is not None:
        slope = torch.where(drawn, slope.clamp(min=LEAST_SLOPE), slope)
    c = torch.where(problem.guessing_free, START_GUESSING, problem.prior.fixed.guessing)
    above_guessing = ((p - c) / (1 - c)).clamp(0.05, 0.999)
    p_start = torch.where(c > 0, above_guessing, p)
    intercept = torch.logit(p_start) * (1 + slope**2 / 2.89).sqrt()
    slopes = torch.zeros(len(p), problem.n_factors, dtype=torch.float64, device=p.device)
    slopes[:, 0] = slope
    return ItemTensors(slopes, intercept, c)
