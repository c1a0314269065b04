"""The benchmark's tables, its targets checked, and its figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib.style
import pandas as pd
from matplotlib.figure import Figure

from benchmark_parts.sizes import Size
from benchmark_parts.tools import TOOLS

OURS, NO_PRIOR = "irtbench", "irtbench-no-prior"
RIGHT_LIKELIHOOD = 1e-4  # a response: how far below the best likelihood an estimate may be and still be right
RIGHT_RMSE = 1.05  # how many times our RMSE of a and of b
BEST_LIKELIHOOD = 1e-6  # a response: how far below the best ours may be
MEMORY_LIMIT = 1_500  # MB at the largest size
WIDEST = "2pl:100000x500"
MARKERS = "osD^vPX<"


COLUMNS = {
    "size": str,
    "tool": str,
    "outcome": str,
    "time_limit": float,
    "seconds": float,
    "first_seconds": float,
    "processor_seconds": float,
    "n_fits": float,
    "rmse_a": float,
    "rmse_b": float,
    "rmse_c": float,
    "coverage_b": float,
    "coverage_theta": float,
    "log_likelihood": float,
    "input_mb": float,
    "fit_mb": float,
    "gpu_mb": float,
    "converged": object,
    "said": object,
}


def reference(fits: pd.DataFrame) -> pd.DataFrame:
    """Our line of each size that peers are judged against, by size.

    That without a prior where there is one (3PL) and it converged, since peers have none; else the defaults.
    """
    ours = fits[(fits["tool"] == OURS) | ((fits["tool"] == NO_PRIOR) & (fits["converged"] == "yes"))]
    ours = ours[ours["outcome"] == "fitted"]
    like_peers_first = ours.sort_values("tool", key=lambda tool: tool != NO_PRIOR, kind="stable")
    return like_peers_first.drop_duplicates("size").set_index("size")


def complete(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Add to the fits what only their comparison shows, in the order of sizes and tools.

    ``ratio`` is seconds over ours, ``behind_best`` the log-likelihood a response below the best of the size, and
    ``right`` what `is_right` says.
    """
    fits = pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)
    fits = fits.fillna({"converged": "", "said": ""})
    order = {name: k for k, name in enumerate([*dict.fromkeys(fits["size"]), *TOOLS])}
    fits = fits.sort_values(["size", "tool"], key=lambda names: names.map(order), ignore_index=True)
    ours = fits[fits["tool"] == OURS].set_index("size")["seconds"]
    best = fits.groupby("size")["log_likelihood"].max()
    fits["ratio"] = fits["seconds"] / fits["size"].map(ours)
    fits["behind_best"] = fits["size"].map(best) - fits["log_likelihood"]
    return fits.assign(right=is_right(fits))


def has_prior(size: str, tool: str) -> bool:
    """Whether this line of ours has a prior: the 3PL's default, or one learnt from the items."""
    asked = Size.parse(size)
    return asked.hierarchical or (asked.kind == "3pl" and tool != NO_PRIOR)


def is_right(fits: pd.DataFrame) -> pd.Series:
    """Whether estimates are right: RMSE of a and b not clearly above the `reference`, and likelihood near the best.

    Where the reference has a prior the RMSE alone decides: a prior gives up likelihood to be nearer to the truth.
    """
    ours = reference(fits)
    with_prior = {str(size): has_prior(str(size), tool) for size, tool in ours["tool"].items()}
    right = (fits["behind_best"] <= RIGHT_LIKELIHOOD) | fits["size"].map(with_prior).eq(True)
    for name in ("rmse_a", "rmse_b"):
        right &= fits[name] <= RIGHT_RMSE * fits["size"].map(ours[name])
    return right


def settings_line(settings: dict[str, Any], left_out: Sequence[str]) -> str:
    """How the figures came about, in one paragraph."""
    versions = ", ".join(f"{name} {version}" for name, version in settings["versions"].items())
    missing = f" Not installed and left out: {', '.join(left_out)}." if left_out else ""
    return (
        f"{settings['cores']} cores, {settings['threads']} threads, device {settings['device']}, Python "
        f"{settings['python']}; {versions}.{missing} Median of up to {settings['repeats']} fits "
        f"in each of {settings['rounds']} processes, in turns, time limit {settings['time_limit']:g} s, "
        f"seed {settings['seed']}.\n"
    )


