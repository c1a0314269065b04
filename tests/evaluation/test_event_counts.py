"""Events, coreference and any function of samples: counted by hand, and simulated."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.refusals import is_refused
from irtbench import calibration
from irtbench.evaluation.event_counts import (
    NOBODY,
    EventCounts,
    antecedent_clusters,
    count_events,
    draw_antecedents,
    draw_events,
    link_pairs,
    link_probabilities,
    name_clusters,
    propagate,
    summarise_samples,
)

# Mention 1 is linked to 0 with .6; mention 2 to 0 with .2, to 1 with .3.
ANTECEDENTS = np.array([[1.0, 0.0, 0.0], [0.6, 0.4, 0.0], [0.2, 0.3, 0.5]])
WHO = np.zeros((2, 3), dtype=np.int64)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def counted(**options) -> EventCounts:
    who = np.array([[0, 0, 1, NOBODY, 1], [0, NOBODY, 1, 1, 1]])
    return count_events(who, ["may", "may", "may", "june", "june"], entities=("A", "B"), **options)


def test_events_are_counted_by_period_entity_and_document_by_hand() -> None:
    found = counted()
    assert found.periods == ("june", "may")
    assert found.counts.tolist() == [[[0, 1], [2, 1]], [[0, 2], [1, 1]]]
    table = found.table().set_index(["period", "entity"])
    assert table.loc[("june", "B"), "mean"] == 1.5
    assert table.loc[("may", "A"), "sd"] == pytest.approx(np.sqrt(0.5))
    # events 0, 1 of one document, 3, 4 of another
    assert counted(document=["d", "d", "d", "e", "e"]).counts.tolist() == [[[0, 1], [1, 1]], [[0, 1], [1, 1]]]
    table, mirror = (found.above(*names).set_index("period") for names in (("A", "B"), ("B", "A")))
    assert table.loc["may", ["above", "equal", "below"]].tolist() == [0.5, 0.5, 0]  # 2 : 1 and 1 : 1
    assert table.loc["june", ["above", "equal", "below"]].tolist() == [0, 0, 1]
    assert table["difference"].tolist() == [-1.5, 0.5]
    assert mirror["below"].tolist() == table["above"].tolist()


@given(st.integers(0, 10**6))
def test_the_order_of_events_never_matters(seed: int) -> None:
    generator = np.random.default_rng(seed)
    who = generator.integers(-1, 3, (4, 12))
    period, document = generator.integers(3, size=12).astype(str), generator.integers(4, size=12)
    order = generator.permutation(12)
    one = count_events(who, period, entities=("A", "B", "C"), document=document)
    other = count_events(who[:, order], period[order], entities=("A", "B", "C"), document=document[order])
    assert one.counts.tolist() == other.counts.tolist()


@pytest.mark.parametrize(("power", "least", "most"), [(1.0, 0.92, 0.985), (6.0, 0.0, 0.85)])
def test_coverage_is_kept_if_calibrated_and_lost_if_too_sure(power: float, least: float, most: float) -> None:
    """The model states the true probabilities to a power."""
    generator, period, names = rng(), np.arange(200) % 4, ("A", "B", "C")
    held, q, y = [], [], []
    for _ in range(20):
        truth = generator.dirichlet([1.0, 1.0, 1.0], 200)
        stated = truth**power / (truth**power).sum(axis=1, keepdims=True)
        happened = draw_events(truth, n_samples=1, rng=generator)
        sampled = count_events(draw_events(stated, n_samples=150, rng=generator), period, entities=names)
        true = count_events(happened, period, entities=names).counts[0]
        found = summarise_samples(sampled.counts.astype(float))
        held.append((found.lower <= true) & (true <= found.upper))
        q.append(stated.ravel())
        y.append((happened[0][:, None] == np.arange(3)).ravel())
    assert least <= np.mean(held) <= most
    # and the calibration error says beforehand which it will be
    error = calibration(np.concatenate(q), np.concatenate(y), n_samples=10, rng=rng()).debiased_error
    assert (error > 0.05) == (power > 1)


def antecedents(rows: list[list[float]]) -> np.ndarray:
    return draw_antecedents(np.array(rows), n_samples=2, rng=rng())


@pytest.mark.parametrize(
    ("call", "saying"),
    [
        (lambda: draw_events(np.array([[0.7, 0.7]]), n_samples=2, rng=rng()), "event 1: .* of sum 1 at most"),
        (lambda: count_events(WHO, ["a", "b"], entities=("A",)), "2 periods for 3 events"),
        (lambda: count_events(WHO, ["a", "b", "c"], entities=("A",), document=[1]), "1 documents for 3 events"),
        (lambda: count_events(WHO + 1, ["a", "b", "c"], entities=("A",)), "entities from -1 to 0"),
        (lambda: counted().above("A", "Z"), "unknown entity Z"),
        (lambda: antecedents([[1.0, 0.0], [0.5, 0.4]]), "mention 2: expected probabilities of sum 1"),
        (lambda: antecedents([[1.0, 0.0], [1.5, -0.5]]), "mention 2"),
        (lambda: antecedents([[0.5, 0.5], [0.5, 0.5]]), "above the diagonal"),
        (lambda: antecedents([[1.0, 0.0]]), "square"),
        (lambda: antecedents([[1.0, 0.0], [np.nan, 0.5]]), "mention 2"),
        (lambda: link_pairs(np.eye(3), np.array([1, 2])), "one each"),
        (lambda: propagate([], float), "at least one sample"),
        (lambda: propagate([1.0, 2.0], float, level=0), "level"),
    ],
)
def test_what_does_not_fit_is_refused(call, saying: str) -> None:
    is_refused(saying, call)


@given(st.integers(1, 8), st.integers(1, 5), st.integers(0, 10**6))
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


def test_pairs_of_links_and_names_of_clusters_by_hand() -> None:
    q, y = link_pairs(np.array([[1, 0.6, 0.38], [0.6, 1, 0.42], [0.38, 0.42, 1]]), np.array([7, 7, 9]))
    assert (q.tolist(), y.tolist()) == ([0.6, 0.38, 0.42], [1, 0, 0])  # below the diagonal
    clusters = np.array([[0, 0, 2, 0, 2], [0, 1, 2, 2, 0]])
    named = np.array([NOBODY, 3, NOBODY, 5, NOBODY])  # of the first mention that has one
    assert name_clusters(clusters, named).tolist() == [[3, 3, -1, 3, -1], [-1, 3, 5, 5, -1]]


def test_mean_and_interval_by_hand_and_of_independent_events() -> None:
    # lengths 1, 2, 3: mean 2, sd 1
    found = propagate(["a", "bb", "ccc"], len)
    assert (found.mean, found.sd) == (2, 1)
    assert [found.lower, found.upper] == pytest.approx([2 - 1.959964, 2 + 1.959964], abs=1e-6)
    # quantiles .25 and .75 of 1, 2, 3 are 1.5 and 2.5
    half = propagate(["a", "bb", "ccc"], len, interval="quantile", level=0.5)
    assert (half.lower, half.upper) == (1.5, 2.5)
    found = propagate([[1, 2], [3, 2]], lambda sample: np.array(sample) ** 2)
    assert found.mean.tolist() == [5, 4]
    assert found.sd.tolist() == pytest.approx([np.sqrt(32), 0])  # 1 and 9: sd sqrt(((-4)^2 + 4^2) / 1)
    probability = np.tile([[0.3]], (50, 1))
    found = propagate(draw_events(probability, n_samples=10_000, rng=rng()), lambda who: (who == 0).sum())
    assert found.mean == pytest.approx(15, abs=0.16)  # 5 standard errors of sqrt(10.5 / 10000)
    assert found.sd == pytest.approx(np.sqrt(50 * 0.3 * 0.7), rel=0.03)  # 4 standard errors
    # one sample has no standard deviation, and an undefined one no mean
    with pytest.warns(RuntimeWarning, match="no standard deviation"):
        found = propagate([3.0], float)
    assert found.mean == 3
    assert np.isnan([found.sd, found.lower, found.upper]).all()
    with pytest.warns(RuntimeWarning, match="undefined for some samples"):
        found = summarise_samples(np.array([[1.0, 2.0], [np.nan, 4.0]]))
    np.testing.assert_array_equal(found.mean, [np.nan, 3])
