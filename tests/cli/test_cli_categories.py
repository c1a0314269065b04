"""Grades and partial credit as a user types them: fit, its bank, score, diagnose; mirt's figures, NAEP's tables."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import refused, run

LEVELS = ["poor", "fair", "good", "great"]


@pytest.fixture(scope="module")
def grades(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four-category scores of 250 systems on 12 prompts, in words too, their bank, and ten systems' scores of half."""
    folder = tmp_path_factory.mktemp("grades")
    run(f"simulate -o {folder} --respondents 250 --items 12 --categories 4 --model grm --seed 3 -q")
    scores = pd.read_csv(folder / "responses.csv")
    scores.to_csv(folder / "scores.csv", index=False)
    scores.assign(score=scores["score"].map(dict(enumerate(LEVELS)))).to_csv(folder / "labels.csv", index=False)
    run("fit scores.csv --model grm -o fit -q", cwd=folder)
    some = scores[scores["respondent_id"].isin(scores["respondent_id"].unique()[:10])]
    some.to_csv(folder / "ten.csv", index=False)
    some[some["item_id"] <= "item06"].to_csv(folder / "half.csv", index=False)
    return folder


@pytest.mark.usefixtures("drawn_files")
@pytest.mark.parametrize("model", ["grm", "gpcm"])
def test_steps_with_their_errors_and_the_table_for_mirt_are_mirts(reference: Path, tmp_path: Path, model: str) -> None:
    """Slopes, intercepts, abilities: tests/estimation/test_fit_categories.py."""
    root = reference / "graded"
    run(f"fit {root}/data/science.csv --model {model} -o {tmp_path}/out")
    items = pd.read_csv(tmp_path / "out/items.csv").set_index("item_id")
    theirs = pd.read_csv(root / f"science_{model}/items_difficulty.csv").pivot(index="item_id", columns="parameter")
    for k in (1, 2, 3):
        np.testing.assert_allclose(items[f"step_{k}"], theirs["value"][f"b{k}"][items.index], atol=2e-3)
        if (model, k) != ("gpcm", 1):  # where mirt has derivatives of another step
            np.testing.assert_allclose(items[f"se_step_{k}"], theirs["se_oakes"][f"b{k}"][items.index], rtol=5e-3)
    figures = "--figures" if model == "grm" else ""
    run(f"items show {tmp_path}/out/bank.json -o {tmp_path}/shown --export mirt {figures}")
    assert pd.read_csv(tmp_path / "shown/score_table.csv")["score"].tolist() == list(range(13))
    found = pd.read_csv(tmp_path / "shown/items_mirt.csv").set_index("item_id")
    theirs = pd.read_csv(root / f"science_{model}/items_slope_intercept.csv")
    theirs = theirs.pivot(index="item_id", columns="parameter", values="value").loc[found.index]
    for name in set(theirs) & set(found):
        np.testing.assert_allclose(found[name], theirs[name], atol=1e-3)


def test_nominal_items_have_for_mirt_scores_from_0_to_their_last_category(grades: Path, tmp_path: Path) -> None:
    run(f"fit {grades}/scores.csv --model nominal -o {tmp_path}/fit -q")
    run(f"items show {tmp_path}/fit/bank.json -o {tmp_path}/out --export mirt -q")
    found = pd.read_csv(tmp_path / "out/items_mirt.csv")
    assert (set(found["ak0"]), set(found["ak3"])) == ({0}, {3})


def test_models_are_mixed_by_a_table(reference: Path, tmp_path: Path) -> None:
    root = reference / "graded"
    items = pd.read_csv(root / "sim_mixed_prior" / "items_slope_intercept.csv").drop_duplicates("item_id")
    items.assign(model=items["model"].str.lower())[["item_id", "model"]].to_csv(tmp_path / "models.csv", index=False)
    given = "--model models.csv --prior none --prior-guessing normal:-1.2,0.5 -o out"
    run(f"fit {root}/data/sim_mixed.csv.gz {given}", cwd=tmp_path)
    found = json.loads((tmp_path / "out/fit.json").read_text())
    assert found["log_likelihood"] == pytest.approx(-13947.8068, abs=1e-4)
    assert found["model"] == ["2pl", "3pl", "gpcm"]


