"""Pairs of a stated probability and what happened, 1 or 0, checked before anything is computed from them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from irtbench.data.input_error import InputError


def check_pairs(predicted: ArrayLike, labels: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Probabilities and labels as arrays of one shape (n_pairs,).

    Raises
    ------
    InputError
        If the lengths differ, there is no pair, a probability lies outside [0, 1], or a label is neither 1 nor 0.
    """
    q, y = np.asarray(predicted, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    if q.ndim != 1 or q.shape != y.shape:
        raise InputError(f"calibration: probabilities of shape {q.shape} do not fit labels of shape {y.shape}")
    if q.size == 0:
        raise InputError("calibration: expected at least one pair of probability and label but there is none")
    outside = ~((q >= 0) & (q <= 1))
    if outside.any():
        first = int(outside.argmax())
        raise InputError(f"calibration: pair {first + 1}: expected a probability in [0, 1] but got {q[first]:g}")
    wrong = ~((y == 0) | (y == 1))
    if wrong.any():
        first = int(wrong.argmax())
        raise InputError(f"calibration: pair {first + 1}: expected the label 1 or 0 but got {y[first]:g}")
    return q, y


def check_clusters(clusters: ArrayLike | None, n_pairs: int) -> NDArray[np.int64]:
    """Number from 0 of the item each pair belongs to, shape (n_pairs,); each pair is an item if there are none.

    Raises
    ------
    InputError
        If there are not as many clusters as pairs.
    """
    if clusters is None:
        return np.arange(n_pairs)
    item: NDArray[np.int64] = pd.factorize(np.asarray(clusters), sort=True)[0]
    if item.shape != (n_pairs,):
        raise InputError(f"calibration: {item.size} clusters for {n_pairs} pairs; expected one each")
    return item


def concatenate_classes(
    probabilities: ArrayLike, labels: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Turn predictions of several classes into pairs: each class of each item is one, with the label 1 if it is right.

    Parameters
    ----------
    probabilities
        Shape (n_items, n_classes), each row of sum 1.
    labels
        Position of the right class of each item, shape (n_items,).

    Returns
    -------
    predicted, labels, clusters
        Shape (n_items * n_classes,) each; the last is the item a pair belongs to.

    Raises
    ------
    InputError
        If the shapes do not agree, a row does not sum to 1 (within .001), or a label is no class.

    Examples
    --------
    >>> import irtbench
    >>> predicted, labels, item = irtbench.concatenate_classes([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]], [0, 2])
    >>> predicted, labels, item
    (array([0.7, 0.2, 0.1, 0.3, 0.3, 0.4]), array([1., 0., 0., 0., 0., 1.]), array([0, 0, 0, 1, 1, 1]))
    """
    q, right = np.asarray(probabilities, dtype=np.float64), np.asarray(labels)
    if q.ndim != 2 or right.shape != q.shape[:1]:
        raise InputError(f"calibration: probabilities of shape {q.shape} do not fit labels of shape {right.shape}")
    wrong = ~np.isin(right, np.arange(q.shape[1]))
    if wrong.any():
        first = int(wrong.argmax())
        raise InputError(
            f"calibration: item {first + 1}: expected a class from 0 to {q.shape[1] - 1}, got {right[first]}"
        )
    astray = ~(np.abs(q.sum(axis=1) - 1) <= 1e-3)
    if astray.any():
        first = int(astray.argmax())
        raise InputError(
            f"calibration: item {first + 1}: probabilities of all classes must sum to 1 but sum to {q[first].sum():g}"
        )
    is_right = right[:, None] == np.arange(q.shape[1])
    return q.ravel(), is_right.ravel().astype(np.float64), np.repeat(np.arange(len(q)), q.shape[1])
