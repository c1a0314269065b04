"""``irtbench sample``: items from an annotated corpus, and the sheets to upload for them."""

from __future__ import annotations

import fnmatch
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import typer

from irtbench.cli.options import Folder, ItemColumns, Json, Quiet, Seed, Where, named
from irtbench.cli.output import output_folder, say, say_next, show_table, to_json, write_json, write_table
from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first

OURS = ("item_id", "key", "label", "n_agree", "n_annotators", "set", "attention", "text")


def sample(
    items: Annotated[Path, typer.Argument(metavar="ITEMS", help="A table of items, with annotators' labels.")],
    output: Folder,
    annotations: Annotated[
        list[str],
        typer.Option("--annotations", metavar="PATTERN", help="Columns with an annotator's label each: 'label*'."),
    ] = [],  # noqa: B006 - typer copies it
    agreement: Annotated[
        list[str], typer.Option("--agreement", metavar="K/N", help="How many of how many agree: 4/5; repeat.")
    ] = ["5/5"],  # noqa: B006
    per_label: Annotated[int, typer.Option("--per-label", help="Items for each label at each agreement.")] = 30,
    label: Annotated[list[str], typer.Option("--label", help="The labels; all that occur; repeat.")] = [],  # noqa: B006
    text: Annotated[
        str | None,
        typer.Option("--text", metavar="TEMPLATE", help="What people read, columns in braces: '{premise} {claim}'."),
    ] = None,
    sheets: Annotated[
        Literal["prolific", "label-studio", "potato", "mturk"] | None,
        typer.Option("--sheets", help="Write sheets to upload, with booklets and attention checks mixed in."),
    ] = None,
    booklets: Annotated[int, typer.Option("--booklets", help="Booklets, one a respondent.", min=1)] = 1,
    each: Annotated[int | None, typer.Option("--each", help="Items of a booklet; all.")] = None,
    checks: Annotated[
        Path | None, typer.Option("--checks", metavar="FILE", help="Attention checks: item_id, key, text.")
    ] = None,
    checks_each: Annotated[int | None, typer.Option("--checks-each", help="Checks of a booklet; all.")] = None,
    option: Annotated[
        list[str], typer.Option("--option", help="An answer to choose from; the keys, if none is said; repeat.")
    ] = [],  # noqa: B006
    question: Annotated[str, typer.Option("--question", help="Asked of every item.")] = "Which answer is right?",
    item_column: ItemColumns = [],  # noqa: B006
    where: Where = [],  # noqa: B006
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Choose items by label and by the agreement of a corpus's annotators, and write the sheets that ask a crowd.

    Without --annotations all items are taken. Writes items.csv (for build, screen and agree), sample.json; with
    --sheets booklets.csv and the files to upload.
    """
    from irtbench.data.booklets import make_booklets
    from irtbench.data.item_sampling import AgreementLevel, annotated_items, sample_items
    from irtbench.data.readers.item_table import read_items
    from irtbench.data.readers.table import read_table
    from irtbench.data.sheets.crowd_sheets import crowd_sheets

    columns = named("--item-column", item_column)
    conditions = named("--where", where)
    rng = np.random.default_rng(seed)
    known = read_items(items, columns=columns, where=conditions)
    corpus = read_table(items)
    id_column = columns.get("item_id", "item_id")
    corpus = corpus.set_index(id_column, drop=False).loc[list(known.item_ids)]
    chosen = pd.DataFrame(
        {"item_id": known.item_ids, "key": known.key, "label": known.label, "attention": np.array(known.attention, int)}
    )
    if annotations:
        names = [name for name in corpus.columns if any(fnmatch.fnmatchcase(name, each_) for each_ in annotations)]
        if not names:
            raise InputError(
                f"file {items}: no column like {', '.join(annotations)}; it has: {name_first(list(corpus), most=12)}"
            )
        levels = [AgreementLevel.read(given) for given in agreement]
        scale = corpus.loc[list(known.scale_items), names].mask(lambda cells: cells.isin(["-", "NA", "NaN"]), "")
        drawn = sample_items(annotated_items(scale), levels=levels, per_label=per_label, labels=label, rng=rng)
        own = chosen[chosen["attention"] == 1]
        chosen = pd.concat([drawn.assign(key=drawn["label"], attention=0), own], ignore_index=True)
    rows = corpus.loc[list(chosen["item_id"])]
    chosen["text"] = fill(text, rows, items) if text is not None else known.select(list(chosen["item_id"])).text
    if checks is not None:
        more = read_items(checks)
        own = pd.DataFrame({"item_id": more.item_ids, "key": more.key, "text": more.text, "attention": 1})
        chosen = pd.concat([chosen, own], ignore_index=True)
    chosen = chosen[[name for name in OURS if name in chosen]]
    twice = chosen["item_id"][chosen["item_id"].duplicated()]
    if not twice.empty:
        raise InputError(f"sample: item {name_first(list(twice))} is both an item and an attention check")
    rest = rows.drop(columns=[name for name in rows.columns if name in OURS or name == id_column])
    table = chosen.merge(rest, left_on="item_id", right_index=True, how="left")
    is_check = chosen["attention"] == 1
    found: dict[str, Any] = {
        "n_items": int((~is_check).sum()),
        "n_attention": int(is_check.sum()),
        "seed": seed,
        "sets": chosen[~is_check].value_counts(["set", "label"], sort=False).reset_index(name="n_items")
        if annotations
        else [],
    }
    files: dict[str, str] = {}
    placed = None
    if sheets is not None:
        placed = make_booklets(
            list(chosen.loc[~is_check, "item_id"]), n_booklets=booklets, n_each=each,
            checks=list(chosen.loc[is_check, "item_id"]), n_checks=checks_each, rng=rng,
        )  # fmt: skip
        options = option or sorted(chosen["key"].dropna().unique())
        texts = dict(zip(chosen["item_id"], chosen["text"].fillna(""), strict=True))
        files = crowd_sheets(placed, texts, format=sheets, options=options, question=question)
        found |= {"n_booklets": booklets, "n_places": int(placed["position"].max()), "sheets": sorted(files)}
    with output_folder(output) as folder:
        write_table(table, folder / "items.csv")
        write_json(found, folder / "sample.json")
        if placed is not None:
            write_table(placed.assign(attention=placed["attention"].astype(int)), folder / "booklets.csv")
        for name, content in files.items():
            (folder / name).write_text(content, encoding="utf-8", newline="")
    if json:
        print(to_json(found))
    elif not quiet:
        say(f"{found['n_items']} items and {found['n_attention']} attention checks in items.csv of {output}")
        if annotations:
            show_table(found["sets"], rest=output / "sample.json")
        if sheets is not None:
            say(f"{booklets} booklets of {found['n_places']} places; to upload: {name_first(sorted(files))}")
        say_next("irtbench", "screen", "ANSWERS.csv", "--items", output / "items.csv", "-o", output / "screened")


def fill(template: str, rows: pd.DataFrame, file: Path) -> list[str]:
    """The template with each row's columns in the place of their names in braces.

    Raises
    ------
    InputError
        If it names a column that is not there, or its braces do not match.
    """
    try:
        return [template.format_map(row) for row in rows.to_dict(orient="records")]
    except KeyError as error:
        raise InputError(
            f"--text: file {file} has no column {error}; it has: {name_first(list(rows.columns), most=12)}"
        ) from None
    except (ValueError, IndexError, AttributeError):
        raise InputError(f"--text {template}: expected text with columns in braces, such as {{text}}") from None
