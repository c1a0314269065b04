"""How many abilities do the items measure: eigenvalues of their correlations and of independent items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.data.shown import Drawn, counted
from irtbench.diagnostics.correlation import Tetrachoric, codes_of, correlations_of_codes, polychoric, tetrachoric
from irtbench.estimation.settings import FEWEST_RESPONDENTS
from irtbench.models.coded_scores import MISSING, CodedScores


@dataclass(frozen=True, eq=False)
class ParallelAnalysis(Drawn):
    """Eigenvalues of the items' tetrachoric or polychoric correlations, and those of independent items.

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

    An eigenvalue speaks for an ability if it exceeds the percentile of the same eigenvalue among independent items.
    Those are the same responses, each item's shuffled among the respondents who answered it: so many respondents, so
    easy items and so many missing responses as the data have.

    Raises
    ------
    InputError
        As `tetrachoric`; or if fewer than 2 samples are asked for, or the percentile is not between 0 and 100.

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
    if n_samples < 2 or not 0 < percentile < 100:
        raise InputError(
            f"parallel analysis: expected at least 2 samples and a percentile between 0 and 100 "
            f"but got {n_samples} and {percentile:g}"
        )
    observed, codes = polychoric(given) if isinstance(given, CodedScores) else tetrachoric(given), codes_of(given)
    samples = (np.take_along_axis(codes, dealt(codes != MISSING, rng), axis=0) for _ in range(n_samples))
    chance = np.stack([correlations_of_codes(one, given.item_ids, observed.kind).eigenvalues for one in samples])
    limit = np.percentile(chance, percentile, axis=0)
    above = observed.eigenvalues > limit
    n_abilities = above.size if above.all() else int(np.argmin(above))
    return ParallelAnalysis(
        observed.eigenvalues, chance.mean(axis=0), limit, percentile, n_samples, n_abilities, observed
    )


def why_not_counted(responses: ResponseMatrix, fewest_items: int = 2) -> str:
    """Why tetrachoric correlations, and so the number of abilities, are not available; empty where they are."""
    answered_both = responses.observed.astype(np.float64).T @ responses.observed
    if responses.trials is not None:
        return "tetrachoric correlations are of one response each, and there are several trials of an item"
    if responses.n_items < fewest_items or responses.n_respondents < FEWEST_RESPONDENTS:
        return f"{responses.n_respondents} respondents and {responses.n_items} items are too few"
    return "some two items were answered by nobody together" if (answered_both == 0).any() else ""


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
