"""Pyro's own way to the mode: SVI with a Delta guide and Adam, which holds the preconditioned steps to the model."""

from __future__ import annotations

import pyro
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta
from pyro.infer.autoguide.initialization import init_to_value
from pyro.optim import ClippedAdam
from torch import Tensor

from irtbench.data.input_error import InputError
from irtbench.estimation.marginal.e_step import Problem, expected_counts
from irtbench.estimation.marginal.m_step import distance, item_derivatives, scoring_step, with_probability
from irtbench.estimation.marginal.mode import Mode
from irtbench.estimation.marginal.prior_density import log_prior
from irtbench.estimation.marginal.response_rows import DenseRows
from irtbench.models.logistic import logistic_model


def adam_mode(problem: Problem, start: Tensor, *, tolerance: float, max_steps: int, seed: int) -> Mode:
    """Maximise Pyro's ELBO with a Delta guide by Adam; slower than `find_mode`, and independent of it.

    The learning rate decays to a hundredth over the steps allowed. Convergence is judged as `find_mode` does, every 50
    steps.
    """
    pyro.clear_param_store()
    pyro.set_rng_seed(seed)
    values = {"slope": start[:, :-2], "intercept": start[:, -2]}
    if bool(problem.guessing_free.any()):
        values["guessing_logit"] = start[problem.guessing_free, -1]
    guide = AutoDelta(logistic_model, init_loc_fn=init_to_value(values=values))
    max_steps = 100 * max_steps
    optimiser = ClippedAdam({"lr": 0.05, "lrd": 0.01 ** (1 / 3000), "clip_norm": 1e9})
    svi = SVI(logistic_model, guide, optimiser, loss=Trace_ELBO())
    arguments = (dense_values(problem), problem.nodes, problem.priors, problem.guessing_free, problem.guessing_fixed)
    before = start
    for step in range(1, max_steps + 1):
        svi.step(*arguments)
        if step % 50 and step < max_steps:
            continue
        found = guide.median()
        parameters = torch.zeros_like(start)
        parameters[:, :-2] = found["slope"].detach()
        parameters[:, -2] = found["intercept"].detach()
        if "guessing_logit" in found:
            parameters[problem.guessing_free, -1] = found["guessing_logit"].detach()
        with torch.no_grad():
            counts = expected_counts(problem, parameters)
            derivatives = item_derivatives(problem, with_probability(problem, parameters), counts)
            size = distance(derivatives, scoring_step(problem, derivatives))
            objective = counts.log_likelihood + log_prior(problem.priors, problem.guessing_free, parameters)
        change = float((parameters - before).abs().max())
        before = parameters
        if size < 100 * tolerance and change < 1000 * tolerance:
            break
    converged = size < 100 * tolerance
    reason = f"largest gradient {size:.1e} standard errors after {step} steps of Adam"
    pyro.clear_param_store()
    return Mode(parameters, counts.log_likelihood, objective, size, change, step, converged, reason)


def dense_values(problem: Problem) -> Tensor:
    """The rows as the Pyro model observes them: 1, 0, -1 for missing."""
    if isinstance(problem.rows, DenseRows):
        return problem.rows.values
    raise InputError(
        "model: Pyro's optimisers need a response matrix, not a sparse list; expected preconditioned steps"
    )
