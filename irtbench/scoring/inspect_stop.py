"""inspect_ai's early stopping: a run ends once the system's ability is known well enough (as of inspect_ai 0.3.285)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import numpy as np

from irtbench.bank.scale import ScaleLike, as_scale
from irtbench.data.input_error import InputError
from irtbench.data.readers.inspect_log import value_of_score
from irtbench.data.responses import name_first
from irtbench.data.shown import Shown
from irtbench.models.curves import information
from irtbench.models.theta_posterior import STANDARD_NORMAL
from irtbench.scoring.adaptive import Adaptive

if TYPE_CHECKING:
    import pandas as pd
    from inspect_ai.util import EarlyStop

BEYOND = 1e-6  # what information beyond the goal counts for: it orders items where nothing else does


def item_order(scale: ScaleLike, *, se: float = 0.3) -> tuple[str, ...]:
    """The items, each in turn the one that brings the population nearest to a standard error of theta.

    That is the item that adds most to the population's mean of min(1 / s^2 + I_S(theta), 1 / se^2), where I_S is the
    information of the items so far and s the population's standard deviation. Information beyond the goal counts for
    nothing, so that items complement each other; the most informative ones by themselves may all measure the same
    abilities. What was answered does not enter, as it does in `Adaptive`. Items whose slope is not positive come last.

    Parameters
    ----------
    scale
        A scale of a bank, or item parameters.
    se
        The standard error at which the test is to end.

    Raises
    ------
    InputError
        If it is not positive.

    Examples
    --------
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([4.0, 4.0, 1.0, 3.0], [0.0, 0.0, 0.0, -1.0])
    >>> irtbench.item_order(items, se=0.5)
    ('item1', 'item4', 'item2', 'item3')
    """
    if not se > 0:
        raise InputError(f"item_order: se must be above 0 but got {se:g}")
    known = as_scale(scale)
    population = STANDARD_NORMAL if known.population is None else known.population
    each = information(population.nodes, known.items)
    mean = population.weights @ population.nodes
    total = np.full(population.nodes.size, 1 / (population.weights @ (population.nodes - mean) ** 2))
    asked = known.items.discrimination > 0
    free, order = np.flatnonzero(asked), []
    while free.size:
        then = total[:, None] + each[:, free]
        best = int((population.weights @ (np.minimum(then, se**-2) + BEYOND * then)).argmax())
        order.append(int(free[best]))
        total = then[:, best]
        free = np.delete(free, best)
    return tuple(known.items.item_ids[k] for k in [*order, *np.flatnonzero(~asked)])


class SampleLike(Protocol):
    """What has an id, as inspect_ai's ``Sample`` does."""

    @property
    def id(self) -> int | str | None:
        """The sample's id in its dataset."""


Sample = TypeVar("Sample", bound=SampleLike)


