"""Items in categories with their parameters: probabilities, information, abilities, simulation (NumPy only)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first, numbered
from irtbench.data.shown import Shown, counted
from irtbench.models.item_models.item_model import NUMPY, ItemModel
from irtbench.models.quadrature import normal_grid

MISSING = -1
MOST_CATEGORIES = 100
SCORING_NODES = normal_grid(121, bound=8.0)
DIFFERENCE = 1e-5  # of abilities, for derivatives
TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class CategoryParameters(Shown):
    """Items of one scale in categories: `ItemParameters` of more than right and wrong.

    Parameters
    ----------
    item_ids, models
        The items and their models.
    categories
        The responses that each item's categories stand for, the lowest first.
    steps_at
        Parameters on the scales without bounds that an `ItemModel` takes, shape (n_items, width); 0 behind the last of
        an item.
    n_free
        Number of parameters that are an item's own, shape (n_items,).
    """

    item_ids: tuple[str, ...]
    models: tuple[ItemModel, ...]
    categories: tuple[tuple[Any, ...], ...]
    steps_at: NDArray[np.float64]
    n_free: NDArray[np.int64]

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """Names of each item's parameters."""
        return tuple(
            tuple(name for name, _ in model.parameters(len(own), 1))
            for model, own in zip(self.models, self.categories, strict=True)
        )

    @property
    def parameters(self) -> NDArray[np.float64]:
        """As they are read, in the order of `names`, shape (n_items, width); 0 behind the last of an item."""
        found = np.zeros_like(self.steps_at)
        for row, own, model, names in zip(found, self.steps_at, self.models, self.names, strict=True):
            row[: len(names)] = model.told(own[: len(names), None], 1, NUMPY)[:, 0]
        return found

    def table(self) -> pd.DataFrame:
        """One row a parameter: ``item_id, model, n_categories, parameter, value``."""
        rows = [
            (item, model.name, len(own), name, value)
            for item, model, own, names, values in zip(
                self.item_ids, self.models, self.categories, self.names, self.parameters, strict=True
            )
            for name, value in zip(names, values, strict=False)
        ]
        return pd.DataFrame(rows, columns=["item_id", "model", "n_categories", "parameter", "value"])

    def probabilities(self, theta: ArrayLike) -> list[NDArray[np.float64]]:
        """Of each item's categories at each ability, shapes (n_theta, n_categories)."""
        at = np.atleast_1d(np.asarray(theta, dtype=np.float64))[None]
        return [
            np.exp(model.log_probabilities(own[: len(names), None], at, NUMPY)).T
            for model, own, names in zip(self.models, self.steps_at, self.names, strict=True)
        ]

    def expected_score(self, theta: ArrayLike) -> NDArray[np.float64]:
        """Expected category of each item, the lowest being 0, shape (n_theta, n_items)."""
        return np.stack([p @ np.arange(p.shape[1]) for p in self.probabilities(theta)], axis=1)

    def information(self, theta: ArrayLike) -> NDArray[np.float64]:
        """Fisher information of each item on ability, sum of P'^2 / P over categories, shape (n_theta, n_items).

        The derivatives are differences of the probabilities at abilities close by.
        """
        at = np.atleast_1d(np.asarray(theta, dtype=np.float64))
        above, here, below = (self.probabilities(at + step) for step in (DIFFERENCE, 0.0, -DIFFERENCE))
        rates = [(high - low) / (2 * DIFFERENCE) for high, low in zip(above, below, strict=True)]
        each = [(rate**2 / np.maximum(p, TINY)).sum(axis=1) for rate, p in zip(rates, here, strict=True)]
        return np.stack(each, axis=1)

    def scores(self, table: ArrayLike | pd.DataFrame) -> pd.DataFrame:
        """Ability of each respondent: ``respondent_id, theta, se, n_items``, posterior mean and standard deviation.

        The items are taken as known: where few respondents, or no more than there are items, told of them, standard
        errors are too small (of 40 respondents and 80 items errors were 1.8 times as large).
        The columns are these items', in any order where they have names; responses that no item has a category for are
        an error.
        """
        codes, respondents, _ = coded(table, self.item_ids, self.categories)
        joint = np.tile(SCORING_NODES.log_weights, (len(codes), 1))
        for column, p in zip(codes.T, self.probabilities(SCORING_NODES.nodes), strict=True):
            given = column != MISSING
            joint[given] += np.log(np.maximum(p, TINY)).T[column[given]]
        posterior = softmax(joint, axis=1)
        theta = posterior @ SCORING_NODES.nodes
        variance = posterior @ SCORING_NODES.nodes**2 - theta**2
        n = (codes != MISSING).sum(axis=1)
        return pd.DataFrame({"respondent_id": respondents, "theta": theta, "se": np.sqrt(variance), "n_items": n})

    def simulate(self, theta: ArrayLike, *, rng: np.random.Generator) -> pd.DataFrame:
        """Draw responses of respondents with these abilities, a column an item, as the data had them."""
        drawn = {}
        for item, own, p in zip(self.item_ids, self.categories, self.probabilities(theta), strict=True):
            above = rng.random(len(p))[:, None] > np.cumsum(p[:, :-1], axis=1)
            drawn[item] = np.array(own, dtype=object)[above.sum(axis=1)]
        return pd.DataFrame(drawn).infer_objects()

    def in_short(self) -> str:
        """Items and their models."""
        models = ", ".join(dict.fromkeys(model.name for model in self.models))
        return f"{counted(len(self.item_ids), 'item')} ({models})"


