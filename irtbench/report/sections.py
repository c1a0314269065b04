"""The parts of a study's page that unfold: what was found, in tables and figures with their captions."""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import partial

import pandas as pd
from matplotlib.axes import Axes

from irtbench.bank.scale import item_map
from irtbench.data.items import ItemTable
from irtbench.diagnostics.empirical_curve import empirical_curve
from irtbench.models.curves import icc
from irtbench.models.item_parameters import ItemParameters
from irtbench.report import (
    item_details,
    paper_tables,
    prose,
    scale_figures,
)
from irtbench.report.check_figures import draw_fit, scree_figures
from irtbench.report.drawing import (
    ABILITY_LABEL,
    BLUE,
    DASHED,
    GREY,
    HEIGHT,
    ORANGE,
    VECTORS,
    Drawing,
    Series,
    curve_plot,
    on_axes,
)
from irtbench.report.formatting import decimal, p_value, plural, words, write_table
from irtbench.report.page import Block, Heading, ItemsTable, Section, figure, first_rows, item_anchor, paragraphs, table
from irtbench.report.paper_tables import fit_extremes, item_status_table, remaining_parameters, removed_parameters
from irtbench.report.prose import unit_of_ability
from irtbench.report.scale_figures import (
    ABILITIES,
    draw_curves,
    draw_information,
    draw_parameters,
    numbered,
    probability_axes,
)
from irtbench.scoring.ability import eap
from irtbench.scoring.optional_columns import Explanation
from irtbench.scoring.scores import ScoringSettings
from irtbench.study.results import ScaleStudy, Study


def draw_curve_example(ax: Axes) -> Axes:
    """The item characteristic curve with a = 1, b = 0, c = .25, its parameters marked: Figure 1 of the paper."""
    item = ItemParameters.from_difficulty([1.0], [0.0], [0.25])
    middle, slope = float(icc(0.0, item)[0, 0]), 0.1875  # of the tangent at b: P' = a (1 - c) / 4
    dotted, tangent = {"color": GREY, "linestyle": ":"}, {"color": ORANGE, "linestyle": "-"}
    lines = [
        Series("", ABILITIES, icc(ABILITIES, item)[:, 0], look={"color": BLUE}),
        Series("", [0, 0, -4], [0, middle, middle], look=dotted),
        Series("", [-4, 4], [0.25, 0.25], look=DASHED),
        Series("", [-1.4, 1.4], [middle - 1.4 * slope, middle + 1.4 * slope], look=tangent),
        Series("", [0], [middle], look={"color": ORANGE, "marker": "o", "markersize": 6}),
    ]
    probability_axes(curve_plot(ax, lines, x=ABILITY_LABEL, y="probability correct"))
    for text, tip, place in (
        ("discrimination a = 1:\nsteepness here", (0.1, middle - 0.01), (0.75, 0.45)),
        ("difficulty b = 0", (0, 0), (0.75, 0.06)),
        ("guessing c = 0.25:\nlowest probability", (-3.4, 0.25), (-3.8, 0.06)),
    ):
        ax.annotate(text, tip, place, arrowprops={"arrowstyle": "-|>", "color": GREY, "linewidth": 0.8})
    return ax


def fit_panels(scales: Sequence[ScaleStudy]) -> list[Drawing]:
    """Estimated against actual curves of the worst and the best fitting item in the first fits."""
    by_name = {scale.name: scale for scale in scales}
    panels = []
    for which, row in fit_extremes(scales).iterrows():
        scale, item = by_name[row["scale"]], row["item_id"]
        fitted = scale.pruning.rounds[0].fitted
        data = scale.responses.select_items(fitted.items.item_ids).answered()
        theta = eap(data, fitted.items, quadrature=fitted.quadrature).theta
        heading = (
            f"{str(which).capitalize()} fit: {item} ({scale.name}), S-X² {decimal(row['s_x2'])}, df {row['df']}, "
            f"p {p_value(row['p'])}, adjusted {p_value(row['p_adjusted'])}"
        )
        description = f"Estimated and actual curve of item {item} of {scale.name}."
        draw = partial(draw_fit, curve=empirical_curve(data, fitted.items, item, theta))
        panels.append(
            on_axes(f"{which}_fit", draw, heading=heading, description=description, unit=unit_of_ability(scales))
        )
    return panels


