"""Rasch, 1PL and anchors: R's figures, one optimum by every engine, standard errors, counts of parameters."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import irtbench
from builders.by_hand import Read, counts_of
from builders.mirt_figures import lsat6
from builders.refusals import is_refused
from irtbench.estimation.marginal import observed_information


def verbal(reference: Path) -> pd.DataFrame:
    """Verbal aggression, 316 x 24 (De Boeck & Wilson, 2004), as difR has it."""
    return pd.read_csv(reference / "next" / "data" / "verbal.csv").iloc[:, :24]


@pytest.mark.parametrize("name", ["lsat6", "verbal"])
def test_rasch_and_1pl_equal_mirt_and_ltm(real_data: Path, reference: Path, name: str) -> None:
    """mirt 1.45.1 itemtype "Rasch" and a common slope, ltm 1.2-0 rasch(), see reference/next/07_rasch."""
    responses = lsat6(real_data, reference, "2pl")[0] if name == "lsat6" else verbal(reference)
    folder = reference / "next" / "07_rasch"
    known, stats = (
        pd.read_csv(folder / f"{name}_pars.csv"),
        pd.read_csv(folder / f"{name}_fit.csv", index_col="stat")["value"],
    )
    rasch = irtbench.fit_model(responses, model="rasch")
    table = rasch.table()
    assert (table["discrimination"] == 1).all()
    assert (table["se_discrimination"] == 0).all()
    np.testing.assert_allclose(table["intercept"], known["rasch_d"], atol=5e-4)
    np.testing.assert_allclose(table["se_intercept"], known["rasch_se_d"], atol=5e-5)
    np.testing.assert_allclose(table["difficulty"], known["rasch_b"], atol=5e-4)
    # of the variance: 2 s se(s)
    variance, error = rasch.population["sd"] ** 2, 2 * rasch.population["sd"] * rasch.population["se_sd"]
    assert variance == pytest.approx(stats["variance_rasch_mirt"], abs=2e-3)
    assert error == pytest.approx(stats["se_variance_rasch_mirt"], abs=5e-4)
    assert rasch.log_likelihood > stats["loglik_mml_rasch_mirt"] - 1e-4
    assert rasch.log_likelihood == pytest.approx(stats["loglik_ltm_rasch_GHk61"], abs=1e-3)
    one = irtbench.fit_model(responses, model="1pl")
    table = one.table()
    for ours, theirs, tolerance in (
        ("discrimination", "ltm_a", 5e-4),
        ("se_discrimination", "ltm_se_a", 5e-5),
        ("difficulty", "onepl_b", 5e-4),
        ("difficulty", "ltm_b", 1e-3),
        ("se_difficulty", "ltm_se_b", 5e-4),
        ("intercept", "onepl_d", 5e-4),
        ("se_intercept", "onepl_se_d", 5e-5),
    ):
        np.testing.assert_allclose(table[ours], known[theirs], atol=tolerance, err_msg=ours)
    assert one.log_likelihood == pytest.approx(rasch.log_likelihood, abs=1e-8)
    n_items = len(known)
    assert one.n_parameters == rasch.n_parameters == n_items + 1


def test_abilities_and_diagnostics_of_lsat6_equal_mirts_rasch(real_data: Path, reference: Path) -> None:
    responses, _, _ = lsat6(real_data, reference, "2pl")
    fitted = irtbench.fit_model(responses, model="rasch")
    eap = pd.read_csv(reference / "mirt_lsat6_rasch_EAP.csv", dtype={"pattern": str}).set_index("pattern")
    found = irtbench.estimate_ability(responses, fitted.items, quadrature=fitted.estimated_population)
    patterns = ["".join(str(int(x)) for x in row) for row in responses.values]
    np.testing.assert_allclose(found.theta, eap.loc[patterns, "theta"], atol=5e-4)
    np.testing.assert_allclose(found.standard_error, eap.loc[patterns, "se"], atol=5e-4)
    m2 = pd.read_csv(reference / "mirt_lsat6_rasch_M2.csv").iloc[0]
    sx2 = pd.read_csv(reference / "mirt_lsat6_rasch_sx2.csv")
    for model in (fitted, irtbench.fit_model(responses, model="1pl")):
        whole = irtbench.global_fit(responses, model.items, quadrature=model.estimated_population)
        assert whole.df == m2["df"]
        assert whole.m2 == pytest.approx(m2["M2"], abs=5e-3)
        assert whole.srmsr == pytest.approx(m2["SRMSR"], abs=5e-4)
        fits = irtbench.item_fit(responses, model.items, quadrature=model.estimated_population)
        np.testing.assert_array_equal(fits.df, sx2["df.S_X2"] + 1)  # mirt takes the shared slope off every item's
        np.testing.assert_allclose(fits.s_x2, sx2["S_X2"], atol=2e-3)


@pytest.mark.parametrize("name", ["a2pl", "a3pl"])
def test_items_beside_anchors_equal_mirts(reference: Path, name: str) -> None:
    """mirt 1.45.1, common items fixed, mean and variance of the group free: reference/next/05_linking."""
    folder = reference / "next" / "05_linking"
    anchors = pd.read_csv(folder / f"{name}_pars_X.csv").rename(
        columns={"item": "item_id", "a": "discrimination", "b": "difficulty", "c": "guessing"}
    )
    prior = {} if name == "a2pl" else {"model": "3pl", "prior": "none", "prior_guessing": "normal:-1.5,0.5"}
    responses = pd.read_csv(folder / f"{name}_data_Y.csv")
    fitted = irtbench.fit_model(responses, anchors=anchors, **prior)
    group = pd.read_csv(folder / f"{name}_fixed_group.csv").iloc[0]
    assert fitted.converged
    for ours, theirs, tolerance in (("mean", "mean", 5e-4), ("sd", "sd", 5e-4), ("se_mean", "se_mean", 1e-4)):
        assert fitted.population[ours] == pytest.approx(group[theirs], abs=tolerance)
    error = 2 * fitted.population["sd"] * fitted.population["se_sd"]
    assert error == pytest.approx(group["se_var"], abs=5e-4)
    # where the prior is flat; with one mirt's figure is without it
    assert fitted.log_likelihood == pytest.approx(group["loglik"], abs=0.02)
    known = pd.read_csv(folder / f"{name}_fixed_pars_Y.csv")
    table = fitted.table()
    assert table["item_id"].tolist() == known["item"].tolist()
    own = ~known["fixed"].to_numpy()
    for ours, theirs in (
        ("discrimination", "a"), ("intercept", "d"), ("guessing", "c"), ("se_discrimination", "se_a"),
        ("se_intercept", "se_d"),
    ):  # fmt: skip
        np.testing.assert_allclose(table[ours][own], known[theirs][own], atol=6e-4, err_msg=ours)
    assert set(table["model"][~own]) == {"fixed"}
    given = anchors.set_index("item_id").loc[table["item_id"][~own]]
    np.testing.assert_array_equal(table["discrimination"][~own], given["discrimination"])
    np.testing.assert_allclose(table["difficulty"][~own], given["difficulty"], atol=1e-12)
    assert fitted.n_parameters == own.sum() * (2 if name == "a2pl" else 3) + 2


@pytest.fixture(scope="module")
def simulated() -> irtbench.ResponseMatrix:
    rng = np.random.default_rng(4)
    truth = irtbench.ItemParameters.from_difficulty([1.0] * 12, np.linspace(-2, 2, 12))
    return irtbench.simulate_responses(rng.normal(0, 1.6, 400), truth, rng=rng, missing=0.2)


def test_standard_errors_carry_the_anchors_own(simulated) -> None:
    """V = H^-1 + H^-1 C S C' H^-1, H and C the Hessian by automatic differentiation, S that of the anchors."""
    known, n = 4, simulated.n_items
    anchors = irtbench.ItemParameters.from_difficulty([1.0, 1.2, 0.9, 1.1], [-2.0, -1.5, -1.0, -0.9], 0.1)
    factor = 0.02 * np.random.default_rng(1).normal(size=(3 * known, 40)) + 0.02 * np.random.default_rng(2).normal(
        size=40
    )
    factor[2::3] *= 0.3
    joint = irtbench.JointError((factor @ factor.T).reshape(known, 3, known, 3), 0.003, 0.002)
    bank = irtbench.Scale("all", anchors, irtbench.ItemTable.plain(anchors.item_ids), joint_error=joint)
    plain = irtbench.fit_model(simulated, anchors=anchors, guessing=0.05)
    fitted = irtbench.fit_model(simulated, anchors=bank, guessing=0.05)
    assert (plain.anchor_error, fitted.anchor_error) == ("taken as known", "joint")
    read, counts = Read.of(fitted, anchored=known), [counts_of(simulated.values)]
    at = torch.cat([read.estimates, read.x[:known].flatten()])
    hessian = -torch.autograd.functional.hessian(lambda values: read.log_likelihood(values, counts), at).numpy()
    own = slice(len(read.errors))
    inverse = np.linalg.inv(hessian[own, own])
    factor = np.insert(factor.reshape(known, 3, -1), 3, 0.0, axis=1).reshape(4 * known, -1)  # u is 1
    moved = -inverse @ hessian[own, len(read.errors) :] @ factor
    expected = np.diagonal(inverse + moved @ moved.T) ** 0.5
    np.testing.assert_allclose(read.errors, expected, rtol=1e-4)
    np.testing.assert_allclose(Read.of(plain, anchored=known).errors, np.diagonal(inverse) ** 0.5, rtol=1e-4)
    assert expected[-2] > 1.2 * inverse[-2, -2] ** 0.5  # of the mean
    found = fitted.joint_error.covariance
    np.testing.assert_allclose(found[:known, :, :known], joint.covariance, atol=1e-12)
    across = (moved @ factor.T)[:-2].reshape(n - known, 2, known, 4)[..., :3]
    np.testing.assert_allclose(found[known:, :2, :known], across, rtol=1e-3, atol=1e-7)
    # items with a covariance have each their own, and nothing where it is nothing
    each = np.arange(known)
    for share, error in ((1.0, "by item"), (0.0, "taken as known")):
        alone = replace(anchors, covariance=share * joint.covariance[each, :, each, :])
        by_item = irtbench.fit_model(simulated, anchors=alone, guessing=0.05)
        assert by_item.anchor_error == error
    assert by_item.population == plain.population


