"""Grades and partial credit as a user types them: fit, its bank, score, diagnose; mirt's figures, NAEP's tables."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import refused, run
from irtbench.bank.bank import load_bank
from irtbench.estimation.bifactor import bifactor_scores, fit_bifactor
from irtbench.estimation.fit_categories import fit_categories
from irtbench.scoring.scores import score_responses

LEVELS = ["poor", "fair", "good"]


@pytest.fixture(scope="module")
def grades(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A long table of 300 systems' scores 1, 2, 3 on six prompts, a tenth of them missing, and it in words."""
    folder, rng = tmp_path_factory.mktemp("grades"), np.random.default_rng(5)
    theta, steps = rng.normal(size=(300, 1, 1)), np.array([-0.8, 0.6]) + rng.normal(0, 0.5, (6, 1))
    score = 1 + (1.4 * (theta - steps) + rng.logistic(size=(300, 6, 1)) > 0).sum(axis=2)
    wide = pd.DataFrame(score, columns=[f"p{k}" for k in range(6)], index=[f"m{k}" for k in range(300)])
    wide = wide.mask(rng.random(wide.shape) < 0.1)
    long = wide.rename_axis("respondent_id").reset_index().melt("respondent_id", var_name="item_id", value_name="score")
    long = long.dropna().astype({"score": int})
    long.to_csv(folder / "scores.csv", index=False)
    long.assign(score=[LEVELS[k - 1] for k in long["score"]]).to_csv(folder / "labels.csv", index=False)
    return folder


@pytest.mark.parametrize(
    ("folder", "model"), [("science_grm", "grm"), ("science_gpcm", "gpcm"), ("science_pcm", "pcm")]
)
def test_steps_and_their_errors_are_those_of_mirt(reference: Path, tmp_path: Path, folder: str, model: str) -> None:
    """Slopes, intercepts, abilities: tests/estimation/test_fit_categories.py."""
    root = reference / "graded"
    run(f"fit {root}/data/science.csv --model {model} -o {tmp_path}/out")
    items = pd.read_csv(tmp_path / "out/items.csv").set_index("item_id")
    theirs = pd.read_csv(root / folder / "items_difficulty.csv").pivot(index="item_id", columns="parameter")
    for k in (1, 2, 3):
        np.testing.assert_allclose(items[f"step_{k}"], theirs["value"][f"b{k}"][items.index], atol=2e-3)
        if (model, k) != ("gpcm", 1):  # where mirt has derivatives of another step
            np.testing.assert_allclose(items[f"se_step_{k}"], theirs["se_oakes"][f"b{k}"][items.index], rtol=5e-3)


def test_models_are_mixed_by_a_table(reference: Path, tmp_path: Path) -> None:
    root = reference / "graded"
    items = pd.read_csv(root / "sim_mixed_prior" / "items_slope_intercept.csv").drop_duplicates("item_id")
    items.assign(model=items["model"].str.lower())[["item_id", "model"]].to_csv(tmp_path / "models.csv", index=False)
    run(
        f"fit {root}/data/sim_mixed.csv.gz --model models.csv --prior none --prior-guessing normal:-1.2,0.5 -o out",
        cwd=tmp_path,
    )
    found = json.loads((tmp_path / "out/fit.json").read_text())
    assert found["log_likelihood"] == pytest.approx(-13947.8068, abs=1e-4)
    assert found["model"] == ["2pl", "3pl", "gpcm"]


