"""``irtbench fit``: models that share parameters, anchors, groups, several abilities, testlets, devices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import irtbench
from builders.command_line import refused, run
from builders.few_draws import few_draws


def read(folder: Path, name: str = "items") -> pd.DataFrame:
    return pd.read_csv(folder / f"{name}.csv")


def said_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "fit.json").read_text())
    return found


# --- models


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """800 people of mean .5 and standard deviation 1.5 on 14 items of slope 1."""
    folder = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(11)
    items = irtbench.ItemParameters.from_difficulty(
        [1.0] * 14, np.linspace(-2, 2, 14), item_ids=[f"q{k:02d}" for k in range(14)]
    )
    drawn = irtbench.simulate_responses(rng.normal(0.5, 1.5, 800), items, rng=rng)
    drawn.to_long().astype({"response": int}).to_csv(folder / "responses.csv", index=False)
    drawn.to_long().iloc[: 14 * 20].to_csv(folder / "few.csv", index=False)
    items.select(items.item_ids[:5]).table().to_csv(folder / "known.csv", index=False)
    return folder


def test_rasch_from_fit_to_score_and_diagnosis(folder: Path) -> None:
    out = folder / "rasch"
    said = run("fit responses.csv -o rasch --model rasch", cwd=folder).out
    assert "ability of these respondents: mean 0.000 (0.000), standard deviation 1." in said
    found, items, scores = said_of(out), read(out), read(out, "scores")
    assert (found["model"], found["n_parameters"]) == ("rasch", 15)
    assert set(items["model"]) == {"rasch"}
    assert (items["population_sd"] == found["population_sd"]).all()
    assert abs(found["population_sd"] - 1.5) < 4 * found["population_se_sd"]
    # theta is on the scale of the items: its spread and its error make the population's
    spread = np.sqrt(scores["theta"].var() + (scores["se"] ** 2).mean())
    assert spread == pytest.approx(found["population_sd"], rel=0.03)
    assert scores["percentile"].mean() == pytest.approx(50, abs=2)
    for known in ("bank.json", "items.csv"):  # which states the population, too
        said = run(f"score rasch/{known} responses.csv -o again.csv", cwd=folder).out
        assert "mean and standard deviation of the crowd are 0.00 and 1." in said
        np.testing.assert_allclose(read(folder, "again")["theta"], scores["theta"])
        run(f"form adapt rasch/{known} --replay few.csv -o {known}.path.csv", cwd=folder)
    pd.testing.assert_frame_equal(read(folder, "bank.json.path"), read(folder, "items.csv.path"))
    # and so it is of a study
    (folder / "study.toml").write_text(
        '[study]\ntitle = "t"\n[data]\nanswers = "responses.csv"\ncontent = "responses"\n'
        '[model]\nkind = "rasch"\n[pruning]\npreset = "none"\n'
    )
    run("build study.toml -o study -q", cwd=folder)
    run("score study/items.csv responses.csv -o again.csv -q", cwd=folder)
    np.testing.assert_allclose(read(folder, "again")["theta"], scores["theta"], atol=1e-4)
    # the number right is sufficient in a Rasch model: the same ability as by the responses
    by_score = scores.groupby("n_correct")["theta"].mean()
    for given in ("bank.json", "items.csv"):
        run(f"items show rasch/{given} -o read -q", cwd=folder)
        table = read(folder / "read", "score_table").set_index("score")["theta"]
        np.testing.assert_allclose(table.loc[by_score.index], by_score, atol=1e-3)
    # the items were drawn from the model; with a standard deviation of 1 they would not fit
    run("items diagnose responses.csv --items rasch/items.csv -o d --bootstrap 0 -q", cwd=folder)
    moments = json.loads((folder / "d" / "global_fit.json").read_text())
    assert moments["df"] == 14 * 15 // 2 - 15
    assert moments["rmsea"] < 0.03
    assert (read(folder / "d", "item_fit")["p_adjusted"] > 0.01).all()


def test_anchors_keep_their_parameters_and_bring_their_scale(folder: Path) -> None:
    said = run("fit responses.csv -o anchored --anchors known.csv", cwd=folder).out
    assert "ability of these respondents: mean 0." in said
    found, items, known = said_of(folder / "anchored"), read(folder / "anchored"), read(folder, "known")
    assert abs(found["population_mean"] - 0.5) < 4 * found["population_se_mean"]
    assert abs(found["population_sd"] - 1.5) < 4 * found["population_se_sd"]
    assert items["model"].tolist() == ["fixed"] * 5 + ["2pl"] * 9
    np.testing.assert_array_equal(items["difficulty"][:5], known["difficulty"])
    z = (items["difficulty"][5:] - np.linspace(-2, 2, 14)[5:]) / items["se_difficulty"][5:]
    assert np.abs(z).max() < 4
    line = "items diagnose responses.csv --items anchored/items.csv -o anchored_d"
    run(f"{line} --bootstrap 0 -q", cwd=folder)
    assert json.loads((folder / "anchored_d" / "global_fit.json").read_text())["df"] == 105 - 20
    refused(line, saying="items fitted with anchors are not refitted", cwd=folder)


@pytest.mark.slow
def test_a_study_of_a_common_slope(folder: Path) -> None:
    (folder / "study.toml").write_text(
        '[data]\nanswers = "responses.csv"\ncontent = "responses"\n[scales]\nby = "none"\n[model]\nkind = "rasch"\n'
        "[pruning]\nbootstrap_samples = 19\n"
    )
    run("build study.toml -o built -q", cwd=folder)
    (scale,) = irtbench.load_bank(folder / "built" / "bank.json").scales
    assert set(scale.items.model) == {"rasch"}
    assert scale.population is not None
    rounds = read(folder / "built", "rounds_items")
    last = rounds[rounds["round"] == rounds["round"].max()]
    square = (last["discrimination"] * scale.population.deviation) ** 2
    np.testing.assert_allclose(last["communality"], square / (square + 1.702**2), atol=1e-3)


@pytest.mark.parametrize(
    ("n_respondents", "n_items", "prior", "why"),
    [(12, 30, "hierarchical", "items outnumber 12 respondents"), (90, 10, "weak", "90 responses to the median item"),
     (400, 10, "none", "")],
)  # fmt: skip
def test_fit_takes_the_prior_that_suits_and_says_why(
    tmp_path: Path, n_respondents: int, n_items: int, prior: str, why: str
) -> None:
    rng = np.random.default_rng(3)
    items = irtbench.ItemParameters.from_difficulty([1.2] * n_items, np.linspace(-1.2, 1.2, n_items))
    table = irtbench.simulate_responses(rng.normal(size=n_respondents), items, rng=rng).to_long()
    easy = table.drop_duplicates("respondent_id").assign(item_id="easy", response=1)
    unasked = [f"unasked{k}" for k in range(6)]
    nobody = [easy[:1].assign(item_id=item, response=None) for item in unasked]
    pd.concat([table, easy, *nobody]).to_csv(tmp_path / "r.csv", index=False)
    said = run("fit r.csv -o out", cwd=tmp_path).out
    found = said_of(tmp_path / "out")
    assert found["prior"].startswith(prior)
    kept = "easy" in {*read(tmp_path / "out")["item_id"]}
    assert kept == (prior == "hierarchical")  # it is one of the items which the prior is learnt from
    reasons = {one["item_id"]: one["reason"] for one in found["items_left_out"]}
    assert reasons == dict.fromkeys(unasked, "no_response") | ({} if kept else {"easy": "all_correct"})
    (line,) = (line for line in said.splitlines() if line.startswith("left out: "))
    assert line.endswith(f" and {len(reasons) - 5} more")
    # they are no unknown items to the bank
    scored = run("score out/bank.json r.csv -o s.csv --json", cwd=tmp_path).json
    assert {one["item_id"]: one["reason"] for one in scored[0]["items_left_out"]} == reasons
    assert why in " ".join(said.split())
    assert ("--prior says otherwise" in said) == bool(why)
    if prior == "weak":
        assert "says otherwise" not in run("fit r.csv -o own --prior weak", cwd=tmp_path).out


# --- fit groups

SETTINGS = {"a2pl": "", "a3pl": "--model 3pl --prior none --prior-guessing normal:-1.5,0.5"}


@pytest.mark.parametrize("study", ["a2pl", "a3pl"])
def test_items_and_groups_are_those_of_mirt(reference: Path, tmp_path: Path, study: str) -> None:
    """Of two forms with common items: mirt 1.45.1, multipleGroup, reference/next/05_linking.

    mirt stops early: mean and variance good to 3e-4.
    """
    folder = reference / "next" / "05_linking"
    forms = [pd.read_csv(folder / f"{study}_data_{form}.csv").rename(f"{form}{{}}".format) for form in "XY"]
    wide = pd.concat(forms).rename_axis("respondent_id")
    wide.to_csv(tmp_path / "both.csv")
    pd.DataFrame({"respondent_id": wide.index, "group": wide.index.str[0]}).to_csv(tmp_path / "groups.csv", index=False)
    run(f"fit both.csv --groups groups.csv --reference X -o out {SETTINGS[study]}", cwd=tmp_path)
    found = said_of(tmp_path / "out")
    (expected,) = pd.read_csv(folder / f"{study}_concurrent_group.csv").itertuples()
    first, other = found["groups"]
    assert (first["group"], first["mean"], first["sd"], first["se_mean"]) == ("X", 0.0, 1.0, 0.0)
    assert other["mean"] == pytest.approx(expected.mean, abs=1e-3)
    assert other["sd"] ** 2 == pytest.approx(expected.var, abs=3e-3)
    assert other["se_mean"] == pytest.approx(expected.se_mean, rel=0.02)
    assert 2 * other["sd"] * other["se_sd"] == pytest.approx(expected.se_var, rel=0.02)
    if study == "a2pl":
        assert found["log_likelihood"] == pytest.approx(expected.loglik, abs=1e-3)
    items = read(tmp_path / "out").set_index("item_id")
    pars = pd.read_csv(folder / f"{study}_concurrent_pars.csv", index_col="item").loc[items.index]
    np.testing.assert_allclose(items["discrimination"], pars["a"], atol=5e-3)
    np.testing.assert_allclose(items["intercept"], pars["d"], atol=5e-3)
    np.testing.assert_allclose(items["se_intercept"], pars["se_d"], rtol=0.02)


def test_the_bank_has_the_reference_groups_norms_and_links_with_its_errors(tmp_path: Path) -> None:
    rng = np.random.default_rng(31)
    truth = irtbench.ItemParameters.from_difficulty(rng.uniform(1, 2, 12), rng.uniform(-1.5, 1.5, 12))
    crowds = {"first": rng.normal(size=400), "second": rng.normal(0.8, 1.3, size=300)}
    tables = []
    for (name, theta), part in zip(crowds.items(), (slice(0, 9), slice(3, 12)), strict=True):
        ids = [f"{name}{k}" for k in range(len(theta))]
        items = truth.select(truth.item_ids[part])
        tables.append(irtbench.simulate_responses(theta, items, rng=rng, respondent_ids=ids).to_long())
    table = pd.concat(tables)
    table.astype({"response": int}).to_csv(tmp_path / "all.csv", index=False)
    people = table["respondent_id"].unique()
    groups = pd.DataFrame({"respondent_id": people, "group": [name.rstrip("0123456789") for name in people]})
    groups.to_csv(tmp_path / "groups.csv", index=False)
    run("fit all.csv --groups groups.csv -o out", cwd=tmp_path)
    first, second = said_of(tmp_path / "out")["groups"]
    assert (first["n_respondents"], second["n_respondents"]) == (400, 300)
    assert second["mean"] == pytest.approx(0.8, abs=3 * second["se_mean"])
    assert second["sd"] == pytest.approx(1.3, abs=3 * second["se_sd"])
    (scale,) = irtbench.load_bank(tmp_path / "out" / "bank.json").scales
    assert scale.norms.n == 400  # of the largest group, the reference
    each = np.arange(12)
    np.testing.assert_allclose(scale.joint_error.covariance[each, :, each, :], scale.items.covariance, rtol=1e-5)
    assert scale.joint_error.location == pytest.approx(1 / 400)
    scores = read(tmp_path / "out", "scores").merge(groups, on="respondent_id", suffixes=("", "_given"))
    assert (scores["group_given"] == scores["group"]).all()
    means = scores.groupby("group")["theta"].mean()
    assert means["second"] == pytest.approx(second["mean"], abs=0.05)  # EAPs under the group's own density
    run("fit all.csv -o one -q", cwd=tmp_path)
    linked = run("link out/bank.json --items one/bank.json -o linked -q --json", cwd=tmp_path)
    assert linked.json["errors"] == "joint"


# --- several abilities


@pytest.mark.slow
def test_items_with_a_posterior_end_with_quantiles(folder: Path) -> None:
    with few_draws(300):
        run("fit responses.csv --posterior normal --prior weak -o posterior", cwd=folder)
    items = read(folder / "posterior")
    assert items.columns[-9:-6].tolist() == [f"discrimination_{level}" for level in ("lower", "median", "upper")]
    assert items["discrimination"].between(items["discrimination_lower"], items["discrimination_upper"]).all()
    assert said_of(folder / "posterior")["posterior"]["sd_doubtful"] == []


def test_two_abilities_free_and_by_a_pattern(tmp_path: Path) -> None:
    """Of twelve items and 300 respondents."""
    rng, slopes, responses = np.random.default_rng(0), np.zeros((12, 2)), tmp_path / "responses.csv"
    slopes[:6, 0], slopes[6:, 1] = 1.5, 1.5
    p = 1 / (1 + np.exp(-(rng.normal(size=(300, 2)) @ slopes.T + rng.normal(0, 0.8, 12))))
    wide = pd.DataFrame((rng.random(p.shape) < p).astype(int), columns=[f"q{j:02}" for j in range(12)])
    wide.rename("r{}".format).rename_axis("respondent_id").to_csv(responses)
    done = run(f"fit {responses} --factors 2 -o {tmp_path}/two")
    assert "standard errors: of intercepts and of slopes on principal axes" in done.out
    items, found = read(tmp_path / "two"), said_of(tmp_path / "two")
    assert (items[["se_discrimination", "se_intercept", "se_slope_1", "se_slope_2"]] > 0).all(axis=None)
    np.testing.assert_allclose(items["discrimination"] ** 2, items["slope_1"] ** 2 + items["slope_2"] ** 2)
    assert {"theta_1", "se_1", "theta_2", "se_2"} <= set(read(tmp_path / "two", "scores"))
    assert found["integration_error"] < 1e-6
    assert (found["n_factors"], found["n_parameters"]) == (2, 12 * 3 - 1)
    saying = "column slope_2: items of several abilities; expected one ability"
    refused("items diagnose responses.csv --items two/items.csv -o no", saying=saying, cwd=tmp_path)
    pattern, rows = tmp_path / "pattern.csv", [f"{item},1,{int(k >= 6)}" for k, item in enumerate(items["item_id"])]
    whole = "\n".join(rows)
    pattern.write_text(f"item_id,slope_1,slope_2\n{whole}\n")
    run(f"fit {responses} --pattern {pattern} -o {tmp_path}/fixed -q")
    own, fixed = read(tmp_path / "fixed"), said_of(tmp_path / "fixed")
    assert ((own["slope_2"] != 0) == (own.index >= 6)).all()
    assert fixed["n_parameters"] == found["n_parameters"] - (6 - 1)  # a rotation is lost either way
    assert fixed["log_likelihood"] < found["log_likelihood"] + 1
    for text, options, saying in (
        (whole, " --factors 3", "2 abilities, but --factors says 3"),
        ("\n".join(rows[:-1]), "", "no row for item"),
        (whole.replace(",1,0", ",1,2", 1), "", "expected 1 (estimated) or 0 (zero) but got '2'"),
    ):
        pattern.write_text(f"item_id,slope_1,slope_2\n{text}\n")
        refused(f"fit {responses} --pattern {pattern}{options} -o {tmp_path}/no", saying=saying)


# --- testlets


@pytest.fixture(scope="module")
def passages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two passages of four items and two items in none: a wide table with a table of items, and a long table."""
    rng = np.random.default_rng(0)
    own = rng.normal(size=(400, 3)) * [1.5, 1.2, 0]
    z = 1.3 * rng.normal(size=(400, 1)) + own[:, [0] * 4 + [1] * 4 + [2] * 2] + np.linspace(-1, 1, 10)
    names = [f"q{j}" for j in range(10)]
    wide = pd.DataFrame((rng.random(z.shape) < 1 / (1 + np.exp(-z))).astype(int), columns=names)
    path = tmp_path_factory.mktemp("testlets")
    wide.insert(0, "respondent_id", [f"r{i}" for i in range(400)])
    wide.to_csv(path / "wide.csv", index=False)
    items = pd.DataFrame({"item_id": names, "passage": ["A"] * 4 + ["B"] * 4 + [""] * 2})
    items["twin_of"] = ["", "q0", "", "q2", "", "q4", "", "q6", "", ""]
    items.to_csv(path / "items.csv", index=False)
    long = wide.melt("respondent_id", var_name="item_id")
    long.rename(columns={"value": "response"}).merge(items).to_csv(path / "long.csv", index=False)
    return path


