"""Correlations of columns with gaps: the rounding of long columns is not taken for variation."""

import numpy as np
import pytest

from irtbench.diagnostics.correlation import pairwise_correlation


@pytest.mark.parametrize("n_rows", [5_000, 20_000, 80_000])
def test_a_column_that_does_not_vary_where_both_are_observed_has_no_correlation(n_rows: int) -> None:
    # column 0 is 1 wherever column 1 is observed; of sums of thousands of (1 - mean)^2 rounding leaves a relative
    # 1e-13 or so, to either side
    for seed in range(8):
        values = (np.random.default_rng(seed).random((n_rows, 2)) < 0.37).astype(np.float64)
        values[values[:, 0] == 0, 1] = np.nan
        assert np.isnan(pairwise_correlation(values)[0, 1]), seed


def test_little_variation_is_variation() -> None:
    # one row of 20,000 differs, in both columns: correlation 1, and -1 where it differs to the other side
    values = np.zeros((20_000, 3))
    values[0] = 1, 1, -1
    correlation = pairwise_correlation(values)
    assert correlation[0, 1] == pytest.approx(1.0)
    assert correlation[0, 2] == pytest.approx(-1.0)
