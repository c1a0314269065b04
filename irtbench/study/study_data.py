"""What the files of a study hold (answers, items, scales, respondents), and the fit that its file asks for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from irtbench.bank.norms import Norms, rake, raked_norms
from irtbench.config import StudyFile
from irtbench.data.grading import grade
from irtbench.data.how_to_read import ReadingOptions
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.readers.item_table import read_items
from irtbench.data.readers.long_table import long_columns
from irtbench.data.readers.recognise import (
    holds_responses,
    is_outside,
    read_answers,
    read_responses,
    read_score_table,
)
from irtbench.data.readers.records import look_at
from irtbench.data.readers.respondents import (
    APPROVAL_COLUMNS,
    is_prolific,
    read_approval,
    read_respondents,
    respondents_of,
    weights_of,
)
from irtbench.data.readers.table_blocks import ROWS_READ
from irtbench.data.readers.trials import PAIR
from irtbench.data.responses import ResponseMatrix, Responses, name_first, positions_of
from irtbench.estimation.fit import fit_model, setting_in_memory
from irtbench.estimation.fit_categories import Models, fit_categories
from irtbench.estimation.fitted import FittedModel
from irtbench.estimation.many_scales.fit_many import fit_many
from irtbench.estimation.settings import FitSettings
from irtbench.models.coded_scores import MISSING, CodedScores
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.quadrature import normal_grid
from irtbench.scoring.ability import Abilities
from irtbench.study.examination import prior_of_grades

Categories = Mapping[str, tuple[Any, ...]]  # of each item, the lowest first
UNKNOWN = "responses: unknown item {}"

if TYPE_CHECKING:
    from irtbench.data.readers.large_table import LargeTable
    from irtbench.data.stored_responses import StoredResponses


@dataclass(frozen=True, eq=False)
class StudyData:
    """What the files of a study hold; of grades the responses are categories k of 0, ..., m as k right of m.

    `rows` are the responses as they were read. Items leave by a `sample` of so many respondents; None for all.
    """

    answers: pd.DataFrame | None
    responses: Responses
    items: ItemTable
    respondents: pd.DataFrame | None = None
    approval: pd.Series[float] | None = None
    named: Mapping[str, str] | None = None
    categories: Categories | None = None
    sample: int | None = None
    rows: pd.DataFrame | None = None

    @property
    def given(self) -> pd.DataFrame | None:
        """What was answered, in words, by which respondents are judged: raw answers, or grades."""
        return self.rows if self.answers is None and self.categories is not None else self.answers

    @property
    def seconds(self) -> pd.DataFrame | None:
        """The answers or responses with their times; None if these are not known."""
        rows = self.rows if self.answers is None else self.answers
        return rows if rows is not None and "seconds" in rows else None


def read_data(
    settings: StudyFile,
    stored: StoredResponses | None = None,
    source: LargeTable | None = None,
    *,
    named: Mapping[str, str] | None = None,
) -> StudyData:
    """Read the files that a study file names, and grade the answers.

    Graded responses may be encoded on disk already, `stored`, from a large table, `source`.
    """
    data, items, answers = settings.data, read_items_given(settings), None
    if data.content == "answers" and items is None:
        raise InputError(f"{settings.path}: data.items: missing; answers are graded by the key of the items")
    table = read_study_table(settings) if source is None else of_respondents(settings, source)
    norms = read_columns_of_norms(settings, table)
    if items is not None and data.where and source is None:
        table = table[table["item_id"].isin(items.item_ids)]
    approval = approval_asked_for(settings, table)
    responses: Responses
    categories: Categories | None = None
    if stored is not None:
        items = items or ItemTable.plain(stored.item_ids)
        if not data.where:
            positions_of(stored.item_ids, items.item_ids, UNKNOWN)
        responses = stored.with_items(items.item_ids)
    elif data.content == "answers" and items is not None:
        responses, answers = grade(table, items, settings.grading), table[~table.duplicated(PAIR)]
    elif settings.grades is not None:
        responses, categories = grades_of(table, items, data.levels)
        table = table.assign(answer=in_words(table["response"], data.levels))
    else:
        responses = ResponseMatrix.from_long(table, item_ids=None if items is None else items.item_ids)
    items = items or ItemTable.plain(responses.item_ids)
    return StudyData(
        answers, responses, items, norms, approval, named, categories,
        rows=table if stored is None and answers is None else None,
    )  # fmt: skip


def in_words(places: pd.Series[float], levels: Sequence[str]) -> pd.Series[str]:
    """Grades as they are called; empty where missing."""
    if levels:
        return places.map(dict(enumerate(levels))).fillna("")
    return places.map("{:g}".format).where(places.notna(), "")


def grades_of(table: pd.DataFrame, items: ItemTable | None, levels: Sequence[str]) -> tuple[ResponseMatrix, Categories]:
    """Responses of a long table of grades, as k right of m, and what the categories are called."""
    wide = pd.DataFrame(table.pivot(index="respondent_id", columns="item_id", values="response"))
    wide = wide.reindex(index=pd.unique(table["respondent_id"]), columns=pd.unique(table["item_id"]))
    if items is not None:
        positions_of(list(wide.columns), items.item_ids, UNKNOWN)
        wide = wide.reindex(columns=list(items.item_ids))
    coded = CodedScores.of(wide)
    categories: Categories = dict(zip(coded.item_ids, coded.categories, strict=True))
    if levels:
        categories = {item: tuple(levels[int(k)] for k in own) for item, own in categories.items()}
    codes = coded.codes.copy()
    for j in np.flatnonzero([] if items is None else items.attention):
        check, key = coded.item_ids[j], None if items is None else items.key[j]
        if key is None:
            raise InputError(f"items: attention check {check} has no key; expected the grade that is asked for")
        codes[:, j] = np.array([*(str(value) == key for value in categories[check]), MISSING])[codes[:, j]]
        categories = {**categories, check: (0, 1)}
    return replace(coded, categories=tuple(categories.values()), codes=codes).to_matrix(), categories


def in_categories_of(responses: ResponseMatrix, before: Categories, after: Categories) -> ResponseMatrix:
    """The same responses in other categories; those that are none are missing."""
    kept = {item: after[item] for item in responses.item_ids}
    places = [{one: k for k, one in enumerate(own)} for own in kept.values()]
    columns = [
        np.array([*(place.get(one, MISSING) for one in before[item]), MISSING], dtype=np.int8)[codes]
        for place, item, codes in zip(places, kept, responses.coded_responses.T, strict=True)
    ]
    codes = np.reshape(columns, (responses.n_items, responses.n_respondents)).T.astype(np.int8)
    return CodedScores(responses.respondent_ids, tuple(kept), tuple(kept.values()), codes).to_matrix()


def in_own_categories(responses: Responses, before: Categories | None) -> tuple[Responses, Categories | None]:
    """Responses in those categories that some of these respondents gave; right and wrong ones as they are."""
    if before is None:
        return responses, None
    matrix = responses.to_matrix()
    given = [np.unique(column[~np.isnan(column)]).astype(np.int64) for column in matrix.correct.T]
    left = {item: tuple(before[item][k] for k in own) for item, own in zip(matrix.item_ids, given, strict=True)}
    return in_categories_of(matrix, before, left), left


def of_respondents(settings: StudyFile, source: LargeTable) -> pd.DataFrame:
    """What a large long table says of its respondents that the study asks for, as text, each thing once."""
    wanted = [*settings.score.norm_columns, settings.score.norm_weight, *APPROVAL_COLUMNS]
    names = [name for name in dict.fromkeys(wanted) if name in source.names]
    respondent, parts = long_columns(source.names, settings.data.columns).get("respondent_id"), []
    if respondent is None or not names or settings.data.respondents is not None:
        return pd.DataFrame(columns=[*PAIR, "response"] if respondent is None else [*source.names])
    for part in source.rows([respondent, *names], rows=ROWS_READ):
        texts = {name: part.cells(name).texts().fill_null("") for name in names}
        texts["respondent_id"] = part.cells(respondent).names()
        parts.append(pd.DataFrame({name: text.to_pylist() for name, text in texts.items()}).drop_duplicates())
    return pd.concat(parts, ignore_index=True).drop_duplicates()


def needs_memory(settings: StudyFile) -> str:
    """The first key of a study file that needs all responses, or more than responses, in memory; empty if none does."""
    table = settings.data.respondents
    if table is not None and is_prolific(look_at(table)):
        return "data.respondents"  # it says whose responses count
    if settings.grades is not None:
        return "model.kind"  # of grades
    of_model = setting_in_memory(settings.model)
    return of_model and f"model.{of_model.replace(' ', ' = ')}"


def read_items_given(settings: StudyFile) -> ItemTable | None:
    """The table of items that a study file names; None if it names none."""
    data = settings.data
    if data.items is not None:
        return read_items(data.items, columns=data.item_columns, where=data.where)
    if data.where or data.item_columns:
        raise InputError(f"{settings.path}: data.where and data.item_columns need data.items")
    return None


def approval_asked_for(settings: StudyFile, table: pd.DataFrame) -> pd.Series[float] | None:
    """Approval rates, from the table of respondents if there is one, else from the answers; None if no rule asks."""
    data, wanted = settings.data, f"{settings.path}: screening.min_approval"
    own = data.respondent_columns.get("respondent_id", "respondent_id")
    if settings.screening.min_approval is None:
        return None
    return read_approval(table, data.answers, data.respondents, own=own, wanted=wanted, lacks=" has no column")


def read_study_table(settings: StudyFile) -> pd.DataFrame:
    """The long table of a study's answers or responses, without submissions that Prolific does not count."""
    data = settings.data
    participants = data.respondents if data.respondents is not None and is_prolific(look_at(data.respondents)) else None
    return _read(data.answers, settings, data.format, data.content == "answers", data.columns, participants)


