"""Screening: which respondents are removed before any item is looked at, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import bdtrc

from irtbench.data.checked_settings import Inside, Range, Settings, with_keywords
from irtbench.data.given import ItemsLike, ResponsesLike, as_items, as_responses
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.data.shown import Shown, counted

Reason = Literal[
    "",
    "no response",
    "too few responses",
    "failed attention checks",
    "too fast",
    "straight-lining",
    "not above chance",
]


@dataclass(frozen=True)
class ScreeningSettings(Settings):
    """What a respondent must do to be kept; None switches a rule off.

    Parameters
    ----------
    min_responses
        Fewest responses to items that are not attention checks.
    attention_share
        Smallest share of the answered attention checks that must be right, in (0, 1]. Who answered none is not
        removed by this rule.
    min_seconds
        Smallest median time for an item. Who has no time is not removed by this rule.
    max_straight_line
        Longest allowed run of one and the same answer, in the order of the answers.
    chance_level
        Probability of a right answer by guessing, in (0, 1), such as 1/3 with three options. A respondent with k of
        n right is removed if k is not significantly above it: P(X >= k) > ``chance_p`` for X ~ Binomial(n,
        ``chance_level``). With few responses nobody can pass (n = 2 at 1/3: 1/9 even with both right).
    chance_p
        Largest p at which a number right counts as above chance, in (0, 1).

    Raises
    ------
    InputError
        If a value has the wrong type or lies outside its range.
    """

    min_responses: Annotated[int, Range(at_least=1)] | None = None
    attention_share: Annotated[float, Range(above=0, at_most=1)] | None = None
    min_seconds: Annotated[float, Range(at_least=0)] | None = None
    max_straight_line: Annotated[int, Range(at_least=1)] | None = None
    chance_level: Inside | None = None
    chance_p: Inside = 0.05


@dataclass(frozen=True, eq=False)
class Screening(Shown):
    """Who is kept and who is removed, with what was measured; arrays have shape (n_respondents,).

    Parameters
    ----------
    respondent_ids
        All respondents, in the order of the responses.
    reason
        Why a respondent is removed: the first rule that applies, in the order of ``screen``; empty if kept.
    n_responses, n_correct
        Responses, and those that are correct, among items that are not attention checks.
    attention_asked, attention_correct
        Attention checks answered, and those that are right.
    median_seconds
        Median time for an item, NaN if not known.
    longest_run
        Longest run of one and the same answer, NaN if answers were not given.
    chance_probability
        P(X >= n_correct) under guessing, NaN without a chance level.
    settings
        The rules.
    """

    respondent_ids: tuple[str, ...]
    reason: tuple[Reason, ...]
    n_responses: NDArray[np.int64]
    n_correct: NDArray[np.int64]
    attention_asked: NDArray[np.int64]
    attention_correct: NDArray[np.int64]
    median_seconds: NDArray[np.float64]
    longest_run: NDArray[np.float64]
    chance_probability: NDArray[np.float64]
    settings: ScreeningSettings

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Whether no rule removes the respondent."""
        return np.array([reason == "" for reason in self.reason])

    @property
    def accuracy(self) -> NDArray[np.float64]:
        """Share of correct responses, NaN without a response."""
        unknown = np.full(self.n_responses.shape, np.nan)
        return np.divide(self.n_correct, self.n_responses, out=unknown, where=self.n_responses > 0)

    def table(self) -> pd.DataFrame:
        """One row a respondent."""
        return pd.DataFrame(
            {
                "respondent_id": self.respondent_ids,
                "kept": self.kept,
                "reason": self.reason,
                "n_responses": self.n_responses,
                "n_correct": self.n_correct,
                "accuracy": self.accuracy,
                "attention_correct": self.attention_correct,
                "attention_asked": self.attention_asked,
                "median_seconds": self.median_seconds,
                "longest_run": self.longest_run,
                "chance_probability": self.chance_probability,
            }
        )

    def in_short(self) -> str:
        """How many are kept, and why others are not."""
        reasons = Counter(reason for reason in self.reason if reason)
        left = [f"{n} {reason}" for reason, n in reasons.items()]
        return ", ".join([f"{int(self.kept.sum())} of {counted(len(self.reason), 'respondent')} kept", *left])


