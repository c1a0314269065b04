"""The 4PL: R mirt's figures, derivatives of the posterior, recovery, no upper asymptote, the bank, what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.distributions import constraints

from builders.command_line import refused, run
from builders.refusals import is_refused
from builders.scales import scale_of
from irtbench import InputError, ResponseMatrix, Scale, fit_model, global_fit, item_fit, link_scales
from irtbench.bank.bank import ItemBank, load_bank, save_bank
from irtbench.estimation.marginal.category_problem import CategoryProblem
from irtbench.estimation.marginal.fisher_scoring import find_mode_on_right_nodes
from irtbench.models.curves import simulate_responses
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import as_parameters, read_parameters
from irtbench.models.pyro_model.categories import CategoryItems, CollapsedCategories
from irtbench.models.pyro_model.model import FILLS
from irtbench.models.pyro_model.rows import ResponseRows, encode_responses
from irtbench.models.pyro_model.tensors import NodeTensors
from irtbench.models.quadrature import normal_grid
from irtbench.scoring.ability import estimate_ability
from irtbench.scoring.item_error import with_item_error
from irtbench.scoring.scores import score_responses

CPU = torch.device("cpu")


def truth(n_items: int, *, upper: float | None, seed: int) -> ItemParameters:
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(1.2, 2.2, n_items), np.linspace(-1.8, 1.2, n_items)
    items = ItemParameters.from_difficulty(a, b, 0.2, guessing_estimated=True)
    return replace(items, upper_asymptote=None if upper is None else np.linspace(upper, 0.98, n_items))


def four_as_mirt(rows: ResponseRows, nodes: NodeTensors) -> None:
    """mirt's priors lnorm(.2, .5) of a, norm(-1.5, .5) of logit c, norm(2.5, .5) of logit u; d has none."""
    items = CategoryItems([Logistic(lower=True, upper=True)] * rows.n_items, [2] * rows.n_items, 1, CPU)
    like = torch.zeros(rows.n_items, dtype=torch.float64)
    densities = {
        "slope": dist.LogNormal(like + 0.2, 0.5),
        "intercept": dist.ImproperUniform(constraints.real, like.shape, ()),
        "guessing": dist.Normal(like - 1.5, 0.5),
        "upper": dist.Normal(like + 2.5, 0.5),
    }
    x = torch.zeros(rows.n_items, 4, dtype=torch.float64)
    for role, density in densities.items():
        where = items.where(role)  # type: ignore[arg-type]
        x = x.masked_scatter(where, pyro.sample(role, density.to_event(1), infer={FILLS: where}))
    with pyro.plate("respondents", len(rows)):
        pyro.sample("responses", CollapsedCategories(x, items, nodes), obs=rows)


@pytest.fixture
def mirt(reference: Path) -> tuple[ResponseMatrix, Path]:
    folder = reference / "next" / "09_bifactor_4pl"
    data = pd.read_csv(folder / "fourpl_data.csv")
    return ResponseMatrix(data.to_numpy(), tuple(map(str, range(len(data)))), tuple(data.columns)), folder


def test_the_figures_are_those_of_mirt_under_its_priors(mirt: tuple[ResponseMatrix, Path]) -> None:
    responses, folder = mirt
    nodes = NodeTensors.from_quadrature(normal_grid(), dtype=torch.float64, device=CPU)
    problem = CategoryProblem.of(four_as_mirt, encode_responses(responses, CPU), nodes)
    with torch.no_grad():
        _, found = find_mode_on_right_nodes(problem, problem.starting_values(), tolerance=1e-5, max_steps=100)
    assert found.status.converged
    theirs, fit = pd.read_csv(folder / "fourpl_pars.csv"), pd.read_csv(folder / "fourpl_fit.csv").iloc[0]
    assert found.log_posterior == pytest.approx(fit["logposterior"], abs=1e-4)
    assert found.log_likelihood == pytest.approx(fit["loglik"], abs=2e-3)
    a, d, c, u = problem.scale.natural(found.items.matrix).T
    np.testing.assert_allclose(a, theirs["a"], atol=1e-3)
    np.testing.assert_allclose(d, theirs["d"], atol=1e-3)
    np.testing.assert_allclose(c, theirs["c"], atol=1e-4)
    np.testing.assert_allclose(u, theirs["u"], atol=1e-4)


def test_abilities_are_those_of_mirt_at_its_items(mirt: tuple[ResponseMatrix, Path]) -> None:
    responses, folder = mirt
    theirs = pd.read_csv(folder / "fourpl_pars.csv")
    plain = ItemParameters(tuple(theirs["item"]), theirs["a"], theirs["d"], theirs["c"], np.ones(20, dtype=bool))
    items = replace(plain, upper_asymptote=theirs["u"].to_numpy())
    eap = pd.read_csv(folder / "fourpl_eap_first200.csv")
    found = estimate_ability(responses, items)
    np.testing.assert_allclose(found.theta[:200], eap["eap"], atol=1e-4)
    np.testing.assert_allclose(found.standard_error[:200], eap["se"], atol=1e-4)


def test_curves_that_end_below_1_fit_and_those_of_a_3pl_of_the_same_lower_part_do_not() -> None:
    items, rng = truth(12, upper=0.8, seed=3), np.random.default_rng(4)
    responses = simulate_responses(rng.normal(size=4000), items, rng=rng)
    four, three = (item_fit(responses, each).table() for each in (items, replace(items, upper_asymptote=None)))
    assert four["s_x2"].sum() < 1.2 * (four["df"] + 4).sum()  # these are known: no parameter is taken off
    assert three["s_x2"].sum() > 10 * three["df"].sum()