def read_system_table(path: Path, settings: StudyFile) -> pd.DataFrame:
    """The long table of a system's answers or responses; its format may be another than that of the study's answers."""
    data = settings.data
    outside = is_outside(path)
    answers = data.content == "answers" and not (outside and holds_responses(path, columns={}))
    return _read(path, settings, "auto", answers, {} if outside else data.columns, None)


def _read(
    path: Path,
    settings: StudyFile,
    format: str,
    answers: bool,
    columns: dict[str, str],
    participants: Path | None,
) -> pd.DataFrame:
    data = settings.data
    how: ReadingOptions = {**data.how_to_read(), "format": format, "columns": columns, "respondents": participants}
    if not is_outside(path):
        how = {**how, "metric": (), "respondent": "model"}
    if settings.grades is not None:
        return read_score_table(path, levels=data.levels, **how).frame
    return (read_answers(path, **how) if answers else read_responses(path, **how)).frame


def divide(items: ItemTable, settings: StudyFile) -> dict[str, tuple[str, ...]]:
    """Items of each scale."""
    if settings.scales.by == "none":
        return {"all": items.scale_items}
    unlabelled = [i for i, label, check in zip(items.item_ids, items.label, items.attention, strict=True)
                  if label is None and not check]  # fmt: skip
    if unlabelled and any(label is not None for label in items.label):
        raise InputError(f"{settings.path}: scales.by: item {unlabelled[0]} has no label")
    return items.scales()


