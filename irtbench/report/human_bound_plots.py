"""Human accuracy and its bounds, drawn; nothing is computed here."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from irtbench.evaluation.human_bound import CrowdFilter, HumanAccuracy
from irtbench.report.plots import BLUE, GREEN, GREY, ORANGE, SKY


def draw_crowd_filter(ax: Axes, result: CrowdFilter) -> Axes:
    """How many items got how many right votes, those that pass dark."""
    most = int(result.n_votes.max(initial=0))
    edges = np.arange(most + 2) - 0.5
    votes = [result.n_correct[result.kept], result.n_correct[~result.kept]]
    names = [f"kept ({votes[0].size})", f"not kept ({votes[1].size})"]
    ax.hist(votes, bins=edges.tolist(), stacked=True, color=[BLUE, SKY], label=names, rwidth=0.85)
    ax.set(xlabel="right votes", ylabel="items")
    ax.set_xticks(range(most + 1))
    ax.legend()
    return ax


def draw_human_accuracy(ax: Axes, sets: dict[str, HumanAccuracy]) -> Axes:
    """Accuracy on each set of items with Wilson's and the bootstrap's interval, and Hoeffding's lower bound.

    Parameters
    ----------
    ax
        Where to draw.
    sets
        The accuracy on each set of items by its name.
    """
    height = -np.arange(len(sets), dtype=np.float64)
    found = list(sets.values())
    accuracy = np.array([human.accuracy for human in found])
    for shift, name, colour, lower, upper in (
        (0.15, "bootstrap over items", BLUE, "bootstrap_lower", "bootstrap_upper"),
        (-0.15, "Wilson", ORANGE, "wilson_lower", "wilson_upper"),
    ):
        low, high = (np.array([getattr(human, side) for human in found]) for side in (lower, upper))
        errors = np.maximum([accuracy - low, high - accuracy], 0.0)  # an end may miss the accuracy by rounding
        ax.errorbar(accuracy, height + shift, xerr=errors, fmt="o", color=colour, markersize=4, capsize=3, label=name)
    bound = [human.hoeffding_lower for human in found]
    ax.plot(bound, height, "|", color=GREEN, markersize=12, markeredgewidth=2, linestyle="none",
            label="Hoeffding, lower bound")  # fmt: skip
    for place, human in zip(height, found, strict=True):
        ax.annotate(f"{100 * human.confidence:.6g}%", (human.hoeffding_lower, place + 0.28), ha="center", color=GREY)
    ax.set_yticks(height, labels=list(sets), parse_math=False)
    ax.set(xlabel="human accuracy", ylim=(height[-1] - 0.6, 0.6))
    ax.grid(visible=False, axis="y")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.01), ncols=3, borderaxespad=0)
    return ax
