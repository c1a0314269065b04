"""S-X2, infit, outfit, the empirical curve and observed shares against R mirt, hand calculation and planted misfit."""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.mirt_figures import lsat6, papers_scale
from builders.refusals import is_refused
from builders.scales import grades
from builders.simulated import simulated, with_values
from irtbench import FitSettings, ItemParameters, ResponseMatrix, empirical_curve, fit_categories, fit_model
from irtbench.diagnostics.empirical_curve import observed_shares
from irtbench.diagnostics.item_fit import _collapse, item_fit
from irtbench.models.curves import simulate_responses
from irtbench.models.item_models.graded import Graded
from irtbench.models.quadrature import normal_grid

FAST = FitSettings(standard_errors=False)


@pytest.mark.parametrize("model", ["2pl", "rasch", "3plprior"])
def test_lsat6_equals_mirt(real_data: Path, reference: Path, model: str) -> None:
    responses, items, eap = lsat6(real_data, reference, model)
    mirt = pd.read_csv(reference / f"mirt_lsat6_{model}_sx2.csv")
    without = pytest.warns(RuntimeWarning, match="no degree of freedom is left for S-X2 of item3")
    with without if model == "3plprior" else nullcontext():
        fit = item_fit(responses, items, theta=eap)
    if model == "3plprior":  # Holm over the four that are tested: the smallest p counts four times
        assert fit.p_adjusted[1] == pytest.approx(4 * fit.p[1])
    np.testing.assert_allclose(fit.s_x2, mirt["S_X2"], atol=1e-6)  # NaN equals NaN
    np.testing.assert_allclose(fit.p, mirt["p.S_X2"], atol=1e-6)
    np.testing.assert_allclose(fit.rmsea, mirt["RMSEA.S_X2"], atol=1e-6)
    assert fit.df.tolist() == ([1, 1, 0, 1, 1] if model == "3plprior" else mirt["df.S_X2"].tolist())
    assert fit.respondents_used == "all 1000"
    squares = pd.read_csv(reference / f"mirt_lsat6_{model}_itemfit_other.csv")
    np.testing.assert_allclose(fit.infit, squares["infit"], atol=1e-8)
    np.testing.assert_allclose(fit.outfit, squares["outfit"], atol=1e-8)


@pytest.mark.parametrize("label", ["entailment", "neutral"])
def test_the_papers_scales_equal_mirt(real_data: Path, reference: Path, label: str) -> None:
    responses, items, _ = papers_scale(real_data, reference, label)
    mirt = pd.read_csv(reference / f"mirt_5gs_{label}_2pl_sx2.csv")
    fit = item_fit(responses, items)
    assert fit.df.tolist() == mirt["df.S_X2"].tolist()
    np.testing.assert_allclose(fit.s_x2, mirt["S_X2"], atol=2e-3)
    np.testing.assert_allclose(fit.rmsea, mirt["RMSEA.S_X2"], atol=1e-5)


def test_four_equal_items_by_hand() -> None:
    # Items with the same curve: E_k = k / 4, whatever the population. Right answers to item 1 in the three groups of
    # 40: 20 of sum score 1 (10 expected), 20 of score 2 (20), 30 of score 3 (30). So S-X2 of item 1 is
    # 10^2 * 40 / (10 * 30) = 40/3, df = 3 rows - 2 parameters, RMSEA = sqrt((40/3 - 1) / 119).
    # Items 2 to 4 get the rest of score 1 as 7, 7, 6: item 4 (10 - 6)^2 * 40 / 300 = 32/15.
    one = [[1, 0, 0, 0]] * 20 + [[0, 1, 0, 0]] * 7 + [[0, 0, 1, 0]] * 7 + [[0, 0, 0, 1]] * 6
    two = [[1, 1, 0, 0]] * 10 + [[0, 0, 1, 1]] * 10 + [[1, 0, 1, 0]] * 10 + [[0, 1, 0, 1]] * 10
    three = [[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]] * 10
    items = ItemParameters.from_difficulty(np.full(4, 1.3), 0.5)
    values = np.array(one + two + three, dtype=float)
    fit = item_fit(values, items)
    np.testing.assert_allclose(fit.s_x2, [40 / 3, 9 * 40 / 300, 9 * 40 / 300, 32 / 15])
    assert fit.df.tolist() == [1, 1, 1, 1]
    assert fit.rmsea[0] == pytest.approx(np.sqrt((40 / 3 - 1) / 119))
    columns = ["item_id", "s_x2", "df", "p", "p_adjusted", "rmsea", "infit", "outfit", "n_respondents"]
    assert list(fit.table()) == columns


