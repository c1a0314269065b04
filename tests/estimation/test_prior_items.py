"""Priors of the difficulty of single items: what the model has, what is maximised, on which scale, what is refused."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import irtbench
from builders.command_line import refused, run
from irtbench.data.input_error import InputError
from irtbench.estimation.fit import problem_of
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.pyro_model.item_tensors import GUESSING, INTERCEPT, ItemTensors
from irtbench.models.pyro_model.model import DifficultyPrior, logistic_model
from irtbench.models.pyro_model.rows import encode_responses
from irtbench.models.pyro_model.shared import SharedParameters
from irtbench.models.theta_posterior import STANDARD_NORMAL

EXPECTED = {"item2": (-0.6, 0.3), "item5": (0.9, 0.5)}
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def responses() -> irtbench.ResponseMatrix:
    rng = np.random.default_rng(1)
    items = irtbench.ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 6), rng.normal(size=6))
    return irtbench.simulate_responses(rng.normal(size=150), items, rng=rng)


def problem(responses: irtbench.ResponseMatrix, *, rasch: bool = False, log_slope: bool = False) -> Problem:
    n_items = responses.n_items
    named = irtbench.Priors("none", log_slope=(0.1, 0.4) if log_slope else None, slope=None if rasch else (1.0, 0.5))
    present = torch.ones(n_items, dtype=torch.float64)
    model = partial(
        logistic_model,
        priors=named,
        guessing_free=torch.zeros(n_items, dtype=torch.bool),
        guessing_fixed=torch.zeros(n_items, dtype=torch.float64),
        shared=SharedParameters.common_slope(present, rasch=True) if rasch else None,
        difficulty=DifficultyPrior.of_items(responses.item_ids, EXPECTED, CPU),
    )
    nodes = irtbench.NodeTensors.from_quadrature(irtbench.normal_grid(), dtype=torch.float64, device=CPU)
    return Problem.of(model, encode_responses(responses, CPU), nodes)


@pytest.mark.parametrize("kind", [{}, {"log_slope": True}, {"rasch": True}])
def test_the_sites_have_the_densities_and_their_derivatives(responses: irtbench.ResponseMatrix, kind: dict) -> None:
    prior = problem(responses, **kind).prior
    rng = np.random.default_rng(3)
    a = torch.full((6,), 1.3).double() if kind.get("rasch") else torch.from_numpy(rng.uniform(0.5, 2, 6))
    d, zeros = torch.from_numpy(rng.normal(size=6)), torch.zeros(6).double()
    items = ItemTensors(a[:, None], d, zeros)
    b = -d if kind.get("rasch") else -d / a
    told = prior.values_of(items)
    np.testing.assert_allclose(told["difficulty"], b[[1, 4]], atol=1e-12)
    np.testing.assert_allclose(prior.items_of(told).matrix, items.matrix, atol=1e-12)
    expected = sum(-0.5 * ((b[j] - m) / s) ** 2 - np.log(s) for j, (m, s) in ((1, (-0.6, 0.3)), (4, (0.9, 0.5))))
    expected -= np.log(2 * np.pi)
    if kind.get("log_slope"):
        expected += (-0.5 * ((a.log() - 0.1) / 0.4) ** 2 - np.log(0.4) - 0.5 * np.log(2 * np.pi)).sum()
    elif not kind:
        expected += (-0.5 * ((a - 1.0) / 0.5) ** 2 - np.log(0.5) - 0.5 * np.log(2 * np.pi)).sum()
    assert float(prior.log_density(items)) == pytest.approx(float(expected))

    def density(x: torch.Tensor) -> torch.Tensor:
        return prior.log_density(ItemTensors(x[:6, None], x[6:], zeros))

    at = torch.cat([a, d])
    first = torch.autograd.functional.jacobian(density, at)
    second = torch.autograd.functional.hessian(density, at)
    gradient, information = prior.derivatives(items, by_logit=True, positive=False)
    own = torch.arange(6)
    np.testing.assert_allclose(gradient[:, INTERCEPT], first[6:], atol=1e-10)
    np.testing.assert_allclose(information[:, INTERCEPT, INTERCEPT], -second[6:, 6:].diagonal(), atol=1e-10)
    if not kind.get("rasch"):
        np.testing.assert_allclose(gradient[:, 0], first[:6], atol=1e-10)
        np.testing.assert_allclose(information[:, 0, 0], -second[:6, :6].diagonal(), atol=1e-10)
        np.testing.assert_allclose(information[:, 0, INTERCEPT], -second[own, own + 6], atol=1e-10)
    assert not gradient[:, GUESSING].any()
    positive = prior.derivatives(items, by_logit=True)[1]
    assert float(torch.linalg.eigvalsh(positive).min()) > -1e-10


def test_the_mode_is_that_of_the_posterior_under_them(responses: irtbench.ResponseMatrix) -> None:
    fitted = irtbench.fit_model(responses, prior_items=EXPECTED, prior_slope="normal:1.2,0.4", tolerance=1e-7)
    assert fitted.converged
    assert fitted.priors.describe() == "own: a ~ Normal(1.2, 0.4), b ~ Normal of its own for 2 items"
    nodes, x = STANDARD_NORMAL.nodes, responses.values

    def log_posterior(a: np.ndarray, d: np.ndarray) -> float:
        p = 1 / (1 + np.exp(-(nodes[:, None] * a + d)))
        each = np.exp(x @ np.log(p).T + (1 - x) @ np.log1p(-p).T) @ STANDARD_NORMAL.weights
        b = -d / a
        prior = ((a - 1.2) / 0.4) ** 2 @ np.ones(6) + ((b[1] + 0.6) / 0.3) ** 2 + ((b[4] - 0.9) / 0.5) ** 2
        return float(np.log(each).sum() - 0.5 * prior)

    a, d = fitted.items.discrimination, fitted.items.intercept
    top = log_posterior(a, d)
    for j in range(6):
        for step in (-1e-3, 1e-3):
            aside = np.where(np.arange(6) == j, step, 0.0)
            assert log_posterior(a + aside, d) < top
            assert log_posterior(a, d + aside) < top
    free = irtbench.fit_model(responses, prior_slope="normal:1.2,0.4")
    se, wider = (one.items.standard_errors()["difficulty"] for one in (fitted, free))
    assert (se[[1, 4]] < wider[[1, 4]]).all()
    assert se[1] < 0.8 * wider[1]


def test_under_one_slope_for_all_the_mode_and_its_errors_are_those_of_the_posterior(
    responses: irtbench.ResponseMatrix,
) -> None:
    fitted = irtbench.fit_model(responses, model="1pl", prior_items=EXPECTED, tolerance=1e-8)
    nodes, x = STANDARD_NORMAL.nodes, responses.values

    def misfit(at: np.ndarray) -> float:
        p = 1 / (1 + np.exp(-(at[0] * nodes[:, None] + at[1:])))
        each = np.exp(x @ np.log(p).T + (1 - x) @ np.log1p(-p).T) @ STANDARD_NORMAL.weights
        b = -at[1:] / at[0]
        return float(0.5 * ((b[1] + 0.6) / 0.3) ** 2 + 0.5 * ((b[4] - 0.9) / 0.5) ** 2 - np.log(each).sum())

    mode = np.r_[fitted.items.discrimination[0], fitted.items.intercept]
    steps = 1e-4 * np.eye(7)
    slope = [(misfit(mode + step) - misfit(mode - step)) / 2e-4 for step in steps]
    np.testing.assert_allclose(slope, 0, atol=1e-3)
    second = [[misfit(mode + s + t) - misfit(mode + s - t) - misfit(mode - s + t) + misfit(mode - s - t) for s in steps]
              for t in steps]  # fmt: skip
    errors = np.sqrt(np.diag(np.linalg.inv(np.array(second) / 4e-8)))
    found = fitted.items.standard_errors()
    np.testing.assert_allclose(found["discrimination"], errors[0], rtol=1e-4)
    np.testing.assert_allclose(found["intercept"], errors[1:], rtol=1e-4)


def test_a_rasch_item_has_the_prior_on_the_scale_of_ability(responses: irtbench.ResponseMatrix) -> None:
    tight = irtbench.fit_model(responses, model="rasch", prior_items={"item2": (0.7, 1e-4)})
    assert tight.items.difficulty[1] == pytest.approx(0.7, abs=1e-3)
    assert tight.population["sd"] != pytest.approx(1.0, abs=0.01)


def test_beside_anchors_the_prior_is_on_their_scale() -> None:
    rng = np.random.default_rng(4)
    items = irtbench.ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 24), rng.normal(size=24))
    data = irtbench.simulate_responses(rng.normal(0.8, 0.6, size=400), items, rng=rng)
    anchors = items.select(items.item_ids[:18])
    usual = irtbench.fit_model(data, anchors=anchors)
    told = irtbench.fit_model(
        data,
        anchors=anchors,
        prior_items={"item20": (0.7, 1e-4), "item21": (-0.2, 1e-4)},
        prior_slope="normal:1.4,0.01",
    )
    assert told.converged
    np.testing.assert_allclose(told.items.select(["item20", "item21"]).difficulty, [0.7, -0.2], atol=2e-3)
    np.testing.assert_allclose(told.items.discrimination[18:], 1.4, atol=0.02)
    expected = {item: (b, 0.3) for item, b in zip(items.item_ids[18:], items.difficulty[18:], strict=True)}
    likely = irtbench.fit_model(data, anchors=anchors, prior_items=expected)
    for name in ("mean", "sd"):
        assert likely.population[name] == pytest.approx(usual.population[name], abs=0.03)
    before, after = (one.items.standard_errors()["difficulty"][18:] for one in (usual, likely))
    assert (after < before).all()
    with pytest.raises(InputError, match="prior_items: item2 is an anchor, which stays as it is"):
        irtbench.fit_model(data, anchors=anchors, prior_items={"item2": (0.0, 1.0)})


def test_an_item_that_all_got_right_is_estimated_where_its_slope_has_a_prior_too() -> None:
    rng = np.random.default_rng(5)
    values = (rng.random((60, 8)) < 1 / (1 + np.exp(-rng.normal(size=(60, 1))))).astype(float)
    values[:, 3] = np.where(np.arange(60) < 10, 1.0, np.nan)
    with pytest.raises(InputError, match="all responses are the same for item item4"):
        irtbench.fit_model(values, prior_items={"item4": (0.0, 0.5)})
    fitted = irtbench.fit_model(values, prior_items={"item4": (0.0, 0.5)}, prior_slope="normal:1.2,0.3")
    assert fitted.converged
    b, se = fitted.items.difficulty[3], fitted.items.standard_errors()["difficulty"][3]
    assert -1.2 < b < -0.1  # ten right answers say that it is easier than expected
    assert 0.3 < se < 0.5
    rasch = irtbench.fit_model(values, model="rasch", prior_items={"item4": (0.0, 0.5)})
    assert -1.2 < rasch.items.difficulty[3] < -0.1


@pytest.mark.slow
def test_with_true_priors_new_items_need_fewer_answers_and_intervals_cover() -> None:
    rng = np.random.default_rng(6)
    squares, covered = [], []
    for _ in range(6):
        expected = rng.normal(0, 0.8, 80)
        b, a = expected + rng.normal(0, 0.4, 80), np.maximum(rng.normal(1.2, 0.3, 80), 0.3)
        items = irtbench.ItemParameters.from_difficulty(a, b)
        values = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng).values.copy()
        values[:, 40:][rng.random((300, 40)) > 0.05] = np.nan
        data = irtbench.as_responses(values)
        priors = {f"item{j + 1}": (expected[j], 0.4) for j in range(40, 80)}
        others = {item: (0.0, 0.9) for item in priors}
        rows = []
        for given in (priors, others):
            fitted = irtbench.fit_model(
                data, anchors=items.select(items.item_ids[:40]), prior_items=given, prior_slope="normal:1.2,0.3"
            )
            new = fitted.items.select(items.item_ids[40:])
            error = new.difficulty - b[40:]
            rows.append((error**2).mean())
            covered.append((np.abs(error) < 1.96 * new.standard_errors()["difficulty"]).mean())
        squares.append(rows)
    with_them, without = np.mean(squares, axis=0)
    assert with_them < 0.6 * without
    # 240 intervals each way: standard error .014
    assert np.mean(covered[0::2]) == pytest.approx(0.95, abs=0.04)


@pytest.mark.parametrize(
    ("settings", "saying"),
    [
        ({"prior_items": {"q1": (0.0, 0.0)}}, "prior_items: item q1: .* the second above 0, but got 0"),
        ({"prior_items": {"q1": (float("nan"), 1.0)}}, "prior_items"),
        ({"prior_items": {"q1": 1.0}}, "prior_items"),
        ({"prior_items": {"q1": (0.0, 1.0)}, "prior": "hierarchical"}, "they do not with prior hierarchical"),
        ({"prior_items": {"q1": (0.0, 1.0)}, "posterior": "normal"}, "they do not with a posterior"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict, saying: str) -> None:
    with pytest.raises(InputError, match=saying):
        irtbench.FitSettings(**settings)


def test_items_with_upper_asymptotes_have_them(responses: irtbench.ResponseMatrix) -> None:
    fitted = irtbench.fit_model(responses, model="4pl", prior_items=EXPECTED)
    free = irtbench.fit_model(responses, model="4pl")
    assert fitted.converged
    for j, (mean, _) in ((1, EXPECTED["item2"]), (4, EXPECTED["item5"])):
        assert abs(fitted.items.difficulty[j] - mean) < abs(free.items.difficulty[j] - mean)
    settings = irtbench.FitSettings(kind="4pl", prior_items=EXPECTED)
    problem = problem_of(responses, settings, irtbench.normal_grid())
    prior, at = problem.prior, problem.from_public(fitted.items)
    told = prior.values_of(at)
    np.testing.assert_allclose(told["difficulty"], fitted.items.difficulty[[1, 4]])
    np.testing.assert_allclose(prior.items_of(told).matrix, at.matrix, atol=1e-12)
    # the gradient of the log-posterior at the mode, and its Hessian, by differences
    shape = at.matrix.shape

    def density(x: torch.Tensor) -> torch.Tensor:
        return prior.log_density(ItemTensors.from_matrix(x.view(shape)))

    first, second = (
        of(density, at.matrix.flatten())
        for of in (torch.autograd.functional.jacobian, torch.autograd.functional.hessian)
    )
    gradient, information = prior.derivatives(at, by_logit=True, positive=False)
    np.testing.assert_allclose(gradient.flatten(), first, atol=1e-10)
    blocks = second.view(6, 4, 6, 4)[torch.arange(6), :, torch.arange(6)]
    np.testing.assert_allclose(information, -blocks, atol=1e-10)
    value, step = problem.evaluate(at).log_posterior, 1e-4
    for k in range(at.matrix.numel()):
        moved = at.matrix.flatten().clone()
        moved[k] += step
        above = problem.evaluate(ItemTensors.from_matrix(moved.view(shape))).log_posterior
        moved[k] -= 2 * step
        below = problem.evaluate(ItemTensors.from_matrix(moved.view(shape))).log_posterior
        assert (above - below) / (2 * step) == pytest.approx(0, abs=2e-3)
        assert max(above, below) < value + 1e-6


def test_in_groups_they_are_of_the_items_of_the_reference(responses: irtbench.ResponseMatrix) -> None:
    """A group that is another half of the same people is fitted as they are together, but for chance."""
    groups = ["a", "b"] * 75
    found = irtbench.fit_groups(responses, groups, prior_items=EXPECTED, prior_slope="normal:1,0.5", reference="a")
    alone = irtbench.fit_model(responses, prior_items=EXPECTED, prior_slope="normal:1,0.5")
    free = irtbench.fit_groups(responses, groups, prior_slope="normal:1,0.5", reference="a")
    place = list(responses.item_ids).index("item2")
    assert found.converged
    assert found.items[0].difficulty[place] == pytest.approx(alone.items.difficulty[place], abs=0.2)
    mean, _ = EXPECTED["item2"]
    assert abs(found.items[0].difficulty[place] - mean) < abs(free.items[0].difficulty[place] - mean)


def test_from_the_command_line(responses: irtbench.ResponseMatrix, tmp_path: Path) -> None:
    responses.to_long().to_csv(tmp_path / "r.csv", index=False)
    good = pd.DataFrame({"item_id": ["item2", "item5", "later"], "mean": [-0.6, 0.9, 0.0], "sd": [0.3, 0.5, 1.0]})
    good.to_csv(tmp_path / "good.csv", index=False)
    done = run(f"fit {tmp_path}/r.csv -o {tmp_path}/out --prior-items {tmp_path}/good.csv")
    assert "b ~ Normal of its own for 2 items" in done.out
    expected = irtbench.fit_model(responses, prior_items=EXPECTED).items.difficulty
    found = pd.read_csv(tmp_path / "out" / "items.csv").set_index("item_id")["difficulty"]
    np.testing.assert_allclose(found[list(responses.item_ids)], expected, atol=1e-4)
    for wrong, saying in (
        (good.drop(columns="sd"), "sd"),
        (good.assign(sd=[0.3, 0.0, 1.0]), "row 2 (line 3), column sd: expected a number above 0"),
        (good.assign(sd=[0.3, -1.0, 1.0]), "expected a number above 0"),
        (good.assign(mean=["x", 0, 0]), "column mean"),
        (good.assign(item_id=["item2", "item2", "later"]), "item item2: named twice"),
        (good.assign(item_id=["p", "q", "later"]), "none of its items is among those of the responses"),
    ):
        wrong.to_csv(tmp_path / "wrong.csv", index=False)
        refused("fit r.csv -o no --prior-items wrong.csv", saying=saying, cwd=tmp_path)
        assert not (tmp_path / "no").exists()
    command = "fit r.csv -o no --prior-items good.csv --posterior normal"
    refused(command, saying="they do not with a posterior", cwd=tmp_path)


@pytest.mark.slow
def test_predictions_of_new_items_extend_a_bank(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=50)
    b = 0.9 * x + rng.normal(0, 0.4, 50)
    items = irtbench.ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 50), b)
    old = irtbench.simulate_responses(rng.normal(size=400), items.select(items.item_ids[:40]), rng=rng)
    old.to_long().astype({"response": int}).to_csv(tmp_path / "old.csv", index=False)
    values = irtbench.simulate_responses(rng.normal(0.4, 0.8, size=100), items, rng=rng).values.copy()
    values[:, 40:][rng.random((100, 10)) > 0.15] = np.nan
    values[:, 41] = np.where(np.isnan(values[:, 41]), np.nan, 1.0)  # all right
    new = irtbench.as_responses(values, item_ids=items.item_ids)
    new.to_long().dropna().astype({"response": int}).to_csv(tmp_path / "new.csv", index=False)
    pd.DataFrame({"item_id": items.item_ids, "x": x}).to_csv(tmp_path / "f.csv", index=False)
    run(f"fit {tmp_path}/old.csv -o {tmp_path}/fit -q")
    bank = tmp_path / "fit" / "bank.json"
    run(f"items difficulty {bank} --features {tmp_path}/f.csv -o {tmp_path}/d -q")
    table = pd.read_csv(tmp_path / "d" / "prior_items.csv")
    assert table["item_id"].tolist() == list(items.item_ids[40:])
    predictions = pd.read_csv(tmp_path / "d" / "predictions.csv").iloc[40:]
    np.testing.assert_allclose(table["mean"], predictions["predicted"])
    np.testing.assert_allclose(table["mean"] + 1.959964 * table["sd"], predictions["predicted_upper"])
    run(f"link --extend {bank} new.csv -o e -q --prior-items d/prior_items.csv", cwd=tmp_path)
    found = json.loads((tmp_path / "e" / "extend.json").read_text())
    assert sorted(found["items"]) == sorted(items.item_ids[40:])
    assert "b ~ Normal of its own for 10 items" in found["prior"]
    (scale,) = irtbench.load_bank(tmp_path / "e" / "bank.json").scales
    added = scale.items.select(items.item_ids[40:])
    error, se = added.difficulty - b[40:], added.standard_errors()["difficulty"]
    others = np.arange(10) != 1
    assert np.abs(error / se)[others].max() < 3.5
    assert np.sqrt((error[others] ** 2).mean()) < 0.5
    assert added.difficulty[1] < table["mean"][1]
    table.assign(item_id="x" + table["item_id"]).to_csv(tmp_path / "foreign.csv", index=False)
    saying = "none of its items is among those of the responses"
    refused(f"link --extend {bank} new.csv -o no --prior-items foreign.csv", saying=saying, cwd=tmp_path)
    assert not (tmp_path / "no").exists()
