"""Responses in categories with known truth: fits recover it, a bank's items and scores are drawn, and refusals."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import run


@pytest.mark.parametrize("model", ["2pl", "gpcm", "rsm"])
def test_a_fit_recovers_what_was_simulated_within_its_errors(tmp_path: Path, model: str) -> None:
    """Of 12 difficulties or 36 steps: the root mean square of z is 1, its standard error .2 or .12."""
    how = "--seed 5" if model == "2pl" else "--categories 4 --missing 0.1 --seed 3"
    for name in ("one", "two"):
        run(f"simulate -o {name} --respondents 800 --items 12 --model {model} {how} -q", cwd=tmp_path)
    assert (tmp_path / "one" / "responses.csv").read_bytes() == (tmp_path / "two" / "responses.csv").read_bytes()
    run(f"fit one/responses.csv --model {model} -o fit -q", cwd=tmp_path)
    truth, found = (pd.read_csv(tmp_path / folder / "items.csv").set_index("item_id") for folder in ("one", "fit"))
    names = ["difficulty"] if model == "2pl" else [f"step_{k}" for k in (1, 2, 3)]
    z = (found[names] - truth[names]).to_numpy() / found[[f"se_{name}" for name in names]].to_numpy()
    assert 0.55 < np.sqrt((z**2).mean()) < 1.6
    people = pd.read_csv(tmp_path / "one" / "respondents.csv").merge(
        pd.read_csv(tmp_path / "fit" / "scores.csv"), on="respondent_id"
    )
    assert np.corrcoef(people["theta_x"], people["theta_y"])[0, 1] > 0.85
    if model == "rsm":
        np.testing.assert_allclose(truth[names].diff(axis=1).dropna(axis=1).std(), 0, atol=1e-9)
    if model == "2pl":  # the truth is of the stated density: five standard errors of a mean and of a deviation
        log_a = np.log(truth["discrimination"])
        assert abs(log_a.mean() - 0.2) < 5 * 0.3 / np.sqrt(12)
        assert 0.3 / 2.2 < log_a.std() < 0.3 * 2.2


def test_of_no_order_the_scores_of_each_category_are_drawn(tmp_path: Path) -> None:
    run("simulate -o . --respondents 2000 --items 4 --categories 3 --model nominal", cwd=tmp_path)
    run("fit responses.csv --model nominal -o fit", cwd=tmp_path)
    truth, found = (pd.read_csv(tmp_path / file).set_index("item_id")["a2"] for file in ("items.csv", "fit/items.csv"))
    np.testing.assert_allclose(found, truth, atol=0.6)


def test_the_items_of_a_bank_are_answered_in_its_words_by_its_population(tmp_path: Path) -> None:
    run("simulate -o one --respondents 400 --items 6 --model pcm --categories 3", cwd=tmp_path)
    scores = pd.read_csv(tmp_path / "one/responses.csv")
    words = scores.assign(score=scores["score"].map({0: "poor", 1: "fair", 2: "good"}))
    words.to_csv(tmp_path / "words.csv", index=False)
    run("fit words.csv --model pcm --levels poor,fair,good -o fit", cwd=tmp_path)
    run("simulate --bank fit/bank.json -o two --respondents 2000", cwd=tmp_path)
    drawn, sd = pd.read_csv(tmp_path / "two/responses.csv"), pd.read_csv(tmp_path / "fit/items.csv")["population_sd"][0]
    assert pd.read_csv(tmp_path / "two/respondents.csv")["theta"].std() == pytest.approx(sd, rel=0.05)
    shares = [table["score"].value_counts(normalize=True).sort_index() for table in (drawn, words)]
    pd.testing.assert_series_equal(*shares, atol=0.03)


def test_one_is_said_to_be_one(tmp_path: Path) -> None:
    done = run("simulate --items 1 --respondents 1 -o one", cwd=tmp_path)
    assert done.out.startswith("1 response of 1 respondent to 1 item, ")
    assert "length 1: 1 item; " in run("form assemble one/items.csv --length 1 -o form", cwd=tmp_path).out
