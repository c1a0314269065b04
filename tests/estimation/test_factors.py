"""Several abilities: likelihoods against R mirt, recovery of known slopes, comparison of nested models."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from irtbench import InputError, ItemParameters, ResponseMatrix, compare_models, fit_model, likelihood_ratio
from irtbench.estimation.factors import FactorModel, factor_scores, fit_factors
from irtbench.estimation.status import Status, Stop
from irtbench.models.item_models.logistic import Logistic
from irtbench.scoring.ability import eap

CONVERGED = Status(Stop.CONVERGED, 1)


def two_abilities(n_respondents: int, *, seed: int) -> tuple[np.ndarray, ResponseMatrix]:
    """Ten items: five on the first ability, five on the second."""
    rng = np.random.default_rng(seed)
    slopes = np.zeros((10, 2))
    slopes[:5, 0] = rng.uniform(1.0, 2.0, 5)
    slopes[5:, 1] = rng.uniform(1.0, 2.0, 5)
    theta = rng.normal(size=(n_respondents, 2))
    p = 1 / (1 + np.exp(-(theta @ slopes.T + rng.normal(0, 0.7, 10))))
    values = (rng.random(p.shape) < p).astype(float)
    return slopes, ResponseMatrix(values, tuple(map(str, range(n_respondents))), tuple(f"i{j}" for j in range(10)))


@pytest.mark.parametrize("label", ["entailment", "neutral"])
def test_two_factors_reach_mirts_likelihood(real_data: Path, reference: Path, label: str) -> None:
    items = list(pd.read_csv(reference / f"mirt_5gs_{label}_2pl_pars.csv")["item_id"])
    table = pd.read_csv(real_data / "lalor2016_snli" / "responses_5gs.csv.gz").rename(columns={"correct": "response"})
    responses = ResponseMatrix.from_long(table[table["item_id"].isin(items)], item_ids=items)
    mirt = pd.read_csv(reference / f"mirt_5gs_{label}_model_fit.csv").set_index("model").loc["2f_2pl"]
    fitted = fit_factors(responses, 2)
    assert fitted.converged
    assert fitted.log_likelihood > mirt["logLik"] - 1.0
    assert fitted.n_parameters == mirt["npar"]
    assert fitted.aic < mirt["AIC"] + 2.0


def test_exploratory_factors_span_what_the_pattern_has() -> None:
    truth, responses = two_abilities(3000, seed=3)
    free, fixed = fit_factors(responses, 2), fit_factors(responses, 2, zero_loadings=truth == 0)
    # a a' does not change when axes turn
    np.testing.assert_allclose(free.slopes @ free.slopes.T, fixed.slopes @ fixed.slopes.T, atol=0.6)
    test = likelihood_ratio(fixed, free)
    assert test.df == 29 - 20
    assert test.p > 0.001  # the pattern is true
    against_one = likelihood_ratio(fit_factors(responses, 1), free)
    assert against_one.p < 1e-10
    table = compare_models({"pattern": fixed, "free": free})
    assert table.loc[table["bic"].idxmin(), "model"] == "pattern"
    assert table["delta_bic"].min() == 0


@pytest.mark.slow
def test_four_abilities_by_quasi_monte_carlo_come_near_the_smaller_model() -> None:
    _, responses = two_abilities(400, seed=4)
    two, four = fit_factors(responses, 2), fit_factors(responses, 4)
    assert four.slopes.shape == (10, 4)
    assert four.log_likelihood > two.log_likelihood - 1.0  # it contains the smaller one


def model_of(slopes: np.ndarray, log_likelihood: float, n_respondents: int) -> FactorModel:
    return FactorModel(
        item_ids=tuple("ab"[: len(slopes)]),
        slopes=slopes,
        intercepts=np.zeros((len(slopes), 1)),
        models=(Logistic(),) * len(slopes),
        categories=((0, 1),) * len(slopes),
        zero_loadings=None,
        log_likelihood=log_likelihood,
        n_respondents=n_respondents,
        status=CONVERGED,
    )


def test_loadings_and_communality() -> None:
    fitted = model_of(np.array([[1.702, 0.0]]), 0.0, 10)
    # a = 1.702: h2 = a^2 / (a^2 + 1.702^2) = 1/2, the loading its root
    np.testing.assert_allclose(fitted.loadings, [[np.sqrt(0.5), 0.0]])


def test_the_halved_p_of_a_parameter_on_its_boundary() -> None:
    one, two = model_of(np.ones((2, 1)), -100.0, 50), model_of(np.ones((2, 2)), -98.0, 50)
    # 4 and 5 parameters, statistic 4: P(chi2(1) > 4) = .0455
    whole, halved = likelihood_ratio(one, two), likelihood_ratio(one, two, on_boundary=True)
    assert whole.df == 1
    assert whole.p == pytest.approx(0.04550, abs=1e-5)
    assert halved.p == whole.p / 2
    with pytest.raises(InputError, match="more parameters"):
        likelihood_ratio(two, one)
    for n in (49, 51):
        with pytest.raises(InputError, match=f"models of {n} and 50 respondents cannot be compared"):
            likelihood_ratio(replace(one, n_respondents=n), two)


@pytest.mark.parametrize(
    ("n_factors", "zeros", "saying"),
    [
        (10, None, "expected between 1 and 9"),
        (2, np.zeros((3, 2)), "expected \\(10, 2\\)"),
        (2, np.ones((10, 2)), "without any slope"),
        (3, np.tile([0, 0, 1], (10, 1)), "an ability without any item"),
    ],
)
def test_bad_patterns_are_refused(n_factors: int, zeros: np.ndarray | None, saying: str) -> None:
    with pytest.raises(InputError, match=saying):
        fit_factors(two_abilities(50, seed=5)[1], n_factors, zero_loadings=zeros)


def test_scores_of_one_factor_are_eaps() -> None:
    """Of several abilities: `test_scores_of_three_steep_scales_cover_their_abilities`."""
    first = two_abilities(600, seed=3)[1].select_items([f"i{j}" for j in range(5)])
    one = fit_factors(first, 1, tolerance=1e-5)
    items = ItemParameters(first.item_ids, one.slopes[:, 0], one.intercept, np.zeros(5), np.zeros(5, dtype=bool))
    scores, abilities = factor_scores(one, first), eap(first, items)
    np.testing.assert_allclose(scores["theta_1"], abilities.theta, atol=1e-6)
    np.testing.assert_allclose(scores["se_1"], abilities.standard_error, atol=1e-6)
    np.testing.assert_array_equal(scores["n_correct"], first.values.sum(axis=1))
    of_one, of_model = one.standard_errors(), fit_model(first).items.standard_errors()
    np.testing.assert_allclose(of_one["slope_1"], of_model["discrimination"], rtol=1e-3)
    np.testing.assert_allclose(of_one["intercept"], of_model["intercept"], rtol=1e-3)


def test_more_items_than_respondents_are_a_doubt_of_several_abilities() -> None:
    rng = np.random.default_rng(2)
    answers = (rng.random((24, 25)) < 0.5).astype(float)
    assert "25 items outnumber 24 respondents" in fit_factors(answers, 2, max_steps=2).summary()["doubts"][0]
    assert fit_factors(answers[:, :24], 2, max_steps=2).summary()["doubts"] == []
