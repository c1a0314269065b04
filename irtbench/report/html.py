"""The report of a study: one page that needs no other file."""

from __future__ import annotations

from collections.abc import Set

from irtbench.report import opening, scale_figures, sections
from irtbench.report.blocks import Block, Link, Section, figure, table
from irtbench.report.captions import caption
from irtbench.report.page import Page, render_page
from irtbench.report.prose import unit_of_ability, where_people_are
from irtbench.report.scoring_figures import percentile_figures
from irtbench.study.results import Study


def render_report(study: Study) -> str:
    """Write the page of a study, see `study_page` and `render_page`."""
    return render_page(study_page(study))


def study_page(study: Study) -> Page:
    """The page of a study: the result first, then everything it rests on in parts that unfold.

    Parts without data (no raw answers, no systems, no scale retained) are left out.
    """
    settings, scales = study.settings, study.scales
    version, date = study.provenance["versions"]["irtbench"], study.provenance["date"]
    removed, warned = opening.removed(study), opening.warnings(scales, settings.model)
    linked = {part.anchor for sentence in (*removed, *warned) for part in sentence if isinstance(part, Link)}
    return Page(
        title=settings.study.title,
        byline=f"Report of a study with irtbench {version}, {date}",
        description=[part for part in settings.study.description.split("\n\n") if part.strip()],
        lead=opening.lead(scales),
        results=opening.results(study),
        blocks=opening_blocks(study),
        removed=removed,
        warnings=[*((f"Screening: {said}.",) for said in study.exclusions_by_ability), *warned],
        sections=sections_of(study, linked),
        version=version,
    )


def opening_blocks(study: Study) -> list[Block]:
    """The figure and the table beside the first sentences."""
    scales, scores = study.scales, study.system_scores
    retained = [scale.scale for scale in scales if scale.scale is not None]
    n_systems = 0 if scores is None else scores["respondent_id"].nunique()
    blocks: list[Block] = []
    if scores is not None and study.bank is not None:
        scoring = study.settings.score.scoring(seed=study.settings.study.seed)
        blocks += percentile_figures(scores, scoring, study.bank.respondents)
    blocks += figure(
        scale_figures.position_panels(retained, scores, unit_of_ability(scales)),
        caption("abilities_of_respondents", n_systems=n_systems, most=scale_figures.MOST_POSITIONS),
    )
    blocks += table(
        opening.scale_numbers(scales),
        caption("table_scale_numbers", people=where_people_are(scales)),
    )
    return blocks


def sections_of(study: Study, linked: Set[str]) -> list[Section]:
    """The parts below the opening, those a reader asks for first at the top; linked are addresses of items above."""
    settings, scales, items = study.settings, study.scales, study.items
    scoring = settings.score.scoring(seed=settings.study.seed)
    card = settings.card if study.bank is None else study.bank.card
    return [
        sections.items_section(scales, items, linked),
        sections.scores_section(scales, scoring, study.system_scores, study.respondent_scores, study.group_percentiles),
        sections.likeness_section(study.system_scores, study.system_explanation, items),
        sections.scales_section(scales, items, settings.pruning),
        sections.pruning_section(scales, settings.pruning),
        sections.examples_section(scales, items),
        sections.analysis_section(scales),
        sections.dimensions_section(study.dimensions, study.no_dimensions, scales),
        sections.respondents_section(study.outcomes, study.screening_effect),
        sections.agreement_section(study.agreement, study.agreement_by_label, settings.grading),
        sections.method_section(settings),
        sections.published_section(settings.published, scales, study.agreement),
        sections.card_section(card),
        sections.fits_section(scales),
        sections.provenance_section(study.provenance),
    ]
