"""What is maximised over item parameters, and the E step: expected counts over respondents' posteriors.

All that the data say of the items at given parameters are expected counts: n_jq, the expected number of respondents at
node q who answered item j, and r_jq, the expected number who answered it right. Without guessing the sums of 1 and
theta over those who answered right take the place of r.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from irtbench.estimation.marginal.response_rows import Batch, ResponseRows
from irtbench.models.logistic import CollapsedLogistic, NodeTensors
from irtbench.models.priors import Priors

BATCH_CELLS = {"cpu": 2**19, "cuda": 2**26}  # respondents x (nodes or items) held at once


@dataclass(frozen=True)
class Problem:
    """What is maximised.

    Parameters
    ----------
    rows
        The respondents' responses.
    nodes
        The population of abilities.
    priors
        Densities of the item parameters.
    guessing_free, guessing_fixed
        Where c is estimated, and its value elsewhere, shape (n_items,).
    slopes_free
        Where slopes are estimated, shape (n_items, n_factors); elsewhere they stay as they start. None for all.
    held
        Directions in which no step goes, orthonormal, shape (n_directions, n_items, n_factors + 2). Where items are
        many and respondents few, theta's origin and unit are set by standardising the respondents, and the steps
        leave them alone.
    """

    rows: ResponseRows
    nodes: NodeTensors
    priors: Priors
    guessing_free: Tensor
    guessing_fixed: Tensor
    slopes_free: Tensor | None = None
    held: Tensor | None = None

    @property
    def n_factors(self) -> int:
        """Number of abilities."""
        return self.nodes.theta.shape[1]

    @cached_property
    def guesses(self) -> bool:
        """Whether any item has a lower asymptote; without one the log odds are linear in theta."""
        return bool((self.guessing_free | (self.guessing_fixed > 0)).any())

    @cached_property
    def free(self) -> Tensor:
        """Which parameters (slopes, intercept, guessing) are estimated, shape (n_items, n_factors + 2)."""
        free = torch.ones(self.rows.n_items, self.n_factors + 2, dtype=torch.bool, device=self.rows.device)
        free[:, -1] = self.guessing_free
        if self.slopes_free is not None:
            free[:, :-2] = self.slopes_free
        return free

    def log_guessing(self, parameters: Tensor) -> Tensor:
        """Log c at these parameters, minus infinity for a 2PL item, shape (n_items,)."""
        return torch.where(self.guessing_free, logsigmoid(parameters[:, -1]), self.guessing_fixed.log())

    @cached_property
    def all_free(self) -> bool:
        """Whether every parameter is estimated."""
        return bool(self.free.all())

    @cached_property
    def estimated_pairs(self) -> Tensor:
        """Where both parameters are estimated, shape (n_items, n_factors + 2, n_factors + 2)."""
        return self.free[:, :, None] & self.free[:, None, :]

    @cached_property
    def identity(self) -> Tensor:
        """Shape (n_factors + 2, n_factors + 2)."""
        return torch.eye(self.n_factors + 2, dtype=torch.float64, device=self.rows.device)

    def without_held(self, vector: Tensor) -> Tensor:
        """Take the held directions out of a gradient or a step."""
        if self.held is None:
            return vector
        along = torch.einsum("hjk,jk->h", self.held, vector)
        return vector - torch.einsum("h,hjk->jk", along, self.held)

    def row(self, parameters: Tensor) -> CollapsedLogistic:
        """The distribution of a respondent's row at these parameters."""
        log_guessing = self.log_guessing(parameters) if self.guesses else None
        return CollapsedLogistic(parameters[:, :-2], parameters[:, -2], log_guessing, self.nodes)

    def batches(self, cells: int = 0, *, dtype: torch.dtype | None = None) -> Iterator[Batch]:
        """Batches of respondents such that matrices of respondents x nodes, items (or `cells`) stay small."""
        widest = max(self.rows.n_items, len(self.nodes.theta), cells)
        return self.rows.batches(BATCH_CELLS[self.rows.device.type] // widest, dtype or self.nodes.dtype)


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


def expected_counts(problem: Problem, parameters: Tensor, *, at_nodes: bool = False) -> Counts:
    """Expected counts over respondents' posteriors (the E step), in batches of respondents.

    Parameters
    ----------
    problem, parameters
        Data and current parameters.
    at_nodes
        Whether r is wanted node by node though no item is guessed.
    """
    row = problem.row(parameters)
    basis, theta = problem.nodes.basis, problem.nodes.theta.to(problem.nodes.dtype)
    n_items, n_nodes = problem.rows.n_items, len(basis)
    at_nodes = at_nodes or problem.guesses
    n = basis.new_zeros(n_items, n_nodes)
    r = basis.new_zeros(n_items, n_nodes if at_nodes else problem.n_factors)
    respondents, log_likelihood = basis.new_zeros(n_nodes), basis.new_zeros(())
    tiny = -80.0 if theta.dtype == torch.float32 else -700.0  # below this exp() makes denormal numbers, which are slow
    for batch in problem.batches():
        joint = problem.rows.scratch.matrix("joint", len(batch), n_nodes, theta)
        row.log_shape(batch.correct, batch.observed, out=joint)
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
    if problem.rows.complete:
        n = respondents.expand(n_items, n_nodes)
    n_correct = problem.rows.n_correct
    if not problem.guesses:
        log_likelihood += n_correct @ parameters[:, -2]  # the constants that `log_shape` leaves out
    right = r @ basis if at_nodes else torch.cat([r, n_correct[:, None]], dim=1)
    return Counts(float(log_likelihood), n, right, r if at_nodes else None, respondents)
