"""Few respondents, items and abilities integrated out together, under a prior learnt from the items."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from scipy import stats

from builders.problem import make_problem
from builders.refusals import is_refused
from builders.simulated import drawn
from irtbench import FitSettings, ItemParameters, ResponseMatrix, fit_model, simulate_responses
from irtbench.estimation.few_respondents import messages
from irtbench.estimation.few_respondents.empirical_bayes import joint_abilities
from irtbench.estimation.few_respondents.item_grid import ItemGrid, curves
from irtbench.estimation.few_respondents.learnt_prior import (
    LEAST_DEVIATION,
    learn,
    log_density_of_deviation,
    over_densities,
    packed,
    unpacked,
    with_long_tails,
)
from irtbench.estimation.few_respondents.messages import Beliefs, Surroundings, outcomes_of, outweigh_the_odds
from irtbench.estimation.item_quantiles import weighted_quantiles
from irtbench.estimation.marginal.acceleration import FixedPoint
from irtbench.models.priors import GuessingPrior, Hierarchy, Priors
from irtbench.models.pyro_model.tensors import ItemTensors
from irtbench.scoring.item_error import abilities_of, with_item_error
from irtbench.study.fitted_scale import RightOrWrong


def test_the_likelihood_at_posterior_means_is_integrated_on_nodes_that_are_right_there() -> None:
    """Ten people's Guttman pattern leaves slopes open: learning ends, unsettled, once they are typically above 30."""
    rows = "1111 1111 1110 0000 1111 1111 1111 1111 1111 1111"
    fitted = fit_model(np.array([[float(x) for x in row] for row in rows.split()]), prior="hierarchical")
    a, d = fitted.items.discrimination, fitted.items.intercept
    assert 30 < a.max() < 100  # 10^8 on some machines where the mean of log a wandered on, and digits were lost
    assert not fitted.converged
    # the integral by the rectangle rule on 400,001 points, by nothing but NumPy
    theta = np.linspace(-10, 10, 400_001)
    step = theta[1] - theta[0]
    p = 1 / (1 + np.exp(-np.clip(theta[:, None] * a + d, -500, 500)))
    density = np.exp(-0.5 * theta**2) / np.sqrt(2 * np.pi) * step
    total = sum(np.log(np.where([x == "1" for x in row], p, 1 - p).prod(axis=1) @ density) for row in rows.split())
    assert fitted.log_likelihood == pytest.approx(total, abs=44e-6)  # a millionth a response


def test_the_scores_of_a_fit_to_few_are_its_own_abilities_with_their_error_and_without_person_fit() -> None:
    responses = drawn(15, 40)
    scores, fitted = RightOrWrong(settings=HIERARCHICAL).fit(responses).scores, fit_model(responses, HIERARCHICAL)
    abilities = abilities_of(fitted, responses)
    np.testing.assert_array_equal(scores["theta"], abilities.theta)
    np.testing.assert_array_equal(abilities.theta, fitted.abilities.theta)
    np.testing.assert_allclose(fitted.abilities.covariance.sum(axis=0), 0, atol=1e-9)
    assert scores["person_fit"].isna().all()
    assert (scores["method"] == "joint").all()
    is_refused("carry their error already", with_item_error, abilities, responses, fitted.items, item_error="delta")


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


def of_known_people(theta: np.ndarray, right: np.ndarray) -> Surroundings:
    """People whose abilities are known, and who answered everything: each has a node for himself."""
    n, n_items = right.shape
    each, flat = torch.eye(n, dtype=torch.float64), torch.ones(2, n_items, n, dtype=torch.float64)
    numbers = torch.from_numpy(np.stack([1 - right, right])).to(torch.int16)
    return Surroundings(torch.from_numpy(theta), each, flat, numbers, outcomes_of(numbers))


def start_grid(around: Surroundings, *, guessed: bool = False) -> ItemGrid:
    n_items = around.numbers.shape[2]
    centre = torch.tensor([0.1, 0.2, -1.1], dtype=torch.float64).expand(n_items, 3)
    covariance = torch.diag(torch.tensor([0.09, 1.44, 0.3], dtype=torch.float64)).expand(n_items, 3, 3)
    ones = torch.ones_like(centre[:, 0])
    return ItemGrid.around(centre, covariance, ones, torch.full((n_items,), guessed), 0.0 * ones)


def test_a_few_answers_an_item_are_summed_over_those_who_gave_them(monkeypatch: pytest.MonkeyPatch) -> None:
    responses = drawn(40, 24, missing=0.7)
    few = fit_model(responses, HIERARCHICAL)
    monkeypatch.setattr(messages, "FEW_ANSWER", 0.0)
    every = fit_model(responses, HIERARCHICAL)
    for name in ("discrimination", "intercept", "covariance"):
        np.testing.assert_allclose(getattr(few.items, name), getattr(every.items, name), atol=1e-6)


