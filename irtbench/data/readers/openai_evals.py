"""OpenAI evals: JSON lines of events (as of 3.0). The model is in the specification of the first line."""

from __future__ import annotations

from irtbench.data.input_error import InputError
from irtbench.data.readers.observations import LINES, Head, LeftOut, Observation, Observations, Reader, Wanted, records


def read(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
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


READER = Reader(
    "openai-evals",
    "records of OpenAI evals",
    "response",
    lambda head: (
        head.kind in LINES and isinstance(head.first.get("spec"), dict) and "completion_fns" in head.first["spec"]
    ),
    read,
    numbered=True,
)
