"""Estimates and errors against R mirt and known truth, which model each item has, and what says nothing of it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.mirt_figures import lsat6, papers_scale
from builders.refusals import is_refused
from builders.simulated import drawn, simulated
from irtbench import FitSettings, ItemParameters, fit_model, simulate_responses
from irtbench.models.parameter_table import parameter_table, read_models


def test_lsat6_equals_mirt(real_data: Path, reference: Path) -> None:
    responses, _, _ = lsat6(real_data, reference, "2pl")
    mirt = pd.read_csv(reference / "mirt_lsat6_2pl_pars.csv")
    fitted = fit_model(responses)
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
    responses, _, _ = papers_scale(real_data, reference, label)
    fitted = fit_model(responses)
    assert fitted.converged
    assert fitted.log_likelihood == pytest.approx(likelihood, abs=0.01)
    np.testing.assert_allclose(fitted.items.discrimination, mirt["a"], atol=0.01)
    np.testing.assert_allclose(fitted.items.difficulty, mirt["b"], atol=0.01)
    np.testing.assert_allclose(fitted.items.standard_errors()["discrimination"], mirt["se_a"], rtol=0.03)
    np.testing.assert_allclose(fitted.items.standard_errors()["difficulty"], mirt["se_b"], rtol=0.03)


def test_data_that_determine_nothing_are_refused() -> None:
    """Who answered nothing, and what nobody answered: `test_contract`."""
    responses = drawn(60, 4)
    is_refused("2 respondents; expected at least 10", fit_model, responses.select_respondents(np.arange(60) < 2))
    constant = responses.values.copy()
    constant[:, 2] = 1.0
    is_refused("all responses are the same for item item3", fit_model, constant)
    assert fit_model(constant, FitSettings(prior="weak")).converged


def test_each_item_gets_the_model_asked_for() -> None:
    responses = simulated(800, 8, seed=0, guessing=0.25)[0]
    fitted = fit_model(responses, FitSettings(by_item={"item2": "3pl", "item5": 0.25, "elsewhere": "3pl"}))
    assert fitted.converged
    assert fitted.items.model[:6] == ("2pl", "3pl", "2pl", "2pl", "2pl_fixed_guessing", "2pl")
    assert fitted.items.guessing[4] == 0.25
    assert 0 < fitted.items.guessing[1] < 0.6
    assert fitted.n_parameters == 2 * 8 + 1
    one = fit_model(responses, FitSettings(kind="3pl", by_item={"item3": "2pl"}))
    assert one.items.model[:4] == ("3pl", "3pl", "2pl", "3pl")


def test_without_a_prior_an_item_without_guessing_becomes_a_2pl() -> None:
    responses, truth, _ = simulated(3000, 20, seed=2)
    fitted = fit_model(responses, FitSettings(kind="3pl", prior="none"))
    assert fitted.converged, fitted.stopped_because
    fixed = ~fitted.items.guessing_estimated
    # with c = 0 in truth the likelihood is highest there for about half of the items (Self & Liang, 1987)
    assert 4 <= fixed.sum() <= 18
    assert fitted.guessing_not_identified == tuple(np.array(truth.item_ids)[fixed])
    assert f"guessing of {fixed.sum()} items fixed at 0" in fitted.stopped_because
    # it is a maximum over c >= 0: no better likelihood is found with the fixed ones 2PL from the start, nor all free
    same = FitSettings(kind="3pl", prior="none", by_item={item: "2pl" for item in fitted.guessing_not_identified})
    assert fitted.log_likelihood == pytest.approx(fit_model(responses, same).log_likelihood, abs=1e-4)
    assert fitted.log_likelihood > fit_model(responses).log_likelihood


def test_the_data_say_nothing_of_guessing_on_easy_items_and_much_on_hard_ones() -> None:
    rng = np.random.default_rng(5)
    difficulty = np.r_[np.full(5, -3.0), np.full(5, 1.5), rng.normal(0, 1, 10)]
    truth = ItemParameters.from_difficulty(np.full(20, 1.5), difficulty, 0.2)
    responses = simulate_responses(rng.normal(size=1000), truth, rng=rng)
    unknown = set(fit_model(responses, FitSettings(kind="3pl")).guessing_not_identified)
    assert unknown >= {f"item{k}" for k in range(1, 6)}
    assert not unknown & {f"item{k}" for k in range(6, 11)}


def test_the_models_of_a_fit_can_be_read_back(tmp_path: Path) -> None:
    responses = simulated(400, 6, seed=0, guessing=0.25)[0]
    models = {"item1": "3pl", "item2": 0.2, "item3": "2pl"}
    fitted = fit_model(responses, FitSettings(by_item=models))  # type: ignore[arg-type]
    parameter_table(fitted.items, responses).to_csv(tmp_path / "items.csv", index=False)
    assert {item: read_models(tmp_path / "items.csv")[item] for item in models} == models


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("item_id,model\ni1,4pl\n", r"expected 2pl, 3pl or 2pl_fixed_guessing but got '4pl'"),
        ("item_id,model\ni1,2pl\ni1,3pl\n", "item i1: named twice"),
        ("item_id,model\ni1,2pl_fixed_guessing\n", "guessing"),
    ],
)
def test_bad_tables_of_models_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "models.csv").write_text(text)
    is_refused(message, read_models, tmp_path / "models.csv")


def test_items_meant_to_be_2pl_are_not_freed_when_the_others_have_no_prior() -> None:
    responses = simulated(2000, 10, seed=0, guessing=0.3)[0]  # the likelihood would rise with any c
    meant = {"item1": "2pl", "item4": "2pl", "item7": 0.1}
    fitted = fit_model(responses, FitSettings(kind="3pl", prior="none", by_item=meant))  # type: ignore[arg-type]
    assert fitted.items.model[0] == fitted.items.model[3] == "2pl"
    assert fitted.items.model[6] == "2pl_fixed_guessing"
    assert fitted.items.model.count("3pl") + len(fitted.guessing_not_identified) == 7
