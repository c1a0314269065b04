"""``irtbench items show``: a bank as a thing to read: its items, a table from raw score to ability, a map."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pandas as pd
import typer

import irtbench
from irtbench import report
from irtbench.cli.declared import Outcome, Run, command
from irtbench.cli.options import FiguresOrBeside, ItemColumns, MaybeFolder, named
from irtbench.cli.output import say, say_next, show_table
from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first
from irtbench.models.theta_posterior import STANDARD_NORMAL

if TYPE_CHECKING:
    from irtbench.bank.bank import ItemBank
    from irtbench.bank.item_map import ItemMap
    from irtbench.bank.scale import Scale
    from irtbench.scoring.sum_score_table import SumScoreTable

MOST_ROWS, MOST_LETTERS = 31, 60  # of a score table, and of a text, on the screen
MOST_SCALES = 30  # whose maps an earlier run may have left
ENDS = {
    ("difficulty", "highest"): "hardest",
    ("difficulty", "lowest"): "easiest",
    ("discrimination", "highest"): "most discriminating",
    ("discrimination", "lowest"): "least discriminating",
    ("information", "highest"): "most informative",
    ("information", "lowest"): "least informative",
}


@command(
    "items.csv", "score_table.csv", "test_information.csv", "items_mirt.csv", "items_catr.csv", "test_information.svg",
    "wright_map.svg", *(f"wright_map_{k}.svg" for k in range(1, 1 + MOST_SCALES)),
    output=MaybeFolder, figures=FiguresOrBeside,
)  # fmt: skip
def show(
    bank: Annotated[
        Path, typer.Argument(metavar="BANK", help="bank.json as `build` and `fit` write it, or items.csv.")
    ],
    run: Run,
    texts: Annotated[
        Path | None,
        typer.Option("--items", metavar="ITEMS", help="Table of items with texts, keys, labels for the bank's."),
    ] = None,
    item_column: ItemColumns = [],  # noqa: B006 - typer copies it
    export: Annotated[
        Literal["mirt", "catr"] | None,
        typer.Option(
            "--export",
            help="Write the items into DIR in the columns of R's mirt (a1, d, g, u: items_mirt.csv) or catR (a, b, c, "
            "d: items_catr.csv).",
        ),
    ] = None,
    norm: Annotated[
        Literal["normal", "empirical", "smoothed"], typer.Option("--norm", help="What percentiles compare with.")
    ] = "normal",
    most: Annotated[int, typer.Option("--most", min=1, help="Items shown at either end.")] = 3,
) -> Outcome:
    """Show the data card, the items at either end by difficulty, discrimination and information, ability by raw score.

    Writes items.csv, the most difficult first, with what each expects of the population and tells of it;
    score_table.csv, for every raw score on all items the ability (EAP of the sum score), its standard error and
    percentile, a table to print; and test_information.csv.
    """
    from irtbench.scoring.sum_score_table import MOST_ITEMS

    if export is not None and run.output is None:
        raise InputError("--export: expected a folder for them, -o DIR")
    if item_column and texts is None:
        raise InputError("--item-column says something of the items: expected --items ITEMS with it")
    known = irtbench.read_bank(bank, categories=True)
    if texts is not None:
        known = with_texts(known, texts, named("--item-column", item_column))
    if norm != "normal" and (without := [scale.name for scale in known.scales if scale.norms is None]):
        raise InputError(f"--norm {norm}: scale {without[0]} has no norm sample; expected --norm normal")
    scales = {scale.name: scale for scale in known.scales}
    maps = {name: irtbench.item_map(scale) for name, scale in scales.items()}
    sums = {
        name: irtbench.sum_score_table(scale, norm=norm)
        for name, scale in scales.items()
        if scale.items.n_items <= MOST_ITEMS
    }
    precision = {
        name: irtbench.measurement_precision(scale.items, population=scale.population or STANDARD_NORMAL)
        for name, scale in scales.items()
    }
    by_item, by_score, by_theta = (
        stacked({name: found.table() for name, found in each.items()}) for each in (maps, sums, precision)
    )
    files = {"items.csv": by_item, "score_table.csv": by_score if sums else None, "test_information.csv": by_theta}
    if export is not None:
        files[f"items_{export}.csv"] = stacked(
            {name: irtbench.models.parameter_columns(scale.items, export) for name, scale in scales.items()}
        )
    card = {} if known.card is None else known.card.stated()

    def tell() -> None:
        for field, said in card.items():
            say(f"{field}: {said}")
        for name, scale in scales.items():
            show_scale(scale, maps[name], sums.get(name), most, run)
        if run.output is not None and not any(scale.items.categories for scale in known.scales):
            half = max(1, min(scale.items.n_items for scale in known.scales) // 2)
            say_next("irtbench", "form", "assemble", bank, "--length", half, "-o", run.output / "form")

    return Outcome(
        json={"card": card, "items": by_item, "score_table": by_score}, files=files, tell=tell,
        figures=lambda: report.wright_figures(maps),
    )  # fmt: skip


def with_texts(bank: ItemBank, file: Path, columns: dict[str, str]) -> ItemBank:
    """The bank with what a table of items says of its items in place of what it says itself."""
    details = irtbench.read_items(file, columns=columns)
    wanted = [item for scale in bank.scales for item in scale.items.item_ids]
    if missing := sorted(set(wanted) - set(details.scale_items)):
        raise InputError(f"{file}: no row for item {name_first(missing)} of the bank")
    scales = (replace(scale, details=details.select(scale.items.item_ids)) for scale in bank.scales)
    return replace(bank, scales=tuple(scales))


def stacked(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The tables of all scales, one under the other, the scale's name last."""
    if not tables:
        return pd.DataFrame()
    return pd.concat([table.assign(scale=name) for name, table in tables.items()], ignore_index=True)


def show_scale(scale: Scale, found: ItemMap, scores: SumScoreTable | None, most: int, run: Run) -> None:
    """Print one scale on one screen."""
    view = found.extremes(most)
    shown: dict[str, Any] = {
        "": [ENDS[pair] for pair in zip(view["measure"], view["end"], strict=True)],
        "item": view["item_id"],
        "difficulty": view["difficulty"],
        "discrimination": view["discrimination"],
        "% right": [f"{100 * share:.0f}" for share in view["expected_correct"]],
        "% of information": [f"{100 * share:.1f}" for share in view["share_of_information"]],
    }
    if "text" in view:
        shown["text"] = [shortened(text) for text in view["text"]]
    show_table(pd.DataFrame(shown), title=f"{scale.name}: {scale.items.n_items} items", rest=run.at("items.csv"))
    if scores is None:
        say(f"no score table: {scale.items.n_items} items; irtbench score gives ability by the responses themselves")
        return
    table = scores.table()
    step = -(-(len(table) - 1) // (MOST_ROWS - 1))
    rows = table.iloc[::step]
    show_table(
        pd.DataFrame(
            {
                "raw score": rows["score"],
                "ability": rows["theta"],
                "standard error": rows["se"],
                "percentile": [f"{value:.1f}" for value in rows["percentile"]],
            }
        ),
        title=f"Ability by the {'points on' if scale.items.categories else 'number of right responses to'} all "
        f"{scale.items.n_items} items" + (f" (one score in {step})" if step > 1 else ""),
        rest=run.at("score_table.csv"),
    )


def shortened(text: Any) -> str:
    """A text on one line of the screen."""
    words = "" if pd.isna(text) else " ".join(str(text).split())
    return words if len(words) <= MOST_LETTERS else f"{words[: MOST_LETTERS - 3]}..."
