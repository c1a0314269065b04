"""The variational posterior of items: against integrals on a grid, the Laplace approximation, and its own promises.

scripts/posterior_against_nuts.py compares it with NUTS; docs/uncertainty.md has the figures.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from numpy.typing import NDArray
from pyro import poutine
from scipy import special, stats

from builders.few_draws import few_draws
from builders.problem import make_problem
from builders.refusals import is_refused
from irtbench import ItemParameters, ResponseMatrix, SparseResponses, as_responses, simulate_responses
from irtbench.estimation.fit import problem_of
from irtbench.estimation.marginal.fisher_scoring import find_mode
from irtbench.estimation.marginal.observed_information import observed_information
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.settings import FitSettings, PosteriorKind
from irtbench.estimation.variational import item_guide
from irtbench.estimation.variational.importance_weights import Target
from irtbench.estimation.variational.item_guide import ItemGuide, item_coordinates
from irtbench.estimation.variational.item_posterior import drop_at_endless_slopes, fit_posterior
from irtbench.models.priors import Hierarchy, Priors
from irtbench.models.pyro_model.rows import DenseRows, encode_responses
from irtbench.models.pyro_model.tensors import ItemTensors
from irtbench.models.quadrature import normal_grid

PAIR_PRIORS = Priors("weak", slope=(1.0, 0.6), intercept=(0.0, 2.0))
LEVELS = (0.025, 0.5, 0.975)
MEANS_WITHIN, WIDTHS_WITHIN = 0.05, 0.10  # of a standard deviation: what is promised


def simulated(n_respondents: int, slopes: list[float], difficulties: list[float], *, seed: int) -> ResponseMatrix:
    rng = np.random.default_rng(seed)
    truth = ItemParameters.from_difficulty(slopes, difficulties)
    return simulate_responses(rng.normal(size=n_respondents), truth, rng=rng)


def agrees(
    mean: NDArray[np.float64],
    deviation: NDArray[np.float64],
    exact_mean: NDArray[np.float64],
    exact_deviation: NDArray[np.float64],
) -> bool:
    near = np.abs(mean - exact_mean) < MEANS_WITHIN * exact_deviation
    return bool(near.all() and (np.abs(deviation / exact_deviation - 1) < WIDTHS_WITHIN).all())


@pytest.fixture(autouse=True, scope="module")
def enough_for_means() -> Iterator[None]:
    """To .02 of a standard deviation."""
    with few_draws(4_000):
        yield


@pytest.fixture
def very_few_draws() -> Iterator[None]:
    """Where the moments' precision is not the question."""
    with few_draws(2_000):
        yield


@pytest.fixture(scope="module")
def pair() -> tuple[Problem, ItemTensors]:
    """Two items of 150 respondents: four parameters, a posterior that is far from normal."""
    responses = simulated(150, [1.5, 1.2], [1.0, -0.5], seed=3)
    problem = make_problem(responses, PAIR_PRIORS)
    return problem, find_mode(problem).items


@pytest.fixture(scope="module")
def integrated(pair: tuple[Problem, ItemTensors]) -> SimpleNamespace:
    """Sums over a grid, slopes at the middle of cells, so that b = -d / a has no zero to be divided by.

    P(x1, x2) = sum_q w_q P1(theta_q)^x1 ... at all pairs of grid points is one matrix product for each pattern.
    """
    slopes, intercepts = np.linspace(-1.55, 4.15, 58), np.linspace(-4.5, 4.5, 61)
    a, d = (x.ravel() for x in np.meshgrid(slopes, intercepts, indexing="ij"))
    prior = np.log(stats.norm.pdf(a, 1.0, 0.6) * stats.norm.pdf(d, 0.0, 2.0))  # PAIR_PRIORS
    log_density = prior[:, None] + prior[None, :] + log_likelihood_of_pairs(pair[0], a, d)
    top = log_density.max()
    density = np.exp(log_density - top)
    cell = ((slopes[1] - slopes[0]) * (intercepts[1] - intercepts[0])) ** 2
    evidence = top + np.log(density.sum() * cell)
    density /= density.sum()
    marginals = density.sum(axis=1), density.sum(axis=0)
    edge = max(w.reshape(58, 61)[[0, -1]].sum() + w.reshape(58, 61)[:, [0, -1]].sum() for w in marginals)
    assert edge < 1e-4  # the grid holds all of it
    mean = np.array([[mass @ a, mass @ d] for mass in marginals])
    deviation = np.sqrt(np.array([[mass @ a**2, mass @ d**2] for mass in marginals]) - mean**2)
    return SimpleNamespace(a=a, d=d, masses=marginals, evidence=evidence, mean=mean, deviation=deviation)


