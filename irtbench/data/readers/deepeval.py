"""deepeval: the JSON of a test run (as of 3.9): test cases with a metric's verdict each."""

from __future__ import annotations

from irtbench.data.readers.observations import (
    Fields,
    Head,
    LeftOut,
    Observation,
    Observations,
    Reader,
    Scored,
    Wanted,
    content_hash,
)
from irtbench.data.readers.records import json_file

WHOLE = "testRunData"  # the field with the latest run, which the tool keeps


def read(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read whether each test case was passed, or one metric of it was."""
    run = Fields.of(json_file(head.path, "the JSON of a test run of deepeval"), head.path, "test run", 1)
    run = run.fields(WHOLE) if WHOLE in run.values else run
    model = run.fields("hyperparameters").values.get("model")
    who = model if isinstance(model, str) and model else run.text("identifier") or head.path.name.split(".")[0]
    for number, case in enumerate(run.objects("testCases"), start=1):
        yield Observation(
            who, case.name("name"), number, *_scored(case, settings), seconds=case.number_of("completionTime"),
            gold=case.text("expectedOutput"), item_hash=content_hash(case.values.get("input")),
        )  # fmt: skip


def _scored(case: Fields, settings: Wanted) -> Scored:
    """Whether a test case was passed, and its answer; or the reason why there is none."""
    if not settings.graded:
        answer = case.text("actualOutput")
        return None, answer, "" if answer is not None else "without an answer"
    metrics = {metric.name("name"): metric for metric in case.objects("metricsData")}
    judged = case
    if settings.metric:
        judged = metrics[settings.choose(list(metrics), case.place("metricsData"), word="metric")]
    if judged.values.get("error"):
        return settings.failed("the metric failed at this test case")
    return (None, None, "not scored") if judged.values.get("success") is None else (judged.score("success"), None, "")


READER = Reader(
    "deepeval",
    "test runs of deepeval",
    "response",
    lambda head: head.kind == "object" and (head.has(WHOLE) or head.has("testCases", "metricsScores")),
    read,
    record="test case",
    numbered=True,
)
