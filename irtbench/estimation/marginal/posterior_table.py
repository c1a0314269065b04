"""Posteriors of very many respondents as a function of one number, tabulated.

Who answered every item of a 2PL without guessing has a posterior that depends on the responses through the weighted sum
of the correct ones alone, s = sum_j a_j x_j, which is sufficient for theta (Birnbaum, 1968). What is expected under it
is a smooth function of s, with a derivative that is known,

    d/ds E[f(theta) | s] = Cov[f(theta), theta | s],   d/ds log p(s) = E[theta | s],

so that a table with cubic Hermite interpolation takes the place of an exponential for each respondent and node. The
table is made fine enough that the interpolation errs by no more than rounding does.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from irtbench.models.pyro_model.collapsed import CollapsedLogistic
from irtbench.models.pyro_model.rows import ResponseRows, Scratch

FEWEST = 2**17  # respondents from whom on a table pays
FEWEST_CELLS, MOST_CELLS = 2**11, 2**16
MOST_MASSES = 2**23  # points times nodes
MOST_ERROR = 1e-12  # of a posterior mean, halfway between the points of the table


@dataclass(frozen=True)
class PosteriorTable:
    """Posteriors at equally spaced sums s.

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

    def cells(self, sums: Tensor) -> tuple[Tensor, Tensor]:
        """The cell of the table each sum is in, and how far it is into it, from 0 to 1."""
        place = (sums - self.first).div_(self.step)
        cell = place.to(torch.int64).clamp_(0, len(self.log_total) - 2)
        return cell, place.sub_(cell)

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

        `powers` say where in the table they are, see `add_powers`.
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


def add_powers(powers: Tensor, cell: Tensor, part: Tensor) -> None:
    """Add 1, t, t^2 and t^3 of respondents so far into these cells to their sums, shape (4, n_cells)."""
    weight = torch.ones_like(part)
    for total in powers:
        total += torch.bincount(cell, weight, minlength=len(total))
        weight = weight * part
