"""``irtbench items diagnose --bootstrap`` and ``irtbench build --control``: what only its user sees."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import refused, run
from irtbench.cli.items import FILES
from irtbench.cli.main import BY_CTRL_C


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Graded responses to ten items of which one pair is dependent, with one that everybody got right."""
    folder = tmp_path_factory.mktemp("diagnose")
    rng = np.random.default_rng(4)
    items = irtbench.ItemParameters.from_difficulty(rng.uniform(1, 2, 10), rng.normal(0, 0.7, 10))
    values = irtbench.simulate_responses(rng.normal(size=400), items, rng=rng).values.astype(int)
    copied = rng.random(400) < 0.5
    values[copied, 7] = values[copied, 3]
    wide = pd.DataFrame(values, columns=list(items.item_ids)).assign(easy=1)
    wide.insert(0, "respondent_id", [f"r{i}" for i in range(400)])
    wide.to_csv(folder / "responses.csv", index=False)
    (folder / "study.toml").write_text(
        '[data]\nanswers = "responses.csv"\ncontent = "responses"\n[scales]\nby = "none"\n'
        '[pruning]\npreset = "lalor2016"\n'
    )
    run(f"fit {folder}/responses.csv -o {folder}/fit --quiet")
    return folder


def test_diagnose_gives_the_bootstraps_p(study: Path, tmp_path: Path) -> None:
    run(f"items diagnose {study}/responses.csv --items {study}/fit/items.csv -o {tmp_path}/d --bootstrap 19 --quiet")
    pairs = pd.read_csv(tmp_path / "d" / "local_dependence.csv")
    least = pairs.loc[pairs["p_bootstrap_adjusted"].idxmin()]
    assert {least["item_1"], least["item_2"]} == {"item4", "item8"}
    assert least["p_bootstrap_adjusted"] == 1 / 20
    of_bank = f"--items {study}/fit/bank.json --scale all"
    run(f"items diagnose {study}/responses.csv {of_bank} -o {tmp_path}/n --bootstrap 0 --quiet")
    assert "p_bootstrap" not in pd.read_csv(tmp_path / "n" / "local_dependence.csv")
    for name in ("item_fit.csv", "person_fit.csv"):
        pd.testing.assert_frame_equal(*(pd.read_csv(tmp_path / folder / name) for folder in "nd"))
    reliability = [json.loads((tmp_path / folder / "reliability.json").read_text()) for folder in "nd"]
    pd.testing.assert_frame_equal(*map(pd.json_normalize, reliability))


def test_a_bootstrap_that_cannot_be_is_refused(study: Path, tmp_path: Path) -> None:
    items = pd.read_csv(study / "fit" / "items.csv")
    items.loc[0, "model"] = "3pl"
    items.to_csv(tmp_path / "mixed.csv", index=False)
    refused(f"items diagnose {study}/responses.csv --items mixed.csv -o d", saying="several models", cwd=tmp_path)
    nothing = pd.DataFrame(index=pd.Index(["r1"], name="respondent_id"), columns=items["item_id"])
    nothing.to_csv(tmp_path / "empty.csv")
    refused(f"items diagnose empty.csv --items {study}/fit/items.csv -o d", saying="no response", cwd=tmp_path)
    assert not (tmp_path / "d").exists()


def test_the_control_finds_no_scale_where_the_study_does_and_one_found_is_status_1(study: Path, tmp_path: Path) -> None:
    found = run(f"build {study}/study.toml --control -o {tmp_path}/control --json").json
    assert found["n_scales_found"] == 0
    assert found["scales"][0]["n_items"] == 11
    assert not found["scales"][0]["retained"]
    assert sorted(file.name for file in (tmp_path / "control").iterdir()) == ["control.csv", "control.json"]
    keep_all = tmp_path / "study.toml"
    text = (study / "study.toml").read_text().replace("lalor2016", "none")
    keep_all.write_text(text.replace("responses.csv", str(study / "responses.csv")))
    done = run("build", keep_all, "--control", "-o", tmp_path / "found", "-q", status=1)
    assert "control: the rules find a scale where there is nothing: all" in done.err
    assert json.loads((tmp_path / "found" / "control.json").read_text())["n_scales_found"] == 1


