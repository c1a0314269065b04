"""The items' marginal likelihoods, each as a function of its own parameters, the other items at their estimates.

With f the probability of a respondent's responses to the item at its new parameters and f0 that at the estimate, the
respondent's likelihood changes by the factor E[f / f0 | x_i]. It depends on the respondent by the posterior of theta
alone, and posteriors of nearly one mean and standard deviation are nearly the same: respondents are taken together in
cells of these two, so that the cost does not grow with their number. Those who were right on an item have a posterior a
little higher than others of their cell, which would add up over thousands: the sum of E[f / f0] itself is exact, and
cells are for what its logarithm has beyond that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, singledispatch

import torch
from torch import Tensor

from irtbench.estimation.marginal.e_step import BATCH_CELLS
from irtbench.estimation.marginal.missing_information import posteriors
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.curves import Curve
from irtbench.models.pyro_model.tensors import LINEAR, ItemTensors, curve

MOST_ALONE = 256  # respondents who have a cell each
MEAN_CELL = 0.3  # width of a cell in posterior standard deviations: it adds .8% to the variance of a posterior
DEVIATION_CELL = 0.2  # of the logarithm of the standard deviation
MOST_HELD = 2**19  # values at cells held at once, of so many items
MOST_OF_ONE_MEAN = 2**20  # cells
SINGLE = ((0.0, 1.0), (1.0, 0.0))  # right and wrong, where nothing was tried twice
MOST_STEPS = 12
SMALL_GAIN = 0.1  # twice the likelihood that a step would gain, where steps end
LARGEST_STEP = 1.0
FUNCTIONS = 6  # of theta, whose expectations are the likelihood and its derivatives


@dataclass(frozen=True)
class LinearPrior:
    """Log prior density of each item's (a, d), or (log |a|, d), near its estimate: exact where these are normal.

    Parameters
    ----------
    gradient, information
        At the estimate, shapes (n_items, 2) and (n_items, 2, 2).
    of_log
        Whether of log |a|.
    """

    gradient: Tensor
    information: Tensor
    of_log: bool

    @classmethod
    def of(cls, problem: Problem, items: ItemTensors) -> LinearPrior:
        """That of the problem's sites."""
        gradient, information = (part.clone() for part in problem.prior.derivatives(items, by_logit=True))
        of_log = bool({"log_slope", "log_slope_and_intercept"} & set(problem.prior.densities))
        gradient, information = gradient[:, LINEAR], information[:, LINEAR, LINEAR]
        if of_log:
            rate = torch.stack([items.slope[:, 0], torch.ones_like(items.intercept)], dim=1)
            gradient, information = gradient * rate, information * rate[:, :, None] * rate[:, None, :]
        return cls(gradient, information, of_log)

    def derivatives(self, item: Tensor, x: Tensor, estimate: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The density less that at the estimate, its gradient by (a, d) and minus its Hessian where that is positive.

        Parameters
        ----------
        item
            Which, shape (n,).
        x, estimate
            (a, d), shape (n, 2).
        """
        rate = torch.ones_like(x)
        away = x - estimate
        if self.of_log:
            ratio = (x[:, 0] / estimate[:, 0]).clamp(min=1e-3)
            away = torch.stack([ratio.log(), away[:, 1]], dim=1)
            rate[:, 0] = 1 / x[:, 0]
        information = self.information[item]
        pull = (information @ away[:, :, None])[:, :, 0]
        gradient = self.gradient[item] - pull
        value = (away * (self.gradient[item] - pull / 2)).sum(dim=1)
        return value, gradient * rate, information * rate[:, :, None] * rate[:, None, :]


#: By k right and m wrong responses: how many gave them, in each cell, and what their posteriors are beyond the cells'.
InCells = Mapping[tuple[float, float], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class ItemLikelihoods:
    """The likelihood of each item in (a, d, c), times the prior density of (a, d) if there is one.

    Items may be of several scales with as many each, those of one after those of the other.

    Parameters
    ----------
    basis
        Abilities and ones, shape (n_nodes, 2).
    log_weights
        Of the population, shape (n_nodes,).
    items
        The estimates.
    posterior
        Mean posterior of theta in each cell of each scale, shape (n_scales, n_cells, n_nodes).
    responses
        By k right and m wrong responses, 1 and 0 or 0 and 1, with several trials more: the number of respondents who
        gave them in each cell, shape (n_items, n_cells), and the sum of their posteriors less that of their cells' mean
        posteriors, shape (n_items, n_nodes).
    prior
        Of (a, d).
    """

    basis: Tensor
    log_weights: Tensor
    items: ItemTensors
    posterior: Tensor
    responses: InCells
    prior: LinearPrior

    @classmethod
    def of(cls, problem: Problem, items: ItemTensors) -> ItemLikelihoods:
        """Those of a problem's items."""
        (posterior, responses), nodes = respondents_in_cells(problem, items), problem.nodes
        return cls(nodes.basis, nodes.log_weights, items, posterior, responses, LinearPrior.of(problem, items))

    @cached_property
    def estimated(self) -> Curve[Tensor]:
        """The curves at the estimates, shape (n_items, n_nodes)."""
        return curve(self.items.logits(self.basis), self.items.guessing[:, None])

    def maximum(self, item: Tensor, c: Tensor, *, least: float) -> tuple[Tensor, Tensor, Tensor]:
        """Maximise over (a, d) at given values of c.

        Newton's method from the logistic curve that is nearest to the estimated one; a step that lowers the likelihood
        is shortened. What a last step would gain is added.

        Parameters
        ----------
        item
            Which, rising, shape (n,).
        c
            Shape (n,).
        least
            Where the log-likelihood lies further below the estimate's its maximum need not be found well.

        Returns
        -------
        x
            (a, d), shape (n, 2).
        change
            The log-likelihood there less that at the estimate, shape (n,).
        information
            Of (a, d), shape (n, 2, 2).
        """
        x = self.nearest_curves(item, c)
        change, gradient, information = self.derivatives(item, x, c)
        step, gain = newton_step(gradient, information)
        shorter = torch.ones_like(c)
        for _ in range(MOST_STEPS):
            left = torch.nonzero((gain > SMALL_GAIN) & (change + gain > least))[:, 0]
            if not len(left):
                break
            there = x[left] + shorter[left, None] * step[left]
            new = self.derivatives(item[left], there, c[left])
            better = new[0] >= change[left]
            shorter[left] = torch.where(better, 1.0, shorter[left] / 3)
            left = left[better]
            x[left], change[left], information[left] = there[better], new[0][better], new[2][better]
            step[left], gain[left] = newton_step(new[1][better], new[2][better])
        return x + step, change + gain / 2, information

    def nearest_curves(self, item: Tensor, c: Tensor) -> Tensor:
        """(a, d) of curves with these c near the estimated ones, shape (n, 2).

        Least squares on the logit of (P - c) / (1 - c), weighted by its information where there are people.
        """
        theta, c, p = self.basis[:, 0], c[:, None], self.estimated.p[item]
        above = ((p - c) / (1 - c)).clamp(0.02, 0.999)
        weight = self.log_weights.exp() * above * (1 - above) * torch.where(p > c, 1.0, 1e-6)
        weight = weight / weight.sum(dim=1, keepdim=True)
        z = torch.logit(above)
        mean_theta, mean_z = weight @ theta, (weight * z).sum(dim=1)
        apart = theta - mean_theta[:, None]
        slope = (weight * apart * z).sum(dim=1) / (weight * apart.square()).sum(dim=1)
        return torch.stack([slope, mean_z - slope * mean_theta], dim=1)

    def derivatives(self, item: Tensor, x: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-likelihood less that at the estimate, its gradient by (a, d) and the information there.

        The information is minus the Hessian, or where that is not positive definite the sum of products of scores.

        Parameters
        ----------
        item
            Which, rising, shape (n,).
        x
            (a, d), shape (n, 2).
        c
            Shape (n,).
        """
        at_once = max(1, MOST_HELD // (FUNCTIONS * (self.posterior.shape[1] + len(self.basis))))
        parts = [
            self._derivatives(*some)
            for some in zip(item.split(at_once), x.split(at_once), c.split(at_once), strict=True)
        ]
        change, gradient, information = (torch.cat(part) for part in zip(*parts, strict=True))
        estimate = self.items.matrix[item, :2]
        prior = self.prior.derivatives(item, x, estimate)
        return change + prior[0], gradient + prior[1], information + prior[2]

    def _derivatives(self, item: Tensor, x: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same without the prior, of not too many."""
        theta, n_scales = self.basis[:, 0], len(self.posterior)
        at, estimated = curve(x @ self.basis.T, c[:, None]), (self.estimated.p[item], self.estimated.q[item])
        of_scale = torch.bincount(item // (len(self.items) // n_scales), minlength=n_scales).tolist()
        change, sums, by_scores = torch.zeros_like(c), x.new_zeros(len(c), FUNCTIONS), x.new_zeros(len(c), 2, 2)
        for (k, m), (in_cells, beyond) in self.responses.items():
            ratio, by_z, by_zz = relative_to(at, estimated, k, m)
            functions = torch.stack([ratio, by_z * theta, by_z, by_zz * theta.square(), by_zz * theta, by_zz], dim=1)
            parts = zip(functions.split(of_scale), self.posterior, strict=True)
            expected = torch.cat([own @ cells.T for own, cells in parts if len(own)])
            number, likelihood, scores = in_cells[item], expected[:, 0], expected[:, 1:3]
            change += (number * likelihood.log()).sum(dim=1)
            weight = number / likelihood
            by_scores += (scores * (weight / likelihood)[:, None]) @ scores.mT
            exact = (functions @ beyond[item, :, None])[:, :, 0]
            change += exact[:, 0]
            sums += (expected @ weight[:, :, None])[:, :, 0] + exact
        by_hessian = by_scores - sums[:, [3, 4, 4, 5]].unflatten(1, (2, 2))
        aa, ad, dd = (by_hessian[:, j, k] for j, k in ((0, 0), (0, 1), (1, 1)))
        definite = (aa > 0) & (aa * dd - ad.square() > 1e-3 * aa * dd)
        information = torch.where(definite[:, None, None], by_hessian, by_scores)
        return change, sums[:, 1:3], information + 1e-9 * torch.eye(2, dtype=x.dtype, device=x.device)


def newton_step(gradient: Tensor, information: Tensor) -> tuple[Tensor, Tensor]:
    """Steps to the maxima of quadratics, none longer than may be, and twice the likelihood each gains."""
    step = torch.linalg.solve_ex(information, gradient[:, :, None]).result[:, :, 0]
    step = step / (step.abs().amax(dim=1, keepdim=True) / LARGEST_STEP).clamp(min=1.0)
    return step, (step * gradient).sum(dim=1)


def relative_to(at: Curve[Tensor], before: tuple[Tensor, Tensor], k: float, m: float) -> tuple[Tensor, Tensor, Tensor]:
    """The ratio f / f0 of k right and m wrong responses, and its first and second derivatives by z.

    `before` are P and 1 - P of f0.
    """
    if k + m == 1:
        own, share = (at.p, 1 / before[0]) if k else (at.q, -1 / before[1])
        return own * share.abs(), at.p_z * share, at.p_zz * share
    ratio = (at.p / before[0]) ** k * (at.q / before[1]) ** m
    first, second = k * at.log_p_z + m * at.log_q_z, k * at.log_p_zz + m * at.log_q_zz
    return ratio, ratio * first, ratio * (first.square() + second)


@singledispatch
def respondents_in_cells(problem: Problem, items: ItemTensors) -> tuple[Tensor, InCells]:
    """The mean posterior in each cell, and who gave each number of right and wrong responses to each item.

    Shapes as in `ItemLikelihoods`.
    """
    theta, moments, rows = problem.nodes.theta[:, 0], [], problem.rows
    one_batch = rows.n_respondents * max(len(theta), len(items)) <= BATCH_CELLS[rows.device.type]
    held = list(posteriors(problem, items, 0)) if one_batch else None
    for _, posterior in held or posteriors(problem, items, 0):
        mean = posterior @ theta
        moments.append(torch.stack([mean, posterior @ theta.square() - mean.square()]))
    mean, variance = torch.cat(moments, dim=1)
    cells = cells_of(mean, variance.clamp(min=1e-12).sqrt())
    number = torch.bincount(cells)
    total, found, first = mean.new_zeros(len(number), len(theta)), dict[tuple[float, float], tuple[Tensor, Tensor]](), 0
    for batch, own in held or posteriors(problem, items, 0):
        mine = cells[first : first + len(own)]
        first += len(own)
        total.index_add_(0, mine, own)
        correct = batch.correct.to_dense()
        wrong = (torch.ones_like(correct) if batch.observed is None else batch.observed.to_dense()) - correct
        for pair in SINGLE if rows.most_trials is None else right_and_wrong(correct, wrong):
            if pair not in found:
                found[pair] = own.new_zeros(len(number), len(items)), own.new_zeros(len(items), own.shape[1])
            given = ((correct == pair[0]) & (wrong == pair[1])).to(correct)
            in_cells, exact = found[pair]
            in_cells.index_add_(0, mine, given)
            exact += given.T @ own
    posterior = total / number[:, None]
    return posterior[None], {
        pair: (in_cells.T.contiguous(), exact - in_cells.T @ posterior) for pair, (in_cells, exact) in found.items()
    }


def right_and_wrong(right: Tensor, wrong: Tensor) -> list[tuple[float, float]]:
    """The pairs of numbers right and wrong that occur, without that of no response."""
    most = float(wrong.max()) + 1
    pairs = [divmod(code, most) for code in (right * most + wrong).unique().cpu().tolist()]
    return [(k, m) for k, m in pairs if k + m > 0]


def cells_of(mean: Tensor, deviation: Tensor) -> Tensor:
    """The cell of each respondent by mean and standard deviation of the posterior, shape (n_respondents,) all."""
    if len(mean) <= MOST_ALONE:
        return torch.arange(len(mean), device=mean.device)
    width = MEAN_CELL * deviation.square().mean().sqrt()
    by_mean, by_deviation = ((mean / width).round(), (deviation.log() / DEVIATION_CELL).round())
    return torch.unique(by_mean * MOST_OF_ONE_MEAN + by_deviation, return_inverse=True)[1]
