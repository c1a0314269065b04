"""The item-by-item test of guessing finds it where it is, and not where it is not."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from irtbench import ItemParameters, ResponseMatrix, simulate_responses
from irtbench.analysis.model_comparison import guessing_test


def test_guessing_is_found_in_the_items_that_have_it() -> None:
    rng = np.random.default_rng(0)
    guessing = np.where(np.arange(12) < 4, 0.35, 0.0)
    items = ItemParameters.from_difficulty(np.full(12, 1.8), np.linspace(0.2, 1.0, 12), guessing)
    found = guessing_test(simulate_responses(rng.normal(size=2000), items, rng=rng))
    significant = found.p_adjusted < 0.05
    assert significant[:4].all()
    assert significant[4:].sum() <= 1
    np.testing.assert_allclose(found.guessing[:4], 0.35, atol=0.1)


@pytest.mark.slow
def test_without_guessing_the_level_is_kept() -> None:
    p = []
    for seed in range(6):
        rng = np.random.default_rng(100 + seed)
        items = ItemParameters.from_difficulty(rng.uniform(1, 2, 12), rng.normal(0, 0.7, 12))
        p.append(guessing_test(simulate_responses(rng.normal(size=800), items, rng=rng)).p)
    # 72 tests at 5%: more than 9 rejections have a probability below .5%
    assert (np.concatenate(p) < 0.05).sum() <= 9
    assert np.concatenate(p).max() <= 0.5  # halved


def test_lsat6_needs_no_guessing(real_data: Path) -> None:
    table = pd.read_csv(real_data / "lsat6" / "responses.csv").rename(columns={"correct": "response"})
    found = guessing_test(ResponseMatrix.from_long(table))
    assert (found.p_adjusted > 0.05).all()
    assert found.statistic == pytest.approx(np.maximum(found.statistic, 0))
