"""EAP: against R mirt, against brute-force integration, and at the corners."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.models.item_response import ItemParameters, log_likelihood, simulate_responses
from irtbench.models.quadrature import Quadrature, normal_grid
from irtbench.scoring import ability
from irtbench.scoring.ability import Abilities, ability_posterior, eap


def matrix(rows: list[list[float]], items: ItemParameters) -> ResponseMatrix:
    return ResponseMatrix(np.array(rows, dtype=float), tuple(f"r{i}" for i in range(len(rows))), items.item_ids)


def varied_items(n_items: int, *, guessing: float = 0.0, seed: int = 1) -> ItemParameters:
    rng = np.random.default_rng(seed)
    return ItemParameters.from_difficulty(rng.lognormal(0, 0.4, n_items), rng.normal(size=n_items), guessing)


def integrate(
    values: NDArray[np.float64], items: ItemParameters, *, low: float, high: float, n_points: int = 2001
) -> tuple[float, float, float, float]:
    """Mean, sd and 95% quantiles of the posterior under N(0, 1), by a sum over very many points."""
    theta = np.linspace(low, high, n_points)
    parts = [log_likelihood(values[None, :], part, items)[0] for part in np.array_split(theta, 10)]
    log_density = np.concatenate(parts) - theta**2 / 2
    mass = np.exp(log_density - log_density.max())
    mass /= mass.sum()
    mean = float(mass @ theta)
    lower, upper = np.interp([0.025, 0.975], np.cumsum(mass) - mass / 2, theta)
    return mean, float(np.sqrt(mass @ (theta - mean) ** 2)), float(lower), float(upper)


def assert_integrates(abilities: Abilities, i: int, values: NDArray[np.float64], items: ItemParameters) -> None:
    """Theta within .002 of a standard error, the error within .2%, the quantiles within .02 of a standard error."""
    theta, se = abilities.theta[i], abilities.standard_error[i]
    mean, sd, lower, upper = integrate(values, items, low=theta - 12 * se, high=theta + 12 * se)
    assert theta == pytest.approx(mean, abs=0.002 * sd)
    assert se == pytest.approx(sd, rel=0.002)
    assert abilities.lower[i] == pytest.approx(lower, abs=0.02 * sd)
    assert abilities.upper[i] == pytest.approx(upper, abs=0.02 * sd)


# --- reference: R mirt 1.45.1, fscores(method = "EAP") -----------------------------------------------------------


@pytest.mark.parametrize("model", ["2pl", "3plprior"])
def test_lsat6_agrees_with_mirt(reference: Path, model: str) -> None:
    parameters = pd.read_csv(reference / f"mirt_lsat6_{model}_pars.csv")
    expected = pd.read_csv(reference / f"mirt_lsat6_{model}_EAP.csv", dtype={"pattern": str})
    items = ItemParameters(
        tuple(parameters["item"]), parameters["a"], parameters["d"], parameters["c"], np.full(5, model != "2pl")
    )
    abilities = eap(matrix([[int(x) for x in pattern] for pattern in expected["pattern"]], items), items)
    np.testing.assert_allclose(abilities.theta, expected["theta"], atol=1e-4)
    np.testing.assert_allclose(abilities.standard_error, expected["se"], atol=1e-4)


@pytest.mark.parametrize("label", ["entailment", "neutral"])
def test_a_crowd_agrees_with_mirt(reference: Path, real_data: Path, label: str) -> None:
    parameters = pd.read_csv(reference / f"mirt_5gs_{label}_2pl_pars.csv")
    expected = pd.read_csv(reference / f"mirt_5gs_{label}_2pl_EAP.csv").set_index("respondent_id")
    items = ItemParameters(
        tuple(parameters["item_id"]), parameters["a"], parameters["intercept"], np.zeros(30), np.zeros(30, bool)
    )
    table = pd.read_csv(real_data / "lalor2016_snli" / "responses_5gs.csv.gz").rename(columns={"correct": "response"})
    abilities = eap(ResponseMatrix.from_long(table[table["item_id"].isin(items.item_ids)]), items)
    expected = expected.loc[list(abilities.respondent_ids)]
    assert len(expected) == 983
    np.testing.assert_allclose(abilities.theta, expected["theta"], atol=1e-4)
    np.testing.assert_allclose(abilities.standard_error, expected["se"], atol=1e-4)


# --- brute force ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_items", "guessing"), [(6, 0.0), (60, 0.25), (1000, 0.0), (1000, 0.25), (4000, 0.0)])
def test_theta_error_and_interval_are_those_of_the_integral(n_items: int, guessing: float) -> None:
    # posterior sd from .5 down to .04: below the default grid's spacing of .2 from some 60 items on
    items = varied_items(n_items, guessing=guessing)
    responses = simulate_responses([-2.5, -0.07, 1.3], items, rng=np.random.default_rng(2), missing=0.2)
    abilities = eap(responses, items)
    for i in range(3):
        assert_integrates(abilities, i, responses.values[i], items)


def test_without_the_finer_grid_many_items_go_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    # the control: on the population's own nodes an error of .06 comes out of a spacing of .2, and fails the test above
    items = varied_items(1000)
    responses = simulate_responses([-0.07], items, rng=np.random.default_rng(2))
    monkeypatch.setattr(ability, "_step_needed", lambda *_: np.inf)
    with pytest.raises(AssertionError):
        assert_integrates(eap(responses, items), 0, responses.values[0], items)


def test_a_curve_steeper_than_the_grid_is_integrated() -> None:
    # one item that splits the population at .1 between nodes at 0 and .2: the posterior is a normal cut there, and
    # E(theta | theta > b) = phi(b) / (1 - Phi(b)) = .39695 / .46017 = .8626
    items = ItemParameters.from_difficulty([200.0], [0.1])
    assert eap(matrix([[1]], items), items).theta[0] == pytest.approx(0.39695 / 0.46017, abs=0.005)


def test_short_and_long_patterns_in_one_batch() -> None:
    items = varied_items(1500)
    values = simulate_responses([0.4, 0.4], items, rng=np.random.default_rng(5)).values.copy()
    values[1, 4:] = np.nan
    abilities = eap(ResponseMatrix(values, ("long", "short"), items.item_ids), items)
    assert abilities.n_items.tolist() == [1500, 4]
    for i in range(2):
        assert_integrates(abilities, i, values[i], items)


def test_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    items = varied_items(25)
    responses = simulate_responses(np.linspace(-2, 2, 31), items, rng=np.random.default_rng(3), missing=0.1)
    whole = eap(responses, items)
    monkeypatch.setattr(ability, "BATCH_CELLS", 125)  # five respondents a batch, one node a part
    parted = eap(responses, items)
    np.testing.assert_allclose(parted.theta, whole.theta, atol=2e-6)
    np.testing.assert_allclose(parted.standard_error, whole.standard_error, atol=2e-6)
    np.testing.assert_allclose(parted.upper, whole.upper, atol=0.01)


# --- corners -------------------------------------------------------------------------------------------------------


def test_one_response_by_hand() -> None:
    # P = 1 / (1 + e^-theta) is 1/2 plus an odd function, so p(x=1) = 1/2 and E(theta | 1) = 2 E(theta P(theta)):
    # -E(theta | 0) by symmetry. E(theta P) = E(P') (Stein) = E(s(theta) s(-theta)) = .206621 for theta ~ N(0, 1).
    items = ItemParameters.from_difficulty([1.0], [0.0])
    right, wrong = eap(matrix([[1], [0]], items), items).theta
    assert right == pytest.approx(2 * 0.206621, abs=1e-5)
    assert wrong == pytest.approx(-right, abs=1e-12)


def test_without_a_response_theta_is_the_populations() -> None:
    items = varied_items(3)
    none = matrix([[np.nan] * 3], items)
    abilities = eap(none, items)
    assert abilities.n_items[0] == 0
    assert abilities.theta[0] == pytest.approx(0, abs=1e-9)
    assert abilities.standard_error[0] == pytest.approx(1, abs=1e-4)
    assert abilities.upper[0] == pytest.approx(1.95996, abs=0.01)
    no_columns = ResponseMatrix(np.empty((1, 0)), ("r",), ())
    assert eap(no_columns, items).standard_error[0] == pytest.approx(1, abs=1e-4)
    # a population of other shape: mean .5 * -1 + .5 * 2 = .5, variance .25 * 9 = 2.25
    two_points = Quadrature(np.array([-1.0, 0.5, 2.0]), np.log([0.5, 1e-300, 0.5]))
    abilities = eap(no_columns, items, quadrature=two_points)
    assert abilities.theta[0] == pytest.approx(0.5)
    assert abilities.standard_error[0] == pytest.approx(1.5)


@pytest.mark.parametrize("n_items", [5, 40, 2000])
def test_all_right_and_all_wrong_are_finite_and_right(n_items: int) -> None:
    items = varied_items(n_items)
    values = np.stack([np.ones(n_items), np.zeros(n_items)])
    abilities = eap(ResponseMatrix(values, ("right", "wrong"), items.item_ids), items)
    assert not abilities.at_bound.any()
    for i in range(2):
        assert_integrates(abilities, i, values[i], items)


def test_a_theta_at_the_end_of_the_population_is_flagged() -> None:
    # all right on 2,000 items wants theta near 6.5; a population on +-3 cannot say so, and the result shows it
    items = varied_items(2000)
    values = np.stack([np.ones(2000), simulate_responses([0.0], items, rng=np.random.default_rng(0)).values[0]])
    responses = ResponseMatrix(values, ("right", "middle"), items.item_ids)
    assert eap(responses, items, quadrature=normal_grid(31, bound=3.0)).at_bound.tolist() == [True, False]


def test_the_prior_is_the_population_also_between_its_nodes() -> None:
    # population N(1, .5^2) on a grid; 200 items need a finer one. Brute force over the same density.
    nodes = np.linspace(-6, 6, 61)
    log_density = -0.5 * ((nodes - 1) / 0.5) ** 2
    population = Quadrature(nodes, log_density - np.log(np.exp(log_density).sum()))
    items = varied_items(200)
    responses = simulate_responses([-1.0], items, rng=np.random.default_rng(8))
    theta = np.linspace(-3, 1, 4001)
    log_posterior = log_likelihood(responses.values, theta, items)[0] - 0.5 * ((theta - 1) / 0.5) ** 2
    mass = np.exp(log_posterior - log_posterior.max())
    mean = mass @ theta / mass.sum()
    assert eap(responses, items, quadrature=population).theta[0] == pytest.approx(mean, abs=2e-4)


def test_a_population_with_an_empty_node_is_no_obstacle() -> None:
    grid = normal_grid(61)
    weights = grid.weights.copy()
    weights[grid.nodes > 2.01] = 0
    with np.errstate(divide="ignore"):
        cut = Quadrature(grid.nodes, np.log(weights / weights.sum()))
    items = varied_items(300)
    abilities = eap(ResponseMatrix(np.ones((1, 300)), ("right",), items.item_ids), items, quadrature=cut)
    assert 1.5 < abilities.theta[0] < 2.2


# --- alignment and order -------------------------------------------------------------------------------------------


def test_items_are_found_by_name() -> None:
    items = varied_items(12)
    responses = simulate_responses([0.3, -1.0], items, rng=np.random.default_rng(4))
    shuffled = [items.item_ids[k] for k in np.random.default_rng(0).permutation(12)]
    np.testing.assert_allclose(eap(responses.select_items(shuffled), items).theta, eap(responses, items).theta)
    # an item absent from the responses is as one not answered
    values = responses.values.copy()
    values[:, 5:] = np.nan
    blanked = ResponseMatrix(values, responses.respondent_ids, responses.item_ids)
    subset = eap(responses.select_items(items.item_ids[:5]), items)
    np.testing.assert_allclose(subset.theta, eap(blanked, items).theta, atol=1e-6)


def test_bad_input_is_named() -> None:
    items = varied_items(2)
    stranger = ResponseMatrix(np.ones((1, 2)), ("r",), ("item1", "other"))
    with pytest.raises(InputError, match="no parameters known for item other"):
        eap(stranger, items)
    with pytest.raises(InputError, match="level must be between 0 and 1 but got 95"):
        eap(matrix([[1, 0]], items), items, level=95)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([0.0, 1.0, np.nan]), min_size=8, max_size=8), st.integers(0, 7))
def test_a_right_answer_raises_theta_and_a_wrong_one_lowers_it(row: list[float], k: int) -> None:
    items = varied_items(8)
    right, wrong, missing = ([*row[:k], x, *row[k + 1 :]] for x in (1.0, 0.0, np.nan))
    abilities = eap(matrix([right, wrong, missing], items), items)
    assert abilities.theta[1] < abilities.theta[2] < abilities.theta[0]
    assert (abilities.lower < abilities.theta).all()
    assert (abilities.theta < abilities.upper).all()


def test_intervals_hold_what_they_promise() -> None:
    # theta drawn from the prior: a Bayesian 80% interval holds exactly 80% of them. sd of the share over 2,000: .009
    rng = np.random.default_rng(6)
    items = varied_items(20)
    theta = rng.normal(size=2000)
    abilities = eap(simulate_responses(theta, items, rng=rng), items, level=0.8)
    held = ((abilities.lower < theta) & (theta < abilities.upper)).mean()
    assert held == pytest.approx(0.8, abs=0.03)
    assert (theta < abilities.lower).mean() == pytest.approx(0.1, abs=0.025)


def test_posterior_for_all_is_that_of_each() -> None:
    items = varied_items(30)
    responses = simulate_responses([-1.0, 0.0, 2.0], items, rng=np.random.default_rng(7))
    posterior, abilities = ability_posterior(responses, items), eap(responses, items)
    np.testing.assert_allclose(posterior.mass.sum(axis=1), 1)
    np.testing.assert_allclose(posterior.mean(), abilities.theta)
    # the quantile function inverts the cumulative mass: P(theta < median) = 1/2
    below = (posterior.mass * (posterior.nodes <= posterior.quantile(0.5)[:, None])).sum(axis=1)
    np.testing.assert_allclose(below, 0.5, atol=posterior.mass.max())
