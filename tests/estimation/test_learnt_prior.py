"""A prior learnt from the items: intervals that hold, no path dependence, signs, and posteriors by quadrature."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from irtbench import FitSettings, ItemParameters, ResponseMatrix, fit_model, simulate_responses
from irtbench.estimation.few_respondents.item_grid import ItemGrid
from irtbench.estimation.few_respondents.learnt_prior import (
    learn,
    log_density_of_deviation,
    over_densities,
    packed,
    unpacked,
    with_long_tails,
)
from irtbench.estimation.few_respondents.messages import outweigh_the_odds
from irtbench.estimation.item_quantiles import normal_points, weighted_quantiles
from irtbench.estimation.marginal.acceleration import FixedPoint
from irtbench.models.priors import GuessingPrior, Hierarchy, Priors

HIERARCHICAL = FitSettings(prior="hierarchical")


def simulated(n: int, n_items: int, *, seed: int) -> tuple[ItemParameters, np.ndarray, ResponseMatrix]:
    rng = np.random.default_rng([7, seed])
    items = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, n_items), rng.normal(size=n_items))
    theta = rng.normal(size=n)
    return items, theta, simulate_responses(theta, items, rng=rng)


def test_slopes_of_sixty_items_and_forty_respondents_are_covered_and_have_quantiles() -> None:
    covered, learnt = [], []
    for seed in range(3):
        items, theta, responses = simulated(40, 60, seed=seed)
        fitted = fit_model(responses, HIERARCHICAL)
        assert fitted.converged
        assert fitted.kind == "mean"
        assert "items and abilities integrated out" in fitted.estimator
        error = fitted.items.discrimination - items.discrimination * theta.std()
        covered.append(np.abs(error) < 1.96 * fitted.items.standard_errors()["discrimination"])
        learnt.append(fitted.priors.hierarchy.deviation[0])
        assert "uncertain by a factor of" in fitted.priors.describe()
    # 180 slopes: a standard error of .016 were they independent; information as if theta were seen covers .74
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
    # a standard normal density by points of one twice as wide, or moved by 1, weighted
    for centre, width in ((0.0, 2.0), (1.0, 1.2)):
        values = centre + width * normal_points(1, 512, torch.zeros(1, dtype=torch.float64)).T
        mass = torch.softmax(0.5 * ((values - centre) / width) ** 2 - 0.5 * values**2, dim=1)
        np.testing.assert_allclose(weighted_quantiles(values, mass)[:, 0], [-1.96, 0.0, 1.96], atol=0.03)
    three = weighted_quantiles(torch.tensor([[2.0, 1.0, 3.0]]), torch.tensor([[0.2, 0.4, 0.4]]))
    # half of each point's mass lies below it: .2, .5 and .8
    assert three[:, 0].tolist() == pytest.approx([1.0, 2.0, 3.0])


START = Priors("hierarchical", guessing=GuessingPrior("beta", 5.0, 15.0))


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
    priors, _ = learn(
        grid, replace(START, guessing=None, hierarchy=Hierarchy((0.1, 0.2), (0.3, 1.1), of="difficulty")), START
    )
    known, weighted = over_densities(grid, priors, START)
    # 50 values known to .1, and two as good as known: 1 / sqrt(2 * (50 * .9^2 + 2))
    assert known.hierarchy.uncertainty == pytest.approx(0.108, rel=0.15)
    assert sum(weight for weight, _ in weighted) == pytest.approx(1)
    wider = over_densities(known_items(50, guessed=True), START_WITH, START)[1]
    assert len(wider) == 3 * len(weighted)  # with other means of c
    assert {round(other.guessing.first, 2) for _, other in wider if other.guessing is not None} != {5.0}


START_WITH = replace(START, hierarchy=Hierarchy((0.1, 0.2), (0.3, 1.1), of="difficulty"))


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
    fitted = fit_model(ResponseMatrix(values, responses.respondent_ids, responses.item_ids), HIERARCHICAL)
    assert fitted.converged
    errors = fitted.items.standard_errors()["intercept"]
    assert errors[0] > 1.3 * np.median(errors)
    assert fitted.items.intercept[0] == fitted.items.intercept.max()
    assert fit_model(responses, FitSettings(prior="hierarchical", standard_errors=False)).quantiles is None
    assert fit_model(responses, FitSettings(kind="rasch")).quantile_columns() == {}


def test_the_mean_of_guessing_is_learnt_with_the_rest() -> None:
    rng = np.random.default_rng(8)
    truth = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 40), rng.normal(size=40), rng.beta(2, 18, 40))
    responses = simulate_responses(rng.normal(size=150), truth, rng=rng)
    fitted = fit_model(responses, FitSettings(kind="3pl", prior="hierarchical", by_item={"item1": "2pl"}))
    assert fitted.converged
    assert fitted.estimator.startswith("posterior mean, items and abilities integrated out")
    np.testing.assert_allclose(fitted.abilities.covariance.sum(axis=0), 0, atol=1e-9)
    assert fitted.items.guessing[0] == fitted.items.covariance[0, 2, 2] == 0
    assert fitted.priors.guessing.first + fitted.priors.guessing.second == pytest.approx(20)
    assert 0.05 < fitted.priors.guessing.first / 20 < 0.18  # .10 in truth, .25 before anything was learnt
    columns = fitted.quantile_columns()
    assert np.isnan(columns["guessing_median"][0])
    covered = (columns["guessing_lower"] < truth.guessing) & (truth.guessing < columns["guessing_upper"])
    assert covered[1:].mean() > 0.8
