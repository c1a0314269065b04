"""A prior learnt from the items: intervals that hold, no path dependence, signs, and posteriors by quadrature."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.few_respondents.item_moments import ItemMoments, mixed, moments_of, quantiles_of
from irtbench.estimation.few_respondents.item_posteriors import ItemPosteriors, outweigh_the_odds, root_of_covariance
from irtbench.estimation.few_respondents.learnt_prior import (
    averaged_over_prior,
    learn,
    learn_guessing,
    log_density_of_deviation,
    with_deviation,
)
from irtbench.estimation.fit import fit_model
from irtbench.estimation.fixed_point import FixedPoint
from irtbench.estimation.item_quantiles import normal_points, turned, weighted_quantiles
from irtbench.estimation.settings import FitSettings
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.priors import GuessingPrior, Hierarchy
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.simulation import simulate_responses

HIERARCHICAL = FitSettings(prior="hierarchical")


def simulated(n: int, n_items: int, *, seed: int) -> tuple[ItemParameters, np.ndarray, ResponseMatrix]:
    rng = np.random.default_rng([7, seed])
    items = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, n_items), rng.normal(size=n_items))
    theta = rng.normal(size=n)
    return items, theta, simulate_responses(theta, items, rng=rng)


def test_slopes_of_sixty_items_and_forty_respondents_are_held() -> None:
    held, learnt = [], []
    for seed in range(3):
        items, theta, responses = simulated(40, 60, seed=seed)
        fitted = fit_model(responses, HIERARCHICAL)
        assert fitted.converged
        assert fitted.kind == "mean"
        assert "empirical Bayes" in fitted.estimator
        error = fitted.items.discrimination - items.discrimination * theta.std()
        held.append(np.abs(error) < 1.96 * fitted.items.standard_errors()["discrimination"])
        assert fitted.priors.hierarchy is not None
        learnt.append(fitted.priors.hierarchy.deviation[0])
        assert "give or take a factor of" in fitted.priors.describe()
    # 180 slopes: a standard error of .016 were they independent; information as if theta were seen held .74
    assert 0.89 < np.mean(held) < 0.99
    assert np.mean(learnt) == pytest.approx(0.3, abs=0.08)


def test_the_order_of_rows_and_columns_changes_nothing() -> None:
    _, _, responses = simulated(40, 60, seed=3)  # one item goes with the score neither up nor down
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(40), rng.permutation(60)
    shuffled = replace(
        responses,
        correct=responses.values[rows][:, columns],
        respondent_ids=tuple(responses.respondent_ids[i] for i in rows),
        item_ids=tuple(responses.item_ids[j] for j in columns),
    )
    one, other = fit_model(responses, HIERARCHICAL), fit_model(shuffled, HIERARCHICAL)
    assert other.log_likelihood == pytest.approx(one.log_likelihood, abs=1e-3)
    np.testing.assert_allclose(other.items.discrimination, one.items.discrimination[columns], atol=1e-3)
    assert (one.items.discrimination > 0).all()


def test_moments_are_those_of_draws() -> None:
    mode = ItemTensors.from_matrix(torch.tensor([[1.4, -0.5, 0.2], [-0.8, 0.3, 0.0]], dtype=torch.float64))
    root = torch.tensor([[0.4, 0.0, 0.0], [-0.2, 0.5, 0.0], [0.1, 0.2, 0.3]], dtype=torch.float64)
    covariance = torch.stack([root @ root.T, torch.nn.functional.pad((root @ root.T)[:2, :2], (0, 1, 0, 1))])
    found = moments_of(mode, covariance, torch.tensor([True, False]))
    draws = torch.randn(400_000, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) @ root.T
    a, c = 1.4 * (draws[:, 0] / 1.4).exp(), torch.sigmoid(np.log(0.25) + draws[:, 2])
    values = torch.stack([a, -0.5 + draws[:, 1], c])
    np.testing.assert_allclose(found.mean[0], values.mean(dim=1), atol=4e-3)
    np.testing.assert_allclose(found.covariance[0], torch.cov(values), atol=4e-3)
    assert float(found.mean[1, 0]) < -0.8  # a log-normal mean lies further out than the mode
    assert bool((found.covariance[1, 2] == 0).all())


def test_quantiles_are_those_of_draws() -> None:
    root = torch.tensor([[0.4, 0.0, 0.0], [-0.2, 0.5, 0.0], [0.0, 0.0, 0.6]], dtype=torch.float64)
    logs = ItemMoments(torch.tensor([[0.3, -0.5, -1.2]] * 2, dtype=torch.float64), (root @ root.T).repeat(2, 1, 1))
    items = ItemTensors.from_matrix(torch.tensor([[1.4, -0.5, 0.2], [-1.4, 0.3, 0.1]], dtype=torch.float64))
    found = quantiles_of(logs, items, torch.tensor([True, False]))
    draws = torch.randn(400_000, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) @ root.T
    draws = draws + logs.mean[0]
    for j, sign in enumerate((1.0, -1.0)):
        slope = sign * draws[:, 0].exp()
        for k, values in enumerate((slope, -draws[:, 1] / slope, torch.sigmoid(draws[:, 2]))):
            if (j, k) != (1, 2):
                expected = np.quantile(values, (0.025, 0.5, 0.975))
                np.testing.assert_allclose(found[:, j, k], expected, atol=0.03 * float(values.std()))
    np.testing.assert_array_equal(found[:, 1, 2], 0.1)  # c is fixed
    np.testing.assert_allclose(found[:, 0, 0], np.exp(0.3 + 0.4 * np.array([-1.95996, 0, 1.95996])), rtol=1e-3)
    np.testing.assert_allclose(turned(turned(found)), found)
    np.testing.assert_allclose(turned(found)[0, :, :2], -found[2, :, :2])


def test_quantiles_of_uneven_points() -> None:
    # a standard normal density by points of one twice as wide, or moved by 1, weighted
    for centre, width in ((0.0, 2.0), (1.0, 1.2)):
        values = centre + width * normal_points(1, 512, torch.zeros(1, dtype=torch.float64)).T
        mass = torch.softmax(0.5 * ((values - centre) / width) ** 2 - 0.5 * values**2, dim=1)
        np.testing.assert_allclose(weighted_quantiles(values, mass)[:, 0], [-1.96, 0.0, 1.96], atol=0.03)
    three = weighted_quantiles(torch.tensor([[2.0, 1.0, 3.0]]), torch.tensor([[0.2, 0.4, 0.4]]))
    # half of each point's mass lies below it: .2, .5 and .8
    assert three[:, 0].tolist() == pytest.approx([1.0, 2.0, 3.0])


def test_the_mean_of_guessing_is_where_its_likelihood_is_highest() -> None:
    # 200 items whose c is known: the density of c and that of its mean, by brute force
    c = np.random.default_rng(3).beta(4, 16, 200)
    known = replace(posteriors(0.0, left=0.5), log_guessing=torch.tensor([np.log(c).mean(), np.log1p(-c).mean()]))
    start = GuessingPrior("beta", 5.0, 15.0)
    found = learn_guessing(known, 200, start, start)
    alpha, beta = found.first, found.second
    assert alpha + beta == pytest.approx(20)
    means = np.linspace(0.1, 0.4, 3001)
    log_density = stats.beta.logpdf(c[:, None], 20 * means, 20 * (1 - means)).sum(axis=0)
    log_density += 5 * np.log(means) + 15 * np.log1p(-means)
    assert alpha / 20 == pytest.approx(means[log_density.argmax()], abs=1e-4)
    assert alpha / 20 == pytest.approx(0.2, abs=0.02)
    # without items it is where it started
    assert learn_guessing(known, 0, GuessingPrior("beta", 4.0, 16.0), start).first == pytest.approx(5.0)


def test_a_mixture_adds_what_its_means_differ_by() -> None:
    parts = [ItemMoments(torch.full((1, 3), mean), torch.eye(3)[None]) for mean in (0.0, 2.0)]
    found = mixed(parts, torch.tensor([0.5, 0.5]))
    assert bool((found.mean == 1).all())
    np.testing.assert_allclose(found.covariance[0], np.eye(3) + 1)


def posteriors(log_evidence: float, left: float, at: float = 0.0) -> ItemPosteriors:
    """Ten items of which the posterior keeps this share of a prior variance of .09."""
    covariance = torch.eye(2, dtype=torch.float64).repeat(10, 1, 1) * 0.09 * left
    mean = torch.linspace(-0.3, 0.3, 10, dtype=torch.float64)[:, None].repeat(1, 2)
    moments = ItemMoments(torch.full((10, 3), at, dtype=torch.float64), torch.zeros(10, 3, 3, dtype=torch.float64))
    return ItemPosteriors(log_evidence, ItemMoments(mean, covariance), moments, torch.zeros(2, dtype=torch.float64))


def test_the_standard_deviation_of_slopes_has_an_inverse_chi_square_density() -> None:
    s = np.array([0.1, 0.3, 0.5, 1.0])
    # of s^2: 2 * .5^2 / chi-square of 2; on the scale of log s with 2 s^2 as Jacobian
    expected = stats.chi2.logpdf(0.5 / s**2, 2) + np.log(0.5 / s**4) + np.log(2 * s**2)
    ours = np.array([log_density_of_deviation(value) for value in np.log(s)])
    np.testing.assert_allclose(ours - ours[0], expected - expected[0], atol=1e-12)


def test_its_mode_given_the_items_is_what_is_learnt() -> None:
    known = posteriors(0.0, left=0.4)
    values = known.logs.mean[:, 0].numpy()
    total = ((values - values.mean()) ** 2).sum() + 10 * 0.4 * 0.09
    log_s = np.linspace(-2.5, 0.5, 300_001)
    of_items = -9 * log_s - total / 2 * np.exp(-2 * log_s)
    best = log_s[(of_items - 2 * (log_s + 0.125 * np.exp(-2 * log_s))).argmax()]
    assert np.log(learn(known).deviation[0]) == pytest.approx(best, abs=2e-5)


def test_the_average_is_over_the_posterior_of_the_scale() -> None:
    centre, width = np.log(0.3), 0.2

    def under(prior: Hierarchy) -> ItemPosteriors:
        # with the density of the scale itself u is normal with standard deviation .2 around log .3
        u = float(np.log(prior.deviation[0]))
        return posteriors(-0.5 * ((u - centre) / width) ** 2 - log_density_of_deviation(u), left=0.0, at=u)

    prior, averaged = averaged_over_prior(under, Hierarchy((0.0, 0.0), (0.3, 1.0)))
    assert prior.uncertainty == pytest.approx(width, rel=0.02)
    np.testing.assert_allclose(averaged.moments.mean, centre, atol=1e-6)
    np.testing.assert_allclose(averaged.moments.covariance[:, 0, 0], width**2, rtol=0.04)


def test_an_update_of_the_prior_by_hand() -> None:
    learnt = learn(posteriors(0.0, left=0.5))
    spread = float((torch.linspace(-0.3, 0.3, 10) ** 2).sum())
    assert learnt.deviation[0] == pytest.approx(np.sqrt((spread + 10 * 0.045 + 2 * 0.25) / 11), rel=1e-6)
    assert learnt.deviation[1] == pytest.approx(np.sqrt((spread + 10 * 0.045) / 8), rel=1e-6)
    assert learnt.correlation == pytest.approx(spread / (spread + 0.45), rel=1e-6)


def test_another_scale_of_log_a_keeps_the_regression_of_the_intercept() -> None:
    prior = Hierarchy((0.0, 0.0), (0.3, 1.2), 0.4)
    other = with_deviation(prior, 0.6)
    (xx, xy), (_, yy) = prior.covariance
    (uu, uv), (_, vv) = other.covariance
    assert uv / uu == pytest.approx(xy / xx)
    assert vv - uv**2 / uu == pytest.approx(yy - xy**2 / xx)


def test_reversed_items_must_outweigh_the_odds() -> None:
    # of 100 items 4 are reversed: log odds 3.2; without the last two 3.9, which the second does not outweigh
    against = torch.tensor([-9.0, -3.5, -1.0, 2.0])
    assert outweigh_the_odds(against, 100).tolist() == [True, False, False, False]


def test_a_linear_update_is_solved_in_few_steps() -> None:
    matrix = torch.diag(torch.tensor([0.97, 0.9, 0.2], dtype=torch.float64))
    goal = torch.tensor([0.5, -0.3, 0.2], dtype=torch.float64)
    path, at = FixedPoint(), torch.zeros(3, dtype=torch.float64)
    for _ in range(9):
        at = path.after(at, goal + matrix @ (at - goal))
    np.testing.assert_allclose(at, goal, atol=1e-6)  # nine plain updates are still .38 away


def test_accelerated_updates_repeat_to_the_bit_wherever_memory_lies() -> None:
    rng = np.random.default_rng(1)
    matrix = torch.from_numpy(0.3 * rng.normal(size=(5, 5)))
    ends, kept = set(), []
    for size in rng.integers(1, 5000, 40).tolist():
        kept.append(torch.empty(size))  # moves what is allocated after it
        path, at = FixedPoint(), torch.ones(5, dtype=torch.float64)
        for _ in range(8):
            at = path.after(at, matrix @ at)
        ends.add(tuple(at.tolist()))
    assert len(ends) == 1


def test_an_item_that_all_got_right_is_the_easiest_and_the_least_known() -> None:
    # all of twenty respondents right: the likelihood of d has no maximum, its posterior has a mean
    _, _, responses = simulated(20, 15, seed=5)
    values = responses.values.copy()
    values[:, 0] = 1.0
    fitted = fit_model(replace(responses, correct=values), HIERARCHICAL)
    assert fitted.converged
    errors = fitted.items.standard_errors()["intercept"]
    assert errors[0] > 1.3 * np.median(errors)
    assert fitted.items.intercept[0] == fitted.items.intercept.max()


def test_a_fit_under_a_learnt_prior_gives_quantiles() -> None:
    _, _, responses = simulated(40, 30, seed=1)
    fitted = fit_model(responses, HIERARCHICAL)
    columns = fitted.quantile_columns()
    low, middle, high = (columns[f"discrimination_{level}"] for level in ("lower", "median", "upper"))
    assert (low > 0).all()
    assert (high - middle > 1.1 * (middle - low)).all()  # a slope's posterior is skewed
    assert (columns["difficulty_lower"] < fitted.items.difficulty).all()
    assert (columns["difficulty_upper"] > fitted.items.difficulty).all()
    assert np.isnan(columns["guessing_median"]).all()
    assert fit_model(responses, FitSettings(prior="hierarchical", standard_errors=False)).quantiles is None
    assert fit_model(responses, FitSettings(prior="none")).quantile_columns() == {}


def test_the_mean_of_guessing_is_learnt_with_the_rest() -> None:
    rng = np.random.default_rng(8)
    truth = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 40), rng.normal(size=40), rng.beta(2, 18, 40))
    responses = simulate_responses(rng.normal(size=150), truth, rng=rng)
    fitted = fit_model(responses, FitSettings(kind="3pl", prior="hierarchical"))
    assert fitted.converged
    assert fitted.priors.guessing is not None
    assert fitted.priors.guessing.first + fitted.priors.guessing.second == pytest.approx(20)
    assert 0.05 < fitted.priors.guessing.first / 20 < 0.18  # .10 in truth, .25 before anything was learnt
    columns = fitted.quantile_columns()
    covered = (columns["guessing_lower"] < truth.guessing) & (truth.guessing < columns["guessing_upper"])
    assert covered.mean() > 0.8


def test_where_the_information_is_no_information_nodes_lie_as_wide_as_the_prior() -> None:
    linear = torch.tensor([[True, True, False]]).expand(3, 3)
    problem = SimpleNamespace(free=linear, estimated_pairs=linear[:, :, None] & linear[:, None, :])
    good = torch.diag(torch.tensor([0.04, 0.25, 0.0], dtype=torch.float64))
    bad = torch.tensor([[-0.2, -0.3, 0], [-0.3, -0.2, 0], [0, 0, 0]], dtype=torch.float64)
    prior = Hierarchy(deviation=(0.5, 2.0), correlation=0.4)
    covariances = torch.stack([good, bad, good])
    root = root_of_covariance(covariances, problem, prior)  # type: ignore[arg-type]
    product = (root @ root.mT).numpy()
    np.testing.assert_allclose(product[[0, 2]], covariances[[0, 2]], atol=1e-11)
    np.testing.assert_allclose(product[1, :2, :2], prior.covariance, atol=1e-11)
    assert np.isfinite(product).all()
