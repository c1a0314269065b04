"""``irtbench link``: a new calibration on an old bank's scale, from its responses or from its items."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import refused, run

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


def test_a_table_of_items_has_no_covariances_and_that_is_said(years: Path, tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("", "expected either RESPONSES or --items NEW"),
        ("new.csv --items new/items.csv", "expected either RESPONSES or --items NEW"),
        ("--items new/items.csv --scale some", "old/bank.json: no scale some; expected --scale with one of"),
        ("--items other.csv", "link: 0 common items; expected at least 2 of the same item_id"),
    ],
)
def test_what_cannot_be_linked_is_one_line_and_writes_nothing(
    years: Path, tmp_path: Path, arguments: str, said: str
) -> None:
    (years / "other.csv").write_text("item_id,discrimination,intercept\nx1,1,0\nx2,1,1\n")
    refused(f"link old/bank.json {arguments} -o {tmp_path}/out", saying=said, cwd=years)
    assert not (tmp_path / "out").exists()


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
    refused("extend fit/bank.json new.csv -o x", saying="", cwd=tmp_path)
