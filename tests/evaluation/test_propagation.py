"""Any function of any samples, by hand."""

import numpy as np
import pytest

from irtbench.data.input_error import InputError
from irtbench.evaluation.event_counts import draw_events, propagate, summarise_samples


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_mean_and_interval_by_hand() -> None:
    # lengths 1, 2, 3: mean 2, sd 1
    found = propagate(["a", "bb", "ccc"], len)
    assert (found.mean, found.sd) == (2, 1)
    assert [found.lower, found.upper] == pytest.approx([2 - 1.959964, 2 + 1.959964], abs=1e-6)
    # quantiles .25 and .75 of 1, 2, 3 are 1.5 and 2.5
    half = propagate(["a", "bb", "ccc"], len, interval="quantile", level=0.5)
    assert (half.lower, half.upper) == (1.5, 2.5)


def test_a_function_may_give_an_array() -> None:
    found = propagate([[1, 2], [3, 2]], lambda sample: np.array(sample) ** 2)
    assert found.mean.tolist() == [5, 4]
    assert found.sd.tolist() == pytest.approx([np.sqrt(32), 0])  # 1 and 9: sd sqrt(((-4)^2 + 4^2) / 1)


def test_counts_of_independent_events_have_the_binomials_mean_and_sd() -> None:
    probability = np.tile([[0.3]], (50, 1))
    found = propagate(draw_events(probability, n_samples=40_000, rng=rng()), lambda who: (who == 0).sum())
    assert found.mean == pytest.approx(15, abs=0.08)  # 5 standard errors of sqrt(10.5 / 40000)
    assert found.sd == pytest.approx(np.sqrt(50 * 0.3 * 0.7), rel=0.02)


def test_one_sample_has_no_standard_deviation_and_none_is_refused() -> None:
    with pytest.warns(RuntimeWarning, match="no standard deviation"):
        found = propagate([3.0], float)
    assert found.mean == 3
    assert np.isnan([found.sd, found.lower, found.upper]).all()
    with pytest.raises(InputError, match="at least one sample"):
        propagate([], float)
    with pytest.raises(InputError, match="level"):
        propagate([1.0, 2.0], float, level=0)


def test_a_function_that_is_undefined_for_a_sample_makes_its_mean_undefined() -> None:
    with pytest.warns(RuntimeWarning, match="undefined for some samples"):
        found = summarise_samples(np.array([[1.0, 2.0], [np.nan, 4.0]]))
    assert np.isnan(found.mean[0])
    assert found.mean[1] == 3
