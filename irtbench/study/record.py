"""What a study found as one JSON document, from which its page can be made again without data and without a fit."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from irtbench.bank.bank import ItemBank
from irtbench.building.checkpoint import from_plain, to_plain
from irtbench.building.pruned import Pruning, PruningRound
from irtbench.config import StudyFile
from irtbench.data.file_hash import text_hash
from irtbench.data.harmless_text import escaped, lone_surrogate
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.diagnostics.local_dependence import LocalDependence
from irtbench.study.results import ScaleStudy, Study

RECORD = "study.json"
FORMAT, VERSION = "irtbench study", 1
RESPONSES = {0.0: "0", 1.0: "1"}  # of one response to an item; "-" where there is none
NOT_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def save_study(study: Study, file: Path) -> None:
    """Write what the page of a study is made of, as strict JSON.

    It holds names and graded responses of the screened respondents, settings, items, and every fit; neither raw answers
    nor the paths of files, nor what the bank alone needs (the joint error of items, most pairs of items).
    """
    parts = [scale.responses for scale in study.scales]
    lean = replace(
        study,
        settings=_without_paths(study.settings),
        scales=tuple(_lean(scale) for scale in study.scales),
        bank=None,  # made of the scales again
        forms=None,
        respondent_scores=study.respondent_scores if study.system_scores is None else None,
        system_explanation=None
        if study.system_explanation is None
        else replace(study.system_explanation, items=study.system_explanation.surprises().drop(columns="chance")),
    )
    none_removed = [scale.pruning.fit_after is scale.pruning.fit_before for scale in study.scales]
    record = {
        "format": FORMAT,
        "version": VERSION,
        "study": _strict(_said(to_plain(lean))),
        "responses": [_rows(part) for part in parts],
        "none_removed": none_removed,
    }
    record["hash"] = _hash(record)
    text = json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    file.write_text(escaped(text) + "\n", encoding="utf-8")


def told_of(file: Path) -> tuple[str | None, str | None]:
    """Title and name of the answers of the study that a record is of; None where it does not say, or is damaged."""
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))["study"]["settings"]
        return settings["study"]["title"], settings["data"]["answers"]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return None, None


def load_study(folder: Path) -> Study:
    """The study that a folder of results holds, as far as its page needs it.

    Raises
    ------
    InputError
        If there is none, or the file is damaged or of another version.
    """
    file = folder / RECORD
    again = "expected a folder that irtbench build wrote; build it again"
    if not folder.is_dir():
        raise InputError(f"{folder}: is no folder; {again}")
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or "is no JSON"
        raise InputError(f"file {file}: {why}; {again}") from None
    if broken := lone_surrogate(record):
        raise InputError(f"file {file}: half a character in the text {broken}; {again}")
    if not isinstance(record, dict) or (record.get("format"), record.get("version")) != (FORMAT, VERSION):
        raise InputError(f"file {file}: holds no study of version {VERSION}; {again}")
    try:
        if record.pop("hash", None) not in (None, _hash(record)):  # earlier versions wrote none
            raise ValueError("not what was written")
        found: Study = from_plain(Study, _loose(record["study"]))
        scales = tuple(
            _whole(scale, _matrix(rows), none_removed=bool(same))
            for scale, rows, same in zip(found.scales, record["responses"], record["none_removed"], strict=True)
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, StopIteration, RecursionError) as error:
        raise InputError(f"file {file}: is damaged ({type(error).__name__}: {error}); {again}") from None
    standing = tuple(scale.scale for scale in scales if scale.scale is not None)
    bank = ItemBank(standing, found.settings.card) if standing else None
    return replace(found, scales=scales, bank=bank)


def _hash(record: dict[str, Any]) -> str:
    return text_hash(json.dumps(record, sort_keys=True))


def _without_paths(settings: StudyFile) -> StudyFile:
    """The settings with the names of files alone."""
    data, score = settings.data, settings.score
    named = replace(
        data,
        answers=Path(data.answers.name),
        items=None if data.items is None else Path(data.items.name),
        respondents=None if data.respondents is None else Path(data.respondents.name),
    )
    return replace(
        settings,
        path=Path(settings.path.name),
        data=named,
        score=replace(score, systems=tuple(Path(file.name) for file in score.systems)),
        output=replace(settings.output, directory=None),
    )


def _lean(scale: ScaleStudy) -> ScaleStudy:
    pruning = replace(scale.pruning, rounds=tuple(_lean_round(r) for r in scale.pruning.rounds))
    nobody = ResponseMatrix(np.empty((0, 0)), (), ())
    own = None if scale.scale is None else replace(scale.scale, joint_error=None)
    of_all = scale.of_all
    if of_all is not None and of_all.fitted is not None:
        of_all = replace(of_all, fitted=replace(of_all.fitted, joint_error=None))
    return replace(scale, responses=nobody, pruning=pruning, scale=own, abilities=None, of_all=of_all)


def _said(plain: dict[str, Any]) -> dict[str, Any]:
    """The record without what only a study of a sample has, where there is none."""
    for part, name in [(plain, "sample"), *((scale, "of_all") for scale in plain["scales"])]:
        if part[name] is None:
            del part[name]
    return plain


def _lean_round(one: PruningRound) -> PruningRound:
    return replace(
        one, fitted=replace(one.fitted, joint_error=None), local_dependence=_least_pairs(one.local_dependence)
    )


def _least_pairs(pairs: LocalDependence) -> LocalDependence:
    """The pairs of least p, by chi-square and by the bootstrap: of all others the page says nothing."""
    places = set()
    for p in (pairs.p_adjusted, pairs.p_bootstrap_adjusted):
        if p is not None and not np.isnan(p).all():
            places.add(int(np.nanargmin(p)))
    kept = sorted(places)
    few: dict[str, Any] = {name: value[kept] for name, value in vars(pairs).items() if isinstance(value, np.ndarray)}
    few |= {name: tuple(getattr(pairs, name)[k] for k in kept) for name in ("item_1", "item_2")}
    return replace(pairs, **few)


def _whole(scale: ScaleStudy, responses: ResponseMatrix, *, none_removed: bool) -> ScaleStudy:
    pruning: Pruning = scale.pruning
    if none_removed:
        pruning = replace(pruning, fit_before=pruning.fit_after)
    return replace(scale, responses=responses, pruning=pruning)


def _rows(responses: ResponseMatrix) -> dict[str, Any]:
    """A respondent's responses as one text, a character each; with trials as two lists."""
    found: dict[str, Any] = {"respondent_ids": list(responses.respondent_ids), "item_ids": list(responses.item_ids)}
    if responses.trials is None:
        letters = np.array([b"0", b"1", b"-"])[responses.coded_responses]
        return found | {"rows": [row.tobytes().decode() for row in letters]}
    correct = np.where(np.isnan(responses.correct), 0.0, responses.correct).astype(np.int64)
    return found | {"correct": correct.tolist(), "trials": responses.trials.tolist()}


