"""One item's marginal likelihood as a function of its own parameters, the other items at their estimates.

With f the probability of a respondent's responses to the item at its new parameters and f0 that at the estimate, the
respondent's likelihood changes by the factor E[f / f0 | x_i]. It depends on the respondent by the posterior of theta
alone, and posteriors of nearly one mean and standard deviation are nearly the same: respondents are taken together in
cells of these two, so that the cost does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.estimation.marginal.problem import Problem
from irtbench.models.curve_formulas import Curve
from irtbench.models.curve_tensors import curve
from irtbench.models.pyro_model.item_tensors import ItemTensors

MEAN_CELL = 0.15  # width of a cell in posterior standard deviations: it adds .2% to the variance of a posterior
DEVIATION_CELL = 0.1  # of the logarithm of the standard deviation
MOST_HELD = 2**24  # cells x nodes held at once, of so many items
MOST_STEPS = 12
SMALL_GAIN = 0.02  # twice the likelihood that a step would gain, where steps end
LARGEST_STEP = 1.0


@dataclass(frozen=True)
class Responses:
    """Respondents with k right and m wrong responses to the item, in cells of nearly one posterior.

    Parameters
    ----------
    k, m
        1 and 0, or 0 and 1; with several trials more.
    number
        Respondents in each cell, shape (n_cells,).
    posterior
        Mean posterior of theta in each cell, shape (n_cells, n_nodes).
    """

    k: float
    m: float
    number: Tensor
    posterior: Tensor


@dataclass(frozen=True)
class ItemLikelihood:
    """The likelihood of one item in (a, d, c).

    Parameters
    ----------
    basis
        Abilities and ones, shape (n_nodes, 2).
    log_weights
        Of the population, shape (n_nodes,).
    slope, intercept, guessing
        The estimate, shape () each.
    responses
        All that were given to the item.
    """

    basis: Tensor
    log_weights: Tensor
    slope: Tensor
    intercept: Tensor
    guessing: Tensor
    responses: tuple[Responses, ...]

    @property
    def device(self) -> torch.device:
        """Where it is computed."""
        return self.basis.device

    @cached_property
    def n_responses(self) -> float:
        """Number of responses."""
        return sum((part.k + part.m) * float(part.number.sum()) for part in self.responses)

    @cached_property
    def proportion_correct(self) -> float:
        """Share of the responses that are right."""
        return sum(part.k * float(part.number.sum()) for part in self.responses) / self.n_responses

    @cached_property
    def estimated(self) -> Curve[Tensor]:
        """The curve at the estimate, shape (n_nodes,)."""
        return curve(self.basis @ torch.stack([self.slope, self.intercept]), self.guessing)

    def maximum(self, c: Tensor, *, least: float) -> tuple[Tensor, Tensor, Tensor]:
        """Maximise over (a, d) at given values of c.

        Newton's method from the logistic curve that is nearest to the estimated one; a step that lowers the likelihood
        is shortened. What a last step would gain is added.

        Parameters
        ----------
        c
            Shape (n_places,).
        least
            Where the log-likelihood lies further below the estimate's its maximum need not be found well.

        Returns
        -------
        x
            (a, d), shape (n_places, 2).
        change
            The log-likelihood there less that at the estimate, shape (n_places,).
        information
            Of (a, d), shape (n_places, 2, 2).
        """
        x = self.nearest_curves(c)
        change, gradient, information = self.derivatives(x, c)
        step, gain = newton_step(gradient, information)
        shorter = torch.ones_like(c)
        for _ in range(MOST_STEPS):
            if not bool(((gain > SMALL_GAIN) & (change + gain > least)).any()):
                break
            there = x + shorter[:, None] * step
            new = self.derivatives(there, c)
            better = new[0] >= change
            x = torch.where(better[:, None], there, x)
            change = torch.where(better, new[0], change)
            gradient = torch.where(better[:, None], new[1], gradient)
            information = torch.where(better[:, None, None], new[2], information)
            step, gain = newton_step(gradient, information)
            shorter = torch.where(better, 1.0, shorter / 3)
        return x + step, change + gain / 2, information

    def nearest_curves(self, c: Tensor) -> Tensor:
        """(a, d) of curves with these c near the estimated one, shape (n_places, 2).

        Least squares on the logit of (P - c) / (1 - c), weighted by its information where there are people.
        """
        theta, c = self.basis[:, 0], c[:, None]
        above = ((self.estimated.p - c) / (1 - c)).clamp(0.02, 0.999)
        weight = self.log_weights.exp() * above * (1 - above) * torch.where(self.estimated.p > c, 1.0, 1e-6)
        weight = weight / weight.sum(dim=1, keepdim=True)
        z = torch.logit(above)
        mean_theta, mean_z = weight @ theta, (weight * z).sum(dim=1)
        apart = theta - mean_theta[:, None]
        slope = (weight * apart * z).sum(dim=1) / (weight * apart.square()).sum(dim=1)
        return torch.stack([slope, mean_z - slope * mean_theta], dim=1)

    def derivatives(self, x: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-likelihood less that at the estimate, its gradient by (a, d) and the information there.

        The information is minus the Hessian, or where that is not positive definite the sum of products of scores.

        Parameters
        ----------
        x
            (a, d), shape (n_places, 2).
        c
            Shape (n_places,).
        """
        at = curve(x @ self.basis.T, c[:, None])
        theta = self.basis[:, 0]
        change, sums = torch.zeros_like(c), x.new_zeros(len(c), 8)
        for part in self.responses:
            ratio, first, second = relative_to(at, self.estimated, part.k, part.m)
            by_z, by_zz = ratio * first, ratio * (first.square() + second)
            functions = torch.stack([ratio, by_z * theta, by_z, by_zz * theta.square(), by_zz * theta, by_zz])
            likelihood, *rest = (part.posterior @ functions.flatten(0, 1).T).unflatten(1, (6, len(c))).unbind(1)
            by_a, by_d, *by_pairs = (term / likelihood for term in rest)
            change += part.number @ likelihood.log()
            products = by_a.square(), by_a * by_d, by_d.square()
            sums += torch.stack([part.number @ term for term in (by_a, by_d, *products, *by_pairs)], dim=1)
        by_scores = sums[:, 2:5]
        by_hessian = by_scores - sums[:, 5:]
        aa, ad, dd = by_hessian.unbind(1)
        definite = (aa > 0) & (aa * dd - ad.square() > 1e-3 * aa * dd)
        entries = torch.where(definite[:, None], by_hessian, by_scores)
        information = entries[:, [0, 1, 1, 2]].unflatten(1, (2, 2))
        return change, sums[:, :2], information + 1e-9 * torch.eye(2, dtype=x.dtype, device=x.device)


