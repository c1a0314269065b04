"""Local dependence: R mirt's figures, tables by hand, level and power; pairs of items in categories."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.mirt_figures import lsat6, papers_scale
from builders.simulated import simulated, with_values
from irtbench import CategoryParameters, ItemParameters, ResponseMatrix, as_responses, fit_categories, local_dependence
from irtbench.diagnostics.local_dependence import with_bootstrap
from irtbench.diagnostics.quadratic_form import Residuals
from irtbench.models.quadrature import Quadrature, normal_grid

# The Rasch model of the reference has slope 1 and a free variance, which its table of parameters leaves out: this is
# the standard deviation at which these intercepts have its log-likelihood, -2466.93760.
RASCH_SD = 0.755136


def square(path: Path) -> np.ndarray:
    return pd.read_csv(path, index_col=0).to_numpy()


@pytest.mark.parametrize("model", ["2pl", "3plprior", "rasch"])
def test_lsat6_equals_mirt(real_data: Path, reference: Path, model: str) -> None:
    responses, items, theta = lsat6(real_data, reference, model)
    grid = normal_grid()
    scale = RASCH_SD if model == "rasch" else 1.0
    weights = np.exp(-0.5 * (grid.nodes / scale) ** 2)
    population = Quadrature(grid.nodes, np.log(weights / weights.sum()))
    pairs = local_dependence(responses, items, theta=theta, quadrature=population)
    upper = np.triu_indices(5, 1)
    mirt = square(reference / f"mirt_lsat6_{model}_LD_LD.csv")
    p = square(reference / f"mirt_lsat6_{model}_LD_df.p.csv")
    np.testing.assert_allclose(pairs.x2, mirt.T[upper], atol=1e-4)
    np.testing.assert_allclose(pairs.cramers_v, mirt[upper], atol=1e-5)
    np.testing.assert_allclose(pairs.p, p[upper], atol=1e-4)
    np.testing.assert_allclose(pairs.q3, square(reference / f"mirt_lsat6_{model}_Q3.csv")[upper], atol=1e-8)


@pytest.mark.parametrize("label", ["entailment", "neutral"])
def test_the_papers_scales_equal_mirt(real_data: Path, reference: Path, label: str) -> None:
    responses, items, theta = papers_scale(real_data, reference, label)
    pairs = local_dependence(responses, items, theta=theta)
    upper = np.triu_indices(30, 1)
    mirt = square(reference / f"mirt_5gs_{label}_2pl_LD_LD.csv")
    np.testing.assert_allclose(pairs.x2, mirt.T[upper], atol=1e-6)
    np.testing.assert_allclose(pairs.cramers_v, mirt[upper], atol=1e-6)
    np.testing.assert_allclose(pairs.q3, square(reference / f"mirt_5gs_{label}_2pl_Q3.csv")[upper], atol=1e-4)


def test_one_table_by_hand() -> None:
    # Items that do not depend on ability, P = 1/2: every cell expects 25 of 100. Observed 30, 20, 20, 30:
    # X2 = 4 * 5^2 / 25 = 4, G2 = 2 (60 log 1.2 + 40 log .8), V = sqrt(4 / 100), p = 2 (1 - Phi(2)) = .0455.
    # Residuals are +-1/2: Q3 = (60 - 40) / 100.
    items = ItemParameters.from_difficulty([0.0, 0.0], 0.0)
    values = np.array([[1, 1]] * 30 + [[1, 0]] * 20 + [[0, 1]] * 20 + [[0, 0]] * 30, dtype=float)
    pairs = local_dependence(values, items, theta=np.zeros(100))
    row = pairs.table().iloc[0]
    statistics = ["x2", "df", "p", "p_adjusted", "cramers_v", "g2", "q3"]
    assert list(row.index) == ["item_1", "item_2", *statistics, "n_respondents", "q3_centred"]
    assert row[["item_1", "item_2", "df", "n_respondents"]].tolist() == ["item1", "item2", 1, 100]
    assert row["x2"] == pytest.approx(4)
    assert row["g2"] == pytest.approx(2 * (60 * np.log(1.2) + 40 * np.log(0.8)))
    assert row["cramers_v"] == pytest.approx(0.2)
    assert row["p"] == pytest.approx(0.04550026)
    assert row["q3"] == pytest.approx(0.2)
    mirrored = np.abs(values - [0, 1])
    assert local_dependence(mirrored, items).cramers_v[0] == pytest.approx(-0.2)
    assert np.isnan(local_dependence(mirrored, items).q3).all()


def test_missing_responses_leave_each_pair_those_who_answered_both() -> None:
    responses, items, theta = simulated(400, 6, seed=9)
    values = responses.values.copy()
    values[np.random.default_rng(2).random(values.shape) < 0.4] = np.nan
    sparse = with_values(responses, values)
    pairs = local_dependence(sparse, items, theta=theta)
    for k in (0, 8, 14):
        both = [pairs.item_1[k], pairs.item_2[k]]
        columns = sparse.select_items(both)
        answered = columns.observed.all(axis=1)
        alone = local_dependence(columns.select_respondents(answered), items.select(both), theta=theta[answered])
        assert pairs.n_respondents[k] == answered.sum()
        for name in ("x2", "g2", "cramers_v", "q3"):
            assert getattr(pairs, name)[k] == pytest.approx(getattr(alone, name)[0])


def test_a_pair_nobody_answered_is_nan_with_a_warning() -> None:
    responses, items, theta = simulated(60, 3, seed=1)
    values = responses.values.copy()
    values[:30, 0], values[30:, 1] = np.nan, np.nan
    with pytest.warns(RuntimeWarning, match="nobody answered both items of 1 of 3 pairs"):
        pairs = local_dependence(values, items, theta=theta)
    assert np.isnan([pairs.x2[0], pairs.g2[0], pairs.p[0], pairs.p_adjusted[0], pairs.cramers_v[0], pairs.q3[0]]).all()
    assert not np.isnan([pairs.x2[1:], pairs.p_adjusted[1:], pairs.q3[1:]]).any()
    assert pairs.n_respondents[0] == 0
    with pytest.warns(RuntimeWarning, match="nobody answered both items of 3 of 3 pairs"):
        assert np.isnan(local_dependence(np.empty((0, 3)), items).x2).all()


def test_cells_the_model_leaves_empty() -> None:
    # Item 1 has P = e^-1000, which is 0 in floating point: nobody right is no news, somebody right is impossible.
    items = ItemParameters(("never", "even"), [1.0, 1.0], [-1000.0, 0.0], [0.0, 0.0], [False, False])
    even = np.arange(40) % 2
    nobody = local_dependence(pd.DataFrame({"never": 0, "even": even}), items)
    assert nobody.x2[0] == pytest.approx(0, abs=1e-9)
    assert nobody.g2[0] == pytest.approx(0, abs=1e-9)
    somebody = local_dependence(pd.DataFrame({"never": even, "even": even}), items)
    assert np.isinf([somebody.x2[0], somebody.g2[0]]).all()
    assert somebody.p[0] == 0


def test_two_categories_have_the_scores_of_right_and_wrong() -> None:
    rng, items = np.random.default_rng(1), ItemParameters.from_difficulty([0.8, 1.2, 1.7, 1.0], [-1, 0, 0.5, 1])
    values = (rng.random((200, 4)) < 0.6).astype(float)
    values[rng.random(values.shape) < 0.2] = np.nan
    responses = as_responses(values)
    both = (items, CategoryParameters.of_right_or_wrong(items).as_items())
    binary, graded = (Residuals.of_items(responses, each, normal_grid()) for each in both)
    np.testing.assert_allclose(graded.pairs(), binary.pairs(), atol=1e-9)
    np.testing.assert_allclose(graded.mass, binary.mass, atol=1e-12)


def test_every_category_is_in_every_sample_and_a_dependent_pair_is_found() -> None:
    rng = np.random.default_rng(2)
    theta, b = rng.normal(size=(250, 1, 1)), np.array([-1.0, 0.2, 1.2]) + rng.normal(0, 0.3, (7, 1))
    codes = (1.5 * (theta - b) + rng.logistic(size=(250, 7, 1)) > 0).sum(axis=2).astype(float)
    codes[:, 6] = np.where(rng.random(250) < 0.5, codes[:, 5], codes[:, 6])
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
    assert found.p_bootstrap_adjusted[-1] == 1 / 20
    assert (found.p_bootstrap_adjusted[:-1] > 0.05).sum() >= 18
    assert len(samples) == 19
    for sample in samples:
        assert np.array_equal(np.isnan(sample), np.isnan(codes))
        assert [np.unique(column[~np.isnan(column)]).size for column in sample.T] == [
            *map(len, fitted.items.categories)
        ]
