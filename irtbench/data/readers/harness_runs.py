"""Harnesses whose results are next to a file that names the model: HELM, lm-evaluation-harness.

HELM: per_instance_stats.json next to run_spec.json (as of crfm-helm 0.5.16), read as a stream. Perturbed copies of an
instance share its id: they are left out unless the metric names the perturbation.

lm-evaluation-harness: samples_<task>_<date>.jsonl next to results_<date>.json (as of 0.4.13). A line is a document
under one filter, with each metric as a field of the line; the model is not in it but in the results file, or else in
the name of the folder.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

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
    Wanted,
    records,
)
from irtbench.data.readers.records import json_file

#: Metrics that say whether an answer is right; what else a run counts is taken only if the user names it.
CORRECTNESS = (
    "exact_match", "quasi_exact_match", "prefix_exact_match", "quasi_prefix_exact_match", "f1_score", "math_equiv",
    "math_equiv_chain_of_thought", "final_number_exact_match", "ifeval_strict_accuracy", "chain_of_thought_correctness",
    "code_eval_acc", "pass",
)  # fmt: skip
_MODEL = re.compile(r"(^|[,:])model=[^,]*")


def read_helm(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read one metric of the instances, each training trial a trial."""
    model, task = _helm_run(head.path.parent / "run_spec.json", head.path)
    tags = {"task": task}
    chosen: tuple[str, str | None, str | None] | None = None
    for record in records(head):
        stats = list(record.objects("stats"))
        if chosen is None:
            chosen = _choose(record, stats, settings)
        metric, split, perturbation = chosen
        own = record.fields("perturbation").text("name")
        if own != perturbation:
            left_out["perturbed copies of an instance" if own else "instances without the perturbation"] += 1
            continue
        found = [stat for stat in stats if _is(stat.fields("name"), metric, split, perturbation)]
        if len(found) > 1:
            raise InputError(
                f"{record.place('stats')}: several statistics {metric}; name one as metric:split:perturbation"
            )
        score = _mean(found[0]) if found else math.nan
        if math.isnan(score):
            left_out[f"without a value of {metric}"] += 1
            continue
        yield Observation(
            respondent_id=model,
            item_id=f"{task}/{record.name('instance_id')}",
            number=record.number,
            score=score,
            trial=record.text("train_trial_index"),
            tags=tags,
        )


def _choose(record: Fields, stats: list[Fields], settings: Wanted) -> tuple[str, str | None, str | None]:
    names = list(dict.fromkeys(stat.fields("name").name("name") for stat in stats))
    for wanted in settings.metric:
        metric, *rest = wanted.split(":")
        if metric in names:
            split, perturbation = ([part or None for part in rest] + [None, None])[:2]
            return metric, split, perturbation
    known = [name for name in names if name in CORRECTNESS]
    return settings.choose(names if settings.metric else known, record.place("stats")), None, None


def _is(name: Fields, metric: str, split: str | None, perturbation: str | None) -> bool:
    return (
        name.values.get("name") == metric
        and split in (None, name.values.get("split"))
        and (perturbation is not None or name.values.get("perturbation") is None)
    )


def _mean(stat: Fields) -> float:
    if stat.values.get("mean") is not None:
        return stat.score("mean")
    count = stat.number_of("count")
    return stat.score("sum") / count if count else math.nan


def _helm_run(spec: Path, of: Path) -> tuple[str, str]:
    """The model and the name of the run without it."""
    if not spec.exists():
        raise InputError(f"file {of}: of which model? expected run_spec.json in its folder")
    fields = Fields.of(json_file(spec, "the JSON of a run of HELM"), spec, "record", 1)
    return fields.fields("adapter_spec").name("model"), _MODEL.sub("", fields.name("name")).strip(",:")


HELM = Reader(
    "helm",
    "runs of HELM",
    "response",
    lambda head: head.kind == "array" and head.has("instance_id", "train_trial_index", "stats"),
    read_helm,
    accompanies=lambda head: (
        head.path.name in ("run_spec.json", "scenario.json", "scenario_state.json", "stats.json")
        or (head.kind == "object" and head.has("adapter_spec"))
    ),
    alone=True,
)


