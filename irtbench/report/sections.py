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
from irtbench.data.screening import ScreeningOutcomes
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
from irtbench.report.captions import caption
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
        caption("example_curve"),
    )
    return Section("method", "Method", blocks)


def respondents_section(screening: ScreeningOutcomes, effect: ScreeningEffect | None) -> Section:
    """Who was kept, and what that changes."""
    blocks = table(paper_tables.screening_table(screening), caption("table_screening"))
    if effect is not None:
        blocks += table(
            effect.scales,
            caption("table_screening_effect"),
        )
    return Section("respondents", "Respondents", blocks)


def agreement_section(
    overall: Agreement | None, by_label: Mapping[str, Agreement], grading: GradingSettings
) -> Section:
    """Tables 2 and 3 of the paper."""
    blocks: list[Block] = [Text(prose.agreed(overall))] if overall is not None else []
    blocks += table(
        paper_tables.agreement_table(overall, by_label),
        caption("table_agreement"),
    )
    blocks += table(
        paper_tables.kappa_table(overall, by_label, grading.normalise),
        caption("table_kappa"),
    )
    return Section("agreement", "Agreement", blocks)


def scales_section(scales: Sequence[ScaleStudy], items: ItemTable, rules: PruneRules) -> Section:
    """Table 4 of the paper, its Figures 3 and 4, and global fit."""
    blocks = table(
        paper_tables.ranges_table(scales),
        caption("table_ranges", people=where_people_are(scales)),
    )
    blocks += table(
        paper_tables.global_fit_table(scales),
        caption("table_global_fit", adjustment=pruning_prose.adjustment(rules)),
    )
    blocks += figure(
        study_figures.curve_panels(scales),
        caption("study_curves"),
    )
    blocks += figure(
        study_figures.parameter_panels(scales, items),
        caption("parameters"),
    )
    blocks += figure(
        study_figures.information_panels(scales),
        caption("study_information"),
    )
    return Section("scales", "Scales", blocks)


def dimensions_section(dimensions: Dimensions | None, not_counted: str, scales: Sequence[ScaleStudy]) -> Section:
    """What is asked before any item leaves: how many abilities, one or two to a scale, is guessing needed."""
    blocks: list[Block] = [Text(paragraph) for paragraph in pruning_prose.abilities(dimensions, not_counted)]
    blocks += [] if dimensions is None else scree_figures(dimensions.analysis)
    blocks += table(
        pruning_tables.eigenvalues_table(dimensions),
        caption("table_eigenvalues"),
    )
    blocks += table(
        pruning_tables.factor_models_table(dimensions),
        caption("table_factor_models"),
    )
    blocks += table(
        pruning_tables.loadings_table(dimensions),
        caption("table_loadings"),
    )
    blocks += table(
        pruning_tables.two_abilities_table(scales),
        caption("table_two_abilities"),
    )
    said = pruning_prose.guessing(scales)
    blocks += [Text(said)] if said else []
    blocks += table(
        pruning_tables.guessing_table(scales),
        caption("table_guessing"),
    )
    return Section("dimensions", "Number of abilities and guessing", blocks)


def pruning_section(scales: Sequence[ScaleStudy], rules: PruneRules) -> Section:
    """What left before any model was fitted, then round by round."""
    before, more = first_rows(pruning_tables.before_fit_table(scales), "item", MOST_REMOVALS, "pruning.csv")
    blocks: list[Block] = table(before, caption("table_before_fit", more=more))
    if before.empty:
        blocks.append(
            Text(
                "Before any model was fitted no item left: none was excluded, each was answered, and none by all alike."
            )
        )
    removals, more = first_rows(pruning_tables.removals_table(scales), "row", MOST_REMOVALS, "pruning.csv")
    blocks += table(
        removals,
        caption("table_removals", adjustment=pruning_prose.adjustment(rules), more=more),
    )
    return Section("pruning", "Pruning, round by round", blocks)


def examples_section(scales: Sequence[ScaleStudy], items: ItemTable) -> Section:
    """Table 1 and Figure 2 of the paper."""
    blocks = table(
        paper_tables.examples_table(scales, items),
        caption("table_examples"),
    )
    blocks += figure(
        study_figures.fit_panels(scales),
        caption("best_and_worst_fit"),
    )
    return Section("examples", "Examples and item fit", blocks)


def analysis_section(scales: Sequence[ScaleStudy]) -> Section:
    """The items kept as they were answered: reliability, classical statistics, options, people beside items."""
    retained = [scale.scale for scale in scales if scale.scale is not None]
    blocks = table(
        item_details.reliability_table(scales),
        caption("table_reliability"),
    )
    blocks += figure(
        scale_figures.map_panels([item_map(scale) for scale in retained]),
        caption("wright_maps"),
    )
    blocks += figure(
        scale_figures.raw_score_panels(retained),
        caption("raw_scores"),
    )
    said = item_details.said_of_options(scales)
    blocks += [Text(said)] if said else []
    blocks += table(
        item_details.options_table(scales),
        caption("table_options"),
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
    blocks += table(systems, caption("table_systems", read=read))
    if systems.empty:
        blocks += table(
            paper_tables.example_respondents_table(respondent_scores),
            caption("table_example_respondents", read=read),
        )
    blocks += table(
        paper_tables.group_percentiles_table(group_percentiles),
        caption("table_group_percentiles"),
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
            caption("table_accuracy_by_difficulty", system=system),
        )
        blocks += table(
            explanations.surprises_table(explained, items, system),
            caption("table_surprises", system=system, most=explanations.MOST_SURPRISES),
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
        caption("table_published", source=source),
    )
    if blocks:
        blocks += [Text(note) for note in published.notes]
    return Section("published", "Beside published figures", blocks)


def fits_section(scales: Sequence[ScaleStudy]) -> Section:
    """Every fit."""
    fits = table(paper_tables.rounds_table(scales), caption("table_fits"))
    return Section("fits", "Fits", [Text(prose.converged(scales)), *fits])


def items_section(scales: Sequence[ScaleStudy], items: ItemTable, linked: Set[str]) -> Section:
    """Every item given, each with an address of its own; of many the doubtful ones, with those at linked addresses."""
    shown, n_given = item_details.doubtful_items(scales, linked), sum(scale.responses.n_items for scale in scales)
    found, details = item_details.items_of_study(scales, items, shown)
    written = write_table(found)
    return Section(
        "items",
        "Items",
        [
            ItemsTable(
                caption=caption("table_items", n_given=n_given, n=len(found)),
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
    return Section("card", "Data card", table(rows, caption("table_card")))


def provenance_section(provenance: Mapping[str, Any]) -> Section:
    """What is needed to do it again."""
    return Section(
        "provenance", "Provenance", table(paper_tables.provenance_table(provenance), caption("table_provenance"))
    )
