"""Abilities as parameters, items integrated out: derivatives, invariance, recovery where respondents are few."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from builders.problem import make_problem
from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.estimate import Estimate
from irtbench.estimation.few_respondents import random_items
from irtbench.estimation.few_respondents.item_density import LEAST_DEVIATION, learn
from irtbench.estimation.few_respondents.item_quadrature import ItemModes, item_quadrature
from irtbench.estimation.few_respondents.random_items import (
    ability_derivatives,
    fit_random_items,
    known_abilities,
    standardise,
    standardised_covariance,
    starting_modes,
    with_likelier_signs,
)
from irtbench.estimation.fit import fit_model, with_positive_direction
from irtbench.estimation.settings import FitSettings
from irtbench.estimation.status import Status, Stop
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.priors import Hierarchy, Priors
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.pyro_model.rows import DenseRows, encode_responses
from irtbench.models.simulation import simulate_responses

PRIOR = Hierarchy((0.1, 0.2), (0.3, 1.2), 0.3, of="difficulty")


def simulated(
    n: int, n_items: int, *, seed: int = 0, missing: float = 0.0
) -> tuple[torch.Tensor, ItemParameters, ResponseMatrix]:
    rng = np.random.default_rng([seed, n])
    theta = rng.normal(size=n)
    items = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, n_items), rng.normal(0, 1, n_items))
    return torch.from_numpy(theta), items, simulate_responses(theta, items, rng=rng, missing=missing)


def encoded(responses: ResponseMatrix) -> DenseRows:
    rows = encode_responses(responses, torch.device("cpu"))
    assert isinstance(rows, DenseRows)
    return rows


def flat_start(n_items: int) -> ItemModes:
    return ItemModes(torch.zeros(n_items, 2, dtype=torch.float64), torch.ones(n_items, dtype=torch.float64))


def evidence(rows: DenseRows, theta: torch.Tensor, prior: Hierarchy) -> float:
    return float(item_quadrature(rows, theta, flat_start(rows.n_items), prior).log_evidence(prior).sum())


def test_score_and_information_are_the_derivatives_of_the_marginal_likelihood() -> None:
    theta, _, responses = simulated(12, 200, missing=0.2)
    rows = encoded(responses)
    quadrature = item_quadrature(rows, theta, flat_start(200), PRIOR)
    score, information, missing = ability_derivatives(rows, theta, quadrature, PRIOR, with_missing=True)
    step = 1e-3

    def moved(i: int, by: float) -> torch.Tensor:
        return theta + by * torch.nn.functional.one_hot(torch.tensor(i), 12)

    for i in (0, 5):
        slope = (evidence(rows, moved(i, step), PRIOR) - evidence(rows, moved(i, -step), PRIOR)) / (2 * step)
        assert float(score[i]) == pytest.approx(slope, abs=0.02)
        ahead, behind = (
            ability_derivatives(rows, at, item_quadrature(rows, at, flat_start(200), PRIOR), PRIOR)[0]
            for at in (moved(i, step), moved(i, -step))
        )
        curvature = (torch.diag(information) - missing)[i]
        np.testing.assert_allclose(curvature, -(ahead - behind) / (2 * step), atol=0.1)
        # of twelve answers to an item with two unknowns about a sixth says nothing of abilities
        assert 0.05 < float(missing[i, i] / information[i]) < 0.35


def test_another_origin_and_unit_of_theta_change_nothing() -> None:
    theta, _, responses = simulated(15, 50)
    rows = encoded(responses)
    origin, unit = 0.4, 1.7
    moved = Hierarchy(
        (PRIOR.mean[0] + float(np.log(unit)), (PRIOR.mean[1] - origin) / unit),
        (PRIOR.deviation[0], PRIOR.deviation[1] / unit),
        PRIOR.correlation,
        of="difficulty",
    )
    assert evidence(rows, (theta - origin) / unit, moved) == pytest.approx(evidence(rows, theta, PRIOR), abs=1e-4)


def test_the_learnt_density_is_the_likeliest() -> None:
    theta, _, responses = simulated(40, 2000)
    rows = encoded(responses)
    prior = PRIOR
    for _ in range(4):
        quadrature = item_quadrature(rows, theta, flat_start(2000), prior)
        prior = learn(quadrature, prior)
    best = float(quadrature.log_evidence(prior).sum())
    for worse in (
        replace(prior, mean=(prior.mean[0] + 0.03, prior.mean[1])),
        replace(prior, mean=(prior.mean[0], prior.mean[1] - 0.1)),
        replace(prior, deviation=(prior.deviation[0] * 1.1, prior.deviation[1])),
        replace(prior, deviation=(prior.deviation[0], prior.deviation[1] * 0.93)),
        replace(prior, correlation=prior.correlation + 0.1),
    ):
        assert float(quadrature.log_evidence(worse).sum()) < best - 0.5
    # 2,000 items and 40 answers each: standard errors of about .01, .03, .01 and .02
    assert prior.mean == pytest.approx((0.2, 0.0), abs=0.1)
    assert prior.deviation == pytest.approx((0.3, 1.0), abs=0.06)
    assert abs(prior.correlation) < 0.15


@pytest.mark.slow
def test_items_alike_in_slope_do_not_drive_the_density_to_nothing() -> None:
    rng = np.random.default_rng(4)
    theta = rng.normal(size=60)
    items = ItemParameters.from_difficulty(np.ones(400), rng.normal(size=400))
    rows = encoded(simulate_responses(theta, items, rng=rng))
    found = fit_random_items(rows, torch.from_numpy(theta), torch.zeros(400, dtype=torch.bool), tolerance=2e-3)
    assert found.learning.settled
    assert LEAST_DEVIATION <= found.prior.deviation[0] < 0.12
    assert bool(torch.isfinite(found.mean).all())


def test_the_covariance_of_abilities_keeps_mean_and_unit() -> None:
    theta = standardise(torch.linspace(-1, 2, 8, dtype=torch.float64) ** 2)
    root = torch.randn(8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    information = root @ root.T + 8 * torch.eye(8)
    covariance = standardised_covariance(information, theta)
    np.testing.assert_allclose(covariance @ torch.ones(8, dtype=torch.float64), 0, atol=1e-12)
    np.testing.assert_allclose(covariance @ theta, 0, atol=1e-12)
    # the limit of a covariance under ever firmer constraints
    firm = information + 1e9 * (torch.ones(8, 8) + torch.outer(theta, theta))
    np.testing.assert_allclose(covariance, torch.linalg.inv(firm), atol=1e-7)


def test_a_sign_that_is_chance_is_turned_and_one_that_is_not_stays() -> None:
    theta, items, responses = simulated(60, 40, seed=3)
    rows = encoded(responses)
    rows.values[:, 0] = 1 - rows.values[:, 0]  # a key that is reversed
    sign = torch.ones(40, dtype=torch.float64)
    sign[:2] = -1.0  # of the first rightly, of the second by chance
    places = torch.tensor(np.c_[np.log(items.discrimination), items.difficulty])
    found = with_likelier_signs(rows, theta, ItemModes(places, sign), PRIOR)
    assert float(found.sign[0]) == -1.0
    assert bool((found.sign[1:] > 0).all())


@pytest.mark.parametrize(("n_items", "known"), [(20, False), (600, True)])
def test_abilities_are_taken_as_known_with_many_items_only(n_items: int, known: bool) -> None:
    theta, items, responses = simulated(40, n_items)
    problem = make_problem(responses, Priors("hierarchical", hierarchy=Hierarchy()))
    matrix = torch.tensor(np.c_[items.discrimination, items.intercept, np.zeros(n_items)])
    found = known_abilities(problem, ItemTensors.from_matrix(matrix))
    assert (found is not None) == known
    if found is not None:
        assert np.corrcoef(found, theta)[0, 1] > 0.99


@pytest.mark.slow
def test_a_dozen_respondents_and_thousands_of_items() -> None:
    standardised_errors = []
    for seed in range(4):
        theta, items, responses = simulated(12, 3000, seed=seed)
        fitted = fit_model(responses, FitSettings(prior="hierarchical"))
        assert fitted.converged
        assert fitted.stopped_because.endswith("items integrated out, estimates are posterior means")
        mean, deviation = float(theta.mean()), float(theta.std(correction=0))
        a, b = items.discrimination * deviation, (items.difficulty - mean) / deviation
        assert fitted.abilities is not None
        error = fitted.abilities.theta - (theta.numpy() - mean) / deviation
        standardised_errors.append(error / fitted.abilities.standard_error)
        hierarchy = fitted.priors.hierarchy
        assert hierarchy is not None
        assert 0.2 < hierarchy.deviation[0] < 0.4  # .3 in truth
        assert hierarchy.deviation[1] == pytest.approx(1 / deviation, rel=0.1)
        assert np.sqrt(np.mean((fitted.items.discrimination - a) ** 2)) < np.std(
            a
        )  # that of knowing nothing of an item
        errors = fitted.items.standard_errors()
        for name, estimate, true in (
            ("discrimination", fitted.items.discrimination, a),
            ("intercept", fitted.items.intercept, -a * b),
        ):
            held = np.mean(np.abs(estimate - true) < 1.96 * errors[name])
            assert 0.92 < held < 0.985, name
    # 40 free errors: their mean square lies between .45 and 1.8 with probability .998
    assert 0.45 < float(np.sum(np.square(standardised_errors))) / 40 < 1.8


def test_a_respondent_who_got_everything_right_has_a_finite_ability() -> None:
    theta, _, responses = simulated(30, 400, seed=5)
    values = responses.values.copy()
    values[0] = 1.0
    rows = encoded(replace(responses, correct=values))
    found = fit_random_items(rows, theta, torch.zeros(400, dtype=torch.bool), tolerance=2e-3)
    assert found.learning.settled
    assert float(found.theta[0]) == float(found.theta.max())
    assert float(found.theta_covariance[0, 0]) > 2 * float(found.theta_covariance.diagonal().median())


def test_a_reversed_item_starts_where_its_answers_are() -> None:
    _, _, responses = simulated(200, 3, seed=7)
    modes = starting_modes(encoded(responses), torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64))
    z = modes.sign * -modes.places[:, 1]  # log odds of somebody of ability 0
    np.testing.assert_allclose(torch.sigmoid(z), responses.proportion_correct(), atol=0.01)


def test_abilities_turn_with_theta() -> None:
    problem = make_problem(simulated(30, 5)[2])
    theta = torch.linspace(-1, 1, 30, dtype=torch.float64)
    items = ItemTensors.from_matrix(torch.tensor([[-1.0, 0.2, 0.0]] * 5, dtype=torch.float64))
    abilities = theta, torch.eye(30, dtype=torch.float64)
    found = Estimate(items, "mean", 0.0, 0.0, Status(Stop.CONVERGED, 1), abilities=abilities)
    turned = with_positive_direction(problem, found)
    assert bool((turned.items.slope > 0).all())
    assert turned.abilities is not None
    assert torch.equal(turned.abilities[0], -theta)


def test_a_fit_that_did_not_settle_has_no_standard_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_items, "MOST_UPDATES", 1)
    fitted = fit_model(simulated(12, 1000)[2], FitSettings(prior="hierarchical"))
    assert not fitted.converged
    assert "not settled after 1 updates" in fitted.stopped_because
    assert fitted.items.covariance is None
