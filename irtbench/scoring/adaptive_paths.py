"""Adaptive tests at work: replayed from known responses, simulated, or as the early stopping of inspect_ai."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.bank.scale import Scale, ScaleLike, as_scale
from irtbench.data.checked_settings import seeded, shows_fields, with_keywords
from irtbench.data.given import ResponsesLike
from irtbench.data.input_error import InputError
from irtbench.data.readers.inspect_log import value_of_score
from irtbench.data.responses import demand_single, name_first
from irtbench.data.shown import Drawn, Shown, counted
from irtbench.models.curves import information, simulate_responses
from irtbench.models.parameter_table import ParametersLike, responses_and_items
from irtbench.models.theta_posterior import STANDARD_NORMAL
from irtbench.scoring.adaptive import Adaptive, AdaptiveKeywords, AdaptiveSettings, scores_of
from irtbench.scoring.scores import own_responses

if TYPE_CHECKING:
    from inspect_ai.util import EarlyStop


@dataclass(frozen=True, eq=False)
class AdaptivePaths(Drawn):
    """The adaptive tests of several respondents.

    Parameters
    ----------
    paths
        A row for each item asked: ``respondent_id, step, item_id, response, theta, se``.
    respondent_ids
        The respondents.
    n_items
        Items asked of each, shape (n_respondents,).
    theta, standard_error
        At the end, shape (n_respondents,).
    stopped
        Why each test ended, see `Stopped`.
    before
        Theta before any response, the population's mean.
    """

    paths: pd.DataFrame
    respondent_ids: tuple[str, ...]
    n_items: NDArray[np.int64]
    theta: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    stopped: tuple[str, ...]
    before: float = 0.0

    def table(self) -> pd.DataFrame:
        """Columns of path.csv; ``stopped`` is in the last row of each respondent."""
        last = ~self.paths["respondent_id"].duplicated(keep="last")
        why = self.paths["respondent_id"].map(dict(zip(self.respondent_ids, self.stopped, strict=True)))
        return self.paths.assign(stopped=why.where(last, ""))

    def ends(self) -> pd.DataFrame:
        """One row a respondent: items asked, ability and its error at the end, and why the test ended."""
        return pd.DataFrame(
            {
                "respondent_id": self.respondent_ids,
                "n_items": self.n_items,
                "theta": self.theta,
                "se": self.standard_error,
                "stopped": self.stopped,
            }
        )

    def exposure(self) -> pd.DataFrame:
        """How many of the tests asked each item, the most used first: ``item_id, n_tests, share``."""
        asked = self.paths["item_id"].value_counts().rename_axis("item_id").reset_index(name="n_tests")
        return asked.assign(share=asked["n_tests"] / max(len(self.respondent_ids), 1))

    def in_short(self) -> str:
        """How many respondents, and the items asked of one on average."""
        people = counted(len(self.respondent_ids), "respondent")
        if not self.n_items.size:
            return people
        return f"{people}, {self.n_items.mean():.1f} items each, mean standard error {self.standard_error.mean():.2f}"


@shows_fields(AdaptiveSettings)
def replay_adaptive(
    items: Scale | ParametersLike,
    responses: ResponsesLike,
    settings: AdaptiveSettings | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    ask_unanswered: bool = False,
    seed: int = 0,
    **keywords: Unpack[AdaptiveKeywords],
) -> AdaptivePaths:
    """What an adaptive test would have asked respondents whose responses are known.

    Parameters
    ----------
    items
        A scale of a bank, or item parameters.
    responses
        Responses to the items, or scores of items in categories; others are left aside.
    settings
        How items are chosen and when a test ends.
    columns
        See `Adaptive`.
    ask_unanswered
        Whether an item without a response of the respondent may be asked, with what ``missing`` says then. Otherwise
        only items with a response are.
    seed
        Of the draws among the best items.
    keywords
        Of the settings: ``se=0.4``.

    Raises
    ------
    InputError
        If none of the items is known, or there are several trials of an item.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty(rng.uniform(1, 2, 60), rng.normal(size=60))
    >>> responses = irtbench.simulate_responses(rng.normal(size=5), items, rng=rng)
    >>> found = irtbench.replay_adaptive(items, responses, se=0.4)
    >>> found
    <AdaptivePaths: 5 respondents, 9.4 items each, mean standard error 0.39>
    >>> found.paths.head(2).round(2)
      respondent_id  step item_id  response  theta   se
    0            r1     1   item2       1.0   0.62  0.8
    1            r1     2  item30       1.0   1.00  0.7
    """
    matrix, known = responses_and_items(responses, items.items if isinstance(items, Scale) else items, categories=True)
    if known.categories is None:
        demand_single(matrix, "an adaptive test")
    own = own_responses(known.item_ids, matrix)
    if own.n_items == 0:
        raise InputError(
            f"adaptive: none of the items is known: {name_first(matrix.item_ids)}; expected such as "
            f"{name_first(known.item_ids, most=3)}"
        )
    values, place = own.correct, {item: k for k, item in enumerate(own.item_ids)}
    scores = {item: scores_of(known, k) for k, item in enumerate(known.item_ids)}

    def answer(row: int, item: str) -> Any:
        code = values[row, place[item]] if item in place else np.nan
        return None if np.isnan(code) else scores[item][int(code)]

    wanted = with_keywords(settings or AdaptiveSettings(), keywords)
    first = Adaptive(items, wanted, columns=columns, rng=seeded(seed))
    parts, ends = [], []
    uses: dict[str, int] = {}
    most = np.inf if wanted.most_exposure is None else wanted.most_exposure
    for row, name in enumerate(own.respondent_ids):
        closed = {item for item, n in uses.items() if n >= most * (row + 1)}  # too many of the tests so far asked these
        lacking = () if ask_unanswered else [item for item in known.item_ids if answer(row, item) is None]
        test = first.again(unavailable=closed.union(lacking))
        while (item := test.next_item()) is not None:
            test.record(item, answer(row, item))
            uses[item] = uses.get(item, 0) + 1
        path = test.table()
        path.insert(0, "respondent_id", name)
        parts.append(path)
        ends.append((test.n_items, test.theta, test.standard_error, test.stopped))
    n_items, theta, error, stopped = zip(*ends, strict=True) if ends else ((), (), (), ())
    return AdaptivePaths(
        pd.concat(parts, ignore_index=True)
        if parts
        else pd.DataFrame(columns=["respondent_id", *first.table().columns]),
        own.respondent_ids,
        np.array(n_items, dtype=np.int64),
        np.array(theta, dtype=np.float64),
        np.array(error, dtype=np.float64),
        tuple(stopped),
        first.theta,
    )


@shows_fields(AdaptiveSettings)
def simulate_adaptive(
    items: Scale | ParametersLike,
    theta: NDArray[np.float64] | list[float],
    settings: AdaptiveSettings | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    seed: int = 0,
    **keywords: Unpack[AdaptiveKeywords],
) -> AdaptivePaths:
    """Adaptive tests of respondents of these abilities, who answer as the items' parameters say.

    Parameters
    ----------
    items, settings, columns, keywords
        As for ``replay_adaptive``.
    theta
        True abilities, shape (n_respondents,).
    seed
        Of the responses and of the draws among the best items.

    Examples
    --------
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 9, [-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2])
    >>> irtbench.simulate_adaptive(items, [-1.0, 1.0], most_items=4, seed=1).ends().round(2)
      respondent_id  n_items  theta    se stopped
    0            r1        4  -1.03  0.61  length
    1            r2        4   1.62  0.65  length
    """
    known = items.items if isinstance(items, Scale) else items
    values = simulate_responses(np.asarray(theta, dtype=np.float64), known, rng=seeded(seed))
    return replay_adaptive(items, values, settings, columns=columns, seed=seed, **keywords)


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
    total = np.full(population.nodes.size, population.deviation**-2)
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


class InspectStop(
    Shown, short="theta {theta:.2f}, standard error {standard_error:.2f}, {_test.n_items} samples scored"
):
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
