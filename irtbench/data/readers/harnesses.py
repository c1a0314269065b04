"""Logs of harnesses that are one file: EvalPlus, lighteval, OpenAI evals, Every Eval Ever, deepeval, promptfoo.

EvalPlus: *_eval_results.json (as of 0.3.1). Only the file's name says the model; several entries are trials.

lighteval: details/<model>/<date>/details_<task>_<date>.parquet (as of 0.13). The file has no id of an item: it is named
by the hash of its query and choices, a repeated one with #2, #3.

OpenAI evals: JSON lines of events (as of 3.0). The model is in the specification of the first line.

Every Eval Ever: {uuid}_samples.jsonl next to {uuid}.json (schema 0.3.0). A line is a sample under one metric. The flag
``is_correct`` is not taken: some converters set it for any score above 0. The hash in the file follows another recipe
in each converter and is computed anew.

deepeval: the JSON of a test run (as of 3.9), test cases with a metric's verdict each. promptfoo: `promptfoo eval -o
results.json` or `.jsonl` (as of 0.121), a result a provider, prompt and test.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path

from irtbench.data.input_error import InputError
from irtbench.data.readers.observations import (
    LINES,
    Fields,
    Head,
    LeftOut,
    MetricChoice,
    Observation,
    Observations,
    Reader,
    Scored,
    Wanted,
    content_hash,
    records,
)
from irtbench.data.readers.records import entries_in, json_file, parsed, table_rows

_NAME = re.compile(r"(?P<model>.*?)([-_.]sanitized)?[-_.]?eval_results\.json(\.gz)?")
_STATUS = {"pass": 1.0, "fail": 0.0, "timeout": 0.0}


def read_evalplus(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read the base tests or the base and extra tests (``plus``) of each problem."""
    named = _NAME.fullmatch(head.path.name)
    model = (named["model"] if named else head.path.stem) or head.path.absolute().parent.name
    date, chosen, number = None, "", 0
    for (name, *inner), value in entries_in(head.path, "eval"):
        date = str(value) if name == "date" else date
        problems = Fields({problem: value for problem in inner}, head.path, "problem", number + 1)
        for entry in (entry for problem in inner for entry in problems.objects(problem)):
            number += 1
            has = [name for name in ("base", "plus") if entry.values.get(f"{name}_status") is not None]
            if not chosen and has:
                chosen = settings.choose(has, entry.place("base_status"))
            status = entry.text(f"{chosen}_status") if chosen else None
            if status not in (None, *_STATUS):
                raise entry.wrong(f"{chosen}_status", "pass, fail or timeout")
            scored: Scored = (None, None, "without a status") if status is None else (_STATUS[status], None, "")
            yield Observation(model, inner[0], number, *scored, date=date)


EVALPLUS = Reader(
    "evalplus",
    "results of EvalPlus",
    "response",
    lambda head: head.kind == "object" and head.has("date", "hash", "eval"),
    read_evalplus,
    record="entry",
    alone=True,
    numbered=True,
)


_FILE = re.compile(r"details_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT.+)\.parquet")
_DATE = re.compile(r"\d{4}-\d\d-\d\dT.+")
_SCORES = ("metric", "metrics")


