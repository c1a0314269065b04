"""Figures of commands that look at a crowd, with their captions: screen, agree."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from irtbench.evaluation.agreement import Agreement
from irtbench.report.blocks import Block, figure
from irtbench.report.crowd_plots import draw_agreement, draw_item_agreement, draw_reasons
from irtbench.report.drawing import on_axes
from irtbench.report.formatting import plural
from irtbench.report.interval_plots import height_of


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
