"""Ability: against R mirt, against brute-force integration, by hand, and at the corners."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import brentq

from builders.mirt_figures import papers_scale
from builders.refusals import is_refused
from irtbench import ItemParameters, Quadrature, ResponseMatrix, as_responses, log_likelihood, normal_grid
from irtbench.models import theta_posterior as posterior
from irtbench.models.curves import information, simulate_responses
from irtbench.scoring.ability import BOUND, Abilities, Method, estimate_ability
from irtbench.scoring.item_error import abilities_of

NODES = np.linspace(-6, 6, 61)


def varied_items(n_items: int, *, guessing: float = 0.0, seed: int = 1) -> ItemParameters:
    rng = np.random.default_rng(seed)
    return ItemParameters.from_difficulty(rng.lognormal(0, 0.4, n_items), rng.normal(size=n_items), guessing)


def population(log_density: NDArray[np.float64], nodes: NDArray[np.float64] = NODES) -> Quadrature:
    return Quadrature(nodes, log_density - np.log(np.exp(log_density).sum()))


def assert_integrates(abilities: Abilities, i: int, values: NDArray[np.float64], items: ItemParameters) -> None:
    """Mean, sd and quantiles of the posterior under N(0, 1) by a sum over very many points.

    Theta within .002 of a standard error, the error within .2%, the quantiles within .02 of a standard error.
    """
    se = abilities.standard_error[i]
    theta = abilities.theta[i] + np.linspace(-10 * se, 10 * se, 801)
    parts = [log_likelihood(values[None, :], part, items)[0] for part in np.array_split(theta, 10)]
    log_density = np.concatenate(parts) - theta**2 / 2
    mass = np.exp(log_density - log_density.max())
    mass /= mass.sum()
    mean = mass @ theta
    sd = np.sqrt(mass @ (theta - mean) ** 2)
    ends = np.interp([(1 - abilities.level) / 2, (1 + abilities.level) / 2], np.cumsum(mass) - mass / 2, theta)
    assert abilities.theta[i] == pytest.approx(mean, abs=0.002 * sd)
    assert se == pytest.approx(sd, rel=0.002)
    assert [abilities.lower[i], abilities.upper[i]] == pytest.approx(ends.tolist(), abs=0.02 * sd)


@pytest.mark.parametrize("model", ["2pl", "3plprior"])
@pytest.mark.parametrize(("method", "near"), [("eap", 1e-4), ("map", 2e-4), ("ml", 2e-4)])
def test_lsat6_agrees_with_mirt(reference: Path, model: str, method: Literal["eap", "map", "ml"], near: float) -> None:
    # fscores(method = "EAP"), "MAP" and "ML", by pattern; where mirt's ML is infinite ours is at its bound
    known = pd.read_csv(reference / f"mirt_lsat6_{model}_pars.csv")
    items = ItemParameters(tuple(known["item"]), known["a"], known["d"], known["c"], np.full(5, model != "2pl"))
    expected = pd.read_csv(reference / f"mirt_lsat6_{model}_{method.upper()}.csv", dtype={"pattern": str})
    rows = [[int(x) for x in row] for row in expected["pattern"]]
    found = estimate_ability(rows, items, method=method)
    finite = np.isfinite(expected["theta"].to_numpy())
    np.testing.assert_allclose(found.theta[finite], expected["theta"][finite], atol=near)
    np.testing.assert_allclose(found.standard_error[finite], expected["se"][finite], atol=min(5 * near, 5e-4))
    np.testing.assert_array_equal(found.at_bound, ~finite)
    np.testing.assert_array_equal(np.sign(found.theta[~finite]), np.sign(expected["theta"][~finite]))


@pytest.mark.parametrize("label", ["entailment", "neutral"])
def test_a_crowd_agrees_with_mirt(reference: Path, real_data: Path, label: str) -> None:
    responses, items, theta = papers_scale(real_data, reference, label)
    assert responses.n_respondents == 983
    np.testing.assert_allclose(estimate_ability(responses, items).theta, theta, atol=1e-4)


@pytest.mark.parametrize(("n_items", "guessing"), [(6, 0.0), (60, 0.25), (1000, 0.25), (4000, 0.0)])
def test_theta_error_and_interval_are_those_of_the_integral(n_items: int, guessing: float) -> None:
    """Posterior sd from .5 to .04: below the default grid's spacing of .2 from some 60 items on.

    All right and all wrong are finite, and a short pattern has its own grid.
    """
    items = varied_items(n_items, guessing=guessing)
    usual = simulate_responses([-2.5, -0.07, 1.3], items, rng=np.random.default_rng(2), missing=0.2).values
    short = np.where(np.arange(n_items) < 4, usual[:1], np.nan)
    values = np.vstack([usual, np.ones(n_items), np.zeros(n_items), short])
    abilities = estimate_ability(values, items, level=0.8 if n_items == 60 else 0.95)
    assert not abilities.at_bound.any()
    for i, row in enumerate(values):
        assert_integrates(abilities, i, row, items)


def test_without_the_finer_grid_many_items_go_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    # the control: on the population's own nodes an error of .06 comes out of a spacing of .2, and fails the test above
    items = varied_items(1000)
    responses = simulate_responses([-0.07], items, rng=np.random.default_rng(2))
    monkeypatch.setattr(posterior, "step_needed", lambda *_: np.inf)
    with pytest.raises(AssertionError):
        assert_integrates(estimate_ability(responses, items), 0, responses.values[0], items)


def test_ends_and_empty_nodes_of_the_population_and_curves_steeper_than_it() -> None:
    # all right on 2,000 items wants theta near 6.5; a population on +-3 cannot say so, and the result shows it
    items = varied_items(2000)
    middle = simulate_responses([0.0], items, rng=np.random.default_rng(0)).values[0]
    responses = [np.ones(2000), middle, np.zeros(2000)]
    found = estimate_ability(responses, items, quadrature=normal_grid(31, bound=3.0))
    assert found.at_bound.tolist() == [True, False, True]
    items = varied_items(300)
    cut = population(np.where(NODES > 2.01, -np.inf, -(NODES**2) / 2))
    assert 1.5 < estimate_ability(np.ones((1, 300)), items, quadrature=cut).theta[0] < 2.2
    # one item that splits the population at .1 between nodes at 0 and .2: the posterior is a normal cut there, and
    # E(theta | theta > b) = phi(b) / (1 - Phi(b)) = .39695 / .46017 = .8626
    items = ItemParameters.from_difficulty([200.0], [0.1])
    assert estimate_ability([[1]], items).theta[0] == pytest.approx(0.39695 / 0.46017, abs=0.005)


def test_the_prior_is_the_population_also_between_its_nodes() -> None:
    # population N(1, .5^2) on a grid; 200 items need a finer one. Brute force over the same density.
    items = varied_items(200)
    responses = simulate_responses([-1.0], items, rng=np.random.default_rng(8))
    theta = np.linspace(-3, 1, 4001)
    log_posterior = log_likelihood(responses.values, theta, items)[0] - 0.5 * ((theta - 1) / 0.5) ** 2
    mass = np.exp(log_posterior - log_posterior.max())
    found = estimate_ability(responses, items, quadrature=population(-0.5 * ((NODES - 1) / 0.5) ** 2))
    assert found.theta[0] == pytest.approx(mass @ theta / mass.sum(), abs=2e-4)


def test_items_are_found_by_name() -> None:
    items = varied_items(12)
    responses = simulate_responses([0.3, -1.0], items, rng=np.random.default_rng(4))
    shuffled = [items.item_ids[k] for k in np.random.default_rng(0).permutation(12)]
    found = estimate_ability(responses.select_items(shuffled), items).theta
    np.testing.assert_allclose(found, estimate_ability(responses, items).theta)
    # an item absent from the responses is as one not answered
    blanked = np.where(np.arange(12) < 5, responses.values, np.nan)
    subset = estimate_ability(responses.select_items(items.item_ids[:5]), items)
    np.testing.assert_allclose(subset.theta, estimate_ability(blanked, items).theta, atol=1e-6)
    stranger = ResponseMatrix(np.ones((1, 2)), ("r",), ("item1", "other"))
    is_refused("no parameters known for item other", estimate_ability, stranger, items)
    is_refused("level must be between 0 and 1 but got 95", estimate_ability, blanked, items, level=95)


def test_one_item_by_hand() -> None:
    # a = 1, b = 0, no guessing. WLE: x - P + (1 - 2P) / 2 = 0, so P = (x + 1/2) / 2 = 3/4 or 1/4, theta = +-log 3;
    # I = P (1 - P) = 3/16, se = 4 / sqrt 3. MAP: x - P = theta; theta = 1 / (1 + e^theta) gives .401058, and its
    # information is 1 + P (1 - P) with P = 1 - .401058. EAP: P is 1/2 plus an odd function, so p(x=1) = 1/2 and
    # E(theta | 1) = 2 E(theta P(theta)); E(theta P) = E(P') (Stein) = E(s(theta) s(-theta)) = .206621, theta ~ N(0, 1).
    items = ItemParameters.from_difficulty([1.0], [0.0])
    eap, wle, mode, ml = (estimate_ability([[1], [0]], items, method=method) for method in ("eap", "wle", "map", "ml"))
    for found, theta, near in ((eap, 2 * 0.206621, 1e-5), (wle, np.log(3), 1e-8), (mode, 0.401058, 1e-6)):
        np.testing.assert_allclose(found.theta, [theta, -theta], atol=near)
    np.testing.assert_allclose(wle.standard_error, 4 / np.sqrt(3), atol=1e-8)
    np.testing.assert_allclose(mode.standard_error, 1 / np.sqrt(1 + 0.401058 * 0.598942), atol=1e-6)
    np.testing.assert_array_equal(ml.theta, [BOUND, -BOUND])
    assert ml.at_bound.all()
    # log P falls by z^2 / 2 = 1.9207 from its bound: P = .14650, theta = -1.762; the grid's step is .1
    assert ml.lower[0] == pytest.approx(-1.762, abs=0.1)
    assert ml.upper[0] == BOUND
    assert np.isnan(ml.standard_error).all()


@pytest.mark.parametrize("method", ["map", "ml", "wle"])
def test_modes_are_where_the_objective_is_highest(method: Literal["map", "ml", "wle"]) -> None:
    # brute force over a fine grid; Warm's objective for the 2PL is log L + log(I) / 2
    items = varied_items(25)
    responses = simulate_responses(np.linspace(-2, 2, 9), items, rng=np.random.default_rng(11), missing=0.2)
    theta = np.linspace(-5, 5, 10001)
    objective = log_likelihood(responses.values, theta, items)
    if method == "map":
        objective = objective - theta**2 / 2
    elif method == "wle":
        objective = objective + np.log(responses.observed @ information(theta, items).T) / 2
    found = estimate_ability(responses, items, method=method)
    np.testing.assert_allclose(found.theta, theta[objective.argmax(axis=1)], atol=1e-3)


@pytest.mark.parametrize("method", ["eap", "map", "ml", "wle", "eap_sum"])
def test_without_an_item_theta_is_the_populations_or_unknown(method: Method) -> None:
    items = varied_items(3)
    found = estimate_ability([[np.nan] * 3], items, method=method)
    if method in ("ml", "wle"):
        assert np.isnan(found.theta[0])
        assert (found.lower[0], found.upper[0]) == (-BOUND, BOUND)
    else:
        assert (found.theta[0], found.standard_error[0]) == pytest.approx((0, 1), abs=1e-6)
        assert found.upper[0] == pytest.approx(1.95996, abs=0.01)
    assert (found.at_bound[0], found.n_items[0]) == (False, 0)
    assert estimate_ability(np.empty((0, 3)), items, method=method).table().empty  # of nobody there are none
    if method == "eap":  # of another shape, and with no column: mean .5 * -1 + .5 * 2 = .5, variance .25 * 9 = 2.25
        two_points = Quadrature(np.array([-1.0, 0.5, 2.0]), np.log([0.5, 1e-300, 0.5]))
        found = estimate_ability(ResponseMatrix(np.empty((1, 0)), ("r",), ()), items, quadrature=two_points)
        assert (found.theta[0], found.standard_error[0]) == pytest.approx((0.5, 1.5))


def test_the_mode_and_its_error_are_by_the_density_of_the_population_there() -> None:
    # N(1, .5^2): without a response MAP is its mode and its sd; one item at 1 moves it alike to both sides
    items = ItemParameters.from_difficulty([1.0], [1.0])
    # sd .5 above 1 and .8 below: the mode 1.3 is in the second of the cells of .2 above 1
    skewed = np.where(NODES > 0.99, 0.5, 0.8)
    normal, other = (
        estimate_ability([[np.nan], [1], [0]], items, method="map", quadrature=population(log_density))
        for log_density in (-0.5 * ((NODES - 1) / 0.5) ** 2, -0.5 * ((NODES - 1.3) / skewed) ** 2)
    )
    assert (normal.theta[0], normal.standard_error[0]) == pytest.approx((1, 0.5), abs=1e-8)
    assert normal.theta[1] - 1 == pytest.approx(1 - normal.theta[2])
    assert (other.theta[0], other.standard_error[0]) == pytest.approx((1.3, 0.5), abs=1e-6)


def test_a_posterior_that_rises_to_its_end_has_an_interval_by_its_fall() -> None:
    # the density exp(theta) on [-1, 1] and a right answer: log posterior t - log(1 + exp(-4 t)), highest at 1
    nodes = np.linspace(-1, 1, 201)
    items = ItemParameters.from_difficulty([4.0], [0.0])
    found = estimate_ability([[1]], items, method="map", quadrature=population(nodes, nodes))
    fallen = brentq(lambda t: t - np.log1p(np.exp(-4 * t)) - (1 - np.log1p(np.exp(-4))) + 1.96**2 / 2, -1, 1)
    assert (found.theta[0], found.upper[0], bool(found.at_bound[0])) == (1.0, 1.0, True)
    assert found.lower[0] == pytest.approx(fallen, abs=0.011)  # the grid's step


def test_abilities_fitted_with_the_items_keep_their_errors_and_get_normal_intervals() -> None:
    items = varied_items(3)
    own = SimpleNamespace(theta=np.array([-0.5, 1.2]), standard_error=np.array([0.4, 0.3]))
    fitted: Any = SimpleNamespace(items=items, estimated_population=None, abilities=own)
    table = abilities_of(fitted, as_responses([[0, 1, 0], [1, 1, np.nan]]), level=0.9).table()
    # z of 90% is 1.64485: -.5 -+ .65794 and 1.2 -+ .49346
    for name, expected in (
        ("theta", [-0.5, 1.2]), ("se", [0.4, 0.3]), ("theta_lower", [-1.15794, 0.70654]),
        ("theta_upper", [0.15794, 1.69346]), ("n_items", [3, 2]), ("n_correct", [1, 2]),
    ):  # fmt: skip
        assert table[name].tolist() == pytest.approx(expected, abs=1e-5), name


@given(
    st.lists(st.sampled_from([0.0, 1.0, np.nan]), min_size=8, max_size=8),
    st.integers(0, 7),
    st.sampled_from(["eap", "map", "wle", "eap_sum"]),
    st.sampled_from([0.0, 0.2]),
)
def test_a_right_answer_raises_theta_and_a_wrong_one_lowers_it(
    row: list[float], k: int, method: Method, guessing: float
) -> None:
    items = varied_items(8, guessing=guessing if method in ("map", "eap_sum") else 0.0)
    rows = [[*row[:k], x, *row[k + 1 :]] for x in (1.0, 0.0, np.nan)]
    found = estimate_ability(rows, items, method=method)
    assert found.theta[1] < found.theta[0]
    assert method != "eap" or found.theta[1] < found.theta[2] < found.theta[0]
    assert ((found.lower <= found.theta) & (found.theta <= found.upper))[:2].all()


@pytest.mark.parametrize(("slope", "easier", "theta"), [(1.4, 2.0, 3.5), (3.5, 0.0, 3.5), (1.4, 0.0, -3.5)])
def test_intervals_cover_abilities_far_beyond_the_items(slope: float, easier: float, theta: float) -> None:
    # theta +- 1.96 standard errors cover .97, .00 and .90: all right has no upper end, however steep the items
    items = ItemParameters.from_difficulty(np.full(30, slope), np.linspace(-1.8, 1.8, 30) - easier)
    responses = simulate_responses(np.full(500, theta), items, rng=np.random.default_rng(3))
    found = estimate_ability(responses, items, method="wle")
    assert ((found.lower <= theta) & (theta <= found.upper)).mean() > 0.93
    assert (found.upper[responses.values.all(axis=1)] == BOUND).all()