def fits_markdown(fits: pd.DataFrame) -> str:
    """A table for each size, a row a tool."""
    return "\n".join(_size_markdown(Size.parse(str(name)), rows) for name, rows in fits.groupby("size", sort=False))


def _size_markdown(size: Size, rows: pd.DataFrame) -> str:
    on_gpu = rows["gpu_mb"].notna().any()
    columns: dict[str, Callable[[pd.Series], str]] = {
        "tool": lambda row: TOOLS[row["tool"]].label,
        "seconds": lambda row: _significant(row["seconds"]) if row["outcome"] == "fitted" else row["outcome"],
        "ratio": lambda row: _ratio(row["ratio"]),
        "first": lambda row: _significant(row["first_seconds"]),
        "processor": lambda row: _significant(row["processor_seconds"]),
        "RMSE a": lambda row: _decimals(row["rmse_a"], 4),
        "RMSE b": lambda row: _decimals(row["rmse_b"], 4),
        "covers b": lambda row: _decimals(row["coverage_b"], 3),
        "covers theta": lambda row: _decimals(row["coverage_theta"], 3),
        "log-likelihood a response": lambda row: _decimals(row["log_likelihood"], 7),
        "below best": lambda row: "" if math.isnan(row["behind_best"]) else f"{row['behind_best']:.1e}",
        "input MB": lambda row: _decimals(row["input_mb"], 0),
        "fit MB": lambda row: _decimals(row["fit_mb"], 0),
        "converged": lambda row: row["converged"],
    }
    if size.kind == "3pl":
        columns = _after(columns, "RMSE b", "RMSE c", lambda row: _decimals(row["rmse_c"], 4))
    if on_gpu:
        columns = _after(columns, "fit MB", "GPU MB", lambda row: _decimals(row["gpu_mb"], 0))
    cells = {name: [cell(row) for _, row in rows.iterrows()] for name, cell in columns.items()}
    said = {name: column for name, column in cells.items() if any(column)}
    return f"\n### {size.label}\n\n" + _markdown(list(said), list(zip(*said.values(), strict=True)))


def _after(
    columns: dict[str, Callable[[pd.Series], str]], name: str, new: str, cell: Callable[[pd.Series], str]
) -> dict[str, Callable[[pd.Series], str]]:
    wider = {}
    for key, value in columns.items():
        wider[key] = value
        if key == name:
            wider[new] = cell
    return wider


def targets_markdown(fits: pd.DataFrame) -> str:
    """What the engine is held to, and whether it was met, a row a size."""
    rows = []
    for name, ours in reference(fits).iterrows():
        size = Size.parse(str(name))
        others = fits[(fits["size"] == name) & fits["tool"].map(lambda tool: TOOLS[tool].distribution != OURS)]
        label = TOOLS[ours["tool"]].label
        rows.append(
            [size.label, label, _likelihood_met(size, ours), *_speed_met(size, ours, others), _memory_met(size, ours)]
        )
    return _markdown(["size", "ours", "likelihood", "fastest right peer", "times ours", "speed", "memory"], rows)


def _likelihood_met(size: Size, ours: pd.Series) -> str:
    behind = ours["behind_best"]
    if behind <= BEST_LIKELIHOOD:
        return "met: at the best"
    return f"MISSED: {behind:.1e} below the best" + (", has a prior" if has_prior(size.name, ours["tool"]) else "")


