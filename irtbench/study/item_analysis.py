"""The items of a scale: as they were answered, whether they fit, keys that may be wrong, and why they are difficult."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import pandas as pd

from irtbench.analysis.explained_difficulty import ExplainedDifficulty, Shrinkage, explain_difficulty
from irtbench.analysis.explained_responses import LinearLogisticTest
from irtbench.analysis.horizons import TIMES, TimeHorizon, log_lengths
from irtbench.analysis.wrong_keys import WrongKeys, wrong_keys
from irtbench.bank.scale import Scale
from irtbench.building.prune_rules import without_constant
from irtbench.data.grading import GradingSettings, as_compared, as_labels, normalise_answers, normalised_keys
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemFeatures, ItemTable
from irtbench.data.readers.records import look_at
from irtbench.data.readers.table import read_table
from irtbench.data.responses import ResponseMatrix, name_first, positions_of
from irtbench.data.shown import Shown
from irtbench.diagnostics.global_fit import global_fit
from irtbench.diagnostics.internal_consistency import ClassicalStatistics, classical_statistics, distractor_table
from irtbench.diagnostics.item_fit import item_fit
from irtbench.diagnostics.local_dependence import (
    LocalDependence,
    RefitMany,
    little_to_find,
    local_dependence,
    samples_for,
    with_bootstrap,
)
from irtbench.diagnostics.measurement_precision import (
    MeasurementPrecision,
    ScaleReliability,
    measurement_precision,
    scale_reliability,
)
from irtbench.diagnostics.person_fit import mean_square_fit, person_fit
from irtbench.estimation.fit import fit_model
from irtbench.estimation.fitted import FittedModel
from irtbench.estimation.settings import FitSettings
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.coded_scores import CodedScores
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.quadrature import Quadrature
from irtbench.models.theta_posterior import STANDARD_NORMAL
from irtbench.scoring.ability import Abilities, estimate_ability

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from irtbench.data.stored_responses import StoredScores
    from irtbench.estimation.settings import ModelKind
    from irtbench.study.fitted_scale import InCategories

FEWEST_ITEMS = 3


@dataclass(frozen=True, eq=False)
class ItemAnalysis(Shown, short="{classical.item_ids:item}, alpha {reliability.alpha:.2f}"):
    """Item analysis of the items kept on one scale, by the screened respondents.

    Parameters
    ----------
    classical
        Classical statistics of each item.
    reliability
        Of the scale.
    options
        Every option of every item, see `distractor_table`; empty where there are no raw answers.
    removed_options
        The same of the items that were removed, by the score on those kept.
    """

    classical: ClassicalStatistics
    reliability: ScaleReliability
    options: pd.DataFrame
    removed_options: pd.DataFrame

    def table(self) -> pd.DataFrame:
        """One row an item, as `ClassicalStatistics.table`."""
        return self.classical.table()


def analyse_items(
    responses: ResponseMatrix,
    scale: Scale,
    abilities: Abilities,
    answers: pd.DataFrame | None,
    items: ItemTable,
    grading: GradingSettings,
) -> ItemAnalysis | None:
    """Item analysis of a scale; None with fewer than three items, or several trials of an item."""
    data = responses.select_items(scale.items.item_ids).answered()
    if data.trials is not None or data.n_items < FEWEST_ITEMS:
        return None
    reliability = scale_reliability(
        data, scale.items, abilities.theta, abilities.standard_error, population=scale.population or STANDARD_NORMAL
    )
    options = removed_options = pd.DataFrame()
    keys = normalised_keys(items, grading)
    if answers is not None and set(data.item_ids) <= set(keys):
        removed = [item for item in responses.item_ids if item in keys and item not in set(data.item_ids)]
        whole = responses.select_respondents(np.isin(responses.respondent_ids, data.respondent_ids))
        whole = whole.select_items([*data.item_ids, *removed])
        given = answers[answers["item_id"].isin(whole.item_ids) & answers["respondent_id"].isin(data.respondent_ids)]
        given = given.assign(answer=as_compared(given["answer"], grading))
        found = distractor_table(given, keys, whole, scored=set(data.item_ids))
        gone = found["item_id"].isin(removed)
        options, removed_options = found[~gone].reset_index(drop=True), found[gone].reset_index(drop=True)
    return ItemAnalysis(classical_statistics(data), reliability, options, removed_options)


def suspected_keys(
    given: pd.DataFrame, known: ItemTable, file: Path, prior: Literal["weak", "hierarchical"] | None, *, seed: int,
    progress: Callable[[str], None],
) -> tuple[WrongKeys, pd.DataFrame, FittedModel]:  # fmt: skip
    """Each item's probability that its key is wrong, an option a row, and the fit."""
    grading = GradingSettings()
    right = normalised_keys(known, grading)
    refusal = f"{file}: no key for item {{}}; expected one for every item answered"
    positions_of(list(pd.unique(given["item_id"])), list(right), refusal)
    # any answer may be the right one here: none is too strange to be an option
    given = given.assign(answer=as_labels(normalise_answers(given["answer"], grading.normalise), right))
    correct = (given["answer"] == given["item_id"].map(right)).astype(np.float64)
    responses = ResponseMatrix.from_long(given.assign(response=correct)).answered()
    varied = without_constant(responses)
    if not varied.n_items:
        raise InputError("keys: no item was answered by some as its key says and by others not; expected such items")
    chosen = prior or ("hierarchical" if varied.n_items > varied.n_respondents else "weak")
    progress(f"fitting {varied.n_respondents} respondents x {varied.n_items} items")
    fitted = fit_model(varied, FitSettings(prior=chosen, standard_errors=False), seed=seed)
    progress("options of every item")
    found = wrong_keys(given, right, responses, fitted.items, population=fitted.quadrature, seed=seed)
    return found, distractor_table(given, right, responses), fitted


