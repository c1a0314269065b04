"""Systems drawn, and described in sentences: where they are among people, comparisons, predictions, adaptive tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from irtbench.bank.scale import Scale
from irtbench.report.drawing import (
    ABILITY_LABEL,
    COLOURS,
    DASHED,
    LINE_STYLES,
    MARKERS,
    ROW,
    Drawing,
    Series,
    curve_plot,
    height_of,
    interval_plot,
    on_axes,
    shortened,
)
from irtbench.report.evaluation_figures import draw_differences
from irtbench.report.formatting import decimal, plural, words
from irtbench.report.page import Block, Sentence, figure, one_panel
from irtbench.report.scale_figures import MOST_POSITIONS, draw_positions, position_panels, some_systems
from irtbench.scoring.adaptive_paths import AdaptivePaths
from irtbench.scoring.percentiles import as_given, why_not_compared
from irtbench.scoring.scores import ScoringSettings

MOST_PATHS = 3  # respondents
BAND = (0.1, 0.9)  # quantiles of the standard errors of many
MOST_ROWS = 40  # pairs in one panel
MOST_RANKED = 60  # systems in the figure of a ranking: all, or the first so many
FEW_SENTENCES, MOST_SENTENCES = 3, 12  # a system on a scale each; of more than few there is a figure
MOST_DESCRIBED = 24  # places in the description of the figure
AMONG = {
    "normal": "of the {people}",
    "empirical": "of the {people} of the norm sample",
    "smoothed": "of the {people} that the norm sample represents",
}


def draw_percentiles(ax: Axes, scores: pd.DataFrame, *, label: str) -> Axes:
    """Percentile of each system on each scale with its interval, a row a system, the highest on top."""
    values = ["percentile", "percentile_lower", "percentile_upper"]
    order = some_systems(scores.groupby("respondent_id")["percentile"].mean().to_frame(), by="percentile").index
    every = scores.pivot_table(index="respondent_id", columns="scale", values=values).reindex(order)
    scales = scores["scale"].unique()
    sets = [
        Series(str(scale) if len(scales) > 1 else "", own[0], None, own[1], own[2])
        for scale in scales
        for own in [[every[name][scale] for name in values]]
    ]
    return interval_plot(ax, list(every.index), sets, label=label, xlim=(-2, 102))


def percentile_figures(scores: pd.DataFrame, scoring: ScoringSettings, people: str = "") -> list[Block]:
    """Of scores: the percentile of each system on each scale; none of so few that a sentence each says it.

    Parameters
    ----------
    scores
        Rows of scores.csv.
    scoring, people
        See `place`.
    """
    given = as_given(scores)
    given = given[given["percentile"].notna()]
    if len(scores) <= FEW_SENTENCES or given.empty:
        return []
    n, n_scales = given["respondent_id"].nunique(), given["scale"].nunique()
    among = _among(scoring, people)
    return one_panel(
        "percentiles", partial(draw_percentiles, scores=given, label=f"better than so many percent {among}"),
        " ".join(place(row, scoring, people) for row in given.head(MOST_DESCRIBED).to_dict("records")),
        height=height_of(min(n, MOST_POSITIONS), each=n_scales), among=among, level=scoring.level, n=n,
        most=MOST_POSITIONS,
    )  # fmt: skip


def places(scores: pd.DataFrame, scoring: ScoringSettings, people: str = "") -> list[Sentence]:
    """A sentence on each system on each scale; where there are more, on those that the figure of percentiles lacks.

    Parameters
    ----------
    scores
        Rows of scores.csv.
    scoring
        How they were scored.
    people
        What the bank calls its respondents; people unless it does.
    """
    shown = scores if len(scores) <= FEW_SENTENCES else scores[as_given(scores)["percentile"].isna()]
    sentences: list[Sentence] = [
        (place(row, scoring, people),) for row in shown.head(MOST_SENTENCES).to_dict("records")
    ]
    if more := len(shown) - len(sentences):
        sentences.append((f"Nor is a percentile given to {plural(more, 'other')}; the table of scores says why.",))
    return sentences


def place(row: Mapping[Any, Any], scoring: ScoringSettings, people: str = "") -> str:
    """Where a system is among people, or why no percentile is given.

    Parameters
    ----------
    row
        Of scores.csv.
    scoring, people
        See `places`.
    """
    who, why = f"{row['respondent_id']} on {row['scale']}", why_not_compared(row)
    if why:
        return f"{who}: no percentile is given: {why.replace('lz* -', 'lz* −')}."
    if np.isnan(row["percentile"]):
        return f"{who}: ability {decimal(row['theta'])}; no percentile without a norm sample."
    ends = f"[{decimal(row['percentile_lower'], 0)}, {decimal(row['percentile_upper'], 0)}]"
    return f"{who} is better than {decimal(row['percentile'], 0)}% {ends} {_among(scoring, people)}."


def _among(scoring: ScoringSettings, people: str) -> str:
    return AMONG[scoring.norm].format(people=people or "people") + group_in_words(scoring)


def group_in_words(scoring: ScoringSettings) -> str:
    """The part of the norm sample that is compared with; empty where it is all of it."""
    return "" if scoring.norm_group is None else f" with {scoring.norm_group[0]} {scoring.norm_group[1]}"


def draw_paths(ax: Axes, found: AdaptivePaths) -> Axes:
    """Ability after each item of the first few respondents, with a standard error either way; filled where it rose."""
    lines = []
    for k, name in enumerate(found.respondent_ids[:MOST_PATHS]):
        path = found.paths[found.paths["respondent_id"] == name]
        step, theta, se = (path[column].to_numpy(dtype=np.float64) for column in ("step", "theta", "se"))
        rose = np.diff(theta, prepend=found.before) > 0
        line = {"color": COLOURS[k], "linestyle": LINE_STYLES[k], "linewidth": 1.2}
        dots = {"color": COLOURS[k], "linestyle": "none", "marker": MARKERS[k]}
        lines += [
            Series(name, step, theta, theta - se, theta + se, line),
            Series("", step[rose], theta[rose], look=dots),
            Series("", step[~rose], theta[~rose], look=dots | {"markerfacecolor": "white"}),
        ]
    return curve_plot(ax, lines, x="items asked", y=ABILITY_LABEL)


def draw_errors_by_step(ax: Axes, found: AdaptivePaths, *, wanted: float | None = None) -> Axes:
    """Standard error of ability after each item: median and the middle 80% of those whose test went so far.

    Parameters
    ----------
    ax
        Where to draw.
    found
        The adaptive tests.
    wanted
        The standard error at which they end, a dashed line; None for none.
    """
    by_step = found.paths.groupby("step")["se"]
    low, middle, high = (by_step.quantile(share).sort_index() for share in (BAND[0], 0.5, BAND[1]))
    steps = middle.index.to_numpy(dtype=np.float64)
    end = [Series(f"end at {wanted:g}", steps[[0, -1]], [wanted] * 2, look=DASHED)] if wanted else []
    lines = [Series("median, with the middle 80%", steps, middle, low, high, {"marker": "o", "markersize": 3}), *end]
    return curve_plot(ax, lines, x="items asked", y="standard error of θ", ylim=(0, None))


def draw_predicted(ax: Axes, table: pd.DataFrame) -> Axes:
    """Accuracy on the items seen and predicted on all; of many systems some, at even distances."""
    shown = some_systems(table, by="predicted_accuracy", most=MOST_ROWS)
    sets = [
        Series("predicted on all items", shown["predicted_accuracy"], None, shown["predicted_lower"],
               shown["predicted_upper"]),
        Series("on the items seen", shown["accuracy"]),
    ]  # fmt: skip
    return interval_plot(ax, list(shown["respondent_id"]), sets, label="accuracy")


def score_figures(scales: Sequence[Scale], scores: pd.DataFrame, *, level: float) -> list[Block]:
    """Of scores: where the systems are on each scale, among the norm sample where there is one.

    Parameters
    ----------
    scales
        Of the bank.
    scores
        Contents of scores.csv.
    level
        Coverage of the intervals.
    """
    panels = position_panels(scales, scores, "")
    without = [scale for scale in scales if scale.norms is None]
    for scale in without:
        own = some_systems(scores[(scores["scale"] == scale.name) & scores["theta"].notna()])
        panels += [_positions("abilities", scale.name, own)] if len(own) else []
    n, norms = scores["respondent_id"].nunique(), len(without) < len(scales)
    return figure(panels, words("abilities", level=level, norms=norms, n=n, most=MOST_POSITIONS))


def _positions(name: str, scale: str, own: pd.DataFrame) -> Drawing:
    return on_axes(
        name, partial(draw_positions, scores=own), heading=scale, height=0.9 + ROW * (len(own) + 1),
        description=f"Abilities of {plural(len(own), 'system')}{f' on {scale}' if scale else ''}.",
    )  # fmt: skip


def comparison_figures(comparison: pd.DataFrame, ranking: pd.DataFrame | None, *, level: float) -> list[Block]:
    """Of comparisons: the ranking, and differences in accuracy and in ability of each pair.

    Parameters
    ----------
    comparison, ranking
        Contents of comparison.csv and of ranking.csv; None without a bank.
    level
        Coverage of the intervals.
    """
    blocks: list[Block] = []
    labels = {"accuracy": "difference in accuracy", "theta": "difference in ability θ"}
    for what, table in {"ranking": ranking, "accuracy": comparison, "theta": comparison}.items():
        if table is None or (what in labels and f"{what}_difference" not in table):
            continue
        each, label = list(table.groupby("scale", sort=False)), labels.get(what, "")
        alone, n = len(each) == 1, max(len(rows) for _, rows in each)
        panels = [
            _differences(str(scale), rows, what, label, level, alone=alone) if label
            else _positions("ranking", "" if alone else str(scale), rows.head(MOST_RANKED))
            for scale, rows in each
        ]  # fmt: skip
        caption, most = ("differences", MOST_ROWS) if label else ("ranking", MOST_RANKED)
        blocks += figure(panels, words(caption, what=label, n=n, most=most, level=level))
    return blocks


def _differences(scale: str, rows: pd.DataFrame, what: str, label: str, level: float, *, alone: bool) -> Drawing:
    n_pairs = len(rows)
    if n_pairs > MOST_ROWS:  # those that differ most, and say so
        rows = rows.reindex(rows[f"{what}_p_adjusted"].sort_values(kind="stable").index).head(MOST_ROWS)
    table = rows.rename(columns={f"{what}_{part}": part for part in ("difference", "lower", "upper", "p_adjusted")})
    names = [
        f"{shortened(a, most=20)} − {shortened(b, most=20)}" for a, b in zip(rows["first"], rows["second"], strict=True)
    ]
    some = f" The {MOST_ROWS} pairs of least p of {n_pairs:,}." if n_pairs > MOST_ROWS else ""
    description = "".join(
        f" {first} less {second}: {decimal(value)}."
        for first, second, value in rows[["first", "second", f"{what}_difference"]].head(12).itertuples(index=False)
    )
    return on_axes(
        f"{what}_differences", partial(draw_differences, table=table, names=names, label=label, alpha=1 - level),
        heading="" if alone else scale, height=height_of(len(rows)),
        description=f"{label[0].upper()}{label[1:]} on {scale}.{some}{description}",
    )  # fmt: skip


def prediction_figures(table: pd.DataFrame, *, level: float) -> list[Block]:
    """Of predictions: accuracy on the items seen and the accuracy predicted on all.

    Parameters
    ----------
    table
        Contents of prediction.csv.
    level
        Coverage of the intervals.
    """
    n = min(len(table), MOST_ROWS)
    return one_panel(
        "predicted_accuracy", partial(draw_predicted, table=table), f"Predicted accuracy of {plural(n, 'system')}.",
        height=height_of(n, each=2), level=level,
    )  # fmt: skip


def adaptive_figures(found: AdaptivePaths, *, wanted: float | None) -> list[Block]:
    """Of adaptive tests: ability step by step, and how its error falls.

    Parameters
    ----------
    found
        The tests.
    wanted
        The standard error at which they end; None for none.
    """
    if found.paths.empty:
        return []
    errors = partial(draw_errors_by_step, found=found, wanted=wanted)
    return [
        *one_panel(
            "paths", partial(draw_paths, found=found), "Ability after each item asked.", caption="adaptive_paths"
        ),
        *one_panel("errors_by_step", errors, "The standard error falls with each item."),
    ]