def test_small_categories_join_the_next_of_their_row_as_in_mirt_and_small_rows_the_next_row() -> None:
    # wrong responses expected of 30 and 20 people: .3 and .2, together .5 and below 1; of 90 and 20 1.1
    share = np.tile([0.01, 0.99], (2, 1))
    assert all(part.size == 0 for part in _collapse(np.array([[1.0, 29.0], [0.0, 20.0]]), share, 1.0))
    observed, expected = _collapse(np.array([[1.0, 89.0], [0.0, 20.0]]), share, 1.0)
    assert observed.tolist() == [[1.0, 109.0]]
    np.testing.assert_allclose(expected, [[1.1, 108.9]])
    # of 100 people .5, .4, 49.1 and 50 are expected: the first joins the second, .9 in all, and both the third
    observed, expected = np.array([[1.0, 0.0, 39.0, 60.0]] * 9), np.array([[0.005, 0.004, 0.491, 0.5]] * 9)
    found, there = _collapse(observed, expected, 1.0)
    assert len(found) == 5  # the three rows at either end, in which a category cannot be, are one
    np.testing.assert_array_equal(found[1], [np.nan, np.nan, 40.0, 60.0])
    np.testing.assert_allclose(there[1], [np.nan, np.nan, 50.0, 50.0])
    # at the end the small one joins the one before
    _, there = _collapse(observed[:, ::-1], expected[:, ::-1], 1.0)
    np.testing.assert_allclose(there[1], [50.0, 50.0, np.nan, np.nan])


@pytest.mark.parametrize("folder", ["science_gpcm", "science_grm"])
def test_graded_items_fit_as_in_mirt(reference: Path, folder: str) -> None:
    root = reference / "graded"
    long = pd.read_csv(root / "data" / "science.csv")
    wide = long.pivot(index="respondent_id", columns="item_id", values="response")
    fitted = fit_categories(wide, folder.removeprefix("science_"))
    theta = fitted.items.scores(wide)["theta"].to_numpy()
    fit = item_fit(wide, fitted.items, theta=theta, quadrature=normal_grid(61)).table().set_index("item_id")
    expected = pd.read_csv(root / folder / "s_x2.csv").set_index("item")
    # of two of the four graded items mirt compares other counts, on as many degrees of freedom
    same = expected.index if folder == "science_gpcm" else ["Future", "Benefit"]
    assert fit.loc[expected.index, "df"].tolist() == expected["df.S_X2"].tolist()
    np.testing.assert_allclose(fit.loc[same, "s_x2"], expected.loc[same, "S_X2"], rtol=1e-4)
    np.testing.assert_allclose(fit.loc[same, "p"], expected.loc[same, "p.S_X2"], atol=1e-4)
    squares = pd.read_csv(root / folder / "infit_outfit.csv").set_index("item")
    np.testing.assert_allclose(fit.loc[squares.index, "outfit"], squares["outfit"], rtol=1e-4)
    np.testing.assert_allclose(fit.loc[squares.index, "infit"], squares["infit"], rtol=1e-4)


def test_a_broken_graded_item_is_found_and_of_too_few_complete_rows_nothing_is_said() -> None:
    rng = np.random.default_rng(5)
    theta = rng.normal(size=800)
    a, b = np.linspace(0.8, 1.8, 8)[:, None], np.array([-1.0, 0.0, 1.0]) + np.linspace(-0.6, 0.6, 8)[:, None]
    grades = (a * (theta[:, None, None] - b) + rng.logistic(size=(800, 8, 1)) > 0).sum(axis=2).astype(float)
    grades[:, 3] = rng.binomial(3, np.where(np.abs(theta) < 0.7, 0.85, 0.15))  # a hump
    p = item_fit(grades, fit_categories(grades).items).p
    assert p[3] < 1e-3
    assert (np.delete(p, 3) < 0.05).sum() <= 2
    # a third missing: 30 or so of 800 answered all, too few to say anything of items that rest on all
    grades[rng.random(grades.shape) < 0.33] = np.nan
    grades = grades[~np.isnan(grades).all(axis=1)]
    with pytest.warns(RuntimeWarning, match="no degree of freedom is left .* those who answered every item"):
        assert np.isnan(item_fit(grades, fit_categories(grades).items).p).all()


