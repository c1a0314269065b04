"""The reliability curve, drawn; nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes

from irtbench.evaluation.reliability import ReliabilityCurve
from irtbench.report.plots import COLOURS, GREY, LINE_STYLES

MARKERS = "osD^v"


def draw_reliability(ax: Axes, curves: Mapping[str, ReliabilityCurve]) -> Axes:
    """Observed against stated frequency of each model, a point a bin, with its interval; calibrated is the diagonal.

    Parameters
    ----------
    ax
        Where to draw.
    curves
        The curve of each model by its name.
    """
    ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1)
    entries, names = [], []
    for k, (name, curve) in enumerate(curves.items()):
        colour, style = COLOURS[k % len(COLOURS)], LINE_STYLES[k % len(LINE_STYLES)]
        ax.fill_between(curve.mean_predicted, curve.lower, curve.upper, color=colour, alpha=0.15, linewidth=0)
        entries += ax.plot(
            curve.mean_predicted,
            curve.observed_share,
            linestyle=style,
            color=colour,
            marker=MARKERS[k % len(MARKERS)],
            markersize=4,
        )
        names.append(name)
    ax.set(xlabel="stated probability (mean of bin)", ylabel="observed share", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    ax.set_aspect("equal")
    if len(curves) > 1:
        legend = ax.legend(entries, [str(k) for k in range(len(entries))], loc="upper left")
        # names come afterwards: as labels, those that begin with an underscore would be left out
        for entry, name in zip(legend.get_texts(), names, strict=True):
            entry.set(text=name, parse_math=False)
    return ax
