"""Screening: who is removed and why, at the edge of each rule; guessers found, honest respondents kept."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from builders.refusals import is_refused
from irtbench.data.grading import grade
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.readers import read_answers, read_items
from irtbench.data.responses import ResponseMatrix
from irtbench.data.screening import ScreeningSettings, screen

NAN = np.nan


def study(values, n_checks=0) -> tuple[ResponseMatrix, ItemTable]:
    """Responses with the last ``n_checks`` items being attention checks, and the item table."""
    names = tuple(f"r{i}" for i in range(len(values))), tuple(f"q{j}" for j in range(len(values[0])))
    responses = ResponseMatrix(np.array(values, dtype=float), *names)
    checks = tuple(j >= responses.n_items - n_checks for j in range(responses.n_items))
    return responses, replace(ItemTable.plain(responses.item_ids), attention=checks)


def long(column, rows):
    """Long table from a list of values for each respondent, items in order."""
    cells = [(f"r{i}", f"q{j}", value) for i, row in enumerate(rows) for j, value in enumerate(row)]
    return pd.DataFrame(cells, columns=["respondent_id", "item_id", column])


def test_without_rules_only_those_without_a_response_go_and_the_table_has_a_row_for_each():
    # r1 answered nothing; r2 an attention check only, which tells nothing on any scale
    screening = screen(*study([[0, 0, 0], [NAN, NAN, NAN], [NAN, NAN, 1]], n_checks=1))
    assert screening.reason == ("", "no response", "no response")
    assert screening.kept.tolist() == [True, False, False]
    two, few = ScreeningSettings(min_responses=2), study([[1, 0, 1], [1, NAN, 1], [1, 0, NAN]], n_checks=1)
    assert screen(*few, two).reason == ("", "too few responses", "")
    table = screen(*study([[1, 0, 1], [NAN, NAN, NAN]], n_checks=1)).table()
    first = ["respondent_id", "kept", "reason", "n_responses", "n_correct", "accuracy"]
    assert list(table)[:8] == [*first, "attention_correct", "attention_asked"]
    assert table.loc[0, first].tolist() == ["r0", True, "", 2, 1, 0.5]
    assert table.loc[1, ["kept", "reason", "n_responses"]].tolist() == [False, "no response", 0]
    assert np.isnan(table.loc[1, "accuracy"])


def test_attention_share_is_of_the_checks_answered():
    values = [[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, NAN, 0], [1, NAN, NAN, NAN]]
    responses, items = study(values, n_checks=3)
    screening = screen(responses, items, ScreeningSettings(attention_share=2 / 3))
    # right: 2 of 3 (exactly the share), 1 of 3, 1 of 2, none answered
    assert screening.reason == ("", "failed attention checks", "failed attention checks", "")
    assert screening.attention_correct.tolist() == [2, 1, 1, 0]
    assert screening.attention_asked.tolist() == [3, 3, 2, 0]


def test_median_seconds_leave_attention_checks_and_unknown_times_out():
    responses, items = study(np.ones((4, 4)), n_checks=1)
    seconds = long("seconds", [[1, 5, 6, 99], [1, 4, 30, 99], [NAN, NAN, NAN, 1], [NAN, 5, NAN, 1]])
    screening = screen(responses, items, ScreeningSettings(min_seconds=5), seconds=seconds)
    np.testing.assert_array_equal(screening.median_seconds, [5, 4, NAN, 5])
    assert screening.reason == ("", "too fast", "", "")


def test_longest_run_goes_by_the_order_of_rows_and_stops_at_empty_answers():
    responses, items = study(np.ones((4, 6)), n_checks=1)
    # attention check last; r0 a run of 3 b, r1 of 4 a, r2 broken by an empty answer, r3 nothing but empty answers
    answers = long("answer", [list("abbbac"), list("aaaaba"), ["a", "a", "", "a", "a", "a"], [None] * 6])
    # the respondents one after another, and interleaved
    for rows in (answers, answers.iloc[np.argsort(np.arange(24) % 6, kind="stable")]):
        screening = screen(responses, items, ScreeningSettings(max_straight_line=3), answers=rows)
        assert screening.longest_run.tolist() == [3, 4, 2, 0]
        assert screening.reason == ("", "straight-lining", "", "")


def test_chance_probability_by_hand():
    # X ~ Binomial(n, 1/2): P(X >= 4 of 5) = 6/32; P(X >= 5 of 5) = 1/32; P(X >= 0) = 1; P(X >= 1 of 1) = 1/2
    values = [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0], [1, NAN, NAN, NAN, NAN]]
    screening = screen(*study(values), ScreeningSettings(chance_level=0.5))
    np.testing.assert_allclose(screening.chance_probability, [6 / 32, 1 / 32, 1, 1 / 2], rtol=1e-14)
    assert screening.reason == ("not above chance", "", "not above chance", "not above chance")
    assert screen(*study(values), ScreeningSettings(chance_level=0.5, chance_p=0.2)).reason[0] == ""
    # exactly at the level is above chance; just below it is not
    at, below = (ScreeningSettings(chance_level=0.5, chance_p=p) for p in (1 / 32, 1 / 32 - 1e-9))
    assert screen(*study([[1] * 5, [1] * 5]), at).kept.all()
    is_refused("2 not above chance", screen, *study([[1] * 5, [1] * 5]), below)


def test_first_reason_that_applies_wins():
    responses, items = study(
        [[NAN] * 4 + [0], [0, NAN, NAN, NAN, 0], *[[0, 0, 0, 0, right] for right in (0, 1, 1, 1)], [1] * 5], n_checks=1
    )
    seconds = long("seconds", [[1] * 5] * 4 + [[9] * 5] * 3)
    answers = long("answer", [list("aaaaa")] * 5 + [list("ababa")] * 2)
    settings = ScreeningSettings(
        min_responses=2, attention_share=1, min_seconds=5, max_straight_line=3, chance_level=0.25
    )
    screening = screen(responses, items, settings, seconds=seconds, answers=answers)
    assert "; ".join(screening.reason) == (
        "no response; too few responses; failed attention checks; too fast; straight-lining; not above chance; "
    )
    # of the newer rules each respondent breaks one more than the next
    responses, items = study(np.ones((7, 8)))
    answers = long("answer", ["ab" * 4] * 5 + ["abcdefgh"] * 2)
    seconds = long("seconds", [[1.0] * 8, [0.5] + [9.0] * 7, *[[9.0] * 8] * 5])
    settings = ScreeningSettings(min_approval=0.9, min_seconds=2, min_effort=0.9, max_pattern=4)
    screening = screen(responses, items, settings, seconds=seconds, answers=answers, approval=pd.Series({"r0": 0.5}))
    assert list(screening.reason) == ["low approval rate", "rapid guessing", *["repeated pattern"] * 3, "", ""]
    assert screening.effort[1] == 7 / 8
    assert screening.longest_pattern.tolist() == [6] * 5 + [0] * 2
    late = screen(responses, items, ScreeningSettings(min_agreement=0.5), answers=answers)
    # r5 and r6 agree with each other and, on a and b of the first two items, with all: (2 x 1 + 6 x 1/6) / 8
    assert late.agreement[5] == pytest.approx(3 / 8)
    assert late.reason[4:] == ("", "unlike the others", "unlike the others")


def test_a_limit_from_the_crowd_and_a_fixed_one_whichever_is_longer():
    responses, items = study(np.ones((5, 1)))
    seconds = long("seconds", np.exp([[0.0], [1], [2], [3], [4]]))
    crowd = ScreeningSettings(fast_quantile=0.4)
    screening = screen(responses, items, crowd, seconds=seconds)
    assert screening.time_limit == pytest.approx(np.exp(2 - 0.2533471031357997 / 0.6744897501960817))
    assert screening.reason == ("too fast", "too fast", "", "", "")
    both = ScreeningSettings(fast_quantile=0.4, min_seconds=10)
    assert screen(responses, items, both, seconds=seconds).reason == ("too fast",) * 3 + ("",) * 2


def test_person_fit_removes_those_kept_who_fit_worse_than_the_level():
    responses, items = study([[1, 0], [1, 1], [NAN, NAN], [0, 1]])
    screening = screen(responses, items, ScreeningSettings(person_fit_p=0.05))
    fit = np.array([-1.65, -1.64, -9, NAN])  # the quantile is -1.645
    found = screening.with_person_fit(fit)
    assert found.reason == ("unlike the model", "", "no response", "")
    np.testing.assert_array_equal(found.table()["person_fit"], fit)
    with pytest.raises(InputError, match="nobody is left of 4 respondents: 1 no response, 3 unlike the model"):
        screening.with_person_fit(np.full(4, -9.0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (ScreeningSettings(fast_quantile=0.01), "fast_quantile is set but no seconds"),
        (ScreeningSettings(max_pattern=9), "max_pattern is set but no raw answers"),
        (ScreeningSettings(min_approval=0.97), "min_approval is set but no approval rates"),
        (ScreeningSettings(max_straight_line=3), "no raw answers are given"),
        (ScreeningSettings(chance_level=0.5), "nobody is left of 3 respondents: 1 no response, 2 not above chance"),
    ],
)
def test_rules_without_what_they_need_or_that_leave_nobody_are_refused(settings, message):
    responses, items = study([[NAN, NAN], [0, 0], [1, 1]])
    is_refused(message, screen, responses, items, settings)
    is_refused("unknown item q1", screen, responses, items.select(["q0"]))


def test_random_clickers_of_the_papers_crowd_are_found(real_data):
    """The lowest respondent of each set is at .244 and .256 right, below chance (PROVENANCE.md)."""
    folder = real_data / "lalor2016_snli"
    for form, lowest in (("4gs", 0.244), ("5gs", 0.256)):
        items = read_items(folder / "items.csv", where={"set": form})
        responses = grade(read_answers(folder / f"responses_{form}.csv.gz").frame, items)
        screening = screen(responses, items, ScreeningSettings(chance_level=1 / 3))
        assert screening.accuracy.min() == pytest.approx(lowest, abs=5e-4)
        assert not screening.kept[screening.accuracy.argmin()]
        # 38 of 90 is the fewest significantly above 30
        assert binom.sf(37, 90, 1 / 3) <= 0.05 < binom.sf(36, 90, 1 / 3)
        np.testing.assert_array_equal(screening.kept, screening.n_correct >= 38)
