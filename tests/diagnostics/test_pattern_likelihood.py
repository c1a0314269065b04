"""lz and lz* in their parts; `test_person_fit` has them at work."""

import numpy as np
import pytest

from irtbench.diagnostics.person_fit import PatternTerms, person_fit
from irtbench.models.curves import item_curves
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.simulation import simulate_responses

ITEMS = ItemParameters.from_difficulty([0.7, 1.4, 2.0, 1.1], [-1.0, 0.4, 0.0, 1.5], [0.0, 0.2, 0.0, 0.3])


def terms_at(theta: np.ndarray, dtype: type) -> tuple[PatternTerms, np.ndarray]:
    curves = item_curves(theta, ITEMS)
    parts = (curves.variance, np.log(curves.p / curves.q), ITEMS.discrimination * curves.weight)
    return PatternTerms.of(*(part.astype(dtype) for part in parts), least_left=1e-5), curves.p


def test_what_remains_is_what_the_score_of_theta_does_not_see() -> None:
    # sum v r P (1 - P) = 0: lz* is uncorrelated with the score, and its variance is what is left of lz's
    theta = np.linspace(-2, 2, 5)
    terms, p = terms_at(theta, np.float64)
    curves = item_curves(theta, ITEMS)
    score = ITEMS.discrimination * curves.weight
    np.testing.assert_allclose((terms.remaining * score * curves.variance).sum(axis=1), 0, atol=1e-14)
    lost = terms.used_up**2 * (score**2 * curves.variance).sum(axis=1)
    np.testing.assert_allclose(terms.variance_estimated, terms.variance_known - lost, rtol=1e-12)
    patterns = np.array(list(np.ndindex(2, 2, 2, 2)), dtype=float)
    for row in range(5):  # over all patterns at a known theta both have mean 0 and variance 1
        probability = np.prod(np.where(patterns == 1, p[row], 1 - p[row]), axis=1)
        here = PatternTerms.of(
            *(np.repeat(part[row][None], 16, axis=0) for part in (curves.variance, terms.log_odds, score)),
            least_left=1e-10,
        )
        for statistic in (here.lz, here.lz_star):
            found = statistic(patterns - p[row])
            assert probability @ found == pytest.approx(0, abs=1e-13)
            assert probability @ found**2 == pytest.approx(1, rel=1e-12)


def test_single_precision_says_the_same() -> None:
    rng = np.random.default_rng(0)
    theta = rng.normal(size=50)
    responses = simulate_responses(theta, ITEMS, rng=rng)
    terms, p = terms_at(theta, np.float32)
    found = terms.lz_star((responses.values - p).astype(np.float32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, person_fit(responses, ITEMS, theta).lz_star, atol=1e-4)


def test_nothing_left_is_nan() -> None:
    same = np.full((2, 3), 0.2)
    terms = PatternTerms.of(same, np.full((2, 3), 0.7), np.ones((2, 3)), least_left=1e-10)
    assert np.isnan(terms.lz_star(np.full((2, 3), 0.5))).all()
    assert np.isfinite(terms.lz(np.full((2, 3), 0.5))).all()
