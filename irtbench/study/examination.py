"""A look at a data set before anything is fitted: what it holds, what is wrong with it, what will work.

The figures are of one processor of 2026 and give the order of magnitude. Measured (seconds of processor time,
start of the program left out): 2PL 1,000 x 400 .26, 20,000 x 50 .28; 3PL 2,000 x 100 .71; prior hierarchical 100 x 500
3.6, 100 x 1,500 6.6; 19 samples of the bootstrap of local dependence at 1,000 x 30 .49, at 4,000 x 30 .83. Whole
commands: `fit --prior hierarchical` of 90 systems x 1,157 items 30 (21 expected), `build` of the shipped crowd study,
1,000 x 90 in three scales, 17 (29 expected).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.building.prune_rules import FEWEST_ITEMS
from irtbench.data.given import AnswersLike, ItemsLike, ResponsesLike, as_answers, as_items, as_responses
from irtbench.data.grading import GradingSettings, grade, normalise_answers
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.readers.long_table import LongTable, ReadingSummary, long_columns, summarise
from irtbench.data.readers.wide_table import share_graded, unlike_the_others
from irtbench.data.responses import Responses
from irtbench.data.shown import Figures, Shown, counted
from irtbench.data.sparse_responses import SparseResponses
from irtbench.estimation.settings import FEWEST_RESPONDENTS
from irtbench.study.findings import (
    FEW_RESPONSES,
    OF_GRADES,
    OF_RESPONSES,
    SEVERITIES,
    Finding,
    few_grades,
    finer_scores,
    found,
    left_out,
    n_respondents_by_item,
    near_labels,
    observed,
    repeated_pairs,
    varied,
)

FEW_PER_ITEM = 50  # responses to the median item, below which a prior is learnt from the items
SOME_PER_ITEM = 200  # the same, below which a weak prior is taken
MANY_PER_ITEM = 1_000  # the same, from which items that outnumber respondents need no prior learnt from them
MANY_GRADES = 300  # the same of grades, from which on maximum likelihood needs no prior
MOST_LEARNT = 20_000  # respondents x items, of whose grades a prior is learnt unasked: a minute or two
START = 5.0  # seconds until torch and Pyro are there
PER_CELL = {"none": 5e-7, "weak": 5e-7, "hierarchical": 1.5e-4}  # seconds of a 2PL for each respondent and item
ROUNDS = 3  # of pruning
BOOTSTRAP, BOOTSTRAP_PER_CELL = 2.0, 2e-5  # seconds of a round, and for each respondent and item of a scale
PROGRAM, BYTES_PER_CELL = 350, 60  # MiB of the libraries, and what a fit holds for each respondent and item
MOST_PAIRS = 100_000  # of systems; nobody reads a table of more

Prior = Literal["none", "weak", "hierarchical"]


@dataclass(frozen=True)
class Shape:
    """What the advice goes by."""

    n_respondents: int
    n_items: int
    per_item: float
    graded: bool
    has_answers: bool
    n_scales: int = 1
    some_apart: bool = False
    unlisted: bool = False
    in_categories: bool = False

    @property
    def cells(self) -> int:
        """Respondents x items."""
        return self.n_respondents * self.n_items


@dataclass(frozen=True)
class CommandAdvice(Figures):
    """Whether a command works on the data, why, and roughly how long it takes (seconds) and holds (MiB)."""

    command: str
    works: bool
    why: str
    seconds: float | None = None
    megabytes: float | None = None


def choose_prior(shape: Shape) -> tuple[Prior, str]:
    """The prior of `fit` that suits the data, and why."""
    if shape.n_items > shape.n_respondents and shape.per_item < MANY_PER_ITEM:
        return "hierarchical", (
            f"{shape.n_items} items outnumber {shape.n_respondents} respondents: the prior is learnt from the items"
        )
    responses = f"{shape.per_item:g} response{'s' * (shape.per_item != 1)} to the median item"
    if shape.per_item < FEW_PER_ITEM:
        return "hierarchical", f"{responses}: the prior is learnt from the items"
    # of more items than respondents the weak prior would set the scale
    if (shape.some_apart and shape.n_items <= shape.n_respondents) or shape.per_item < SOME_PER_ITEM:
        why = "some items were answered differently by one respondent alone" if shape.some_apart else responses
        return "weak", f"{why}: it keeps slopes finite"
    return "none", f"{responses} suffice for maximum likelihood"


def prior_of_grades(
    asked: str, n_by_item: NDArray[np.int64], size: tuple[int, int], *, alike: bool, learnable: bool = False
) -> tuple[Prior, str]:
    """The prior asked for, or with ``auto`` that which suits so many responses of respondents to items, and why.

    Of items that are ``alike`` in slope there is none; whether one may be learnt from the items is ``learnable``.
    """
    n = float(np.median(n_by_item))
    if asked in ("weak", "hierarchical"):
        return "weak" if asked == "weak" else "hierarchical", ""
    if asked == "none" or alike or n >= MANY_GRADES:
        return "none", ""
    learnt, why = choose_prior(Shape(*size, per_item=n, graded=True, has_answers=False))
    if learnable and learnt == "hierarchical" and size[0] * size[1] <= MOST_LEARNT:
        return learnt, why
    if size[1] > size[0]:
        return "none", ""
    return "weak", f"{n:g} responses to the median item: it keeps slopes finite"


def prior_for(responses: Responses) -> tuple[Prior, str]:
    """The prior of `fit` that suits these responses, and why."""
    n, right = responses.n_by_item, responses.proportion_correct() * responses.n_by_item
    rarer = np.minimum(right, n - right)
    varied = rarer > 0  # not of an item without a response
    return choose_prior(
        Shape(
            n_respondents=responses.n_respondents,
            n_items=int(varied.sum()),
            per_item=float(np.median(n[varied])) if varied.any() else 0.0,
            graded=True,
            has_answers=False,
            some_apart=bool((varied & (rarer.round() == 1) & (n >= FEW_RESPONSES)).any()),
        )
    )


def advise(shape: Shape, prior: Prior, obstacles: tuple[str, ...]) -> tuple[CommandAdvice, ...]:
    """What each command can do with the data; `obstacles` are the findings that stop every fit, in a few words."""
    megabytes = PROGRAM + BYTES_PER_CELL * shape.cells / 2**20
    one_fit = START + PER_CELL[prior] * shape.cells
    per_scale = shape.cells / max(1, shape.n_scales)
    built = START + shape.n_scales * ROUNDS * (BOOTSTRAP + BOOTSTRAP_PER_CELL * per_scale)
    built += ROUNDS * PER_CELL[prior] * shape.cells
    if shape.in_categories:
        return advise_on_grades(shape, megabytes)
    stop, too_few = _obstacle(shape, obstacles), ""
    of_responses = "takes graded responses; build grades answers by their key" if shape.has_answers else stop
    alone = of_responses == ""
    if shape.unlisted:
        too_few = "first: the table of items lacks some, or their keys"
    elif not stop and shape.n_items <= FEWEST_ITEMS:
        too_few = f"{counted(shape.n_items, 'item')}; expected more than {FEWEST_ITEMS}"
    elif not stop and shape.n_items > shape.n_respondents:
        too_few = "item fit and local dependence say little with more items than respondents; fit them"
    builds = not (stop or too_few)
    advice = "irtbench init writes its study file" + ("" if prior == "none" else f'; [model] prior = "{prior}"')
    pairs = shape.n_respondents * (shape.n_respondents - 1) // 2
    compared = f"{pairs} pairs of respondents" + ": too many" * (pairs > MOST_PAIRS)
    compared += "; with --bank, whose key grades" * shape.has_answers
    return (
        CommandAdvice("fit", alone, of_responses or f"--prior {prior}", one_fit if alone else None, megabytes),
        CommandAdvice(
            "items diagnose", alone, of_responses or "after fit, on its items.csv",
            START + BOOTSTRAP + BOOTSTRAP_PER_CELL * shape.cells if alone else None, megabytes,
        ),
        CommandAdvice(
            "build", builds, too_few or stop or advice, built if builds else None, None if too_few else megabytes
        ),
        CommandAdvice("compare", 0 < pairs <= MOST_PAIRS, compared if pairs else "needs two systems or more"),
        CommandAdvice(
            "crowd agree", shape.has_answers, "raw answers are there" if shape.has_answers else "needs raw answers"
        ),
        CommandAdvice("score", True, "with a bank of these items"),
    )  # fmt: skip


def advise_on_grades(shape: Shape, megabytes: float) -> tuple[CommandAdvice, ...]:
    """The same where responses are grades."""
    stop, maybe = _obstacle(replace(shape, graded=True), ()), "if they are grades: " * shape.has_answers
    too_few = f"{counted(shape.n_items, 'item')}; expected more than {FEWEST_ITEMS}"
    few = stop or (too_few if shape.n_items <= FEWEST_ITEMS else "")
    return (
        CommandAdvice("fit", not stop, stop or f"{maybe}--model grm (or gpcm, pcm, rsm)", None, megabytes),
        CommandAdvice("items diagnose", not stop, stop or "after fit, on its items.csv"),
        CommandAdvice("dimensions", not stop, stop or f"{maybe}--model grm (or gpcm)", None, megabytes),
        CommandAdvice("crowd screen", not stop, stop or f"{maybe}--model grm, and rules", None, megabytes),
        CommandAdvice("build", not few, few or f"{maybe}FILE --model grm -o DIR", None, megabytes),
        CommandAdvice("compare", shape.n_respondents > 1, "--levels LOWEST,...,HIGHEST"),
        CommandAdvice("crowd agree", True, "--levels LOWEST,...,HIGHEST"),
        CommandAdvice("crowd raters", True, "if several raters grade an answer: a column rater_id"),
        CommandAdvice("score", True, "with a bank of these items"),
    )


def _obstacle(shape: Shape, obstacles: tuple[str, ...]) -> str:
    first = f"first: {', '.join(obstacles)}" if obstacles else ""
    if not shape.graded:
        return first or "answers are not graded: --items with their key"
    if shape.n_respondents < FEWEST_RESPONDENTS:
        return f"{counted(shape.n_respondents, 'respondent')}; expected at least {FEWEST_RESPONDENTS}"
    return first if shape.n_items else "no item was answered right by some and wrong by others"


#: Findings that keep every fit from being what it seems, whatever the prior.
MOST_ROWS = 2**25  # trials that are listed, a row each
OBSTACLES = {
    "duplicates": "repeated pairs",
    "finer_scores": "scores are not 1 or 0 (--threshold)",
    "vocabulary": "answers do not fit the key (--map)",
    "blocks": "unconnected blocks",
}


@dataclass(frozen=True, eq=False)
class Examination(Shown):
    """What a data set holds, what is wrong with it, and what will work.

    Parameters
    ----------
    summary
        Format, counts, density, labels, what the reader left out.
    findings
        The worst first.
    prior, prior_reason
        The prior of `fit` that suits it, and why.
    commands
        What each command can do with it, how long it takes, roughly, and the memory it holds.
    """

    summary: ReadingSummary = field()  # type: ignore[assignment]  # other results have their single figures there
    findings: tuple[Finding, ...]
    prior: Prior
    prior_reason: str
    commands: tuple[CommandAdvice, ...]

    def plain(self) -> dict[str, object]:
        """The same as plain values, as doctor's JSON holds them."""
        return {
            **vars(self.summary),
            "findings": [vars(finding) for finding in self.findings],
            "prior": self.prior,
            "prior_reason": self.prior_reason,
            "commands": [vars(command) for command in self.commands],
        }

    def table(self) -> pd.DataFrame:
        """One row a finding: ``severity, code, text, n, examples``."""
        return pd.DataFrame([vars(one) for one in self.findings], columns=[one.name for one in fields(Finding)])

    def in_short(self) -> str:
        """Size, how much was found, and the prior that suits it."""
        size = f"{counted(self.summary.n_respondents, 'respondent')} x {counted(self.summary.n_items, 'item')}"
        found = [
            counted(n, severity)
            for severity in SEVERITIES
            if (n := sum(finding.severity == severity for finding in self.findings))
        ]
        return ", ".join([size, *(found or ["nothing wrong"]), f"prior {self.prior}"])

    def finding(self, code: str) -> Finding | None:
        """The finding of that kind, if there is one."""
        return next((finding for finding in self.findings if finding.code == code), None)


