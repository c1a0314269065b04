"""``irtbench fit``: graded responses to item parameters."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np
import pandas as pd

from irtbench.cli.estimable import estimable
from irtbench.cli.fit_abilities import fit_abilities
from irtbench.cli.fit_checks import AskedFit, read_what_is_known
from irtbench.cli.fit_groups import fit_several_groups, groups_of
from irtbench.cli.fit_in_categories import CategoriesFit, levels_of, refuse_of_categories
from irtbench.cli.fit_options import (
    IN_CATEGORIES,
    AbilityOn,
    Anchors,
    ByItem,
    CacheOfTable,
    Card,
    Constraints,
    Dispersion,
    Factors,
    Groups,
    Guessing,
    Levels,
    Model,
    Pattern,
    Population,
    Posterior,
    Prior,
    PriorGuessing,
    PriorIntercept,
    PriorSlope,
    PriorUpper,
    Reference,
    RemoveCache,
    RightOrWrong,
    ScoresAs,
    SpecificSlopes,
    TestletColumn,
    TestletTable,
)
from irtbench.cli.fit_responses import given_responses
from irtbench.cli.fit_results import FILES, FitResults, item_error_of, say_results, scale_of_items
from irtbench.cli.large import large_table
from irtbench.cli.options import (
    AllowAddress,
    AllowUnconverged,
    Figures,
    Folder,
    Json,
    NumberOfOptions,
    PriorItems,
    Quiet,
    Responses,
    Seed,
    WhereToCompute,
)
from irtbench.cli.output import output_folder, to_json
from irtbench.cli.presenting import figures_in
from irtbench.cli.progress import demand_converged, reporting, say_doubts
from irtbench.cli.ranks import ranks_of_run
from irtbench.cli.reading import Reading, reads_files
from irtbench.cli.testlets import TestletOptions
from irtbench.config import read_card
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.data.sparse_responses import SparseResponses
from irtbench.data.stored_responses import AnyResponses, StoredResponses

if TYPE_CHECKING:
    from collections.abc import Callable

    from irtbench.bank.scale import Scale
    from irtbench.estimation.distributed.ranks import Ranks
    from irtbench.estimation.fitted import FittedModel
    from irtbench.estimation.settings import Device, FitSettings
    from irtbench.report.blocks import Block

MANY_RESPONDENTS = 20_000  # from which on abilities are computed in single precision: right to 1e-4


@reads_files(trials="count")
def fit(
    responses: Responses,
    output: Folder,
    model: Model = "2pl",
    levels: Levels = None,
    prior: Prior = "auto",
    population: Population = "normal",
    guessing: Guessing = 0.0,
    by_item: ByItem = None,
    anchors: Anchors = None,
    groups: Groups = None,
    reference: Reference = None,
    ability_on: AbilityOn = None,
    options: NumberOfOptions = 4,
    prior_guessing: PriorGuessing = None,
    prior_slope: PriorSlope = None,
    prior_intercept: PriorIntercept = None,
    prior_items: PriorItems = None,
    prior_upper: PriorUpper = None,
    constraints: Constraints = None,
    dispersion: Dispersion = None,
    factors: Factors = 1,
    pattern: Pattern = None,
    testlets: TestletColumn = None,
    item_table: TestletTable = None,
    specific_slopes: SpecificSlopes = "free",
    posterior: Posterior = None,
    card: Card = None,
    device: WhereToCompute = "auto",
    scores_as: ScoresAs = "csv",
    cache: CacheOfTable = None,
    remove_cache: RemoveCache = False,
    allow_address: AllowAddress = [],  # noqa: B006 - typer copies it
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
    discrimination_median, discrimination_upper, ...). Where guessing is estimated it ends with likelihood-ratio
    intervals, which leave its prior out, unless that is one of your own (--prior-guessing).

    Grades, ratings and partial credit are fitted in their categories with grm (graded response), gpcm, pcm (partial
    credit), rsm (rating scale) and nominal; slopes are 1 with pcm and rsm. Scores are numbers, or labels in the order
    of --levels; items have the categories that were given. A table item_id, model mixes models in a scale.

    A Parquet file, or a folder of them, of more than ten million fields, and any at an address (s3://...), is encoded
    on disk at a byte a response and read from there in every pass; memory does not grow with it.
    """
    from irtbench.bank.data_card import DataCard

    if constraints is not None and model not in ("2pl", "3pl", *IN_CATEGORIES):
        raise InputError(f"--constraints: go with 2pl, 3pl, grm, gpcm and nominal but not with {model}")
    if model not in get_args(RightOrWrong) or constraints is not None:
        refuse_of_categories(
            {
                "--guessing": guessing != 0, "--by-item": by_item is not None, "--options": options != 4,
                "--prior-items": prior_items is not None,
                "--prior-upper": prior_upper is not None, "--factors": factors != 1, "--pattern": pattern is not None,
                "--dispersion": dispersion is not None, "--testlets": testlets is not None,
                "--posterior": posterior is not None, "--cache": cache is not None,
            }
        )  # fmt: skip
        in_categories = CategoriesFit(
            file=responses, reading=reading, levels=levels_of(levels), model=model, prior=prior,
            settings={
                "population": population, "prior_slope": prior_slope, "prior_intercept": prior_intercept,
                "prior_guessing": prior_guessing, "device": device,
            },
            constraints=constraints, anchors=anchors, groups=groups, reference=reference, ability_on=ability_on,
            seed=seed,
        )  # fmt: skip
        described = None if card is None else read_card(card)
        if reading.holds_models(responses):
            described = (described or DataCard()).of_models()
        with (
            reporting(quiet=quiet) as progress,
            output_folder(output, files=FILES) as folder,
            figures_in(figures) as draw,
        ):
            progress(f"fitting {model}")
            results, why = in_categories.fit()
            results = results.of_data(responses, None)
            results.write(folder, scores_file(folder, scores_as), described)
            draw_fit(draw, results)
        finish(results, 1, output, why, allow_unconverged=allow_unconverged, quiet=quiet, json=json)
        return
    if levels is not None:
        raise InputError("--levels: go with grades: --model grm, gpcm, pcm, rsm or nominal")
    from irtbench.estimation.settings import FitSettings
    from irtbench.models.parameter_table import read_models

    settings = FitSettings(
        kind=cast(RightOrWrong, model), prior=None if prior == "auto" else prior, guessing=guessing,
        by_item={} if by_item is None else read_models(by_item), n_options=options, population=population,
        prior_guessing=prior_guessing, prior_upper=prior_upper, prior_slope=prior_slope,
        prior_intercept=prior_intercept, posterior=posterior, device=device,
    )  # fmt: skip
    asked = AskedFit(
        settings=settings, prior_items=prior_items,
        anchors=anchors, factors=factors, pattern=pattern,
        testlets=TestletOptions.of(testlets, item_table, specific_slopes, responses, reading),
        groups=groups, reference=reference, card=card, dispersion=dispersion,
    )  # fmt: skip
    known, described = read_what_is_known(asked)
    items_known = None if known is None else known.items
    ranks = ranks_of_run.get()
    table = large_table(
        responses, reading, in_memory=asked.needs_memory, whatever_size=ranks is not None, allow_address=allow_address
    )
    opened = partial(given_responses, responses, table, reading, cache, ranks=ranks, remove_cache=remove_cache)
    if ranks is not None and not ranks.is_first:  # takes the same steps with responses of its own; the first says all
        with opened(print) as given:
            asked = asked.with_item_priors(given.item_ids)
            data, *_ = estimable(given, asked.settings, responses, items_known)
            asked = asked.with_prior_for(data)[0] if prior == "auto" else asked
            fit_what_is_asked(data, asked, seed, known, scores_file(output, scores_as), print, ranks)
        return
    with (
        reporting(quiet=quiet) as progress,
        output_folder(output, files=FILES) as folder,
        figures_in(figures) as draw,
        opened(progress) as given,
    ):
        if unknown := sorted(set(settings.by_item) - set(given.item_ids)):
            raise InputError(f"{by_item}: no responses to item {name_first(unknown)}")
        asked = asked.with_item_priors(given.item_ids)
        data, left_out, idle = estimable(given, asked.settings, responses, items_known)
        asked, why = asked.with_prior_for(data) if prior == "auto" else (asked, "")
        progress(f"fitting {data.n_respondents} respondents x {data.n_items} items")
        file = scores_file(folder, scores_as)
        results = fit_what_is_asked(data, asked, seed, known, file, progress, ranks)
        results = results.on(ability_on, data).of_data(responses, table).with_left_out(left_out, idle)
        if table is None and reading.holds_models(responses):
            described = (described or DataCard()).of_models()
        results.write(folder, file, described)
        draw_fit(draw, results)
    trials = 1 if data.trials is None else int(data.trials.max())
    finish(results, trials, output, why, allow_unconverged=allow_unconverged, quiet=quiet, json=json)


