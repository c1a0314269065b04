"""Coreference as links of mentions to antecedents (Nguyen & O'Connor 2015, section 5.1): samples, clusters, names."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from irtbench.data.input_error import InputError


def demand_probabilities(probability: NDArray[np.float64], what: str, *, exact: bool) -> None:
    """Refuse rows that are no distribution: a negative value, or a sum that is not (or, unless exact, is above) 1."""
    total = probability.sum(axis=1)
    wrong = ~((probability >= 0).all(axis=1) & (total <= 1 + 1e-6) & (not exact or total >= 1 - 1e-6))
    if wrong.any():
        first = int(wrong.argmax())
        expected = "of sum 1" if exact else "of sum 1 at most"
        raise InputError(f"{what} {first + 1}: expected probabilities {expected} but they sum to {total[first]:g}")


def draw_positions(probability: NDArray[np.float64], n_samples: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Positions drawn from one distribution, shape (n_samples,)."""
    steps = np.cumsum(probability)
    return np.searchsorted(steps, rng.random(n_samples) * steps[-1], side="right").clip(max=probability.size - 1)


#: No entity: the event did not happen, or the cluster has no named mention.
NOBODY = -1


def draw_antecedents(
    probability: NDArray[np.float64], *, n_samples: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw an antecedent for every mention of a document, each independently of the others.

    Parameters
    ----------
    probability
        Shape (n_mentions, n_mentions): in row i, at column j < i the probability that mention j is the antecedent of
        mention i, at column i that mention i begins a new entity, beyond it 0; each row of sum 1.
    n_samples
        Samples to draw.
    rng
        Draws them.

    Returns
    -------
    numpy.ndarray
        Shape (n_samples, n_mentions): the antecedent's position, or the mention's own if it begins an entity.

    Raises
    ------
    InputError
        If the matrix is not square, a mention is linked to a later one, or a row is no distribution.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> probability = np.array([[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.0, 0.8, 0.2]])
    >>> irtbench.draw_antecedents(probability, n_samples=3, rng=np.random.default_rng(1))
    array([[0, 1, 2],
           [0, 0, 1],
           [0, 0, 1]])
    """
    probability = np.asarray(probability, dtype=np.float64)
    n_mentions = len(probability)
    if probability.shape != (n_mentions, n_mentions):
        raise InputError(f"antecedents: expected a square matrix of probabilities but got shape {probability.shape}")
    if np.triu(probability, k=1).any():
        raise InputError("antecedents: expected probabilities of earlier mentions only, above the diagonal is not 0")
    demand_probabilities(probability, "antecedents: mention", exact=True)
    drawn = np.empty((n_samples, n_mentions), dtype=np.int64)
    for mention, row in enumerate(probability):
        drawn[:, mention] = draw_positions(row[: mention + 1], n_samples, rng)
    return drawn


def antecedent_clusters(antecedents: NDArray[np.int64]) -> NDArray[np.int64]:
    """Entities that antecedents make: the connected components of mentions.

    Parameters
    ----------
    antecedents
        As ``draw_antecedents`` gives them, shape (n_samples, n_mentions).

    Returns
    -------
    numpy.ndarray
        Shape (n_samples, n_mentions): the position of the first mention of the cluster each mention is in.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> irtbench.antecedent_clusters(np.array([[0, 0, 1], [0, 1, 1]]))
    array([[0, 0, 0],
           [0, 1, 1]])
    """
    n_samples, n_mentions = antecedents.shape
    clusters = np.empty_like(antecedents)
    # all samples of a batch are one graph without links between them
    batch = max(1, 2_000_000 // max(1, n_mentions))
    for start in range(0, n_samples, batch):
        part = antecedents[start : start + batch]
        offset = n_mentions * np.arange(len(part))[:, None]
        mention = np.arange(part.size)
        link = (part + offset).ravel()
        graph = coo_array((np.ones(part.size, dtype=np.bool_), (mention, link)), shape=(part.size, part.size))
        _, component = connected_components(graph, directed=False)
        _, first = np.unique(component, return_index=True)
        clusters[start : start + batch] = first[component].reshape(part.shape) - offset
    return clusters


def link_probabilities(clusters: NDArray[np.int64]) -> NDArray[np.float64]:
    """Share of the samples in which two mentions are in one cluster, shape (n_mentions, n_mentions).

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> irtbench.link_probabilities(np.array([[0, 0, 2], [0, 1, 1]]))
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0.5],
           [0. , 0.5, 1. ]])
    """
    together = np.zeros((clusters.shape[1], clusters.shape[1]), dtype=np.int64)
    for sample in clusters:
        together += sample[:, None] == sample
    return together / len(clusters)


def link_pairs(
    link_probability: NDArray[np.float64], truth: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pairs of mentions as probability and label, for ``calibration``; those of several documents are concatenated.

    Parameters
    ----------
    link_probability
        As ``link_probabilities`` gives it.
    truth
        The true cluster of each mention, shape (n_mentions,).

    Returns
    -------
    predicted, labels
        For each of the n (n - 1) / 2 pairs, the probability that they are linked and 1 if they are.

    Raises
    ------
    InputError
        If there is not one true cluster for each mention.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> linked = irtbench.link_probabilities(np.array([[0, 0, 2], [0, 1, 1]]))
    >>> irtbench.link_pairs(linked, np.array([1, 1, 2]))
    (array([0.5, 0. , 0.5]), array([1., 0., 0.]))
    """
    truth = np.asarray(truth)
    if truth.shape != link_probability.shape[:1]:
        raise InputError(f"links: {truth.size} true clusters for {len(link_probability)} mentions; expected one each")
    later, earlier = np.tril_indices(truth.size, k=-1)
    return link_probability[later, earlier], (truth[later] == truth[earlier]).astype(np.float64)


def name_clusters(clusters: NDArray[np.int64], named: NDArray[np.int64]) -> NDArray[np.int64]:
    """The entity of each mention: the one that the first named mention of its cluster names.

    Parameters
    ----------
    clusters
        As ``antecedent_clusters`` gives them, shape (n_samples, n_mentions).
    named
        Entity that each mention names by itself, such as a country, ``NOBODY`` for pronouns and the like; shape
        (n_mentions,).

    Returns
    -------
    numpy.ndarray
        Shape (n_samples, n_mentions); ``NOBODY`` where the cluster has no name.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> irtbench.name_clusters(np.array([[0, 0, 2], [0, 1, 1]]), np.array([7, -1, -1]))
    array([[ 7,  7, -1],
           [ 7, -1, -1]])
    """
    entity = np.full(clusters.shape, NOBODY)
    rows = np.arange(len(clusters))
    # backwards, so that the first name of a cluster is written last
    for mention in np.flatnonzero(named != NOBODY)[::-1]:
        entity[rows, clusters[:, mention]] = named[mention]
    return np.take_along_axis(entity, clusters, axis=1)


# -- events: who did how many, when ----------------------------------------------------------------------------------
