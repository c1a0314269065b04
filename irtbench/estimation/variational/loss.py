"""The evidence lower bound of models of items, with the E step in place of automatic differentiation.

The gradient of the marginal likelihood by slopes, intercepts and guessing is made of the expected counts of one E step,
in batches of respondents; everything else in the model (priors, regressions of difficulties on features) is
differentiated by torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from pyro import poutine
from pyro.infer import ELBO
from torch import Tensor

from irtbench.estimation.marginal.e_step import expected_counts
from irtbench.estimation.marginal.m_step import sums_over_nodes
from irtbench.models.pyro_model.categories import CollapsedCategories
from irtbench.models.pyro_model.item_tensors import GUESSING, INTERCEPT, SLOPES
from irtbench.models.pyro_model.rows import DenseRows, ResponseRows, as_rows
from irtbench.models.pyro_model.sites import mask_of, observed_sites, without_mask


class MarginalELBO(ELBO):
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

    def _get_trace(
        self, model: Callable[..., Any], guide: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[poutine.Trace, poutine.Trace]:
        """Traces of model and guide with the same draws."""
        guide_trace = poutine.trace(guide).get_trace(*args, **kwargs)
        return poutine.trace(poutine.replay(model, trace=guide_trace)).get_trace(*args, **kwargs), guide_trace

    def _bound(
        self, model: Callable[..., Any], guide: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[float, Tensor]:
        """One estimate of the bound, and a tensor that has its gradient."""
        model_trace, guide_trace = self._get_trace(model, guide, args, kwargs)
        observed = observed_sites(model_trace)
        if not observed:
            raise NotImplementedError("the model draws no response matrix from CollapsedLogistic; expected one or more")
        value, surrogate = 0.0, without_mask(observed[0]["fn"]).nodes.theta.new_zeros(())
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
    row, scale, rows = without_mask(site["fn"]), float(site["scale"]), rows_of(site)
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
