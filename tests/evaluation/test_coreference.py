"""Coreference by hand, by enumeration and by other ways to the same."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irtbench.data.input_error import InputError
from irtbench.evaluation.event_counts import (
    NOBODY,
    antecedent_clusters,
    draw_antecedents,
    link_pairs,
    link_probabilities,
    name_clusters,
)

# Mention 1 is linked to 0 with .6; mention 2 to 0 with .2, to 1 with .3.
ANTECEDENTS = np.array([[1.0, 0.0, 0.0], [0.6, 0.4, 0.0], [0.2, 0.3, 0.5]])


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_antecedents_come_with_their_probabilities() -> None:
    drawn = draw_antecedents(ANTECEDENTS, n_samples=40_000, rng=rng())
    shares = np.array([(drawn == j).mean(axis=0) for j in range(3)]).T
    assert shares == pytest.approx(ANTECEDENTS, abs=0.0125)  # 5 standard errors of a share of .5
    # drawn independently: P(1 -> 0 and 2 -> 2) = .6 * .5
    assert ((drawn[:, 1] == 0) & (drawn[:, 2] == 2)).mean() == pytest.approx(0.3, abs=0.0125)


def test_clusters_are_connected_components_by_hand() -> None:
    # 0 <- 1 <- 3, 2 <- 4, and all new
    found = antecedent_clusters(np.array([[0, 0, 2, 1, 2], [0, 1, 2, 3, 4], [0, 0, 1, 2, 3]]))
    assert found.tolist() == [[0, 0, 2, 0, 2], [0, 1, 2, 3, 4], [0, 0, 0, 0, 0]]


@given(st.integers(1, 8), st.integers(1, 5), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_clusters_are_where_following_antecedents_leads(n_mentions: int, n_samples: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    drawn = np.array([[generator.integers(i + 1) for i in range(n_mentions)] for _ in range(n_samples)])
    followed = drawn.copy()
    for _ in range(n_mentions):
        followed = np.take_along_axis(drawn, followed, axis=1)
    assert antecedent_clusters(drawn).tolist() == followed.tolist()


def test_link_probabilities_converge_to_the_enumerated_ones() -> None:
    # all 1 x 2 x 3 outcomes: links 01: .6; 02: 2 -> 0, or 2 -> 1 with 1 -> 0: .2 + .3 * .6; 12: .3 + .2 * .6
    exact = np.zeros((3, 3))
    for path in product(range(1), range(2), range(3)):
        chance = np.prod([ANTECEDENTS[i, j] for i, j in enumerate(path)])
        cluster = antecedent_clusters(np.array([path]))[0]
        exact += chance * (cluster[:, None] == cluster)
    assert [exact[0, 1], exact[0, 2], exact[1, 2]] == pytest.approx([0.6, 0.38, 0.42])
    drawn = antecedent_clusters(draw_antecedents(ANTECEDENTS, n_samples=40_000, rng=rng()))
    assert link_probabilities(drawn) == pytest.approx(exact, abs=0.0125)


def test_link_pairs_are_the_pairs_below_the_diagonal() -> None:
    q, y = link_pairs(np.array([[1, 0.6, 0.38], [0.6, 1, 0.42], [0.38, 0.42, 1]]), np.array([7, 7, 9]))
    assert q.tolist() == [0.6, 0.38, 0.42]
    assert y.tolist() == [1, 0, 0]


def test_a_cluster_has_the_name_of_its_first_named_mention() -> None:
    clusters = np.array([[0, 0, 2, 0, 2], [0, 1, 2, 2, 0]])
    named = np.array([NOBODY, 3, NOBODY, 5, NOBODY])
    assert name_clusters(clusters, named).tolist() == [[3, 3, -1, 3, -1], [-1, 3, 5, 5, -1]]


@pytest.mark.parametrize(
    ("matrix", "saying"),
    [
        ([[1.0, 0.0], [0.5, 0.4]], "mention 2: expected probabilities of sum 1"),
        ([[1.0, 0.0], [1.5, -0.5]], "mention 2"),
        ([[0.5, 0.5], [0.5, 0.5]], "above the diagonal"),
        ([[1.0, 0.0]], "square"),
        ([[1.0, 0.0], [np.nan, 0.5]], "mention 2"),
    ],
)
def test_wrong_antecedents_are_refused(matrix, saying: str) -> None:
    with pytest.raises(InputError, match=saying):
        draw_antecedents(np.array(matrix), n_samples=2, rng=rng())


def test_links_of_another_number_of_mentions_are_refused() -> None:
    with pytest.raises(InputError, match="one each"):
        link_pairs(np.eye(3), np.array([1, 2]))
