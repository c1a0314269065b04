"""Tests of prompts, results of deepeval and of promptfoo.

deepeval: the JSON of a test run (as of 3.9), test cases with a metric's verdict each. promptfoo: `promptfoo eval -o
results.json` or `.jsonl` (as of 0.121), a result a provider, prompt and test.
"""

from __future__ import annotations

from collections import defaultdict

from irtbench.data.readers.observations import (
    LINES,
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
from irtbench.data.readers.records import entries_in, json_file

WHOLE = "testRunData"  # the field with the latest run, which the tool keeps


def read_deepeval(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read whether each test case was passed, or one metric of it was."""
    run = Fields.of(json_file(head.path, "the JSON of a test run of deepeval"), head.path, "test run", 1)
    run = run.fields(WHOLE) if WHOLE in run.values else run
    model = run.fields("hyperparameters").values.get("model")
    who = model if isinstance(model, str) and model else run.text("identifier") or head.path.name.split(".")[0]
    for number, case in enumerate(run.objects("testCases"), start=1):
        yield Observation(
            who, case.name("name"), number, *_of_case(case, settings), seconds=case.number_of("completionTime"),
            gold=case.text("expectedOutput"), item_hash=content_hash(case.values.get("input")),
        )  # fmt: skip


def _of_case(case: Fields, settings: Wanted) -> Scored:
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


DEEPEVAL = Reader(
    "deepeval",
    "test runs of deepeval",
    "response",
    lambda head: head.kind == "object" and (head.has(WHOLE) or head.has("testCases", "metricsScores")),
    read_deepeval,
    record="test case",
    numbered=True,
)


RESULTS = ("results", "results")  # where they are
ERROR = 2  # the reason of a failure where the provider gave no answer, and not an assertion failed


def _of_lines(head: Head) -> bool:
    return head.kind in LINES and head.has("promptIdx", "testIdx", "provider", "success")


def read_promptfoo(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read whether each test was passed, or a score; a provider with several prompts is a respondent with each."""
    every = head.values() if _of_lines(head) else entries_in(head.path, *RESULTS)
    results = (value for place, value in every if isinstance(place, int) or place[:2] == RESULTS)
    rows = [Fields.of(value, head.path, "result", k) for k, value in enumerate(results, start=1)]
    prompts: dict[str, set[str]] = defaultdict(set)
    tests: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        prompts[_provider(row)].add(_prompt(row))
        tests[_description(row)].add(row.name("testIdx"))
    for row in rows:
        provider, test = _provider(row), _description(row)
        yield Observation(
            f"{provider} / {_prompt(row)}" if len(prompts[provider]) > 1 else provider,
            test if test and len(tests[test]) == 1 else f"test {row.name('testIdx')}",
            row.number,
            *_of_result(row, settings),
            item_hash=content_hash(row.values.get("vars")),
        )


def _provider(row: Fields) -> str:
    if isinstance(row.values.get("provider"), str):
        return row.name("provider")
    named = row.fields("provider")
    return named.text("label") or named.name("id")


def _prompt(row: Fields) -> str:
    return row.fields("prompt").text("label") or row.text("promptIdx") or "prompt"


def _description(row: Fields) -> str:
    return row.fields("testCase").text("description") or ""


def _of_result(row: Fields, settings: Wanted) -> Scored:
    """Score and answer of a result, or the reason why it has none."""
    if row.values.get("failureReason") == ERROR or (row.values.get("error") and not row.values.get("response")):
        return settings.failed("the run failed at this test")
    if not settings.graded:
        output = row.fields("response").values.get("output")
        return (None, output, "") if isinstance(output, str) else (None, None, "without an answer in words")
    named = row.fields("namedScores")
    names = ["success", "score", *named.values]
    metric = settings.choose(names, row.place("score")) if settings.metric else "success"
    return (named if metric in named.values else row).score(metric), None, ""


PROMPTFOO = Reader(
    "promptfoo",
    "evaluations of promptfoo",
    "response",
    lambda head: (head.kind == "object" and head.has("evalId", "results", "config")) or _of_lines(head),
    read_promptfoo,
    record="result",
    numbered=True,
)