class InspectStop(Shown):
    """``early_stopping`` of an inspect_ai ``Task``: samples are skipped once theta's standard error is small enough.

    inspect_ai asks before each sample whether to run it; it does not ask which comes next. So samples are put in order
    beforehand (`in_order`), and are run until the standard error is reached. Samples that are in no bank are run: the
    bank says nothing of them. Of several epochs of a sample the first that is scored counts. What runs side by side
    (``max_samples``) has begun before the others are scored, and is a few samples more.

    Parameters
    ----------
    scale
        A scale of a bank, or item parameters. An item's name is ``task/id``, as the reader of inspect_ai's logs names
        it, or the sample's id by itself.
    se
        The standard error of theta at which the run ends.
    least_items
        Samples to be scored before it may end.
    scorer
        The scorer whose value is the response, where there are several.
    threshold
        For values that are not 1 or 0: 1 where value >= threshold. Without it they say nothing of theta, and are
        counted in the log.
    missing
        A sample that was not scored: ``skip`` says nothing of theta, ``wrong`` counts as wrong.

    Raises
    ------
    InputError
        As `Adaptive`.

    Examples
    --------
    With ``bank`` from `load_bank`, ``samples`` a list of ``Sample``, and a ``Task`` for each model::

        stop = irtbench.InspectStop(bank.scales[0], se=0.35)
        dataset = MemoryDataset(stop.in_order(samples, task="arc"))
        task = Task(name="arc", dataset=dataset, solver=generate(), scorer=match(), early_stopping=stop)
        eval(task, model="...")
        stop.theta, stop.standard_error
    """

    def __init__(
        self,
        scale: ScaleLike,
        *,
        se: float = 0.3,
        least_items: int = 0,
        scorer: str | None = None,
        threshold: float | None = None,
        missing: Literal["skip", "wrong"] = "skip",
    ) -> None:
        self._scale = as_scale(scale)
        self._fresh = Adaptive(self._scale, se=se, least_items=least_items, missing=missing)
        self._se, self._scorer, self._threshold = se, scorer, threshold
        self._known = {
            item
            for item, slope in zip(self._scale.items.item_ids, self._scale.items.discrimination, strict=True)
            if slope > 0
        }
        self._running: str | None = None
        self._begin("")

    def _begin(self, task: str) -> None:
        self._task, self._test, self._seen = task, self._fresh.again(), set[str]()
        self._not_binary = self._skipped = 0

    @property
    def theta(self) -> float:
        """Ability after the samples scored so far."""
        return self._test.theta

    @property
    def standard_error(self) -> float:
        """Of theta."""
        return self._test.standard_error

    def table(self) -> pd.DataFrame:
        """One row a scored sample: ``step, item_id, response, theta, se``."""
        return self._test.table()

    def in_short(self) -> str:
        """How far the run is."""
        return f"theta {self.theta:.2f}, standard error {self.standard_error:.2f}, {self._test.n_items} samples scored"

    def in_order(self, samples: Sequence[Sample], *, task: str = "") -> list[Sample]:
        """The samples in the order of `item_order`, those that are not in the bank first, as they came."""
        place = {item: k for k, item in enumerate(item_order(self._scale, se=self._se))}
        return sorted(samples, key=lambda sample: place.get(self._name(sample.id, task), -1))

    async def start_task(self, task: Any, samples: Sequence[SampleLike], epochs: int) -> str:
        """Begin anew for a run of a task.

        Raises
        ------
        InputError
            If a run is under way, or none of its samples is in the bank.
        """
        if self._running is not None:
            raise InputError(f"InspectStop: task {self._running} is running; expected an InspectStop for each run")
        name = str(task.task)
        if not any(self._name(sample.id, name) in self._known for sample in samples):
            expected = name_first(sorted(self._known))
            raise InputError(
                f"InspectStop: task {name}: no sample is an item of the scale; expected such as {expected}"
            )
        self._begin(name)
        self._running = name
        return "irtbench"

    async def schedule_sample(self, id: str | int, epoch: int) -> EarlyStop | None:
        """Whether to skip a sample."""
        if self._name(id, self._task) not in self._known or self._test.stopped != "se":
            return None
        from inspect_ai.util import EarlyStop

        self._skipped += 1
        reason = f"standard error {self.standard_error:.3f} reached after {self._test.n_items} samples"
        return EarlyStop(id=id, epoch=epoch, reason=reason)

    async def complete_sample(self, id: str | int, epoch: int, scores: Mapping[str, Any]) -> None:
        """Take the response to a sample."""
        item = self._name(id, self._task)
        if item in self._known and item not in self._seen:
            self._seen.add(item)
            self._test.record(item, self._response(scores))

    async def complete_task(self) -> dict[str, Any]:
        """What the log says of it."""
        self._running = None
        return {
            "scale": self._scale.name,
            "theta": self.theta,
            "se": self.standard_error,
            "n_scored": self._test.n_items,
            "n_skipped": self._skipped,
            "n_not_binary": self._not_binary,
            "stopped": self._test.stopped,
        }

    def _name(self, sample: int | str | None, task: str) -> str:
        named = f"{task}/{sample}"
        return named if named in self._known else str(sample)

    def _response(self, scores: Mapping[str, Any]) -> float | None:
        """1, 0, or None where there is no value that says which."""
        chosen = scores.get(self._scorer) if self._scorer is not None else next(iter(scores.values()), None)
        value = None if chosen is None else value_of_score(chosen.score.value)
        if value is None or value != value:
            return None
        if self._threshold is not None:
            return float(value >= self._threshold)
        if value in (0, 1):
            return value
        self._not_binary += 1
        return None
