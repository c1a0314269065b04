"""``irtbench fit``: models that share parameters, anchors, groups, several abilities, testlets, devices."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import irtbench
from builders.command_line import refused, run
from builders.pretended_device import pretended_gpu
from irtbench.data.input_error import InputError
from irtbench.data.readers.item_table import read_testlets

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
    items.select(items.item_ids[:5]).table().to_csv(folder / "known.csv", index=False)
    return folder


def test_rasch_from_fit_to_score(folder: Path) -> None:
    out = folder / "rasch"
    said = run(f"fit {folder}/responses.csv -o {out} --model rasch").out
    assert "ability of these respondents: mean 0.000 (0.000), standard deviation 1." in said
    found = json.loads((out / "fit.json").read_text())
    assert (found["model"], found["n_parameters"]) == ("rasch", 15)
    items = pd.read_csv(out / "items.csv")
    assert set(items["model"]) == {"rasch"}
    assert (items["population_sd"] == found["population_sd"]).all()
    assert abs(found["population_sd"] - 1.5) < 4 * found["population_se_sd"]
    # theta is on the scale of the items: its spread and its error make the population's
    scores = pd.read_csv(out / "scores.csv")
    assert np.sqrt(scores["theta"].var() + (scores["se"] ** 2).mean()) == pytest.approx(
        found["population_sd"], rel=0.03
    )
    assert scores["percentile"].mean() == pytest.approx(50, abs=2)
    said = run(f"score {out}/bank.json {folder}/responses.csv -o {folder}/again.csv").out
    assert "mean and standard deviation of the crowd are 0.00 and 1." in said
    np.testing.assert_allclose(pd.read_csv(folder / "again.csv")["theta"], scores["theta"])
    for given in (out / "bank.json", out / "items.csv"):
        run(f"items {given} -o {folder}/read -q")
        table = pd.read_csv(folder / "read" / "score_table.csv")
        # the number right is sufficient in a Rasch model: the same ability as by the responses
        by_score = scores.groupby("n_correct")["theta"].mean()
        np.testing.assert_allclose(table.set_index("score")["theta"].loc[by_score.index], by_score, atol=1e-3)


def test_diagnose_reads_the_population_next_to_the_items(folder: Path) -> None:
    reports = {}
    for model in ("rasch", "1pl"):
        run(f"fit responses.csv -o fit_{model} --model {model} -q", cwd=folder)
        run(f"diagnose responses.csv --items fit_{model}/items.csv -o d_{model} --bootstrap 19 -q", cwd=folder)
        out = folder / f"d_{model}"
        reports[model] = (
            json.loads((out / "global_fit.json").read_text()),
            pd.read_csv(out / "item_fit.csv"),
            pd.read_csv(out / "local_dependence.csv"),
            json.loads((out / "reliability.json").read_text()),
            pd.read_csv(out / "infit_outfit.csv"),
        )
    one, other = reports.values()
    # one model on two scales
    assert one[0]["df"] == other[0]["df"] == 14 * 15 // 2 - 15
    assert one[0]["m2"] == pytest.approx(other[0]["m2"], rel=1e-3)
    np.testing.assert_allclose(one[1]["s_x2"], other[1]["s_x2"], rtol=2e-3)
    np.testing.assert_allclose(one[2]["x2"], other[2]["x2"], rtol=1e-2, atol=1e-3)
    assert one[3]["marginal"] == pytest.approx(other[3]["marginal"], abs=1e-3)
    np.testing.assert_allclose(one[4]["infit"], other[4]["infit"], atol=1e-3)
    # the items were drawn from the model
    assert (one[1]["p_adjusted"] > 0.01).all()
    assert one[0]["rmsea"] < 0.03


def test_anchors_keep_their_parameters_and_bring_their_scale(folder: Path) -> None:
    out = folder / "anchored"
    said = run(f"fit {folder}/responses.csv -o {out} --anchors {folder}/known.csv").out
    assert "ability of these respondents: mean 0." in said
    found = json.loads((out / "fit.json").read_text())
    assert abs(found["population_mean"] - 0.5) < 4 * found["population_se_mean"]
    assert abs(found["population_sd"] - 1.5) < 4 * found["population_se_sd"]
    items = pd.read_csv(out / "items.csv")
    assert items["model"].tolist() == ["fixed"] * 5 + ["2pl"] * 9
    known = pd.read_csv(folder / "known.csv")
    np.testing.assert_array_equal(items["difficulty"][:5], known["difficulty"])
    z = (items["difficulty"][5:] - np.linspace(-2, 2, 14)[5:]) / items["se_difficulty"][5:]
    assert np.abs(z).max() < 4
    run("diagnose responses.csv --items anchored/items.csv -o d --bootstrap 0 -q", cwd=folder)
    assert json.loads((folder / "d" / "global_fit.json").read_text())["df"] == 105 - 20
    refused("items diagnose responses.csv --items anchored/items.csv -o d2",
            saying="items fitted with anchors are not refitted", cwd=folder)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rasch", "1pl"])
def test_a_study_of_a_common_slope(folder: Path, kind: str) -> None:
    long = pd.read_csv(folder / "responses.csv")
    answers = long.assign(answer=long["response"].map({1: "yes", 0: "no"})).drop(columns="response")
    answers.to_csv(folder / "answers.csv", index=False)
    pd.DataFrame({"item_id": long["item_id"].unique(), "key": "yes"}).to_csv(folder / "items.csv", index=False)
    study = folder / f"{kind}.toml"
    study.write_text(
        f'[study]\ntitle = "x"\n[data]\nanswers = "answers.csv"\nitems = "items.csv"\n[model]\nkind = "{kind}"\n'
    )
    run(f"build {study} -o {folder}/built_{kind} -q")
    (scale,) = irtbench.load_bank(folder / f"built_{kind}" / "bank.json").scales
    assert set(scale.items.model) == {kind}
    assert (scale.population is not None) == (kind == "rasch")
    rounds = pd.read_csv(folder / f"built_{kind}" / "rounds_items.csv")
    slope = rounds["discrimination"] * (scale.population.deviation if scale.population is not None else 1.0)
    first = rounds["round"] == rounds["round"].max()
    np.testing.assert_allclose(rounds["communality"][first], (slope**2 / (slope**2 + 1.702**2))[first], atol=1e-3)


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
    unasked = easy[:1].assign(item_id="unasked", response=None)
    pd.concat([table, easy, unasked]).to_csv(tmp_path / "r.csv", index=False)
    said = run(f"fit {tmp_path}/r.csv -o {tmp_path}/out").out
    found = json.loads((tmp_path / "out" / "fit.json").read_text())
    assert found["prior"].startswith(prior)
    kept = "easy" in {*pd.read_csv(tmp_path / "out" / "items.csv")["item_id"]}
    assert kept == (prior == "hierarchical")  # it is one of the items which the prior is learnt from
    reasons = {one["item_id"]: one["reason"] for one in found["items_left_out"]}
    assert reasons == {"unasked": "no_response"} | ({} if kept else {"easy": "all_correct"})
    assert why in " ".join(said.split())
    assert ("--prior says otherwise" in said) == bool(why)
    assert "discrimination (se)" in said
    own = run(f"fit {tmp_path}/r.csv -o {tmp_path}/own --prior {prior}").out
    assert "says otherwise" not in own


# --- fit groups

SETTINGS = {"a2pl": [], "a3pl": ["--model", "3pl", "--prior", "none", "--prior-guessing", "normal:-1.5,0.5"]}


def two_forms(folder: Path, study: str, target: Path) -> None:
    """Forms X and Y with their common items as one long table, and the group of each respondent."""
    tables = []
    for form in "XY":
        wide = pd.read_csv(folder / f"{study}_data_{form}.csv")
        wide.insert(0, "respondent_id", [f"{form}{k}" for k in range(len(wide))])
        tables.append(wide.melt("respondent_id", var_name="item_id", value_name="response"))
    table = pd.concat(tables)
    table.to_csv(target / "both.csv", index=False)
    people = table["respondent_id"].drop_duplicates()
    pd.DataFrame({"respondent_id": people, "group": people.str[0]}).to_csv(target / "groups.csv", index=False)


@pytest.mark.parametrize("study", ["a2pl", "a3pl"])
def test_items_and_groups_are_those_of_mirt(reference: Path, tmp_path: Path, study: str) -> None:
    """mirt 1.45.1, multipleGroup: reference/next/05_linking. mirt stops early: mean and variance good to 3e-4."""
    folder = reference / "next" / "05_linking"
    two_forms(folder, study, tmp_path)
    done = run("fit both.csv --groups groups.csv --reference X -o out", *SETTINGS[study], cwd=tmp_path)
    found = json.loads((tmp_path / "out" / "fit.json").read_text())
    (expected,) = pd.read_csv(folder / f"{study}_concurrent_group.csv").itertuples()
    first, other = found["groups"]
    assert (first["group"], first["mean"], first["sd"], first["se_mean"]) == ("X", 0.0, 1.0, 0.0)
    assert other["mean"] == pytest.approx(expected.mean, abs=1e-3)
    assert other["sd"] ** 2 == pytest.approx(expected.var, abs=3e-3)
    assert other["se_mean"] == pytest.approx(expected.se_mean, rel=0.02)
    assert 2 * other["sd"] * other["se_sd"] == pytest.approx(expected.se_var, rel=0.02)
    if study == "a2pl":
        assert found["log_likelihood"] == pytest.approx(expected.loglik, abs=1e-3)
    items = pd.read_csv(tmp_path / "out" / "items.csv", index_col="item_id")
    pars = pd.read_csv(folder / f"{study}_concurrent_pars.csv", index_col="item").loc[items.index]
    np.testing.assert_allclose(items["discrimination"], pars["a"], atol=5e-3)
    np.testing.assert_allclose(items["intercept"], pars["d"], atol=5e-3)
    np.testing.assert_allclose(items["se_intercept"], pars["se_d"], rtol=0.02)
    assert "Y: 1500 respondents, mean 0.44" in done.out + done.err or study == "a3pl"


def test_the_bank_has_the_reference_groups_norms_and_links_with_its_errors(tmp_path: Path) -> None:
    rng = np.random.default_rng(31)
    truth = irtbench.ItemParameters.from_difficulty(rng.uniform(1, 2, 20), rng.uniform(-1.5, 1.5, 20))
    crowds = {
        "first": rng.normal(size=400),
        "second": rng.normal(0.8, 1.3, size=300),
        "third": rng.normal(-0.5, 0.8, 200),
    }
    forms = {"first": slice(0, 14), "second": slice(6, 20), "third": slice(3, 17)}
    tables, groups = [], []
    for name, theta in crowds.items():
        drawn = irtbench.simulate_responses(theta, truth.select(truth.item_ids[forms[name]]), rng=rng)
        long = drawn.to_long()
        tables.append(long.assign(respondent_id=name + long["respondent_id"]))
        groups += [(f"{name}r{k + 1}", name) for k in range(len(theta))]
    pd.concat(tables).astype({"response": int}).to_csv(tmp_path / "all.csv", index=False)
    pd.DataFrame(groups, columns=["respondent_id", "group"]).to_csv(tmp_path / "groups.csv", index=False)
    run(f"fit {tmp_path}/all.csv --groups {tmp_path}/groups.csv -o {tmp_path}/out")
    found = json.loads((tmp_path / "out" / "fit.json").read_text())
    assert [group["n_respondents"] for group in found["groups"]] == [400, 300, 200]
    for group, (mean, sd) in zip(found["groups"][1:], ((0.8, 1.3), (-0.5, 0.8)), strict=True):
        assert group["mean"] == pytest.approx(mean, abs=3 * group["se_mean"])
        assert group["sd"] == pytest.approx(sd, abs=3 * group["se_sd"])
    (scale,) = irtbench.load_bank(tmp_path / "out" / "bank.json").scales
    assert scale.norms.n == 400  # of the largest group, the reference
    each = np.arange(20)
    np.testing.assert_allclose(scale.joint_error.covariance[each, :, each, :], scale.items.covariance, rtol=1e-5)
    assert scale.joint_error.location == pytest.approx(1 / 400)
    scores = pd.read_csv(tmp_path / "out" / "scores.csv")
    assert scores["group"].value_counts().to_dict() == {"first": 400, "second": 300, "third": 200}
    table = pd.read_csv(tmp_path / "groups.csv").merge(scores, on="respondent_id", suffixes=("_given", ""))
    assert (table["group_given"] == table["group"]).all()
    true = pd.Series(np.concatenate(list(crowds.values())), index=[name for name, _ in groups])
    inside = (table["theta_lower"] < true[table["respondent_id"]].to_numpy()) & (
        true[table["respondent_id"]].to_numpy() < table["theta_upper"]
    )
    assert inside.mean() > 0.92
    means = scores.groupby("group")["theta"].mean()
    assert means["second"] == pytest.approx(found["groups"][1]["mean"], abs=0.05)  # EAPs under the group's own density
    run(f"fit {tmp_path}/all.csv -o {tmp_path}/one -q")
    linked = run("link out/bank.json --items one/bank.json -o linked -q --json", cwd=tmp_path)
    assert linked.json["errors"] == "joint"


# --- several abilities


@pytest.fixture(scope="module")
def responses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve items of two abilities, 300 respondents."""
    rng = np.random.default_rng(0)
    slopes = np.zeros((12, 2))
    slopes[:6, 0], slopes[6:, 1] = 1.5, 1.5
    p = 1 / (1 + np.exp(-(rng.normal(size=(300, 2)) @ slopes.T + rng.normal(0, 0.8, 12))))
    values = (rng.random(p.shape) < p).astype(int)
    rows = [(f"r{i}", f"q{j}", values[i, j]) for i in range(300) for j in range(12)]
    path = tmp_path_factory.mktemp("several") / "responses.csv"
    pd.DataFrame(rows, columns=["respondent_id", "item_id", "response"]).to_csv(path, index=False)
    return path


