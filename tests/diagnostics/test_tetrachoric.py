"""Correlations of items: tetrachoric and polychoric ones against R and by hand, and of columns with gaps."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal, norm

from builders.refusals import is_refused
from irtbench.diagnostics.correlation import (
    nearest_positive_definite,
    orthant,
    pairwise_correlation,
    polychoric,
    tetrachoric,
)


def of_counts(counts: list[tuple[tuple[int, ...], int]]) -> np.ndarray:
    """So many respondents of each pattern."""
    return np.repeat(*map(np.array, zip(*counts, strict=True)), axis=0).astype(np.float64)


def test_an_empty_cell_counts_as_half_a_respondent_and_is_said() -> None:
    # i0 and i1: 20, 10, 10, 20, by hand r = sin(2 pi (1/3 - 1/4)) = 1/2; i2 is right only where i0 is
    patterns = [((1, 1, 1), 11), ((1, 1, 0), 9), ((1, 0, 1), 1), ((1, 0, 0), 9), ((0, 1, 0), 10), ((0, 0, 0), 20)]
    found = tetrachoric(of_counts(patterns))
    assert found.correlations[0, 1] == pytest.approx(0.5, abs=1e-9)
    assert found.n_empty == 1
    assert found.n_negative == 0
    assert found.note == "1 of 3 pairs have an empty cell, counted as half a respondent"
    # by SciPy's bivariate normal distribution: of 60.5, 12.5 and 30 right and 12 both; of 60, 12 and 30 and 11
    assert found.correlations[0, 2] == pytest.approx(0.8302630, abs=1e-6)
    assert found.correlations[1, 2] == pytest.approx(0.7374910, abs=1e-6)
    np.testing.assert_array_equal(found.correlations, found.correlations.T)
    whole = tetrachoric(of_counts([*patterns, ((0, 1, 1), 1)]))
    assert (whole.n_empty, whole.note) == (0, "")
    twins = tetrachoric(of_counts([((1, 1, 1), 10), ((1, 1, 0), 5), ((0, 0, 1), 5), ((0, 0, 0), 10)]))
    assert twins.n_empty == 1  # two empty cells of a pair are one pair
    assert twins.correlations[0, 1] > 0.95


def test_a_matrix_that_is_no_correlation_is_raised_to_the_least() -> None:
    # eigenvalues 1.9, 1.9 and -.8 along (1, -1, 1): with .0001 in its place all become (1.9 - .0001) / (3.8 + .0001)
    given = np.array([[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]])
    raised, n_negative, moved = nearest_positive_definite(given)
    size = 1.8999 / 3.8001
    np.testing.assert_allclose(raised, np.where(np.eye(3) == 1, 1, np.sign(given) * size), atol=1e-12)
    assert n_negative == 1
    assert moved == pytest.approx(0.9 - size, abs=1e-12)
    same, n_negative, moved = nearest_positive_definite(np.eye(3))
    assert (same.tolist(), n_negative, moved) == (np.eye(3).tolist(), 0, 0.0)


def test_polychoric_has_the_largest_likelihood_of_the_table_with_thresholds_of_its_shares() -> None:
    table = np.array([[30.0, 10, 2], [22, 31, 9], [5, 17, 0], [1, 12, 25]])
    rows = np.repeat([(a, b) for a in range(4) for b in range(3)], table.ravel().astype(int), axis=0)
    ends = [np.r_[-9, norm.ppf(table.sum(axis=axis).cumsum()[:-1] / table.sum()), 9] for axis in (1, 0)]

    def minus_log_likelihood(r: float) -> float:
        below = np.array(
            [[multivariate_normal.cdf([h, k], [0, 0], [[1, r], [r, 1]]) for k in ends[1]] for h in ends[0]]
        )
        p = np.diff(np.diff(below, axis=0), axis=1)
        return -float((table * np.log(np.maximum(p, 1e-300))).sum())

    best = minimize_scalar(minus_log_likelihood, bounds=(-0.99, 0.99), method="bounded", options={"xatol": 1e-9}).x
    found = polychoric(rows)
    assert found.correlations[0, 1] == pytest.approx(best, abs=1e-6)
    assert (found.kind, found.n_empty, found.note) == ("polychoric", 0, "")
    words = polychoric(
        np.array(["low", "fair", "good", "best"], dtype=object)[rows], levels=["low", "fair", "good", "best"]
    )
    assert words.correlations[0, 1] == found.correlations[0, 1]


def test_of_two_categories_polychoric_is_tetrachoric_and_of_very_many_neighbours_are_joined() -> None:
    rng = np.random.default_rng(2)
    normal = np.sqrt(0.5) * (rng.normal(size=(3000, 1)) + rng.normal(size=(3000, 3)))
    two = (normal[:40] > [-1.5, 0, 1]).astype(float)
    assert (
        tetrachoric(two).n_empty
        == sum(len(np.unique(two[:, pair], axis=0)) < 4 for pair in ([0, 1], [0, 2], [1, 2]))
        > 0
    )
    np.testing.assert_array_equal(polychoric(two).correlations, tetrachoric(two).correlations)
    points = np.clip(50 + 15 * normal, 0, 99).round()
    np.testing.assert_allclose(polychoric(points).correlations, 0.5 + 0.5 * np.eye(3), atol=0.05)
    is_refused("item item2 has no two categories", polychoric, np.column_stack([points[:, 0], np.ones(3000)]))


def test_a_column_that_does_not_vary_where_both_are_observed_has_no_correlation() -> None:
    # column 0 is 1 wherever column 1 is observed; of sums of thousands of (1 - mean)^2 rounding leaves a relative
    # 1e-13 or so, to either side
    for seed, n_rows in product(range(8), (5_000, 20_000, 80_000)):
        values = (np.random.default_rng(seed).random((n_rows, 2)) < 0.37).astype(np.float64)
        values[values[:, 0] == 0, 1] = np.nan
        assert np.isnan(pairwise_correlation(values)[0, 1]), (seed, n_rows)
    # little variation is variation: one row of 20,000 differs, in both columns
    values = np.zeros((20_000, 3))
    values[0] = 1, 1, -1
    assert pairwise_correlation(values)[0, 1:] == pytest.approx([1.0, -1.0])


@pytest.mark.parametrize("angle", [0.3, 1.0, 1.01, 1.18, 1.19, 1.5])
def test_orthants_are_right_whichever_rule_their_angles_take(angle: float) -> None:
    t = np.array([-angle, angle])
    np.testing.assert_allclose(orthant(np.zeros(2), np.zeros(2), t), 0.25 + t / (2 * np.pi), atol=1e-14)
    # Phi(h) = P(u < h, v < k) + P(u < h, v > k), and v > k is -v < -k, of correlation -sin t
    h, k = np.array([0.7, -1.5]), np.array([-0.4, 2.2])
    np.testing.assert_allclose(orthant(h, k, t) + orthant(h, -k, -t), norm.cdf(h), atol=1e-14)
    exact = [multivariate_normal([0, 0], [[1, r], [r, 1]]).cdf([a, b]) for a, b, r in zip(h, k, np.sin(t), strict=True)]
    np.testing.assert_allclose(orthant(h, k, t), exact, atol=1e-9)