@pytest.mark.slow
def test_testlets_of_a_long_table_and_of_a_table_of_items_are_the_same(passages: Path, tmp_path: Path) -> None:
    said = run(f"fit {passages}/long.csv --testlets passage -o {tmp_path}/long").out
    for words in ("model preferred: bifactor", "any effect of testlets (equal slopes against none)", "omega_h"):
        assert words in said
    items, found, scores = (part(tmp_path / "long") for part in (read, said_of, lambda of: read(of, "scores")))
    assert list(items["testlet"].fillna("")) == ["A"] * 4 + ["B"] * 4 + [""] * 2
    assert (items["model"] == "bifactor").all()
    assert (items["slope_specific"][8:] == 0).all()
    assert (found["model"], found["n_parameters"], found["converged"]) == ("bifactor", 28, True)
    assert found["mean_se"] > found["mean_se_one_ability"]
    assert [row["testlet"] for row in found["testlets"]] == ["A", "B"]
    assert found["likelihood_ratio_test"]["p"] < 1e-6
    assert list(scores.columns[-4:]) == ["theta", "se", "theta_one_ability", "se_one_ability"]
    assert not (tmp_path / "long" / "bank.json").exists()
    arguments = ("--testlets", "passage", "--item-table", passages / "items.csv", "--json")
    other = run(f"fit {passages}/wide.csv", *arguments, "-o", tmp_path / "wide").json
    assert other["log_likelihood"] == pytest.approx(found["log_likelihood"], abs=1e-6)
    saying = "items of several abilities"
    refused(f"items diagnose {passages}/wide.csv --items long/items.csv -o no", saying=saying, cwd=tmp_path)
    refused(f"score long/items.csv {passages}/wide.csv -o scores.csv", saying=saying, cwd=tmp_path)


