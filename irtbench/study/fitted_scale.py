"""Items fitted to responses, right or wrong or in categories, with the respondents' abilities and the scale of both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import irtbench.analysis
import irtbench.estimation
from irtbench.bank.bank import NOT_ON_A_SCALE
from irtbench.bank.norms import MOST_NORMS, Norms
from irtbench.bank.scale import Scale
from irtbench.building.prune_rules import constant_items
from irtbench.data.input_error import InputError, refuse_any
from irtbench.data.items import ItemTable
from irtbench.data.readers.respondents import read_groups
from irtbench.data.response_blocks import ROWS, some_respondents
from irtbench.data.responses import ResponseMatrix, Responses, name_first, positions_of
from irtbench.data.sparse_responses import SparseResponses
from irtbench.models.coded_scores import CodedScores
from irtbench.models.item_parameters import ItemParameters, sensible_items
from irtbench.models.parameter_table import read_pattern
from irtbench.models.quadrature import Quadrature, normal_population
from irtbench.scoring.ability import Abilities
from irtbench.scoring.bulk import score_matrix
from irtbench.scoring.item_error import abilities_of, automatic_item_error, item_error_share
from irtbench.scoring.scores import ScoringSettings, score_abilities, score_responses, score_table, with_person_fit
from irtbench.study.examination import prior_for, prior_of_grades

if TYPE_CHECKING:  # torch takes seconds to import, and is loaded while the responses are read
    from irtbench.data.stored_responses import StoredScores
    from irtbench.estimation.fit_categories import Models
    from irtbench.estimation.ranks import Ranks
    from irtbench.estimation.settings import Device, FitSettings
    from irtbench.models.category_parameters import CategoryParameters
    from irtbench.models.item_parameters import JointError

MANY_RESPONDENTS = 20_000  # from which on scores are written block by block
ONE_IN_MEMORY = "--ability-on: goes with one ability of responses in memory, without --dispersion"

Progress = Callable[[str], None]


@dataclass(frozen=True)
class FittedScale:
    """What a fit has found."""

    found: dict[str, Any]
    items: pd.DataFrame
    scores: pd.DataFrame | None = None
    scale: Scale | None = None
    words: Sequence[str] = ()
    data: Responses | None = None
    ability_on: pd.DataFrame | None = None

    def on(self, covariates: pd.DataFrame, file: Path) -> Self:
        """The same with the regression of ability on what a file says of the respondents."""
        if self.scale is None or not isinstance(self.data, ResponseMatrix):
            raise InputError(ONE_IN_MEMORY)
        found = irtbench.analysis.ability_regression(self.data, self.scale.items, covariates)
        about = {
            "file": file.name, "residual_sd": found.residual_sd, "se_residual_sd": found.se_residual_sd,
            "explained": found.explained, "log_likelihood": found.log_likelihood,
        }  # fmt: skip
        words = (
            f"ability on {file.name}: {100 * found.explained:.0f}% of its variance; standard deviation of the rest "
            f"{found.residual_sd:.3f} ({found.se_residual_sd:.3f}); the items count as known"
        )
        return replace(
            self, found=self.found | {"ability_on": about}, words=[*self.words, words], ability_on=found.table()
        )

    def of_data(self, data: Mapping[str, str], left_out: Sequence[Mapping[str, str]] = ()) -> Self:
        """The same with a scale that says of which data it is, and which of their items were left out.

        With no scale where scoring would refuse its items.
        """
        if self.scale is None:
            return self
        try:
            sensible_items(self.scale.items)
        except InputError as error:  # of a fit that did not converge
            return replace(self, scale=None, words=[*self.words, f"no bank.json is written: {error}"])
        kept = ("settings", "prior", "converged", "stopped_because", "n_respondents", "doubts", "seed", "versions")
        about = {name: self.found[name] for name in kept} | {"date": datetime.now(UTC).date().isoformat()}
        about |= {NOT_ON_A_SCALE: [*left_out]} if left_out else {}
        return replace(self, scale=replace(self.scale, provenance={"data": dict(data), **about}))


@dataclass(frozen=True)
class SeveralAbilities:
    """Items with slopes on several abilities."""

    n_factors: int
    pattern: Path | None = None
    needs_memory = "several abilities"

    def fit(self, data: ResponseMatrix | CodedScores, models: Models, of: Fit) -> FittedScale:
        """The items, and abilities on each axis."""
        n_factors, zero_loadings = self.n_factors, None
        if self.pattern is not None:
            zero_loadings = read_pattern(self.pattern, data.item_ids)
            if n_factors not in (1, zero_loadings.shape[1]):
                raise InputError(f"{self.pattern}: {zero_loadings.shape[1]} abilities, but --factors says {n_factors}")
            n_factors = zero_loadings.shape[1]
        fitted = irtbench.estimation.factors.fit_factors(
            data, n_factors, models=models, levels=of.levels or None, zero_loadings=zero_loadings,
            prior_guessing=of.prior_guessing, seed=of.seed, device=of.device,
        )  # fmt: skip
        scores = irtbench.estimation.factor_scores(fitted, data, seed=of.seed, device=of.device)
        found = fitted.summary() | {"seed": of.seed}
        return FittedScale(found, fitted.table(), scores, words=[f"standard errors: {found['standard_errors']}"])


@dataclass(frozen=True)
class Testlets:
    """Items of testlets, each of which has an ability of its own."""

    testlets: Mapping[str, str]
    specific_slopes: Literal["free", "equal"] = "free"
    needs_memory = "--testlets"

    def fit(self, data: ResponseMatrix | CodedScores, models: Models, of: Fit) -> FittedScale:
        """The items, and the general ability with and without regard to testlets."""
        fitted = irtbench.estimation.bifactor.fit_bifactor(
            data, self.testlets, models=models, levels=of.levels or None, specific_slopes=self.specific_slopes,
            prior_guessing=of.prior_guessing, seed=of.seed, device=of.device,
        )  # fmt: skip
        effect = irtbench.analysis.model_comparison.effect_of_testlets(data, fitted, seed=of.seed, device=of.device)
        words = effect.in_words()
        if fitted.alike and self.specific_slopes == "free" and not fitted.one_slope:
            words.append(
                f"one specific slope for both items of {name_first(fitted.alike)}, whose product alone could be known"
            )
        if fitted.single:
            words.append(f"alone in a testlet, and so in none: item {name_first(fitted.single)}")
        found = fitted.summary() | effect.summary() | {"seed": of.seed}
        return FittedScale(found, fitted.table(), effect.abilities, words=words)


@dataclass(frozen=True, kw_only=True)
class Fit(ABC):
    """What every fit can be asked for."""

    anchors: Scale | None = None
    groups: Path | None = None
    reference: str | None = None
    seed: int = 0
    more: SeveralAbilities | Testlets | None = None
    levels: tuple[str, ...] = ()
    device: Device = "auto"
    prior_guessing: str | None = None

    def labels(self, data: Responses) -> list[str] | None:
        """The group of each respondent; None where there is one group."""
        if self.groups is None:
            return None
        group_of = read_groups(self.groups)
        refusal = f"{self.groups}: no group of respondent {{}}; expected one of each who answered"
        positions_of(data.respondent_ids, list(group_of), refusal)
        return [group_of[name] for name in data.respondent_ids]

    def in_words(self, data: Responses) -> str:
        """What is about to be fitted."""
        return f"{data.n_respondents} respondents x {data.n_items} items"

    def items(self, data: Responses) -> ItemParameters:
        """The items' parameters alone."""
        return self._fitted(data)[1].items

    def fit(
        self,
        data: Any,
        *,
        file: Path | None = None,
        progress: Progress = lambda message: None,
        ranks: Ranks | None = None,
    ) -> FittedScale:
        """The items, the abilities and the scale; responses on disk are scored into the file block by block."""
        if self.more is not None:
            if isinstance(data, SparseResponses):
                raise InputError(f"{self.more.needs_memory}: not with so sparse a table of so many items")
            return self.more.fit(data, self._models(data), self)
        labels = self.labels(data)
        fitted, scale, results, groups = self._fitted(data, labels, ranks)
        in_matrix = isinstance(data, ResponseMatrix)
        many = in_matrix and labels is None and data.trials is None and data.n_respondents >= MANY_RESPONDENTS
        if data.on_disk or (many and fitted.abilities is None):
            scale = scored_in_blocks(scale, data, self.seed, file, together=ranks, progress=progress)
            return replace(results, scale=scale, data=data)
        if not in_matrix or fitted.abilities is None:
            return with_abilities(scale, data.to_matrix() if data.in_categories else data, results, labels, groups)
        abilities = abilities_of(fitted, data)
        scale = replace(scale, norms=norms_of([abilities]))
        # items so uncertain fit the answers that they were estimated from all too well
        scores = score_table(scale, abilities, np.full(abilities.theta.shape, np.nan), ScoringSettings())
        return replace(results, found=results.found | {"item_error": "joint"}, scores=scores, scale=scale, data=data)

    @abstractmethod
    def _models(self, data: Responses) -> Models:
        """The model of all, or of each item of the data."""

    @abstractmethod
    def _fitted(
        self, data: Responses, labels: Sequence[str] | None = None, ranks: Ranks | None = None
    ) -> tuple[Any, Scale, FittedScale, pd.DataFrame | None]:
        """What was fitted, its scale, the figures and the table of items, and the groups' populations."""