def examine(
    table: ResponsesLike | AnswersLike,
    *,
    items: ItemsLike | None = None,
    grading: GradingSettings | None = None,
    threshold: float | None = None,
) -> Examination:
    """Look for what is wrong with a data set, and say what will work.

    Nothing is fitted. Answers are graded by the key of the items, or by the right answers that the file holds itself;
    without either only what needs no grading is looked at.

    Parameters
    ----------
    table
        Answers or responses as ``read_answers`` and ``read_responses`` give them; read with ``trials="all"`` repeated
        pairs and scores on a finer scale are found too, and are no error. A data frame may be
        long or wide, of answers or responses, an array is one of responses.
    items
        The items with their keys, labels and attention checks (`as_items`); None if they are not known.
    grading
        How answers are compared with the key.
    threshold
        From which score on a response is right, where scores are on a finer scale; half their range by default.

    Raises
    ------
    InputError
        As `as_responses`, `as_answers` and `as_items`; if a response is no number.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> answers = pd.DataFrame(
    ...     {"i1": ["yes", "yes", "no", "Yes"], "i2": ["no", "no", "no", "yes"], "i3": ["yes", "no", "no", None]},
    ...     index=["ann", "bob", "cy", "dee"],
    ... )
    >>> items = pd.DataFrame({"key": ["yes", "no"]}, index=["i1", "i2"])
    >>> found = irtbench.examine(answers, items=items)
    >>> found
    <Examination: 4 respondents x 3 items, 2 errors, 2 warnings, prior hierarchical>
    >>> found.table()[["severity", "code", "n"]]
      severity             code  n
    0    error    unknown_items  1
    1    error  few_respondents  4
    2  warning      near_labels  1
    3  warning    few_responses  2
    """
    read_from_file = isinstance(table, LongTable)
    table = _as_table(table)
    items = None if items is None else as_items(items)
    frame, findings = one_row_a_trial(table.frame), left_out(table.left_out)
    findings += repeated_pairs(frame)
    if has_answers := "answer" in frame.columns:
        counts = normalise_answers(frame["answer"].dropna(), grading.normalise if grading else ()).value_counts()
        findings += near_labels({str(text): int(n) for text, n in counts.items()})
        graded = _graded(frame, items, grading or GradingSettings(), findings)
    else:
        graded = _responses(frame, threshold, findings)
    if items is not None:
        findings += _unknown_items(frame, items)
    elif read_from_file and table.format == "wide":  # whose columns the reader took for items
        findings += found(
            "note", "odd_names", unlike_the_others(list(pd.unique(frame["item_id"]))),
            "columns taken for items are named unlike all the others", "if they are none: --exclude-columns",
        )  # fmt: skip
    given = frame.groupby("item_id").size()
    are_grades = threshold is None and few_grades(numbers_of(frame, unkeyed="no_key" in {one.code for one in findings}))
    shape = Shape(
        int(frame["respondent_id"].nunique()), len(given), float(given.median()), graded=graded is not None,
        has_answers=has_answers, in_categories=are_grades,
        unlisted=any(finding.code in ("unknown_items", "no_keys") for finding in findings),
    )  # fmt: skip
    if graded is not None:
        data = observed(graded)
        for ask in OF_GRADES if are_grades else OF_RESPONSES:
            findings += ask(data)
        shape = _shape(data, shape, items, findings)
    worst_first = tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))
    prior, reason = choose_prior(shape)
    if are_grades:
        n: NDArray[np.int64] = np.asarray(given, dtype=np.int64)
        prior, reason = prior_of_grades("auto", n, (shape.n_respondents, len(given)), alike=False, learnable=True)
        reason = reason or "maximum likelihood"
    obstacles = tuple(words for code, words in OBSTACLES.items() if any(f.code == code for f in worst_first))
    of_scores = are_grades and "response" in frame.columns
    summary = replace(summarise(table), proportion_correct=None) if of_scores else summarise(_as_summarised(table))
    return Examination(summary, worst_first, prior, reason, advise(shape, prior, obstacles))