def check_named_items(parts: Mapping[str, tuple[str, ...]], settings: StudyFile) -> None:
    """Refuse settings about items that no scale has, and published figures of a scale that the study has not."""
    known = [item for item_ids in parts.values() for item in item_ids]
    in_pruning = [*(exclusion.item_id for exclusion in settings.pruning.exclude), *settings.pruning.protect]
    for key, named in (("pruning", in_pruning), ("model.by_item", sorted(settings.model.by_item))):
        positions_of(named, known, f"{settings.path}: {key}: unknown item {{}}")
    if stray := sorted(set(settings.published.scales) - set(parts)):
        raise InputError(
            f"{settings.path}: published.scales: unknown scale {name_first(stray)}; expected some of "
            f"{name_first(list(parts))}"
        )


def read_columns_of_norms(settings: StudyFile, table: pd.DataFrame) -> pd.DataFrame | None:
    """Columns of the respondents that norms are formed by, from a table of respondents, or the answers."""
    data, weight = settings.data, settings.score.norm_weight
    names = list(dict.fromkeys([*settings.score.norm_columns, *([] if weight is None else [weight])]))
    if data.respondents is None:
        return respondents_of(table, names, data.answers) if names else None
    prolific = is_prolific(look_at(data.respondents))
    if names:
        known = {"respondent_id": "Participant id"} if prolific else {}
        return read_respondents(data.respondents, names, columns={**known, **data.respondent_columns})
    if settings.screening.min_approval is None and not prolific:  # which says who counts
        raise InputError(
            f"{settings.path}: data.respondents: no column of it is asked for; expected score.norm_groups, "
            "score.norm_group, score.norm_margins, score.norm_weight or screening.min_approval"
        )
    return None


def columns_of_norms(
    settings: StudyFile,
    respondents: pd.DataFrame | None,
    screened: Responses,
    progress: Callable[[str], None],
) -> pd.DataFrame | None:
    """The same for the screened respondents, in their order, checked before anything is fitted."""
    if respondents is None:
        return None
    file = settings.data.respondents or settings.data.answers
    of_screened = respondents.reindex(list(screened.respondent_ids)).astype(object)
    of_screened = of_screened.where(of_screened.notna(), None)
    for name in settings.score.norm_columns:
        known = of_screened[name].notna()
        if not known.any():
            raise InputError(
                f"file {file}, column {name}: empty for all {screened.n_respondents} screened "
                "respondents; expected a value for some"
            )
        if not known.all():
            progress(f"{name}: known of {int(known.sum())} of {screened.n_respondents} respondents")
    for name, value in settings.score.norm_group.items():
        if value not in (values := sorted(set(of_screened[name].dropna()))):
            raise InputError(
                f"{settings.path}: score.norm_group: no screened respondent has {name} {value}; "
                f"expected one of {name_first(values)}"
            )
    weight = settings.score.norm_weight
    weights = None if weight is None else weights_of(of_screened, weight, file)
    if settings.score.norm_margins:
        raked = rake({str(name): list(of_screened[name]) for name in of_screened}, settings.score.norm_margins, weights)
        progress(f"norms weighted to {name_first(list(settings.score.norm_margins))}: {raked.in_short()}")
    return of_screened


