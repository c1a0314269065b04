"""``irtbench fit`` of items in categories: grades, ratings, partial credit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.cli.fit_groups import groups_of
from irtbench.cli.fit_results import FitResults, scale_of_items
from irtbench.cli.reading import Reading
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.models.quadrature import Quadrature, normal_population

if TYPE_CHECKING:
    from irtbench.bank.scale import Scale
    from irtbench.estimation.fit_categories import FittedCategories, Models
    from irtbench.models.coded_scores import Levels
    from irtbench.models.item_parameters import ItemParameters

CategoryPrior = Literal["none", "weak"]

MANY_PER_ITEM = 300  # responses, from which on maximum likelihood needs no prior


@dataclass(frozen=True, kw_only=True)
class CategoriesFit:
    """What is to be fitted.

    Parameters
    ----------
    file, reading, levels
        The scores, how they are read, and labels in their order where they are no numbers.
    model
        Name of a model, or file with the model of each item.
    prior
        Of the items.
    settings
        What else is set of `FitSettings`.
    constraints
        File of parameters that are the same.
    anchors
        Bank, or a scale of one, of items whose parameters are known.
    groups, reference
        File with the group of each respondent, and the group whose ability is N(0, 1).
    ability_on
        File with what is known of the respondents.
    seed
        Of random numbers.
    """

    file: Path
    reading: Reading
    levels: tuple[str, ...]
    model: str
    prior: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    constraints: Path | None = None
    anchors: Path | Scale | None = None
    groups: Path | None = None
    reference: str | None = None
    ability_on: Path | None = None
    seed: int = 0

    def models(self) -> Models:
        """The model, or each item's by the file."""
        from irtbench.estimation.fit_categories import KINDS
        from irtbench.models.parameter_table import read_model_names

        if self.model in KINDS:
            return self.model
        return read_model_names(self.model)

    def fit(self) -> tuple[FitResults, str]:
        """What is found, and why a prior was taken that nobody asked for."""
        from irtbench.estimation.fit_categories import fit_categories
        from irtbench.models.parameter_table import read_constraints

        known = self.known()
        equal = () if self.constraints is None else read_constraints(self.constraints)
        models, scores = self.models(), self.reading.scores(self.file, self.levels)
        kept, left_out = varied(scores, () if known is None else known.items.item_ids)
        if not kept:
            raise InputError(f"file {self.file}: no item has two different scores; expected some, which alone tell")
        given = scores[kept].dropna(how="all")
        idle = sorted(set(scores.index) - set(given.index))
        if isinstance(models, dict):
            if unknown := sorted(set(models) - set(scores.columns)):
                raise InputError(f"{self.model}: no responses to item {name_first(unknown)}")
            models = {item: name for item, name in models.items() if item in kept}
        levels: Levels = self.levels or None
        if known is not None:
            if models in ("pcm", "rsm"):
                raise InputError(
                    f"--anchors: have slopes of their own, {models} has not; expected grm, gpcm or nominal"
                )
            models, levels = of_known(known.items, models, given, self.levels)
        prior, why = self.prior_for(given)
        groups = None if self.groups is None else groups_of([*given.index], self.groups)
        fitted = fit_categories(
            given, models, levels=levels, prior=prior, equal=equal, anchors=known, groups=groups,
            reference=self.reference, seed=self.seed, **self.settings,
        )  # fmt: skip
        data, items, table = fitted.items.matrix(given), fitted.items.as_right_or_wrong(), fitted.table()
        if items is not None:
            data = ResponseMatrix(data.correct, data.respondent_ids, data.item_ids)
            table = items.table().assign(n_responses=fitted.n_by_item)
        scale = scale_of_items(items or fitted.items.as_items(), fitted.estimated_population)
        scale, scores = scored(scale, data, populations_of(fitted, groups))
        found = fitted.summary() | {"items_left_out": left_out, "respondents_left_out": idle}
        found["settings"] = {"model": self.model, "prior": prior, "levels": list(self.levels)}
        return FitResults(found, table, scores, scale).on(self.ability_on, data), why

    def known(self) -> Scale | None:
        """The scale of the anchors."""
        if not isinstance(self.anchors, Path):
            return self.anchors
        from irtbench.bank.known_items import read_bank
        from irtbench.cli.link_options import chosen_scale

        return chosen_scale(read_bank(self.anchors, categories=True), None, self.anchors)

    def prior_for(self, given: pd.DataFrame) -> tuple[CategoryPrior, str]:
        """The prior asked for, or that which suits so many responses, and why."""
        if self.prior == "none" or self.prior == "weak":
            return cast(CategoryPrior, self.prior), ""
        if self.prior != "auto":
            raise InputError(f"--prior {self.prior}: not of items in categories; expected auto, none or weak")
        n = float(given.notna().sum().median())
        if (
            self.constraints is not None
            or self.anchors is not None
            or self.model in ("pcm", "rsm")
            or n >= MANY_PER_ITEM
            or given.shape[1] > given.shape[0]
        ):
            return "none", ""
        return "weak", f"{n:g} responses to the median item: it keeps slopes finite"


