"""What a reader sees first: where the systems are among people, what was removed and why, what to beware of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from irtbench.building.removals import Removal
from irtbench.diagnostics.distractors import MORE_THAN_KEY
from irtbench.estimation.doubts import named_items
from irtbench.estimation.settings import FitSettings
from irtbench.report.blocks import Link, Sentence, linked_items
from irtbench.report.formatting import REASONS, count, decimal, interval, percent, plural
from irtbench.report.paper_tables import verdict
from irtbench.report.prose import cautions, converged, on_sample, screened
from irtbench.report.scoring_figures import places
from irtbench.study.results import ScaleStudy, Study

SURELY_GUESSED = 0.05  # adjusted p of an item's test of guessing


def results(study: Study) -> list[Sentence]:
    """The result in sentences: systems among people; without systems, the scales."""
    scores = study.system_scores
    if scores is None or scores.empty:
        return [(_scale(scale),) for scale in study.scales]
    return places(
        scores,
        study.settings.score.scoring(seed=study.settings.study.seed),
        "" if study.bank is None else study.bank.respondents,
    )


def _scale(scale: ScaleStudy) -> str:
    if scale.scale is None:
        return f"{scale.name} is no scale: {scale.pruning.rejected}."
    items = scale.scale.items
    reliable = "" if scale.analysis is None else f", of reliability {decimal(scale.analysis.reliability.marginal)}"
    return (
        f"{scale.name} is a scale of {plural(items.n_items, 'item')}{reliable}; difficulties "
        f"{interval(items.difficulty.min(), items.difficulty.max())}."
    )


def scale_numbers(scales: Sequence[ScaleStudy]) -> pd.DataFrame:
    """Each scale in numbers: items, people, reliability, where its items are, and whether it is retained."""
    rows = []
    for scale in scales:
        row: dict[str, Any] = {
            "scale": scale.name,
            "n_kept": len(scale.pruning.kept),
            "n_given": scale.responses.n_items,
            "n_respondents": scale.n_respondents,
            "reliability": np.nan if scale.analysis is None else scale.analysis.reliability.marginal,
            "difficulty_span": "",
        }
        if scale.scale is not None:
            b = scale.scale.items.difficulty
            row["difficulty_span"] = interval(float(b.min()), float(b.max()))
        rows.append(row | {"verdict": verdict(scale)})
    return pd.DataFrame(rows)


def removed(study: Study) -> list[Sentence]:
    """Who and what was removed and why, in three lines: respondents, items, scales; and a line on a sample."""
    removals = [removal for scale in study.scales for removal in scale.pruning.removals]
    given = sum(scale.responses.n_items for scale in study.scales)
    found = [(screened(study.outcomes),), _items_removed(removals, given), _scales_rejected(study.scales)]
    if study.sample is not None and not study.sample.drawn.is_all:
        found.append((on_sample(study.sample.drawn),))
    return found


def _items_removed(removals: Sequence[Removal], given: int) -> Sentence:
    if not removals:
        return ("No item was removed.",)
    by_reason: dict[str, list[str]] = {}
    for removal in removals:
        reason = REASONS.get(removal.reason, "depends on another item")
        by_reason.setdefault(reason, []).append(removal.item_id)
    said: list[str | Link] = [f"{count(len(removals))} of {plural(given, 'item')} were removed. "]
    for k, (reason, item_ids) in enumerate(by_reason.items()):
        said += [
            "; " if k else "",
            f"{reason[0].upper() + reason[1:] if k == 0 else reason}: ",
            *linked_items(item_ids),
        ]
    return (*said, ".")


def _scales_rejected(scales: Sequence[ScaleStudy]) -> Sentence:
    rejected = [f"{scale.name} ({scale.pruning.rejected})" for scale in scales if scale.pruning.rejected is not None]
    if not rejected:
        return ("No scale was rejected.",)
    return (f"{count(len(rejected))} of {plural(len(scales), 'scale')} rejected: {'; '.join(rejected)}.",)


def warnings(scales: Sequence[ScaleStudy], model: FitSettings) -> list[Sentence]:
    """What to know before using the numbers, with the items concerned."""
    found: list[Sentence] = [(caution,) for caution in cautions(scales)]
    if not all(fitted.converged for scale in scales for fitted in scale.fits.values()):
        found.insert(0, (converged(scales),))
    for scale in scales:
        found += [(f"Scale {scale.name}: {doubt}.",) for doubt in scale.doubts]
        guessed = _guessed(scale) if model.kind == "2pl" else []
        about = {
            f"a guessing parameter would fit {plural(len(guessed), 'item')} significantly better, and the model has "
            "none for each item (see the test of guessing)": guessed,
            **_hardly_told(scale),
            "a wrong option goes with ability more than the key does, see the key": _misleading(scale),
            "kept, though the able miss them more often": _backwards(scale),
        }
        found += [
            (f"Scale {scale.name}: {words}: ", *linked_items(items), ".") for words, items in about.items() if items
        ]
    return found


def _hardly_told(scale: ScaleStudy) -> Mapping[str, Sequence[str]]:
    """Items whose estimates the data do not bear out, or the prior decides, by what is to be said of them."""
    fitted = None if scale.scale is None else scale.fitted
    return {} if fitted is None else named_items(fitted.summary())


def _guessed(scale: ScaleStudy) -> list[str]:
    checks = scale.pruning.checks
    if checks is None:
        return []
    test = checks.guessing
    return [item for item, p in zip(test.item_ids, test.p_adjusted, strict=True) if p < SURELY_GUESSED]


def _misleading(scale: ScaleStudy) -> list[str]:
    if scale.analysis is None or scale.analysis.options.empty:
        return []
    options = scale.analysis.options
    flagged = options[options["flags"].str.contains(MORE_THAN_KEY, regex=False)]
    return list(flagged["item_id"].unique())


def _backwards(scale: ScaleStudy) -> list[str]:
    if scale.scale is None:
        return []
    items = scale.scale.items
    return [item for item, a in zip(items.item_ids, items.discrimination, strict=True) if a < 0]


def lead(scales: Sequence[ScaleStudy]) -> str:
    """One sentence on what there is: scales retained, items, people."""
    kept = sum(len(scale.pruning.kept) for scale in scales)
    stands = sum(scale.scale is not None for scale in scales)
    if not stands:
        return "No scale is retained."
    given = sum(scale.responses.n_items for scale in scales)
    return (
        f"{count(stands)} of {plural(len(scales), 'scale')} retained, with {count(kept)} of {plural(given, 'item')} "
        f"({percent(kept / given, 0)})."
    )
