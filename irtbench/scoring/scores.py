"""Scores: every respondent on every scale of a bank, as the table of scores.csv."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.bank.bank import ItemBank, LeftOut, among, item_ids_of, items_left_out, scales_of
from irtbench.bank.norms import Norms
from irtbench.bank.scale import Scale
from irtbench.data.checked_settings import Inside, Seed, Settings, settings_from, shows_fields, with_keywords
from irtbench.data.given import AnswersLike, ResponsesLike, as_answers, as_responses
from irtbench.data.grading import GradingSettings, demand_mapped_to_keys, grade, normalised_keys
from irtbench.data.input_error import InputError, demand_choice, refuse_any
from irtbench.data.items import ItemTable, UnknownItems, unknown_items_error
from irtbench.data.readers.cells import Keys
from irtbench.data.responses import MISSING, ResponseMatrix, decoded, name_first
from irtbench.diagnostics.person_fit import pattern_fit
from irtbench.models.theta_posterior import some_rows
from irtbench.scoring.ability import Abilities, CompletePatterns, Method, estimate_ability
from irtbench.scoring.item_error import ItemError, automatic_item_error, with_item_error, with_line_error
from irtbench.scoring.percentiles import (
    FEW_ITEMS,
    Norm,
    flags_of,
    mid_rank,
    percentiles,
)

log = logging.getLogger(__name__)


SPARSE, SPARSE_PART = 0.1, 50  # where few items are answered, so many respondents at a time and the items they answered
FIT_CELLS = 2**18  # respondents x items whose person fit is found in the processor's cache


@dataclass(frozen=True)
class ScoringSettings(Settings):
    """How responses become ability and percentile.

    Parameters
    ----------
    method
        The estimator of theta, see ``estimate_ability``.
    item_error
        Whether and how the items' own error enters, see ``with_item_error``; ``auto`` where few respondents
        answered the items.
    norm
        What the percentile refers to, see ``percentiles``.
    norm_group
        Column and value: the part of the norm sample that counts; not with the norm ``normal``, which is about the
        whole population. None for all.
    level
        Nominal coverage of the intervals.
    seed
        Of the draws of item parameters.

    Raises
    ------
    InputError
        If a choice is none of those named, the level lies outside (0, 1), or a group is asked of the normal norm.
    """

    method: Method = "eap"
    item_error: ItemError = "auto"
    norm: Norm = "normal"
    norm_group: tuple[str, str] | None = None
    level: Inside = 0.95
    seed: Seed = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_any((
            (self.norm_group is not None and self.norm == "normal",
             "scoring: the normal norm is about the whole population; expected empirical or smoothed for a group"),
            (self.method == "eap_sum" and self.item_error == "delta",
             "scoring: item_error delta is not defined for eap_sum; expected draw"),
            (self.method != "eap" and self.item_error == "integrate",
             f"scoring: item_error integrate goes with the method eap but got {self.method}"),
        ))  # fmt: skip


class ScoringKeywords(TypedDict, total=False):
    """`ScoringSettings` as keywords."""

    method: Method
    item_error: ItemError
    norm: Norm
    norm_group: tuple[str, str] | None
    level: Inside
    seed: Seed


@shows_fields(ScoringSettings)
def score_responses(
    bank: ItemBank | Scale,
    responses: ResponsesLike,
    settings: ScoringSettings | None = None,
    *,
    unknown_items: UnknownItems = "error",
    **keywords: Unpack[ScoringKeywords],
) -> pd.DataFrame:
    """Ability, human percentile and person fit of each respondent on each scale.

    Priors are the scale's own population. The percentile is by the norm of choice; next to it is the mid-rank in
    the norm sample. Both are NaN where they need a norm sample and the scale has none. A respondent may answer any
    part of the items.

    Parameters
    ----------
    bank
        A bank, or one scale.
    responses
        Graded responses (a matrix, array or data frame: `as_responses`) of people or systems.
    settings
        The estimator, the errors carried, the norm.
    unknown_items
        What items mean that no scale has and that the bank's study did not leave out itself (see ``check_known``): an
        error that names the first five, or nothing.
    keywords
        Of the settings: ``method="wle"``.

    Returns
    -------
    DataFrame
        A row for each respondent and scale, with the columns ``respondent_id, scale, n_items, n_correct, accuracy,
        theta, se, theta_lower, theta_upper, percentile, percentile_lower, percentile_upper, percentile_empirical,
        person_fit`` (lz*)``, method, flags, percentile_flags``. ``n_items`` counts the items answered. With several
        trials of an item ``n_correct`` and a last column ``n_trials`` count responses, and ``accuracy`` is the mean of
        the items' shares right. ``flags`` are words parted by semicolons:

        - ``no_items``: no response, so theta is the population's (NaN for ml and wle), accuracy and person fit NaN;
        - ``few_items``: fewer than ``FEW_ITEMS`` items answered, so person fit is NaN;
        - ``all_correct``, ``all_wrong``: the prior, Warm's term or the bound alone keeps theta finite;
        - ``at_bound``: theta leans on the end of its range, so it says "at least" or "at most"; no person fit;
        - ``unlikely_pattern``: lz* below ``UNLIKELY_PATTERN``: wrong on easy and right on hard items more often than
          people of that ability are.

        ``percentile_flags`` say why the percentile is not to be reported as a place among people; they are empty
        where it may, see `flags_of`.

    Raises
    ------
    InputError
        If an item is unknown and ``unknown_items`` is ``error``, no item is known, the items' error is asked for and
        not known, or the norm sample has no such group.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> scale = irtbench.Scale("all", items, irtbench.ItemTable.plain(items.item_ids))
    >>> scores = irtbench.score_responses(scale, [[1, 1, 1, 0, 1, 0], [1, 0, None, 0, 0, 0]])
    >>> scores[["respondent_id", "n_items", "n_correct", "theta", "se", "percentile"]].round(2)
      respondent_id  n_items  n_correct  theta    se  percentile
    0            r1        6          4   0.49  0.58       68.75
    1            r2        5          1  -0.83  0.64       20.34
    """
    responses, scales = known_responses(bank, responses, unknown_items)
    settings = with_keywords(settings or ScoringSettings(), keywords)
    return in_order_of_respondents([_score_scale(scale, responses, settings) for scale in scales])


def known_responses(
    bank: ItemBank | Scale, responses: ResponsesLike, unknown_items: UnknownItems
) -> tuple[ResponseMatrix, tuple[Scale, ...]]:
    """Responses for a bank, whose unknown items are refused or ignored, and its scales."""
    scales = scales_of(bank)
    if in_categories(bank) and isinstance(responses, pd.DataFrame):
        check_known(map(str, responses.columns), scales, unknown_items)
        responses = category_responses(bank, responses)
    responses = as_responses(responses, item_ids=item_ids_of(bank))
    check_known(responses.item_ids, scales, unknown_items)
    return responses, scales


def in_categories(bank: ItemBank | Scale) -> bool:
    """Whether any scale has items in categories."""
    return any(scale.items.categories is not None for scale in scales_of(bank))


def category_responses(bank: ItemBank | Scale, scores: pd.DataFrame) -> ResponseMatrix:
    """Scores of the bank's items, a row a respondent and a column an item, as category k of 0, ..., m: k right of m.

    Items of the same bank that are right or wrong are 1 or 0. Columns that are no item of the bank are left out.
    """
    check_known(map(str, scores.columns), scales_of(bank), "ignore")
    ids, parts = list[str](), list[ResponseMatrix]()
    for scale in scales_of(bank):
        own = [item for item in scale.items.item_ids if item in scores.columns and item not in ids]
        if not own:
            continue
        known = scale.items.select(own).categories
        parts.append(as_responses(scores[own]) if known is None else known.matrix(scores[own]))
        ids += own
    values, trials = (np.hstack([getattr(part, name) for part in parts]) for name in ("correct", "n_trials"))
    return ResponseMatrix(values, [str(name) for name in scores.index], ids, trials)


@shows_fields(ScoringSettings)
def score_answers(
    bank: ItemBank | Scale,
    answers: AnswersLike,
    grading: GradingSettings | None = None,
    settings: ScoringSettings | None = None,
    *,
    unknown_items: UnknownItems = "error",
    **keywords: Unpack[ScoringKeywords],
) -> pd.DataFrame:
    """The same from raw answers, graded by the key in the bank; see ``grade_answers`` and ``score_responses``.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> answers = pd.DataFrame(
    ...     {"i1": ["yes", "yes", "no", "yes"], "i2": ["no", "no", "no", "yes"], "i3": ["yes", "no", "no", None]},
    ...     index=["ann", "bob", "cy", "dee"],
    ... )
    >>> items = irtbench.ItemParameters.from_difficulty([1.0] * 3, [-1.0, 0.0, 1.0], item_ids=["i1", "i2", "i3"])
    >>> key = irtbench.as_items(pd.DataFrame({"item_id": items.item_ids, "key": ["yes", "no", "no"]}))
    >>> scores = irtbench.score_answers(irtbench.Scale("all", items, key), answers)
    >>> scores[["respondent_id", "n_items", "n_correct", "theta"]].round(2)
      respondent_id  n_items  n_correct  theta
    0           ann        3          2   0.32
    1           bob        3          3   0.96
    2            cy        3          2   0.32
    3           dee        2          1  -0.15
    """
    graded = grade_answers(bank, answers, grading, unknown_items=unknown_items)
    return score_responses(bank, graded, settings, unknown_items=unknown_items, **keywords)


def grade_answers(
    bank: ItemBank | Scale,
    answers: AnswersLike,
    grading: GradingSettings | None = None,
    *,
    unknown_items: UnknownItems = "error",
) -> ResponseMatrix:
    """Grade raw answers by the key in the bank.

    Parameters
    ----------
    bank
        A bank, or one scale.
    answers
        Long table ``respondent_id, item_id, answer``.
    grading
        How answers are compared with the key; None for as the bank's study did.
    unknown_items
        What items mean that no scale has and that the bank's study did not leave out itself (see ``check_known``): an
        error that names the first five, or nothing.

    Raises
    ------
    InputError
        If an item is unknown and ``unknown_items`` is ``error``, no item is known, an item answered has no key, or
        scales disagree about a key.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> answers = pd.DataFrame(
    ...     {"i1": ["yes", "yes", "no", "yes"], "i2": ["no", "no", "no", "yes"], "i3": ["yes", "no", "no", None]},
    ...     index=["ann", "bob", "cy", "dee"],
    ... )
    >>> items = irtbench.ItemParameters.from_difficulty([1.0] * 3, [-1.0, 0.0, 1.0], item_ids=["i1", "i2", "i3"])
    >>> key = irtbench.as_items(pd.DataFrame({"item_id": items.item_ids, "key": ["yes", "no", "no"]}))
    >>> irtbench.grade_answers(irtbench.Scale("all", items, key), answers)
    <ResponseMatrix: 4 respondents x 3 items, 92% observed, 73% correct>
    """
    answers = as_answers(answers)
    scales = scales_of(bank)
    check_known(pd.unique(answers["item_id"]), scales, unknown_items)
    items = _all_details(scales)
    return grade(answers[answers["item_id"].isin(items.item_ids)], items, grading or grading_of(bank))


def check_known(item_ids: Iterable[str], scales: Sequence[Scale], unknown_items: UnknownItems) -> tuple[LeftOut, ...]:
    """Refuse items that no scale has, unless they are to be ignored; refuse responses without any item known.

    Items that the bank's own study left out (attention checks, items that it removed, those of a rejected scale) are
    no error: they do not count, and are returned with the reason.
    """
    demand_choice("unknown_items", unknown_items, UnknownItems)
    given = list(dict.fromkeys(item_ids))
    known = {item for scale in scales for item in scale.items.item_ids}
    left_out = among(items_left_out(scales), given)
    passed_over = {item.item_id for item in left_out}
    unknown = [item for item in given if item not in known and item not in passed_over]
    if unknown and unknown_items == "error":
        raise unknown_items_error(unknown)
    if known.isdisjoint(given):
        raise InputError(
            f"responses: none of the items is known to the bank: {name_first(given)}; expected such as "
            f"{name_first(sorted(known), most=3)}"
        )
    return left_out


def grading_of(bank: ItemBank | Scale, given: Mapping[str, str] | None = None) -> GradingSettings:
    """How the bank's study graded answers, the default where its provenance does not say or scales differ.

    A bank has the keys of its items and not all of their options: what is neither is a stray answer, unless it
    replaces a label (see ``GradingSettings``).

    Parameters
    ----------
    bank
        A bank, or one scale.
    given
        What further answers mean, see ``GradingSettings.map``; it goes before the study's.

    Raises
    ------
    InputError
        If the bank names rules that are not known.

    Examples
    --------
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([1.0, 1.0], [-1.0, 1.0], item_ids=["i1", "i2"])
    >>> study = {"grading": {"normalise": ["strip", "casefold"]}}
    >>> scale = irtbench.Scale("all", items, irtbench.ItemTable.plain(items.item_ids), provenance=study)
    >>> grading = irtbench.grading_of(scale, {"y": "yes"})
    >>> grading.normalise, grading.map, grading.unknown
    (('strip', 'casefold'), {'y': 'yes'}, 'stray')
    """
    stated = [scale.provenance.get("grading") for scale in scales_of(bank)]
    rules = GradingSettings()
    if isinstance(stated[0], dict) and all(other == stated[0] for other in stated):
        try:
            rules = settings_from(GradingSettings, stated[0])
        except InputError as error:
            raise InputError(f"bank: provenance: {error}; expected a bank of this version of irtbench") from None
    return replace(rules, unknown="stray", map={**rules.map, **(given or {})})


def own_responses(item_ids: Iterable[str], responses: ResponseMatrix) -> ResponseMatrix:
    """Responses to these items as far as there are any, in the order of the responses."""
    members = set(item_ids)
    return responses.select_items([item for item in responses.item_ids if item in members])


def norms_of(scale: Scale, settings: ScoringSettings) -> Norms | None:
    """The norm sample, or the group of it that counts."""
    if scale.norms is None or settings.norm_group is None:
        return scale.norms
    return scale.norms.group(*settings.norm_group)


def score_table(
    scale: Scale, abilities: Abilities, lz_star: NDArray[np.float64], settings: ScoringSettings
) -> pd.DataFrame:
    """Rows of one scale in scores.csv, from the abilities and the person fit, shape (n_respondents,)."""
    norms = norms_of(scale, settings)
    place = percentiles(abilities, norms, norm=settings.norm, population=scale.population)
    table = abilities.table()
    table.insert(1, "scale", scale.name)
    method = table.pop("method")
    trials = {} if abilities.n_trials is None else {"n_trials": table.pop("n_trials")}
    deviation = 1.0 if scale.population is None else scale.population.deviation
    return table.assign(
        **place.table(),
        percentile_empirical=np.nan if norms is None else 100 * mid_rank(abilities.theta, norms),
        person_fit=lz_star,
        method=method,
        **flags_of(abilities, lz_star, deviation),
        **trials,
    )


def in_order_of_respondents(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Rows of several scales, those of one respondent together; where a scale has no trials, they are its items."""
    found = pd.concat(tables).sort_index(kind="stable").reset_index(drop=True)
    if "n_trials" in found:
        found["n_trials"] = found["n_trials"].fillna(found["n_items"]).astype(np.int64)
    return found


