"""``irtbench predict``: the accuracy on all of a bank's items from the responses to some."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import pandas as pd
import typer

from irtbench.cli.options import Columns, Json, Quiet, Seed, Table, named
from irtbench.cli.output import demand_table_name, output_file, say, show_table, to_json, write_table

if TYPE_CHECKING:
    from irtbench.bank.bank import ItemBank
    from irtbench.data.responses import ResponseMatrix

MOST_ROWS = 50  # shown on a terminal

Unknown = Literal["error", "ignore"]


def predict(
    bank: Annotated[Path, typer.Argument(metavar="BANK", help="An item bank, bank.json.")],
    responses: Annotated[
        Path,
        typer.Argument(metavar="RESPONSES", help="Responses 1 / 0 to a form, or answers, which the bank's key grades."),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="prediction.csv to write; also .parquet, .json, .md."),
    ] = None,
    learn_from: Annotated[
        Path | None,
        typer.Option(
            "--learn-from",
            metavar="RESPONSES",
            help="Other systems' responses to all items: a correction is learnt from them, and the model not trusted.",
        ),
    ] = None,
    unknown_items: Annotated[
        Literal["error", "ignore"], typer.Option("--unknown-items", help="What items outside the bank mean.")
    ] = "error",
    level: Annotated[float, typer.Option("--level", help="Coverage of the intervals.")] = 0.95,
    column: Columns = [],  # noqa: B006 - typer copies it
    table: Table = "auto",
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Predict each system's accuracy on all items of the bank from its responses to a part of them.

    Writes prediction.csv, a row for each system: items seen, accuracy on them, predicted accuracy on all, interval.
    """
    from irtbench.bank.bank import load_bank
    from irtbench.scoring.prediction import learn_correction, predict_accuracy

    if output is not None:
        demand_table_name(output)
    columns = named("--column", column)
    known = load_bank(bank)
    graded = read_graded(known, responses, columns, table, unknown_items)
    correction = None
    if learn_from is not None:
        whole = read_graded(known, learn_from, columns, table, "ignore")
        correction = learn_correction(known.scales, whole, graded.item_ids)
    found = predict_accuracy(known.scales, graded, correction=correction, level=level).table()
    found["method"] = "model" if correction is None else "corrected"
    if output is not None:
        with output_file(output) as file:
            write_table(found, file)
    if json:
        print(to_json(found))
    elif not quiet:
        show_prediction(found, level, None if correction is None else correction.n_systems)


def read_graded(
    bank: ItemBank, path: Path, columns: Mapping[str, str], table: str, unknown_items: Unknown
) -> ResponseMatrix:
    """Responses to items of the bank that somebody answered, from a file of responses or answers."""
    from irtbench.data.readers.recognise import holds_responses, read_answers, read_responses
    from irtbench.data.responses import ResponseMatrix
    from irtbench.scoring.scores import check_known, grade_answers

    if holds_responses(path, format=table, columns=columns):
        graded = ResponseMatrix.from_long(read_responses(path, format=table, columns=columns).frame)
        check_known(graded.item_ids, bank.scales, unknown_items)
    else:
        answers = read_answers(path, format=table, columns=columns).frame
        graded = grade_answers(bank, answers, unknown_items=unknown_items)
    members = {item for scale in bank.scales for item in scale.items.item_ids}
    answered = graded.n_by_item > 0
    return graded.select_items(
        [item for item, some in zip(graded.item_ids, answered, strict=True) if some and item in members]
    )


def show_prediction(found: pd.DataFrame, level: float, n_learnt_from: int | None) -> None:
    """Print what is expected of each system, in words."""
    shown = found.head(MOST_ROWS)
    show_table(
        pd.DataFrame(
            {
                "who": shown["respondent_id"],
                "right": [f"{k} of {n}" for k, n in zip(shown["n_correct"], shown["n_seen"], strict=True)],
                "% right of these": ["" if pd.isna(share) else f"{100 * share:.1f}" for share in shown["accuracy"]],
                f"% right of all {found['n_items'].iloc[0]} items, expected": [
                    f"{100 * p:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
                    for p, low, high in zip(
                        shown["predicted_accuracy"], shown["predicted_lower"], shown["predicted_upper"], strict=True
                    )
                ],
            }
        )
    )
    if len(found) > MOST_ROWS:
        say(f"and {len(found) - MOST_ROWS} more rows")
    how = (
        "Expected by the bank's model; where the items measure more than its scales, the intervals are too narrow."
        if n_learnt_from is None
        else f"Corrected by a regression learnt from {n_learnt_from} systems."
    )
    say(f"{how} In brackets {100 * level:g}% intervals.")
