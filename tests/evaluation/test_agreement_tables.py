"""Agreement by item and respondent, errors of the coefficients, and gold labels: by hand and against irrCAC and irr."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.refusals import is_refused
from irtbench import ItemTable, dawid_skene_labels, majority_labels, peer_agreement
from irtbench.evaluation.agreement import (
    ALPHA,
    GWET_AC1,
    KAPPA,
    agreement,
    bootstrap_coefficient,
    coefficient_with_error,
    counts_of,
    gwet_ac1,
)
from irtbench.evaluation.agreement_of_grades import item_agreement, respondent_agreement

COEFFICIENTS = {"krippendorff_alpha_irrCAC": ALPHA, "gwet_AC1": GWET_AC1, "fleiss_kappa": KAPPA}


def rows(*triples):
    return pd.DataFrame(triples, columns=["respondent_id", "item_id", "answer"])


# q0: a a b; q1: b b; q2: a b; q3: c
ANSWERS = rows(
    ("r0", "q0", "a"), ("r1", "q0", "a"), ("r2", "q0", "b"),
    ("r0", "q1", "b"), ("r1", "q1", "b"), ("r0", "q2", "a"), ("r2", "q2", "b"), ("r3", "q3", "c"),
)  # fmt: skip
ITEMS = ItemTable(("q0", "q1", "q2", "q3"), ("b", "b", "a", None), (None,) * 4, (None,) * 4, (None,) * 4, (False,) * 4)


def rte(folder: Path, name: str) -> np.ndarray:
    """Counts of the labels of Snow et al. (2008), whole or 40% of them."""
    file = folder / "next" / "11_agreement" / "rte_sparse_data.csv"
    if name == "snow2008_rte":
        file = folder.parent / "data" / "snow2008_rte" / "responses.csv"
    table = pd.read_csv(file, dtype=str).rename(columns={"item": "item_id", "label": "answer"})
    return counts_of(table)[0]


@pytest.mark.parametrize("name", ["snow2008_rte", "rte_sparse"])
def test_coefficients_and_their_errors_are_those_of_irrcac(reference, name):
    """Values to the five digits printed; errors, of linearised and of jackknife form, to .00015; intervals to .001."""
    expected = pd.read_csv(reference / "next" / "11_agreement" / f"{name}_agreement.csv").set_index("coef")
    counts = rte(reference, name)
    for row, coefficient in COEFFICIENTS.items():
        found = coefficient_with_error(counts, coefficient)
        assert round(found.value, 5) == pytest.approx(expected.loc[row, "value"], abs=1e-9)
        assert found.standard_error == pytest.approx(expected.loc[row, "se"], abs=1.5e-4)
        ends = [float(end) for end in expected.loc[row, "ci"].strip("()").split(";")]
        assert [found.lower, found.upper] == pytest.approx(ends, abs=1e-3)
    bootstrap = bootstrap_coefficient(counts, ALPHA, rng=np.random.default_rng(1))
    row = "krippendorff_alpha_item_bootstrap_mean"
    assert bootstrap.standard_error == pytest.approx(expected.loc[row, "se"], rel=0.05)
    ends = [float(end) for end in expected.loc[row, "ci"].strip("()").split(";")]
    assert [bootstrap.lower, bootstrap.upper] == pytest.approx(ends, abs=3e-3)


def test_ac1_by_hand_and_where_kappa_falls_to_nothing():
    # 98 items with both answers a, one with a b, one with b b: P = .99, p_a = 197/200
    counts = np.array([[2, 0]] * 98 + [[1, 1], [0, 2]])
    share = (98 + 0.5) / 100
    by_chance = 2 * share * (1 - share)
    assert gwet_ac1(counts) == pytest.approx((0.99 - by_chance) / (1 - by_chance), rel=1e-14)
    disputed = np.array([[2, 0]] * 98 + [[1, 1]] * 2)
    assert float(KAPPA.value(KAPPA.terms(disputed).sum(axis=0))) < 0 < 0.97 < gwet_ac1(disputed)
    with pytest.warns(RuntimeWarning, match="AC1 is undefined: all answers are the same"):
        assert np.isnan(gwet_ac1(np.array([[2], [3]])))
    with pytest.warns(RuntimeWarning, match="no item has two"):
        assert np.isnan(gwet_ac1(np.array([[1, 0], [0, 1]])))


def test_errors_are_unknown_where_there_is_nothing_to_estimate_them_from():
    two = np.array([[1, 1], [2, 0]])
    assert np.isnan(coefficient_with_error(two, ALPHA).standard_error)
    assert np.isnan(coefficient_with_error(np.array([[1, 0], [0, 1]]), ALPHA).value)
    # one item is the same in every resample, and without the one disputed item of 1,000 there is no kappa
    rare = [[5, 0]] * 999 + [[3, 2]]
    for counts, coefficient, more in (([[2, 0]], ALPHA, {}), ([[3, 2]], KAPPA, {}), (rare, KAPPA, {"n_resamples": 2})):
        found = bootstrap_coefficient(np.array(counts), coefficient, rng=np.random.default_rng(0), **more)
        assert np.isnan([found.lower, found.standard_error]).all()
    # two raters who agree on all of four items may disagree on others: no interval from 1 to 1
    alike = np.array([[2, 0], [0, 2]] * 2)
    for found in (
        coefficient_with_error(alike, KAPPA),
        bootstrap_coefficient(alike, KAPPA, rng=np.random.default_rng(0)),
    ):
        assert found.value == 1
        assert np.isnan([found.lower, found.upper, found.standard_error]).all()
    is_refused("level must be between 0 and 1", coefficient_with_error, two, ALPHA, level=1.0)
    saying, rng = "n_resamples must be at least 2", np.random.default_rng(0)
    is_refused(saying, bootstrap_coefficient, two, ALPHA, n_resamples=1, rng=rng)


def test_agreement_carries_the_intervals():
    result = agreement(rows(*((f"r{r}", f"q{i}", "ab"[(i * r) % 2]) for i in range(9) for r in range(4))), level=0.9)
    assert result.level == 0.9
    assert result.krippendorff_lower < result.krippendorff_alpha < result.krippendorff_upper
    assert result.gwet_lower < result.gwet_ac1 < result.gwet_upper
    assert result.fleiss_lower < result.fleiss_kappa < result.fleiss_upper
    # odd items have answers a b a b, 1/3 of their pairs agree; even ones agree: 5 of 9 items
    assert result.observed_agreement == pytest.approx((5 + 4 / 3) / 9)


def test_items_and_respondents_by_hand():
    labels = majority_labels(ANSWERS)
    assert labels.label == ("a", "b", "", "c")  # a tie has no winner
    np.testing.assert_allclose(labels.probability, [2 / 3, 1, 1 / 2, 1])
    found = item_agreement(ANSWERS, items=ITEMS)
    assert found.item_ids == ("q0", "q1", "q2", "q3")
    assert found.plurality == ("a", "b", "", "c")
    np.testing.assert_allclose(found.share, [2 / 3, 1, 1 / 2, 1])
    np.testing.assert_allclose(found.agreement, [1 / 3, 1, 0, np.nan])
    np.testing.assert_allclose(found.entropy[1:3], [0, 1])
    np.testing.assert_allclose(found.key_share, [1 / 3, 1, 1 / 2, np.nan])
    # q0: two of three say a and the key is b; q2 has no majority; q3 no key
    assert found.contradicts_key.tolist() == [True, False, False, False]
    assert list(found.table())[:3] == ["item_id", "n_answers", "plurality"]
    # respondents: r0: q0 one of two others, q1 the other, q2 not: (1/2 + 1 + 0) / 3; r3 is alone on q3
    shares = peer_agreement(ANSWERS)
    np.testing.assert_allclose(shares[["r0", "r1", "r2", "r3"]], [1 / 2, 3 / 4, 0, np.nan])
    people = respondent_agreement(ANSWERS, items=ITEMS, gold=labels)
    np.testing.assert_allclose(people.agreement, [1 / 2, 3 / 4, 0, np.nan])
    # typical: q0 (1/2 + 1/2 + 0) / 3, q1 1, q2 0
    np.testing.assert_allclose(people.expected, [4 / 9, 2 / 3, 1 / 6, np.nan])
    np.testing.assert_allclose(people.key_share, [2 / 3, 1 / 2, 1 / 2, np.nan])
    # the gold label of q2 is not known
    np.testing.assert_allclose(people.gold_share, [1, 1, 0, 1])


def test_without_crowd_kit_the_error_says_what_helps(monkeypatch):
    monkeypatch.setitem(sys.modules, "crowdkit.aggregation.classification.dawid_skene", None)
    is_refused(r"needs crowd-kit; install it: pip install 'irtbench\[crowd\]'", dawid_skene_labels, ANSWERS)


def test_a_wide_table_and_a_frame_of_keys_give_the_same() -> None:
    wide = ANSWERS.pivot(index="respondent_id", columns="item_id", values="answer")
    for function in (item_agreement, respondent_agreement, majority_labels):
        long, short = (function(given).table() for given in (ANSWERS, wide))
        pd.testing.assert_frame_equal(*(each.sort_values(long.columns[0], ignore_index=True) for each in (long, short)))
        by_frame, by_table = (function(ANSWERS, items=items).table() for items in (ITEMS.table(), ITEMS))
        pd.testing.assert_frame_equal(by_frame, by_table)
    pd.testing.assert_series_equal(peer_agreement(wide), peer_agreement(ANSWERS))
