"""Early stopping of inspect_ai: what is skipped and when, as its runner asks; and with the real package where it is."""

import asyncio
import gc
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import irtbench
from builders.refusals import is_refused
from builders.scales import scale_of

RNG = np.random.default_rng(2)
IDS = [f"arc/{k}" for k in range(40)]
ITEMS = irtbench.ItemParameters.from_difficulty(RNG.lognormal(0.4, 0.3, 40), RNG.normal(size=40), item_ids=IDS)


def start(stop: irtbench.InspectStop, task: str = "arc", ids: Iterable[int | str] = range(40)) -> str:
    return asyncio.run(stop.start_task(SimpleNamespace(task=task), [SimpleNamespace(id=k) for k in ids], 1))


def started(**options: Any) -> irtbench.InspectStop:
    stop = irtbench.InspectStop(ITEMS, **options)
    assert start(stop) == "irtbench"
    return stop


def scored(stop: irtbench.InspectStop, *values: Any, first: int | str = 0, epoch: int = 1) -> None:
    """Scores of samples one after another, the first of them this one."""
    for k, value in enumerate(values):
        scores = {"match": SimpleNamespace(score=SimpleNamespace(value=value))}
        asyncio.run(stop.complete_sample(first + k if k else first, epoch, scores))


def test_theta_is_the_adaptive_tests_and_the_log_says_so() -> None:
    stop, test = started(se=0.1), irtbench.Adaptive(ITEMS, se=0.1)
    values = ["C", "I", 1, 0, True, False, "C"]
    scored(stop, *values)
    for k, value in enumerate(values):
        test.record(f"arc/{k}", value in ("C", 1, True))
    assert (stop.theta, stop.standard_error) == (test.theta, test.standard_error)
    assert asyncio.run(stop.complete_task()) == {
        "scale": "all", "theta": test.theta, "se": test.standard_error, "n_scored": 7, "n_skipped": 0,
        "n_not_binary": 0, "stopped": "",
    }  # fmt: skip


def test_partial_and_missing_scores_by_the_policy() -> None:
    stop = started()
    scored(stop, "P", None, "C")
    assert stop.table()["response"].fillna(-1).tolist() == [-1, -1, 1]
    assert asyncio.run(stop.complete_task())["n_not_binary"] == 1
    stop = started(threshold=0.5, missing="wrong")
    scored(stop, "P", 0.4, None)
    assert stop.table()["response"].fillna(-1).tolist() == [1, 0, -1]
    assert stop.table()["theta"].is_monotonic_decreasing


def test_one_run_at_a_time_of_first_epochs_and_samples_that_are_items() -> None:
    stop = started()
    scored(stop, "C", first=3)
    theta = stop.theta
    scored(stop, "I", first=3, epoch=2)
    scored(stop, "I", first="stranger")
    assert (stop.theta, len(stop.table())) == (theta, 1)
    assert asyncio.run(stop.schedule_sample("stranger", 1)) is None
    stop = started()
    scored(stop, "C", "C")
    is_refused("task arc is running; expected an InspectStop for each run", start, stop)
    asyncio.run(stop.complete_task())
    is_refused("task boolq: no sample is an item of the scale; expected such as arc/0", start, stop, "boolq", ["x"])
    start(stop)
    assert (stop.theta, len(stop.table())) == (pytest.approx(0, abs=1e-9), 0)


@pytest.mark.filterwarnings("ignore")  # inspect_ai's own
@pytest.mark.parametrize("share", [0.2, 0.9])
def test_inspect_ai_skips_what_is_not_needed(tmp_path: Path, share: float) -> None:
    inspect_ai = pytest.importorskip("inspect_ai")
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput
    from inspect_ai.scorer import match
    from inspect_ai.solver import Generate, TaskState, solver

    @solver
    def answers() -> Any:  # without a model, whose tokens would be counted by a table from the network
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            right = np.random.default_rng(int(state.sample_id)).random() < share
            state.output = ModelOutput.from_content("none", "yes" if right else "no")
            return state

        return solve

    stop = irtbench.InspectStop(ITEMS, se=0.4)
    samples = stop.in_order([Sample(id=k, input=f"question {k}", target="yes") for k in range(40)], task="arc")
    task = inspect_ai.Task(
        name="arc", dataset=MemoryDataset(samples), solver=answers(), scorer=match(), early_stopping=stop
    )
    (log,) = inspect_ai.eval(task, model="mockllm/model", log_dir=str(tmp_path), max_samples=1, display="none")
    gc.collect()  # what it left open is closed here, where its warnings do not count
    assert log.status == "success", log.error
    stopped = log.results.early_stopping
    n = stopped.metadata["n_scored"]
    assert (stopped.manager, len(stopped.early_stops)) == ("irtbench", 40 - n)
    assert 3 < n < 30
    assert stop.standard_error <= 0.4 < stop.table()["se"].iloc[-2]
    # the log of the run, read and scored as any other, says the same
    scores = irtbench.score_responses(scale_of(ITEMS), irtbench.read_responses(next(tmp_path.glob("*.eval")))).loc[0]
    assert (scores["n_items"], scores["theta"]) == (n, pytest.approx(stop.theta, abs=1e-3))
    assert scores["se"] == pytest.approx(stop.standard_error, abs=1e-3)
