"""``irtbench items difficulty``: why are items hard, and how hard will a new one be."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer

import irtbench.report
from irtbench.cli.declared import Outcome, Run, command
from irtbench.cli.options import FiguresOrAmong, Levels, Reading, chosen_scale, levels_of, numbers, refuse
from irtbench.cli.output import Shown, Words
from irtbench.data.responses import name_first
from irtbench.data.shown import counted


@dataclass(frozen=True, kw_only=True)
class FeatureTable:
    """The table of the items' features, and which of its columns are taken."""

    features: Annotated[
        Path, typer.Option("--features", metavar="F", help="Table with item_id and a column a feature.")
    ]
    columns: Annotated[
        list[str], typer.Option("--feature", metavar="COLUMN", help="A column to take; all if none is named.")
    ] = field(default_factory=list)
    exclude: Annotated[
        list[str], typer.Option("--exclude-features", metavar="COLUMN", help="A column that is no feature.")
    ] = field(default_factory=list)
    horizon: Annotated[
        str | None,
        typer.Option(
            "--horizon", metavar="COLUMN", help="The time a person needs: how long a task each system solves."
        ),
    ] = None
    share: Annotated[
        str, typer.Option("--share", metavar="P,...", help="Of tasks solved at the horizon; above 0, below 1.")
    ] = "0.5,0.8"

    def read(self) -> irtbench.ItemFeatures:
        """The columns that are taken."""
        added = () if self.horizon is None or not self.columns or self.horizon in self.columns else (self.horizon,)
        return irtbench.read_features(self.features, columns=(*self.columns, *added), exclude=tuple(self.exclude))

    def shares(self) -> tuple[float, ...]:
        """Shares of tasks solved."""
        shares = numbers("--share", self.share)
        if not all(0 < each < 1 for each in shares):
            raise irtbench.InputError(f"--share {self.share}: expected numbers between 0 and 1, such as 0.5,0.8")
        return shares


@dataclass(frozen=True)
class Regression:
    """How difficulty is regressed on the features."""

    model: Annotated[
        Literal["rasch", "2pl", "grm", "gpcm", "pcm", "rsm"],
        typer.Option("--model", help="Of RESPONSES, the last four of grades; with rasch the LLTM is tested too."),
    ] = "2pl"
    shrinkage: Annotated[
        Literal["auto", "none", "learnt"],
        typer.Option("--shrinkage", help="Whether effects are drawn to 0; auto: with five features or more."),
    ] = "auto"
    curved: Annotated[
        bool, typer.Option("--curved", help="Difficulty may bend in the features and they may depend on each other.")
    ] = False


@command(
    "effects.csv", "difficulty.json", "predictions.csv", "prior_items.csv", "lltm.csv", "predicted_difficulty.svg",
    "effects.svg", "horizon.csv", "time_horizon.svg", figures=FiguresOrAmong, trials="count", fits=True,
)  # fmt: skip
def difficulty(
    source: Annotated[
        Path, typer.Argument(metavar="BANK", help="bank.json, items.csv with standard errors, or RESPONSES or grades.")
    ],
    table: FeatureTable,
    how: Regression,
    reading: Reading,
    run: Run,
    scale: Annotated[
        str | None, typer.Option("--scale", metavar="NAME", help="The scale, where the bank has several.")
    ] = None,
    levels: Levels = None,
) -> Outcome:
    """Explain the difficulty of items by their features, and predict that of new ones.

    Difficulty is regressed on the features, with a residual: of RESPONSES and of grades (--model grm), whose mean step
    it is, together with the items, of a bank in a second step that has the errors of the items. Writes
    effects.csv; difficulty.json: R2 with an interval, cross-validated R2, and how many answers the features of a new
    item are worth; predictions.csv, every item predicted by a fit without it, and those of F that have no difficulty
    yet; and prior_items.csv, what is expected of these, for `link --extend --prior-items` and `fit --prior-items`. With
    RESPONSES and --model rasch also lltm.csv: the linear logistic test model, whose test is in difficulty.json. With
    RESPONSES and --horizon also horizon.csv: the length at which each system solves half (80%) of the tasks; that
    column then is a feature by its logarithm.
    """
    graded = how.model not in ("rasch", "2pl")
    refuse(
        {
            "--levels: of grades; expected --model grm, gpcm, pcm or rsm with them": levels is not None and not graded,
            f"--horizon: of tasks that are solved or not; expected no --model {how.model} with it":
            graded and table.horizon is not None,
        }
    )  # fmt: skip
    if irtbench.study.item_analysis.holds_items(source):
        if table.horizon is not None:
            raise irtbench.InputError(f"--horizon: {source} has items and no systems; expected graded RESPONSES")
        own, known = chosen_scale(irtbench.read_bank(source, categories=True), scale, source), table.read()
        explained = irtbench.study.item_analysis.explained_bank(
            own, source, known, table.features, how.shrinkage, run.rng, curved=how.curved
        )
    elif graded:
        explained = explained_grades(source, levels, table, how, reading, run)
    else:
        explained = explained_responses(reading.matrix(source), source, table, how, run)
    if explained.without:
        run.progress(f"left out, no row in {table.features.name}: {name_first(explained.without)}")
    found, test, horizons = explained.difficulty, explained.test, explained.horizons
    about, effects = explained.summary(), found.table()
    by_system = None if horizons is None else horizons.table()

    return Outcome(
        json=about | {"effects": effects} | ({} if by_system is None else {"horizons": by_system}),
        files={
            "effects.csv": effects, "predictions.csv": found.predictions_table(),
            "prior_items.csv": found.prior_table() if found.new_item_ids else None,
            "lltm.csv": None if test is None else test.table(), "horizon.csv": by_system, "difficulty.json": about,
        },
        figures=lambda: [
            *irtbench.report.difficulty_figures(found),
            *([] if horizons is None else irtbench.report.horizon_figures(horizons)),
        ],
        words=[
            Shown(effects, f"difficulty of {counted(len(found.item_ids), 'item')}", "effects.csv"),
            *effects_in_words(found, test),
            *([] if horizons is None else horizons_in_words(horizons)),
        ],
        unconverged=[]
        if explained.converged
        else ["regression and items did not settle: there are too few responses"],
    )  # fmt: skip


