"""The page of a study: what a reader sees first, and the parts below, with their figures and captions."""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from irtbench.bank.scale import item_map
from irtbench.building.prune_rules import Removal
from irtbench.data.items import ItemTable
from irtbench.diagnostics.empirical_curve import empirical_curve
from irtbench.diagnostics.internal_consistency import MORE_THAN_KEY
from irtbench.estimation.doubts import named_items
from irtbench.estimation.settings import FitSettings
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
from irtbench.report.formatting import REASONS, count, decimal, interval, p_value, percent, plural, words, write_table
from irtbench.report.page import (
    Block,
    Heading,
    ItemsTable,
    Link,
    Page,
    Section,
    Sentence,
    figure,
    first_rows,
    item_anchor,
    linked_items,
    one_panel,
    paragraphs,
    table,
)
from irtbench.report.scoring_figures import group_in_words, percentile_figures, places
from irtbench.scoring.ability import estimate_ability
from irtbench.scoring.optional_columns import Explanation
from irtbench.scoring.scores import ScoringSettings
from irtbench.study.results import ScaleStudy, Study

SURELY_GUESSED = 0.05  # adjusted p of an item's test of guessing


def results_of(study: Study) -> list[Sentence]:
    """The result in sentences: systems among people; without systems, the scales."""
    scores = study.system_scores
    if scores is None or scores.empty:
        return [(_scale(scale),) for scale in study.scales]
    return places(
        scores,
        study.settings.scoring,
        "" if study.bank is None else study.bank.respondents,
    )


def _scale(scale: ScaleStudy) -> str:
    if scale.scale is None:
        return f"{scale.name} is no scale: {scale.pruning.rejected}."
    items = scale.scale.items
    reliable = "" if scale.analysis is None else f", of reliability {decimal(scale.analysis.reliability.marginal)}"
    return (
        f"{scale.name} is a scale of {plural(items.n_items, 'item')}{reliable}; difficulties {difficulty_span(items)}."
    )


def difficulty_span(items: ItemParameters) -> str:
    """The least and the greatest difficulty."""
    return interval(items.difficulty.min(), items.difficulty.max())


def removed(study: Study) -> list[Sentence]:
    """Who and what was removed and why, in three lines: respondents, items, scales; and a line on a sample."""
    removals = [removal for scale in study.scales for removal in scale.pruning.removals]
    given = sum(scale.responses.n_items for scale in study.scales)
    rejected = [
        f"{scale.name} ({scale.pruning.rejected})" for scale in study.scales if scale.pruning.rejected is not None
    ]
    some = f"{count(len(rejected))} of {plural(len(study.scales), 'scale')} rejected: {'; '.join(rejected)}."
    found: list[Sentence] = [
        (prose.screened(study.outcomes),), _items_removed(removals, given),
        (some if rejected else "No scale was rejected.",),
    ]  # fmt: skip
    if study.sample is not None and not study.sample.drawn.is_all:
        found.append((words("on_sample", drawn=study.sample.drawn),))
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


