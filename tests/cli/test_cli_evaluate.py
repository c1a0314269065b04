"""``irtbench evaluate``: power, breakdown, consistency, calibration, human bound and artifacts as a user meets them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import run, written

# --- power


@pytest.mark.usefixtures("drawn_files")
def test_the_grid_of_power_has_a_figure_for_each_size(tmp_path: Path) -> None:
    files = "power.csv power.json power_100.svg power_273.svg"
    found = written("evaluate power -n 100 -n 273 --hurt 0 --hurt 0.02", tmp_path, files)
    table = pd.read_csv(tmp_path / "power.csv")
    assert list(table) == ["n_items", "hurt", "effect", "p"]
    row = table.query("n_items == 100 and hurt == 0 and effect == 0.02").iloc[0]
    assert row["p"] == pytest.approx(0.98**100)
    luck = found["guessers"][1]
    assert (round(luck["one"], 3), round(luck["best"], 3)) == (0.045, 0.369)
    assert "100 items" in (tmp_path / "power_100.svg").read_text()
    found = run("evaluate power -n 500 --hurt 0.05 --effect 0.02 --json").json
    assert 0 < found["power"][0]["power"] < 0.8  # 500 items are too few
    assert 500 < found["size_needed"][0]["n_expected"] < found["size_needed"][0]["n_powered"]


# --- breakdown


@pytest.fixture
def study(tmp_path: Path) -> Path:
    rng, names = np.random.default_rng(0), [f"i{k}" for k in range(60)]
    items = pd.DataFrame({"item_id": names, "kind": ["x", "y", "x; y"] * 20, "set": ["a", "b"] * 30})
    items.to_csv(tmp_path / "items.csv", index=False)
    right = (rng.random((2, 60)) < [[0.8], [0.4]]).astype(int)
    pd.DataFrame(right, ["m", "n"], names).rename_axis("respondent_id").to_csv(tmp_path / "r.csv")
    return tmp_path


BREAKDOWN = "evaluate breakdown r.csv --items items.csv --type kind --separator ';'"


def test_accuracies_and_advantages_by_type(study: Path) -> None:
    files = "advantage.csv advantage_1.svg breakdown.csv breakdown.json breakdown.svg types.csv"
    found = written(BREAKDOWN, study / "out", files, cwd=study)
    assert [(row["type"], row["n_items"], row["n_only"]) for row in found["types"]] == [("x", 40, 20), ("y", 40, 20)]
    accuracy = pd.read_csv(study / "out" / "breakdown.csv")
    own = accuracy.query("respondent_id == 'm' and type == 'x'").iloc[0]
    assert own["accuracy"] == pd.read_csv(study / "r.csv", index_col=0).loc["m"][np.arange(60) % 3 != 1].mean()
    assert list(pd.read_csv(study / "out" / "advantage.csv")["type"]) == ["(all items)", "x", "y"]


def test_types_that_overlap_are_named_items_can_be_chosen_and_a_bank_adds_its_figures(study: Path) -> None:
    assert "share items and are not independent" in run(BREAKDOWN, cwd=study).out
    part = run(f"{BREAKDOWN} --where set=a --system m --json", cwd=study).json
    assert (part["n_items"], part["advantage"]) == (30, None)
    against = run(f"{BREAKDOWN} --against m --json", cwd=study).json["advantage"]
    assert {(row["first"], row["second"]) for row in against} == {("n", "m")}
    parameters = irtbench.ItemParameters.from_difficulty([1.0, 2.0, 1.5], [-1.0, 0.0, 2.0], item_ids=["i0", "i3", "i1"])
    parameters.table().to_csv(study / "known.csv", index=False)
    found = run(f"{BREAKDOWN} --bank known.csv --json", cwd=study).json
    mean = {(row["figure"], row["type"]): row["mean"] for row in found["parameters"]}
    assert mean["difficulty", "x"] == pytest.approx(-0.5)  # i0 and i3
    assert mean["discrimination", "y"] == pytest.approx(1.5)  # i1


# --- consistency


def test_the_switch_protocol_and_annotations(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("item_id,twin_of,easy\na,,1\nA,a,\nb,,0\nB,b,\nc,,0\n")
    (tmp_path / "r.csv").write_text("respondent_id,a,A,b,B,c\nm,1,1,1,0,0\nn,0,0,0,1,1\n")
    (tmp_path / "labels.csv").write_text("respondent_id,a,b,c\np,yes,no,yes\nq,yes,no,no\n")
    line = "evaluate consistency r.csv --items items.csv --tag easy --annotations labels.csv"
    files = "consistency.csv consistency.json consistency.svg contrasts.csv systems.csv"
    found = written(line, tmp_path / "out", files, cwd=tmp_path)
    table = pd.read_csv(tmp_path / "out" / "consistency.csv").set_index(["respondent_id", "measure"])["count"]
    assert table["m"].to_dict() == {
        "accuracy": 2, "before switching": 2, "after switching": 1, "consistency": 1, "both right": 1, "easy": 1,
        "not easy": 1,
    }  # fmt: skip
    assert table["n"].to_dict()["consistency"] == 1
    # pairs of labels: two of three agree; .5 of yes and no expected: kappa (2/3 - 1/2) / (1/2)
    assert found["annotations"]["fleiss_kappa"] == pytest.approx(1 / 3)


# --- calibration

COLUMNS = ["system", "bin", "n", "mean_predicted", "observed_share", "lower", "upper", "overconfidence"]


@pytest.mark.usefixtures("drawn_files")
def test_two_systems_on_the_same_items_are_calibrated_and_compared(tmp_path: Path) -> None:
    """In different order, the second too sure of what the first says."""
    rng, out = np.random.default_rng(0), tmp_path / "out"
    q = rng.beta(1, 1, 600)
    told = {"item": [f"i{k}" for k in range(600)], "label": (rng.random(600) < q).astype(int)}
    honest = pd.DataFrame({"system": "honest", "probability": q, **told})
    sure = pd.DataFrame({"system": "sure", "probability": (q > 0.5) * 0.96 + 0.02, **told})
    given = pd.concat([honest, sure.sample(frac=1, random_state=0)])
    given.to_csv(tmp_path / "p.csv", index=False)
    line = "evaluate calibration p.csv --by system --item item --paired --samples 200"
    found = written(line, out, "calibration.json reliability.csv reliability.svg", cwd=tmp_path)
    honest, sure = found["systems"]
    assert (honest["system"], honest["n_pairs"], honest["bin_size"]) == ("honest", 600, 60)
    assert (honest["debiased_lower"], sure["clearly_overconfident"]) == (0, 1)
    table = pd.read_csv(out / "reliability.csv")
    assert list(table)[: len(COLUMNS)] == COLUMNS
    assert table.query("system == 'honest'")["n"].tolist() == [60] * 10
    (difference,) = found["differences"]
    assert (difference["system_1"], difference["system_2"]) == ("honest", "sure")
    assert difference["upper"] < 0
    svg = (out / "reliability.svg").read_text()
    assert all(text in svg for text in ("honest", "sure", "stated probability"))
    given.sample(frac=1, random_state=1).sort_values("system").to_csv(tmp_path / "p.csv", index=False)
    assert run(line, "--json", cwd=tmp_path).json["systems"] == found["systems"]  # rows may be in any order
    # classes count one against the rest
    (tmp_path / "p.csv").write_text("p_a,p_b,p_c,label\n.7,.2,.1,a\n.3,.3,.4,c\n.1,.8,.1,c\n")
    line = "evaluate calibration p.csv --class a=p_a --class b=p_b --class c=p_c --bin-size 9 --json"
    (found,) = run(line, cwd=tmp_path).json["systems"]
    # one bin: mean q = mean y = 1/3; Brier = (.09 + .04 + .01 + .09 + .09 + .36 + .01 + .64 + .81) / 9
    assert (found["n_pairs"], found["error"], found["brier"]) == (9, pytest.approx(0), pytest.approx(2.14 / 9))


# --- human bound


@pytest.mark.usefixtures("drawn_files")
def test_what_people_reach_where_votes_agree(tmp_path: Path) -> None:
    """Five votes on 600 items: 500 with 5 right, 50 with 4, 50 with 2."""
    right = (np.arange(5)[:, None] < np.repeat([5, 4, 2], [500, 50, 50])).astype(int)
    votes = pd.DataFrame(right, [f"w{i}" for i in range(5)], [f"q{j}" for j in range(600)])
    votes.rename_axis("respondent_id").to_csv(tmp_path / "votes.csv")
    (tmp_path / "runs.csv").write_text("system,seed,accuracy\nm,1,0.5\nm,2,0.7\nother,1,0.4\nother,2,0.4\n")
    files, out = "crowd_filter.csv crowd_filter.svg human_bound.json human_bound.svg", tmp_path / "out"
    found = written("evaluate human-bound votes.csv --runs runs.csv", out, files, cwd=tmp_path)
    assert (found["n_items"], found["n_kept"]) == (600, 550)
    kept = found["human_accuracy"]["items kept"]
    assert (kept["n_votes"], kept["margin"], kept["accuracy"]) == (2_750, 0.03, pytest.approx(2_700 / 2_750))
    # 3 of 4 others right: 2,700 right votes out, 50 wrong ones; 4 of 4: 2,500 and 50; the lower of the two first
    assert found["new_vote_lower"] == pytest.approx(2_500 / 2_550)
    assert found["new_vote_upper"] == pytest.approx(2_700 / 2_750)
    assert found["runs"][0] == {"system": "m", "n_runs": 2, "mean": pytest.approx(0.6), "lowest": 0.5,
                                "highest": 0.7, "sd": pytest.approx(np.sqrt(0.02))}  # fmt: skip
    table = pd.read_csv(out / "crowd_filter.csv")
    assert list(table) == ["item_id", "n_votes", "n_correct", "kept"]
    assert table["kept"].sum() == 550
    assert "Hoeffding" in (out / "human_bound.svg").read_text()
    # a filter that keeps nothing is a result
    votes[["q550", "q551"]].rename_axis("respondent_id").to_csv(tmp_path / "hard.csv")
    found = run("evaluate human-bound hard.csv --json", cwd=tmp_path).json
    assert (found["n_kept"], found["human_accuracy"]["items kept"]["accuracy"]) == (0, None)


# --- artifacts


def test_it_writes_a_table_that_a_study_can_use(tmp_path: Path) -> None:
    """Of 60 items; the right option of most holds a word that others never have."""
    rng, rows = np.random.default_rng(0), []
    for j in range(60):
        texts = [" ".join(f"w{k}" for k in rng.integers(100, size=4)) for _ in range(3)]
        right = int(rng.integers(3))
        texts[right] += " indeed" * (j < 42)
        options = {f"option_{name}": text for name, text in zip("ABC", texts, strict=True)}
        rows.append({"item_id": f"q{j}", "question": "?", **options, "gold": "ABC"[right]})
    given, out = pd.DataFrame(rows), tmp_path / "out"
    given.to_csv(tmp_path / "items.csv", index=False)
    files = "artifacts.csv artifacts.json artifacts.svg"
    found = written("evaluate artifacts items.csv --repeats 1", out, files, cwd=tmp_path)
    plausible = next(row for row in found["baselines"] if row["baseline"] == "plausible_answer")
    assert plausible["p_adjusted"] < 1e-4
    assert plausible["corrected"] == pytest.approx((plausible["accuracy"] - 1 / 3) / (2 / 3))
    table = pd.read_csv(out / "artifacts.csv")
    assert table[list(given)].equals(given)
    assert table.loc[table["suspect"] == 1, "item_id"].tolist() == found["suspect"]
    assert table["suspect"][:42].mean() > 0.9
    assert irtbench.read_items(out / "artifacts.csv", where={"suspect": "0"}).n_items == 60 - found["n_suspect"]
    # run on its own output it replaces its columns
    run("evaluate artifacts out/artifacts.csv --repeats 1 -o again --quiet", cwd=tmp_path)
    assert (tmp_path / "again" / "artifacts.csv").read_text() == (out / "artifacts.csv").read_text()