def test_grades_of_testlets_and_of_several_abilities(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    z = 1.3 * rng.normal(size=(400, 1)) + 1.2 * rng.normal(size=(400, 2))[:, [0] * 4 + [1] * 4]
    grades = (z[:, :, None] + rng.logistic(size=(400, 8, 1)) > [-0.7, 0.7]).sum(axis=2)
    names = [f"q{j}" for j in range(8)]
    table = pd.DataFrame(grades, columns=names, index=pd.Index([f"r{i}" for i in range(400)], name="respondent_id"))
    table.map(LEVELS.__getitem__).to_csv(tmp_path / "labels.csv")
    about = pd.DataFrame(
        {"item_id": names, "passage": ["A"] * 4 + ["B"] * 4, "slope_1": 1, "slope_2": [0] * 4 + [1] * 4}
    )
    about.to_csv(tmp_path / "items.csv", index=False)
    given = (tmp_path / "labels.csv", "--levels", ",".join(LEVELS), "--model", "grm")
    testlets = ("--testlets", "passage", "--item-table", tmp_path / "items.csv")
    done = run("fit", *given, *testlets, "-o", tmp_path / "testlets")
    assert "model preferred: bifactor" in done.out
    expected, out = fit_bifactor(table, ["A"] * 4 + ["B"] * 4, models="grm"), tmp_path / "testlets"
    found = json.loads((out / "fit.json").read_text())
    items, scores = (pd.read_csv(out / f"{name}.csv") for name in ("items", "scores"))
    assert found["log_likelihood"] == pytest.approx(expected.log_likelihood, abs=1e-6)
    assert found["n_parameters"] == 32
    assert list(items["testlet"]) == ["A"] * 4 + ["B"] * 4
    np.testing.assert_allclose(items["step_2"], -expected.intercepts[:, 1] / expected.slopes[:, 0], atol=1e-6)
    np.testing.assert_allclose(scores["theta"], bifactor_scores(expected, table)["theta"], atol=1e-6)
    assert found["mean_se"] > found["mean_se_one_ability"]
    run("fit", *given, "--pattern", tmp_path / "items.csv", "-o", tmp_path / "two")
    two, scores = pd.read_csv(tmp_path / "two" / "items.csv"), pd.read_csv(tmp_path / "two" / "scores.csv")
    assert (two["slope_2"][:4] == 0).all()
    assert {"theta_1", "se_2"} < set(scores.columns)
    for wrong in (("--prior", "weak"), ("--groups", tmp_path / "items.csv"), ("--population", "estimated")):
        refused("fit", *given, *testlets, *wrong, "-o", tmp_path / "no", saying="--")
    run("fit", *given[:3], "--model", "pcm", *testlets, "-o", tmp_path / "pcm")
    assert pd.read_csv(tmp_path / "pcm" / "items.csv")["discrimination"].nunique() == 1
    refused("fit", *given[:3], "--model", "nominal", *testlets, "-o", tmp_path / "no", saying="is of one ability")


def test_labels_are_scores_in_their_order_and_the_bank_reads_them(grades: Path, tmp_path: Path) -> None:
    run(f"fit {grades}/scores.csv --model grm -o {tmp_path}/numbers")
    run(f"fit {grades}/labels.csv --model grm --levels poor,fair,good -o {tmp_path}/labels")
    numbers, labels = (pd.read_csv(tmp_path / name / "items.csv") for name in ("numbers", "labels"))
    assert set(numbers["categories"]), set(labels["categories"]) == ({"1|2|3"}, {"poor|fair|good"})
    pd.testing.assert_frame_equal(numbers.drop(columns="categories"), labels.drop(columns="categories"), rtol=1e-9)
    own = pd.read_csv(tmp_path / "numbers/scores.csv")
    for bank, file in (("numbers/bank.json", "scores"), ("labels/bank.json", "labels"), ("labels/items.csv", "labels")):
        said = run(
            f"score {tmp_path}/{bank} {grades}/{file}.csv -o {tmp_path}/new.csv --item-error",
            "auto" if bank.endswith("json") else "none",
        ).out
        assert "points" in said
        found = pd.read_csv(tmp_path / "new.csv")
        np.testing.assert_allclose(found["theta"], own["theta"], atol=1e-9)
        if bank.endswith("json"):
            np.testing.assert_allclose(found["se"], own["se"], atol=1e-9)
            np.testing.assert_allclose(found["percentile"], own["percentile"], atol=1e-6)


def test_diagnose_tests_items_pairs_and_people(grades: Path, reference: Path, tmp_path: Path) -> None:
    run(f"fit {grades}/scores.csv --model gpcm -o {tmp_path}/fit")
    run(f"items diagnose {grades}/scores.csv --items fit/items.csv -o out", cwd=tmp_path)
    tables = {
        name: pd.read_csv(tmp_path / f"out/{name}.csv") for name in ("item_fit", "local_dependence", "person_fit")
    }
    assert tables["item_fit"]["p"].min() > 0.001
    assert set(tables["local_dependence"]["df"]) == {4}
    assert abs(tables["person_fit"]["lz_star"].mean()) < 0.3
    assert (
        "complete responses" in json.loads((tmp_path / "out/not_available.json").read_text())["M2 in global_fit.json"]
    )


def test_partial_credit_next_to_items_of_a_bank(grades: Path, tmp_path: Path) -> None:
    scores = pd.read_csv(grades / "scores.csv")
    scores[scores["item_id"].isin(["p0", "p1", "p2"])].to_csv(tmp_path / "known.csv", index=False)
    run("fit", tmp_path / "known.csv", "--model", "pcm", "-o", tmp_path / "known")
    bank = tmp_path / "known" / "bank.json"
    run("fit", grades / "scores.csv", "--model", "pcm", "--anchors", bank, "-o", tmp_path / "out")
    known, items = (pd.read_csv(tmp_path / name / "items.csv").set_index("item_id") for name in ("known", "out"))
    np.testing.assert_allclose(items.loc[known.index, "step_2"], known["step_2"], atol=1e-9)
    assert (items["discrimination"] == 1).all()
    wide = scores.pivot(index="respondent_id", columns="item_id", values="score")
    expected = fit_categories(wide, "pcm", anchors=load_bank(bank, categories=True).scales[0])
    found = json.loads((tmp_path / "out" / "fit.json").read_text())
    assert found["n_parameters"] == 3 * 2 + 2
    assert found["log_likelihood"] == pytest.approx(expected.log_likelihood, abs=1e-6)
    assert expected.moments is not None
    assert found["population_sd"] == pytest.approx(expected.moments.sd, abs=1e-6)
    assert (items["se_step_1"] > 0).all()


@pytest.mark.parametrize(("model", "folder"), [("grm", "science_grm"), ("gpcm", "science_gpcm"), ("nominal", "")])
def test_items_shows_a_scale_and_writes_it_for_mirt(reference: Path, tmp_path: Path, model: str, folder: str) -> None:
    root = reference / "graded"
    run(f"fit {root}/data/science.csv --model {model} -o {tmp_path}/fit")
    drawn = "--figures" if model == "grm" else ""
    run(f"items show {tmp_path}/fit/bank.json -o {tmp_path}/out --export mirt {drawn}")
    scores = pd.read_csv(tmp_path / "out/score_table.csv")
    assert scores["score"].tolist() == list(range(13))
    assert scores["probability"].sum() == pytest.approx(1)
    found = pd.read_csv(tmp_path / "out/items_mirt.csv").set_index("item_id")
    if not folder:  # scores from 0 to the last category's number, as mirt has them
        assert set(found["ak0"]), set(found["ak3"]) == ({0}, {3})
        return
    theirs = pd.read_csv(root / folder / "items_slope_intercept.csv")
    theirs = theirs.pivot(index="item_id", columns="parameter", values="value").loc[found.index]
    for name in set(theirs) & set(found):
        np.testing.assert_allclose(found[name], theirs[name], atol=1e-3)


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
def test_all_scales_of_naep_are_scored_as_by_quadrature_written_down(real_data: Path) -> None:
    file = real_data / "naep_parameters" / "items.csv.gz"
    with pytest.warns(UserWarning, match="are there twice"):
        bank = load_bank(file, categories=True, scaling=1.7)
    raw, rng, theta = pd.read_csv(file).fillna({"scale": ""}), np.random.default_rng(0), np.linspace(-10, 10, 2001)
    groups = raw.groupby(["subject", "year", "grade", "scale"], sort=False)
    assert len(bank.scales) == len(groups) == 219
    for scale, (name, rows) in list(zip(bank.scales, groups, strict=True))[::24]:
        assert scale.name == " ".join(str(part) for part in name if part != "")
        rows = rows[~rows["item_id"].duplicated()]
        joint, scores = np.tile(-(theta**2) / 2, (3, 1)), {}
        for row in rows.to_dict("records"):
            steps = [row["b"] - row[f"d_{k}"] for k in range(1, 5) if not np.isnan(row[f"d_{k}"])] or [row["b"]]
            z = np.cumsum([0 * theta, *(1.7 * row["a"] * (theta - step) for step in steps)], axis=0)
            p = np.exp(z - z.max(axis=0)) / np.exp(z - z.max(axis=0)).sum(axis=0)
            if row["irt_model"] == "3pl":
                p = np.array([(1 - row["c"]) * p[0], row["c"] + (1 - row["c"]) * p[1]])
            k = rng.integers(len(p), size=3)
            joint += np.log(p[k])
            scores[row["item_id"]] = k
        mass = np.exp(joint - joint.max(axis=1, keepdims=True))
        found = score_responses(scale, pd.DataFrame(scores))
        np.testing.assert_allclose(found["theta"], (mass @ theta) / mass.sum(axis=1), atol=1e-6)


def test_a_bank_of_several_scales_scores_the_answers_to_one(tmp_path: Path) -> None:
    """As NAEP's tables, of which a test has the items of a scale."""
    rows = [("m1", "x", 1.0, 0.2, np.nan, np.nan), ("m2", "x", 0.9, 0.1, 0.4, -0.4), ("r1", "y", 1.0, 0.0, 0.3, -0.3)]
    published = pd.DataFrame(rows, columns=["item_id", "scale", "a", "b", "d_1", "d_2"]).assign(c=[0.2, np.nan, np.nan])
    published["irt_model"] = ["3pl", "gpcm", "gpcm"]
    published.to_csv(tmp_path / "published.csv", index=False)
    pd.DataFrame({"respondent_id": ["a", "b"], "m1": [1, 0], "m2": [2, 0]}).to_csv(tmp_path / "new.csv", index=False)
    run(f"score {tmp_path}/published.csv {tmp_path}/new.csv --scaling-constant 1.7 -o {tmp_path}/scores.csv")
    scores = pd.read_csv(tmp_path / "scores.csv").set_index(["respondent_id", "scale"])
    assert scores.loc[("a", "x"), "theta"] > 0.2 > -0.2 > scores.loc[("b", "x"), "theta"]
    assert scores.loc[("a", "y"), ["n_items", "n_trials", "flags"]].tolist() == [0, 0, "no_items"]


def test_constraints_make_the_1pl_and_equal_twins(real_data: Path, tmp_path: Path) -> None:
    file, items = real_data / "lsat6/responses.csv", [f"item{k}" for k in range(1, 6)]
    constraints = pd.DataFrame({"item_id": items, "parameter": "discrimination", "set": "slopes"})
    constraints.to_csv(tmp_path / "equal.csv", index=False)
    run(f"fit {file} --constraints {tmp_path}/equal.csv -o {tmp_path}/equal")
    run(f"fit {file} --model 1pl --prior none -o {tmp_path}/onepl")
    found, expected = (json.loads((tmp_path / name / "fit.json").read_text()) for name in ("equal", "onepl"))
    assert found["log_likelihood"] == pytest.approx(expected["log_likelihood"], abs=1e-4)
    assert found["n_parameters"] == expected["n_parameters"] == 6
    ours, theirs = (pd.read_csv(tmp_path / name / "items.csv") for name in ("equal", "onepl"))
    for name in ("discrimination", "difficulty", "se_discrimination", "se_difficulty"):
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-3)
    twins = pd.DataFrame({"item_id": ["item1", "item5"] * 2, "parameter": ["a", "a", "d", "d"], "set": [1, 1, 2, 2]})
    twins.to_csv(tmp_path / "twins.csv", index=False)
    run(f"fit {file} --constraints {tmp_path}/twins.csv -o {tmp_path}/twins --prior none")
    fitted = pd.read_csv(tmp_path / "twins/items.csv").set_index("item_id")
    for name in ("discrimination", "intercept"):
        assert fitted[name]["item1"] == pytest.approx(fitted[name]["item5"])
    load_bank(tmp_path / "twins/bank.json")


