"""Grading: answers that are meant for the items' keys become 1, 0 or NaN."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypedDict, Unpack

import numpy as np
import pandas as pd

from irtbench.data.checked_settings import Settings, shows_fields, with_keywords
from irtbench.data.given import AnswersLike, ItemsLike, as_answers, as_items
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.responses import ResponseMatrix, name_first

log = logging.getLogger(__name__)

GRADED = frozenset({"1", "0", "-1", "1.0", "0.0", "true", "false", "True", "False", "TRUE", "FALSE"})
FEW_ANSWERS = 5  # so many may all be wrong options that are no item's key
NOTABLE_SHARE = 0.1  # of their answers, from which on a text that respondents give in place of a label is one
FEWER_TEXTS = 4  # items to a text, from which on answers are a vocabulary and not one to each item
CODE = re.compile(r"-?\d{1,2}|[A-Za-z]")  # a number or a letter in place of a text
MAP_ADVICE = "--map OLD=NEW, in a study file [grading] map"


def is_closed(keys: Mapping[str, str]) -> bool:
    """Whether items share keys, as those with fixed options do: each key is that of two items on average."""
    return 0 < len(set(keys.values())) <= len(keys) / 2


def loose_form(text: str) -> str:
    """A label without what never tells two labels apart: capitals, and spaces around and between words.

    Examples
    --------
    >>> loose_form(" Not  Sure")
    'not sure'
    """
    return " ".join(_stripped(text).casefold().split())


def labels_by_loose_form(keys: Mapping[str, str]) -> dict[str, str]:
    """The key of each loose form, where items share keys; none where two keys have the same."""
    if not is_closed(keys):
        return {}
    forms: dict[str, set[str]] = {}
    for key in keys.values():
        forms.setdefault(loose_form(key), set()).add(key)
    return {form: next(iter(same)) for form, same in forms.items() if len(same) == 1}


def labels_of(texts: Iterable[str], keys: Mapping[str, str]) -> list[str]:
    """Texts that differ from a shared key in capitals or spaces alone as that key, others as they are."""
    known, label_of = set(keys.values()), labels_by_loose_form(keys)
    return [text if text in known else label_of.get(loose_form(text), text) for text in texts]


def as_labels(answers: pd.Series[str], keys: Mapping[str, str]) -> pd.Series[str]:
    """Answers that differ from a shared key in capitals or spaces alone become that key; a warning names them.

    A person who answers ``Neutral`` where the key says ``neutral`` means the label. Where each item has a key of its
    own, such as a name or a formula, the rules of grading alone say what is equal.
    """
    codes, distinct = pd.factorize(answers)
    meant = labels_of(distinct, keys)
    taken = [f"'{text}' as {label}" for text, label in zip(distinct, meant, strict=True) if text != label]
    if taken:
        log.warning("grading: labels that differ in capitals or spaces alone count as one: %s", name_first(taken))
    return pd.Series(pd.Index(meant, dtype=object).take(codes), index=answers.index)


def demand_meant(
    answers: pd.Series[str],
    keys: Mapping[str, str],
    *,
    options: Collection[str] = (),
    respondents: pd.Series[str] | None = None,
    stray: bool = True,
    strict: bool = False,
) -> None:
    """Refuse answers that cannot be meant for these keys.

    Refused are, of answers that are neither an item's key nor an option:

    - graded responses, and numbers or single letters in place of texts, where no key is one;
    - a vocabulary of its own: not one answer is the key of any item, and the same few are given again and again;
    - with `stray`, one label in another spelling: a text in place of a key that those who give it never give.

    Other answers that are no shared key count as wrong, and a warning names them.
    """
    given, known = answers[answers != ""], set(keys.values())
    counts = given.value_counts(sort=False)
    strange = sorted(set(counts.index) - known - set(options))
    if not strange or not known:
        return
    closed, n_strange = is_closed(keys), int(counts[strange].sum())
    if n_strange == len(given):
        codes = all(CODE.fullmatch(text) for text in strange) and not any(CODE.fullmatch(key) for key in known)
        few = len(known) > 1 if closed else FEWER_TEXTS * len(strange) <= len(keys)
        if GRADED.issuperset(strange) or (len(given) >= FEW_ANSWERS and (codes or few)):
            raise InputError(
                f"grading: no answer is the key of any item: {name_first(strange)}; expected answers such as "
                f"{name_first(sorted(known), most=3)} (one meant as wrong may be left empty); other names for them are "
                f"mapped ({MAP_ADVICE}); graded responses 1 / 0 are read with --content responses, in a study file "
                'with data.content = "responses"'
            )
        if not (strict and closed):
            log.warning("grading: no answer is the key of any item, all count as wrong: %s", name_first(strange))
        return
    if not closed or len(known) == 1:
        return
    if stray:
        who = pd.Series("", index=given.index) if respondents is None else respondents.loc[given.index]
        _refuse_other_spelling(given, who, strange, sorted(known))
    if not strict:
        log.warning("grading: %d answers are no item's key and count as wrong: %s", n_strange, name_first(strange))


def _refuse_other_spelling(
    given: pd.Series[str], who: pd.Series[str], strange: Sequence[str], known: Sequence[str]
) -> None:
    """Refuse a text in the place of a key: those who give it never give that key."""
    for text in strange:
        own = given[who.isin(set(who[given == text]))]
        n = int((own == text).sum())
        absent = sorted(set(known) - set(own))
        if absent and n >= FEW_ANSWERS and n >= NOTABLE_SHARE * len(own):
            raise InputError(
                f"grading: {n} answers are '{text}', which is no item's key, and none by the same respondents is "
                f"{' or '.join(absent[:3])}; if it means that, map it ({MAP_ADVICE}: '{text}={absent[0]}'), and "
                f"if it is meant as wrong, map it to nothing ('{text}=')"
            )


NormalisationRule = Literal["strip", "casefold", "collapse_spaces", "punctuation", "unicode"]
Empty = Literal["wrong", "missing"]
Unknown = Literal["error", "stray", "wrong"]
#: What is tried to explain answers that are no key: whether they would be, if they were normalised so.
THOROUGH: tuple[NormalisationRule, ...] = ("unicode", "punctuation", "casefold", "collapse_spaces")

# A leading point or minus is part of a number (.5, -3), so only quotes, brackets and inverted marks may open an answer.
_OPENING = " \t\r\n\"'`“”‘’«»‹›([{¿¡"
_CLOSING = " \t\r\n\"'`“”‘’«»‹›)]}.,;:!?…"


# a byte order mark and spaces without width are no white space to Python
_stripped = partial(re.compile(r"^[\s\u200b-\u200d\u2060\ufeff]+|[\s\u200b-\u200d\u2060\ufeff]+$").sub, "")

_RULES: Mapping[NormalisationRule, Callable[[str], str]] = {
    "strip": _stripped,
    "casefold": str.casefold,
    "collapse_spaces": partial(re.compile(r"\s+").sub, " "),
    "punctuation": lambda text: text.lstrip(_OPENING).rstrip(_CLOSING),
    "unicode": partial(unicodedata.normalize, "NFKC"),
}


@dataclass(frozen=True)
class GradingSettings(Settings):
    """How answers are compared with the key.

    Parameters
    ----------
    normalise
        Rules applied to answer and key alike, in this order, before they are compared letter by letter:

        - ``strip``: spaces (also those without width), tabs and line breaks at either end are removed;
        - ``casefold``: upper and lower case become one (also ``ß`` and ``ss``);
        - ``collapse_spaces``: any run of spaces, tabs and line breaks becomes one space;
        - ``punctuation``: quotes, brackets and spaces at either end, and sentence marks at the end, are removed
          (``"Yes."`` is ``Yes``); marks inside, a leading minus and a leading decimal point stay;
        - ``unicode``: compatible forms of a character become one (Unicode NFKC: full-width, ligatures, accents).
    empty
        Whether an answer that is empty after normalisation is wrong (the item was asked, as the paper scored it) or
        missing. A respondent without any row for an item is missing there in either case.
    options
        Answers to choose from that are no item's key. Those that are some item's key need not be named.
    unknown
        What an answer means that is neither key nor option, where items share their options: an ``error``; ``wrong``,
        with a warning; or ``stray``, as systems are graded on a bank, which has keys and not all options: a label that
        differs in capitals or spaces alone is that label, a text in place of a label is an error, others are wrong,
        with a warning (see ``as_labels`` and ``demand_meant``).
    map
        What an answer means, where it has another name than the keys: ``{"0": "entailment"}``; nothing for one
        that is meant as wrong. Both are normalised.

    Raises
    ------
    InputError
        If a rule, ``empty`` or ``unknown`` is not one of those named, or one answer is mapped to two.
    """

    normalise: tuple[NormalisationRule, ...] = ("strip",)
    empty: Empty = "wrong"
    options: tuple[str, ...] = ()
    unknown: Unknown = "error"
    map: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.renamed()) < len(self.map):
            raise InputError(
                f"grading: map: two of {name_first(list(self.map))} are the same answer after "
                f"{', '.join(self.normalise)}; expected each once"
            )

    def renamed(self) -> dict[str, str]:
        """The map from answer to key, both normalised."""
        rules = self.normalise
        return {normalise_text(old, rules): normalise_text(new, rules) for old, new in self.map.items()}


class GradingKeywords(TypedDict, total=False):
    """`GradingSettings` as keywords."""

    normalise: tuple[NormalisationRule, ...]
    empty: Empty
    options: tuple[str, ...]
    unknown: Unknown
    map: Mapping[str, str]


def normalise_text(text: str, rules: Sequence[NormalisationRule]) -> str:
    """Apply the rules (see ``GradingSettings``) to one text, in their order.

    Examples
    --------
    >>> normalise_text(' "Yes, it  is." ', ("punctuation", "collapse_spaces", "casefold"))
    'yes, it is'
    """
    for rule in rules:
        text = _RULES[rule](text)
    return text


def normalise_answers(answers: pd.Series[str], rules: Sequence[NormalisationRule]) -> pd.Series[str]:
    """Apply the rules to every answer; a missing one becomes the empty text."""
    codes, distinct = pd.factorize(answers.fillna(""))
    texts = np.array([normalise_text(str(text), rules) for text in distinct], dtype=object)
    return pd.Series(texts[codes], index=answers.index)


def as_compared(answers: pd.Series[str], settings: GradingSettings) -> pd.Series[str]:
    """Answers as they are compared with the keys: mapped where the settings say so, and normalised."""
    given = normalise_answers(answers, settings.normalise)
    renamed = settings.renamed()
    return given.map(lambda text: renamed.get(text, text)) if renamed else given


def as_meant(
    answers: pd.Series[str],
    keys: Mapping[str, str],
    settings: GradingSettings,
    respondents: pd.Series[str] | None = None,
) -> pd.Series[str]:
    """Answers as they are compared, once it is clear that they are meant for the keys."""
    if settings.unknown == "stray":
        answers = as_labels(answers, keys)
    known = set(keys.values()) | {normalise_text(option, settings.normalise) for option in settings.options}
    given = answers[answers != ""]
    strange = sorted(set(given.unique()) - known)
    if strange:
        demand_meant(answers, keys, options=known - set(keys.values()), respondents=respondents,
                     stray=settings.unknown == "stray", strict=settings.unknown == "error")  # fmt: skip
    if strange and settings.unknown == "error" and is_closed(keys) and len(set(keys.values())) > 1:
        raise InputError(
            f"grading: {int(given.isin(strange).sum())} of {len(given)} answers are neither key nor option of any "
            f"item: {name_first(strange)}; expected {name_first(sorted(known), most=8)}; {_advice(strange, known)}"
        )
    return answers


def to_vocabulary(answers: pd.Series[str], settings: GradingSettings, keys: Collection[str] = ()) -> pd.Series[str]:
    """Answers by the names of one vocabulary: those that the settings' map gives them, and the keys.

    Examples
    --------
    >>> answers = pd.Series(["0", "1", "no", "0"])
    >>> to_vocabulary(answers, GradingSettings(map={"0": "yes", "1": "no"})).tolist()
    ['yes', 'no', 'no', 'yes']
    """
    given, renamed = normalise_answers(answers, settings.normalise), settings.renamed()
    counts = given[given != ""].value_counts()
    if absent := sorted(set(renamed) - set(counts.index)):
        raise InputError(
            f"answers: nobody answered {name_first(absent)}, which is mapped; expected some of "
            f"{name_first([str(text) for text in counts.index])}"
        )
    vocabulary = set(renamed.values()) | {normalise_text(key, settings.normalise) for key in keys}
    if strange := [str(text) for text in counts.index if text not in renamed and text not in vocabulary]:
        raise InputError(
            f"answers: {int(counts[strange].sum())} of {int(counts.sum())} are {name_first(strange)}; expected some of "
            f"{name_first(sorted(vocabulary - {''}))}: map them too, to nothing where they are no answer ({MAP_ADVICE})"
        )
    return as_compared(answers, settings)


def _advice(strange: Sequence[str], known: set[str]) -> str:
    """The setting of a study that makes something of answers that are neither key nor option."""
    thorough = {normalise_text(text, THOROUGH) for text in known}
    if all(normalise_text(text, THOROUGH) in thorough for text in strange):
        for rules in (("strip", "casefold"), ("strip", "punctuation"), ("strip", "punctuation", "casefold"), THOROUGH):
            alike = {normalise_text(text, rules) for text in known}
            if all(normalise_text(text, rules) in alike for text in strange):
                return f"grading.normalise = {list(rules)} makes them so (or --map)".replace("'", '"')
    return (
        'grading.options names further options, grading.unknown = "wrong" counts all others as wrong, grading.map '
        "(--map OLD=NEW) says what they mean"
    )


def demand_mapped_to_keys(settings: GradingSettings, keys: Mapping[str, str]) -> None:
    """Refuse a map onto what is no item's key."""
    known = set(keys.values())
    for old, new in settings.renamed().items():
        if new and new not in known:
            raise InputError(
                f"grading: map {old}={new}: {new} is no item's key; expected one of {name_first(sorted(known))}, or "
                "nothing for an answer that is meant as wrong"
            )