def test_an_asymptote_that_nobody_reaches_is_the_priors() -> None:
    rng = np.random.default_rng(7)
    items = ItemParameters.from_difficulty([1.5] * 8, [-1.0, -0.5, 0.0, 0.5, 1.0, 0.0, 4.0, 4.5], 0.2)
    fitted = fit_model(simulate_responses(rng.normal(size=1500), items, rng=rng), model="4pl")
    assert {"item7", "item8"} <= set(fitted.upper_not_identified)
    np.testing.assert_allclose(fitted.items.upper_asymptote[6:], 0.95, atol=0.01)


def small_bank() -> tuple[ItemParameters, Scale]:
    covariance = np.eye(4)[None].repeat(5, axis=0) * np.arange(1, 6)[:, None, None]
    items = replace(truth(5, upper=0.85, seed=1), covariance=covariance)
    return items, scale_of(items)


def test_a_bank_keeps_upper_asymptotes_and_only_who_expects_them_gets_them(tmp_path: Path) -> None:
    items, scale = small_bank()
    save_bank(ItemBank((scale,)), tmp_path / "bank.json")
    assert json.loads((tmp_path / "bank.json").read_text())["schema_version"] == 4
    is_refused("upper asymptotes", load_bank, tmp_path / "bank.json")
    back = load_bank(tmp_path / "bank.json", upper_asymptotes=True).scales[0]
    np.testing.assert_array_equal(back.items.upper_asymptote, items.upper_asymptote)
    np.testing.assert_array_equal(back.items.covariance, items.covariance)
    assert back.items.model == ("4pl",) * 5
    # the same scores from the bank as from the parameters; a 3PL's are others
    rows = [[1, 0, 1, 1, 1], [1, 1, 1, 1, 1]]
    scored = score_responses(back, rows)
    np.testing.assert_allclose(scored["theta"], estimate_ability(rows, items).theta)
    three = replace(items, upper_asymptote=None, covariance=None)
    assert (np.abs(estimate_ability(rows, three).theta - scored["theta"]) > 0.01).all()
    for changed in ('"upper_asymptote": 1.5', '"upper_asymptote": 0.1'):
        text = (tmp_path / "bank.json").read_text().replace('"upper_asymptote": 0.85', changed, 1)
        (tmp_path / "wrong.json").write_text(text)
        with pytest.raises(InputError):
            load_bank(tmp_path / "wrong.json", upper_asymptotes=True)


def test_items_csv_there_and_back(tmp_path: Path) -> None:
    items, _ = small_bank()
    items.table().to_csv(tmp_path / "items.csv", index=False)
    assert list(items.table().columns[6:]) == [
        "upper_asymptote", "se_discrimination", "se_difficulty", "se_guessing", "se_intercept", "se_upper_asymptote",
    ]  # fmt: skip
    is_refused("upper asymptotes", read_parameters, tmp_path / "items.csv")
    back = read_parameters(tmp_path / "items.csv", upper_asymptotes=True)
    np.testing.assert_allclose(back.upper_asymptote, items.upper_asymptote)  # type: ignore[arg-type]
    assert back.guessing_estimated.all()
    is_refused("upper asymptotes", as_parameters, pd.read_csv(tmp_path / "items.csv"))
    np.testing.assert_allclose(items.select(("item3", "item1")).upper_asymptote, items.upper_asymptote[[2, 0]])  # type: ignore[index, arg-type]


def test_what_knows_no_upper_asymptote_refuses_it() -> None:
    items, _ = small_bank()
    rows = np.random.default_rng(0).integers(0, 2, (30, 5))
    for use in (
        lambda: global_fit(rows, items),
        lambda: link_scales(items, items),
        lambda: with_item_error(estimate_ability(rows, items), rows, items),
    ):
        is_refused("upper asymptotes", use)


def test_the_command_fits_scores_and_diagnoses_and_others_refuse(tmp_path: Path) -> None:
    items = truth(8, upper=0.8, seed=8)
    rng = np.random.default_rng(9)
    values = simulate_responses(rng.normal(size=600), items, rng=rng).values.astype(int)
    wide = pd.DataFrame(values, columns=items.item_ids)
    wide.insert(0, "respondent_id", [f"r{i}" for i in range(600)])
    wide.to_csv(tmp_path / "wide.csv", index=False)
    out = tmp_path / "out"
    done = run(f"fit {tmp_path}/wide.csv --model 4pl --prior-upper beta:18,2 -o {out}")
    assert "u ~ Beta(18, 2)" in done.out
    table = pd.read_csv(out / "items.csv")
    assert (table["model"] == "4pl").all()
    assert (table["se_upper_asymptote"] > 0).all()
    found = json.loads((out / "fit.json").read_text())
    assert found["model"] == "4pl"
    assert found["n_parameters"] == 32
    run(f"score {out}/bank.json {tmp_path}/wide.csv -o {tmp_path}/scores.csv")
    mine, theirs = (pd.read_csv(path) for path in (out / "scores.csv", tmp_path / "scores.csv"))
    np.testing.assert_allclose(mine["theta"], theirs["theta"])
    run(f"items diagnose {tmp_path}/wide.csv --items {out}/items.csv -o {tmp_path}/diagnosed")
    assert (
        "upper asymptotes" in json.loads((tmp_path / "diagnosed" / "not_available.json").read_text())["global_fit.json"]
    )
    assert len(pd.read_csv(tmp_path / "diagnosed" / "item_fit.csv")) == 8
    refused(f"items show {out}/bank.json", saying="upper asymptotes")
    refused(f"fit {tmp_path}/wide.csv --prior-upper beta:18,2 -o {tmp_path}/no", saying="--model 4pl")
