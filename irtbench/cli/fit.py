"""``irtbench fit``: graded responses to item parameters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pandas as pd
import typer

from irtbench.cli.fit_groups import fit_several_groups, groups_of
from irtbench.cli.fit_stored import fit_stored, given_responses
from irtbench.cli.large import hash_of, large_table
from irtbench.cli.options import (
    AllowUnconverged,
    Figures,
    Folder,
    Json,
    PriorItems,
    Quiet,
    Responses,
    Seed,
    demand_varied_items,
    item_priors,
)
from irtbench.cli.output import output_folder, say, say_next, show_table, to_json, write_json, write_table
from irtbench.cli.presenting import figures_in
from irtbench.cli.progress import demand_converged, reporting, say_doubts
from irtbench.cli.ranks import ranks_of_run
from irtbench.cli.reading import Reading, reads_files
from irtbench.cli.testlets import TestletOptions
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.data.sparse_responses import SparseResponses
from irtbench.data.stored_responses import AnyResponses, StoredResponses

if TYPE_CHECKING:
    from irtbench.bank.scale import Scale
    from irtbench.building.removals import Removal
    from irtbench.data.readers.large_table import LargeTable
    from irtbench.estimation.fitted import FittedModel
    from irtbench.estimation.settings import Device, FitSettings, ModelKind
    from irtbench.models.item_parameters import ItemParameters

MANY_RESPONDENTS = 20_000  # from which on abilities are computed in single precision: right to 1e-4
MOMENTS = ("mean", "sd")
FILES = ("items.csv", "fit.json", "scores.csv", "scores.parquet", "bank.json")


@reads_files(trials="count")
def fit(
    responses: Responses,
    output: Folder,
    model: Annotated[
        Literal["rasch", "1pl", "2pl", "3pl", "4pl"],
        typer.Option("--model", help="Rasch, or logistic of one, two, three or four parameters."),
    ] = "2pl",
    prior: Annotated[
        Literal["none", "weak", "hierarchical"] | None,
        typer.Option("--prior", help="Prior of the items; none for 2pl and weak for 3pl unless said otherwise."),
    ] = None,
    population: Annotated[
        Literal["normal", "estimated"], typer.Option("--population", help="Density of ability: normal, or estimated.")
    ] = "normal",
    guessing: Annotated[
        float, typer.Option("--guessing", help="Not with 3pl: lower asymptote fixed at this value.")
    ] = 0.0,
    by_item: Annotated[
        Path | None,
        typer.Option("--by-item", metavar="FILE", help="Models of single items: item_id, model, guessing."),
    ] = None,
    anchors: Annotated[
        Path | None,
        typer.Option(
            "--anchors",
            metavar="FILE",
            help="Items whose parameters are known and stay: items.csv; the rest joins them.",
        ),
    ] = None,
    groups: Annotated[
        Path | None,
        typer.Option(
            "--groups", metavar="G", help="Table with respondent_id and group: a population of ability for each."
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option("--reference", help="With --groups: that of mean 0 and standard deviation 1; else the largest."),
    ] = None,
    options: Annotated[int, typer.Option("--options", help="Answers to choose from, for the prior of guessing.")] = 4,
    prior_guessing: Annotated[
        str | None,
        typer.Option(
            "--prior-guessing",
            metavar="DENSITY",
            help="Prior of guessing: normal:MEAN,SD of logit c, or beta:ALPHA,BETA of c; in place of the usual one.",
        ),
    ] = None,
    prior_slope: Annotated[
        str | None, typer.Option("--prior-slope", metavar="normal:MEAN,SD", help="Prior of slopes a, your own.")
    ] = None,
    prior_intercept: Annotated[
        str | None,
        typer.Option("--prior-intercept", metavar="normal:MEAN,SD", help="Prior of intercepts d = -a b, your own."),
    ] = None,
    prior_items: PriorItems = None,
    prior_upper: Annotated[
        str | None,
        typer.Option(
            "--prior-upper",
            metavar="DENSITY",
            help="With 4pl: prior of the upper asymptote u, in the same words; beta:19,1 unless said otherwise.",
        ),
    ] = None,
    factors: Annotated[int, typer.Option("--factors", min=1, help="Abilities; more than one with 2pl only.")] = 1,
    pattern: Annotated[
        Path | None,
        typer.Option(
            "--pattern",
            metavar="FILE",
            help="Which slopes on several abilities are estimated (1) and which zero (0): item_id, slope_1, ...",
        ),
    ] = None,
    testlets: Annotated[
        str | None,
        typer.Option(
            "--testlets",
            metavar="COLUMN",
            help="Column of testlets: their items share an ability of their own beside the general one.",
        ),
    ] = None,
    item_table: Annotated[
        Path | None,
        typer.Option("--item-table", metavar="ITEMS", help="Table with that column, if RESPONSES has it not."),
    ] = None,
    specific_slopes: Annotated[
        Literal["free", "equal"],
        typer.Option("--specific-slopes", help="Of testlets: one for each item, or one for all items of a testlet."),
    ] = "free",
    posterior: Annotated[
        Literal["normal", "lowrank"] | None,
        typer.Option(
            "--posterior", help="Fit a variational posterior of the items: its means and standard deviations."
        ),
    ] = None,
    card: Annotated[
        Path | None,
        typer.Option(
            "--card",
            metavar="FILE",
            help="TOML with what the bank says of itself: title, description, license, population, collection, "
            "citation.",
        ),
    ] = None,
    device: Annotated[
        Literal["auto", "cpu", "cuda"],
        typer.Option("--device", help="Where to compute; auto takes a GPU if there is one."),
    ] = "auto",
    scores_as: Annotated[
        Literal["csv", "parquet", "none"],
        typer.Option("--scores", help="Abilities of the respondents as scores.csv, as scores.parquet, or not at all."),
    ] = "csv",
    cache: Annotated[
        Path | None,
        typer.Option(
            "--cache",
            metavar="DIR",
            help="Where a table too large for memory is encoded, and kept for the next run; a temporary folder if not "
            "said.",
        ),
    ] = None,
    remove_cache: Annotated[
        bool, typer.Option("--remove-cache", help="Remove what --cache holds of this table at the end.")
    ] = False,
    figures: Figures = None,
    seed: Seed = 0,
    allow_unconverged: AllowUnconverged = False,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Estimate item parameters and the respondents' abilities.

    Writes items.csv, fit.json, scores.csv and bank.json, on which `score` scores others: the items, with these
    respondents as the norm sample. Items that all got right or all got wrong cannot be estimated without a prior, nor
    respondents without any response: they are left out and named in fit.json. Several trials of an item are k right of
    n, independent of each other given ability.

    With --groups all are fitted at once on one scale (concurrent calibration): ability is N(0, 1) in the reference
    group and has a mean and standard deviation in each other one, which fit.json has with their standard errors. Norms
    are the reference group's.

    With rasch, whose slopes are 1, and with --anchors ability is not N(0, 1): items.csv and fit.json have its mean and
    standard deviation. With several abilities items.csv has their slopes and loadings on principal axes, or as the
    pattern has them, scores.csv an ability on each axis, and there is no bank; with testlets general and specific
    slopes, and the general ability with and without regard to them. With --posterior difficulty is the
    posterior median of b, with half the distance of its 15.9 and 84.1% quantiles as standard error, and items.csv ends
    with the 2.5, 50 and 97.5% quantiles of discrimination, difficulty and guessing (discrimination_lower,
    discrimination_median, discrimination_upper, ...).

    A Parquet file, or a folder of them, of more than ten million fields, and any at an address (s3://...), is encoded
    on disk at a byte a response and read from there in every pass; memory does not grow with it.
    """
    from irtbench.bank.bank import ItemBank, save_bank
    from irtbench.estimation.settings import FitSettings
    from irtbench.models.parameter_table import read_models, read_parameters

    beneath: ModelKind = "3pl" if model == "4pl" else model
    models = {} if by_item is None else read_models(by_item)
    settings = FitSettings(
        kind=beneath, prior=prior, guessing=guessing, by_item=models, n_options=options, population=population,
        prior_guessing=prior_guessing, prior_slope=prior_slope, prior_intercept=prior_intercept, posterior=posterior,
        device=device,
    )  # fmt: skip
    grouped = TestletOptions.of(testlets, item_table, specific_slopes, responses, reading)
    four = model == "4pl"
    if prior_upper is not None and not four:
        raise InputError("--prior-upper: is of an upper asymptote; expected --model 4pl")
    if four and anchors is not None:
        raise InputError("--anchors: do not go with a 4pl; expected 2pl or 3pl")
    several = factors > 1 or pattern is not None
    known = None if anchors is None else read_parameters(anchors)
    described = None
    if card is not None:
        from irtbench.config import read_card

        if several or grouped is not None:
            raise InputError("--card: several abilities have no bank that it could go into")
        described = read_card(card)
    if several and (settings != FitSettings(device=device) or known is not None):
        raise InputError(
            "--factors: several abilities go with the 2pl without guessing, prior, anchors or estimated population"
        )
    if reference is not None and groups is None:
        raise InputError("--reference: expected --groups with it")
    if prior_items is not None and (several or four or grouped is not None or groups is not None):
        raise InputError("--prior-items: go with rasch, 2pl or 3pl, without factors, testlets or groups")
    if groups is not None and (several or four or grouped is not None or known is not None):
        raise InputError("--groups: expected neither several abilities, testlets, a 4pl nor anchors with it")
    if grouped is not None and (several or settings != FitSettings(device=device) or known is not None):
        raise InputError(
            "--testlets: goes with the 2pl without factors, guessing, prior, anchors, estimated population"
        )
    needs_all = {
        "several abilities": several,
        "--testlets": grouped is not None,
        "--groups": groups is not None,
        "--model 4pl": four,
        "--posterior": posterior,
        "--prior hierarchical": prior == "hierarchical",
    }
    data: AnyResponses
    in_memory, ranks = next((name for name, asked in needs_all.items() if asked), ""), ranks_of_run.get()
    table = large_table(responses, reading, in_memory=in_memory, whatever_size=ranks is not None)
    if ranks is not None and not ranks.is_first:  # takes the same steps with responses of its own; the first says all
        with given_responses(responses, table, reading, cache, print, ranks, remove_cache=remove_cache) as given:
            assert isinstance(given, StoredResponses)
            settings = replace(settings, prior_items=item_priors(prior_items, given.item_ids))
            data, *_ = estimable_stored(given, settings, responses, known)
            file = None if scores_as == "none" else output / f"scores.{scores_as}"
            fit_stored(data, settings, seed, known, file, print, ranks)
        return
    with (
        reporting(quiet=quiet) as progress,
        output_folder(output, files=FILES) as folder,
        figures_in(figures) as draw,
        given_responses(responses, table, reading, cache, progress, ranks, remove_cache=remove_cache) as given,
    ):
        if unknown := sorted(set(models) - set(given.item_ids)):
            raise InputError(f"{by_item}: no responses to item {name_first(unknown)}")
        settings = replace(settings, prior_items=item_priors(prior_items, given.item_ids))
        if isinstance(given, StoredResponses):
            data, left_out, idle = estimable_stored(given, settings, responses, known)
        else:
            data, left_out, idle = estimable(given, settings, responses, known)
        progress(f"fitting {data.n_respondents} respondents x {data.n_items} items")
        file = None if scores_as == "none" else folder / f"scores.{scores_as}"
        scores: pd.DataFrame | None = None
        scale: Scale | None = None
        words: list[str] = []
        if isinstance(data, StoredResponses):
            found, items, scale = fit_stored(data, settings, seed, known, file, progress, ranks)
        elif grouped is not None:
            found, items, scores, words = grouped.fit(data, seed, device)
        elif several:
            found, items, scores = fit_abilities(data, factors, pattern, seed, device)
        elif groups is not None:
            if isinstance(data, SparseResponses):
                raise InputError("--groups: so sparse a table of so many items goes with one group only")
            found, items, scores, scale = fit_several_groups(data, groups_of(data, groups), reference, settings, seed)
        elif four:
            found, items, scores, scale = fit_four_parameters(data, settings, prior_upper, seed)
        else:
            found, items, scores, scale = fit_one_ability(data, settings, seed, known)
        if scale is not None:
            scale = replace(scale, provenance=provenance_of(found, responses, table))
            save_bank(ItemBank((scale,), described), folder / "bank.json")
        if scores is not None and file is not None:
            write_table(scores, file)
        found |= {
            "items_left_out": [{"item_id": r.item_id, "reason": r.reason} for r in left_out],
            "respondents_left_out": idle,
        }
        write_table(items, folder / "items.csv")
        write_json(found, folder / "fit.json")
        if draw is not None:
            from irtbench.report.bank_figures import fit_figures

            draw(fit_figures(scale, items))
    if json:
        print(to_json(found))
    elif not quiet:
        shown = items.drop(columns=[*items.filter(regex="^se_|^population_|_(lower|median|upper)$"), "model"])
        show_table(shown, rest=output / "items.csv")
        say(f"log-likelihood {found['log_likelihood']:.3f}, AIC {found['aic']:.1f}, BIC {found['bic']:.1f}")
        say(f"{'converged' if found['converged'] else 'NOT CONVERGED'}: {found['stopped_because']}")
        say(f"prior {found['prior']}")
        if "population_sd" in found:
            mean, sd = (f"{found[f'population_{name}']:.3f} ({found[f'population_se_{name}']:.3f})" for name in MOMENTS)
            say(f"ability of these respondents: mean {mean}, standard deviation {sd}")
        for group in found.get("groups", []):
            say(
                f"{group['group']}: {group['n_respondents']} respondents, mean {group['mean']:.3f} "
                f"({group['se_mean']:.3f}), standard deviation {group['sd']:.3f} ({group['se_sd']:.3f})"
            )
        for line in words:
            say(line)
        if several:
            say(f"standard errors: {found['standard_errors']}")
        for what, key in (("guessing", "guessing_not_identified"), ("upper asymptote", "upper_not_identified")):
            if unidentified := found.get(key):
                say(f"{what} not identified by the data: {name_first(unidentified)}")
        if data.trials is not None:
            say(
                f"up to {int(data.trials.max())} trials of an item: k right of n, independent given ability; --trials "
                "takes one response each instead"
            )
        for removal in left_out:
            say(f"left out: item {removal.item_id} ({removal.reason})")
        if idle:
            say(f"left out: {len(idle)} respondents without a response to these items")
        if scale is not None and found["converged"]:
            say_next("irtbench", "score", output / "bank.json", "NEW.csv")
    say_doubts(found.get("doubts", []))
    unconverged = [] if found["converged"] else [str(found["stopped_because"])]
    demand_converged(unconverged, allow_unconverged=allow_unconverged, quiet=quiet)


