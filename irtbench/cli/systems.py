"""Systems on the same items: is one better than another, and what would it reach on all items of a bank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pandas as pd
import typer

import irtbench.report
from irtbench.cli.declared import Outcome, Run, command
from irtbench.cli.options import Level, Reading, SystemFile, levels_of, say
from irtbench.cli.output import Shown, Words, interval_texts, top_and_bottom
from irtbench.data.responses import name_first
from irtbench.data.shown import counted

ALL_ITEMS = "all items"  # in place of a scale where there is no bank
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
    levels: Annotated[
        str | None,
        typer.Option("--levels", metavar="A,B,...", help="Without a bank: responses are grades, the lowest first."),
    ] = None,
) -> Outcome:
    """Compare systems in pairs: accuracy, and with a bank ability and percentile; with a bank also rank them.

    Writes comparison.csv, a row for each pair on each scale, and with a bank ranking.csv, a row for each system. Its p
    are two-sided but for accuracy_p_greater, that the first is not better, which is not adjusted. Of grades (--levels,
    or a bank of such) accuracy is the share of the points between the lowest and the highest grade.
    """
    known = None if bank is None else irtbench.load_bank(bank, categories=True)
    if known is not None and levels is not None:
        raise irtbench.InputError("--levels: a bank knows the grades of its items; expected none with --bank")
    left_out: tuple[irtbench.bank.bank.LeftOut, ...] = ()
    ranked: pd.DataFrame | None = None
    if known is None:
        comparison = by_accuracy(ALL_ITEMS, without_bank(responses, levels, reading), how, run)
    else:
        given, left_out = graded.read(known, responses, reading)
        found = zip(*(on_scale(scale, given, how, run) for scale in known.scales), strict=True)
        comparison, ranked = (pd.concat(of_scales, ignore_index=True) for of_scales in found)
    comparison["accuracy_p_greater"] = comparison.pop("accuracy_p_greater")  # last
    ranking_too = {} if ranked is None else {"ranking": ranked, "items_left_out": [vars(item) for item in left_out]}

    return Outcome(
        json={"comparison": comparison} | ranking_too,
        files={"comparison.csv": comparison, "ranking.csv": ranked},
        figures=lambda: irtbench.report.comparison_figures(comparison, ranked, level=how.level),
        page=lambda: irtbench.report.comparison_page(comparison, ranked, level=how.level, adjustment=how.adjustment),
        words=[
            *pairs_in_words(comparison, run.folder / "comparison.csv"),
            *([] if ranked is None else ranking_in_words(ranked, run.folder / "ranking.csv")),
            f"In brackets {100 * how.level:g}% intervals; p adjusted for the number of pairs ({how.adjustment}).",
        ],
    )


def without_bank(
    responses: Path, levels: str | None, reading: Reading
) -> irtbench.ResponseMatrix | irtbench.study.systems.SharesOfPoints:
    """Right and wrong, or with levels shares of the points."""
    if named := levels_of(levels):
        return irtbench.study.systems.SharesOfPoints.of(
            reading.scores(responses, irtbench.study.systems.scores_named(named)), named, responses
        )
    if not reading.holds_responses(responses):
        raise irtbench.InputError(
            f"file {responses}: holds answers; expected responses 1 / 0, or --bank BANK with the key"
        )
    return reading.matrix(responses)


def by_accuracy(
    scale: str, given: irtbench.ResponseMatrix | irtbench.study.systems.SharesOfPoints, how: PairTests, run: Run
) -> pd.DataFrame:
    """Pairs of systems on all items of a scale."""
    run.progress(f"comparing on {scale}")
    tested = irtbench.compare_systems(
        given.shares, given.respondent_ids, level=how.level, adjustment=how.adjustment, rng=run.rng
    )
    names = {one: f"accuracy_{one}" for one in ("difference", "lower", "upper", "p", "p_adjusted", "p_greater")}
    table = tested.table().rename(columns={"mean_first": "accuracy_first", "mean_second": "accuracy_second", **names})
    table.insert(0, "scale", scale)
    return table


def on_scale(
    scale: irtbench.Scale, graded: irtbench.ResponseMatrix, how: PairTests, run: Run
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Pairs of systems on a scale, and their ranking."""
    own = irtbench.scoring.scores.own_responses(scale.items.item_ids, graded)
    rows = by_accuracy(scale.name, own, how, run)
    found = irtbench.compare_abilities(
        scale, own, rng=run.rng, norm=how.norm, level=how.level,
        n_item_draws=irtbench.scoring.ability_comparison.N_ITEM_DRAWS if how.item_error == "draw" else 0,
    )  # fmt: skip
    abilities = found.pairs()
    abilities.insert(
        6, "theta_p_adjusted", irtbench.data.multiple_testing.adjust(abilities["theta_p"].to_numpy(), how.adjustment)
    )
    rows = rows.merge(abilities, on=["first", "second"], validate="one_to_one")
    ranking = found.ranking(abilities["theta_p_adjusted"].to_numpy(), significance=1 - how.level)
    ranking.insert(0, "scale", scale.name)
    return rows, ranking


