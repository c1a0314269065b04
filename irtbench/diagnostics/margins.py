"""Which shares of right responses to one and two items the data hold, and how many respondents each rests on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from irtbench.data.responses import ResponseMatrix
from irtbench.diagnostics.moments import Moments

FEWEST_TOGETHER = 20  # respondents who answered both items of a pair
LEAST_VARIANCE = 1.0  # of the sum of (x_k - P_k)(x_l - P_l) over them, or their score hangs on one rare answer
MOST_COMPLETE_ITEMS = 1_000  # with complete responses, of which all pairs are used
MOST_MOMENTS = 4_100  # otherwise; a matrix of 134 MB
MOST_SCORES = 1_000, 2_000  # of incomplete responses: all of 44 items, four of each item up to 500


@dataclass(frozen=True, eq=False)
class Margins:
    """The singles and pairs of items on which limited-information statistics rest.

    Parameters
    ----------
    chosen
        Their positions among all moments (see `Moments`), singles first, shape (n_chosen,).
    n
        Respondents who answered the items of each, shape (n_chosen,).
    pairs
        First and second item of the pairs, shape (2, n_pairs).
    n_pairs_left_out
        Pairs that too few respondents answered together.
    n_pairs_not_drawn
        Pairs beyond what can be computed; those used were drawn at random.
    """

    chosen: NDArray[np.intp]
    n: NDArray[np.float64]
    pairs: NDArray[np.intp]
    n_pairs_left_out: int
    n_pairs_not_drawn: int

    @classmethod
    def of(cls, responses: ResponseMatrix, moments: Moments) -> Margins:
        """All margins of complete responses to no more than 1,000 items; otherwise those that can be computed.

        Pairs with too few respondents are left out; of the others as many are drawn as can be computed.
        """
        n_items = responses.n_items
        first, second = np.triu_indices(n_items, 1)
        if responses.is_complete and n_items <= MOST_COMPLETE_ITEMS:
            chosen = np.arange(moments.n_moments)
            n = np.full(chosen.size, float(responses.n_respondents))
            return cls(chosen, n, np.stack([first, second]), 0, 0)
        seen = responses.observed.astype(np.float64)
        n_together = seen.T @ seen
        singles = np.flatnonzero(np.diagonal(n_together) > 0)
        enough = n_together >= FEWEST_TOGETHER
        if not responses.is_complete:
            size = moments.deviation**2
            enough &= n_together * moments.joint_spread * np.outer(size, size) >= LEAST_VARIANCE
        pairs = np.flatnonzero(enough[first, second])
        left_out = first.size - pairs.size
        most_scores = min(max(MOST_SCORES[0], 4 * n_items), MOST_SCORES[1])
        most = max((MOST_MOMENTS if responses.is_complete else most_scores) - singles.size, 0)
        not_drawn = max(pairs.size - most, 0)
        if not_drawn:
            pairs = np.sort(np.random.default_rng(0).choice(pairs, most, replace=False))
        used = np.stack([first[pairs], second[pairs]])
        n = np.concatenate([np.diagonal(n_together)[singles], n_together[used[0], used[1]]])
        return cls(np.concatenate([singles, n_items + pairs]), n, used, left_out, not_drawn)

    @property
    def n_pairs(self) -> int:
        """Number of pairs used."""
        return int(self.pairs.shape[1])

    @property
    def n_per_pair(self) -> float:
        """Mean number of respondents of a pair; NaN without any."""
        return float(self.n[-self.n_pairs :].mean()) if self.n_pairs else np.nan
