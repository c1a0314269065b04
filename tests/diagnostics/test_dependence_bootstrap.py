"""The bootstrap p of local dependence by hand, its samples, and refits that fail (its level: test_posterior_scores)."""

from collections.abc import Sequence

import numpy as np
import pytest

import irtbench
from builders.refusals import is_refused
from builders.simulated import simulated
from irtbench.diagnostics.local_dependence import (
    bootstrap_p,
    little_to_find,
    local_dependence,
    n_exceeding,
    simulate_like,
    with_bootstrap,
)
from irtbench.diagnostics.quadratic_form import Residuals
from irtbench.models.quadrature import normal_grid
from irtbench.models.theta_posterior import ability_posterior


def alone(sample: irtbench.ResponseMatrix) -> irtbench.ItemParameters:
    """Slopes of 1 and what shares tell of difficulty: quickly."""
    difficulty = 1.16 * np.log(1 / sample.proportion_correct() - 1)
    return irtbench.ItemParameters.from_difficulty(np.ones(sample.n_items), difficulty, item_ids=sample.item_ids)


def test_p_of_an_order_by_hand() -> None:
    # Three samples. The means, those observed included, are 12 / 4 = 3 and 4 / 4 = 1, so that 6 and 1 become 2 and 1;
    # the largest of each sample is max(1/3, 2), max(1, 0), max(2/3, 1) = 2, 1, 1.
    samples = np.array([[1.0, 2.0], [3.0, 0.0], [2.0, 1.0]])
    p, adjusted = bootstrap_p(np.array([6.0, 1.0]), samples)
    assert p.tolist() == [1 / 4, 3 / 4]
    assert adjusted.tolist() == [2 / 4, 4 / 4]
    p, adjusted = bootstrap_p(np.array([np.nan, 1.0]), samples)
    assert np.isnan([p[0], adjusted[0]]).all()
    assert (p[1], adjusted[1]) == (3 / 4, 3 / 4)  # alone it is its own largest: 2, 0, 1


def test_samples_come_from_the_posteriors_and_are_missing_where_the_data_are() -> None:
    responses = simulated(500, 4, seed=5, missing=0.4)[0].answered()
    items = irtbench.ItemParameters.from_difficulty([1.0, 1.5, 2.0, 0.5], [-1.0, 0.0, 1.0, 0.5])
    fitted = Residuals.of_items(responses, items, normal_grid())
    rng = np.random.default_rng(2)
    samples = [simulate_like(responses, fitted, rng) for _ in range(60)]
    assert all((sample.observed == responses.observed).all() for sample in samples)
    share = np.mean([sample.proportion_correct() for sample in samples], axis=0)
    posterior = ability_posterior(responses, items, quadrature=normal_grid())
    p = posterior.mass @ irtbench.icc(posterior.nodes, items)
    expected = np.where(responses.observed, p, 0).sum(axis=0) / responses.observed.sum(axis=0)
    np.testing.assert_allclose(share, expected, atol=0.012)  # 4 standard errors


def test_refits_that_fail_are_counted() -> None:
    responses = simulated(500, 5, seed=7)[0]
    items = alone(responses)
    found = local_dependence(responses, items)
    calls = iter(range(1000))

    def sometimes(sample: irtbench.ResponseMatrix) -> irtbench.ItemParameters | None:
        if next(calls) % 4 == 0:
            raise irtbench.InputError("fit: all responses are the same")
        return alone(sample)

    with pytest.warns(RuntimeWarning, match="failed in 5 of 20 bootstrap samples"):
        with_bootstrap(found, responses, items, sometimes, rng=np.random.default_rng(0), n_samples=20)
    with pytest.raises(ArithmeticError, match="failed in 10 of 10"):
        with_bootstrap(found, responses, items, lambda sample: None, rng=np.random.default_rng(0), n_samples=20)
    rng = np.random.default_rng(0)
    is_refused("at least 19 samples but got 5", with_bootstrap, found, responses, items, alone, rng=rng, n_samples=5)


def test_samples_end_early_where_little_is_to_be_found_and_not_where_a_pair_is_dependent() -> None:
    rng, lines, found = np.random.default_rng(8), list[str](), []
    items = irtbench.ItemParameters.from_difficulty(np.ones(6), np.linspace(-1, 1, 6))
    values = irtbench.simulate_responses(rng.normal(size=500), items, rng=rng).values
    half = np.arange(500)[:, None] < 250
    for own in (values, np.where((np.arange(6) == 4) & half, values[:, [2]], values)):
        data = irtbench.as_responses(own)
        pairs, options = local_dependence(data, alone(data)), {"suffices": little_to_find, "progress": lines.append}
        found.append(with_bootstrap(pairs, data, alone(data), alone, rng=rng, n_samples=60, **options))
    early, dependent = found
    assert 19 <= early.bootstrap_samples < 60
    assert round(early.p_bootstrap_adjusted.min() * (early.bootstrap_samples + 1)) - 1 == n_exceeding(early) >= 10
    assert set(early.table()["bootstrap_samples"]) == {early.bootstrap_samples}
    assert (dependent.bootstrap_samples, dependent.p_bootstrap_adjusted.min()) == (60, 1 / 61)
    assert lines[0] == "local dependence: sample 1 of at most 60"


def test_samples_refitted_together_are_the_same_samples() -> None:
    responses = simulated(500, 5, seed=3)[0]
    sizes: list[int] = []

    def refit_many(samples: Sequence[irtbench.ResponseMatrix]) -> list[irtbench.ItemParameters | None]:
        sizes.append(len(samples))
        return [alone(sample) for sample in samples]

    items = alone(responses)
    found = local_dependence(responses, items)
    one_by_one, together = (
        with_bootstrap(found, responses, items, one, refit_many=many, rng=np.random.default_rng(0), n_samples=44)
        for one, many in ((alone, None), (None, refit_many))
    )
    np.testing.assert_array_equal(one_by_one.p_bootstrap, together.p_bootstrap)
    assert sizes == [19, 10, 10, 5]
    for one, many in ((None, None), (alone, refit_many)):
        refused = found, responses, items, one
        is_refused(
            "either refit or refit_many", with_bootstrap, *refused, refit_many=many, rng=np.random.default_rng(0)
        )