def test_booklets_give_rows_of_their_own() -> None:
    """Three booklets of 16 of the 24 items, a third of the respondents each."""
    responses, items, _ = simulated(1500, 24, seed=3)
    booklet, block = np.arange(1500) % 3, np.arange(24) // 8
    responses = with_values(responses, np.where(booklet[:, None] == block, np.nan, responses.values))
    fit = item_fit(responses, items, missing="groups")
    assert fit.statistic == "s_x2"
    # Item 1 is missing from the first booklet; the two others are two data sets, whose rows add up and whose
    # parameters count once.
    alone = []
    for k in (1, 2):
        asked = [items.item_ids[j] for j in np.flatnonzero(block != k)]
        alone.append(item_fit(responses.select_respondents(booklet == k).select_items(asked), items.select(asked)))
    assert fit.s_x2[0] == pytest.approx(alone[0].s_x2[0] + alone[1].s_x2[0])
    assert fit.df[0] == alone[0].df[0] + alone[1].df[0] + 2
    assert fit.n_respondents.tolist() == [1000] * 24
    assert fit.respondents_used == "1500 of 1500, in 3 groups who answered the same items"
    excess = np.sum(fit.s_x2 - fit.df - 2)
    assert abs(excess) < 3.5 * np.sqrt(np.sum(2 * (fit.df + 2)))


def test_with_scattered_gaps_the_complete_rows_are_used_and_without_any_it_is_nan() -> None:
    responses, items, _ = simulated(800, 12, seed=8)
    values = responses.values.copy()
    values[np.arange(300), np.arange(300) % 12] = np.nan  # 25 respondents with each pattern: too few for a group
    fit = item_fit(values, items, missing="groups")
    complete = item_fit(responses.select_respondents(np.arange(800) >= 300), items)
    np.testing.assert_allclose(fit.s_x2, complete.s_x2)
    assert fit.respondents_used == "500 of 800, those who answered every item"
    values[np.random.default_rng(0).random(values.shape) < 0.5] = np.nan
    values[np.arange(800), np.arange(800) % 12] = np.nan
    with pytest.warns(RuntimeWarning, match=r"item1, item2, item3, item4, item5 and 7 more \(used: 0 of 800"):
        fit = item_fit(values, items, missing="groups")
    assert np.isnan([fit.s_x2, fit.p, fit.p_adjusted, fit.rmsea]).all()


def test_a_planted_misfit_is_found_among_missing_responses() -> None:
    responses, _, theta = simulated(1500, 20, seed=77)
    values = responses.values.copy()
    rng = np.random.default_rng(3)
    values[:, 4] = rng.random(1500) < np.where(np.abs(theta) < 0.7, 0.3, 0.8)  # falls, then rises
    values[rng.random(values.shape) < 0.5] = np.nan
    fit = item_fit(values, fit_model(values, FAST).items)
    assert fit.p_adjusted.argmin() == 4
    assert fit.p_adjusted[4] < 1e-6
    assert np.delete(fit.p_adjusted, 4).min() > 0.01
    assert "by the abilities that their responses let expect" in fit.respondents_used
    assert fit.statistic == "score"


@pytest.mark.slow
def test_many_steep_items_need_finer_nodes_and_get_them() -> None:
    # 400 items tell abilities .07 apart; the default nodes stand .2 apart, and on them some S-X2 are off by a tenth.
    # (Slopes must differ: with equal ones the expected shares do not depend on the nodes at all.)
    rng = np.random.default_rng(4)
    items = ItemParameters.from_difficulty(rng.lognormal(0.5, 0.4, 400), rng.normal(0, 0.7, 400))
    responses = simulate_responses(rng.normal(size=2000), items, rng=rng)
    fit, exact = item_fit(responses, items), item_fit(responses, items, quadrature=normal_grid(241))
    np.testing.assert_allclose(fit.s_x2, exact.s_x2, rtol=1e-3)


def test_the_band_covers_the_truth_at_its_level() -> None:
    # A smoother's band covers on average along the curve (Nychka, 1988), not everywhere alike. 40 curves whose points
    # hang together: the mean is within .06 of .95.
    covered = []
    for seed in range(2):
        responses, items, theta = simulated(600, 20, seed=seed)
        for item in items.item_ids:
            curve = empirical_curve(responses, items, item, theta)
            covered.append(np.mean((curve.lower <= curve.expected) & (curve.expected <= curve.upper)))
    assert np.mean(covered) == pytest.approx(0.95, abs=0.06)


