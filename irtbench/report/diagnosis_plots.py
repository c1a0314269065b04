"""Diagnostics of a fit, drawn: dependence of pairs, person fit, loadings; nothing is computed here."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from irtbench.report.interval_plots import shortened
from irtbench.report.plots import ORANGE, SKY

MOST_NAMED = 40  # items whose names stand at the axes
UNLIKELY = -1.645  # lz* that one person in twenty is below


def draw_dependence(ax: Axes, pairs: pd.DataFrame) -> Axes:
    """Residual correlation Q3 of every two items, less the mean of all: dark is far from 0; its sign is in the square.

    Parameters
    ----------
    ax
        Where to draw.
    pairs
        Rows of local_dependence.csv.
    """
    names = list(dict.fromkeys([*pairs["item_1"], *pairs["item_2"]]))
    place = {name: k for k, name in enumerate(names)}
    q3 = np.full((len(names), len(names)), np.nan)
    first, second = (pairs[name].map(place).to_numpy() for name in ("item_1", "item_2"))
    q3[second, first] = pairs["q3_centred"].to_numpy(dtype=np.float64)
    most = max(0.2, float(np.nanmax(np.abs(q3), initial=0.0)))
    image = ax.imshow(np.abs(q3), cmap="Greys", vmin=0, vmax=most, aspect="equal", interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label="distance of Q3 from its mean", shrink=0.8)
    negative = np.argwhere((q3 < 0) & (np.abs(q3) > most / 4))
    ax.plot(negative[:, 1], negative[:, 0], "_", color=ORANGE, markersize=min(6.0, 160 / len(names)))
    ax.grid(visible=False)
    if len(names) <= MOST_NAMED:
        words = [shortened(name, most=16) for name in names]
        ax.set_xticks(range(len(names)), labels=words, rotation=90, fontsize=7, parse_math=False)
        ax.set_yticks(range(len(names)), labels=words, fontsize=7, parse_math=False)
        ax.set(xlabel="item")
    else:
        ax.set(xticks=[], yticks=[], xlabel=f"{len(names)} items", ylabel=f"{len(names)} items")
    return ax


def draw_person_fit(ax: Axes, lz_star: NDArray[np.float64]) -> Axes:
    """Histogram of lz*; one person in twenty is expected left of the dashed line."""
    known = lz_star[np.isfinite(lz_star)]
    low, high = (min(-3.0, float(known.min(initial=0))), max(3.0, float(known.max(initial=0))))
    edges = np.arange(np.floor(4 * low), np.ceil(4 * high) + 1) / 4
    ax.hist(known, bins=edges.tolist(), color=SKY, edgecolor="white", linewidth=0.5)
    share = (known < UNLIKELY).mean() if known.size else 0.0
    ax.axvline(UNLIKELY, color=ORANGE, linestyle="--", label=f"{share:.1%} below −1.645 (5% expected)")
    ax.set(xlabel="person fit lz*", ylabel="respondents")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.01), borderaxespad=0)
    return ax


def draw_loadings(ax: Axes, items: pd.DataFrame, columns: list[str]) -> Axes:
    """Loadings of each item on each ability as squares, dark where large; a minus marks negative ones.

    Parameters
    ----------
    ax
        Where to draw.
    items
        A row an item with its ``item_id``.
    columns
        The columns of loadings, or of slopes.
    """
    loadings = items[columns].to_numpy(dtype=np.float64)
    image = ax.imshow(np.abs(loadings), cmap="Greys", vmin=0, aspect="auto", interpolation="nearest")
    what = "loading" if columns[0].startswith("loading") else "slope"
    ax.figure.colorbar(image, ax=ax, label=f"size of the {what}", shrink=0.8)
    negative = np.argwhere((loadings < 0) & (np.abs(loadings) > 0.1))
    ax.plot(negative[:, 1], negative[:, 0], "_", color=ORANGE, markersize=7)
    ax.set_xticks(range(len(columns)), labels=[shortened(name, most=16) for name in columns], rotation=90,
                  parse_math=False)  # fmt: skip
    if len(items) <= 2 * MOST_NAMED:
        names = [shortened(name, most=24) for name in items["item_id"]]
        ax.set_yticks(range(len(items)), labels=names, fontsize=7, parse_math=False)
    else:
        ax.set(yticks=[], ylabel=f"{len(items)} items")
    ax.grid(visible=False)
    return ax
