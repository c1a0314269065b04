"""Scores from k right of n trials: every estimator, person fit, accuracy, and tables scored part by part."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.answered_banks import make_scale
from builders.refusals import is_refused
from irtbench import ItemBank, ItemParameters, ResponseMatrix, person_fit, score_file, with_item_error
from irtbench.data.readers import table_blocks
from irtbench.scoring.ability import Method, estimate_ability
from irtbench.scoring.scores import score_responses

N_ITEMS = 12
BANK = ItemBank((make_scale("i", N_ITEMS),))
ITEMS = BANK.scales[0].items


def tried(n_respondents: int = 9) -> ResponseMatrix:
    """0 to 4 trials an item; the first respondent is right every time, the second wrong, the third has one trial."""
    rng = np.random.default_rng(2)
    n = rng.integers(0, 5, (n_respondents, N_ITEMS))
    n[2] = 0
    n[2, 3] = 1
    k = rng.binomial(n, 0.6).astype(float)
    k[0], k[1] = n[0], 0
    k[n == 0] = np.nan
    return ResponseMatrix(k, tuple(f"s{i}" for i in range(n_respondents)), ITEMS.item_ids, n)


def one_by_one(responses: ResponseMatrix, items: ItemParameters) -> tuple[ResponseMatrix, ItemParameters]:
    """Each trial as an item of its own with the same parameters."""
    number = np.arange(responses.trials.max())
    values = np.where(number < np.nan_to_num(responses.correct)[:, :, None], 1.0, 0.0)
    values = np.where(number < responses.trials[:, :, None], values, np.nan).reshape(responses.n_respondents, -1)
    names = tuple(f"{item}/{t}" for item in items.item_ids for t in number)
    parts = (items.discrimination, items.intercept, items.guessing, items.guessing_estimated)
    repeated = ItemParameters(names, *(np.repeat(part, len(number)) for part in parts))
    return ResponseMatrix(values, responses.respondent_ids, names), repeated


@pytest.mark.parametrize("guessing", [0.0, 0.15])
@pytest.mark.parametrize("method", ["eap", "map", "ml", "wle", "eap_sum"])
def test_every_estimator_is_that_of_the_trials_one_by_one(method: Method, guessing: float) -> None:
    items, responses = make_scale("i", N_ITEMS, guessing=guessing).items, tried()
    expanded, repeated = one_by_one(responses, items)
    found = estimate_ability(responses, items, method=method)
    expected = estimate_ability(expanded, repeated, method=method)
    ends = 2e-3 if method == "eap_sum" else 1e-8  # quantiles on grids that are not the same
    for name, error in (("theta", 1e-8), ("standard_error", 1e-8), ("lower", ends), ("upper", ends)):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=error, err_msg=name)
    np.testing.assert_array_equal(found.at_bound, expected.at_bound)
    np.testing.assert_array_equal(found.n_correct, expected.n_correct)
    np.testing.assert_array_equal(found.n_trials, expected.n_items)


def test_lz_is_that_of_the_trials_one_by_one_and_mean_squares_are_of_numbers_right() -> None:
    responses = tried()
    expanded, repeated = one_by_one(responses, ITEMS)
    theta = estimate_ability(responses, ITEMS).theta
    with pytest.warns(RuntimeWarning, match="lz"):  # of one response nothing is left to judge
        found, expected = person_fit(responses, ITEMS, theta), person_fit(expanded, repeated, theta)
    np.testing.assert_allclose(found.lz, expected.lz, atol=1e-10)
    np.testing.assert_allclose(found.lz_star, expected.lz_star, atol=1e-8)
    # by hand: k - n P against n P (1 - P)
    k, n = responses.correct[4], responses.n_trials[4]
    p = 1 / (1 + np.exp(-(ITEMS.discrimination * theta[4] + ITEMS.intercept)))
    seen = n > 0
    square, variance = (k - n * p)[seen] ** 2, (n * p * (1 - p))[seen]
    assert found.infit[4] == pytest.approx(square.sum() / variance.sum())
    assert found.outfit[4] == pytest.approx((square / variance).mean())


@pytest.mark.parametrize("method", ["eap", "map"])
def test_the_items_error_is_common_to_their_trials(method: Method) -> None:
    """By hand: moving one intercept moves theta by its derivative."""
    h = 1e-5
    often = ResponseMatrix(np.full((1, N_ITEMS), 3.0), ("s",), ITEMS.item_ids, np.full((1, N_ITEMS), 5))
    steps = [replace(ITEMS, intercept=ITEMS.intercept + np.eye(N_ITEMS)[0] * step) for step in (-h, h)]
    down, up = (float(estimate_ability(often, moved, method=method).theta[0]) for moved in steps)
    only = np.zeros((N_ITEMS, 3, 3))
    only[0, 1, 1] = 1.0
    plain = estimate_ability(often, ITEMS, method=method)
    found = with_item_error(plain, often, replace(ITEMS, covariance=only), item_error="delta")
    variance = found.standard_error[0] ** 2 - plain.standard_error[0] ** 2
    assert variance == pytest.approx(((up - down) / (2 * h)) ** 2, rel=0.02)
    drawn = with_item_error(plain, often, ITEMS, item_error="draw")
    assert drawn.standard_error[0] > plain.standard_error[0]


def test_eap_of_the_reference(reference: Path) -> None:
    """61 nodes on [-6, 6]; R 4.x, see the figures' own README."""
    folder = reference / "next" / "12_binomial"
    names = {"person": "respondent_id", "item": "item_id", "k": "n_correct", "n": "n_trials"}
    responses = ResponseMatrix.from_long(pd.read_csv(folder / "a_n4_data.csv").rename(columns=names))
    known = pd.read_csv(folder / "a_n4_pars.csv").set_index("item").loc[list(responses.item_ids)]
    items = ItemParameters(responses.item_ids, known["a"], known["d"], np.zeros(len(known)), [False] * len(known))
    expected = pd.read_csv(folder / "a_n4_eap.csv").set_index("person").loc[list(responses.respondent_ids)]
    found = estimate_ability(responses, items)
    np.testing.assert_allclose(found.theta, expected["theta_eap"], atol=2e-5)
    np.testing.assert_allclose(found.standard_error, expected["sd_eap"], atol=2e-5)


