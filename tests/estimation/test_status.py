"""How a fit ended, in words: each ending that is no maximum says what to do."""

import pytest

from irtbench.estimation.status import ADVICE, Learning, Status, Stop


@pytest.mark.parametrize("stop", [stop for stop in Stop if stop is not Stop.CONVERGED])
def test_each_ending_but_the_good_one_says_what_to_do(stop: Stop) -> None:
    text = str(Status(stop, 7, gradient=0.1, change=0.1, guessing_at_bound=2))
    assert "prior weak" in text
    assert "; " in text
    assert stop is Stop.AT_BOUND or ADVICE[stop] in text


@pytest.mark.parametrize("stop", [stop for stop in Stop if stop is not Stop.CONVERGED])
def test_where_no_prior_is_taken_none_is_advised(stop: Stop) -> None:
    status = Status(stop, 7, gradient=0.1, change=0.1, steep=(2,))
    text = status.in_words(instead="take fewer abilities")
    assert "prior" not in text
    assert text.endswith("or take fewer abilities")


def test_items_that_run_away_are_named_five_at_most() -> None:
    names = tuple(f"item i{k} (9 of 10 right)" for k in range(7))
    text = str(Status(Stop.AT_BOUND, 7, steep=tuple(range(7)), steep_items=names))
    assert text.startswith("item i0 (9 of 10 right), ")
    assert "and 2 more: the slopes grow without end" in text
    assert "--prior hierarchical" in text
    assert str(Status(Stop.AT_BOUND, 7, steep=(3,))).startswith("1 items: the slope grows without end")


def test_a_good_ending_needs_no_advice() -> None:
    text = str(Status(Stop.CONVERGED, 7, gradient=1e-6, change=1e-6, tolerance=1e-5))
    assert text == "largest gradient 1.0e-06 standard errors, last change 1.0e-06: below 1e-05"


@pytest.mark.parametrize(("settled", "advice"), [(True, False), (False, True)])
def test_a_prior_that_is_not_learnt_says_what_to_do(settled: bool, advice: bool) -> None:
    learning = Learning("prior", 5, 0.1, settled)
    assert ("take --prior weak" in str(Status(Stop.CONVERGED, 7, learning=learning))) == advice
