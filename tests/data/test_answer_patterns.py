"""Runs and repeated patterns in answers, by hand and in honest crowds."""

import numpy as np
import pandas as pd
import pytest

from builders.refusals import is_refused
from irtbench.data.answer_patterns import longest_pattern, longest_run, rapid_guesses, robust_time_limit
from irtbench.data.readers.respondents import approval_rates


def table(*rows):
    cells = [(f"r{i}", f"q{j}", answer) for i, row in enumerate(rows) for j, answer in enumerate(row)]
    return pd.DataFrame(cells, columns=["respondent_id", "item_id", "answer"])


@pytest.mark.parametrize(
    ("answers", "length"),
    [
        ("abababab", 6),  # ab, then 6 foretold
        ("abcabcab", 5),  # abc, then 5
        ("abcdabcd", 4),
        ("aaaaaaaa", 0),  # a run, no pattern
        ("aabaabaa", 5),  # aab, then 5
        ("abababba", 4),  # ab, then 4; with period 3 .. bb? a b a b a b b a: none longer
        (["a", "b", None, "b", "a", "b", "", "b"], 2),  # empty answers foretell nothing: a b of period 4
        ("ab", 0),  # shorter than any pattern
        ("bbbabbba", 4),  # bbba, then 4; the run of b alone is no pattern
    ],
)
def test_patterns_by_hand(answers, length):
    assert longest_pattern(table("abababab", answers)).tolist() == [6, length]


def test_a_run_is_of_one_respondent_whatever_rows_are_between():
    answers = table("aaba", "bbbb", "abab")
    by_item = answers.sort_values("item_id", kind="stable")
    for found in (longest_run(answers), longest_run(by_item)):
        assert found.to_dict() == {"r0": 2, "r1": 4, "r2": 1}


NAN = np.nan


def times(values):
    return pd.DataFrame(values).rename(index="r{}".format, columns="q{}".format).stack(future_stack=True).rename_axis(
        ["respondent_id", "item_id"]).rename("seconds").reset_index()  # fmt: skip


def test_the_limit_by_hand_and_its_rate():
    # logs 0 1 2 3 4: median 2, median absolute deviation 1, s = 1 / .67449
    limit = robust_time_limit(np.exp([0.0, 1, 2, 3, 4]), 0.1)
    assert limit == pytest.approx(np.exp(2 - 1.2815515655446004 / 0.6744897501960817))
    rng = np.random.default_rng(1)
    honest = np.exp(rng.normal(2, 0.4, 20_000))
    assert (honest < robust_time_limit(honest, 0.02)).mean() == pytest.approx(0.02, abs=0.004)
    # a tenth who click move it little: honest people below it stay few
    crowd = np.concatenate([honest, np.exp(rng.normal(0, 0.3, 2_000))])
    limit = robust_time_limit(crowd, 0.02)
    assert (honest < limit).mean() < 0.02
    assert (crowd[20_000:] < limit).mean() > 0.95
    assert np.isnan(robust_time_limit(np.array([NAN, 0.0]), 0.1))


def test_normative_thresholds_by_hand():
    # q0: mean 10, threshold 1; q1: mean 200, a tenth is 20, at most 10; q2: no times
    found = rapid_guesses(times([[0.5, 400, NAN], [19.5, 5, NAN], [10, 195, NAN]]))
    assert found.thresholds.to_dict() == {"q0": 1.0, "q1": 10.0}
    assert found.rapid.reshape(3, 3).tolist() == [[True, False, False], [False, True, False], [False, False, False]]
    assert found.effort.to_dict() == {"r0": 0.5, "r1": 0.5, "r2": 1.0}
    is_refused("share must be between 0 and 1", rapid_guesses, times([[1.0]]), share=1)


def test_the_mixture_finds_planted_guesses_and_none_where_there_is_one_kind():
    rng = np.random.default_rng(2)
    n = 1_000
    solutions = np.exp(rng.normal(2.3, 0.4, (n, 4)))
    guesses = rng.random((n, 4)) < 0.1
    guesses[:, 3] = False  # on q3 nobody guesses
    found = rapid_guesses(times(np.where(guesses, np.exp(rng.normal(0.2, 0.4, (n, 4))), solutions)), method="mixture")
    assert np.isnan(found.thresholds["q3"])
    rapid = found.rapid.reshape(n, 4)
    assert rapid[guesses].mean() > 0.95
    assert rapid[~guesses].mean() < 0.02
    # few times: no threshold rather than a wrong one
    assert rapid_guesses(times(solutions[:40]), method="mixture").thresholds.isna().all()
    assert rapid_guesses(times(np.zeros((60, 1))), method="mixture").effort.isna().all()


def rates(*texts):
    return pd.DataFrame({"respondent_id": [f"r{i}" for i in range(len(texts))], "approval_rate": texts})


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("97%", "100% (45/45)", "0% (0/2)", ""), [0.97, 1, 0]),
        ((".97", "1", "0.5", "NA"), [0.97, 1, 0.5]),
        (("97", "100", "1"), [0.97, 1, 0.01]),
        (("0.5%", "1%"), [0.005, 0.01]),
        (("97%", "good"), "x.csv, column approval_rate: respondent r1 has 'good'; expected a rate"),
        (("970",), "respondent r0 has '970'"),
    ],
)
def test_approval_rates_as_platforms_write_them(texts, expected):
    given = rates(*texts), "approval_rate"
    if isinstance(expected, str):
        is_refused(expected, approval_rates, *given, place="file x.csv")
    else:
        assert approval_rates(*given, place="file x.csv").tolist() == pytest.approx(expected)
    two = pd.DataFrame({"respondent_id": ["a", "a"], "approval_rate": ["97%", "98%"]})
    is_refused("respondent a has both", approval_rates, two, "approval_rate", place="file x.csv")