def coded(
    responses: ArrayLike | pd.DataFrame,
    item_ids: Sequence[str] | None,
    categories: Sequence[Sequence[Any]] | None,
    levels: Sequence[Any] | None = None,
) -> tuple[NDArray[np.int8], list[str], tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]]:
    """Categories as 0, 1, ... and -1 where missing, with the respondents, the items and what the categories stand for.

    `item_ids` and `categories` are those of a fit; None for what the responses have.
    """
    named = isinstance(responses, pd.DataFrame)
    table = responses if isinstance(responses, pd.DataFrame) else pd.DataFrame(np.asarray(responses))
    if table.empty:
        raise InputError("responses: none; expected a row a respondent and a column an item")
    names = [str(name) for name in table.columns] if named else list(numbered("item", table.shape[1]))
    table = table.set_axis(names, axis=1)
    if item_ids is not None:
        if not named and len(names) == len(item_ids):
            table = table.set_axis(list(item_ids), axis=1)
        if lacking := [item for item in item_ids if item not in table.columns]:
            raise InputError(f"responses: no column of item {name_first(lacking)}; expected one for each item")
        table = table[list(item_ids)]
    known: list[tuple[Any, ...]] = []
    codes = np.full(table.shape, MISSING, dtype=np.int8)
    for j, item in enumerate(table.columns):
        values = table.iloc[:, j]
        present = set(values.dropna().unique().tolist())
        expected = list(levels) if levels is not None else None if categories is None else list(categories[j])
        if expected is None:
            if wrong := [value for value in present if not isinstance(value, int | float | np.number)]:
                raise InputError(f"responses: item {item}: {wrong[0]!r} is no number; expected numbers, or levels")
            expected = sorted(present)
        if unknown := present - set(expected):
            raise InputError(
                f"responses: item {item}: {sorted(map(str, unknown))[0]} is none of its categories; expected "
                f"{name_first(expected)}"
            )
        own = tuple(value for value in expected if categories is not None or value in present)
        if len(own) > MOST_CATEGORIES:
            raise InputError(f"responses: item {item}: {len(own)} categories; expected at most {MOST_CATEGORIES}")
        codes[:, j] = pd.Categorical(values, categories=list(own)).codes
        known.append(own)
    respondents = [str(name) for name in table.index] if named else list(numbered("respondent", len(table)))
    return codes, respondents, (tuple(table.columns), tuple(known))
