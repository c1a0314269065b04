"""The distribution of the sum score against convolution, whatever stays in the cache."""

import numpy as np
import pytest

from irtbench.models.theta_posterior import sum_score_distribution


@pytest.mark.parametrize("cells", [1, 40, 2**15])
def test_the_recursion_is_a_convolution_item_by_item(monkeypatch: pytest.MonkeyPatch, cells: int) -> None:
    monkeypatch.setattr("irtbench.models.theta_posterior.CELLS_AT_ONCE", cells)
    p = np.random.default_rng(0).random((5, 9))
    before, after = p[:, :4], p[:, 4:]
    start = sum_score_distribution(before)
    given = start.copy()
    found = sum_score_distribution(after, start)
    for node in range(5):
        expected = np.ones(1)
        for share in p[node]:
            expected = np.convolve(expected, [1 - share, share])
        np.testing.assert_allclose(found[node], expected, rtol=1e-12)
    np.testing.assert_array_equal(start, given)  # what is given is left as it was
    np.testing.assert_allclose(sum_score_distribution(p), found, rtol=1e-12)
