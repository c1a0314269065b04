"""Item bias by likelihood and by regression, of right and wrong and of grades: planted differences, levels, R mirt."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2
from statsmodels.miscmodels.ordinal_model import OrderedModel

from builders.mirt_figures import verbal
from builders.refusals import is_refused
from builders.scales import grades
from builders.simulated import with_values
from irtbench import ItemModel, ItemParameters, ResponseMatrix, fit_categories, fit_groups
from irtbench.analysis.bias_by_score import mantel_haenszel, score_regression
from irtbench.analysis.item_bias import comparable_in_categories, comparable_items, item_bias
from irtbench.diagnostics.empirical_curve import logistic_regression, ordinal_regression, score_statistic
from irtbench.models.curves import simulate_responses
from irtbench.models.item_models.graded import Graded
from irtbench.models.item_models.partial_credit import PartialCredit

slowly_by_likelihood = pytest.mark.parametrize(
    "method", [pytest.param("likelihood_ratio", marks=pytest.mark.slow), "logistic"]
)


def two_groups(
    *, seed: int, n: tuple[int, int] = (600, 600), n_items: int = 10, mean: float = -0.7,
    shift: dict[int, float] | None = None, slope_ratio: dict[int, float] | None = None, missing: float = 0.0,
) -> tuple[ResponseMatrix, np.ndarray]:  # fmt: skip
    """Reference and focal respondents; items are harder by ``shift`` for the focal group, or of another slope."""
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(0.8, 2.0, n_items), rng.normal(0, 0.8, n_items)
    focal_b = b + [(shift or {}).get(item, 0.0) for item in range(n_items)]
    focal_a = a * [(slope_ratio or {}).get(item, 1.0) for item in range(n_items)]
    parts = [
        simulate_responses(rng.normal(m, 1, size), ItemParameters.from_difficulty(*ab), rng=rng, missing=missing).values
        for size, m, ab in ((n[0], 0, (a, b)), (n[1], mean, (focal_a, focal_b)))
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
    responses, focal = two_groups(seed=3, n=(1200, 1200), mean=0.0, slope_ratio={5: 0.35})
    found = item_bias(responses, focal, method=method)
    assert found.p_crossing[5] < 1e-4
    np.testing.assert_allclose(found.p_crossing, chi2.sf(found.x2 - found.x2_uniform, 1), atol=1e-9)
    np.testing.assert_allclose(found.p_uniform, chi2.sf(found.x2_uniform, 1), atol=1e-12)
    assert found.p_adjusted[5] < 0.01
    assert found.rms_difference[5] == max(found.rms_difference)


def test_clean_items_are_flagged_at_the_nominal_rate_though_abilities_differ() -> None:
    """By regression: the likelihood ratio is that of R mirt and of two fits."""
    clean = [two_groups(seed=100 + s, n=(400, 400), n_items=12, mean=-1.0) for s in range(2)]
    p = np.concatenate([item_bias(*one, method="logistic").p for one in clean])
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


@pytest.fixture
def as_of_many_items(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which are not refitted for each item's statistic: `test_the_statistic_is_that_of_two_fits_of_both_groups`."""
    monkeypatch.setattr("irtbench.analysis.item_bias.MOST_TO_REFIT", 0)


@pytest.mark.usefixtures("as_of_many_items")
def test_an_item_that_one_group_gets_right_and_the_other_wrong_says_nothing_of_the_scale() -> None:
    responses, focal = two_groups(seed=7, n=(150, 100), n_items=5)
    values = responses.values.copy()
    values[:, 3] = focal
    found = item_bias(values, focal)
    without = fit_groups(np.delete(values, 3, axis=1), focal.tolist(), reference=False)
    assert not found.anchor[3]
    assert found.x2[3] > 100
    assert found.focal_mean == pytest.approx(without.mean[1], abs=1e-3)