def screen(
    responses: ResponsesLike,
    items: ItemsLike,
    settings: ScreeningSettings | None = None,
    *,
    seconds: pd.DataFrame | None = None,
    answers: pd.DataFrame | None = None,
    **keywords: Any,
) -> Screening:
    """Apply the rules to every respondent.

    The first rule that applies gives the reason, in this order: no response (always), too few responses, failed
    attention checks, too fast, straight-lining, not above chance. Attention checks count for their own rule only.

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`), attention checks included.
    items
        Says which items are attention checks.
    settings
        The rules; None removes only respondents without any response.
    seconds
        Long table ``respondent_id, item_id, seconds``, for ``min_seconds``.
    answers
        Long table ``respondent_id, item_id, answer`` with each respondent's rows in the order they were answered,
        for ``max_straight_line``.
    keywords
        Of the settings: ``attention_share=1.0``.

    Raises
    ------
    InputError
        If an item is not in the item table, a rule lacks what it needs (attention checks, seconds, answers), or
        nobody is left.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> responses = pd.DataFrame({"i1": [1, 1, 0], "i2": [0, 1, 0], "check": [1, 1, 0]}, index=["ann", "bob", "cy"])
    >>> items = pd.DataFrame({"attention": [0, 0, 1]}, index=["i1", "i2", "check"])
    >>> found = irtbench.screen(responses, items, attention_share=1.0)
    >>> found
    <Screening: 2 of 3 respondents kept, 1 failed attention checks>
    >>> found.reason
    ('', '', 'failed attention checks')
    """
    responses, items = as_responses(responses), as_items(items)
    settings = with_keywords(settings or ScreeningSettings(), keywords)
    known = items.select(responses.item_ids)
    scale = responses.select_items(known.scale_items)
    checks = responses.select_items(known.attention_items)
    if settings.attention_share is not None and checks.n_items == 0:
        raise InputError("screening: attention_share is set but no item is an attention check")
    if settings.min_seconds is not None and seconds is None:
        raise InputError("screening: min_seconds is set but no seconds are given")
    if settings.max_straight_line is not None and answers is None:
        raise InputError("screening: max_straight_line is set but no raw answers are given")
    unknown = np.full(responses.n_respondents, np.nan)
    n_responses = scale.observed.sum(axis=1)
    n_correct = (scale.values == 1).sum(axis=1)
    attention_asked = checks.observed.sum(axis=1)
    attention_correct = (checks.values == 1).sum(axis=1)
    median_seconds = unknown if seconds is None else _median_seconds(seconds, scale)
    longest_run = unknown if answers is None else _longest_run(answers, scale)
    chance = unknown if settings.chance_level is None else bdtrc(n_correct - 1, n_responses, settings.chance_level)
    attention_share = np.divide(attention_correct, attention_asked, out=unknown.copy(), where=attention_asked > 0)
    # A rule that is off gets a limit nobody can break; a statistic that is not known (NaN) breaks none.
    rules: dict[Reason, NDArray[np.bool_]] = {
        "no response": n_responses == 0,
        "too few responses": n_responses < (settings.min_responses or 0),
        "failed attention checks": attention_share < (settings.attention_share or 0),
        "too fast": median_seconds < (settings.min_seconds or 0),
        "straight-lining": longest_run > (settings.max_straight_line or np.inf),
        "not above chance": chance > settings.chance_p,
    }
    reason: list[Reason] = [""] * responses.n_respondents
    for name, applies in reversed(rules.items()):
        for i in np.flatnonzero(applies):
            reason[i] = name
    if all(reason):
        counts = ", ".join(f"{reason.count(name)} {name}" for name in rules if name in reason)
        raise InputError(f"screening: nobody is left of {responses.n_respondents} respondents: {counts}")
    return Screening(
        respondent_ids=responses.respondent_ids,
        reason=tuple(reason),
        n_responses=n_responses,
        n_correct=n_correct,
        attention_asked=attention_asked,
        attention_correct=attention_correct,
        median_seconds=median_seconds,
        longest_run=longest_run,
        chance_probability=chance,
        settings=settings,
    )


def _median_seconds(seconds: pd.DataFrame, scale: ResponseMatrix) -> NDArray[np.float64]:
    """Median over the scale's items for each respondent, NaN where no time is known."""
    rows = seconds[seconds["item_id"].isin(scale.item_ids)]
    medians = rows.groupby("respondent_id")["seconds"].median()
    return medians.reindex(list(scale.respondent_ids)).to_numpy(dtype=np.float64)


def _longest_run(answers: pd.DataFrame, scale: ResponseMatrix) -> NDArray[np.float64]:
    """Longest run of equal answers to the scale's items for each respondent; an empty answer ends a run."""
    rows = answers[answers["item_id"].isin(scale.item_ids)].sort_values("respondent_id", kind="stable")
    respondent, answer = rows["respondent_id"], rows["answer"].fillna("")
    continues = (respondent == respondent.shift()) & (answer == answer.shift())
    lengths = (answer != "").astype(np.float64).groupby([respondent, (~continues).cumsum()]).sum()
    longest = lengths.groupby(level=0).max()
    return np.asarray(longest.reindex(list(scale.respondent_ids)), dtype=np.float64)
