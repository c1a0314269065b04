"""Two calibrations come onto one scale: equateIRT's figures, by hand, within standard errors; items that drifted."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import block_diag

from builders.mirt_figures import reference_form
from irtbench import InputError, ItemParameters, Quadrature, ScaleLink, find_drift, link_scales
from irtbench.building.extending import robust_z

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


def two_scales(n: int = 12, seed: int = 1) -> tuple[ItemParameters, ItemParameters]:
    """Items on the old scale and on the new one, where theta_old = 1.2 theta_new + .5."""
    rng = np.random.default_rng(seed)
    a, b, c = rng.uniform(0.8, 2, n), rng.normal(0, 1, n), rng.uniform(0, 0.25, n)
    return (
        ItemParameters.from_difficulty(a, b, c, guessing_estimated=True),
        ItemParameters.from_difficulty(a * SLOPE, (b - INTERCEPT) / SLOPE, c, guessing_estimated=True),
    )


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


def own_errors(items: ItemParameters, sd: float) -> ItemParameters:
    """The same with independent errors of this size stated for slope and intercept."""
    return replace(items, covariance=np.tile(np.diag([sd**2, sd**2, 0.0]), (items.n_items, 1, 1)))


def drawn(items: ItemParameters, rng: np.random.Generator, *, shared: float) -> ItemParameters:
    """Estimates: errors as stated, and one of this size in all difficulties alike, for respondents are a sample."""
    sd = np.sqrt(items.covariance[:, 0, 0])
    a = items.discrimination + sd * rng.normal(size=items.n_items)
    moved = shared * rng.normal() * items.discrimination
    return replace(items, discrimination=a, intercept=items.intercept + sd * rng.normal(size=items.n_items) - moved)


@pytest.mark.parametrize(("shared", "method"), [(0.0, "mean-sigma"), (0.06, "mean-mean")])
def test_the_line_lies_within_two_standard_errors_as_often_as_it_should(shared: float, method: str) -> None:
    """Where items share an error only with the whole covariance; 95.4% of 200 with a standard error of 1.5%."""
    old, new = (own_errors(items, 0.1) for items in two_scales(15))
    rng, each, within = np.random.default_rng(5), np.arange(15), []
    for _ in range(200):
        estimates = [drawn(items, rng, shared=shared) for items in (old, new)]
        whole = np.zeros((2, 15, 3, 15, 3))
        for blocks, items in zip(whole, estimates, strict=True):
            blocks[each, :, each, :] = items.covariance
            blocks[:, 1, :, 1] += shared**2 * np.outer(items.discrimination, items.discrimination)
        alone = link_scales(*estimates, method=method)
        together = link_scales(*estimates, method=method, old_covariance=whole[0], new_covariance=whole[1])
        assert (together.slope, together.intercept) == (alone.slope, alone.intercept)
        slope, intercept = abs(alone.slope - SLOPE), abs(alone.intercept - INTERCEPT)
        ends = [slope / alone.se_slope, intercept / alone.se_intercept, intercept / together.se_intercept]
        within.append(np.array(ends) < 2)
    of_slope, of_alone, of_together = np.mean(within, axis=0)
    assert 0.91 < of_slope < 0.99
    assert 0.91 < of_together < 0.99
    assert of_alone < 0.7 if shared else of_alone == of_together


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
    with pytest.raises(InputError, match=said):
        link_scales(*two_scales(), **change)


def test_slopes_of_zero_go_by_curves_alone() -> None:
    old, new = two_scales()
    flat = [replace(items, discrimination=items.discrimination * (np.arange(12) > 0)) for items in (old, new)]
    with pytest.raises(InputError, match="discrimination must be above 0 but is not for item1; leave them out"):
        link_scales(*flat, method="mean-mean")
    same = [replace(items, intercept=np.where(np.arange(12) > 0, items.intercept, 0.0)) for items in flat]
    assert link_scales(*same, method="haebara").slope == pytest.approx(SLOPE, abs=1e-6)
    every = [replace(items, discrimination=np.zeros(12)) for items in (old, new)]
    with pytest.raises(InputError, match="do not determine slope and intercept"):
        link_scales(*every)
    alike = ItemParameters.from_difficulty([1.0, 1.0], [0.5, 0.5])
    with pytest.raises(InputError, match="all of one difficulty; expected method mean-mean"):
        link_scales(alike, alike, method="mean-sigma")


# --- drift of common items -----------------------------------------------------------------------------------------

ERROR = 0.12


def calibrations(drift: np.ndarray, seed: int) -> tuple[ItemParameters, ItemParameters]:
    """Two calibrations with errors of slope and intercept; ``drift`` is added to b between them."""
    rng = np.random.default_rng(seed)
    n = len(drift)
    a, b = rng.uniform(0.9, 2, n), rng.normal(0, 0.9, n)
    covariance = np.tile(np.diag([ERROR**2, ERROR**2, 0.0]), (n, 1, 1))
    found = []
    for items in (
        ItemParameters.from_difficulty(a, b),
        ItemParameters.from_difficulty(a * SLOPE, (b + drift - INTERCEPT) / SLOPE),
    ):
        slope, intercept = (x + ERROR * rng.normal(size=n) for x in (items.discrimination, items.intercept))
        found.append(replace(items, discrimination=slope, intercept=intercept, covariance=covariance))
    return found[0], found[1]


def test_items_that_drifted_are_found_and_released() -> None:
    drift = np.r_[np.full(4, 1.2), np.zeros(16)]
    found, biased, clean = [], [], []
    for seed in range(15):
        old, new = calibrations(drift, seed)
        found.append(find_drift(old, new))
        biased.append(link_scales(old, new).intercept)
        clean.append(link_scales(old, new, common=found[-1].kept).intercept)
    # 1.2 in b is 1.1 logits or more, beside an error of .17
    released = np.mean([each.released for each in found], axis=0)
    assert released[:4].mean() > 0.95
    assert released[4:].mean() < 0.02
    assert abs(np.mean(biased) - INTERCEPT) > 0.15
    assert np.mean(clean) == pytest.approx(INTERCEPT, abs=0.02)


@pytest.mark.parametrize(("n_items", "most"), [(5, 0.08), (15, 0.15)])
def test_without_drift_hardly_a_link_loses_an_item(n_items: int, most: float) -> None:
    # 5% by Holm; a line by three of five items that counted as known lost an item in 11% of the links
    lost = [find_drift(*calibrations(np.zeros(n_items), 100 + seed)).released.any() for seed in range(30)]
    assert np.mean(lost) < most


def test_without_covariances_robust_z_tells() -> None:
    drift = np.r_[np.full(3, 1.5), np.zeros(17)]
    tables = [[items.table() for items in calibrations(drift, seed)] for seed in range(20)]  # without covariance
    found = [find_drift(*pair) for pair in tables]
    assert np.isnan(found[0].w).all()
    released = np.mean([each.released for each in found], axis=0)
    assert released[:3].mean() > 0.95
    assert released[3:].mean() < 0.1


def test_robust_z_by_hand() -> None:
    # quartiles of 0 1 2 3 4 are 1 and 3: 2 * .74
    np.testing.assert_allclose(robust_z(np.array([0.0, 1, 2, 3, 4, np.inf]))[:5], np.arange(-2, 3) / 1.48)
    assert np.isnan(robust_z(np.array([0.0, 1, 2, 3, 4, np.inf]))[5])
    assert robust_z(np.zeros(5)).tolist() == [0.0] * 5


def test_fixed_slopes_and_few_items_are_no_matter() -> None:
    old, new = calibrations(np.r_[2.0, np.zeros(9)], 3)
    rasch = [
        replace(items, discrimination=np.ones(10), covariance=np.tile(np.diag([0, 0.01, 0]), (10, 1, 1)))
        for items in (old, new)
    ]
    assert np.isnan(find_drift(*rasch).w).all()
    few = find_drift(old.select(old.item_ids[:4]), new)
    assert np.isnan(few.robust_z).all()
    assert repr(few) == "<Drift: 4 common items, drift not tested>"
    assert few.kept == old.item_ids[:4]
    with pytest.raises(InputError, match="0 common items"):
        find_drift(old, replace(new, item_ids=tuple(f"other{k}" for k in range(10))))
