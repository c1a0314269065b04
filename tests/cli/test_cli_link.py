"""``irtbench link``: a new calibration on an old bank's scale, and new items that join a bank whose own items stay."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import refused, run

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
    bank = years / "old" / "bank.json"
    done = run(f"link {bank} {years}/new.csv -o {tmp_path}/out")
    assert "drifted and left out of the link: item7" in done.err + done.out
    assert "the standard errors take that for certain" in done.err + done.out
    found = json.loads((tmp_path / "out" / "link.json").read_text())
    assert (found["method"], found["released"], found["n_items"]) == ("stocking-lord", ["item7"], 9)
    # their own standard errors, and twice 1 / sqrt(1200) for the people of both years are samples
    assert found["group_mean"] == pytest.approx(MEAN, abs=3 * (found["group_se_mean"] + 0.04))
    assert found["group_sd"] == pytest.approx(SD, abs=3 * (found["group_se_sd"] + 0.03))
    drift = pd.read_csv(tmp_path / "out" / "drift.csv")
    assert list(drift) == COLUMNS
    assert drift.loc[drift["released"], "item_id"].tolist() == ["item7"]
    (scale,) = irtbench.load_bank(tmp_path / "out" / "bank.json").scales
    (old,) = irtbench.load_bank(bank).scales
    assert scale.items.n_items == 16
    np.testing.assert_array_equal(scale.norms.theta, old.norms.theta)
    assert scale.provenance["link"]["slope"] == found["slope"]
    assert found["errors"] == "joint"
    assert found["covariance_of_scores"] == scale.line.upper()
    assert scale.line.generation == 1
    assert 0 < scale.line.covariance[1, 1] < found["se_intercept"] ** 2
    assert [entry["bank"] for entry in found["ancestry"]] == [scale.provenance["old"]["bank"]]
    assert scale.provenance["old"]["bank"]["bank.json"].startswith("sha256:")
    assert "old.csv" in scale.provenance["old"]["data"]
    assert "new.csv" in scale.provenance["new"]["data"]
    common = [item for item in scale.items.item_ids if item in old.items.item_ids and item != "item7"]
    away = scale.items.select(common).difficulty - old.items.select(common).difficulty
    assert abs(away.mean()) < 0.05


def test_fitted_items_give_the_same_line_and_the_same_bank_twice(years: Path, tmp_path: Path) -> None:
    bank, new = years / "old" / "bank.json", years / "new"
    lines = []
    for name, given in (("a", ["--items", new / "bank.json"]), ("b", [years / "new.csv"])):
        lines.append(run(f"link {bank}", *given, "-o", tmp_path / name, "--method", "haebara", "--json", "-q").json)
    for figure in ("slope", "intercept", "se_slope", "se_intercept", "group_mean", "group_sd"):
        assert lines[0][figure] == pytest.approx(lines[1][figure], rel=1e-6)
    run(f"link {bank} --items {new}/bank.json -o {tmp_path}/c --method haebara -q")
    assert (tmp_path / "a" / "bank.json").read_bytes() == (tmp_path / "c" / "bank.json").read_bytes()


def test_a_linked_bank_is_linked_again_with_all_its_errors(years: Path, tmp_path: Path) -> None:
    """Old items to new people's bank and back: the crowds are those of before, and all errors of items cancel."""
    old, new = (years / year / "bank.json" for year in ("old", "new"))
    run(f"link {old} --items {new} -o {tmp_path}/one -q")
    done = run(f"link {tmp_path}/one/bank.json --items {old} -o {tmp_path}/two")
    assert "2 links back to the first scale, whose errors are in these" in done.err + done.out
    found = json.loads((tmp_path / "two" / "link.json").read_text())
    assert len(found["ancestry"]) == 2
    assert found["ancestry"][0]["bank"]["bank.json"] != found["ancestry"][1]["bank"]["bank.json"]
    (scale,) = irtbench.load_bank(tmp_path / "two" / "bank.json").scales
    assert scale.line.generation == 2
    lines = run(f"score {tmp_path}/two/bank.json {years}/old.csv")
    assert "all lies on its base scale by 2 links, whose error is in these intervals: standard error" in lines.out


def test_a_table_of_items_has_no_covariances_and_that_is_printed(years: Path, tmp_path: Path) -> None:
    done = run(f"link old/items.csv --items new/items.csv -o {tmp_path}/out", cwd=years)
    assert "standard errors unknown" in done.err + done.out
    found = json.loads((tmp_path / "out" / "link.json").read_text())
    assert found["se_slope"] is None
    assert (found["errors"], found["covariance_of_scores"]) == ("independent", None)
    assert found["released"] == ["item7"]
    kept = run(f"link old/items.csv --items new/items.csv -o {tmp_path}/kept --drift keep --json -q", cwd=years).json
    assert kept["n_items"] == 10
    assert abs(kept["intercept"] - found["intercept"]) > 0.05
    irtbench.load_bank(tmp_path / "out" / "bank.json")


