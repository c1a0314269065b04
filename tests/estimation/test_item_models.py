"""Which model each item has: 2PL, 3PL, guessing fixed; and what the data say of guessing."""

from pathlib import Path

import numpy as np
import pytest

from irtbench import FitSettings, InputError, ItemParameters, ResponseMatrix, fit_model, simulate_responses
from irtbench.models.parameter_table import parameter_table, read_models


def guessed(
    n: int = 1500, n_items: int = 20, *, seed: int = 0, c: float = 0.25
) -> tuple[ItemParameters, ResponseMatrix]:
    rng = np.random.default_rng(seed)
    truth = ItemParameters.from_difficulty(rng.lognormal(0.3, 0.2, n_items), rng.normal(0, 1, n_items), c)
    return truth, simulate_responses(rng.normal(size=n), truth, rng=rng)


def test_each_item_gets_the_model_asked_for() -> None:
    _, responses = guessed()
    fitted = fit_model(responses, FitSettings(by_item={"item2": "3pl", "item5": 0.25, "elsewhere": "3pl"}))
    assert fitted.converged
    assert fitted.items.model[:6] == ("2pl", "3pl", "2pl", "2pl", "2pl_fixed_guessing", "2pl")
    assert fitted.items.guessing[4] == 0.25
    assert 0 < fitted.items.guessing[1] < 0.6
    assert fitted.n_parameters == 2 * 20 + 1
    one = fit_model(responses, FitSettings(kind="3pl", by_item={"item3": "2pl"}))
    assert one.items.model[:4] == ("3pl", "3pl", "2pl", "3pl")


def test_a_guessing_outside_its_range_is_refused() -> None:
    with pytest.raises(InputError, match=r"by_item.item1: expected .* a number in \[0, 1\) but got 1.5"):
        FitSettings(by_item={"item1": 1.5})


def test_without_a_prior_an_item_without_guessing_becomes_a_2pl() -> None:
    truth, responses = guessed(3000, c=0.0, seed=2)
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


def test_so_it_does_where_the_population_is_estimated_too() -> None:
    _, responses = guessed(600, c=0.0, seed=2)
    settings = FitSettings(kind="3pl", prior="none", population="estimated", standard_errors=False, tolerance=1e-3)
    fitted = fit_model(responses, settings)
    fixed = ~fitted.items.guessing_estimated
    assert fixed.any()
    assert (fitted.items.guessing[fixed] == 0).all()
    assert fitted.n_parameters == 3 * 20 - fixed.sum()  # the density is normal by BIC and has none


def test_the_data_say_nothing_of_guessing_on_easy_items_and_much_on_hard_ones() -> None:
    rng = np.random.default_rng(5)
    difficulty = np.r_[np.full(5, -3.0), np.full(5, 1.5), rng.normal(0, 1, 10)]
    truth = ItemParameters.from_difficulty(np.full(20, 1.5), difficulty, 0.2)
    responses = simulate_responses(rng.normal(size=1000), truth, rng=rng)
    unknown = set(fit_model(responses, FitSettings(kind="3pl")).guessing_not_identified)
    assert unknown >= {f"item{k}" for k in range(1, 6)}
    assert not unknown & {f"item{k}" for k in range(6, 11)}


def test_the_models_of_a_fit_can_be_read_back(tmp_path: Path) -> None:
    _, responses = guessed(400, 6)
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
        ("item_id\ni1\n", "model"),
    ],
)
def test_bad_tables_of_models_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "models.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_models(tmp_path / "models.csv")


def test_items_meant_to_be_2pl_are_not_freed_when_the_others_have_no_prior() -> None:
    _, responses = guessed(2000, 10, c=0.3)  # all are guessed, so that the likelihood would rise with any c
    meant = {"item1": "2pl", "item4": "2pl", "item7": 0.1}
    fitted = fit_model(responses, FitSettings(kind="3pl", prior="none", by_item=meant))  # type: ignore[arg-type]
    assert fitted.items.model[0] == fitted.items.model[3] == "2pl"
    assert fitted.items.model[6] == "2pl_fixed_guessing"
    assert fitted.items.model.count("3pl") + len(fitted.guessing_not_identified) == 7
