"""``irtbench difficulty``: why are items hard, and how hard will a new one be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray

from irtbench.cli.link_options import chosen_scale
from irtbench.cli.options import Folder, Json, Quiet, Seed, demand_varied_items
from irtbench.cli.output import output_folder, say, show_table, to_json, write_json, write_table
from irtbench.cli.progress import reporting
from irtbench.cli.reading import Reading, reads_files
from irtbench.data.input_error import InputError

if TYPE_CHECKING:
    from irtbench.analysis.explained_difficulty import ExplainedDifficulty
    from irtbench.analysis.linear_logistic_test import LinearLogisticTest
    from irtbench.data.item_features import ItemFeatures
    from irtbench.models.item_parameters import ItemParameters
    from irtbench.models.quadrature import Quadrature

FEW_ANSWERS = 50  # to an item, below which the residual comes out too small
FILES = ("effects.csv", "difficulty.json", "predictions.csv", "lltm.csv", "predicted_difficulty.svg")


@reads_files(trials="count")
def difficulty(
    source: Annotated[
        Path, typer.Argument(metavar="BANK", help="bank.json, items.csv with standard errors, or graded RESPONSES.")
    ],
    features: Annotated[
        Path, typer.Option("--features", metavar="F", help="Table with item_id and a column a feature.")
    ],
    output: Folder,
    columns: Annotated[
        list[str], typer.Option("--feature", metavar="COLUMN", help="A column to take; all if none is named.")
    ] = [],  # noqa: B006 - typer copies it
    exclude: Annotated[
        list[str], typer.Option("--exclude-features", metavar="COLUMN", help="A column that is no feature.")
    ] = [],  # noqa: B006
    model: Annotated[
        Literal["rasch", "2pl"], typer.Option("--model", help="Of RESPONSES; with rasch the LLTM is tested too.")
    ] = "2pl",
    shrinkage: Annotated[
        Literal["auto", "none", "learnt"],
        typer.Option("--shrinkage", help="Whether effects are drawn to 0; auto: with under five items a feature."),
    ] = "auto",
    scale: Annotated[
        str | None, typer.Option("--scale", metavar="NAME", help="The scale, where the bank has several.")
    ] = None,
    figures: Annotated[bool, typer.Option("--figures", help="Draw difficulties against predictions into DIR.")] = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Explain the difficulty of items by their features, and predict that of new ones.

    Difficulties with their standard errors are regressed on the features, with a residual. Writes effects.csv;
    difficulty.json: R2 with an interval, cross-validated R2, and how many answers the features of a new item are worth;
    and predictions.csv, every item predicted by a fit without it, and those of F that have no difficulty yet. With
    RESPONSES and --model rasch also lltm.csv: the linear logistic test model, whose test is in difficulty.json.
    """
    from irtbench.analysis.explained_difficulty import explain_difficulty
    from irtbench.data.readers.feature_table import read_features

    with reporting(quiet=quiet) as progress, output_folder(output, files=FILES) as folder:
        known = read_features(features, columns=tuple(columns), exclude=tuple(exclude))
        items, population, test = items_and_test(source, known, model, scale, reading, progress)
        there = [item for item in items.item_ids if item in set(known.item_ids)]
        without = sorted(set(items.item_ids) - set(there))
        if not there:
            raise InputError(f"{features}: none of its items is among those of {source}; expected a row for each")
        if without:
            progress(f"left out, no row in {features.name}: {', '.join(without[:5])}")
        chosen = items.select(there)
        errors = errors_of_table(source, chosen.item_ids) if chosen.covariance is None else None
        found = explain_difficulty(
            chosen, known, standard_errors=errors, shrinkage=shrinkage, population=population,
            rng=np.random.default_rng(seed),
        )  # fmt: skip
        about = about_difficulty(found, test) | {"items_left_out": without}
        write_table(found.table(), folder / "effects.csv")
        write_table(found.predictions_table(), folder / "predictions.csv")
        if test is not None:
            write_table(test.table(), folder / "lltm.csv")
        if figures:
            from irtbench.report.figure_file import write_figure

            write_figure(folder / "predicted_difficulty.svg", found.plot)
        write_json(about, folder / "difficulty.json")
    if json:
        print(to_json(about | {"effects": found.table()}))
    elif not quiet:
        title = f"difficulty of {len(found.item_ids)} items"
        show_table(found.table(), title=title, rest=output / "effects.csv")
        tell(found, test)