def test_wrong_input_is_named() -> None:
    responses, focal = two_groups(seed=1, n=(30, 30), n_items=4)
    values = responses.values.copy()
    values[:, 0], values[focal, 1] = 1, np.nan
    worse = with_values(responses, values)
    trials, half = drawn(seed=4, n=40)
    is_refused(r"focal has shape \(3,\) for 60 respondents", item_bias, responses, np.zeros(3, dtype=bool))
    is_refused("5 respondents in the focal group; expected at least 10", item_bias, responses, np.arange(60) >= 55)
    is_refused("alpha must be between 0 and 1", item_bias, responses, focal, alpha=2)
    is_refused("expected 'likelihood_ratio' or 'logistic' but got 'lr'", item_bias, responses, focal, method="lr")
    is_refused("2 items; expected at least 3", item_bias, responses.select_items(["item0", "item1"]), focal)
    is_refused("nobody in the focal group answered item item1", item_bias, worse, focal)
    is_refused("all responses are the same for item item1", item_bias, np.delete(values, 1, axis=1), focal)
    is_refused("sum score .* is not available", mantel_haenszel, trials, ["f" if each else "r" for each in half])
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
    for seed in range(2):
        responses, focal = two_groups(seed=200 + seed, n=(3000, 3000), n_items=10, mean=-1.0)
        score = responses.values.sum(axis=1)
        for item in range(10):
            columns = np.stack([np.ones_like(score), score - responses.values[:, item], focal.astype(float)], axis=1)
            answers = responses.values[:, item]
            same, uniform = (logistic_regression(columns[:, :w], answers, 1e-6 * np.eye(w)) for w in (2, 3))
            flagged["sum score"] += 2 * (uniform.log_likelihood - same.log_likelihood) > 3.841
        flagged["reported"] += (item_bias(responses, focal, method="logistic").p_uniform < 0.05).sum()
    assert flagged["sum score"] > 10  # of 20
    assert flagged["reported"] < 6  # binomial(20, .05) exceeds 5 once in 3,000


# --- grades ----------------------------------------------------------------------------------------------------------


def graded_groups(
    seed: int, model: ItemModel | None = None, *, n: int = 500, n_items: int = 8, shift: float = 0.0,
) -> tuple[pd.DataFrame, np.ndarray]:  # fmt: skip
    """Scores 0 to 3; for the focal group, which is less able, the last item is harder."""
    rng, parts = np.random.default_rng(seed), []
    for mean, harder in ((0.0, 0.0), (-0.6, shift)):
        items = grades(np.random.default_rng(seed), n_items, models=(model or Graded(),), shift=harder)
        parts.append(items.simulate(rng.normal(mean, 1.0, n), rng=rng))
    return pd.concat(parts, ignore_index=True), np.arange(2 * n) >= n


@pytest.mark.slow
def test_a_planted_shift_of_grades_is_found_with_its_size() -> None:
    scores, focal = graded_groups(1, n=1000, shift=0.5)
    for method in ("likelihood_ratio", "logistic"):
        found = item_bias(scores, focal, models="grm", method=method)
        assert found.table()["p_adjusted"].lt(0.05).tolist() == [False] * 7 + [True]
        assert not found.anchor[-1]
        assert found.anchor[:-1].sum() >= 5
        assert found.p_uniform[-1] < 1e-6 < found.p_crossing[-1]
        assert found.focal_mean == pytest.approx(-0.6, abs=0.12)
        if method == "likelihood_ratio":
            slope = fit_categories(scores[~focal]).items.parameters[-1, 0]
            assert found.delta[-1] == pytest.approx(-2.35 * 0.5 * slope, abs=0.5)
            assert set(found.df) == {4}


def test_the_statistic_of_grades_is_that_of_two_fits() -> None:
    scores, focal = graded_groups(27, PartialCredit(), n=80, n_items=3, shift=0.4)
    found = item_bias(scores, focal, models="gpcm", purify=False)
    groups = np.where(focal, "focal", "reference")
    common = fit_categories(scores, "gpcm", groups=groups, reference="reference")
    # the studied item is two, one for each group
    last = scores.pop("g02")
    split = scores.assign(reference=last.where(~focal), focal=last.where(focal))
    free = fit_categories(split, "gpcm", groups=groups, reference="reference")
    assert found.x2[-1] == pytest.approx(2 * (free.log_likelihood - common.log_likelihood), abs=0.02)
    assert 0 < found.x2_uniform[-1] < found.x2[-1]
    np.testing.assert_allclose(found.p_crossing, chi2.sf(np.maximum(found.x2 - found.x2_uniform, 0), found.df - 1))


@slowly_by_likelihood  # whose statistic is that of two fits: above
def test_of_two_categories_the_figures_are_those_of_right_and_wrong(method: str) -> None:
    responses, focal = two_groups(seed=4, n=(100, 100), n_items=3)
    scores = pd.DataFrame(responses.correct, columns=responses.item_ids)
    found = item_bias(scores, focal, models="2pl", method=method, purify=False)
    expected = item_bias(responses, focal, method=method, purify=False)
    near = 1e-3 if method == "logistic" else 5e-3
    for name in ("x2", "x2_uniform", "delta", "rms_difference"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=near)
    assert (found.df == expected.df).all()
    groups = np.where(focal, "f", "r")
    graded, plain = score_regression(scores, groups, in_categories=True), score_regression(responses, groups)
    pd.testing.assert_frame_equal(graded.table(), plain.table())


