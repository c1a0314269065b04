"""Mantel-Haenszel and regression on the score: R's figures, planted differences, what cannot be compared."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from builders.mirt_figures import verbal
from builders.refusals import is_refused
from irtbench import ItemParameters, ResponseMatrix, as_responses, simulate_responses
from irtbench.analysis.bias_by_score import mantel_haenszel, score_regression
from irtbench.analysis.item_differences import ets_class, jodoin_gierl_class, purified_anchors

Grouped = tuple[ResponseMatrix, list[str]]
TYPES = {"any": "both", "uniform": "udif", "crossing": "nudif"}  # difR 5.1 calls them so


@pytest.fixture(scope="module")
def aggression(reference: Path) -> Grouped:
    """Women are the reference."""
    responses, women = verbal(reference)
    return responses, ["women" if woman else "men" for woman in women]


def figures(reference: Path, name: str, responses: ResponseMatrix, **chosen: object) -> pd.DataFrame:
    """Rows of one of difR's tables, in the order of the items."""
    table = pd.read_csv(reference / "next" / "04_dif" / name)
    for column, value in chosen.items():
        table = table[table[column] == value]
    return table.set_index("item").loc[list(responses.item_ids)]


@pytest.mark.parametrize("purify", [False, True])
@pytest.mark.parametrize("continuity", [False, True])
def test_mantel_haenszel_is_that_of_difr(aggression: Grouped, reference: Path, purify: bool, continuity: bool) -> None:
    responses, groups = aggression
    found = mantel_haenszel(responses, groups, reference="women", purify=purify, continuity=continuity)
    expected = figures(reference, "verbal_mh.csv", responses, purify=purify, continuity=continuity)
    np.testing.assert_allclose(found.chi2, expected["MH"], atol=1e-7)
    np.testing.assert_allclose(found.p, expected["p"], atol=1e-8)
    np.testing.assert_allclose(found.odds_ratio, expected["alpha_MH"], rtol=1e-8)
    np.testing.assert_allclose(found.delta, expected["Delta_MH"], atol=1e-8)
    np.testing.assert_allclose(found.se_delta, expected["se_Delta"], rtol=1e-8)
    assert list(found.ets_class) == list(expected["class_ETS_rule"])
    assert list(found.table()) [:8] == [
        *("item_id", "chi2", "df", "p", "p_adjusted", "odds_ratio", "delta", "ets_class")
    ]  # fmt: skip
    assert found.settled
    assert found.rounds == (7 if purify else 1)  # verbal_mh_purification_steps.csv


@pytest.mark.parametrize("purify", [False, True])
@pytest.mark.parametrize("difference", TYPES)
def test_regression_on_the_score_is_that_of_difr(
    aggression: Grouped, reference: Path, purify: bool, difference: str
) -> None:
    responses, groups = aggression
    if purify and difference == "crossing":
        pytest.skip("difR stops with an error where nothing is flagged")
    found = score_regression(responses, groups, reference="women", difference=difference, purify=purify)
    chosen = {"purify": purify, "type": TYPES[difference], "criterion": "LRT"}
    expected = figures(reference, "verbal_logistic.csv", responses, **chosen)
    np.testing.assert_allclose(found.x2, expected["stat"], atol=1e-7)
    np.testing.assert_allclose(found.p, expected["p"], atol=1e-8)
    np.testing.assert_allclose(found.r2_change, expected["delta_R2_Nagelkerke"], atol=1e-9)
    assert list(found.r2_class) == list(expected["class_JG"])


def test_each_part_of_the_regression_is_that_of_three_glms(aggression: Grouped, reference: Path) -> None:
    responses, groups = aggression
    found = score_regression(responses, groups, reference="women", purify=False)
    expected = figures(reference, "verbal_logistic_glm.csv", responses)
    np.testing.assert_allclose(found.x2_uniform, expected["LR_uniform"], atol=1e-7)
    np.testing.assert_allclose(found.x2_crossing, expected["LR_nonuniform"], atol=1e-7)
    np.testing.assert_allclose(found.r2_uniform, expected["dR2_uniform"], atol=1e-9)
    np.testing.assert_allclose(found.r2_crossing, expected["dR2_nonuniform"], atol=1e-9)
    np.testing.assert_allclose(found.x2, found.x2_uniform + found.x2_crossing, atol=1e-9)


@pytest.mark.parametrize("purify", [False, True])
def test_three_groups_are_compared_as_difr_does(reference: Path, purify: bool) -> None:
    """1,200 respondents of groups R, F1 and F2, simulated."""
    table = pd.read_csv(reference / "next" / "04_dif" / "sim3_data.csv")
    groups = table.pop("group").tolist()
    responses = as_responses(table)
    found = mantel_haenszel(responses, groups, reference="R", purify=purify)
    expected = figures(reference, "sim3_multigroup.csv", responses, method="GMH", purify=purify)
    np.testing.assert_allclose(found.chi2, expected["stat"], atol=1e-7)
    np.testing.assert_allclose(found.p, expected["p"], atol=1e-8)
    assert found.df == 2
    assert np.isnan(found.odds_ratio).all()
    assert set(found.ets_class) == {""}
    for difference in ("any", "uniform"):
        fitted = score_regression(responses, groups, reference="R", difference=difference, purify=purify)
        method = f"genlogistic_{TYPES[difference]}"
        expected = figures(reference, "sim3_multigroup.csv", responses, method=method, purify=purify)
        np.testing.assert_allclose(fitted.x2, expected["stat"], atol=1e-7)
        np.testing.assert_allclose(fitted.r2_change, expected["delta_R2"], atol=1e-9)
        assert fitted.df == (4 if difference == "any" else 2)


