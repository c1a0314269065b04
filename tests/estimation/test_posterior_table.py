"""Tables of posteriors give the sums that one exponential for each respondent and node gives."""

import numpy as np
import pytest
import torch

from builders.simulated import drawn, simulated
from irtbench.data.responses import ResponseMatrix
from irtbench.estimation import threads
from irtbench.estimation.fit import fit_model, problem_of
from irtbench.estimation.marginal import e_step, observed_information
from irtbench.estimation.marginal.e_step import PosteriorTable, add_powers
from irtbench.estimation.marginal.mode import rough_start
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.settings import FitSettings
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.quadrature import normal_grid

NONE = 10**9  # respondents from whom on a table is made, where none is wanted


def problem_at_start(responses: ResponseMatrix, **settings: object) -> tuple[Problem, ItemTensors]:
    problem = problem_of(responses, FitSettings(**settings), normal_grid(61))  # type: ignore[arg-type]
    return problem, rough_start(problem).items


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(e_step, "FEWEST", 1)


@torch.no_grad()
def test_what_a_table_says_of_a_respondent_is_his_posterior(tables: None) -> None:
    """E[theta | x] and Cov[theta, theta^2 | x] summed over the nodes themselves, for each of 200 respondents."""
    problem, items = problem_at_start(drawn(200, 25))
    row = problem.row(items)
    table = PosteriorTable.of(problem.rows, row)
    theta = problem.nodes.theta[:, 0]
    (batch,) = problem.batches()
    posterior = torch.softmax(row.log_shape(batch.correct, batch.observed), dim=1)
    mean = posterior @ theta
    covariance = posterior @ theta**3 - mean * (posterior @ theta**2)
    cell, part = table.cells(batch.correct @ items.slope[:, 0])
    found = table.expectations(theta[None]).values(cell, part)[:, 0]
    torch.testing.assert_close(found, mean, rtol=0, atol=1e-11)
    found = table.covariances(theta, theta[None] ** 2).values(cell, part)[:, 0]
    torch.testing.assert_close(found, covariance, rtol=0, atol=1e-9)
    powers = torch.zeros(4, len(table.log_total) - 1, dtype=torch.float64)
    add_powers(powers, cell, part)
    log_likelihood, at_nodes = table.sums(powers)
    exact = torch.logsumexp(row.log_shape(batch.correct, batch.observed), dim=1).sum()
    assert float(log_likelihood) == pytest.approx(float(exact), rel=1e-13)
    torch.testing.assert_close(at_nodes, posterior.sum(dim=0), rtol=0, atol=1e-9)


@torch.no_grad()
def test_sums_over_products_of_means_are_those_of_the_respondents(tables: None) -> None:
    problem, items = problem_at_start(drawn(150, 10))
    row, theta = problem.row(items), problem.nodes.theta[:, 0]
    table = PosteriorTable.of(problem.rows, row)
    functions = torch.stack([theta, theta**2, torch.sigmoid(theta)])
    (batch,) = problem.batches()
    posterior = torch.softmax(row.log_shape(batch.correct, batch.observed), dim=1)
    mean = posterior @ functions.T
    exact = (functions * posterior.sum(dim=0)) @ functions.T - mean.T @ mean
    powers = torch.zeros(4, len(table.log_total) - 1, dtype=torch.float64)
    add_powers(powers, *table.cells(batch.correct @ items.slope[:, 0]))
    torch.testing.assert_close(table.covariance_sums(powers, functions), exact, rtol=0, atol=1e-9)


@torch.no_grad()
@pytest.mark.parametrize("n_items", [1, 2, 25, 200])
def test_expected_counts_and_information_are_the_same(n_items: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, items = problem_at_start(drawn(400, max(n_items, 2)))
    if n_items == 1:
        problem = problem_of(drawn(400, 2).select_items(["item1"]), FitSettings(), normal_grid(61))
        items = ItemTensors(items.slope[:1], items.intercept[:1], items.guessing[:1])
    exact = problem.counts(items)
    information = observed_information.observed_information(problem, items)
    assert e_step.tabulated_sums(problem.rows, problem.row(items)) is None
    monkeypatch.setattr(e_step, "FEWEST", 1)
    assert e_step.tabulated_sums(problem.rows, problem.row(items)) is not None
    found = problem.counts(items)
    assert found.log_likelihood == pytest.approx(exact.log_likelihood, rel=1e-13)
    for name in ("n", "right", "respondents"):
        torch.testing.assert_close(getattr(found, name), getattr(exact, name), rtol=1e-10, atol=1e-9)
    again = observed_information.observed_information(problem, items)
    torch.testing.assert_close(again, information, rtol=1e-9, atol=1e-8)


@torch.no_grad()
def test_slopes_of_either_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, items = problem_at_start(drawn(300, 12))
    signs = torch.where(torch.arange(12) % 3 == 0, -1.5, 1.0).to(torch.float64)
    items = ItemTensors(items.slope * signs[:, None], items.intercept, items.guessing)
    exact = problem.counts(items)
    monkeypatch.setattr(e_step, "FEWEST", 1)
    found = problem.counts(items)
    assert found.log_likelihood == pytest.approx(exact.log_likelihood, rel=1e-13)
    torch.testing.assert_close(found.right, exact.right, rtol=1e-10, atol=1e-9)


@torch.no_grad()
@pytest.mark.parametrize("case", ["missing", "guessing", "single precision", "no slope"])
def test_no_table_where_the_weighted_sum_is_not_sufficient(case: str, tables: None) -> None:
    """Whoever left an item out, or may have guessed one, has another posterior at the same sum."""
    settings = {"guessing": 0.2} if case == "guessing" else {"dtype": "float32"} if case == "single precision" else {}
    problem, items = problem_at_start(drawn(200, 10, missing=0.1 if case == "missing" else 0.0), **settings)
    if case == "no slope":
        items = ItemTensors(torch.zeros_like(items.slope), items.intercept, items.guessing)
    assert PosteriorTable.of(problem.rows, problem.row(items)) is None


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("kind", ["2pl", "rasch"])
def test_a_fit_by_spans_and_tables_is_the_fit(kind: str, missing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    responses, _, _ = simulated(700, 15, seed=3, missing=missing)
    monkeypatch.setattr(e_step, "FEWEST", NONE)
    exact = fit_model(responses, model=kind)
    monkeypatch.setattr(e_step, "FEWEST", 1)
    monkeypatch.setattr(threads, "FEW_CELLS", 0)
    monkeypatch.setattr("irtbench.estimation.threads.FEW_CELLS", 0)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        found = fit_model(responses, model=kind)
    finally:
        assert torch.get_num_threads() == 3
        torch.set_num_threads(before)
    assert found.log_likelihood == pytest.approx(exact.log_likelihood, rel=1e-13)
    for name in ("discrimination", "intercept", "covariance"):
        np.testing.assert_allclose(getattr(found.items, name), getattr(exact.items, name), rtol=1e-8, atol=1e-10)


@torch.no_grad()
def test_a_table_that_would_be_too_large_is_not_made(tables: None, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, items = problem_at_start(drawn(200, 10))
    monkeypatch.setattr(e_step, "MOST_MASSES", 61 * e_step.FEWEST_CELLS)
    assert PosteriorTable.of(problem.rows, problem.row(items)) is None
