"""The evidence lower bound of models of items, with the E step in place of automatic differentiation, and Adam on it.

The gradient of the marginal likelihood by slopes, intercepts and guessing is made of the expected counts of one E step,
in batches of respondents; everything else in the model (priors, regressions of difficulties on features) is
differentiated by torch. Adam on the bound of a Delta guide is Pyro's plain way to the mode, slower than Fisher scoring
and independent of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from pyro import poutine
from pyro.distributions import MaskedDistribution
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta
from pyro.infer.autoguide.initialization import init_to_value
from pyro.optim import ClippedAdam
from pyro.poutine.util import prune_subsample_sites
from torch import Tensor

from irtbench.estimation.driver import maximise, own_parameters
from irtbench.estimation.marginal.e_step import expected_counts
from irtbench.estimation.marginal.m_step import distances, item_derivatives, scoring_step
from irtbench.estimation.marginal.problem import Estimate, Problem
from irtbench.estimation.status import Status, Stop
from irtbench.models.pyro_model.rows import DenseRows, ResponseRows, as_rows
from irtbench.models.pyro_model.sites import inside, mask_of, observed_sites
from irtbench.models.pyro_model.tensors import ItemTensors


class MarginalELBO(Trace_ELBO):
    """Pyro's ELBO for any model with a `CollapsedLogistic` site and any guide whose draws carry gradients.

    E_q[log p(x, phi) - log q(phi)], by draws from the guide; for a Delta guide the log-posterior. Scales and masks of
    sites count (`pyro.poutine.scale`, `pyro.poutine.mask`, ``.mask()``); a mask of responses is one of respondents.

    Parameters
    ----------
    num_particles
        Draws for each estimate.
    """

    def _get_trace(
        self, model: Callable[..., Any], guide: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[poutine.Trace, poutine.Trace]:
        """Traces of model and guide with the same draws and the densities of their sites, of rows by the E step."""
        guide_trace = poutine.trace(guide).get_trace(*args, **kwargs)
        model_trace = poutine.trace(poutine.replay(model, trace=guide_trace)).get_trace(*args, **kwargs)
        model_trace, guide_trace = map(prune_subsample_sites, (model_trace, guide_trace))
        observed = observed_sites(model_trace)
        if not observed:
            raise NotImplementedError("the model draws no response matrix from CollapsedLogistic; expected one or more")
        for site in observed:
            site["log_prob"] = site["log_prob_sum"] = likelihood_of_rows(site)
        model_trace.compute_log_prob()
        guide_trace.compute_score_parts()
        return model_trace, guide_trace


def likelihood_of_rows(site: dict[str, Any]) -> Tensor:
    """The marginal log-likelihood of a site of rows; its gradient is that of the expected log-likelihood."""
    row, rows = inside(MaskedDistribution, site["fn"]), rows_of(site)
    with torch.no_grad():
        counts = expected_counts(rows, row)
    expected = (counts.n * row.log_q).sum()
    if counts.r is None:  # log odds are linear in ability
        expected = expected + (counts.right * torch.cat([row.slope, row.intercept[:, None]], dim=1)).sum()
    else:
        expected = expected + (counts.r * row.log_odds).sum()
    if row.nodes.log_weights.requires_grad:  # of a population that is estimated
        expected = expected + counts.respondents @ row.nodes.log_weights
    return float(site["scale"]) * (counts.log_likelihood + (expected - expected.detach()))


def rows_of(site: dict[str, Any]) -> ResponseRows:
    """The rows of responses at a site, without those that a mask leaves out.

    Raises
    ------
    NotImplementedError
        If the mask is not one of respondents, or rows are sparse.
    """
    rows, mask = as_rows(site["value"]), torch.as_tensor(mask_of(site))
    if bool(mask.all()):
        return rows
    if mask.shape not in ((), (len(rows),)) or not isinstance(rows, DenseRows):
        raise NotImplementedError(
            f"site {site['name']}: a mask of shape {tuple(mask.shape)}; expected one of dense rows, of shape "
            f"({len(rows)},) (a response that is missing is -1)"
        )
    return rows.where(mask.expand(len(rows)).to(rows.device))


CHECKED_EVERY = 50  # steps
LOOSER = 100  # than Fisher scoring: Adam circles the maximum at the size of its rate


def adam_mode(problem: Problem, start: ItemTensors, *, tolerance: float, max_steps: int) -> Estimate:
    """Maximise the ELBO with Pyro's AutoDelta guide by Adam.

    The learning rate decays to a hundredth over 3,000 steps. Convergence is judged by the gradient, as Fisher scoring
    does, every 50 steps, a hundred times more loosely: no item is far from its maximum, in its own standard errors,
    and parameters hardly move.

    Parameters
    ----------
    problem
        Responses, population and prior.
    start
        Items to start from.
    tolerance
        Of Fisher scoring.
    max_steps
        A hundredth of the steps of Adam allowed.
    """
    guide = AutoDelta(problem.model, init_loc_fn=init_to_value(values=problem.prior.values_of(start)))
    optimiser = ClippedAdam({"lr": 0.05, "lrd": 0.01 ** (1 / 3000), "clip_norm": 1e9})
    small, most, before = LOOSER * tolerance, 100 * max_steps, torch.full_like(start.matrix, torch.inf)

    @torch.no_grad()
    def settled(step: int, loss: float) -> Estimate | None:
        nonlocal before
        if step % CHECKED_EVERY and step < most:
            return None
        items = problem.prior.items_of({name: value.detach() for name, value in guide.median().items()})
        here = problem.evaluate(items)
        derivatives = item_derivatives(problem, items, here.counts)
        gradient = float(distances(problem, derivatives, scoring_step(problem, derivatives)))
        change, before = float((items.matrix - before).abs().max()), items.matrix
        if step < most and not (gradient < small and change < 10 * small):
            return None
        stop = Stop.CONVERGED if gradient < small else Stop.STEP_LIMIT
        status = Status(stop, step, gradient, change, tolerance=small)
        return Estimate(items, "mode", here.counts.log_likelihood, here.log_posterior, status)

    with own_parameters(), torch.enable_grad():
        svi = SVI(problem.model, guide, optimiser, loss=MarginalELBO())
        return maximise(svi, problem.observed, problem.nodes, stopped=settled)
