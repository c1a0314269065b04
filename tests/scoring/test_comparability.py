"""A percentile is reported as a place among people only where answers are like a person's, and enough."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import run
from builders.scales import scale_of
from irtbench.scoring.percentiles import reliability

RNG = np.random.default_rng(1)
ITEMS = irtbench.ItemParameters.from_difficulty(RNG.lognormal(0.3, 0.2, 40), np.linspace(-2.5, 2.5, 40))
SCALE = scale_of(ITEMS, irtbench.Norms(RNG.normal(size=400)))
EASY = np.where(np.arange(40) < 8, 1.0, np.nan)
REVERSED = (np.arange(40) >= 20).astype(float)
PERSON = (np.arange(40) < 22).astype(float)


def test_each_reason_by_itself() -> None:
    few = np.where((np.arange(40) >= 18) & (np.arange(40) < 22), [0.0, 1.0] * 20, np.nan)
    scores = irtbench.score_responses(SCALE, [EASY, few, REVERSED, PERSON, [np.nan] * 40])
    found = scores["percentile_flags"].tolist()
    assert found == ["little_information", "few_items", "unlikely_pattern", "", "no_items"]
    assert scores["percentile"].notna().all()  # the table keeps the numbers
    bound = irtbench.score_responses(SCALE, [[1.0] * 40], method="ml")
    assert bound["percentile_flags"].tolist() == ["little_information;at_bound"]
    linked = replace(SCALE, line=irtbench.ScaleLine(1.0, 0.0, np.diag([0.0, 0.6])))
    assert irtbench.score_responses(linked, [PERSON])["percentile_flags"][0] == "little_information"
    # 1 - .36 / 1, 1 - .36 / .72, and not below 0
    assert reliability(np.array([0.6, 1.2])).tolist() == pytest.approx([0.64, 0.0])
    assert reliability(np.array([0.6]), 0.72**0.5)[0] == pytest.approx(0.5)


def test_of_people_a_twentieth_is_refused_and_of_clickers_most() -> None:
    rng = np.random.default_rng(2)
    people = irtbench.simulate_responses(rng.normal(size=4000), ITEMS, rng=rng)
    flags = irtbench.score_responses(SCALE, people)["percentile_flags"]
    assert (flags == "").mean() == pytest.approx(0.955, abs=0.015)  # lz* is a little skewed
    clickers = irtbench.score_responses(SCALE, (rng.random((500, 40)) < 0.5).astype(float))["percentile_flags"]
    assert clickers.str.contains("unlikely_pattern").mean() > 0.9


def test_the_command_refuses_the_sentence_and_says_why(tmp_path: Path) -> None:
    irtbench.save_bank(irtbench.ItemBank((SCALE,)), tmp_path / "bank.json")
    short = np.where(np.arange(40) < 3, 1.0, np.nan)
    saying = {}
    for name, values in (("clicker", REVERSED), ("short", short), ("easy", EASY), ("person", PERSON)):
        frame = pd.DataFrame([values], columns=list(ITEMS.item_ids), index=pd.Index([name], name="respondent_id"))
        frame.to_csv(tmp_path / "r.csv")
        saying[name] = " ".join(run("score bank.json r.csv -o s.csv", cwd=tmp_path).out.split())
        assert np.isfinite(pd.read_csv(tmp_path / "s.csv")["percentile"]).all()
    assert "person on all: better than" in saying["person"]
    assert all("on all: better than" not in saying[name] for name in ("clicker", "short", "easy"))
    assert "clicker on all: no percentile is given: the answers are unlike those of people" in saying["clicker"]
    assert ", below -1.645)" in saying["clicker"]
    assert "given: 3 items answered are fewer than 5" in saying["short"]
    assert "given: the 8 items answered say too little about this ability" in saying["easy"]
    assert all("%" not in saying[name].split("In brackets")[0] for name in ("clicker", "short", "easy"))
