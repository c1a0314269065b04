"""``irtbench fit --device``: every kind of fit is computed where it says, or says why not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from builders.command_line import refused, run
from builders.pretended_device import pretended_gpu

KINDS: dict[str, list[object]] = {
    "one ability": [],
    "two abilities": ["--factors", 2],
    "testlets": ["--testlets", "passage"],
    "upper asymptotes": ["--model", "4pl"],
}


@pytest.fixture(scope="module")
def responses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten items, eight of them of two passages, 500 respondents, as a long table."""
    rng = np.random.default_rng(0)
    own = rng.normal(size=(500, 3)) * [1.5, 1.2, 0]
    z = 1.3 * rng.normal(size=(500, 1)) + own[:, [0] * 4 + [1] * 4 + [2] * 2] + np.linspace(-1, 1, 10)
    values = (rng.random(z.shape) < 1 / (1 + np.exp(-z))).astype(int)
    rows = [(f"r{i}", f"q{j}", values[i, j], "AB"[j // 4] if j < 8 else "") for i in range(500) for j in range(10)]
    path = tmp_path_factory.mktemp("device") / "responses.csv"
    pd.DataFrame(rows, columns=["respondent_id", "item_id", "response", "passage"]).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("kind", ["one ability", *(pytest.param(k, marks=pytest.mark.slow) for k in list(KINDS)[1:])])
def test_the_tables_are_the_same_on_another_device(kind: str, responses: Path, tmp_path: Path) -> None:
    run(f"fit {responses}", *KINDS[kind], "--device", "cpu", "-o", tmp_path / "here")
    with pretended_gpu() as wanted:
        run(f"fit {responses}", *KINDS[kind], "--device", "cuda", "-o", tmp_path / "there")
    assert set(wanted) == {"cuda"}
    for file in ("items.csv", "scores.csv"):
        here, there = (pd.read_csv(tmp_path / place / file) for place in ("here", "there"))
        pd.testing.assert_frame_equal(there, here, rtol=1e-9, atol=1e-11)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("kind", KINDS)
def test_a_gpu_that_is_not_there_is_said(kind: str, responses: Path, tmp_path: Path) -> None:
    refused(f"fit {responses}", *KINDS[kind], "--device", "cuda", "-o", tmp_path / "out", saying="torch sees no GPU")
    assert not (tmp_path / "out").exists()