def levels_of(text: str | None) -> tuple[str, ...]:
    """The labels of ``--levels``."""
    levels = tuple(part.strip() for part in (text or "").split(",") if part.strip())
    if text is not None and len(set(levels)) < 2:
        raise InputError(f"--levels {text!r}: expected two labels or more, each once, such as poor,fair,good")
    return levels


def refuse_of_categories(asked: Mapping[str, bool]) -> None:
    """Refuse options that do not go with items in categories."""
    if wrong := [name for name, said in asked.items() if said]:
        raise InputError(f"{wrong[0]}: goes with models of right and wrong, without --constraints")


def varied(scores: pd.DataFrame, known: Sequence[str] = ()) -> tuple[list[str], list[dict[str, str]]]:
    """Items with more than one category, or with one if they are known, and those left out, with the reason."""
    n = scores.nunique()
    enough = n >= np.where(n.index.isin(list(known)), 1, 2)
    reasons = [
        {"item_id": item, "reason": "no_response" if n[item] == 0 else "one_category"} for item in n.index[~enough]
    ]
    return [*n.index[enough]], reasons


def of_known(
    known: ItemParameters, models: Models, given: pd.DataFrame, levels: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Sequence[Any]]]:
    """The model and the categories of each item: the known items' own, whichever were given."""
    own = known.categories
    if own is None:
        raise InputError("--anchors: the items are right or wrong; expected a bank of items in categories")
    place = {item: k for k, item in enumerate(own.item_ids)}
    model_of: dict[str, Any] = {}
    categories_of: dict[str, Sequence[Any]] = {}
    for item in given.columns:
        there = set(given[item].dropna().tolist())
        if item in place:
            model_of[item], categories_of[item] = own.models[place[item]], own.categories[place[item]]
        else:
            model_of[item] = models[item] if isinstance(models, Mapping) else models
            categories_of[item] = [one for one in levels if one in there] if levels else sorted(there)
    return model_of, categories_of


def populations_of(
    fitted: FittedCategories, groups: Sequence[str] | None
) -> list[tuple[NDArray[np.bool_], Quadrature | None]]:
    """Which respondents are of which population, the reference's first; None for that of the scale."""
    if fitted.groups is None or groups is None:
        return [(np.ones(fitted.n_respondents, dtype=np.bool_), None)]
    label = np.array(groups, dtype=object)
    return [
        (label == name, normal_population(mean, sd))
        for name, mean, sd in fitted.groups[["group", "mean", "sd"]].itertuples(index=False)
    ]


def scored(
    scale: Scale, data: ResponseMatrix, populations: Sequence[tuple[NDArray[np.bool_], Quadrature | None]]
) -> tuple[Scale, pd.DataFrame]:
    """The scale with the first population's abilities as norms, and the rows of scores.csv of all."""
    from irtbench.bank.norms import Norms
    from irtbench.scoring.scores import ScoringSettings, score_abilities, with_person_fit

    parts = []
    for chosen, density in populations:
        own = data.select_respondents(chosen)
        at = scale if density is None else replace(scale, population=density)
        parts.append((own, score_abilities(at, own, ScoringSettings()), np.flatnonzero(chosen)))
    first = parts[0][1]
    scale = replace(scale, norms=Norms(first.theta, standard_error=first.standard_error))
    tables = [with_person_fit(scale, own, found).set_axis(rows) for own, found, rows in parts]
    return scale, pd.concat(tables).sort_index()
