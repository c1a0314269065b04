"""promptfoo: `promptfoo eval -o results.json` or `.jsonl` (as of 0.121), a result a provider, prompt and test."""

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
from irtbench.data.readers.records import entries_in

RESULTS = ("results", "results")  # where they are
ERROR = 2  # the reason of a failure where the provider gave no answer, and not an assertion failed


def _of_lines(head: Head) -> bool:
    return head.kind in LINES and head.has("promptIdx", "testIdx", "provider", "success")


def read(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
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
            *_scored(row, settings),
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


def _scored(row: Fields, settings: Wanted) -> Scored:
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


READER = Reader(
    "promptfoo",
    "evaluations of promptfoo",
    "response",
    lambda head: (head.kind == "object" and head.has("evalId", "results", "config")) or _of_lines(head),
    read,
    record="result",
    numbered=True,
)
