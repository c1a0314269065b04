"""What a study found, one result for the whole and one for each scale, and its record as one JSON document."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.analysis.dimensions import Dimensions
from irtbench.bank.bank import ItemBank
from irtbench.bank.scale import Scale
from irtbench.building.pruned import Pruning, from_plain, to_plain
from irtbench.config import StudyFile
from irtbench.data.harmless_text import escaped, lone_surrogate
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.place import text_hash
from irtbench.data.response_blocks import Sampled
from irtbench.data.responses import ResponseMatrix, share_correct
from irtbench.data.screening import Screening, ScreeningOutcomes
from irtbench.data.shown import Shown, counted
from irtbench.diagnostics.local_dependence import LocalDependence
from irtbench.estimation.fitted import FittedModel
from irtbench.evaluation.agreement import Agreement
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import parameter_table
from irtbench.scoring.ability import Abilities
from irtbench.scoring.optional_columns import Explanation
from irtbench.study.item_analysis import ItemAnalysis
from irtbench.study.screening_effect import ScreeningEffect
from irtbench.study.systems import StudyForms

RECORD = "study.json"
FORMAT, VERSION = "irtbench study", 1
NOT_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(frozen=True, eq=False)
class FittedToAll(Shown):
    """What is of all screened respondents where a scale was pruned on a sample of them.

    Parameters
    ----------
    item_ids
        The items given.
    n_by_item, n_correct_by_item
        Responses and correct ones to each, shape (n_items,).
    n_respondents
        Number of those with a response to any of them.
    fitted
        The fit of the items kept; None if the scale is rejected.
    """

    item_ids: tuple[str, ...]
    n_by_item: NDArray[np.int64]
    n_correct_by_item: NDArray[np.int64]
    n_respondents: int
    fitted: FittedModel | None

    def table(self) -> pd.DataFrame:
        """One row an item given: ``item_id, n_responses, proportion_correct``."""
        return pd.DataFrame(
            {
                "item_id": self.item_ids,
                "n_responses": self.n_by_item,
                "proportion_correct": share_correct(self.n_correct_by_item, self.n_by_item),
            }
        )

    def in_short(self) -> str:
        """How many, and what was fitted to them."""
        fitted = "nothing fitted" if self.fitted is None else self.fitted.in_short()
        return f"{counted(self.n_respondents, 'respondent')}, {fitted}"


@dataclass(frozen=True, eq=False)
class ScaleStudy(Shown, short="{name}, {pruning.in_short}"):
    """One scale from the items given to the items kept.

    Parameters
    ----------
    name
        The scale's name, in the paper a gold label.
    responses
        Graded responses of the screened respondents, or of a sample of them, to all items given.
    pruning
        The removals, the fits and the diagnostics of each round.
    scale
        What goes into the bank; None if the scale is rejected.
    abilities
        Of these respondents on the items kept; None if the scale is rejected.
    analysis
        Item analysis of the items kept; None if the scale is rejected or there is nothing to analyse.
    of_all
        What is of all screened respondents where the rest is of a sample of them; None where it is of all.
    """

    name: str
    responses: ResponseMatrix
    pruning: Pruning
    scale: Scale | None
    abilities: Abilities | None
    analysis: ItemAnalysis | None = None
    of_all: FittedToAll | None = None

    @property
    def fitted(self) -> FittedModel | None:
        """The last fit: that of all screened respondents, if there is one, else that of the last round."""
        return self.of_all.fitted if self.of_all is not None and self.of_all.fitted is not None else self.pruning.fitted

    @property
    def fits(self) -> dict[str, FittedModel]:
        """Every fit by its name: those of the rounds, and that to all where the rounds are of a sample."""
        found = {f"round {r.number}": r.fitted for r in self.pruning.rounds}
        if self.of_all is not None and self.of_all.fitted is not None:
            found["all respondents"] = self.of_all.fitted
        return found

    @property
    def n_respondents(self) -> int:
        """Screened respondents with a response to any of the items given."""
        return self.responses.n_respondents if self.of_all is None else self.of_all.n_respondents

    def parameters(self, items: ItemParameters) -> pd.DataFrame:
        """Parameters of some of the items next to the classical figures of all responses, see `parameter_table`."""
        if self.of_all is None:
            return parameter_table(items, self.responses)
        figures = self.of_all.table().set_index("item_id").loc[list(items.item_ids)]
        return items.table().assign(**{str(name): figures[name].to_numpy() for name in figures})

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why the items kept may be no scale of ability; empty where nothing speaks against it, and if rejected."""
        return () if self.scale is None or self.fitted is None else self.fitted.doubts

    @property
    def not_normal(self) -> str:
        """That ability does not look normal, and what to do; empty where it does, and if rejected."""
        shape = None if self.scale is None or self.fitted is None else self.fitted.ability_shape
        return "" if shape is None else shape.in_words

    @property
    def converged(self) -> bool:
        """Whether the last fit converged; a scale of which nothing was fitted counts as one."""
        return self.fitted is None or self.fitted.converged

    def table(self) -> pd.DataFrame:
        """One row a removed item, columns of pruning.csv."""
        return self.pruning.table()


