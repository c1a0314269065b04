"""Several abilities and testlets of items in categories: the likelihood, its Hessian, two categories, recovery."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from builders.by_hand import counts_of, demand_a_maximum, of_logit, with_testlets, with_two_abilities
from builders.refusals import is_refused
from irtbench import ResponseMatrix
from irtbench.data.input_error import InputError
from irtbench.estimation.bifactor import BifactorModel, bifactor_scores, fit_bifactor
from irtbench.estimation.factors import FactorModel, fit_factors
from irtbench.models.priors import GuessingPrior

Fitted = FactorModel | BifactorModel
TESTLETS = ["a", "a", "a", "b", "b", "b", None]
STEPS = np.array([-1.0, 0.2, 1.1])


def graded(z: NDArray[np.float64], rng: np.random.Generator, missing: float = 0.0) -> NDArray[np.float64]:
    """Grades 0 to 3 of a graded response model with these slopes times abilities."""
    grades = (z[:, :, None] + rng.logistic(size=(*z.shape, 1)) > STEPS).sum(axis=2).astype(float)
    grades[rng.random(z.shape) < missing] = np.nan
    return grades


def of_testlets(n: int, *, seed: int, missing: float = 0.0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Grades of seven items, and general abilities."""
    rng = np.random.default_rng(seed)
    theta, own = rng.normal(size=(n, 1)), rng.normal(size=(n, 2))
    z = 1.4 * theta + 1.2 * np.column_stack([own[:, [0, 0, 0, 1, 1, 1]], np.zeros(n)])
    return graded(z, rng, missing), theta[:, 0]


