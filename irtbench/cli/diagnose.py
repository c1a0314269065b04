"""``irtbench diagnose``: do the items fit, are pairs dependent, do people answer like people."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from irtbench.cli.options import Folder, Json, Quiet, Responses, Seed
from irtbench.cli.output import output_folder, say, show_table, to_json, write_json, write_table
from irtbench.cli.progress import reporting
from irtbench.cli.reading import Reading, reads_files
from irtbench.data.input_error import InputError

if TYPE_CHECKING:
    from irtbench.data.responses import ResponseMatrix
    from irtbench.diagnostics.measurement_precision import MeasurementPrecision
    from irtbench.estimation.settings import FitSettings, ModelKind
    from irtbench.models.item_parameters import ItemParameters
    from irtbench.models.quadrature import Quadrature
    from irtbench.scoring.ability import Abilities

FILES = (
    "item_fit.csv", "local_dependence.csv", "global_fit.json", "person_fit.csv", "classical.csv", "reliability.json",
    "test_information.csv", "infit_outfit.csv",
)  # fmt: skip
GOOD_RELIABILITY = 0.9  # for decisions about single systems or people (Nunnally and Bernstein, 1994)


@reads_files(trials="count")
def diagnose(
    responses: Responses,
    items: Annotated[Path, typer.Option("--items", metavar="items.csv", help="Item parameters, as `fit` writes them.")],
    output: Folder,
    bootstrap: Annotated[
        int,
        typer.Option(
            "--bootstrap", metavar="N", help="Samples for the p of local dependence; 0 for none.", min=0, max=100_000
        ),
    ] = 99,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Analyse the items, and test the fit of items, of pairs of items, of the whole, and of each respondent.

    Writes item_fit.csv, local_dependence.csv, global_fit.json, person_fit.csv, classical.csv, reliability.json,
    test_information.csv and infit_outfit.csv (at Warm's estimates of ability, with the range if the item fits).

    Of several trials of an item, k right of n, items and respondents are tested, and pairs by the bootstrap alone; the
    whole is not, and there is no infit_outfit.csv.

    The bootstrap refits the model of the items, 2PL or 3PL, to simulated responses, with the prior that `fit` takes for
    it when none is named.
    """
    from irtbench.analysis.dependence_bootstrap import with_bootstrap
    from irtbench.building.pruning import answered
    from irtbench.diagnostics.classical import classical_statistics
    from irtbench.diagnostics.global_fit import global_fit
    from irtbench.diagnostics.item_fit import item_fit
    from irtbench.diagnostics.local_dependence import local_dependence
    from irtbench.diagnostics.mean_square_fit import mean_square_fit
    from irtbench.diagnostics.measurement_precision import measurement_precision
    from irtbench.diagnostics.person_fit import person_fit
    from irtbench.estimation.fit import fit_model
    from irtbench.models.parameter_table import read_parameters, read_population
    from irtbench.models.theta_posterior import STANDARD_NORMAL
    from irtbench.scoring.ability import eap, estimate_ability

    with reporting(quiet=quiet) as progress, output_folder(output, files=FILES) as folder:
        parameters, stated = read_parameters(items), read_population(items)
        population = stated or STANDARD_NORMAL
        given = reading.matrix(responses)
        data = answered(given.select_items(parameters.item_ids))
        abilities = eap(data, parameters, quadrature=stated)
        theta = abilities.theta
        classical = classical_statistics(data).table()
        precision = measurement_precision(parameters, population=population)
        reliability = reliability_of(data, parameters, population, precision, abilities)
        progress("item fit")
        item_fits = item_fit(data, parameters, theta=theta, quadrature=stated)
        fits = item_fits.table()
        progress("local dependence")
        dependence = local_dependence(data, parameters, theta=theta, quadrature=stated)
        if bootstrap:
            settings, sd = bootstrap_settings(parameters), 1.0 if stated is None else stated.deviation

            def refit(sample: ResponseMatrix) -> ItemParameters | None:
                fitted = fit_model(sample, settings, seed=seed)
                # with one slope for all, that slope on the scale of the population at hand
                found = replace(fitted.items, discrimination=fitted.items.discrimination / sd)
                return found if fitted.converged else None

            dependence = with_bootstrap(
                dependence, data, parameters, refit,
                rng=np.random.default_rng(seed), n_samples=bootstrap, quadrature=stated, progress=progress,
            )  # fmt: skip
        pairs = dependence.table()
        progress("global fit")
        whole = asdict(global_fit(data, parameters, quadrature=stated))
        persons = person_fit(data, parameters, theta).table()
        if data.trials is None:  # at Warm's estimates, which no prior draws to the middle
            own_theta = estimate_ability(data, parameters, method="wle").theta
            write_table(mean_square_fit(data, parameters, own_theta).table(), folder / "infit_outfit.csv")
        write_table(fits, folder / "item_fit.csv")
        write_table(pairs, folder / "local_dependence.csv")
        write_json(whole, folder / "global_fit.json")
        write_table(persons, folder / "person_fit.csv")
        write_table(classical, folder / "classical.csv")
        write_json(reliability, folder / "reliability.json")
        write_table(precision.table(), folder / "test_information.csv")
    if json:
        print(to_json({"item_fit": fits, "local_dependence": pairs, "global_fit": whole, "reliability": reliability}))
    elif not quiet:
        show_table(classical, title="Items as answered")
        show_table(fits, title="Item fit" if item_fits.statistic == "s_x2" else "Item fit; s_x2 holds X2 by the rest")
        worst = pairs.sort_values("x2", ascending=False).head(10)
        show_table(worst, title="Local dependence: the ten largest X2")
        if whole["reason"]:
            say(f"M2 is not available: {whole['reason']}")
        if np.isnan(whole["srmsr"]):
            say(in_words(reliability))
            return
        say(
            f"M2 {whole['m2']:.2f}, df {whole['df']}, p {whole['p']:.4f}, RMSEA {whole['rmsea']:.4f} "
            f"[{whole['rmsea_lower']:.4f}, {whole['rmsea_upper']:.4f}], SRMSR {whole['srmsr']:.4f}, "
            f"TLI {whole['tli']:.4f}, CFI {whole['cfi']:.4f}"
        )
        say(in_words(reliability))


