"""``irtbench predict``: the accuracy on all of a bank's items from the responses to some."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pandas as pd
import typer

import irtbench
from irtbench import report
from irtbench.cli.declared import Outcome, Run, command
from irtbench.cli.graded import SystemFile
from irtbench.cli.options import Level
from irtbench.cli.output import say, show_table, top_and_bottom
from irtbench.cli.reading import Reading
from irtbench.data.harmless_text import printable
from irtbench.data.responses import name_first
from irtbench.data.shown import counted

if TYPE_CHECKING:
    from irtbench.bank.bank import ItemBank
    from irtbench.data.responses import ResponseMatrix

PredictionFile = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="prediction.csv; also .parquet, .json, .md, .tex, .html."),
]


@command(output=PredictionFile, trials="count")
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
    known = irtbench.load_bank(bank)
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
    rows = found.to_dict(orient="records")
    n_systems = None if correction is None else correction.n_systems
    return Outcome(
        json=[row | {"items_left_out": [vars(item) for item in left_out]} for row in rows], files=found,
        figures=lambda: report.prediction_figures(found, level=level),
        tell=lambda: show_prediction(found, level, n_systems, run),
    )  # fmt: skip


def say_beyond(found: pd.DataFrame) -> None:
    """Say on standard error, in one line, which systems lie beyond those known."""
    beyond = found[found["beyond_known"] != "no"]
    if beyond.empty:
        return
    words = ", ".join(f"{n} {word}" for word, n in beyond["beyond_known"].value_counts().items())
    print(
        printable(
            f"irtbench: {len(beyond)} of {counted(len(found), 'system')} beyond all known ones ({words}): "
            f"{name_first(list(beyond['respondent_id']))}; what is known of others may not hold for such, their "
            "intervals stand on their own answers"
        ),
        file=sys.stderr,
    )


def answered_members(bank: ItemBank, graded: ResponseMatrix) -> ResponseMatrix:
    """Responses to those items of the bank that somebody answered."""
    members = {item for scale in bank.scales for item in scale.items.item_ids}
    answered = graded.n_by_item > 0
    return graded.select_items(
        [item for item, some in zip(graded.item_ids, answered, strict=True) if some and item in members]
    )


def show_prediction(found: pd.DataFrame, level: float, n_learnt_from: int | None, run: Run) -> None:
    """Print what is expected of each system, in words."""
    shown = top_and_bottom(found)
    n_asked = shown["n_trials" if "n_trials" in shown else "n_seen"]
    show_table(
        pd.DataFrame(
            {
                "who": shown["respondent_id"],
                "right": [f"{k} of {n}" for k, n in zip(shown["n_correct"], n_asked, strict=True)],
                "% right of these": ["" if pd.isna(share) else f"{100 * share:.1f}" for share in shown["accuracy"]],
                f"% right of all {found['n_items'].iloc[0]} items, expected": [
                    f"{100 * p:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
                    for p, low, high in zip(
                        shown["predicted_accuracy"], shown["predicted_lower"], shown["predicted_upper"], strict=True
                    )
                ],
            }
        ),
        rest=run.output,
        of=len(found),
    )
    known = "the bank" if n_learnt_from is None else f"the bank and {n_learnt_from} systems whose responses are known"
    say(
        f"Expected by each system's own answers and by {known}. In brackets {100 * level:g}% intervals, by its own "
        "answers alone: they hold for any system if the items seen are a fair sample."
    )
