"""The linear logistic test model in Pyro: a Rasch model whose difficulties are exactly linear in features."""

from __future__ import annotations

import pyro
from torch import Tensor

from irtbench.models.pyro_model.collapsed import CollapsedLogistic
from irtbench.models.pyro_model.grouped_model import flat
from irtbench.models.pyro_model.node_tensors import NodeTensors
from irtbench.models.pyro_model.rows import ResponseRows


def linear_logistic_model(rows: Tensor | ResponseRows, nodes: NodeTensors, *, design: Tensor) -> None:
    """Respondents' rows with logit theta - x_j'w and ability N(0, sd^2) (Fischer, 1973).

    The sites are ``effect``, w, and ``log_deviation``, log sd, both of flat density, and ``responses``, whose
    distribution has ability integrated out.

    Parameters
    ----------
    rows
        Responses as for `logistic_model`.
    nodes
        The standard normal population.
    design
        x, shape (n_items, n_effects), a column of ones for the mean difficulty among them.

    Examples
    --------
    >>> import pyro
    >>> import torch
    >>> import irtbench
    >>> rows = torch.tensor([[1, 0], [1, -1]], dtype=torch.int8)
    >>> grid, cpu = irtbench.normal_grid(), torch.device("cpu")
    >>> nodes = irtbench.NodeTensors.from_quadrature(grid, dtype=torch.float64, device=cpu)
    >>> values = {"effect": torch.zeros(2).double(), "log_deviation": torch.zeros(1).double()}
    >>> model = pyro.poutine.condition(irtbench.linear_logistic_model, values)
    >>> trace = pyro.poutine.trace(model).get_trace(rows, nodes, design=torch.tensor([[1.0, 0.0], [1.0, 1.0]]).double())
    >>> round(float(trace.nodes["responses"]["fn"].log_prob(rows).sum()), 3)
    -2.27
    """
    effect = pyro.sample("effect", flat(design.shape[1]))
    log_deviation = pyro.sample("log_deviation", flat(1))
    slope = log_deviation.exp().expand(len(design), 1)
    with pyro.plate("respondents", len(rows)):
        row = CollapsedLogistic(slope, -(design @ effect), None, nodes)
        pyro.sample("responses", row, obs=rows)
