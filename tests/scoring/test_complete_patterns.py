"""Scores looked up by the weighted sum of the responses are those of the posterior itself."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.special import log_expit

from builders.answered_banks import make_scale
from builders.scales import scale_of
from irtbench import ItemParameters, Quadrature, ResponseMatrix, normal_grid, score_responses
from irtbench.diagnostics.person_fit import LEAST_VARIANCE_LEFT, PatternTerms
from irtbench.models.curves import item_curves, log_icc, simulate_responses
from irtbench.models.theta_posterior import STANDARD_NORMAL, Posterior, normalise, posterior_of
from irtbench.scoring.ability import CompletePatterns


def matrix(values: NDArray[np.float64], items: ItemParameters) -> ResponseMatrix:
    return ResponseMatrix(values, tuple(map(str, range(len(values)))), items.item_ids)


@pytest.mark.parametrize("n_items", [6, 300])
@pytest.mark.parametrize("skewed", [False, True])
def test_every_number_is_that_of_the_posterior(n_items: int, skewed: bool) -> None:
    """Pattern by pattern, and by Bayes' theorem on a grid of its own; lz* by its definition."""
    items, n, population = make_scale("i", n_items).items, 6000, STANDARD_NORMAL
    if skewed:
        population = Quadrature(population.nodes, population.log_weights + log_expit(-2 * population.nodes))
    rng = np.random.default_rng(3)
    responses = simulate_responses(rng.normal(scale=1.5, size=n), items, rng=rng).values.copy()
    responses[0], responses[1] = items.discrimination > 0, items.discrimination < 0  # the ends of the table
    responses[2, 0] = np.nan
    patterns = CompletePatterns.of(matrix(responses, items), items)
    assert patterns.rows.tolist() == [0, 1, *range(3, n)]
    responses = responses[patterns.rows[:60]]
    found = patterns.posteriors(population, 0.9)[:60]
    np.testing.assert_allclose(found, posterior_of(responses, items, population).summary(0.9), atol=1e-6)
    theta = found[:, 0]
    if not skewed:
        grid = normal_grid(4001, bound=9.0)
        log_p, log_q = log_icc(grid.nodes, items)
        mass = normalise(grid.log_weights + responses @ log_p.T + (1 - responses) @ log_q.T)[0]
        np.testing.assert_allclose(found, Posterior(grid.nodes, mass).summary(0.9), atol=1e-6)

    curves = item_curves(theta, items)
    weight = np.broadcast_to(items.discrimination, curves.z.shape)
    terms = PatternTerms.of(curves.variance, curves.z, weight, least_left=LEAST_VARIANCE_LEFT)
    found = patterns.lz_star(np.arange(60), theta)
    np.testing.assert_allclose(found, terms.lz_star(responses - curves.p), atol=1e-6)


def test_of_patterns_that_the_sum_does_not_tell_there_is_no_table() -> None:
    flat = ItemParameters.from_difficulty([1.0, 1.0], [0.0, 1.0])
    others = (make_scale("i", 2, guessing=0.2).items, replace(flat, discrimination=np.zeros(2)))
    values = np.random.default_rng(0).integers(0, 2, (2000, 2)).astype(float)
    assert CompletePatterns.of(matrix(values, flat), flat) is not None
    assert CompletePatterns.of(matrix(values[:200], flat), flat) is None
    for items in others:
        assert CompletePatterns.of(matrix(values, flat), items) is None


def test_a_score_does_not_depend_on_who_else_is_scored() -> None:
    """Patterns with gaps among complete ones, in any order and alone."""
    items = make_scale("i", 20).items
    scale = scale_of(items)
    rng = np.random.default_rng(4)
    values = simulate_responses(rng.normal(size=3000), items, rng=rng).values.copy()
    values[::3, :4] = np.nan
    responses = matrix(values, items)
    together = score_responses(scale, responses)
    for first, last in itertools.pairwise([0, 1, 2, 3, 30, 60]):
        alone = score_responses(scale, responses.part(first, last))
        wanted = together[first:last].reset_index(drop=True)
        pd.testing.assert_frame_equal(alone, wanted, rtol=0, atol=1e-4)
        for name in ("theta", "se", "theta_lower", "theta_upper", "person_fit"):
            np.testing.assert_allclose(alone[name], wanted[name], atol=1e-6, err_msg=name)
    assert together["n_items"][:2].tolist() == [16, 20]