def test_a_population_estimated_beside_a_common_slope(simulated) -> None:
    one = irtbench.fit_model(simulated, model="1pl", population="estimated")
    rasch = irtbench.fit_model(simulated, model="rasch", population="estimated")
    assert one.converged
    assert one.n_parameters == rasch.n_parameters == 12 + 1  # one normal density is enough for these
    assert one.estimated_population.deviation == pytest.approx(1, abs=1e-3)
    assert rasch.estimated_population.deviation == pytest.approx(one.items.discrimination[0], rel=1e-3)
    np.testing.assert_allclose(rasch.items.intercept, one.items.intercept, atol=1e-6)


def test_many_items_have_the_same_standard_errors_by_the_shorter_way(monkeypatch) -> None:
    rng = np.random.default_rng(2)
    truth = irtbench.ItemParameters.from_difficulty([1.0] * 200, rng.normal(0, 1, 200))
    responses = irtbench.simulate_responses(rng.normal(0, 1.2, 150), truth, rng=rng)
    whole = irtbench.fit_model(responses, model="rasch")
    monkeypatch.setattr(observed_information, "MOST_SHARING", 3)
    shorter = irtbench.fit_model(responses, model="rasch")
    np.testing.assert_allclose(shorter.table()["se_intercept"], whole.table()["se_intercept"], rtol=6e-3)
    assert shorter.population["se_sd"] == pytest.approx(whole.population["se_sd"], rel=0.15)