def test_accuracy_counts_an_item_once() -> None:
    none = [0] * (N_ITEMS - 2)
    k, n = np.array([[3.0, 0, *none]]), np.array([[4, 1, *none]])
    responses = ResponseMatrix(np.where(n > 0, k, np.nan), ("s",), ITEMS.item_ids, n)
    (row,) = score_responses(BANK, responses).to_dict("records")
    assert (row["n_items"], row["n_correct"], row["n_trials"]) == (2, 3, 5)
    assert (row["accuracy"], row["flags"]) == ((3 / 4 + 0) / 2, "few_items")
    flags = score_responses(BANK, tried()).set_index("respondent_id")["flags"]
    assert "all_correct" in flags["s0"]
    assert "all_wrong" in flags["s1"]


@pytest.mark.parametrize("counted", [False, True])
def test_a_table_scored_part_by_part(tmp_path: Path, counted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows need not be adjacent; the same trial twice is refused."""
    responses = tried(15)
    table = responses.to_long()
    if not counted:
        rows = table.loc[table.index.repeat(table["n_trials"])]
        trial = rows.groupby(["respondent_id", "item_id"]).cumcount() + 1
        rows = rows.assign(trial=trial, response=(trial <= rows["n_correct"]).astype(int))
        table = rows.drop(columns=["n_correct", "n_trials"])
    monkeypatch.setattr(table_blocks, "ROWS_READ", 29)
    expected = score_responses(BANK, responses).set_index("respondent_id")
    file, target = tmp_path / "in.csv", tmp_path / "out.csv"
    for rows in (table, table.sample(frac=1, random_state=0)):
        rows.to_csv(file, index=False)
        assert score_file(BANK, file, target) == 15
        found = pd.read_csv(target).set_index("respondent_id").loc[expected.index]
        for name in ("n_items", "n_correct", "accuracy", "theta", "se", "person_fit", "n_trials"):
            np.testing.assert_allclose(found[name], expected[name].astype(float), atol=1e-6, err_msg=name)
    pd.concat([table, table.iloc[-1:]]).to_csv(file, index=False)
    is_refused("come twice", score_file, BANK, file, target)
    if counted:
        table.astype({"n_trials": str}).replace({"n_trials": {"3": "three"}}).to_csv(file, index=False)
        saying = "column n_trials: expected a whole number but it holds 'three'"
        is_refused(saying, score_file, BANK, file, target)