@pytest.mark.slow
def test_items_with_a_posterior_end_with_quantiles(responses: Path, tmp_path: Path) -> None:
    run(f"fit {responses} --posterior normal --prior weak --output {tmp_path}/one")
    items = pd.read_csv(tmp_path / "one" / "items.csv")
    names = [
        f"{n}_{level}" for n in ("discrimination", "difficulty", "guessing") for level in ("lower", "median", "upper")
    ]
    assert list(items.columns[-9:]) == names
    assert (items["discrimination_lower"] < items["discrimination"]).all()
    assert (items["discrimination"] < items["discrimination_upper"]).all()
    # slopes have a longer tail above than below
    above = items["discrimination_upper"] - items["discrimination_median"]
    assert (above > items["discrimination_median"] - items["discrimination_lower"]).mean() > 0.9
    found = json.loads((tmp_path / "one" / "fit.json").read_text())
    assert found["posterior"]["sd_doubtful"] == []


def test_two_abilities_free_and_by_a_pattern(responses: Path, tmp_path: Path) -> None:
    done = run(f"fit {responses} --factors 2 -o {tmp_path}/two")
    assert "standard errors: of intercepts and of slopes on principal axes" in done.out
    items, scores = (pd.read_csv(tmp_path / "two" / f"{name}.csv") for name in ("items", "scores"))
    assert (items[["se_discrimination", "se_intercept", "se_slope_1", "se_slope_2"]] > 0).all(axis=None)
    np.testing.assert_allclose(items["discrimination"] ** 2, items["slope_1"] ** 2 + items["slope_2"] ** 2)
    assert {"theta_1", "se_1", "theta_2", "se_2"} <= set(scores)
    found = json.loads((tmp_path / "two" / "fit.json").read_text())
    assert found["integration_error"] < 1e-6
    assert found["quadrature"].startswith("lattice of")
    assert (found["n_factors"], found["n_parameters"]) == (2, 12 * 3 - 1)
    refused(
        f"items diagnose {responses} --items two/items.csv --output no",
        saying="column slope_2: items of several abilities; expected one ability",
        cwd=tmp_path,
    )
    pattern, rows = tmp_path / "pattern.csv", [f"{item},1,{int(k >= 6)}" for k, item in enumerate(items["item_id"])]
    pattern.write_text("\n".join(["item_id,slope_1,slope_2", *rows]) + "\n")
    run(f"fit {responses} --pattern {pattern} -o {tmp_path}/fixed -q")
    own = pd.read_csv(tmp_path / "fixed" / "items.csv")
    assert (own["slope_2"][:6] == 0).all()
    assert (own["slope_2"][6:] != 0).all()
    fixed = json.loads((tmp_path / "fixed" / "fit.json").read_text())
    assert fixed["n_parameters"] == found["n_parameters"] - (6 - 1)  # a rotation is lost either way
    assert fixed["log_likelihood"] < found["log_likelihood"] + 1
    for text, options, saying in (
        ("\n".join(rows), " --factors 3", "2 abilities, but --factors says 3"),
        ("\n".join(rows[:-1]), "", "no row for item"),
        ("\n".join(rows).replace(",1,0", ",1,2", 1), "", "expected 1 (estimated) or 0 (zero) but got '2'"),
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
    done = run(f"fit {passages}/long.csv --testlets passage -o {tmp_path}/long")
    assert "model preferred: bifactor" in done.out
    assert "any effect of testlets (equal slopes against none): likelihood ratio" in done.out
    assert "omega_h" in done.out
    assert "as if there were none" in done.out
    items = pd.read_csv(tmp_path / "long" / "items.csv", keep_default_na=False)
    assert list(items["testlet"]) == ["A"] * 4 + ["B"] * 4 + [""] * 2
    assert (items["model"] == "bifactor").all()
    assert (items["slope_specific"][8:].astype(float) == 0).all()
    found = json.loads((tmp_path / "long" / "fit.json").read_text())
    assert found["model"] == "bifactor"
    assert found["n_parameters"] == 28
    assert found["converged"]
    assert found["mean_se"] > found["mean_se_one_ability"]
    assert [row["testlet"] for row in found["testlets"]] == ["A", "B"]
    assert found["likelihood_ratio_test"]["p"] < 1e-6
    scores = pd.read_csv(tmp_path / "long" / "scores.csv")
    assert list(scores.columns[-4:]) == ["theta", "se", "theta_one_ability", "se_one_ability"]
    assert len(scores) == 400
    assert not (tmp_path / "long" / "bank.json").exists()
    arguments = ("--testlets", "passage", "--item-table", passages / "items.csv", "--json")
    other = run(f"fit {passages}/wide.csv", *arguments, "-o", tmp_path / "wide").json
    assert other["log_likelihood"] == pytest.approx(found["log_likelihood"], abs=1e-6)
    refused(
        f"items diagnose {passages}/wide.csv --items long/items.csv -o no",
        saying="column slope_specific: items of several abilities; expected one ability",
        cwd=tmp_path,
    )
    refused(
        f"score long/items.csv {passages}/wide.csv -o scores.csv", saying="items of several abilities", cwd=tmp_path
    )


def test_twins_are_testlets_of_two_and_their_slopes_equal(passages: Path, tmp_path: Path) -> None:
    arguments = ("--testlets", "twin_of", "--item-table", passages / "items.csv")
    done = run(f"fit {passages}/wide.csv", *arguments, "-o", tmp_path / "twins")
    assert "one specific slope for both items of q0, q2, q4, q6, whose product alone could be known" in done.out
    items = pd.read_csv(tmp_path / "twins" / "items.csv")
    np.testing.assert_allclose(items["slope_specific"][0:8:2], items["slope_specific"][1:8:2])


@pytest.mark.parametrize(
    ("text", "saying"),
    [
        ("item_id,set\na,1\na,2\n", "item a has both 1 and 2; expected one"),
        ("item_id,set\na,\nb,\n", "no item has a testlet"),
        ("item_id,set\n,1\n", "item_id"),
        ("item_id,other\na,1\n", "set"),
    ],
)
def test_tables_that_say_no_testlet_of_each_item(text: str, saying: str, tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text(text)
    with pytest.raises(InputError, match=saying):
        read_testlets(tmp_path / "items.csv", "set")


# --- device

KINDS: dict[str, list[object]] = {
    "one ability": [],
    "two abilities": ["--factors", 2],
    "testlets": ["--testlets", "passage"],
    "upper asymptotes": ["--model", "4pl"],
}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten items, eight of them of two passages, 500 respondents, as a long table."""
    rng = np.random.default_rng(0)
    own = rng.normal(size=(500, 3)) * [1.5, 1.2, 0]
    z = 1.3 * rng.normal(size=(500, 1)) + own[:, [0] * 4 + [1] * 4 + [2] * 2] + np.linspace(-1, 1, 10)
    values = (rng.random(z.shape) < 1 / (1 + np.exp(-z))).astype(int)
    rows = [(f"r{i}", f"q{j}", values[i, j], "AB"[j // 4] if j < 8 else "") for i in range(500) for j in range(10)]
    path = tmp_path_factory.mktemp("device") / "responses.csv"
    pd.DataFrame(rows, columns=["respondent_id", "item_id", "response", "passage"]).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("kind", ["one ability", *(pytest.param(k, marks=pytest.mark.slow) for k in list(KINDS)[1:])])
def test_the_tables_are_the_same_on_another_device(kind: str, tasks: Path, tmp_path: Path) -> None:
    run(f"fit {tasks}", *KINDS[kind], "--device", "cpu", "-o", tmp_path / "here")
    with pretended_gpu() as wanted:
        run(f"fit {tasks}", *KINDS[kind], "--device", "cuda", "-o", tmp_path / "there")
    assert set(wanted) == {"cuda"}
    for file in ("items.csv", "scores.csv"):
        here, there = (pd.read_csv(tmp_path / place / file) for place in ("here", "there"))
        pd.testing.assert_frame_equal(there, here, rtol=1e-9, atol=1e-11)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("kind", KINDS)
def test_a_gpu_that_is_not_there_is_one_line(kind: str, tasks: Path, tmp_path: Path) -> None:
    refused(f"fit {tasks}", *KINDS[kind], "--device", "cuda", "-o", tmp_path / "out", saying="torch sees no GPU")
    assert not (tmp_path / "out").exists()
