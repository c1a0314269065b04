"""Nodes placed where posteriors are, at the ends of the scale too."""

import numpy as np
import pytest
import torch
from scipy.special import expit
from scipy.stats import norm

from irtbench import ItemParameters, fit_model, simulate_responses
from irtbench.estimation.marginal.nodes import BOUND, REACH, Posteriors, nodes_near


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_wide_posterior_at_the_end_of_the_scale_has_nodes_up_to_the_end_and_none_beyond(side: float) -> None:
    narrow, wide = 0.05, 0.5
    places = torch.tensor([side * 7.5, 0.0], dtype=torch.float64)
    posteriors = Posteriors(places, torch.tensor([wide, narrow], dtype=torch.float64))
    theta = nodes_near(posteriors, step=narrow).theta[:, 0]
    # the wide one reaches from 7.5 - 8 x .5 = 3.5 to beyond the end, the narrow one .4 to either side of 0
    assert float((side * theta).max()) == pytest.approx(BOUND)
    far = side * theta[(side * theta) > 2.0]
    assert float(far.min()) == pytest.approx(7.5 - REACH * wide, abs=narrow)
    near = theta[(side * theta) <= 2.0]
    assert float(near.abs().max()) == pytest.approx(REACH * narrow, abs=narrow)
    assert float(torch.diff(near).max()) <= narrow + 1e-12


def test_a_posterior_wider_than_the_scale_has_all_nodes() -> None:
    wide = torch.tensor([5.0], dtype=torch.float64)
    nodes = nodes_near(Posteriors(torch.zeros(1, dtype=torch.float64), wide), step=0.2)
    assert float(nodes.theta[0, 0]) == -BOUND
    assert float(nodes.theta[-1, 0]) == BOUND
    assert float(nodes.log_weights.exp().sum()) == pytest.approx(1.0, abs=1e-9)


def test_a_posterior_that_is_flat_between_steep_items_has_nodes_all_over() -> None:
    """Ten items of slope about 8, and the likelihood of every pattern by a rule 100 times as fine."""
    rng = np.random.default_rng(1)
    items = ItemParameters.from_difficulty(np.full(10, 8.0), rng.normal(size=10))
    responses = simulate_responses(rng.normal(size=300), items, rng=rng)
    found = fit_model(responses, kind="rasch")
    assert found.converged
    z = np.linspace(-9, 9, 100_001)
    log_odds = found.moments.sd * z[:, None] - found.items.difficulty
    patterns, counts = np.unique(responses.values, axis=0, return_counts=True)
    shares = [norm.pdf(z) @ expit((2 * pattern - 1) * log_odds).prod(axis=1) * (z[1] - z[0]) for pattern in patterns]
    assert found.log_likelihood == pytest.approx(counts @ np.log(shares), abs=1e-6)
