"""Items that agree in two groups are found though a minority is biased one way."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from builders.calibrations import two_calibrations
from irtbench import ItemParameters, as_responses, fit_model, simulate_responses
from irtbench.analysis.item_differences import TwoScales, agreeing_items

SCALE, SHIFT = 0.8, -0.6  # theta of the reference = .8 theta of the focal group - .6
two_scales = partial(two_calibrations, slope=SCALE, intercept=SHIFT)


def test_the_linking_of_exact_parameters_is_exact() -> None:
    reference, focal = two_scales(np.zeros(10), error=1e-6, seed=1)
    place = TwoScales.of(reference, focal).nearest(np.ones(10, dtype=bool), np.zeros(2))
    np.testing.assert_allclose(place, [np.log(SCALE), SHIFT], atol=1e-4)
    # Lord's chi-square by hand for item 3, at another place: A = 1, B = 0 leaves the parameters as they are
    exact = [replace(part, covariance=np.tile(np.diag([0.04, 0.09, 0.0]), (10, 1, 1))) for part in (reference, focal)]
    w = TwoScales.of(*exact).disagreement(np.zeros(2))[3]
    by_slope = (reference.discrimination[3] - focal.discrimination[3]) ** 2 / 0.08
    assert w == pytest.approx(by_slope + (reference.intercept[3] - focal.intercept[3]) ** 2 / 0.18)


def test_disagreement_with_others_is_what_the_sum_of_w_gains_by_the_item() -> None:
    """Refitted with the item and without it, for four items that made the line and two that did not."""
    scales = TwoScales.of(*two_scales(np.zeros(6), error=0.01, seed=2))
    by = np.arange(6) < 4
    place = scales.nearest(by, np.zeros(2))
    found = scales.disagreement_with_others(place, by)
    for item in range(6):
        alone = np.arange(6) == item
        least = [scales.disagreement(scales.nearest(items, place))[items].sum() for items in (by | alone, by & ~alone)]
        assert found[item] == pytest.approx(least[0] - least[1], rel=0.02, abs=0.01)
    assert (found[by] > scales.disagreement(place)[by]).all()
    assert (found[~by] < scales.disagreement(place)[~by]).all()


def test_of_items_biased_one_way_none_is_kept_and_hardly_a_clean_one_lost() -> None:
    kept = np.zeros(20)
    for seed in range(15):
        kept += TwoScales.of(*two_scales(np.r_[np.ones(6), np.zeros(14)], error=0.15, seed=seed)).agreeing()
    # a shift of 1 in b is .8 logits or more beside an error of .2, which leaves few below the limit of 2.4 of them
    assert kept[:6].sum() / 90 < 0.06
    assert kept[6:].sum() / 210 > 0.9  # 95% of the clean ones are expected below it


def test_without_bias_items_agree_at_the_nominal_rate() -> None:
    agree = [TwoScales.of(*two_scales(np.zeros(20), error=0.15, seed=100 + seed)).agreeing() for seed in range(40)]
    # 800 items, two parameters fitted: 1 - .05 with a standard error of .008 and a little more for the limit's choice
    assert 0.91 < np.mean(agree) < 0.98


def test_groups_too_small_to_be_fitted_alone_have_all_items_as_anchors() -> None:
    rng = np.random.default_rng(4)
    items = ItemParameters.from_difficulty(np.full(10, 1.2), np.linspace(-1, 1, 10))
    harder = ItemParameters.from_difficulty(np.full(10, 1.2), items.difficulty + np.r_[2.0, np.zeros(9)])
    values = np.vstack([simulate_responses(rng.normal(size=400), part, rng=rng).values for part in (items, harder)])
    responses = as_responses(values)
    focal = np.arange(800) >= 400

    def alone(members: np.ndarray) -> ItemParameters:
        return fit_model(responses.select_respondents(members), prior="weak").items

    agree = agreeing_items(alone, focal, responses.observed)
    assert not agree[0]
    assert agree[1:].sum() >= 7
    few = np.arange(800) < 449
    assert agreeing_items(alone, focal[few], responses.observed[few]).all()
