"""Item bias of grades: found with its size, at its level without any, and of two categories that of right and wrong."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

from irtbench import CategoryParameters, InputError, ItemModel, ItemParameters, fit_categories, score_regression
from irtbench.analysis.item_bias import comparable_in_categories, item_bias
from irtbench.diagnostics.empirical_curve import logistic_regression, ordinal_regression, score_statistic
from irtbench.models.curves import simulate_responses
from irtbench.models.item_models.graded import Graded
from irtbench.models.item_models.partial_credit import PartialCredit


def two_groups(
    seed: int, model: ItemModel | None = None, *, n: int = 500, n_items: int = 8, shift: float = 0.0,
    steeper: float = 1.0, apart: float = 0.0,
) -> tuple[pd.DataFrame, np.ndarray]:  # fmt: skip
    """Scores 1 to 4; for the focal group the first item is harder, steeper, or its steps are further apart."""
    rng = np.random.default_rng(seed)
    a = rng.uniform(0.9, 2.0, n_items)
    b = np.sort(rng.normal(0, 0.4, (n_items, 1)) + np.array([-0.9, 0.0, 0.9]) + rng.normal(0, 0.2, (n_items, 3)))
    parts = []
    for mean, own in ((0.0, 0.0), (-0.6, 1.0)):
        slopes, steps = a.copy(), b.copy()
        slopes[0] *= steeper**own
        steps[0] = steps[0] + own * (shift + apart * np.array([-1, 0, 1]))
        table = pd.DataFrame(steps, columns=["step_1", "step_2", "step_3"]).assign(
            item_id=[f"g{j}" for j in range(n_items)], discrimination=slopes, categories="1|2|3|4"
        )
        items = CategoryParameters.from_table(table, [model or Graded()] * n_items)
        parts.append(items.simulate(rng.normal(mean, 1.0, n), rng=rng))
    return pd.concat(parts, ignore_index=True), np.arange(2 * n) >= n


@pytest.mark.slow
def test_a_planted_shift_is_found_with_its_size() -> None:
    scores, focal = two_groups(1, n=1000, shift=0.5)
    for method in ("likelihood_ratio", "logistic"):
        found = item_bias(scores, focal, models="grm", method=method)
        assert found.table()["p_adjusted"].lt(0.05).tolist() == [True] + [False] * 7
        assert not found.anchor[0]
        assert found.anchor[1:].sum() >= 5
        assert found.p_uniform[0] < 1e-6 < found.p_crossing[0]
        assert found.focal_mean == pytest.approx(-0.6, abs=0.12)
        if method == "likelihood_ratio":
            slope = fit_categories(scores[~focal]).items.parameters[0, 0]
            assert found.delta[0] == pytest.approx(-2.35 * 0.5 * slope, abs=0.5)
            assert set(found.df) == {4}


@pytest.mark.slow
@pytest.mark.parametrize("change", [{"steeper": 1.7}, {"apart": 0.5}])
def test_curves_of_another_shape_are_found_though_delta_is_small(change: dict[str, float]) -> None:
    found = item_bias(*two_groups(2, n=800, n_items=4, **change), models="grm")
    assert found.p_crossing[0] < 1e-3
    assert abs(found.delta[0]) < 1.5
    assert found.p_adjusted[1:].min() > 0.01


def test_the_statistic_is_that_of_two_fits_of_both_groups() -> None:
    scores, focal = two_groups(3, PartialCredit(), n=80, n_items=3, shift=0.4)
    found = item_bias(scores, focal, models="gpcm", purify=False)
    groups = np.where(focal, "focal", "reference")
    common = fit_categories(scores, "gpcm", groups=groups, reference="reference")
    # the studied item is two, one for each group
    split = scores.drop(columns="g0").assign(reference=scores["g0"].where(~focal), focal=scores["g0"].where(focal))
    free = fit_categories(split, "gpcm", groups=groups, reference="reference")
    assert found.x2[0] == pytest.approx(2 * (free.log_likelihood - common.log_likelihood), abs=0.02)
    assert 0 < found.x2_uniform[0] < found.x2[0]
    np.testing.assert_allclose(found.p_crossing, chi2.sf(np.maximum(found.x2 - found.x2_uniform, 0), found.df - 1))


def test_of_two_categories_the_figures_are_those_of_right_and_wrong() -> None:
    rng = np.random.default_rng(4)
    items = ItemParameters.from_difficulty(rng.uniform(0.8, 2, 4), rng.normal(0, 0.8, 4))
    responses = simulate_responses(rng.normal(size=200), items, rng=rng)
    focal = np.arange(200) >= 100
    scores = pd.DataFrame(responses.correct, columns=items.item_ids)
    for method, tolerance in (("likelihood_ratio", 5e-3), ("logistic", 1e-3)):
        found, expected = (
            item_bias(scores, focal, models="2pl", method=method, purify=False),
            item_bias(responses, focal, method=method, purify=False),
        )
        for name in ("x2", "x2_uniform", "delta", "rms_difference"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=tolerance)
        assert (found.df == expected.df).all()
    groups = np.where(focal, "f", "r")
    graded, plain = score_regression(scores, groups, in_categories=True), score_regression(responses, groups)
    pd.testing.assert_frame_equal(graded.table(), plain.table())


def test_ordinal_regression_of_two_is_the_logistic_and_of_more_is_at_its_maximum() -> None:
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

    def height(at: np.ndarray) -> float:
        at_least = 1 / (1 + np.exp(-(at[:3] + (x @ at[3:])[:, None])))
        p = -np.diff(np.column_stack([np.ones(400), at_least, np.zeros(400)]), axis=1)
        return float((counts * np.log(p)).sum())

    assert height(whole.coefficients) == pytest.approx(whole.log_likelihood, abs=1e-6)
    for step in 0.01 * np.vstack([np.eye(5), -np.eye(5)]):
        assert height(whole.coefficients + step) < whole.log_likelihood
    np.testing.assert_allclose(whole.coefficients[3:], [0.8, -0.4], atol=0.3)


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


def test_a_category_of_one_group_alone_counts_as_the_next_and_refusals_are_one_line() -> None:
    scores, focal = two_groups(6, n=80, n_items=4)
    scores.loc[focal, "g1"] = scores.loc[focal, "g1"].clip(upper=3)
    scores.loc[focal, "g2"] = 1
    assert comparable_in_categories(scores, [focal, ~focal]) == ("g0", "g1", "g3")
    with pytest.raises(InputError, match="no two categories that both groups gave to item g2; leave such items out"):
        item_bias(scores, focal, models="grm")
    found = item_bias(scores.drop(columns="g2"), focal, models="grm", purify=False)
    assert found.merged == ("g1",)
    assert found.df.tolist() == [4, 3, 4]
    for model, said in (("nominal", "nominal item have no order"), ("pcm", "expected grm or gpcm")):
        with pytest.raises(InputError, match=said):
            item_bias(scores.drop(columns="g2"), focal, models=model)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["likelihood_ratio", "logistic"])
def test_clean_items_are_flagged_at_the_nominal_rate_though_abilities_differ(method: str) -> None:
    p = np.concatenate(
        [item_bias(*two_groups(100 + s, n=400, n_items=4), models="grm", method=method).p for s in range(6)]
    )
    assert (p < 0.05).sum() < 5  # of 24 tests at a rate of .05: 5 or more once in 150 times