def explained_responses(
    responses: irtbench.ResponseMatrix, source: Path, table: FeatureTable, how: Regression, run: Run
) -> irtbench.study.item_analysis.Explained:
    """The difficulties that the responses show by the items' features, and the horizons."""
    known, horizons = table.read(), None
    if table.horizon is not None:
        shares, with_logs = table.shares(), irtbench.study.item_analysis.with_log_lengths
        tasks, known = with_logs(known, table.horizon, table.features)
    answered = [item for item, n in zip(responses.item_ids, responses.n_by_item, strict=True) if n]
    there, without = irtbench.study.item_analysis.with_features(answered, known, source, table.features)
    data = responses.select_items(there).answered()
    varied = irtbench.building.prune_rules.without_constant(data)
    irtbench.study.fitted_scale.demand_varied_items(varied.item_ids, source)
    run.progress(f"fitting {data.n_respondents} respondents x {data.n_items} items")
    found = irtbench.analysis.explain_responses(data, known, **vars(how), rng=run.rng, progress=run.progress)
    test = irtbench.linear_logistic_test(varied, known) if how.model == "rasch" else None
    if table.horizon is not None:
        kind: Literal["rasch", "2pl"] = "rasch" if how.model == "rasch" else "2pl"
        horizons = irtbench.analysis.time_horizon(data, **tasks, shares=shares, model=kind, progress=run.progress)
    return irtbench.study.item_analysis.Explained(found, test, horizons, without)


def explained_grades(
    source: Path, levels: str | None, table: FeatureTable, how: Regression, reading: Reading, run: Run
) -> irtbench.study.item_analysis.Explained:
    """The mean steps of grades by the items' features."""
    of_model = irtbench.study.fitted_scale.InCategories(
        model=how.model, models=how.model, levels=levels_of(levels), seed=run.seed
    )
    return irtbench.study.item_analysis.explained_grades(
        reading.scores(source, of_model.levels), of_model, table.read(), source, table.features,
        **vars(how), rng=run.rng, progress=run.progress,
    )  # fmt: skip


def effects_in_words(
    found: irtbench.analysis.ExplainedDifficulty, test: irtbench.analysis.LinearLogisticTest | None
) -> Words:
    """How much of the difficulty the features explain."""
    worth = found.answers_worth
    return [
        f"features explain {found.r2:.0%} of the variance of difficulty "
        f"({found.r2_lower:.0%} to {found.r2_upper:.0%}); of items left out {found.r2_cross_validated:.0%}",
        f"difficulties have standard deviation {found.total_sd:.2f}, {found.residual_sd:.2f} "
        f"({found.residual_lower:.2f} to {found.residual_upper:.2f}) of it unexplained",
        bool(np.isfinite(worth)) and f"the features of a new item are worth {counted(round(worth), 'answer')}",
        found.shrunk and "effects are drawn to 0, as far as the data ask for",
        test is not None
        and f"exactly linear in the features (LLTM): x2 {test.x2:.1f}, df {test.df}, p {test.p:.2g}; "
        f"correlation of the difficulties {test.correlation:.2f}",
    ]


def horizons_in_words(found: irtbench.analysis.TimeHorizon) -> Words:
    """The horizons, and what they rest on."""
    shortest, longest = (
        irtbench.analysis.horizons.in_words(length, found.unit) for length in (found.shortest, found.longest)
    )
    beyond = sum("beyond_longest" in str(words) for words in found.flags.flat)
    return [
        Shown(found.table(), f"length of tasks solved so often, in {found.unit}", "horizon.csv"),
        f"tasks are of {shortest} to {longest}; one twice as "
        f"long is {found.effect * np.log(2):.2f} harder, those of the same length have a standard deviation of "
        f"{found.residual_sd:.2f}",
        beyond > 0 and f"{beyond} of {found.flags.size} horizons lie beyond the longest task and are extrapolated",
        found.effect <= 0 and "longer tasks are not harder: there is no horizon",
    ]
