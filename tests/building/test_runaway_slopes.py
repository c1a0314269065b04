"""An item whose slope grows without end leaves with that reason, and the others are fitted."""

from dataclasses import replace

import numpy as np
import pytest

from builders.simulated import simulated
from irtbench import FitSettings, InputError, ResponseMatrix, fit_model, prune
from irtbench.building.prune_rules import KEEP_ALL, PruneRules
from irtbench.building.pruned import Pruning

N = 275


def with_steps(*places: int) -> ResponseMatrix:
    """Eight ordinary items, and one for each place: all but the weakest, or but the best, were right."""
    responses, _, theta = simulated(N, 8, seed=4)
    order = np.argsort(responses.values.sum(axis=1) + 1e-3 * theta)
    steps = np.ones((N, len(places)))
    for k, place in enumerate(places):
        steps[order[: place + 1], k] = 0
    ids = (*responses.item_ids, *(f"step{place}" for place in places))
    return ResponseMatrix(np.hstack([responses.values, steps]), responses.respondent_ids, ids)


def pruned(responses: ResponseMatrix, rules: PruneRules) -> Pruning:
    return prune(responses, lambda data: fit_model(data, FitSettings(standard_errors=False)), rules)


def test_the_fit_names_it_and_says_what_to_do() -> None:
    fitted = fit_model(with_steps(40))
    assert not fitted.converged
    assert fitted.stopped_because.startswith("item step40 (234 of 275 right): the slope grows without end")
    assert "leave it out, or take --prior weak" in fitted.stopped_because
    assert fit_model(with_steps(40), FitSettings(prior="weak")).converged


def test_it_leaves_with_its_reason_and_the_others_are_fitted() -> None:
    found = pruned(with_steps(40), KEEP_ALL)
    (removal,) = found.removals
    assert (removal.round, removal.item_id, removal.reason) == (1, "step40", "runaway_slope")
    assert removal.statistic == "discrimination"
    assert removal.value > 30
    assert removal.note.startswith("234 of 275 right")
    assert found.fitted is not None
    assert found.fitted.converged
    alone = fit_model(with_steps(), FitSettings(standard_errors=False))
    np.testing.assert_allclose(found.fitted.items.discrimination, alone.items.discrimination, atol=1e-6)
    assert found.table()["reason"].tolist() == ["runaway_slope"]


def test_ordinary_items_all_stay() -> None:
    assert pruned(with_steps(), KEEP_ALL).removals == ()


@pytest.mark.filterwarnings("ignore:global fit. M2 is not available")
@pytest.mark.parametrize(("share", "places"), [(0.0, (40,)), (0.05, (20, 120, 200))])
def test_no_more_leave_than_the_rules_allow(share: float, places: tuple[int, ...]) -> None:
    """Of 9 items none with a share of 0; of 11 one with .05, and here three grow."""
    found = pruned(with_steps(*places), replace(KEEP_ALL, max_share_runaway=share))
    assert len(found.removals) <= int(share > 0)
    assert found.fitted is not None
    assert not found.fitted.converged


def test_a_share_is_a_share() -> None:
    with pytest.raises(InputError, match=r"max_share_runaway: expected a number in \[0, 1\]"):
        PruneRules(max_share_runaway=2)
