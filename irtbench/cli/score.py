"""``irtbench score``: a system's responses to ability and human percentile, without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from irtbench.building.bank import load_bank
from irtbench.cli.options import Columns, Json, Quiet, Seed, Table, named
from irtbench.cli.output import output_folder, show_table, to_json, write_table
from irtbench.data.readers.recognise import holds_responses, read_answers, read_responses
from irtbench.data.responses import ResponseMatrix
from irtbench.scoring.scores import score_answers, score_responses


def score(
    bank: Annotated[Path, typer.Argument(metavar="BANK", help="An item bank, bank.json.")],
    responses: Annotated[
        Path, typer.Argument(metavar="RESPONSES", help="Responses 1 / 0, or answers, which the bank's key grades.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="scores.csv or scores.parquet to write.")
    ] = None,
    content: Annotated[
        Literal["auto", "responses", "answers"], typer.Option("--content", help="What the table holds.")
    ] = "auto",
    unknown_items: Annotated[
        Literal["error", "ignore"], typer.Option("--unknown-items", help="What items outside the bank mean.")
    ] = "error",
    column: Columns = [],  # noqa: B006 - typer copies it
    table: Table = "auto",
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Score systems (or people) on a bank: ability, its error, and the human percentile, a row for each scale."""
    known = load_bank(bank)
    columns = named("--column", column)
    if content == "responses" or (content == "auto" and holds_responses(responses, format=table, columns=columns)):
        graded = ResponseMatrix.from_long(read_responses(responses, format=table, columns=columns).frame)
        scores = score_responses(known, graded, unknown_items=unknown_items)
    else:
        answers = read_answers(responses, format=table, columns=columns).frame
        scores = score_answers(known, answers, unknown_items=unknown_items)
    if output is not None:
        with output_folder(output.absolute().parent) as folder:
            write_table(scores, folder / output.name)
    if json:
        print(to_json(scores))
    elif not quiet:
        shown = ["respondent_id", "scale", "n_items", "accuracy", "theta", "se", "percentile", "percentile_lower"]
        show_table(scores[[*shown, "percentile_upper", "flags"]])
