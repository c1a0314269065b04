"""Tables of posteriors give the sums that one exponential for each respondent and node gives."""

import numpy as np
import pytest
import torch

from builders.simulated import drawn, simulated
from irtbench import FitSettings, ResponseMatrix
from irtbench.estimation import threads
from irtbench.estimation.fit import fit_model, problem_of
from irtbench.estimation.marginal import e_step, observed_information
from irtbench.estimation.marginal.e_step import PosteriorTable
from irtbench.estimation.marginal.fisher_scoring import rough_start
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.pyro_model.tensors import ItemTensors
from irtbench.models.quadrature import normal_grid

NONE = 10**9  # respondents from whom on a table is made, where none is wanted


def problem_at_start(responses: ResponseMatrix, **settings: object) -> tuple[Problem, ItemTensors]:
    problem = problem_of(responses, FitSettings(**settings), normal_grid(61))  # type: ignore[arg-type]
    return problem, rough_start(problem).items


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(e_step, "FEWEST", 1)


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
