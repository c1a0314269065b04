"""Pairs too alike: expected matches by hand, the right rate of false alarms, and planted copying found."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from builders.refusals import is_refused
from irtbench import ItemParameters, estimate_ability, icc
from irtbench.diagnostics.answer_similarity import PSEUDO_COUNT, answer_similarity, generalised_binomial_tail


def tables(coded: NDArray[np.int64], items: ItemParameters) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Answers and responses from codes: 0 right, 1 ... wrong, -1 none."""
    table = pd.DataFrame(coded, [f"r{i}" for i in range(len(coded))], list(items.item_ids))
    return table.astype(str).where(table >= 0), (table == 0).astype(float).where(table >= 0)


def crowd(n_respondents: int, n_items: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], ItemParameters]:
    """People who work alone, three options an item."""
    items = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, n_items), rng.normal(-1, 1, n_items))
    right = rng.random((n_respondents, n_items)) < icc(rng.normal(size=n_respondents), items)
    liked = rng.beta(3, 3, n_items)
    return np.where(right, 0, 1 + (rng.random(right.shape) < liked)), items


def test_the_tail_against_all_outcomes() -> None:
    p = np.array([[0.2, 0.5, 0.9, 0.35]])
    for n in range(5):
        exact = sum(
            np.prod([q if bit else 1 - q for q, bit in zip(p[0], bits, strict=True)])
            for bits in product((0, 1), repeat=4)
            if sum(bits) >= n
        )
        assert generalised_binomial_tail(p, np.array([float(n)]))[0] == pytest.approx(exact, rel=1e-12)
    # between whole numbers the logarithm is interpolated
    two, three, between = (generalised_binomial_tail(p, np.array([n]))[0] for n in (2.0, 3.0, 2.5))
    assert between == pytest.approx(np.sqrt(two * three))


def test_expected_matches_and_variance_by_hand() -> None:
    """One item that three people answered, two wrongly: P = 1/2 at theta 0."""
    items = ItemParameters.from_difficulty([2.0], [0.0])
    answers, responses = tables(np.array([[0], [1], [2]]), items)
    found = answer_similarity(answers, responses, items, np.zeros(3), min_items=1)
    # wrong answers 1 and 2 once each, half added to both: shares 1/2; m = 1/4 + 2 (1/2 1/2)^2 = 3/8
    assert PSEUDO_COUNT == 0.5
    np.testing.assert_allclose(found.expected, 3 / 8)
    # c = P' (P - Q / 2) = 1/2 (1/2 - 1/4) = 1/8, I = 4 / 4 = 1: V* = 15/64 - 2 (1/8)^2 / 2 = 14/64
    np.testing.assert_allclose(found.z, (0 - 3 / 8) / np.sqrt(14 / 64))
    assert found.n_identical.tolist() == [0, 0, 0]
    assert found.n_tested == 3


def test_honest_pairs_are_flagged_as_often_as_the_level_says() -> None:
    rng = np.random.default_rng(5)
    p = []
    for _ in range(2):
        coded, items = crowd(200, 60, rng)
        coded[rng.random(coded.shape) < 0.2] = -1
        answers, responses = tables(coded, items)
        theta = estimate_ability(responses, items).theta
        found = answer_similarity(answers, responses, items, theta, most_listed=200**2)
        assert found.n_tested == 200 * 199 // 2
        p.append(found.p)
        first, second = np.array([[int(name[1:]) for name in pair] for pair in found.pairs]).T
        np.testing.assert_array_equal(found.n_items, ((coded[first] >= 0) & (coded[second] >= 0)).sum(axis=1))
    # pairs share respondents, so that the rates vary more than independent ones: bounds from 40 repetitions
    assert 0.03 < (np.concatenate(p) < 0.05).mean() < 0.055
    assert (np.concatenate(p) < 0.001).mean() < 0.0025


def test_planted_copies_stand_first() -> None:
    rng = np.random.default_rng(6)
    coded, items = crowd(200, 90, rng)
    for k in range(5):
        copied = rng.random(90) < 0.9
        coded[2 * k + 1, copied] = coded[2 * k, copied]
    answers, responses = tables(coded, items)
    theta = estimate_ability(responses, items).theta
    found = answer_similarity(answers, responses, items, theta, most_listed=8)
    planted = {(f"r{2 * k}", f"r{2 * k + 1}") for k in range(5)}
    assert set(found.pairs[:5]) == planted
    assert (found.p_adjusted[:5] < 0.05).all()
    assert len(found.table()) == 8
    # the order of rows and the names of wrong answers do not matter
    renamed = answers.sample(frac=1, random_state=1).replace({"0": "right", "1": "z", "2": "a"})
    again = answer_similarity(renamed, responses, items, theta, most_listed=8)
    np.testing.assert_allclose(again.p, found.p)


def test_scales_apart_and_pairs_without_enough_in_common() -> None:
    rng = np.random.default_rng(7)
    coded, items = crowd(40, 40, rng)
    coded[:20, :35] = -1  # 5 items only
    answers, responses = tables(coded, items)
    theta = rng.normal(size=(40, 2))
    scale = np.repeat([0, 1], 20)
    theta[:20, 0] = np.nan
    found = answer_similarity(answers, responses, items, theta, scale=scale)
    assert found.n_tested == 20 * 19 // 2
    first = items.select(items.item_ids[:20]), items.select(items.item_ids[20:])
    p = np.hstack([icc(theta[:, s], part) for s, part in enumerate(first)])
    (one, two), k = found.pairs[0], found.expected[0]
    i, j = int(one[1:]), int(two[1:])
    assert k > (p[i] * p[j]).sum()
    # what does not fit is refused
    items = ItemParameters.from_difficulty([1.0, 1.0], [0.0, 0.0])
    answers, responses = tables(np.zeros((3, 2), dtype=np.int64), items)
    given = answer_similarity, answers, responses
    is_refused("no two respondents have 10 items in common", *given, items, np.zeros(3))
    is_refused(r"abilities of shape \(2,\) do not fit 3 respondents", *given, items, np.zeros(2))
    is_refused("not those of the items answered", *given, items.select(["item2", "item1"]), np.zeros(3))
