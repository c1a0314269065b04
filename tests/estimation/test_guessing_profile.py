"""Intervals of items whose guessing has no prior: the profile likelihood of c, by itself and against refits."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import minimize

from builders.problem import make_problem
from builders.simulated import simulated
from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.fit import fit_model
from irtbench.estimation.fitted import FittedModel
from irtbench.estimation.marginal import item_likelihood
from irtbench.estimation.marginal.guessing_profile import CUT, guessing_intervals
from irtbench.estimation.marginal.item_likelihood import ItemLikelihood, item_likelihoods
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.simulation import simulate_responses

N_ITEMS = 8


@pytest.fixture(scope="module")
def responses() -> ResponseMatrix:
    """600 people, 8 items, every second guessed, a tenth of the responses missing."""
    rng = np.random.default_rng(5)
    guessing = np.where(np.arange(N_ITEMS) % 2, 0.2, 0.0)
    items = ItemParameters.from_difficulty(rng.lognormal(0.3, 0.2, N_ITEMS), np.linspace(-1, 1.2, N_ITEMS), guessing)
    return simulate_responses(rng.normal(size=600), items, rng=rng, missing=0.1)


@pytest.fixture(scope="module")
def fitted(responses: ResponseMatrix) -> FittedModel:
    found = fit_model(responses, kind="3pl", prior="none")
    assert found.converged
    return found


def some_items(n_items: int) -> ItemTensors:
    generator = torch.Generator().manual_seed(2)
    values = torch.rand(n_items, 3, generator=generator, dtype=torch.float64) + torch.tensor([0.8, -0.5, 0.0])
    return ItemTensors(values[:, :1], values[:, 1], 0.3 * values[:, 2])


def likelihood_of_item(problem: Problem, items: ItemTensors, j: int) -> ItemLikelihood:
    return next(iter(item_likelihoods(problem, items, np.array([j]))))[1]


def whole_likelihood(problem: Problem, items: ItemTensors, j: int) -> Callable[[float, float, float], float]:
    """The marginal likelihood of all responses with one item's parameters replaced, less that at the items."""
    here = problem.evaluate(items).counts.log_likelihood

    def at(a: float, d: float, c: float) -> float:
        matrix = items.matrix.clone()
        matrix[j] = torch.tensor([a, d, c])
        return problem.evaluate(ItemTensors.from_matrix(matrix)).counts.log_likelihood - here

    return at


