"""Agreement: the paper's own figures, published examples, fractions by hand, and identities between statistics."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import fleiss_kappa as statsmodels_kappa

from builders.refusals import is_refused
from irtbench import ItemTable, agreement, agreement_by_label
from irtbench.data.readers import read_answers, read_items
from irtbench.evaluation.agreement import category_kappas, fleiss_kappa, krippendorff_alpha

# An unequal design worked out by hand: two, two, three and one answer
UNEQUAL = np.array([[2, 0], [1, 1], [0, 3], [1, 0]])


def answers_of(*rows):
    return pd.DataFrame(rows, columns=["respondent_id", "item_id", "answer"])


def from_counts(counts):
    """Answers with these counts, categories named a, b, ..., respondents in any order."""
    rows = []
    for i, row in enumerate(counts):
        given_answers = [chr(97 + k) for k, n in enumerate(row) for _ in range(n)]
        rows += [(f"r{r}", f"q{i}", answer) for r, answer in enumerate(given_answers)]
    return answers_of(*rows)


def items_with(keys, *, label=None, attention=None):
    nothing = (None,) * len(keys)
    checks = attention or (False,) * len(keys)
    return ItemTable(tuple(keys), tuple(keys.values()), label or nothing, nothing, nothing, checks)


@pytest.mark.parametrize(
    ("form", "majority", "supermajority", "kappa"), [("4gs", 95.6, 61.1, 0.43), ("5gs", 96.7, 82.2, 0.60)]
)
@pytest.mark.parametrize("empty", ["missing", "category"])
def test_tables_2_and_3_of_the_paper(real_data, form, majority, supermajority, kappa, empty):
    """Majority, two-thirds majority and overall kappa; its 7 empty answers change no printed digit."""
    folder = real_data / "lalor2016_snli"
    items = read_items(folder / "items.csv", where={"set": form})
    result = agreement(read_answers(folder / f"responses_{form}.csv.gz").frame, items=items, empty=empty)
    assert round(100 * result.majority, 1) == majority
    assert round(100 * result.supermajority, 1) == supermajority
    assert round(result.fleiss_kappa, 2) == kappa
    if (form, empty) == ("4gs", "missing"):
        # with the key as the label, Table 2 is missed by far: the paper counts any label
        assert round(100 * result.key_majority, 1) == 77.8
        # PROVENANCE.md: Fleiss' per-category kappa gives contradiction .407, entailment .571, neutral .319
        assert result.categories == ("contradiction", "entailment", "neutral")
        np.testing.assert_allclose(result.category_kappa, [0.407, 0.571, 0.319], atol=5e-4)
        assert (result.n_items, result.n_respondents, result.n_answers) == (90, 976, 87_836)


def test_unequal_numbers_of_answers_by_hand():
    # two answers agree on items 0 and 2 always, on item 1 never: P = (1 + 0 + 1) / 3
    # p_a = (1 + 1/2 + 0 + 1) / 4 = 5/8, P_e = 25/64 + 9/64 = 34/64
    kappa = (Fraction(2, 3) - Fraction(34, 64)) / (1 - Fraction(34, 64))
    assert kappa == Fraction(13, 45)
    assert fleiss_kappa(UNEQUAL) == pytest.approx(float(kappa), rel=1e-14)
    # alpha: 7 pairable answers, 3 a and 4 b; D_o = (0 + 2/1 + 0) / 7 = 2/7, D_e = (49 - 9 - 16) / 42 = 4/7
    assert krippendorff_alpha(UNEQUAL) == pytest.approx(0.5, rel=1e-14)


def test_shares_by_hand():
    # most common answer: 2 of 2, 1 of 2 (not more than half), 3 of 3, 1 of 1, 2 of 3 (exactly two thirds), 3 of 5
    counts = [*UNEQUAL.tolist(), [2, 1], [2, 3]]
    # key a everywhere: 2 of 2, 1 of 2, 0 of 3, 1 of 1, 2 of 3, 2 of 5
    result = agreement(from_counts(counts), items=items_with({f"q{i}": "a" for i in range(6)}))
    assert (result.majority, result.supermajority) == (5 / 6, 4 / 6)
    assert (result.key_majority, result.key_supermajority) == (3 / 6, 3 / 6)
    assert result.proportion_correct == 8 / 16
    assert (result.n_items, result.n_respondents, result.n_answers) == (6, 5, 16)
    without = agreement(from_counts(UNEQUAL))
    assert without.key_majority is without.key_supermajority is without.proportion_correct is None
    # an item without a key is left out of the shares that need one
    partly = agreement(from_counts(UNEQUAL), items=items_with({"q0": "a", "q1": None, "q2": "a", "q3": None}))
    assert (partly.key_majority, partly.proportion_correct) == (1 / 2, 2 / 5)


def test_statsmodels_agrees_where_every_item_has_as_many_answers():
    rng = np.random.default_rng(2)
    for n_answers in (2, 3, 11):
        counts = rng.multinomial(n_answers, [0.5, 0.3, 0.2], size=25)
        assert fleiss_kappa(counts) == pytest.approx(statsmodels_kappa(counts), rel=1e-12)
        # a category's kappa is the kappa of it against the rest
        expected = [statsmodels_kappa(np.stack([c, n_answers - c], axis=1)) for c in counts.T]
        np.testing.assert_allclose(category_kappas(counts), expected, rtol=1e-12)


count_tables = (
    st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=2, max_size=8)
    .map(np.array)
    # pairs of answers to an item, and two categories among them
    .filter(lambda counts: (counts[counts.sum(axis=1) >= 2].sum(axis=0) > 0).sum() >= 2)
)


@given(count_tables)
def test_overall_kappa_is_the_weighted_mean_over_categories(counts):
    n = counts.sum(axis=1)
    share = (counts[n > 0] / n[n > 0, None]).mean(axis=0)
    weight, kappas = share * (1 - share), category_kappas(counts)
    used = weight > 0
    assert (weight[used] * kappas[used]).sum() / weight.sum() == pytest.approx(fleiss_kappa(counts), abs=1e-12)


@given(count_tables, st.randoms(use_true_random=False))
@settings(max_examples=15)
def test_order_of_rows_and_names_of_respondents_do_not_matter(counts, random):
    answers = from_counts(counts)
    renamed = answers.iloc[random.sample(range(len(answers)), len(answers))]
    renamed = renamed.assign(respondent_id=[f"other{k}" for k in range(len(answers))])
    first, second = agreement(answers), agreement(renamed)
    for name in ("majority", "supermajority", "fleiss_kappa", "krippendorff_alpha"):
        assert getattr(first, name) == pytest.approx(getattr(second, name), abs=1e-12)


@pytest.mark.parametrize(
    ("counts", "why"), [([[3], [2]], "all answers are the same"), ([[1, 0], [0, 1]], "no item has two answers")]
)
def test_where_nothing_can_be_agreed_on_coefficients_are_undefined(counts, why):
    with (
        pytest.warns(RuntimeWarning, match=f"Fleiss' kappa is undefined: {why}"),
        pytest.warns(RuntimeWarning, match=f"Krippendorff's alpha is undefined: {why}"),
    ):
        result = agreement(from_counts(counts))
    assert np.isnan([result.fleiss_kappa, result.krippendorff_alpha, *result.category_kappa]).all()
    assert result.majority == 1


def test_items_without_answers_do_not_count_and_empty_ones_only_as_a_category():
    answers = from_counts(UNEQUAL)
    more = pd.concat([answers, answers_of(("r0", "silent", None), ("r1", "silent", ""))])
    assert agreement(more) == agreement(answers)
    assert fleiss_kappa(np.vstack([UNEQUAL, [[0, 0]]])) == fleiss_kappa(UNEQUAL)
    answers = answers_of(("r", "x", "a"), ("s", "x", ""), ("r", "y", "b"), ("s", "y", "b"), ("t", "x", "a"))
    assert agreement(answers).n_answers == 4
    counted = agreement(answers, empty="category")
    assert (counted.n_answers, counted.categories) == (5, ("", "a", "b"))
    # attention checks are left out and answers normalised as asked
    answers = answers_of(("r", "x", "Yes"), ("s", "x", "yes "), ("r", "y", "no"), ("s", "y", "no"), ("r", "check", "b"))
    items = items_with({"x": "YES", "y": "no", "check": "b"}, attention=(False, False, True))
    strict = agreement(answers, items=items)
    assert strict.categories == ("Yes", "no", "yes ")
    lenient = agreement(answers, items=items, normalise=("strip", "casefold"))
    assert lenient.categories == ("no", "yes")
    assert (lenient.fleiss_kappa, lenient.key_majority, lenient.n_answers) == (1, 1, 4)


def test_each_label_by_itself_is_agreement_on_its_items():
    counts = [[3, 1], [2, 2], [0, 4], [1, 3]]
    answers = from_counts(counts)
    items = items_with(dict.fromkeys(["q0", "q1", "q2", "q3", "q4"], "a"), label=("u", "v", "u", "v", "w"))
    by_label = agreement_by_label(answers, items)
    assert list(by_label) == ["u", "v"]  # nobody answered q4
    for label, members in (("u", ["q0", "q2"]), ("v", ["q1", "q3"])):
        alone = agreement(answers[answers["item_id"].isin(members)], items=items)
        pd.testing.assert_series_equal(pd.Series(vars(by_label[label])), pd.Series(vars(alone)))  # NaN is NaN
    assert by_label["u"].fleiss_kappa != by_label["v"].fleiss_kappa


def test_wrong_input_is_refused():
    answers = from_counts(UNEQUAL)
    is_refused("unknown item q1, q2, q3", agreement, answers, items=items_with({"q0": "a"}))
    is_refused(r"duplicate \(respondent, item\) pairs: \(r0, q0\)", agreement, pd.concat([answers, answers[:1]]))
    is_refused("expected at least one answer", agreement, answers_of(("r", "x", ""), ("s", "x", None)))
