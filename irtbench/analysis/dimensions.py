"""How many abilities do all the items measure: eigenvalues, models of several factors, loadings turned to labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes
from scipy.optimize import minimize

from irtbench.analysis.model_comparison import compare_models, one_more_factor
from irtbench.data.checked_settings import seeded
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError, refuse_any
from irtbench.data.responses import ResponseMatrix
from irtbench.data.shown import Drawn, Shown, counted
from irtbench.diagnostics.correlation import Tetrachoric, codes_of, correlations_of_codes, polychoric, tetrachoric
from irtbench.estimation.factors import FactorModel, fit_factors
from irtbench.estimation.fit_categories import Models
from irtbench.estimation.settings import FEWEST_RESPONDENTS, Device
from irtbench.estimation.several_abilities.answers import coded
from irtbench.models.coded_scores import MISSING, CodedScores, Levels

CLEARLY = 1.5  # times the limit: 1.26 was the most of 15 second eigenvalues that exceeded it by chance
#: Of principal axes: rounds, change of a communality that is none, and the most that an item may share.
MOST_ROUNDS, SETTLED, MOST_COMMUNALITY = 50, 1e-3, 0.98


@dataclass(frozen=True, eq=False)
class ParallelAnalysis(Drawn):
    """Eigenvalues of the items' tetrachoric or polychoric correlations, and those of independent items.

    Parameters
    ----------
    eigenvalues
        Of the data, in descending order, shape (n_items,).
    chance_mean, chance_limit
        Mean and percentile of the same eigenvalue over samples of independent items, shape (n_items,); the limit of the
        second and later ones that exceed it is at least the percentile over samples of one ability less.
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

    def in_short(self) -> str:
        """How many abilities, and the first eigenvalues."""
        first = ", ".join(f"{value:.2f}" for value in self.eigenvalues[:3])
        n_items = counted(self.eigenvalues.size, "item")
        return f"{counted(self.n_abilities, 'ability')}, eigenvalues {first}, ... of {n_items}"


def parallel_analysis(
    responses: ResponsesLike | CodedScores,
    *,
    rng: np.random.Generator,
    n_samples: int = 20,
    percentile: float = 95.0,
) -> ParallelAnalysis:
    """Number of abilities by Horn's parallel analysis (1965) of the tetrachoric correlations, polychoric of categories.

    An eigenvalue speaks for an ability if it exceeds the percentile of the same eigenvalue among independent items and,
    from the second on and unless it is ``CLEARLY`` above, among items of one ability less (Green et al., 2012), which
    exceed chance where respondents are few and items easy. Independent items are the same responses, each item's
    shuffled among the respondents who answered it; items of fewer abilities the same in the order of normal variables
    with the loadings of the data's principal axes: so many respondents, so easy items and so many missing responses as
    the data have.

    Raises
    ------
    InputError
        As `tetrachoric`; or if fewer than 2 samples are asked for, or the percentile is not between 50 and 100.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> irtbench.parallel_analysis(responses, rng=rng, n_samples=5)
    <ParallelAnalysis: 1 ability, eigenvalues 3.23, 0.71, 0.65, ... of 6 items>
    """
    given = responses.wide() if isinstance(responses, CodedScores) else as_responses(responses)
    if n_samples < 2 or not 50 <= percentile < 100:
        raise InputError(
            f"parallel analysis: expected at least 2 samples and a percentile between 50 and 100 "
            f"but got {n_samples} and {percentile:g}"
        )
    observed, codes = polychoric(given) if isinstance(given, CodedScores) else tetrachoric(given), codes_of(given)

    def eigenvalues(samples: Iterable[NDArray[np.int64]]) -> NDArray[np.float64]:
        return np.stack([correlations_of_codes(one, given.item_ids, observed.kind).eigenvalues for one in samples])

    chance = eigenvalues(np.take_along_axis(codes, dealt(codes != MISSING, rng), axis=0) for _ in range(n_samples))
    limit = np.percentile(chance, percentile, axis=0)
    for k in range(1, _how_many(observed.eigenvalues > limit)):
        if observed.eigenvalues[k] > CLEARLY * limit[k]:
            continue
        loadings = principal_axes(observed.correlations, k)
        fewer = eigenvalues(of_loadings(codes, loadings, rng) for _ in range(n_samples))[:, k]
        limit[k] = max(limit[k], np.percentile(fewer, percentile))
        if observed.eigenvalues[k] <= limit[k]:
            break
    n_abilities = _how_many(observed.eigenvalues > limit)
    return ParallelAnalysis(
        observed.eigenvalues, chance.mean(axis=0), limit, percentile, n_samples, n_abilities, observed
    )


