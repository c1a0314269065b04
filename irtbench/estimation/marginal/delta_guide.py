"""A Delta guide over the items: a point for each site of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyro
import pyro.distributions as dist
from torch import Tensor


def delta_guide(start: Mapping[str, Tensor]) -> Callable[..., None]:
    """A guide with a parameter for each site, named after it.

    What Pyro's AutoDelta makes of a model, without running it: that would cost as much as a small fit.

    Parameters
    ----------
    start
        Values of the model's sites to start from.
    """

    def guide(*args: Any, **kwargs: Any) -> None:
        for name, value in start.items():
            point = pyro.param(f"{name}_point", value.clone)
            pyro.sample(name, dist.Delta(point, event_dim=point.dim()))

    return guide
