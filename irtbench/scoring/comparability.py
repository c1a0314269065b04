"""Whether a percentile is given: by person fit, and by what was answered (NumPy only).

A percentile says that a respondent is better than a share of people. That takes answers like a person's, and enough of
them on items that tell people of this ability apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.scoring.ability import Abilities

FEW_ITEMS = 5  # with fewer the prior says more than the answers, and lz* has no normal distribution
UNLIKELY_PATTERN = -1.645  # lz* below this has probability 0.05 for people of the reference population
LEAST_RELIABILITY = 0.5  # 1 - se^2 / variance of ability: with less, more is unknown of theta than the answers say


def joined_words(words: Mapping[str, NDArray[np.bool_]]) -> NDArray[np.object_]:
    """For each respondent the words that apply, parted by semicolons."""
    code = sum(applies.astype(np.int64) << k for k, applies in enumerate(words.values()))
    texts = [";".join(word for k, word in enumerate(words) if number >> k & 1) for number in range(2 ** len(words))]
    return np.array(texts, dtype=object)[code]


def reliability(standard_error: NDArray[np.float64], deviation: float = 1.0) -> NDArray[np.float64]:
    """Share of the population's variance of ability that answers take away, 1 - se^2 / sd^2; at least 0."""
    return np.asarray(np.maximum(1 - (standard_error / deviation) ** 2, 0.0))


def percentile_flags(abilities: Abilities, lz_star: NDArray[np.float64], deviation: float = 1.0) -> NDArray[np.object_]:
    """Why no percentile is given, words parted by semicolons; empty where it is.

    - ``no_items``, ``few_items``: none, or fewer than ``FEW_ITEMS`` items answered;
    - ``little_information``: reliability of theta below ``LEAST_RELIABILITY``: too few of the items, or items too
      unlike those that tell people of this ability apart (all too easy, all too hard);
    - ``at_bound``: theta is at the end of its range;
    - ``unlikely_pattern``: lz* below ``UNLIKELY_PATTERN``, which 5% of people are.

    Parameters
    ----------
    abilities, lz_star
        Of the respondents; lz* NaN where it is not defined.
    deviation
        Standard deviation of ability in the population.
    """
    answered = abilities.n_items > 0
    enough = abilities.n_items >= FEW_ITEMS
    told = reliability(abilities.standard_error, deviation) >= LEAST_RELIABILITY
    return joined_words(
        {
            "no_items": ~answered,
            "few_items": answered & ~enough,
            "little_information": enough & ~told,
            "at_bound": abilities.at_bound,
            "unlikely_pattern": lz_star < UNLIKELY_PATTERN,
        }
    )


def as_given(scores: pd.DataFrame) -> pd.DataFrame:
    """Rows of scores.csv as tables for people show them: without the percentiles that are not to be given."""
    shown = scores.copy()
    places = ["percentile", "percentile_lower", "percentile_upper", "percentile_empirical"]
    shown.loc[shown["percentile_flags"] != "", [name for name in places if name in shown]] = np.nan
    return shown


def why_not_compared(row: Mapping[Any, Any]) -> str:
    """Why no percentile of a row of scores.csv is given; nothing where it is."""
    said = {
        "no_items": "no item was answered",
        "few_items": f"{row['n_items']} items answered are fewer than {FEW_ITEMS}",
        "little_information": f"the {row['n_items']} items answered say too little about this ability",
        "at_bound": "ability is at the end of its range",
        "unlikely_pattern": "the answers are unlike those of people of this ability "
        f"(lz* {row['person_fit']:.2f}, below {UNLIKELY_PATTERN})",
    }
    return "; ".join(said[flag] for flag in row["percentile_flags"].split(";") if flag)
