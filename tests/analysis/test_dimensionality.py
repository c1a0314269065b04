"""Tetrachoric correlations, number of abilities, rotation towards labels."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal, norm
from statsmodels.multivariate.factor_rotation import rotate_factors

from builders.mirt_figures import snli
from builders.refusals import is_refused
from irtbench import ItemParameters, find_dimensions, fit_factors, simulate_responses
from irtbench.analysis.dimensions import of_loadings, parallel_analysis, principal_axes, rotate_to_labels, shuffled
from irtbench.data.given import as_responses
from irtbench.diagnostics.correlation import correlations_of_codes, correlations_of_tables, polychoric, tetrachoric
from irtbench.models.coded_scores import CodedScores


def one_factor_a_label(n_labels: int, per_label: int, *, n: int, seed: int, between: float = 0.0) -> np.ndarray:
    """Right where normals exceed thresholds; they load .7 on their label's ability, and these correlate ``between``."""
    labels = np.repeat(np.arange(n_labels), per_label)
    correlations = 0.49 * np.where(labels[:, None] == labels, 1.0, between) + 0.51 * np.eye(len(labels))
    latent = np.random.default_rng(seed).multivariate_normal(np.zeros(len(labels)), correlations, size=n)
    return (latent > np.linspace(-0.8, 0.8, len(labels))).astype(float)


def test_tables_of_known_correlation_give_it_back() -> None:
    cells, wanted = [], []
    for h, k, r in [
        (0, 0, 0.5), (1, -0.5, -0.3), (-1.2, -1, 0.9), (2, 1.5, 0.2), (0.3, 0, 0), (0.5, 0.4, 0.99), (-0.3, 0.2, -0.98),
    ]:  # fmt: skip
        both = multivariate_normal.cdf([h, k], [0, 0], [[1, r], [r, 1]])
        p, q = norm.cdf([h, k])
        cells.append([[both, p - both], [q - both, 1 - p - q + both]])
        wanted.append(r)
    np.testing.assert_allclose(correlations_of_tables(1e4 * np.moveaxis(np.array(cells), 0, 2)), wanted, atol=1e-6)


@pytest.mark.parametrize("n_labels", [1, 2, 3])
def test_as_many_abilities_come_out_as_went_in(n_labels: int) -> None:
    responses = one_factor_a_label(n_labels, 10, n=800, seed=n_labels, between=0.2)
    analysis = parallel_analysis(responses, rng=np.random.default_rng(0), n_samples=10)
    assert analysis.n_abilities == n_labels
    assert analysis.table()["ability"].sum() == n_labels


def test_abilities_behind_grades_are_counted_by_polychoric_correlations() -> None:
    rng = np.random.default_rng(3)
    labels = np.repeat([0, 1], 6)
    truth = 0.49 * np.where(labels[:, None] == labels, 1.0, 0.3)
    np.fill_diagonal(truth, 1.0)
    latent = rng.multivariate_normal(np.zeros(12), truth, size=4000)
    steps = [np.sort(rng.normal(size=2 + j % 3)) for j in range(12)]  # three to five categories
    grades = np.stack([np.digitize(column, own) for column, own in zip(latent.T, steps, strict=True)], axis=1)
    table = pd.DataFrame(np.where(rng.random(grades.shape) < 0.3, np.nan, grades)).add_prefix("i")
    found = polychoric(table)
    np.testing.assert_allclose(found.correlations, truth, atol=0.09)  # of Pearson's, .07 to .15 too small
    some = CodedScores.of(table[:500])
    assert parallel_analysis(some, rng=rng, n_samples=10).n_abilities == 2
    dimensions = find_dimensions(some, ["a"] * 6 + ["b"] * 6, models="grm", max_factors=2, n_samples=3)
    assert dimensions.summary()["correlations"] == "polychoric"
    assert dimensions.rotated is not None
    assert dimensions.rotated.follows.all()
    assert dimensions.models is not None
    assert dimensions.models["delta_bic"].argmin() == 1


def test_independent_items_have_no_ability() -> None:
    data = as_responses(one_factor_a_label(2, 8, n=600, seed=4))
    counted = [
        parallel_analysis(
            shuffled(data, np.random.default_rng(k)), rng=np.random.default_rng(k + 100), n_samples=20
        ).n_abilities
        for k in range(12)
    ]
    assert counted.count(0) >= 9  # one in twenty has one by chance


def test_few_people_and_easy_items_have_no_second_ability() -> None:
    # by independent items alone three of these ten sets of one ability had two or three
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        items = ItemParameters.from_difficulty(rng.uniform(0.8, 2, 24), rng.normal(-2.5, 0.7, 24))
        values = simulate_responses(rng.normal(size=100), items, rng=rng).values
        kept = values[:, (values.mean(axis=0) < 1) & (values.mean(axis=0) > 0)]
        found.append(parallel_analysis(kept, rng=rng, n_samples=10).n_abilities)
    assert found.count(1) >= 9


