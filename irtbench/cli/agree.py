"""``irtbench agree``: how far the crowd's answers agree."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from irtbench.cli.options import Answers, ItemColumns, Json, Quiet, Seed, Where, named
from irtbench.cli.output import output_folder, show_table, to_json, write_json
from irtbench.cli.reading import Reading, reads_files
from irtbench.data.input_error import InputError


@reads_files
def agree(
    answers: Answers,
    items: Annotated[
        Path | None, typer.Option("--items", metavar="ITEMS", help="Items with key and label, for figures by label.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Folder for agreement.json.")
    ] = None,
    item_column: ItemColumns = [],  # noqa: B006
    where: Where = [],  # noqa: B006
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Majority, two-thirds majority, Fleiss' kappa and Krippendorff's alpha, overall and by label."""
    from irtbench.data.readers.item_table import read_items
    from irtbench.evaluation.agreement import agreement, agreement_by_label

    if items is None and (item_column or where):
        raise InputError("--item-column and --where say something of the items: expected --items ITEMS with them")
    given = reading.answers(answers).frame
    known = None
    if items is not None:
        known = read_items(items, columns=named("--item-column", item_column), where=named("--where", where))
        if where:
            given = given[given["item_id"].isin(known.item_ids)]
    overall = agreement(given, items=known)
    by_label = {} if known is None else agreement_by_label(given, known)
    found = {"overall": asdict(overall), "by_label": {label: asdict(result) for label, result in by_label.items()}}
    if output is not None:
        with output_folder(output) as folder:
            write_json(found, folder / "agreement.json")
    if json:
        print(to_json(found))
    elif not quiet:
        rows = [
            {
                "items": name,
                "n_items": result.n_items,
                "n_answers": result.n_answers,
                "majority": result.majority,
                "supermajority": result.supermajority,
                "fleiss_kappa": result.fleiss_kappa,
                "krippendorff_alpha": result.krippendorff_alpha,
            }
            for name, result in {"all": overall, **by_label}.items()
        ]
        show_table(pd.DataFrame(rows))
