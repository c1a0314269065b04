"""Figure of explained difficulty; nothing is computed here."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from irtbench.analysis.explained_difficulty import ExplainedDifficulty
from irtbench.report.plots import BLUE, GREY, SKY


def draw_predictions(ax: Axes, found: ExplainedDifficulty) -> Axes:
    """Each item's difficulty against its prediction from a fit without it, with the interval of the prediction."""
    order = np.argsort(found.predicted)
    x, b = found.predicted[order], found.difficulty[order]
    ax.vlines(x, found.predicted_lower[order], found.predicted_upper[order], color=SKY, linewidth=2, alpha=0.4)
    ax.errorbar(x, b, yerr=found.se_difficulty[order], fmt="o", color=BLUE, markersize=4, elinewidth=0.8)
    ends = np.array([min(x.min(), b.min()), max(x.max(), b.max())])
    ax.plot(ends, ends, color=GREY, linewidth=0.8, linestyle="--")
    ax.set(xlabel="difficulty predicted from the features", ylabel="difficulty b as estimated")
    return ax
