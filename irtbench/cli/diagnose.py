"""``irtbench items diagnose``: do the items fit, are pairs dependent, do people answer like people."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pandas as pd
import typer

import irtbench
from irtbench import report
from irtbench.cli.declared import Outcome, Run, command
from irtbench.cli.large import encoded, large_table
from irtbench.cli.options import AllowAddress, Cache, Responses, Sample
from irtbench.cli.output import say, show_table
from irtbench.cli.reading import Reading, labels_of
from irtbench.data.response_blocks import MOST_RESPONDENTS, some_respondents

if TYPE_CHECKING:
    from irtbench.data.response_blocks import Sampled
    from irtbench.data.responses import ResponseMatrix

FILES = (
    "item_fit.csv", "local_dependence.csv", "global_fit.json", "person_fit.csv", "classical.csv", "reliability.json",
    "test_information.csv", "infit_outfit.csv", "not_available.json",
)  # fmt: skip
MOST_ITEMS_SHOWN, WORST_SHOWN = 40, 10  # on the terminal


@dataclass(frozen=True)
class FromDisk:
    """How a table is read that is too large for memory."""

    sample: Sample = MOST_RESPONDENTS
    cache: Cache = None
    allow_address: AllowAddress = field(default_factory=list)

    def read(self, file: Path, reading: Reading, run: Run) -> tuple[ResponseMatrix, Sampled | None]:
        """All responses of a file or, of a table that is encoded on disk, those of some respondents drawn at random."""
        table = large_table(file, reading, allow_address=self.allow_address)
        if table is None:
            return reading.matrix(file), None
        with encoded(table, reading, self.cache, run.progress) as stored:
            drawn, some = some_respondents(stored, self.sample, run.seed)
            return some, None if drawn.is_all else drawn


@command(*FILES, trials="count")
def diagnose(
    responses: Responses,
    items: Annotated[Path, typer.Option("--items", metavar="items.csv", help="Item parameters, as `fit` writes them.")],
    from_disk: FromDisk,
    reading: Reading,
    run: Run,
    bootstrap: Annotated[
        int | None,
        typer.Option(
            "--bootstrap",
            metavar="N",
            help="Most samples for the p of local dependence, 0 for none; 99, or fewer of over 500,000 responses.",
            min=0,
            max=100_000,
        ),
    ] = None,
) -> Outcome:
    """Analyse the items, and test the fit of items, of pairs of items, of the whole, and of each respondent.

    Writes item_fit.csv, local_dependence.csv, global_fit.json, person_fit.csv, classical.csv, reliability.json,
    test_information.csv and infit_outfit.csv (at Warm's estimates of ability, with the range if the item fits).

    Of items in categories (items.csv of `fit --model grm`, ...) the same is tested, the whole by C2, pairs without
    the bootstrap.

    Of several trials of an item, k right of n, items and respondents are tested, and pairs by the bootstrap alone; the
    whole is not, and there is no infit_outfit.csv.

    The bootstrap refits the model of the items, 2PL or 3PL, to simulated responses, with the prior that `fit` takes for
    it when none is named. It ends early where ten samples show that no pair is dependent; on how many samples p stands
    is in local_dependence.csv (bootstrap_samples).

    Of a table that `fit` reads from disk, Parquet of more than ten million fields, a random sample of the respondents
    is analysed (--sample, --seed); the output says so, and global_fit.json has sampled_from and sample_seed.

    A statistic that cannot be computed is named, with the reason, also in not_available.json; the others stand.
    """
    from irtbench.models.parameter_table import read_population
    from irtbench.study.diagnosis import diagnose as diagnosis_of

    parameters = irtbench.read_parameters(items, upper_asymptotes=True, categories=True)
    if parameters.categories is None:
        given, drawn = from_disk.read(responses, reading, run)
    else:
        scores = reading.scores(responses, labels_of([parameters.categories]))
        given, drawn = parameters.categories.matrix(scores), None
    data = given.select_items(parameters.item_ids).answered()
    found = diagnosis_of(
        data, parameters, read_population(items), n_samples=bootstrap, seed=run.seed, progress=run.progress
    )
    whole = found.figures["global_fit.json"] | ({} if drawn is None else drawn.stated)
    persons = found.tables["person_fit.csv"]
    single = {"global_fit.json": whole, "reliability.json": found.figures["reliability.json"]}
    single["not_available.json"] = found.reasons

    def tell() -> None:
        if drawn is not None:
            say(f"analysed: {drawn}")
        show_worst(found.tables["classical.csv"], "item_rest", "Items as answered", run)
        title = "Item fit; s_x2 holds the score statistic" if found.by_scores else "Item fit"
        show_worst(found.tables["item_fit.csv"], "p", title, run)
        if found.pairs.bootstrap_samples:
            say(f"p_bootstrap of local dependence stands on {found.pairs.bootstrap_samples} samples")
        worst = found.tables["local_dependence.csv"].sort_values("x2", ascending=False).head(10)
        show_table(worst, title="Local dependence: the ten largest X2", rest=run.at("local_dependence.csv"))
        for what, reason in found.reasons.items():
            say(f"{what.removesuffix(' in global_fit.json')} is not available: {reason}")
        if "srmsr" in whole and not np.isnan(whole["srmsr"]):
            tests = (
                f"M2 {whole['m2']:.2f}, df {whole['df']}, p {whole['p']:.4f}, RMSEA {whole['rmsea']:.4f} "
                f"[{whole['rmsea_lower']:.4f}, {whole['rmsea_upper']:.4f}], SRMSR {whole['srmsr']:.4f}, "
                f"TLI {whole['tli']:.4f}, CFI {whole['cfi']:.4f}"
            )
            say(f"SRMSR {whole['srmsr']:.4f}" if "M2 in global_fit.json" in found.reasons else tests)
        if single["reliability.json"]:
            say(in_words(single["reliability.json"]))

    return Outcome(
        json={
            "item_fit": found.tables["item_fit.csv"],
            "local_dependence": found.tables["local_dependence.csv"],
            "global_fit": whole,
            "reliability": single["reliability.json"],
            "not_available": found.reasons,
        },
        files={name: table for name, table in found.tables.items() if name not in found.reasons}
        | {name: values or None for name, values in single.items()},
        figures=lambda: report.diagnosis_figures(
            data, parameters, found.abilities.theta, precision=found.precision, item_fit=found.tables["item_fit.csv"],
            pairs=found.tables["local_dependence.csv"],
            lz_star=persons["lz_star"].to_numpy() if "lz_star" in persons else None,
        ),
        tell=tell,
    )  # fmt: skip


def show_worst(table: pd.DataFrame, by: str, title: str, run: Run) -> None:
    """Print a row for each item; of many the least by one column."""
    file = "classical.csv" if by == "item_rest" else "item_fit.csv"
    if len(table) <= MOST_ITEMS_SHOWN:
        if len(table):
            show_table(table, title=title, rest=run.at(file))
        return
    worst = table.sort_values(by, kind="stable").head(WORST_SHOWN)
    show_table(worst, title=f"{title}: the {WORST_SHOWN} least {by}", rest=run.at(file))
    say(f"all {len(table):,} items are in {run.output}/{file}")


def in_words(reliability: dict[str, Any]) -> str:
    """Return reliability and the length for a good one, in a line."""
    omega = f"{reliability['omega']:.3f}" if np.isfinite(reliability["omega"]) else "not available"
    said = (
        f"Reliability: alpha {reliability['alpha']:.3f} [{reliability['alpha_lower']:.3f}, "
        f"{reliability['alpha_upper']:.3f}], omega {omega}, marginal {reliability['marginal']:.3f}, "
        f"empirical {reliability['empirical']:.3f}"
    )
    wanted = [
        f"{number:.0f} by {source}"
        for source, number in (
            ("Spearman and Brown", reliability["n_items_spearman_brown"]),
            ("the information", reliability["n_items_information"]),
        )
        if np.isfinite(number)
    ]
    if wanted:
        said += f"; items like these for {reliability['wanted']:g}: {', '.join(wanted)}"
    return f"{said} ({reliability['reason']})" if reliability["reason"] else said