def keys_of(bank: ItemBank | Scale, grading: GradingSettings | None = None) -> Keys:
    """The keys in a bank, for grading a large table part by part; without settings as the bank's study did."""
    items, rules = _all_details(scales_of(bank)), grading or grading_of(bank)
    keys = normalised_keys(items, rules)
    demand_mapped_to_keys(rules, keys)
    return Keys(of_item=keys, rules=rules)


def _all_details(scales: Sequence[Scale]) -> ItemTable:
    """Details of the items of all scales; an item in several scales must have one key."""
    keys: dict[str, str | None] = {}
    for scale in scales:
        for item, key in zip(scale.details.item_ids, scale.details.key, strict=True):
            if keys.setdefault(item, key) != key:
                raise InputError(f"bank: item {item} has the key {keys[item]} in one scale and {key} in {scale.name}")
    return replace(ItemTable.plain(tuple(keys)), key=tuple(keys.values()))


def _score_scale(scale: Scale, responses: ResponseMatrix, settings: ScoringSettings) -> pd.DataFrame:
    own = own_responses(scale.items.item_ids, responses)
    if unanswered := scale.items.n_items - int(own.observed.any(axis=0).sum()):
        log.info("scale %s: %d of %d items have no response", scale.name, unanswered, scale.items.n_items)
    return with_person_fit(scale, own, score_abilities(scale, own, settings), settings)