@dataclass(frozen=True)
class StudySample:
    """That a study was pruned on a sample of its respondents, and what is known of all of them."""

    drawn: Sampled
    outcomes: ScreeningOutcomes


@dataclass(frozen=True, eq=False)
class Study(Shown):
    """Everything a study found.

    Parameters
    ----------
    settings
        The study file.
    items
        The items, attention checks included.
    screening
        Who was kept and who was not; of responses on disk, a sample of all respondents.
    agreement, agreement_by_label
        Of the screened respondents' answers; None and empty where only graded responses were given.
    scales
        One after the other, rejected ones included.
    bank
        The scales retained; None if none is.
    respondent_scores
        Scores of the screened respondents themselves, or of the sample, columns of scores.csv; None without a bank.
    system_scores
        Scores of the systems named in the study file; None without a bank or systems.
    provenance
        Data hashes, settings, versions, date and seed.
    seconds
        Time from reading to the last score.
    dimensions
        Number of abilities of all items together; None if the rules do not ask for it or it cannot be counted.
    screening_effect
        What screening changes; None if it was not asked for, and no rule leaves out the less able.
    exclusions_by_ability
        A sentence for each rule of screening that leaves out less able people who answered honestly.
    no_dimensions
        Why it could not be counted; empty if it was, or was not asked for.
    system_explanation
        Where systems differ from people of their ability; None without a bank or systems.
    group_percentiles
        Percentiles of the systems within each group of the norm samples, see ``percentiles_by_group``; None without a
        bank, systems or groups.
    forms
        The short forms that the study file asks for, or why there are none; None without a bank or a wish.
    sample
        Of responses on disk: the sample that scales were pruned on; None where they were pruned on all.
    """

    settings: StudyFile
    items: ItemTable
    screening: Screening
    agreement: Agreement | None
    agreement_by_label: dict[str, Agreement]
    scales: tuple[ScaleStudy, ...]
    bank: ItemBank | None
    provenance: dict[str, Any]
    respondent_scores: pd.DataFrame | None = None
    system_scores: pd.DataFrame | None = None
    seconds: float = 0.0
    dimensions: Dimensions | None = None
    no_dimensions: str = ""
    system_explanation: Explanation | None = None
    group_percentiles: pd.DataFrame | None = None
    screening_effect: ScreeningEffect | None = None
    exclusions_by_ability: tuple[str, ...] = ()
    forms: StudyForms | None = None
    sample: StudySample | None = None

    @property
    def outcomes(self) -> ScreeningOutcomes:
        """What screening made of all respondents."""
        return ScreeningOutcomes.of(self.screening) if self.sample is None else self.sample.outcomes

    @property
    def converged(self) -> bool:
        """Whether the last fit of every scale converged."""
        return all(scale.converged for scale in self.scales)

    def table(self) -> pd.DataFrame:
        """One row a scale: items given and kept, rounds, and why it was rejected, if it was."""
        return pd.DataFrame(
            [
                {
                    "scale": scale.name,
                    "n_items": scale.responses.n_items,
                    "n_items_kept": len(scale.pruning.kept),
                    "rounds": len(scale.pruning.rounds),
                    "rejected": scale.pruning.rejected or "",
                }
                for scale in self.scales
            ]
        )

    def in_short(self) -> str:
        """Title, respondents and items kept."""
        screened = (self.screening if self.sample is None else self.sample.outcomes).in_short()
        return f"{self.settings.study.title}, {screened}, {counted(len(self.scales), 'scale')}"


def save_study(study: Study, file: Path) -> None:
    """Write what the page of a study is made of, as strict JSON.

    It holds names and graded responses of the screened respondents, settings, items, and every fit; neither raw answers
    nor the paths of files, nor what the bank alone needs (the joint error of items, most pairs of items).
    """
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
    record = {
        "format": FORMAT,
        "version": VERSION,
        "study": _strict(_without_unused(to_plain(lean))),
        "responses": [_rows(scale.responses) for scale in study.scales],
        "none_removed": [scale.pruning.fit_after is scale.pruning.fit_before for scale in study.scales],
    }
    record["hash"] = text_hash(json.dumps(record, sort_keys=True))
    text = json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    file.write_text(escaped(text) + "\n", encoding="utf-8")