def draw_fit(draw: Callable[[list[Block]], None] | None, results: FitResults) -> None:
    """Draw the figures, where they are asked for."""
    if draw is not None:
        from irtbench.report.bank_figures import fit_figures

        draw(fit_figures(results.scale, results.items))


def finish(
    results: FitResults, most_trials: int, output: Path, why: str, *, allow_unconverged: bool, quiet: bool, json: bool
) -> None:
    """Say what was found, and end with an error where the iterations did not converge."""
    if json:
        print(to_json(results.found))
    elif not quiet:
        say_results(results, most_trials, output, why)
    say_doubts(results.found.get("doubts", []))
    unconverged = [] if results.found["converged"] else [str(results.found["stopped_because"])]
    demand_converged(unconverged, allow_unconverged=allow_unconverged, quiet=quiet)


def scores_file(folder: Path, scores_as: ScoresAs) -> Path | None:
    """Where abilities of the respondents go; None if nowhere."""
    return None if scores_as == "none" else folder / f"scores.{scores_as}"


def fit_what_is_asked(
    data: AnyResponses,
    asked: AskedFit,
    seed: int,
    known: Scale | None,
    file: Path | None,
    progress: Callable[[str], None],
    ranks: Ranks | None = None,
) -> FitResults:
    """Fit what is asked for: one of testlets, several abilities and groups in memory, and one ability else."""
    settings = asked.settings
    if isinstance(data, StoredResponses):
        return fit_one_ability(data, settings, seed, known, file, progress, ranks)
    if asked.dispersion is not None:
        return fit_with_dispersion(data, asked.dispersion, settings.device, seed)
    if asked.testlets is not None:
        found, items, abilities, words = asked.testlets.fit(data, seed, settings.device)
        return FitResults(found, items, abilities, words=words)
    if asked.several_abilities:
        found, items, abilities = fit_abilities(data, asked.factors, asked.pattern, seed, settings.device)
        return FitResults(found, items, abilities, words=[f"standard errors: {found['standard_errors']}"])
    if asked.groups is not None:
        if isinstance(data, SparseResponses):
            raise InputError("--groups: so sparse a table of so many items goes with one group only")
        groups = groups_of(data.respondent_ids, asked.groups)
        return FitResults(*fit_several_groups(data, groups, asked.reference, settings, seed))
    return fit_one_ability(data, settings, seed, known, file, progress)


