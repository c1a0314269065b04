"""Signs of answers given without reading: one answer all along, a pattern, unlike all others, too little time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from irtbench.data.given import AnswersLike, as_answers
from irtbench.data.input_error import demand_choice, demand_share
from irtbench.data.shown import Shown

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
    answers = as_answers(answers).sort_values("respondent_id", kind="stable")
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
    texts, (group, respondents) = answers["answer"].fillna(""), pd.factorize(answers["respondent_id"])
    order = np.argsort(group, kind="stable")
    group, codes = group[order], np.where(texts == "", -1, pd.factorize(texts)[0])[order]
    longest = np.zeros(len(respondents))
    for period in PERIODS:
        repeats = (codes[period:] == codes[:-period]) & (group[period:] == group[:-period]) & (codes[period:] >= 0)
        start, stop = np.flatnonzero(np.diff(repeats, prepend=False, append=False)).reshape(-1, 2).T
        varied = (codes[start[:, None] + np.arange(1, period)] != codes[start, None]).any(axis=1)
        np.maximum.at(longest, group[start[varied]], (stop - start)[varied])
    return pd.Series(longest, index=respondents)


def peer_shares(answers: pd.DataFrame) -> pd.Series[float]:
    """Share of the other respondents to the item who gave the same answer, for each row.

    (n_ik - 1) / (n_i - 1) with n_ik answers k to item i and n_i in all; NaN where nobody else answered the item. The
    mean over a respondent's rows is the agreement with one of the others drawn at random for each item.
    """
    n_item = answers.groupby("item_id")["answer"].transform("size")
    n_same = answers.groupby(["item_id", "answer"])["answer"].transform("size")
    return (n_same - 1) / (n_item - 1).where(n_item > 1)


def peer_agreement(answers: AnswersLike) -> pd.Series[float]:
    """Mean of ``peer_shares`` over each respondent's answers; the index holds the respondents.

    Parameters
    ----------
    answers
        Long table ``respondent_id, item_id, answer``, or a wide one (`as_answers`); empty answers are left out.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> answers = pd.DataFrame(
    ...     {"i1": ["yes", "yes", "no", "yes"], "i2": ["no", "no", "no", "yes"], "i3": ["yes", "no", "no", None]},
    ...     index=["ann", "bob", "cy", "dee"],
    ... )
    >>> irtbench.peer_agreement(answers).round(2).to_dict()
    {'ann': 0.44, 'bob': 0.61, 'cy': 0.39, 'dee': 0.33}
    """
    answers = as_answers(answers)
    given = answers[answers["answer"].fillna("") != ""]
    return peer_shares(given).groupby(given["respondent_id"]).mean()


RapidMethod = Literal["normative", "mixture"]

MAD_OF_NORMAL = 0.6744897501960817  # median absolute deviation of a standard normal variable
MOST_SECONDS = 10.0  # a normative threshold is never longer (Wise & Ma, 2012)
FEWEST_TIMES = 50  # of an item, for two components to be distinguished
CLEAR_EVIDENCE = 10.0  # by which two components must lower the BIC (Raftery, 1995: very strong)
CLEAR_GAP = 2.0  # of two components, in pooled standard deviations of log seconds, for their crossing to be a threshold


def median_seconds(seconds: pd.DataFrame) -> pd.Series[float]:
    """Median time of each respondent over the items; the index holds the respondents."""
    return seconds.groupby("respondent_id")["seconds"].median()


def robust_time_limit(times: NDArray[np.float64], quantile: float) -> float:
    """Lower quantile of the times of people who read, whatever the share (below a half) of those who did not.

    exp(m + z_q s) with m the median of the log times, s their median absolute deviation / .6745 and z_q the standard
    normal quantile: the q quantile of a log-normal distribution whose parameters a tail of clickers does not move
    (Hampel, 1974, doi:10.1080/01621459.1974.10482962). If people's log times are normal, a share q of honest people
    lies below it.

    Parameters
    ----------
    times
        A time for each respondent; those that are NaN or 0 are left out.
    quantile
        q, in (0, .5).

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> round(irtbench.robust_time_limit(np.array([1.0, 12.0, 14.0, 15.0, 16.0, 18.0]), 0.05), 1)
    10.2
    """
    known = np.log(times[times > 0])
    if known.size == 0:
        return np.nan
    middle = np.median(known)
    deviation = np.median(np.abs(known - middle)) / MAD_OF_NORMAL
    return float(np.exp(middle + ndtri(quantile) * deviation))


@dataclass(frozen=True, eq=False)
class RapidGuesses(Shown, short="{rapid.sum} of {rapid:answer} rapid"):
    """Which answers came too fast for the item to have been read.

    Parameters
    ----------
    thresholds
        Seconds below which an answer is a rapid guess, by item; NaN where there is none.
    rapid
        For each row of the times, whether it is a rapid guess; a row without a time or a threshold is none.
    effort
        Response time effort of each respondent: share of the answers with a time and a threshold that are no rapid
        guesses (Wise & Kong, 2005); NaN without any.
    """

    thresholds: pd.Series[float]
    rapid: NDArray[np.bool_]
    effort: pd.Series[float]

    def table(self) -> pd.DataFrame:
        """One row a respondent: ``respondent_id, effort``."""
        return self.effort.rename("effort").rename_axis("respondent_id").reset_index()

    def by_item(self, seconds: pd.DataFrame) -> pd.DataFrame:
        """One row an item of the times: ``item_id, threshold, share_rapid``."""
        share = seconds.assign(rapid=self.rapid).groupby("item_id", sort=False)["rapid"].mean()
        table = self.thresholds.rename("threshold").to_frame().join(share.rename("share_rapid"))
        return table.rename_axis("item_id").reset_index()


def rapid_guesses(seconds: pd.DataFrame, *, method: RapidMethod = "normative", share: float = 0.1) -> RapidGuesses:
    """Tell rapid guesses from solution behaviour by response time, item by item.

    ``normative``: the threshold is a share of the item's mean time, ten seconds at most (Wise & Ma, 2012: NT10 with
    .1). ``mixture``: two normal distributions of log seconds, guesses and solutions (Schnipke & Scrams, 1997); the
    threshold is where they cross. Where one distribution does as well (BIC), or they are less than two standard
    deviations apart, or an item has fewer than 50 times, two kinds of answers cannot be distinguished: the item has no
    threshold.

    Parameters
    ----------
    seconds
        Long table ``respondent_id, item_id, seconds``, NaN where no time is known.
    method
        Which threshold.
    share
        Share of the item's mean time, in (0, 1), for ``normative``.

    Raises
    ------
    InputError
        If the share lies outside (0, 1).

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> seconds = pd.DataFrame({
    ...     "respondent_id": ["ann", "bob", "cy"] * 2, "item_id": ["i1"] * 3 + ["i2"] * 3,
    ...     "seconds": [12.0, 15.0, 0.8, 20.0, 17.0, 16.0],
    ... })
    >>> found = irtbench.rapid_guesses(seconds)
    >>> found
    <RapidGuesses: 1 of 6 answers rapid>
    >>> found.effort.to_dict()
    {'ann': 1.0, 'bob': 1.0, 'cy': 0.5}
    """
    demand_share("rapid guesses: share", share)
    demand_choice("rapid guesses: method", method, RapidMethod)
    known = seconds[seconds["seconds"].notna()]
    by_item = known.groupby("item_id", sort=False)["seconds"]
    if method == "normative":
        thresholds = (share * by_item.mean()).clip(upper=MOST_SECONDS)
    else:
        thresholds = pd.Series({item: _crossing(times.to_numpy()) for item, times in by_item}, dtype=np.float64)
    limit = seconds["item_id"].map(thresholds)
    rapid = seconds["seconds"] < limit
    judged = seconds["seconds"].notna() & limit.notna()
    effort = 1 - rapid.astype(np.float64).where(judged).groupby(seconds["respondent_id"]).mean()
    return RapidGuesses(thresholds, rapid.to_numpy(dtype=np.bool_), effort)


def _crossing(times: NDArray[np.float64]) -> float:
    """Where the densities of two components of the log times cross between their means; NaN if they are not apart."""
    from sklearn.mixture import GaussianMixture  # screening by other rules does not wait for it

    times = times[times > 0]
    if times.size < FEWEST_TIMES:
        return np.nan
    logs = np.log(times)[:, None]
    lowest = np.quantile(logs, 0.02)
    start = np.array([[lowest], [np.median(logs)]])
    mixture = GaussianMixture(2, means_init=start, max_iter=500, random_state=0).fit(logs)
    if mixture.bic(logs) > GaussianMixture(1).fit(logs).bic(logs) - CLEAR_EVIDENCE:
        return np.nan
    order = np.argsort(mixture.means_[:, 0])
    mean, deviation = mixture.means_[order, 0], np.sqrt(mixture.covariances_[order, 0, 0])
    if mean[1] - mean[0] < CLEAR_GAP * np.sqrt((deviation**2).mean()):
        return np.nan
    between = np.linspace(mean[0], mean[1], 401)
    slow = mixture.predict_proba(between[:, None])[:, order[1]]
    return float(np.exp(between[np.argmax(slow >= 0.5)]))
