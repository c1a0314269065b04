"""Whether answers are meant for the keys: labels of another vocabulary would all be wrong without a word."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence

import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first

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
    return " ".join(text.casefold().split())


def labels_by_loose_form(keys: Mapping[str, str]) -> dict[str, str]:
    """The key that each loose form stands for, where items share keys; none where two keys have the same."""
    if not is_closed(keys):
        return {}
    forms: dict[str, set[str]] = {}
    for key in keys.values():
        forms.setdefault(loose_form(key), set()).add(key)
    return {form: next(iter(same)) for form, same in forms.items() if len(same) == 1}


def as_labels(answers: pd.Series[str], keys: Mapping[str, str]) -> pd.Series[str]:
    """Answers that differ from a shared key in capitals or spaces alone become that key; a warning names them.

    A person who answers ``Neutral`` where the key says ``neutral`` means the label. Where each item has a key of its
    own, such as a name or a formula, the rules of grading alone say what is equal.
    """
    known, label_of = set(keys.values()), labels_by_loose_form(keys)
    codes, distinct = pd.factorize(answers)
    meant = [text if text in known else label_of.get(loose_form(text), text) for text in distinct]
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

    Parameters
    ----------
    answers
        Answers, normalised; empty where none was given.
    keys
        The key of each item, normalised alike.
    options
        Answers to choose from that are no key.
    respondents
        Who gave each answer; None if one did.
    stray
        Whether a label in another spelling is sought.
    strict
        Whether the caller refuses other answers itself, so that there is nothing to warn of.

    Raises
    ------
    InputError
        Naming the answers, some keys, and what helps.
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
    """Refuse a text that stands where a key should: those who give it never give that key."""
    for text in strange:
        own = given[who.isin(set(who[given == text]))]
        n = int((own == text).sum())
        absent = sorted(set(known) - set(own))
        if absent and n >= FEW_ANSWERS and n >= NOTABLE_SHARE * len(own):
            raise InputError(
                f"grading: {n} answers are '{text}', which is no item's key, and none by the same respondents is "
                f"{' or '.join(absent[:3])}; if it stands for that, map it ({MAP_ADVICE}: '{text}={absent[0]}'), and "
                f"if it is meant as wrong, map it to nothing ('{text}=')"
            )