def test_a_common_slope_of_anchors_alone_is_none() -> None:
    rng, anchors = np.random.default_rng(3), irtbench.ItemParameters.from_difficulty([1.0, 1.4, 0.8], [-1.0, 0.0, 1.0])
    responses = irtbench.simulate_responses(rng.normal(size=150), anchors, rng=rng)
    own, common = (irtbench.fit_model(responses, anchors=anchors, kind=kind) for kind in ("2pl", "1pl"))
    assert (common.converged, common.n_parameters) == (True, 2)
    assert common.moments.se_mean == pytest.approx(own.moments.se_mean, rel=1e-6)


def test_an_anchor_that_all_got_right_is_no_obstacle() -> None:
    rng = np.random.default_rng(1)
    truth = irtbench.ItemParameters.from_difficulty([1.0] * 8, [-8.0, *np.linspace(-1, 1, 7)])
    responses = irtbench.simulate_responses(rng.normal(size=200), truth, rng=rng)
    values = responses.values.copy()
    values[:, 0] = 1
    assert irtbench.fit_model(values, anchors=truth.select(truth.item_ids[:3])).converged
    with pytest.raises(irtbench.InputError, match="all responses are the same for item item1"):
        irtbench.fit_model(values, anchors=truth.select(truth.item_ids[1:3]))