MOST_GRADES = 200_000  # with more the items are fitted first


@dataclass(frozen=True, eq=False)
class Explained:
    """The regression, the linear logistic test model, horizons, and items that have no features."""

    difficulty: ExplainedDifficulty
    test: LinearLogisticTest | None
    horizons: TimeHorizon | None = None
    without: Sequence[str] = ()

    @property
    def converged(self) -> bool:
        """Whether all that was fitted converged."""
        return self.difficulty.converged and (self.horizons is None or self.horizons.converged)

    def summary(self) -> dict[str, Any]:
        """What difficulty.json says."""
        found, test, horizons = self.difficulty, self.test, self.horizons
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
        return about | {"items_left_out": self.without}


def with_log_lengths(known: ItemFeatures, column: str, file: Path) -> tuple[dict[str, Any], ItemFeatures]:
    """Lengths of tasks in a column and their unit, as `time_horizon` takes them; the features with their logarithm."""
    if column not in known.names:
        raise InputError(f"{file}: no column of numbers {column}; there are {', '.join(known.names[:5])}")
    place = known.names.index(column)
    lengths = pd.Series(known.values[:, place], list(known.item_ids))
    values = known.values.copy()
    values[:, place] = log_lengths(lengths, known.item_ids)
    names = tuple(f"log {name}" if name == column else name for name in known.names)
    unit = next((word for word in TIMES if word in column.lower()), column)
    return {"lengths": lengths, "unit": unit}, ItemFeatures(known.item_ids, names, values)


def explained_bank(
    scale: Scale, source: Path, known: ItemFeatures, features: Path, shrinkage: Shrinkage, rng: np.random.Generator, *,
    curved: bool,
) -> Explained:  # fmt: skip
    """The second step on the items of a scale of this source, and of features from this file."""
    there, without = with_features(scale.items.item_ids, known, source, features)
    chosen = scale.select(there)
    found = explain_difficulty(
        chosen.items, known, joint_error=chosen.joint_error, shrinkage=shrinkage, curved=curved,
        standard_errors=errors_of_table(source, there) if chosen.items.covariance is None else None,
        population=scale.population, rng=rng,
    )  # fmt: skip
    return Explained(found, None, without=without)


