"""Adjusted p values equal those of statsmodels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from irtbench.data.multiple_testing import adjust


@settings(max_examples=30, deadline=None)
@given(p=st.lists(st.floats(0, 1), min_size=1, max_size=12))
@pytest.mark.parametrize("method", ["holm", "fdr_bh"])
def test_adjusted_p_is_that_of_statsmodels(method: str, p: list[float]) -> None:
    np.testing.assert_allclose(adjust(np.array(p), method), multipletests(p, method=method)[1], atol=1e-15)


def test_what_is_missing_is_no_test() -> None:
    # Holm: .01 * 3, .02 * 2, .9; Benjamini and Hochberg: .01 * 3, .02 * 3 / 2, .9
    p = np.array([0.02, np.nan, 0.9, 0.01])
    np.testing.assert_allclose(adjust(p), [0.04, np.nan, 0.9, 0.03])
    np.testing.assert_allclose(adjust(p, "fdr_bh"), [0.03, np.nan, 0.9, 0.03])
    assert np.isnan(adjust(np.array([np.nan]))).all()
    assert adjust(np.array([])).size == 0
