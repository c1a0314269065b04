"""Few respondents and many items: where a fixed grid and a prior-free fit break."""

from functools import partial

import numpy as np
import pytest
import torch

from builders.problem import make_problem
from irtbench import FitSettings, FittedModel, InputError, ItemParameters, fit_model, simulate_responses
from irtbench.estimation.driver import own_parameters
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.priors import Hierarchy, Priors
from irtbench.models.pyro_model.sites import ItemPrior
from irtbench.models.pyro_model.tensors import ItemTensors
from irtbench.scoring.item_error import abilities_of, with_item_error
from irtbench.study.fitted_scale import RightOrWrong


def few(n_respondents: int, n_items: int, *, seed: int) -> tuple[FittedModel, dict[str, float]]:
    """A fit, and how it compares with the truth once that is aligned to the sample's mean and standard deviation."""
    rng = np.random.default_rng(seed)
    a, b, theta = rng.lognormal(0.2, 0.3, n_items), rng.normal(0, 1, n_items), rng.normal(size=n_respondents)
    responses = simulate_responses(theta, ItemParameters.from_difficulty(a, b), rng=rng)
    fitted = fit_model(responses, FitSettings(prior="hierarchical", tolerance=1e-4))
    mean, deviation = theta.mean(), theta.std()
    a, b, theta = a * deviation, (b - mean) / deviation, (theta - mean) / deviation
    abilities = abilities_of(fitted, responses)
    np.testing.assert_array_equal(abilities.theta, fitted.abilities.theta)
    assert abilities.method == "joint"
    with pytest.raises(InputError, match="carry their error already"):
        with_item_error(abilities, responses, fitted.items, item_error="delta")
    errors = fitted.items.standard_errors()
    z_a = (fitted.items.discrimination - a) / errors["discrimination"]
    return fitted, {
        "correlation": float(np.corrcoef(abilities.theta, theta)[0, 1]),
        "theta_covered": float(np.mean((abilities.lower < theta) & (theta < abilities.upper))),
        "a_covered": float(np.mean(np.abs(z_a) < 1.96)),
        "rmse_a": float(np.sqrt(np.mean((fitted.items.discrimination - a) ** 2))),
        "rmse_b": float(np.sqrt(np.mean((fitted.items.difficulty - b) ** 2))),
    }


@pytest.mark.slow
def test_a_hundred_systems_and_a_thousand_items() -> None:
    fitted, found = few(100, 1000, seed=0)
    assert fitted.converged
    assert fitted.nodes.startswith("adaptive")
    assert found["correlation"] > 0.99
    assert found["rmse_a"] < 0.32
    assert found["rmse_b"] < 0.36
    # 100 thetas: the standard error of a 95% coverage is 2.2%
    assert found["theta_covered"] > 0.88
    assert 0.91 < found["a_covered"] < 0.99
    hierarchy = fitted.priors.hierarchy
    # log a has the standard deviation .3 in truth; a joint mode would say nearly nothing
    assert 0.2 < hierarchy.deviation[0] < 0.4


def test_thirty_items_keep_the_usual_grid() -> None:
    rng = np.random.default_rng(1)
    items = ItemParameters.from_difficulty(rng.lognormal(0, 0.3, 30), rng.normal(size=30))
    fitted = fit_model(simulate_responses(rng.normal(size=300), items, rng=rng))
    assert fitted.nodes == "grid of 61 nodes on +-6"


def test_items_that_all_got_right_are_estimable_under_a_learnt_prior() -> None:
    rng = np.random.default_rng(2)
    items = ItemParameters.from_difficulty(np.r_[np.full(39, 1.2), 2.0], np.r_[rng.normal(size=39), -8.0])
    responses = simulate_responses(rng.normal(size=60), items, rng=rng)
    assert responses.proportion_correct()[-1] == 1.0
    fitted = fit_model(responses, FitSettings(prior="hierarchical", tolerance=1e-4))
    assert np.isfinite(fitted.items.difficulty).all()
    assert fitted.items.intercept[-1] > fitted.items.intercept[:-1].mean()


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


def learnt_prior(n_items: int, sign: torch.Tensor | None = None) -> ItemPrior:
    """A hierarchy whose mean is that of the items, as the model states it."""
    rng = np.random.default_rng(0)
    items = ItemParameters.from_difficulty(np.ones(n_items), np.zeros(n_items))
    responses = simulate_responses(rng.normal(size=20), items, rng=rng)
    problem = make_problem(responses, Priors("hierarchical", hierarchy=Hierarchy((0.0, 0.0), (0.3, 1.2), 0.4)))
    with own_parameters():
        model = partial(problem.model, learn_mean=True, slope_sign=sign)
        return Problem.of(model, problem.rows, problem.nodes).prior


@pytest.mark.parametrize("exact", [False, True])
def test_derivatives_of_the_learnt_prior(exact: bool) -> None:
    parameters = torch.tensor([[0.8, 0.3, 0.0], [1.4, -0.2, 0.0], [-0.7, 1.0, 0.0]], dtype=torch.float64)
    prior = learnt_prior(3, parameters[:, 0].sign())

    def log_prior(values: torch.Tensor) -> float:
        return float(prior.log_density(ItemTensors.from_matrix(values)))

    gradient, information = prior.derivatives(ItemTensors.from_matrix(parameters), by_logit=True, positive=not exact)
    step = 1e-5
    for j in range(3):
        for k in range(2):
            up, down = parameters.clone(), parameters.clone()
            up[j, k] += step
            down[j, k] -= step
            slope = (log_prior(up) - log_prior(down)) / (2 * step)
            assert float(gradient[j, k]) == pytest.approx(slope, rel=1e-6)
    assert torch.equal(information, information.transpose(1, 2))
    if not exact:  # a step needs a positive matrix
        assert float(torch.linalg.eigvalsh(information[:, :2, :2]).min()) > 0


@pytest.mark.slow
def test_the_scores_of_a_fit_to_few_are_its_own_abilities_without_person_fit() -> None:
    rng = np.random.default_rng(6)
    items = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 600), rng.normal(size=600))
    responses = simulate_responses(rng.normal(size=20), items, rng=rng)
    settings = FitSettings(prior="hierarchical")
    scores = RightOrWrong(settings=settings).fit(responses).scores
    fitted = fit_model(responses, settings)
    np.testing.assert_array_equal(scores["theta"], fitted.abilities.theta)
    assert scores["person_fit"].isna().all()
    assert (scores["method"] == "joint").all()
