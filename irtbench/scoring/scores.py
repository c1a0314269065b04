"""Scores: every respondent on every scale of a bank, as the table of scores.csv."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.building.bank import ItemBank
from irtbench.building.scale import Scale
from irtbench.data.grading import GradingSettings, grade
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.diagnostics.person_fit import person_fit
from irtbench.scoring.ability import Abilities, eap
from irtbench.scoring.norms import empirical_percentile, normal_percentile

log = logging.getLogger(__name__)

UnknownItems = Literal["error", "ignore"]

FEW_ITEMS = 5  # with fewer the prior says more than the answers, and lz* has no normal distribution
UNLIKELY_PATTERN = -1.645  # lz* below this has probability 0.05 for people of the reference population


def score_responses(
    bank: ItemBank | Scale,
    responses: ResponseMatrix,
    *,
    unknown_items: UnknownItems = "error",
    level: float = 0.95,
) -> pd.DataFrame:
    """Ability, human percentile and person fit of each respondent on each scale.

    Theta is the EAP under the scale's own population; its percentile is ``100 Phi(theta)``, beside the mid-rank in the
    norm sample (NaN where the scale has none). A respondent may answer any part of the items.

    Parameters
    ----------
    bank
        A bank, or one scale.
    responses
        Graded responses of people or systems.
    unknown_items
        What items mean that no scale has: an error that names the first five, or nothing.
    level
        Probability that the intervals are to hold.

    Returns
    -------
    DataFrame
        A row for each respondent and scale, with the columns ``respondent_id, scale, n_items, n_correct, accuracy,
        theta, se, theta_lower, theta_upper, percentile, percentile_lower, percentile_upper, percentile_empirical,
        person_fit`` (lz*)``, method, flags``. ``n_items`` counts the responses observed. ``flags`` are words parted by
        semicolons:

        - ``no_items``: no response, so theta is the population's mean and accuracy and person fit are NaN;
        - ``few_items``: fewer than ``FEW_ITEMS`` responses, so person fit is NaN;
        - ``all_correct``, ``all_wrong``: the prior alone keeps theta finite;
        - ``at_bound``: theta leans on the end of the population's grid;
        - ``unlikely_pattern``: lz* below ``UNLIKELY_PATTERN``: wrong on easy and right on hard items more often than
          people of that ability are.

    Raises
    ------
    InputError
        If an item is unknown and ``unknown_items`` is ``error``, or no item is known.
    """
    scales = _scales_of(bank)
    _check_known(responses.item_ids, scales, unknown_items)
    tables = [_score_scale(scale, responses, level) for scale in scales]
    return pd.concat(tables).sort_index(kind="stable").reset_index(drop=True)


def score_answers(
    bank: ItemBank | Scale,
    answers: pd.DataFrame,
    settings: GradingSettings | None = None,
    *,
    unknown_items: UnknownItems = "error",
    level: float = 0.95,
) -> pd.DataFrame:
    """The same from raw answers, graded by the key in the bank.

    Parameters
    ----------
    bank
        A bank, or one scale.
    answers
        Long table ``respondent_id, item_id, answer``.
    settings
        How answers are compared with the key.
    unknown_items
        What items mean that no scale has: an error that names the first five, or nothing.
    level
        Probability that the intervals are to hold.

    Raises
    ------
    InputError
        If an item is unknown and ``unknown_items`` is ``error``, no item is known, an item answered has no key, or
        scales disagree about a key.
    """
    scales = _scales_of(bank)
    _check_known(pd.unique(answers["item_id"]), scales, unknown_items)
    items = _all_details(scales)
    graded = grade(answers[answers["item_id"].isin(items.item_ids)], items, settings)
    return score_responses(bank, graded, unknown_items=unknown_items, level=level)


def _scales_of(bank: ItemBank | Scale) -> tuple[Scale, ...]:
    return bank.scales if isinstance(bank, ItemBank) else (bank,)


def _check_known(item_ids: Iterable[str], scales: Sequence[Scale], unknown_items: UnknownItems) -> None:
    known = {item for scale in scales for item in scale.items.item_ids}
    unknown = [item for item in item_ids if item not in known]
    if unknown and unknown_items == "error":
        raise InputError(f"responses: items unknown to the bank: {name_first(unknown)}")
    if known.isdisjoint(item_ids):
        raise InputError("responses: none of the items is known to the bank")


def _all_details(scales: Sequence[Scale]) -> ItemTable:
    """Details of the items of all scales; an item in several scales must have one key."""
    keys: dict[str, str | None] = {}
    for scale in scales:
        for item, key in zip(scale.details.item_ids, scale.details.key, strict=True):
            if keys.setdefault(item, key) != key:
                raise InputError(f"bank: item {item} has the key {keys[item]} in one scale and {key} in {scale.name}")
    return replace(ItemTable.plain(tuple(keys)), key=tuple(keys.values()))


def _score_scale(scale: Scale, responses: ResponseMatrix, level: float) -> pd.DataFrame:
    members = set(scale.items.item_ids)
    own = responses.select_items([item for item in responses.item_ids if item in members])
    unanswered = scale.items.n_items - int(own.observed.any(axis=0).sum())
    if unanswered:
        log.info("scale %s: %d of %d items have no response", scale.name, unanswered, scale.items.n_items)
    abilities = eap(own, scale.items, quadrature=scale.population, level=level)
    n_items, n_correct = abilities.n_items, abilities.n_correct
    unknown = np.full(own.n_respondents, np.nan)
    lz_star = unknown.copy()
    enough = n_items >= FEW_ITEMS
    if enough.any():
        items = scale.items.select(own.item_ids)
        lz_star[enough] = person_fit(own.select_respondents(enough), items, abilities.theta[enough]).lz_star
    normal = normal_percentile(abilities)
    return pd.DataFrame(
        {
            "respondent_id": own.respondent_ids,
            "scale": scale.name,
            "n_items": n_items,
            "n_correct": n_correct,
            "accuracy": np.divide(n_correct, n_items, out=unknown.copy(), where=n_items > 0),
            "theta": abilities.theta,
            "se": abilities.standard_error,
            "theta_lower": abilities.lower,
            "theta_upper": abilities.upper,
            "percentile": normal.percentile,
            "percentile_lower": normal.lower,
            "percentile_upper": normal.upper,
            "percentile_empirical": unknown
            if scale.norms is None
            else empirical_percentile(abilities, scale.norms).percentile,
            "person_fit": lz_star,
            "method": abilities.method,
            "flags": _flags(abilities, lz_star),
        }
    )


def _flags(abilities: Abilities, lz_star: NDArray[np.float64]) -> list[str]:
    n_items, n_correct = abilities.n_items, abilities.n_correct
    answered = n_items > 0
    words = {
        "no_items": ~answered,
        "few_items": answered & (n_items < FEW_ITEMS),
        "all_correct": answered & (n_correct == n_items),
        "all_wrong": answered & (n_correct == 0),
        "at_bound": abilities.at_bound,
        "unlikely_pattern": lz_star < UNLIKELY_PATTERN,
    }
    return [";".join(word for word, applies in words.items() if applies[i]) for i in range(n_items.size)]
