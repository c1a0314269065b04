"""Crowds and graded outputs drawn, with captions: screening, agreement, raters; power, breakdown, consistency,
calibration, human bound, artifacts, event counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, NullFormatter

import irtbench.evaluation
from irtbench.estimation.raters.fitted_raters import FittedRaters
from irtbench.evaluation.agreement import Agreement
from irtbench.evaluation.human_bound import CrowdFilter, HumanAccuracy
from irtbench.evaluation.reliability import ReliabilityCurve
from irtbench.report.drawing import (
    BLUE,
    DASHED,
    GREEN,
    GREY,
    HEIGHT,
    MARKERS,
    SKY,
    WIDTH,
    Series,
    bar_plot,
    curve_plot,
    found_plot,
    height_of,
    histogram,
    interval_plot,
    on_axes,
)
from irtbench.report.formatting import count, plural, words
from irtbench.report.page import Block, figure, one_panel

LOWEST_P = 1e-4  # shown
ALPHA = 0.05  # unless given
COEFFICIENTS = {
    "Fleiss’ κ": ("fleiss_kappa", "fleiss_lower", "fleiss_upper"),
    "Krippendorff’s α": ("krippendorff_alpha", "krippendorff_lower", "krippendorff_upper"),
    "Gwet’s AC1": ("gwet_ac1", "gwet_lower", "gwet_upper"),
}
MOST_RATERS = 40  # of whom each has a row; of more, quantiles


def draw_shares(ax: Axes, table: pd.DataFrame, *, rows: str, share: str, label: str) -> Axes:
    """Shares of each system with their intervals, a group of points for each row.

    Parameters
    ----------
    ax
        Where to draw.
    table
        Columns ``respondent_id, lower, upper`` and the two named here, every system with the same rows; the share lies
        between the two.
    rows
        The column that names the rows, such as ``type``.
    share
        The column of the share, such as ``accuracy``.
    label
        Of the axis of shares.
    """
    names = list(pd.unique(table[rows]))
    sets = [
        Series(str(system), own[share], None, own["lower"], own["upper"])
        for system, of in table.groupby("respondent_id", sort=False)
        for own in [of.set_index(rows).loc[names]]
    ]
    return interval_plot(ax, names, sets, label=label, xlim=(-0.02, 1.02))


def draw_baselines(ax: Axes, found: irtbench.evaluation.Artifacts) -> Axes:
    """Accuracy of each baseline and of a blind guess."""
    rows, accuracy = -np.arange(len(found.baselines)), [baseline.accuracy for baseline in found.baselines]
    for place, baseline in zip(rows, found.baselines, strict=True):
        ax.annotate(f" adjusted p {baseline.p_adjusted:.2g}", (baseline.accuracy, place), va="center")
    return bar_plot(
        ax, [Series("accuracy", rows, accuracy, look={"color": BLUE})], x="share of items right without the question",
        y="", width=0.6, lying=True, mark=(found.baselines[0].chance, "chance"), xlim=(0, 1.35),
        xticks=np.linspace(0, 1, 6), yticks=rows,
        yticklabels=[baseline.name.replace("_", " ") for baseline in found.baselines],
    )  # fmt: skip


def draw_reliability(ax: Axes, curves: Mapping[str, ReliabilityCurve]) -> Axes:
    """Observed against stated frequency of each model, a point a bin, with its interval; calibrated is the diagonal.

    Parameters
    ----------
    ax
        Where to draw.
    curves
        The curve of each model by its name.
    """
    lines = [
        Series(
            name if len(curves) > 1 else "", curve.mean_predicted, curve.observed_share, curve.lower, curve.upper,
            {"marker": MARKERS[k % len(MARKERS)]},
        )
        for k, (name, curve) in enumerate(curves.items())
    ]  # fmt: skip
    lines.append(Series("", [0, 1], [0, 1], look=DASHED))
    return curve_plot(
        ax, lines, x="stated probability (mean of bin)", y="observed share", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02),
        aspect="equal",
    )  # fmt: skip


def draw_event_counts(ax: Axes, table: pd.DataFrame) -> Axes:
    """Mean count of each entity's events over the periods, with the band of its interval.

    Parameters
    ----------
    ax
        Where to draw.
    table
        As ``EventCounts.table`` gives it.
    """
    lines = [
        Series(str(name), range(len(rows)), rows["mean"], rows["lower"], rows["upper"], {"marker": "o"})
        for name, rows in table.groupby("entity", sort=False)
    ]
    periods = table["period"].drop_duplicates().tolist()
    curve_plot(ax, lines, x="period", y="events").set_xticks(range(len(periods)), labels=periods, parse_math=False)
    return ax


def draw_expected_p(ax: Axes, table: pd.DataFrame, *, n_items: int, alpha: float) -> Axes:
    """Expected p against the size of the effect for one set size, a line for each share of items hurt.

    Parameters
    ----------
    ax
        Where to draw.
    table
        Columns ``n_items, hurt, effect, p``.
    n_items
        The set size to draw.
    alpha
        The level, drawn as a horizontal line.
    """
    most = 102 * np.max(table["effect"])
    lines = [
        Series(f"{100 * float(str(hurt)):g}% hurt", 100 * of["effect"], of["p"], look={"marker": "o", "markersize": 3})
        for hurt, of in table[table["n_items"] == n_items].groupby("hurt")
    ]
    lines.append(Series("", [0, most], [alpha, alpha], look=DASHED))
    curve_plot(
        ax, lines, x="difference in accuracy (points)", y="expected p", yscale="log", ylim=(LOWEST_P, 1),
        xlim=(0, most),
    )  # fmt: skip
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter(NullFormatter())
    return ax


def draw_crowd_filter(ax: Axes, result: CrowdFilter) -> Axes:
    """How many items got how many right votes, those that pass dark."""
    places = np.arange(int(result.n_votes.max(initial=0)) + 1)
    stacks = [
        Series(f"{word} ({which.sum()})", places,
               np.bincount(result.n_correct[which].astype(int), minlength=places.size),
               look={"color": colour, "edgecolor": "white", "hatch": ""})
        for word, which, colour in (("kept", result.kept, BLUE), ("not kept", ~result.kept, SKY))
    ]  # fmt: skip
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    return bar_plot(ax, stacks, x="right votes", y="items", width=0.85, xlim=(-0.6, places[-1] + 0.6))


def draw_human_accuracy(ax: Axes, sets: Mapping[str, HumanAccuracy]) -> Axes:
    """Accuracy on each set of items with Wilson's and the bootstrap's interval, and Hoeffding's lower bound.

    Parameters
    ----------
    ax
        Where to draw.
    sets
        The accuracy on each set of items by its name.
    """
    found = list(sets.values())
    accuracy, bound = [one.accuracy for one in found], [one.hoeffding_lower for one in found]
    series = [
        Series(name, accuracy, None, lower, upper)
        for name, kind in (("bootstrap over items", "bootstrap"), ("Wilson", "wilson"))
        for lower, upper in [[[getattr(one, f"{kind}_{end}") for one in found] for end in ("lower", "upper")]]
    ]
    mark = {"color": GREEN, "marker": "|", "markersize": 12, "markeredgewidth": 2}
    series.append(Series("Hoeffding, lower bound", bound, look=mark))
    interval_plot(ax, list(sets), series, label="human accuracy")
    for row, one in enumerate(found):
        ax.annotate(f"  {100 * one.confidence:.6g}%", (one.hoeffding_lower, -0.2 - row), va="center", color=GREY)
    return ax


def draw_differences(ax: Axes, table: pd.DataFrame, *, names: Sequence[str], label: str, alpha: float = ALPHA) -> Axes:
    """Differences with their intervals, one under the other; filled where the adjusted p is at most alpha.

    Parameters
    ----------
    ax
        Where to draw.
    table
        Columns ``difference, lower, upper, p_adjusted``, at least one row.
    names
        The name of each row.
    label
        Of the axis of differences.
    alpha
        Adjusted p up to which a difference is drawn as found.
    """
    every = Series("", table["difference"], None, table["lower"], table["upper"])
    words = f"adjusted p ≤ {alpha:g}", f"adjusted p > {alpha:g}"
    return found_plot(ax, names, every, table["p_adjusted"] <= alpha, words, label=label)


def power_figures(table: pd.DataFrame, *, sizes: Sequence[int], alpha: float) -> list[Block]:
    """Of power: the expected p of a difference, a figure for each set size."""
    return figure(
        [
            on_axes(
                f"power_{n}", partial(draw_expected_p, table=table, n_items=n, alpha=alpha),
                heading=f"{count(n)} items", description=f"Expected p of a difference on {count(n)} items.",
            )
            for n in dict.fromkeys(sizes)
        ],
        words("power", alpha=alpha),
    )  # fmt: skip


def breakdown_figures(accuracy: pd.DataFrame, advantage: pd.DataFrame | None) -> list[Block]:
    """Of a breakdown: accuracy by type, and the advantage of each pair.

    Parameters
    ----------
    accuracy, advantage
        Contents of breakdown.csv, of as many systems as one figure holds, and of advantage.csv; None without pairs.
    """
    n_types = accuracy["type"].nunique()
    pairs = [] if advantage is None else list(advantage.groupby(["first", "second"], sort=False))
    panels = [
        on_axes(
            f"advantage_{number}",
            partial(
                draw_differences,
                # the row over all items is a test of its own, its p not adjusted
                table=rows.rename(columns={"advantage": "difference"}).assign(
                    p_adjusted=rows["permutation_p_adjusted"].fillna(rows["permutation_p"])
                ),
                names=list(rows["type"]), label="advantage of {} over {}".format(*pair),
            ),
            description="Advantage of {} over {} by type of item.".format(*pair), height=height_of(len(rows)),
        )
        for number, (pair, rows) in enumerate(pairs, start=1)
    ]  # fmt: skip
    return one_panel(
        "breakdown", partial(draw_shares, table=accuracy, rows="type", share="accuracy", label="accuracy"),
        f"Accuracy on {plural(n_types, 'type')} of items.", height=height_of(n_types, each=len(accuracy) // n_types),
    ) + figure(panels, words("advantage"))  # fmt: skip


def consistency_figures(measures: pd.DataFrame, *, n_measures: int) -> list[Block]:
    """Of switched items: each measure of each system.

    Parameters
    ----------
    measures
        Contents of consistency.csv, of as many systems as one figure holds.
    n_measures
        How many measures there are.
    """
    return one_panel(
        "consistency", partial(draw_shares, table=measures, rows="measure", share="share", label="share of items"),
        f"{plural(n_measures, 'measure')} of each system.",
        height=height_of(n_measures, each=len(measures) // n_measures),
    )  # fmt: skip


def calibration_figures(curves: Mapping[str, ReliabilityCurve]) -> list[Block]:
    """Of calibration: the reliability curves."""
    return one_panel(
        "reliability", partial(draw_reliability, curves=curves),
        f"Reliability curves of {plural(len(curves), 'system')}.", height=WIDTH, caption="reliability_curves",
    )  # fmt: skip


def bound_figures(result: CrowdFilter, people: Mapping[str, HumanAccuracy]) -> list[Block]:
    """Of the human bound: the votes, and human accuracy with its bounds."""
    return [
        *one_panel(
            "crowd_filter", partial(draw_crowd_filter, result=result),
            f"Right votes of the items; {int(result.kept.sum())} pass.",
        ),
        *one_panel(
            "human_bound", partial(draw_human_accuracy, sets=people), "Human accuracy with its intervals.",
            height=height_of(len(people), each=3) + 0.4,
        ),
    ]  # fmt: skip


def artifact_figures(result: irtbench.evaluation.Artifacts) -> list[Block]:
    """Of artifacts: what the baselines get right."""
    return one_panel(
        "artifacts", partial(draw_baselines, found=result),
        f"Accuracy of {plural(len(result.baselines), 'baseline')} that do not see the question.", height=2.6,
    )  # fmt: skip


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
    return histogram(
        ax,
        [
            Series("majority is the key, or there is none", share[~wrong]),
            Series("majority contradicts the key", share[wrong]),
        ],
        np.linspace(0, 1, 21), x="share of an item’s answers that are the most frequent one", y="items",
    )  # fmt: skip


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
    return found_plot(
        ax, list(ordered["rater_id"]), Series("", x, None, lower, upper),
        ordered["flags"].str.contains("severe|lenient"), ("severe or lenient", "near the average"), label=label,
    )  # fmt: skip


def draw_fair_scores(ax: Axes, scores: pd.DataFrame) -> Axes:
    """Fair scores against the mean scores that were given: off the diagonal where raters were severe or lenient."""
    given, fair, few = scores["mean_score"], scores["fair_score"], len(scores) <= MOST_RATERS
    lower, upper = (scores["fair_lower"], scores["fair_upper"]) if few else (None, None)
    dots = Series("", given, fair, lower, upper, {"markersize": 5 if few else 2})
    return curve_plot(ax, [dots], x="mean score given", y="fair score", dots=True, diagonal=True)


def screening_figures(reasons: Mapping[str, int]) -> list[Block]:
    """Of screening: how many respondents were kept, and how many each rule removed.

    Parameters
    ----------
    reasons
        Number of respondents by reason, ``kept`` among them.
    """
    ordered = {"kept": reasons.get("kept", 0)} | {name: n for name, n in reasons.items() if name != "kept"}
    return one_panel(
        "screening", partial(draw_reasons, reasons=ordered),
        "; ".join(f"{name}: {n}" for name, n in ordered.items()) + ".", height=height_of(len(ordered)),
    )  # fmt: skip


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