@dataclass(frozen=True, kw_only=True)
class RightOrWrong(Fit):
    """One ability behind responses that are right or wrong, of one group or several."""

    settings: FitSettings
    chooses_prior: bool = False

    @property
    def items_named(self) -> Mapping[str, Any]:
        """Items that have a model of their own."""
        return self.settings.by_item

    @property
    def needs_memory(self) -> str:
        """The first of what needs all responses in memory; empty if there is none."""
        needs = {
            "--groups": self.groups is not None,
            "--posterior": self.settings.posterior is not None,
            "--prior hierarchical": self.settings.prior == "hierarchical",
        }
        return next((name for name, asked in needs.items() if asked), self.more.needs_memory if self.more else "")

    def estimable(self, data: Responses, place: Path) -> tuple[Any, list[dict[str, str]], list[str]]:
        """What can be fitted; the items left out, and respondents without any response.

        Items without a response are left out, and those whose responses are all the same but for those that their own
        priors or a learnt prior keep finite: easy items that all got right belong to the items whose difficulties the
        prior is learnt from.
        """
        learns = self.with_prior_for(data)[0].settings.prior == "hierarchical"
        constant = {one.item_id: one.reason for one in constant_items(data)}
        anchors = () if self.anchors is None else self.anchors.items.item_ids
        left_out = {
            item: reason
            for item, reason in constant.items()
            if reason == "no_response" or not (learns or self.settings.bounds(item) or item in anchors)
        }
        without = constant if learns else left_out
        demand_varied_items([item for item in data.item_ids if item not in without], place)
        return estimable_part(data, left_out)

    def with_prior_for(self, data: Responses) -> tuple[Self, str]:
        """The same with the prior that suits so many respondents and items, and why, if it is to be chosen."""
        if not self.chooses_prior:
            return self, ""
        prior, why = prior_for(data)
        if prior == "hierarchical" and not isinstance(data, ResponseMatrix):  # which is learnt from all in memory
            prior = "none" if data.n_items > data.n_respondents else "weak"
        return (self, "") if prior == "none" else (replace(self, settings=replace(self.settings, prior=prior)), why)

    def _models(self, data: Responses) -> Models:
        return self.settings.kind

    def _fitted(
        self, data: Responses, labels: Sequence[str] | None = None, ranks: Ranks | None = None
    ) -> tuple[Any, Scale, FittedScale, pd.DataFrame | None]:
        """Of several groups those of concurrent calibration: the items of all, and the reference group's norms."""
        if labels is None:
            fitted = irtbench.estimation.fit.fit_model(
                data, self.settings, anchors=self.anchors, seed=self.seed, ranks=ranks
            )
            scale = scale_of(fitted.items, fitted.estimated_population, fitted.joint_error)
            return fitted, scale, FittedScale(fitted.summary(), fitted.table()), None
        if isinstance(data, SparseResponses):
            raise InputError("--groups: so sparse a table of so many items goes with one group only")
        grouped = irtbench.estimation.multiple_groups.fit_groups(
            data.to_matrix(), labels, self.settings, reference=self.reference, seed=self.seed
        )
        scale = scale_of(grouped.items[0], None, grouped.joint_error)
        return grouped, scale, FittedScale(grouped.summary(), grouped.common_table()), grouped.table()


