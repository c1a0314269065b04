"""A scale that is not one of ability is said to be none; one of ability, reversed items and all, is not."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import run
from builders.simulated import simulated
from irtbench import FitSettings, ItemParameters, ResponseMatrix, fit_model, simulate_responses


def two_camps(n: int = 300, n_items: int = 20, *, seed: int = 0) -> ResponseMatrix:
    """Half of the items are easier the further one is up, half the further one is down: nobody is able."""
    rng = np.random.default_rng(seed)
    slope = np.r_[np.full(n_items // 2, 1.5), np.full(n_items - n_items // 2, -1.5)]
    items = ItemParameters.from_difficulty(slope, rng.normal(0, 0.5, n_items))
    return simulate_responses(rng.normal(size=n), items, rng=rng)


@pytest.mark.parametrize("prior", ["none", "weak"])
def test_two_camps_are_no_scale_of_ability(prior: str) -> None:
    fitted = fit_model(two_camps(), FitSettings(prior=prior))  # type: ignore[arg-type]
    assert fitted.converged
    assert any("of the slopes are negative: this is not a scale of ability" in doubt for doubt in fitted.doubts)
    assert any("correlate" in doubt for doubt in fitted.doubts)


@pytest.mark.parametrize("missing", [0.0, 0.6])
def test_a_crowd_with_some_reversed_items_is_not_doubted(missing: float) -> None:
    responses = simulated(400, 20, seed=3, missing=missing)[0]
    values = responses.values.copy()
    values[:, :3] = 1 - values[:, :3]
    fitted = fit_model(ResponseMatrix(values, responses.respondent_ids, responses.item_ids), FitSettings(prior="weak"))
    assert (fitted.items.discrimination < 0).sum() == 3
    assert fitted.doubts == ()


def test_the_command_says_so(tmp_path: Path) -> None:
    two_camps().to_long().to_csv(tmp_path / "camps.csv", index=False)
    done = run("fit", tmp_path / "camps.csv", "-o", tmp_path / "out", "--quiet")
    assert "warning: 50% of the slopes are negative: this is not a scale of ability" in done.stderr
    assert pd.read_json(tmp_path / "out" / "fit.json", typ="series")["doubts"]
