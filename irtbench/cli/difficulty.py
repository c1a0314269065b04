"""``irtbench difficulty``: why are items hard, and how hard will a new one be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray

from irtbench.cli.link_options import chosen_scale
from irtbench.cli.options import (
    AllowUnconverged,
    FiguresOrBeside,
    Folder,
    Json,
    Quiet,
    Seed,
    demand_varied_items,
    numbers,
)
from irtbench.cli.output import output_folder, say, show_table, to_json, write_json, write_table
from irtbench.cli.presenting import figures_in
from irtbench.cli.progress import demand_converged, reporting
from irtbench.cli.reading import Reading, reads_files
from irtbench.data.input_error import InputError

if TYPE_CHECKING:
    from irtbench.analysis.explained_difficulty import ExplainedDifficulty, Shrinkage
    from irtbench.analysis.horizons import TimeHorizon
    from irtbench.analysis.linear_logistic_test import LinearLogisticTest
    from irtbench.data.item_features import ItemFeatures

Model = Literal["rasch", "2pl"]

FILES = (
    "effects.csv", "difficulty.json", "predictions.csv", "prior_items.csv", "lltm.csv", "predicted_difficulty.svg",
    "effects.svg", "horizon.csv", "time_horizon.svg",
)  # fmt: skip


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
    model: Annotated[Model, typer.Option("--model", help="Of RESPONSES; with rasch the LLTM is tested too.")] = "2pl",
    shrinkage: Annotated[
        Literal["auto", "none", "learnt"],
        typer.Option("--shrinkage", help="Whether effects are drawn to 0; auto: with five features or more."),
    ] = "auto",
    curved: Annotated[
        bool, typer.Option("--curved", help="Difficulty may bend in the features and they may depend on each other.")
    ] = False,
    scale: Annotated[
        str | None, typer.Option("--scale", metavar="NAME", help="The scale, where the bank has several.")
    ] = None,
    horizon: Annotated[
        str | None,
        typer.Option(
            "--horizon", metavar="COLUMN", help="The time a person needs: how long a task each system solves."
        ),
    ] = None,
    share: Annotated[
        str, typer.Option("--share", metavar="P,...", help="Of tasks solved at the horizon; above 0, below 1.")
    ] = "0.5,0.8",
    figures: FiguresOrBeside = None,
    seed: Seed = 0,
    allow_unconverged: AllowUnconverged = False,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Explain the difficulty of items by their features, and predict that of new ones.

    Difficulty is regressed on the features, with a residual: of RESPONSES together with the items, of a bank in a
    second step that has the errors of its items. Writes effects.csv; difficulty.json: R2 with an interval,
    cross-validated R2, and how many answers the features of a new item are worth; predictions.csv, every item predicted
    by a fit without it, and those of F that have no difficulty yet; and prior_items.csv, what is expected of these, for
    `extend --prior-items` and `fit --prior-items`. With RESPONSES and --model rasch also lltm.csv: the linear logistic
    test model, whose test is in difficulty.json. With RESPONSES and --horizon also horizon.csv: the length at which
    each system solves half (80%) of the tasks; that column then is a feature by its logarithm.
    """
    from irtbench.data.readers.feature_table import read_features

    test: LinearLogisticTest | None = None
    horizons: TimeHorizon | None = None
    with (
        reporting(quiet=quiet) as progress,
        output_folder(output, files=FILES) as folder,
        figures_in(figures, beside=folder) as draw,
    ):
        wanted = (*columns, horizon) if columns and horizon is not None and horizon not in columns else tuple(columns)
        known = read_features(features, columns=wanted, exclude=tuple(exclude))
        wish = None if horizon is None else wished_horizon(source, known, features, horizon, share)
        if wish is not None:
            known = wish.features
        rng = np.random.default_rng(seed)
        if holds_items(source):
            found, without = explained_bank(source, known, features, scale, shrinkage, curved, rng)
        else:
            found, test, horizons, without = explained_answers(
                source, known, features, model, shrinkage, curved, wish, reading, rng, progress
            )
        if without:
            progress(f"left out, no row in {features.name}: {', '.join(without[:5])}")
        about = about_difficulty(found, test, horizons) | {"items_left_out": without}
        write_table(found.table(), folder / "effects.csv")
        write_table(found.predictions_table(), folder / "predictions.csv")
        if found.new_item_ids:
            write_table(found.prior_table(), folder / "prior_items.csv")
        if test is not None:
            write_table(test.table(), folder / "lltm.csv")
        if horizons is not None:
            write_table(horizons.table(), folder / "horizon.csv")
        if draw is not None:
            from irtbench.report.check_figures import difficulty_figures, horizon_figures

            draw(difficulty_figures(found) + ([] if horizons is None else horizon_figures(horizons)))
        write_json(about, folder / "difficulty.json")
    if json:
        tables = {"effects": found.table()} | ({} if horizons is None else {"horizons": horizons.table()})
        print(to_json(about | tables))
    elif not quiet:
        title = f"difficulty of {len(found.item_ids)} items"
        show_table(found.table(), title=title, rest=output / "effects.csv")
        tell(found, test)
        if horizons is not None:
            title = f"length of tasks solved so often, in {horizons.unit}"
            show_table(horizons.table(), title=title, rest=output / "horizon.csv")
            tell_horizons(horizons)
    unsettled = (
        []
        if found.converged and (horizons is None or horizons.converged)
        else ["regression and items did not settle: there are too few responses"]
    )
    demand_converged(unsettled, allow_unconverged=allow_unconverged, quiet=True)