def _vectors(scales: Sequence[ScaleStudy]) -> int:
    """Lines and dots of a panel, where all scales have one."""
    return min(VECTORS, max(60, 3 * VECTORS // max(len(scales), 1)))


def curve_panels(scales: Sequence[ScaleStudy]) -> list[Drawing]:
    """Item characteristic curves of each scale on which anything was fitted."""
    fitted = [scale for scale in scales if scale.pruning.rounds]
    panels = []
    for k, scale in enumerate(fitted):
        kept, others, word = remaining_parameters(scale), removed_parameters(scale.pruning), "removed"
        if scale.pruning.rejected is not None:
            kept, others, word = kept.select([]), (*others, kept), "scale rejected"
        description = f"Item characteristic curves of {scale.name}: {plural(kept.n_items, 'item')} kept."
        draw = partial(draw_curves, kept=kept, others=others, others_are=word)
        panels.append(
            on_axes(
                numbered("curves", k, len(fitted)), draw, heading=scale.name, description=description,
                unit=unit_of_ability(scales), vectors=_vectors(scales),
            )
        )  # fmt: skip
    return panels


def parameter_panels(scales: Sequence[ScaleStudy], items: ItemTable) -> list[Drawing]:
    """Discrimination against difficulty of each scale on which anything was fitted."""
    status = item_status_table(scales, items)
    fitted = [scale.name for scale in scales if scale.pruning.rounds]
    return [
        on_axes(
            numbered("parameters", k, len(fitted)),
            partial(draw_parameters, status=status[status["scale"] == name], axes_for=status), heading=name,
            description=f"Difficulty and discrimination of the items of {name}.", vectors=_vectors(scales),
        )
        for k, name in enumerate(fitted)
    ]  # fmt: skip


def information_panels(scales: Sequence[ScaleStudy]) -> list[Drawing]:
    """Test information of all scales retained, in one panel; none if no scale is."""
    retained = {scale.name: scale.scale.items for scale in scales if scale.scale is not None}
    drawing = on_axes(
        "test_information", partial(draw_information, scales=retained),
        description=f"Test information of {', '.join(retained)} along ability.",
        height=HEIGHT + 0.2 * (len(retained) // 2), unit=unit_of_ability(scales),
    )  # fmt: skip
    return [drawing] if retained else []


MOST_REMOVALS = 1_000  # rows
BELOW = {
    "normal": "share of the population",
    "empirical": "share of the screened respondents",
    "smoothed": "share of the population that the screened respondents represent",
}


def sections_of(study: Study, linked: Set[str]) -> list[Section]:
    """The parts below the opening, those a reader asks for first at the top; linked are addresses of items above."""
    parts = parts_of_scales(study, linked) | parts_of_the_study(study)
    return [Section(anchor, title, blocks) for (anchor, title), blocks in parts.items()]


def parts_of_scales(study: Study, linked: Set[str]) -> dict[tuple[str, str], list[Block]]:
    """What was found of items, abilities and scales, by anchor and title."""
    settings, scales, items = study.settings, study.scales, study.items
    adjustment = prose.adjustment(settings.pruning)
    retained = [scale.scale for scale in scales if scale.scale is not None]
    scoring = settings.score.scoring(seed=settings.study.seed)
    return {
        ("items", "Items"): all_items(scales, items, linked),
        ("scores", "Abilities"): abilities(study, scoring),
        ("likeness", "Do the systems answer like people?"): likeness(
            study.system_scores, study.system_explanation, items
        ),
        ("scales", "Scales"): [
            *table(paper_tables.ranges_table(scales), words("table_ranges", people=prose.where_people_are(scales))),
            *table(paper_tables.global_fit_table(scales), words("table_global_fit", adjustment=adjustment)),
            *figure(curve_panels(scales), words("study_curves")),
            *figure(parameter_panels(scales, items), words("parameters")),
            *figure(information_panels(scales), words("study_information")),
        ],
        ("pruning", "Pruning, round by round"): removals(scales, adjustment),
        ("examples", "Examples and item fit"): [
            *table(paper_tables.examples_table(scales, items), words("table_examples")),
            *figure(fit_panels(scales), words("best_and_worst_fit")),
        ],
        ("item-analysis", "Items as they were answered"): [
            *table(item_details.reliability_table(scales), words("table_reliability")),
            *figure(scale_figures.map_panels([item_map(scale) for scale in retained]), words("wright_maps")),
            *figure(scale_figures.raw_score_panels(retained), words("raw_scores")),
            *paragraphs(item_details.said_of_options(scales)),
            *table(item_details.options_table(scales), words("table_options")),
        ],
        ("dimensions", "Number of abilities and guessing"): [
            *paragraphs(*prose.abilities(study.dimensions, study.no_dimensions)),
            *([] if study.dimensions is None else scree_figures(study.dimensions.analysis)),
            *table(paper_tables.eigenvalues_table(study.dimensions), words("table_eigenvalues")),
            *table(paper_tables.factor_models_table(study.dimensions), words("table_factor_models")),
            *table(paper_tables.loadings_table(study.dimensions), words("table_loadings")),
            *table(paper_tables.two_abilities_table(scales), words("table_two_abilities")),
            *paragraphs(prose.guessing(scales)),
            *table(paper_tables.guessing_table(scales), words("table_guessing")),
        ],
    }


def parts_of_the_study(study: Study) -> dict[tuple[str, str], list[Block]]:
    """Who answered and how far they agree, how the study was made, and what it is compared with."""
    settings, scales = study.settings, study.scales
    effect = pd.DataFrame() if study.screening_effect is None else study.screening_effect.scales
    source = settings.published.source or "the publication"
    published = paper_tables.published_table(settings.published, scales, study.agreement)
    card = settings.card if study.bank is None else study.bank.card
    stated = {} if card is None else card.stated()
    about = pd.DataFrame({"card_field": [name.capitalize() for name in stated], "card_text": list(stated.values())})
    answers, by_label = study.agreement, study.agreement_by_label
    kappas = paper_tables.kappa_table(answers, by_label, settings.grading.normalise)
    description = "An S-shaped curve that rises from 0.25 through 0.625 at ability 0 towards 1."
    return {
        ("respondents", "Respondents"): [
            *table(study.outcomes.table(), words("table_screening")),
            *table(effect, words("table_screening_effect")),
        ],
        ("agreement", "Agreement"): [
            *paragraphs(prose.agreed(answers)),
            *table(paper_tables.agreement_table(answers, by_label), words("table_agreement")),
            *table(kappas, words("table_kappa")),
        ],
        ("method", "Method"): [
            *paragraphs(*prose.method(settings)),
            *figure([on_axes("example_curve", draw_curve_example, description=description)], words("example_curve")),
        ],
        ("published", "Compared with published figures"): [
            *table(published, words("table_published", source=source)),
            *paragraphs(*([] if published.empty else settings.published.notes)),
        ],
        ("card", "Data card"): table(about, words("table_card")),
        ("fits", "Fits"): [
            *paragraphs(prose.converged(scales)),
            *table(paper_tables.rounds_table(scales), words("table_fits")),
        ],
        ("provenance", "Provenance"): table(paper_tables.provenance_table(study.provenance), words("table_provenance")),
    }


def removals(scales: Sequence[ScaleStudy], adjustment: str) -> list[Block]:
    """What left before any model was fitted, then round by round."""
    before, more = first_rows(paper_tables.before_fit_table(scales), "item", MOST_REMOVALS, "pruning.csv")
    rounds, others = first_rows(paper_tables.removals_table(scales), "row", MOST_REMOVALS, "pruning.csv")
    return [
        *table(before, words("table_before_fit", more=more)),
        *paragraphs(words("none_before_fit") if before.empty else ""),
        *table(rounds, words("table_removals", adjustment=adjustment, more=others)),
    ]


def abilities(study: Study, scoring: ScoringSettings) -> list[Block]:
    """Table 5 of the paper, and where people and systems are."""
    systems = paper_tables.systems_table(study.system_scores)
    people = paper_tables.example_respondents_table(study.respondent_scores if systems.empty else None)
    group = "" if scoring.norm_group is None else " with {} {}".format(*scoring.norm_group)
    unit = prose.unit_of_ability(study.scales)
    read = words("reading_scores", unit=unit, below=BELOW[scoring.norm], group=group, level=scoring.level)
    of_groups = paper_tables.group_percentiles_table(study.group_percentiles)
    return [
        *paragraphs(prose.scored(study.system_scores)),
        *table(systems, words("table_systems", read=read)),
        *table(people, words("table_example_respondents", read=read)),
        *table(of_groups, words("table_group_percentiles")),
    ]


def likeness(scores: pd.DataFrame | None, explained: Explanation | None, items: ItemTable) -> list[Block]:
    """Whether systems answer as people of their ability do: person fit, accuracy by difficulty, surprises."""
    if scores is None or explained is None:
        return []
    systems, most = prose.explained_systems(scores), prose.MOST_SURPRISES
    some = systems and len(systems) < scores["respondent_id"].nunique()
    blocks = paragraphs(words("least_like_people", n=len(systems)) if some else "")
    for system in systems:
        by_difficulty = prose.difficulty_table(explained, system)
        surprises = prose.surprises_table(explained, items, system)
        blocks += [
            Heading(system),
            *paragraphs(prose.likeness(scores, explained, system)),
            *table(by_difficulty, words("table_accuracy_by_difficulty", system=system)),
            *table(surprises, words("table_surprises", system=system, most=most)),
        ]
    return blocks


def all_items(scales: Sequence[ScaleStudy], items: ItemTable, linked: Set[str]) -> list[Block]:
    """Every item given, each with an address of its own; of many the doubtful ones, with those at linked addresses."""
    shown, n_given = item_details.doubtful_items(scales, linked), sum(scale.responses.n_items for scale in scales)
    found, details = item_details.items_of_study(scales, items, shown)
    written = write_table(found)
    asides = [heading.column in item_details.ASIDES for heading in written.headings]
    anchors = [item_anchor(item) for item in found["item_id"]]
    return [ItemsTable(words("table_items", n_given=n_given, n=len(found)), written, anchors, asides, details)]