def newton_step(gradient: Tensor, information: Tensor) -> tuple[Tensor, Tensor]:
    """Steps to the maxima of quadratics, none longer than may be, and twice the likelihood each gains."""
    step = torch.linalg.solve_ex(information, gradient[:, :, None]).result[:, :, 0]
    step = step / (step.abs().amax(dim=1, keepdim=True) / LARGEST_STEP).clamp(min=1.0)
    return step, (step * gradient).sum(dim=1)


def relative_to(at: Curve[Tensor], estimated: Curve[Tensor], k: float, m: float) -> tuple[Tensor, Tensor, Tensor]:
    """The ratio f / f0 of k right and m wrong responses, and the first and second derivatives of log f by z."""
    log_ratio = first = second = torch.zeros_like(at.z)
    if k:
        log_ratio = log_ratio + k * (at.p.log() - estimated.p.log())
        first, second = first + k * at.log_p_z, second + k * at.log_p_zz
    if m:
        log_ratio = log_ratio + m * (at.q.log() - estimated.q.log())
        first, second = first + m * at.log_q_z, second + m * at.log_q_zz
    return log_ratio.exp(), first, second


def item_likelihoods(
    problem: Problem, items: ItemTensors, which: NDArray[np.intp]
) -> Iterator[tuple[int, ItemLikelihood]]:
    """The likelihood of each of these items, by its position."""
    cells = posterior_cells(problem, items)
    at_once = max(1, MOST_HELD // (2 * (int(cells.max()) + 1) * len(problem.nodes.theta)))
    for first in range(0, len(which), at_once):
        some = which[first : first + at_once].tolist()
        responses = responses_in_cells(problem, items, some, cells)
        for j in some:
            at = items.slope[j, 0], items.intercept[j], items.guessing[j]
            yield j, ItemLikelihood(problem.nodes.basis, problem.nodes.log_weights, *at, responses[j])


def responses_in_cells(
    problem: Problem, items: ItemTensors, which: list[int], cells: Tensor
) -> dict[int, tuple[Responses, ...]]:
    """The responses to each of these items, respondents of one cell taken together."""
    n_cells = int(cells.max()) + 1
    held: dict[int, dict[tuple[float, float], tuple[Tensor, Tensor]]] = {j: {} for j in which}
    first = 0
    for correct, asked, posterior in posteriors(problem, items):
        mine = cells[first : first + len(posterior)]
        first += len(posterior)
        for j in which:
            right, wrong = correct[:, j], asked[:, j] - correct[:, j]
            for pair in right_and_wrong(right, wrong):
                given = (right == pair[0]) & (wrong == pair[1])
                if pair not in held[j]:
                    held[j][pair] = posterior.new_zeros(n_cells), posterior.new_zeros(n_cells, posterior.shape[1])
                number, total = held[j][pair]
                number += torch.bincount(mine[given], minlength=n_cells)
                total.index_add_(0, mine[given], posterior[given])
    return {
        j: tuple(
            Responses(k, m, number[number > 0], (total / number[:, None])[number > 0])
            for (k, m), (number, total) in by_pair.items()
        )
        for j, by_pair in held.items()
    }


def right_and_wrong(right: Tensor, wrong: Tensor) -> list[tuple[float, float]]:
    """The pairs of numbers right and wrong that occur, without that of no response."""
    most = float(wrong.max()) + 1
    pairs = [divmod(code, most) for code in (right * most + wrong).unique().cpu().tolist()]
    return [(k, m) for k, m in pairs if k + m > 0]


def posteriors(problem: Problem, items: ItemTensors) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Batches of numbers right and asked, shape (n_batch, n_items), with posteriors of theta, (n_batch, n_nodes)."""
    row = replace(problem, nodes=replace(problem.nodes, dtype=torch.float64)).row(items)
    for batch in problem.batches(dtype=torch.float64):
        posterior = torch.softmax(row.log_shape(batch.correct, batch.observed), dim=1)
        correct = batch.correct.to_dense()
        yield correct, torch.ones_like(correct) if batch.observed is None else batch.observed.to_dense(), posterior


def posterior_cells(problem: Problem, items: ItemTensors) -> Tensor:
    """The cell of each respondent's posterior mean and standard deviation, shape (n_respondents,)."""
    theta = problem.nodes.theta[:, 0]
    means, deviations = [], []
    for _, _, posterior in posteriors(problem, items):
        mean = posterior @ theta
        means.append(mean)
        deviations.append((posterior @ theta.square() - mean.square()).clamp(min=1e-12).sqrt())
    mean, deviation = torch.cat(means), torch.cat(deviations)
    width = MEAN_CELL * deviation.square().mean().sqrt()
    cells = torch.stack([(mean / width).round(), (deviation.log() / DEVIATION_CELL).round()], dim=1)
    return torch.unique(cells, dim=0, return_inverse=True)[1]