def explained_bank(
    source: Path,
    known: ItemFeatures,
    features: Path,
    scale: str | None,
    shrinkage: Shrinkage,
    curved: bool,
    rng: np.random.Generator,
) -> tuple[ExplainedDifficulty, list[str]]:
    """The second step on a bank's items, and those of them without features."""
    from irtbench.analysis.explained_difficulty import explain_difficulty
    from irtbench.bank.known_items import read_bank

    own = chosen_scale(read_bank(source, categories=True), scale, source)
    there, without = with_features(own.items.item_ids, known, source, features)
    chosen = own.select(there)
    errors = errors_of_table(source, chosen.items.item_ids) if chosen.items.covariance is None else None
    found = explain_difficulty(
        chosen.items, known, standard_errors=errors, joint_error=chosen.joint_error, shrinkage=shrinkage, curved=curved,
        population=own.population, rng=rng,
    )  # fmt: skip
    return found, without


def explained_answers(
    source: Path,
    known: ItemFeatures,
    features: Path,
    model: Model,
    shrinkage: Shrinkage,
    curved: bool,
    wish: WishedHorizon | None,
    reading: Reading,
    rng: np.random.Generator,
    progress: Callable[[str], None],
) -> tuple[ExplainedDifficulty, LinearLogisticTest | None, TimeHorizon | None, list[str]]:
    """The regression fitted with the items to responses, the LLTM with rasch, horizons, and items without features."""
    from irtbench.analysis.explained_responses import explain_responses
    from irtbench.analysis.linear_logistic_test import linear_logistic_test
    from irtbench.analysis.task_lengths import time_horizon

    given = reading.matrix(source)
    answered = [item for item, n in zip(given.item_ids, given.n_by_item, strict=True) if n]
    there, without = with_features(answered, known, source, features)
    data = given.select_items(there)
    data = data.select_respondents(data.n_by_respondent > 0)
    p = data.proportion_correct()
    varied = [item for item, share in zip(data.item_ids, p, strict=True) if 0 < share < 1]
    demand_varied_items(varied, source)
    progress(f"fitting {data.n_respondents} respondents x {data.n_items} items")
    found = explain_responses(data, known, model=model, shrinkage=shrinkage, curved=curved, rng=rng, progress=progress)
    test = None
    if model == "rasch":
        some = data.select_items(varied)
        test = linear_logistic_test(some.select_respondents(some.n_by_respondent > 0), known)
    horizons = None
    if wish is not None:
        horizons = time_horizon(
            data, wish.lengths, shares=wish.shares, unit=wish.unit, model=model, progress=progress
        )  # fmt: skip
    return found, test, horizons, without


@dataclass(frozen=True)
class WishedHorizon:
    """What is asked of horizons, and the features with the logarithm of the length in place of the length."""

    lengths: pd.Series
    shares: tuple[float, ...]
    unit: str
    features: ItemFeatures


