"""``irtbench fit``: graded responses to item parameters."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from irtbench.cli.options import AllowUnconverged, Columns, Folder, Json, Quiet, Responses, Seed, Table, named
from irtbench.cli.output import output_folder, show_table, to_json, write_json, write_table
from irtbench.cli.progress import reporting


def fit(
    responses: Responses,
    output: Folder,
    model: Annotated[Literal["2pl", "3pl"], typer.Option("--model", help="Two- or three-parameter logistic.")] = "2pl",
    prior: Annotated[
        Literal["none", "weak", "hierarchical"] | None,
        typer.Option("--prior", help="Prior of the items; none for 2pl and weak for 3pl unless said otherwise."),
    ] = None,
    population: Annotated[
        Literal["normal", "estimated"], typer.Option("--population", help="Density of ability: normal, or estimated.")
    ] = "normal",
    guessing: Annotated[float, typer.Option("--guessing", help="With 2pl: lower asymptote held at this value.")] = 0.0,
    options: Annotated[int, typer.Option("--options", help="Answers to choose from, for the prior of guessing.")] = 4,
    device: Annotated[
        Literal["auto", "cpu", "cuda"],
        typer.Option("--device", help="Where to compute; auto takes a GPU if there is one."),
    ] = "auto",
    column: Columns = [],  # noqa: B006 - typer copies it
    table: Table = "auto",
    seed: Seed = 0,
    allow_unconverged: AllowUnconverged = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Estimate item parameters and the respondents' abilities.

    Writes items.csv, fit.json and scores.csv. Items that all got right or all got wrong cannot be estimated without a
    prior, nor respondents without any response: they are left out and named in fit.json.
    """
    from irtbench.building.pruning import answered, constant_items
    from irtbench.building.scale import Norms, Scale
    from irtbench.data.items import ItemTable
    from irtbench.data.readers.recognise import read_responses
    from irtbench.data.responses import ResponseMatrix
    from irtbench.estimation.svi import SVISettings, fit_model
    from irtbench.models.parameter_table import parameter_table
    from irtbench.scoring.ability import eap
    from irtbench.scoring.scores import score_responses

    settings = SVISettings(
        kind=model, prior=prior, guessing=guessing, n_options=options, population=population, device=device
    )
    with reporting(quiet=quiet) as progress, output_folder(output) as folder:
        given = ResponseMatrix.from_long(
            read_responses(responses, format=table, columns=named("--column", column)).frame
        )
        left_out = constant_items(given) if not settings.priors.bounds_difficulty else []
        gone = {removal.item_id for removal in left_out}
        data = answered(given.select_items([item for item in given.item_ids if item not in gone]))
        idle = sorted(set(given.respondent_ids) - set(data.respondent_ids))
        progress(f"fitting {data.n_respondents} respondents x {data.n_items} items")
        fitted = fit_model(data, settings, seed=seed)
        abilities = eap(data, fitted.items, quadrature=fitted.estimated_population)
        scale = Scale(
            name="all",
            items=fitted.items,
            details=ItemTable.plain(fitted.items.item_ids),
            norms=Norms(abilities.theta, standard_error=abilities.standard_error),
            population=fitted.estimated_population,
        )
        found = fitted.summary() | {
            "items_left_out": [{"item_id": r.item_id, "reason": r.reason} for r in left_out],
            "respondents_left_out": idle,
        }
        items = parameter_table(fitted.items, data)
        write_table(items, folder / "items.csv")
        write_json(found, folder / "fit.json")
        write_table(score_responses(scale, data), folder / "scores.csv")
    if json:
        print(to_json(found))
    elif not quiet:
        show_table(items[["item_id", "discrimination", "difficulty", "guessing", "n_responses", "proportion_correct"]])
        print(f"log-likelihood {fitted.log_likelihood:.3f}, AIC {fitted.aic:.1f}, BIC {fitted.bic:.1f}")
        print(f"{'converged' if fitted.converged else 'NOT CONVERGED'}: {fitted.stopped_because}")
        print(f"prior {fitted.priors.describe()}")
        for removal in left_out:
            print(f"left out: item {removal.item_id} ({removal.reason})")
        if idle:
            print(f"left out: {len(idle)} respondents without a response to these items")
    if not fitted.converged and not allow_unconverged:
        raise typer.Exit(1)
