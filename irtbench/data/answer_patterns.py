"""Answers given without reading: one answer all along, or a short pattern over and over."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.given import AnswersLike, as_answers

PERIODS = (2, 3, 4)


def longest_run(answers: AnswersLike) -> pd.Series[float]:
    """Longest run of one and the same answer (long string) of each respondent; an empty answer ends a run.

    Parameters
    ----------
    answers
        Long table ``respondent_id, item_id, answer`` with each respondent's rows in the order they were answered, or a
        wide one with the items in that order (`as_answers`).

    Returns
    -------
    Series
        Lengths by respondent, 0 where all answers are empty (Johnson, 2005, doi:10.1016/j.jrp.2004.09.009).

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> answers = pd.DataFrame([list("abab"), list("aaab")], index=["ann", "bob"], columns=["i1", "i2", "i3", "i4"])
    >>> irtbench.longest_run(answers).to_dict()
    {'ann': 1.0, 'bob': 3.0}
    """
    answers = as_answers(answers)
    respondent, answer = answers["respondent_id"], answers["answer"].fillna("")
    continues = (respondent == respondent.shift()) & (answer == answer.shift())
    lengths = (answer != "").astype(np.float64).groupby([respondent, (~continues).cumsum()]).sum()
    return lengths.groupby(level=0).max()


def longest_pattern(answers: AnswersLike) -> pd.Series[float]:
    """Longest run of answers that a pattern of two, three or four answers foretells, of each respondent.

    An answer is foretold by a pattern of length k if it equals the one k places before, and so did all between; answers
    that are all the same are no pattern but a run (``longest_run``). a b a b a b has a run of 4: the first two begin
    the pattern. For people who read, in a random order of items, an answer is foretold with probability sum_k p_k^2 of
    the shares of the answers, and long runs are as rare as long runs of that coin.

    Parameters
    ----------
    answers
        As for ``longest_run``.

    Returns
    -------
    Series
        Numbers of answers by respondent, 0 where there is no pattern.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> answers = pd.DataFrame([list("abab"), list("aaab")], index=["ann", "bob"], columns=["i1", "i2", "i3", "i4"])
    >>> irtbench.longest_pattern(answers).to_dict()
    {'ann': 2.0, 'bob': 0.0}
    """
    answers = as_answers(answers)
    codes = pd.Series(pd.factorize(answers["answer"].fillna(""))[0], index=answers.index)
    codes = codes.where(answers["answer"].fillna("") != "", -1)
    return pd.Series(
        {
            respondent: float(max(_foretold(rows.to_numpy(), period) for period in PERIODS))
            for respondent, rows in codes.groupby(answers["respondent_id"], sort=False)
        },
        dtype=np.float64,
    )


def _foretold(codes: NDArray[np.int64], period: int) -> int:
    """Longest run of codes that equal the one a period before, of such as are not all the same; -1 equals nothing."""
    repeats = np.concatenate(([False], (codes[period:] == codes[:-period]) & (codes[period:] >= 0), [False]))
    ends = np.flatnonzero(np.diff(repeats.astype(np.int8)))
    longest = 0
    for start, stop in zip(ends[::2], ends[1::2], strict=True):
        # codes[start : start + period] is what is repeated
        if (codes[start : start + period] != codes[start]).any():
            longest = max(longest, int(stop - start))
    return longest
