"""``irtbench dimensions``: how many abilities do the items measure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from irtbench.cli.options import Columns, Folder, ItemColumns, Json, Quiet, Responses, Seed, Table, Where, named
from irtbench.cli.output import output_folder, show_table, to_json, write_json, write_table
from irtbench.cli.progress import reporting
from irtbench.data.input_error import InputError

EIGENVALUES_SHOWN = 10


def dimensions(
    responses: Responses,
    output: Folder,
    items: Annotated[
        Path | None,
        typer.Option("--items", metavar="ITEMS", help="Items with labels, towards which factors are turned."),
    ] = None,
    factors: Annotated[
        int, typer.Option("--factors", min=0, max=3, help="Compare models of 1 up to this many factors; 0 for none.")
    ] = 3,
    samples: Annotated[int, typer.Option("--samples", help="Samples of independent items.")] = 20,
    column: Columns = [],  # noqa: B006 - typer copies it
    item_column: ItemColumns = [],  # noqa: B006
    where: Where = [],  # noqa: B006
    table: Table = "auto",
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Count abilities: eigenvalues against chance, models of several factors, loadings turned to the items' labels.

    Writes eigenvalues.csv, dimensions.json, scree.png and, with --items, loadings.csv. Items that all got right or all
    got wrong say nothing here: they are left out and named.
    """
    from irtbench.building.pruning import answered, constant_items
    from irtbench.data.readers.item_table import read_items
    from irtbench.data.readers.recognise import read_responses
    from irtbench.data.responses import ResponseMatrix
    from irtbench.diagnostics.comparison import compare_models, likelihood_ratio
    from irtbench.diagnostics.dimensionality import parallel_analysis, rotate_to_labels
    from irtbench.estimation.factors import fit_factors
    from irtbench.report.figure_file import write_figure
    from irtbench.report.scree_plot import draw_scree

    if items is None and (item_column or where):
        raise InputError("--item-column and --where say something of the items: expected --items ITEMS with them")
    with reporting(quiet=quiet) as progress, output_folder(output) as folder:
        given = ResponseMatrix.from_long(
            read_responses(responses, format=table, columns=named("--column", column)).frame
        )
        known = None
        if items is not None:
            known = read_items(items, columns=named("--item-column", item_column), where=named("--where", where))
            given = given.select_items(known.scale_items)
        left_out = {removal.item_id: removal.reason for removal in constant_items(given)}
        data = answered(given.select_items([item for item in given.item_ids if item not in left_out]))
        progress(f"tetrachoric correlations of {data.n_items} items and of {samples} samples of independent items")
        analysis = parallel_analysis(data, rng=np.random.default_rng(seed), n_samples=samples)
        models = {}
        for number in range(1, factors + 1):
            name = "1 factor" if number == 1 else f"{number} factors"
            progress(f"model with {name}")
            models[name] = fit_factors(data, number, seed=seed)
        comparison = compare_models(models).assign(converged=[m.converged for m in models.values()]) if models else None
        tests = [
            {"smaller": a, "larger": b, **vars(likelihood_ratio(models[a], models[b]))}
            for a, b in zip(list(models), list(models)[1:], strict=False)
        ]
        labels = [] if known is None else [label or "" for label in known.select(data.item_ids).label]
        rotated = None
        if 1 < len(set(labels)) <= factors:
            loadings = list(models.values())[len(set(labels)) - 1].loadings
            rotated = rotate_to_labels(loadings, data.item_ids, labels)
        found = {
            "n_abilities": analysis.n_abilities,
            "eigenvalues": analysis.eigenvalues[:EIGENVALUES_SHOWN],
            "chance_limit": analysis.chance_limit[:EIGENVALUES_SHOWN],
            "percentile": analysis.percentile,
            "n_samples": samples,
            "seed": seed,
            "n_respondents": data.n_respondents,
            "n_items": data.n_items,
            "items_left_out": left_out,
            "note": analysis.tetrachoric.note,
            "models": comparison,
            "likelihood_ratio_tests": tests,
            "rotation": None
            if rotated is None
            else {
                "factors": rotated.factors,
                "by_label": rotated.by_label(),
                "share_following": float(rotated.follows.mean()),
                "correlations": rotated.correlations,
                "loadings": rotated.table(),
            },
        }
        write_table(analysis.table(), folder / "eigenvalues.csv")
        write_json(found, folder / "dimensions.json")
        write_figure(folder / "scree.png", lambda ax: draw_scree(ax, analysis))
        if rotated is not None:
            write_table(rotated.table(), folder / "loadings.csv")
    if json:
        print(to_json(found))
    elif not quiet:
        show_table(analysis.table().head(EIGENVALUES_SHOWN), title="Eigenvalues")
        print(f"{analysis.n_abilities} abilities by parallel analysis")
        if analysis.tetrachoric.note:
            print(f"note: {analysis.tetrachoric.note}")
        if comparison is not None:
            show_table(comparison, title="Models")
        for test in tests:
            print(f"{test['larger']} against {test['smaller']}: chi2 {test['statistic']:.1f}, df {test['df']}, "
                  f"p {test['p']:.3g}")  # fmt: skip
        if rotated is not None:
            show_table(rotated.by_label(), title="Mean loadings, turned to the labels")
            print(f"{rotated.follows.mean():.0%} of the items load most on the factor of their label")
        if left_out:
            print(f"left out: {', '.join(f'{item} ({reason})' for item, reason in left_out.items())}")
