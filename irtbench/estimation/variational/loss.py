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
from pyro.distributions import MaskedDistribution
from pyro.infer import SVI
from pyro.infer.autoguide import AutoDelta
from pyro.infer.autoguide.initialization import init_to_value
from pyro.optim import ClippedAdam
from torch import Tensor

from irtbench.estimation.driver import TracedELBO, maximise, own_parameters
from irtbench.estimation.marginal.e_step import expected_counts
from irtbench.estimation.marginal.m_step import distances, item_derivatives, scoring_step, sums_over_nodes
from irtbench.estimation.marginal.problem import Estimate, Problem
from irtbench.estimation.status import Status, Stop
from irtbench.models.pyro_model.categories import CollapsedCategories
from irtbench.models.pyro_model.rows import DenseRows, ResponseRows, as_rows
from irtbench.models.pyro_model.sites import inside, mask_of, observed_sites
from irtbench.models.pyro_model.tensors import GUESSING, INTERCEPT, SLOPES, ItemTensors


class MarginalELBO(TracedELBO):
    """Pyro's ELBO for any model with a `CollapsedLogistic` site and any guide whose draws carry gradients.

    E_q[log p(x, phi) - log q(phi)], by draws from the guide; for a Delta guide the log-posterior. Scales and masks of
    sites count (`pyro.poutine.scale`, `pyro.poutine.mask`, ``.mask()``); a mask of responses is one of respondents.

    Parameters
    ----------
    num_particles
        Draws for each estimate.
    """

    def loss(self, model: Callable[..., Any], guide: Callable[..., Any], *args: Any, **kwargs: Any) -> float:
        """Estimate of minus the bound."""
        with torch.no_grad():
            bounds = [self._bound(model, guide, args, kwargs)[0] for _ in range(self.num_particles)]
        return -sum(bounds) / self.num_particles

    def loss_and_grads(self, model: Callable[..., Any], guide: Callable[..., Any], *args: Any, **kwargs: Any) -> float:
        """Estimate of minus the bound; its gradient is added to those of the parameters."""
        total = 0.0
        for _ in range(self.num_particles):
            value, surrogate = self._bound(model, guide, args, kwargs)
            (-surrogate / self.num_particles).backward()
            total -= value / self.num_particles
        return total

    def _bound(
        self, model: Callable[..., Any], guide: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[float, Tensor]:
        """One estimate of the bound, and a tensor that has its gradient."""
        model_trace, guide_trace = self._get_trace(model, guide, args, kwargs)
        observed = observed_sites(model_trace)
        if not observed:
            raise NotImplementedError("the model draws no response matrix from CollapsedLogistic; expected one or more")
        value, surrogate = 0.0, inside(MaskedDistribution, observed[0]["fn"]).nodes.theta.new_zeros(())
        for sign, trace in ((1, model_trace), (-1, guide_trace)):
            trace.compute_log_prob(lambda name, site: all(site is not one for one in observed))
            for site in trace.nodes.values():
                if "log_prob_sum" in site:
                    density = sign * site["log_prob_sum"]
                    value, surrogate = value + float(density.detach()), surrogate + density
        for site in observed:
            likelihood, expected = likelihood_of_rows(site)
            value, surrogate = value + likelihood, surrogate + expected
        return value, surrogate


def likelihood_of_rows(site: dict[str, Any]) -> tuple[float, Tensor]:
    """The marginal log-likelihood of a site of rows, and a tensor that has its gradient."""
    row, scale, rows = inside(MaskedDistribution, site["fn"]), float(site["scale"]), rows_of(site)
    if isinstance(row, CollapsedCategories):
        with torch.no_grad():
            counts = expected_counts(rows, row, at_nodes=True)
        assert counts.r is not None
        surrogate = (counts.r * row.log_odds).sum() + (counts.n * row.log_q).sum()
    else:
        with torch.no_grad():
            counts, items = expected_counts(rows, row), row.items
            gradient, _, _ = sums_over_nodes(row.nodes, items, counts, slice(None), binned=False)
        surrogate = (gradient[:, SLOPES] * row.slope).sum() + gradient[:, INTERCEPT] @ row.intercept
        if row.log_guessing is not None and row.log_guessing.requires_grad:
            guessed = torch.isfinite(row.log_guessing)
            by_logarithm = gradient[:, GUESSING] * items.guessing
            surrogate = surrogate + by_logarithm[guessed] @ row.log_guessing[guessed]
    if row.nodes.log_weights.requires_grad:  # of a population that is estimated
        surrogate = surrogate + counts.respondents @ row.nodes.log_weights
    return scale * counts.log_likelihood, scale * surrogate


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
