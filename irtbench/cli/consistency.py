"""``irtbench consistency``: items against their switched twins, and items with a tag against the others."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from irtbench.cli.options import Figures, Json, Quiet, Responses, Seed
from irtbench.cli.output import say, show_table, to_json, write_json, write_table
from irtbench.cli.presenting import figures_in, maybe_folder
from irtbench.cli.progress import reporting
from irtbench.cli.reading import Reading, reads_files

MOST_SYSTEMS = 6  # of which all pairs are compared without being asked, and that one figure holds
FILES = ("consistency.csv", "contrasts.csv", "systems.csv", "consistency.json", "consistency.svg")


@reads_files
def consistency(
    responses: Responses,
    items: Annotated[
        Path, typer.Option("--items", metavar="ITEMS", help="Table of items, original and switched, a row each.")
    ],
    twin_of: Annotated[
        str, typer.Option("--twin-of", metavar="COLUMN", help="Column with a switched item's original.")
    ] = "twin_of",
    tag: Annotated[
        list[str],
        typer.Option("--tag", metavar="COLUMN", help="Column of tags, or a 1 / 0 column that is a tag; repeat."),
    ] = [],  # noqa: B006 - typer copies it
    item: Annotated[str, typer.Option("--item", metavar="COLUMN", help="Column of item names.")] = "item_id",
    annotations: Annotated[
        Path | None,
        typer.Option("--annotations", metavar="ANSWERS", help="Annotators' labels of the items, for Fleiss' kappa."),
    ] = None,
    against: Annotated[
        str | None, typer.Option("--against", metavar="NAME", help="Compare each other system with this one.")
    ] = None,
    adjustment: Annotated[
        Literal["holm", "fdr_bh"], typer.Option("--adjust", help="p for many tests: Holm or Benjamini-Hochberg.")
    ] = "holm",
    level: Annotated[float, typer.Option("--level", help="Coverage of the intervals.")] = 0.95,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.")
    ] = None,
    figures: Figures = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Accuracy before and after switching, consistency, and accuracy on tagged items against the others.

    Writes consistency.csv, contrasts.csv, systems.csv (two systems or more), consistency.json and consistency.svg.
    """
    from irtbench.data.readers.recognise import read_answers
    from irtbench.data.readers.tagged_items import read_tags, read_twins
    from irtbench.evaluation.agreement import agreement
    from irtbench.evaluation.consistency import compare_measures, contrast_measures, switch_protocol

    with reporting(quiet=quiet) as progress:
        agreed = None if annotations is None else asdict(agreement(read_answers(annotations).frame))
        twins = read_twins(items, item=item, twin_of=twin_of)
        tags = read_tags(items, tag, item=item) if tag else None
        given = reading.matrix(responses)
        protocol = switch_protocol(given, twins, tags=tags)
        measures = protocol.table(level=level)
        contrasts = contrast_measures(protocol, level=level)
        progress("comparing systems")
        systems = None
        if against is not None or 2 <= given.n_respondents <= MOST_SYSTEMS:
            systems = compare_measures(protocol, against=against, level=level, adjustment=adjustment)
    found = {"measures": measures, "contrasts": contrasts, "systems": systems, "annotations": agreed}
    with maybe_folder(output, files=FILES) as folder, figures_in(figures, unasked=folder) as draw:
        if folder is not None:
            write_table(measures, folder / "consistency.csv")
            write_table(contrasts, folder / "contrasts.csv")
            if systems is not None:
                write_table(systems, folder / "systems.csv")
            write_json(found, folder / "consistency.json")
        if draw is not None:
            from irtbench.report.evaluation_figures import consistency_figures

            shown = measures[measures["respondent_id"].isin(protocol.system_ids[:MOST_SYSTEMS])]
            draw(consistency_figures(shown, n_measures=len(protocol.measures)))
    if json:
        print(to_json(found))
    elif not quiet:
        show_table(measures, rest=(output, "consistency.csv"))
        show_table(contrasts, title="Within each system", rest=(output, "consistency.json"))
        if systems is not None:
            shown_columns = ["measure", "first", "second", "difference", "lower", "upper", "p", "p_adjusted"]
            between = systems[[*shown_columns, "mcnemar_p"]]
            show_table(between, title="Between systems", rest=(output, "systems.csv"))
        if agreed is not None:
            say(f"Fleiss' kappa of the annotations: {agreed['fleiss_kappa']:.3f}")
