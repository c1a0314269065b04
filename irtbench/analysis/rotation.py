"""Loadings turned to labels: does each factor carry the items of one label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes
from scipy.optimize import minimize

from irtbench.data.input_error import InputError
from irtbench.data.shown import Shown


@dataclass(frozen=True, eq=False)
class RotatedLoadings(Shown):
    """Loadings turned so that each factor carries the items of one label as far as they allow.

    Parameters
    ----------
    item_ids, labels
        The items and the label of each.
    factors
        The labels the factors are turned to, in order.
    loadings
        Shape (n_items, n_factors).
    correlations
        Of the factors, shape (n_factors, n_factors).
    """

    item_ids: tuple[str, ...]
    labels: tuple[str, ...]
    factors: tuple[str, ...]
    loadings: NDArray[np.float64]
    correlations: NDArray[np.float64]

    @property
    def follows(self) -> NDArray[np.bool_]:
        """Whether the item's largest loading is on the factor of its label, shape (n_items,)."""
        own = np.array([self.factors.index(label) for label in self.labels])
        return np.asarray(self.loadings.argmax(axis=1) == own)

    def table(self) -> pd.DataFrame:
        """One row an item: label, loadings, whether the largest is on the factor of its label."""
        table = pd.DataFrame({"item_id": self.item_ids, "label": self.labels})
        for name, column in zip(self.factors, self.loadings.T, strict=True):
            table[f"loading_{name}"] = column
        return table.assign(follows_label=self.follows)

    def by_label(self) -> pd.DataFrame:
        """One row a label: number of items, mean loading on each factor, share of items that follow the label."""
        table = self.table().drop(columns="item_id").rename(columns={"follows_label": "share_following"})
        means = table.groupby("label").mean()
        means.insert(0, "n_items", table.groupby("label").size())
        return means.reset_index()


def rotate_to_labels(loadings: NDArray[np.float64], item_ids: Sequence[str], labels: Sequence[str]) -> RotatedLoadings:
    """Turn loadings towards the pattern in which each item loads on the factor of its label alone.

    The target gives an item the whole of its communality on the factor of its label and 0 elsewhere. Factors are
    first turned as one rigid body, by Procrustes' rotation, which finds the best of all; from there each may turn by
    itself, so that abilities may correlate (Browne, 2001).

    Parameters
    ----------
    loadings
        On uncorrelated factors, shape (n_items, n_factors).
    item_ids, labels
        The items and the label of each.

    Raises
    ------
    InputError
        If there are not as many labels as factors.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> loadings = np.array([[0.6, 0.6], [0.5, 0.5], [0.6, -0.6], [0.5, -0.5]])
    >>> found = irtbench.rotate_to_labels(loadings, ["i1", "i2", "i3", "i4"], ["a", "a", "b", "b"])
    >>> found.loadings.max(axis=1).round(2)
    array([0.85, 0.71, 0.85, 0.71])
    >>> found.table()[["item_id", "label", "follows_label"]]
      item_id label  follows_label
    0      i1     a           True
    1      i2     a           True
    2      i3     b           True
    3      i4     b           True
    """
    names = tuple(sorted(set(labels)))
    if len(names) != loadings.shape[1]:
        raise InputError(f"rotation: {len(names)} labels for {loadings.shape[1]} factors; expected as many")
    own = np.array([[label == name for name in names] for label in labels])
    target = own * np.sqrt((loadings**2).sum(axis=1, keepdims=True))
    rigid = loadings @ orthogonal_procrustes(loadings, target)[0]

    def turned(axes: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Loadings L = A T'^-1 on axes T of length 1, and the correlations T'T."""
        turn = axes.reshape(len(names), -1)
        turn = turn / np.linalg.norm(turn, axis=0)
        return rigid @ np.linalg.inv(turn).T, turn.T @ turn

    found = minimize(lambda axes: float(((turned(axes)[0] - target) ** 2).sum()), np.eye(len(names)).ravel(), tol=1e-12)
    return RotatedLoadings(tuple(item_ids), tuple(labels), names, *turned(found.x))
