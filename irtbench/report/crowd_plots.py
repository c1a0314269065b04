"""A crowd drawn: who was kept and why not, how far answers agree, what a plan promises; nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from irtbench.evaluation.agreement import Agreement
from irtbench.report.blocks import Block, figure
from irtbench.report.drawing import on_axes
from irtbench.report.formatting import plural
from irtbench.report.interval_plots import draw_several_intervals, height_of
from irtbench.report.plots import BLUE, GREY, ORANGE, SKY

if TYPE_CHECKING:
    from irtbench.analysis.crowd_plan import CrowdPlan

COEFFICIENTS = {
    "Fleiss’ κ": ("fleiss_kappa", "fleiss_lower", "fleiss_upper"),
    "Krippendorff’s α": ("krippendorff_alpha", "krippendorff_lower", "krippendorff_upper"),
    "Gwet’s AC1": ("gwet_ac1", "gwet_lower", "gwet_upper"),
}


def draw_reasons(ax: Axes, reasons: Mapping[str, int]) -> Axes:
    """How many respondents were kept, and how many each rule removed (hatched)."""
    names, counts = list(reasons), np.array(list(reasons.values()))
    height = -np.arange(len(names), dtype=np.float64)
    for place, name, n in zip(height, names, counts, strict=True):
        kept = name == "kept"
        ax.barh(place, n, height=0.65, color=BLUE if kept else "white", edgecolor=BLUE if kept else ORANGE,
                hatch="" if kept else "////")  # fmt: skip
        ax.annotate(f" {n:,}", (n, place), va="center")
    ax.set_yticks(height, labels=names, parse_math=False)
    ax.set(xlabel="respondents", xlim=(0, counts.max() * 1.12))
    ax.grid(visible=False, axis="y")
    return ax


def draw_agreement(ax: Axes, found: Mapping[str, Agreement]) -> Axes:
    """Agreement beyond chance on each set of items, three coefficients with their intervals."""
    sets = {
        kind: pd.DataFrame(
            [[getattr(one, name) for name in names] for one in found.values()], columns=["estimate", "lower", "upper"]
        )
        for kind, names in COEFFICIENTS.items()
    }
    draw_several_intervals(ax, list(found), sets, label="agreement beyond chance (0) up to all alike (1)")
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
    edges = np.linspace(0, 1, 21)
    below = np.zeros(edges.size - 1)
    for which, face, edge, hatch, words in (
        (~wrong, SKY, BLUE, "", "majority is the key, or there is none"),
        (wrong, "white", ORANGE, "////", "majority contradicts the key"),
    ):
        if which.any():
            n = np.histogram(share[which], bins=edges)[0]
            some = n > 0
            ax.bar(edges[:-1][some], n[some], width=0.05, bottom=below[some], align="edge", color=face,
                   edgecolor=edge, hatch=hatch, label=words)  # fmt: skip
            below = below + n
    ax.legend(loc="upper left")
    ax.set(xlabel="share of an item’s answers that are the most frequent one", ylabel="items", xlim=(0, 1.02))
    return ax


def draw_expected_errors(ax: Axes, plan: CrowdPlan) -> Axes:
    """Standard error of difficulty to expect of each item, by its difficulty; what was wanted dashed."""
    items = plan.items
    ax.plot(-items.intercept / items.discrimination, plan.precision.se_difficulty, "o", color=BLUE, markersize=4)
    if plan.settings.se_difficulty is not None:
        words = f"wanted for {plan.settings.share:.0%} of the items"
        ax.axhline(plan.settings.se_difficulty, color=GREY, linestyle="--", linewidth=1, label=words)
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1.01), borderaxespad=0)
    ax.set(xlabel="difficulty b", ylabel="standard error of b to expect", ylim=(0, None))
    return ax


def screening_figures(reasons: Mapping[str, int]) -> list[Block]:
    """Of screening: how many respondents were kept, and how many each rule removed.

    Parameters
    ----------
    reasons
        Number of respondents by reason, ``kept`` among them.
    """
    ordered = {"kept": reasons.get("kept", 0)} | {name: n for name, n in reasons.items() if name != "kept"}
    drawing = on_axes(
        "screening",
        lambda ax: draw_reasons(ax, ordered),
        description="; ".join(f"{name}: {n}" for name, n in ordered.items()) + ".",
        height=height_of(len(ordered)),
    )
    return figure(
        [drawing], "Respondents by outcome of the screening; each one removed stands with the first rule that applied."
    )


def agreement_figures(overall: Agreement, by_label: Mapping[str, Agreement], items: pd.DataFrame) -> list[Block]:
    """Of agreement: coefficients over all items and by label, and the items' majorities.

    Parameters
    ----------
    overall, by_label
        Agreement on all items and on those of each label.
    items
        Contents of item_agreement.csv.
    """
    found = {"all items": overall, **by_label}
    drawing = on_axes(
        "agreement",
        lambda ax: draw_agreement(ax, found),
        description=f"Agreement beyond chance on {plural(len(found), 'set')} of items.",
        height=height_of(len(found), each=3),
    )
    blocks = figure(
        [drawing],
        f"Agreement beyond chance, with {100 * overall.level:g}% intervals, the items being a sample. Among items of "
        "one label it is low however well people agree, for nearly all answers are the same.",
    )
    drawing = on_axes(
        "item_agreement",
        lambda ax: draw_item_agreement(ax, items),
        description=f"Shares of the most frequent answer of {plural(len(items), 'item')}.",
    )
    return blocks + figure([drawing], "Items by how many of their answers are the most frequent one.")