@pytest.mark.parametrize("trials", [1, 3])
def test_an_items_likelihood_is_that_of_all_responses(trials: int, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = ItemParameters.from_difficulty([1.0, 1.5, 0.8, 1.2], [-0.5, 0.3, 1.0, 0.0], 0.15)
    rng = np.random.default_rng(1)
    data = simulate_responses(rng.normal(size=200), truth, rng=rng, missing=0.2, trials=trials)
    problem, items = make_problem(data, free=True), some_items(4)
    exact = whole_likelihood(problem, items, 2)
    places = torch.tensor([[1.2, -0.4], [0.5, -1.0], [2.0, 0.6]], dtype=torch.float64)
    c = torch.tensor([0.0, 0.1, 0.3], dtype=torch.float64)
    expected = [exact(float(a), float(d), float(k)) for (a, d), k in zip(places, c, strict=True)]
    cells = likelihood_of_item(problem, items, 2).derivatives(places, c)[0]
    np.testing.assert_allclose(cells, expected, atol=0.02)
    monkeypatch.setattr(item_likelihood, "MEAN_CELL", 1e-9)  # everybody alone
    alone = likelihood_of_item(problem, items, 2)
    change, gradient, information = alone.derivatives(places, c)
    np.testing.assert_allclose(change, expected, atol=1e-8)
    assert alone.proportion_correct == pytest.approx(data.proportion_correct()[2])

    def by_place(x: torch.Tensor) -> torch.Tensor:
        return alone.derivatives(x, c)[0].sum()

    at = places.clone().requires_grad_()
    np.testing.assert_allclose(gradient, torch.autograd.grad(by_place(at), at)[0], rtol=1e-6)
    hessian = torch.autograd.functional.hessian(by_place, places)
    for k in range(3):
        own = -hessian[k, :, k]
        if bool((torch.linalg.eigvalsh(own) > 0).all()):
            np.testing.assert_allclose(information[k], own, rtol=1e-5, atol=1e-6)


def test_the_maximum_is_found(responses: ResponseMatrix, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_likelihood, "MEAN_CELL", 1e-9)
    problem, items = make_problem(responses, free=True), some_items(N_ITEMS)
    c = [0.0, 0.15, 0.4]
    x, change, _ = likelihood_of_item(problem, items, 5).maximum(torch.tensor(c, dtype=torch.float64), least=-200.0)
    exact = whole_likelihood(problem, items, 5)
    for k, at in enumerate(c):
        best = minimize(lambda y, at=at: -exact(y[0], y[1], at), x[k].numpy() + 0.3, method="Nelder-Mead")
        assert float(change[k]) == pytest.approx(-best.fun, abs=0.01)
        np.testing.assert_allclose(x[k], best.x, atol=0.05)


def test_ends_are_where_a_refit_says_so(responses: ResponseMatrix, fitted: FittedModel) -> None:
    # with c fixed at an end and everything else estimated anew, twice the log-likelihood is 3.84 lower
    assert fitted.likelihood_intervals is not None
    lower, upper = fitted.likelihood_intervals[:, :, 2]
    for j in range(N_ITEMS):
        others = dict.fromkeys(responses.item_ids, "3pl")
        for end in (lower[j], upper[j]):
            refit = fit_model(responses, prior="none", by_item=others | {responses.item_ids[j]: float(end)})
            fall = 2 * (fitted.log_likelihood - refit.log_likelihood)
            if end == 0:
                assert fall < CUT + 0.1
            else:
                assert fall == pytest.approx(CUT, rel=0.12)


def test_an_item_at_zero_has_a_one_sided_interval_of_c_and_a_wider_one_of_b(fitted: FittedModel) -> None:
    table = fitted.table()
    at_zero = table[table["guessing"] == 0]
    assert len(at_zero) >= 1
    assert (at_zero["guessing_lower"] == 0).all()
    assert (at_zero["guessing_upper"] > 0).all()
    half = 1.96 * at_zero["se_difficulty"]
    # c can only be higher than 0, which makes a right response of the less able likelier: b can be higher by more
    assert (at_zero["difficulty_upper"] - at_zero["difficulty"] > half).all()
    np.testing.assert_allclose(at_zero["difficulty"] - at_zero["difficulty_lower"], half, rtol=0.15)


def test_where_guessing_is_well_known_intervals_are_those_of_standard_errors() -> None:
    data, _, _ = simulated(20_000, 12, seed=3, guessing=0.25)
    table = fit_model(data, kind="3pl", prior="none").table()
    known = table[table["se_guessing"] < 0.035]
    assert len(known) >= 4
    for name in ("discrimination", "difficulty", "guessing"):
        width = known[f"{name}_upper"] - known[f"{name}_lower"]
        np.testing.assert_allclose(width, 2 * 1.96 * known[f"se_{name}"], rtol=0.1)


def test_columns_are_there_for_guessing_without_a_prior_alone(responses: ResponseMatrix) -> None:
    assert fit_model(responses, kind="2pl").interval_columns() == {}
    assert fit_model(responses, kind="3pl", prior="weak").interval_columns() == {}
    assert fit_model(responses, kind="3pl", prior="none", standard_errors=False).interval_columns() == {}
    first = responses.item_ids[0]
    mixed = fit_model(responses, prior="none", by_item={first: "3pl"}).table().set_index("item_id")
    assert list(mixed.columns[-6:]) == [
        f"{name}_{end}" for name in ("discrimination", "difficulty", "guessing") for end in ("lower", "upper")
    ]
    others = mixed.drop(first)
    assert others[["guessing_lower", "guessing_upper"]].isna().all(axis=None)
    expected = others["difficulty"] + 1.959964 * others["se_difficulty"]
    pd.testing.assert_series_equal(others["difficulty_upper"], expected, check_names=False)


def test_errors_that_items_share_are_added_in_squares(responses: ResponseMatrix, fitted: FittedModel) -> None:
    # a variance V in place of the item's own adds 3.84 (V - own) to the square of either half; 4 V adds 3.84 * 3 V more
    problem = make_problem(responses, free=list(fitted.items.guessing_estimated))
    wanted = np.ones(N_ITEMS, dtype=bool)
    assert fitted.items.covariance is not None
    wider = replace(fitted.items, covariance=4 * fitted.items.covariance)
    before, after = (guessing_intervals(problem, items, wanted) for items in (fitted.items, wider))
    errors = fitted.items.standard_errors()
    for k, name in enumerate(("discrimination", "difficulty")):
        estimate = getattr(fitted.items, name)
        added = (after[:, :, k] - estimate) ** 2 - (before[:, :, k] - estimate) ** 2
        np.testing.assert_allclose(added, np.tile(CUT * 3 * errors[name] ** 2, (2, 1)), rtol=0.01)  # other places
    np.testing.assert_allclose(after[:, :, 2], before[:, :, 2], atol=0.01)


@pytest.mark.slow
def test_coverage_where_half_of_the_items_are_2pl() -> None:
    by_ratio, by_errors = [], []
    for seed in range(6):
        rng = np.random.default_rng([1, seed])
        a, b, c = rng.lognormal(0.2, 0.3, 40), rng.normal(size=40), np.where(np.arange(40) % 2, 0.2, 0.0)
        data = simulate_responses(rng.normal(size=1000), ItemParameters.from_difficulty(a, b, c), rng=rng)
        table = fit_model(data, kind="3pl", prior="none").table()
        if "difficulty_lower" in table:
            by_ratio += list((table["difficulty_lower"] <= b) & (b <= table["difficulty_upper"]))
            by_errors += list((table["difficulty"] - b).abs() <= 1.96 * table["se_difficulty"])
    assert len(by_ratio) >= 120
    assert np.mean(by_ratio) > 0.91  # .94 expected, standard error .02 over 120 items
    assert np.mean(by_errors) < 0.91  # negative control: what standard errors give