def test_samples_of_fewer_abilities_keep_what_each_item_has_and_go_together_as_the_loadings_say() -> None:
    rng, loadings = np.random.default_rng(3), np.full((4, 1), 0.8)
    codes = rng.integers(-1, 3, (4000, 4))  # -1 is missing
    found = of_loadings(codes, loadings, rng)
    assert ((found == -1) == (codes == -1)).all()
    assert (np.sort(found, axis=0) == np.sort(codes, axis=0)).all()
    between = correlations_of_codes(found, tuple("abcd"), "polychoric").correlations
    np.testing.assert_allclose(between[np.triu_indices(4, 1)], 0.64, atol=0.05)
    np.testing.assert_allclose(np.abs(principal_axes(between, 1)), 0.8, atol=0.04)


def test_shuffling_keeps_what_each_item_has_and_where_it_is_missing() -> None:
    four = ItemParameters.from_difficulty(np.ones(4), np.linspace(-1, 1, 4))
    responses = simulate_responses(np.zeros(200), four, rng=np.random.default_rng(2), missing=0.3)
    mixed = shuffled(responses, np.random.default_rng(5))
    assert (mixed.observed == responses.observed).all()
    assert mixed.proportion_correct().tolist() == responses.proportion_correct().tolist()
    assert not np.array_equal(np.nan_to_num(mixed.values), np.nan_to_num(responses.values))


def test_an_item_on_the_wrong_factor_does_not_follow() -> None:
    labels = ["a"] * 5 + ["b"] * 5
    loadings = np.array([[label == name for name in "ab"] for label in labels]) * 0.7
    loadings[2] = [0.1, 0.6]
    rotated = rotate_to_labels(loadings, [f"i{j}" for j in range(10)], labels)
    assert rotated.table().loc[~rotated.follows, "item_id"].tolist() == ["i2"]


@pytest.mark.slow
@pytest.mark.parametrize("set_name", ["4gs", "5gs"])
def test_three_abilities_in_the_papers_data_and_they_are_the_labels(real_data: Path, set_name: str) -> None:
    """On all 90 items of each set the paper finds three factors, one a label."""
    items = pd.read_csv(real_data / "lalor2016_snli" / "items.csv").query("set == @set_name")
    responses = snli(real_data, set_name, list(items["item_id"]))
    analysis = parallel_analysis(responses, rng=np.random.default_rng(1), n_samples=2)
    assert analysis.n_abilities == 3
    # the first eigenvalues fall steeply and the fourth is small beside the third: the paper's scree
    assert analysis.eigenvalues[2] > 3 * analysis.eigenvalues[3]
    if set_name == "4gs":  # the fit of three, at half a minute, is that of one set
        return
    three = fit_factors(responses, 3, standard_errors=False)
    assert three.converged
    rotated = rotate_to_labels(three.loadings, responses.item_ids, list(items["gold"]))
    assert rotated.follows.mean() > 0.95
    by_label = rotated.by_label()
    means = by_label[[f"loading_{name}" for name in rotated.factors]].to_numpy()
    assert np.diagonal(means).min() > 0.45
    assert np.abs(means - np.diag(np.diagonal(means))).max() < 0.15


def test_wrong_input_is_named() -> None:
    rng = np.random.default_rng(0)
    is_refused("1 items; expected at least 2", tetrachoric, [[1.0], [0.0]])
    is_refused("item item2 has no right or no wrong response", tetrachoric, [[1.0, 1.0], [0.0, 1.0]])
    apart = np.array([[1, np.nan], [0, np.nan], [np.nan, 1], [np.nan, 0.0]])
    is_refused(r"nobody answered both item1 and item2 \(1 such pairs\)", tetrachoric, apart)
    few = one_factor_a_label(1, 4, n=50, seed=0)
    is_refused(
        "2 samples and a percentile between 50 and 100 but got 1 and", parallel_analysis, few, rng=rng, n_samples=1
    )
    is_refused("2 labels for 3 factors", rotate_to_labels, np.ones((4, 3)), list("wxyz"), ["a", "a", "b", "b"])
    saying = "2 labels and 4 items for 4 rows of loadings; expected one each"
    is_refused(saying, rotate_to_labels, np.ones((4, 2)), list("wxyz"), ["a", "b"])


@pytest.mark.parametrize("n_factors", [2, 3])
def test_the_rotation_is_that_of_statsmodels(n_factors: int) -> None:
    rng = np.random.default_rng(n_factors)
    labels = ["abc"[j % n_factors] for j in range(24)]
    pattern = np.array([[0.7 if "abc"[k] == label else 0.1 for k in range(n_factors)] for label in labels])
    turn = np.linalg.qr(rng.normal(size=(n_factors, n_factors)))[0]
    loadings = (pattern + rng.normal(0, 0.12, pattern.shape)) @ turn
    found = rotate_to_labels(loadings, [f"i{j}" for j in range(24)], labels)
    own = np.array([[label == name for name in found.factors] for label in labels])
    target = own * np.sqrt((loadings**2).sum(axis=1, keepdims=True))
    rigid, _ = rotate_factors(loadings, "target", target, "orthogonal", algorithm="analytic")
    oblique, axes = rotate_factors(rigid, "target", target, "oblique")
    np.testing.assert_allclose(found.loadings, oblique, atol=1e-4)
    np.testing.assert_allclose(found.correlations, axes.T @ axes, atol=1e-4)
