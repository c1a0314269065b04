"""The E step: expected counts over respondents' posteriors (the artificial data of Bock & Aitkin, 1981).

All that the data say of the items at given parameters are expected counts: n_jq, the expected number of respondents at
node q who answered item j, and r_jq, the expected number who answered it right; of several trials each counts, so that
they are expected numbers of responses. Without guessing the sums of 1 and
theta over those who answered right take the place of r. They give the gradient of the marginal likelihood.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from irtbench.estimation.threads import one_thread, summed
from irtbench.models.pyro_model.collapsed import CollapsedLogistic
from irtbench.models.pyro_model.rows import Batch, ResponseRows, Scratch

FEWEST = 2**17  # respondents from whom on a table pays
FEWEST_CELLS, MOST_CELLS = 2**11, 2**16
MOST_MASSES = 2**23  # points times nodes
MOST_ERROR = 1e-12  # of a posterior mean, halfway between the points of the table


@dataclass(frozen=True)
class PosteriorTable:
    """Posteriors of very many respondents as a function of one number, tabulated.

    Who answered every item of a 2PL has a posterior that depends on the responses through the weighted sum of the
    correct ones alone, s = sum_j a_j x_j, which is sufficient for theta (Birnbaum, 1968). What is expected under it is
    a smooth function of s, with a derivative that is known,

        d/ds E[f(theta) | s] = Cov[f(theta), theta | s],   d/ds log p(s) = E[theta | s],

    so that a table with cubic Hermite interpolation takes the place of an exponential for each respondent and node.
    The table is made fine enough that the interpolation errs by no more than rounding does.

    Parameters
    ----------
    first, step
        The smallest sum, and the distance of two.
    theta
        Abilities of the nodes, shape (n_nodes,).
    posterior
        Mass at each node, shape (n_points, n_nodes).
    log_total
        Logarithm of what the masses added up to, shape (n_points,).
    """

    first: float
    step: float
    theta: Tensor
    posterior: Tensor
    log_total: Tensor

    @classmethod
    def of(cls, rows: ResponseRows, row: CollapsedLogistic) -> PosteriorTable | None:
        """The table for these respondents; None where s is not sufficient, or a table would not pay."""
        nodes = row.nodes
        if rows.n_respondents < FEWEST or not rows.complete or row.log_guessing is not None or nodes.theta.shape[1] > 1:
            return None
        if nodes.dtype != torch.float64 or rows.device.type != "cpu":
            return None
        slope = row.slope[:, 0]
        first, last = float(slope.clamp(max=0).sum()), float(slope.clamp(min=0).sum())
        if not last > first:
            return None
        table = cls.at(row, first, (last - first) / FEWEST_CELLS, FEWEST_CELLS + 1)
        while len(table.log_total) <= min(MOST_CELLS + 1, MOST_MASSES // len(nodes.theta)):
            halfway = cls.at(row, first + table.step / 2, table.step, len(table.log_total) - 1)
            if table.error_at(halfway) < MOST_ERROR:
                return table
            table = table.with_halfway(halfway)
        return None

    @classmethod
    def at(cls, row: CollapsedLogistic, first: float, step: float, n: int) -> PosteriorTable:
        """The posteriors at so many sums."""
        theta = row.nodes.theta[:, 0]
        sums = first + step * torch.arange(n, dtype=torch.float64, device=theta.device)
        joint = sums[:, None] * theta + (row.nodes.log_weights + row.log_q.sum(dim=0))
        log_total = torch.logsumexp(joint, dim=1)
        return cls(first, step, theta, (joint - log_total[:, None]).exp(), log_total)

    def error_at(self, halfway: PosteriorTable) -> float:
        """Largest error of a posterior mean halfway between the points."""
        cell = torch.arange(len(halfway.log_total), device=self.theta.device)
        found = self.expectations(self.theta[None]).values(cell, torch.full_like(halfway.log_total, 0.5))
        return float((found[:, 0] - halfway.posterior @ self.theta).abs().max())

    def with_halfway(self, halfway: PosteriorTable) -> PosteriorTable:
        """The table of twice as many cells."""
        posterior = self.posterior.new_empty(len(self.posterior) + len(halfway.posterior), len(self.theta))
        posterior[::2], posterior[1::2] = self.posterior, halfway.posterior
        log_total = self.log_total.new_empty(len(posterior))
        log_total[::2], log_total[1::2] = self.log_total, halfway.log_total
        return PosteriorTable(self.first, self.step / 2, self.theta, posterior, log_total)

    def walk(
        self, rows: ResponseRows, slope: Tensor, functions: Hermite, powers: Tensor, *cells: int
    ) -> Iterator[tuple[Batch, Tensor]]:
        """Batches of respondents with functions of the sum of each, shape (n_batch, n_functions).

        To `powers` are added 1, t, t^2 and t^3 of respondents so far, from 0 to 1, into each cell, shape (4, n_cells).
        """
        for batch in batches(rows, *cells):
            place = (batch.correct @ slope).sub_(self.first).div_(self.step)
            cell = place.to(torch.int64).clamp_(0, len(self.log_total) - 2)
            part = place.sub_(cell)
            weight = torch.ones_like(part)
            for total in powers:
                total += torch.bincount(cell, weight, minlength=len(total))
                weight = weight * part
            yield batch, functions.values(cell, part, rows.scratch)

    def expectations(self, functions: Tensor) -> Hermite:
        """Posterior means of functions of theta, given at the nodes, shape (n_functions, n_nodes)."""
        mean, slope = self._means(functions)
        return Hermite.of(mean, slope * self.step)

    def covariances(self, function: Tensor, functions: Tensor) -> Hermite:
        """Posterior covariances of one function of theta with others, given at the nodes, the others as above."""
        k = len(functions)
        mean, slope = self._means(torch.cat([functions * function, functions, function[None]]))
        with_one, each, one = mean[:, :k], mean[:, k : 2 * k], mean[:, 2 * k :]
        rise = slope[:, :k] - slope[:, k : 2 * k] * one - each * slope[:, 2 * k :]
        return Hermite.of(with_one - each * one, rise * self.step)

    def sums(self, powers: Tensor) -> tuple[Tensor, Tensor]:
        """The log-likelihoods' sum over respondents, and the expected number of them at each node, shape (n_nodes,).

        `powers` say where in the table they are, see `walk`.
        """
        value, rise = self.weights(powers)
        mean = self.posterior @ self.theta
        at_nodes = (value - rise * mean) @ self.posterior + (rise @ self.posterior) * self.theta
        return value @ self.log_total + rise @ mean, at_nodes

    def covariance_sums(self, powers: Tensor, functions: Tensor) -> Tensor:
        """Posterior covariances of each two functions summed over respondents, shape (n_functions, n_functions).

        Sums of E[f g] less those of the products of means.
        """
        value, rise = self.weights(powers)
        mean, slope = self._means(functions)
        across = (slope.T * rise) @ mean
        products = (mean.T * value) @ mean + across + across.T
        return (functions * self.sums(powers)[1]) @ functions.T - products

    def weights(self, powers: Tensor) -> tuple[Tensor, Tensor]:
        """Weights of the points' values and of their derivatives in a sum over respondents, shape (n_points,) each.

        Those that the four polynomials of Hermite have.
        """
        one, first, second, third = powers
        value, rise = (self.log_total.new_zeros(len(self.log_total)) for _ in range(2))
        value[:-1] += one - 3 * second + 2 * third
        value[1:] += 3 * second - 2 * third
        rise[:-1] += first - 2 * second + third
        rise[1:] += third - second
        return value, rise * self.step

    def _means(self, functions: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior means at the points and their derivatives, shape (n_points, n_functions) each."""
        mean = self.posterior @ functions.T
        return mean, self.posterior @ (functions * self.theta).T - mean * (self.posterior @ self.theta)[:, None]


