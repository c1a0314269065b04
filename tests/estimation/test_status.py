"""How a fit ended, in words: each ending that is no maximum says what to do."""

from typing import Literal

import numpy as np
import pytest
import torch

import irtbench
from builders.refusals import is_refused
from irtbench.estimation.fit import fit_model
from irtbench.estimation.marginal.observed_information import MOST_INFLATION, invert
from irtbench.estimation.status import ADVICE, Learning, Status, Stop


@pytest.mark.parametrize("stop", [stop for stop in Stop if stop is not Stop.CONVERGED])
def test_each_ending_but_the_good_one_says_what_to_do(stop: Stop) -> None:
    """And advises no prior where none is taken."""
    text = str(Status(stop, 7, gradient=0.1, change=0.1, guessing_at_bound=(1, 4)))
    assert "prior weak" in text
    assert "; " in text
    assert stop is Stop.AT_BOUND or ADVICE[stop] in text
    text = Status(stop, 7, gradient=0.1, change=0.1, steep=(2,)).in_words(instead="take fewer abilities")
    assert "prior" not in text
    assert text.endswith("or take fewer abilities")


def test_items_that_run_away_are_named_five_at_most() -> None:
    names = tuple(f"item i{k} (9 of 10 right)" for k in range(7))
    text = str(Status(Stop.AT_BOUND, 7, steep=tuple(range(7)), steep_items=names))
    assert text.startswith("item i0 (9 of 10 right), ")
    assert "and 2 more: the slopes grow without end" in text
    assert "--prior hierarchical" in text
    assert str(Status(Stop.AT_BOUND, 7, steep=(3,))).startswith("1 item: the slope grows without end")


@pytest.mark.parametrize("kind", ["rasch", "1pl"])
def test_a_guttman_scale_is_named(kind: Literal["rasch", "1pl"]) -> None:
    """Twelve people, the k-th right on the first k of eleven items: ability and chance cannot be told apart."""
    found = fit_model(np.tril(np.ones((12, 11)), -1), kind=kind)
    assert not found.converged
    assert "as on a Guttman scale" in found.stopped_because
    assert "item1" not in found.stopped_because
    assert fit_model(np.tril(np.ones((12, 11)), -1), kind=kind, prior="weak").converged


@pytest.mark.parametrize(("settled", "advice"), [(True, False), (False, True)])
def test_a_prior_that_is_not_learnt_says_what_to_do(settled: bool, advice: bool) -> None:
    learning = Learning("prior", 5, 0.1, settled)
    assert ("take --prior weak" in str(Status(Stop.CONVERGED, 7, learning=learning))) == advice


def answers(n_items: int, *, n: int = 200, seed: int = 1) -> np.ndarray:
    items = irtbench.ItemParameters.from_difficulty([1.2] * n_items, np.linspace(-1, 1, n_items).tolist())
    rng = np.random.default_rng(seed)
    return irtbench.simulate_responses(rng.normal(size=n), items, rng=rng).values


@pytest.mark.parametrize("errors", [True, False])
def test_a_2pl_of_two_items_is_not_determined_and_says_which(errors: bool) -> None:
    # right-right, right-wrong, ...: four shares that sum to 1 determine three parameters, and there are four
    scales = [answers(2, seed=seed) for seed in range(4)]
    fits = [irtbench.fit_model(one, standard_errors=errors) for one in scales[:2]]
    fits += irtbench.fit_many(scales, standard_errors=errors).fits  # type: ignore[arg-type]
    for fitted in fits:
        assert fitted.status.stop is Stop.NOT_A_MAXIMUM
        assert not fitted.converged
        assert "item item1" in fitted.stopped_because
        assert "item item2" in fitted.stopped_because
        assert "do not determine their parameters" in fitted.stopped_because
    assert irtbench.fit_model(scales[0], model="rasch").converged
    assert irtbench.fit_model(scales[0], prior="weak").converged
    assert irtbench.fit_model(answers(3)).converged


def test_more_items_of_which_nobody_answered_three_are_not_determined() -> None:
    """Three booklets of two items each, without a respondent or an item in common."""
    values = np.full((600, 6), np.nan)
    for k in range(3):
        values[200 * k : 200 * (k + 1), 2 * k : 2 * k + 2] = answers(2, n=200, seed=k)
    groups = ["a"] * 300 + ["b"] * 300
    alone, together = irtbench.fit_model(values), irtbench.fit_many([values] * 2)
    grouped, factor = irtbench.fit_groups(values, groups), irtbench.fit_factors(values, 1)
    for status in (alone.status, together.fits[0].status, grouped.status, factor.status):  # type: ignore[union-attr]
        assert status.stop is Stop.NOT_A_MAXIMUM
        assert len(status.loose_items) >= 2
    linked = np.concatenate([values, answers(6, n=300)])
    assert irtbench.fit_model(linked).converged  # respondents of all six items tell them apart


def test_two_abilities_of_three_items_are_not_determined() -> None:
    assert irtbench.fit_factors(answers(3), 2).status.stop is Stop.NOT_A_MAXIMUM  # 8 parameters, 7 shares


@pytest.mark.parametrize("unit", [1.0, 1e-5])
def test_what_is_singular_does_not_hang_on_units(unit: float) -> None:
    # correlation r of two parameters multiplies the variance of each by 1 / (1 - r^2); the third is alone
    for r, singular in ((np.sqrt(1 - 2 / MOST_INFLATION), False), (np.sqrt(1 - 0.5 / MOST_INFLATION), True)):
        information = torch.tensor([[1.0, r, 0.0], [r, 1.0, 0.0], [0.0, 0.0, 3.0]], dtype=torch.float64)
        scale = torch.tensor([unit, 1.0, 1.0], dtype=torch.float64)
        inverse, loose = invert(scale[:, None] * information * scale)
        assert loose.tolist() == [singular, singular, False]
        assert bool(inverse.isnan().all()) == singular
    saddle = torch.tensor([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 3.0]], dtype=torch.float64)
    assert invert(saddle)[1].tolist() == [True, True, False]
    many, loose = invert(torch.stack([saddle, torch.eye(3, dtype=torch.float64)]))
    assert loose.any(dim=1).tolist() == [True, False]
    assert many[1].tolist() == torch.eye(3).tolist()


@pytest.mark.parametrize(("response", "words"), [(0.0, "all responses are wrong"), (1.0, "all responses are right")])
def test_people_right_or_wrong_on_all_items_of_a_bank_have_no_mean(response: float, words: str) -> None:
    known = irtbench.ItemParameters.from_difficulty([1.2] * 8, np.linspace(-1, 1, 8))
    answers = np.full((30, 8), response)
    is_refused(words, fit_model, answers, anchors=known)
    others = irtbench.simulate_responses(np.linspace(-2, 2, 60), known, rng=np.random.default_rng(0)).values
    with pytest.raises(irtbench.InputError, match=words.replace("responses", "responses of group few")):
        irtbench.fit_groups(np.vstack([others, answers]), ["many"] * 60 + ["few"] * 30)
    answers[0, 0] = 1 - response
    assert fit_model(answers, anchors=known).converged