def pairs_in_words(comparison: pd.DataFrame, file: Path) -> Words:
    """Each pair in words; of many systems each with the next in accuracy, from the top and from the bottom."""
    title, n_pairs = "First minus second", len(comparison)
    if n_pairs > MOST_ROWS_SHOWN:
        title = "Neighbours in accuracy, first minus second"
        comparison = ends([neighbours(of_scale) for _, of_scale in comparison.groupby("scale", sort=False)])
    view = pd.DataFrame(
        {
            "scale": comparison["scale"],
            "first": comparison["first"],
            "second": comparison["second"],
            "items": comparison["n_items"],
            "accuracy": interval_texts(comparison, *of_difference("accuracy"), "+.3f"),
            "p ": [f"{p:.4f}" for p in comparison["accuracy_p_adjusted"]],
        }
    )
    if "theta_difference" in comparison:
        view["ability"] = interval_texts(comparison, *of_difference("theta"), "+.2f")
        view["p"] = [f"{p:.4f}" for p in comparison["theta_p_adjusted"]]
        view["percentile"] = interval_texts(comparison, *of_difference("percentile"), "+.0f")
    return [
        Shown(view, title, file.name),
        len(view) < n_pairs
        and f"{len(view)} of {n_pairs:,} pairs, the top and the bottom of each scale; all are in {file}",
    ]


def neighbours(comparison: pd.DataFrame) -> pd.DataFrame:
    """Of the pairs of one scale those of systems next to each other in accuracy, the most accurate first."""
    sides = [
        comparison[[side, f"accuracy_{side}"]].set_axis(["system", "accuracy"], axis=1) for side in ("first", "second")
    ]
    accuracy = pd.concat(sides).groupby("system", sort=False)["accuracy"].mean()
    place = {system: k for k, system in enumerate(accuracy.sort_values(ascending=False, kind="stable").index)}
    first, second = comparison["first"].map(place), comparison["second"].map(place)
    table = comparison.assign(place=np.minimum(first, second))[(first - second).abs() == 1]
    return table.sort_values("place", kind="stable").drop(columns="place")


