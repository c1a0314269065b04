"""``irtbench diagnose``: do the items fit, are pairs dependent, do people answer like people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
import pandas as pd
import typer

from irtbench.cli.large import encoded, large_table
from irtbench.cli.options import AllowAddress, Cache, Figures, Folder, Json, Quiet, Responses, Sample, Seed
from irtbench.cli.output import output_folder, say, show_table, to_json, write_json, write_table
from irtbench.cli.presenting import figures_in
from irtbench.cli.progress import reporting
from irtbench.cli.reading import Reading, reads_files
from irtbench.data.input_error import InputError
from irtbench.data.respondent_sample import MOST_RESPONDENTS

if TYPE_CHECKING:
    from irtbench.data.responses import ResponseMatrix
    from irtbench.estimation.settings import FitSettings, ModelKind
    from irtbench.models.item_parameters import ItemParameters
if TYPE_CHECKING:
    from irtbench.cli.reading import Reading
    from irtbench.data.respondent_sample import Sampled
    from irtbench.data.responses import ResponseMatrix


def matrix_or_sample(
    file: Path,
    reading: Reading,
    cache: Path | None,
    most: int,
    seed: int,
    progress: Callable[[str], None],
    allow_address: Sequence[str] = (),
) -> tuple[ResponseMatrix, Sampled | None]:
    """All responses of a file or, of a table that is encoded on disk, those of as many respondents drawn at random.

    Parameters
    ----------
    file, reading
        What to read.
    cache
        Where such a table is, or is to be, encoded; None for a temporary folder.
    most
        Number of respondents of the sample.
    seed
        Of the random numbers.
    progress
        Called with a line now and then.
    allow_address
        Beginnings of addresses that are read besides those that are read anyway.
    """
    table = large_table(file, reading, allow_address=allow_address)
    if table is None:
        return reading.matrix(file), None
    from irtbench.data.respondent_sample import some_respondents

    with encoded(table, reading, cache, progress) as stored:
        drawn, some = some_respondents(stored, most, seed)
        return some, None if drawn.is_all else drawn


FILES = (
    "item_fit.csv", "local_dependence.csv", "global_fit.json", "person_fit.csv", "classical.csv", "reliability.json",
    "test_information.csv", "infit_outfit.csv", "not_available.json",
)  # fmt: skip
MOST_ITEMS_SHOWN, WORST_SHOWN = 40, 10  # on the terminal
Result = TypeVar("Result")


@reads_files(trials="count")
def diagnose(
    responses: Responses,
    items: Annotated[Path, typer.Option("--items", metavar="items.csv", help="Item parameters, as `fit` writes them.")],
    output: Folder,
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
    sample: Sample = MOST_RESPONDENTS,
    cache: Cache = None,
    allow_address: AllowAddress = [],  # noqa: B006 - typer copies it
    figures: Figures = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
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
    from irtbench.analysis.dependence_bootstrap import little_to_find, samples_for, with_bootstrap
    from irtbench.diagnostics.classical import classical_statistics
    from irtbench.diagnostics.global_fit import global_fit
    from irtbench.diagnostics.item_fit import item_fit
    from irtbench.diagnostics.local_dependence import LocalDependence, local_dependence
    from irtbench.diagnostics.mean_square_fit import mean_square_fit
    from irtbench.diagnostics.measurement_precision import measurement_precision
    from irtbench.diagnostics.person_fit import person_fit
    from irtbench.diagnostics.scale_reliability import scale_reliability
    from irtbench.estimation.many_scales.fit_many import fit_many
    from irtbench.models.parameter_table import read_parameters, read_population
    from irtbench.models.theta_posterior import STANDARD_NORMAL
    from irtbench.scoring.ability import eap, estimate_ability

    with reporting(quiet=quiet) as progress, output_folder(output, files=FILES) as folder, figures_in(figures) as draw:
        parameters = read_parameters(items, upper_asymptotes=True, categories=True)
        stated, categories = read_population(items), parameters.categories
        population = stated or STANDARD_NORMAL
        if categories is not None:
            labels = dict.fromkeys(value for own in categories.categories for value in own if isinstance(value, str))
            given, drawn = categories.matrix(reading.scores(responses, [*labels])), None
        else:
            given, drawn = matrix_or_sample(responses, reading, cache, sample, seed, progress, allow_address)
        data = given.select_items(parameters.item_ids).answered()
        abilities = eap(data, parameters, quadrature=stated)
        theta = abilities.theta
        four = parameters.upper_asymptote is not None or categories is not None
        if four and bootstrap:
            raise InputError(
                "--bootstrap: items with upper asymptotes or in categories are not refitted; expected --bootstrap 0"
            )
        n_samples = samples_for(data.n_responses) if bootstrap is None and not four else bootstrap or 0
        settings = bootstrap_settings(parameters) if n_samples else None
        tried = Tried()
        classical = tried.table("classical.csv", lambda: classical_statistics(data).table())
        if categories is not None and not classical.empty:
            classical["n"] = data.observed.sum(axis=0)
        precision = measurement_precision(parameters, population=population)
        reliability = tried.figures(
            "reliability.json",
            lambda: asdict(
                scale_reliability(data, parameters, abilities.theta, abilities.standard_error, population=population)
            ),
        )
        progress("item fit")
        item_fits = tried.result("item_fit.csv", lambda: item_fit(data, parameters, theta=theta, quadrature=stated))
        fits = pd.DataFrame() if item_fits is None else item_fits.table()
        progress("local dependence")
        found = tried.result(
            "local_dependence.csv", lambda: local_dependence(data, parameters, theta=theta, quadrature=stated)
        ) or LocalDependence.none()  # fmt: skip
        if settings is not None and found.item_1:
            sd = 1.0 if stated is None else stated.deviation
            start = parameters if settings.kind in ("2pl", "3pl") else None

            def refit_many(samples: Sequence[ResponseMatrix]) -> list[ItemParameters | None]:
                fits = fit_many(samples, settings, seed=seed, start=start).fits
                # with one slope for all, that slope on the scale of the population at hand
                return [
                    replace(fitted.items, discrimination=fitted.items.discrimination / sd)
                    if fitted is not None and fitted.converged
                    else None
                    for fitted in fits
                ]

            alone = found
            found = tried.result(
                "p_bootstrap in local_dependence.csv",
                lambda: with_bootstrap(
                    alone, data, parameters, None, refit_many=refit_many, rng=np.random.default_rng(seed),
                    n_samples=n_samples, suffices=little_to_find, quadrature=stated, progress=progress,
                ),
            ) or alone  # fmt: skip
        pairs = found.table()
        progress("global fit")
        whole: dict[str, Any] = {}
        if four and categories is None:
            tried.reasons["global_fit.json"] = "M2 is not known for items with upper asymptotes"
        else:
            whole = tried.figures("global_fit.json", lambda: asdict(global_fit(data, parameters, quadrature=stated)))
        if drawn is not None:
            whole |= drawn.stated
        if whole.get("reason"):
            tried.reasons["M2 in global_fit.json"] = whole["reason"]
        persons = tried.table("person_fit.csv", lambda: person_fit(data, parameters, theta).table())
        tables = {
            "item_fit.csv": fits,
            "local_dependence.csv": pairs,
            "person_fit.csv": persons,
            "classical.csv": classical,
            "test_information.csv": precision.table(),
        }
        if data.trials is None or categories is not None:  # at Warm's estimates, which no prior draws to the middle
            tables["infit_outfit.csv"] = tried.table(
                "infit_outfit.csv",
                lambda: mean_square_fit(
                    data, parameters, estimate_ability(data, parameters, method="wle").theta
                ).table(),
            )  # fmt: skip
        statistics = {"global_fit.json": whole, "reliability.json": reliability, "not_available.json": tried.reasons}
        if draw is not None:
            from irtbench.report.check_figures import diagnosis_figures

            lz_star = persons["lz_star"].to_numpy() if "lz_star" in persons else None
            draw(
                diagnosis_figures(
                    data, parameters, theta, precision=precision, item_fit=fits, pairs=pairs, lz_star=lz_star
                )
            )
        for name, table in tables.items():
            if name not in tried.reasons:
                write_table(table, folder / name)
        for name, values in statistics.items():
            if values:
                write_json(values, folder / name)
    if json:
        results = {"item_fit": fits, "local_dependence": pairs, "global_fit": whole, "reliability": reliability}
        print(to_json(results | {"not_available": tried.reasons}))
        return
    if quiet:
        return
    if drawn is not None:
        say(f"analysed: {drawn}")
    show_worst(classical, by="item_rest", title="Items as answered", file=output / "classical.csv")
    by_scores = item_fits is not None and item_fits.statistic != "s_x2"
    show_worst(
        fits, by="p", title="Item fit; s_x2 holds the score statistic" if by_scores else "Item fit",
        file=output / "item_fit.csv",
    )  # fmt: skip
    if found.bootstrap_samples:
        say(f"p_bootstrap of local dependence stands on {found.bootstrap_samples} samples")
    worst = pairs.sort_values("x2", ascending=False).head(10)
    show_table(worst, title="Local dependence: the ten largest X2", rest=output / "local_dependence.csv")
    for what, reason in tried.reasons.items():
        say(f"{what.removesuffix(' in global_fit.json')} is not available: {reason}")
    if "M2 in global_fit.json" in tried.reasons and not np.isnan(whole["srmsr"]):
        say(f"SRMSR {whole['srmsr']:.4f}")
    elif "srmsr" in whole and not np.isnan(whole["srmsr"]):
        say(
            f"M2 {whole['m2']:.2f}, df {whole['df']}, p {whole['p']:.4f}, RMSEA {whole['rmsea']:.4f} "
            f"[{whole['rmsea_lower']:.4f}, {whole['rmsea_upper']:.4f}], SRMSR {whole['srmsr']:.4f}, "
            f"TLI {whole['tli']:.4f}, CFI {whole['cfi']:.4f}"
        )
    if reliability:
        say(in_words(reliability))


@dataclass
class Tried:
    """What could not be computed, and why: the other statistics stand."""

    reasons: dict[str, str] = field(default_factory=dict)

    def result(self, name: str, compute: Callable[[], Result]) -> Result | None:
        """What is computed; None where its equations have no solution, or not enough memory."""
        try:
            return compute()
        except (ArithmeticError, np.linalg.LinAlgError) as error:
            self.reasons[name] = str(error)
        except MemoryError:
            self.reasons[name] = "not enough memory"
        return None

    def table(self, name: str, compute: Callable[[], pd.DataFrame]) -> pd.DataFrame:
        """The same for a table; without a column where there is none."""
        found = self.result(name, compute)
        return pd.DataFrame() if found is None else found

    def figures(self, name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The same for single figures; without any where there are none."""
        return self.result(name, compute) or {}


