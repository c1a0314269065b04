"""Each item's own steps: derivatives by (a, d, c), the bound c = 0, and the acceleration by past steps."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from builders.problem import make_problem
from builders.simulated import drawn
from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.marginal.acceleration import StepMemory
from irtbench.estimation.marginal.e_step import Counts
from irtbench.estimation.marginal.m_step import (
    distances,
    item_derivatives,
    scoring_step,
    with_missing_information,
    with_second_step,
)
from irtbench.estimation.marginal.mode import find_mode
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.priors import PriorName, Priors
from irtbench.models.pyro_model.item_tensors import ItemTensors


def guessing_free(prior: PriorName = "none", *, free: bool | Sequence[bool] = True, fixed: float = 0.0) -> Problem:
    return make_problem(drawn(600, 6), Priors.named(prior, guessing_estimated=True), free=free, fixed=fixed)


def some_values() -> torch.Tensor:
    """Slope, intercept and c of six items."""
    generator = torch.Generator().manual_seed(1)
    values = torch.rand(6, 3, generator=generator, dtype=torch.float64) + torch.tensor([0.5, -0.5, 0.0])
    values[:, 2] *= 0.4
    return values


def items_at(values: torch.Tensor) -> ItemTensors:
    return ItemTensors.from_matrix(values)


def own_log_posterior(problem: Problem, values: torch.Tensor, counts: Counts, priors: Priors) -> torch.Tensor:
    """Of all items at given counts, written down as it is defined."""
    c = values[:, 2:]
    p = c + (1 - c) * torch.sigmoid(values[:, :2] @ problem.nodes.basis.T)
    total = (counts.r * p.log() + (counts.n - counts.r) * (1 - p).log()).sum()
    if priors.guessing is not None:
        (mean_a, sd_a), (mean_d, sd_d) = priors.slope, priors.intercept  # type: ignore[misc]
        alpha, beta = priors.guessing.first, priors.guessing.second
        total = total - 0.5 * (((values[:, 0] - mean_a) / sd_a) ** 2 + ((values[:, 1] - mean_d) / sd_d) ** 2).sum()
        total = total + (alpha * c.log() + beta * (1 - c).log()).sum()
    return total


@pytest.mark.parametrize("prior", ["none", "weak"])
def test_derivatives_equal_automatic_differentiation(prior: PriorName) -> None:
    problem, values, priors = guessing_free(prior), some_values(), Priors.named(prior)
    counts = problem.counts(items_at(values.flip(0)))  # those of other values: r is not near n P
    gradient = torch.autograd.functional.jacobian(lambda v: own_log_posterior(problem, v, counts, priors), values)
    np.testing.assert_allclose(item_derivatives(problem, items_at(values), counts).gradient, gradient, atol=1e-8)
    # where r is n P the Hessian is the expected one
    p = values[:, 2:] + (1 - values[:, 2:]) * torch.sigmoid(values[:, :2] @ problem.nodes.basis.T)
    counts = replace(counts, r=counts.n * p)
    hessian = torch.autograd.functional.hessian(lambda v: own_log_posterior(problem, v, counts, priors), values)
    own = torch.stack([hessian[j, :, j] for j in range(6)])
    np.testing.assert_allclose(item_derivatives(problem, items_at(values), counts).information, -own, atol=1e-8)


def test_what_is_fixed_has_no_gradient_and_takes_no_step() -> None:
    problem = guessing_free("weak", free=[True, False] * 3, fixed=0.2)
    values = some_values()
    values[1::2, 2] = 0.2
    items = items_at(values)
    counts = problem.counts(items)
    derivatives = item_derivatives(problem, items, counts)
    assert (derivatives.gradient[1::2, 2] == 0).all()
    assert (derivatives.information[1::2, 2] == torch.tensor([0.0, 0.0, 1.0])).all()
    own = with_second_step(problem, counts, derivatives, scoring_step(problem, derivatives))
    step = with_missing_information(problem, derivatives, own)
    np.testing.assert_allclose(step[1::2, 2], 0.0, atol=1e-15)
    assert (step[::2, 2] != 0).all()


def test_values_there_and_back() -> None:
    problem = guessing_free(free=[True] * 4 + [False] * 2)
    values = some_values()
    values[0, 2], values[4:, 2] = 0.0, 0.0
    sites = problem.prior.values_of(items_at(values))
    assert list(sites) == ["slope", "intercept", "guessing_logit"]
    torch.testing.assert_close(sites["guessing_logit"], torch.logit(values[:4, 2]))
    np.testing.assert_allclose(problem.prior.items_of(sites).matrix, values, rtol=1e-12)


def test_a_step_stops_at_no_guessing_and_is_the_best_there() -> None:
    """By hand: on the edge c = 0 the quadratic's maximum over (a, d) solves I_zz x = g_z - I_zc (0 - c)."""
    problem, values = guessing_free(), some_values()
    values[:, 2] /= 4
    derivatives = item_derivatives(problem, items_at(values), problem.counts(items_at(values)))
    derivatives.gradient[:, 2] = -1e4
    information = derivatives.information
    step = scoring_step(problem, derivatives)
    np.testing.assert_array_equal(values[:, 2] + step[:, 2], 0.0)
    rest = derivatives.gradient[:, :2] + information[:, :2, 2] * values[:, 2:]
    inner = torch.linalg.solve(information[:, :2, :2], rest)
    short = (inner.abs() < 1.5).all(dim=1)  # others are shortened
    assert short.any()
    np.testing.assert_allclose(step[short, :2], inner[short], rtol=1e-6)