def wished_horizon(source: Path, known: ItemFeatures, features: Path, column: str, share: str) -> WishedHorizon:
    """Read --horizon and --share.

    Raises
    ------
    InputError
        If the source holds items, the column is not one of numbers, a length is not above 0, or a share no share.
    """
    from irtbench.analysis.horizons import TIMES
    from irtbench.analysis.task_lengths import log_lengths
    from irtbench.data.item_features import ItemFeatures

    if holds_items(source):
        raise InputError(f"--horizon: {source} has items and no systems; expected graded RESPONSES")
    if column not in known.names:
        raise InputError(f"{features}: no column of numbers {column}; there are {', '.join(known.names[:5])}")
    shares = numbers("--share", share)
    if not all(0 < each < 1 for each in shares):
        raise InputError(f"--share {share}: expected numbers between 0 and 1, such as 0.5,0.8")
    place = known.names.index(column)
    lengths = pd.Series(known.values[:, place], list(known.item_ids))
    values = known.values.copy()
    values[:, place] = log_lengths(lengths, known.item_ids)
    names = tuple(f"log {name}" if name == column else name for name in known.names)
    unit = next((word for word in TIMES if word in column.lower()), column)
    return WishedHorizon(lengths, shares, unit, ItemFeatures(known.item_ids, names, values))


def with_features(
    item_ids: Sequence[str], known: ItemFeatures, source: Path, features: Path
) -> tuple[list[str], list[str]]:
    """The items that have features, and those that have none.

    Raises
    ------
    InputError
        If it is none of them.
    """
    named = set(known.item_ids)
    there = [item for item in item_ids if item in named]
    if not there:
        raise InputError(f"{features}: none of its items is among those of {source}; expected a row for each")
    return there, sorted(set(item_ids) - named)


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


def about_difficulty(
    found: ExplainedDifficulty, test: LinearLogisticTest | None, horizons: TimeHorizon | None
) -> dict[str, Any]:
    """What difficulty.json says."""
    about: dict[str, Any] = {
        "n_items": len(found.item_ids),
        "n_features": len(found.terms) - 1,
        "r2": found.r2,
        "r2_lower": found.r2_lower,
        "r2_upper": found.r2_upper,
        "r2_cross_validated": found.r2_cross_validated,
        "residual_sd": found.residual_sd,
        "residual_sd_lower": found.residual_lower,
        "residual_sd_upper": found.residual_upper,
        "difficulty_sd": found.total_sd,
        "answers_worth": found.answers_worth,
        "shrunk": found.shrunk,
        "with_items": found.with_items,
        "converged": found.converged,
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
    if horizons is not None:
        about["horizon"] = {
            "unit": horizons.unit,
            "effect_of_log_length": horizons.effect,
            "se_effect": horizons.se_effect,
            "residual_sd": horizons.residual_sd,
            "shortest": horizons.shortest,
            "longest": horizons.longest,
            "converged": horizons.converged,
        }
    return about


def tell(found: ExplainedDifficulty, test: LinearLogisticTest | None) -> None:
    """Print it in a few lines."""
    say(
        f"features explain {found.r2:.0%} of the variance of difficulty "
        f"({found.r2_lower:.0%} to {found.r2_upper:.0%}); of items left out {found.r2_cross_validated:.0%}"
    )
    say(
        f"difficulties have standard deviation {found.total_sd:.2f}, {found.residual_sd:.2f} "
        f"({found.residual_lower:.2f} to {found.residual_upper:.2f}) of it unexplained; "
        f"the features of a new item are worth {found.answers_worth:.0f} answers"
    )
    if found.shrunk:
        say("effects are drawn to 0, as far as the data ask for")
    if test is not None:
        say(
            f"exactly linear in the features (LLTM): x2 {test.x2:.1f}, df {test.df}, p {test.p:.2g}; "
            f"correlation of the difficulties {test.correlation:.2f}"
        )


def tell_horizons(found: TimeHorizon) -> None:
    """Print in words what horizons rest on."""
    from irtbench.analysis.horizons import in_words

    ends = [in_words(end, found.unit) for end in (found.shortest, found.longest)]
    say(
        f"tasks are of {ends[0]} to {ends[1]}; one twice as long is {found.effect * np.log(2):.2f} harder, those of "
        f"the same length have a standard deviation of {found.residual_sd:.2f}"
    )
    beyond = sum("beyond_longest" in str(words) for words in found.flags.flat)
    if beyond:
        say(f"{beyond} of {found.flags.size} horizons lie beyond the longest task and are extrapolated")
    if found.effect <= 0:
        say("longer tasks are not harder: there is no horizon")
