"""Abilities and items integrated out together: exact where it must be, and fits to few respondents."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from builders.problem import make_problem
from irtbench import FitSettings, ItemParameters, ResponseMatrix, fit_model, simulate_responses
from irtbench.estimation.few_respondents import item_posteriors, messages
from irtbench.estimation.few_respondents.empirical_bayes import joint_abilities
from irtbench.estimation.few_respondents.item_grid import ItemGrid
from irtbench.estimation.few_respondents.item_posteriors import Surroundings, curves
from irtbench.estimation.few_respondents.learnt_prior import LEAST_DEVIATION
from irtbench.estimation.few_respondents.messages import Beliefs
from irtbench.models.priors import GuessingPrior, Hierarchy, Priors
from irtbench.models.pyro_model.tensors import ItemTensors

PRIOR = Hierarchy((0.1, 0.2), (0.3, 1.2), 0.3, of="difficulty")
PRIORS = Priors("hierarchical", guessing=GuessingPrior("beta", 5.0, 15.0), hierarchy=PRIOR)
HIERARCHICAL = FitSettings(prior="hierarchical")


def simulated(
    n: int, n_items: int, *, seed: int = 0, guessed: bool = False, easy: float = 0.0
) -> tuple[np.ndarray, ItemParameters, ResponseMatrix]:
    rng = np.random.default_rng([seed, n])
    theta = rng.normal(size=n)
    b = np.where(rng.random(n_items) < easy, rng.normal(-3, 1.2, n_items), rng.normal(0, 1 - easy, n_items))
    c = rng.beta(4, 16, n_items) if guessed else np.zeros(n_items)
    items = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, n_items), b, c)
    return theta, items, simulate_responses(theta, items, rng=rng)


def of_known_people(theta: np.ndarray, right: np.ndarray, asked: np.ndarray, *, guessed: bool = False) -> Surroundings:
    """People whose abilities are known: each has a node for himself."""
    n, n_items = right.shape
    like = torch.from_numpy(theta)
    pairs = {(int(k), int(m)) for k, m in zip(right.flat, (asked - right).flat, strict=True) if k + m > 0}
    return Surroundings(
        like,
        torch.eye(n, dtype=torch.float64),
        (like.new_ones(n_items, n), like.new_ones(n_items, n)),
        tuple(torch.from_numpy(number).to(torch.int16) for number in (right, asked - right)),
        torch.full((n_items,), guessed),
        like.new_zeros(n_items),
        tuple(sorted(pairs)),
    )


def start_grid(around: Surroundings, sign: float = 1.0) -> ItemGrid:
    """Nodes as wide as the prior."""
    n_items = len(around.free)
    centre = torch.tensor([0.1, 0.2, -1.1], dtype=torch.float64).expand(n_items, 3)
    covariance = torch.diag(torch.tensor([0.09, 1.44, 0.3], dtype=torch.float64)).expand(n_items, 3, 3)
    signs = torch.full((n_items,), sign, dtype=torch.float64)
    return ItemGrid.around(centre, covariance, signs, around.free, around.guessing)


def mass_of(weights: torch.Tensor, part: slice, level: torch.Tensor) -> torch.Tensor:
    return torch.softmax(weights[part] + level, dim=1)


def placed(beliefs: Beliefs) -> Beliefs:
    """Nodes where the posteriors are."""
    for _ in range(6):
        beliefs = beliefs.with_levels()
        beliefs = replace(beliefs, grid=beliefs.grid.placed(beliefs.priors))
    return beliefs.with_levels()


def test_a_few_answers_an_item_are_summed_over_those_who_gave_them(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    asked = rng.random((40, 12)) < rng.uniform(0.05, 0.3, 12)
    right = asked & (rng.random((40, 12)) < 0.6)
    around = of_known_people(rng.normal(size=40), right.astype(float), asked.astype(float))
    around = replace(around, posterior=torch.softmax(torch.from_numpy(rng.normal(size=(40, 40))), dim=0))
    grid = start_grid(around)

    def passed() -> tuple[torch.Tensor, ...]:
        found, level = replace(around).passed(grid, lambda part, level: torch.softmax(level, dim=1))
        return level, found.posterior, *found.curves

    of_few = passed()
    monkeypatch.setattr(item_posteriors, "FEW_ANSWER", 0.0)
    for few, every in zip(of_few, passed(), strict=True):
        torch.testing.assert_close(few, every, rtol=0, atol=1e-12)


def test_nodes_go_part_of_the_way_and_a_component_of_less_than_an_item_is_none() -> None:
    rng = np.random.default_rng(6)
    right = (rng.random((30, 5)) < 0.6).astype(float)
    around = of_known_people(rng.normal(size=30), right, np.ones_like(right))
    beliefs = Beliefs(around, start_grid(around), PRIORS, PRIORS).with_levels()
    whole, part = (beliefs.grid.placed(PRIORS, gain=gain) for gain in (1.0, 0.25))
    torch.testing.assert_close(part.centre, 0.75 * beliefs.grid.centre + 0.25 * whole.centre)
    torch.testing.assert_close(part.root, 0.75 * beliefs.grid.root + 0.25 * whole.root)
    for share, of_items in ((0.19, False), (0.21, True)):  # of five items
        mixture = Hierarchy.mixture([(share, PRIOR), (1 - share, PRIOR)])
        of_two = replace(beliefs, priors=replace(PRIORS, hierarchy=mixture))
        assert of_two.has_only_components_of_items == of_items
    assert beliefs.has_only_components_of_items


def test_a_guessed_items_posterior_is_that_of_a_fine_grid() -> None:
    rng = np.random.default_rng(0)
    theta = rng.normal(size=60)
    right = (rng.random((60, 1)) < 0.2 + 0.8 / (1 + np.exp(-1.3 * (theta[:, None] - 0.3)))).astype(float)
    around = of_known_people(theta, right, np.ones_like(right), guessed=True)
    grid = placed(Beliefs(around, start_grid(around), PRIORS, PRIORS)).grid
    mean, covariance, quantiles = grid.estimates([(1.0, PRIORS)])
    axes = np.linspace(-1.3, 1.6, 40), np.linspace(-5, 4, 61), np.linspace(-5, 1.5, 90)
    log_a, b, logit = (torch.from_numpy(part.reshape(-1)) for part in np.meshgrid(*axes, indexing="ij"))
    c = torch.sigmoid(logit)
    p, q = curves(log_a.exp()[:, None] * (torch.from_numpy(theta) - b[:, None]), c[:, None])
    level = torch.where(torch.from_numpy(right[:, 0]) == 1, p, q).log().sum(dim=1) + 5 * c.log() + 15 * (1 - c).log()
    pairs = torch.stack([log_a, b], dim=1)
    level += torch.distributions.MultivariateNormal(
        torch.tensor(PRIOR.mean).double(), torch.tensor(PRIOR.covariance).double()
    ).log_prob(pairs)
    mass = torch.softmax(level, dim=0)
    values = torch.stack([log_a.exp(), -log_a.exp() * b, c], dim=1)
    expected = mass @ values
    deviation = (mass @ (values - expected) ** 2).sqrt()
    np.testing.assert_allclose((mean[0] - expected) / deviation, 0, atol=0.05)
    np.testing.assert_allclose(covariance[0].diagonal().sqrt() / deviation, 1, atol=0.05)
    order = c.argsort()
    ends = np.interp((0.025, 0.5, 0.975), mass[order].cumsum(0), c[order])
    np.testing.assert_allclose(quantiles[:, 0, 2], ends, atol=0.1 * float(deviation[2]))


def test_the_posterior_of_a_small_table_is_close_to_that_of_all_together() -> None:
    """Four people, three items: loops everywhere; against weighted draws of everything."""
    x = np.array([[1.0, 1, 0], [1, 0, 0], [0, 1, 1], [1, 1, 1]])
    rng = np.random.default_rng(5)
    theta = rng.normal(size=(400_000, 4))
    pairs = rng.multivariate_normal(PRIOR.mean, PRIOR.covariance, (400_000, 3))
    z = np.exp(pairs[:, None, :, 0]) * (theta[:, :, None] - pairs[:, None, :, 1])
    weight = np.exp(np.where(x == 1, -np.logaddexp(0, -z), -np.logaddexp(0, z)).sum(axis=(1, 2)))
    weight /= weight.sum()
    nodes = torch.linspace(-6, 6, 61, dtype=torch.float64)
    known = torch.ones(3, 61, dtype=torch.float64)
    start = torch.softmax(-0.5 * nodes**2, dim=0)[:, None].expand(61, 4)
    around = replace(
        of_known_people(np.zeros(4), x, np.ones_like(x)), theta=nodes, posterior=start, curves=(known, known)
    )
    beliefs = Beliefs(around, start_grid(around), PRIORS, PRIORS)
    for _ in range(12):
        weights = beliefs.grid.log_mass(PRIORS) - beliefs.grid.level
        around, level = beliefs.around.passed(beliefs.grid, partial(mass_of, weights))
        grid = replace(beliefs.grid, level=level)
        beliefs = replace(beliefs, around=around, grid=grid.placed(PRIORS))
    mean, variance = beliefs.around.abilities
    expected = weight @ theta
    np.testing.assert_allclose(mean, expected, atol=0.03)
    np.testing.assert_allclose(variance.sqrt(), np.sqrt(weight @ (theta - expected) ** 2), rtol=0.03)
    grid = beliefs.with_levels().grid
    b = (grid.mass(PRIORS) * grid.nodes[..., 1]).sum(dim=1)
    np.testing.assert_allclose(b, weight @ pairs[..., 1], atol=0.03)


def test_a_sign_that_is_chance_is_turned_and_one_that_is_not_stays() -> None:
    theta, _, responses = simulated(60, 40, seed=3)
    values = responses.values.copy()
    values[:, 0] = 1 - values[:, 0]  # a key that is reversed
    around = of_known_people(theta, values, np.ones_like(values))
    grid = start_grid(around)
    sign = grid.sign.clone()
    sign[:2] = -1.0  # of the first rightly, of the second by chance
    found = Beliefs(around, replace(grid, sign=sign), PRIORS, PRIORS).with_likelier_signs().grid
    assert float(found.sign[0]) == -1.0
    assert bool((found.sign[1:] > 0).all())
    assert bool((found.centre[1] != grid.centre[1]).any())


def test_the_covariance_of_abilities_keeps_mean_and_unit() -> None:
    around = of_known_people(np.linspace(-1, 2, 8) ** 2, np.ones((8, 1)), np.ones((8, 1)))
    soft = torch.softmax(-((around.theta[:, None] - around.theta) ** 2), dim=0)
    theta, covariance = replace(around, posterior=soft).standardised_abilities
    variance = replace(around, posterior=soft).abilities[1]
    np.testing.assert_allclose(covariance @ torch.ones(8, dtype=torch.float64), 0, atol=1e-12)
    np.testing.assert_allclose(covariance @ theta, 0, atol=1e-12)
    # the limit of a covariance under ever firmer constraints
    firm = torch.diag(1 / variance) + 1e9 * (torch.ones(8, 8) + torch.outer(theta, theta))
    np.testing.assert_allclose(covariance, torch.linalg.inv(firm), atol=1e-6)


@pytest.mark.slow
def test_a_dozen_respondents_and_hundreds_of_items() -> None:
    standardised_errors, inside = [], {"discrimination": [], "intercept": []}
    for seed in range(4):
        theta, items, responses = simulated(12, 400, seed=seed)
        fitted = fit_model(responses, HIERARCHICAL)
        assert fitted.converged
        assert fitted.nodes.startswith("adaptive")
        assert fitted.stopped_because.endswith("items and abilities integrated out, estimates are posterior means")
        mean, deviation = theta.mean(), theta.std()
        a, b = items.discrimination * deviation, (items.difficulty - mean) / deviation
        error = fitted.abilities.theta - (theta - mean) / deviation
        standardised_errors.append(error / fitted.abilities.standard_error)
        hierarchy = fitted.priors.hierarchy
        assert 0.15 < hierarchy.deviation[0] < 0.45  # .3 in truth
        assert hierarchy.deviation[1] == pytest.approx(1 / deviation, rel=0.2)
        assert np.sqrt(np.mean((fitted.items.discrimination - a) ** 2)) < np.std(a)  # that of knowing nothing
        errors = fitted.items.standard_errors()
        for name, estimate, true in (
            ("discrimination", fitted.items.discrimination, a),
            ("intercept", fitted.items.intercept, -a * b),
        ):
            inside[name].append(np.abs(estimate - true) < 1.96 * errors[name])
    # 40 free errors: their mean square lies between .45 and 1.8 with probability .998
    assert 0.45 < float(np.sum(np.square(standardised_errors))) / 40 < 1.8
    for name, covered in inside.items():  # 1600: .95 is known to .006
        assert 0.925 < np.mean(covered) < 0.98, name


@pytest.mark.slow
@pytest.mark.parametrize(("easy", "n_components"), [(0.0, 1), (0.3, 2)])
def test_a_long_easy_tail_takes_a_component_more(easy: float, n_components: int) -> None:
    theta, items, responses = simulated(15, 1500, seed=3, easy=easy)
    fitted = fit_model(responses, HIERARCHICAL)
    assert fitted.converged
    assert len(fitted.priors.hierarchy.parts) == n_components
    error = fitted.abilities.theta - (theta - theta.mean()) / theta.std()
    # one normal density, with the tail, is 11.5 standard errors off, and a third of the far b are covered
    assert np.abs(error / fitted.abilities.standard_error).max() < 3.5
    columns, true = fitted.quantile_columns(), (items.difficulty - theta.mean()) / theta.std()
    inside = (columns["difficulty_lower"] < true) & (true < columns["difficulty_upper"])
    assert 0.82 < inside[np.abs(items.difficulty) > 1.5].mean() < 0.99


@pytest.mark.slow
def test_items_alike_in_slope_do_not_drive_the_density_to_nothing() -> None:
    rng = np.random.default_rng(4)
    items = ItemParameters.from_difficulty(np.ones(400), rng.normal(size=400))
    fitted = fit_model(simulate_responses(rng.normal(size=60), items, rng=rng), HIERARCHICAL)
    assert fitted.converged
    assert LEAST_DEVIATION <= fitted.priors.hierarchy.deviation[0] < 0.2


def test_a_density_of_guessing_that_was_given_stays() -> None:
    settings = FitSettings(kind="3pl", prior="hierarchical", prior_guessing="normal:-1.4,0.05")
    fitted = fit_model(simulated(12, 30, guessed=True)[2], settings)
    assert fitted.priors.guessing == GuessingPrior("normal", -1.4, 0.05)
    np.testing.assert_allclose(fitted.items.guessing, 1 / (1 + np.exp(1.4)), atol=0.02)


def test_abilities_of_items_of_another_prior() -> None:
    theta, items, responses = simulated(40, 60)
    problem = make_problem(responses, "weak")
    matrix = torch.tensor(np.c_[items.discrimination, items.intercept, np.zeros(60)])
    found = joint_abilities(problem, ItemTensors.from_matrix(matrix))
    assert np.corrcoef(found[0], theta)[0, 1] > 0.95
    known = Surroundings.of(problem, ItemTensors.from_matrix(matrix)).abilities[1]
    assert bool((found[1].diagonal() > 0.9 * known).all())  # items are not known, but mean and unit are
    assert joint_abilities(make_problem(simulated(40, 20)[2], "weak"), ItemTensors.from_matrix(matrix[:20])) is None


def test_a_fit_that_did_not_settle_has_no_standard_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MOST_UPDATES", 1)
    fitted = fit_model(simulated(12, 300)[2], HIERARCHICAL)
    assert not fitted.converged
    assert "not settled after 2 updates" in fitted.stopped_because
    assert fitted.items.covariance is None
