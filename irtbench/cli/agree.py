"""``irtbench agree``: how far the crowd's answers agree."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import pandas as pd
import typer

from irtbench.cli.fit_in_categories import levels_of
from irtbench.cli.options import Answers, Figures, ItemColumns, Json, Map, Quiet, Seed, Where, mapped, named
from irtbench.cli.output import output_folder, say, show_table, to_json, write_json, write_table
from irtbench.cli.presenting import figures_in
from irtbench.cli.progress import reporting
from irtbench.cli.reading import Reading, reads_files
from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first

if TYPE_CHECKING:
    from irtbench.data.items import ItemTable
    from irtbench.evaluation.agreement_of_grades import OrderedAgreement


@reads_files
def agree(
    answers: Answers,
    items: Annotated[
        Path | None, typer.Option("--items", metavar="ITEMS", help="Items with key and label, for figures by label.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.")
    ] = None,
    gold: Annotated[
        Literal["majority", "dawid-skene"],
        typer.Option("--gold", help="How an item's label is formed from its answers; dawid-skene needs crowd-kit."),
    ] = "majority",
    levels: Annotated[
        str | None,
        typer.Option("--levels", metavar="A,B,...", help="Answers are grades: all in order, the lowest first."),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Nominal coverage of the intervals.")] = 0.95,
    answers_map: Map = [],  # noqa: B006 - typer copies it
    item_column: ItemColumns = [],  # noqa: B006
    where: Where = [],  # noqa: B006
    figures: Figures = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Agreement: majorities, Fleiss' kappa, Krippendorff's alpha, Gwet's AC1, overall, by label, item and respondent.

    With --map answers get the names of one vocabulary, and those that have none in it are refused. Where items have
    keys, labels that differ from them in capitals or spaces alone count as one.

    Writes agreement.json, item_agreement.csv (with gold labels, and items whose majority contradicts the key) and
    respondent_agreement.csv. With --levels also how near to each other grades are: weighted kappa, ordinal alpha,
    Gwet's AC2, intraclass correlations.
    """
    from irtbench.data.readers.item_table import read_items
    from irtbench.evaluation.agreement import agreement, agreement_by_label
    from irtbench.evaluation.agreement_of_grades import ordered_agreement
    from irtbench.evaluation.agreement_tables import item_agreement, respondent_agreement
    from irtbench.evaluation.gold_labels import dawid_skene_labels, majority_labels

    if items is None and (item_column or where):
        raise InputError("--item-column and --where say something of the items: expected --items ITEMS with them")
    with reporting(quiet=quiet) as progress:
        progress("reading")
        given = reading.answers(answers).frame
        known = None
        if items is not None:
            known = read_items(items, columns=named("--item-column", item_column), where=named("--where", where))
            if where:
                given = given[given["item_id"].isin(known.item_ids)]
        given = given.assign(answer=in_one_vocabulary(given, known, mapped(answers_map)))
        progress("agreement")
        overall = agreement(given, items=known, level=level)
        near = None if levels is None else ordered_agreement(given, levels_of(levels), items=known, level=level)
        by_label = {} if known is None else agreement_by_label(given, known, level=level)
        labels = (majority_labels if gold == "majority" else dawid_skene_labels)(given, items=known)
        by_item = item_agreement(given, items=known).table().merge(labels.table(), on="item_id", how="left")
    contradicted = by_item.loc[by_item["contradicts_key"], "item_id"].tolist()
    found = {"overall": asdict(overall), "by_label": {label: asdict(result) for label, result in by_label.items()}}
    found |= {"contradicts_key": contradicted} | ({} if near is None else {"ordered": asdict(near)})
    if output is not None:
        with output_folder(output) as folder:
            write_json(found, folder / "agreement.json")
            write_table(by_item, folder / "item_agreement.csv")
            people = respondent_agreement(given, items=known, gold=labels)
            write_table(people.table(), folder / "respondent_agreement.csv")
    with figures_in(figures) as draw:
        if draw is not None:
            from irtbench.report.crowd_plots import agreement_figures

            draw(agreement_figures(overall, by_label, by_item))
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
                "interval": f"{result.krippendorff_lower:.3f} to {result.krippendorff_upper:.3f}",
                "gwet_ac1": result.gwet_ac1,
                "interval ": f"{result.gwet_lower:.3f} to {result.gwet_upper:.3f}",
            }
            for name, result in {"all": overall, **by_label}.items()
        ]
        show_table(pd.DataFrame(rows), rest=(output, "agreement.json"))
        if near is not None:
            show_table(shown_ordered(near))
        if contradicted:
            say(f"the majority contradicts the key of item {name_first(contradicted)}")


def shown_ordered(near: OrderedAgreement) -> pd.DataFrame:
    """A row a coefficient of grades, with its interval."""
    found = asdict(near)
    names = ["weighted_kappa", "krippendorff_ordinal", "krippendorff_interval", "gwet_ac2", "icc"]
    rows = [{"of grades": name, "value": found[name], "lower": found[f"{name}_lower"], "upper": found[f"{name}_upper"]}
            for name in names]  # fmt: skip
    rows += [{"of grades": name, "value": found[name]} for name in ("icc_mean", "icc_absolute", "icc_consistency")]
    return pd.DataFrame(rows).dropna(subset="value")


def in_one_vocabulary(given: pd.DataFrame, known: ItemTable | None, meant: dict[str, str]) -> pd.Series[str]:
    """The answers by the names that are mapped to and the keys; refused where they cannot be meant for the keys."""
    from irtbench.data.grading import GradingSettings, as_compared, as_meant, normalised_keys, to_vocabulary

    settings = GradingSettings(map=meant, unknown="stray")
    keys = {} if known is None else normalised_keys(known, settings)
    own = to_vocabulary(given["answer"], settings, keys.values()) if meant else as_compared(given["answer"], settings)
    return as_meant(own, keys, settings, given["respondent_id"]) if keys else own