def test_ordinal_regression_of_two_is_the_logistic_and_of_more_that_of_statsmodels() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(400, 2))
    code = (x @ [0.8, -0.4] + rng.logistic(size=400))[:, None] > np.array([-1.0, 0.2, 1.5])
    code = code.sum(axis=1)
    two = logistic_regression(np.column_stack([np.ones(400), x]), (code > 1).astype(float), 1e-4 * np.eye(3))
    found = ordinal_regression(x, np.stack([code <= 1, code > 1], axis=1).astype(float), 1e-4)
    np.testing.assert_allclose(found.coefficients, two.coefficients, atol=1e-7)
    assert found.log_likelihood == pytest.approx(two.log_likelihood, abs=1e-8)
    counts = (code[:, None] == np.arange(4)).astype(float)
    whole = ordinal_regression(x, counts, 1e-9)
    theirs = OrderedModel(code, x, distr="logit").fit(method="bfgs", disp=False, gtol=1e-8)
    assert whole.log_likelihood == pytest.approx(theirs.llf, abs=1e-6)
    thresholds = theirs.model.transform_threshold_params(theirs.params)[1:-1]
    np.testing.assert_allclose(whole.coefficients, [*-thresholds, *theirs.params[:2]], atol=1e-4)


def test_the_score_statistic_of_two_groups_is_pearsons_of_their_table() -> None:
    # 30 of 40 right and 20 of 50: 90 (30 x 30 - 10 x 20)^2 / (40 x 50 x 50 x 40)
    right, focal = np.repeat([1, 0, 1, 0], [30, 10, 20, 30]), np.repeat([0.0, 1.0], [40, 50])
    counts = np.stack([1.0 - right, right], axis=1)
    alone = ordinal_regression(np.empty((90, 0)), counts, 0.0)
    assert score_statistic(focal[:, None], counts, 0.0, alone) == pytest.approx(11.025, abs=1e-9)


@pytest.mark.slow
def test_of_few_responses_the_score_statistic_keeps_its_level_where_the_likelihood_ratio_does_not() -> None:
    rng, rejected = np.random.default_rng(7), np.zeros(2)
    for _ in range(400):
        ability, focal = rng.normal(size=30), np.arange(30) < 8
        grade = (1.5 * ability[:, None] + rng.logistic(size=(30, 1)) > np.array([-1.5, 0.0, 1.5])).sum(axis=1)
        counts = (grade[:, None] == np.unique(grade)).astype(np.float64)
        columns = np.stack([ability, focal, focal * ability], axis=1)
        same, either = (ordinal_regression(columns[:, :width], counts, 1e-4) for width in (1, 3))
        ratio = 2 * (either.log_likelihood - same.log_likelihood)
        rejected += [score_statistic(columns, counts, 1e-4, same) > 5.991, ratio > 5.991]
    assert rejected[0] / 400 < 0.075  # of a level of .05 the standard error is .011
    assert rejected[1] > rejected[0] + 8


@pytest.mark.usefixtures("as_of_many_items")
def test_a_category_of_one_group_alone_counts_as_the_next_and_refusals_are_one_line() -> None:
    scores, focal = graded_groups(6, n=80, n_items=4)
    scores.loc[focal, "g01"] = scores.loc[focal, "g01"].clip(upper=2)
    scores.loc[focal, "g02"] = 0
    assert comparable_in_categories(scores, [focal, ~focal]) == ("g00", "g01", "g03")
    is_refused(
        "no two categories that both groups gave to item g02; leave such", item_bias, scores, focal, models="grm"
    )
    scores = scores.drop(columns="g02")
    is_refused("nominal item have no order", item_bias, scores, focal, models="nominal")
    is_refused("expected grm or gpcm", item_bias, scores, focal, models="pcm")
    is_refused("guessing goes with right and wrong", item_bias, scores, focal, models="grm", guessing=0.2)
    scores["g03"] = scores["g03"].clip(upper=1)
    guessed = {"g00": "grm", "g01": "grm", "g03": "3pl"}
    is_refused("guessing without a prior", item_bias, scores, focal, models=guessed)
    found = item_bias(scores, focal, models=guessed, prior="weak", purify=False)
    assert found.merged == ("g01",)
    assert found.df.tolist() == [4, 3, 2]