def fit_with_dispersion(
    data: ResponseMatrix | SparseResponses, dispersion: Literal["scale", "item"], device: Device, seed: int
) -> FitResults:
    """Contents of fit.json, items.csv and scores.csv of trials that scatter more than binomial."""
    from irtbench.estimation.dispersion import fit_trials
    from irtbench.scoring.scores import ScoringSettings, score_abilities, with_person_fit

    if not isinstance(data, ResponseMatrix) or data.trials is None:
        raise InputError("--dispersion: expected several trials of an item (repeated pairs, or n_correct of n_trials)")
    fitted = fit_trials(data, dispersion, device=device, seed=seed)
    by_trials, items = fitted.matrix(data)
    scale = scale_of_items(items, None)
    scores = with_person_fit(scale, by_trials, score_abilities(scale, by_trials, ScoringSettings()))
    rho = fitted.parameters[:, 2]
    said = f"{rho[0]:.3f}" if dispersion == "scale" else f"{rho.min():.3f} to {rho.max():.3f}"
    words = [
        f"dispersion {said}: without any the log-likelihood is {fitted.log_likelihood_binomial:.3f} (p {fitted.p:.3g})",
        "no bank.json is written: score takes trials as independent",
    ]
    return FitResults(fitted.summary(), fitted.table(), scores, words=words)


