"""Events counted by hand; coverage where a model is calibrated and where it is too sure."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irtbench import InputError, calibration
from irtbench.evaluation.event_counts import NOBODY, EventCounts, count_events, draw_events, summarise_samples


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def counted(**options) -> EventCounts:
    who = np.array([[0, 0, 1, NOBODY, 1], [0, NOBODY, 1, 1, 1]])
    return count_events(who, ["may", "may", "may", "june", "june"], entities=("A", "B"), **options)


def test_events_are_counted_by_period_and_entity_by_hand() -> None:
    found = counted()
    assert found.periods == ("june", "may")
    assert found.counts.tolist() == [[[0, 1], [2, 1]], [[0, 2], [1, 1]]]
    table = found.table().set_index(["period", "entity"])
    assert table.loc[("june", "B"), "mean"] == 1.5
    assert table.loc[("may", "A"), "sd"] == pytest.approx(np.sqrt(0.5))


def test_a_document_counts_once_for_an_entity_and_period() -> None:
    # events 0, 1 of one document, 3, 4 of another
    found = counted(document=["d", "d", "d", "e", "e"])
    assert found.counts.tolist() == [[[0, 1], [1, 1]], [[0, 1], [1, 1]]]


def test_above_by_hand() -> None:
    table = counted().above("A", "B").set_index("period")
    assert table.loc["may", ["above", "equal", "below"]].tolist() == [0.5, 0.5, 0]  # 2 : 1 and 1 : 1
    assert table.loc["june", ["above", "equal", "below"]].tolist() == [0, 0, 1]
    assert table["difference"].tolist() == [-1.5, 0.5]
    mirror = counted().above("B", "A").set_index("period")
    assert mirror["below"].tolist() == table["above"].tolist()


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_the_order_of_events_never_matters(seed: int) -> None:
    generator = np.random.default_rng(seed)
    who = generator.integers(-1, 3, (4, 12))
    period, document = generator.integers(3, size=12).astype(str), generator.integers(4, size=12)
    order = generator.permutation(12)
    one = count_events(who, period, entities=("A", "B", "C"), document=document)
    other = count_events(who[:, order], period[order], entities=("A", "B", "C"), document=document[order])
    assert one.counts.tolist() == other.counts.tolist()


def corpus(power: float, generator: np.random.Generator) -> tuple[EventCounts, EventCounts, np.ndarray, np.ndarray]:
    """True and sampled counts of one corpus whose model states the true probabilities to a power."""
    period = np.arange(200) % 4
    truth = generator.dirichlet([1.0, 1.0, 1.0], 200)
    stated = truth**power / (truth**power).sum(axis=1, keepdims=True)
    happened = draw_events(truth, n_samples=1, rng=generator)
    sampled = draw_events(stated, n_samples=300, rng=generator)
    names = ("A", "B", "C")
    labels = happened[0][:, None] == np.arange(3)
    return count_events(happened, period, entities=names), count_events(sampled, period, entities=names), stated, labels


@pytest.mark.parametrize(("power", "least", "most"), [(1.0, 0.92, 0.985), (6.0, 0.0, 0.85)])
def test_coverage_is_kept_if_calibrated_and_lost_if_too_sure(power: float, least: float, most: float) -> None:
    generator = rng()
    held, q, y = [], [], []
    for _ in range(40):
        truth, sampled, stated, labels = corpus(power, generator)
        found = summarise_samples(sampled.counts.astype(float))
        held.append((found.lower <= truth.counts[0]) & (truth.counts[0] <= found.upper))
        q.append(stated.ravel())
        y.append(labels.ravel())
    assert least <= np.mean(held) <= most
    # and the calibration error says beforehand which it will be
    error = calibration(np.concatenate(q), np.concatenate(y), n_samples=10, rng=rng()).debiased_error
    assert (error > 0.05) == (power > 1)


def test_wrong_events_are_refused() -> None:
    with pytest.raises(InputError, match="event 1: expected probabilities of sum 1 at most"):
        draw_events(np.array([[0.7, 0.7]]), n_samples=2, rng=rng())
    who = np.zeros((2, 3), dtype=np.int64)
    with pytest.raises(InputError, match="2 periods for 3 events"):
        count_events(who, ["a", "b"], entities=("A",))
    with pytest.raises(InputError, match="1 documents for 3 events"):
        count_events(who, ["a", "b", "c"], entities=("A",), document=[1])
    with pytest.raises(InputError, match="entities from -1 to 0"):
        count_events(who + 1, ["a", "b", "c"], entities=("A",))
    with pytest.raises(InputError, match="unknown entity Z"):
        counted().above("A", "Z")
