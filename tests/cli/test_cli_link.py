"""``irtbench link``: a new calibration on an old bank's scale, and new items that join a bank whose own items stay."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import run


def record(folder: Path, name: str = "link") -> Any:
    return json.loads((folder / f"{name}.json").read_text())


def scale_of(folder: Path) -> irtbench.Scale:
    (scale,) = irtbench.load_bank(folder / "bank.json").scales
    return scale


# --- link

MEAN, SD = 0.6, 1.3
COLUMNS = [
    "item_id", "difficulty_old", "difficulty_new", "difference", "robust_z", "w", "p", "p_adjusted", "released",
]  # fmt: skip


@pytest.fixture(scope="module")
def years(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two years of 16 items and 1,200 people, 10 items common; item7 became much harder."""
    folder, rng = tmp_path_factory.mktemp("years"), np.random.default_rng(11)
    a, b = rng.uniform(1, 2, 22), rng.normal(0, 0.8, 22)
    for year, items, mean, sd in (("old", slice(0, 16), 0.0, 1.0), ("new", slice(6, 22), MEAN, SD)):
        names = [f"item{k + 1}" for k in range(22)][items]
        drift = np.where(np.arange(22) == 6, 1.5 * (year == "new"), 0.0)
        known = irtbench.ItemParameters.from_difficulty(a[items], (b + drift)[items], item_ids=names)
        drawn = irtbench.simulate_responses(rng.normal(mean, sd, size=1200), known, rng=rng)
        drawn.to_long().astype({"response": int}).to_csv(folder / f"{year}.csv", index=False)
        run(f"fit {folder}/{year}.csv -o {folder}/{year} -q")
    return folder


def test_responses_come_to_the_old_scale_and_the_drifted_item_is_released(years: Path, tmp_path: Path) -> None:
    done = run(f"link old/bank.json new.csv -o {tmp_path}", cwd=years)
    assert "drifted and left out of the link: item7" in done.err + done.out
    assert "the standard errors take that for certain" in done.err + done.out
    found, scale, old = record(tmp_path), scale_of(tmp_path), scale_of(years / "old")
    assert (found["method"], found["released"], found["n_items"]) == ("stocking-lord", ["item7"], 9)
    # their own standard errors, and twice 1 / sqrt(1200) for the people of both years are samples
    assert found["group_mean"] == pytest.approx(MEAN, abs=3 * (found["group_se_mean"] + 0.04))
    assert found["group_sd"] == pytest.approx(SD, abs=3 * (found["group_se_sd"] + 0.03))
    drift = pd.read_csv(tmp_path / "drift.csv")
    assert list(drift) == COLUMNS
    assert drift.loc[drift["released"], "item_id"].tolist() == ["item7"]
    np.testing.assert_array_equal(scale.norms.theta, old.norms.theta)
    assert (found["errors"], found["covariance_of_scores"]) == ("joint", scale.line.upper())
    assert 0 < scale.line.covariance[1, 1] < found["se_intercept"] ** 2
    assert scale.provenance["link"]["slope"] == found["slope"]
    assert scale.provenance["old"]["bank"]["bank.json"].startswith("sha256:")
    assert "new.csv" in scale.provenance["new"]["data"]


def test_fitted_items_give_the_line_of_their_responses_and_the_same_bank_twice(years: Path, tmp_path: Path) -> None:
    lines = {}
    for name, given in (("a", "--items new/bank.json"), ("b", "new.csv"), ("c", "--items new/bank.json")):
        line = f"link old/bank.json {given} -o {tmp_path}/{name} --method haebara --json -q"
        lines[name] = run(line, cwd=years).json
    for figure in ("slope", "intercept", "se_slope", "se_intercept", "group_mean", "group_sd"):
        assert lines["a"][figure] == pytest.approx(lines["b"][figure], rel=1e-6)
    assert (tmp_path / "a" / "bank.json").read_bytes() == (tmp_path / "c" / "bank.json").read_bytes()


def test_a_linked_bank_is_linked_again_with_all_its_errors(years: Path, tmp_path: Path) -> None:
    """Old items to new people's bank and back: the crowds are those of before, and all errors of items cancel."""
    run(f"link old/bank.json --items new/bank.json -o {tmp_path}/one -q", cwd=years)
    done = run(f"link {tmp_path}/one/bank.json --items old/bank.json -o {tmp_path}/two", cwd=years)
    assert "2 links back to the first scale, whose errors are in these" in done.err + done.out
    first, second = record(tmp_path / "two")["ancestry"]
    assert first["bank"]["bank.json"] != second["bank"]["bank.json"]
    assert scale_of(tmp_path / "two").line.generation == 2
    said = run(f"score {tmp_path}/two/bank.json old.csv", cwd=years).out
    assert "all lies on its base scale by 2 links, whose error is in these intervals: standard error" in said


