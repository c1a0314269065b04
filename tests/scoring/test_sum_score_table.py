"""Raw score to ability: values derived by hand, R mirt's figures, and what must hold of any items."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

import irtbench
from builders.scales import scale_of

CSV = ["score", "theta", "se", "theta_lower", "theta_upper", "percentile", "percentile_lower", "percentile_upper"]


@pytest.mark.parametrize("name", ["lsat6_2pl", "lsat6_3plprior", "lsat6_rasch", "5gs_entailment_2pl"])
def test_figures_are_mirts(reference, name: str) -> None:
    """EAPsum of R mirt 1.45.1, see reference/next/08_eapsum: to the third digit, on its nodes."""
    folder = reference / "next" / "08_eapsum"
    known = pd.read_csv(folder / f"{name}_pars.csv")
    theirs = pd.read_csv(folder / f"{name}_eapsum.csv")
    variance = float(pd.read_csv(folder / f"{name}_rxx.csv")["latent_var"].iloc[0])
    items = irtbench.ItemParameters(
        tuple(known["item"]), known["a"], known["d"], known["c"], np.zeros(len(known), dtype=bool)
    )
    nodes = np.linspace(-6, 6, 61)
    weights = np.exp(-0.5 * nodes**2 / variance)
    population = irtbench.Quadrature(nodes, np.log(weights / weights.sum()))
    ours = irtbench.sum_score_table(items, population=population).table()
    assert list(ours)[: len(CSV)] == CSV
    for column, other in (("theta", "theta"), ("se", "se"), ("probability", "p_score")):
        np.testing.assert_allclose(ours[column], theirs[other], atol=5e-4)


def test_items_that_tell_nothing_leave_the_population() -> None:
    # slopes of 0: the score is binomial with p = 1/2 whatever theta, and the posterior is N(0, 1)
    found = irtbench.sum_score_table(irtbench.ItemParameters.from_difficulty([0.0] * 4, [0.0] * 4))
    table = found.table()
    np.testing.assert_allclose(table["probability"], binom.pmf(range(5), 4, 0.5), atol=1e-12)
    np.testing.assert_allclose(table[["theta", "se"]], [[0, 1]] * 5, atol=1e-9)
    np.testing.assert_allclose(table["percentile"], 50, atol=1e-6)
    assert repr(found).startswith("<SumScoreTable: scores 0 to 4, theta ")


@given(
    st.lists(st.tuples(st.floats(0.2, 3), st.floats(-3, 3), st.floats(0, 0.4)), min_size=1, max_size=12),
    st.floats(-1, 1),
    st.floats(0.4, 2),
)
def test_total_probability_mean_and_variance_are_the_populations(parameters, mean: float, deviation: float) -> None:
    a, b, c = np.array(parameters).T
    population = irtbench.normal_population(mean, deviation)
    table = irtbench.sum_score_table(irtbench.ItemParameters.from_difficulty(a, b, c), population=population).table()
    share, theta, se = (table[name].to_numpy() for name in ("probability", "theta", "se"))
    assert share.sum() == pytest.approx(1, abs=1e-9)
    assert share @ theta == pytest.approx(mean, abs=1e-7)
    assert share @ (se**2 + (theta - mean) ** 2) == pytest.approx(deviation**2, abs=1e-6)
    assert (np.diff(theta) > 0).all()


def test_a_scale_brings_its_population_and_its_norms() -> None:
    rng = np.random.default_rng(1)
    items = irtbench.ItemParameters.from_difficulty([1.0] * 10, np.linspace(-2, 2, 10))
    population = irtbench.normal_population(0.5, 1.5)
    norms = irtbench.Norms(rng.normal(0.5, 1.5, 500))
    found = irtbench.sum_score_table(scale_of(items, norms, population=population), norm="empirical")
    alone = irtbench.sum_score_table(items, population=population)
    np.testing.assert_array_equal(found.abilities.theta, alone.abilities.theta)
    below = [(norms.theta < theta).mean() for theta in found.abilities.theta]
    np.testing.assert_allclose(found.percentiles.percentile / 100, below, atol=0.005)
    # the same as scoring somebody with that many right by the sum score
    responses = np.tri(11, 10, -1)
    scored = irtbench.estimate_ability(responses, items, method="eap_sum", quadrature=population)
    np.testing.assert_allclose(found.abilities.theta, scored.theta, atol=1e-9)
    np.testing.assert_allclose(found.abilities.lower, scored.lower, atol=1e-9)


def test_many_easy_items_with_guessing_still_have_a_table() -> None:
    items = irtbench.ItemParameters.from_difficulty([1.0] * 700, [0.0] * 700, 0.5)
    table = irtbench.sum_score_table(items).table()
    assert np.isfinite(table["theta"]).all()
    assert (np.diff(table["theta"]) > -1e-6).all()
