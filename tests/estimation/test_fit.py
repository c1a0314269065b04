"""Estimates, likelihoods and standard errors against R mirt, known truth and Pyro's own optimiser."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from builders import simulated as simulation
from builders.problem import make_problem
from irtbench import FitSettings, InputError, ItemParameters, ResponseMatrix, fit_model, simulate_responses
from irtbench.estimation.marginal.fisher_scoring import find_mode
from irtbench.models.pyro_model.tensors import ItemTensors


@pytest.fixture(scope="module")
def lsat6(real_data: Path) -> ResponseMatrix:
    table = pd.read_csv(real_data / "lsat6" / "responses.csv").rename(columns={"correct": "response"})
    return ResponseMatrix.from_long(table)


def snli(real_data: Path, item_ids: list[str]) -> ResponseMatrix:
    table = pd.read_csv(real_data / "lalor2016_snli" / "responses_5gs.csv.gz").rename(columns={"correct": "response"})
    return ResponseMatrix.from_long(table[table["item_id"].isin(item_ids)], item_ids=item_ids)


def simulated(
    n_respondents: int, n_items: int, *, seed: int, guessing: float = 0.0, missing: float = 0.0
) -> tuple[ItemParameters, ResponseMatrix]:
    responses, truth, _ = simulation.simulated(n_respondents, n_items, seed=seed, guessing=guessing, missing=missing)
    return truth, responses


def test_lsat6_equals_mirt(lsat6: ResponseMatrix, reference: Path) -> None:
    mirt = pd.read_csv(reference / "mirt_lsat6_2pl_pars.csv")
    fitted = fit_model(lsat6)
    errors = fitted.items.standard_errors()
    assert fitted.converged
    assert fitted.log_likelihood == pytest.approx(-2466.653, abs=0.01)
    np.testing.assert_allclose(fitted.items.discrimination, mirt["a"], atol=1e-3)
    np.testing.assert_allclose(fitted.items.difficulty, mirt["b"], atol=1e-3)
    np.testing.assert_allclose(errors["discrimination"], mirt["se_a"], rtol=0.03)
    np.testing.assert_allclose(errors["difficulty"], mirt["se_b"], rtol=0.03)
    np.testing.assert_allclose(errors["intercept"], mirt["se_d"], rtol=0.03)
    # 10 parameters, 1,000 respondents: AIC = 2 * 2466.653 + 20, BIC = 2 * 2466.653 + 10 log 1000
    assert fitted.aic == pytest.approx(4953.307, abs=0.02)
    assert fitted.bic == pytest.approx(5002.384, abs=0.02)
    assert fitted.sabic == pytest.approx(4933.307 + 10 * np.log(1002 / 24), abs=0.02)


@pytest.mark.parametrize("label", ["entailment", "neutral"])
def test_the_papers_scales_equal_mirt(real_data: Path, reference: Path, label: str) -> None:
    mirt = pd.read_csv(reference / f"mirt_5gs_{label}_2pl_pars.csv")
    likelihood = pd.read_csv(reference / f"mirt_5gs_{label}_model_fit.csv").set_index("model").loc["1f_2pl", "logLik"]
    fitted = fit_model(snli(real_data, list(mirt["item_id"])))
    assert fitted.converged
    assert fitted.log_likelihood == pytest.approx(likelihood, abs=0.01)
    np.testing.assert_allclose(fitted.items.discrimination, mirt["a"], atol=0.01)
    np.testing.assert_allclose(fitted.items.difficulty, mirt["b"], atol=0.01)
    np.testing.assert_allclose(fitted.items.standard_errors()["discrimination"], mirt["se_a"], rtol=0.03)
    np.testing.assert_allclose(fitted.items.standard_errors()["difficulty"], mirt["se_b"], rtol=0.03)


def test_a_reversed_item_gets_a_negative_slope_and_theta_keeps_its_direction() -> None:
    rng = np.random.default_rng(8)
    truth = ItemParameters.from_difficulty([-1.2, 1.0, 1.3, 0.9, 1.1, 1.4], [0.5, -1, 0, 1, 0.3, -0.4])
    fitted = fit_model(simulate_responses(rng.normal(size=1500), truth, rng=rng))
    assert fitted.items.discrimination[0] < -0.8
    assert (fitted.items.discrimination[1:] > 0.5).all()
    # the fit, its sign of theta included, does not depend on where the steps begin
    responses = simulate_responses(rng.normal(size=1500), truth, rng=rng)
    problem = make_problem(responses)
    with torch.no_grad():
        usual = find_mode(problem).items
        start = ItemTensors(0.1 - usual.slope, usual.intercept + 0.1, usual.guessing)
        flipped = find_mode(problem, start=start).items
    np.testing.assert_allclose(usual.slope.abs().numpy(), flipped.slope.abs().numpy(), atol=1e-3)


def test_a_fit_cut_short_is_not_called_converged() -> None:
    _, responses = simulated(300, 6, seed=9)
    fitted = fit_model(responses, FitSettings(max_steps=2))
    assert not fitted.converged
    assert "no convergence in 2 steps" in fitted.stopped_because


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_one_line() -> None:
    _, responses = simulated(50, 4, seed=1)
    with pytest.raises(InputError, match="sees no GPU"):
        fit_model(responses, FitSettings(device="cuda"))


def test_data_that_determine_nothing_are_refused() -> None:
    _, responses = simulated(60, 4, seed=1)
    with pytest.raises(InputError, match="2 respondents; expected at least 10"):
        fit_model(responses.select_respondents(np.arange(60) < 2))
    constant = responses.values.copy()
    constant[:, 2] = 1.0
    with pytest.raises(InputError, match="all responses are the same for item item3"):
        fit_model(ResponseMatrix(constant, responses.respondent_ids, responses.item_ids))
    assert fit_model(
        ResponseMatrix(constant, responses.respondent_ids, responses.item_ids), FitSettings(prior="weak")
    ).converged
    empty = responses.values.copy()
    empty[:, 1] = np.nan
    with pytest.raises(InputError, match="no response to item item2"):
        fit_model(ResponseMatrix(empty, responses.respondent_ids, responses.item_ids))
    idle = responses.values.copy()
    idle[7] = np.nan
    with pytest.raises(InputError, match="no response from respondent r8"):
        fit_model(ResponseMatrix(idle, responses.respondent_ids, responses.item_ids))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"guessing": 1.0}, r"guessing: expected a number in \[0, 1\)"),
        ({"kind": "3pl", "guessing": 0.2}, "guessing is estimated"),
        ({"n_options": 1}, "n_options: expected a number of at least 2"),
        ({"n_nodes": 3}, r"n_nodes: expected a number in \[11, 2001\]"),
    ],
)
def test_settings_are_checked_at_the_door(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        FitSettings(**wrong)  # type: ignore[arg-type]
