"""``irtbench crowd agree``: how far the crowd's answers agree."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import pandas as pd
import typer

import irtbench
from irtbench import report
from irtbench.cli.declared import Outcome, Run, command
from irtbench.cli.options import Answers, ItemsFile, Level, Map, MaybeFolder, mapped
from irtbench.cli.output import say, show_table
from irtbench.cli.reading import Reading
from irtbench.data.responses import name_first

if TYPE_CHECKING:
    from irtbench.data.items import ItemTable


@command("agreement.json", "item_agreement.csv", "respondent_agreement.csv", output=MaybeFolder)
def agree(
    answers: Answers,
    items: ItemsFile,
    reading: Reading,
    run: Run,
    gold: Annotated[
        Literal["majority", "dawid-skene"],
        typer.Option("--gold", help="How an item's label is formed from its answers; dawid-skene needs crowd-kit."),
    ] = "majority",
    level: Level = 0.95,
    answers_map: Map = [],  # noqa: B006 - typer copies it
) -> Outcome:
    """Agreement: majorities, Fleiss' kappa, Krippendorff's alpha, Gwet's AC1, overall, by label, item and respondent.

    With --map answers get the names of one vocabulary, and those that have none in it are refused. Where items have
    keys, labels that differ from them in capitals or spaces alone count as one.

    Writes agreement.json, item_agreement.csv (with gold labels, and items whose majority contradicts the key) and
    respondent_agreement.csv.
    """
    known = items.read()
    given = items.kept(reading.answers(answers).frame, known)
    given = given.assign(answer=in_one_vocabulary(given, known, mapped(answers_map)))
    run.progress("agreement")
    overall = irtbench.agreement(given, items=known, level=level)
    by_label = {} if known is None else irtbench.agreement_by_label(given, known, level=level)
    labels = (irtbench.majority_labels if gold == "majority" else irtbench.dawid_skene_labels)(given, items=known)
    by_item = irtbench.evaluation.item_agreement(given, items=known).table()
    by_item = by_item.merge(labels.table(), on="item_id", how="left")
    contradicted = by_item.loc[by_item["contradicts_key"], "item_id"].tolist()
    found = {"overall": asdict(overall), "by_label": {label: asdict(result) for label, result in by_label.items()}}
    found |= {"contradicts_key": contradicted}
    people = None
    if run.output is not None:
        people = irtbench.evaluation.respondent_agreement(given, items=known, gold=labels).table()

    def tell() -> None:
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
        show_table(pd.DataFrame(rows), rest=run.at("agreement.json"))
        if contradicted:
            say(f"the majority contradicts the key of item {name_first(contradicted)}")

    return Outcome(
        json=found, tell=tell, figures=lambda: report.agreement_figures(overall, by_label, by_item),
        files={"agreement.json": found, "item_agreement.csv": by_item, "respondent_agreement.csv": people},
    )  # fmt: skip


def in_one_vocabulary(given: pd.DataFrame, known: ItemTable | None, meant: dict[str, str]) -> pd.Series[str]:
    """The answers by the names that are mapped to and the keys; refused where they cannot be meant for the keys."""
    from irtbench.data.grading import GradingSettings, as_compared, as_meant, normalised_keys, to_vocabulary

    settings = GradingSettings(map=meant, unknown="stray")
    keys = {} if known is None else normalised_keys(known, settings)
    own = to_vocabulary(given["answer"], settings, keys.values()) if meant else as_compared(given["answer"], settings)
    return as_meant(own, keys, settings, given["respondent_id"]) if keys else own