def log_likelihood_of_pairs(
    problem: Problem, a: NDArray[np.float64] | np.float64, d: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Of two items with the parameters of all pairs of points."""
    assert isinstance(problem.rows, DenseRows)
    grid, rows = normal_grid(), problem.rows.values.numpy()
    p = 1 / (1 + np.exp(-(np.broadcast_to(a, d.shape)[:, None] * grid.nodes + d[:, None])))
    total = np.zeros((len(d), len(d)))
    for first, second in ((1, 1), (1, 0), (0, 1), (0, 0)):
        count = int(((rows[:, 0] == first) & (rows[:, 1] == second)).sum())
        left, right = (p if first else 1 - p), (p if second else 1 - p)
        total += count * np.log((left * grid.weights) @ right.T)
    return total


def quantiles_of(
    values: NDArray[np.float64], mass: NDArray[np.float64], levels: Sequence[float]
) -> NDArray[np.float64]:
    order = values.ravel().argsort()
    return values.ravel()[order][mass.ravel()[order].cumsum().searchsorted(levels)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "lowrank"])
def test_two_items_agree_with_integration_over_a_grid(
    pair: tuple[Problem, ItemTensors], integrated: SimpleNamespace, kind: PosteriorKind
) -> None:
    exact, a, d = integrated, integrated.a, integrated.d
    found = fit_posterior(*pair, kind, seed=0, n_particles=2)
    assert found.converged
    assert agrees(found.mean[:, :2], found.standard_deviations[:, :2], exact.mean, exact.deviation)
    covariance = exact.masses[0] @ (a * d) - exact.mean[0].prod()
    assert found.covariance[0, 0, 1] == pytest.approx(covariance, abs=0.1 * exact.deviation[0].prod())
    # a lower bound of the log evidence, by as much as the divergence says
    assert found.elbo < exact.evidence + 4 * found.elbo_error
    assert exact.evidence - found.elbo == pytest.approx(found.divergence, abs=0.1)
    far_by_normal = 0.0
    for j, mass in enumerate(exact.masses):
        of_a = quantiles_of(a, mass, LEVELS)
        assert (np.abs(found.quantiles[:, j, 0] - of_a) < 0.15 * exact.deviation[j, 0]).all()
        by_normal = exact.mean[j, 0] + np.array([-1.96, 1.96]) * exact.deviation[j, 0]
        far_by_normal = max(far_by_normal, np.abs(by_normal - of_a[[0, 2]]).max() / exact.deviation[j, 0])
        low, median, high = quantiles_of(-d / a, mass, [0.15866, 0.5, 0.84134])
        assert found.difficulty[j] == pytest.approx(median, abs=0.15 * (high - low))
        assert found.difficulty_deviation[j] == pytest.approx((high - low) / 2, rel=0.15)
    assert far_by_normal > 0.2
    np.testing.assert_array_equal(found.quantiles[:, :, 2], 0.0)


@pytest.mark.slow
def test_the_laplace_approximation_would_not_pass(
    pair: tuple[Problem, ItemTensors], integrated: SimpleNamespace
) -> None:
    problem, mode = pair
    errors = torch.linalg.inv(observed_information(problem, mode)).diagonal().sqrt().reshape(2, 2).numpy()
    assert not agrees(mode.linear.numpy(), errors, integrated.mean, integrated.deviation)


@pytest.fixture(scope="module")
def five() -> ResponseMatrix:
    return simulated(300, [1.2, 0.9, 1.5, 1.0, -0.8], [0.5, -0.5, 0.2, 1.0, 0.1], seed=2)


@pytest.mark.slow
@pytest.mark.usefixtures("very_few_draws")
def test_a_seed_gives_the_same_result_bit_for_bit_and_touches_nothing(pair: tuple[Problem, ItemTensors]) -> None:
    problem, mode = pair
    first = fit_posterior(problem, mode, "normal", seed=1)
    torch.manual_seed(6)
    pyro.get_param_store().clear()
    before = torch.get_rng_state()
    with torch.no_grad():  # as a caller may have it
        second = fit_posterior(problem, mode, "normal", seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert not list(pyro.get_param_store().keys())
    np.testing.assert_array_equal(second.mean, first.mean)
    np.testing.assert_array_equal(second.covariance, first.covariance)
    assert (second.elbo, second.steps) == (first.elbo, first.steps)
    other = fit_posterior(problem, mode, "normal", seed=2)
    assert not np.array_equal(other.mean, first.mean)


@pytest.mark.slow
@pytest.mark.usefixtures("very_few_draws")
def test_blocks_of_items_whiten_nearly_as_well_as_all_together(
    five: ResponseMatrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = make_problem(five, Priors.named("weak"))
    mode = find_mode(problem).items
    whole = fit_posterior(problem, mode, "normal", seed=1)
    monkeypatch.setattr(item_guide, "MOST_COUPLED_ITEMS", 2)
    assert item_coordinates(problem, mode).roots.shape == (5, 3, 3)
    blocks = fit_posterior(problem, mode, "lowrank", seed=1, n_particles=2)
    deviation = whole.standard_deviations[:, :2]
    assert (np.abs(blocks.mean - whole.mean)[:, :2] < MEANS_WITHIN * deviation).all()
    np.testing.assert_allclose(blocks.standard_deviations[:, :2], deviation, rtol=0.15)


@pytest.mark.slow
@pytest.mark.usefixtures("very_few_draws")
def test_no_convergence_is_reported(five: ResponseMatrix) -> None:
    problem = make_problem(five, Priors.named("weak"))
    mode = find_mode(problem).items
    found = fit_posterior(problem, mode, "normal", seed=0, tolerance=1e-6, max_steps=200)
    assert not found.converged
    assert found.stopped_because.startswith("no convergence in 200 steps: means and standard deviations moved by up to")
    assert found.steps == 200


normal = partial(fit_posterior, kind="normal", seed=0)


def test_problems_without_a_posterior_are_refused(five: ResponseMatrix) -> None:
    flat = Priors.named("none")
    problem = make_problem(five, flat, free=True)
    is_refused("guessing without a prior has an improper posterior", normal, problem, problem.starting_values())

    few = simulated(30, [1.5, 1.2, 2.0], [1.5, -0.5, 0.2], seed=4)
    problem = make_problem(few, flat)
    mode = find_mode(problem).items
    worst = int(drop_at_endless_slopes(problem, mode).argmin())
    names = ["i1", "i2", "i3"]
    is_refused(f"item {names[worst]}: without a prior of its slope", normal, problem, mode, item_ids=names)
    is_refused(f"item {worst + 1} of 3: without", normal, problem, mode)

    wide = make_problem(five.select_respondents(five.respondent_ids[:5]), flat)
    is_refused("5 items and 5 respondents", normal, wide, wide.starting_values())


def test_problems_the_guide_is_not_made_for_are_refused(five: ResponseMatrix) -> None:
    problem = make_problem(five, Priors.named("weak"))
    start = problem.starting_values()
    start.slope[:, 0] = torch.tensor([-9.0, 9.0, -9.0, 9.0, -9.0])
    is_refused("not positive definite", normal, problem, start)
    sparse = encode_responses(SparseResponses.from_long(five.to_long()), torch.device("cpu"))
    is_refused("needs a response matrix", normal, replace(problem, rows=sparse), start)
    theta = torch.cat([problem.nodes.theta, problem.nodes.theta], dim=1)
    two = replace(problem, nodes=replace(problem.nodes, theta=theta))
    flat = ItemTensors.from_matrix(torch.zeros(5, 4, dtype=torch.float64))
    is_refused("2 abilities; expected one", normal, two, flat)


@pytest.mark.parametrize("prior", ["none", "weak", "hierarchical", "guessing"])
def test_the_density_that_draws_are_weighted_by_is_the_pyro_models(five: ResponseMatrix, prior: str) -> None:
    priors = {
        "none": Priors.named("none"),
        "weak": Priors.named("weak", guessing_estimated=False),
        "hierarchical": Priors("hierarchical", hierarchy=Hierarchy((0.1, -0.3), (0.4, 1.1), 0.2)),
        "guessing": Priors.named("weak"),
    }[prior]
    problem = make_problem(five, priors, free=[prior == "guessing"] * 5)
    guide = ItemGuide(problem, find_mode(problem, tolerance=1e-3).items, 0, 0)
    arguments = problem.rows, problem.nodes
    with pyro.get_param_store().scope():
        guide(*arguments)  # learns what the model draws
    for seed in range(3):
        u = 0.3 * torch.randn(len(guide.coordinates.cells), generator=torch.Generator().manual_seed(seed)).double()
        phi = guide.coordinates(u)
        values = {site["name"]: value for site, value in guide._unpack_latent(phi)}
        trace = poutine.trace(poutine.condition(problem.model, data=values)).get_trace(*arguments)
        expected = float(trace.log_prob_sum() + guide.coordinates.log_abs_det_jacobian(u, phi))
        assert float(Target(guide, problem).log_density(u)) == pytest.approx(expected, abs=1e-6)


def settled(kind: str, n_items: int, **words) -> tuple[Problem, ItemTensors]:
    truth = ItemParameters.from_difficulty(np.full(n_items, 1.4), np.linspace(0.6, -0.4, n_items), 0.0)
    rng = np.random.default_rng(8)
    responses = simulate_responses(rng.normal(size=200), truth, rng=rng)
    problem = problem_of(responses, FitSettings(kind=kind, prior="weak", **words), normal_grid())
    return problem, find_mode(problem).items


@pytest.mark.parametrize("kind", ["rasch", "1pl", "2pl", "3pl", "4pl"])
def test_the_volume_of_the_coordinates_is_the_jacobians_determinant(kind: str) -> None:
    by_item = {"item2": 0.2, "item3": "3pl"} if kind == "4pl" else {}
    problem, mode = settled(kind, 4, by_item=by_item)
    coordinates = item_coordinates(problem, mode)
    u = torch.linspace(-0.5, 0.7, len(coordinates.cells), dtype=torch.float64)
    phi = coordinates(u)
    jacobian = torch.autograd.functional.jacobian(coordinates._call, u)
    expected = torch.linalg.slogdet(jacobian).logabsdet
    torch.testing.assert_close(coordinates.log_abs_det_jacobian(u, phi), expected)
    there = problem.of_unbounded(coordinates.natural(coordinates(torch.zeros_like(u))))
    torch.testing.assert_close(there.matrix, mode.matrix)
    # in the order in which the model draws them
    drawn = torch.cat([value.reshape(-1) for value in problem.prior.values_of(mode).values()])
    torch.testing.assert_close(coordinates(torch.zeros_like(u)), drawn)
    # whitened: the information in u is the identity
    target = Target(ItemGuide(problem, mode, 0, 0), problem)
    second = torch.autograd.functional.hessian(target.log_density, torch.zeros_like(u))
    gradient_left = torch.autograd.functional.hessian(
        lambda x: coordinates.log_abs_det_jacobian(x, coordinates(x)), torch.zeros_like(u)
    )
    np.testing.assert_allclose(gradient_left - second, np.eye(len(u)), atol=2e-4)


@pytest.mark.slow
def test_rasch_items_agree_with_integration_over_a_grid() -> None:
    problem, mode = settled("rasch", 2)
    found = fit_posterior(problem, mode, "normal", seed=0)
    sd, d = np.linspace(-1.0, 5.0, 121), np.linspace(-2.5, 2.5, 101)
    log_density = np.stack([log_likelihood_of_pairs(problem, s, d) + np.log(stats.norm.pdf(s, 1.0, 1.5)) for s in sd])
    log_density += np.log(stats.norm.pdf(d, 0.0, 4.0))[:, None] + np.log(stats.norm.pdf(d, 0.0, 4.0))
    log_density[sd < 0] = -np.inf  # its mirror image
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    by_axis = [(weight.sum(axis=others), at) for others, at in (((1, 2), sd), ((0, 2), d), ((0, 1), d))]
    mean = np.array([w @ at for w, at in by_axis])
    deviation = np.sqrt([w @ (at - m) ** 2 for (w, at), m in zip(by_axis, mean, strict=True)])
    assert max(w[[0, -1]].max() for w, _ in by_axis) < 1e-3
    assert found.converged
    own = np.array([found.population.sd, *found.mean[:, 1]])
    widths = np.array([found.population.se_sd, *found.standard_deviations[:, 1]])
    assert agrees(own, widths, mean, deviation)
    np.testing.assert_array_equal(found.mean[:, 0], 1.0)
    assert not found.covariance[:, 0].any()
    median = [-at[np.searchsorted(w.cumsum(), 0.5)] for w, at in by_axis[1:]]
    np.testing.assert_allclose(found.difficulty, median, atol=0.06)


#: Settings of one item, and densities of a, d, and of the logits of c and u by c and u themselves, with their grid.
ONE_ITEM: dict[str, tuple[dict[str, Any], tuple[NDArray[np.float64], ...], dict[str, tuple[float, ...]]]] = {
    "3pl": (
        {"kind": "3pl"},  # of which guessing tells all
        (np.linspace(-5.9, 7.9, 70), np.linspace(-18, 18, 181), special.expit(np.linspace(-5, 2, 57)), np.ones(1)),
        {"a": (1.0, 1.5), "d": (0.0, 4.0), "c": (5, 15), "u": (0, 0)},
    ),
    "4pl": (
        {
            "kind": "4pl", "prior": "weak", "prior_slope": "normal:1.2,0.25", "prior_intercept": "normal:0,1.5",
            "prior_guessing": "beta:5,15", "prior_upper": "beta:19,1",
        },
        (
            np.linspace(0.2, 2.2, 21), np.linspace(-4, 6, 81), (np.arange(40) + 0.5) / 60,
            1 - (np.arange(60) + 0.5) / 150,
        ),
        {"a": (1.2, 0.25), "d": (0.0, 1.5), "c": (4, 14), "u": (18, 0)},
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", ONE_ITEM)
def test_an_item_with_asymptotes_agrees_with_integration_over_a_grid(kind: str) -> None:
    settings, axes, densities = ONE_ITEM[kind]
    n_correct = 60 if kind == "3pl" else 142
    problem = problem_of(
        as_responses((np.arange(200)[:, None] < n_correct) * 1.0), FitSettings(**settings), normal_grid()
    )
    found = fit_posterior(problem, find_mode(problem).items, "normal", seed=0)
    a, d, c, u = np.meshgrid(*axes, indexing="ij", sparse=True)
    grid = normal_grid()
    marginal = sum(w / (1 + np.exp(-(a * node + d))) for node, w in zip(grid.nodes, grid.weights, strict=True))
    p = c + np.maximum(u - c, 0.0) * marginal
    log_density = n_correct * np.log(p) + (200 - n_correct) * np.log1p(-p)
    log_density = log_density + densities["c"][0] * np.log(c) + densities["c"][1] * np.log1p(-c)
    log_density = log_density + densities["u"][0] * np.log(u)
    weight = np.exp(log_density - log_density.max())
    weight = weight * stats.norm.pdf(a, *densities["a"]) * stats.norm.pdf(d, *densities["d"]) * (u > c)
    weight /= weight.sum()
    parts = (a, d, c, u)[: found.mean.shape[1]]
    mean = np.array([(weight * x).sum() for x in parts])
    deviation = np.sqrt([(weight * (x - m) ** 2).sum() for x, m in zip(parts, mean, strict=True)])
    assert found.converged
    assert not found.doubtful_items
    assert agrees(found.mean[0], found.standard_deviations[0], mean, deviation)
    if kind == "4pl":
        covariance = (weight * (d - mean[1]) * (u - mean[3])).sum()
        assert found.covariance[0, 1, 3] == pytest.approx(covariance, abs=0.1 * deviation[1] * deviation[3])
    for place in (0, 2):  # mean +- 1.96 sd is no substitute for quantiles of c
        of_item = quantiles_of(np.broadcast_to(parts[place], weight.shape), weight, LEVELS)
        assert (np.abs(found.quantiles[:, 0, place] - of_item) < 0.2 * deviation[place]).all()


def test_one_flat_slope_of_few_respondents_is_refused() -> None:
    rows = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]] * 3 + [[0, 1, 0]], dtype=np.float64)
    problem = problem_of(as_responses(rows), FitSettings(kind="1pl"), normal_grid())
    is_refused("all items: without a prior of its slope", normal, problem, find_mode(problem).items)


def test_the_logarithm_of_the_normal_distribution_function_and_its_slope() -> None:
    x = torch.linspace(-35, 8, 87, dtype=torch.float64, requires_grad=True)
    by_torch = torch.special.log_ndtr(x)
    torch.testing.assert_close(item_guide.log_normal_cdf(x), by_torch, rtol=1e-13, atol=1e-16)
    slopes = [torch.autograd.grad(found.sum(), x)[0] for found in (item_guide.log_normal_cdf(x), by_torch)]
    torch.testing.assert_close(*slopes, rtol=1e-10, atol=1e-16)