def test_items_that_have_nothing_in_common_are_said_to_have_none() -> None:
    values = np.random.default_rng(3).integers(0, 2, (300, 10))
    # under one slope the likelihood of coins is highest at a slope of 0 as often as not: make it so
    values[:, 5:] = 1 - values[:, :5]
    for model in ("rasch", "1pl"):
        fitted = irtbench.fit_model(values, model=model)
        assert not fitted.converged
        assert fitted.stopped_because.startswith("ability does not vary; the items have nothing in common")
        assert np.isfinite(fitted.items.intercept).all()
        factors = irtbench.fit_factors(values, 1, models=model)
        assert factors.stopped_because == fitted.stopped_because
        assert factors.covariance is None
    assert np.isnan(irtbench.fit_model(values, model="rasch").population["se_sd"])
    for models, options in (("pcm", {}), ("rsm", {}), ("gpcm", {"common_slope": True})):
        graded = irtbench.fit_categories(np.hstack([values[:, :5] * 2, 2 - values[:, :5] * 2]), models, **options)
        assert graded.stopped_because.startswith("ability does not vary; the items have nothing in common")


def test_wrong_anchors_are_refused_in_a_line(simulated) -> None:
    anchor = irtbench.ItemParameters.from_difficulty([1.0], [0.0])
    flat = irtbench.ItemParameters.from_difficulty([0.0], [0.0])
    elsewhere = irtbench.ItemParameters.from_difficulty([1.0], [0.0], item_ids=["elsewhere"])
    for anchors, options, said in (
        (elsewhere, {}, "none of the anchors is among the items"),
        (flat, {}, "a slope other than 0"),
        (anchor, {"model": "1pl", "prior": "weak"}, "go without a prior of slopes"),
        (anchor, {"prior": "hierarchical"}, "anchors go with prior none or weak"),
        (anchor, {"optimiser": "adam", "model": "1pl"}, "one slope for all items goes, with anchors,"),
        (anchor, {"population": "estimated"}, "the population is normal"),
        (anchor, {"model": "3pl", "prior": "none"}, "guessing without a prior"),
        ("items.csv", {}, "expected ItemParameters or a data frame"),
    ):
        is_refused(said, irtbench.fit_model, simulated, anchors=anchors, **options)


def test_a_4pl_has_items_of_other_models_beside_it(simulated) -> None:
    fitted = irtbench.fit_model(simulated, model="4pl", by_item={"item1": "2pl", "item2": "3pl", "item3": 0.1})
    assert fitted.items.model[:4] == ("2pl", "3pl", "2pl_fixed_guessing", "4pl")
    assert fitted.n_parameters == 12 * 4 - 2 - 1 - 2
    np.testing.assert_array_equal(fitted.items.upper_asymptote[:3], 1.0)
    assert fitted.items.guessing[[0, 2]] == pytest.approx([0.0, 0.1], abs=1e-12)
