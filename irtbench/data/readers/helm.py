"""HELM runs: per_instance_stats.json next to run_spec.json (as of crfm-helm 0.5.16), read as a stream.

Perturbed copies of an instance share its id: they are left out unless the metric names the perturbation.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from irtbench.data.input_error import InputError
from irtbench.data.readers.observations import Fields, Head, LeftOut, Observation, Observations, Reader, Wanted, records
from irtbench.data.readers.records import json_file

#: Metrics that say whether an answer is right; what else a run counts is taken only if the user names it.
CORRECTNESS = (
    "exact_match", "quasi_exact_match", "prefix_exact_match", "quasi_prefix_exact_match", "f1_score", "math_equiv",
    "math_equiv_chain_of_thought", "final_number_exact_match", "ifeval_strict_accuracy", "chain_of_thought_correctness",
    "code_eval_acc", "pass",
)  # fmt: skip
_MODEL = re.compile(r"(^|[,:])model=[^,]*")


def read(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read one metric of the instances, each training trial a trial."""
    model, task = _run(head.path.parent / "run_spec.json", head.path)
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


def _run(spec: Path, of: Path) -> tuple[str, str]:
    """The model and the name of the run without it."""
    if not spec.exists():
        raise InputError(f"file {of}: of which model? expected run_spec.json in its folder")
    fields = Fields.of(json_file(spec, "the JSON of a run of HELM"), spec, "record", 1)
    return fields.fields("adapter_spec").name("model"), _MODEL.sub("", fields.name("name")).strip(",:")


READER = Reader(
    "helm",
    "runs of HELM",
    "response",
    lambda head: head.kind == "array" and head.has("instance_id", "train_trial_index", "stats"),
    read,
    accompanies=lambda head: (
        head.path.name in ("run_spec.json", "scenario.json", "scenario_state.json", "stats.json")
        or (head.kind == "object" and head.has("adapter_spec"))
    ),
    alone=True,
)