def explained_grades(
    given: pd.DataFrame | StoredScores, of_model: InCategories, known: ItemFeatures, source: Path, features: Path, *,
    progress: Callable[[str], None], **how: Any,
) -> Explained:  # fmt: skip
    """Mean steps explained together with the items; of very many grades or kinds of them those of a first fit."""
    from irtbench.analysis.explained_responses import categories_of, explain_grades
    from irtbench.estimation.few_respondents.item_grid import MOST_CATEGORIES

    every = given.stack().dropna() if isinstance(given, pd.DataFrame) else pd.Series(dtype=object)
    if isinstance(given, pd.DataFrame) and len(every) <= MOST_GRADES and every.nunique() <= MOST_CATEGORIES:
        there, without = with_features([*given.columns[given.notna().any()]], known, source, features)
        graded, kinds = given[there].dropna(how="all"), given[there].nunique()
        progress(f"fitting {of_model.in_words(CodedScores.of(graded, levels=of_model.levels or None))}")
        levels = categories_of(graded, of_model.levels)
        if fewer := [item for item, own in levels.items() if kinds[item] < len(own)]:
            progress(f"taken to have all grades, of which some were given to nobody: {name_first(fewer)}")
        return Explained(explain_grades(graded, known, levels=levels, progress=progress, **how), None, without=without)
    data, _, _ = of_model.estimable(given, source)
    of_model, _ = of_model.with_prior_for(data)
    progress(f"fitting {of_model.in_words(data)}")
    fitted = of_model.fit(data)
    assert fitted.scale is not None
    found = explained_bank(fitted.scale, source, known, features, how["shrinkage"], how["rng"], curved=how["curved"])
    return replace(found, difficulty=replace(found.difficulty, converged=bool(fitted.found["converged"])))


def with_features(
    item_ids: Sequence[str], known: ItemFeatures, source: Path, features: Path
) -> tuple[list[str], list[str]]:
    """The items that have features, and those that have none."""
    named = set(known.item_ids)
    there = [item for item in item_ids if item in named]
    if not there:
        raise InputError(f"{features}: none of its items is among those of {source}; expected a row for each")
    return there, sorted(set(item_ids) - named)


def holds_items(source: Path) -> bool:
    """Whether a file is a bank or a table of item parameters; else it holds responses."""
    if not source.is_file():
        return False
    head = look_at(source)
    return head.has("scales") or (head.has("discrimination") and (head.has("difficulty") or head.has("intercept")))


def errors_of_table(source: Path, item_ids: Sequence[str]) -> NDArray[np.float64] | None:
    """Standard errors of difficulty in a table of item parameters; None where there is none."""
    if not source.is_file() or not look_at(source).has("item_id", "discrimination", "se_difficulty"):
        return None
    table = read_table(source).set_index("item_id")
    return pd.to_numeric(table["se_difficulty"], errors="coerce").loc[list(item_ids)].to_numpy(dtype=np.float64)


Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What was found, by the file it goes into, and what could not be computed and why."""

    data: ResponseMatrix
    abilities: Abilities
    precision: MeasurementPrecision
    pairs: LocalDependence
    by_scores: bool
    tables: dict[str, pd.DataFrame]
    figures: dict[str, dict[str, Any]]
    reasons: dict[str, str]


@dataclass
class Tried:
    """What could not be computed, and why: the other statistics remain."""

    reasons: dict[str, str] = field(default_factory=dict)

    def __call__(self, name: str, compute: Callable[[], Result], instead: Result) -> Result:
        """What is computed, or the other where its equations have no solution, or not enough memory."""
        try:
            return compute()
        except (ArithmeticError, np.linalg.LinAlgError) as error:
            self.reasons[name] = str(error)
        except MemoryError:
            self.reasons[name] = "not enough memory"
        return instead


def diagnose(
    data: ResponseMatrix,
    items: ItemParameters,
    population: Quadrature | None,
    *,
    n_samples: int | None,
    seed: int,
    progress: Callable[[str], None],
) -> Diagnosis:
    """Test the fit of items, pairs, persons and the whole; p of pairs by at most so many samples of the bootstrap."""
    categories = items.categories
    upper = items.upper_asymptote is not None and categories is None
    if upper and n_samples:
        raise InputError("--bootstrap: items with upper asymptotes are not refitted; expected --bootstrap 0")
    tried, none, about = Tried(), pd.DataFrame(), population or STANDARD_NORMAL
    refit_many = None if upper else refits(items, population, seed, n_samples)
    abilities = estimate_ability(data, items, quadrature=population)
    at: Any = {"theta": abilities.theta, "quadrature": population}
    classical = tried("classical.csv", lambda: classical_statistics(data).table(), none)
    if categories is not None and not classical.empty:
        classical["n"] = data.observed.sum(axis=0)
    precision = measurement_precision(items, population=about)
    reliability = tried(
        "reliability.json",
        lambda: asdict(scale_reliability(data, items, abilities.theta, abilities.standard_error, population=about)),
        dict[str, Any](),
    )
    progress("item fit")
    fits = tried("item_fit.csv", lambda: item_fit(data, items, **at), None)
    progress("local dependence")
    pairs = tried("local_dependence.csv", lambda: local_dependence(data, items, **at), LocalDependence.none())
    if refit_many is not None and pairs.item_1:
        bootstrap = partial(
            with_bootstrap, pairs, data, items, None, refit_many=refit_many, rng=np.random.default_rng(seed),
            n_samples=n_samples or samples_for(data.n_responses), suffices=little_to_find, quadrature=population,
            progress=progress,
        )  # fmt: skip
        pairs = tried("p_bootstrap in local_dependence.csv", bootstrap, pairs)
    progress("global fit")
    whole = fit_of_whole(data, items, population, tried)
    tables = {
        "item_fit.csv": none if fits is None else fits.table(),
        "local_dependence.csv": pairs.table(),
        "person_fit.csv": tried("person_fit.csv", lambda: person_fit(data, items, abilities.theta).table(), none),
        "classical.csv": classical,
        "test_information.csv": precision.table(),
    }
    if data.trials is None or categories is not None:  # at Warm's estimates, which no prior draws to the middle
        tables["infit_outfit.csv"] = tried(
            "infit_outfit.csv",
            lambda: mean_square_fit(data, items, estimate_ability(data, items, method="wle").theta).table(),
            none,
        )
    return Diagnosis(
        data, abilities, precision, pairs, fits is not None and fits.statistic != "s_x2", tables,
        {"global_fit.json": whole, "reliability.json": reliability}, tried.reasons,
    )  # fmt: skip


def refits_of_grades(items: CategoryParameters, seed: int) -> RefitMany:
    """Fits of these items' models to samples in which each response is k right of m."""
    from irtbench.study.study_data import fit_grades

    models = {item: model.name for item, model in zip(items.item_ids, items.models, strict=True)}
    categories = dict(zip(items.item_ids, items.categories, strict=True))
    if any(n < len(names) for n, names in zip(items.n_free, items.names, strict=True)):
        raise InputError("--bootstrap: items of slope 1 (pcm, rsm) are not refitted; expected --bootstrap 0")

    fit = partial(fit_grades, kind=models, categories=categories, settings=FitSettings().for_samples(), seed=seed)

    def refit_many(samples: Sequence[ResponseMatrix]) -> list[ItemParameters | None]:
        fits = [fit(sample, start=items.as_items()) for sample in samples]
        return [found.items if found.converged else None for found in fits]

    return refit_many