def items_and_test(
    source: Path,
    known: ItemFeatures,
    model: Literal["rasch", "2pl"],
    scale: str | None,
    reading: Reading,
    progress: Any,
) -> tuple[ItemParameters, Quadrature | None, LinearLogisticTest | None]:
    """Items with standard errors, of a bank or fitted to responses, their population, and the LLTM if wanted."""
    from irtbench.analysis.linear_logistic_test import linear_logistic_test
    from irtbench.bank.known_items import read_bank
    from irtbench.estimation.fit import fit_model

    if holds_items(source):
        own = chosen_scale(read_bank(source), scale, source)
        return own.items, own.population, None
    data = reading.matrix(source)
    p = data.proportion_correct()
    varied = [item for item, share in zip(data.item_ids, p, strict=True) if 0 < share < 1]
    demand_varied_items(varied, source)
    data = data.select_items([item for item in varied if item in set(known.item_ids)] or varied)
    progress(f"fitting {data.n_respondents} respondents x {data.n_items} items")
    answers = float(np.median(data.n_by_item))
    if answers < FEW_ANSWERS:
        progress(
            f"items have {answers:.0f} answers (median): with fewer than {FEW_ANSWERS} errors of difficulty are not "
            "normal, and R2 comes out too large; believe the cross-validated one"
        )
    if model == "rasch":
        test = linear_logistic_test(data, known)
        return test.rasch.items, test.rasch.quadrature, test
    fitted = fit_model(data)
    return fitted.items, fitted.quadrature, None


def holds_items(source: Path) -> bool:
    """Whether a file is a bank or a table of item parameters; else it holds responses."""
    from irtbench.data.readers.head import look_at

    if not source.is_file():
        return False
    head = look_at(source)
    return head.has("scales") or (head.has("discrimination") and (head.has("difficulty") or head.has("intercept")))


def errors_of_table(source: Path, item_ids: tuple[str, ...]) -> NDArray[np.float64] | None:
    """Standard errors of difficulty in a table of item parameters; None where there is none."""
    from irtbench.data.readers.head import look_at
    from irtbench.data.readers.table import read_table

    if not source.is_file() or not look_at(source).has("item_id", "discrimination", "se_difficulty"):
        return None
    table = read_table(source).set_index("item_id")
    return pd.to_numeric(table["se_difficulty"], errors="coerce").loc[list(item_ids)].to_numpy(dtype=np.float64)


def about_difficulty(found: ExplainedDifficulty, test: LinearLogisticTest | None) -> dict[str, Any]:
    """What difficulty.json says."""
    about: dict[str, Any] = {
        "n_items": len(found.item_ids),
        "n_features": len(found.terms) - 1,
        "r2": found.r2,
        "r2_lower": found.r2_lower,
        "r2_upper": found.r2_upper,
        "r2_cross_validated": found.r2_cross_validated,
        "residual_sd": found.residual_sd,
        "difficulty_sd": found.total_sd,
        "answers_worth": found.answers_worth,
        "shrunk": found.shrunk,
        "n_new_items": len(found.new_item_ids),
    }
    if test is not None:
        about["lltm"] = {
            "log_likelihood": test.log_likelihood,
            "log_likelihood_rasch": test.log_likelihood_rasch,
            "x2": test.x2,
            "df": test.df,
            "p": test.p,
            "ability_sd": test.ability_sd,
            "correlation": test.correlation,
            "converged": test.converged,
        }
    return about


def tell(found: ExplainedDifficulty, test: LinearLogisticTest | None) -> None:
    """Print it in a few lines."""
    say(
        f"features explain {found.r2:.0%} of the variance of difficulty "
        f"({found.r2_lower:.0%} to {found.r2_upper:.0%}); of items left out {found.r2_cross_validated:.0%}"
    )
    say(
        f"difficulties have standard deviation {found.total_sd:.2f}, {found.residual_sd:.2f} of it unexplained; "
        f"the features of a new item are worth {found.answers_worth:.0f} answers"
    )
    if found.shrunk:
        say("effects are drawn to 0, as far as the data ask for")
    if test is not None:
        say(
            f"exactly linear in the features (LLTM): x2 {test.x2:.1f}, df {test.df}, p {test.p:.2g}; "
            f"correlation of the difficulties {test.correlation:.2f}"
        )
