"""``irtbench compare``: is one system better than another on the same items."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import pandas as pd
import typer

import irtbench
from irtbench import report
from irtbench.cli.declared import Outcome, Run, command
from irtbench.cli.graded import SystemFile
from irtbench.cli.options import Level
from irtbench.cli.output import say, show_table
from irtbench.cli.reading import Reading
from irtbench.data.input_error import InputError

if TYPE_CHECKING:
    from irtbench.bank.left_out import LeftOut
    from irtbench.bank.scale import Scale
    from irtbench.data.responses import ResponseMatrix

ALL_ITEMS = "all items"  # what stands for a scale where there is no bank
MOST_ROWS_SHOWN = 30  # pairs, or systems, that are all shown on the terminal
ROWS_OF_MANY = 12  # shown of more, of all scales together
MOST_NAMES = 3  # in one cell on the terminal


@dataclass(frozen=True)
class PairTests:
    """How pairs of systems are tested."""

    item_error: Annotated[
        Literal["draw", "none"], typer.Option("--item-error", help="Whether the items' own error is carried.")
    ] = "draw"
    norm: Annotated[Literal["normal", "smoothed"], typer.Option("--norm", help="What percentiles refer to.")] = "normal"
    adjustment: Annotated[
        Literal["holm", "fdr_bh"], typer.Option("--adjust", help="How p is adjusted for the number of pairs.")
    ] = "holm"
    level: Level = 0.95


@command("comparison.csv", "ranking.csv", html=True, trials="count")
def compare(
    responses: Annotated[
        Path, typer.Argument(metavar="RESPONSES", help="Responses 1 / 0 of two systems or more; answers with --bank.")
    ],
    graded: SystemFile,
    how: PairTests,
    reading: Reading,
    run: Run,
    bank: Annotated[
        Path | None, typer.Option("--bank", metavar="BANK", help="Compare abilities on the scales of this bank too.")
    ] = None,
) -> Outcome:
    """Compare systems in pairs: accuracy, and with a bank ability and percentile; with a bank also rank them.

    Writes comparison.csv, a row for each pair on each scale, and with a bank ranking.csv, a row for each system. Its p
    are two-sided but for accuracy_p_greater, that the first is not better, which is not adjusted.
    """
    known = None if bank is None else irtbench.load_bank(bank)
    left_out: tuple[LeftOut, ...] = ()
    if known is not None:
        given, left_out = graded.read(known, responses, reading)
    elif reading.holds_responses(responses):
        given = reading.matrix(responses)
    else:
        raise InputError(f"file {responses}: holds answers; expected responses 1 / 0, or --bank BANK with the key")
    pairs, rankings = [], []
    for scale in [None] if known is None else known.scales:
        run.progress(f"comparing on {ALL_ITEMS if scale is None else scale.name}")
        rows, ranking = on_scale(scale, given, how, run)
        pairs.append(rows)
        rankings += [] if ranking is None else [ranking]
    comparison = pd.concat(pairs, ignore_index=True)
    comparison["accuracy_p_greater"] = comparison.pop("accuracy_p_greater")  # last
    ranked = pd.concat(rankings, ignore_index=True) if rankings else None
    ranking_too = {} if ranked is None else {"ranking": ranked, "items_left_out": [vars(item) for item in left_out]}

    def tell() -> None:
        assert run.output is not None
        show_comparison(comparison, run.output / "comparison.csv")
        if ranked is not None:
            show_ranking(ranked, run.output / "ranking.csv")
        say(f"In brackets {100 * how.level:g}% intervals; p adjusted for the number of pairs ({how.adjustment}).")

    return Outcome(
        json={"comparison": comparison} | ranking_too,
        files={"comparison.csv": comparison, "ranking.csv": ranked},
        figures=lambda: report.comparison_figures(comparison, ranked, level=how.level),
        page=lambda: report.comparison_page(comparison, ranked, level=how.level, adjustment=how.adjustment),
        tell=tell,
    )


def on_scale(
    scale: Scale | None, graded: ResponseMatrix, how: PairTests, run: Run
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Pairs of systems on a scale, or on all items; on a scale also their ranking."""
    from irtbench.data.multiple_testing import adjust
    from irtbench.scoring.ability_comparison import N_ITEM_DRAWS
    from irtbench.scoring.scores import own_responses

    own = graded if scale is None else own_responses(scale, graded)
    tested = irtbench.compare_systems(
        own.shares, own.respondent_ids, level=how.level, adjustment=how.adjustment, rng=run.rng
    )
    rows, ranking = accuracy_columns(tested.table()), None
    if scale is not None:
        n_item_draws = N_ITEM_DRAWS if how.item_error == "draw" else 0
        found = irtbench.compare_abilities(
            scale, own, rng=run.rng, norm=how.norm, n_item_draws=n_item_draws, level=how.level
        )
        abilities = found.pairs()
        abilities.insert(6, "theta_p_adjusted", adjust(abilities["theta_p"].to_numpy(), how.adjustment))
        rows = rows.merge(abilities, on=["first", "second"], validate="one_to_one")
        ranking = found.ranking(abilities["theta_p_adjusted"].to_numpy(), significance=1 - how.level)
        ranking.insert(0, "scale", scale.name)
    rows.insert(0, "scale", ALL_ITEMS if scale is None else scale.name)
    return rows, ranking


