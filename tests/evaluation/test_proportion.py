"""Wilson's interval: by hand, and at the ends."""

import numpy as np
import pytest

from irtbench import InputError, wilson_interval


def test_by_hand() -> None:
    # 12 of 15: (.8 + z^2/30 -+ z sqrt(.16/15 + z^2/900)) / (1 + z^2/15)
    assert [float(end) for end in wilson_interval(12, 15)] == pytest.approx([0.54814, 0.92953], abs=2e-5)


@pytest.mark.parametrize("level", [1e-6, 0.5, 0.95, 1 - 1e-12])
def test_every_number_of_successes_has_its_share_inside(level: float) -> None:
    for n in (*range(1, 120), 997, 2_000):
        k = np.arange(n + 1)
        lower, upper = wilson_interval(k, n, level=level)
        share = k / n
        assert (lower >= 0).all()
        assert (lower <= share).all()
        assert (share <= upper).all()
        assert (upper <= 1).all()
        assert (np.diff(lower) >= 0).all()
        assert lower == pytest.approx(1 - upper[::-1], abs=1e-12)  # wrong answers are the other side of right ones


def test_no_case_has_no_interval() -> None:
    assert np.isnan(wilson_interval([0], [0])).all()
    with pytest.raises(InputError, match="level must be between 0 and 1"):
        wilson_interval(1, 2, level=1.0)
