"""The sections of the page, one function each: what a study found, in tables and figures with their captions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import pandas as pd

from irtbench.analysis.dimensions import Dimensions
from irtbench.bank.data_card import DataCard
from irtbench.bank.item_map import item_map
from irtbench.building.prune_rules import PruneRules
from irtbench.config import PublishedSettings, StudyFile
from irtbench.data.grading import GradingSettings
from irtbench.data.items import ItemTable
from irtbench.data.screening_outcomes import ScreeningOutcomes
from irtbench.evaluation.agreement import Agreement
from irtbench.report import (
    explanations,
    item_details,
    paper_tables,
    prose,
    pruning_prose,
    pruning_tables,
    scale_figures,
    study_figures,
)
from irtbench.report.blocks import Block, Heading, ItemsTable, Section, Text, figure, item_anchor, table
from irtbench.report.check_figures import scree_figures
from irtbench.report.formatting import write_table
from irtbench.report.page import first_rows
from irtbench.report.prose import unit_of_ability, where_people_are
from irtbench.scoring.explanation import Explanation
from irtbench.scoring.scores import ScoringSettings
from irtbench.study.results import ScaleStudy
from irtbench.study.screening_effect import ScreeningEffect

MOST_REMOVALS = 1_000  # rows
BELOW = {
    "normal": "share of the population",
    "empirical": "share of the screened respondents",
    "smoothed": "share of the population that the screened respondents stand for",
}


def method_section(settings: StudyFile) -> Section:
    """How the study was done, and how to read a curve."""
    blocks: list[Block] = [Text(paragraph) for paragraph in prose.method(settings)]
    blocks += figure(
        study_figures.example_panels(),
        "How to read an item characteristic curve: the probability that a person of ability θ is right. Difficulty b "
        "is where the curve is steepest, discrimination a how steep it is there, guessing c where it starts. The "
        "example has a = 1, b = 0, c = 0.25.",
    )
    return Section("method", "Method", blocks)


def respondents_section(screening: ScreeningOutcomes, effect: ScreeningEffect | None) -> Section:
    """Who was kept, and what that changes."""
    caption = (
        "Respondents by outcome of the screening. A respondent removed stands with the first rule that applied. "
        "Accuracy is the mean over respondents of the share of their responses that are correct, attention checks left "
        "out."
    )
    blocks = table(paper_tables.screening_table(screening), caption)
    if effect is not None:
        blocks += table(
            effect.scales,
            "Each scale before and after screening, before any item is removed. Agreement on items of one label is low "
            "whoever answers. Reliability may fall as people who guess leave, whom a test tells easily from others.",
        )
    return Section("respondents", "Respondents", blocks)


def agreement_section(
    overall: Agreement | None, by_label: Mapping[str, Agreement], grading: GradingSettings
) -> Section:
    """Tables 2 and 3 of the paper."""
    blocks: list[Block] = [Text(prose.agreed(overall))] if overall is not None else []
    blocks += table(
        paper_tables.agreement_table(overall, by_label),
        "Agreement of the screened respondents. Majority: share of items on which more than half of the answers are "
        "the same one, whichever that is; two-thirds majority: at least two thirds are. Majority is the key: more than "
        "half of the answers are the right one. Correct: share of all answers.",
    )
    blocks += table(
        paper_tables.kappa_table(overall, by_label, grading.normalise),
        "Agreement beyond chance: 0 where people agree as often as chance would have it, 1 where all always agree. "
        "Fleiss’ κ and Krippendorff’s α are of the items in the row. Where nearly all answers are one and the same, "
        "as within one label, they are low however well people agree. κ of this answer: the answer of that name "
        "against all others, over all items.",
    )
    return Section("agreement", "Agreement", blocks)


def scales_section(scales: Sequence[ScaleStudy], items: ItemTable, rules: PruneRules) -> Section:
    """Table 4 of the paper, its Figures 3 and 4, and global fit."""
    blocks = table(
        paper_tables.ranges_table(scales),
        "Scales: items given and kept, and the ranges of difficulty b and discrimination a of the items kept. "
        f"{where_people_are(scales)}",
    )
    blocks += table(
        paper_tables.global_fit_table(scales),
        "Does one ability explain the responses to all items? M₂ with its degrees of freedom and p; RMSEA with its 90% "
        "interval and SRMSR, both 0 for perfect fit; TLI and CFI, near 1 for good fit. Least adjusted p: of the S-X² "
        "of any item and of the LD-X² of any pair of items, adjusted "
        f"{pruning_prose.adjustment(rules)}. The cut-offs are those of the rules of pruning. "
        "Respondents: those whom M₂ rests on, for it needs people who answered every item.",
    )
    blocks += figure(
        study_figures.curve_panels(scales),
        "Item characteristic curves of each scale: items kept solid, others dotted. The curve of a removed item comes "
        "from the last fit it was in. Steep curves tell people apart near their difficulty, flat ones hardly at all.",
    )
    blocks += figure(
        study_figures.parameter_panels(scales, items),
        "Difficulty and discrimination of each item, with one standard error either way. An arrowhead at the edge "
        "stands for an item beyond it.",
    )
    blocks += figure(
        study_figures.information_panels(scales),
        "Test information of each scale, and on the right the standard error of ability it amounts to. A scale "
        "measures well where its curve is high.",
    )
    return Section("scales", "Scales", blocks)


def dimensions_section(dimensions: Dimensions | None, not_counted: str, scales: Sequence[ScaleStudy]) -> Section:
    """What is asked before any item leaves: how many abilities, one or two to a scale, is guessing needed."""
    blocks: list[Block] = [Text(paragraph) for paragraph in pruning_prose.abilities(dimensions, not_counted)]
    blocks += [] if dimensions is None else scree_figures(dimensions.analysis)
    blocks += table(
        pruning_tables.eigenvalues_table(dimensions),
        "The first eigenvalues, and those of independent items: their mean and the limit.",
    )
    blocks += table(
        pruning_tables.factor_models_table(dimensions),
        "Models of all items with one ability, two and three: smaller criteria are better. Likelihood ratio: against "
        "the model in the row above.",
    )
    blocks += table(
        pruning_tables.loadings_table(dimensions),
        "Mean loadings of each scale’s items on the factors turned towards the scales, and the share of the items that "
        "load most on the factor of their own scale.",
    )
    blocks += table(
        pruning_tables.two_abilities_table(scales),
        "One ability or two on the items of each scale, before any rule removes one; the likelihood ratio is that of "
        "two against one. A model that did not converge is no maximum: its figures say what it reached.",
    )
    said = pruning_prose.guessing(scales)
    blocks += [Text(said)] if said else []
    blocks += table(
        pruning_tables.guessing_table(scales),
        "Test of guessing: on each scale the number of items that need it at .05 after Holm, and the item with the "
        "least p. Likelihood ratio of c free against c = 0; p is halved, since 0 is the least that c can be.",
    )
    return Section("dimensions", "Number of abilities and guessing", blocks)


def pruning_section(scales: Sequence[ScaleStudy], rules: PruneRules) -> Section:
    """What left before any model was fitted, then round by round."""
    before, more = first_rows(pruning_tables.before_fit_table(scales), "item", MOST_REMOVALS, "pruning.csv")
    blocks: list[Block] = table(before, f"Items that left before any model was fitted.{more}")
    if before.empty:
        blocks.append(
            Text(
                "Before any model was fitted no item left: none was excluded, each was answered, and none by all alike."
            )
        )
    removals, more = first_rows(pruning_tables.removals_table(scales), "row", MOST_REMOVALS, "pruning.csv")
    blocks += table(
        removals,
        "Rounds of pruning, in order. Each row says which item left after the fit of its round and on what grounds: "
        f"the statistic, p and p adjusted {pruning_prose.adjustment(rules)}. CFI is "
        f"that of the items that were in.{more}",
    )
    return Section("pruning", "Pruning, round by round", blocks)


def examples_section(scales: Sequence[ScaleStudy], items: ItemTable) -> Section:
    """Table 1 and Figure 2 of the paper."""
    blocks = table(
        paper_tables.examples_table(scales, items),
        "Examples: of each scale the easiest and the hardest item kept, and the first item removed for each reason.",
    )
    blocks += figure(
        study_figures.fit_panels(scales),
        "The worst and the best fitting item of the study, by the p of S-X² in the first fit of their scale: the "
        "estimated curve (solid) against the actual share of right answers, smoothed over estimated ability (dotted) "
        "with its pointwise 95% band. Where the band leaves the estimated curve, the item does not do as the model "
        "says. Abilities are estimates themselves, so small differences at the ends mean little.",
    )
    return Section("examples", "Examples and item fit", blocks)


def analysis_section(scales: Sequence[ScaleStudy]) -> Section:
    """The items kept as they were answered: reliability, classical statistics, options, people beside items."""
    retained = [scale.scale for scale in scales if scale.scale is not None]
    blocks = table(
        item_details.reliability_table(scales),
        "Reliability of each scale: coefficient α of the number right with its 95% interval (KR-20), ω of one factor "
        "of the tetrachoric correlations, marginal reliability of θ in the population, and empirical reliability of θ "
        "as estimated here. Beside them, how many items like these a reliability of .9 needs, by Spearman and Brown "
        "from α and from the test information.",
    )
    blocks += figure(
        scale_figures.map_panels([item_map(scale) for scale in retained]),
        "Wright maps: people to the left, items at their difficulty to the right. Where there are people and no items, "
        "the scale tells little.",
    )
    blocks += figure(
        scale_figures.raw_score_panels(retained),
        "Ability by the number of right responses to all items of a scale (EAP of the sum score) with 95% intervals.",
    )
    said = item_details.said_of_options(scales)
    blocks += [Text(said)] if said else []
    blocks += table(
        item_details.options_table(scales),
        "Options that are flagged, below the key of their item: shares of the lower, middle and upper third by score.",
    )
    return Section("item-analysis", "Items as they were answered", blocks)


def scores_section(
    scales: Sequence[ScaleStudy],
    scoring: ScoringSettings,
    system_scores: pd.DataFrame | None,
    respondent_scores: pd.DataFrame | None,
    group_percentiles: pd.DataFrame | None,
) -> Section:
    """Table 5 of the paper, and where people and systems stand."""
    systems = paper_tables.systems_table(system_scores)
    group = "" if scoring.norm_group is None else f" with {scoring.norm_group[0]} {scoring.norm_group[1]}"
    read = (
        f"Ability θ in {unit_of_ability(scales)}; percentile: {BELOW[scoring.norm]}{group} below, rank in "
        f"the sample: share of the screened respondents{group} below. Intervals have a nominal coverage of "
        f"{100 * scoring.level:g}%. Person fit lz* below −1.645 is seen in one of twenty people."
    )
    said = prose.scored(system_scores)
    blocks: list[Block] = [Text(said)] if said else []
    blocks += table(systems, f"Systems on each scale. {read}")
    if systems.empty:
        blocks += table(
            paper_tables.example_respondents_table(respondent_scores),
            "Respondents of the lowest, the middle and the highest ability on each scale, among those with most "
            f"responses. {read}",
        )
    blocks += table(
        paper_tables.group_percentiles_table(group_percentiles),
        "The same abilities compared with the people of one group at a time: share of the people that the group’s "
        "respondents stand for who are less able. Groups of few people give wide intervals.",
    )
    return Section("scores", "Abilities", blocks)


def likeness_section(scores: pd.DataFrame | None, explained: Explanation | None, items: ItemTable) -> Section:
    """Whether systems answer as people of their ability do: person fit, accuracy by difficulty, surprises."""
    title = "Do the systems answer like people?"
    blocks: list[Block] = []
    if scores is None or explained is None:
        return Section("likeness", title, blocks)
    systems = explanations.explained_systems(scores)
    for system in systems:
        blocks += [Heading(system), Text(explanations.likeness(scores, explained, system))]
        blocks += table(
            explanations.difficulty_table(explained, system),
            f"Accuracy of {system} on the items of each scale, easy to hard, and that of people of its ability. "
            "About 95% of these fall into the interval; z is the difference in standard deviations.",
        )
        blocks += table(
            explanations.surprises_table(explained, items, system),
            f"Items on which {system} surprises: fewer than one in ten people of its ability give its answer, "
            f"with the share of them who are right. At most {explanations.MOST_SURPRISES} of each kind on a scale.",
        )
    if systems and len(systems) < scores["respondent_id"].nunique():
        said = f"Shown are the {len(systems)} systems whose answers are least like a person’s."
        blocks.insert(0, Text(said))
    return Section("likeness", title, blocks)


def published_section(
    published: PublishedSettings, scales: Sequence[ScaleStudy], agreement: Agreement | None
) -> Section:
    """Our figures compared with published ones."""
    source = published.source or "the publication"
    blocks = table(
        paper_tables.published_table(published, scales, agreement),
        f"This study compared with {source}; the difference is ours less theirs.",
    )
    if blocks:
        blocks += [Text(note) for note in published.notes]
    return Section("published", "Beside published figures", blocks)


def fits_section(scales: Sequence[ScaleStudy]) -> Section:
    """Every fit."""
    caption = (
        "Every fit of every scale, a row a round of pruning, and one of all respondents where the rounds are of a "
        "sample of them. A fit that did not converge says why; its parameters are then no estimates."
    )
    return Section("fits", "Fits", [Text(prose.converged(scales)), *table(paper_tables.rounds_table(scales), caption)])


def items_section(scales: Sequence[ScaleStudy], items: ItemTable, linked: Set[str]) -> Section:
    """Every item given, each with an address of its own; of many the doubtful ones, with those at linked addresses."""
    shown, n_given = item_details.doubtful_items(scales, linked), sum(scale.responses.n_items for scale in scales)
    found, details = item_details.items_of_study(scales, items, shown)
    written = write_table(found)
    which = (
        "All items given."
        if len(found) == n_given
        else f"Of {n_given:,} items given {len(found):,}: those removed, those named above, and those that fit worst. "
        "items.csv has all items kept, pruning.csv all removed."
    )
    caption = (
        f"{which} Parameters and item fit are from the last fit the item was in, with standard errors in "
        "brackets; item-rest and biserial correlations, upper less lower 27% and α without the item are of the items "
        "kept. Right by group of ability: percentages right of groups of respondents of equal size."
    )
    return Section(
        "items",
        "Items",
        [
            ItemsTable(
                caption=caption,
                table=written,
                anchors=[item_anchor(item) for item in found["item_id"]],
                asides=[heading.column in item_details.ASIDES for heading in written.headings],
                details=details,
            )
        ],
    )


def card_section(card: DataCard | None) -> Section:
    """What the bank says of itself."""
    stated = {} if card is None else card.stated()
    rows = pd.DataFrame({"card_field": [name.capitalize() for name in stated], "card_text": list(stated.values())})
    return Section("card", "Data card", table(rows, "What the maker of the bank says of it; the bank holds it too."))


def provenance_section(provenance: Mapping[str, Any]) -> Section:
    """What is needed to do it again."""
    caption = "Hashes of the files read, settings, seed, versions and date."
    return Section("provenance", "Provenance", table(paper_tables.provenance_table(provenance), caption))
