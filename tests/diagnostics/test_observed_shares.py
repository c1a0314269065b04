"""Shares right by group of ability: counted by hand, by group; missing responses and trials; what is refused."""

import numpy as np
import pytest

import irtbench
from irtbench.data.input_error import InputError
from irtbench.diagnostics.empirical_curve import observed_shares


def test_groups_in_order_of_ability_are_counted() -> None:
    # abilities out of order: the groups are {r2, r5}, {r1, r4} and, one short, {r3}
    theta = np.array([0.0, -2.0, 3.0, 1.0, -1.0])
    answers = [[1, 0], [0, np.nan], [1, 1], [0, np.nan], [1, np.nan]]
    found = observed_shares(answers, theta, n_groups=3)
    np.testing.assert_array_equal(found.n, [[2, 0], [2, 1], [1, 1]])
    np.testing.assert_array_equal(found.n_correct, [[1, 0], [1, 0], [1, 1]])
    np.testing.assert_array_equal(found.share, [[0.5, np.nan], [0.5, 0], [1, 1]])
    np.testing.assert_array_equal(found.theta, [[-1.5, np.nan], [0.5, 0], [3, 3]])
    assert len(found.table()) == 6
    assert found.n.sum(axis=0).tolist() == [5, 2]


def test_every_trial_is_a_response() -> None:
    responses = irtbench.ResponseMatrix(
        np.array([[3.0], [1.0]]), ("a", "b"), ("i",), trials=np.array([[4], [2]], dtype=np.int64)
    )
    found = observed_shares(responses, np.array([1.0, -1.0]), n_groups=2)
    assert found.n.tolist() == [[2], [4]]
    assert found.share.tolist() == [[0.5], [0.75]]


def test_no_more_groups_than_people_and_at_least_one() -> None:
    assert observed_shares([[1], [0]], np.array([0.0, 1.0])).n.shape == (2, 1)
    with pytest.raises(InputError, match="at least one group"):
        observed_shares([[1], [0]], np.array([0.0, 1.0]), n_groups=0)
    with pytest.raises(InputError, match="theta has shape"):
        observed_shares([[1], [0]], np.array([0.0]))
    with pytest.raises(InputError, match="at least one respondent but there is none"):
        observed_shares(np.empty((0, 2)), np.empty(0))
