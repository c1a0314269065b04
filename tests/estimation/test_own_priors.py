"""Priors of slope and intercept that the user names: what the Pyro model has, what is maximised, what is refused."""

from pathlib import Path

import numpy as np
import pytest

import irtbench
from builders.by_hand import assert_by_hand, counts_of
from builders.command_line import refused, run
from irtbench.data.input_error import InputError


@pytest.fixture(scope="module")
def responses() -> irtbench.ResponseMatrix:
    rng = np.random.default_rng(1)
    items = irtbench.ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 6), rng.normal(size=6))
    return irtbench.simulate_responses(rng.normal(size=150), items, rng=rng)


def test_the_mode_is_that_of_the_posterior_under_them(responses: irtbench.ResponseMatrix) -> None:
    fitted = irtbench.fit_model(
        responses, prior="none", prior_slope="normal:1.2,0.2", prior_intercept="normal:0.5,0.4", tolerance=1e-7
    )
    assert (fitted.priors.slope, fitted.priors.intercept) == ((1.2, 0.2), (0.5, 0.4))
    assert_by_hand(fitted, [counts_of(responses.values)])


def test_one_replaces_its_part_of_weak(responses: irtbench.ResponseMatrix) -> None:
    weak = irtbench.fit_model(responses, prior="weak")
    same = irtbench.fit_model(responses, prior="weak", prior_slope="normal:1,1.5", prior_intercept="normal:0,4")
    np.testing.assert_allclose(same.items.discrimination, weak.items.discrimination, atol=1e-6)
    tight = irtbench.fit_model(responses, prior="weak", prior_slope="normal:1.5,0.001")
    np.testing.assert_allclose(tight.items.discrimination, 1.5, atol=0.01)
    assert tight.priors.intercept == (0.0, 4.0)


@pytest.mark.parametrize(
    ("settings", "saying"),
    [
        ({"prior_slope": "lognormal:0,1"}, "FitSettings.prior_slope: expected normal:MEAN,SD with SD above 0"),
        ({"prior_intercept": "normal:0,0"}, "FitSettings.prior_intercept: expected normal:MEAN,SD with SD above 0"),
        ({"prior_intercept": "normal:nan,1"}, "expected normal:MEAN,SD"),
        ({"prior": "hierarchical", "prior_slope": "normal:1,1"}, "is learnt from the items; expected no prior_slope"),
        ({"kind": "rasch", "prior_slope": "normal:1,1"}, "slopes of a rasch model are 1"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict, saying: str) -> None:
    with pytest.raises(InputError, match=saying):
        irtbench.FitSettings(**settings)


def test_with_more_items_than_people_a_prior_of_slopes_would_set_the_scale() -> None:
    with pytest.raises(InputError, match="prior of slopes sets the scale of ability in their place"):
        irtbench.fit_model(np.random.default_rng(0).integers(0, 2, (12, 20)), prior_slope="normal:1,1")


@pytest.mark.parametrize("kind", ["rasch", "1pl"])
def test_a_prior_of_the_slope_that_all_share_counts_once_and_sets_no_scale(kind: str) -> None:
    rng = np.random.default_rng(4)
    theta, b = rng.normal(size=40), rng.normal(0, 2, 120)
    values = (rng.random((40, 120)) < 1 / (1 + np.exp(-1.5 * (theta[:, None] - b)))).astype(float)
    assert set(values.mean(0)) >= {0, 1}, "items that all got right, and wrong"
    fitted = irtbench.fit_model(values, kind=kind, prior="weak", tolerance=1e-7)
    assert_by_hand(fitted, [counts_of(values)])
    spread = fitted.population["sd"] if kind == "rasch" else fitted.items.discrimination[0]
    assert abs(spread - 1.5 * theta.std()) < 0.25  # two standard errors


def test_from_the_command_line(responses: irtbench.ResponseMatrix, tmp_path: Path) -> None:
    responses.to_long().to_csv(tmp_path / "r.csv", index=False)
    done = run("fit r.csv -o out --prior-slope normal:1.2,0.2 --prior-intercept normal:0.5,0.4", cwd=tmp_path)
    assert "prior own: a ~ Normal(1.2, 0.2), d ~ Normal(0.5, 0.4)" in done.out
    refused("fit r.csv -o no --prior-slope normal:1", saying="prior_slope: expected normal:MEAN,SD", cwd=tmp_path)
    assert not (tmp_path / "no").exists()