def numbers_of(frame: pd.DataFrame, *, unkeyed: bool) -> NDArray[np.float64]:
    """The scores of a table, or its answers where no key is known and all are numbers; else none."""
    if "response" in frame.columns:
        return frame["response"].to_numpy(dtype=np.float64)
    if not unkeyed:
        return np.empty(0)
    numbers = pd.to_numeric(frame["answer"], errors="coerce").to_numpy(dtype=np.float64)
    return np.empty(0) if (np.isnan(numbers) & frame["answer"].notna().to_numpy()).any() else numbers


def _as_table(given: ResponsesLike | AnswersLike) -> LongTable:
    """What is given as a reader gives a file: long, repeated pairs and scores on a finer scale left as they are."""
    if isinstance(given, LongTable):
        return given
    if not isinstance(given, pd.DataFrame):
        given = as_responses(given).to_long()
    given = one_row_a_trial(given)
    names = [str(name) for name in given.columns]
    if not (found_columns := long_columns(names, {})):
        wide = given.set_axis(names, axis=1)
        wide = wide.set_index("respondent_id") if "respondent_id" in names else wide.rename_axis("respondent_id")
        frame, layout = as_answers(wide), "wide"
        numbers_only = wide.select_dtypes(["number", "bool"]).shape == wide.shape
        if graded := numbers_only or share_graded(frame["answer"].astype(str).to_list()) > 0.5:
            # who, or what, has no response is looked at too
            frame = wide.reset_index().melt("respondent_id", var_name="item_id", value_name="answer")
            frame = frame.astype({"respondent_id": str, "item_id": str})
    else:
        scores, layout = found_columns.get("response"), "long"
        graded = scores is not None
        if scores is not None:  # answers next to them are ignored, as in a file
            given = given.set_axis(names, axis=1).drop(columns="answer", errors="ignore")
            given = given.rename(columns={scores: "answer"})
        frame = as_answers(given)
    texts = frame.pop("answer")
    if not graded:
        answers = texts.map(str, na_action="ignore")
        return LongTable(frame.assign(answer=answers.mask(answers == "")), Path("data frame"), layout, {})
    numbers = pd.to_numeric(texts, errors="coerce").astype(np.float64)
    if (wrong := numbers.isna() & texts.notna()).any():
        row = frame[wrong.to_numpy()].iloc[0]
        raise InputError(
            f"responses: respondent {row['respondent_id']}, item {row['item_id']}: expected a number or missing but "
            f"got {texts[wrong].iloc[0]!r}"
        )
    return LongTable(frame.assign(response=numbers), Path("data frame"), layout, {})


