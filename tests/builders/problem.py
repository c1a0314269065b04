"""The estimation problem of given responses, as `fit_model` sets it up, but on the usual grid of nodes."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch

from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.several_abilities.answers import Answers
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.priors import PriorName, Priors
from irtbench.models.pyro_model.model import logistic_model
from irtbench.models.pyro_model.rows import encode_responses
from irtbench.models.pyro_model.tensors import NodeTensors
from irtbench.models.quadrature import normal_grid


def make_problem(
    responses: ResponseMatrix,
    prior: Priors | PriorName = "none",
    *,
    free: bool | Sequence[bool] = False,
    fixed: float | Sequence[float] = 0.0,
) -> Problem:
    """Items whose guessing is ``free`` or fixed at ``fixed``, on the processor and in float64."""
    cpu = torch.device("cpu")
    is_free = np.broadcast_to(free, responses.n_items).copy()
    model = partial(
        logistic_model,
        priors=prior if isinstance(prior, Priors) else Priors.named(prior),
        guessing_free=torch.from_numpy(is_free),
        guessing_fixed=torch.from_numpy(np.where(is_free, 0.0, fixed)),
    )
    nodes = NodeTensors.from_quadrature(normal_grid(), dtype=torch.float64, device=cpu)
    return Problem.of(model, encode_responses(responses, cpu), nodes)


def right_or_wrong(responses: ResponseMatrix) -> Answers:
    """The responses as those to items of a 2PL each, for `factor_problem` and `bifactor_problem`."""
    return Answers(responses, (Logistic(),) * responses.n_items)
