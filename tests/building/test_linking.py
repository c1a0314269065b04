"""Two calibrations come onto one scale: equateIRT's figures, by hand; items that drifted; items in categories."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import block_diag

from builders.calibrations import two_calibrations
from builders.mirt_figures import reference_form
from builders.refusals import is_refused
from builders.scales import grades, of_two_categories, scale_of
from irtbench import ItemParameters, Quadrature, ResponseMatrix, fit_categories, fit_model
from irtbench.bank.bank import ItemBank, load_bank, save_bank
from irtbench.building.extending import find_drift, joined, linked_scale, robust_z
from irtbench.building.linking import ScaleLink, link_scales
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.curves import icc, simulate_responses
from irtbench.models.item_models.graded import Graded
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.item_models.partial_credit import Nominal, PartialCredit

METHODS = {"mean-mean": "mean-mean", "mean-sigma": "mean-sigma", "Haebara": "haebara", "Stocking-Lord": "stocking-lord"}
SLOPE, INTERCEPT = 1.2, 0.5
UNIFORM = Quadrature(np.linspace(-4, 4, 40), np.full(40, -np.log(40)))


@pytest.mark.parametrize("study", ["a2pl", "a3pl"])
def test_figures_are_those_of_equateirt(reference: Path, study: str) -> None:
    folder = reference / "next" / "05_linking"
    (old, old_covariance), (new, new_covariance) = (reference_form(folder, study, form) for form in "XY")
    expected = pd.read_csv(folder / f"{study}_coefficients.csv", dtype={"weights": str}).fillna("")
    expected = expected[expected["method"].isin(METHODS)]
    assert len(expected) == 6
    for row in expected.itertuples():
        population = UNIFORM if row.weights.startswith("uniform") else None
        errors = {"old_covariance": old_covariance, "new_covariance": new_covariance}
        link = link_scales(old, new, method=METHODS[row.method], population=population, **errors)
        assert (link.slope, link.intercept) == pytest.approx((row.A, row.B), abs=2e-5)
        if row.method != "mean-sigma":  # its error is another: test_the_error_of_mean_sigma_is_that_by_differences
            assert (link.se_slope, link.se_intercept) == pytest.approx((row.se_A, row.se_B), rel=1e-3)
            assert link.covariance[0, 1] == pytest.approx(row.cov_AB, abs=2e-6)


def two_scales() -> tuple[ItemParameters, ItemParameters]:
    """Items on the old scale and on the new one, where theta_old = 1.2 theta_new + .5."""
    rng = np.random.default_rng(1)
    a, b, c = rng.uniform(0.8, 2, 12), rng.normal(0, 1, 12), rng.uniform(0, 0.25, 12)
    return (
        ItemParameters.from_difficulty(a, b, c, guessing_estimated=True),
        ItemParameters.from_difficulty(a * SLOPE, (b - INTERCEPT) / SLOPE, c, guessing_estimated=True),
    )


def own_errors(items: ItemParameters, sd: float) -> ItemParameters:
    """The same with independent errors of this size stated for slope and intercept."""
    return replace(items, covariance=np.tile(np.diag([sd**2, sd**2, 0.0]), (items.n_items, 1, 1)))


@pytest.mark.parametrize("method", METHODS.values())
def test_the_line_between_exact_scales_is_exact(method: str) -> None:
    old, new = two_scales()
    link = link_scales(old, new.table().iloc[::-1], method=method)  # by name, not by place; a data frame will do
    assert link.slope == pytest.approx(SLOPE, abs=1e-7)
    assert link.intercept == pytest.approx(INTERCEPT, abs=1e-7)
    assert np.isnan(link.se_slope)  # no covariance is known
    moved = link.items(new)
    for name in ("discrimination", "difficulty", "guessing"):
        np.testing.assert_allclose(getattr(moved, name), getattr(old, name), atol=1e-6)
    assert link.table()["n_items"].tolist() == [12]
    assert f"{method}, 12 common items, slope 1.200" in repr(link)
    # items' own covariances are the whole one where errors are not shared
    parts = [own_errors(items, 0.1) for items in (old, new)]
    whole, each = np.zeros((12, 3, 12, 3)), np.arange(12)
    whole[each, :, each, :] = parts[0].covariance
    known = link_scales(*parts, method=method, old_covariance=whole, new_covariance=whole)
    np.testing.assert_allclose(link_scales(*parts, method=method).covariance, known.covariance, rtol=1e-9)
    assert known.se_slope > 0


def test_the_error_of_mean_sigma_is_that_by_differences(reference: Path) -> None:
    """Where equateIRT's is smaller by a tenth."""
    parts = [reference_form(reference / "next" / "05_linking", "a2pl", form) for form in "XY"]

    def line(values: np.ndarray) -> np.ndarray:
        moved = [
            replace(items, discrimination=own[:, 0], intercept=own[:, 1])
            for (items, _), own in zip(parts, values, strict=True)
        ]
        link = link_scales(*moved, method="mean-sigma")
        return np.array([link.slope, link.intercept])

    at = np.stack([np.stack([items.discrimination, items.intercept], axis=1) for items, _ in parts])
    steps = 1e-6 * np.eye(at.size).reshape(-1, *at.shape)
    derivatives = np.stack([(line(at + step) - line(at - step)) / 2e-6 for step in steps], axis=1)
    (old, of_old), (new, of_new) = parts
    errors = block_diag(*(whole[:, :2, :, :2].reshape(at[0].size, -1) for whole in (of_old, of_new)))
    link = link_scales(old, new, method="mean-sigma", old_covariance=of_old, new_covariance=of_new)
    np.testing.assert_allclose(link.covariance, derivatives @ errors @ derivatives.T, rtol=1e-5)