@dataclass(frozen=True)
class Hermite:
    """Functions on the cells of a table as polynomials of the third degree.

    Parameters
    ----------
    coefficients
        From the constant upwards, shape (n_cells, 4, n_functions).
    """

    coefficients: Tensor

    @classmethod
    def of(cls, value: Tensor, rise: Tensor) -> Hermite:
        """From values at the points, and derivatives times the width of a cell; shape (n_points, n_functions) each."""
        left, right = value[:-1], value[1:]
        down, up = rise[:-1], rise[1:]
        return cls(torch.stack([left, down, 3 * (right - left) - 2 * down - up, 2 * (left - right) + down + up], dim=1))

    def values(self, cell: Tensor, part: Tensor, scratch: Scratch | None = None) -> Tensor:
        """Values so far into these cells, shape (n, n_functions); in scratch memory, if there is any."""
        n_cells, _, n_functions = self.coefficients.shape
        scratch = scratch or Scratch()
        own = scratch.matrix("coefficients", len(cell), 4 * n_functions, self.coefficients)
        torch.index_select(self.coefficients.view(n_cells, -1), 0, cell, out=own)
        constant, first, second, third = own.view(-1, 4, n_functions).unbind(1)
        part = part[:, None]
        return third.mul_(part).add_(second).mul_(part).add_(first).mul_(part).add_(constant)


BATCH_CELLS = {"cpu": 2**19, "cuda": 2**26}  # respondents x (nodes or items) held at once


@dataclass(frozen=True)
class Counts:
    """Expected counts at given parameters, and the marginal log-likelihood there.

    Parameters
    ----------
    log_likelihood
        Of all rows.
    n
        Expected number of respondents at each node who answered an item, shape (n_items, n_nodes); with complete data
        all rows are the same.
    right
        Of those who answered it right: the expected sums of theta and of 1, shape (n_items, n_factors + 1).
    r
        Their expected number at each node, shape (n_items, n_nodes); None where `right` says enough.
    respondents
        Expected number of respondents at each node, shape (n_nodes,).
    """

    log_likelihood: float
    n: Tensor
    right: Tensor
    r: Tensor | None
    respondents: Tensor