def test_grades_of_new_people_come_to_the_old_scale_in_the_banks_words(tmp_path: Path) -> None:
    run(f"simulate -o {tmp_path}/one --respondents 700 --items 8 --categories 3 --model gpcm -q")
    names = {0: "poor", 1: "fair", 2: "good"}
    scores = pd.read_csv(tmp_path / "one/responses.csv")
    people = pd.read_csv(tmp_path / "one/respondents.csv").set_index("respondent_id")["theta"]
    able = scores["respondent_id"].map(people) + np.random.default_rng(1).normal(0, 0.7, len(scores)) > 0
    for name, part in (("old", scores[~able]), ("new", scores[able])):
        part.assign(score=part["score"].map(names)).to_csv(tmp_path / f"{name}.csv", index=False)
    run(f"fit {tmp_path}/old.csv --model gpcm --levels poor,fair,good -o {tmp_path}/fit -q")
    run(f"link {tmp_path}/fit/bank.json {tmp_path}/new.csv -o {tmp_path}/out")
    found = json.loads((tmp_path / "out/link.json").read_text())
    assert found["group_mean"] > 0.5
    run(f"score {tmp_path}/out/bank.json {tmp_path}/new.csv -o {tmp_path}/s.csv")
    run(f"link {tmp_path}/fit/bank.json --items {tmp_path}/fit/items.csv -o {tmp_path}/two")
    assert json.loads((tmp_path / "two/link.json").read_text())["slope"] == pytest.approx(1, abs=1e-6)


# --- extend


def test_an_item_that_drifted_is_no_anchor_and_stays_in_the_bank(tmp_path: Path) -> None:
    rng = np.random.default_rng(21)
    a, b = rng.uniform(1, 2, 14), rng.normal(0, 0.8, 14)
    names = [f"item{k + 1}" for k in range(14)]
    old = irtbench.ItemParameters.from_difficulty(a[:10], b[:10], item_ids=names[:10])
    old.table().to_csv(tmp_path / "old.csv", index=False)
    true = irtbench.ItemParameters.from_difficulty(a, b + np.where(np.arange(14) == 2, 2.0, 0), item_ids=names)
    drawn = irtbench.simulate_responses(rng.normal(0.5, 1.2, size=1500), true, rng=rng)
    drawn.to_long().astype({"response": int}).to_csv(tmp_path / "new.csv", index=False)
    for name, more in (("out", []), ("kept", ["--drift", "keep"])):
        run(f"link --extend {tmp_path}/old.csv {tmp_path}/new.csv -o {tmp_path}/{name}", *more)
    found, kept = (json.loads((tmp_path / name / "extend.json").read_text()) for name in ("out", "kept"))
    assert "item3" in found["released"]
    assert kept["released"] == []
    assert found["group_mean"] == pytest.approx(0.5, abs=0.1)
    assert found["group_mean"] - kept["group_mean"] > 0.05
    (scale,) = irtbench.load_bank(tmp_path / "out" / "bank.json").scales
    assert scale.items.item_ids == true.item_ids
    assert scale.items.select(["item3"]).difficulty[0] == pytest.approx(b[2])
    error = scale.items.select(names[10:]).difficulty - b[10:]
    assert np.abs(error).max() < 0.25
    assert scale.provenance["old"]["bank"]["old.csv"].startswith("sha256:")
    assert "new.csv" in scale.provenance["new"]["data"]
    refused("link --extend out/bank.json new.csv -o again", saying="extend: no item is new", cwd=tmp_path)


def test_a_small_banks_own_error_is_in_what_rests_on_it(tmp_path: Path) -> None:
    """As in `tests/estimation/test_shared_parameters.py`, through `fit`, `fit --anchors` and `extend`."""
    rng = np.random.default_rng(3)
    true = irtbench.ItemParameters.from_difficulty(rng.uniform(1, 2, 11), np.linspace(-1, 1, 11))
    old = irtbench.simulate_responses(rng.normal(size=120), true.select(true.item_ids[:8]), rng=rng)
    new = irtbench.simulate_responses(rng.normal(0.5, 1.1, size=600), true.select(true.item_ids[2:]), rng=rng)
    for name, drawn in (("old", old), ("new", new)):
        drawn.to_long().astype({"response": int}).to_csv(tmp_path / f"{name}.csv", index=False)
    done = run(f"fit {tmp_path}/old.csv -o {tmp_path}/bank")
    assert "few people answered the items" in done.out
    found = json.loads((tmp_path / "bank" / "fit.json").read_text())
    assert found["item_error"] == "integrate"
    assert found["item_error_share"] > 0.015
    said, errors = {}, {}
    for anchors in ("bank.json", "items.csv"):
        done = run(f"fit {tmp_path}/new.csv --anchors {tmp_path}/bank/{anchors} -o {tmp_path}/fit")
        found = json.loads((tmp_path / "fit" / "fit.json").read_text())
        said[anchors], errors[anchors] = found["anchor_error"], found["population_se_mean"]
    assert said == {"bank.json": "joint", "items.csv": "taken as known"}
    assert "the anchors are taken as known" in done.out
    assert errors["bank.json"] > 1.5 * errors["items.csv"]
    run(f"link --extend {tmp_path}/bank/bank.json {tmp_path}/new.csv -o {tmp_path}/out")
    found = json.loads((tmp_path / "out" / "extend.json").read_text())
    assert found["anchor_error"] == "joint"
    assert found["group_se_mean"] == pytest.approx(errors["bank.json"], rel=1e-6)
    (before,), (after,) = (irtbench.load_bank(tmp_path / name / "bank.json").scales for name in ("bank", "out"))
    np.testing.assert_allclose(after.joint_error.covariance[:8, :, :8], before.joint_error.covariance, rtol=1e-5)
    flat = after.joint_error.covariance.reshape(33, 33)
    free = np.arange(33) % 3 < 2
    assert np.linalg.eigvalsh(flat[np.ix_(free, free)]).min() > 0
    # what the first two items, which these people did not see, share with new ones is the location of the bank
    shared = flat[1, 25] / np.sqrt(flat[1, 1] * flat[25, 25])
    assert 0.1 < shared < 0.9
