"""The one driver of Pyro's SVI: whatever the model, guide, optimiser and loss."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import pyro
import torch
from pyro.infer import SVI

from irtbench.data.checked_settings import checked_seed
from irtbench.estimation.status import Learning

Result = TypeVar("Result")

#: Pyro's parameter store and torch's random numbers are one for the whole process: threads take turns.
_TURN = threading.RLock()


@contextmanager
def own_parameters() -> Iterator[None]:
    """A parameter store of its own, out of reach of handlers around it, without Pyro's checks of shapes."""
    store = pyro.get_param_store()
    with _TURN, pyro.poutine.block():
        try:
            with store.scope(), pyro.validation_enabled(False):
                yield
        finally:
            # putting parameters by takes from them what a step around this asks them for; a look gives it back
            dict(store.items())


@contextmanager
def fenced(seed: int) -> Iterator[None]:
    """A parameter store of its own and random numbers from a seed; both are as before when it is left.

    Pyro's checks of shapes and supports are off inside.

    Parameters
    ----------
    seed
        Of Python's, NumPy's and torch's generators, which Pyro draws from.
    """
    with own_parameters():
        states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002 - Pyro seeds this one
        on_gpu = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        pyro.set_rng_seed(checked_seed(seed))
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002
            torch.set_rng_state(states[2])
            torch.cuda.set_rng_state_all(on_gpu)


def maximise(svi: SVI, *arguments: Any, stopped: Callable[[int, float], Result | None], **options: Any) -> Result:
    """Take steps of stochastic variational inference until the stopping rule has a result.

    Parameters
    ----------
    svi
        Model, guide, optimiser and loss.
    arguments, options
        What model and guide are called with.
    stopped
        Asked after every step with the number of steps and the loss; it must end some time.

    Examples
    --------
    >>> import pyro
    >>> import torch
    >>> from pyro.infer import SVI
    >>> import irtbench
    >>> def model():
    ...     pyro.sample("mean", pyro.distributions.Normal(2.0, 1.0))
    >>> guide = pyro.infer.autoguide.AutoDelta(model)
    >>> svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.1}), pyro.infer.Trace_ELBO())
    >>> with pyro.get_param_store().scope():
    ...     loss = irtbench.maximise(svi, stopped=lambda step, loss: loss if step == 100 else None)
    ...     round(guide.median()["mean"].item(), 1)
    2.0
    """
    step = 0
    while True:
        loss = svi.step(*arguments, **options)
        step += 1
        result = stopped(step, loss)
        if result is not None:
            return result


def alternate(
    what: str,
    update: Callable[[], tuple[float, bool]],
    *,
    tolerance: float,
    most: int,
    fewest: int = 1,
    progress: Callable[[str], None] = lambda message: None,
) -> Learning:
    """Repeat an update until it changes little.

    Parameters
    ----------
    what
        What is learnt, for messages.
    update
        Makes one update; its largest change, and whether going on makes sense.
    tolerance
        Settled when the change is below this.
    most, fewest
        Number of updates.
    progress
        Called with a line about each update.
    """
    change, goes_on, updates = math.inf, True, 0
    while goes_on and updates < most and not (updates >= fewest and change < tolerance):
        change, goes_on = update()
        updates += 1
        progress(f"{what} updated {updates} times, last change {change:.1e}")
    return Learning(what, updates, change, goes_on and change < tolerance)