def estimable(
    given: ResponseMatrix | SparseResponses, settings: FitSettings, file: Path, known: ItemParameters | None = None
) -> tuple[ResponseMatrix | SparseResponses, list[Removal], list[str]]:
    """What can be fitted; the items left out for their responses are all the same, and respondents without any."""
    kept, left_out = varied_items(given, settings, file, known)
    data = given.select_items(kept)
    if not data.n_by_respondent.all():
        data = data.select_respondents(data.n_by_respondent > 0)
    return data, left_out, sorted(set(given.respondent_ids) - set(data.respondent_ids))


def estimable_stored(
    given: StoredResponses, settings: FitSettings, file: Path, known: ItemParameters | None = None
) -> tuple[StoredResponses, list[Removal], list[str]]:
    """The same of responses on disk."""
    kept, left_out = varied_items(given, settings, file, known)
    data = given.select_items(kept).answered()
    return data, left_out, sorted(data.idle_ids())


def varied_items(
    given: AnyResponses, settings: FitSettings, file: Path, known: ItemParameters | None
) -> tuple[list[str], list[Removal]]:
    """Items that can be fitted, and those that are left out."""
    from irtbench.building.removals import constant_items

    left_out = [removal for removal in constant_items(given) if not settings.bounds(removal.item_id)]
    left_out = [removal for removal in left_out if known is None or removal.item_id not in known.item_ids]
    gone = {removal.item_id for removal in left_out}
    kept = [item for item in given.item_ids if item not in gone]
    demand_varied_items(kept, file)
    return kept, left_out


