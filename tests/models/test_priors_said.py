"""Which parts of the priors there are: each alone makes the estimate a posterior mode."""

import pytest

from irtbench.models.priors import GuessingPrior, Hierarchy, Priors

PARTS = {
    "slope": (1.0, 1.5),
    "intercept": (0.0, 4.0),
    "guessing": GuessingPrior("beta", 5.0, 15.0),
    "hierarchy": Hierarchy(),
}


@pytest.mark.parametrize("part", PARTS)
def test_one_density_alone_is_a_prior(part: str) -> None:
    assert Priors("none").is_flat
    assert not Priors("weak", **{part: PARTS[part]}).is_flat
