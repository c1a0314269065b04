"""The methods section that build writes: its numbers are the study's, its references those of the methods named."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import run
from irtbench.report.prose import PROCEDURE, REFERENCES


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    rng = np.random.default_rng(5)
    items = irtbench.ItemParameters.from_difficulty([1.5] * 10, np.linspace(-1.5, 1.5, 10))
    drawn = irtbench.simulate_responses(rng.normal(size=500), items, rng=rng).to_long()
    flat = drawn["item_id"] == "item5"
    drawn["response"] = np.where(flat, rng.integers(0, 2, len(drawn)), drawn["response"])
    drawn.to_csv(folder / "r.csv", index=False)
    (folder / "s.toml").write_text(
        '[study]\nseed = 7\n[data]\nanswers = "r.csv"\ncontent = "responses"\n[screening]\nmin_responses = 2\n'
        "[pruning]\nbootstrap_samples = 19\n"
    )
    run(f"build {folder}/s.toml -o {folder}/out -q")
    return folder / "out"


def test_the_numbers_are_those_of_the_study(built: Path) -> None:
    text = (built / "methods.md").read_text(encoding="utf-8")
    removed = pd.read_csv(built / "pruning.csv")
    fit = json.loads((built / "summary.json").read_text())["scales"][0]["global_fit_after"]
    assert "All 500 respondents passed screening." in text
    assert "Of 10 items, 9 are kept." in text
    assert removed["reason"].tolist() == ["negative_slope"]
    assert "1 item removed (negative slope: 1)." in text
    assert f"M₂({fit['df']}) = {fit['m2']:.1f}" in text
    assert "from the seed 7." in text
    assert f"irtbench {irtbench.__version__}" in text


def test_what_is_named_is_cited_and_nothing_else(built: Path) -> None:
    text, references = (built / "methods.md").read_text(encoding="utf-8").split("# References")
    assert PROCEDURE in references
    for word, reference in REFERENCES.items():
        assert (word in text) == (reference in references), word
