"""Item bias by likelihood and by regression: planted differences, levels, R mirt, and of k right of n."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from builders.mirt_figures import verbal
from builders.simulated import with_values
from irtbench import (
    InputError,
    ItemParameters,
    ResponseMatrix,
    fit_groups,
    mantel_haenszel,
    simulate_responses,
)
from irtbench.analysis.item_bias import comparable_items, item_bias
from irtbench.diagnostics.empirical_curve import logistic_regression

slowly_by_likelihood = pytest.mark.parametrize(
    "method", [pytest.param("likelihood_ratio", marks=pytest.mark.slow), "logistic"]
)


def two_groups(
    *,
    seed: int,
    n: tuple[int, int] = (600, 600),
    n_items: int = 10,
    mean: float = -0.7,
    sd: float = 1.0,
    shift: dict[int, float] | None = None,
    slope_ratio: dict[int, float] | None = None,
    missing: float = 0.0,
) -> tuple[ResponseMatrix, np.ndarray]:
    """Reference and focal respondents; items are harder by ``shift`` for the focal group, or of another slope."""
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(0.8, 2.0, n_items), rng.normal(0, 0.8, n_items)
    focal_a, focal_b = a.copy(), b.copy()
    for item, by in (shift or {}).items():
        focal_b[item] += by
    for item, ratio in (slope_ratio or {}).items():
        focal_a[item] *= ratio
    parts = [
        simulate_responses(rng.normal(m, s, size), ItemParameters.from_difficulty(*ab), rng=rng, missing=missing).values
        for size, m, s, ab in ((n[0], 0, 1, (a, b)), (n[1], mean, sd, (focal_a, focal_b)))
    ]
    values = np.vstack(parts)
    ids = tuple(f"r{i}" for i in range(sum(n)))
    return ResponseMatrix(values, ids, tuple(f"item{j}" for j in range(n_items))), np.arange(sum(n)) >= n[0]


@slowly_by_likelihood
def test_a_planted_shift_is_found_with_its_size(method: str) -> None:
    responses, focal = two_groups(seed=7, n=(1500, 700), shift={2: 0.9, 9: -0.9}, missing=0.1)
    found = item_bias(responses, focal, method=method, adjustment="holm")
    table = found.table().set_index("item_id")
    assert set(table.index[table["p_adjusted"] < 0.05]) == {"item2", "item9"}
    assert set(table.index[~table["anchor"]]) == {"item2", "item9"}
    assert table.loc["item2", "delta"] < -1 < 1 < table.loc["item9", "delta"]  # harder: negative
    assert table.loc["item2", "size"] == "large"
    # the focal population, 0.7 below the other, is recovered although two items are biased; its error is about .05
    assert found.focal_mean == pytest.approx(-0.7, abs=0.15)
    assert found.focal_sd == pytest.approx(1.0, abs=0.15)
    np.testing.assert_allclose(found.p, chi2.sf(found.x2, 2), atol=1e-12)  # a slope and an intercept are freed
    np.testing.assert_array_equal(found.n_focal, (~np.isnan(responses.values[focal])).sum(axis=0))


@slowly_by_likelihood
def test_crossing_curves_are_found_though_delta_is_small(method: str) -> None:
    responses, focal = two_groups(seed=3, n=(2000, 2000), mean=0.0, slope_ratio={5: 0.35})
    found = item_bias(responses, focal, method=method)
    assert found.p_crossing[5] < 1e-4
    np.testing.assert_allclose(found.p_crossing, chi2.sf(found.x2 - found.x2_uniform, 1), atol=1e-9)
    np.testing.assert_allclose(found.p_uniform, chi2.sf(found.x2_uniform, 1), atol=1e-12)
    assert found.p_adjusted[5] < 0.01
    assert found.rms_difference[5] == max(found.rms_difference)


@slowly_by_likelihood
def test_clean_items_are_flagged_at_the_nominal_rate_though_abilities_differ(method: str) -> None:
    p = np.concatenate(
        [item_bias(*two_groups(seed=100 + s, n=(400, 400), n_items=12, mean=-1.0), method=method).p for s in range(2)]
    )
    # of 24 tests at a rate of .05 none is below it once in 3 times, and 5 or more once in 150
    assert 0 < (p < 0.05).sum() < 5


@slowly_by_likelihood
def test_an_item_the_whole_focal_group_gets_right_is_finite(method: str) -> None:
    responses, focal = two_groups(seed=4, n=(400, 100))
    values = responses.values.copy()
    values[focal, 3] = 1
    found = item_bias(values, focal, method=method)
    assert np.isfinite([found.delta[3], found.x2[3], found.rms_difference[3]]).all()
    assert found.p[3] < 1e-6
    assert found.delta[3] > 1.5


def test_an_item_that_one_group_gets_right_and_the_other_wrong_says_nothing_of_the_scale() -> None:
    responses, focal = two_groups(seed=7, n=(150, 100), n_items=5)
    values = responses.values.copy()
    values[:, 3] = focal
    found = item_bias(values, focal)
    without = item_bias(np.delete(values, 3, axis=1), focal)
    assert not found.anchor[3]
    assert found.x2[3] > 100
    assert found.focal_mean == pytest.approx(without.focal_mean, abs=1e-3)


def test_wrong_input_is_named() -> None:
    responses, focal = two_groups(seed=1, n=(30, 30), n_items=4)
    values = responses.values.copy()
    values[:, 0], values[focal, 1] = 1, np.nan
    worse = with_values(responses, values)
    trials, half = drawn(seed=4, n=40)
    for call, saying in (
        (lambda: item_bias(responses, np.zeros(3, dtype=bool)), r"focal has shape \(3,\) for 60 respondents"),
        (lambda: item_bias(responses, np.arange(60) >= 55), "5 respondents in the focal group; expected at least 10"),
        (lambda: item_bias(responses, focal, alpha=2), "alpha must be between 0 and 1"),
        (lambda: item_bias(responses, focal, method="lr"), "expected 'likelihood_ratio' or 'logistic' but got 'lr'"),
        (lambda: item_bias(responses.select_items(["item0", "item1"]), focal), "2 items; expected at least 3"),
        (lambda: item_bias(worse, focal), "nobody in the focal group answered item item1"),
        (lambda: item_bias(np.delete(values, 1, axis=1), focal), "all responses are the same for item item1"),
        (lambda: mantel_haenszel(trials, ["f" if each else "r" for each in half]), r"sum score .* is not available"),
    ):
        with pytest.raises(InputError, match=saying):
            call()
    assert comparable_items(worse, focal) == ("item2", "item3")


@pytest.mark.slow
def test_the_likelihood_ratio_with_all_others_as_anchors_is_that_of_mirt(reference: Path) -> None:
    responses, women = verbal(reference)
    found = item_bias(responses, women, purify=False)  # mirt lets the women's mean free
    expected = pd.read_csv(reference / "next" / "04_dif" / "verbal_irt_lr_drop.csv").set_index("item")
    np.testing.assert_allclose(found.x2, expected["X2"].loc[list(responses.item_ids)], atol=1e-3)
    group = pd.read_csv(reference / "next" / "04_dif" / "verbal_irt_constrained.csv").loc[0]
    assert found.focal_mean == pytest.approx(group["mean"], abs=1e-3)
    assert found.focal_sd**2 == pytest.approx(group["var"], abs=2e-3)


@pytest.mark.slow
def test_a_quarter_of_the_items_biased_one_way_leaves_the_others_at_their_level() -> None:
    biased = dict.fromkeys(range(5), 0.8)
    flagged = {True: 0, False: 0}
    for seed in range(4):
        responses, focal = two_groups(seed=300 + seed, n=(500, 500), n_items=20, shift=biased)
        for purify in flagged:
            found = item_bias(responses, focal, method="logistic", purify=purify)
            flagged[purify] += int((found.p[5:] < 0.05).sum())
            assert found.anchor.all() == (not purify)
    # of 60 tests: binomial(60, .05) exceeds 9 once in 1,000; with all items as anchors it is a third of them
    assert flagged[True] <= 9
    assert flagged[False] > 10


B = np.array([-0.8, -0.2, 0.3, 0.7])


def drawn(*, seed: int, shift: float = 0.0, n: int = 150) -> tuple[ResponseMatrix, NDArray[np.bool_]]:
    """0 to 4 trials of four items, the first harder for the focal half by a shift; the focal half is less able."""
    rng = np.random.default_rng(seed)
    focal = np.arange(2 * n) >= n
    theta = rng.normal(size=2 * n) - 0.5 * focal
    z = 1.4 * (theta[:, None] - B)
    z[focal, 0] -= shift
    trials = rng.integers(0, 5, z.shape)
    trials[:, 3] = np.maximum(trials[:, 3], 1)  # nobody without any
    right = rng.binomial(trials, 1 / (1 + np.exp(-z))).astype(float)
    names = tuple(f"r{i}" for i in range(2 * n)), ("a", "b", "c", "d")
    return ResponseMatrix(np.where(trials > 0, right, np.nan), *names, trials), focal


def test_the_statistic_is_that_of_two_fits_of_both_groups() -> None:
    responses, focal = drawn(seed=1, shift=1.5, n=80)
    found = item_bias(responses, focal, purify=False)
    labels = ["focal" if each else "reference" for each in focal]
    common = fit_groups(responses, labels, reference="reference")
    free = fit_groups(responses, labels, reference="reference", free_items=["a"])
    assert found.x2[0] == pytest.approx(2 * (free.log_likelihood - common.log_likelihood), abs=0.01)
    assert found.p[0] < 1e-3
    assert found.delta[0] < -1.5  # a large difference, though an item of four biased draws the scale along
    by_regression = item_bias(responses, focal, purify=False, method="logistic")
    assert by_regression.p[0] < 1e-3
    assert by_regression.r2_change[0] > by_regression.r2_change[1:].max()


@pytest.mark.slow
def test_matching_without_regard_to_ability_would_be_wrong() -> None:
    # The same clean data with groups a whole sd apart: regressing on the sum score sees bias everywhere, since at the
    # same sum score the weaker group's ability is lower. The reported tests do not.
    flagged = {"sum score": 0.0, "reported": 0.0}
    for seed in range(4):
        responses, focal = two_groups(seed=200 + seed, n=(3000, 3000), n_items=10, mean=-1.0)
        score = responses.values.sum(axis=1)
        for item in range(10):
            columns = np.stack([np.ones_like(score), score - responses.values[:, item], focal.astype(float)], axis=1)
            answers = responses.values[:, item]
            same, uniform = (logistic_regression(columns[:, :w], answers, 1e-6 * np.eye(w)) for w in (2, 3))
            flagged["sum score"] += 2 * (uniform.log_likelihood - same.log_likelihood) > 3.841
        flagged["reported"] += (item_bias(responses, focal, method="logistic").p_uniform < 0.05).sum()
    assert flagged["sum score"] > 20  # of 40
    assert flagged["reported"] < 8  # binomial(40, .05) exceeds 7 once in 1,000


@pytest.mark.slow
def test_machines_against_people_with_missing_responses() -> None:
    responses, focal = two_groups(seed=11, n=(1000, 60), mean=1.2, sd=0.7, shift={6: 2.5}, missing=0.3)
    found = item_bias(responses, focal)
    table = found.table()
    assert table.loc[table["p"].idxmin(), "item_id"] == "item6"
    assert found.p_adjusted[6] < 0.05
    assert found.n_focal[6] == (~np.isnan(responses.values[focal, 6])).sum()
    assert np.mean(np.delete(found.p, 6) < 0.05) < 0.2