def test_with_a_prior_no_step_leads_to_no_guessing() -> None:
    problem, values = guessing_free("weak"), some_values()
    derivatives = item_derivatives(problem, items_at(values), problem.counts(items_at(values)))
    derivatives.gradient[:, 2] = -1e4
    step = scoring_step(problem, derivatives)
    assert (values[:, 2] + step[:, 2] > 0).all()


def test_the_distance_is_that_in_standard_errors_away_from_bounds() -> None:
    problem = guessing_free("weak")
    values = find_mode(problem).items.matrix
    values[:, 1] += 0.01
    derivatives = item_derivatives(problem, items_at(values), problem.counts(items_at(values)))
    natural = torch.linalg.solve(derivatives.information, derivatives.gradient)
    expected = float((derivatives.gradient * natural).sum(dim=1).max().sqrt())
    step = scoring_step(problem, derivatives)
    assert float(distances(problem, derivatives, step)) == pytest.approx(expected, rel=1e-5)


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


def test_a_quadratic_is_solved_once_its_directions_are_known() -> None:
    generator = torch.Generator().manual_seed(0)
    half = torch.rand(4, 4, generator=generator, dtype=torch.float64)
    hessian = torch.eye(4, dtype=torch.float64) + half @ half.T
    goal = torch.rand(4, 1, generator=generator, dtype=torch.float64)
    rough = torch.diag(1 / torch.diagonal(hessian)) / 2  # the inverse of the curvature, badly known

    def solved(accelerate: bool) -> float:
        memory, values = StepMemory(), torch.zeros(4, 1, dtype=torch.float64)
        for _ in range(14):
            gradient = hessian @ (goal - values)
            memory.add(values, gradient, rough @ gradient)
            values = values + (memory.accelerated() if accelerate else rough @ gradient)
        return float((values - goal).abs().max())

    assert solved(accelerate=True) < 1e-5
    assert solved(accelerate=False) > 1e-3


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


def test_a_memory_that_forgets_takes_the_plain_step() -> None:
    memory, step = StepMemory(), torch.ones(2, 1, dtype=torch.float64)
    memory.add(torch.zeros(2, 1, dtype=torch.float64), 3 * step, 2 * step)
    memory.add(step, step, step)
    assert float((memory.accelerated() - step).abs().max()) > 0.1
    memory.forget()
    np.testing.assert_array_equal(memory.accelerated(), step)


def test_where_the_gradient_bends_the_wrong_way_nothing_is_learnt() -> None:
    memory, step = StepMemory(), torch.ones(2, 1, dtype=torch.float64)
    memory.add(torch.zeros(2, 1, dtype=torch.float64), step, step)
    memory.add(step, 2 * step, 2 * step)  # uphill it grows steeper
    np.testing.assert_array_equal(memory.accelerated(), 2 * step)