def fit_of_whole(
    data: ResponseMatrix, items: ItemParameters, population: Quadrature | None, tried: Tried
) -> dict[str, Any]:
    """The figures of the global fit, empty where there are none."""
    if items.upper_asymptote is not None and items.categories is None:
        tried.reasons["global_fit.json"] = "M2 is not known for items with upper asymptotes"
        return {}
    found = tried("global_fit.json", lambda: asdict(global_fit(data, items, quadrature=population)), dict[str, Any]())
    if found.get("reason"):
        tried.reasons["M2 in global_fit.json"] = found["reason"]
    return found


def refits(items: ItemParameters, population: Quadrature | None, seed: int, n_samples: int | None) -> RefitMany | None:
    """Fits of the model of these items to samples of the bootstrap; None without one, of grades unless asked for.

    Refused where one fit does not estimate the items together.
    """
    from irtbench.estimation.many_scales.fit_many import fit_many

    if n_samples == 0 or items.categories is not None:
        return refits_of_grades(items.categories, seed) if n_samples and items.categories is not None else None
    if "fixed" in (kinds := items.kind or ("own",) * items.n_items):
        raise InputError("--bootstrap: items fitted with anchors are not refitted; expected --bootstrap 0")
    own_guessing = items.guessing_estimated
    models = set(zip(kinds, own_guessing.tolist(), np.where(own_guessing, 0, items.guessing), strict=True))
    if len(models) > 1:
        raise InputError("--bootstrap: the items are of several models; expected one, or --bootstrap 0")
    kind, estimated, guessing = models.pop()
    model: ModelKind = "1pl" if kind != "own" else "3pl" if estimated else "2pl"
    settings = FitSettings(kind=model, guessing=float(guessing)).for_samples()
    start = items if kind == "own" else None
    # with one slope for all, that slope on the scale of the population at hand
    sd = 1.0 if population is None else population.deviation

    def refit_many(samples: Sequence[ResponseMatrix]) -> list[ItemParameters | None]:
        return [
            replace(fitted.items, discrimination=fitted.items.discrimination / sd)
            if fitted is not None and fitted.converged
            else None
            for fitted in fit_many(samples, settings, seed=seed, start=start).fits
        ]

    return refit_many
