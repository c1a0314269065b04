"""The scree plot: eigenvalues of the items beside those of independent items; nothing is computed here."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from irtbench.analysis.parallel_analysis import ParallelAnalysis
from irtbench.report.plots import COLOURS, GREY


def draw_scree(ax: Axes, analysis: ParallelAnalysis, *, most: int = 15) -> Axes:
    """Draw the first eigenvalues, those that speak for an ability filled, and the limit of chance.

    Parameters
    ----------
    ax
        Where to draw.
    analysis
        Result of `parallel_analysis`.
    most
        Number of eigenvalues shown.
    """
    shown = analysis.table().head(most)
    numbers, eigenvalues = shown["number"], shown["eigenvalue"]
    ax.plot(numbers, eigenvalues, color=COLOURS[0], linewidth=1.0)
    for is_ability, label in ((True, "abilities"), (False, "not above chance")):
        which = shown["ability"] == is_ability
        face = COLOURS[0] if is_ability else "white"
        ax.plot(numbers[which], eigenvalues[which], "o", color=COLOURS[0], markerfacecolor=face, label=label)
    limit = f"independent items, {analysis.percentile:g}th percentile"
    ax.plot(numbers, shown["chance_limit"], "--", color=GREY, label=limit)
    ax.set(xlabel="number", ylabel="eigenvalue", ylim=(0, None))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(loc="upper right")
    return ax