@dataclass(frozen=True, kw_only=True)
class ScatteredTrials(RightOrWrong):
    """Trials of an item that scatter more than binomial."""

    dispersion: Literal["scale", "item"]
    needs_memory = "--dispersion"

    def fit(self, data: Responses, **_: Any) -> FittedScale:
        """The items, and abilities as if trials were responses to items of their own."""
        if not isinstance(data, ResponseMatrix) or data.trials is None:
            raise InputError(
                "--dispersion: expected several trials of an item (repeated pairs, or n_correct of n_trials)"
            )
        fitted = irtbench.estimation.fit_trials(data, self.dispersion, device=self.device, seed=self.seed)
        by_trials, items = fitted.matrix(data)
        rho = fitted.parameters[:, 2]
        figure = f"{rho[0]:.3f}" if self.dispersion == "scale" else f"{rho.min():.3f} to {rho.max():.3f}"
        return FittedScale(
            fitted.summary(), fitted.table(), score_responses(scale_of(items, None), by_trials), words=[
                f"dispersion {figure}: without any the log-likelihood is {fitted.log_likelihood_binomial:.3f} "
                f"(p {fitted.p:.3g})",
                "no bank.json is written: score takes trials as independent",
            ],
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class InCategories(Fit):
    """One ability behind grades, ratings, partial credit; or behind right and wrong where parameters are the same."""

    model: str
    models: Models
    prior: str = "auto"
    settings: Mapping[str, Any] = field(default_factory=dict)
    equal: Sequence[Sequence[tuple[str, str]]] = ()

    @property
    def items_named(self) -> Mapping[str, Any]:
        """Items that have a model of their own."""
        return self.models if isinstance(self.models, Mapping) else {}

    @property
    def needs_memory(self) -> str:
        """The first of what needs all scores in memory; empty if there is none."""
        needs = {"--groups": self.groups is not None, "--anchors": self.anchors is not None}
        return next((name for name, asked in needs.items() if asked), self.more.needs_memory if self.more else "")

    def estimable(self, given: pd.DataFrame | StoredScores, place: Path) -> tuple[Any, list[dict[str, str]], list[str]]:
        """Scores that can be fitted; items without two categories (of anchors without any); respondents without any."""
        data: Any = given if isinstance(given, Responses) else CodedScores.of(given, levels=self.levels or None)
        data = data if self.anchors is None else self._in_known_categories(data)
        n_categories = zip(data.item_ids, map(len, data.categories), data.n_by_item, strict=True)
        left_out = {item: "one_category" if n else "no_response" for item, k, n in n_categories if k < 2 or not n}
        if len(left_out) == data.n_items:
            raise InputError(f"file {place}: no item has two different scores; expected some, to estimate items from")
        return estimable_part(data, left_out)

    def in_words(self, data: Responses) -> str:
        """What is about to be fitted."""
        return f"{super().in_words(data)}: {self.model}"

    def with_prior_for(self, data: Responses) -> tuple[Self, str]:
        """The same with the prior asked for, or that which suits so many responses, and why."""
        alike = bool(self.equal) or self.more is not None or self.anchors is not None or self.model in ("pcm", "rsm")
        size, learnable = (data.n_respondents, data.n_items), self._learnable(data)
        prior, why = prior_of_grades(self.prior, data.n_by_item, size, alike=alike, learnable=learnable)
        return replace(self, prior=prior), why

    def _learnable(self, data: Responses) -> bool:
        """Whether a prior of these items can be learnt from them."""
        from irtbench.estimation.few_respondents.item_grid import MOST_CATEGORIES

        models = self._models(data)
        if data.on_disk or self.groups is not None or max(map(len, data.categories)) > MOST_CATEGORIES:
            return False
        names = set(models.values()) if isinstance(models, Mapping) else {models}
        plain = all(value in (None, "normal") for name, value in self.settings.items() if name != "device")
        return plain and names <= {"grm", "gpcm", "2pl"}

    def _fitted(
        self, data: Responses, labels: Sequence[str] | None = None, ranks: Ranks | None = None
    ) -> tuple[Any, Scale, FittedScale, pd.DataFrame | None]:
        fitted = irtbench.estimation.fit_categories.fit_categories(
            cast("CodedScores | StoredScores", data), self._models(data),
            levels=None if data.on_disk else self.levels or None, equal=self.equal, anchors=self.anchors, groups=labels,
            reference=self.reference, seed=self.seed, **{"prior": self.prior, **self.settings},
        )  # fmt: skip
        items, table = fitted.items.as_right_or_wrong(), fitted.table()
        if items is not None:
            table = items.table().assign(n_responses=fitted.n_by_item)
        scale = scale_of(items or fitted.items.as_items(), fitted.estimated_population)
        settings = {"model": self.model, "prior": self.prior, "levels": list(self.levels)}
        results = FittedScale(fitted.summary() | {"settings": settings}, table, words=self._gaps_in_words(fitted.items))
        return fitted, scale, results, fitted.groups

    def _gaps_in_words(self, items: CategoryParameters) -> list[str]:
        """Which categories nobody was given."""
        gaps, model_of = items.gaps(self.levels), dict(zip(items.item_ids, items.models, strict=True))
        named = [f"{item} ({', '.join(map(str, of))})" for item, of in gaps.items()]
        words = [f"given to nobody, and so no categories: {name_first(named)}"] if gaps else []
        if any(model_of[item].name == "gpcm" for item in gaps):
            words.append("under gpcm and pcm their slopes and steps are those of fewer categories")
        return words

    def _models(self, data: Responses) -> Models:
        """The model of all, or of each item of the data; of known items their own."""
        given, anchors = self.models, self.anchors
        if isinstance(given, Mapping):
            given = {item: given[item] for item in data.item_ids if item in given}
        if anchors is None or anchors.items.categories is None or given == "pcm":
            return given
        own = dict(zip(anchors.items.item_ids, anchors.items.categories.models, strict=True))
        return {item: own.get(item) or (given[item] if isinstance(given, Mapping) else given) for item in data.item_ids}

    def _in_known_categories(self, data: CodedScores) -> CodedScores:
        """The same where known items have their own categories, whichever were given."""
        known = None if self.anchors is None else self.anchors.items.categories
        own = {} if known is None else dict(zip(known.item_ids, known.categories, strict=True))
        refuse_any((
            (self.models == "rsm",
             "--anchors: not with rsm, whose distances between steps are all items'; expected pcm"),
            (known is None, "--anchors: the items are right or wrong; expected a bank of items in categories"),
        ))  # fmt: skip
        return data.recoded([own.get(item, of) for item, of in zip(data.item_ids, data.categories, strict=True)])


def estimable_part(data: Responses, left_out: Mapping[str, str]) -> tuple[Any, list[dict[str, str]], list[str]]:
    """The data without these items, these with the reason, and respondents without any response to the others."""
    some = data.select_items([item for item in data.item_ids if item not in left_out])
    reasons = [{"item_id": item, "reason": reason} for item, reason in left_out.items()]
    return some.answered(), reasons, sorted(some.idle_ids())


def demand_varied_items(kept: Sequence[str], file: Path) -> None:
    """Refuse responses of which no item is left, because all people answered each alike."""
    if not kept:
        raise InputError(
            f"file {file}: no item was answered right by some and wrong by others; "
            "expected such items, from which alone something can be estimated"
        )


def scale_of(items: ItemParameters, population: Quadrature | None, joint_error: JointError | None = None) -> Scale:
    """The scale of fitted items, without norms."""
    return Scale("all", items, ItemTable.plain(items.item_ids), population=population, joint_error=joint_error)


def with_abilities(
    scale: Scale,
    data: Responses,
    results: FittedScale,
    labels: Sequence[str] | None = None,
    groups: pd.DataFrame | None = None,
) -> FittedScale:
    """Abilities of all, each group's (its label, and its row of `groups`) by its own population; norms of the first."""
    populations: list[tuple[str, Scale, Responses]] = [("", scale, data)]
    if groups is not None and isinstance(data, ResponseMatrix):
        label: NDArray[Any] = np.array(labels, dtype=object)
        populations = [
            (name, replace(scale, population=normal_population(mean, sd)), data.select_respondents(label == name))
            for name, mean, sd in groups[["group", "mean", "sd"]].itertuples(index=False)
        ]
    abilities = [[score_abilities(at, part, ScoringSettings()) for part in own.parts()] for _, at, own in populations]
    scale = replace(scale, norms=norms_of(abilities[0]))
    tables = [
        with_person_fit(scale, part, own).assign(**({"group": name} if name else {}))
        for (name, _, responses), of_group in zip(populations, abilities, strict=True)
        for part, own in zip(responses.parts(), of_group, strict=True)
    ]
    scores = pd.concat(tables, ignore_index=True)
    if len(populations) > 1:
        place = {name: k for k, name in enumerate(data.respondent_ids)}
        scores = scores.sort_values("respondent_id", key=lambda ids: ids.map(place), ignore_index=True)
    items, population = scale.items, scale.population
    how = automatic_item_error(items, "eap", population, several_trials=data.trials is not None)
    found = results.found | {"item_error": how}
    if items.upper_asymptote is None:
        found["item_error_share"] = item_error_share(items, population)
    return replace(results, found=found, scores=scores, scale=scale, data=data)


def norms_of(abilities: Sequence[Abilities]) -> Norms:
    """Respondents, some after the other, as a norm sample."""
    theta, errors = (
        np.concatenate([getattr(some, name) for some in abilities]) for name in ("theta", "standard_error")
    )
    return Norms(theta, standard_error=errors)


def scored_in_blocks(scale: Scale, data: Responses, seed: int, file: Path | None, **how: Any) -> Scale:
    """The same with some of the respondents, drawn at random, as its norm sample; all are scored into the file."""
    some, settings = some_respondents(data, MOST_NORMS, seed)[1], ScoringSettings(item_error="none")
    scale = replace(scale, norms=norms_of([score_abilities(scale, part, settings) for part in some.parts(ROWS)]))
    if file is not None:
        score_matrix(scale, data, file, **how)
    return scale