def one_row_a_trial(frame: pd.DataFrame) -> pd.DataFrame:
    """A long table of counted trials with a row for each of them; any other as it is."""
    if not {"n_correct", "n_trials"} <= set(frame.columns):
        return frame
    n = frame["n_trials"].fillna(0).to_numpy(dtype=np.intp)
    right = frame["n_correct"].fillna(0).to_numpy(dtype=np.intp)
    if n.sum() > MOST_ROWS:
        raise InputError(f"responses: {n.sum():,} trials; expected at most {MOST_ROWS:,} to be examined one by one")
    rows = frame.drop(columns=["n_correct", "n_trials"]).loc[frame.index.repeat(n)]
    trial = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n) + 1
    return rows.assign(response=(trial <= np.repeat(right, n)).astype(np.float64), trial=trial).reset_index(drop=True)


def _responses(frame: pd.DataFrame, threshold: float | None, findings: list[Finding]) -> pd.DataFrame:
    """Responses of 1, 0 and NaN from scores, which may be on a finer scale."""
    scores = frame["response"].to_numpy(dtype=np.float64)
    finer = finer_scores(scores)
    if threshold is None:
        if not finer:
            return frame
        findings += finer
        threshold = float(np.nanmin(scores) + np.nanmax(scores)) / 2
    return frame.assign(response=np.where(np.isnan(scores), np.nan, scores >= threshold))


