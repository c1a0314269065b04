"""How many abilities do all the items measure: eigenvalues, models of several factors, loadings turned to labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes
from scipy.optimize import minimize

from irtbench.analysis.factor_test import one_more_factor
from irtbench.analysis.model_comparison import compare_models
from irtbench.analysis.parallel_analysis import ParallelAnalysis, parallel_analysis
from irtbench.data.checked_settings import seeded
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.data.shown import Drawn, Shown, counted
from irtbench.estimation.factors import FactorModel, fit_factors
from irtbench.estimation.fit_categories import Models
from irtbench.estimation.settings import Device
from irtbench.estimation.several_abilities.answers import coded
from irtbench.models.coded_scores import CodedScores, Levels


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


MOST_FACTORS = 3  # that a grid of nodes serves
EIGENVALUES_SHOWN = 10


@dataclass(frozen=True, eq=False)
class Dimensions(Drawn):
    """What is known of the number of abilities.

    Parameters
    ----------
    n_respondents, n_items
        Size of the data.
    analysis
        Eigenvalues and parallel analysis.
    models
        Information criteria of the models with one factor, two ..., a row a model; None if none was fitted.
    tests
        Likelihood-ratio test of each model against the one before, a row a test, with the p of a bootstrap or a note
        why there is none; see `one_more_factor`.
    rotated
        Loadings of the model with as many factors as there are labels, turned to these; None if there is none.
    """

    n_respondents: int
    n_items: int
    analysis: ParallelAnalysis
    models: pd.DataFrame | None
    tests: pd.DataFrame | None
    rotated: RotatedLoadings | None

    def summary(self) -> dict[str, Any]:
        """What dimensions.json holds."""
        rotation = None
        if self.rotated is not None:
            rotation = {
                "factors": self.rotated.factors,
                "by_label": self.rotated.by_label(),
                "share_following": float(self.rotated.follows.mean()),
                "correlations": self.rotated.correlations,
                "loadings": self.rotated.table(),
            }
        return {
            "n_abilities": self.analysis.n_abilities,
            "correlations": self.analysis.tetrachoric.kind,
            "eigenvalues": self.analysis.eigenvalues[:EIGENVALUES_SHOWN],
            "chance_limit": self.analysis.chance_limit[:EIGENVALUES_SHOWN],
            "percentile": self.analysis.percentile,
            "n_samples": self.analysis.n_samples,
            "n_respondents": self.n_respondents,
            "n_items": self.n_items,
            "note": self.analysis.tetrachoric.note,
            "models": self.models,
            "likelihood_ratio_tests": self.tests,
            "rotation": rotation,
        }

    @property
    def _drawn_as(self) -> object:
        return self.analysis

    def table(self) -> pd.DataFrame:
        """One row an eigenvalue, columns of eigenvalues.csv."""
        return self.analysis.table()

    def in_short(self) -> str:
        """How many abilities, and the first eigenvalues."""
        return f"{counted(self.n_respondents, 'respondent')}, {self.analysis.in_short()}"


def find_dimensions(
    responses: ResponsesLike | CodedScores,
    labels: Sequence[str] | None = None,
    *,
    models: Models = "2pl",
    levels: Levels = None,
    max_factors: int = MOST_FACTORS,
    n_samples: int = 20,
    n_test_samples: int = 0,
    seed: int = 0,
    device: Device = "auto",
    progress: Callable[[str], None] = lambda message: None,
) -> Dimensions:
    """Count abilities by parallel analysis, compare models of several factors, and turn loadings to the labels.

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`), or in categories, as `fit_factors` takes them;
        no item that all got right or all got wrong, or of one category.
    labels
        Label of each item; None where there are none.
    models, levels
        As of `fit_factors`; of categories correlations are polychoric.
    max_factors
        Fit models of one up to so many factors; 0 for none.
    n_samples
        Samples of independent items.
    n_test_samples
        Most samples of the smaller model for each likelihood-ratio test; 0 for no p.
    seed
        Of these samples.
    device
        As in `FitSettings`.
    progress
        Called with a line about each step.

    Raises
    ------
    InputError
        As `parallel_analysis`, `fit_factors` and `one_more_factor`.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> found = irtbench.find_dimensions(responses, max_factors=2, n_samples=5)
    >>> found
    <Dimensions: 300 respondents, 1 ability, eigenvalues 3.23, 0.71, 0.65, ... of 6 items>
    >>> found.models[["model", "n_parameters", "delta_bic"]].round(1)
           model  n_parameters  delta_bic
    0   1 factor            12        0.0
    1  2 factors            17       26.6
    """
    given: ResponseMatrix | CodedScores
    if isinstance(responses, CodedScores) or models != "2pl" or levels is not None:
        given, kind = coded(responses, levels=levels), "polychoric"
    else:
        given, kind = as_responses(responses), "tetrachoric"
    progress(f"{kind} correlations of {given.n_items} items and of {n_samples} samples of independent items")
    analysis = parallel_analysis(given, rng=seeded(seed), n_samples=n_samples)
    fitted: dict[str, FactorModel] = {}
    for number in range(1, max_factors + 1):
        name = "1 factor" if number == 1 else f"{number} factors"
        progress(f"model with {name}")
        fitted[name] = fit_factors(
            given, number, models=models, seed=seed, standard_errors=False, device=device
        )  # fmt: skip
    rotated = None
    n_labels = len(set(labels)) if labels is not None else 0
    if labels is not None and 1 < n_labels <= max_factors:
        loadings = fitted[f"{n_labels} factors"].loadings
        rotated = rotate_to_labels(loadings, given.item_ids, labels)
    size = given.n_respondents, given.n_items
    if not fitted:
        return Dimensions(*size, analysis, None, None, rotated)
    converged = [model.converged for model in fitted.values()]
    tests = pd.DataFrame(
        [
            {
                "smaller": a,
                "larger": b,
                **vars(
                    one_more_factor(
                        given,
                        fitted[a],
                        fitted[b],
                        n_samples=n_test_samples,
                        seed=seed,
                        device=device,
                        progress=progress,
                    )
                ),
            }
            for a, b in zip(list(fitted)[:-1], list(fitted)[1:], strict=True)
        ],
        columns=["smaller", "larger", "statistic", "df", "p", "n_samples", "note"],
    )
    return Dimensions(*size, analysis, compare_models(fitted).assign(converged=converged), tests, rotated)
