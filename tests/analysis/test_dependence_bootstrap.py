"""The bootstrap p of local dependence keeps its level where the chi-square of LD-X2 does not."""

from collections.abc import Sequence

import numpy as np
import pytest

from builders.simulated import with_values
from irtbench import FitSettings, InputError, ItemParameters, ResponseMatrix, fit_model, icc, simulate_responses
from irtbench.analysis.dependence_bootstrap import (
    bootstrap_p,
    little_to_find,
    n_exceeding,
    simulate_like,
    with_bootstrap,
)
from irtbench.diagnostics.local_dependence import LocalDependence, local_dependence
from irtbench.diagnostics.quadratic_form import Residuals
from irtbench.models.quadrature import normal_grid
from irtbench.models.theta_posterior import ability_posterior

FAST = FitSettings(standard_errors=False, tolerance=1e-3)


def refit(responses: ResponseMatrix) -> ItemParameters:
    return fit_model(responses, FAST).items


def bootstrapped(responses: ResponseMatrix, *, seed: int = 0, n_samples: int = 39) -> LocalDependence:
    items = refit(responses)
    rng = np.random.default_rng(seed)
    return with_bootstrap(local_dependence(responses, items), responses, items, refit, rng=rng, n_samples=n_samples)


def clean(seed: int, *, n_items: int = 10, n_respondents: int = 500, missing: float = 0.0) -> ResponseMatrix:
    rng = np.random.default_rng(seed)
    items = ItemParameters.from_difficulty(rng.uniform(0.8, 2.0, n_items), rng.normal(0, 1, n_items))
    drawn = simulate_responses(rng.normal(size=n_respondents), items, rng=rng, missing=missing)
    return drawn.select_respondents(drawn.observed.any(axis=1))


def test_p_of_an_order_by_hand() -> None:
    # Three samples. The means, those observed included, are 12 / 4 = 3 and 4 / 4 = 1, so that 6 and 1 become 2 and 1;
    # the largest of each sample is max(1/3, 2), max(1, 0), max(2/3, 1) = 2, 1, 1.
    simulated = np.array([[1.0, 2.0], [3.0, 0.0], [2.0, 1.0]])
    p, adjusted = bootstrap_p(np.array([6.0, 1.0]), simulated)
    assert p.tolist() == [1 / 4, 3 / 4]
    assert adjusted.tolist() == [2 / 4, 4 / 4]
    p, adjusted = bootstrap_p(np.array([np.nan, 1.0]), simulated)
    assert np.isnan([p[0], adjusted[0]]).all()
    assert (p[1], adjusted[1]) == (3 / 4, 3 / 4)  # alone it is its own largest: 2, 0, 1


@pytest.mark.slow
@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_level_with_and_without_missing_responses(missing: float) -> None:
    found = [bootstrapped(clean(seed, missing=missing), seed=seed, n_samples=19) for seed in range(5)]
    p = np.concatenate([pairs.p_bootstrap for pairs in found])
    chi_square = np.concatenate([pairs.p for pairs in found])
    # 225 pairs, those of one sample dependent: the standard error of a 5% rate is about 1.8%
    assert np.mean(p <= 0.05) < 0.1
    # the published p is too careful with complete responses and far too rash with half of them missing
    assert np.mean(chi_square < 0.05) < 0.03 if missing == 0 else np.mean(chi_square < 0.05) > 0.08
    assert sum((pairs.p_bootstrap_adjusted <= 0.05).any() for pairs in found) <= 2  # type: ignore[misc]


