"""The LLTM: the figures of two other programs, and a test that rejects as often as it should."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import chi2

from builders.mirt_figures import verbal
from builders.refusals import is_refused
from irtbench import ItemFeatures, ItemParameters, ResponseMatrix, linear_logistic_test, simulate_responses
from irtbench.models.quadrature import Quadrature, normal_grid, rescaled
from irtbench.models.theta_posterior import log_likelihood, node_posterior


def test_verbal_aggression_is_that_of_glmer_and_of_a_direct_maximum(reference: Path) -> None:
    folder = reference / "next" / "10_lltm"
    features = pd.read_csv(folder / "verbal_features.csv").rename(columns={"item": "item_id"})
    found = linear_logistic_test(verbal(reference)[0], features)
    printed = pd.read_csv(folder / "verbal_lltm_coef.csv").set_index("term").loc[list(found.terms)]
    fit = pd.read_csv(folder / "verbal_fit.csv").set_index("stat")["value"]
    # theirs are effects on easiness
    np.testing.assert_allclose(found.effect, -printed["mml61"], atol=1e-5)
    np.testing.assert_allclose(found.se, printed["se_mml61"], atol=1e-5)
    np.testing.assert_allclose(found.effect, -printed["glmer_AGQ25"], atol=1e-4)
    assert found.ability_sd == pytest.approx(fit["sd_lltm_mml61"], abs=1e-4)
    assert found.se_ability_sd / found.ability_sd == pytest.approx(fit["se_log_sd"], abs=1e-4)
    assert found.log_likelihood == pytest.approx(fit["loglik_lltm_mml61"], abs=1e-4)
    # the Rasch model's is higher than theirs by .004
    assert found.log_likelihood_rasch == pytest.approx(fit["loglik_rasch_mml"], abs=5e-3)
    assert (found.x2, found.df) == (pytest.approx(fit["LR_rasch_vs_lltm_mml"], abs=1e-2), fit["df"])
    assert found.p == pytest.approx(chi2.sf(found.x2, found.df), rel=1e-9, abs=0)
    assert found.correlation == pytest.approx(fit["cor_b_rasch_b_lltm"], abs=1e-4)
    assert found.converged


def test_it_is_a_maximum_with_missing_responses_and_trials() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(12, 2))
    items = ItemParameters.from_difficulty(np.ones(12), 0.2 + x @ [0.7, -0.4])
    responses = simulate_responses(rng.normal(0, 1.3, 400), items, rng=rng, missing=0.3, trials=2)
    demand_a_maximum(responses, x, normal_grid(121, bound=12.0))


def test_it_is_a_maximum_where_items_are_so_many_that_the_usual_nodes_are_too_far_apart() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(300, 2))
    items = ItemParameters.from_difficulty(np.ones(300), 0.2 + x @ [0.7, -0.4] + rng.normal(0, 0.3, 300))
    responses = simulate_responses(rng.normal(0, 1.3, 50), items, rng=rng)
    demand_a_maximum(responses, x, normal_grid(1201, bound=8.0))


def demand_a_maximum(responses: ResponseMatrix, x: np.ndarray, nodes: Quadrature) -> None:
    """By nothing but NumPy, on these nodes."""
    found = linear_logistic_test(responses, ItemFeatures(responses.item_ids, ("x", "y"), x))

    def value(at: np.ndarray) -> float:
        own = ItemParameters.from_difficulty(np.ones(len(x)), at[0] + x @ at[1:3])
        population = rescaled(nodes, 0.0, float(np.exp(at[3])))
        logs = log_likelihood(responses.correct, population.nodes, own, trials=responses.trials)
        return float(node_posterior(logs, population)[1].sum())

    at = np.append(found.effect, np.log(found.ability_sd))
    assert np.abs(approx_fprime(at, value, 1e-5)).max() < 0.05
    assert value(at) == pytest.approx(found.log_likelihood, abs=0.01)


def test_features_that_determine_each_other_are_refused() -> None:
    rng = np.random.default_rng(3)
    items = ItemParameters.from_difficulty(np.ones(4), np.linspace(-1, 1, 4))
    responses = simulate_responses(rng.normal(size=50), items, rng=rng)
    x = rng.normal(size=4)
    two = ItemFeatures(items.item_ids, ("x", "y"), np.stack([x, 2 * x], axis=1))
    is_refused("2 features of 4 items determine each other", linear_logistic_test, responses, two)
    one = ItemFeatures(items.item_ids, ("x",), x[:, None])
    three = ItemFeatures(items.item_ids, ("x", "y", "z"), rng.normal(size=(4, 3)))
    is_refused("level must be between 0 and 1 but got 95", linear_logistic_test, responses, one, level=95)
    is_refused("3 features of 4 items", linear_logistic_test, responses, three)