def test_groups_have_populations_of_their_own(grades: Path, tmp_path: Path) -> None:
    scores = pd.read_csv(grades / "scores.csv")
    people = scores["respondent_id"].drop_duplicates()
    group = np.where(np.arange(len(people)) % 3 == 0, "b", "a")
    pd.DataFrame({"respondent_id": people, "group": group}).to_csv(tmp_path / "groups.csv", index=False)
    run(f"fit {grades}/scores.csv --model grm --prior none --groups {tmp_path}/groups.csv -o {tmp_path}/out")
    wide = scores.pivot(index="respondent_id", columns="item_id", values="score").loc[people]
    expected = fit_categories(wide, "grm", groups=list(group))
    found = json.loads((tmp_path / "out/fit.json").read_text())
    assert found["log_likelihood"] == pytest.approx(expected.log_likelihood)
    assert found["groups"][1]["mean"] == pytest.approx(expected.groups["mean"][1])
    assert load_bank(tmp_path / "out/bank.json", categories=True).scales[0].norms.n == (group == "a").sum()


@pytest.mark.parametrize(
    ("arguments", "saying"),
    [
        (["fit", "{scores}", "--model", "grn"], "'grn' is not one of 'rasch'"),
        (
            ["fit", "{scores}", "--model", "grm", "--dispersion", "item"],
            "--dispersion: goes with models of right and wrong",
        ),
        (["fit", "{scores}", "--model", "nominal", "--prior", "hierarchical"], "but not with nominal"),
        (["fit", "{scores}", "--model", "grm", "--threshold", "2"], "expected none for scores in categories"),
        (["fit", "{scores}", "--levels", "a,b"], "--levels: go with grades"),
        (["fit", "{scores}", "--model", "grm", "--levels", "good"], "expected two labels or more"),
        (
            ["fit", "{labels}", "--model", "grm"],
            "expected a number but got 'good'; grades that are words need --levels",
        ),
        (["fit", "{labels}", "--model", "grm", "--levels", "poor,good"], "expected one of poor, good but got 'fair'"),
        (["fit", "{twice}", "--model", "grm"], "--trials"),
        (["fit", "{scores}", "--model", "rasch", "--constraints", "{scores}"], "--constraints: go with 2pl, 3pl, grm"),
        (["fit", "{scores}", "--model", "grm", "--constraints", "{scores}"], "parameter"),
        (["fit", "{scores}", "--model", "grm", "--constraints", "{alone}"], "set 1: one parameter; expected two"),
        (["fit", "{scores}", "--model", "grm", "--constraints", "{unknown}"], "no parameter ('p0', 'd9') that can be"),
        (["fit", "{bytes}", "--model", "grm"], "is no text; expected CSV or Parquet"),
        (["fit", "{same}", "--model", "grm"], "no item has two different scores"),
        (["fit", "{scores}"], "or fit grades (--model grm)"),
        (["score", "{bank}", "{labels}"], "expected a number but got"),
        (["score", "{bank}", "{high}"], "item p0: 9 is none of its categories"),
        (["score", "{bank}", "{scores}", "--explain", "x"], "--explain: goes with items that are right or wrong"),
        (["score", "{bank}", "{scores}", "--scaling-constant", "1.7"], "goes with tables of items"),
        (["extend", "{bank}", "{scores}", "--model", "2pl"], "the bank has items in categories; expected grm"),
        (["bias", "{scores}", "--bank", "{bank}"], "items in categories do not go with this"),
        (["score", "{naep}", "{scores}"], "the scaling constant D is not given"),
        (["fit", "{scores}", "--model", "rsm", "--anchors", "{bank}"], "--anchors: not with rsm, whose distances"),
        (["fit", "{scores}", "--model", "pcm", "--anchors", "{bank}"], "anchor p0 is grm of 3 categories"),
    ],
)
def test_what_does_not_go_is_one_line(grades: Path, tmp_path: Path, arguments: list[str], saying: str) -> None:
    files = {
        name: grades / f"{name}.csv"
        for name in ("scores", "labels", "twice", "high", "alone", "unknown", "bytes", "same")
    } | {"bank": grades / "bank.json"}
    files["naep"] = grades / "naep.csv"
    if not files["bank"].exists():
        run("fit", files["scores"], "--model", "grm", "-o", grades / "fit")
        (grades / "fit/bank.json").rename(files["bank"])
        scores = pd.read_csv(files["scores"])
        pd.concat([scores, scores.head(1)]).to_csv(files["twice"], index=False)
        for name, wrong in (("alone", ["p0"]), ("unknown", ["p0", "p1"])):
            pd.DataFrame({"item_id": wrong, "parameter": "d9", "set": 1}).to_csv(files[name], index=False)
        files["bytes"].write_bytes(b"\x00\x01\x02" * 50)
        scores.assign(score=2).to_csv(files["same"], index=False)
        scores.assign(score=9).to_csv(files["high"], index=False)
        pd.DataFrame({"item_id": ["p0"], "a": [1.0], "b": [0.0], "c": [0.2], "irt_model": ["3pl"]}).to_csv(
            files["naep"], index=False
        )
    output = [] if arguments[0] == "score" else ["-o", tmp_path / "out"]
    ended = run(*(part.format(**files) for part in arguments), *output, status=2)
    assert saying in ended.err
    assert len(ended.err.strip().splitlines()) <= 3
    assert not (tmp_path / "out").exists()


