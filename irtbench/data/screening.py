"""Screening: which respondents are removed before any item is looked at, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypedDict, Unpack, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import bdtrc, ndtri

from irtbench.data.answer_patterns import (
    RapidMethod,
    longest_pattern,
    longest_run,
    median_seconds,
    peer_agreement,
    rapid_guesses,
    robust_time_limit,
)
from irtbench.data.checked_settings import Inside, Range, Settings, shows_fields, with_keywords
from irtbench.data.given import ItemsLike, ResponsesLike, as_items, as_responses
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.responses import ResponseMatrix
from irtbench.data.shown import Drawn, Shown, counted

Reason = Literal[
    "",
    "no response",
    "too few responses",
    "low approval rate",
    "failed attention checks",
    "too fast",
    "rapid guessing",
    "straight-lining",
    "repeated pattern",
    "not above chance",
    "unlike the others",
    "unlike the model",
]

ORDER: tuple[Reason, ...] = get_args(Reason)
MEASURED = (
    "approval_rate",
    "median_seconds",
    "effort",
    "longest_run",
    "longest_pattern",
    "chance_probability",
    "agreement",
)


@dataclass(frozen=True)
class ScreeningSettings(Settings):
    """What a respondent must do to be kept; None switches a rule off.

    Parameters
    ----------
    min_responses
        Fewest responses to items that are not attention checks.
    min_approval
        Smallest approval rate on the platform, in (0, 1]. Who has none is not removed by this rule.
    attention_share
        Smallest share of the answered attention checks that must be right, in (0, 1]. Who answered none is not
        removed by this rule.
    min_seconds
        Smallest median time for an item. Who has no time is not removed by this rule.
    fast_quantile
        The same, the limit coming from the crowd: the lower quantile of people's median times as if they were
        log-normal with the crowd's median and median absolute deviation, see ``robust_time_limit``; in (0, .5). Of
        people who read about this share is removed.
    min_effort
        Smallest share of answers that are no rapid guesses, in (0, 1]: response time effort (Wise & Kong, 2005, take
        .9). Who has no time is not removed by this rule.
    rapid_method
        How rapid guesses are found: ``normative`` by a share of the item's mean time, ``mixture`` by the fast one of
        two kinds of answers, see ``rapid_guesses``.
    rapid_share
        That share, in (0, 1).
    max_straight_line
        Longest allowed run of one and the same answer, in the order of the answers.
    max_pattern
        Longest allowed run of answers that a repeated pattern of two to four answers foretells, in the order of the
        answers, see ``longest_pattern``.
    chance_level
        Probability of a right answer by guessing, in (0, 1), such as 1/3 with three options. A respondent with k of
        n right is removed if k is not significantly above it: P(X >= k) > ``chance_p`` for X ~ Binomial(n,
        ``chance_level``). With few responses nobody can pass (n = 2 at 1/3: 1/9 even with both right).
    chance_p
        Largest p at which a number right counts as above chance, in (0, 1).
    min_agreement
        Smallest mean share of the others who gave the same answer to an item, in (0, 1], see ``peer_agreement``.
    person_fit_p
        A respondent is removed if lz* after a first fit has a smaller one-sided p, in (0, 1). It needs that fit, so
        that ``screen`` itself only keeps the setting; a study and ``irtbench crowd screen`` apply it.

    Raises
    ------
    InputError
        If a value has the wrong type or lies outside its range.
    """

    min_responses: Annotated[int, Range(at_least=1)] | None = None
    min_approval: Annotated[float, Range(above=0, at_most=1)] | None = None
    attention_share: Annotated[float, Range(above=0, at_most=1)] | None = None
    min_seconds: Annotated[float, Range(at_least=0)] | None = None
    fast_quantile: Annotated[float, Range(above=0, below=0.5)] | None = None
    min_effort: Annotated[float, Range(above=0, at_most=1)] | None = None
    rapid_method: RapidMethod = "normative"
    rapid_share: Inside = 0.1
    max_straight_line: Annotated[int, Range(at_least=1)] | None = None
    max_pattern: Annotated[int, Range(at_least=1)] | None = None
    chance_level: Inside | None = None
    chance_p: Inside = 0.05
    min_agreement: Annotated[float, Range(above=0, at_most=1)] | None = None
    person_fit_p: Inside | None = None


class ScreeningKeywords(TypedDict, total=False):
    """`ScreeningSettings` as keywords."""

    min_responses: int | None
    min_approval: float | None
    attention_share: float | None
    min_seconds: float | None
    fast_quantile: float | None
    min_effort: float | None
    rapid_method: RapidMethod
    rapid_share: Inside
    max_straight_line: int | None
    max_pattern: int | None
    chance_level: Inside | None
    chance_p: Inside
    min_agreement: float | None
    person_fit_p: Inside | None


@dataclass(frozen=True, eq=False)
class Screening(
    Drawn,
    columns="respondent_ids, kept, reason, n_responses, n_correct, accuracy, attention_correct, attention_asked, "
    "median_seconds, longest_run, chance_probability, approval_rate, effort, longest_pattern, agreement, "
    "person_fit",
):
    """Who is kept and who is removed, with what was measured; arrays have shape (n_respondents,).

    Its table has one row a respondent.

    Parameters
    ----------
    respondent_ids
        All respondents, in the order of the responses.
    reason
        Why a respondent is removed: the first rule that applies, in the order of ``screen``; empty if kept.
    n_responses, n_correct
        Responses, and those that are correct, among items that are not attention checks; of grades the points.
    approval_rate
        On the platform, NaN if not known.
    attention_asked, attention_correct
        Attention checks answered, and those that are right.
    median_seconds
        Median time for an item, NaN if not known.
    effort
        Share of the answers that are no rapid guesses, NaN if no time is known.
    longest_run, longest_pattern
        Longest run of one and the same answer, and of answers foretold by a pattern; NaN if answers were not given.
    chance_probability
        P(X >= n_correct) under guessing, NaN without a chance level.
    agreement
        Mean share of the others who gave the same answer to an item, NaN if answers were not given.
    person_fit
        lz* after a first fit, NaN before it.
    time_limit
        Smallest median time by the rules, ``min_seconds`` or from the crowd, whichever is longer; NaN without one.
    settings
        The rules.
    n_points
        Of grades the points of the highest grades of the same items; None of right and wrong.
    """

    respondent_ids: tuple[str, ...]
    reason: tuple[Reason, ...]
    n_responses: NDArray[np.int64]
    n_correct: NDArray[np.int64]
    attention_asked: NDArray[np.int64]
    attention_correct: NDArray[np.int64]
    approval_rate: NDArray[np.float64]
    median_seconds: NDArray[np.float64]
    effort: NDArray[np.float64]
    longest_run: NDArray[np.float64]
    longest_pattern: NDArray[np.float64]
    chance_probability: NDArray[np.float64]
    agreement: NDArray[np.float64]
    person_fit: NDArray[np.float64]
    time_limit: float
    settings: ScreeningSettings
    n_points: NDArray[np.int64] | None = None

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Whether no rule removes the respondent."""
        return np.array([reason == "" for reason in self.reason])

    @property
    def accuracy(self) -> NDArray[np.float64]:
        """Share of correct responses, of grades of the points that could be had; NaN without a response."""
        most = self.n_responses if self.n_points is None else self.n_points
        return np.divide(self.n_correct, most, out=np.full(most.shape, np.nan), where=most > 0)

    def in_short(self) -> str:
        """How many are kept, and why others are not."""
        reasons = Counter(reason for reason in self.reason if reason)
        left = [f"{n} {reason}" for reason, n in reasons.items()]
        return ", ".join([f"{int(self.kept.sum())} of {counted(len(self.reason), 'respondent')} kept", *left])

    def with_person_fit(self, person_fit: NDArray[np.float64]) -> Screening:
        """The same after a first fit: whoever was kept and fits worse than ``person_fit_p`` allows is removed.

        Parameters
        ----------
        person_fit
            lz* of each respondent, standard normal under the model, low where the pattern is unlike it; NaN where
            there is none, shape (n_respondents,).

        Raises
        ------
        InputError
            If nobody is left.
        """
        found = self.judged_by_fit(person_fit)
        demand_somebody(found.reason)
        return found

    def judged_by_fit(self, person_fit: NDArray[np.float64]) -> Screening:
        """The same of some of the respondents, of whom nobody may be left."""
        p = self.settings.person_fit_p
        misfits = self.kept & (person_fit < (-np.inf if p is None else ndtri(p)))
        reason = tuple(
            "unlike the model" if misfit else given for misfit, given in zip(misfits, self.reason, strict=True)
        )
        return replace(self, reason=reason, person_fit=person_fit)