def test_abilities_carry_the_error_of_the_line() -> None:
    link = ScaleLink("haebara", 1.2, 0.5, np.array([[0.04, 0.01], [0.01, 0.09]]), ("i1", "i2"))
    # theta = 2, se = .5: 1.2 * 2 + .5 = 2.9; .36 + .04 * 4 + 2 * 2 * .01 + .09 = .65
    assert link.abilities(2.0, 0.5).to_numpy().ravel() == pytest.approx([2.9, np.sqrt(0.65)])
    # of a group with mean 2 and standard deviation 3: the same without .36, and 3.6 with 3 * .2
    expected = {"mean": 2.9, "sd": 3.6, "se_mean": np.sqrt(0.29), "se_sd": 0.6}
    assert link.population(2.0, 3.0) == pytest.approx(expected)


def test_items_of_a_common_slope_keep_one_and_covariances_turn_with_them() -> None:
    rasch = replace(own_errors(two_scales()[0], 0.1), discrimination=np.ones(12), kind=("rasch",) * 12)
    moved = ScaleLink("haebara", 0.8, 0.5, np.zeros((2, 2)), ("i1", "i2")).items(rasch)
    assert set(moved.model) == {"1pl"}
    assert moved.standard_errors()["difficulty"] == pytest.approx(0.8 * rasch.standard_errors()["difficulty"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"method": "mean"}, "^link: method: expected 'mean-mean', .* but got 'mean'$"),
        ({"common": ["item1", "item99"]}, "^link: item item99 is not on both scales$"),
        ({"common": ["item1"]}, "^link: 1 common item; expected at least 2 of the same item_id$"),
        ({"new_covariance": np.zeros((3, 3))}, "^link: new_covariance: expected shape .* but got"),
    ],
)
def test_what_does_not_make_a_line_is_said(change: dict, said: str) -> None:
    is_refused(said, link_scales, *two_scales(), **change)


def test_slopes_of_zero_go_by_curves_alone() -> None:
    old, new = two_scales()
    flat = [replace(items, discrimination=items.discrimination * (np.arange(12) > 0)) for items in (old, new)]
    is_refused("must be above 0 but is not for item1; leave them out", link_scales, *flat, method="mean-mean")
    same = [replace(items, intercept=np.where(np.arange(12) > 0, items.intercept, 0.0)) for items in flat]
    assert link_scales(*same, method="haebara").slope == pytest.approx(SLOPE, abs=1e-6)
    every = [replace(items, discrimination=np.zeros(12)) for items in (old, new)]
    is_refused("do not determine slope and intercept", link_scales, *every)
    alike = ItemParameters.from_difficulty([1.0, 1.0], [0.5, 0.5])
    is_refused("all of one difficulty; expected method mean-mean", link_scales, alike, alike, method="mean-sigma")


