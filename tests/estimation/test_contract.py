"""Every way of estimating items keeps the contract of `engine_contract`."""

from collections.abc import Iterable

import numpy as np
import pytest
from estimation.engine_contract import ENGINES, SLOW_ENGINES, fitted, root_mean_square, side_by_side, twice
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.simulated import rearranged
from irtbench import InputError, ResponseMatrix


def those(names: Iterable[str]) -> pytest.MarkDecorator:
    """Adam takes seconds: its maximum is checked in `test_pyro_model`, the contract with the slow tests."""
    slow = {"2pl, adam", *SLOW_ENGINES}
    each = [pytest.param(name, marks=pytest.mark.slow if name in slow else ()) for name in names]
    return pytest.mark.parametrize("name", each)


every = those(ENGINES)
flat = those(name for name, engine in ENGINES.items() if engine.flat)
apart = those(name for name, engine in ENGINES.items() if engine.apart)
ALL = ENGINES | SLOW_ENGINES


@those(ALL)
def test_the_truth_is_recovered_and_another_is_not(name: str) -> None:
    engine = ALL[name]
    found, (responses, truth) = fitted(engine), engine.crowd()
    assert found.converged
    if found.slopes.shape[1] > 1:  # the truth has one ability: what the others add is chance
        return
    ids = responses.item_ids
    assert root_mean_square(found.curves(ids) - truth.curves(ids)) < engine.error
    assert root_mean_square(found.curves(ids) - truth.curves(ids[::-1])) > engine.error


@those([*ENGINES, "normal"])  # whose draws are dealt out to items in their order
@settings(max_examples=1)
@given(seed=st.integers(0, 2**32 - 1))
def test_order_of_respondents_and_items_is_no_matter(name: str, seed: int) -> None:
    engine = ALL[name]
    rng, responses = np.random.default_rng(seed), engine.crowd()[0]
    rows, columns = rng.permutation(responses.n_respondents), rng.permutation(responses.n_items)
    again, first = engine.fit(rearranged(responses, rows, columns), 0), fitted(engine)
    ids = responses.item_ids
    np.testing.assert_allclose(again.curves(ids), first.curves(ids), atol=engine.within)
    assert again.log_likelihood == pytest.approx(first.log_likelihood, rel=engine.within / 5)


@flat
def test_everybody_twice_is_the_same_known_twice_as_well(name: str) -> None:
    engine = ALL[name]
    responses = engine.crowd()[0]
    first, second = fitted(engine), engine.fit(twice(responses), 0)
    ids = responses.item_ids
    np.testing.assert_allclose(second.curves(ids), first.curves(ids), atol=max(engine.within, 5e-5))
    assert second.log_likelihood == pytest.approx(2 * first.log_likelihood, rel=1e-7)
    if first.errors is not None and second.errors is not None:
        np.testing.assert_allclose(first.errors / second.errors, np.sqrt(2), rtol=5e-3)


@apart
def test_items_that_share_no_respondent_are_fitted_as_if_alone(name: str) -> None:
    engine = ALL[name]
    one, other = engine.crowd()[0], engine.crowd(seed=2)[0]
    together, alone = engine.fit(side_by_side(one, other), 0), (fitted(engine), engine.fit(other, 0))
    expected = np.c_[alone[0].curves(one.item_ids), alone[1].curves(other.item_ids)]
    ids = (*one.item_ids, *(f"other {item}" for item in other.item_ids))
    np.testing.assert_allclose(together.curves(ids), expected, atol=max(engine.within, 5e-5))
    assert together.log_likelihood == pytest.approx(sum(part.log_likelihood for part in alone), abs=1e-4)


@every
def test_a_seed_gives_the_same_numbers_and_data_are_left_as_they_are(name: str) -> None:
    engine = ALL[name]
    responses = engine.crowd()[0]
    before = responses.values.copy()
    again, first = engine.fit(responses, 0), fitted(engine)
    np.testing.assert_array_equal(responses.values, before)
    for field in ("slopes", "intercept", "guessing", "errors"):
        one, other = getattr(again, field), getattr(first, field)
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_array_equal(one, other)
    assert again.log_likelihood == first.log_likelihood


@every
def test_who_answered_nothing_and_what_nobody_answered_is_refused(name: str) -> None:
    if "sparse" in name:
        return  # a list of responses holds neither
    engine = ALL[name]
    responses = engine.crowd()[0]
    silent = np.vstack([responses.values, np.full(responses.n_items, np.nan)])
    with pytest.raises(InputError, match="no response from respondent silent"):
        engine.fit(ResponseMatrix(silent, (*responses.respondent_ids, "silent"), responses.item_ids), 0)
    unasked = np.c_[responses.values, np.full(responses.n_respondents, np.nan)]
    with pytest.raises(InputError, match="no response to item unasked"):
        engine.fit(ResponseMatrix(unasked, responses.respondent_ids, (*responses.item_ids, "unasked")), 0)