def _graded(
    frame: pd.DataFrame, items: ItemTable | None, grading: GradingSettings, findings: list[Finding]
) -> pd.DataFrame | None:
    """Responses from answers, None if they cannot be graded; what is wrong is added to the findings."""
    own_keys = items_from_keys(frame)
    known = items if items is not None or own_keys is None else as_items(own_keys)
    if known is None:
        findings.append(
            Finding(
                "note",
                "no_key",
                "answers without a key: --items ITEMS, a table of item_id and key, grades them; grades need none, "
                "but --model grm (init: --content responses), and of labels --levels LOWEST,...,HIGHEST",
                1,
            )
        )
        return None
    keyed = {item for item, key in zip(known.item_ids, known.key, strict=True) if key is not None}
    own = frame[frame["item_id"].isin(keyed)].drop_duplicates(["respondent_id", "item_id"])
    if own.empty:
        return None
    try:
        return grade(own, known, grading).to_long()
    except InputError as error:
        findings.append(Finding("error", "vocabulary", str(error).removeprefix("grading: "), 1))
        return None


def items_from_keys(frame: pd.DataFrame) -> pd.DataFrame | None:
    """Table of the items with the right answers that the file of the answers holds itself; None without any."""
    if "gold" not in frame.columns:
        return None
    own = frame.loc[frame["gold"].notna(), ["item_id", "gold"]].drop_duplicates("item_id")
    return None if own.empty else own.rename(columns={"gold": "key"}).reset_index(drop=True)