def test_new_graded_items_join_a_bank(tmp_path: Path) -> None:
    """The old ones stay, the new ones stand on their scale, these people where they are."""
    rng = np.random.default_rng(4)
    slopes, places = rng.uniform(1, 2, 10), rng.normal(0, 0.7, 10)

    def scores(n: int, mean: float, sd: float, items: slice, name: str) -> Path:
        theta = rng.normal(mean, sd, (n, 1, 1))
        at = places[None, :, None] + np.array([-0.8, 0.8])
        given = (slopes[:, None] * (theta - at) + rng.logistic(size=(n, 10, 1)) > 0).sum(axis=2)[:, items]
        table = pd.DataFrame(given, columns=[f"i{j}" for j in range(10)][items])
        table.insert(0, "respondent_id", [f"{name}{k}" for k in range(n)])
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        return tmp_path / f"{name}.csv"

    run("fit", scores(900, 0.0, 1.0, slice(0, 7), "old"), "--model", "grm", "-o", tmp_path / "old")
    bank = tmp_path / "old" / "bank.json"
    run(f"link --extend {bank}", scores(700, 0.8, 0.7, slice(2, 10), "new"), "-o", tmp_path / "more")
    told = json.loads((tmp_path / "more" / "extend.json").read_text())
    assert told["items"] == ["i7", "i8", "i9"]
    assert abs(told["group_mean"] - 0.8) < 3.5 * told["group_se_mean"]
    assert abs(told["group_sd"] - 0.7) < 3.5 * told["group_se_sd"]
    before, after = (
        load_bank(path, categories=True).scales[0].items for path in (bank, tmp_path / "more" / "bank.json")
    )
    assert after.item_ids == (*before.item_ids, "i7", "i8", "i9")
    np.testing.assert_allclose(after.categories.parameters[:7], before.categories.parameters, atol=1e-9)
    np.testing.assert_allclose(after.discrimination[7:], slopes[7:], atol=0.45)
    np.testing.assert_allclose(after.difficulty[7:], places[7:], atol=0.25)
