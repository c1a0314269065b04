"""What may be wrong with a data set, before anything is fitted: one function a kind of trouble."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.grading import loose_form
from irtbench.data.links import linked
from irtbench.data.readers.trials import PAIR
from irtbench.data.responses import name_first
from irtbench.data.shown import Figures, counted
from irtbench.data.sparse_responses import SparseResponses
from irtbench.estimation.settings import FEWEST_RESPONDENTS

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")

FEW_RESPONSES = 10  # to an item, or by a respondent: what they say of either is next to nothing
ALIKE = 0.85  # of two labels, from which on one may be the other misspelt
RARE = 0.2  # a label is rare compared with another that is given at least this many times as often
MOST_LABELS = 50  # distinct answers; more are no fixed options
ANSWERED_BY_ABILITY, SURELY = 0.3, 3.3  # a correlation with the number of responses, and its standard errors from 0
OF_ONE = {"were": "was", "are": "is", "have": "has", "come": "comes"}
SURE = 2.5  # standard errors below zero, from which on an item-rest correlation is negative
FEWEST_ALIKE = 10  # right, and as many wrong, responses that agree, from which on two are hardly alike by chance
MOST_CELLS = 20_000_000  # of a table of respondents and items, up to which copies are sought

MOST_GRADES = 11  # distinct whole numbers, up to which scores are taken for grades


@dataclass(frozen=True)
class Finding(Figures):
    """One thing that is wrong with a data set, or worth knowing.

    Parameters
    ----------
    severity
        ``error``: no command goes on with this; ``warning``: results are wrong or lost without an answer to it;
        ``note``: worth knowing.
    code
        What kind it is, one word.
    text
        One line: what is there, and what to do.
    n
        How many items, respondents, pairs or labels.
    examples
        Their names, all of them.
    """

    severity: Severity
    code: str
    text: str
    n: int
    examples: tuple[str, ...] = ()


def observed(frame: pd.DataFrame) -> SparseResponses:
    """Graded responses, one entry each: every trial, or the first of a pair that no trial distinguishes.

    Of a long table ``respondent_id, item_id, response`` of 1, 0 and NaN, and perhaps ``trial``.
    """
    rows, respondents = pd.factorize(frame["respondent_id"])
    columns, items = pd.factorize(frame["item_id"])
    seen = frame.assign(row=rows, column=columns)[frame["response"].notna().to_numpy()]
    first = seen.drop_duplicates([*PAIR, "trial"] if "trial" in frame else PAIR)
    ids, names = (tuple(map(str, each)) for each in (respondents, items))
    row, column, right = (first[name].to_numpy() for name in ("row", "column", "response"))
    return SparseResponses(row, column, right == 1, ids, names)


def n_respondents_by_item(data: SparseResponses) -> NDArray[np.int64]:
    """Respondents with a response to each item, or several, shape (n_items,)."""
    pairs = pd.DataFrame({"row": data.rows, "column": data.columns}).drop_duplicates()
    return np.bincount(pairs["column"], minlength=data.n_items)


def where(chosen: NDArray[np.bool_], names: Sequence[str]) -> tuple[str, ...]:
    """Some of the names."""
    return tuple(names[k] for k in np.flatnonzero(chosen).tolist())


def varied(data: SparseResponses) -> NDArray[np.bool_]:
    """Items that some got right and others wrong, shape (n_items,)."""
    return (data.n_correct_by_item > 0) & (data.n_correct_by_item < data.n_by_item)


def found(severity: Severity, code: str, names: Sequence[str], text: str, advice: str) -> list[Finding]:
    """A finding of so many names, ``text: a, b, c and 4 more; advice``; none without a name."""
    if not names:
        return []
    if len(names) == 1:
        text = re.sub(r"^(\w+)s\b", r"\1", text)
        text = re.sub(r"\b(were|are|have|come)\b", lambda verb: OF_ONE[verb[0]], text, count=1)
    return [Finding(severity, code, f"{len(names)} {text}: {name_first(names)}; {advice}", len(names), tuple(names))]


def few_respondents(data: SparseResponses) -> list[Finding]:
    """Fewer respondents than items can be estimated from."""
    n = int((data.n_by_respondent > 0).sum())
    text = (
        f"{counted(n, 'respondent')} gave responses, fewer than {FEWEST_RESPONDENTS}: no item can be fitted; get "
        "more, or compare them on accuracy (compare), or score them on a bank (score)"
    )
    return [Finding("error", "few_respondents", text, n)] if n < FEWEST_RESPONDENTS else []


def doubtful_items(data: SparseResponses) -> list[Finding]:
    """Items of which nothing can be learnt (never answered, all right, all wrong), or little.

    Where one respondent alone got an item right or wrong its slope may grow without end.
    """
    n, right = data.n_by_item, data.n_correct_by_item
    leave = "fit and build leave them out (a prior would keep them)"
    kinds = (
        ("never_answered", n == 0, "items were never answered", leave, True),
        ("all_correct", (n > 0) & (right == n), "items were answered right by all", leave, True),
        ("all_wrong", (n > 0) & (right == 0), "items were answered right by nobody", f"{leave}; is their key right?",
         True),
        ("few_responses", (n > 0) & (n < FEW_RESPONSES), f"items have fewer than {FEW_RESPONSES} responses",
         "they say nothing without --prior hierarchical", False),
        ("one_apart", (np.minimum(right, n - right) == 1) & (n >= FEW_RESPONSES),
         "items were answered differently by one respondent alone",
         "their slopes may grow without end: --prior weak, or leave them out", False),
    )  # fmt: skip
    results = []
    for code, chosen, text, advice, says_nothing in kinds:
        names, stops = where(chosen, data.item_ids), says_nothing and bool(chosen.all())
        advice = "nothing can be fitted to these data" if stops else advice
        results += found("error" if stops else "warning", code, names, text, advice)
    return results


def idle_respondents(data: SparseResponses) -> list[Finding]:
    """Respondents without any response, and those with few."""
    n = data.n_by_respondent
    few = (n > 0) & (n < min(FEW_RESPONSES, len(data.item_ids)))
    return [
        *found(
            "warning", "nothing_answered", where(n == 0, data.respondent_ids), "respondents answered nothing",
            "fit and build leave them out",
        ),
        *found(
            "note", "few_answers", where(few, data.respondent_ids),
            f"respondents gave fewer than {FEW_RESPONSES} responses",
            "[screening] min_responses leaves them out",
        ),
    ]  # fmt: skip


def same_score(data: SparseResponses) -> list[Finding]:
    """Respondents with everything right, or nothing."""
    n = data.n_by_respondent
    right = np.bincount(data.rows, weights=data.correct, minlength=len(data.respondent_ids))
    chosen = (n >= FEW_RESPONSES) & ((right == 0) | (right == n))
    return found(
        "note", "all_or_nothing", where(chosen, data.respondent_ids), "respondents have all right or all wrong",
        "of their ability only a bound is known",
    )  # fmt: skip


def blocks(data: SparseResponses) -> list[Finding]:
    """Respondents and items in blocks that no response ties together: their scales cannot be compared."""
    of_item, block = np.arange(len(data.item_ids)), np.full(len(data.respondent_ids), -1)
    block[data.rows] = linked(of_item, data.rows, data.columns)[data.columns]
    tied = np.unique(block[data.rows])
    if tied.size < 2:
        return []
    people = [np.flatnonzero(block == one) for one in tied]
    people.sort(key=lambda members: (-members.size, members[0]))
    sizes = ", ".join(str(members.size) for members in people[:5])
    names = tuple(data.respondent_ids[members[0]] for members in people)
    text = (
        f"{tied.size} blocks of respondents who share no item with each other ({sizes} respondents; the first of each: "
        f"{name_first(names)}): abilities and difficulties of two blocks cannot be compared; fit each block by itself, "
        "or have common items answered"
    )
    return [Finding("error", "blocks", text, int(tied.size), names)]


def reversed_items(data: SparseResponses) -> list[Finding]:
    """Items that the able get wrong: the correlation with the rest of the score is surely negative.

    The rest is the sum of x - p over the other items that a respondent answered; Pearson's r over the respondents who
    answered the item, of standard error 1 / sqrt(n).
    """
    n = data.n_by_item
    with np.errstate(divide="ignore", invalid="ignore"):
        p = data.n_correct_by_item / n
        residual = data.correct - p[data.columns]
        total = np.bincount(data.rows, weights=residual, minlength=len(data.respondent_ids))
        rest = total[data.rows] - residual

        def sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.bincount(data.columns, weights=values, minlength=len(data.item_ids)).astype(np.float64)

        mean = sums(rest) / n
        spread = np.sqrt((sums(rest**2) / n - mean**2) * p * (1 - p))
        r = (sums(rest * data.correct) / n - mean * p) / spread
        chosen = varied(data) & (n >= 3 * FEW_RESPONSES) & (r * np.sqrt(n) < -SURE)
    return found(
        "warning", "wrong_key", where(chosen, data.item_ids), "items are answered right by the less able",
        "look at their keys; build removes items with a negative slope",
    )  # fmt: skip


def answered_by_ability(data: SparseResponses) -> list[Finding]:
    """Whether the able answered more, or less: Spearman's correlation of the number of responses with the score.

    The score is (sum x - p) / sqrt(sum p (1 - p)) over the items that a respondent answered, p their shares right.

    Where that is nobody's design, and no response decided what was asked next, who answered says something of ability
    that a fit of one population leaves out.
    """
    p = (data.n_correct_by_item / np.maximum(data.n_by_item, 1))[data.columns]
    excess, variance = (np.bincount(data.rows, of, data.n_respondents) for of in (data.correct - p, p * (1 - p)))
    there = variance > 0
    number, score = data.n_by_respondent[there], excess[there] / np.sqrt(variance[there])
    n = len(number)
    if n < 2 or np.ptp(number) == 0 or np.ptp(score) == 0:
        return []
    rho = float(np.corrcoef([pd.Series(values).rank().to_numpy() for values in (number, score)])[0, 1])
    if not abs(rho) > max(ANSWERED_BY_ABILITY, SURELY / n**0.5):
        return []
    who, so = ("abler", "low: count what was skipped as wrong, or") if rho > 0 else ("less able", "high:")
    text = (
        f"{who} respondents answered more items (Spearman's rho {rho:.2f}); unless their responses decided what they "
        f"were asked, difficulties come out too {so} fit groups of like numbers of responses (fit --groups)"
    )
    return [Finding("warning", "answered_by_ability", text, n)]


def copies(data: SparseResponses) -> list[Finding]:
    """Items with the same responses by all, and respondents with the same responses to all."""
    n, n_items = len(data.respondent_ids), len(data.item_ids)
    if n * n_items > MOST_CELLS:
        return []
    table = np.full((n, n_items), -1, dtype=np.int8)
    table[data.rows, data.columns] = data.correct
    twins, doubles = _alike(data.item_ids, table.T), _alike(data.respondent_ids, table)
    return [
        *found(
            "warning", "twin_items", twins, "groups of items have the same responses by all",
            "one of each is enough; together their slopes grow without end",
        ),
        *found(
            "warning", "copied_respondents", doubles, "groups of respondents have the same responses to all items",
            "is it one run under several names?",
        ),
    ]  # fmt: skip


def near_labels(answers: Mapping[str, int]) -> list[Finding]:
    """Labels that are nearly the same, one of them rare: capitals, spaces, a slip."""
    if len(answers) > MOST_LABELS:
        return []
    names = sorted(answers, key=lambda text: -answers[text])
    pairs = {}
    for k, rare in enumerate(names):
        for common in names[:k]:
            same = loose_form(common) == loose_form(rare)
            long = min(len(common), len(rare)) > 3
            alike = long and SequenceMatcher(None, loose_form(common), loose_form(rare)).ratio() >= ALIKE
            if rare not in pairs and (same or (alike and answers[rare] <= RARE * answers[common])):
                pairs[rare] = f"'{rare}' ({answers[rare]}) next to '{common}' ({answers[common]})"
    return found(
        "warning", "near_labels", [*pairs.values()], "labels are nearly the same as others",
        "if one is meant, --map OLD=NEW",
    )  # fmt: skip


def near_names(data: SparseResponses) -> list[Finding]:
    """Respondents, and items, whose names differ in capitals or spaces alone."""
    return [
        finding
        for word, names in (("respondents", data.respondent_ids), ("items", data.item_ids))
        for finding in found(
            "warning", "near_names", where(pd.Series(names).map(loose_form).duplicated().to_numpy(), names),
            f"{word} have the name of another but for capitals or spaces", "if one is meant, give it one name",
        )
    ]  # fmt: skip


def repeated_pairs(frame: pd.DataFrame) -> list[Finding]:
    """Several responses of one respondent to one item, distinguished by a trial or not."""
    repeated = frame.loc[frame.duplicated(PAIR), PAIR].drop_duplicates()
    names = [f"({r}, {i})" for r, i in repeated.itertuples(index=False)]
    if "trial" in frame.columns and not frame.duplicated([*PAIR, "trial"]).any():
        return found(
            "warning", "trials", names, "pairs of respondent and item have several trials, k right of n",
            "to count one response each: --trials first, last, majority, any or mean",
        )  # fmt: skip
    return found(
        "error", "duplicates", names,
        "pairs of respondent and item come more than once, with no trial to distinguish them",
        "remove the copies, or --trials first or last",
    )  # fmt: skip


def finer_scores(scores: NDArray[np.float64]) -> list[Finding]:
    """Scores that are neither 1 nor 0: grades, where they are a few whole numbers."""
    other = scores[~(np.isnan(scores) | (scores == 0) | (scores == 1))]
    if not other.size:
        return []
    text = f"{other.size} scores are neither 1 nor 0, from {other.min():g} to {other.max():g}"
    if few_grades(scores):
        text += ": grades, of --model grm, gpcm or pcm; or say from which on one is right: --threshold"
        return [Finding("note", "grades", text, int(other.size))]
    text += "; say from which on one is right: --threshold"
    return [Finding("error", "finer_scores", text, int(other.size))]


def few_grades(values: NDArray[np.float64]) -> bool:
    """Whether values are whole numbers, of which there are several but few."""
    distinct = np.unique(values[~np.isnan(values)])
    return 2 < distinct.size <= MOST_GRADES and bool((distinct == np.round(distinct)).all())


def left_out(reasons: Mapping[str, int]) -> list[Finding]:
    """What the reader left out."""
    return [
        Finding("note", "left_out", f"{n} left out by the reader: {why}", int(n)) for why, n in reasons.items() if n
    ]


#: What is asked of graded responses.
OF_RESPONSES: tuple[Callable[[SparseResponses], list[Finding]], ...] = (
    few_respondents, blocks, near_names, doubtful_items, reversed_items, answered_by_ability, copies, idle_respondents,
    same_score,
)  # fmt: skip


#: The same of grades, of which the upper half of those given counts as right.
OF_GRADES = (few_respondents, blocks, near_names, answered_by_ability, idle_respondents)


def _alike(names: Sequence[str], vectors: NDArray[np.int8]) -> list[str]:
    """Names of equal vectors with enough right and enough wrong responses, ``a = b = c`` for each group."""
    groups: dict[bytes, list[str]] = {}
    enough = np.minimum((vectors == 1).sum(axis=1), (vectors == 0).sum(axis=1)) >= FEWEST_ALIKE
    for k in np.flatnonzero(enough).tolist():
        groups.setdefault(vectors[k].tobytes(), []).append(names[k])
    return [" = ".join(names) for names in groups.values() if len(names) > 1]
