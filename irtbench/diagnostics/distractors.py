"""Who chooses which option of an item: shares by score group, point-biserial correlations, flags."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.given import AnswersLike, ResponsesLike, as_answers, as_responses
from irtbench.data.input_error import InputError
from irtbench.diagnostics.checks import check_respondents_agree

NOBODY = "chosen by nobody"
BY_THE_ABLE = "chosen more by the able than by the weak"
MORE_THAN_KEY = "draws the able more than the key does"


def distractor_table(
    answers: AnswersLike,
    keys: dict[str, str],
    responses: ResponsesLike,
    *,
    options: dict[str, list[str]] | None = None,
    scored: Collection[str] | None = None,
) -> pd.DataFrame:
    """Every option of every item, columns of distractors.csv.

    Shares are of all who were asked the item, those without an answer included. The score groups are thirds of the
    respondents by sum score (by the share right of what they answered, where responses are missing), at its quantiles
    1/3 and 2/3. ``point_biserial`` is the correlation of choosing the option with the score; ``point_biserial_rest``
    with the score without this item.

    Flags: nobody chose it; a wrong option that more of the able than of the weak third chose; a wrong option whose
    correlation with the rest of the score is above the key's.

    Parameters
    ----------
    answers
        Raw answers, a long or wide data frame (`as_answers`); an empty answer is none.
    keys
        The key of each item.
    responses
        The answers as graded by the keys, by the same respondents (`as_responses`).
    options
        Options offered by an item, if known: those that nobody chose are then listed too.
    scored
        Items that the score is made of; None for all of the responses.

    Returns
    -------
    DataFrame
        ``item_id, option, is_key, n, share, point_biserial, flags, share_low, share_middle, share_high,
        point_biserial_rest``, the key first, then by how many chose it.

    Raises
    ------
    InputError
        If the responses have an item without a key, or somebody who answered is not among them.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> answers = pd.DataFrame(
    ...     {"i1": list("aaabbc"), "i2": list("dddede"), "i3": list("ffgggg")},
    ...     index=["ann", "bob", "cy", "dee", "eve", "fay"],
    ... )
    >>> keys = {"i1": "a", "i2": "d", "i3": "f"}
    >>> table = irtbench.distractor_table(answers, keys, irtbench.grade(answers, pd.DataFrame({"key": keys})))
    >>> table[["item_id", "option", "is_key", "n", "share_low", "share_high", "point_biserial_rest"]].round(2)
      item_id option  is_key  n  share_low  share_high  point_biserial_rest
    0      i1      a    True  3        0.0         1.0                 0.82
    1      i1      b   False  2        0.5         0.0                -0.43
    2      i1      c   False  1        0.5         0.0                -0.55
    3      i2      d    True  4        0.0         1.0                 0.66
    4      i2      e   False  2        1.0         0.0                -0.66
    5      i3      f    True  2        0.0         1.0                 0.66
    6      i3      g   False  4        1.0         0.0                -0.66
    """
    answers, responses = as_answers(answers), as_responses(responses)
    if without := [item for item in responses.item_ids if item not in keys]:
        raise InputError(f"distractors: item {without[0]} has no key; expected one for every item")
    answers = answers[answers["answer"].fillna("") != ""]
    check_respondents_agree(answers, responses)
    seen = ~np.isnan(responses.values)
    counts = np.array([scored is None or item in scored for item in responses.item_ids])
    right = np.where(seen & counts, responses.values, 0.0)
    n_seen = (seen & counts).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        score = right.sum(axis=1) / n_seen
    low, high = np.nanquantile(score, [1 / 3, 2 / 3]) if n_seen.any() else (np.nan, np.nan)
    thirds = np.column_stack([score <= low, (score > low) & (score <= high), score > high])
    row_of = pd.Series(np.arange(responses.n_respondents), index=list(responses.respondent_ids))
    rows = []
    by_item = dict(tuple(answers.groupby("item_id", sort=False)))
    for k, item in enumerate(responses.item_ids):
        asked = seen[:, k]
        with np.errstate(invalid="ignore", divide="ignore"):
            n_others = n_seen - (asked & counts[k])
            rest = (right.sum(axis=1) - right[:, k]) / np.where(n_others > 0, n_others, np.nan)
        chosen = np.full(responses.n_respondents, "", dtype=object)
        if item in by_item:
            given = by_item[item].drop_duplicates("respondent_id")
            chosen[row_of[given["respondent_id"]].to_numpy()] = given["answer"].to_numpy()
        counted = pd.Series(chosen[asked]).value_counts()
        names = {keys[item], *(options or {}).get(item, []), *counted.index} - {""}
        rest_of_key = _correlation((chosen == keys[item])[asked], rest[asked])
        for option in sorted(names, key=lambda name: (name != keys[item], -counted.get(name, 0), name)):
            picks = chosen == option
            shares = [_share(picks[asked & third]) for third in thirds.T]
            with_rest = _correlation(picks[asked], rest[asked])
            wrong = option != keys[item]
            flags = [
                flag
                for flag, raised in (
                    (NOBODY, not picks.any()),
                    (BY_THE_ABLE, wrong and shares[2] > shares[0]),
                    (MORE_THAN_KEY, wrong and with_rest > rest_of_key),
                )
                if raised
            ]
            rows.append(
                {
                    "item_id": item,
                    "option": option,
                    "is_key": not wrong,
                    "n": int(picks[asked].sum()),
                    "share": _share(picks[asked]),
                    "point_biserial": _correlation(picks[asked], score[asked]),
                    "flags": "; ".join(flags),
                    "share_low": shares[0],
                    "share_middle": shares[1],
                    "share_high": shares[2],
                    "point_biserial_rest": with_rest,
                }
            )
    return pd.DataFrame(rows)


def _share(picks: NDArray[np.bool_]) -> float:
    return float(picks.mean()) if picks.size else float("nan")


def _correlation(picks: NDArray[np.bool_], score: NDArray[np.float64]) -> float:
    """Correlation over those with a score; NaN where one of the two does not vary."""
    known = np.isfinite(score)
    x, y = picks[known].astype(np.float64), score[known]
    if x.size < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])
