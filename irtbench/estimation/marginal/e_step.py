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

from irtbench.estimation.marginal.posterior_table import PosteriorTable, add_powers
from irtbench.estimation.threads import one_thread, summed
from irtbench.models.pyro_model.collapsed import CollapsedLogistic
from irtbench.models.pyro_model.rows import Batch, ResponseRows

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
        for batch in batches(span, len(table.theta)):
            cell, part = table.cells(batch.correct @ slope)
            add_powers(powers, cell, part)
            r[:, 0] += batch.correct_by_item @ means.values(cell, part, span.scratch)[:, 0]
        log_likelihood, respondents = table.sums(powers)
        return log_likelihood, slope.new_zeros(()), r, respondents

    return summed(rows, "expected counts by a table", at(row), of_span)