def read_lighteval(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read one metric of the documents."""
    scores = next(name for name in _SCORES if head.has(name))
    named = _FILE.fullmatch(head.path.name)
    model, times, choice = _model(head.path), Counter[str](), MetricChoice(settings)
    for number, row in enumerate(table_rows(head.path, ["doc", scores]), start=1):
        record = Fields({name: parsed(value) for name, value in row.items()}, head.path, "row", number)
        doc, metric = record.fields("doc"), record.fields(scores)
        there = [name for name, value in metric.values.items() if isinstance(value, bool | int | float)]
        chosen = choice.of(there, record.place(scores)) if there else None
        if chosen is None:
            left_out["not scored"] += 1
            continue
        task = doc.text("task_name") or (named["task"] if named else head.path.stem)
        choices, gold = doc.entries("choices"), doc.values.get("gold_index")
        content = content_hash(doc.values.get("query"), choices)
        times[content] += 1
        right = gold[0] if isinstance(gold, list) and gold else gold
        yield Observation(
            respondent_id=model,
            item_id=f"{task}/{content}" + (f"#{times[content]}" if times[content] > 1 else ""),
            number=number,
            score=metric.score(chosen),
            date=named["date"][:10] if named else None,
            gold=str(choices[right]) if isinstance(right, int) and 0 <= right < len(choices) else None,
            item_hash=content,
            tags={"task": task},
        )
    choice.demand()


def _model(path: Path) -> str:
    """The folders between ``details`` and the date: organisation and model."""
    parts = list(path.absolute().parent.parts)
    if _DATE.fullmatch(parts[-1]):
        parts.pop()
    after = parts[len(parts) - parts[::-1].index("details") :] if "details" in parts else parts[-1:]
    if not after:
        raise InputError(f"file {path}: of which model? expected details/<model>/<date>/ before the name of the file")
    return "/".join(after)


LIGHTEVAL = Reader(
    "lighteval",
    "details of lighteval",
    "response",
    lambda head: (
        head.kind == "parquet" and head.has("doc", "model_response") and any(head.has(name) for name in _SCORES)
    ),
    read_lighteval,
    alone=True,
)


def read_openai_evals(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read the events of type ``match``; several of one sample are trials."""
    model = task = ""
    for line in records(head):
        if "spec" in line.values:
            spec = line.fields("spec")
            models = spec.entries("completion_fns")
            if len(models) != 1 or not isinstance(models[0], str):
                raise spec.wrong("completion_fns", "one model")
            model, task = models[0], spec.text("eval_name") or spec.text("base_eval") or "eval"
        elif line.values.get("type") == "match":
            if not model:
                raise InputError(
                    f"file {head.path}, line {line.number}: an answer before the line that names the model"
                )
            data = line.fields("data")
            answer, expected = data.text("picked"), data.values.get("expected")
            yield Observation(
                respondent_id=model,
                item_id=f"{task}/{line.name('sample_id')}",
                number=line.number,
                score=data.score("correct") if settings.graded else None,
                answer=answer,
                reason="without an answer" if answer is None and not settings.graded else "",
                date=line.text("created_at"),
                gold=expected if isinstance(expected, str) else None,
                tags={"task": task},
            )
        elif "type" in line.values:
            left_out[f"events of type {line.text('type')}"] += 1


OPENAI_EVALS = Reader(
    "openai-evals",
    "records of OpenAI evals",
    "response",
    lambda head: (
        head.kind in LINES and isinstance(head.first.get("spec"), dict) and "completion_fns" in head.first["spec"]
    ),
    read_openai_evals,
    numbered=True,
)


def read_every_eval_ever(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read the lines of one metric of each evaluation."""
    choices: dict[str, MetricChoice] = {}
    for line in records(head):
        evaluation = line.name("evaluation_name")
        choice = choices.setdefault(evaluation, MetricChoice(settings))
        metric = line.text("evaluation_result_id") or "score"
        if choice.of([metric], line.place("evaluation_result_id")) is None:
            left_out["of another metric"] += 1
            continue
        given = line.fields("input")
        yield Observation(
            line.name("model_id"),
            f"{evaluation}/{line.name('sample_id')}",
            line.number,
            *_scored(line, settings),
            trial=line.fields("metadata").text("epoch"),
            gold=next((text for text in given.entries("reference") if isinstance(text, str)), None),
            item_hash=content_hash({name: given.values.get(name) for name in ("raw", "reference")}),
            tags={"task": evaluation},
        )
    for choice in choices.values():
        choice.demand(f"file {head.path}")


def _scored(line: Fields, settings: Wanted) -> Scored:
    if line.values.get("error"):  # its score was invented
        return settings.failed("the run failed at this sample")
    if settings.graded:
        return line.fields("evaluation").score("score"), None, ""
    extracted = [entry.text("extracted_value") for entry in line.objects("answer_attribution")]
    answer = next((text for text in reversed(extracted) if text is not None), None)
    return None, answer, "" if answer is not None else "without an answer"


EVERY_EVAL_EVER = Reader(
    "every-eval-ever",
    "samples of Every Eval Ever",
    "response",
    lambda head: head.kind in LINES and head.has("evaluation_id", "model_id", "sample_id", "evaluation"),
    read_every_eval_ever,
    # the aggregate of a run
    accompanies=lambda head: (
        head.kind == "object" and head.has("schema_version", "evaluation_id", "evaluation_results")
    ),
)


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
    chosen = settings.choose(list(metrics), case.place("metricsData"), word="metric") if settings.metric else ""
    judged = metrics.get(chosen, case)
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
        prompts[row.name_in("provider", "label")].add(_prompt(row))
        tests[_description(row)].add(row.name("testIdx"))
    for row in rows:
        provider, test = row.name_in("provider", "label"), _description(row)
        yield Observation(
            f"{provider} / {_prompt(row)}" if len(prompts[provider]) > 1 else provider,
            test if test and len(tests[test]) == 1 else f"test {row.name('testIdx')}",
            row.number,
            *_of_result(row, settings),
            item_hash=content_hash(row.values.get("vars")),
        )


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
