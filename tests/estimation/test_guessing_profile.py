"""Intervals of items whose guessing is estimated: the profile likelihood of c, by itself and against refits."""

from typing import Literal

import numpy as np
import pandas as pd
import pytest
import torch

from builders.problem import make_problem
from builders.simulated import simulated
from irtbench import FittedModel, ItemParameters, ResponseMatrix, fit_model, simulate_responses
from irtbench.estimation.marginal import item_likelihood
from irtbench.estimation.marginal.guessing_profile import CUT, apart, boundary_cuts
from irtbench.estimation.marginal.item_likelihood import ItemLikelihoods
from irtbench.models.pyro_model.tensors import ItemTensors

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


@pytest.mark.parametrize("trials", [1, 3])
def test_an_items_likelihood_is_that_of_all_responses(trials: int, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = ItemParameters.from_difficulty([1.0, 1.5, 0.8, 1.2], [-0.5, 0.3, 1.0, 0.0], 0.15)
    rng = np.random.default_rng(1)
    data = simulate_responses(rng.normal(size=200), truth, rng=rng, missing=0.2, trials=trials)
    generator, problem = torch.Generator().manual_seed(2), make_problem(data, free=True)
    values = torch.rand(4, 3, generator=generator, dtype=torch.float64) + torch.tensor([0.8, -0.5, 0.0])
    items = ItemTensors(values[:, :1], values[:, 1], 0.3 * values[:, 2])
    places = torch.tensor([[1.2, -0.4], [0.5, -1.0], [2.0, 0.6]], dtype=torch.float64)
    c = torch.tensor([0.0, 0.1, 0.3], dtype=torch.float64)
    here, expected, item = problem.evaluate(items).counts.log_likelihood, [], torch.full((3,), 2)
    for values in torch.cat([places, c[:, None]], dim=1):  # the third item's, in the likelihood of all responses
        matrix = items.matrix.clone()
        matrix[2] = values
        expected.append(problem.evaluate(ItemTensors.from_matrix(matrix)).counts.log_likelihood - here)
    cells = ItemLikelihoods.of(problem, items).derivatives(item, places, c)[0]
    np.testing.assert_allclose(cells, expected, atol=0.02)
    monkeypatch.setattr(item_likelihood, "MEAN_CELL", 1e-9)  # everybody alone
    alone = ItemLikelihoods.of(problem, items)
    change, gradient, information = alone.derivatives(item, places, c)
    np.testing.assert_allclose(change, expected, atol=1e-8)

    def by_place(x: torch.Tensor) -> torch.Tensor:
        return alone.derivatives(item, x, c)[0].sum()

    at = places.clone().requires_grad_()
    np.testing.assert_allclose(gradient, torch.autograd.grad(by_place(at), at)[0], rtol=1e-6)
    hessian = torch.autograd.functional.hessian(by_place, places)
    for k in range(3):
        own = -hessian[k, :, k]
        if bool((torch.linalg.eigvalsh(own) > 0).all()):
            np.testing.assert_allclose(information[k], own, rtol=1e-5, atol=1e-6)


def test_the_cut_off_is_that_of_a_normal_estimate_with_a_bound() -> None:
    """The estimate is max(0, k + z), z normal, where c is k standard errors above 0."""
    k, points = boundary_cuts()
    z = np.linspace(-6, 6, 60_001)
    mass = np.exp(-(z**2) / 2)
    for one, found in zip(k[::7], points[::7], strict=True):
        fall = np.where(one + z > 0, z**2, z**2 - (one + z) ** 2)
        order = np.argsort(fall)
        by_hand = fall[order][np.searchsorted(mass[order].cumsum(), 0.95 * mass.sum())]
        assert found == pytest.approx(by_hand, abs=3e-3)
    assert points[0] == pytest.approx(2.7055, abs=1e-3)  # the 90% point of chi-square: half of all estimates are 0
    assert points[-1] == pytest.approx(CUT, abs=1e-3)


@pytest.mark.slow
def test_ends_are_where_a_refit_says_so(responses: ResponseMatrix, fitted: FittedModel) -> None:
    # with c fixed at an end and everything else estimated anew, twice the log-likelihood is so much lower
    lower, upper = fitted.likelihood_intervals[:, :, 2]
    errors = np.nan_to_num(fitted.items.standard_errors()["guessing"])
    for j in range(N_ITEMS):
        others = dict.fromkeys(responses.item_ids, "3pl")
        for end in (lower[j], upper[j]):
            refit = fit_model(responses, prior="none", by_item=others | {responses.item_ids[j]: float(end)})
            fall = 2 * (fitted.log_likelihood - refit.log_likelihood)
            if end > 3 * errors[j] > 0:
                assert fall == pytest.approx(CUT, rel=0.12)
            else:  # nearer to the bound the cut-off is lower, 2.71 at 0
                assert fall < 1.12 * CUT
                assert end == 0 or fall > 0.88 * 2.71


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


def test_columns_are_there_where_guessing_is_estimated_without_a_prior_of_ones_own(responses: ResponseMatrix) -> None:
    assert fit_model(responses, kind="2pl").interval_columns() == {}
    assert fit_model(responses, kind="3pl", prior_guessing="beta:5,15").interval_columns() == {}
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


def test_items_that_nobody_guesses_are_covered_under_a_prior_that_says_they_are() -> None:
    """1,500 people, 20 items of which nothing is guessed but four, the prior's mean being .25."""
    rng = np.random.default_rng(4)
    truth = ItemParameters.from_difficulty(
        rng.lognormal(0.2, 0.3, 20), rng.permutation(np.linspace(-1.5, 1.5, 20)), np.where(np.arange(20) < 4, 0.25, 0.0)
    )
    data = simulate_responses(rng.normal(size=1500), truth, rng=rng)
    fitted = fit_model(data, kind="3pl")
    table = fitted.table()
    for name in ("difficulty", "guessing"):
        true = getattr(truth, name)
        assert table[f"{name}_lower"].le(true + 1e-9).sum() >= 18
        assert table[f"{name}_upper"].ge(true).sum() >= 18
    within = (table["guessing"] - truth.guessing).abs() <= 1.96 * table["se_guessing"]
    assert within.mean() < 0.5  # negative control: what standard errors under the prior give
    outside = table["guessing"] > table["guessing_upper"]
    assert outside.sum() >= 3
    assert set(table["item_id"][outside]) <= set(fitted.prior_decides)
    assert not {f"item{k}" for k in range(1, 5)} & set(fitted.prior_decides)  # as guessed as the prior says
    assert fitted.summary()["prior_decides"] == list(fitted.prior_decides)
    assert fit_model(data, kind="3pl", standard_errors=False).prior_decides == ()


def test_a_learnt_prior_of_guessing_is_left_out_of_its_intervals_too() -> None:
    rng = np.random.default_rng(6)
    truth = ItemParameters.from_difficulty(
        rng.lognormal(0.3, 0.2, 10), np.linspace(-1, 1.2, 10), [0.25] * 5 + [0.0] * 5
    )
    data = simulate_responses(rng.normal(size=700), truth, rng=rng)
    fitted = fit_model(data, kind="3pl", prior="hierarchical")
    ends, quantiles = fitted.interval_columns(), fitted.quantile_columns()
    assert list(ends) == list(quantiles)  # lower, median, upper
    assert (quantiles["guessing_lower"] > 0.005).all()
    assert ((ends["guessing_lower"] <= truth.guessing) & (truth.guessing <= ends["guessing_upper"])).sum() >= 9
    assert (ends["guessing_lower"][5:] == 0).sum() >= 4


def test_the_prior_of_guessing_is_left_out(responses: ResponseMatrix, fitted: FittedModel) -> None:
    without, weak = fitted.table(), fit_model(responses, kind="3pl").table()
    for end in ("lower", "upper"):  # what is left of it is that the other items are elsewhere
        np.testing.assert_allclose(weak[f"guessing_{end}"], without[f"guessing_{end}"], atol=0.06)


def test_places_that_rounding_alone_tells_apart_are_one() -> None:
    """Else the profile has any slope between them, and ends where it should not."""
    item, c = apart(np.array([[0.2, 0.0, 1e-17, 0.1 + 1e-16, 0.1], [0.1, 0.2, np.nan, np.nan, 0.1]]))
    np.testing.assert_array_equal(item, [0, 0, 0, 1, 1])
    np.testing.assert_array_equal(c, [0.0, 0.1, 0.2, 0.1, 0.2])


def test_ends_of_intervals_do_not_hang_on_where_the_steps_ended(responses: ResponseMatrix) -> None:
    first, *others = (fit_model(responses, kind="3pl", tolerance=tolerance).table() for tolerance in (1e-5, 6e-5, 9e-5))
    for other in others:
        for name in ("guessing_lower", "guessing_upper", "difficulty_upper", "discrimination_upper"):
            np.testing.assert_allclose(other[name], first[name], atol=2e-3)


@pytest.mark.parametrize("prior", ["none", "weak"])
def test_where_guessing_ends_at_the_proportion_correct_no_profile_is_drawn(prior: Literal["none", "weak"]) -> None:
    """One item alone, right for 8 of 50."""
    alone = fit_model((np.arange(50) < 8).astype(float)[:, None], kind="3pl", prior=prior)
    assert alone.items.guessing[0] > 0.1
    assert alone.converged == (prior == "weak")
