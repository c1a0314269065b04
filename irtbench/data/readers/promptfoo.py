"""promptfoo: `promptfoo eval -o results.json` or `.jsonl` (as of 0.121), a result a provider, prompt and test."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from irtbench.data.readers.head import Head
from irtbench.data.readers.json_stream import JsonText
from irtbench.data.readers.metric_choice import choose_metric
from irtbench.data.readers.observations import Fields, Observation, Reader, Wanted, content_hash
from irtbench.data.readers.packed import open_bytes

ERROR = 2  # the reason of a failure where the provider gave no answer, and not an assertion failed


def recognises(head: Head) -> bool:
    """Whether a file is an evaluation of promptfoo."""
    return (head.kind == "object" and head.has("evalId", "results", "config")) or _of_lines(head)


def _of_lines(head: Head) -> bool:
    return head.kind in ("lines", "object") and head.has("promptIdx", "testIdx", "provider", "success")


def read(head: Head, settings: Wanted, left_out: Counter[str]) -> Iterator[Observation]:
    """Read whether each test was passed, or a score; a provider with several prompts is a respondent with each."""
    results = (value for _, value in head.values()) if _of_lines(head) else _results(head.path)
    rows = [Fields.of(value, head.path, "result", k) for k, value in enumerate(results, start=1)]
    prompts: dict[str, set[str]] = defaultdict(set)
    tests: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        prompts[_provider(row)].add(_prompt(row))
        tests[_description(row)].add(row.name("testIdx"))
    times: Counter[tuple[str, str]] = Counter()
    for row in rows:
        provider, test = _provider(row), _description(row)
        who = f"{provider} / {_prompt(row)}" if len(prompts[provider]) > 1 else provider
        item = test if test and len(tests[test]) == 1 else f"test {row.name('testIdx')}"
        times[who, item] += 1
        score, answer, reason = _scored(row, settings)
        if reason:
            left_out[reason] += 1
            continue
        yield Observation(
            respondent_id=who, item_id=item, number=row.number, score=score, answer=answer, trial=str(times[who, item]),
            item_hash=content_hash(row.values.get("vars")),
        )  # fmt: skip


def _results(path: Path) -> Iterator[Any]:
    with open_bytes(path) as file:
        text = JsonText(file, path)
        for name in text.members():
            if name != "results":
                text.value()
                continue
            for inner in text.members():
                if inner == "results":
                    yield from text.elements()
                else:
                    text.value()


def _provider(row: Fields) -> str:
    provider = row.values.get("provider")
    if isinstance(provider, str):
        return row.name("provider")
    named = row.fields("provider")
    return named.text("label") or named.name("id")


def _prompt(row: Fields) -> str:
    return row.fields("prompt").text("label") or row.text("promptIdx") or "prompt"


def _description(row: Fields) -> str:
    return row.fields("testCase").text("description") or ""


def _scored(row: Fields, settings: Wanted) -> tuple[float | None, str | None, str]:
    """Score and answer of a result, or the reason why it has none."""
    if row.values.get("failureReason") == ERROR or (row.values.get("error") and not row.values.get("response")):
        return settings.failed("the run failed at this test")
    if settings.want == "answer":
        output = row.fields("response").values.get("output")
        return (None, output, "") if isinstance(output, str) else (None, None, "without an answer in words")
    named = row.fields("namedScores")
    metric = (
        choose_metric(["success", "score", *named.values], settings, row.place("score")) if settings.metrics else ""
    )
    if metric in named.values:
        return named.score(metric), None, ""
    return row.score(metric or "success"), None, ""


READER = Reader("promptfoo", "evaluations of promptfoo", "response", recognises, read, record="result")