def _unknown_items(frame: pd.DataFrame, items: ItemTable) -> list[Finding]:
    """Items that were answered and are not in the table of items, or have no key there, and the reverse."""
    answered = list(pd.unique(frame["item_id"]))
    known, seen = set(items.item_ids), set(answered)
    results = found(
        "error", "unknown_items", [item for item in answered if item not in known],
        "items answered are not in the table of items", "add them, or leave their answers out ([data] where)",
    )  # fmt: skip
    results += found(
        "warning", "unasked_items", [item for item in items.item_ids if item not in seen],
        "items of the table were never answered", "is it the table of these answers?",
    )  # fmt: skip
    if "answer" in frame.columns:
        unkeyed = [i for i, key in zip(items.item_ids, items.key, strict=True) if key is None and i in seen]
        results += found("error", "no_keys", unkeyed, "items answered have no key", "give them one")
    return results


def _shape(data: SparseResponses, shape: Shape, items: ItemTable | None, findings: list[Finding]) -> Shape:
    n = n_respondents_by_item(data)
    checks = set() if items is None else set(items.attention_items)
    some_differ = varied(data) & np.array([item not in checks for item in data.item_ids], dtype=np.bool_)
    return replace(
        shape,
        n_respondents=int((data.n_by_respondent > 0).sum()),
        n_items=int(some_differ.sum()),
        per_item=float(np.median(n[some_differ] if some_differ.any() else n)),
        n_scales=1 if items is None else max(1, len(items.scales())),
        some_apart=any(finding.code == "one_apart" for finding in findings),
    )


def _as_summarised(table: LongTable) -> LongTable:
    """The table as the summary counts it: a share of right responses needs 1 and 0."""
    if "response" not in table.frame.columns:
        return table
    scores = table.frame["response"]
    return replace(table, frame=table.frame.assign(response=scores.where(scores.isin([0, 1]))))
