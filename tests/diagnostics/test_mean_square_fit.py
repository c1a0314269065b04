"""Infit and outfit: eRm's and mirt's figures, the distribution of z where items fit, and a planted misfit."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.mirt_figures import verbal


@pytest.mark.parametrize("name", ["lsat6", "verbal"])
def test_figures_are_erms(real_data: Path, reference: Path, name: str) -> None:
    """eRm 1.0.2 itemfit at ML theta on CML difficulties, scores of 0 and all left out: reference/next/07_rasch."""
    folder = reference / "next"
    if name == "lsat6":
        table = pd.read_csv(real_data / "lsat6" / "responses.csv").rename(columns={"correct": "response"})
        values = irtbench.ResponseMatrix.from_long(table).values
    else:
        values = verbal(reference)[0].values
    n_items = values.shape[1]
    difficulty = pd.read_csv(folder / "07_rasch" / f"{name}_pars.csv")["cml_b_sum0"]
    of_score = pd.read_csv(folder / "07_rasch" / f"{name}_eRm_score_theta.csv").set_index("score")["theta_ML_cml"]
    score = values.sum(axis=1)
    theta = of_score.reindex(score).to_numpy(copy=True)
    theta[(score == 0) | (score == n_items)] = np.inf
    items = irtbench.ItemParameters.from_difficulty([1.0] * n_items, difficulty)
    found = irtbench.mean_square_fit(values, items, theta)
    theirs = pd.read_csv(folder / "07_rasch" / f"{name}_fit_items.csv")
    table = found.table()
    for ours, other in (
        ("infit", "infit_eRm"), ("outfit", "outfit_eRm"), ("infit_z", "infit_t_eRm"), ("outfit_z", "outfit_t_eRm"),
    ):  # fmt: skip
        np.testing.assert_allclose(table[ours], theirs[other], atol=1e-7)
    assert (found.n_respondents == ((score > 0) & (score < n_items)).sum()).all()


def test_an_upper_asymptote_by_hand() -> None:
    # u = .8 and theta = b: P = .4, Q = .6; three right and two wrong: (3 .36 + 2 .16) / (5 .24)
    items = irtbench.ItemParameters.from_difficulty([1.0], [0.0])
    items = replace(items, upper_asymptote=np.array([0.8]))
    found = irtbench.mean_square_fit(np.array([[1.0], [1], [1], [0], [0]]), items, np.zeros(5)).table()
    assert (found["infit"][0], found["outfit"][0]) == pytest.approx((1.4 / 1.2, 1.4 / 1.2))


def test_ranges_hold_where_items_fit_and_a_planted_misfit_is_found() -> None:
    rng = np.random.default_rng(1)
    items = irtbench.ItemParameters.from_difficulty([1.0] * 200, rng.normal(0, 1, 200))
    theta = rng.normal(size=500)
    values = irtbench.simulate_responses(theta, items, rng=rng, missing=0.2).values.copy()
    table = irtbench.mean_square_fit(values, items, theta).table()
    for name in ("infit", "outfit"):
        inside = table[name].between(table[f"{name}_lower"], table[f"{name}_upper"])
        assert 0.90 <= inside.mean() <= 0.99  # 95% of 200: standard error .015
        np.testing.assert_array_equal(inside, table[f"{name}_p"] >= 0.05)
        assert abs(table[f"{name}_z"].std() - 1) < 0.2
    values[:, 0] = rng.integers(0, 2, 500)
    spoilt = irtbench.mean_square_fit(values, items, theta).table()
    assert spoilt["infit_p_adjusted"][0] < 0.001
    assert spoilt["infit"][0] > spoilt["infit_upper"][0]


def test_one_item_by_hand() -> None:
    # theta 0 on an item of difficulty 0: W = 1/4, (x - P)^2 / W = 1 whatever x, and C / W^2 - 1 = 1 / W - 4 = 0
    item = irtbench.ItemParameters.from_difficulty([1.0], [0.0])
    found = irtbench.mean_square_fit([[1], [0], [1]], item, [0.0, 0.0, 0.0])
    assert found.infit[0] == found.outfit[0] == pytest.approx(1)
    assert found.infit_q[0] == pytest.approx(0, abs=1e-7)
    assert found.outfit_q[0] == pytest.approx(0, abs=1e-7)
    # theta log 3: P = 3/4, W = 3/16; right: (1/4)^2 / W = 1/3
    found = irtbench.mean_square_fit([[1]], item, [np.log(3)])
    assert found.outfit[0] == pytest.approx(1 / 3)
    assert found.outfit_q[0] == pytest.approx(np.sqrt(16 / 3 - 4))
    assert found.infit_q[0] == pytest.approx(np.sqrt(3 / 16 * (1 - 12 / 16)) / (3 / 16))


def test_wrong_input_is_said_in_a_line() -> None:
    item = irtbench.ItemParameters.from_difficulty([1.0], [0.0])
    for theta, options, said in (
        ([0.0], {}, "1 abilities for 2 respondents"),
        ([0.0, 0.0], {"level": 0}, "level must be between 0 and 1"),
    ):
        with pytest.raises(irtbench.InputError, match=said):
            irtbench.mean_square_fit([[1], [0]], item, theta, **options)
    trials = irtbench.simulate_responses([0.0, 1.0], item, rng=np.random.default_rng(1), trials=3)
    with pytest.raises(irtbench.InputError, match="several trials"):
        irtbench.mean_square_fit(trials, item, [0.0, 1.0])