def reliability_of(
    data: ResponseMatrix,
    items: ItemParameters,
    population: Quadrature,
    precision: MeasurementPrecision,
    abilities: Abilities,
) -> dict[str, Any]:
    """What reliability.json holds."""
    from irtbench.diagnostics.internal_consistency import internal_consistency
    from irtbench.diagnostics.length_needed import times_as_informative, times_as_long
    from irtbench.diagnostics.measurement_precision import empirical_reliability

    scale = internal_consistency(data)
    n_items = items.n_items
    return {
        "alpha": scale.alpha,
        "alpha_lower": scale.alpha_lower,
        "alpha_upper": scale.alpha_upper,
        "omega": scale.omega,
        "marginal": precision.marginal_reliability,
        "empirical": empirical_reliability(abilities.theta, abilities.standard_error),
        "standard_error_of_measurement": scale.standard_error,
        "n_items": n_items,
        "n_respondents": scale.n_respondents,
        "complete": scale.complete,
        "wanted": GOOD_RELIABILITY,
        "n_items_spearman_brown": n_items * times_as_long(scale.alpha, GOOD_RELIABILITY),
        "n_items_information": n_items * times_as_informative(items, GOOD_RELIABILITY, population=population),
        "reason": scale.reason,
    }


def in_words(reliability: dict[str, Any]) -> str:
    """Return reliability and the length for a good one, in a line."""
    said = (
        f"Reliability: alpha {reliability['alpha']:.3f} [{reliability['alpha_lower']:.3f}, "
        f"{reliability['alpha_upper']:.3f}], omega {reliability['omega']:.3f}, marginal {reliability['marginal']:.3f}, "
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
    return FitSettings(kind=kind, guessing=float(guessing), standard_errors=False)