def demand_somebody(reason: Sequence[Reason]) -> None:
    """Refuse rules that remove everybody."""
    if all(reason):
        counts = ", ".join(f"{reason.count(name)} {name}" for name in dict.fromkeys(sorted(reason, key=ORDER.index)))
        raise InputError(f"screening: nobody is left of {len(reason)} respondents: {counts}")


@shows_fields(ScreeningSettings)
def screen(
    responses: ResponsesLike,
    items: ItemsLike,
    settings: ScreeningSettings | None = None,
    *,
    seconds: pd.DataFrame | None = None,
    answers: pd.DataFrame | None = None,
    approval: pd.Series[float] | None = None,
    **keywords: Unpack[ScreeningKeywords],
) -> Screening:
    """Apply the rules to every respondent.

    The first rule that applies gives the reason, in this order: no response (always), too few responses, low approval
    rate, failed attention checks, too fast, rapid guessing, straight-lining, repeated pattern, not above chance, unlike
    the others; unlike the model comes after a first fit (``Screening.with_person_fit``). Attention checks count for
    their own rule only. What others answered, and how fast, is taken from all respondents, whether kept or not.

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`), attention checks included.
    items
        Says which items are attention checks.
    settings
        The rules; None removes only respondents without any response.
    seconds
        Long table ``respondent_id, item_id, seconds``, for ``min_seconds``, ``fast_quantile`` and ``min_effort``.
    answers
        Long table ``respondent_id, item_id, answer`` with each respondent's rows in the order they were answered,
        for ``max_straight_line``, ``max_pattern`` and ``min_agreement``.
    approval
        Approval rates as shares, the index holding respondents (``approval_rates``), for ``min_approval``.
    keywords
        Of the settings: ``attention_share=1.0``.

    Raises
    ------
    InputError
        If an item is not in the item table, a rule lacks what it needs (attention checks, seconds, answers, approval
        rates), or nobody is left.

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
    demand_given(settings, known, seconds=seconds, answers=answers, approval=approval)
    found = apply_rules(responses, known, settings, seconds=seconds, answers=answers, approval=approval)
    demand_somebody(found.reason)
    return found


def demand_given(
    settings: ScreeningSettings,
    items: ItemTable,
    *,
    seconds: pd.DataFrame | None = None,
    answers: pd.DataFrame | None = None,
    approval: pd.Series[float] | None = None,
) -> None:
    """Refuse rules that lack what they need."""
    if settings.attention_share is not None and not items.attention_items:
        raise InputError("screening: attention_share is set but no item is an attention check")
    for rules_of, given, what in (
        (("min_seconds", "fast_quantile", "min_effort"), seconds, "seconds"),
        (("max_straight_line", "max_pattern", "min_agreement"), answers, "raw answers"),
        (("min_approval",), approval, "approval rates"),
    ):
        for rule in rules_of:
            if getattr(settings, rule) is not None and given is None:
                raise InputError(f"screening: {rule} is set but no {what} are given")


def apply_rules(
    responses: ResponseMatrix,
    items: ItemTable,
    settings: ScreeningSettings,
    *,
    seconds: pd.DataFrame | None = None,
    answers: pd.DataFrame | None = None,
    approval: pd.Series[float] | None = None,
    graded: bool = False,
) -> Screening:
    """What `screen` finds, whoever is left; ``items`` are those of the responses, a grade is one as k right of m."""
    scale = responses.select_items(items.scale_items)
    checks = responses.select_items(items.attention_items)
    unknown = np.full(responses.n_respondents, np.nan)
    most, n_correct = scale.n_by_respondent, scale.n_correct_by_respondent
    n_responses = scale.observed.sum(axis=1) if graded else most
    attention_asked, attention_correct = checks.n_by_respondent, checks.n_correct_by_respondent
    found = _measured(scale, settings, seconds, answers, approval)
    if settings.chance_level is not None:
        found["chance_probability"] = bdtrc(n_correct - 1, n_responses, settings.chance_level)
    limits = [settings.min_seconds or np.nan]
    if settings.fast_quantile is not None:
        limits.append(robust_time_limit(found["median_seconds"], settings.fast_quantile))
    time_limit = float(np.fmax.reduce(limits))
    attention_share = np.divide(attention_correct, attention_asked, out=unknown.copy(), where=attention_asked > 0)
    # A rule that is off gets a limit nobody can break; a statistic that is not known (NaN) breaks none.
    rules: Mapping[Reason, NDArray[np.bool_]] = {
        "no response": n_responses == 0,
        "too few responses": n_responses < (settings.min_responses or 0),
        "low approval rate": found["approval_rate"] < (settings.min_approval or 0),
        "failed attention checks": attention_share < (settings.attention_share or 0),
        "too fast": found["median_seconds"] < time_limit,
        "rapid guessing": found["effort"] < (settings.min_effort or 0),
        "straight-lining": found["longest_run"] > (settings.max_straight_line or np.inf),
        "repeated pattern": found["longest_pattern"] > (settings.max_pattern or np.inf),
        "not above chance": found["chance_probability"] > settings.chance_p,
        "unlike the others": found["agreement"] < (settings.min_agreement or 0),
    }
    reason: list[Reason] = [""] * responses.n_respondents
    for name in reversed(list(rules)):
        for i in np.flatnonzero(rules[name]):
            reason[i] = name
    return Screening(
        respondent_ids=responses.respondent_ids,
        reason=tuple(reason),
        n_responses=n_responses,
        n_correct=n_correct,
        attention_asked=attention_asked,
        attention_correct=attention_correct,
        person_fit=unknown,
        time_limit=time_limit,
        settings=settings,
        n_points=most if graded else None,
        **found,
    )


def _measured(
    scale: ResponseMatrix,
    settings: ScreeningSettings,
    seconds: pd.DataFrame | None,
    answers: pd.DataFrame | None,
    approval: pd.Series[float] | None,
) -> dict[str, NDArray[np.float64]]:
    """What the rules look at, by respondent; NaN where it is not known."""
    known: dict[str, pd.Series[float] | None] = dict.fromkeys(MEASURED) | {"approval_rate": approval}
    if seconds is not None:
        times = seconds[seconds["item_id"].isin(scale.item_ids)]
        rapid = rapid_guesses(times, method=settings.rapid_method, share=settings.rapid_share)
        known |= {"median_seconds": median_seconds(times), "effort": rapid.effort}
    if answers is not None:
        raw = answers[answers["item_id"].isin(scale.item_ids)]
        known |= {"longest_run": longest_run(raw), "longest_pattern": longest_pattern(raw)}
        known |= {"agreement": peer_agreement(raw)}
    ids, unknown = list(scale.respondent_ids), np.full(scale.n_respondents, np.nan)
    return {
        name: unknown if values is None else np.asarray(values.reindex(ids), dtype=np.float64)
        for name, values in known.items()
    }


KEPT = "kept"


@dataclass(frozen=True)
class ScreeningOutcomes(Shown):
    """Respondents by what screening made of them, the kept first, then by rule in the order of `screen`.

    Parameters
    ----------
    outcome
        ``kept``, or the reason; those alone that somebody has.
    n_respondents
        How many have it.
    n_known
        How many of these have a response to an item that is no attention check.
    accuracy
        Mean over these of the share of correct responses; NaN where there is none.
    settings
        The rules.
    """

    outcome: tuple[str, ...]
    n_respondents: tuple[int, ...]
    n_known: tuple[int, ...]
    accuracy: tuple[float, ...]
    settings: ScreeningSettings

    @classmethod
    def of(cls, screening: Screening) -> ScreeningOutcomes:
        """Those of respondents whose screening is at hand."""
        everyone = pd.DataFrame({"reason": screening.reason, "accuracy": screening.accuracy})
        groups = everyone.groupby("reason")["accuracy"].agg(["size", "count", "mean"])
        groups = groups.reindex([reason for reason in ORDER if reason in groups.index])
        return cls(
            tuple(reason or KEPT for reason in groups.index),
            tuple(groups["size"].tolist()),
            tuple(groups["count"].tolist()),
            tuple(groups["mean"].tolist()),
            screening.settings,
        )

    @classmethod
    def together(cls, parts: Iterable[ScreeningOutcomes], settings: ScreeningSettings) -> ScreeningOutcomes:
        """Those of several groups of respondents under the same rules."""
        names = ["outcome", "n_respondents", "n_known", "accuracy"]
        rows = pd.concat([pd.DataFrame({name: getattr(part, name) for name in names}) for part in parts])
        rows["accuracy"] = (rows["accuracy"] * rows["n_known"]).fillna(0.0)
        sums = rows.groupby("outcome").sum()
        sums = sums.reindex([reason or KEPT for reason in ORDER if (reason or KEPT) in sums.index])
        n, n_known = (tuple(sums[name].tolist()) for name in ("n_respondents", "n_known"))
        return cls(tuple(sums.index), n, n_known, tuple((sums["accuracy"] / sums["n_known"]).tolist()), settings)

    @property
    def n(self) -> int:
        """Number of respondents."""
        return sum(self.n_respondents)

    @property
    def n_kept(self) -> int:
        """Number of those kept."""
        return dict(zip(self.outcome, self.n_respondents, strict=True)).get(KEPT, 0)

    def table(self) -> pd.DataFrame:
        """One row an outcome: ``outcome, n_respondents, share, accuracy``."""
        n = np.array(self.n_respondents, dtype=np.int64)
        return pd.DataFrame(
            {
                "outcome": self.outcome,
                "n_respondents": n,
                "share": n / max(self.n, 1),
                "accuracy": np.array(self.accuracy, dtype=np.float64),
            }
        )

    def in_short(self) -> str:
        """How many are kept, and why others are not."""
        left = [f"{n} {name}" for name, n in zip(self.outcome, self.n_respondents, strict=True) if name != KEPT]
        return ", ".join([f"{self.n_kept} of {counted(self.n, 'respondent')} kept", *left])
