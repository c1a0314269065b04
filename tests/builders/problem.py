"""The estimation problem of given responses, as `fit_model` sets it up, but on the usual grid of nodes."""

from collections.abc import Sequence

import numpy as np
import torch

from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.marginal.e_step import Problem
from irtbench.estimation.marginal.response_rows import encode_responses
from irtbench.models.logistic import NodeTensors
from irtbench.models.priors import PriorName, Priors
from irtbench.models.quadrature import normal_grid


def make_problem(
    responses: ResponseMatrix,
    prior: Priors | PriorName = "none",
    *,
    free: bool | Sequence[bool] = False,
    fixed: float = 0.0,
) -> Problem:
    """Items whose guessing is ``free`` or held at ``fixed``, on the processor and in float64."""
    cpu = torch.device("cpu")
    is_free = torch.tensor(np.broadcast_to(free, responses.n_items).copy())
    return Problem(
        encode_responses(responses, cpu),
        NodeTensors.from_quadrature(normal_grid(), dtype=torch.float64, device=cpu),
        prior if isinstance(prior, Priors) else Priors.named(prior),
        is_free,
        torch.where(is_free, 0.0, torch.tensor(fixed, dtype=torch.float64)),
    )
