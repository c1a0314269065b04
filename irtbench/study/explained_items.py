"""Difficulty explained by features: of a bank's items in a second step, of responses together with the items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from irtbench.analysis.explained_difficulty import ExplainedDifficulty, Shrinkage, explain_difficulty
from irtbench.analysis.horizons import TIMES, TimeHorizon, log_lengths, time_horizon
from irtbench.analysis.linear_logistic_test import LinearLogisticTest
from irtbench.bank.scale import Scale
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemFeatures
from irtbench.data.readers.records import look_at
from irtbench.data.readers.table import read_table
from irtbench.data.responses import name_first

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from irtbench.data.responses import ResponseMatrix
    from irtbench.data.stored_responses import StoredScores
    from irtbench.study.fitted_scale import InCategories

Model = Literal["rasch", "2pl"]
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


@dataclass(frozen=True, eq=False)
class Lengths:
    """What is asked of horizons: how long tasks are, shares of tasks solved, and in which unit."""

    lengths: pd.Series[float]
    shares: tuple[float, ...]
    unit: str

    @classmethod
    def among(
        cls, known: ItemFeatures, column: str, shares: tuple[float, ...], file: Path
    ) -> tuple[Lengths, ItemFeatures]:
        """The lengths in a column, and the features with the logarithm of the length in its place."""
        if column not in known.names:
            raise InputError(f"{file}: no column of numbers {column}; there are {', '.join(known.names[:5])}")
        place = known.names.index(column)
        lengths = pd.Series(known.values[:, place], list(known.item_ids))
        values = known.values.copy()
        values[:, place] = log_lengths(lengths, known.item_ids)
        names = tuple(f"log {name}" if name == column else name for name in known.names)
        unit = next((word for word in TIMES if word in column.lower()), column)
        return cls(lengths, shares, unit), ItemFeatures(known.item_ids, names, values)

    def horizons(self, data: ResponseMatrix, model: Model, progress: Callable[[str], None]) -> TimeHorizon:
        """The length of tasks that each system solves so often."""
        return time_horizon(data, self.lengths, shares=self.shares, unit=self.unit, model=model, progress=progress)


def explained_bank(
    scale: Scale, source: Path, known: ItemFeatures, features: Path, shrinkage: Shrinkage, rng: np.random.Generator, *,
    curved: bool,
) -> Explained:  # fmt: skip
    """The second step on the items of a scale of this source, and of features from this file."""
    there, without = with_features(scale.items.item_ids, known, source, features)
    chosen = scale.select(there)
    errors = errors_of_table(source, chosen.items.item_ids) if chosen.items.covariance is None else None
    found = explain_difficulty(
        chosen.items, known, standard_errors=errors, joint_error=chosen.joint_error, shrinkage=shrinkage, curved=curved,
        population=scale.population, rng=rng,
    )  # fmt: skip
    return Explained(found, None, without=without)


def explained_grades(
    given: pd.DataFrame | StoredScores, of_model: InCategories, known: ItemFeatures, source: Path, features: Path, *,
    progress: Callable[[str], None], **how: Any,
) -> Explained:  # fmt: skip
    """Mean steps explained together with the items; of very many grades or kinds of them those of a first fit."""
    from irtbench.analysis.explained_grades import categories_of, explain_grades
    from irtbench.estimation.few_respondents.category_grid import MOST_CATEGORIES

    every = given.stack().dropna() if isinstance(given, pd.DataFrame) else pd.Series(dtype=object)
    if isinstance(given, pd.DataFrame) and len(every) <= MOST_GRADES and every.nunique() <= MOST_CATEGORIES:
        there, without = with_features([*given.columns[given.notna().any()]], known, source, features)
        graded, kinds = given[there].dropna(how="all"), given[there].nunique()
        progress(f"fitting {of_model.in_words(graded)}")
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


def errors_of_table(source: Path, item_ids: tuple[str, ...]) -> NDArray[np.float64] | None:
    """Standard errors of difficulty in a table of item parameters; None where there is none."""
    if not source.is_file() or not look_at(source).has("item_id", "discrimination", "se_difficulty"):
        return None
    table = read_table(source).set_index("item_id")
    return pd.to_numeric(table["se_difficulty"], errors="coerce").loc[list(item_ids)].to_numpy(dtype=np.float64)
