"""Common items that drifted are found and no other; the link without them is right where that with them is not."""

from dataclasses import replace

import numpy as np
import pytest

from irtbench import InputError, ItemParameters, link_scales
from irtbench.building.extending import find_drift, robust_z

SLOPE, INTERCEPT = 1.2, 0.5
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
    kept, biased, clean = np.zeros(20), [], []
    for seed in range(30):
        old, new = calibrations(drift, seed)
        found = find_drift(old, new)
        kept += ~found.released
        biased.append(link_scales(old, new).intercept)
        clean.append(link_scales(old, new, common=found.kept).intercept)
    # 1.2 in b is 1.1 logits or more, beside an error of .17
    assert kept[:4].sum() / 120 < 0.05
    assert kept[4:].sum() / 480 > 0.98
    assert abs(np.mean(biased) - INTERCEPT) > 0.15
    assert np.mean(clean) == pytest.approx(INTERCEPT, abs=0.02)


@pytest.mark.parametrize(("n_items", "most"), [(5, 0.08), (15, 0.15)])
def test_without_drift_hardly_a_link_loses_an_item(n_items: int, most: float) -> None:
    # 5% by Holm; a line by three of five items that counted as known lost an item in 11% of the links
    lost = [find_drift(*calibrations(np.zeros(n_items), 100 + seed)).released.any() for seed in range(60)]
    assert np.mean(lost) < most


def test_without_covariances_robust_z_tells() -> None:
    drift = np.r_[np.full(3, 1.5), np.zeros(17)]
    found_of = [
        find_drift(*(items.table() for items in calibrations(drift, seed)))  # tables have no covariance
        for seed in range(20)
    ]
    assert np.isnan(found_of[0].w).all()
    assert np.mean([found.released[:3] for found in found_of]) > 0.95
    assert np.mean([found.released[3:] for found in found_of]) < 0.1


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
    assert few.kept == old.item_ids[:4]
    with pytest.raises(InputError, match="0 common items"):
        find_drift(old, replace(new, item_ids=tuple(f"other{k}" for k in range(10))))