def _matrix(rows: dict[str, Any]) -> ResponseMatrix:
    shape = len(rows["respondent_ids"]), len(rows["item_ids"])
    trials = None
    if "rows" in rows:
        value = {text: number for number, text in RESPONSES.items()}
        correct = np.array([[value.get(letter, np.nan) for letter in row] for row in rows["rows"]]).reshape(shape)
    else:
        trials = np.array(rows["trials"], dtype=np.int64).reshape(shape)
        correct = np.where(trials > 0, np.array(rows["correct"], dtype=np.float64).reshape(shape), np.nan)
    return ResponseMatrix(correct, tuple(rows["respondent_ids"]), tuple(rows["item_ids"]), trials)


def _strict(value: Any) -> Any:
    """What JSON has no number for as ``{"number": "NaN"}``."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}
    if isinstance(value, dict):
        return {name: _strict(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):  # of hundreds of thousands of numbers and names most stay as they are
        return [
            entry if type(entry) is str or (type(entry) is float and math.isfinite(entry)) else _strict(entry)
            for entry in value
        ]
    return None if value is pd.NA else value


def _loose(value: Any) -> Any:
    """Inverse of `_strict`."""
    if isinstance(value, dict):
        if value.keys() == {"number"} and value["number"] in NOT_NUMBERS:
            return NOT_NUMBERS[value["number"]]
        return {name: _loose(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_loose(entry) for entry in value]
    return value
