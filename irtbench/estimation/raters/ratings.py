"""Ratings, coded: respondent, item, rater and category of each; and which parameters their model has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import refuse_any, refuse_first
from irtbench.data.links import linked
from irtbench.data.responses import name_first

Ints = NDArray[np.int64]
COLUMNS = ("respondent_id", "item_id", "rater_id", "score")
MOST_CATEGORIES = 100
FEW_RATINGS = 10  # of a rater, below which little is known of it


@dataclass(frozen=True)
class RatingModel:
    """Which parameters there are: see `fit_raters`."""

    curve: str = "gpcm"
    item_slopes: bool = False
    consistency: bool = False
    rater_steps: bool = False
    answer_effect: bool = False


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings sorted by respondent; arrays have shape (n_ratings,).

    Parameters
    ----------
    respondent_ids, item_ids, rater_ids
        Names, in the order in which they occur.
    categories
        The scores that each item has, the lowest first.
    respondents, items, raters
        Respondent, item and rater of each rating, as places in the names.
    codes
        Place of the score among the categories of its item.
    cells, cell_names
        Rater and group of each rating, as places in these pairs; all 0 without groups.
    """

    respondent_ids: tuple[str, ...]
    item_ids: tuple[str, ...]
    rater_ids: tuple[str, ...]
    categories: tuple[tuple[float, ...], ...]
    respondents: Ints
    items: Ints
    raters: Ints
    codes: Ints
    cells: Ints
    cell_names: tuple[tuple[int, str], ...] = ()

    @classmethod
    def of(cls, table: pd.DataFrame, interaction: str | None = None) -> Ratings:
        """Check and code a long table; see `fit_raters` for the errors."""
        wanted = list(dict.fromkeys([*COLUMNS, *([] if interaction is None else [interaction])]))
        lacking, there = [name for name in wanted if name not in table.columns], list(map(str, table.columns))
        refuse_any((
            (interaction in ("rater_id", "score"),
             f"raters: interaction {interaction}; expected a column of groups that raters may differ on"),
            (bool(lacking), f"raters: no column {name_first(lacking)} among {name_first(there, most=12)}; "
             f"expected {', '.join(wanted)}"),
        ))  # fmt: skip
        given = table[wanted]
        scores = pd.to_numeric(given["score"], errors="coerce")
        wrong = (scores.isna() & given["score"].notna() | np.isinf(scores)).to_numpy()
        refuse_first(
            wrong, lambda k: f"raters: score '{given['score'].iloc[k]}' is no number; expected numbers in order"
        )
        rated = given.assign(score=scores.astype(np.float64))[scores.notna().to_numpy()]
        coded = {name: named(rated[name]) for name in wanted if name != "score"}
        lost = {name: int((places < 0).sum()) for name, (places, _) in coded.items()}
        none = (rated.empty, "raters: there is no score; expected a row a rating")
        refuse_any(
            [none, *((n > 0, f"raters: {n} ratings without {name}; expected one each") for name, n in lost.items())]
        )
        (respondent, _), (item, items), (rater, _) = (coded[name] for name in COLUMNS[:3])
        refuse_first(
            pd.DataFrame({"respondent": respondent, "item": item, "rater": rater}).duplicated().to_numpy(),
            lambda k: (
                "raters: rater {2} rated item {1} of respondent {0} more than once; expected one rating of each; give "
                "repeats an item of their own, or their mean"
            ).format(*(rated[name].iloc[k] for name in COLUMNS[:3])),
        )
        by_item = rated["score"].groupby(item)
        categories = tuple(tuple(np.unique(own).tolist()) for _, own in by_item)
        codes = by_item.rank("dense").to_numpy(dtype=np.int64) - 1
        alike, many = (
            name_first([items[j] for j, own in enumerate(categories) if least <= len(own) <= most])
            for least, most in ((0, 1), (MOST_CATEGORIES + 1, np.inf))
        )
        refuse_any((
            (alike != "", f"raters: item {alike}: all scores are the same; expected two or more"),
            (many != "", f"raters: item {many} has more than {MOST_CATEGORIES} scores; round them"),
        ))  # fmt: skip
        cells, names = np.zeros(len(rated), dtype=np.int64), tuple[tuple[int, str], ...]()
        if interaction is not None:
            groups, labels = coded[interaction]
            pairs, cells = np.unique(np.stack([rater, groups]), axis=1, return_inverse=True)
            names = tuple((int(r), str(labels[g])) for r, g in pairs.T)
        order = np.lexsort((rater, item, respondent))
        return cls(
            coded["respondent_id"][1], items, coded["rater_id"][1], categories, respondent[order], item[order],
            rater[order], codes[order], cells.reshape(-1)[order], names,
        )  # fmt: skip

    @property
    def n(self) -> int:
        """How many ratings there are."""
        return len(self.codes)

    @cached_property
    def n_steps(self) -> Ints:
        """Categories of each item but the lowest, shape (n_items,)."""
        return np.array([len(own) - 1 for own in self.categories])

    @cached_property
    def answers(self) -> tuple[Ints, int]:
        """The answer that each rating is of (respondent and item), as a number, and how many answers there are."""
        found, places = np.unique(self.respondents * len(self.item_ids) + self.items, return_inverse=True)
        return places.reshape(-1), len(found)

    @cached_property
    def meetings(self) -> tuple[Ints, Ints]:
        """The respondent and the rater of each pair of them that has a rating."""
        return np.divmod(np.unique(self.respondents * len(self.rater_ids) + self.raters), len(self.rater_ids))

    def joined_by(self, places: Ints) -> Ints:
        """The connected part that each rater is of, by what they share, shape (n_raters,)."""
        return linked(np.arange(len(self.rater_ids)), places, self.raters)

    @cached_property
    def item_parts(self) -> Ints:
        """The set of raters who share items, in however many steps, that each is of."""
        return self.joined_by(self.items)

    @cached_property
    def parts(self) -> Ints:
        """The part that each rater is of, the largest 0: joined by common respondents and by common items."""
        joined = np.stack([self.joined_by(self.respondents), self.item_parts])
        parts = np.unique(joined, axis=1, return_inverse=True)[1].reshape(-1)
        order = np.argsort(-np.bincount(parts), kind="stable")
        return np.asarray(np.argsort(order)[parts])

    @cached_property
    def useless(self) -> str:
        """What may be done with raters of `FEW_RATINGS` or more who gave one score always; empty without any."""
        n, sums, squares = (np.bincount(self.raters, self.codes**k) for k in range(3))
        who = [self.rater_ids[r] for r in np.flatnonzero((n >= FEW_RATINGS) & (n * squares == sums**2))]
        return f"leave out rater {name_first(who)}, who gave one score always" if who else ""

    def shares(self, item: int) -> NDArray[np.float64]:
        """Of each category of an item."""
        own = self.codes[self.items == item]
        return np.bincount(own, minlength=self.n_steps[item] + 1) / len(own)

    @property
    def given(self) -> NDArray[np.float64]:
        """The scores, shape (n_ratings,)."""
        first = np.cumsum(self.n_steps + 1) - self.n_steps - 1
        return np.concatenate(self.categories)[first[self.items] + self.codes]


def named(column: pd.Series[Any]) -> tuple[Ints, tuple[str, ...]]:
    """Places among the names, -1 where there is none, and the names as texts, in the order in which they occur."""
    places, values = pd.factorize(column)
    again, names = pd.factorize(np.array([str(value) or None for value in values], dtype=object))
    return np.where(places < 0, -1, again[places]).astype(np.int64), tuple(names)