def test_a_component_of_less_than_an_item_is_none() -> None:
    around = of_known_people(np.zeros(30), np.ones((30, 5)))
    beliefs = Beliefs(around, start_grid(around), PRIORS, PRIORS)
    for share, of_items in ((0.19, False), (0.21, True)):  # of five items
        mixture = Hierarchy.mixture([(share, PRIOR), (1 - share, PRIOR)])
        of_two = replace(beliefs, priors=replace(PRIORS, hierarchy=mixture))
        assert of_two.has_only_components_of_items == of_items
    assert beliefs.has_only_components_of_items


def test_a_guessed_items_posterior_is_that_of_a_fine_grid() -> None:
    rng = np.random.default_rng(0)
    theta = rng.normal(size=60)
    right = (rng.random((60, 1)) < 0.2 + 0.8 / (1 + np.exp(-1.3 * (theta[:, None] - 0.3)))).astype(float)
    around = of_known_people(theta, right)
    beliefs = Beliefs(around, start_grid(around, guessed=True), PRIORS, PRIORS)
    for _ in range(6):  # nodes where the posterior is
        beliefs = replace(beliefs, grid=beliefs.with_levels().grid.placed(PRIORS))
    grid = beliefs.with_levels().grid
    mean, covariance, quantiles = grid.estimates([(1.0, PRIORS)])
    axes = np.linspace(-1.3, 1.6, 40), np.linspace(-5, 4, 61), np.linspace(-5, 1.5, 90)
    log_a, b, logit = (torch.from_numpy(part.reshape(-1)) for part in np.meshgrid(*axes, indexing="ij"))
    c = torch.sigmoid(logit)
    q, p = curves(log_a.exp()[:, None] * (torch.from_numpy(theta) - b[:, None]), c[:, None])
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


def densities(weights: torch.Tensor, part: slice, level: torch.Tensor) -> torch.Tensor:
    return torch.softmax(weights[part] + level, dim=1)


def test_the_posterior_of_a_small_table_is_close_to_that_of_all_together() -> None:
    """Four people, three items: loops everywhere; against weighted draws of everything."""
    x = np.array([[1.0, 1, 0], [1, 0, 0], [0, 1, 1], [1, 1, 1]])
    rng = np.random.default_rng(5)
    theta = rng.normal(size=(200_000, 4))
    pairs = rng.multivariate_normal(PRIOR.mean, PRIOR.covariance, (200_000, 3))
    z = np.exp(pairs[:, None, :, 0]) * (theta[:, :, None] - pairs[:, None, :, 1])
    weight = np.exp(np.where(x == 1, -np.logaddexp(0, -z), -np.logaddexp(0, z)).sum(axis=(1, 2)))
    weight /= weight.sum()
    nodes = torch.linspace(-6, 6, 61, dtype=torch.float64)
    known = torch.ones(2, 3, 61, dtype=torch.float64)
    start = torch.softmax(-0.5 * nodes**2, dim=0)[:, None].expand(61, 4)
    around = replace(of_known_people(np.zeros(4), x), theta=nodes, posterior=start, curves=known)
    beliefs = Beliefs(around, start_grid(around), PRIORS, PRIORS)
    for _ in range(12):
        weights = beliefs.grid.log_mass(PRIORS) - beliefs.grid.level
        around, level = beliefs.around.passed(beliefs.grid, partial(densities, weights))
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
    around = of_known_people(theta, values)
    grid = start_grid(around)
    sign = grid.sign.clone()
    sign[:2] = -1.0  # of the first rightly, of the second by chance
    found = Beliefs(around, replace(grid, sign=sign), PRIORS, PRIORS).with_likelier_signs().grid
    assert float(found.sign[0]) == -1.0
    assert bool((found.sign[1:] > 0).all())
    assert bool((found.centre[1] != grid.centre[1]).any())


def test_the_covariance_of_abilities_keeps_mean_and_unit() -> None:
    around = of_known_people(np.linspace(-1, 2, 8) ** 2, np.ones((8, 1)))
    soft = torch.softmax(-((around.theta[:, None] - around.theta) ** 2), dim=0)
    theta, covariance = replace(around, posterior=soft).standardised_abilities
    variance = replace(around, posterior=soft).abilities[1]
    np.testing.assert_allclose(covariance @ torch.ones(8, dtype=torch.float64), 0, atol=1e-12)
    np.testing.assert_allclose(covariance @ theta, 0, atol=1e-12)
    # the limit of a covariance under ever firmer constraints
    firm = torch.diag(1 / variance) + 1e9 * (torch.ones(8, 8) + torch.outer(theta, theta))
    np.testing.assert_allclose(covariance, torch.linalg.inv(firm), atol=1e-6)


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


