"""Figures and the page of ratings: raters by severity with intervals, and fair scores."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from irtbench.estimation.raters.fitted_raters import FittedRaters
from irtbench.report.blocks import Block, Text, figure, table
from irtbench.report.drawing import on_axes
from irtbench.report.formatting import count, decimal, plural
from irtbench.report.interval_plots import draw_intervals, height_of
from irtbench.report.page import Page
from irtbench.report.plots import BLUE, GREY
from irtbench.report.result_page import first_rows, how_to_read, result_page

RASTERED = 2000  # dots from which on they are no vectors
MOST_RATERS = 40  # of whom each has a row; of more, quantiles
WIDTH, HEIGHT = 6.4, 4.4  # inches
OF_RATERS = "rater_id n mean_score severity consistency infit outfit flags"  # columns of the page's tables
OF_RESPONDENTS = "respondent_id n_ratings n_raters mean_score theta fair_score"
OF_ITEMS = "item_id n mean_score discrimination difficulty infit outfit"


def chosen(rows: pd.DataFrame, columns: str) -> pd.DataFrame:
    """These columns with their intervals and errors, as far as they are there."""
    names = [f"{start}{name}{end}" for name in columns.split() for start, end in
             (("", ""), ("se_", ""), ("", "_lower"), ("", "_upper"))]  # fmt: skip
    return rows[[name for name in names if name in rows]]


def draw_severities(ax: Axes, raters: pd.DataFrame) -> Axes:
    """Raters by severity, with intervals; of many a line of all, ordered."""
    ordered = raters.sort_values("severity", ascending=False, kind="stable")
    label = "severity, logits (0: the average rater)"
    if len(ordered) <= MOST_RATERS:
        found = ordered["flags"].str.contains("severe|lenient").to_numpy()
        return draw_intervals(
            ax, list(ordered["rater_id"]), ordered["severity"], ordered["severity_lower"], ordered["severity_upper"],
            label=label, found=found, legend=("severe or lenient", "near the average"), reference=0.0,
        )  # fmt: skip
    share = (np.arange(len(ordered)) + 0.5)[::-1] / len(ordered)
    ax.fill_betweenx(share, ordered["severity_lower"], ordered["severity_upper"], color=BLUE, alpha=0.2, linewidth=0)
    ax.plot(ordered["severity"], share, color=BLUE)
    ax.axvline(0.0, color=GREY, linewidth=0.8)
    ax.set(xlabel=label, ylabel="share of raters below", ylim=(0, 1))
    return ax


def draw_fair_scores(ax: Axes, scores: pd.DataFrame) -> Axes:
    """Fair scores against the mean scores that were given: off the diagonal where raters were severe or lenient."""
    given, fair = scores["mean_score"], scores["fair_score"]
    ends = [min(given.min(), fair.min()), max(given.max(), fair.max())]
    ax.plot(ends, ends, color=GREY, linewidth=0.8, linestyle="--")
    if len(scores) <= MOST_RATERS:
        ax.vlines(given, scores["fair_lower"], scores["fair_upper"], color=BLUE, linewidth=1.0)
    ax.plot(
        given, fair, "o", color=BLUE, markersize=5 if len(scores) <= MOST_RATERS else 2, rasterized=len(scores) > 2000
    )
    ax.set(xlabel="mean score given", ylabel="fair score")
    return ax


def facet_figures(found: FittedRaters) -> list[Block]:
    """Severities, and fair scores."""
    raters, scores = found.table(), found.scores()
    few = len(raters) <= MOST_RATERS
    severities = on_axes(
        "severities", lambda ax: draw_severities(ax, raters),
        description=f"Severity of {plural(len(raters), 'rater')} with intervals.",
        width=WIDTH, height=height_of(len(raters)) if few else HEIGHT,
    )  # fmt: skip
    fair = on_axes(
        "fair_scores", lambda ax: draw_fair_scores(ax, scores),
        description=f"Fair scores of {plural(len(scores), 'respondent')} against the mean scores given.",
        width=WIDTH, height=HEIGHT,
    )  # fmt: skip
    return [
        *figure([severities], "Severity of each rater with its 95% interval: above 0 the rater gives lower scores."),
        *figure([fair], "Fair scores, what an average rater would have given, against the mean scores that were given: "
                "above the diagonal where raters were severe; of few ratings nearer to the mean."),
    ]  # fmt: skip


def rater_page(found: FittedRaters, precision: pd.DataFrame) -> Page:
    """The page of ``irtbench crowd raters``."""
    raters, scores = found.table().sort_values("severity", ascending=False, kind="stable"), found.scores()
    named = raters[raters["flags"].str.contains("severe|lenient")]
    lead = (
        f"{plural(len(raters), 'rater')} of {plural(len(scores), 'respondent')}: severities have standard deviation "
        f"{decimal(found.rater_sd)} logits, {count(len(named))} differ from the average."
    )
    shown, said = first_rows(raters, "rater")
    ranked, more = first_rows(scores.sort_values("fair_score", ascending=False, kind="stable"), "respondent")
    of_groups = pd.DataFrame()
    if found.interactions is not None:
        of_groups = found.interactions.sort_values("p", kind="stable").head(MOST_RATERS)
        of_groups = of_groups.set_axis(["rater_id", "group", *of_groups.columns[2:]], axis=1)
    blocks = [
        *(Text(doubt) for doubt in found.doubts),
        *facet_figures(found),
        *table(chosen(shown, OF_RATERS), f"Raters, the most severe first.{said}"),
        *table(chosen(ranked, OF_RESPONDENTS), f"Respondents by fair score.{more}"),
        *table(chosen(found.item_rows(), OF_ITEMS), "Items, as an average rater grades them."),
        *table(precision, "What so many ratings of a respondent by average raters buy."),
        *(table(of_groups, "Raters' additional severity for groups, the smallest p first.")),
        *how_to_read(
            "Severity is in logits: a rater of severity 1 above another has odds of the higher score smaller by "
            "2.7. The fair score is what an average rater is expected to give on all items; its interval holds the "
            "uncertainty of ability, raters and items.",
            "Infit and outfit are 1 for a rater who follows the model; above 1.5 the scores are erratic, below 0.5 "
            "they hardly vary beyond what the model expects.",
        ),
    ]  # fmt: skip
    return result_page("raters", "Raters", lead, [], blocks)
