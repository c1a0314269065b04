"""Early stopping of inspect_ai: what is skipped and when, as its runner asks; and with the real package where it is."""

import asyncio
import gc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import irtbench
from irtbench.data.input_error import InputError

RNG = np.random.default_rng(2)
IDS = [f"arc/{k}" for k in range(40)]
ITEMS = irtbench.ItemParameters.from_difficulty(RNG.lognormal(0.4, 0.3, 40), RNG.normal(size=40), item_ids=IDS)


def score(value: Any) -> dict[str, SimpleNamespace]:
    return {"match": SimpleNamespace(score=SimpleNamespace(value=value))}


def sample(identity: int | str) -> SimpleNamespace:
    return SimpleNamespace(id=identity)


SAMPLES = [sample(k) for k in range(40)]


def started(**options: Any) -> irtbench.InspectStop:
    stop = irtbench.InspectStop(ITEMS, **options)
    assert asyncio.run(stop.start_task(SimpleNamespace(task="arc"), SAMPLES, 1)) == "irtbench"
    return stop


def scored(stop: irtbench.InspectStop, *values: Any) -> None:
    for k, value in enumerate(values):
        asyncio.run(stop.complete_sample(k, 1, score(value)))


def test_theta_is_the_adaptive_tests_and_the_log_says_so() -> None:
    stop = started(se=0.1)
    test = irtbench.Adaptive(ITEMS, se=0.1)
    for k, value in enumerate(["C", "I", 1, 0, True, False, "C"]):
        asyncio.run(stop.complete_sample(k, 1, score(value)))
        test.record(f"arc/{k}", value in ("C", 1, True))
    assert (stop.theta, stop.standard_error) == (test.theta, test.standard_error)
    saying = asyncio.run(stop.complete_task())
    assert saying == {
        "scale": "all", "theta": test.theta, "se": test.standard_error, "n_scored": 7, "n_skipped": 0,
        "n_not_binary": 0, "stopped": "",
    }  # fmt: skip


def test_partial_and_missing_scores_by_the_policy() -> None:
    stop = started()
    scored(stop, "P", None, "C")
    assert stop.table()["response"].tolist()[2] == 1
    assert stop.table()["response"].isna().tolist() == [True, True, False]
    assert asyncio.run(stop.complete_task())["n_not_binary"] == 1
    stop = started(threshold=0.5, missing="wrong")
    scored(stop, "P", 0.4, None)
    assert stop.table()["response"].fillna(-1).tolist() == [1, 0, -1]
    assert stop.table()["theta"].is_monotonic_decreasing


def test_a_later_epoch_and_a_sample_of_no_bank_say_nothing() -> None:
    stop = started()
    asyncio.run(stop.complete_sample(3, 1, score("C")))
    theta = stop.theta
    asyncio.run(stop.complete_sample(3, 2, score("I")))
    asyncio.run(stop.complete_sample("stranger", 1, score("I")))
    assert (stop.theta, len(stop.table())) == (theta, 1)
    assert asyncio.run(stop.schedule_sample("stranger", 1)) is None


def test_one_run_at_a_time_and_samples_that_are_items() -> None:
    stop = started()
    with pytest.raises(InputError, match="task arc is running; expected an InspectStop for each run"):
        asyncio.run(stop.start_task(SimpleNamespace(task="arc"), SAMPLES, 1))
    asyncio.run(stop.complete_task())
    with pytest.raises(InputError, match="task boolq: no sample is an item of the scale; expected such as arc/0"):
        asyncio.run(stop.start_task(SimpleNamespace(task="boolq"), [sample("x")], 1))


def test_a_new_run_begins_anew() -> None:
    stop = started()
    scored(stop, "C", "C")
    asyncio.run(stop.complete_task())
    asyncio.run(stop.start_task(SimpleNamespace(task="arc"), SAMPLES, 1))
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
    assert stopped.manager == "irtbench"
    n = stopped.metadata["n_scored"]
    assert 3 < n < 30
    assert len(stopped.early_stops) == 40 - n == stopped.metadata["n_skipped"]
    assert stop.standard_error <= 0.4 < stop.table()["se"].iloc[-2]
    # the log of the run, read and scored as any other, says the same
    scores = irtbench.score_responses(
        irtbench.ItemBank((irtbench.Scale("all", ITEMS, irtbench.ItemTable.plain(ITEMS.item_ids)),)),
        irtbench.read_responses(next(tmp_path.glob("*.eval"))),
    )
    assert scores["n_items"][0] == n
    assert scores["theta"][0] == pytest.approx(stop.theta, abs=1e-3)
    assert scores["se"][0] == pytest.approx(stop.standard_error, abs=1e-3)