def fit_one_ability(
    data: AnyResponses,
    settings: FitSettings,
    seed: int,
    anchors: Scale | None = None,
    file: Path | None = None,
    progress: Callable[[str], None] = lambda message: None,
    ranks: Ranks | None = None,
) -> FitResults:
    """Contents of fit.json, items.csv and bank.json; scores of many respondents go into the file, block by block."""
    from irtbench.estimation.fit import fit_model
    from irtbench.scoring.bulk import score_matrix

    fitted = fit_model(data, settings, anchors=anchors, seed=seed, ranks=ranks)
    many = isinstance(data, ResponseMatrix) and data.trials is None and data.n_respondents >= MANY_RESPONDENTS
    if not isinstance(data, StoredResponses) and (fitted.abilities is not None or not many):
        return FitResults(*with_scores(fitted, data))
    assert not isinstance(data, SparseResponses)
    scale = scale_of_many(fitted, data)
    if file is not None:
        score_matrix(scale, data, file, together=ranks, progress=progress)
    return FitResults(fitted.summary(), fitted.table(), scale=scale)


def with_scores(
    fitted: FittedModel, data: ResponseMatrix | SparseResponses
) -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame, Scale]:
    """Contents of fit.json, items.csv, scores.csv and bank.json."""
    from irtbench.bank.norms import Norms
    from irtbench.data.sparse_responses import dense_parts
    from irtbench.scoring.item_error import abilities_of
    from irtbench.scoring.scores import ScoringSettings, score_table, with_person_fit

    abilities = [abilities_of(fitted, part) for part in dense_parts(data)]
    norms = Norms(
        np.concatenate([part.theta for part in abilities]),
        standard_error=np.concatenate([part.standard_error for part in abilities]),
    )
    scale = replace(scale_of_items(fitted.items, fitted.estimated_population, fitted.joint_error), norms=norms)
    if fitted.abilities is not None:  # items so uncertain fit the answers that they were estimated from all too well
        (found,) = abilities
        scores = score_table(scale, found, np.full(found.theta.shape, np.nan), ScoringSettings())
    else:
        tables = [with_person_fit(scale, part, found) for part, found in zip(dense_parts(data), abilities, strict=True)]
        scores = pd.concat(tables, ignore_index=True)
    carried = item_error_of(scale, abilities[0], several_trials=data.trials is not None)
    return fitted.summary() | carried, fitted.table(), scores, scale


def scale_of_many(fitted: FittedModel, data: ResponseMatrix | StoredResponses) -> Scale:
    """The scale with its norm sample."""
    from irtbench.bank.norms import Norms, norm_places
    from irtbench.data.response_blocks import ROWS
    from irtbench.scoring.scores import ScoringSettings
    from irtbench.scoring.shared_grid import SharedGridScorer

    scale = scale_of_items(fitted.items, fitted.estimated_population, fitted.joint_error)
    places = norm_places(data.n_respondents, fitted.seed)
    scorer = SharedGridScorer(scale, data.item_ids, ScoringSettings())
    rows, ids = data.at(places), tuple(map(str, places))
    parts = [slice(first, first + ROWS) for first in range(0, len(ids), ROWS)]
    some = [ResponseMatrix.from_coded(rows[part], ids[part], data.item_ids) for part in parts]
    abilities = [scorer.estimate(part)[0] for part in some]
    theta, errors = (
        np.concatenate([getattr(part, name) for part in abilities]) for name in ("theta", "standard_error")
    )
    return replace(scale, norms=Norms(theta, standard_error=errors))
