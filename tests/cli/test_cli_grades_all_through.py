"""A bank of grades in every command that takes one: short forms, adaptive tests, predictions, as a user types them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import refused, run


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four-category scores of 250 systems on 12 prompts, their bank, and ten systems' scores of half the prompts."""
    folder = tmp_path_factory.mktemp("graded")
    run(f"simulate -o {folder} --respondents 250 --items 12 --categories 4 --model grm --seed 3 -q")
    run(f"fit {folder}/responses.csv --model grm -o {folder}/fit -q")
    scores = pd.read_csv(folder / "responses.csv")
    some = scores[scores["respondent_id"].isin(scores["respondent_id"].unique()[:10])]
    some.to_csv(folder / "ten.csv", index=False)
    some[some["item_id"] <= "item06"].to_csv(folder / "half.csv", index=False)
    return folder


@pytest.mark.parametrize(
    ("source", "wish"), [("items.csv", "--reliability 0.7"), ("bank.json", "--length 5 --for accuracy")]
)
def test_a_short_form_is_a_bank_that_scores(graded: Path, tmp_path: Path, source: str, wish: str) -> None:
    run(f"form assemble {graded}/fit/{source} {wish} -o form --html form.html", cwd=tmp_path)
    form = pd.read_csv(tmp_path / "form/form.csv")
    assert set(form["item_id"]) < {f"item{j:02d}" for j in range(1, 13)}
    run(f"score form/bank.json {graded}/ten.csv -o s.csv --item-error none --unknown-items ignore", cwd=tmp_path)
    assert (pd.read_csv(tmp_path / "s.csv")["n_items"] == len(form)).all()


def test_tests_are_replayed_and_simulated(graded: Path, tmp_path: Path) -> None:
    for source, how in (("bank.json", f"--replay ten.csv --figures {tmp_path}"), ("items.csv", "--simulate 10")):
        run(f"form adapt fit/{source} {how} --se 0.45 -o {tmp_path}/path.csv", cwd=graded)
        path = pd.read_csv(tmp_path / "path.csv")
        assert set(path["response"]) <= set(range(4))
        assert (path.groupby("respondent_id")["step"].max() < 12).any()


def test_points_on_all_items_are_predicted(graded: Path, tmp_path: Path) -> None:
    truth = pd.read_csv(graded / "ten.csv").groupby("respondent_id")["score"].mean() / 3
    for learnt in ("", "--learn-from responses.csv"):
        run(f"predict fit/bank.json half.csv -o {tmp_path}/p.csv {learnt}", cwd=graded)
        found = pd.read_csv(tmp_path / "p.csv").set_index("respondent_id")
        assert np.corrcoef(found["predicted_accuracy"], truth[found.index])[0, 1] > 0.9
        assert (found["predicted_upper"] - found["predicted_lower"]).between(0.02, 0.6).all()


def test_categories_in_disorder_and_grades_that_nobody_was_given_are_named(graded: Path, tmp_path: Path) -> None:
    scores = pd.read_csv(graded / "responses.csv")
    rare = (scores["item_id"] == "item01") & (scores["score"] == 1) & (scores["respondent_id"].str[-1] != "0")
    scores.loc[rare, "score"] = 2  # hardly ever a 1
    scores.loc[(scores["item_id"] == "item02") & (scores["score"] == 2), "score"] = 3
    scores.to_csv(tmp_path / "scores.csv", index=False)
    assert (
        "given to nobody, and so no categories: item02 (2)"
        in run("fit scores.csv --model gpcm -o fit", cwd=tmp_path).out
    )
    shown = run("items show fit/bank.json -o shown --figures", cwd=tmp_path).out
    found = pd.read_csv(tmp_path / "shown/categories.csv").set_index(["item_id", "category"])
    assert found.loc[("item01", 1), "never_most_likely"] == 1
    assert found.loc[("item01", 2), "step_reversed"] == 1
    assert "item01 (1)" in shown
    assert [*found.loc["item02"].index] == [0, 1, 3]
    assert (tmp_path / "shown/categories_12.svg").exists()
    assert not (tmp_path / "shown/categories_13.svg").exists()


def test_pairs_of_grades_have_a_p_by_the_bootstrap_where_it_is_asked_for(graded: Path, tmp_path: Path) -> None:
    scores = pd.read_csv(graded / "responses.csv")
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