def _how_many(above: NDArray[np.bool_]) -> int:
    return above.size if above.all() else int(np.argmin(above))


def principal_axes(correlations: NDArray[np.float64], n_factors: int) -> NDArray[np.float64]:
    """Loadings of principal axes, shape (n_items, n_factors): communalities are those that the loadings give.

    Examples
    --------
    >>> correlations = np.full((4, 4), 0.49) + 0.51 * np.eye(4)
    >>> np.abs(principal_axes(correlations, 1)).ravel().round(3).tolist()
    [0.7, 0.7, 0.7, 0.7]
    """
    common = correlations.copy()
    communality = np.abs(correlations - np.eye(len(correlations))).max(axis=0)
    for _ in range(MOST_ROUNDS):
        np.fill_diagonal(common, communality)
        values, vectors = np.linalg.eigh(common)
        loadings = vectors[:, -n_factors:] * np.sqrt(values[-n_factors:].clip(0))
        before, communality = communality, (loadings**2).sum(axis=1).clip(1e-9, MOST_COMMUNALITY)
        loadings *= np.sqrt(communality / (loadings**2).sum(axis=1).clip(1e-9))[:, None]
        if np.abs(communality - before).max() < SETTLED:
            break
    return loadings


def of_loadings(codes: NDArray[np.int64], loadings: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Each item's codes among those who answered it, in the order of normal variables with such loadings."""
    unique = np.sqrt(1 - (loadings**2).sum(axis=1))
    normal = rng.normal(size=(len(codes), loadings.shape[1])) @ loadings.T + rng.normal(size=codes.shape) * unique
    found = codes.copy()
    for own, column, values in zip(codes.T, found.T, normal.T, strict=True):
        there = np.flatnonzero(own != MISSING)
        column[there[np.argsort(values[there])]] = np.sort(own[there])
    return found


def why_not_counted(responses: ResponseMatrix, fewest_items: int = 2) -> str:
    """Why tetrachoric correlations, and so the number of abilities, are not available; empty where they are."""
    answered_both = responses.observed.astype(np.float64).T @ responses.observed
    return next((why for holds, why in (
        (responses.trials is not None,
         "tetrachoric correlations are of one response each, and there are several trials of an item"),
        (responses.n_items < fewest_items or responses.n_respondents < FEWEST_RESPONDENTS,
         f"{responses.n_respondents} respondents and {responses.n_items} items are too few"),
        ((answered_both == 0).any(), "some two items were answered by nobody together"),
    ) if holds), "")  # fmt: skip


def shuffled(responses: ResponseMatrix, rng: np.random.Generator) -> ResponseMatrix:
    """Shuffle each item's responses among those who answered it: nothing but the proportions correct is left."""
    rows = dealt(responses.observed, rng)
    correct, trials = np.take_along_axis(responses.correct, rows, axis=0), responses.trials
    trials = None if trials is None else np.take_along_axis(trials, rows, axis=0)
    return ResponseMatrix(correct, responses.respondent_ids, responses.item_ids, trials)


def dealt(observed: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    """From which row each response of a column comes when those observed are shuffled, shape (n_rows, n_columns)."""
    rows = np.repeat(np.arange(len(observed))[:, None], observed.shape[1], axis=1)
    for column, there in zip(rows.T, observed.T, strict=True):
        column[there] = rng.permutation(np.flatnonzero(there))
    return rows


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

    def summary(self) -> dict[str, Any]:
        """What dimensions.json holds of the rotation."""
        return {
            "factors": self.factors,
            "by_label": self.by_label(),
            "share_following": float(self.follows.mean()),
            "correlations": self.correlations,
            "loadings": self.table(),
        }

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
        If there are not as many labels as factors, or not one label an item.

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
    refuse_any((
        (len(names) != loadings.shape[1],
         f"rotation: {len(names)} labels for {loadings.shape[1]} factors; expected as many"),
        (not len(labels) == len(item_ids) == len(loadings),
         f"rotation: {len(labels)} labels and {len(item_ids)} items for {len(loadings)} rows of loadings; expected "
         "one each"),
    ))  # fmt: skip
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
class Dimensions(Drawn, short="{n_respondents:respondent}, {analysis.in_short}"):
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
            "rotation": None if self.rotated is None else self.rotated.summary(),
        }

    @property
    def _drawn_as(self) -> object:
        return self.analysis

    def table(self) -> pd.DataFrame:
        """One row an eigenvalue, columns of eigenvalues.csv."""
        return self.analysis.table()


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
    rotated, labels = None, () if labels is None else labels
    if 1 < (n_labels := len(set(labels))) <= max_factors:
        rotated = rotate_to_labels(fitted[f"{n_labels} factors"].loadings, given.item_ids, labels)
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
