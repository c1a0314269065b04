"""Classical statistics against psych, polycor and Feldt's formula, against counting, and with missing responses."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from builders.mirt_figures import lsat6, papers_scale
from builders.simulated import simulated
from irtbench import InputError, ResponseMatrix
from irtbench.diagnostics.internal_consistency import (
    classical_statistics,
    feldt_interval,
    internal_consistency,
    omega_total,
)

PAIRS = {  # our column, the reference's
    "n": "n",
    "proportion_correct": "p",
    "item_total": "r_item_total",
    "item_rest": "r_item_rest",
    "biserial": "biserial_total",
    "biserial_rest": "biserial_rest",
    "discrimination_index": "D_exact_k",
    "alpha_if_dropped": "alpha_if_dropped",
}


def responses_of(name: str, real_data: Path, reference: Path) -> ResponseMatrix:
    if name == "lsat6":
        return lsat6(real_data, reference, "2pl")[0]
    return papers_scale(real_data, reference, "entailment")[0]


@pytest.mark.parametrize("name", ["lsat6", "5gs_entailment"])
def test_items_agree_with_psych(name: str, real_data: Path, reference: Path) -> None:
    expected = pd.read_csv(reference / "next" / "01_classical" / f"{name}_items.csv").set_index("item")
    found = (
        classical_statistics(responses_of(name, real_data, reference)).table().set_index("item_id").loc[expected.index]
    )
    for ours, theirs in PAIRS.items():
        np.testing.assert_allclose(found[ours], expected[theirs], rtol=1e-8, atol=1e-9, err_msg=ours)


@pytest.mark.parametrize("name", ["lsat6", "5gs_entailment"])
def test_the_scale_agrees_with_psych(name: str, real_data: Path, reference: Path) -> None:
    table = pd.read_csv(reference / "next" / "01_classical" / f"{name}_test.csv").set_index("stat")["value"]
    responses = responses_of(name, real_data, reference)
    found = internal_consistency(responses)
    assert found.alpha == pytest.approx(table["alpha_raw"], abs=1e-9)
    feldt = feldt_interval(found.alpha, responses.n_respondents, responses.n_items, 0.95)
    assert feldt == pytest.approx((table["feldt_lower95"], table["feldt_upper95"]), abs=1e-8)
    assert found.alpha_lower <= feldt[0] < feldt[1] <= found.alpha_upper  # easy items say less than normal scores
    assert found.standard_error == pytest.approx(table["sem_alpha"], abs=1e-8)
    pearson = omega_total(np.corrcoef(responses.values.T))
    assert pearson == pytest.approx(table["omega_total_1factor_minres_corr"], abs=2e-6)
    assert found.omega > found.alpha


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("place", [0.0, -2.0])
def test_alphas_interval_covers_of_easy_items_too(place: float, missing: float) -> None:
    # of two items alpha is 4 c / (v + v + 2 c), with their true covariance by the curve over many abilities
    theta = scipy.special.ndtri((np.arange(20_000) + 0.5) / 20_000)
    p = scipy.special.expit(2 * (theta - place))
    covariance, variance = p.var(), p.mean() * (1 - p.mean())
    true, rng, covered, feldts = 2 * covariance / (variance + covariance), np.random.default_rng(4), [], []
    for _ in range(150):
        chosen = rng.choice(p, 1000)[:, None]
        values = (rng.random((1000, 2)) < chosen).astype(float)
        values[rng.random((1000, 2)) < missing] = np.nan
        found = internal_consistency(values)
        lower, upper = feldt_interval(found.alpha, found.n_respondents, 2, 0.95)
        covered.append(found.alpha_lower <= true <= found.alpha_upper)
        feldts.append(lower <= true <= upper)
    assert np.mean(covered) > 0.9
    assert (np.mean(feldts) > 0.9) == (place == 0)


def test_tied_respondents_share_the_places_in_a_group() -> None:
    first = np.array([1.0] * 4 + [0] * 6)
    second = np.array([0.0] * 9 + [1])
    found = classical_statistics(np.column_stack([first, second, np.zeros(10)]))
    # Groups of 3 among ten. Five have sum score 1, four by item 1 and one by item 2; the others have none right.
    np.testing.assert_allclose(found.discrimination_index, [0.8, 0.2, 0.0])


def test_what_cannot_be_had_is_missing() -> None:
    always = np.array([[1.0, 1, 0], [1, 0, 0], [1, 1, 1], [1, 0, 1]])
    found = classical_statistics(always)
    assert np.isnan([found.item_total[0], found.item_rest[0], found.biserial[0]]).all()
    assert np.isfinite([found.item_total[1], found.alpha_if_dropped[1]]).all()
    nobody_varies = internal_consistency(np.ones((4, 3)))
    assert np.isnan(nobody_varies.alpha)
    assert "does not vary" in nobody_varies.reason
    two = internal_consistency(always[:, 1:])
    assert np.isnan(two.omega)
    assert "at least 3" in two.reason
    with pytest.raises(InputError, match="expected at least 2"):
        classical_statistics(always[:, :1])
    with pytest.raises(InputError, match="level must be between 0 and 1 but got 95"):
        internal_consistency(always, level=95)


@pytest.mark.parametrize("n_answers", [0, 1])
def test_an_item_that_nobody_or_one_answered_changes_nothing_of_the_others(n_answers: int) -> None:
    rng = np.random.default_rng(4)
    values = (rng.random((80, 5)) < rng.random((80, 1))).astype(float)
    values[rng.random(values.shape) < 0.2] = np.nan
    more = np.column_stack([values, np.where(np.arange(80) < n_answers, 1.0, np.nan)])
    table, alone = classical_statistics(more).table(), classical_statistics(values).table()
    pd.testing.assert_frame_equal(table.iloc[:5], alone)
    assert table.iloc[5][["item_total", "item_rest", "biserial", "discrimination_index"]].isna().all()
    found, expected = internal_consistency(more), internal_consistency(values)
    assert table["alpha_if_dropped"][5] == pytest.approx(expected.alpha)
    for name in ("alpha", "alpha_lower", "alpha_upper", "standard_error", "n_respondents"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name))


def test_missing_responses_leave_the_figures_where_they_were() -> None:
    rng = np.random.default_rng(1)
    whole, _, _ = simulated(4_000, 20, seed=1)
    thinned = whole.values.copy()
    thinned[rng.random(thinned.shape) < 0.3] = np.nan
    blocks = whole.values.copy()
    blocks[:2_000, :7], blocks[2_000:, 13:] = np.nan, np.nan  # items 1-7 and 14-20 never meet
    complete, alpha = classical_statistics(whole), internal_consistency(whole)
    for values, within in ((thinned, 0.04), (blocks, 0.08)):
        found, consistency = classical_statistics(values), internal_consistency(values)
        assert complete.complete
        assert not found.complete
        np.testing.assert_allclose(found.item_rest, complete.item_rest, atol=within)
        np.testing.assert_allclose(found.alpha_if_dropped, complete.alpha_if_dropped, atol=0.01)
        assert consistency.alpha == pytest.approx(alpha.alpha, abs=0.01)
        assert consistency.alpha_lower < alpha.alpha < consistency.alpha_upper


@given(arrays(np.float64, (12, 4), elements=st.sampled_from([0.0, 1.0])), st.permutations(range(4)))
def test_order_of_items_and_of_wrong_and_right_does_not_matter(values: np.ndarray, order: list[int]) -> None:
    found, moved = classical_statistics(values), classical_statistics(values[:, order])
    mirrored = classical_statistics(1 - values)
    for name in ("item_total", "item_rest", "discrimination_index", "alpha_if_dropped"):
        np.testing.assert_allclose(getattr(moved, name), getattr(found, name)[list(order)], atol=1e-9)
        np.testing.assert_allclose(getattr(mirrored, name), getattr(found, name), atol=1e-9)


def test_of_several_trials_the_share_right_counts() -> None:
    rng = np.random.default_rng(9)
    trials = np.where(rng.random((50, 6)) < 0.2, 0, 4)
    right = np.where(trials > 0, rng.binomial(4, rng.uniform(0.2, 0.8, (50, 1)), (50, 6)).astype(float), np.nan)
    names = tuple(f"r{k}" for k in range(50)), tuple(f"i{k}" for k in range(6))
    found = classical_statistics(ResponseMatrix(right, *names, trials))
    frame = pd.DataFrame(right / 4)
    covariance = frame.cov().to_numpy()
    expected = covariance[0].sum() / np.sqrt(covariance[0, 0] * covariance.sum())
    assert found.item_total[0] == pytest.approx(expected)
    assert np.isnan(found.biserial).all()
    consistency = internal_consistency(ResponseMatrix(right, *names, trials))
    assert consistency.alpha == pytest.approx(6 / 5 * (1 - covariance.trace() / covariance.sum()))
    assert "several trials" in consistency.reason