def test_the_empirical_curve_of_an_item_all_get_right_is_finite_and_of_an_unknown_one_refused() -> None:
    responses, items, theta = simulated(100, 3, seed=2)
    values = responses.values.copy()
    values[:, 0], values[:60, 1], values[:, 2] = 1, np.nan, np.nan
    curve = empirical_curve(values, items, "item1", theta)
    assert (curve.proportion > 0.95).all()
    assert (curve.upper <= 1).all()
    assert empirical_curve(values, items, "item2", theta).n_respondents == 40
    given = empirical_curve, values, items
    is_refused("unknown item nonesuch", *given, "nonesuch", theta)
    is_refused("must have answered item item3", *given, "item3", theta)
    is_refused("level must be between 0 and 1 but got 95", *given, "item1", theta, level=95)
    for n_points in (1, 0, -1):  # one point has no range for a spline
        is_refused("at least two points", *given, "item1", theta, n_points=n_points)


def test_a_curve_with_a_hump_is_found_and_of_very_many_items_within_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each item once, against the sum score of its part."""
    responses, items, theta = simulated(2000, 20, seed=5)
    values = responses.values.copy()  # item 10 is right most often in the middle of the scale
    values[:, 9] = np.random.default_rng(6).random(2000) < 0.2 + 0.6 * np.exp(-(theta**2) / 2)
    responses = with_values(responses, values)
    assert np.flatnonzero(item_fit(responses, items).p_adjusted < 0.05).tolist() == [9]
    monkeypatch.setattr("irtbench.diagnostics.item_fit.MOST_TOGETHER", 19)
    monkeypatch.setattr("irtbench.diagnostics.item_fit.ITEMS_OF_A_PART", 10)
    found = item_fit(responses, items)
    assert found.item_ids == items.item_ids
    assert "2 parts" in found.respondents_used
    assert found.p_adjusted[9] < 0.001
    assert found.p_adjusted.argmin() == 9
    assert (found.p_adjusted > 0.05).sum() >= 16  # those of its part suffer from its number right
    drawn = np.sort(np.random.default_rng(0).permutation(20)[:10])
    names = [items.item_ids[j] for j in drawn]
    alone = item_fit(responses.select_items(names), items.select(names))
    np.testing.assert_allclose(found.s_x2[drawn], alone.s_x2)


def test_a_grade_that_nobody_gives_counts_as_expected_and_not_seen() -> None:
    rng = np.random.default_rng(3)
    known = grades(rng, 6, models=(Graded(),))
    scores = known.simulate(rng.normal(size=400), rng=rng)
    assert item_fit(known.matrix(scores), known).p.min() > 1e-3  # whose df counts parameters that were not estimated
    assert item_fit(known.matrix(scores.clip(upper=2)), known).p.max() < 1e-6


# --- observed shares -------------------------------------------------------------------------------------------------


def test_groups_in_order_of_ability_are_counted() -> None:
    # abilities out of order: the groups are {r2, r5}, {r1, r4} and, one short, {r3}
    theta = np.array([0.0, -2.0, 3.0, 1.0, -1.0])
    answers = [[1, 0], [0, np.nan], [1, 1], [0, np.nan], [1, np.nan]]
    found = observed_shares(answers, theta, n_groups=3)
    np.testing.assert_array_equal(found.n, [[2, 0], [2, 1], [1, 1]])
    np.testing.assert_array_equal(found.n_correct, [[1, 0], [1, 0], [1, 1]])
    np.testing.assert_array_equal(found.share, [[0.5, np.nan], [0.5, 0], [1, 1]])
    np.testing.assert_array_equal(found.theta, [[-1.5, np.nan], [0.5, 0], [3, 3]])
    assert len(found.table()) == 6
    assert found.n.sum(axis=0).tolist() == [5, 2]
    # every trial is a response; no more groups than people, and at least one
    responses = ResponseMatrix(np.array([[3.0], [1.0]]), ("a", "b"), ("i",), np.array([[4], [2]]))
    found = observed_shares(responses, np.array([1.0, -1.0]), n_groups=2)
    assert (found.n.tolist(), found.share.tolist()) == ([[2], [4]], [[0.5], [0.75]])
    assert observed_shares([[1], [0]], np.array([0.0, 1.0])).n.shape == (2, 1)
    is_refused("at least one group", observed_shares, [[1], [0]], np.array([0.0, 1.0]), n_groups=0)
    is_refused("theta has shape", observed_shares, [[1], [0]], np.array([0.0]))
    is_refused("at least one respondent but there is none", observed_shares, np.empty((0, 2)), np.empty(0))
