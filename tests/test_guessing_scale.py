"""Guessing without a prior: sought on a scale on which c = 0 is a maximum like any other."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from test_steps import drawn, problem_of

from irtbench.estimation.guessing_scale import by_root, with_logit, with_root
from irtbench.estimation.mode import Problem, expected_counts, find_mode, gradient_and_curvature


def guessing_free(n: int = 600, n_items: int = 6) -> Problem:
    return replace(problem_of(drawn(n, n_items)), guessing_free=torch.ones(n_items, dtype=torch.bool))


def likelihood_at(problem: Problem, roots: torch.Tensor) -> float:
    return expected_counts(problem, with_logit(roots, problem.by_root)).log_likelihood


def test_there_and_back() -> None:
    parameters = torch.tensor([[1.0, 0.5, -1.7], [0.8, -1.0, -20.0], [1.2, 0.0, 3.0]], dtype=torch.float64)
    where = torch.tensor([True, True, False])
    changed = with_root(parameters, where)
    assert float(changed[0, -1] ** 2 / (1 + changed[0, -1] ** 2)) == pytest.approx(1 / (1 + np.exp(1.7)))
    assert float(changed[2, -1]) == 3.0
    np.testing.assert_allclose(with_logit(changed, where), parameters)
    np.testing.assert_allclose(with_logit(changed * torch.tensor([1.0, 1.0, -1.0]), where)[:2], parameters[:2])
    assert with_root(parameters, None) is parameters


def test_the_gradient_is_that_by_the_root() -> None:
    problem = guessing_free()
    parameters = find_mode(replace(problem, guessing_free=torch.zeros(6, dtype=torch.bool))).parameters
    parameters[:, -1] = torch.tensor([-6.0, -4.0, -2.0, -1.0, 0.0, 0.5])
    gradient, _ = gradient_and_curvature(problem, parameters, expected_counts(problem, parameters))
    roots = with_root(parameters, problem.by_root)
    for j in range(6):
        step = torch.zeros_like(roots)
        step[j, -1] = 1e-5
        slope = (likelihood_at(problem, roots + step) - likelihood_at(problem, roots - step)) / 2e-5
        assert float(gradient[j, -1]) == pytest.approx(slope, rel=1e-5, abs=1e-4)


def test_at_the_root_of_nothing_the_curvature_is_that_of_the_likelihood() -> None:
    problem = guessing_free()
    where = problem.by_root
    parameters = find_mode(replace(problem, guessing_free=torch.zeros(6, dtype=torch.bool))).parameters
    parameters[:, -1] = -14.0
    _, curvature = gradient_and_curvature(problem, parameters, expected_counts(problem, parameters))
    roots = with_root(parameters, where)
    middle = torch.zeros_like(roots)
    middle[:, :-1] = roots[:, :-1]
    for j in range(6):
        step = torch.zeros_like(roots)
        step[j, -1] = 0.004
        # even in g: the second difference is twice what the likelihood changes by
        bent = 2 * (likelihood_at(problem, middle + step) - likelihood_at(problem, middle)) / 0.004**2
        assert float(curvature.information[j, -1, -1]) == pytest.approx(abs(bent), rel=0.02)


def test_shared_columns_and_cross_terms_go_by_the_root_too() -> None:
    generator = torch.Generator().manual_seed(0)
    gradient = torch.zeros(2, 3, dtype=torch.float64)
    information = torch.rand(2, 3, 3, generator=generator, dtype=torch.float64)
    shared = torch.rand(2, 3, 4, generator=generator, dtype=torch.float64)
    parameters = torch.tensor([[1.0, 0.0, -2.0], [1.0, 0.0, -2.0]], dtype=torch.float64)
    where = torch.tensor([True, False])
    _, changed, columns = by_root(gradient, information, shared, parameters, where)
    slope = 2 * np.exp(1.0)  # 2 / g with g = exp(-2 / 2)
    np.testing.assert_allclose(changed[0, -1, :2], slope * information[0, -1, :2])
    np.testing.assert_allclose(changed[0, -1, -1], slope**2 * information[0, -1, -1])
    assert columns is not None
    np.testing.assert_allclose(columns[0, -1], slope * shared[0, -1])
    np.testing.assert_allclose(changed[1], information[1])
    assert by_root(gradient, information, shared, parameters, None)[1] is information