def warnings(scales: Sequence[ScaleStudy], model: FitSettings) -> list[Sentence]:
    """What to know before using the numbers, with the items concerned."""
    found: list[Sentence] = [(caution,) for caution in prose.cautions(scales)]
    if not all(fitted.converged for scale in scales for fitted in scale.fits.values()):
        found.insert(0, (prose.converged(scales),))
    for scale in scales:
        found += [(f"Scale {scale.name}: {doubt}.",) for doubt in scale.doubts]
        found += [
            (f"Scale {scale.name}: {words}: ", *linked_items(items), ".")
            for words, items in _items_to_read(scale, model).items()
            if items
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


def study_page(study: Study) -> Page:
    """The page of a study: the result first, then everything it rests on in parts that unfold.

    Parts without data (no raw answers, no systems, no scale retained) are left out.
    """
    settings, scales = study.settings, study.scales
    version, date = study.provenance["versions"]["irtbench"], study.provenance["date"]
    left, warned = removed(study), warnings(scales, settings.model)
    # those a reader asks for first at the top; linked are addresses of items above
    linked = {part.anchor for sentence in (*left, *warned) for part in sentence if isinstance(part, Link)}
    parts = parts_of_scales(study, linked) | parts_of_the_study(study)
    return Page(
        title=settings.study.title,
        byline=f"Report of a study with irtbench {version}, {date}",
        description=[part for part in settings.study.description.split("\n\n") if part.strip()],
        lead=lead(scales),
        results=results_of(study),
        blocks=opening_blocks(study),
        removed=left,
        warnings=[*((f"Screening: {words}.",) for words in study.exclusions_by_ability), *warned],
        sections=[Section(anchor, title, blocks) for (anchor, title), blocks in parts.items()],
        version=version,
    )


def opening_blocks(study: Study) -> list[Block]:
    """The figure and the table next to the first sentences."""
    scales, scores = study.scales, study.system_scores
    retained = [scale.scale for scale in scales if scale.scale is not None]
    n_systems = 0 if scores is None else scores["respondent_id"].nunique()
    blocks: list[Block] = []
    if scores is not None and study.bank is not None:
        blocks += percentile_figures(scores, study.settings.scoring, study.bank.respondents)
    blocks += figure(
        scale_figures.position_panels(retained, scores, prose.unit_of_ability(scales)),
        words("abilities_of_respondents", n_systems=n_systems, most=scale_figures.MOST_POSITIONS),
    )
    in_numbers = pd.DataFrame(
        {
            "scale": scale.name,
            "n_kept": len(scale.pruning.kept),
            "n_given": scale.responses.n_items,
            "n_respondents": scale.n_respondents,
            "reliability": np.nan if scale.analysis is None else scale.analysis.reliability.marginal,
            "difficulty_span": "" if scale.scale is None else difficulty_span(scale.scale.items),
            "verdict": paper_tables.verdict(scale),
        }
        for scale in scales
    )
    return blocks + table(in_numbers, words("table_scale_numbers", people=prose.where_people_are(scales)))


def draw_curve_example(ax: Axes) -> Axes:
    """The item characteristic curve with a = 1, b = 0, c = .25, its parameters marked: Figure 1 of the paper."""
    item = ItemParameters.from_difficulty([1.0], [0.0], [0.25])
    middle, slope = float(icc(0.0, item)[0, 0]), 0.1875  # of the tangent at b: P' = a (1 - c) / 4
    dotted, tangent = {"color": GREY, "linestyle": ":"}, {"color": ORANGE, "linestyle": "-"}
    lines = [
        Series("", scale_figures.ABILITIES, icc(scale_figures.ABILITIES, item)[:, 0], look={"color": BLUE}),
        Series("", [0, 0, -4], [0, middle, middle], look=dotted),
        Series("", [-4, 4], [0.25, 0.25], look=DASHED),
        Series("", [-1.4, 1.4], [middle - 1.4 * slope, middle + 1.4 * slope], look=tangent),
        Series("", [0], [middle], look={"color": ORANGE, "marker": "o", "markersize": 6}),
    ]
    curve_plot(ax, lines, x=ABILITY_LABEL, y="probability correct", **scale_figures.PROBABILITIES)
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
    for which, row in paper_tables.fit_extremes(scales).iterrows():
        scale, item = by_name[row["scale"]], row["item_id"]
        fitted = scale.pruning.rounds[0].fitted
        data = scale.responses.select_items(fitted.items.item_ids).answered()
        theta = estimate_ability(data, fitted.items, quadrature=fitted.quadrature).theta
        panels.append(
            on_axes(
                f"{which}_fit", partial(draw_fit, curve=empirical_curve(data, fitted.items, item, theta)),
                heading=f"{str(which).capitalize()} fit: {item} ({scale.name}), S-X² {decimal(row['s_x2'])}, "
                f"df {row['df']}, p {p_value(row['p'])}, adjusted {p_value(row['p_adjusted'])}",
                description=f"Estimated and actual curve of item {item} of {scale.name}.",
                unit=prose.unit_of_ability(scales),
            )
        )  # fmt: skip
    return panels


def _vectors(scales: Sequence[ScaleStudy]) -> int:
    """Lines and dots of a panel, where all scales have one."""
    return min(VECTORS, max(60, 3 * VECTORS // max(len(scales), 1)))


def curve_panels(scales: Sequence[ScaleStudy]) -> list[Drawing]:
    """Item characteristic curves of each scale on which anything was fitted."""
    panels = []
    for scale in (scale for scale in scales if scale.pruning.rounds):
        kept, others = paper_tables.remaining_parameters(scale), paper_tables.removed_parameters(scale.pruning)
        word = "removed"
        if scale.pruning.rejected is not None:
            kept, others, word = kept.select([]), (*others, kept), "scale rejected"
        panels.append(
            on_axes(
                "curves", partial(scale_figures.draw_curves, kept=kept, others=others, others_are=word),
                heading=scale.name, vectors=_vectors(scales), unit=prose.unit_of_ability(scales),
                description=f"Item characteristic curves of {scale.name}: {plural(kept.n_items, 'item')} kept.",
            )
        )  # fmt: skip
    return panels


def parameter_panels(scales: Sequence[ScaleStudy], items: ItemTable) -> list[Drawing]:
    """Discrimination against difficulty of each scale on which anything was fitted."""
    status = paper_tables.item_status_table(scales, items)
    return [
        on_axes(
            "parameters",
            partial(scale_figures.draw_parameters, axes_for=status, status=status[status["scale"] == scale.name]),
            heading=scale.name, description=f"Difficulty and discrimination of the items of {scale.name}.",
            vectors=_vectors(scales),
        )
        for scale in scales
        if scale.pruning.rounds
    ]  # fmt: skip


def information_panels(scales: Sequence[ScaleStudy]) -> list[Drawing]:
    """Test information of all scales retained, in one panel; none if no scale is."""
    retained = {scale.name: scale.scale.items for scale in scales if scale.scale is not None}
    return [
        on_axes(
            "test_information", partial(scale_figures.draw_information, scales=retained),
            description=f"Test information of {', '.join(retained)} along ability.",
            height=HEIGHT + 0.2 * (len(retained) // 2), unit=prose.unit_of_ability(scales),
        )
    ] if retained else []  # fmt: skip


MOST_REMOVALS = 1_000  # rows
BELOW = {
    "normal": "share of the population",
    "empirical": "share of the screened respondents",
    "smoothed": "share of the population that the screened respondents represent",
}


def parts_of_scales(study: Study, linked: Set[str]) -> dict[tuple[str, str], list[Block]]:
    """What was found of items, abilities and scales, by anchor and title."""
    settings, scales, items, counted = study.settings, study.scales, study.items, study.dimensions
    adjustment = words("adjustment", rules=settings.pruning)
    retained = [scale.scale for scale in scales if scale.scale is not None]
    return {
        ("items", "Items"): all_items(scales, items, linked),
        ("scores", "Abilities"): abilities(study, settings.scoring),
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
            *paragraphs(item_details.options_in_words(scales)),
            *table(item_details.options_table(scales), words("table_options")),
        ],
        ("dimensions", "Number of abilities and guessing"): [
            *paragraphs(*prose.abilities(study.dimensions, study.no_dimensions)),
            *([] if counted is None else scree_figures(counted.analysis)),
            *(
                block
                for name, found in ({} if counted is None else paper_tables.tables_of_dimensions(counted)).items()
                for block in table(found, words(name))
            ),
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
    return {
        ("respondents", "Respondents"): [
            *table(study.outcomes.table(), words("table_screening")),
            *table(effect, words("table_screening_effect")),
        ],
        ("agreement", "Agreement"): [
            *paragraphs("" if answers is None else words("agreed", found=answers)),
            *table(paper_tables.agreement_table(answers, by_label), words("table_agreement")),
            *table(kappas, words("table_kappa")),
        ],
        ("method", "Method"): [
            *paragraphs(*prose.method(settings)),
            *one_panel(
                "example_curve", draw_curve_example,
                "An S-shaped curve that rises from 0.25 through 0.625 at ability 0 towards 1.",
            ),
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
    }  # fmt: skip


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
    read = words(
        "reading_scores", unit=prose.unit_of_ability(study.scales), below=BELOW[scoring.norm],
        group=group_in_words(scoring), level=scoring.level,
    )  # fmt: skip
    return [
        *paragraphs(prose.scored(study.system_scores)),
        *table(systems, words("table_systems", read=read)),
        *table(people, words("table_example_respondents", read=read)),
        *table(paper_tables.group_percentiles_table(study.group_percentiles), words("table_group_percentiles")),
    ]


def likeness(scores: pd.DataFrame | None, explained: Explanation | None, items: ItemTable) -> list[Block]:
    """Whether systems answer as people of their ability do: person fit, accuracy by difficulty, surprises."""
    if scores is None or explained is None:
        return []
    systems, most = prose.explained_systems(scores), prose.MOST_SURPRISES
    some = systems and len(systems) < scores["respondent_id"].nunique()
    blocks = paragraphs(words("least_like_people", n=len(systems)) if some else "")
    for system in systems:
        blocks += [
            Heading(system),
            *paragraphs(prose.likeness(scores, explained, system)),
            *table(prose.difficulty_table(explained, system), words("table_accuracy_by_difficulty", system=system)),
            *table(prose.surprises_table(explained, items, system), words("table_surprises", system=system, most=most)),
        ]
    return blocks


def all_items(scales: Sequence[ScaleStudy], items: ItemTable, linked: Set[str]) -> list[Block]:
    """Every item given, each with an address of its own; of many the doubtful ones, with those at linked addresses."""
    n_given = sum(scale.responses.n_items for scale in scales)
    found, details = item_details.items_of_study(scales, items, item_details.doubtful_items(scales, linked))
    written = write_table(found)
    asides = [heading.column in item_details.ASIDES for heading in written.headings]
    anchors = [item_anchor(item) for item in found["item_id"]]
    return [ItemsTable(words("table_items", n_given=n_given, n=len(found)), written, anchors, asides, details)]