def test_an_interrupted_build_goes_on_and_keeps_every_round_and_what_was_checked_first(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted when all but its page was done, and gone on with where it was."""
    built = tmp_path / "out"

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("irtbench.report.html.study_page", interrupt)
        run(f"build {study}/study.toml -o {built} -q", status=BY_CTRL_C)
    assert [file.name for file in tmp_path.iterdir()] == [".out.unfinished"]
    finished = {file.name for file in (tmp_path / ".out.unfinished").rglob("*.json")}
    assert {"dimensions.json", "checks.json", "round_1.json"} <= finished
    for done in ("study.run.find_dimensions", "building.pruning.check_scale", "study.study_data.fit_model"):
        monkeypatch.setattr(f"irtbench.{done}", None)  # whoever does any of it again fails
    run(f"build {study}/study.toml -o {built} -q")
    assert [file.name for file in tmp_path.iterdir()] == ["out"]  # nothing is left of the checkpoint
    removed = pd.read_csv(built / "pruning.csv")
    assert removed.loc[0, ["round", "item_id", "reason"]].tolist() == [0, "easy", "all_correct"]
    assert set(removed["item_id"]) & {"item4", "item8"}
    rounds = pd.read_csv(built / "rounds_items.csv")
    assert rounds["round"].max() == removed["round"].max() + 1
    assert set(rounds.loc[rounds["removed"].notna(), "item_id"]) == set(removed["item_id"]) - {"easy"}
    assert len(pd.read_csv(built / "rounds_pairs.csv").query("round == 1")) == 45
    checks = json.loads((built / "checks.json").read_text())
    assert checks["dimensions"]["n_abilities"] == 1
    assert checks["dimensions"]["models"] is None  # [study] factors, which was not asked for
    assert [model["model"] for model in checks["scales"]["all"]["models"]] == ["one ability", "two abilities"]
    assert len(checks["scales"]["all"]["guessing"]) == 10


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_statistic_that_cannot_be_had_is_named_and_the_others_stand(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(error: Exception) -> Callable[..., None]:
        def fail(*arguments: object, **options: object) -> None:
            raise error

        return fail

    singular, few = np.linalg.LinAlgError("Singular matrix"), "the refit failed in 10 of 10 bootstrap samples"
    monkeypatch.setattr("irtbench.study.item_analysis.item_fit", failing(singular))
    monkeypatch.setattr("irtbench.study.item_analysis.with_bootstrap", failing(ArithmeticError(few)))
    monkeypatch.setattr("irtbench.diagnostics.global_fit.dense_form", failing(singular))
    said = run(f"items diagnose responses.csv --items fit/items.csv -o {tmp_path}/d", cwd=study).out
    assert json.loads((tmp_path / "d" / "not_available.json").read_text()) == {
        "item_fit.csv": "Singular matrix", "p_bootstrap in local_dependence.csv": few,
        "M2 in global_fit.json": "Singular matrix",
    }  # fmt: skip
    assert {file.name for file in (tmp_path / "d").iterdir()} == set(FILES) - {"item_fit.csv"}
    assert "p_bootstrap" not in pd.read_csv(tmp_path / "d" / "local_dependence.csv")
    assert json.loads((tmp_path / "d" / "global_fit.json").read_text())["srmsr"] > 0
    for words in ("item_fit.csv is not available: Singular", "M2 is not available: Singular", "Items as answered"):
        assert words in said


def test_of_many_items_the_worst_are_shown(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    items = irtbench.ItemParameters.from_difficulty(rng.uniform(1, 2, 50), rng.normal(0, 0.7, 50))
    items.table().to_csv(tmp_path / "items.csv", index=False)
    irtbench.simulate_responses(rng.normal(size=150), items, rng=rng).to_long().to_csv(tmp_path / "r.csv", index=False)
    said = run("items diagnose r.csv --items items.csv -o d --bootstrap 0", cwd=tmp_path).out
    assert len(said.splitlines()) < 60
    assert "all 50 items are in d/item_fit.csv" in said
    assert not (tmp_path / "d" / "not_available.json").exists()


def test_of_a_table_too_large_for_memory_a_stated_sample_is_analysed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figures are those of the same respondents given alone, and the output says how they were drawn."""
    rng = np.random.default_rng(5)
    items = irtbench.ItemParameters.from_difficulty(rng.uniform(1, 2, 6), rng.normal(0, 0.7, 6))
    items.table().to_csv(tmp_path / "items.csv", index=False)
    wide = irtbench.simulate_responses(rng.normal(size=1500), items, rng=rng).table().convert_dtypes()
    chosen = np.sort(np.random.default_rng(3).choice(1500, 1000, replace=False, shuffle=False))
    wide.to_parquet(tmp_path / "large.parquet", index=False)
    wide.iloc[chosen].to_parquet(tmp_path / "some.parquet", index=False)
    given = "--items items.csv --bootstrap 0"
    run(f"items diagnose some.parquet {given} -o some --quiet", cwd=tmp_path)
    monkeypatch.setattr("irtbench.cli.large.MOST_FIELDS", 0)
    said = run(f"items diagnose large.parquet {given} -o d --sample 1000 --seed 3 --cache cache", cwd=tmp_path)
    assert "analysed: 1000 respondents, drawn at random of 1500 (seed 3)" in said.out
    for name in ("item_fit.csv", "local_dependence.csv", "person_fit.csv", "classical.csv"):
        found, expected = (pd.read_csv(tmp_path / folder / name) for folder in ("d", "some"))
        pd.testing.assert_frame_equal(found, expected)
    figures = json.loads((tmp_path / "d" / "global_fit.json").read_text())
    assert (figures.pop("sampled_from"), figures.pop("sample_seed")) == (1500, 3)
    assert figures == json.loads((tmp_path / "some" / "global_fit.json").read_text())
