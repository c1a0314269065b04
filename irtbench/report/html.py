"""The report of a study: one page that needs no other file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from irtbench.report import figures, paper_tables, prose
from irtbench.report.figures import Panel
from irtbench.report.formatting import WrittenTable, count, decimal, write_table
from irtbench.study import Study


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    kind: Literal["text"] = "text"


@dataclass(frozen=True)
class Table:
    """A table with a caption that says how to read it."""

    caption: str
    table: WrittenTable
    kind: Literal["table"] = "table"


@dataclass(frozen=True)
class FigureOfPanels:
    """Panels beside each other under one caption."""

    caption: str
    panels: list[Panel]
    kind: Literal["figure"] = "figure"


Block = Text | Table | FigureOfPanels


@dataclass(frozen=True)
class Section:
    """A part of the page; without blocks it is left out."""

    anchor: str
    title: str
    blocks: list[Block]


@dataclass(frozen=True)
class Tile:
    """A figure to be seen first."""

    value: str
    of: str
    what: str


def render_report(study: Study) -> str:
    """Write the page of a study: summary, method, results, provenance, with all figures inside.

    The page refers to nothing outside itself and runs no script. Names and texts from the data are escaped. The same
    study gives the same page. Parts without data (no raw answers, no systems, no scale that stands) are left out.
    """
    environment = Environment(
        loader=PackageLoader("irtbench", "report/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    sections = [
        method_section(study),
        respondents_section(study),
        agreement_section(study),
        scales_section(study),
        items_section(study),
        scores_section(study),
        published_section(study),
        fits_section(study),
        all_items_section(study),
        provenance_section(study),
    ]
    return environment.get_template("report.html").render(
        title=study.settings.study.title,
        description=[part for part in study.settings.study.description.split("\n\n") if part.strip()],
        summary=" ".join(prose.summarise(study)),
        cautions=prose.cautions(study),
        tiles=tiles(study),
        sections=[section for section in sections if section.blocks],
        version=study.provenance["versions"]["irtbench"],
        date=study.provenance["date"],
    )


def tiles(study: Study) -> list[Tile]:
    """The main numbers."""
    kept = study.screening.kept
    fits = [r.fitted for scale in study.scales for r in scale.pruning.rounds]
    found = [
        Tile(count(kept.sum()), count(kept.size), "respondents kept"),
        Tile(
            count(sum(len(scale.pruning.kept) for scale in study.scales)),
            count(sum(scale.responses.n_items for scale in study.scales)),
            "items kept",
        ),
        Tile(count(sum(scale.scale is not None for scale in study.scales)), count(len(study.scales)), "scales stand"),
        Tile(count(sum(fitted.converged for fitted in fits)), count(len(fits)), "fits converged"),
    ]
    if study.agreement is not None:
        found.append(Tile(decimal(study.agreement.fleiss_kappa), "", "Fleiss’ kappa"))
    return found


def table(frame: pd.DataFrame, caption: str) -> list[Block]:
    """A table block; none for an empty table."""
    return [] if frame.empty else [Table(caption, write_table(frame))]


def figure(panels: list[Panel], caption: str) -> list[Block]:
    """A figure block; none without panels."""
    return [FigureOfPanels(caption, panels)] if panels else []


def method_section(study: Study) -> Section:
    """How the study was done, and how to read a curve."""
    blocks: list[Block] = [Text(paragraph) for paragraph in prose.method(study.settings)]
    blocks += figure(
        figures.example_panels(),
        "How to read an item characteristic curve: the probability that a person of ability θ is right. Difficulty b "
        "is where the curve is steepest, discrimination a how steep it is there, guessing c where it starts. The "
        "example has a = 1, b = 0, c = 0.25.",
    )
    return Section("method", "Method", blocks)


def respondents_section(study: Study) -> Section:
    """Who was kept."""
    caption = (
        "Respondents by outcome of the screening. A respondent removed stands with the first rule that applied. "
        "Accuracy is the mean over respondents of the share of their responses that are correct, attention checks left "
        "out."
    )
    return Section("respondents", "Respondents", table(paper_tables.screening_table(study), caption))


def agreement_section(study: Study) -> Section:
    """Tables 2 and 3 of the paper."""
    blocks = table(
        paper_tables.agreement_table(study),
        "Agreement of the screened respondents. Majority: share of items on which more than half of the answers are "
        "the same one, whichever that is; two-thirds majority: at least two thirds are. Majority is the key: more than "
        "half of the answers are the right one. Correct: share of all answers.",
    )
    blocks += table(
        paper_tables.kappa_table(study),
        "Agreement beyond chance: 0 where people agree as often as chance would have it, 1 where all always agree. "
        "Fleiss’ κ and Krippendorff’s α are of the items in the row. Where nearly all answers are one and the same, "
        "as within one label, they are low however well people agree. κ of this answer: the answer of that name "
        "against all others, over all items.",
    )
    return Section("agreement", "Agreement", blocks)


def scales_section(study: Study) -> Section:
    """Table 4 of the paper, its Figures 3 and 4, and global fit."""
    blocks = table(
        paper_tables.ranges_table(study),
        "Scales: items given and kept, and the ranges of difficulty b and discrimination a of the items kept. "
        "Abilities and difficulties are in standard deviations of the population, 0 at its mean.",
    )
    blocks += table(
        paper_tables.global_fit_table(study),
        "Does one ability explain the responses to all items? M₂ with its degrees of freedom and p; RMSEA with its 90% "
        "interval and SRMSR, both 0 for perfect fit; TLI and CFI, near 1 for good fit. Least adjusted p: of the S-X² "
        "of any item and of the LD-X² of any pair of items, after Holm. The marks are those of the rules of pruning. "
        "Respondents: those whom M₂ rests on, for it needs people who answered every item.",
    )
    blocks += figure(
        figures.curve_panels(study),
        "Item characteristic curves of each scale: items kept solid, others dotted. The curve of a removed item comes "
        "from the last fit it was in. Steep curves tell people apart near their difficulty, flat ones hardly at all.",
    )
    blocks += figure(
        figures.parameter_panels(study),
        "Difficulty and discrimination of each item, with one standard error either way. An arrowhead at the edge "
        "stands for an item beyond it.",
    )
    blocks += figure(
        figures.information_panels(study),
        "Test information of each scale, and on the right the standard error of ability it amounts to. A scale "
        "measures well where its curve is high.",
    )
    return Section("scales", "Scales", blocks)


def items_section(study: Study) -> Section:
    """Table 1 and Figure 2 of the paper, and all removals."""
    blocks = table(
        paper_tables.examples_table(study),
        "Examples: of each scale the easiest and the hardest item kept, and the first item removed for each reason.",
    )
    blocks += figure(
        figures.fit_panels(study),
        "The worst and the best fitting item of the study, by the p of S-X² in the first fit of their scale: the "
        "estimated curve (solid) against the actual share of right answers, smoothed over estimated ability (dotted) "
        "with its pointwise 95% band. Where the band leaves the estimated curve, the item does not do as the model "
        "says. Abilities are estimates themselves, so small differences at the ends mean little.",
    )
    blocks += table(
        paper_tables.removals_table(study),
        "Items removed, in order. Round 0 is before the first fit. Value is that of the statistic on which the item "
        "was removed; p is adjusted after Holm over the items, or pairs of items, of the round.",
    )
    return Section("items", "Items", blocks)


def scores_section(study: Study) -> Section:
    """Table 5 of the paper, and where people and systems stand."""
    systems = paper_tables.systems_table(study)
    read = (
        "Ability θ in standard deviations of the population; percentile: share of the population below, rank in the "
        "sample: share of the screened respondents below. Intervals hold with probability 95%. Person fit lz* below "
        "−1.645 is seen in one of twenty people."
    )
    blocks = table(systems, f"Systems on each scale. {read}")
    if systems.empty:
        blocks += table(
            paper_tables.example_respondents_table(study),
            "Respondents of the lowest, the middle and the highest ability on each scale, among those with most "
            f"responses. {read}",
        )
    below = "" if systems.empty else " Below, the systems with their 95% intervals."
    blocks += figure(
        figures.position_panels(study),
        f"Estimated abilities of the screened respondents on each scale.{below} Estimates crowd together at the right "
        "where a scale has few hard items: it cannot tell able people apart.",
    )
    return Section("scores", "Abilities", blocks)


def published_section(study: Study) -> Section:
    """Our figures beside published ones."""
    published = study.settings.published
    source = published.source or "the publication"
    blocks = table(
        paper_tables.published_table(study), f"This study beside {source}; the difference is ours less theirs."
    )
    if blocks:
        blocks += [Text(note) for note in published.notes]
    return Section("published", "Beside published figures", blocks)


def fits_section(study: Study) -> Section:
    """Every fit."""
    caption = (
        "Every fit of every scale, a row a round of pruning. A fit that did not converge says why; its parameters are "
        "then no estimates."
    )
    return Section("fits", "Fits", table(paper_tables.rounds_table(study), caption))


def all_items_section(study: Study) -> Section:
    """Every item given."""
    caption = "All items given. Parameters are from the last fit the item was in, with standard errors in brackets."
    return Section("all-items", "All items", table(paper_tables.fates_table(study), caption))


def provenance_section(study: Study) -> Section:
    """What is needed to do it again."""
    caption = "Hashes of the files read, settings, seed, versions and date."
    return Section("provenance", "Provenance", table(paper_tables.provenance_table(study), caption))
