"""Booklets: which items each respondent is asked, in which order, with attention checks among them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError


def deal_items(n_items: int, n_each: int, n_booklets: int, *, rng: np.random.Generator) -> NDArray[np.int64]:
    """Deal items to booklets so that items, and pairs of items, come about equally often; shape (n_booklets, n_each).

    Every booklet takes the items dealt least often so far, and of these, one after the other, the one that met those
    already in the booklet least often; ties are drawn. Numbers of booklets of any two items differ by one at most: a
    nearly balanced incomplete block design (van der Linden, Veldkamp & Carlson, 2004).

    Parameters
    ----------
    n_items, n_each, n_booklets
        Items, items of a booklet, booklets.
    rng
        Breaks ties.

    Raises
    ------
    InputError
        If a booklet has fewer than one item or more than there are, or there is no booklet.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> dealt = irtbench.deal_items(6, 3, 4, rng=np.random.default_rng(1))
    >>> np.bincount(dealt.ravel()).tolist()  # each item in two of the four booklets
    [2, 2, 2, 2, 2, 2]
    """
    if not 1 <= n_each <= n_items or n_booklets < 1:
        raise InputError(
            f"booklets: expected at least 1 booklet and 1 to {n_items} items each but got {n_booklets} and {n_each}"
        )
    dealt = np.zeros(n_items, dtype=np.int64)
    together = np.zeros((n_items, n_items), dtype=np.int64)
    booklets = np.empty((n_booklets, n_each), dtype=np.int64)
    for booklet in booklets:
        met = np.zeros(n_items, dtype=np.int64)
        free = np.ones(n_items, dtype=np.bool_)
        for k in range(n_each):
            # least dealt first, then least met; the fraction breaks ties
            cost = np.where(free, dealt * (together.max(initial=0) * n_each + 1) + met + rng.random(n_items), np.inf)
            booklet[k] = item = int(cost.argmin())
            free[item] = False
            met += together[item]
        together[np.ix_(booklet, booklet)] += 1
        dealt[booklet] += 1
    return booklets


def make_booklets(
    item_ids: Sequence[str],
    *,
    n_booklets: int,
    n_each: int | None = None,
    checks: Sequence[str] = (),
    n_checks: int | None = None,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Booklets with an order of their own each, and attention checks spread over them.

    Items are dealt by ``deal_items`` and put in random order. A booklet of L places is cut into as many stretches as
    there are checks, as equal as can be; a check stands at a random place of each, never first.

    Parameters
    ----------
    item_ids
        Items that are no checks.
    n_booklets
        Booklets, one a respondent (or a few).
    n_each
        Items of a booklet, checks left out; None for all.
    checks
        Attention checks.
    n_checks
        Checks of a booklet, drawn from them; None for all.
    rng
        Deals and mixes.

    Returns
    -------
    DataFrame
        ``booklet`` (from 1), ``position`` (from 1), ``item_id``, ``attention``.

    Raises
    ------
    InputError
        If there are fewer checks than wanted, a name is repeated, or as ``deal_items``.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> irtbench.make_booklets(["i1", "i2", "i3"], n_booklets=2, n_each=2, checks=["check"], rng=rng)
       booklet  position item_id  attention
    0        1         1      i2      False
    1        1         2      i3      False
    2        1         3   check       True
    3        2         1      i3      False
    4        2         2   check       True
    5        2         3      i1      False
    """
    n_each = len(item_ids) if n_each is None else n_each
    n_checks = len(checks) if n_checks is None else n_checks
    if not 0 <= n_checks <= len(checks):
        raise InputError(f"booklets: {n_checks} attention checks each are wanted but there are {len(checks)}")
    if len({*item_ids, *checks}) < len(item_ids) + len(checks):
        raise InputError("booklets: item names must be unique, those of attention checks too")
    places = n_each + n_checks
    if n_checks > n_each:
        raise InputError(f"booklets: {n_checks} attention checks among {n_each} items; expected no more than items")
    parts = []
    for number, dealt in enumerate(deal_items(len(item_ids), n_each, n_booklets, rng=rng), start=1):
        ends = np.linspace(1, places, n_checks + 1).round().astype(np.int64)
        at = np.array([rng.integers(low, high) for low, high in pairwise(ends)], dtype=np.int64)
        attention = np.zeros(places, dtype=np.bool_)
        attention[at] = True
        order = np.empty(places, dtype=object)
        order[~attention] = np.array(item_ids, dtype=object)[rng.permutation(dealt)]
        order[attention] = rng.permutation(np.array(checks, dtype=object))[:n_checks]
        parts.append(
            pd.DataFrame(
                {"booklet": number, "position": np.arange(1, places + 1), "item_id": order, "attention": attention}
            )
        )
    return pd.concat(parts, ignore_index=True)
