"""Settings that cannot be are refused when they are made, and priors are read from words."""

from typing import Any

import pytest

from builders.refusals import is_refused
from irtbench import FitSettings
from irtbench.models.priors import GuessingPrior

ONE = {"q1": (0.0, 1.0)}
FOUR = {"kind": "4pl"}


@pytest.mark.parametrize(
    ("settings", "saying"),
    [
        ({"guessing": 1.0}, r"guessing: expected a number in \[0, 1\)"),
        ({"kind": "3pl", "guessing": 0.2}, "guessing is estimated"),
        ({"n_options": 1}, "n_options: expected a number of at least 2"),
        ({"n_nodes": 3}, r"n_nodes: expected a number in \[11, 2001\]"),
        ({"by_item": {"item1": 1.5}}, r"by_item.item1: expected .* a number in \[0, 1\) but got 1.5"),
        ({"kind": "5pl"}, "expected 'rasch', '1pl', '2pl', '3pl' or '4pl' but got '5pl'"),
        ({"kind": "1pl", "by_item": {"item1": "2pl"}}, "one slope for all items"),
        ({"population": "estimated", "prior": "hierarchical"}, "estimated population"),
        ({"prior_items": {"q1": (0.0, 0.0)}}, "prior_items: item q1: .* the second above 0, but got 0"),
        ({"prior_items": {"q1": (float("nan"), 1.0)}}, "prior_items"),
        ({"prior_items": {"q1": 1.0}}, "prior_items"),
        ({"prior_items": ONE, "prior": "hierarchical"}, "they do not with prior hierarchical"),
        ({"prior_items": ONE, "posterior": "normal"}, "they do not with a posterior"),
        ({"prior_slope": "lognormal:0,1"}, "FitSettings.prior_slope: expected normal:MEAN,SD with SD above 0"),
        ({"prior_intercept": "normal:0,0"}, "FitSettings.prior_intercept: expected normal:MEAN,SD with SD above 0"),
        ({"prior_intercept": "normal:nan,1"}, "expected normal:MEAN,SD"),
        ({"prior": "hierarchical", "prior_slope": "normal:1,1"}, "is learnt from the items; expected no prior_slope"),
        ({"kind": "rasch", "prior_slope": "normal:1,1"}, "slopes of a rasch model are 1"),
        ({"prior_guessing": "normal:-1,1"}, "prior_guessing goes with guessing that is estimated; expected kind 3pl"),
        (FOUR | {"prior": "none"}, "guessing of a 4pl has a prior"),
        (
            FOUR | {"posterior": "normal", "prior": "none", "prior_guessing": "beta:5,15"},
            "a posterior without a prior of slopes does not go with a 4pl",
        ),
        (FOUR | {"prior_upper": "gamma:1,2"}, "normal:MEAN,SD of logit u, or beta:ALPHA,BETA of u but got 'gamma:1,2'"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], saying: str) -> None:
    is_refused(saying, FitSettings, **settings)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("normal", "expected normal:MEAN,SD of logit c, or beta:ALPHA,BETA of c but got 'normal'"),
        ("gamma:1,2", "expected normal:MEAN,SD"),
        ("normal:1", "expected normal:MEAN,SD"),
        ("normal:1,2,3", "expected normal:MEAN,SD"),
        ("normal:x,1", "expected normal:MEAN,SD"),
        ("normal:0,0", "the second above 0"),
        ("normal:nan,1", "finite numbers"),
        ("beta:0,3", "two numbers above 0"),
    ],
)
def test_what_is_no_density_is_refused(text: str, words: str) -> None:
    is_refused(rf"FitSettings.prior_guessing: .*{words}", FitSettings, kind="3pl", prior_guessing=text)


def test_the_usual_priors_in_words_are_the_usual_priors_and_each_replaces_its_part() -> None:
    said = FitSettings(prior="weak", prior_slope="normal:1,1.5", prior_intercept="normal:0,4").priors
    usual = FitSettings(prior="weak").priors
    assert (said.slope, said.intercept) == (usual.slope, usual.intercept)
    assert FitSettings(kind="3pl", prior_guessing="beta:5,15").priors == FitSettings(kind="3pl").priors
    other = FitSettings(kind="3pl", prior_guessing="normal:-2,0.5", prior_slope="normal:1.5,0.1").priors
    assert (other.slope, other.intercept) == ((1.5, 0.1), usual.intercept)
    assert other.guessing == GuessingPrior("normal", -2, 0.5)
    by_item = FitSettings(by_item={"q1": "3pl"}, prior_guessing="normal:-1,1").priors.guessing
    assert by_item is not None
    assert by_item.logit_deviation == 1
