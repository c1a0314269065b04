"""Scores looked up by the weighted sum of the responses are those of the posterior itself."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from irtbench.bank.scale import Scale
from irtbench.data.items import ItemTable
from irtbench.data.responses import ResponseMatrix
from irtbench.diagnostics.pattern_likelihood import PatternTerms
from irtbench.models.curves import item_curves, log_icc
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.quadrature import Quadrature, normal_grid
from irtbench.models.simulation import simulate_responses
from irtbench.scoring.complete_patterns import LEAST_VARIANCE_LEFT, CompletePatterns
from irtbench.scoring.scores import ScoringSettings
from irtbench.scoring.shared_grid import SharedGridScorer


def drawn_items(n: int, *, guessing: float = 0.0) -> ItemParameters:
    rng = np.random.default_rng(n)
    a = rng.lognormal(0.2, 0.3, n)
    a[0] = -0.5  # a reversed item
    return ItemParameters.from_difficulty(a, rng.normal(size=n), guessing)


def table_of(items: ItemParameters, grid: Quadrature) -> CompletePatterns | None:
    return CompletePatterns.of(items, grid, log_icc(grid.nodes, items)[1].sum(axis=1), 0.95)


@pytest.mark.parametrize("n_items", [6, 40, 300])
def test_every_number_is_that_of_the_posterior(n_items: int) -> None:
    """Bayes' theorem on the same grid, pattern by pattern; lz* by its definition."""
    items, grid = drawn_items(n_items), normal_grid(801)
    table = table_of(items, grid)
    assert table is not None
    rng = np.random.default_rng(3)
    responses = simulate_responses(rng.normal(scale=1.5, size=200), items, rng=rng).values.copy()
    responses[0], responses[1] = items.discrimination > 0, items.discrimination < 0  # the ends of the table
    by_slope, by_intercept, n_correct = (responses.astype(np.float32) @ table.weights).T
    found = table.at(by_slope, by_intercept)
    np.testing.assert_array_equal(n_correct, responses.sum(axis=1))

    log_p, log_q = log_icc(grid.nodes, items)
    mass = np.exp(grid.log_weights + responses @ log_p.T + (1 - responses) @ log_q.T)
    mass /= mass.sum(axis=1, keepdims=True)
    theta = mass @ grid.nodes
    deviation = np.sqrt(mass @ grid.nodes**2 - theta**2)
    np.testing.assert_allclose(found.theta, theta, atol=1e-5)
    np.testing.assert_allclose(found.standard_error, deviation, atol=1e-5)
    reached = np.cumsum(mass, axis=1) - mass / 2  # half a node's mass lies below it
    for ends, share in ((found.lower, 0.025), (found.upper, 0.975)):
        exact = np.array([np.interp(share, row, grid.nodes) for row in reached])
        np.testing.assert_array_less(np.abs(ends - exact), 0.02 * deviation)
    np.testing.assert_allclose(found.at_ends, mass[:, [0, -1]].max(axis=1) / mass.max(axis=1), atol=1e-6)

    curves = item_curves(theta, items)
    weight = np.broadcast_to(items.discrimination, curves.z.shape)
    terms = PatternTerms.of(curves.variance, curves.z, weight, least_left=LEAST_VARIANCE_LEFT)
    np.testing.assert_allclose(found.lz_star, terms.lz_star(responses - curves.p), atol=1e-4)


def test_of_patterns_that_the_sum_does_not_tell_there_is_no_table() -> None:
    assert table_of(drawn_items(5, guessing=0.2), normal_grid(61)) is None
    flat = ItemParameters.from_difficulty([1.0, 1.0], [0.0, 1.0])
    assert table_of(flat, normal_grid(61)) is not None
    none = replace(flat, discrimination=np.zeros(2))
    assert table_of(none, normal_grid(61)) is None


def test_a_score_does_not_depend_on_who_else_is_in_the_part() -> None:
    """Patterns with gaps beside complete ones, in any order and alone."""
    items = drawn_items(20)
    scorer = SharedGridScorer(Scale("all", items, ItemTable.plain(items.item_ids)), items.item_ids, ScoringSettings())
    rng = np.random.default_rng(4)
    values = simulate_responses(rng.normal(size=60), items, rng=rng).values.astype(np.float32)
    values[::3, :4] = np.nan
    responses = ResponseMatrix(values, tuple(map(str, range(60))), items.item_ids)
    together, fit = scorer.estimate(responses)
    for first, last in itertools.pairwise([0, 1, 2, 3, 30, 60]):
        alone, own = scorer.estimate(responses.part(first, last))
        for name in ("theta", "standard_error", "lower", "upper"):
            np.testing.assert_allclose(getattr(alone, name), getattr(together, name)[first:last], atol=2e-6)
        np.testing.assert_array_equal(alone.n_correct, together.n_correct[first:last])
        np.testing.assert_array_equal(alone.n_items, together.n_items[first:last])
        np.testing.assert_allclose(own, fit[first:last], atol=1e-4)
    assert together.n_items[:2].tolist() == [16, 20]