def test_classes_at_their_limits() -> None:
    delta = np.array([0.99, -1.2, -1.2, 1.6, -1.6, np.inf])
    error = np.array([0.1, 0.1, 0.1, 0.3, 0.4, np.nan])
    significant = np.array([True, False, True, True, True, True])
    # (1.6 - 1) / .3 = 2 > 1.645 but (1.6 - 1) / .4 = 1.5
    assert ets_class(delta, error, significant) == ("A", "A", "B", "C", "B", "")
    assert jodoin_gierl_class(np.array([0.034, 0.036, 0.071])) == ("A", "B", "C")


def rasch_like(shift: np.ndarray, *, seed: int, n: int = 1000) -> Grouped:
    """Two groups of the same ability, some items harder for the second."""
    rng = np.random.default_rng(seed)
    b = rng.normal(0, 0.8, len(shift))
    parts = [
        simulate_responses(rng.normal(size=n), ItemParameters.from_difficulty(np.ones(len(b)), place), rng=rng).values
        for place in (b, b + shift)
    ]
    return as_responses(np.vstack(parts)), ["people"] * n + ["machines"] * n


def test_a_planted_difference_is_found_with_its_size_whoever_is_the_reference() -> None:
    responses, groups = rasch_like(np.eye(15)[4] * 0.8, seed=1)
    for test in (mantel_haenszel, score_regression):
        found = test(responses, groups, reference="people", adjustment="holm")
        assert np.flatnonzero(found.p_adjusted < 0.05).tolist() == [4]
    found, turned = (mantel_haenszel(responses, groups, reference=name) for name in ("people", "machines"))
    # slope 1: .8 logits harder, delta -1.88; its standard error is about .25
    assert found.delta[4] == pytest.approx(-1.88, abs=0.6)
    np.testing.assert_allclose(turned.chi2, found.chi2)
    np.testing.assert_allclose(turned.delta, -found.delta)


def test_respondents_without_a_group_or_a_response_are_left_out_and_counted() -> None:
    responses, groups = rasch_like(np.zeros(6), seed=4, n=100)
    values = responses.values.copy()
    values[:7, 2] = np.nan
    found = mantel_haenszel(values, [None if i == 50 else name for i, name in enumerate(groups)])
    assert found.n_left_out == 8
    assert found.groups == {"machines": 100, "people": 92}
    keep = [i for i in range(200) if i > 6 and i != 50]
    alone = mantel_haenszel(responses.values[keep], [groups[i] for i in keep], reference="machines")
    np.testing.assert_array_equal(found.chi2, alone.chi2)


def test_sets_of_anchors_that_return_end_the_search_and_say_so() -> None:
    # item 0 is flagged if and only if it is an anchor: the sets alternate
    def test(anchor: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
        p = np.where(np.arange(8) == 0, np.where(anchor[0], 0.01, 0.9), 0.5)
        return 1 - p, p, f"{anchor.sum()} anchors"

    every = np.ones(8, dtype=np.bool_)
    anchor, found, rounds, settled = purified_anchors(test, every, alpha=0.05, purify=True)
    assert (anchor[0], rounds, settled) == (False, 2, False)
    assert (found[1][0], found[2]) == (0.9, "7 anchors")  # what was found by them
    # and were all flagged, a quarter with the smallest statistics stays
    anchor, _, _, settled = purified_anchors(
        lambda a: (np.arange(8.0), np.zeros(8), None), every, alpha=0.05, purify=True
    )
    assert np.flatnonzero(anchor).tolist() == [0, 1]
    assert settled


def test_an_item_that_one_group_always_gets_right_has_no_class() -> None:
    responses, groups = rasch_like(np.zeros(6), seed=5, n=60)
    values = responses.values.copy()
    values[60:, 1] = 1
    found = mantel_haenszel(values, groups, reference="people", purify=False)
    assert found.delta[1] == np.inf  # easier for the focal group
    assert np.isnan(found.se_delta[1])
    assert found.ets_class[1] == ""
    assert np.isfinite(found.chi2).all()


@pytest.mark.parametrize("test", [mantel_haenszel, score_regression])
def test_wrong_input_is_named(test: Any) -> None:
    responses, groups = rasch_like(np.zeros(5), seed=6, n=30)
    is_refused("59 groups for 60 respondents", test, responses, groups[:-1])
    is_refused("expected respondents of two groups or more", test, responses, ["a"] * 60)
    is_refused("no respondent is in group z; expected one of people, machines", test, responses, groups, reference="z")
    is_refused("5 respondents in group b answered all 5 items", test, responses, ["a"] * 55 + ["b"] * 5)
    is_refused("alpha must be between 0 and 1", test, responses, groups, alpha=1.0)
    is_refused("'any', 'uniform' or 'crossing' but got 'both'", score_regression, responses, groups, difference="both")
    is_refused("2 items; expected at least 3", test, responses.values[:, :2], groups)
    values = np.where(np.arange(5) == 3, 0, responses.values)
    is_refused("all responses are the same for item item4", test, values, groups)
    numbers = [int(name == "people") for name in groups]  # names of groups may be numbers, and so the reference
    assert list(test(responses, numbers, reference=1).groups) == ["1", "0"]