def ends(scales: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Of each scale's rows as many as a screen has room for, two thirds from the top and a third from the bottom."""
    most = max(3, ROWS_OF_MANY // len(scales))
    parts = [[rows] if len(rows) <= most else [rows.head(most - most // 3), rows.tail(most // 3)] for rows in scales]
    return pd.concat([part for of_scale in parts for part in of_scale])


def ranking_in_words(ranking: pd.DataFrame, file: Path) -> Words:
    """The order of the systems and its ties; of many the top and the bottom."""
    n_systems = len(ranking)
    if n_systems > MOST_ROWS_SHOWN:
        ranking = ends([of_scale for _, of_scale in ranking.groupby("scale", sort=False)])
    view = pd.DataFrame(
        {
            "scale": ranking["scale"],
            "rank": [f"{r} [{a}-{b}]" for r, a, b in ranking[["rank", "rank_lower", "rank_upper"]].to_numpy()],
            "system": ranking["respondent_id"],
            "ability": interval_texts(ranking, "theta", "theta_lower", "theta_upper", ".2f"),
            "best with probability": [f"{p:.2f}" for p in ranking["probability_best"]],
            "indistinguishable from": [
                name_first(names.split(";") if names else [], most=MOST_NAMES)
                for names in ranking["indistinguishable_from"]
            ],
        }
    )  # fmt: skip
    return [
        Shown(view, "Ranking", file.name),
        len(view) < n_systems
        and f"{len(view)} of {n_systems:,} rows, the top and the bottom of each scale; all are in {file}",
    ]


def of_difference(what: str) -> tuple[str, str, str]:
    """Columns of a difference and its interval."""
    return f"{what}_difference", f"{what}_lower", f"{what}_upper"


@command(
    output=Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="prediction.csv; also .parquet, .json, .md, .tex, .html."),
    ],
    trials="count",
)
def predict(
    bank: Annotated[Path, typer.Argument(metavar="BANK", help="An item bank, bank.json.")],
    responses: Annotated[
        Path,
        typer.Argument(metavar="RESPONSES", help="Responses 1 / 0 to a form, or answers, which the bank's key grades."),
    ],
    graded: SystemFile,
    reading: Reading,
    run: Run,
    learn_from: Annotated[
        Path | None,
        typer.Option(
            "--learn-from",
            metavar="RESPONSES",
            help="Other systems' responses to all items: what they say of the rest joins what the bank says.",
        ),
    ] = None,
    level: Level = 0.95,
) -> Outcome:
    """Predict each system's accuracy on all items of the bank from its responses to a part of them.

    Writes prediction.csv, a row for each system: items seen, accuracy on them, predicted accuracy on all, interval,
    and whether the system lies beyond those known, so that the bank says less of it.
    """
    known = irtbench.load_bank(bank, categories=True)
    given, left_out = graded.read(known, responses, reading)
    seen = answered_members(known, given)
    correction = None
    if learn_from is not None:
        whole, _ = SystemFile("ignore", graded.answers_map).read(known, learn_from, reading, say=False)
        correction = irtbench.learn_correction(known.scales, answered_members(known, whole), seen.item_ids)
    run.progress("predicting")
    found = irtbench.predict_accuracy(known.scales, seen, correction=correction, level=level).table()
    place = list(found.columns).index("beyond_known") + 1
    found.insert(place, "method", "model" if correction is None else "corrected")
    say_beyond(found)
    more = {"items_left_out": [vars(item) for item in left_out]}
    return Outcome(
        json=[row | more for row in found.to_dict(orient="records")], files=found,
        figures=lambda: irtbench.report.prediction_figures(found, level=level),
        words=prediction_in_words(found, level, None if correction is None else correction.n_systems),
    )  # fmt: skip


def say_beyond(found: pd.DataFrame) -> None:
    """Say on standard error, in one line, which systems lie beyond those known."""
    beyond = found[found["beyond_known"] != "no"]
    if beyond.empty:
        return
    words = ", ".join(f"{n} {word}" for word, n in beyond["beyond_known"].value_counts().items())
    say(
        f"{len(beyond)} of {counted(len(found), 'system')} beyond all known ones ({words}): "
        f"{name_first(list(beyond['respondent_id']))}; what is known of others may not hold for such; their "
        "intervals are by their own answers"
    )


def answered_members(bank: irtbench.ItemBank, graded: irtbench.ResponseMatrix) -> irtbench.ResponseMatrix:
    """Responses to those items of the bank that somebody answered."""
    members = {item for scale in bank.scales for item in scale.items.item_ids}
    return graded.select_items(
        [item for item, n in zip(graded.item_ids, graded.n_by_item, strict=True) if n > 0 and item in members]
    )


def prediction_in_words(found: pd.DataFrame, level: float, n_learnt_from: int | None) -> Words:
    """What is expected of each system."""
    shown = top_and_bottom(found)
    n_asked = shown["n_trials" if "n_trials" in shown else "n_seen"]
    expected = interval_texts(
        100 * shown[["predicted_accuracy", "predicted_lower", "predicted_upper"]],
        *("predicted_accuracy", "predicted_lower", "predicted_upper", ".1f"),
    )
    view = {
        "who": shown["respondent_id"],
        "right": [f"{k} of {n}" for k, n in zip(shown["n_correct"], n_asked, strict=True)],
        "% right of these": ["" if pd.isna(share) else f"{100 * share:.1f}" for share in shown["accuracy"]],
        f"% right of all {found['n_items'].iloc[0]} items, expected": expected,
    }
    known = "the bank" if n_learnt_from is None else f"the bank and {n_learnt_from} systems whose responses are known"
    return [
        Shown(pd.DataFrame(view), of=len(found)),
        f"Expected by each system's own answers and by {known}. In brackets {100 * level:g}% intervals, by its own "
        "answers alone: they hold for any system if the items seen are a fair sample.",
    ]
