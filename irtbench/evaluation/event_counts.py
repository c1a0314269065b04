"""Events and coreference links counted, with what a model is unsure of (Nguyen & O'Connor 2015, sections 5 and 6).

Samples of a structured prediction go through a deterministic function each, and the standard deviation of the results
is the uncertainty (Nguyen & O'Connor 2015, doi:10.18653/v1/D15-1182, sections 5 and 6). Both structures of the
paper are here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from irtbench.data.input_error import InputError, demand_choice, refuse_any, refuse_first
from irtbench.data.responses import name_first
from irtbench.data.shown import Drawn, Shown
from irtbench.evaluation.proportion import check_level


def demand_probabilities(probability: NDArray[np.float64], what: str, *, exact: bool) -> None:
    """Refuse rows that are no distribution: a negative value, or a sum that is not (or, unless exact, is above) 1."""
    total = probability.sum(axis=1)
    refuse_first(
        ~((probability >= 0).all(axis=1) & (total <= 1 + 1e-6) & (not exact or total >= 1 - 1e-6)),
        lambda k: (
            f"{what} {k + 1}: expected probabilities of sum 1{'' if exact else ' at most'} but they sum to {total[k]:g}"
        ),
    )


def draw_positions(
    distributions: Sequence[NDArray[np.float64]], n_samples: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Positions drawn from each of some distributions, shape (n_samples, n_distributions)."""
    drawn = np.empty((n_samples, len(distributions)), dtype=np.int64)
    for column, probability in zip(drawn.T, distributions, strict=True):
        steps = np.cumsum(probability)
        column[:] = np.searchsorted(steps, rng.random(n_samples) * steps[-1], side="right").clip(max=steps.size - 1)
    return drawn


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
    refuse_any((
        (probability.shape != (n_mentions, n_mentions),
         f"antecedents: expected a square matrix of probabilities but got shape {probability.shape}"),
        (np.triu(probability, k=1).any(),
         "antecedents: expected probabilities of earlier mentions only, above the diagonal is not 0"),
    ))  # fmt: skip
    demand_probabilities(probability, "antecedents: mention", exact=True)
    return draw_positions([row[: mention + 1] for mention, row in enumerate(probability)], n_samples, rng)


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


Structure = TypeVar("Structure")
Interval = Literal["normal", "quantile"]


@dataclass(frozen=True, eq=False)
class Propagated(Shown):
    """A function of a prediction, with the prediction's uncertainty.

    Parameters
    ----------
    samples
        The function of each sample, shape (n_samples, ...).
    mean, sd, lower, upper
        Mean and standard deviation over samples, and the interval, each of the shape of the function's value.
    level
        Nominal coverage of each interval, reached if the model is calibrated.
    """

    samples: NDArray[np.float64]
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    level: float

    def table(self) -> pd.DataFrame:
        """One row a value of the function, in the order of its elements: ``mean, sd, lower, upper``."""
        return pd.DataFrame({name: np.ravel(getattr(self, name)) for name in ("mean", "sd", "lower", "upper")})


def propagate(
    samples: Iterable[Structure],
    function: Callable[[Structure], ArrayLike],
    *,
    level: float = 0.95,
    interval: Interval = "normal",
) -> Propagated:
    """Apply a deterministic function to samples of a structured prediction.

    Parameters
    ----------
    samples
        Independent draws of the whole prediction: taggings, parses, clusterings, an array with one a row.
    function
        Gives a number, or an array of the same shape for every sample.
    level
        Nominal coverage of each interval.
    interval
        ``normal``: mean +- z sd, as the paper has it; ``quantile``: the quantiles of the samples, for values that are
        skewed or near a bound.

    Raises
    ------
    InputError
        If there is no sample, or ``level`` does not lie between 0 and 1.

    Warns
    -----
    RuntimeWarning
        If there is one sample (sd and interval are NaN), or the function is undefined (NaN) for some samples: what
        depends on these is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> taggings = rng.random((1000, 50)) < 0.3
    >>> found = irtbench.propagate(taggings, np.mean)
    >>> found.table().round(2)
       mean    sd  lower  upper
    0   0.3  0.06   0.17   0.43
    """
    values = [np.asarray(function(sample), dtype=np.float64) for sample in samples]
    if not values:
        raise InputError("propagation: expected at least one sample but there is none")
    return summarise_samples(np.stack(values), level=level, interval=interval)


def summarise_samples(
    samples: NDArray[np.float64], *, level: float = 0.95, interval: Interval = "normal"
) -> Propagated:
    """Mean and interval over samples, shape (n_samples, ...); options, errors and warnings as for ``propagate``."""
    z = check_level(level, where="propagation")
    demand_choice("propagation: interval", interval, Interval)
    samples = np.asarray(samples, dtype=np.float64)
    mean = samples.mean(axis=0)
    if len(samples) == 1:
        warnings.warn("propagation: one sample has no standard deviation", RuntimeWarning, stacklevel=3)
        unknown = np.full(mean.shape, np.nan)
        return Propagated(samples, mean, unknown, unknown, unknown, level)
    if np.isnan(mean).any():
        warnings.warn(
            "propagation: the function is undefined for some samples, and so is its mean", RuntimeWarning, stacklevel=3
        )
    sd = samples.std(axis=0, ddof=1)
    if interval == "normal":
        lower, upper = mean - z * sd, mean + z * sd
    else:
        lower, upper = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return Propagated(samples, mean, sd, lower, upper, level)


