"""Everything that a calibration can be asked: items as answered, and the fit of items, pairs, persons and the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd

from irtbench.analysis.dependence_bootstrap import RefitMany, little_to_find, samples_for, with_bootstrap
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.diagnostics.global_fit import global_fit
from irtbench.diagnostics.internal_consistency import classical_statistics
from irtbench.diagnostics.item_fit import item_fit
from irtbench.diagnostics.local_dependence import LocalDependence, local_dependence
from irtbench.diagnostics.measurement_precision import MeasurementPrecision, measurement_precision, scale_reliability
from irtbench.diagnostics.person_fit import mean_square_fit, person_fit
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.quadrature import Quadrature
from irtbench.models.theta_posterior import STANDARD_NORMAL
from irtbench.scoring.ability import Abilities, eap, estimate_ability

if TYPE_CHECKING:
    from irtbench.estimation.settings import ModelKind

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What was found, by the file it goes into, and what could not be computed and why."""

    data: ResponseMatrix
    items: ItemParameters
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
    abilities = eap(data, items, quadrature=population)
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
        data, items, abilities, precision, pairs, fits is not None and fits.statistic != "s_x2", tables,
        {"global_fit.json": whole, "reliability.json": reliability}, tried.reasons,
    )  # fmt: skip


def refits_of_grades(items: CategoryParameters, seed: int) -> RefitMany:
    """Fits of these items' models to samples in which each response is k right of m."""
    from irtbench.estimation.settings import FitSettings
    from irtbench.study.study_data import fit_grades

    models = {item: model.name for item, model in zip(items.item_ids, items.models, strict=True)}
    categories = dict(zip(items.item_ids, items.categories, strict=True))
    settings, start = FitSettings().for_samples(), items.as_items()
    if any(n < len(names) for n, names in zip(items.n_free, items.names, strict=True)):
        raise InputError("--bootstrap: items of slope 1 (pcm, rsm) are not refitted; expected --bootstrap 0")

    def refit(sample: ResponseMatrix) -> ItemParameters | None:
        found = fit_grades(sample, models, categories, settings, seed=seed, start=start)
        return found.items if found.converged else None

    return lambda samples: [refit(sample) for sample in samples]


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
    """What refits samples of the bootstrap; None without one, which of grades is drawn only if asked for."""
    if items.categories is not None:
        return refits_of_grades(items.categories, seed) if n_samples else None
    return None if n_samples == 0 else refits_of(items, population, seed)


def refits_of(items: ItemParameters, population: Quadrature | None, seed: int) -> RefitMany:
    """Fits of the model of these items to samples; refused where one fit does not estimate them together."""
    from irtbench.estimation.many_scales.fit_many import fit_many
    from irtbench.estimation.settings import FitSettings

    kinds = set(items.kind or ())
    if "fixed" in kinds:
        raise InputError("--bootstrap: items fitted with anchors are not refitted; expected --bootstrap 0")
    models = set(
        zip(items.guessing_estimated.tolist(), np.where(items.guessing_estimated, 0, items.guessing), strict=True)
    )
    if len(models) > 1:
        raise InputError("--bootstrap: the items are of several models; expected one, or --bootstrap 0")
    estimated, guessing = models.pop()
    kind: ModelKind = "1pl" if kinds else "3pl" if estimated else "2pl"
    settings = FitSettings(kind=kind, guessing=float(guessing)).for_samples()
    start = None if kinds else items
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
