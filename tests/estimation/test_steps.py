"""The parts that make the steps quick leave the maximum where it is, and are what they are said to be."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from builders.problem import make_problem
from builders.simulated import drawn
from irtbench.data.input_error import InputError
from irtbench.estimation import scale_fit
from irtbench.estimation.fit import fit_model
from irtbench.estimation.marginal import mode
from irtbench.estimation.marginal import observed_information as uncertainty
from irtbench.estimation.marginal.acceleration import StepMemory
from irtbench.estimation.marginal.fisher_scoring import steps_to_try
from irtbench.estimation.marginal.m_step import (
    ItemDerivatives,
    item_derivatives,
    moved,
    scoring_step,
    with_missing_information,
)
from irtbench.estimation.marginal.mode import RoughStart, find_mode
from irtbench.estimation.marginal.nodes import with_adapted_nodes
from irtbench.estimation.marginal.observed_information import joint_parameter_covariance, observed_information
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.settings import FitSettings
from irtbench.models.priors import PriorName, Priors


def at_the_mode(problem: Problem) -> ItemDerivatives:
    items = find_mode(problem).items
    return item_derivatives(problem, items, problem.counts(items))


def whole(derivatives: ItemDerivatives) -> torch.Tensor:
    """The items' information less what is missing of it."""
    missing = derivatives.missing.flatten(0, 1)
    return torch.block_diag(*derivatives.information) - missing @ missing.T


def test_steps_of_the_items_become_steps_of_the_whole() -> None:
    problem = make_problem(drawn(300, 8))
    derivatives = at_the_mode(problem)
    right = torch.rand(8, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    alone = torch.linalg.solve(derivatives.information, right)
    longer = with_missing_information(problem, derivatives, alone)
    np.testing.assert_allclose(longer.flatten(), torch.linalg.solve(whole(derivatives), right.flatten()), rtol=1e-5)


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_most_of_the_missing_information_is_in_the_steps(missing: float) -> None:
    problem = make_problem(drawn(1500, 40, missing=missing))
    derivatives = at_the_mode(problem)
    chosen = problem.free.reshape(-1)
    approximate = whole(derivatives)[chosen][:, chosen]
    own = torch.block_diag(*derivatives.information)[chosen][:, chosen]
    observed = observed_information(problem, derivatives.items)
    root = torch.linalg.cholesky(observed)
    assert float(torch.linalg.eigvalsh(approximate).min()) > 0

    def furthest(matrix: torch.Tensor) -> float:
        """Largest factor by which a step in some direction is wrong."""
        relative = torch.linalg.solve(root, torch.linalg.solve(root, matrix).T)
        return float(torch.linalg.eigvalsh((relative + relative.T) / 2).log().abs().max().exp())

    # measured 1.6 and 1.6, against 9.8 and 6.3 without: one step takes most of the way in every direction
    assert furthest(approximate) < 2
    assert furthest(own) > 5  # without it the location and scale of theta move slowly


def test_neighbouring_nodes_taken_together_stand_for_what_is_missing() -> None:
    """Negative control: with the first node of each bin for all of them the steps are four times as many."""
    problem = make_problem(drawn(200, 400), Priors.named("weak"))
    problem = with_adapted_nodes(problem, problem.starting_values(), room=0.35)
    mode = find_mode(problem, tolerance=1e-6)
    derivatives = item_derivatives(problem, mode.items, problem.counts(mode.items))
    assert float(torch.linalg.eigvalsh(whole(derivatives)).min()) > 0
    some, bins = replace(problem.nodes), problem.nodes.bins
    some.__dict__["bins"] = torch.zeros_like(bins).scatter_(
        0, bins.argmax(dim=0, keepdim=True), bins.sum(dim=0, keepdim=True)
    )
    worse = find_mode(replace(problem, nodes=some), tolerance=1e-6)
    assert mode.status.steps < 15 < worse.status.steps  # measured 7 and 33
    np.testing.assert_allclose(worse.items.matrix, mode.items.matrix, atol=1e-5)


def test_where_no_step_is_taken_the_last_tried_are_next_to_nothing_and_uphill() -> None:
    problem = make_problem(drawn(300, 8))
    start = problem.starting_values()
    counts = problem.counts(start)
    derivatives = item_derivatives(problem, start, counts)
    uphill = scoring_step(problem, derivatives)
    tried = [*steps_to_try(problem, counts, derivatives, uphill, StepMemory())]
    assert all(float((step * derivatives.gradient).sum()) > 0 for step in tried)
    assert float(tried[-1].abs().max()) < 1e-7
    assert problem.counts(moved(start, tried[-10])).log_likelihood > counts.log_likelihood


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
    monkeypatch.setattr(mode, "SAMPLE", 10**9)
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
    monkeypatch.setattr(mode, "FEWEST_FOR_CURVATURE", 10_000)
    monkeypatch.setattr(mode, "SHARE_FOR_CURVATURE", 4)
    monkeypatch.setattr(mode, "SHARE_OF_INCOMPLETE", 4)
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
