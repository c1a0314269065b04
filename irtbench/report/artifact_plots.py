"""What question-blind baselines get right, drawn; nothing is computed here."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from irtbench.evaluation.artifacts import Artifacts
from irtbench.report.plots import BLUE, ORANGE


def draw_baselines(ax: Axes, found: Artifacts) -> Axes:
    """Accuracy of each baseline beside that of a blind guess."""
    height = -np.arange(len(found.baselines))
    ax.barh(height, [baseline.accuracy for baseline in found.baselines], height=0.6, color=BLUE, label="accuracy")
    ax.axvline(found.baselines[0].chance, color=ORANGE, linestyle="--", label="chance")
    ax.set_yticks(height, labels=[baseline.name.replace("_", " ") for baseline in found.baselines])
    for place, baseline in zip(height, found.baselines, strict=True):
        ax.annotate(f" adjusted p {baseline.p_adjusted:.2g}", (baseline.accuracy, place), va="center")
    ax.set(xlabel="share of items right without the question", xlim=(0, 1.25))
    ax.set_xticks(np.linspace(0, 1, 6))
    ax.grid(visible=False, axis="y")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.01), ncols=2, borderaxespad=0)
    return ax
