"""Runs and repeated patterns in answers, by hand and in honest crowds."""

import numpy as np
import pandas as pd
import pytest

from irtbench.data.answer_patterns import longest_pattern, longest_run


def table(*rows):
    cells = [(f"r{i}", f"q{j}", answer) for i, row in enumerate(rows) for j, answer in enumerate(row)]
    return pd.DataFrame(cells, columns=["respondent_id", "item_id", "answer"])


def test_patterns_by_hand():
    found = longest_pattern(
        table(
            "abababab",  # ab, then 6 foretold
            "abcabcab",  # abc, then 5
            "abcdabcd",  # abcd, then 4
            "aaaaaaaa",  # a run, no pattern
            "aabaabaa",  # aab, then 5
            "abababba",  # ab, then 4; with period 3 .. bb? a b a b a b b a: none longer
            ["a", "b", None, "b", "a", "b", "", "b"],  # empty answers foretell nothing: a b of period 4
            "ab",  # shorter than any pattern
            "bbbabbba",  # bbba, then 4; the run of b alone is no pattern
        )
    )
    assert found.to_dict() == dict(zip([f"r{i}" for i in range(9)], [6, 5, 4, 0, 5, 4, 2, 0, 4], strict=True))


def test_runs_by_hand():
    found = longest_run(table("abbbac", ["a", "a", "", "a"], [None, ""]))
    assert found.to_dict() == {"r0": 3, "r1": 2, "r2": 0}


@pytest.mark.slow
def test_patterns_are_short_where_people_read_and_items_come_in_random_order():
    """90 answers of three kinds: under one in a thousand has a pattern of more than 12; alternators all have."""
    rng = np.random.default_rng(1)
    answers = rng.integers(3, size=(4_000, 90)).astype(str)
    assert (longest_pattern(table(*answers)) > 12).mean() < 0.001
    slips = np.tile(["0", "1"], (50, 45))
    slips[rng.random(slips.shape) < 0.02] = "2"
    assert (longest_pattern(table(*slips)) > 12).mean() > 0.9