_SAMPLES = re.compile(r"samples_(?P<task>.+?)(_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+\d))?\.jsonl(\.gz)?")
#: Fields of a line that are no metrics, where an old file does not name these.
_NO_METRIC = {
    "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash", "prompt_hash",
    "target_hash", "task_name",
}  # fmt: skip


def read_lm_eval(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read the lines of one metric and one filter; of several for one document the last counts."""
    named = _SAMPLES.fullmatch(head.path.name)
    task, date = (named["task"], named["date"]) if named else (head.path.stem, None)
    (model, lower_is_better), tags = (
        _lm_eval_run(head.path, date, task),
        {"task": task} | ({"run": date} if date else {}),
    )
    choice, taken = MetricChoice(settings), set[str]()
    for line in records(head):
        of = {as_named(name, settings): name for name in _metrics(line)}
        chosen = choice.of(list(of), line.place("metrics"))
        if chosen is None:
            if not of and (wrong := [n for name in settings.metric if (n := name.split(",")[0]) in line.values]):
                raise line.wrong(wrong[0], "a number")
            left_out["of another metric or filter"] += 1
            continue
        metric = of[chosen]
        name = metric.split(",")[0]
        if name in lower_is_better:
            raise InputError(
                f"{line.place(name)}: the results say that less is better; expected a metric of right and wrong"
            )
        taken.add(metric)
        if len(taken) > 1:
            Wanted().choose(sorted(taken), line.place("filter"), word="filter")
        given = [] if settings.graded else line.entries("filtered_resps")[:1]
        answer = given[0] if given and isinstance(given[0], str) else None
        yield Observation(
            respondent_id=model,
            item_id=f"{task}/{line.name('doc_id')}",
            number=line.number,
            score=line.score(name) if settings.graded else None,
            answer=answer,
            reason="" if settings.graded or answer is not None else "without an answer in words",
            date=date[:10] if date else None,
            gold=None if settings.graded else line.text("target"),
            item_hash=line.text("doc_hash"),
            tags=tags,
        )
    if not taken:
        settings.choose(list(choice.seen), f"file {head.path}")


def as_named(name: str, settings: Wanted) -> str:
    """A metric as the user names it: whole, or without the filter."""
    metric = name.split(",")[0]
    return metric if metric in settings.metric and name not in settings.metric else name


def _metrics(line: Fields) -> list[str]:
    """The metrics of a line that are numbers, as ``metric,filter``, or ``metric`` alone where no filter is named."""
    listed = line.entries("metrics") or [name for name in line.values if name not in _NO_METRIC]
    named = line.values.get("filter")
    return [
        f"{name},{named}" if named is not None else str(name)
        for name in listed
        if isinstance(line.values.get(name), bool | int | float)
    ]


def _lm_eval_run(path: Path, date: str | None, task: str) -> tuple[str, set[str]]:
    """The model of a samples file, and the metrics of which less is better.

    They are in the results of the same run, or of another in the folder; without results the folder names the model.
    """
    every = sorted(path.parent.glob("results*.json"), reverse=True)
    same_run = [file for file in every if date and date in file.name]
    read = (json_file(file, "results of lm-evaluation-harness") for file in same_run or every)
    found = [results for results in read if isinstance(results, dict)]
    names = {str(name) for results in found if (name := results.get("model_name") or _model(results))}
    if len(names) > 1:
        raise InputError(f"file {path}: of which model? the results in its folder name {', '.join(sorted(names))}")
    better = [(results.get("higher_is_better") or {}).get(task) or {} for results in found]
    lower = {str(metric) for metrics in better for metric, higher in metrics.items() if higher is False}
    return names.pop() if names else path.absolute().parent.name, lower


def _model(results: dict[str, Any]) -> str | None:
    """The model of old results, in their configuration."""
    config = results.get("config")
    return config.get("model") if isinstance(config, dict) else None


LM_EVAL = Reader(
    "lm-eval",
    "samples of lm-evaluation-harness",
    "response",
    lambda head: head.kind in LINES and head.has("doc_id", "doc", "target", "resps", "filtered_resps"),
    read_lm_eval,
    # results, which name the model
    accompanies=lambda head: (
        head.kind == "object" and head.path.name.startswith("results") and head.has("results", "configs")
    ),
    latest=(("item_id", "item_hash"), "superseded by a later line of the same document: the file was appended to"),
)
