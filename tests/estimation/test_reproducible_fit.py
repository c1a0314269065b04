"""The same numbers again: bit for bit on one machine, to 1e-5 across thread counts; and missing data in quantity."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from irtbench import FitSettings, FittedModel, ItemParameters, ResponseMatrix, fit_model, simulate_responses


@pytest.fixture(scope="module")
def truth_and_responses() -> tuple[ItemParameters, ResponseMatrix]:
    rng = np.random.default_rng(11)
    truth = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 40), rng.normal(0, 1, 40))
    return truth, simulate_responses(rng.normal(size=3000), truth, rng=rng)


@contextmanager
def threads(n: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def with_missing(responses: ResponseMatrix, share: float) -> ResponseMatrix:
    rng = np.random.default_rng(12)
    values = np.where(rng.random(responses.values.shape) < share, np.nan, responses.values)
    return ResponseMatrix(values, responses.respondent_ids, responses.item_ids)


def largest_difference(left: FittedModel, right: FittedModel) -> float:
    pairs = [
        (left.items.discrimination, right.items.discrimination),
        (left.items.intercept, right.items.intercept),
        (left.items.guessing, right.items.guessing),
        *zip(left.items.standard_errors().values(), right.items.standard_errors().values(), strict=True),
    ]
    return max(float(np.nanmax(np.abs(a - b))) if np.isfinite(a).any() else 0.0 for a, b in pairs)


@pytest.mark.parametrize("kind", ["2pl", "3pl"])
def test_a_second_fit_is_bit_identical_and_the_number_of_threads_does_not_matter(
    truth_and_responses: tuple[ItemParameters, ResponseMatrix], kind: str
) -> None:
    responses = with_missing(truth_and_responses[1], 0.2)
    settings = FitSettings(kind=kind)  # type: ignore[arg-type]
    with threads(1):
        alone, again = fit_model(responses, settings, seed=1), fit_model(responses, settings, seed=1)
    with threads(2):
        together = fit_model(responses, settings, seed=1)
    assert largest_difference(alone, again) == 0
    assert largest_difference(alone, together) < 1e-5


def test_with_60_percent_missing_the_errors_are_what_theory_says(
    truth_and_responses: tuple[ItemParameters, ResponseMatrix],
) -> None:
    truth, responses = truth_and_responses
    whole, part = fit_model(responses), fit_model(with_missing(responses, 0.6))
    assert part.converged
    for name, estimate, true in (
        ("discrimination", part.items.discrimination, truth.discrimination),
        ("intercept", part.items.intercept, truth.intercept),
    ):
        errors = part.items.standard_errors()[name]
        # 40 standardised errors: their mean square is nearly chi-squared(40)/40, 99.8% of it within .43 and 1.84
        assert 0.43 < np.mean(((estimate - true) / errors) ** 2) < 1.84
        # four tenths of the responses make errors 1 / sqrt(.4) = 1.58 times as large; a little more because 16 items
        # tell less of an ability than 40, a little less because which people came does not change with it
        ratio = np.median(errors / whole.items.standard_errors()[name])
        assert 1.45 < ratio < 1.85