def fit_one_ability(
    data: ResponseMatrix | SparseResponses, settings: FitSettings, seed: int, anchors: ItemParameters | None = None
) -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame, Scale]:
    """Contents of fit.json, items.csv, scores.csv and bank.json."""
    from irtbench.estimation.fit import fit_model

    return with_scores(fit_model(data, settings, anchors=anchors, seed=seed), data)


def fit_four_parameters(
    data: ResponseMatrix | SparseResponses, settings: FitSettings, prior_upper: str | None, seed: int
) -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame, Scale]:
    """The same with an upper asymptote for each item."""
    from irtbench.estimation.four_parameters import fit_4pl

    if isinstance(data, SparseResponses):
        raise InputError("--model 4pl: so sparse a table of so many items goes with up to three parameters only")
    return with_scores(fit_4pl(data, settings, prior_upper=prior_upper, seed=seed), data)


def with_scores(
    fitted: FittedModel, data: ResponseMatrix | SparseResponses
) -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame, Scale]:
    """Contents of fit.json, items.csv, scores.csv and bank.json."""
    from irtbench.bank.norms import Norms
    from irtbench.bank.scale import Scale
    from irtbench.data.items import ItemTable
    from irtbench.data.sparse_responses import dense_parts
    from irtbench.scoring.ability import abilities_of
    from irtbench.scoring.scores import ScoringSettings, score_table, with_person_fit

    by_parts = isinstance(data, ResponseMatrix) and data.trials is None and data.n_respondents >= MANY_RESPONDENTS
    if fitted.abilities is None and by_parts:
        assert isinstance(data, ResponseMatrix)
        return fitted.summary(), fitted.table(), *scores_of_many(fitted, data)
    abilities = [abilities_of(fitted, part) for part in dense_parts(data)]
    norms = Norms(
        np.concatenate([part.theta for part in abilities]),
        standard_error=np.concatenate([part.standard_error for part in abilities]),
    )
    details = ItemTable.plain(fitted.items.item_ids)
    scale = Scale(
        "all", fitted.items, details, norms=norms, population=fitted.estimated_population,
        joint_error=fitted.joint_error,
    )  # fmt: skip
    if fitted.abilities is not None:  # items so uncertain fit the answers that they were estimated from all too well
        (found,) = abilities
        scores = score_table(scale, found, np.full(found.theta.shape, np.nan), ScoringSettings())
    else:
        tables = [with_person_fit(scale, part, found) for part, found in zip(dense_parts(data), abilities, strict=True)]
        scores = pd.concat(tables, ignore_index=True)
    return fitted.summary(), fitted.table(), scores, scale