def of_two_abilities(n: int, *, seed: int, missing: float = 0.0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Grades of eight items, and slopes: three on each of two abilities, two on both."""
    rng, slopes = np.random.default_rng(seed), np.zeros((8, 2))
    slopes[:5, 0], slopes[3:, 1] = 1.5, 1.2
    return graded(rng.normal(size=(n, 2)) @ slopes.T, rng, missing), slopes


def pattern() -> NDArray[np.bool_]:
    return of_two_abilities(10, seed=0)[1] == 0


def design(fitted: Fitted, model: str) -> NDArray[np.float64]:
    """Slopes and intercepts, item after item, are this matrix times what was estimated."""
    testlets, one_slope = isinstance(fitted, BifactorModel), model in ("rasch", "1pl", "pcm", "rsm")

    def slope(j: int, k: int) -> tuple[object, ...]:
        if testlets and k == 1 and (one_slope or "equal" in model):
            return "of testlet", TESTLETS[j]
        return ("of ability", k) if one_slope else (j, k)

    cells: list[dict[tuple[object, ...], float]] = []
    for j, slopes in enumerate(fitted.slopes):
        cells += [{slope(j, k): 1.0} if a else {} for k, a in enumerate(slopes)]
        for m in range(fitted.intercepts.shape[1]):
            with_those_of_the_first = {("d", 0, m): 1.0, ("d", j, 0): m + 1.0, ("d", 0, 0): -m - 1.0}
            cells.append(with_those_of_the_first if model == "rsm" and j and m else {("d", j, m): 1.0})
    names = list(dict.fromkeys(name for cell in cells for name in cell))
    return np.array([[cell.get(name, 0.0) for name in names] for cell in cells])


@pytest.mark.parametrize(
    ("testlets", "model", "missing"),
    [
        (False, "2pl", 0.2),
        (False, "2pl, trials", 0.0),
        (False, "3pl", 0.1),
        (False, "grm", 0.0),
        (False, "gpcm", 0.2),
        (False, "1pl", 0.1),
        (False, "pcm", 0.1),
        (True, "2pl, equal", 0.1),
        (True, "4pl, equal", 0.0),
        (True, "grm", 0.2),
        (True, "gpcm", 0.0),
        (True, "rasch", 0.1),
        (True, "pcm", 0.1),
        (True, "rsm", 0.1),
    ],
)
def test_the_likelihood_and_its_hessian_are_those_by_hand(testlets: bool, model: str, missing: float) -> None:
    """And the estimates its maximum: each item's slopes, or one on each ability, which items share."""
    free = {"2pl": 400, "3pl": 1000, "4pl, equal": 400, "grm": 400, "gpcm": 400}  # all slopes free are steep of few
    n, seed = (free[model], 1) if model in free else (150, 6)
    grades = (of_testlets if testlets else of_two_abilities)(n, seed=seed, missing=missing)[0]
    kind, _, how = model.partition(", ")
    right = kind in ("2pl", "3pl", "4pl", "1pl", "rasch")
    given: Any = np.where(np.isnan(grades), np.nan, grades > 1) if right else grades
    given = given[~np.isnan(given).all(axis=1)]
    counts = counts_of(given)
    if how == "trials":  # two of each item
        names = tuple(map(str, range(len(grades)))), tuple(map(str, range(grades.shape[1])))
        given = ResponseMatrix(1.0 * (grades > 1) + (grades > 0), *names, np.full(grades.shape, 2))
        counts = counts_of(given.correct, given.trials)
    fitted: Fitted
    if testlets:
        slopes: Any = {"specific_slopes": "equal"} if how == "equal" else {}
        fitted = fit_bifactor(given, TESTLETS, models=kind, **slopes)
    else:
        fitted = fit_factors(given, 2, models=kind, zero_loadings=pattern())
        assert fitted.what_errors_are_of == "of intercepts and slopes, from the observed information"
    assert fitted.converged
    assert fitted.covariance is not None
    whole = design(fitted, model)
    assert fitted.n_parameters == whole.shape[1]
    alone = [int(np.argmax((whole == row).all(axis=1))) for row in np.eye(whole.shape[1])]
    x = np.column_stack([fitted.slopes, fitted.intercepts]).flatten()
    errors = np.sqrt(np.diagonal(fitted.covariance, axis1=1, axis2=2)).flatten()
    matrix, values = torch.from_numpy(whole), torch.from_numpy(x[alone])
    np.testing.assert_allclose(whole @ x[alone], x, atol=1e-9)
    fixed = {"3pl": [1.0], "4pl": []}.get(kind, [0.0, 1.0] if right else [])
    kind = "logistic" if right else "grm" if kind == "grm" else "gpcm"
    asymptotes = torch.tensor([fixed], dtype=torch.float64).expand(len(fitted.slopes), -1)

    def log_likelihood(values: Tensor) -> Tensor:
        own = torch.cat([(matrix @ values).view(len(fitted.slopes), -1), asymptotes], dim=1)
        return with_testlets(kind, counts, own, TESTLETS) if testlets else with_two_abilities(kind, counts, own)

    def log_posterior(values: Tensor) -> Tensor:
        of_asymptotes = (matrix @ values).view(len(fitted.slopes), -1).T[3 if right else 99 :]
        priors = GuessingPrior("beta", 5, 15), GuessingPrior("beta", 19, 1)
        each = [of_logit(own, prior).sum() for own, prior in zip(of_asymptotes, priors, strict=False)]
        return log_likelihood(values) + sum(each)

    # nodes without mass are left out of a lattice, 1e-7 a response at most: the error that the fit reports
    assert fitted.integration_error < 2e-7
    error = 1.05 * fitted.integration_error * float(counts.sum()) + 1e-6
    assert fitted.log_likelihood == pytest.approx(float(log_likelihood(values)), abs=error)
    # of several abilities standard errors are on nodes further apart than the log-likelihood
    demand_a_maximum(log_posterior, values, errors[alone], within=0.02, rtol=1e-4 if testlets else 2e-3)


def test_the_table_has_steps_slopes_and_their_errors() -> None:
    grades = of_testlets(150, seed=4)[0]
    fitted = fit_bifactor(grades, TESTLETS, models={f"item{j + 1}": "gpcm" if j % 2 else "grm" for j in range(7)})
    table = fitted.table()
    assert list(table["model"][:2]) == ["grm", "gpcm"]
    wanted = ["n_categories", "step_1", "step_3", "se_step_1", "n_responses", "testlet", "slope_specific"]
    assert set(wanted) < set(table.columns)
    # a step of a graded item on the general ability, at the mean of the testlet's own
    np.testing.assert_allclose(table.loc[0, "step_2"], -fitted.intercepts[0, 1] / fitted.slopes[0, 0])
    assert fitted.summary()["model"] == "bifactor"
    assert fitted.summary()["models"] == ["gpcm", "grm"]
    assert fitted.n_parameters == 7 + 21 + 6
    scores = bifactor_scores(fitted, grades)
    assert list(scores.columns[:4]) == ["respondent_id", "n_items", "n_correct", "accuracy"]
    assert list(scores["n_correct"]) == list(grades.sum(axis=1))


BLOCKS = np.repeat([[False, True], [True, False]], 4, axis=0)
TWICE = pd.DataFrame({"respondent_id": [*range(20)] * 4, "item_id": ["i", "j"] * 40, "response": [0, 1, 2, 0] * 20})


@pytest.mark.parametrize(
    ("words", "saying"),
    [
        ({"models": "pcm"}, "go with a pattern of zero loadings"),
        ({"models": "rsm", "zero_loadings": BLOCKS}, "rsm has the same steps on all abilities"),
        ({"models": "grm", "n_factors": 1, "responses": TWICE}, "several to an item by one respondent"),
    ],
)
def test_what_does_not_go_with_several_abilities_is_refused(words: dict[str, Any], saying: str) -> None:
    is_refused(saying, fit_factors, **{"responses": of_two_abilities(50, seed=5)[0], "n_factors": 2} | words)


def test_a_rating_scale_of_items_with_other_categories_is_refused() -> None:
    letters = pd.DataFrame(of_two_abilities(50, seed=5)[0].astype(int)).map(lambda k: "abcd"[k])
    letters.loc[letters[0] == "d", 0] = "c"
    named = {str(j): list("abcd"[: 3 if j == 0 else 4]) for j in range(8)}
    with pytest.raises(InputError, match="rsm is of items with the same categories; expected pcm"):
        fit_bifactor(letters, ["a"] * 4 + ["b"] * 4, models="rsm", levels=named)
