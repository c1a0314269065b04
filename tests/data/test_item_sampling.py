"""Items by label and agreement of annotators, and booklets of them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.refusals import is_refused
from irtbench.data.item_sampling import AgreementLevel, annotated_items, deal_items, make_booklets, sample_items


def corpus(rows):
    return pd.DataFrame(rows, index=[f"i{k}" for k in range(len(rows))])


def rng(seed=0):
    return np.random.default_rng(seed)


def test_annotations_are_counted_and_levels_of_agreement_read():
    found = annotated_items(corpus([list("aaaab"), list("aabbc"), ["a", "a", "", " ", "b"], [""] * 5, list("ccccc")]))
    assert found.label == ("a", "", "a", "", "c")
    assert found.n_agree.tolist() == [4, 2, 2, 0, 5]
    assert found.n_annotators.tolist() == [5, 5, 3, 0, 5]
    assert AgreementLevel.read("4/5") == AgreementLevel.read("4of5") == AgreementLevel(4, 5)
    for text, saying in (("5", "two numbers"), ("a/5", "two numbers"), ("2/5", "more than half"), ("6/5", "no more")):
        is_refused(saying, AgreementLevel.read, text)


def test_the_papers_choice():
    """Of a corpus like SNLI's, 30 items a label at 4 of 5 and 30 at 5 of 5: 180, each at its level."""
    draw = rng(1)
    truth = draw.choice(["c", "e", "n"], 3_000)
    labels = np.where(draw.random((3_000, 5)) < 0.9, truth[:, None], draw.choice(["c", "e", "n"], (3_000, 5)))
    items = annotated_items(corpus(labels))
    levels = [AgreementLevel(4, 5), AgreementLevel(5, 5)]
    chosen = sample_items(items, levels=levels, per_label=30, rng=rng(2))
    assert len(chosen) == chosen["item_id"].nunique() == 180
    assert chosen.groupby(["set", "label"]).size().tolist() == [30] * 6
    of_item = pd.DataFrame(labels, index=items.item_ids).loc[chosen["item_id"]]
    agree = (of_item.to_numpy() == chosen["label"].to_numpy()[:, None]).sum(axis=1)
    assert (agree == chosen["n_agree"]).all()
    assert (chosen["set"] == [f"{n}of5" for n in agree]).all()
    # the seed decides
    again, other = (sample_items(items, levels=levels, per_label=30, rng=rng(seed)) for seed in (2, 3))
    pd.testing.assert_frame_equal(chosen, again)
    assert set(other["item_id"]) != set(chosen["item_id"])


def test_too_few_items_are_named():
    items, five = annotated_items(corpus([["a"] * 5] * 3 + [["b"] * 5] * 2)), [AgreementLevel(5, 5)]
    saying = "2 items of label b on which 5 of 5 agree; expected at least 3"
    is_refused(saying, sample_items, items, levels=five, per_label=3, rng=rng())
    assert len(sample_items(items, levels=five, per_label=3, labels=["a"], rng=rng())) == 3
    three = [AgreementLevel(3, 3)]
    is_refused("no item at 3of3; there are 5 5of5", sample_items, items, levels=three, per_label=1, rng=rng())
    is_refused("at least 1 item", sample_items, items, levels=five, per_label=0, rng=rng())


@given(st.integers(2, 30), st.integers(1, 30), st.integers(1, 40), st.integers(0, 9))
def test_items_come_equally_often(n_items, n_each, n_booklets, seed):
    n_each = min(n_each, n_items)
    dealt = deal_items(n_items, n_each, n_booklets, rng=rng(seed))
    assert all(len(set(booklet)) == n_each for booklet in dealt.tolist())
    counts = np.bincount(dealt.ravel(), minlength=n_items)
    assert counts.max() - counts.min() <= 1


def test_pairs_come_nearly_equally_often():
    """300 booklets of 30 of 90 items: pairs meet 32.6 times; dealt at random the standard deviation would be 5.4."""
    dealt = deal_items(90, 30, 300, rng=rng(1))
    incidence = np.zeros((300, 90))
    incidence[np.arange(300)[:, None], dealt] = 1
    pairs = (incidence.T @ incidence)[~np.eye(90, dtype=bool)]
    assert pairs.mean() == pytest.approx(300 * 30 * 29 / (90 * 89))
    assert pairs.std() < 2


def test_booklets_have_checks_spread_over_them_and_orders_of_their_own():
    items, checks = [f"i{j}" for j in range(20)], ["c1", "c2", "c3"]
    found, again = (make_booklets(items, n_booklets=200, checks=checks, n_checks=2, rng=rng(1)) for _ in range(2))
    pd.testing.assert_frame_equal(found, again)
    at, own = found[found["attention"]], found[~found["attention"]]
    assert own.groupby("booklet").size().unique().tolist() == [20]
    position = at.groupby("booklet")["position"]
    assert position.size().unique().tolist() == [2]
    assert set(at["item_id"]) == set(checks)
    assert at["position"].min() == 2
    # one in each half
    assert (position.min() <= 12).all()
    assert (position.max() >= 12).all()
    assert own.groupby("booklet")["item_id"].agg(tuple).nunique() == 200
    # an item's mean position is the middle for all
    assert own.groupby("item_id")["position"].mean().between(9.5, 14).all()


@pytest.mark.parametrize(
    ("wish", "saying"),
    [
        ({"n_each": 4}, "1 to 3 items each"),
        ({"n_checks": 2}, "2 attention checks each are wanted but there are 1"),
        ({"n_booklets": 0}, "at least 1 booklet"),
        ({"checks": ["a"]}, "item names must be unique"),
        ({"n_each": 1, "checks": ["c1", "c2"]}, "expected no more than items"),
    ],
)
def test_booklets_that_cannot_be_are_refused(wish, saying):
    is_refused(saying, make_booklets, list("abc"), **({"n_booklets": 2, "checks": ["c1"], "rng": rng()} | wish))
