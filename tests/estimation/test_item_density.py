"""The density of the items: mixtures, their moments, how many components, and what skewed difficulties ask for."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm, t

from irtbench.estimation.few_respondents.item_density import packed, split, unpacked, with_long_tails
from irtbench.estimation.few_respondents.item_quadrature import ItemModes, item_quadrature
from irtbench.estimation.fit import fit_model
from irtbench.estimation.settings import FitSettings
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.priors import Hierarchy
from irtbench.models.pyro_model.model import hierarchy_density
from irtbench.models.pyro_model.rows import DenseRows, encode_responses
from irtbench.models.simulation import simulate_responses

EASY = Hierarchy((0.1, -2.5), (0.3, 1.2), 0.1, of="difficulty")
OTHERS = Hierarchy((0.1, 0.6), (0.3, 0.5), 0.24, of="difficulty")
TAIL = Hierarchy.mixture([(0.3, EASY), (0.7, OTHERS)])


def test_moments_of_a_mixture_are_those_of_its_draws() -> None:
    torch.manual_seed(0)
    draws = hierarchy_density(TAIL, torch.zeros((), dtype=torch.float64)).sample((200_000,))
    np.testing.assert_allclose(draws.mean(dim=0), TAIL.mean, atol=0.02)
    np.testing.assert_allclose(torch.cov(draws.T), TAIL.covariance, atol=0.03)


def test_the_density_of_a_mixture_is_the_weighted_sum() -> None:
    at = torch.tensor([[0.2, -1.0]], dtype=torch.float64)
    parts = [weight * hierarchy_density(part, at).log_prob(at).exp() for weight, part in TAIL.parts]
    assert float(hierarchy_density(TAIL, at).log_prob(at).exp()) == pytest.approx(float(sum(parts)))


def test_numbers_of_a_mixture_and_back() -> None:
    rise = OTHERS.correlation * OTHERS.deviation[1]
    assert pytest.approx(rise) == EASY.correlation * EASY.deviation[1]  # what components share
    again = unpacked(packed(TAIL))
    for (weight, part), (expected_weight, expected) in zip(again.parts, TAIL.parts, strict=True):
        assert weight == pytest.approx(expected_weight)
        assert (*part.mean, *part.deviation, part.correlation) == pytest.approx(
            (*expected.mean, *expected.deviation, expected.correlation)
        )


def test_the_heaviest_component_is_split() -> None:
    parts = split(TAIL).parts
    assert [weight for weight, _ in parts] == pytest.approx([0.3, 0.35, 0.35])
    assert parts[1][1].mean[1] < OTHERS.mean[1] < parts[2][1].mean[1]
    assert (parts[1][1].mean[1] + parts[2][1].mean[1]) / 2 == pytest.approx(OTHERS.mean[1])


def test_evidence_under_a_mixture_is_the_sum_of_that_under_its_components() -> None:
    rng = np.random.default_rng(0)
    theta = rng.normal(size=12)
    items = ItemParameters.from_difficulty(np.full(5, 1.2), [-4.0, -2.0, 0.0, 1.0, 2.0])
    rows = encode_responses(simulate_responses(theta, items, rng=rng), torch.device("cpu"))
    assert isinstance(rows, DenseRows)
    start = ItemModes(torch.zeros(5, 2, dtype=torch.float64), torch.ones(5, dtype=torch.float64))
    ability = torch.from_numpy(theta)
    alone = [item_quadrature(rows, ability, start, part).log_evidence(part).exp() for _, part in TAIL.parts]
    found = item_quadrature(rows, ability, start, TAIL)
    np.testing.assert_allclose(found.log_evidence(TAIL).exp(), 0.3 * alone[0] + 0.7 * alone[1], rtol=1e-10)
    np.testing.assert_allclose(found.mass(TAIL).sum(dim=1), 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("easy", "n_components"), [pytest.param(0.0, 1, marks=pytest.mark.slow), (0.3, 2)])
def test_a_long_easy_tail_takes_a_component_more(easy: float, n_components: int) -> None:
    rng = np.random.default_rng(3)
    n_items = 1500
    b = np.where(rng.random(n_items) < easy, rng.normal(-3, 1.2, n_items), rng.normal(0.5, 0.6, n_items))
    items = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, n_items), b)
    theta = rng.normal(size=15)
    fitted = fit_model(simulate_responses(theta, items, rng=rng), FitSettings(prior="hierarchical"))
    assert fitted.converged
    assert fitted.priors.hierarchy is not None
    assert len(fitted.priors.hierarchy.parts) == n_components
    assert fitted.abilities is not None
    error = fitted.abilities.theta - (theta - theta.mean()) / theta.std()
    # one normal density, with the tail, is 11.5 standard errors off, and a third of the far b are held
    assert np.abs(error / fitted.abilities.standard_error).max() < 3.5
    far = np.abs(b) > 1.5
    true = (b - theta.mean()) / theta.std()
    if easy:
        held = np.abs(fitted.items.difficulty - true) < 1.96 * fitted.items.standard_errors()["difficulty"]
        assert 0.82 < held[far].mean() < 0.99


def test_long_tails_are_about_those_of_a_t_density_of_four_degrees_of_freedom() -> None:
    """Of b given log |a|: its quantiles, the same regression on log |a|, and log |a| as it was."""
    prior = Hierarchy((0.2, -0.5), (0.3, 1.2), 0.4, of="difficulty")
    longer = with_long_tails(prior)
    assert sum(weight for weight, _ in longer.parts) == pytest.approx(1)
    alone = 1.2 * math.sqrt(1 - 0.4**2)
    share = np.zeros(3)
    for weight, part in longer.parts:
        assert part.mean == prior.mean
        assert part.deviation[0] == 0.3
        assert part.correlation * part.deviation[1] == pytest.approx(0.4 * 1.2)  # the slope by log |a| / .3
        own = part.deviation[1] * math.sqrt(1 - part.correlation**2)
        share += weight * 2 * norm.sf(t.isf([0.05, 0.025, 0.005], 4) * alone / own)
    np.testing.assert_allclose(share, [0.1, 0.05, 0.01], rtol=0.2)
