"""A fit to responses on disk is the fit to the same responses in memory (`test_stored_scores`: to grades)."""

from pathlib import Path

import numpy as np
import pytest

from builders.simulated import simulated
from builders.stored import on_disk
from irtbench import InputError, ItemParameters, ResponseMatrix, StoredResponses, fit_model
from irtbench.estimation.marginal import e_step


def assert_same_fit(given: StoredResponses, responses: ResponseMatrix, **settings: object) -> None:
    found, exact = fit_model(given, **settings), fit_model(responses, **settings)
    assert found.converged == exact.converged
    assert found.status.steps == exact.status.steps
    assert found.log_likelihood == pytest.approx(exact.log_likelihood, rel=1e-12)
    for name in ("discrimination", "intercept", "guessing", "covariance"):
        np.testing.assert_allclose(getattr(found.items, name), getattr(exact.items, name), rtol=1e-8, atol=1e-10)
    assert found.summary().keys() == exact.summary().keys()
    np.testing.assert_array_equal(found.n_by_item, exact.n_by_item)


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ({}, 0.0),
        ({}, 0.3),
        ({"model": "rasch"}, 0.0),
        ({"model": "1pl"}, 0.3),
        ({"model": "3pl", "tolerance": 1e-3}, 0.0),
        ({"model": "4pl", "tolerance": 1e-3}, 0.3),
        ({"guessing": 0.1, "prior": "weak"}, 0.0),
        ({"prior": "weak"}, 0.0),
        ({"population": "estimated", "tolerance": 1e-3}, 0.0),
        ({"dtype": "float32"}, 0.3),
    ],
)
def test_every_model(
    settings: dict[str, object], missing: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    responses, _, _ = simulated(300, 8, seed=11, missing=missing)
    monkeypatch.setitem(e_step.BATCH_CELLS, "cpu", 61 * 80)  # batches of eighty respondents
    assert_same_fit(on_disk(responses, tmp_path), responses, **settings)


def test_with_anchors_and_a_start(tmp_path: Path) -> None:
    responses, items, _ = simulated(500, 10, seed=12)
    known = items.select(items.item_ids[:4])
    assert_same_fit(on_disk(responses, tmp_path), responses, anchors=known)
    assert_same_fit(on_disk(responses, tmp_path), responses, start=items)


def test_many_items_whose_posteriors_are_narrow(tmp_path: Path) -> None:
    """Where nodes are placed by a pass that keeps numbers of each respondent."""
    responses, _, _ = simulated(150, 150, seed=13)
    assert_same_fit(on_disk(responses, tmp_path), responses)


def test_chosen_items_and_respondents(tmp_path: Path) -> None:
    responses, _, _ = simulated(400, 9, seed=14, missing=0.8)
    kept = responses.select_respondents(responses.n_by_respondent > 0)
    given = on_disk(kept, tmp_path)
    some = kept.select_items(kept.item_ids[2:7])
    answered = some.n_by_respondent > 0
    assert not answered.all()
    chosen = given.select_items(kept.item_ids[2:7])
    assert_same_fit(chosen.select_respondents(answered), some.select_respondents(answered), prior="weak")


def test_starting_values_from_some_of_very_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irtbench.estimation.marginal.fisher_scoring.SAMPLE", 100)
    responses, _, _ = simulated(900, 12, seed=15)
    assert_same_fit(on_disk(responses, tmp_path), responses)


def test_settings_that_need_all_responses_are_refused(tmp_path: Path) -> None:
    responses, _, _ = simulated(100, 5, seed=17)
    given = on_disk(responses, tmp_path)
    for settings, named in (
        ({"prior": "hierarchical"}, "prior hierarchical"),
        ({"posterior": "normal", "prior": "weak"}, "posterior"),
        ({"optimiser": "adam"}, "optimiser adam"),
    ):
        with pytest.raises(InputError, match=f"{named} needs all responses in memory"):
            fit_model(given, **settings)


def test_constant_items_are_refused_as_in_memory(tmp_path: Path) -> None:
    responses, _, _ = simulated(100, 5, seed=18)
    values = responses.correct.copy()
    values[:, 2] = 1
    constant = ResponseMatrix(values, responses.respondent_ids, responses.item_ids)
    with pytest.raises(InputError, match="all responses are the same for item item3"):
        fit_model(on_disk(constant, tmp_path))
    few = ItemParameters.from_difficulty([1.0], [0.0])
    with pytest.raises(InputError, match="start is of other items"):
        fit_model(on_disk(responses, tmp_path), start=few)
