"""The page of a study: what a reader sees first, where the systems are among people, and what to beware of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from irtbench.building.prune_rules import Removal
from irtbench.diagnostics.internal_consistency import MORE_THAN_KEY
from irtbench.estimation.doubts import named_items
from irtbench.estimation.settings import FitSettings
from irtbench.report import scale_figures, sections
from irtbench.report.formatting import REASONS, count, decimal, interval, percent, plural, words
from irtbench.report.page import Block, Link, Page, Sentence, figure, linked_items, render_page, table
from irtbench.report.paper_tables import verdict
from irtbench.report.prose import cautions, converged, on_sample, screened, unit_of_ability, where_people_are
from irtbench.report.scoring_figures import percentile_figures, places
from irtbench.study.results import ScaleStudy, Study

SURELY_GUESSED = 0.05  # adjusted p of an item's test of guessing


def results_of(study: Study) -> list[Sentence]:
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
    parts: list[str | Link] = [f"{count(len(removals))} of {plural(given, 'item')} were removed. "]
    for k, (reason, item_ids) in enumerate(by_reason.items()):
        parts += [
            "; " if k else "",
            f"{reason[0].upper() + reason[1:] if k == 0 else reason}: ",
            *linked_items(item_ids),
        ]
    return (*parts, ".")


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
        about = _items_to_read(scale, model)
        found += [
            (f"Scale {scale.name}: {words}: ", *linked_items(items), ".") for words, items in about.items() if items
        ]
    return found


def _items_to_read(scale: ScaleStudy, model: FitSettings) -> dict[str, Sequence[str]]:
    """Items that somebody should look at, by what is to be known of them."""
    checks, analysis = scale.pruning.checks, scale.analysis
    guessed: list[str] = []
    if checks is not None and model.kind == "2pl":
        tested = zip(checks.guessing.item_ids, checks.guessing.p_adjusted, strict=True)
        guessed = [item for item, p in tested if p < SURELY_GUESSED]
    misleading: list[str] = []
    if analysis is not None and not analysis.options.empty:
        flagged = analysis.options["flags"].str.contains(MORE_THAN_KEY, regex=False)
        misleading = list(analysis.options.loc[flagged, "item_id"].unique())
    known = (
        () if scale.scale is None else zip(scale.scale.items.item_ids, scale.scale.items.discrimination, strict=True)
    )
    uncertain = {} if scale.scale is None or scale.fitted is None else named_items(scale.fitted.summary())
    return {
        f"a guessing parameter would fit {plural(len(guessed), 'item')} significantly better, and the model has "
        "none for each item (see the test of guessing)": guessed,
        **uncertain,
        "a wrong option goes with ability more than the key does, see the key": misleading,
        "kept, though the able miss them more often": [item for item, a in known if a < 0],
    }


def lead(scales: Sequence[ScaleStudy]) -> str:
    """One sentence on what there is: scales retained, items, people."""
    kept = sum(len(scale.pruning.kept) for scale in scales)
    retained = sum(scale.scale is not None for scale in scales)
    if not retained:
        return "No scale is retained."
    given = sum(scale.responses.n_items for scale in scales)
    return (
        f"{count(retained)} of {plural(len(scales), 'scale')} retained, with {count(kept)} of {plural(given, 'item')} "
        f"({percent(kept / given, 0)})."
    )


def render_report(study: Study) -> str:
    """Write the page of a study, see `study_page` and `render_page`."""
    return render_page(study_page(study))


def study_page(study: Study) -> Page:
    """The page of a study: the result first, then everything it rests on in parts that unfold.

    Parts without data (no raw answers, no systems, no scale retained) are left out.
    """
    settings, scales = study.settings, study.scales
    version, date = study.provenance["versions"]["irtbench"], study.provenance["date"]
    left, warned = removed(study), warnings(scales, settings.model)
    linked = {part.anchor for sentence in (*left, *warned) for part in sentence if isinstance(part, Link)}
    return Page(
        title=settings.study.title,
        byline=f"Report of a study with irtbench {version}, {date}",
        description=[part for part in settings.study.description.split("\n\n") if part.strip()],
        lead=lead(scales),
        results=results_of(study),
        blocks=opening_blocks(study),
        removed=left,
        warnings=[*((f"Screening: {words}.",) for words in study.exclusions_by_ability), *warned],
        sections=sections.sections_of(study, linked),
        version=version,
    )


def opening_blocks(study: Study) -> list[Block]:
    """The figure and the table next to the first sentences."""
    scales, scores = study.scales, study.system_scores
    retained = [scale.scale for scale in scales if scale.scale is not None]
    n_systems = 0 if scores is None else scores["respondent_id"].nunique()
    blocks: list[Block] = []
    if scores is not None and study.bank is not None:
        scoring = study.settings.score.scoring(seed=study.settings.study.seed)
        blocks += percentile_figures(scores, scoring, study.bank.respondents)
    blocks += figure(
        scale_figures.position_panels(retained, scores, unit_of_ability(scales)),
        words("abilities_of_respondents", n_systems=n_systems, most=scale_figures.MOST_POSITIONS),
    )
    blocks += table(
        scale_numbers(scales),
        words("table_scale_numbers", people=where_people_are(scales)),
    )
    return blocks