def title_and_answers_of(file: Path) -> tuple[str | None, str | None]:
    """Title and name of the answers of the study that a record is of; None where it does not say, or is damaged."""
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))["study"]["settings"]
        return settings["study"]["title"], settings["data"]["answers"]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return None, None


def load_study(folder: Path) -> Study:
    """The study that a folder of results holds, as far as its page needs it."""
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
        stated = record.pop("hash", None)
        if stated not in (None, text_hash(json.dumps(record, sort_keys=True))):  # earlier versions wrote none
            raise ValueError("not what was written")
        found: Study = from_plain(Study, json.loads(json.dumps(record["study"]), object_hook=_loose))
        scales = tuple(
            replace(
                scale,
                responses=_matrix(rows),
                pruning=replace(scale.pruning, fit_before=scale.pruning.fit_after) if same else scale.pruning,
            )
            for scale, rows, same in zip(found.scales, record["responses"], record["none_removed"], strict=True)
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, StopIteration, RecursionError) as error:
        raise InputError(f"file {file}: is damaged ({type(error).__name__}: {error}); {again}") from None
    retained = tuple(scale.scale for scale in scales if scale.scale is not None)
    return replace(found, scales=scales, bank=ItemBank(retained, found.settings.card) if retained else None)


def _without_paths(settings: StudyFile) -> StudyFile:
    """The settings with the names of files alone."""
    data, score = settings.data, settings.score
    return replace(
        settings,
        path=Path(settings.path.name),
        data=replace(
            data,
            answers=Path(data.answers.name),
            items=None if data.items is None else Path(data.items.name),
            respondents=None if data.respondents is None else Path(data.respondents.name),
        ),
        score=replace(score, systems=tuple(Path(file.name) for file in score.systems)),
        output=replace(settings.output, directory=None),
    )


def _lean(scale: ScaleStudy) -> ScaleStudy:
    rounds = tuple(
        replace(r, fitted=replace(r.fitted, joint_error=None), local_dependence=_least_pairs(r.local_dependence))
        for r in scale.pruning.rounds
    )
    own = None if scale.scale is None else replace(scale.scale, joint_error=None)
    of_all = scale.of_all
    if of_all is not None and of_all.fitted is not None:
        of_all = replace(of_all, fitted=replace(of_all.fitted, joint_error=None))
    return replace(scale, pruning=replace(scale.pruning, rounds=rounds), scale=own, abilities=None, of_all=of_all)


def _without_unused(plain: dict[str, Any]) -> dict[str, Any]:
    """The record without what only a study of a sample has, where there is none."""
    for part, name in [(plain, "sample"), *((scale, "of_all") for scale in plain["scales"])]:
        if part[name] is None:
            del part[name]
    return plain


def _least_pairs(pairs: LocalDependence) -> LocalDependence:
    """The pairs of least p, by chi-square and by the bootstrap: of all others the page says nothing."""
    of_both = [p for p in (pairs.p_adjusted, pairs.p_bootstrap_adjusted) if p is not None and not np.isnan(p).all()]
    kept = sorted({int(np.nanargmin(p)) for p in of_both})
    few: dict[str, Any] = {name: value[kept] for name, value in vars(pairs).items() if isinstance(value, np.ndarray)}
    few |= {name: tuple(getattr(pairs, name)[k] for k in kept) for name in ("item_1", "item_2")}
    return replace(pairs, **few)


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
        of_letter = {"0": 0.0, "1": 1.0}
        correct = np.array([[of_letter.get(letter, np.nan) for letter in row] for row in rows["rows"]]).reshape(shape)
    else:
        trials = np.array(rows["trials"], dtype=np.int64).reshape(shape)
        correct = np.where(trials > 0, np.array(rows["correct"], dtype=np.float64).reshape(shape), np.nan)
    return ResponseMatrix(correct, tuple(rows["respondent_ids"]), tuple(rows["item_ids"]), trials)


def _strict(value: Any) -> Any:
    """What JSON has no number for as ``{"number": "NaN"}``."""
    match value:
        case float() if not math.isfinite(value):
            return {"number": "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}
        case dict():
            return {name: _strict(entry) for name, entry in value.items()}
        case list() | tuple():  # of hundreds of thousands of numbers and names most stay as they are
            return [
                entry if type(entry) is str or (type(entry) is float and math.isfinite(entry)) else _strict(entry)
                for entry in value
            ]
    return None if value is pd.NA else value


def _loose(value: dict[str, Any]) -> Any:
    """Inverse of `_strict`, of one object of JSON."""
    return NOT_NUMBERS.get(value["number"], value) if value.keys() == {"number"} else value