def with_person_fit(
    scale: Scale, own: ResponseMatrix, abilities: Abilities, settings: ScoringSettings | None = None
) -> pd.DataFrame:
    """Rows of scores.csv from abilities on one scale and the responses to its items that they are of."""
    items, lz_star = scale.items.select(own.item_ids), np.full(own.n_respondents, np.nan)
    defined = (abilities.n_items >= FEW_ITEMS) & ~abilities.at_bound & np.isfinite(abilities.theta)
    if (complete := CompletePatterns.of(own, items)) is not None and defined[complete.rows].any():
        among = np.flatnonzero(defined[complete.rows])
        rows = complete.rows[among]
        lz_star[rows], defined[rows] = complete.lz_star(among, abilities.theta[rows]), False
    rest = np.flatnonzero(defined)
    few = own.n_pairs < SPARSE * own.n_respondents * own.n_items
    most = SPARSE_PART if few else max(1, FIT_CELLS // max(1, items.n_items))
    for rows in (rest[first : first + most] for first in range(0, len(rest), most)):
        coded, trials = own.at(rows), some_rows(own.trials, rows)
        asked = np.flatnonzero((coded != MISSING).any(axis=0))
        if len(asked) < items.n_items:
            coded, trials = coded[:, asked], None if trials is None else trials[:, asked]
        known = items.select([own.item_ids[k] for k in asked])
        lz_star[rows] = pattern_fit(decoded(coded), known, abilities.theta[rows], trials)[1]
    return score_table(scale, abilities, lz_star, settings or ScoringSettings())


def score_abilities(scale: Scale, own: ResponseMatrix, settings: ScoringSettings) -> Abilities:
    """Abilities on one scale from responses to its items, with its link's error, and the items' if it is asked for."""
    abilities = estimate_ability(
        own, scale.items, method=settings.method, quadrature=scale.population, level=settings.level
    )
    abilities = with_item_error(
        abilities,
        own,
        scale.items,
        item_error=settings.item_error,
        quadrature=scale.population,
        rng=np.random.default_rng(settings.seed),
        joint_error=scale.joint_error if scale.line is None else None,  # a link's error is in that of the items
    )
    return with_line_error(abilities, scale.line)


def item_error_on(scale: Scale, settings: ScoringSettings) -> ItemError:
    """How the items' error enters scores on this scale, of one response to an item each."""
    if settings.item_error != "auto":
        return settings.item_error
    return automatic_item_error(scale.items, settings.method, scale.population)