# -- coreference: each mention draws an antecedent, clusters are the connected components ----------------------------


@dataclass(frozen=True, eq=False)
class EventCounts(Drawn):
    """Events (or documents with one) of each entity in each period, in every sample.

    Parameters
    ----------
    counts
        Shape (n_samples, n_periods, n_entities).
    periods, entities
        Names of the second and third axis.
    """

    counts: NDArray[np.int64]
    periods: tuple[str, ...]
    entities: tuple[str, ...]

    def table(self, *, level: float = 0.95, interval: Interval = "normal") -> pd.DataFrame:
        """Mean and interval of each count, one row a period and entity; see ``propagate``."""
        cells = pd.MultiIndex.from_product([self.periods, self.entities], names=["period", "entity"])
        found = summarise_samples(self.counts.astype(np.float64), level=level, interval=interval).table()
        return found.set_axis(cells).reset_index()

    def above(self, first: str, second: str) -> pd.DataFrame:
        """Is the first entity above the second, period by period.

        Returns
        -------
        pandas.DataFrame
            ``period``, the probabilities that the first has more events (``above``), as many (``equal``) or fewer
            (``below``), and the mean of the difference with its 95% interval.

        Raises
        ------
        InputError
            If an entity is not among those counted.
        """
        if unknown := [name for name in (first, second) if name not in self.entities]:
            raise InputError(
                f"events: unknown entity {name_first(unknown)}; expected some of {name_first(self.entities)}"
            )
        ahead = self.counts[..., self.entities.index(first)] - self.counts[..., self.entities.index(second)]
        found = summarise_samples(ahead.astype(np.float64))
        return pd.DataFrame(
            {
                "period": self.periods,
                "above": (ahead > 0).mean(axis=0),
                "equal": (ahead == 0).mean(axis=0),
                "below": (ahead < 0).mean(axis=0),
                "difference": found.mean,
                "lower": found.lower,
                "upper": found.upper,
            }
        )


def draw_events(probability: NDArray[np.float64], *, n_samples: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw who did each candidate event, each event independently of the others.

    Parameters
    ----------
    probability
        Shape (n_events, n_entities): that the event happened and this entity did it. A row may sum to less than 1;
        the rest is the probability that it did not happen, or that nobody counted did it.
    n_samples
        Samples to draw.
    rng
        Draws them.

    Returns
    -------
    numpy.ndarray
        Shape (n_samples, n_events): the entity, or ``NOBODY``.

    Raises
    ------
    InputError
        If a probability is negative or a row sums to more than 1.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> irtbench.draw_events(np.array([[0.9, 0.1], [0.2, 0.3]]), n_samples=3, rng=np.random.default_rng(1))
    array([[ 0, -1],
           [ 1,  1],
           [ 0,  1]])
    """
    probability = np.asarray(probability, dtype=np.float64)
    if probability.ndim != 2:
        raise InputError(f"events: expected probabilities of shape (n_events, n_entities), got {probability.shape}")
    demand_probabilities(probability, "events: event", exact=False)
    drawn = draw_positions([np.append(row, max(0.0, 1 - row.sum())) for row in probability], n_samples, rng)
    return np.where(drawn == probability.shape[1], NOBODY, drawn)


def count_events(
    entity: NDArray[np.int64],
    period: ArrayLike,
    *,
    entities: tuple[str, ...],
    document: ArrayLike | None = None,
) -> EventCounts:
    """Count events by period and entity in every sample.

    Parameters
    ----------
    entity
        Position in ``entities`` of who did each candidate event in each sample, ``NOBODY`` for none; shape
        (n_samples, n_events). From ``draw_events``, or the columns of ``name_clusters`` at which events are.
    period
        When each event was, shape (n_events,); periods are sorted.
    entities
        Their names.
    document
        Where each event was reported: a document then counts once for an entity and period, whatever its reports.
        None to count events.

    Raises
    ------
    InputError
        If there is not one period (and document) for each event, or an entity is none of those named.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> who = np.array([[0, 1, 0], [0, -1, 0]])
    >>> irtbench.count_events(who, [2020, 2020, 2021], entities=("us", "them")).table().round(2)
      period entity  mean    sd  lower  upper
    0   2020     us   1.0  0.00   1.00   1.00
    1   2020   them   0.5  0.71  -0.89   1.89
    2   2021     us   1.0  0.00   1.00   1.00
    3   2021   them   0.0  0.00   0.00   0.00
    """
    n_samples, n_events = entity.shape
    when, periods = pd.factorize(np.asarray(period), sort=True)
    where = np.arange(n_events) if document is None else pd.factorize(np.asarray(document))[0]
    refuse_any((
        *((values.shape != (n_events,), f"events: {values.size} {name} for {n_events} events; expected one each")
          for name, values in (("periods", when), ("documents", where))),
        (n_events and not (entity.min() >= NOBODY and entity.max() < len(entities)),
         f"events: expected entities from {NOBODY} to {len(entities) - 1}"),
    ))  # fmt: skip
    counts = np.zeros((n_samples, len(periods) * len(entities)), dtype=np.int64)
    for sample, who in zip(counts, entity, strict=True):
        happened = who != NOBODY
        cell = when[happened] * len(entities) + who[happened]
        if document is not None:
            cell = np.unique(np.stack([cell, where[happened]]), axis=1)[0]
        sample += np.bincount(cell, minlength=sample.size)
    return EventCounts(
        counts.reshape(n_samples, len(periods), len(entities)), tuple(str(name) for name in periods), tuple(entities)
    )
