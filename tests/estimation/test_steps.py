"""The parts that make the steps quick leave the maximum where it is: nodes, tables of posteriors, threads, starts."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import expit
from scipy.stats import norm
from threadpoolctl import threadpool_info, threadpool_limits

from builders.problem import make_problem
from builders.refusals import is_refused
from builders.simulated import drawn, simulated
from irtbench import (
    FitSettings,
    ItemParameters,
    fit_bifactor,
    fit_categories,
    fit_factors,
    fit_groups,
    fit_model,
    item_bias,
    simulate_responses,
)
from irtbench.analysis import guessing_test
from irtbench.estimation import fit, scale_fit, threads
from irtbench.estimation.driver import maximise
from irtbench.estimation.fit import problem_of
from irtbench.estimation.marginal import e_step, fisher_scoring, missing_information
from irtbench.estimation.marginal.acceleration import StepMemory
from irtbench.estimation.marginal.e_step import PosteriorTable
from irtbench.estimation.marginal.fisher_scoring import find_mode
from irtbench.estimation.marginal.nodes import BOUND, REACH, Posteriors, nodes_near
from irtbench.estimation.marginal.observed_information import joint_parameter_covariance
from irtbench.estimation.threads import FEW_CELLS, threads_for
from irtbench.models.pyro_model.tensors import ItemTensors
from irtbench.models.quadrature import normal_grid


@pytest.mark.parametrize("of", ["coarse nodes, none", "coarse nodes, weak", "a sample"])
def test_a_rough_start_changes_the_steps_and_not_the_maximum(monkeypatch: pytest.MonkeyPatch, of: str) -> None:
    responses, words = drawn(8500, 12, missing=0.1), dict[str, Any]()
    if of != "a sample":
        responses, words = drawn(1200, 12), {"kind": "3pl", "prior": of.split(", ")[1], "tolerance": 1e-6}
    rough = fit_model(responses, standard_errors=False, **words)
    monkeypatch.setattr(fisher_scoring, "SAMPLE", 10**9)
    if of != "a sample":
        monkeypatch.setattr(scale_fit, "rough_start", lambda problem: (problem.starting_values(), None))
    plain = fit_model(responses, standard_errors=False, **words)
    assert rough.converged
    assert plain.converged
    assert rough.steps < plain.steps or of == "a sample"
    assert rough.log_likelihood == pytest.approx(plain.log_likelihood, abs=1e-6)
    for name in ("discrimination", "guessing"):
        np.testing.assert_allclose(getattr(rough.items, name), getattr(plain.items, name), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("missing", "settings"),
    [(0.0, FitSettings()), (0.3, FitSettings(prior="weak")), (0.0, FitSettings(guessing=0.2))],
    ids=["complete", "missing", "guessing fixed"],
)
def test_the_curvature_of_a_sample_saves_passes_and_leaves_the_maximum(
    monkeypatch: pytest.MonkeyPatch, missing: float, settings: FitSettings
) -> None:
    responses = drawn(20_000, 12, missing=missing)
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


@torch.no_grad()
def test_a_curvature_that_misleads_costs_steps_and_not_the_maximum() -> None:
    problem = make_problem(drawn(500, 6))
    right = find_mode(problem)
    covariance, _ = joint_parameter_covariance(problem, right.items)
    start = problem.starting_values()
    led = find_mode(problem, start=start, covariance=covariance)
    assert led.status.converged
    assert led.status.steps < right.status.steps
    for factor in (-1.0, 1e-3, 1e3):
        misled = find_mode(problem, start=start, covariance=factor * covariance)
        assert misled.status.converged
        assert right.status.steps <= misled.status.steps + 1
        torch.testing.assert_close(misled.items.matrix, right.items.matrix, rtol=0, atol=1e-5)


def test_a_basis_from_some_functions_gives_the_same_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    responses, settings = drawn(300, 30), FitSettings(prior="weak")
    whole = fit_model(responses, settings).items.standard_errors()
    monkeypatch.setattr(missing_information, "MOST_SPANNING", 40)
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
    assert cold.nodes == "grid of 61 nodes on +-6"
    warm = fit_model(responses, standard_errors=False, start=cold.items)
    assert warm.steps < cold.steps
    np.testing.assert_allclose(warm.items.discrimination, cold.items.discrimination, atol=1e-4)
    is_refused("start is of other items", fit_model, responses, start=cold.items.select(cold.items.item_ids[1:]))


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


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_wide_posterior_at_the_end_of_the_scale_has_nodes_up_to_the_end_and_none_beyond(side: float) -> None:
    narrow, wide = 0.05, 0.5
    places = torch.tensor([side * 7.5, 0.0], dtype=torch.float64)
    posteriors = Posteriors(places, torch.tensor([wide, narrow], dtype=torch.float64))
    theta = nodes_near(posteriors, step=narrow).theta[:, 0]
    # the wide one reaches from 7.5 - 8 x .5 = 3.5 to beyond the end, the narrow one .4 to either side of 0
    assert float((side * theta).max()) == pytest.approx(BOUND)
    far = side * theta[(side * theta) > 2.0]
    assert float(far.min()) == pytest.approx(7.5 - REACH * wide, abs=narrow)
    near = theta[(side * theta) <= 2.0]
    assert float(near.abs().max()) == pytest.approx(REACH * narrow, abs=narrow)
    assert float(torch.diff(near).max()) <= narrow + 1e-12


def test_a_posterior_that_is_flat_between_steep_items_has_nodes_all_over() -> None:
    """Ten items of slope about 8, and the likelihood of every pattern by a rule 100 times as fine."""
    rng = np.random.default_rng(1)
    items = ItemParameters.from_difficulty(np.full(10, 8.0), rng.normal(size=10))
    responses = simulate_responses(rng.normal(size=300), items, rng=rng)
    found = fit_model(responses, kind="rasch")
    assert found.converged
    z = np.linspace(-9, 9, 100_001)
    log_odds = found.moments.sd * z[:, None] - found.items.difficulty
    patterns, counts = np.unique(responses.values, axis=0, return_counts=True)
    shares = [norm.pdf(z) @ expit((2 * pattern - 1) * log_odds).prod(axis=1) * (z[1] - z[0]) for pattern in patterns]
    assert found.log_likelihood == pytest.approx(counts @ np.log(shares), abs=1e-6)


@torch.no_grad()
def test_no_table_of_items_without_slope_in_single_precision_or_with_guessing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(e_step, "FEWEST", 1)
    for settings, slope in (
        (FitSettings(), 0.0),
        (FitSettings(dtype="float32"), 1.0),
        (FitSettings(guessing=0.2), 1.0),
    ):
        problem = problem_of(drawn(200, 10), settings, normal_grid())
        start = problem.starting_values()
        items = ItemTensors(slope * start.slope, start.intercept, start.guessing)
        assert PosteriorTable.of(problem.rows, problem.row(items)) is None


@pytest.mark.usefixtures("threads_given")
@pytest.mark.parametrize("threads_given", [3], indirect=True)
@pytest.mark.parametrize(
    ("settings", "n_items", "missing", "tabulated"),
    [
        ({}, 15, 0.0, True),
        ({"prior": "weak"}, 2, 0.0, True),
        ({"prior": "weak"}, 100, 0.0, True),
        ({"kind": "rasch"}, 15, 0.0, True),
        ({}, 15, 0.2, False),  # whoever left an item out, or may have guessed one, has another posterior at a sum
        ({"guessing": 0.2}, 15, 0.0, False),
        ({"kind": "3pl"}, 15, 0.2, False),
    ],
)
def test_a_fit_by_spans_and_tables_and_several_threads_is_the_fit(
    settings: dict[str, Any], n_items: int, missing: float, tabulated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    responses, _, _ = simulated(700, n_items, seed=3, missing=missing)
    tables, of = list[PosteriorTable | None](), PosteriorTable.of
    monkeypatch.setattr(PosteriorTable, "of", lambda *given: tables.append(of(*given)) or tables[-1])  # type: ignore[func-returns-value]
    monkeypatch.setattr(e_step, "FEWEST", 10**9)
    settings = settings | {"tolerance": 1e-8}  # the last step is then nothing but rounding
    exact = fit_model(responses, **settings)
    assert not any(tables)
    monkeypatch.setattr(e_step, "FEWEST", 1)
    monkeypatch.setattr(threads, "FEW_CELLS", 0)
    monkeypatch.setattr("irtbench.estimation.threads.FEW_CELLS", 0)
    found = fit_model(responses, **settings)
    assert torch.get_num_threads() == 3
    assert any(tables) == tabulated
    assert found.log_likelihood == pytest.approx(exact.log_likelihood, rel=1e-13)
    for name in ("discrimination", "intercept", "covariance"):
        np.testing.assert_allclose(getattr(found.items, name), getattr(exact.items, name), rtol=1e-8, atol=1e-10)


@pytest.fixture(params=[2])
def threads_given(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    with threadpool_limits(limits=request.param, user_api="blas"):
        yield
    torch.set_num_threads(before)


def blas_threads() -> set[int]:
    np.ones((2, 2)) @ np.ones((2, 2))
    found = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
    assert found
    return found


@pytest.mark.usefixtures("threads_given")
def test_a_fit_limits_both_and_gives_them_back_even_if_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    inside: list[tuple[int, set[int]]] = []

    def broken(*arguments: object, **words: object) -> None:
        inside.append((torch.get_num_threads(), blas_threads()))
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(fit, "fit_scale", broken)
    with pytest.raises(RuntimeError, match="broken on purpose"):
        fit_model(drawn(50, 4))
    assert inside == [(1, {1})]
    assert (torch.get_num_threads(), blas_threads()) == (2, {2})
    with threads_for(FEW_CELLS + 1):
        assert (torch.get_num_threads(), blas_threads()) == (2, {2})


@pytest.mark.usefixtures("threads_given")
def test_every_small_fit_is_computed_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def noting(*arguments: Any, **words: Any) -> Any:
        seen.append(torch.get_num_threads())
        return maximise(*arguments, **words)

    monkeypatch.setattr(fisher_scoring, "maximise", noting)
    monkeypatch.setattr("irtbench.analysis.item_bias.MOST_TO_REFIT", 0)
    responses, _, _ = simulated(60, 4, seed=1)
    groups = ["a", "b"] * 30
    for small in (
        fit_model,
        partial(fit_categories, max_steps=2),
        partial(fit_groups, groups=groups, max_steps=2),
        partial(fit_factors, n_factors=1, max_steps=2),
        partial(fit_bifactor, testlets=["t"] * 3 + [None], max_steps=2),
        partial(item_bias, focal=np.array(groups) == "b", purify=False),
        guessing_test,
    ):
        before = len(seen)
        small(responses)
        assert len(seen) > before, small
    assert set(seen) == {1}