def _speed_met(size: Size, ours: pd.Series, others: pd.DataFrame) -> tuple[str, str, str]:
    """Name of the fastest right peer, its time over ours, and whether the target of speed is met.

    A peer that ran over the limit might have been right, and then is slower than the limit says.
    """
    wanted = 30 if size.n_responses >= 20_000 * 200 else 10
    right = others[(others["outcome"] == "fitted") & others["right"]]
    over = others[others["outcome"].str.startswith("over")]
    if not right.empty:
        fastest = right.loc[right["seconds"].idxmin()]
        name, ratio, sign = TOOLS[fastest["tool"]].label, fastest["seconds"] / ours["seconds"], ""
    elif not over.empty:
        name, ratio, sign = "none within the limit", over["time_limit"].iloc[0] / ours["seconds"], "over "
    else:
        return "none", "", ""
    if size.n_responses < 1_000 * 90:
        return name, sign + _ratio(ratio), "no target"
    if ratio < wanted and sign:
        return name, sign + _ratio(ratio), f"not known: the limit is too short to show {wanted}"
    return name, sign + _ratio(ratio), f"{'met' if ratio >= wanted else 'MISSED'}: {wanted} wanted"


def _memory_met(size: Size, ours: pd.Series) -> str:
    held = ours["input_mb"] + ours["fit_mb"]
    if math.isnan(held):
        return "not measured"
    target = f", {'met' if held <= MEMORY_LIMIT else 'MISSED'}: {MEMORY_LIMIT} wanted" if size.name == WIDEST else ""
    return f"{held:.0f} MB{target}"


def processes_markdown(seconds: dict[str, float]) -> str:
    """Whole processes, and what irtbench adds to importing its libraries."""
    added = seconds["irtbench fit"] - seconds['python -c "import torch, pyro"']
    rows = [[f"`{name}`", f"{taken:.2f}"] for name, taken in seconds.items()]
    rows.append(
        ["what `irtbench fit` adds to the imports", f"{added:.2f} ({'met' if added < 1 else 'MISSED'}: under 1)"]
    )
    return _markdown(["process", "seconds"], rows)


def draw_seconds(fits: pd.DataFrame, file: Path) -> None:
    """Seconds of every fit by size: filled where the estimates are right, hollow where not, an arrow over the limit."""
    sizes = list(fits["size"].unique())
    tools = [tool for tool in TOOLS if tool in set(fits["tool"])]
    with matplotlib.style.context(["default", {"svg.hashsalt": "irtbench", "svg.fonttype": "none"}]):
        figure = Figure(figsize=(8.6, 4.8), layout="constrained")
        axes = figure.subplots()
        for k, tool in enumerate(tools):
            rows = fits[fits["tool"] == tool]
            colour = f"C{k}"
            shift = 0.6 * ((k + 0.5) / len(tools) - 0.5)
            for row in rows.itertuples():
                x = sizes.index(row.size) + shift
                if row.outcome == "fitted":
                    face = colour if row.right else "none"
                    axes.plot(x, row.seconds, MARKERS[k % len(MARKERS)], color=colour, markerfacecolor=face)
                elif row.outcome.startswith("over"):
                    axes.plot(x, row.time_limit, marker=r"$\uparrow$", markersize=11, color=colour)
            axes.plot([], [], MARKERS[k % len(MARKERS)], color=colour, label=TOOLS[tool].label)
        axes.set_yscale("log")
        axes.set_ylabel("seconds of the fit")
        axes.set_xticks(range(len(sizes)), [Size.parse(name).label.replace(" ", "\n", 1) for name in sizes], fontsize=8)
        axes.grid(axis="y", which="major", alpha=0.3)
        axes.set_title("filled: right; hollow: not; arrow: over the time limit", fontsize=9, loc="left")
        figure.legend(loc="outside right upper", fontsize=8, frameon=False)
        figure.savefig(file, dpi=160, metadata={"Date": None} if file.suffix == ".svg" else None)


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    return (
        "\n".join([*lines, *("| " + " | ".join(cell.replace("|", "/") for cell in row) + " |" for row in rows)]) + "\n"
    )


def _decimals(value: float, places: int) -> str:
    return "" if math.isnan(value) else f"{value:,.{places}f}"


def _significant(value: float) -> str:
    if math.isnan(value):
        return ""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.0f}" if value >= 10 else f"{value:.1f}"