def norms_of(abilities: Abilities, columns: pd.DataFrame | None, settings: StudyFile) -> Norms:
    """The norm sample of a scale, with the weights and groups of its respondents."""
    if columns is None:
        return Norms(abilities.theta, standard_error=abilities.standard_error)
    own, weight = columns.loc[list(abilities.respondent_ids)], settings.score.norm_weight
    norms = Norms(
        abilities.theta,
        None if weight is None else weights_of(own, weight, settings.data.respondents or settings.data.answers),
        abilities.standard_error,
        {name: tuple(own[name]) for name in settings.score.norm_columns},
    )
    return raked_norms(norms, settings.score.norm_margins) if settings.score.norm_margins else norms


Fit = Callable[..., FittedModel]  # of Responses, and of items from which it starts, ``start``
#: Partial credit and rating scale with one slope for all and ability N(0, 1), as of all scales of a study.
ONE_SLOPE: dict[str, dict[str, Any]] = {"pcm": {"common_slope": True}, "rsm": {"rating_scale": True}}


def fit_of_study(settings: StudyFile, categories: Categories | None) -> Fit:
    """How responses of a study are fitted; grades are codes of these categories."""

    def fit(data: Responses, start: ItemParameters | None = None) -> FittedModel:
        if categories is None or settings.grades is None:
            return fit_model(data, settings.model, seed=settings.study.seed, start=start)
        return fit_grades(data.to_matrix(), settings.grades, categories, settings.model, seed=settings.study.seed)

    return fit


def with_prior_of_grades(settings: StudyFile, data: ResponseMatrix) -> StudyFile:
    """The settings with the prior that suits these grades, unless they say which."""
    size, asked = (data.n_respondents, data.n_items), settings.model.prior or "auto"
    prior, _ = prior_of_grades(asked, data.observed.sum(axis=0), size, alike=settings.grades in ONE_SLOPE)
    return replace(settings, model=replace(settings.model, prior=prior))


def refit_of_study(settings: StudyFile, categories: Categories | None) -> dict[str, Any]:
    """How samples of the bootstrap are fitted: ``refit`` or ``refit_many`` of `prune`."""
    model, seed, grades = settings.model.for_samples(), settings.study.seed, settings.grades

    def refit_many(samples: Sequence[ResponseMatrix], items: ItemParameters) -> Sequence[FittedModel | None]:
        return fit_many(samples, model, seed=seed, start=items).fits

    def refit(sample: ResponseMatrix, items: ItemParameters) -> FittedModel:
        return fit_grades(sample, grades or "", categories or {}, model, seed=seed, start=items)

    return {"refit_many": refit_many} if categories is None or grades is None else {"refit": refit}


def fit_grades(
    data: ResponseMatrix, kind: Models, categories: Categories, settings: FitSettings, *, seed: int,
    start: ItemParameters | None = None,
) -> FittedModel:  # fmt: skip
    """Fit categories 0, ..., m, given as k right of m, as `fit_model` does right and wrong."""
    began = time.perf_counter()
    own = tuple(categories[item] for item in data.item_ids)
    one_slope = ONE_SLOPE.get(kind, {}) if isinstance(kind, str) else {}
    found = fit_categories(
        CodedScores(data.respondent_ids, data.item_ids, own, data.coded_responses.astype(np.int8)),
        "gpcm" if one_slope else kind,
        prior=settings.prior or "none", seed=seed, start=None if start is None else start.categories, **one_slope,
        **{name: getattr(settings, name) for name in ("n_nodes", "standard_errors", "device", "tolerance")},
    )  # fmt: skip
    return FittedModel(
        items=found.items.as_items(), quadrature=normal_grid(settings.n_nodes),
        nodes=found.nodes, log_likelihood=found.log_likelihood, priors=found.priors, n_respondents=found.n_respondents,
        n_responses=int(found.n_by_item.sum()), kind="mode", status=found.status, doubts=found.doubts,
        seconds=time.perf_counter() - began, seed=seed, n_by_item=data.n_by_item,
        n_correct_by_item=data.n_correct_by_item, settings=settings,
    )  # fmt: skip
