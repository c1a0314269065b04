"""Responses in categories with known truth: fits recover it, a bank's items and scores are drawn, and refusals."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import run


@pytest.mark.parametrize("model", ["gpcm", "rsm"])
def test_a_fit_recovers_what_was_simulated_within_its_errors(tmp_path: Path, model: str) -> None:
    run(f"simulate -o {tmp_path} --respondents 1500 --items 10 --categories 4 --model {model} --missing 0.1 --seed 3")
    run(f"fit {tmp_path}/responses.csv --model {model} -o {tmp_path}/fit")
    truth, found = (
        pd.read_csv(path).set_index("item_id") for path in (tmp_path / "items.csv", tmp_path / "fit/items.csv")
    )
    names = [f"step_{k}" for k in (1, 2, 3)]
    z = (found[names] - truth[names]).to_numpy() / found[[f"se_{name}" for name in names]].to_numpy()
    assert 0.6 < np.sqrt((z**2).mean()) < 1.5
    people = pd.read_csv(tmp_path / "respondents.csv").merge(
        pd.read_csv(tmp_path / "fit/scores.csv"), on="respondent_id"
    )
    assert np.corrcoef(people["theta_x"], people["theta_y"])[0, 1] > 0.9
    if model == "rsm":
        np.testing.assert_allclose(truth[names].diff(axis=1).dropna(axis=1).std(), 0, atol=1e-9)


def test_of_no_order_the_scores_of_each_category_are_drawn(tmp_path: Path) -> None:
    run(f"simulate -o {tmp_path} --respondents 3000 --items 4 --categories 3 --model nominal")
    run(f"fit {tmp_path}/responses.csv --model nominal -o {tmp_path}/fit")
    truth, found = (
        pd.read_csv(path).set_index("item_id") for path in (tmp_path / "items.csv", tmp_path / "fit/items.csv")
    )
    np.testing.assert_allclose(found["a2"], truth["a2"], atol=0.6)


def test_the_items_of_a_bank_are_answered_in_its_words_by_its_population(tmp_path: Path) -> None:
    run(f"simulate -o {tmp_path}/one --respondents 400 --items 6 --model pcm --categories 3")
    scores = pd.read_csv(tmp_path / "one/responses.csv")
    scores.assign(score=scores["score"].map({0: "poor", 1: "fair", 2: "good"})).to_csv(
        tmp_path / "words.csv", index=False
    )
    run(f"fit {tmp_path}/words.csv --model pcm --levels poor,fair,good -o {tmp_path}/fit")
    run(f"simulate --bank {tmp_path}/fit/bank.json -o {tmp_path}/two --respondents 2000")
    drawn, sd = pd.read_csv(tmp_path / "two/responses.csv"), pd.read_csv(tmp_path / "fit/items.csv")["population_sd"][0]
    assert set(drawn["score"]) == {"poor", "fair", "good"}
    assert pd.read_csv(tmp_path / "two/respondents.csv")["theta"].std() == pytest.approx(sd, rel=0.05)
    shares = [table["score"].value_counts(normalize=True) for table in (drawn, pd.read_csv(tmp_path / "words.csv"))]
    np.testing.assert_allclose(shares[0].sort_index(), shares[1].sort_index(), atol=0.03)