def batches(rows: ResponseRows, n_nodes: int, cells: int = 0, *, dtype: torch.dtype = torch.float64) -> Iterator[Batch]:
    """Batches of respondents such that matrices of respondents x nodes, items (or `cells`) stay small."""
    return rows.batches(BATCH_CELLS[rows.device.type] // max(len(rows.n_correct), n_nodes, cells), dtype)


def expected_counts(
    rows: ResponseRows, row: CollapsedLogistic, *, at_nodes: bool = False, known: Tensor | None = None
) -> Counts:
    """Expected counts over respondents' posteriors, in batches of respondents.

    Parameters
    ----------
    rows
        The respondents' responses.
    row
        Their distribution: items and population.
    at_nodes
        Whether r is wanted node by node though no item is guessed.
    known
        Log-likelihood at each node of whatever else is known of each respondent, shape (n_respondents, n_nodes).
    """
    nodes, guesses = row.nodes, row.log_guessing is not None
    at_nodes = at_nodes or guesses
    found = None if at_nodes or known is not None else tabulated_sums(rows, row)
    if found is None:
        if known is None:
            what = f"expected counts, at nodes {at_nodes}"
            found = summed(rows, what, at(row), lambda span: posterior_sums(span, row, at_nodes=at_nodes))
        else:
            found = posterior_sums(rows, row, at_nodes=at_nodes, known=known)
    log_likelihood, n, r, respondents = found
    if rows.complete:
        n = respondents.expand(rows.n_items, len(nodes.theta))
    n_correct = rows.n_correct
    if not guesses:
        log_likelihood += n_correct @ row.intercept  # the constants that `log_shape` leaves out
    right = r @ nodes.basis if at_nodes else torch.cat([r, n_correct[:, None]], dim=1)
    return Counts(float(log_likelihood), n, right, r if at_nodes else None, respondents)


def at(row: CollapsedLogistic) -> tuple[Tensor, ...]:
    """What posteriors depend on besides the responses."""
    return row.log_q, row.log_odds, row.nodes.theta, row.nodes.log_weights


def posterior_sums(
    rows: ResponseRows, row: CollapsedLogistic, *, at_nodes: bool, known: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sums over some respondents: log-likelihoods, but for the constants that `log_shape` leaves out; n, where not all
    is observed; r, or the expected sums of theta; respondents at each node.
    """
    nodes = row.nodes
    basis, theta = nodes.basis, nodes.theta.to(nodes.dtype)
    n_items, n_nodes = rows.n_items, len(basis)
    n = basis.new_zeros(n_items, n_nodes)
    r = basis.new_zeros(len(rows.n_correct), n_nodes if at_nodes else theta.shape[1])
    respondents, log_likelihood = basis.new_zeros(n_nodes), basis.new_zeros(())
    tiny = -80.0 if theta.dtype == torch.float32 else -700.0  # below this exp() makes denormal numbers, which are slow
    first = 0
    for batch in batches(rows, n_nodes, dtype=nodes.dtype):
        joint = rows.scratch.matrix("joint", len(batch), n_nodes, theta)
        row.log_shape(batch.correct, batch.observed, out=joint)
        if known is not None:
            joint += known[first : first + len(batch)]
            first += len(batch)
        top = joint.amax(dim=1)
        posterior = joint.sub_(top[:, None]).clamp_(min=tiny).exp_()
        total = posterior.sum(dim=1)
        log_likelihood += (top + total.log()).sum(dtype=torch.float64)
        respondents += posterior.T @ total.reciprocal()
        if batch.observed_by_item is not None or at_nodes:
            posterior /= total[:, None]
        if batch.observed_by_item is not None:
            n += batch.observed_by_item @ posterior
        if at_nodes:
            r += batch.correct_by_item @ posterior
        else:
            share = 1.0 if batch.observed_by_item is not None else total.reciprocal()
            for k, ability in enumerate(theta.unbind(1)):
                r[:, k] += batch.correct_by_item @ ((posterior @ ability) * share)
    return log_likelihood, n, r, respondents


def tabulated_sums(rows: ResponseRows, row: CollapsedLogistic) -> tuple[Tensor, ...] | None:
    """The same of all respondents by a table of posteriors; None where there is none, see `PosteriorTable.of`."""
    with one_thread():
        table = PosteriorTable.of(rows, row)
        if table is None:
            return None
        means = table.expectations(table.theta[None])
    slope = row.slope[:, 0]

    def of_span(span: ResponseRows) -> tuple[Tensor, ...]:
        r, powers = slope.new_zeros(rows.n_items, 1), slope.new_zeros(4, len(means.coefficients))
        for batch, mean in table.walk(span, slope, means, powers, len(table.theta)):
            r[:, 0] += batch.correct_by_item @ mean[:, 0]
        log_likelihood, respondents = table.sums(powers)
        return log_likelihood, slope.new_zeros(()), r, respondents

    return summed(rows, "expected counts by a table", at(row), of_span)
