"""Calibrations of items in categories on one scale: exact, of two categories the 2PL's, and within standard errors."""

import numpy as np
import pandas as pd
import pytest

from builders.scales import grades, of_two_categories, scale_of
from irtbench import InputError, ItemParameters, ResponseMatrix, find_drift, fit_categories, fit_model, icc, link_scales
from irtbench.bank.bank import ItemBank, load_bank, save_bank
from irtbench.building.extending import joined, linked_scale
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.curves import simulate_responses
from irtbench.models.item_models.graded import Graded
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.item_models.partial_credit import Nominal, PartialCredit

METHODS = ("mean-mean", "mean-sigma", "haebara", "stocking-lord")
SLOPE, INTERCEPT = 1.2, 0.5
MODELS = (Graded(), PartialCredit(), Logistic(lower=True))


@pytest.mark.parametrize("method", METHODS)
def test_the_line_between_exact_scales_is_exact_and_turns_one_into_the_other(method: str) -> None:
    old = grades(np.random.default_rng(1), 9, models=MODELS)
    new = old.moved(1 / SLOPE, -INTERCEPT / SLOPE).as_items()
    link = link_scales(old.as_items(), new, method=method)
    assert (link.slope, link.intercept) == pytest.approx((SLOPE, INTERCEPT), abs=1e-6)
    back = link.items(new)
    np.testing.assert_allclose(icc([-1, 0, 1.5], back), icc([-1, 0, 1.5], old.as_items()), atol=1e-6)
    np.testing.assert_allclose(back.categories.parameters, old.parameters, atol=1e-5)


def test_nominal_items_are_moved_and_linked_by_curves_alone() -> None:
    rng = np.random.default_rng(2)
    x = np.hstack([np.cumsum(rng.uniform(0.5, 1, (6, 2)), axis=1), rng.normal(size=(6, 2))])
    ids = tuple(f"n{j}" for j in range(6))
    old = CategoryParameters(ids, (Nominal(),) * 6, (("a", "b", "c"),) * 6, x, np.full(6, 4))
    new = old.moved(1 / SLOPE, -INTERCEPT / SLOPE).as_items()
    for method in ("haebara", "stocking-lord"):
        link = link_scales(old.as_items(), new, method=method)
        assert (link.slope, link.intercept) == pytest.approx((SLOPE, INTERCEPT), abs=1e-6)
    with pytest.raises(InputError, match="item n0 has no slope and steps of its own; expected method stocking-lord"):
        link_scales(old.as_items(), new, method="mean-sigma")


@pytest.fixture(scope="module")
def two_years() -> tuple[ItemParameters, ItemParameters]:
    rng = np.random.default_rng(3)
    truth = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 10), rng.normal(0, 0.8, 10))
    fits = [fit_model(simulate_responses(rng.normal(m, s, 600), truth, rng=rng)) for m, s in ((0, 1), (0.4, 1.2))]
    return fits[0].items, fits[1].items


@pytest.mark.parametrize("method", METHODS)
def test_of_two_categories_line_errors_and_drift_are_those_of_the_2pl(two_years, method: str) -> None:
    as_categories = [of_two_categories(items) for items in two_years]
    expected, found = link_scales(*two_years, method=method), link_scales(*as_categories, method=method)
    mixed = link_scales(two_years[0], as_categories[1], method=method)
    for link in (found, mixed):
        np.testing.assert_allclose([link.slope, link.intercept], [expected.slope, expected.intercept], atol=1e-7)
        np.testing.assert_allclose(link.covariance, expected.covariance, rtol=1e-4)
    moved, theirs = found.items(as_categories[1]), expected.items(two_years[1])
    np.testing.assert_allclose(moved.categories.covariance, theirs.covariance[:, :2, :2], rtol=1e-4, atol=1e-8)
    pd.testing.assert_frame_equal(find_drift(*as_categories).table(), find_drift(*two_years).table(), rtol=1e-6)


@pytest.mark.slow
def test_the_line_lies_within_its_errors_and_the_drifted_item_is_found() -> None:
    z, released = [], []
    for seed in range(12):
        rng = np.random.default_rng(100 + seed)
        first, second = (grades(np.random.default_rng(seed), 6, shift=shift) for shift in (0.0, 1.2))
        models = dict(zip(first.item_ids, first.models, strict=True))
        old, new = (
            fit_categories(items.simulate(rng.normal(m, s, 700), rng=rng), models).items.as_items()
            for items, m, s in ((first, 0.0, 1.0), (second, INTERCEPT, SLOPE))
        )
        drift = find_drift(old, new)
        released += [item for item, gone in zip(drift.item_ids, drift.released, strict=True) if gone]
        link = link_scales(old, new, common=drift.kept)
        # each scale has its own respondents' mean and deviation for zero and unit
        se = np.hypot([link.se_slope, link.se_intercept], np.array([1 / np.sqrt(2), 1]) * np.sqrt((1 + SLOPE**2) / 700))
        z.append(([link.slope, link.intercept] - np.array([SLOPE, INTERCEPT])) / se)
    assert released.count("g05") >= 11
    assert len(released) - released.count("g05") <= 2
    assert 0.5 < np.sqrt(np.mean(np.square(z))) < 1.4


def test_what_is_linked_is_kept_and_read_and_items_of_other_categories_are_not_common(tmp_path) -> None:
    rng = np.random.default_rng(4)
    old = grades(rng, 4)
    ratings = old.simulate(rng.normal(size=300), rng=rng)
    ratings["g03"] = ratings["g03"].clip(upper=2)
    fitted = [fit_categories(old.simulate(rng.normal(size=400), rng=rng), "gpcm"), fit_categories(ratings, "gpcm")]
    scales = [scale_of(fit.items.as_items()) for fit in fitted]
    link = link_scales(*scales)
    assert link.item_ids == ("g00", "g01", "g02")
    scale = linked_scale(scales[0], scales[1], link)
    save_bank(ItemBank((scale,)), tmp_path / "bank.json")
    (read,) = load_bank(tmp_path / "bank.json", categories=True).scales
    np.testing.assert_allclose(read.line.covariance, scale.line.covariance)
    with pytest.raises(InputError, match="item g03 is not on both scales in the same categories"):
        link_scales(*scales, common=["g00", "g03"])
    both = joined(scales[0].items, two := ItemParameters.from_difficulty([1.2], [0.3], item_ids=["right"]))
    np.testing.assert_allclose(icc(0.5, both)[0, -1], icc(0.5, two)[0, 0], atol=1e-12)
    assert isinstance(both.categories.matrix(pd.DataFrame({"g00": [1], "right": [0]})), ResponseMatrix)