def test_grades_of_testlets_and_of_several_abilities(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    z = 1.3 * rng.normal(size=(250, 1)) + 1.2 * rng.normal(size=(250, 2))[:, [0] * 4 + [1] * 4]
    grades = (z[:, :, None] + rng.logistic(size=(250, 8, 1)) > [-0.7, 0.7]).sum(axis=2)
    names, passages = [f"q{j}" for j in range(8)], ["A"] * 4 + ["B"] * 4
    table = pd.DataFrame(grades, columns=names, index=pd.Index([f"r{i}" for i in range(250)], name="respondent_id"))
    table.map(LEVELS.__getitem__).to_csv(tmp_path / "labels.csv")
    about = pd.DataFrame({"item_id": names, "passage": passages, "slope_1": 1, "slope_2": [0] * 4 + [1] * 4})
    about.to_csv(tmp_path / "items.csv", index=False)
    given = (tmp_path / "labels.csv", "--levels", ",".join(LEVELS[:3]))
    testlets = ("--testlets", "passage", "--item-table", tmp_path / "items.csv")
    run("fit", *given, "--model", "grm", *testlets, "-o", tmp_path / "testlets")
    expected, out = irtbench.fit_bifactor(table, passages, models="grm"), tmp_path / "testlets"
    found = json.loads((out / "fit.json").read_text())
    items, scores = (pd.read_csv(out / f"{name}.csv") for name in ("items", "scores"))
    assert found["log_likelihood"] == pytest.approx(expected.log_likelihood, abs=1e-6)
    assert found["n_parameters"] == 32
    assert list(items["testlet"]) == passages
    np.testing.assert_allclose(items["step_2"], -expected.intercepts[:, 1] / expected.slopes[:, 0], atol=1e-6)
    np.testing.assert_allclose(scores["theta"], irtbench.bifactor_scores(expected, table)["theta"], atol=1e-6)
    run("fit", *given, "--model", "grm", "--pattern", tmp_path / "items.csv", "-o", tmp_path / "two")
    two, scores = pd.read_csv(tmp_path / "two" / "items.csv"), pd.read_csv(tmp_path / "two" / "scores.csv")
    assert (two["slope_2"][:4] == 0).all()
    assert {"theta_1", "se_2"} < set(scores.columns)


def test_labels_are_scores_in_their_order_and_the_bank_reads_them(grades: Path, tmp_path: Path) -> None:
    run(f"fit {grades}/labels.csv --model grm --levels {','.join(LEVELS)} -o {tmp_path}/labels")
    numbers, labels = (pd.read_csv(name / "items.csv") for name in (grades / "fit", tmp_path / "labels"))
    assert (set(numbers.pop("categories")), set(labels.pop("categories"))) == ({"0|1|2|3"}, {"poor|fair|good|great"})
    pd.testing.assert_frame_equal(numbers, labels, rtol=1e-9)
    own = pd.read_csv(grades / "fit/scores.csv")
    for source, file, names in (
        (grades / "fit/bank.json", "scores", {"theta": 1e-9, "se": 1e-9, "percentile": 1e-6}),
        ("labels/bank.json", "labels", {"theta": 1e-9, "se": 1e-9, "percentile": 1e-6}),
        ("labels/items.csv --item-error none", "labels", {"theta": 1e-9}),
    ):
        done = run(f"score {source} {grades}/{file}.csv -o new.csv", cwd=tmp_path)
        assert "points" in done.out
        for name, within in names.items():
            np.testing.assert_allclose(pd.read_csv(tmp_path / "new.csv")[name], own[name], atol=within)


@pytest.mark.parametrize("name", ["science_grm", "science_gpcm", "sim_mixed_prior"])
def test_pairs_and_mean_squares_are_those_of_mirt(reference: Path, tmp_path: Path, name: str) -> None:
    root = reference / "graded"
    data = root / "data" / ("sim_mixed.csv.gz" if "mixed" in name else "science.csv")
    items = pd.read_csv(root / name / "items_difficulty.csv")
    table = items.pivot(index="item_id", columns="parameter", values="value").rename(
        columns={"a": "discrimination", "b": "difficulty", "g": "guessing"} | {f"b{k}": f"step_{k}" for k in (1, 2, 3)}
    )
    table["model"] = items.drop_duplicates("item_id").set_index("item_id")["model"].str.lower().replace("graded", "grm")
    table.to_csv(tmp_path / "items.csv")
    run(f"items diagnose {data} --items {tmp_path}/items.csv -o {tmp_path}/out")
    pairs, theirs = pd.read_csv(tmp_path / "out/local_dependence.csv"), pd.read_csv(root / name / "pairs.csv")
    key = [["_".join(sorted(pair)) for pair in zip(of[one], of[two], strict=True)] for of, one, two in
           ((pairs, "item_1", "item_2"), (theirs, "item_a", "item_b"))]  # fmt: skip
    both = pairs.assign(key=key[0]).merge(theirs.assign(key=key[1]), on="key")
    assert len(both) == len(theirs)
    np.testing.assert_allclose(both["x2"], both["ld_x2_signed"].abs(), atol=2e-3)
    np.testing.assert_allclose(both["cramers_v"], both["cramers_v_signed"], atol=2e-5)
    np.testing.assert_allclose(both["q3_x"], both["q3_y"], atol=1e-4)
    assert (both["df"] == both["ld_df"]).all()
    fits = pd.read_csv(tmp_path / "out/item_fit.csv").merge(
        pd.read_csv(root / name / "infit_outfit.csv"), left_on="item_id", right_on="item"
    )
    np.testing.assert_allclose(fits["infit_x"], fits["infit_y"], atol=5e-4)
    np.testing.assert_allclose(fits["outfit_x"], fits["outfit_y"], atol=2e-3)


@pytest.mark.slow
def test_all_scales_of_naep_are_read(real_data: Path) -> None:
    file = real_data / "naep_parameters" / "items.csv.gz"
    with pytest.warns(UserWarning, match="are there twice"):
        bank = irtbench.load_bank(file, categories=True, scaling=1.7)
    raw = pd.read_csv(file).fillna({"scale": ""})
    names = raw[["subject", "year", "grade", "scale"]].drop_duplicates().astype(str).agg(" ".join, axis=1)
    assert [scale.name for scale in bank.scales] == names.str.strip().tolist()
    assert len(bank.scales) == 219


def test_a_table_as_naeps_is_scored_as_by_quadrature_written_down(tmp_path: Path) -> None:
    """Of two scales, of which a test has the items of one: 1.7 a (theta - b + d_k) at each step, a 3PL beside."""
    (tmp_path / "published.csv").write_text(
        "item_id,scale,irt_model,a,b,c,d_1,d_2\nm1,x,3pl,1,0.2,0.2,,\nm2,x,gpcm,0.9,0.1,,0.4,-0.4\n"
        "r1,y,gpcm,1,0,,0.3,-0.3\n"
    )
    pd.DataFrame({"respondent_id": ["a", "b"], "m1": [1, 0], "m2": [2, 1]}).to_csv(tmp_path / "new.csv", index=False)
    run("score published.csv new.csv --scaling-constant 1.7 -o scores.csv", cwd=tmp_path)
    scores = pd.read_csv(tmp_path / "scores.csv").set_index(["respondent_id", "scale"])
    theta = np.linspace(-10, 10, 2001)
    p_1 = 0.2 + 0.8 / (1 + np.exp(-1.7 * (theta - 0.2)))
    steps = [0 * theta, *(1.7 * 0.9 * (theta - 0.1 + d) for d in (0.4, -0.4))]
    p_2 = np.exp(np.cumsum(steps, axis=0)) / np.exp(np.cumsum(steps, axis=0)).sum(axis=0)
    for person, likelihood in (("a", p_1 * p_2[2]), ("b", (1 - p_1) * p_2[1])):
        mass = np.exp(-(theta**2) / 2) * likelihood
        assert scores.loc[(person, "x"), "theta"] == pytest.approx(mass @ theta / mass.sum(), abs=1e-6)
    assert scores.loc[("a", "y"), ["n_items", "n_trials", "flags"]].tolist() == [0, 0, "no_items"]


def test_constraints_make_the_1pl_and_equal_twins(real_data: Path, tmp_path: Path) -> None:
    items = [f"item{k}" for k in range(1, 6)]
    constraints = pd.DataFrame({"item_id": items, "parameter": "discrimination", "set": "slopes"})
    constraints.to_csv(tmp_path / "equal.csv", index=False)
    twins = pd.DataFrame({"item_id": ["item1", "item5"] * 2, "parameter": ["a", "a", "d", "d"], "set": [1, 1, 2, 2]})
    twins.to_csv(tmp_path / "twins.csv", index=False)
    for name, options in (
        ("equal", "--constraints equal.csv"),
        ("onepl", "--model 1pl"),
        ("twins", "--constraints twins.csv"),
    ):
        run(f"fit {real_data}/lsat6/responses.csv {options} --prior none -o {name}", cwd=tmp_path)
    found, expected = (json.loads((tmp_path / name / "fit.json").read_text()) for name in ("equal", "onepl"))
    assert found["log_likelihood"] == pytest.approx(expected["log_likelihood"], abs=1e-4)
    assert found["n_parameters"] == expected["n_parameters"] == 6
    ours, theirs, fitted = (pd.read_csv(tmp_path / name / "items.csv") for name in ("equal", "onepl", "twins"))
    np.testing.assert_allclose(ours["se_difficulty"], theirs["se_difficulty"], rtol=1e-3)
    np.testing.assert_allclose(
        fitted.loc[0, ["discrimination", "intercept"]], fitted.loc[4, ["discrimination", "intercept"]]
    )
    irtbench.load_bank(tmp_path / "twins/bank.json")


def test_groups_have_populations_of_their_own(grades: Path, tmp_path: Path) -> None:
    scores = pd.read_csv(grades / "scores.csv")
    people = scores["respondent_id"].drop_duplicates()
    group = np.where(np.arange(len(people)) % 3 == 0, "b", "a")
    pd.DataFrame({"respondent_id": people, "group": group}).to_csv(tmp_path / "groups.csv", index=False)
    run(f"fit {grades}/scores.csv --model grm --prior none --groups {tmp_path}/groups.csv -o {tmp_path}/out")
    wide = scores.pivot(index="respondent_id", columns="item_id", values="score").loc[people]
    expected = irtbench.fit_categories(wide, "grm", groups=list(group))
    found = json.loads((tmp_path / "out/fit.json").read_text())
    assert found["log_likelihood"] == pytest.approx(expected.log_likelihood)
    assert found["groups"][1]["mean"] == pytest.approx(expected.groups["mean"][1])
    assert irtbench.load_bank(tmp_path / "out/bank.json", categories=True).scales[0].norms.n == (group == "a").sum()


@pytest.fixture(scope="module")
def wrong(grades: Path) -> Path:
    """The same scores with their bank, and files that do not go with them."""
    scores = pd.read_csv(grades / "scores.csv")
    pd.concat([scores, scores.head(1)]).to_csv(grades / "twice.csv", index=False)
    for name, items in (("alone", ["item01"]), ("unknown", ["item01", "item02"])):
        pd.DataFrame({"item_id": items, "parameter": "d9", "set": 1}).to_csv(grades / f"{name}.csv", index=False)
    (grades / "bytes.csv").write_bytes(b"\x00\x01\x02" * 50)
    scores.assign(score=2).to_csv(grades / "same.csv", index=False)
    scores.assign(score=9).to_csv(grades / "high.csv", index=False)
    (grades / "naep.csv").write_text("item_id,a,b,c,irt_model\nitem01,1.0,0.0,0.2,3pl\n")
    return grades


@pytest.mark.parametrize(
    ("line", "saying"),
    [
        ("fit scores.csv --model grn", "'grn' is not one of 'rasch'"),
        ("fit scores.csv --model grm --dispersion item", "--dispersion: goes with models of right and wrong"),
        ("fit scores.csv --model nominal --prior hierarchical", "but not with nominal"),
        ("fit scores.csv --model grm --threshold 2", "expected none for scores in categories"),
        ("fit scores.csv --levels a,b", "--levels: go with grades"),
        ("fit scores.csv --model grm --levels good", "expected two labels or more"),
        ("fit labels.csv --model grm", "got 'good'; grades that are words need --levels ... numbers are written 0.6"),
        ("fit labels.csv --model grm --levels poor,good", "expected one of poor, good but got 'great'"),
        ("fit twice.csv --model grm", "--trials"),
        ("fit scores.csv --model rasch --constraints scores.csv", "--constraints: go with 2pl, 3pl, grm"),
        ("fit scores.csv --model grm --constraints scores.csv", "parameter"),
        ("fit scores.csv --model grm --constraints alone.csv", "set 1: one parameter; expected two"),
        ("fit scores.csv --model grm --constraints unknown.csv", "no parameter ('item01', 'd9') that can be"),
        ("fit bytes.csv --model grm", "is no text; expected CSV or Parquet"),
        ("fit same.csv --model grm", "no item has two different scores"),
        ("fit scores.csv", "or fit grades (--model grm)"),
        ("score fit/bank.json labels.csv", "expected a number but got"),
        ("score fit/bank.json high.csv", "item item01: 9 is none of its categories"),
        ("score fit/bank.json scores.csv --explain x", "--explain: goes with items that are right or wrong"),
        ("score fit/bank.json scores.csv --scaling-constant 1.7", "goes with tables of items"),
        ("link --extend fit/bank.json scores.csv --model 2pl", "the bank has items in categories; expected grm"),
        ("items bias scores.csv --bank fit/bank.json", "items in categories do not go with this"),
        ("score naep.csv scores.csv", "the scaling constant D is not given"),
        ("fit scores.csv --model rsm --anchors fit/bank.json", "--anchors: not with rsm, whose distances"),
        ("fit scores.csv --model pcm --anchors fit/bank.json", "anchor item01 is grm of 4 categories"),
    ],
)
def test_what_does_not_go_is_one_line(wrong: Path, tmp_path: Path, line: str, saying: str) -> None:
    output = [] if line.startswith("score") else ["-o", tmp_path / "out"]
    refused(line, *output, saying=saying, cwd=wrong)
    assert list(tmp_path.iterdir()) == []


def test_new_graded_items_join_a_bank(tmp_path: Path) -> None:
    """The old ones stay, the new ones stand on their scale, these people where they are."""
    rng = np.random.default_rng(4)
    slopes, places = rng.uniform(1, 2, 10), rng.normal(0, 0.7, 10)
    for name, n, mean, sd, items in (("old", 900, 0.0, 1.0, slice(0, 7)), ("new", 700, 0.8, 0.7, slice(2, 10))):
        at = places[:, None] + np.array([-0.8, 0.8])
        z = slopes[:, None] * (rng.normal(mean, sd, (n, 1, 1)) - at) + rng.logistic(size=(n, 10, 1))
        table = pd.DataFrame((z > 0).sum(axis=2), columns=[f"i{j}" for j in range(10)])
        table.iloc[:, items].rename(f"{name}{{}}".format).rename_axis("respondent_id").to_csv(tmp_path / f"{name}.csv")
    run("fit old.csv --model grm -o old", cwd=tmp_path)
    run("link --extend old/bank.json new.csv -o more", cwd=tmp_path)
    told = json.loads((tmp_path / "more" / "extend.json").read_text())
    assert told["items"] == ["i7", "i8", "i9"]
    assert abs(told["group_mean"] - 0.8) < 3.5 * told["group_se_mean"]
    assert abs(told["group_sd"] - 0.7) < 3.5 * told["group_se_sd"]
    before, after = (
        irtbench.load_bank(tmp_path / name / "bank.json", categories=True).scales[0].items for name in ("old", "more")
    )
    assert after.item_ids == (*before.item_ids, "i7", "i8", "i9")
    np.testing.assert_allclose(after.categories.parameters[:7], before.categories.parameters, atol=1e-9)
    np.testing.assert_allclose(after.discrimination[7:], slopes[7:], atol=0.45)
    np.testing.assert_allclose(after.difficulty[7:], places[7:], atol=0.25)


# --- short forms, adaptive tests and predictions of grades


@pytest.mark.parametrize(
    ("source", "wish"), [("items.csv", "--reliability 0.7"), ("bank.json", "--length 5 --for accuracy")]
)
def test_a_short_form_is_a_bank_that_scores(grades: Path, tmp_path: Path, source: str, wish: str) -> None:
    run(f"form assemble {grades}/fit/{source} {wish} -o form --html form.html", cwd=tmp_path)
    form = pd.read_csv(tmp_path / "form/form.csv")
    assert set(form["item_id"]) < {f"item{j:02d}" for j in range(1, 13)}
    run(f"score form/bank.json {grades}/ten.csv -o s.csv --item-error none --unknown-items ignore", cwd=tmp_path)
    assert (pd.read_csv(tmp_path / "s.csv")["n_items"] == len(form)).all()


def test_tests_are_replayed_and_simulated_and_points_on_all_items_predicted(grades: Path, tmp_path: Path) -> None:
    for source, how in (("bank.json", f"--replay ten.csv --figures {tmp_path}"), ("items.csv", "--simulate 10")):
        run(f"form adapt fit/{source} {how} --se 0.45 -o {tmp_path}/path.csv", cwd=grades)
        path = pd.read_csv(tmp_path / "path.csv")
        assert set(path["response"]) <= set(range(4))
        assert (path.groupby("respondent_id")["step"].max() < 12).any()
    truth = pd.read_csv(grades / "ten.csv").groupby("respondent_id")["score"].mean() / 3
    for learnt in ("", "--learn-from scores.csv"):
        run(f"predict fit/bank.json half.csv -o {tmp_path}/p.csv {learnt}", cwd=grades)
        found = pd.read_csv(tmp_path / "p.csv").set_index("respondent_id")
        assert np.corrcoef(found["predicted_accuracy"], truth[found.index])[0, 1] > 0.9
        assert (found["predicted_upper"] - found["predicted_lower"]).between(0.02, 0.6).all()


def test_categories_in_disorder_and_grades_that_nobody_was_given_are_named(grades: Path, tmp_path: Path) -> None:
    scores = pd.read_csv(grades / "scores.csv")
    rare = (scores["item_id"] == "item01") & (scores["score"] == 1) & (scores["respondent_id"].str[-1] != "0")
    scores.loc[rare, "score"] = 2  # hardly ever a 1
    scores.loc[(scores["item_id"] == "item02") & (scores["score"] == 2), "score"] = 3
    scores.to_csv(tmp_path / "scores.csv", index=False)
    said = run("fit scores.csv --model gpcm -o fit", cwd=tmp_path).out
    assert "given to nobody, and so no categories: item02 (2)\nunder gpcm and pcm their slopes and steps" in said
    shown = run("items show fit/bank.json -o shown --figures", cwd=tmp_path).out
    found = pd.read_csv(tmp_path / "shown/categories.csv").set_index(["item_id", "category"])
    assert found.loc[("item01", 1), "never_most_likely"] == 1
    assert found.loc[("item01", 2), "step_reversed"] == 1
    assert "item01 (1)" in shown
    assert [*found.loc["item02"].index] == [0, 1, 3]
    assert (tmp_path / "shown/categories_12.svg").exists()
    assert not (tmp_path / "shown/categories_13.svg").exists()


def test_pairs_of_grades_with_gaps_are_said_to_differ_too_often(grades: Path, tmp_path: Path) -> None:
    """By chi-square .38 of clean pairs of 250 x 6 had p < .05 where the able answer more, by the bootstrap .02."""
    pd.read_csv(grades / "scores.csv").iloc[1:].to_csv(tmp_path / "gaps.csv", index=False)
    for file, said in (("gaps.csv", True), (grades / "scores.csv", False)):
        done = run(f"items diagnose {file} --items {grades}/fit/items.csv -o out --overwrite", cwd=tmp_path)
        assert ("by chi-square, often too small" in done.out) == said


def test_pairs_of_grades_have_a_p_by_the_bootstrap_where_it_is_asked_for(grades: Path, tmp_path: Path) -> None:
    scores = pd.read_csv(grades / "scores.csv")
    source = np.where(scores["respondent_id"].str[-1] < "5", "item01", "item08")  # half of the people repeat item01
    twin = scores[scores["item_id"] == source].assign(item_id="twin")
    pd.concat([scores[scores["item_id"] < "item06"], twin]).to_csv(tmp_path / "scores.csv", index=False)
    run("fit scores.csv --model grm -o fit -q", cwd=tmp_path)
    diagnose = "items diagnose scores.csv --bootstrap 19 -o d -q --items"
    run(diagnose, "fit/items.csv", cwd=tmp_path)
    pairs = pd.read_csv(tmp_path / "d/local_dependence.csv").set_index(["item_1", "item_2"])
    assert pairs.loc[("item01", "twin"), "p_bootstrap_adjusted"] == 0.05  # none of 19 samples is as large
    assert (pairs.drop(("item01", "twin"))["p_bootstrap"] > 0.05).mean() > 0.7
    run("fit scores.csv --model pcm -o pcm -q", cwd=tmp_path)
    refused(diagnose.replace("-o d", "-o p"), "pcm/items.csv", saying="items of slope 1", cwd=tmp_path)