def accuracy_columns(tested: pd.DataFrame) -> pd.DataFrame:
    """Accuracy in comparison.csv: names that say what the difference is of."""
    return tested.rename(
        columns={
            "mean_first": "accuracy_first",
            "mean_second": "accuracy_second",
            "difference": "accuracy_difference",
            "lower": "accuracy_lower",
            "upper": "accuracy_upper",
            "p": "accuracy_p",
            "p_adjusted": "accuracy_p_adjusted",
            "p_greater": "accuracy_p_greater",
        }
    )


def show_comparison(comparison: pd.DataFrame, file: Path) -> None:
    """Print each pair in words; of many systems each with the next in accuracy, from the top and from the bottom."""
    title = "First minus second"
    n_pairs, most = len(comparison), rows_each(comparison)
    if n_pairs > MOST_ROWS_SHOWN:
        title = "Neighbours in accuracy, first minus second"
        each = [neighbours(of_scale) for _, of_scale in comparison.groupby("scale", sort=False)]
        comparison = pd.concat([ends(of_scale, most) for of_scale in each])
    view = pd.DataFrame(
        {
            "scale": comparison["scale"],
            "first": comparison["first"],
            "second": comparison["second"],
            "items": comparison["n_items"],
            "accuracy": bracketed(comparison, "accuracy", ".3f"),
            "p ": [f"{p:.4f}" for p in comparison["accuracy_p_adjusted"]],
        }
    )
    if "theta_difference" in comparison:
        view["ability"] = bracketed(comparison, "theta", ".2f")
        view["p"] = [f"{p:.4f}" for p in comparison["theta_p_adjusted"]]
        view["percentile"] = bracketed(comparison, "percentile", ".0f")
    show_table(view, title=title, rest=file)
    if len(view) < n_pairs:
        say(f"{len(view)} of {n_pairs:,} pairs, the top and the bottom of each scale; all are in {file}")


def neighbours(comparison: pd.DataFrame) -> pd.DataFrame:
    """Of the pairs of one scale those of systems next to each other in accuracy, the most accurate first."""
    sides = [
        comparison[[side, f"accuracy_{side}"]].set_axis(["system", "accuracy"], axis=1) for side in ("first", "second")
    ]
    accuracy = (
        pd.concat(sides).groupby("system", sort=False)["accuracy"].mean().sort_values(ascending=False, kind="stable")
    )
    place = {system: k for k, system in enumerate(accuracy.index)}
    first, second = comparison["first"].map(place), comparison["second"].map(place)
    table = comparison.assign(place=np.minimum(first, second))[(first - second).abs() == 1]
    return table.sort_values("place", kind="stable").drop(columns="place")


def ends(table: pd.DataFrame, most: int) -> pd.DataFrame:
    """The first two thirds of so many rows and the last third of them; all where there are no more."""
    if len(table) <= most:
        return table
    return pd.concat([table.head(most - most // 3), table.tail(most // 3)])


def rows_each(table: pd.DataFrame) -> int:
    """How many rows of each scale are shown where there are too many for a screen."""
    return max(3, ROWS_OF_MANY // table["scale"].nunique())


def show_ranking(ranking: pd.DataFrame, file: Path) -> None:
    """Print the order of the systems and its ties; of many the top and the bottom."""
    n_systems, most = len(ranking), rows_each(ranking)
    if n_systems > MOST_ROWS_SHOWN:
        ranking = pd.concat([ends(of_scale, most) for _, of_scale in ranking.groupby("scale", sort=False)])
    view = pd.DataFrame(
        {
            "scale": ranking["scale"],
            "rank": [f"{r} [{a}-{b}]" for r, a, b in ranking[["rank", "rank_lower", "rank_upper"]].to_numpy()],
            "system": ranking["respondent_id"],
            "ability": [f"{t:.2f} [{a:.2f}, {b:.2f}]"
                        for t, a, b in ranking[["theta", "theta_lower", "theta_upper"]].to_numpy()],
            "best with probability": [f"{p:.2f}" for p in ranking["probability_best"]],
            "indistinguishable from": [named_first(names) for names in ranking["indistinguishable_from"]],
        }
    )  # fmt: skip
    show_table(view, title="Ranking", rest=file)
    if len(view) < n_systems:
        say(f"{len(view)} of {n_systems:,} rows, the top and the bottom of each scale; all are in {file}")


def named_first(names: str) -> str:
    """Names parted by semicolons as people read them, of many the first and how many more."""
    each = names.split(";") if names else []
    more = f" and {len(each) - MOST_NAMES} more" if len(each) > MOST_NAMES else ""
    return ", ".join(each[:MOST_NAMES]) + more


def bracketed(comparison: pd.DataFrame, what: str, digits: str) -> list[str]:
    """Difference and interval of each pair."""
    columns = [f"{what}_difference", f"{what}_lower", f"{what}_upper"]
    return [
        f"{d:+{digits}}" + ("" if np.isnan(a) else f" [{a:{digits}}, {b:{digits}}]")
        for d, a, b in comparison[columns].to_numpy()
    ]
