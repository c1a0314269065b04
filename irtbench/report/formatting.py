"""Numbers, codes and words as people read them: every figure, caption and sentence on the page is written here."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from typing import Any, Literal

import numpy as np
import pandas as pd
from jinja2 import Environment, StrictUndefined, Template

from irtbench.report import formatting

MISSING = "–"  # an en dash: not known, or not defined

REASONS = {
    "excluded": "taken out beforehand",
    "no_response": "nobody was asked",
    "all_correct": "everybody was right",
    "all_wrong": "nobody was right",
    "negative_slope": "negative slope",
    "low_communality": "discriminates too little",
    "item_fit": "does not follow its curve",
    "runaway_slope": "slope grows without end",
}
STATISTICS = {
    "": "",
    "proportion_correct": "share correct",
    "discrimination": "discrimination a",
    "communality": "communality h²",
    "s_x2": "S-X²",
    "score": "score statistic",
    "ld_x2": "LD-X²",
}
NORMALISATIONS = {
    "strip": "spaces at either end removed",
    "casefold": "upper and lower case made one",
    "collapse_spaces": "runs of spaces made one",
    "punctuation": "outer punctuation removed",
    "unicode": "Unicode forms made one",
}
FLAGS = {
    "no_items": "no response",
    "few_items": "few responses",
    "all_correct": "all correct",
    "all_wrong": "all wrong",
    "at_bound": "θ at the end of its range",
    "unlikely_pattern": "pattern unlike a person’s",
    "little_information": "items say too little",
}


def is_missing(value: Any) -> bool:
    """Whether there is nothing to show: None, NaN, or an empty text."""
    return value is None or value == "" or (isinstance(value, float | np.floating) and math.isnan(value))


def text(value: Any) -> str:
    """Any text, empty where there is none.

    Examples
    --------
    >>> text(None), text("neutral")
    ('', 'neutral')
    """
    return "" if is_missing(value) else str(value)


def decimal(value: float | None, digits: int = 2) -> str:
    """A number with so many digits behind the point, and a true minus sign; what rounds to 0 has no sign.

    Examples
    --------
    >>> decimal(-1.2345), decimal(-0.001), decimal(2.5, 3), decimal(float("nan")), decimal(float("-inf"))
    ('−1.23', '0.00', '2.500', '–', '−∞')
    """
    if value is None or is_missing(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:z,.{digits}f}".replace("-", "−")


def count(value: float | None) -> str:
    """A whole number, thousands parted by commas.

    Examples
    --------
    >>> count(88470)
    '88,470'
    """
    return decimal(value, 0)


def percent(share: float | None, digits: int = 1) -> str:
    """A share between 0 and 1 as a percentage.

    Examples
    --------
    >>> percent(0.9556), percent(None)
    ('95.6%', '–')
    """
    return MISSING if share is None or is_missing(share) else f"{decimal(100 * share, digits)}%"


def p_value(p: float | None) -> str:
    """A probability to three digits without the leading zero, ``<.001`` below.

    Examples
    --------
    >>> p_value(0.0421), p_value(0.00012), p_value(0.0), p_value(1.0)
    ('.042', '<.001', '<.001', '1.000')
    """
    if p is None or is_missing(p):
        return MISSING
    return "<.001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def interval(lower: float | None, upper: float | None, digits: int = 2) -> str:
    """Ends of an interval or range.

    Examples
    --------
    >>> interval(-2.765, 0.704, 3)
    '−2.765 to 0.704'
    """
    return f"{decimal(lower, digits)} to {decimal(upper, digits)}"


def flags(codes: str) -> str:
    """The flags of a score in words.

    Examples
    --------
    >>> flags("few_items;all_correct")
    'few responses; all correct'
    """
    return "; ".join(FLAGS.get(code, code) for code in codes.split(";") if code)


def surprise(kind: str) -> str:
    """Which way a response surprises, in words.

    Examples
    --------
    >>> surprise("missed")
    'missed, people are right'
    """
    return {"missed": "missed, people are right", "right": "right, people are not"}.get(kind, kind)


def either(value: float | None) -> str:
    """A count if it is a whole number by type, else three digits behind the point.

    Examples
    --------
    >>> either(76), either(0.6)
    ('76', '0.600')
    """
    return count(value) if isinstance(value, int | np.integer) else decimal(value, 3)


def yes_or_no(value: bool | float | None) -> str:
    """A truth in a word.

    Examples
    --------
    >>> yes_or_no(True), yes_or_no(None)
    ('yes', '–')
    """
    return MISSING if is_missing(value) else ("yes" if value else "no")


def listing(words: Sequence[str], *, most: int = 40) -> str:
    """Words joined as in a sentence; of more than so many the first, and how many more.

    Examples
    --------
    >>> listing(["a"]), listing(["a", "b", "c"]), listing(["a", "b", "c", "d"], most=2)
    ('a', 'a, b and c', 'a, b and 2 others')
    """
    if len(words) > most + 1:
        words = [*words[:most], plural(len(words) - most, "other")]
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def plural(n: int, word: str) -> str:
    """A count with its noun.

    Examples
    --------
    >>> plural(1, "item"), plural(1200, "item")
    ('1 item', '1,200 items')
    """
    return f"{count(n)} {word}{'' if n == 1 else 's'}"


Kind = Literal["number", "words", "long"]  # long: room for a sentence


@dataclass(frozen=True)
class Column:
    """How a column is headed and its values written."""

    heading: str
    write: Callable[[Any], str] = text
    kind: Kind = "number"


_one, _three = partial(decimal, digits=1), partial(decimal, digits=3)
_words, _long = partial(Column, kind="words"), partial(Column, kind="long")

COLUMNS = {
    "scale": _words("Scale"),
    "stage": _words("Screening"),
    "label": _words("Items"),
    "item_id": _words("Item"),
    "text": _long("Text"),
    "respondent_id": _words("Respondent"),
    "rater_id": _words("Rater"),
    "severity": Column("Severity", decimal),
    "consistency": Column("Consistency", decimal),
    "infit": Column("Infit", decimal),
    "outfit": Column("Outfit", decimal),
    "mean_score": Column("Mean score given", decimal),
    "fair_score": Column("Fair score", decimal),
    "n_ratings": Column("Ratings", count),
    "n_raters": Column("Raters", count),
    "system": _words("System"),
    "outcome": _words("Outcome"),
    "verdict": _long("Outcome"),
    "reason": _long("Reason"),
    "statistic": _words("Statistic"),
    "quantity": _words("Quantity"),
    "stopped_because": _long("Stopped because"),
    "removed": _words("Removed in this round"),
    "items": _words("Items"),
    "flags": _words("Remarks", flags),
    "option": _words("Option"),
    "key": _words("Key"),
    "observed_shares": _long("Right by group of ability, low to high"),
    "answers_by_third": _long("Answers of the lower, middle and upper third"),
    "difficulty_span": _words("Difficulty b"),
    "card_field": _words("About"),
    "card_text": _long("What its maker says"),
    "remark": _long("Remark"),
    "surprise": _words("The system", surprise),
    "difficulty_range": _words("Items of difficulty b"),
    "column": _words("Group by"),
    "group": _words("Group"),
    "converged": _words("Converged", yes_or_no),
    "good": _words("Meets the cut-offs", yes_or_no),
    "setting": _words("Setting"),
    "setting_value": _words("Value"),
    "model": _words("Model"),
    "number": Column("Number", count),
    "eigenvalue": Column("Eigenvalue", decimal),
    "chance_mean": Column("Independent items, mean", decimal),
    "chance_limit": Column("Independent items, limit", decimal),
    "ability": _words("Above the limit", yes_or_no),
    "n_parameters": Column("Parameters", count),
    "aic": Column("AIC", _one),
    "bic": Column("BIC", _one),
    "sabic": Column("SABIC", _one),
    "likelihood_ratio": Column("Likelihood ratio", decimal),
    "n_guessing": Column("Items that guess", count),
    "share_following": Column("Load most on their own", percent),
    "round": Column("Round", count),
    "fit": Column("Round", str),
    "n_respondents": Column("Respondents", count),
    "n_responses": Column("Responses", count),
    "n_answers": Column("Answers", count),
    "n_items": Column("Items", count),
    "n_given": Column("Items given", count),
    "n_answered": Column("Items answered", count),
    "n_in_round": Column("Items in", count),
    "n_kept": Column("Items kept", count),
    "steps": Column("Steps", count),
    "share": Column("Share", percent),
    "accuracy": Column("Accuracy", percent),
    "observed": Column("Right", percent),
    "expected": Column("People of its ability", percent),
    "z": Column("z", decimal),
    "n_people": Column("People", count),
    "proportion_correct": Column("Correct", percent),
    "majority": Column("Majority", percent),
    "supermajority": Column("Two-thirds majority", percent),
    "key_majority": Column("Majority is the key", percent),
    "key_supermajority": Column("Two-thirds majority is the key", percent),
    "fleiss_kappa": Column("Fleiss’ κ", _three),
    "category_kappa": Column("κ of this answer", _three),
    "krippendorff_alpha": Column("Krippendorff’s α", _three),
    "alpha": Column("α", _three),
    "alpha_lower": Column("α, lower", _three),
    "alpha_upper": Column("α, upper", _three),
    "omega": Column("ω", _three),
    "marginal": Column("Marginal", _three),
    "empirical": Column("Empirical", _three),
    "n_items_spearman_brown": Column("Items for .9, Spearman-Brown", count),
    "n_items_information": Column("Items for .9, information", count),
    "item_rest": Column("Item-rest", _three),
    "biserial": Column("Biserial", _three),
    "discrimination_index": Column("Upper less lower", _three),
    "alpha_if_dropped": Column("α without it", _three),
    "is_key": _words("Key", yes_or_no),
    "share_low": Column("Lower third", percent),
    "share_middle": Column("Middle third", percent),
    "share_high": Column("Upper third", percent),
    "gwet_ac1": Column("Gwet’s AC1", _three),
    "reliability": Column("Reliability", _three),
    "difficulty": Column("Difficulty b", decimal),
    "discrimination": Column("Discrimination a", decimal),
    "guessing": Column("Guessing c", decimal),
    "difficulty_min": Column("Least b", _three),
    "difficulty_max": Column("Greatest b", _three),
    "discrimination_min": Column("Least a", _three),
    "discrimination_max": Column("Greatest a", _three),
    "value": Column("Value", _three),
    "s_x2": Column("S-X²", decimal),
    "p": Column("p", p_value),
    "p_adjusted": Column("Adjusted p", p_value),
    "least_p_items": Column("Least adjusted p, items", p_value),
    "least_p_pairs": Column("Least adjusted p, pairs", p_value),
    "m2": Column("M₂", decimal),
    "df": Column("df", count),
    "rmsea": Column("RMSEA", _three),
    "srmsr": Column("SRMSR", _three),
    "tli": Column("TLI", _three),
    "cfi": Column("CFI", _three),
    "log_likelihood": Column("Log-likelihood", decimal),
    "theta": Column("Ability θ", decimal),
    "percentile": Column("Percentile", _one),
    "percentile_empirical": Column("Rank in the sample", _one),
    "person_fit": Column("Person fit lz*", decimal),
    "percentile_flags": _words("No percentile, for", flags),
    "first": _words("First"),
    "second": _words("Second"),
    "accuracy_difference": Column("Accuracy, difference", _three),
    "accuracy_p_adjusted": Column("Accuracy, adjusted p", p_value),
    "theta_difference": Column("Ability, difference", decimal),
    "theta_p_adjusted": Column("Ability, adjusted p", p_value),
    "percentile_difference": Column("Percentile, difference", _one),
    "rank": Column("Rank", count),
    "probability_best": Column("Best with probability", decimal),
    "indistinguishable_from": _long("Not distinguishable from"),
    "delta": Column("Delta", decimal),
    "size": _words("Size"),
    "ets_class": _words("ETS class"),
    "r2_class": _words("R² class"),
    "odds_ratio": Column("Odds ratio", decimal),
    "rms_difference": Column("Difference of the curves", _three),
    "r2_change": Column("R² change", _three),
    "chi2": Column("χ²", decimal),
    "x2": Column("χ²", decimal),
    "shift": Column("Shift, logits", decimal),
    "n_systems": Column("Systems", count),
    "n_correct": Column("Right", count),
    "expected_correct": Column("Right, expected", _one),
    "proposed": _words("Proposed instead"),
    "p_wrong_key": Column("Key wrong, p", _three),
    "p_proposed": Column("Proposed right, p", _three),
    "point_biserial": Column("Point-biserial", _three),
    "n": Column("Answers", count),
    "form": Column("Form", count),
    "position": Column("Place", count),
    "information": Column("Information", decimal),
    "se": Column("Standard error", decimal),
    "ours": Column("This study", either),
    "published": Column("Published", either),
    "difference": Column("Difference", either),
}


@dataclass(frozen=True)
class Cell:
    """One written value; of a heading also the name of its column."""

    text: str
    kind: Kind
    column: str = field(default="", compare=False)


@dataclass(frozen=True)
class WrittenTable:
    """A table ready to be shown: headings and rows of written cells."""

    headings: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]


def write_table(table: pd.DataFrame) -> WrittenTable:
    """Write a table of numbers for people, each column by its entry in ``COLUMNS``.

    An estimate with columns ``x_lower, x_upper`` is written with its interval, one with ``se_x`` with its standard
    error in brackets. Columns ``loading_x`` are headed by x. A column in which nothing is known is left out.
    """
    companions = {
        other for name in table for other in (f"{name}_lower", f"{name}_upper", f"se_{name}") if other in table
    }
    shown = [
        str(name) for name in table if name not in companions and not all(is_missing(value) for value in table[name])
    ]
    headings, columns = [], []
    for name in shown:
        loads_on = name.removeprefix("loading_")
        column = COLUMNS[name] if loads_on == name else Column(f"Loading on {loads_on}", decimal)
        cells = [column.write(value) for value in table[name]]
        unit, errors = "", [""] * len(table)
        if f"{name}_lower" in table:
            ends = zip(table[f"{name}_lower"], table[f"{name}_upper"], strict=True)
            unit, errors = " [interval]", [f" [{column.write(low)}, {column.write(high)}]" for low, high in ends]
        elif f"se_{name}" in table and not table[f"se_{name}"].isna().all():
            unit, errors = " (SE)", [f" ({column.write(error)})" for error in table[f"se_{name}"]]
        cells = [cell if cell == MISSING else f"{cell}{error}" for cell, error in zip(cells, errors, strict=True)]
        headings.append(Cell(f"{column.heading}{unit}", column.kind, name))
        columns.append([Cell(cell, column.kind) for cell in cells])
    return WrittenTable(tuple(headings), tuple(zip(*columns, strict=True)))


SOURCES = ("captions.toml", "prose.toml")
OF_FORMATTING = ("count", "decimal", "interval", "listing", "p_value", "plural")


@cache
def sources() -> tuple[Environment, dict[str, str]]:
    """What fills in captions and sentences, and the text of each by its name."""
    environment = Environment(undefined=StrictUndefined)  # the page escapes what it takes
    environment.filters |= {
        "share": percent, "percent": lambda share: f"{100 * share:g}%", "g": "{:g}".format,
        **{name: getattr(formatting, name) for name in OF_FORMATTING},
    }  # fmt: skip
    texts = [tomllib.loads((files("irtbench.report") / "templates" / name).read_text("utf-8")) for name in SOURCES]
    return environment, {name: text for each in texts for name, text in each.items()}


@cache
def template(name: str) -> Template:
    """That of a caption or sentence; few of them are on one page."""
    environment, texts = sources()
    return environment.from_string(texts[name])


def words(name: str, /, **found: object) -> str:
    """A caption, or a sentence, with what was found in its places.

    Examples
    --------
    >>> words("table_form_items", n_forms=2)
    'The items of each form.'
    """
    return template(name).render(found)


def lines(name: str, /, **found: object) -> list[str]:
    """The lines of such a text, without the empty ones."""
    return [line for line in words(name, **found).splitlines() if line]
