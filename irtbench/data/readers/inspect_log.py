"""inspect_ai logs, .eval and .json (as of inspect_ai 0.3.285).

An .eval file is a zip archive of JSON. The summaries of the samples say all that is needed; a log of a run that did
not end has them in its journal. Of a .json log one sample is in memory at a time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

from irtbench.data.readers.observations import (
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
    number_in,
)
from irtbench.data.readers.packed import ZipArchive
from irtbench.data.readers.records import JsonText, entries_in

VALUES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
LONGEST_HASHED = 5120  # characters of a text that the summaries keep
_CUT = "...\n(content truncated)"


def read(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read the samples of a log; of several with one id and epoch the last counts."""
    header, samples = _archive(head) if head.kind == "zip" else _log(head.path)
    invalid = _invalid(head) if head.kind == "zip" and header.values.get("invalidated") else set()
    evaluation = header.fields("eval")
    model, task = evaluation.name("model"), evaluation.name("task")
    given = {kind: text for kind in ("model_args", "task_args") if (text := evaluation.values.get(kind))}
    said = {
        "task": task,
        "run": evaluation.text("run_id") or evaluation.text("created"),
        "arguments": json.dumps(given, ensure_ascii=False, sort_keys=True) if given else None,
    }
    tags = {name: text for name, text in said.items() if text}
    choice = MetricChoice(settings)
    for number, value in enumerate(samples, start=1):
        sample = Fields.of(value, head.path, "sample", number)
        name, epoch = sample.name("id"), sample.name("epoch")
        score, answer, reason = _scored(sample, settings, choice)
        gold = sample.values.get("target")
        is_invalid = sample.values.get("invalidation") or f"samples/{name}_epoch_{epoch}.json" in invalid
        yield Observation(
            respondent_id=model,
            item_id=f"{task}/{name}",
            number=number,
            score=score,
            answer=answer,
            reason="invalidated" if is_invalid else reason,
            trial=epoch,
            seconds=sample.number_of("working_time"),
            date=evaluation.text("created"),
            gold=gold if isinstance(gold, str) else None,
            item_hash=_hash(sample),
            tags=tags,
        )
    choice.demand()


def _scored(sample: Fields, settings: Wanted, choice: MetricChoice) -> Scored:
    """Score and answer of a sample, or the reason why it has none."""
    if sample.values.get("error"):
        return settings.failed("the run failed at this sample")
    scores, names = sample.fields("scores"), dict[str, tuple[Fields, Any]]()
    for scorer in scores.values:
        score = scores.fields(scorer)
        value = score.values.get("value")
        parts = {f":{name}": part for name, part in value.items()} if isinstance(value, dict) else {"": value}
        names |= {f"{scorer}{name}": (score, part) for name, part in parts.items()}
    chosen = choice.of(list(names), sample.place("scores")) if names else None
    if chosen is None:
        return None, None, "not scored"
    score, value = names[chosen]
    if not settings.graded:
        answer = score.text("answer")
        return None, answer, "" if answer is not None else "without an answer"
    number = value_of_score(value)
    if number is None:
        raise score.wrong("value", "C, I, P, N or a number")
    return number, None, "not scored" if math.isnan(number) else ""


def value_of_score(value: Any) -> float | None:
    """A score's value as a number: C is 1, I and N are 0, P is .5; NaN where there is none; None if it is no score."""
    if isinstance(value, bool | int | float):
        return number_in(value)
    if isinstance(value, str):
        known = VALUES.get(value, VALUES.get(value.lower()) if len(value) > 1 else None)
        if known is not None:
            return known
        try:
            return float(value)
        except ValueError:
            return None
    return math.nan if value is None else None


def _hash(sample: Fields) -> str | None:
    """Hash of input, choices and target; None where the summary of the log does not have them whole."""
    texts = []
    given = sample.values.get("input")
    for message in given if isinstance(given, list) else [given]:
        content = message.get("content") if isinstance(message, dict) else message
        for part in content if isinstance(content, list) else [content]:
            kind = part.get("type", "text") if isinstance(part, dict) else "text"
            text = (
                (part.get("text") if isinstance(part, dict) else part) if kind == "text" else f"({kind.capitalize()})"
            )
            texts.append(str(text or ""))
    target = sample.values.get("target")
    texts += [str(text) for text in (target if isinstance(target, list) else [target])]
    cut = any(len(text) > LONGEST_HASHED or text.endswith(_CUT) for text in texts)
    return None if cut else content_hash(texts, sample.values.get("choices"))


def _log(path: Path) -> tuple[Fields, Iterator[Any]]:
    """What describes the evaluation of a .json log, and its samples."""
    samples = (value for place, value in entries_in(path, "samples") if place[0] == "samples")
    return _description(entries_in(path, "samples"), path), samples


def _description(entries: Iterator[tuple[tuple[str, ...], Any]], path: Path) -> Fields:
    """What describes a log, which comes before the samples."""
    before = takewhile(lambda entry: entry[0][0] != "samples", entries)
    found = {place[0]: value for place, value in before if place[0] in ("eval", "invalidated")}
    return Fields(found, path, "header", 1)


def _archive(head: Head) -> tuple[Fields, Iterator[Any]]:
    """What describes the evaluation of an .eval log, and the summaries of its samples."""
    names = set(head.members)
    header = "header.json" if "header.json" in names else "_journal/start.json"
    journal = [name for name in names if name.startswith("_journal/summaries/") and name.endswith(".json")]
    parts = ["summaries.json"] if "summaries.json" in names else sorted(journal, key=_journal_order)

    def summaries() -> Iterator[Any]:
        with ZipArchive.open(head.path) as archive:
            for part in parts:
                yield from (value for _, value in JsonText(archive.member(part), head.path).entries())

    with ZipArchive.open(head.path) as archive:
        description = _description(JsonText(archive.member(header), head.path).entries(), head.path)
    return description, summaries()


def _invalid(head: Head) -> set[str]:
    """The members of samples that were invalidated, which the summaries do not say."""
    with ZipArchive.open(head.path) as archive:
        samples = (name for name in head.members if name.startswith("samples/"))
        entries = ((name, one) for name in samples for one in JsonText(archive.member(name), head.path).entries())
        return {name for name, (place, value) in entries if value and place == ("invalidation",)}


def _journal_order(name: str) -> tuple[int, str]:
    stem = Path(name).stem
    return (int(stem), name) if stem.isdigit() else (0, name)


READER = Reader(
    "inspect",
    "logs of inspect_ai",
    "response",
    lambda head: (
        any(name in head.members for name in ("header.json", "_journal/start.json"))
        or (head.kind == "object" and head.has("version", "status", "eval") and isinstance(head.first["eval"], dict))
    ),
    read,
    # one of the shards that were merged into the log next to them
    accompanies=lambda head: any(
        folder.name.endswith(".shards") and folder.with_suffix(".eval").exists()
        for folder in head.path.absolute().parents
    ),
    record="sample",
    latest=(("item_id", "trial"), "superseded by a later sample of the same id and epoch"),
)
