"""Pairs of items in categories: two have the scores of right and wrong, and samples of more hold every category."""

import numpy as np

from irtbench import CategoryParameters, ItemParameters, ResponseMatrix, fit_categories, local_dependence
from irtbench.analysis.dependence_bootstrap import with_bootstrap
from irtbench.diagnostics.quadratic_form import Residuals
from irtbench.models.quadrature import normal_grid


def test_two_categories_have_the_scores_of_right_and_wrong() -> None:
    rng, items = np.random.default_rng(1), ItemParameters.from_difficulty([0.8, 1.2, 1.7, 1.0], [-1, 0, 0.5, 1])
    values = (rng.random((200, 4)) < 0.6).astype(float)
    values[rng.random(values.shape) < 0.2] = np.nan
    responses = ResponseMatrix(values, tuple(f"r{i}" for i in range(200)), items.item_ids)
    both = (items, CategoryParameters.of_right_or_wrong(items).as_items())
    binary, graded = (Residuals.of_items(responses, each, normal_grid()) for each in both)
    np.testing.assert_allclose(graded.pairs(), binary.pairs(), atol=1e-9)
    np.testing.assert_allclose(graded.mass, binary.mass, atol=1e-12)


def test_every_category_is_in_every_sample_and_a_dependent_pair_is_found() -> None:
    rng = np.random.default_rng(2)
    theta, b = rng.normal(size=(250, 1, 1)), np.array([-1.0, 0.2, 1.2]) + rng.normal(0, 0.3, (9, 1))
    codes = (1.5 * (theta - b) + rng.logistic(size=(250, 9, 1)) > 0).sum(axis=2).astype(float)
    codes[:, 8] = np.where(rng.random(250) < 0.5, codes[:, 7], codes[:, 8])
    codes[rng.random(codes.shape) < 0.2] = np.nan
    codes[0, 0], codes[codes[:, 1] == 3, 1] = 4.0, 2.0
    fitted = fit_categories(codes, "grm", prior="weak")
    items, responses = fitted.items.as_items(), fitted.items.matrix(codes)
    samples = []

    def refit(sample: ResponseMatrix) -> ItemParameters:
        samples.append(sample.correct)
        return fit_categories(sample.correct, "grm", prior="weak", standard_errors=False).items.as_items()

    pairs = local_dependence(responses, items)
    found = with_bootstrap(pairs, responses, items, refit, rng=rng, n_samples=19)
    assert found.p_bootstrap is not None
    assert found.p_bootstrap_adjusted is not None
    assert found.p_bootstrap_adjusted[-1] == 1 / 20
    assert (found.p_bootstrap_adjusted[:-1] > 0.05).sum() >= 33
    assert len(samples) == 19
    for sample in samples:
        assert np.array_equal(np.isnan(sample), np.isnan(codes))
        assert [set(column[~np.isnan(column)]) for column in sample.T] == [
            set(range(len(own))) for own in fitted.items.categories
        ]
