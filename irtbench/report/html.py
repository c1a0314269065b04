"""The report of a study: one page that needs no other file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from irtbench.data.harmless_text import printable
from irtbench.data.screening import Screening
from irtbench.evaluation.agreement import Agreement
from irtbench.report import figures, opening, prose, sections
from irtbench.report.ability_words import where_people_are
from irtbench.report.blocks import Section, figure, table
from irtbench.report.formatting import count, decimal
from irtbench.study.results import ScaleStudy, Study


@dataclass(frozen=True)
class Tile:
    """A figure to be seen first."""

    value: str
    of: str
    what: str


def render_report(study: Study) -> str:
    """Write the page of a study: the result first, then everything it rests on in parts that unfold.

    The page refers to nothing outside itself. Its one script sorts, filters and opens items; without it everything can
    be read all the same. The page's policy lets no other script and no other style run. Names and texts from the data
    are escaped, control characters replaced. The same study gives the same page. Parts without data (no raw answers, no
    systems, no scale retained) are left out.
    """
    environment = Environment(
        loader=PackageLoader("irtbench", "report/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    settings, scales = study.settings, study.scales
    style, script = (own_source(environment, name) for name in ("report.css", "report.js"))
    page = environment.get_template("report.html").render(
        title=settings.study.title,
        description=[part for part in settings.study.description.split("\n\n") if part.strip()],
        lead=opening.lead(scales),
        results=opening.results(study),
        opening=opening_blocks(study),
        removed=opening.removed(study),
        warnings=opening.warnings(scales, settings.model),
        summary=" ".join(prose.summarise(study.screening, study.agreement, scales, study.system_scores)),
        tiles=tiles(study.screening, scales, study.agreement),
        sections=[section for section in sections_of(study) if section.blocks],
        version=study.provenance["versions"]["irtbench"],
        date=study.provenance["date"],
        style=Markup(style),  # our own files, no word of the data in them
        script=Markup(script),
        policy=policy(style, script),
    )
    return printable(page)


def own_source(environment: Environment, name: str) -> str:
    """The text of a file beside the template, with line ends as a browser sees them."""
    assert environment.loader is not None
    source, _, _ = environment.loader.get_source(environment, name)
    return source.replace("\r\n", "\n")


def policy(style: str, script: str) -> str:
    """The content security policy that lets this style and this script run and nothing else."""
    of_style, of_script = (
        "'sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode() + "'"
        for source in (style, script)
    )
    return (
        f"default-src 'none'; img-src data:; style-src {of_style}; script-src {of_script}; base-uri 'none'; "
        "form-action 'none'"
    )


def opening_blocks(study: Study) -> Section:
    """The figure and the table beside the first sentences."""
    scales, scores = study.scales, study.system_scores
    systems = ""
    if scores is not None and not scores.empty:
        systems = " Below, the systems with their intervals."
        if scores["respondent_id"].nunique() > figures.MOST_POSITIONS:
            systems = f" Below, {figures.MOST_POSITIONS} of the systems, from the most to the least able."
    blocks = figure(
        figures.position_panels(scales, scores),
        f"Estimated abilities of the screened respondents on each scale.{systems} Estimates "
        "crowd together at the right where a scale has few hard items: it cannot tell able people apart.",
    )
    blocks += table(
        opening.scale_numbers(scales),
        "Each scale in numbers: items kept of those given, respondents, marginal reliability of ability, and between "
        f"which difficulties the items kept are. {where_people_are(scales)}",
    )
    return Section("summary", "Result", blocks)


def sections_of(study: Study) -> list[Section]:
    """The parts below the opening, those a reader asks for first at the top."""
    settings, scales, items = study.settings, study.scales, study.items
    scoring = settings.score.scoring(seed=settings.study.seed)
    card = settings.card if study.bank is None else study.bank.card
    return [
        sections.items_section(scales, items),
        sections.scores_section(scales, scoring, study.system_scores, study.respondent_scores, study.group_percentiles),
        sections.likeness_section(study.system_scores, study.system_explanation, items),
        sections.scales_section(scales, items, settings.pruning),
        sections.pruning_section(scales, settings.pruning),
        sections.examples_section(scales, items),
        sections.analysis_section(scales),
        sections.dimensions_section(study.dimensions, study.no_dimensions, scales),
        sections.respondents_section(study.screening, study.screening_effect),
        sections.agreement_section(study.agreement, study.agreement_by_label, settings.grading),
        sections.method_section(settings),
        sections.published_section(settings.published, scales, study.agreement),
        sections.card_section(card),
        sections.fits_section(scales),
        sections.provenance_section(study.provenance),
    ]


def tiles(screening: Screening, scales: Sequence[ScaleStudy], agreement: Agreement | None) -> list[Tile]:
    """The main numbers."""
    kept = screening.kept
    fits = [r.fitted for scale in scales for r in scale.pruning.rounds]
    found = [
        Tile(count(kept.sum()), count(kept.size), "respondents kept"),
        Tile(
            count(sum(len(scale.pruning.kept) for scale in scales)),
            count(sum(scale.responses.n_items for scale in scales)),
            "items kept",
        ),
        Tile(count(sum(scale.scale is not None for scale in scales)), count(len(scales)), "scales retained"),
        Tile(count(sum(fitted.converged for fitted in fits)), count(len(fits)), "fits converged"),
    ]
    if agreement is not None:
        found.append(Tile(decimal(agreement.fleiss_kappa), "", "Fleiss’ kappa"))
    return found
