"""Grading: a raw answer and the item's key become 1, 0 or NaN."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from irtbench.data.checked_settings import Settings, with_keywords
from irtbench.data.given import AnswersLike, ItemsLike, as_answers, as_items
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.responses import ResponseMatrix, name_first

NormalisationRule = Literal["strip", "casefold", "collapse_spaces", "punctuation", "unicode"]
Empty = Literal["wrong", "missing"]

log = logging.getLogger(__name__)

GRADED = frozenset({"1", "0", "-1", "1.0", "0.0", "true", "false", "True", "False", "TRUE", "FALSE"})
FEW_ANSWERS = 5  # so many may all be wrong options that are no item's key

# A leading point or minus is part of a number (.5, -3), so only quotes, brackets and inverted marks may open an answer.
_OPENING = " \t\r\n\"'`“”‘’«»‹›([{¿¡"
_CLOSING = " \t\r\n\"'`“”‘’«»‹›)]}.,;:!?…"


@dataclass(frozen=True)
class GradingSettings(Settings):
    """How answers are compared with the key.

    Parameters
    ----------
    normalise
        Rules applied to answer and key alike, in this order, before they are compared letter by letter:

        - ``strip``: spaces, tabs and line breaks at either end are removed;
        - ``casefold``: upper and lower case become one (also ``ß`` and ``ss``);
        - ``collapse_spaces``: any run of spaces, tabs and line breaks becomes one space;
        - ``punctuation``: quotes, brackets and spaces at either end, and sentence marks at the end, are removed
          (``"Yes."`` is ``Yes``); marks inside, a leading minus and a leading decimal point stay;
        - ``unicode``: compatible forms of a character become one (Unicode NFKC: full-width, ligatures, accents).
    empty
        Whether an answer that is empty after normalisation is wrong (the item was asked, as the paper scored it) or
        missing. A respondent without any row for an item is missing there in either case.

    Raises
    ------
    InputError
        If a rule or ``empty`` is not one of those named.
    """

    normalise: tuple[NormalisationRule, ...] = ("strip",)
    empty: Empty = "wrong"


def normalise_text(text: str, rules: Sequence[NormalisationRule]) -> str:
    """Apply the rules (see ``GradingSettings``) to one text, in their order.

    Examples
    --------
    >>> normalise_text(' "Yes, it  is." ', ("punctuation", "collapse_spaces", "casefold"))
    'yes, it is'
    """
    for rule in rules:
        if rule == "strip":
            text = text.strip()
        elif rule == "casefold":
            text = text.casefold()
        elif rule == "collapse_spaces":
            text = re.sub(r"\s+", " ", text)
        elif rule == "punctuation":
            text = text.lstrip(_OPENING).rstrip(_CLOSING)
        else:
            text = unicodedata.normalize("NFKC", text)
    return text


def normalise_answers(answers: pd.Series[str], rules: Sequence[NormalisationRule]) -> pd.Series[str]:
    """Apply the rules to every answer; a missing one becomes the empty text."""
    codes, distinct = pd.factorize(answers.fillna(""))
    texts = np.array([normalise_text(str(text), rules) for text in distinct], dtype=object)
    return pd.Series(texts[codes], index=answers.index)


def demand_known_answers(answers: pd.Series[str], keys: Mapping[str, str]) -> None:
    """Refuse answers that cannot be meant for these keys: all would be wrong without a word.

    They are graded responses where no key is 1 or 0, or, where items share keys as those with fixed options do, texts
    of which not one is the key of any item. Where only some are no item's key, a warning names them.

    Parameters
    ----------
    answers
        Answers, normalised; empty where none was given.
    keys
        The key of each item, normalised alike.

    Raises
    ------
    InputError
        Naming the answers, some keys, and what helps.
    """
    given, known = answers[answers != ""], set(keys.values())
    strange = sorted(set(given.unique()) - known)
    share_keys = 2 <= len(known) <= len(keys) / 2
    if not strange or not known or not (share_keys or GRADED.issuperset(strange)):
        return
    n_strange = int(given.isin(strange).sum())
    if n_strange == len(given) and (GRADED.issuperset(strange) or n_strange >= FEW_ANSWERS):
        raise InputError(
            f"grading: no answer is the key of any item: {name_first(strange)}; expected answers such as "
            f"{name_first(sorted(known), most=3)} (one meant as wrong may be left empty); graded responses 1 / 0 are "
            'read with --content responses, in a study file with data.content = "responses"'
        )
    if share_keys:
        log.warning("grading: %d answers are no item's key and count as wrong: %s", n_strange, name_first(strange))


def normalised_keys(items: ItemTable, settings: GradingSettings) -> dict[str, str]:
    """The key of each item that has one, as answers are compared with it.

    Raises
    ------
    InputError
        If a key is empty once normalised.
    """
    keys = {
        item: normalise_text(key, settings.normalise)
        for item, key in zip(items.item_ids, items.key, strict=True)
        if key is not None
    }
    blank = [item for item, key in keys.items() if not key]
    if blank:
        raise InputError(f"grading: the key of item {name_first(blank)} is empty after {', '.join(settings.normalise)}")
    return keys


def grade(
    answers: AnswersLike, items: ItemsLike, settings: GradingSettings | None = None, **keywords: Any
) -> ResponseMatrix:
    """Compare every answer with its item's key.

    x = 1 where the normalised answer equals the normalised key, else 0; an empty answer is 0 or NaN by
    ``settings.empty``; NaN where there is no row.

    Parameters
    ----------
    answers
        Long table ``respondent_id, item_id, answer``, the answer missing or empty where none was given.
    items
        The items with their keys. Attention checks are graded too: screening needs them.
    settings
        Normalisation and what an empty answer means.
    keywords
        Of the settings: ``normalise=("strip", "casefold")``.

    Returns
    -------
    ResponseMatrix
        Respondents in order of appearance x all items of the table that have a key.

    Raises
    ------
    InputError
        If no answer can be meant for the keys (see ``demand_known_answers``), an answer is to an item that is not in
        the table or has no key, a key is empty once normalised, a (respondent, item) pair is repeated, or there is no
        answer.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> answers = pd.DataFrame(
    ...     {"i1": ["yes", "yes", "no", "yes"], "i2": ["no", "no", "no", "yes"], "i3": ["yes", "no", "no", None]},
    ...     index=["ann", "bob", "cy", "dee"],
    ... )
    >>> items = pd.DataFrame({"key": ["Yes", "no", "no"]}, index=["i1", "i2", "i3"])
    >>> graded = irtbench.grade(answers, items, normalise=("strip", "casefold"))
    >>> graded.table()
      respondent_id   i1   i2   i3
    0           ann  1.0  1.0  0.0
    1           bob  1.0  1.0  1.0
    2            cy  0.0  1.0  1.0
    3           dee  1.0  0.0  NaN
    """
    answers, items = as_answers(answers), as_items(items)
    settings = with_keywords(settings or GradingSettings(), keywords)
    answered = items.select(list(pd.unique(answers["item_id"])))
    unkeyed = [item for item, key in zip(answered.item_ids, answered.key, strict=True) if key is None]
    if unkeyed:
        raise InputError(f"grading: no key for item {name_first(unkeyed)}; expected one for every item answered")
    keys = normalised_keys(items, settings)
    given = normalise_answers(answers["answer"], settings.normalise)
    demand_known_answers(given, keys)
    response = (given == answers["item_id"].map(keys)).astype(np.float64)
    if settings.empty == "missing":
        response = response.mask(given == "")
    return ResponseMatrix.from_long(answers.assign(response=response), item_ids=tuple(keys))