def show_worst(table: pd.DataFrame, *, by: str, title: str, file: Path) -> None:
    """Print a row for each item; of many the least by one column."""
    if len(table) <= MOST_ITEMS_SHOWN:
        if len(table):
            show_table(table, title=title, rest=file)
        return
    worst = table.sort_values(by, kind="stable").head(WORST_SHOWN)
    show_table(worst, title=f"{title}: the {WORST_SHOWN} least {by}", rest=file)
    say(f"all {len(table):,} items are in {file}")


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


def bootstrap_settings(items: ItemParameters) -> FitSettings:
    """Settings of a fit of the same model to all items.

    Raises
    ------
    InputError
        If the items are of several models, which one fit does not estimate together.
    """
    from irtbench.estimation.settings import FitSettings

    kinds = set(items.kind or ())
    if "fixed" in kinds:
        raise InputError("--bootstrap: items beside anchors are not refitted; expected --bootstrap 0")
    models = set(
        zip(items.guessing_estimated.tolist(), np.where(items.guessing_estimated, 0, items.guessing), strict=True)
    )
    if len(models) > 1:
        raise InputError("--bootstrap: the items are of several models; expected one, or --bootstrap 0")
    estimated, guessing = models.pop()
    kind: ModelKind = "1pl" if kinds else "3pl" if estimated else "2pl"
    return FitSettings(kind=kind, guessing=float(guessing)).for_samples()