def test_items_without_covariances_or_too_few_to_tell_drift_are_said(years: Path, tmp_path: Path) -> None:
    line = f"link old/items.csv --items new/items.csv -o {tmp_path}"
    done = run(line, cwd=years)
    assert "standard errors unknown" in done.err + done.out
    found = record(tmp_path)
    assert (found["se_slope"], found["errors"], found["covariance_of_scores"]) == (None, "independent", None)
    assert found["released"] == ["item7"]
    kept = run(f"{line} --drift keep --json -q", cwd=years).json
    assert kept["n_items"] == 10
    assert abs(kept["intercept"] - found["intercept"]) > 0.05
    scale_of(tmp_path)
    # item7 drifted by 1.5, and three common items do not show it: the link is off by a third of that
    new = pd.read_csv(years / "new/items.csv")
    new[~new["item_id"].isin([f"item{k}" for k in range(10, 17)])].to_csv(tmp_path / "three.csv", index=False)
    done = run(f"link old/bank.json --items {tmp_path}/three.csv -o {tmp_path}/linked", cwd=years)
    said = " ".join((done.err + done.out).split())
    assert "drift not tested: 3 common items, at least 5 tell it; errors assume none" in said
    assert record(tmp_path / "linked")["released"] == []


def test_grades_of_new_people_come_to_the_old_scale_in_the_banks_words(tmp_path: Path) -> None:
    run(f"simulate -o {tmp_path}/one --respondents 500 --items 8 --categories 3 --model gpcm -q")
    scores = pd.read_csv(tmp_path / "one/responses.csv")
    people = pd.read_csv(tmp_path / "one/respondents.csv").set_index("respondent_id")["theta"]
    able = scores["respondent_id"].map(people) + np.random.default_rng(1).normal(0, 0.7, len(scores)) > 0
    words = scores.assign(score=scores["score"].map({0: "poor", 1: "fair", 2: "good"}))
    for name, part in (("old", words[~able]), ("new", words[able])):
        part.to_csv(tmp_path / f"{name}.csv", index=False)
    run("fit old.csv --model gpcm --levels poor,fair,good -o fit -q", cwd=tmp_path)
    run("link fit/bank.json new.csv -o out", cwd=tmp_path)
    assert record(tmp_path / "out")["group_mean"] > 0.5
    run("score out/bank.json new.csv -o s.csv", cwd=tmp_path)
    run("link fit/bank.json --items fit/items.csv -o two", cwd=tmp_path)
    assert record(tmp_path / "two")["slope"] == pytest.approx(1, abs=1e-6)


# --- extend


def test_an_item_that_drifted_is_no_anchor_and_stays_in_the_bank(years: Path, tmp_path: Path) -> None:
    for how in ("release", "keep"):
        run(f"link --extend old/bank.json new.csv -o {tmp_path}/{how} --drift {how}", cwd=years)
    found, kept = (record(tmp_path / how, "extend") for how in ("release", "keep"))
    assert (found["released"], kept["released"]) == (["item7"], [])
    assert found["group_mean"] == pytest.approx(MEAN, abs=3 * (found["group_se_mean"] + 0.04))
    assert kept["group_mean"] < found["group_mean"] - 0.05
    old, scale = scale_of(years / "old").items, scale_of(tmp_path / "release")
    assert scale.items.item_ids == tuple(f"item{k}" for k in range(1, 23))
    np.testing.assert_allclose(scale.items.difficulty[:16], old.difficulty)
    assert scale.provenance["old"]["bank"]["bank.json"].startswith("sha256:")


def test_a_small_banks_own_error_is_in_what_rests_on_it(tmp_path: Path) -> None:
    """As in `tests/estimation/test_shared_parameters.py`, through `fit`, `fit --anchors` and `extend`."""
    rng = np.random.default_rng(3)
    true = irtbench.ItemParameters.from_difficulty(rng.uniform(1, 2, 11), np.linspace(-1, 1, 11))
    for name, theta, part in (
        ("old", rng.normal(size=120), slice(0, 8)),
        ("new", rng.normal(0.5, 1.1, size=600), slice(2, 11)),
    ):
        drawn = irtbench.simulate_responses(theta, true.select(true.item_ids[part]), rng=rng)
        drawn.to_long().astype({"response": int}).to_csv(tmp_path / f"{name}.csv", index=False)
    assert "few people answered the items" in run("fit old.csv -o bank", cwd=tmp_path).out
    assert record(tmp_path / "bank", "fit")["item_error"] == "integrate"
    said, errors = {}, {}
    for anchors in ("bank.json", "items.csv"):
        done = run(f"fit new.csv --anchors bank/{anchors} -o fit", cwd=tmp_path)
        found = record(tmp_path / "fit", "fit")
        said[anchors], errors[anchors] = found["anchor_error"], found["population_se_mean"]
    assert said == {"bank.json": "joint", "items.csv": "taken as known"}
    assert "the anchors are taken as known" in done.out
    assert errors["bank.json"] > 1.5 * errors["items.csv"]
    run("link --extend bank/bank.json new.csv -o out", cwd=tmp_path)
    found = record(tmp_path / "out", "extend")
    assert (found["anchor_error"], found["group_se_mean"]) == ("joint", pytest.approx(errors["bank.json"], rel=1e-6))
    before, after = (scale_of(tmp_path / name).joint_error.covariance for name in ("bank", "out"))
    np.testing.assert_allclose(after[:8, :, :8], before, rtol=1e-5)
    flat, free = after.reshape(33, 33), np.arange(33) % 3 < 2
    assert np.linalg.eigvalsh(flat[np.ix_(free, free)]).min() > 0
    # what the first two items, which these people did not see, share with new ones is the location of the bank
    assert 0.1 < flat[1, 25] / np.sqrt(flat[1, 1] * flat[25, 25]) < 0.9