def test_slopes_of_sixty_items_and_forty_respondents_are_covered_and_have_quantiles() -> None:
    covered, learnt = [], []
    for seed in range(2):
        theta, items, responses = simulated(40, 60, seed=seed)
        fitted = fit_model(responses, HIERARCHICAL)
        assert fitted.converged
        assert fitted.kind == "mean"
        assert "items and abilities integrated out" in fitted.estimator
        a, d = items.discrimination * theta.std(), items.intercept + items.discrimination * theta.mean()
        errors = fitted.items.standard_errors()
        covered.append(np.abs(fitted.items.discrimination - a) < 1.96 * errors["discrimination"])
        covered.append(np.abs(fitted.items.intercept - d) < 1.96 * errors["intercept"])
        learnt.append(fitted.priors.hierarchy.deviation[0])
        assert "uncertain by a factor of" in fitted.priors.describe()
    # 120 slopes: a standard error of .02 were they independent; information as if theta were seen covers .74
    assert 0.89 < np.mean(covered) < 0.99
    assert np.mean(learnt) == pytest.approx(0.3, abs=0.08)
    columns = fitted.quantile_columns()
    low, middle, high = (columns[f"discrimination_{level}"] for level in ("lower", "median", "upper"))
    assert (low > 0).all()
    assert (high - middle > 1.05 * (middle - low)).all()  # a slope's posterior is skewed
    assert (columns["difficulty_lower"] < fitted.items.difficulty).all()
    assert (columns["difficulty_upper"] > fitted.items.difficulty).all()
    assert np.isnan(columns["guessing_median"]).all()


def test_quantiles_of_uneven_points() -> None:
    three = weighted_quantiles(torch.tensor([[2.0, 1.0, 3.0]]), torch.tensor([[0.2, 0.4, 0.4]]))
    # half of each point's mass lies below it: .2, .5 and .8
    assert three[:, 0].tolist() == pytest.approx([1.0, 2.0, 3.0])


START = Priors("hierarchical", guessing=GuessingPrior("beta", 5.0, 15.0))
START_WITH = replace(START, hierarchy=Hierarchy((0.1, 0.2), (0.3, 1.1), of="difficulty"))


def known_items(n: int, *, guessed: bool) -> ItemGrid:
    """Items of which the responses say log |a|, b and logit c to .1, nearly normally."""
    rng = np.random.default_rng(3)
    c = rng.beta(4, 16, n) if guessed else np.full(n, 0.2)
    values = torch.from_numpy(np.c_[rng.normal(0.1, 0.3, n), rng.normal(0.2, 1.1, n), np.log(c / (1 - c))])
    ones = torch.ones(n, dtype=torch.float64)
    free = torch.full((n,), guessed)
    grid = ItemGrid.around(values, 0.01 * torch.eye(3, dtype=torch.float64).expand(n, 3, 3), ones, free, 0.0 * ones)
    return replace(grid, level=grid.normal.expand(n, -1))


@pytest.mark.parametrize("guessed", [False, True])
def test_the_learnt_densities_are_the_likeliest(guessed: bool) -> None:
    grid, start = known_items(200, guessed=guessed), replace(START, hierarchy=Hierarchy(of="difficulty"))
    priors = start if guessed else replace(start, guessing=None)
    start, change = priors, 1.0
    while change > 1e-6:
        priors, change = learn(grid, priors, start)
    beta = 20.0 if guessed else None

    def worth(values: np.ndarray) -> float:
        _, _, _, logit, _, rest, _ = values
        level = (
            grid.log_evidence(unpacked(values, priors, beta))
            + float(log_density_of_deviation(torch.tensor(values[1])))
            + rest
        )
        # the logit of the mean m of c has the density m^5 (1 - m)^15
        return float(level - (5 * np.log1p(np.exp(-logit)) + 15 * np.log1p(np.exp(logit)) if guessed else 0.0))

    best = packed(priors, beta)
    for place in (0, 1, 2, 4, 5, *([3] if guessed else [])):
        for by in (-0.02, 0.02):
            assert worth(best + by * np.eye(7)[place]) < worth(best)
    assert priors.hierarchy.mean == pytest.approx((0.1, 0.2), abs=0.2)
    assert priors.hierarchy.deviation == pytest.approx((0.3, 1.1), abs=0.1)
    if guessed:
        assert priors.guessing.first + priors.guessing.second == pytest.approx(20)
        assert priors.guessing.first / 20 == pytest.approx(0.2, abs=0.02)


