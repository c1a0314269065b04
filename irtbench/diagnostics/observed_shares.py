"""The shares of right responses to every item among groups of respondents of like ability."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError
from irtbench.data.responses import share_correct
from irtbench.data.shown import Shown, counted
from irtbench.diagnostics.checks import check_theta


@dataclass(frozen=True, eq=False)
class ObservedShares(Shown):
    """Right responses to each item by group of ability; all arrays have shape (n_groups, n_items).

    Parameters
    ----------
    item_ids
        The items.
    theta
        Mean ability of those of the group who answered the item; NaN where nobody did.
    n_correct, n
        Right responses of the group, and all its responses.
    """

    item_ids: tuple[str, ...]
    theta: NDArray[np.float64]
    n_correct: NDArray[np.int64]
    n: NDArray[np.int64]

    @property
    def share(self) -> NDArray[np.float64]:
        """Share right of each group, NaN where nobody answered."""
        return share_correct(self.n_correct, self.n)

    def table(self) -> pd.DataFrame:
        """One row an item and group, the least able group first."""
        n_groups, n_items = self.n.shape
        return pd.DataFrame(
            {
                "item_id": np.repeat(self.item_ids, n_groups),
                "group": np.tile(np.arange(1, n_groups + 1), n_items),
                "theta": self.theta.T.ravel(),
                "n": self.n.T.ravel(),
                "share": self.share.T.ravel(),
            }
        )

    def in_short(self) -> str:
        """Items and groups."""
        return f"{counted(len(self.item_ids), 'item')}, {counted(self.n.shape[0], 'group')}"


def observed_shares(responses: ResponsesLike, theta: NDArray[np.float64], *, n_groups: int = 10) -> ObservedShares:
    """Shares right among groups of respondents, of as equal size as can be, in order of ability.

    Of several trials each is a response. Abilities estimated from the same responses hold a little of the item itself.

    Parameters
    ----------
    responses
        Graded responses.
    theta
        Abilities, shape (n_respondents,). Respondents of equal ability stay in their order.
    n_groups
        Groups, of which each needs a respondent; fewer where there are fewer respondents.

    Raises
    ------
    InputError
        If theta has another shape or is not finite, or there is no group.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> answers = [[0, 0], [0, None], [1, 1], [1, 1]]
    >>> observed_shares(answers, np.array([-1.0, -0.5, 0.5, 1.0]), n_groups=2).table()
      item_id  group  theta  n  share
    0   item1      1  -0.75  2    0.0
    1   item1      2   0.75  2    1.0
    2   item2      1  -1.00  1    0.0
    3   item2      2   0.75  2    1.0
    """
    responses = as_responses(responses)
    theta = check_theta(theta, responses)
    if n_groups < 1:
        raise InputError(f"observed shares: expected at least one group but got {n_groups}")
    parts = np.array_split(np.argsort(theta, kind="stable"), min(n_groups, theta.size))
    right, trials, seen = np.nan_to_num(responses.correct), responses.n_trials, responses.observed
    n_seen = np.array([seen[part].sum(axis=0) for part in parts])
    total = np.array([theta[part] @ seen[part] for part in parts])
    return ObservedShares(
        item_ids=responses.item_ids,
        theta=np.divide(total, n_seen, out=np.full(total.shape, np.nan), where=n_seen > 0),
        n_correct=np.array([right[part].sum(axis=0) for part in parts], dtype=np.int64),
        n=np.array([trials[part].sum(axis=0) for part in parts], dtype=np.int64),
    )
