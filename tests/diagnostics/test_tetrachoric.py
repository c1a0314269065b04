"""Tetrachoric correlations of small tables by hand: empty cells, and matrices that are no correlations."""

import numpy as np
import pytest

from irtbench.data.responses import ResponseMatrix
from irtbench.diagnostics.correlation import nearest_positive_definite, tetrachoric


def of_counts(counts: list[tuple[tuple[int, ...], int]]) -> ResponseMatrix:
    """So many respondents of each pattern."""
    rows = np.repeat(*map(np.array, zip(*counts, strict=True)), axis=0).astype(np.float64)
    return ResponseMatrix(rows, tuple(f"r{k}" for k in range(len(rows))), tuple(f"i{k}" for k in range(rows.shape[1])))


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


def test_two_empty_cells_of_a_pair_are_one_pair() -> None:
    twins = [((1, 1, 1), 10), ((1, 1, 0), 5), ((0, 0, 1), 5), ((0, 0, 0), 10)]
    found = tetrachoric(of_counts(twins))
    assert found.n_empty == 1
    assert found.correlations[0, 1] > 0.95


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