def normalised_keys(items: ItemTable, settings: GradingSettings) -> dict[str, str]:
    """The key of each item that has one, as answers are compared with it."""
    keys = {
        item: normalise_text(key, settings.normalise)
        for item, key in zip(items.item_ids, items.key, strict=True)
        if key is not None
    }
    if blank := [item for item, key in keys.items() if not key]:
        raise InputError(f"grading: the key of item {name_first(blank)} is empty after {', '.join(settings.normalise)}")
    return keys


@shows_fields(GradingSettings)
def grade(
    answers: AnswersLike, items: ItemsLike, settings: GradingSettings | None = None, **keywords: Unpack[GradingKeywords]
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
        If answers cannot be meant for the keys (see ``as_meant``), an answer is mapped onto what is no key, one is
        to an item that is not in the table or has no key, a key is empty once normalised, a (respondent, item) pair is
        repeated, or there is no answer.

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
    if unkeyed := [item for item, key in zip(answered.item_ids, answered.key, strict=True) if key is None]:
        raise InputError(f"grading: no key for item {name_first(unkeyed)}; expected one for every item answered")
    keys = normalised_keys(items, settings)
    demand_mapped_to_keys(settings, keys)
    given = as_meant(as_compared(answers["answer"], settings), keys, settings, answers["respondent_id"])
    response = (given == answers["item_id"].map(keys)).astype(np.float64)
    if settings.empty == "missing":
        response = response.mask(given == "")
    return ResponseMatrix.from_long(answers.assign(response=response), item_ids=tuple(keys))
