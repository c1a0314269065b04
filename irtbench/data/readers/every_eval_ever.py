"""Every Eval Ever: {uuid}_samples.jsonl next to {uuid}.json (schema 0.3.0).

A line is a sample under one metric. The flag ``is_correct`` is not taken: some converters set it for any score above 0.
The hash in the file follows another recipe in each converter and is computed anew.
"""

from __future__ import annotations

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


def read(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
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


READER = Reader(
    "every-eval-ever",
    "samples of Every Eval Ever",
    "response",
    lambda head: head.kind in LINES and head.has("evaluation_id", "model_id", "sample_id", "evaluation"),
    read,
    # the aggregate of a run
    accompanies=lambda head: (
        head.kind == "object" and head.has("schema_version", "evaluation_id", "evaluation_results")
    ),
)