def test_items_that_are_known_say_how_well_the_scale_of_slopes_is_known() -> None:
    grid = known_items(50, guessed=False)
    priors, _ = learn(grid, replace(START_WITH, guessing=None), START)
    known, weighted = over_densities(grid, priors, START)
    # 50 values known to .1, and two as good as known: 1 / sqrt(2 * (50 * .9^2 + 2))
    assert known.hierarchy.uncertainty == pytest.approx(0.108, rel=0.15)
    assert sum(weight for weight, _ in weighted) == pytest.approx(1)
    wider = over_densities(known_items(50, guessed=True), START_WITH, START)[1]
    assert len(wider) == 3 * len(weighted)  # with other means of c
    assert {round(other.guessing.first, 2) for _, other in wider if other.guessing is not None} != {5.0}


def test_long_tails_are_about_those_of_a_t_density_of_four_degrees_of_freedom() -> None:
    """Of b given log |a|: its quantiles, the same regression on log |a|, and log |a| as it was."""
    prior = Hierarchy((0.2, -0.5), (0.3, 1.2), 0.4, of="difficulty")
    longer = with_long_tails(replace(START, hierarchy=prior)).hierarchy
    assert longer is not None
    assert sum(weight for weight, _ in longer.components) == pytest.approx(1)
    alone = 1.2 * np.sqrt(1 - 0.4**2)
    share = np.zeros(3)
    for weight, part in longer.components:
        assert part.mean == prior.mean
        assert part.deviation[0] == 0.3
        assert part.correlation * part.deviation[1] == pytest.approx(0.4 * 1.2)  # the slope by log |a| / .3
        own = part.deviation[1] * np.sqrt(1 - part.correlation**2)
        share += weight * 2 * stats.norm.sf(stats.t.isf([0.05, 0.025, 0.005], 4) * alone / own)
    np.testing.assert_allclose(share, [0.1, 0.05, 0.01], rtol=0.2)


def test_the_standard_deviation_of_slopes_has_an_inverse_chi_square_density() -> None:
    s = np.array([0.1, 0.3, 0.5, 1.0])
    # of s^2: 2 * .5^2 / chi-square of 2; on the scale of log s with 2 s^2 as Jacobian
    expected = stats.chi2.logpdf(0.5 / s**2, 2) + np.log(0.5 / s**4) + np.log(2 * s**2)
    ours = np.array([float(log_density_of_deviation(torch.tensor(value))) for value in np.log(s)])
    np.testing.assert_allclose(ours - ours[0], expected - expected[0], atol=1e-12)


def test_reversed_items_must_outweigh_the_odds() -> None:
    # of 100 items 4 are reversed: log odds 3.2; without the last two 3.9, which the second does not outweigh
    against = torch.tensor([-9.0, -3.5, -1.0, 2.0])
    assert outweigh_the_odds(against, torch.ones(100), torch.arange(4)).tolist() == [True, False, False, False]


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
    fitted = fit_model(values, HIERARCHICAL)
    assert fitted.converged
    errors = fitted.items.standard_errors()["intercept"]
    assert errors[0] > 1.3 * np.median(errors)
    assert fitted.items.intercept[0] == fitted.items.intercept.max()
    assert fit_model(responses, HIERARCHICAL, standard_errors=False).quantiles is None
    assert fit_model(responses, kind="rasch", prior="weak").quantile_columns() == {}


def test_the_mean_of_guessing_is_learnt_with_the_rest() -> None:
    rng = np.random.default_rng(8)
    truth = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 40), rng.normal(size=40), rng.beta(2, 18, 40))
    responses = simulate_responses(rng.normal(size=150), truth, rng=rng)
    fitted = fit_model(responses, FitSettings(kind="3pl", prior="hierarchical", by_item={"item1": "2pl"}))
    assert fitted.converged
    assert fitted.estimator.startswith("posterior mean, items and abilities integrated out")
    assert fitted.items.guessing[0] == fitted.items.covariance[0, 2, 2] == 0
    assert fitted.priors.guessing.first + fitted.priors.guessing.second == pytest.approx(20)
    assert 0.05 < fitted.priors.guessing.first / 20 < 0.18  # .10 in truth, .25 before anything was learnt
    columns = fitted.quantile_columns()
    assert np.isnan(columns["guessing_median"][0])
    covered = (columns["guessing_lower"] < truth.guessing) & (truth.guessing < columns["guessing_upper"])
    assert covered[1:].mean() > 0.8
