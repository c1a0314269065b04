"""How many abilities do the items measure, and does each carry the items of one label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from statsmodels.multivariate.factor_rotation import rotate_factors

from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.diagnostics.tetrachoric import Tetrachoric, tetrachoric


@dataclass(frozen=True, eq=False)
class ParallelAnalysis:
    """Eigenvalues of the items' tetrachoric correlations beside those of independent items.

    Parameters
    ----------
    eigenvalues
        Of the data, in descending order, shape (n_items,).
    chance_mean, chance_limit
        Mean and percentile of the same eigenvalue over samples of independent items, shape (n_items,).
    percentile
        Which percentile ``chance_limit`` is.
    n_samples
        Number of samples.
    n_abilities
        Eigenvalues, from the first on, that exceed the limit.
    tetrachoric
        The correlations of the data.
    """

    eigenvalues: NDArray[np.float64]
    chance_mean: NDArray[np.float64]
    chance_limit: NDArray[np.float64]
    percentile: float
    n_samples: int
    n_abilities: int
    tetrachoric: Tetrachoric

    def table(self) -> pd.DataFrame:
        """One row an eigenvalue, columns of eigenvalues.csv."""
        return pd.DataFrame(
            {
                "number": np.arange(1, self.eigenvalues.size + 1),
                "eigenvalue": self.eigenvalues,
                "chance_mean": self.chance_mean,
                "chance_limit": self.chance_limit,
                "ability": np.arange(self.eigenvalues.size) < self.n_abilities,
            }
        )


def parallel_analysis(
    responses: ResponseMatrix, *, rng: np.random.Generator, n_samples: int = 20, percentile: float = 95.0
) -> ParallelAnalysis:
    """Number of abilities by Horn's parallel analysis (1965) of the tetrachoric correlations.

    An eigenvalue speaks for an ability if it exceeds the percentile of the same eigenvalue among independent items.
    Those are the same responses, each item's shuffled among the respondents who answered it: so many respondents, so
    easy items and so many missing responses as the data have.

    Raises
    ------
    InputError
        As `tetrachoric`; or if fewer than 2 samples are asked for, or the percentile is not between 0 and 100.
    """
    if n_samples < 2 or not 0 < percentile < 100:
        raise InputError(
            f"parallel analysis: expected at least 2 samples and a percentile between 0 and 100 "
            f"but got {n_samples} and {percentile:g}"
        )
    observed = tetrachoric(responses)
    chance = np.stack([tetrachoric(shuffled(responses, rng)).eigenvalues for _ in range(n_samples)])
    limit = np.percentile(chance, percentile, axis=0)
    above = observed.eigenvalues > limit
    n_abilities = above.size if above.all() else int(np.argmin(above))
    return ParallelAnalysis(
        observed.eigenvalues, chance.mean(axis=0), limit, percentile, n_samples, n_abilities, observed
    )


def shuffled(responses: ResponseMatrix, rng: np.random.Generator) -> ResponseMatrix:
    """Shuffle each item's responses among those who answered it: nothing but the proportions correct is left."""
    values = responses.values.copy()
    for column in values.T:
        observed = ~np.isnan(column)
        column[observed] = rng.permutation(column[observed])
    return ResponseMatrix(values, responses.respondent_ids, responses.item_ids)


@dataclass(frozen=True, eq=False)
class RotatedLoadings:
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
    """
    names = tuple(sorted(set(labels)))
    if len(names) != loadings.shape[1]:
        raise InputError(f"rotation: {len(names)} labels for {loadings.shape[1]} factors; expected as many")
    own = np.array([[label == name for name in names] for label in labels])
    target = own * np.sqrt((loadings**2).sum(axis=1, keepdims=True))
    rigid, _ = rotate_factors(loadings, "target", target, "orthogonal", algorithm="analytic")
    oblique, turn = rotate_factors(rigid, "target", target, "oblique")
    return RotatedLoadings(tuple(item_ids), tuple(labels), names, oblique, turn.T @ turn)