def provenance_of(found: dict[str, Any], responses: Path, table: LargeTable | None = None) -> dict[str, Any]:
    """Where a bank that a fit leaves behind comes from: what fit.json has of it, and the data's hash.

    Of a table at an address it is that of the names, sizes and times of its files.
    """
    from datetime import UTC, datetime

    from irtbench.data.file_hash import file_hash

    kept = ("settings", "prior", "converged", "stopped_because", "n_respondents", "doubts", "seed", "versions")
    date = datetime.now(UTC).date().isoformat()
    if responses.exists() or table is None:
        data = {responses.name: file_hash(responses)}
    else:
        data = {table.place: hash_of(table)}
    return {"data": data, **{name: found[name] for name in kept}, "date": date}


def scores_of_many(fitted: FittedModel, data: ResponseMatrix) -> tuple[pd.DataFrame, Scale]:
    """Contents of scores.csv as `score` writes them for a large file, and the scale with these as norms."""
    from irtbench.bank.norms import Norms, norm_places
    from irtbench.bank.scale import Scale
    from irtbench.data.items import ItemTable
    from irtbench.scoring.scores import ScoringSettings, score_table
    from irtbench.scoring.shared_grid import SharedGridScorer

    item_ids = fitted.items.item_ids
    scale = Scale(
        "all", fitted.items, ItemTable.plain(item_ids), population=fitted.estimated_population,
        joint_error=fitted.joint_error,
    )  # fmt: skip
    settings = ScoringSettings()
    scorer = SharedGridScorer(scale, item_ids, settings)
    values = data.select_items(item_ids).values.astype(np.float32)
    abilities, lz_star = scorer.estimate(values, data.respondent_ids)
    kept = norm_places(data.n_respondents, fitted.seed)
    norms = Norms(abilities.theta[kept], standard_error=abilities.standard_error[kept])
    scale = replace(scale, norms=norms)
    return score_table(scale, abilities, lz_star, settings), scale


def fit_abilities(
    data: ResponseMatrix | SparseResponses, n_factors: int, pattern: Path | None, seed: int, device: Device
) -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame]:
    """The same with several abilities."""
    from irtbench.estimation.factors import factor_scores, fit_factors
    from irtbench.models.parameter_table import read_pattern

    if isinstance(data, SparseResponses):
        raise InputError("--factors: so sparse a table of so many items goes with one ability only")
    zero_loadings = None if pattern is None else read_pattern(pattern, data.item_ids)
    if zero_loadings is not None:
        if n_factors not in (1, zero_loadings.shape[1]):
            raise InputError(f"{pattern}: {zero_loadings.shape[1]} abilities, but --factors says {n_factors}")
        n_factors = zero_loadings.shape[1]
    fitted = fit_factors(data, n_factors, zero_loadings=zero_loadings, seed=seed, device=device)
    scores = factor_scores(fitted, data, seed=seed, device=device)
    return fitted.summary() | {"seed": seed}, fitted.table(), scores