# --- drift of common items -----------------------------------------------------------------------------------------

calibrations = partial(two_calibrations, error=0.12, slope=SLOPE, intercept=INTERCEPT)


def test_items_that_drifted_are_found_and_released() -> None:
    drift = np.r_[np.full(4, 1.2), np.zeros(16)]
    found, biased, clean = [], [], []
    for seed in range(10):
        old, new = calibrations(drift, seed=seed)
        found.append(find_drift(old, new))
        biased.append(link_scales(old, new).intercept)
        clean.append(link_scales(old, new, common=found[-1].kept).intercept)
    # 1.2 in b is 1.1 logits or more, beside an error of .17
    released = np.mean([each.released for each in found], axis=0)
    assert released[:4].mean() > 0.95
    assert released[4:].mean() < 0.02
    assert abs(np.mean(biased) - INTERCEPT) > 0.15
    assert np.mean(clean) == pytest.approx(INTERCEPT, abs=0.02)


def test_without_drift_hardly_a_link_loses_an_item() -> None:
    # 5% by Holm; a line by three of five items that counted as known lost an item in 11% of the links
    lost = [find_drift(*calibrations(np.zeros(5), seed=100 + seed)).released.any() for seed in range(30)]
    assert np.mean(lost) < 0.08


def test_without_covariances_robust_z_tells() -> None:
    # quartiles of 0 1 2 3 4 are 1 and 3: 2 * .74
    np.testing.assert_allclose(robust_z(np.array([0.0, 1, 2, 3, 4, np.inf]))[:5], np.arange(-2, 3) / 1.48)
    assert np.isnan(robust_z(np.array([0.0, 1, 2, 3, 4, np.inf]))[5])
    assert robust_z(np.zeros(5)).tolist() == [0.0] * 5
    drift = np.r_[np.full(3, 1.5), np.zeros(17)]
    tables = [[items.table() for items in calibrations(drift, seed=seed)] for seed in range(20)]  # without covariance
    found = [find_drift(*pair) for pair in tables]
    assert np.isnan(found[0].w).all()
    released = np.mean([each.released for each in found], axis=0)
    assert released[:3].mean() > 0.95
    assert released[3:].mean() < 0.1


def test_fixed_slopes_and_few_items_are_no_matter() -> None:
    old, new = calibrations(np.r_[2.0, np.zeros(9)], seed=3)
    rasch = [
        replace(items, discrimination=np.ones(10), covariance=np.tile(np.diag([0, 0.01, 0]), (10, 1, 1)))
        for items in (old, new)
    ]
    assert np.isnan(find_drift(*rasch).w).all()
    few = find_drift(old.select(old.item_ids[:4]), new)
    assert np.isnan(few.robust_z).all()
    assert repr(few) == "<Drift: 4 common items, drift not tested>"
    assert few.kept == old.item_ids[:4]
    is_refused("0 common items", find_drift, old, replace(new, item_ids=tuple(f"other{k}" for k in range(10))))


# --- items in categories ---------------------------------------------------------------------------------------------


MODELS = (Graded(), PartialCredit(), Logistic(lower=True))


@pytest.mark.parametrize("method", METHODS.values())
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
    saying = "item n0 has no slope and steps of its own; expected method stocking-lord"
    is_refused(saying, link_scales, old.as_items(), new, method="mean-sigma")


@pytest.fixture(scope="module")
def two_years() -> tuple[ItemParameters, ItemParameters]:
    rng = np.random.default_rng(3)
    truth = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 10), rng.normal(0, 0.8, 10))
    fits = [fit_model(simulate_responses(rng.normal(m, s, 600), truth, rng=rng)) for m, s in ((0, 1), (0.4, 1.2))]
    return fits[0].items, fits[1].items


@pytest.mark.parametrize("method", METHODS.values())
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
    is_refused("item g03 is not on both scales in the same categories", link_scales, *scales, common=["g00", "g03"])
    both = joined(scales[0].items, two := ItemParameters.from_difficulty([1.2], [0.3], item_ids=["right"]))
    np.testing.assert_allclose(icc(0.5, both)[0, -1], icc(0.5, two)[0, 0], atol=1e-12)
    assert isinstance(both.categories.matrix(pd.DataFrame({"g00": [1], "right": [0]})), ResponseMatrix)