def test_samples_come_from_the_posteriors_and_are_missing_where_the_data_are() -> None:
    responses = clean(5, n_items=4, missing=0.4)
    items = ItemParameters.from_difficulty([1.0, 1.5, 2.0, 0.5], [-1.0, 0.0, 1.0, 0.5])
    fitted = Residuals.of_items(responses, items, normal_grid())
    rng = np.random.default_rng(2)
    samples = [simulate_like(responses, fitted, rng) for _ in range(60)]
    assert all((sample.observed == responses.observed).all() for sample in samples)
    share = np.mean([sample.proportion_correct() for sample in samples], axis=0)
    posterior = ability_posterior(responses, items, quadrature=normal_grid())
    p = posterior.mass @ icc(posterior.nodes, items)
    expected = np.where(responses.observed, p, 0).sum(axis=0) / responses.observed.sum(axis=0)
    np.testing.assert_allclose(share, expected, atol=0.012)  # 4 standard errors


def test_refits_that_fail_are_counted() -> None:
    responses = clean(7, n_items=5)
    items = refit(responses)
    found = local_dependence(responses, items)
    calls = iter(range(1000))

    def sometimes(sample: ResponseMatrix) -> ItemParameters | None:
        if next(calls) % 4 == 0:
            raise InputError("fit: all responses are the same")
        return refit(sample)

    with pytest.warns(RuntimeWarning, match="failed in 5 of 20 bootstrap samples"):
        with_bootstrap(found, responses, items, sometimes, rng=np.random.default_rng(0), n_samples=20)
    with pytest.raises(ArithmeticError, match="failed in 10 of 10"):
        with_bootstrap(found, responses, items, lambda sample: None, rng=np.random.default_rng(0), n_samples=20)
    with pytest.raises(InputError, match="at least 19 samples but got 5"):
        with_bootstrap(found, responses, items, refit, rng=np.random.default_rng(0), n_samples=5)


@pytest.mark.slow
def test_the_samples_end_early_where_little_is_to_be_found_and_p_says_on_how_many_it_stands() -> None:
    responses = clean(8, n_items=6)
    items = refit(responses)
    found = local_dependence(responses, items)
    lines: list[str] = []
    n = dict.fromkeys(("all", "early"), 0)
    for name, suffices in (("all", lambda so_far: False), ("early", little_to_find)):
        p = with_bootstrap(
            found, responses, items, refit, rng=np.random.default_rng(1), n_samples=60, suffices=suffices,
            progress=lines.append,
        )  # fmt: skip
        n[name] = p.bootstrap_samples
        assert p.table()["bootstrap_samples"].unique().tolist() == [p.bootstrap_samples]
        assert round(p.p_bootstrap_adjusted.min() * (p.bootstrap_samples + 1)) - 1 == n_exceeding(p)
    assert n["all"] == 60
    assert 19 <= n["early"] < 60
    assert n_exceeding(p) >= 10
    assert lines[0] == "local dependence: sample 1 of at most 60"


@pytest.mark.slow
def test_a_dependent_pair_is_not_ended_early() -> None:
    responses = clean(3, n_items=6, n_respondents=800)
    values = responses.values.copy()
    copied = np.random.default_rng(1).random(800) < 0.5
    values[copied, 4] = values[copied, 2]
    twins = with_values(responses, values)
    items = refit(twins)
    found = with_bootstrap(
        local_dependence(twins, items), twins, items, refit, rng=np.random.default_rng(0), n_samples=39,
        suffices=little_to_find,
    )  # fmt: skip
    assert (found.bootstrap_samples, found.p_bootstrap_adjusted.min()) == (39, 1 / 40)


def test_samples_refitted_together_are_the_same_samples() -> None:
    responses = clean(3, n_items=5)
    sizes: list[int] = []

    def alone(sample: ResponseMatrix) -> ItemParameters:
        share = sample.proportion_correct()
        return ItemParameters.from_difficulty(np.ones(5), np.log(1 / share - 1), item_ids=sample.item_ids)

    def refit_many(samples: Sequence[ResponseMatrix]) -> list[ItemParameters | None]:
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
        with pytest.raises(InputError, match="expected either refit or refit_many"):
            with_bootstrap(found, responses, items, one, refit_many=many, rng=np.random.default_rng(0))
