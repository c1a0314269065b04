"""A crowd drawn, with captions: who was kept and why not, how far answers agree, raters; and the page of raters."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from irtbench.estimation.raters.fitted_raters import FittedRaters
from irtbench.evaluation.agreement import Agreement
from irtbench.report.drawing import (
    BLUE,
    GREY,
    HEIGHT,
    Series,
    bar_plot,
    curve_plot,
    found_or_not,
    height_of,
    histogram,
    interval_plot,
    scatter_plot,
)
from irtbench.report.formatting import count, decimal, plural, words, write_table
from irtbench.report.page import Block, ItemsTable, Page, first_rows, how_to_read, one_panel, result_page, table

COEFFICIENTS = {
    "Fleiss’ κ": ("fleiss_kappa", "fleiss_lower", "fleiss_upper"),
    "Krippendorff’s α": ("krippendorff_alpha", "krippendorff_lower", "krippendorff_upper"),
    "Gwet’s AC1": ("gwet_ac1", "gwet_lower", "gwet_upper"),
}
MOST_RATERS = 40  # of whom each has a row; of more, quantiles
OF_RATERS = "rater_id n mean_score severity consistency infit outfit flags"  # columns of the page's tables
OF_RESPONDENTS = "respondent_id n_ratings n_raters mean_score theta fair_score"
OF_ITEMS = "item_id n mean_score discrimination difficulty infit outfit"


def draw_reasons(ax: Axes, reasons: Mapping[str, int]) -> Axes:
    """How many respondents were kept, and how many each rule removed (hatched)."""
    n, kept = np.array(list(reasons.values())), np.array([name == "kept" for name in reasons])
    rows = -np.arange(len(n))
    stacks = [Series("", rows, np.where(kept, n, 0), look={"color": BLUE}), Series("", rows, np.where(kept, 0, n))]
    for row, length in zip(rows, n, strict=True):
        ax.annotate(f" {length:,}", (length, row), va="center")
    ax.set_yticks(rows, labels=list(reasons), parse_math=False)
    return bar_plot(ax, stacks, x="respondents", y="", width=0.65, lying=True, xlim=(0, n.max() * 1.12))


def draw_agreement(ax: Axes, found: Mapping[str, Agreement]) -> Axes:
    """Agreement beyond chance on each set of items, three coefficients with their intervals."""
    sets = [
        Series(kind, x, None, lower, upper)
        for kind, names in COEFFICIENTS.items()
        for x, lower, upper in [[[getattr(one, name) for one in found.values()] for name in names]]
    ]
    interval_plot(ax, list(found), sets, label="agreement beyond chance (0) up to all alike (1)")
    ax.axvline(0, color=GREY, linewidth=0.8)
    return ax


def draw_item_agreement(ax: Axes, table: pd.DataFrame) -> Axes:
    """How many items have how large a share of their answers on the most frequent one; contradicted keys hatched.

    Parameters
    ----------
    ax
        Where to draw.
    table
        Columns ``share`` (of the most frequent answer) and ``contradicts_key``.
    """
    wrong = table["contradicts_key"].fillna(False).to_numpy(dtype=np.bool_)
    share = table["share"].to_numpy(dtype=np.float64)
    sets = [
        Series("majority is the key, or there is none", share[~wrong]),
        Series("majority contradicts the key", share[wrong]),
    ]
    label = "share of an item’s answers that are the most frequent one"
    return histogram(ax, sets, np.linspace(0, 1, 21), x=label, y="items")


def draw_severities(ax: Axes, raters: pd.DataFrame) -> Axes:
    """Raters by severity, with intervals; of many a line of all, ordered."""
    ordered = raters.sort_values("severity", ascending=False, kind="stable")
    x, lower, upper = (ordered[name].to_numpy() for name in ("severity", "severity_lower", "severity_upper"))
    label = "severity, logits (0: the average rater)"
    if len(ordered) > MOST_RATERS:
        share = (np.arange(len(ordered)) + 0.5) / len(ordered)
        curve = Series("", share, x[::-1], lower[::-1], upper[::-1])
        return curve_plot(
            ax, [curve, Series("", [0, 1], [0, 0], look={"color": GREY})], x="share of raters below", y=label
        )
    differs = ordered["flags"].str.contains("severe|lenient")
    parts = found_or_not(Series("", x, None, lower, upper), differs, ("severe or lenient", "near the average"))
    return interval_plot(ax, list(ordered["rater_id"]), parts, label=label, reference=0.0)


def draw_fair_scores(ax: Axes, scores: pd.DataFrame) -> Axes:
    """Fair scores against the mean scores that were given: off the diagonal where raters were severe or lenient."""
    given, fair, few = scores["mean_score"], scores["fair_score"], len(scores) <= MOST_RATERS
    lower, upper = (scores["fair_lower"], scores["fair_upper"]) if few else (None, None)
    dots = Series("", given, fair, lower, upper, {"markersize": 5 if few else 2})
    return scatter_plot(ax, [dots], x="mean score given", y="fair score", diagonal=True)


def screening_figures(reasons: Mapping[str, int]) -> list[Block]:
    """Of screening: how many respondents were kept, and how many each rule removed.

    Parameters
    ----------
    reasons
        Number of respondents by reason, ``kept`` among them.
    """
    ordered = {"kept": reasons.get("kept", 0)} | {name: n for name, n in reasons.items() if name != "kept"}
    description = "; ".join(f"{name}: {n}" for name, n in ordered.items()) + "."
    draw = partial(draw_reasons, reasons=ordered)
    return one_panel("screening", draw, description, height=height_of(len(ordered)))


def agreement_figures(overall: Agreement, by_label: Mapping[str, Agreement], items: pd.DataFrame) -> list[Block]:
    """Of agreement: coefficients over all items and by label, and the items' majorities.

    Parameters
    ----------
    overall, by_label
        Agreement on all items and on those of each label.
    items
        Contents of item_agreement.csv.
    """
    found = {"all": overall, **by_label}  # the one scale of items without labels is all of them
    return one_panel(
        "agreement", partial(draw_agreement, found=found),
        f"Agreement beyond chance on {plural(len(found), 'set')} of items.",
        height=height_of(len(found), each=3), level=overall.level,
    ) + one_panel(
        "item_agreement", partial(draw_item_agreement, table=items),
        f"Shares of the most frequent answer of {plural(len(items), 'item')}.",
    )  # fmt: skip


def facet_figures(found: FittedRaters) -> list[Block]:
    """Severities, and fair scores."""
    raters, scores = found.table(), found.scores()
    return one_panel(
        "severities", partial(draw_severities, raters=raters),
        f"Severity of {plural(len(raters), 'rater')} with intervals.",
        height=height_of(len(raters)) if len(raters) <= MOST_RATERS else HEIGHT,
    ) + one_panel(
        "fair_scores", partial(draw_fair_scores, scores=scores),
        f"Fair scores of {plural(len(scores), 'respondent')} against the mean scores given.",
    )  # fmt: skip


def chosen(rows: pd.DataFrame, columns: str) -> pd.DataFrame:
    """These columns with their intervals and errors, as far as they are there."""
    names = [f"{start}{name}{end}" for name in columns.split() for start, end in
             (("", ""), ("se_", ""), ("", "_lower"), ("", "_upper"))]  # fmt: skip
    return rows[[name for name in names if name in rows]]


def rater_page(found: FittedRaters, precision: pd.DataFrame) -> Page:
    """The page of ``irtbench crowd raters``."""
    raters, scores = found.table().sort_values("severity", ascending=False, kind="stable"), found.scores()
    named = raters[raters["flags"].str.contains("severe|lenient")]
    lead = (
        f"{plural(len(raters), 'rater')} of {plural(len(scores), 'respondent')}: severities have standard deviation "
        f"{decimal(found.rater_sd)} logits, {count(len(named))} differ from the average."
    )
    shown, others = first_rows(raters, "rater")
    ranked, more = first_rows(scores.sort_values("fair_score", ascending=False, kind="stable"), "respondent")
    of_groups = pd.DataFrame()
    if found.interactions is not None:
        of_groups = found.interactions.sort_values("p", kind="stable").head(MOST_RATERS)
        of_groups = of_groups.set_axis(["rater_id", "group", *of_groups.columns[2:]], axis=1)
    blocks = [
        *facet_figures(found),
        ItemsTable(words("table_raters", more=others), write_table(chosen(shown, OF_RATERS)), noun="rater",
                   words="rater, remark …"),
        *table(chosen(ranked, OF_RESPONDENTS), words("table_rated", more=more)),
        *table(chosen(found.item_rows(), OF_ITEMS), words("table_rated_items")),
        *table(precision, words("table_rating_precision")),
        *table(of_groups, words("table_rater_groups")),
        *how_to_read(
            "Severity is in logits: a rater of severity 1 above another has odds of the higher score smaller by "
            "2.7. The fair score is what an average rater is expected to give on all items; its interval holds the "
            "uncertainty of ability, raters and items.",
            "Infit and outfit are 1 for a rater who follows the model; above 1.5 the scores are erratic, below 0.5 "
            "they hardly vary beyond what the model expects.",
        ),
    ]  # fmt: skip
    return result_page("crowd raters", "Raters", lead, [], blocks, found.doubts)
