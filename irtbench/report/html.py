"""The report of a study: one page that needs no other file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from irtbench.report import explanations, figures, paper_tables, prose, pruning_prose, pruning_tables
from irtbench.report.figures import Panel
from irtbench.report.formatting import WrittenTable, count, decimal, write_table
from irtbench.study.results import Study


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


@dataclass(frozen=True)
class Heading:
    """What the blocks below are about."""

    text: str
    kind: Literal["heading"] = "heading"


Block = Text | Table | FigureOfPanels | Heading


BELOW = {
    "normal": "share of the population",
    "empirical": "share of the screened respondents",
    "smoothed": "share of the population that the screened respondents stand for",
}


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
        dimensions_section(study),
        pruning_section(study),
        scales_section(study),
        items_section(study),
        scores_section(study),
        likeness_section(study),
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
        "of any item and of the LD-X² of any pair of items, adjusted "
        f"{pruning_prose.adjustment(study.settings.pruning)}. The marks are those of the rules of pruning. "
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


def dimensions_section(study: Study) -> Section:
    """What is asked before any item leaves: how many abilities, one or two to a scale, is guessing needed."""
    blocks: list[Block] = [Text(paragraph) for paragraph in pruning_prose.abilities(study)]
    blocks += figure(
        figures.scree_panels(study),
        "Eigenvalues of the items’ tetrachoric correlations in order: those that speak for an ability filled, the "
        "limit of what independent items show by chance dashed.",
    )
    blocks += table(
        pruning_tables.eigenvalues_table(study),
        "The first eigenvalues beside those of independent items, their mean and the limit.",
    )
    blocks += table(
        pruning_tables.factor_models_table(study),
        "Models of all items with one ability, two and three: smaller criteria are better. Likelihood ratio: against "
        "the model in the row above.",
    )
    blocks += table(
        pruning_tables.loadings_table(study),
        "Mean loadings of each scale’s items on the factors turned towards the scales, and the share of the items that "
        "load most on the factor of their own scale.",
    )
    blocks += table(
        pruning_tables.two_abilities_table(study),
        "One ability or two on the items of each scale, before any rule removes one; the likelihood ratio is that of "
        "two against one. A model that did not converge is no maximum: its figures say what it reached.",
    )
    said = pruning_prose.guessing(study)
    blocks += [Text(said)] if said else []
    blocks += table(
        pruning_tables.guessing_table(study),
        "Test of guessing: on each scale the number of items that need it at .05 after Holm, and the item with the "
        "least p. Likelihood ratio of c free against c = 0; p is halved, since 0 is the least that c can be.",
    )
    return Section("dimensions", "Number of abilities and guessing", blocks)


def pruning_section(study: Study) -> Section:
    """What left before any model was fitted, then round by round."""
    before = pruning_tables.before_fit_table(study)
    blocks: list[Block] = table(before, "Items that left before any model was fitted.")
    if before.empty:
        blocks.append(
            Text(
                "Before any model was fitted no item left: none was excluded, each was answered, and none by all alike."
            )
        )
    blocks += table(
        pruning_tables.removals_table(study),
        "Rounds of pruning, in order. Each row says which item left after the fit of its round and on what grounds: "
        f"the statistic, p and p adjusted {pruning_prose.adjustment(study.settings.pruning)}. CFI is "
        "that of the items that were in.",
    )
    return Section("pruning", "Pruning, round by round", blocks)


def items_section(study: Study) -> Section:
    """Table 1 and Figure 2 of the paper."""
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
    return Section("items", "Items", blocks)


def scores_section(study: Study) -> Section:
    """Table 5 of the paper, and where people and systems stand."""
    systems = paper_tables.systems_table(study)
    scoring = study.settings.score.scoring(seed=study.settings.study.seed)
    group = "" if scoring.norm_group is None else f" with {scoring.norm_group[0]} {scoring.norm_group[1]}"
    read = (
        f"Ability θ in standard deviations of the population; percentile: {BELOW[scoring.norm]}{group} below, rank in "
        f"the sample: share of the screened respondents{group} below. Intervals hold with probability "
        f"{100 * scoring.level:g}%. Person fit lz* below −1.645 is seen in one of twenty people."
    )
    blocks = table(systems, f"Systems on each scale. {read}")
    if systems.empty:
        blocks += table(
            paper_tables.example_respondents_table(study),
            "Respondents of the lowest, the middle and the highest ability on each scale, among those with most "
            f"responses. {read}",
        )
    blocks += table(
        paper_tables.group_percentiles_table(study),
        "The same abilities compared with the people of one group at a time: share of the people that the group’s "
        "respondents stand for who are less able. Groups of few people give wide intervals.",
    )
    below = "" if systems.empty else " Below, the systems with their 95% intervals."
    blocks += figure(
        figures.position_panels(study),
        f"Estimated abilities of the screened respondents on each scale.{below} Estimates crowd together at the right "
        "where a scale has few hard items: it cannot tell able people apart.",
    )
    return Section("scores", "Abilities", blocks)


def likeness_section(study: Study) -> Section:
    """Whether systems answer as people of their ability do: person fit, accuracy by difficulty, surprises."""
    blocks: list[Block] = []
    systems = explanations.explained_systems(study)
    for system in systems:
        blocks += [Heading(system), Text(explanations.likeness(study, system))]
        blocks += table(
            explanations.difficulty_table(study, system),
            f"Accuracy of {system} on the items of each scale, easy to hard, beside that of people of its ability. "
            "About 95% of these fall into the interval; z is the difference in standard deviations.",
        )
        blocks += table(
            explanations.surprises_table(study, system),
            f"Items on which {system} surprises: fewer than one in ten people of its ability give its answer. Beside "
            f"each the share of them who are right. At most {explanations.MOST_SURPRISES} of each kind on a scale.",
        )
    scores = study.system_scores
    if systems and scores is not None and len(systems) < scores["respondent_id"].nunique():
        said = f"Shown are the {len(systems)} systems whose answers are least like a person’s."
        blocks.insert(0, Text(said))
    return Section("likeness", "Do the systems answer like people?", blocks)


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
