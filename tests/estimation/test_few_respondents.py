"""Few respondents and many items: where a fixed grid and a prior-free fit break."""

import numpy as np
import pytest

from irtbench import FitSettings, InputError, ItemParameters, fit_model, simulate_responses
from irtbench.scoring.item_error import abilities_of, with_item_error
from irtbench.study.fitted_scale import RightOrWrong


def test_thirty_items_keep_the_usual_grid() -> None:
    rng = np.random.default_rng(1)
    items = ItemParameters.from_difficulty(rng.lognormal(0, 0.3, 30), rng.normal(size=30))
    fitted = fit_model(simulate_responses(rng.normal(size=300), items, rng=rng))
    assert fitted.nodes == "grid of 61 nodes on +-6"


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
    rng = np.random.default_rng(6)
    items = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 60), rng.normal(size=60))
    responses = simulate_responses(rng.normal(size=20), items, rng=rng)
    settings = FitSettings(prior="hierarchical")
    scores, fitted = RightOrWrong(settings=settings).fit(responses).scores, fit_model(responses, settings)
    abilities = abilities_of(fitted, responses)
    np.testing.assert_array_equal(scores["theta"], abilities.theta)
    np.testing.assert_array_equal(abilities.theta, fitted.abilities.theta)
    assert scores["person_fit"].isna().all()
    assert (scores["method"] == "joint").all()
    with pytest.raises(InputError, match="carry their error already"):
        with_item_error(abilities, responses, fitted.items, item_error="delta")