def test_testlets_and_several_abilities_take_guessing_with_its_prior(passages: Path, tmp_path: Path) -> None:
    guessed = "fit wide.csv --model 3pl --prior-guessing beta:4,16"
    testlets = "--testlets passage --item-table items.csv --specific-slopes equal"
    found = run(f"{guessed} {testlets} --json -o {tmp_path}/testlets", cwd=passages).json
    given, items = pd.read_csv(passages / "wide.csv", index_col=0), pd.read_csv(passages / "items.csv")
    of_item = dict(items[["item_id", "passage"]].dropna().to_numpy())
    expected = irtbench.fit_bifactor(
        given, of_item, models="3pl", specific_slopes="equal", prior_guessing="beta:4,16", standard_errors=False
    )
    assert found["prior"] == "none: c ~ Beta(4, 16)"
    assert found["log_likelihood"] == pytest.approx(expected.log_likelihood, abs=1e-6)
    np.testing.assert_allclose(read(tmp_path / "testlets")["guessing"], expected.intercepts[:, 1], atol=1e-6)
    run(f"{guessed} --factors 2 -o {tmp_path}/two", cwd=passages)
    assert {"guessing", "se_guessing", "slope_2"} < set(read(tmp_path / "two").columns)


def test_twins_are_testlets_of_two_and_their_slopes_equal(passages: Path, tmp_path: Path) -> None:
    done = run(f"fit wide.csv --testlets twin_of --item-table items.csv -o {tmp_path}/twins", cwd=passages)
    assert "one specific slope for both items of q0, q2, q4, q6, whose product alone could be known" in done.out
    slopes = read(tmp_path / "twins")["slope_specific"]
    np.testing.assert_allclose(slopes[0:8:2], slopes[1:8:2])


# --- device


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize(
    "kind", ["", "--factors 2", "--testlets passage --item-table items.csv", "--model 4pl"], ids=lambda kind: kind[:10]
)
def test_a_gpu_that_is_not_there_is_one_line(kind: str, passages: Path, tmp_path: Path) -> None:
    refused(f"fit wide.csv {kind} --device cuda -o {tmp_path}/out", saying="torch sees no GPU", cwd=passages)
    assert not (tmp_path / "out").exists()
