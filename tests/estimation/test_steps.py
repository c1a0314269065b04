"""The parts that make the steps quick leave the maximum where it is, and are what they are said to be."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from builders.problem import make_problem
from builders.simulated import drawn
from irtbench import FitSettings, InputError, ResponseMatrix, fit_model
from irtbench.estimation import scale_fit
from irtbench.estimation.marginal import fisher_scoring
from irtbench.estimation.marginal import observed_information as uncertainty
from irtbench.estimation.marginal.acceleration import StepMemory
from irtbench.estimation.marginal.fisher_scoring import RoughStart, find_mode
from irtbench.estimation.marginal.m_step import item_derivatives
from irtbench.estimation.marginal.observed_information import joint_parameter_covariance
from irtbench.models.priors import PriorName


@pytest.mark.parametrize("prior", ["none", "weak"])
def test_a_start_from_coarse_nodes_changes_the_steps_and_not_the_maximum(
    monkeypatch: pytest.MonkeyPatch, prior: PriorName
) -> None:
    responses = drawn(1200, 12)
    settings = FitSettings(kind="3pl", prior=prior, standard_errors=False, tolerance=1e-6)
    coarse = fit_model(responses, settings)
    monkeypatch.setattr(scale_fit, "rough_start", lambda problem: RoughStart(problem.starting_values()))
    plain = fit_model(responses, settings)
    assert coarse.converged
    assert plain.converged
    assert coarse.steps < plain.steps
    assert coarse.log_likelihood == pytest.approx(plain.log_likelihood, abs=1e-6)
    np.testing.assert_allclose(coarse.items.guessing, plain.items.guessing, atol=1e-5)


def test_a_start_from_a_sample_changes_the_steps_and_not_the_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    responses = drawn(8500, 12, missing=0.1)
    settings = FitSettings(standard_errors=False)
    sampled = fit_model(responses, settings)
    monkeypatch.setattr(fisher_scoring, "SAMPLE", 10**9)
    plain = fit_model(responses, settings)
    assert sampled.log_likelihood == pytest.approx(plain.log_likelihood, abs=1e-6)
    np.testing.assert_allclose(sampled.items.discrimination, plain.items.discrimination, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("missing", "settings"),
    [(0.0, FitSettings()), (0.3, FitSettings()), (0.0, FitSettings(prior="weak")), (0.0, FitSettings(guessing=0.2))],
    ids=["complete", "missing", "weak", "guessing fixed"],
)
def test_the_curvature_of_a_sample_saves_passes_and_leaves_the_maximum(
    monkeypatch: pytest.MonkeyPatch, missing: float, settings: FitSettings
) -> None:
    responses = drawn(30_000, 12, missing=missing)
    plain = fit_model(responses, settings)
    monkeypatch.setattr(fisher_scoring, "FEWEST_FOR_CURVATURE", 10_000)
    monkeypatch.setattr(fisher_scoring, "SHARE_FOR_CURVATURE", 4)
    monkeypatch.setattr(fisher_scoring, "SHARE_OF_INCOMPLETE", 4)
    told = fit_model(responses, settings)
    assert told.converged
    assert told.steps <= plain.steps - (0 if settings.guessing else 2)  # with guessing the sample tells no curvature
    assert told.log_likelihood == pytest.approx(plain.log_likelihood, abs=1e-6)
    np.testing.assert_allclose(told.items.discrimination, plain.items.discrimination, atol=1e-6)
    np.testing.assert_allclose(told.items.covariance, plain.items.covariance, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("factor", [-1.0, 1e-3, 1e3])
@torch.no_grad()
def test_a_curvature_that_misleads_costs_steps_and_not_the_maximum(factor: float) -> None:
    problem = make_problem(drawn(2_000, 10))
    right = find_mode(problem)
    covariance, _ = joint_parameter_covariance(problem, right.items)
    start = problem.starting_values()
    led = find_mode(problem, start=start, covariance=covariance)
    misled = find_mode(problem, start=start, covariance=factor * covariance)
    assert led.status.converged
    assert misled.status.converged
    assert led.status.steps < right.status.steps <= misled.status.steps + 1
    torch.testing.assert_close(misled.items.matrix, right.items.matrix, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["2pl", "3pl"])
def test_a_basis_from_some_functions_gives_the_same_errors(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    responses = drawn(600, 30, missing=0.2)
    settings = FitSettings(kind=kind, prior="weak")  # type: ignore[arg-type]
    whole = fit_model(responses, settings).items.standard_errors()
    monkeypatch.setattr(uncertainty, "MOST_SPANNING", 40)
    for name, errors in fit_model(responses, settings).items.standard_errors().items():
        np.testing.assert_allclose(errors, whole[name], rtol=1e-5)


def test_a_leaderboard_of_very_steep_items_converges(real_data: Path) -> None:
    table = pd.read_csv(real_data / "openllm_leaderboard" / "responses.csv.gz")
    wide = table.pivot(index="respondent_id", columns="item_id", values="correct")
    fitted = fit_model(wide, standard_errors=False)
    assert fitted.converged
    assert fitted.steps < 150  # 500 steps did not do while steps that led too far were given up at once
    assert fitted.log_likelihood > -93_949


def test_from_a_start_near_the_maximum_there_are_fewer_steps_to_it() -> None:
    responses = drawn(400, 12)
    cold = fit_model(responses, standard_errors=False)
    warm = fit_model(responses, standard_errors=False, start=cold.items)
    assert warm.steps < cold.steps
    np.testing.assert_allclose(warm.items.discrimination, cold.items.discrimination, atol=1e-4)
    with pytest.raises(InputError, match="start is of other items"):
        fit_model(responses, start=cold.items.select(cold.items.item_ids[1:]))


def test_an_item_without_guessing_stays_at_no_guessing_and_one_with_it_leaves() -> None:
    rng = np.random.default_rng(3)
    responses = drawn(3000, 8)
    lifted = responses.values.copy()
    lifted[:, 0] = np.maximum(lifted[:, 0], rng.random(3000) < 0.3)
    responses = ResponseMatrix(lifted, responses.respondent_ids, responses.item_ids)
    problem = make_problem(responses, free=True)
    start = find_mode(make_problem(responses)).items  # where c = 0
    mode = find_mode(problem, start=start)
    assert mode.status.converged
    c = mode.items.guessing
    assert abs(float(c[0]) - 0.3) < 0.08
    assert (c[1:] == 0).any()
    # at c = 0 the likelihood falls as c rises, elsewhere its slope is nothing
    derivatives = item_derivatives(problem, mode.items, problem.counts(mode.items))
    assert (derivatives.gradient[c == 0, 2] <= 0).all()
    np.testing.assert_allclose(derivatives.gradient[c > 0, 2], 0.0, atol=1e-2)


def test_the_direction_satisfies_the_last_secant_equation() -> None:
    """What BFGS is: the last difference of gradients, as a gradient, leads to the last difference of values."""
    generator = torch.Generator().manual_seed(1)
    inverse = torch.diag(torch.rand(3, generator=generator, dtype=torch.float64) + 0.5)
    values, gradients = torch.rand(2, 4, 3, 1, generator=generator, dtype=torch.float64)
    gradients[-1] = gradients[-2] - (values[-1] - values[-2])  # so that it falls along the step
    fallen = gradients[-2] - gradients[-1]

    def direction(more: torch.Tensor) -> torch.Tensor:
        memory = StepMemory()
        for at, gradient in zip(values, gradients, strict=True):
            memory.add(at, gradient + more, inverse @ (gradient + more))
        return memory.accelerated()

    led = direction(fallen) - direction(torch.zeros_like(fallen))  # linear in the gradient, differences being the same
    np.testing.assert_allclose(led, values[-1] - values[-2], atol=1e-10)
