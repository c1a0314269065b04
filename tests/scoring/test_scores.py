"""The table of scores: columns, flags, items missing or unknown, and where a place among people is told."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from builders.command_line import run
from builders.refusals import is_refused
from builders.scales import scale_of
from irtbench import ItemBank, ItemTable, Norms, Quadrature, ResponseMatrix, Scale, percentiles, save_bank
from irtbench.bank.scale import ScaleLine
from irtbench.data.grading import GradingSettings
from irtbench.models.curves import simulate_responses
from irtbench.models.item_parameters import ItemParameters
from irtbench.scoring import scores
from irtbench.scoring.ability import BOUND, estimate_ability
from irtbench.scoring.item_error import with_item_error
from irtbench.scoring.percentiles import reliability
from irtbench.scoring.scores import ScoringSettings, score_answers, score_responses


def make_scale(name: str, n_items: int, *, norms: Norms | None = None) -> Scale:
    rng = np.random.default_rng(n_items)
    ids = [f"{name[0]}{k + 1:02d}" for k in range(n_items)]
    items = ItemParameters.from_difficulty(rng.lognormal(0.3, 0.3, n_items), rng.normal(size=n_items), item_ids=ids)
    details = replace(ItemTable.plain(ids), key=(name,) * n_items)
    return Scale(name, items, details, norms)


@pytest.fixture
def bank() -> ItemBank:
    return ItemBank((make_scale("entailment", 20, norms=Norms(np.array([-1.0, 0.0, 1.0]))), make_scale("neutral", 8)))


def ones_and_zeros(bank: ItemBank) -> ResponseMatrix:
    """Three respondents: all right, all wrong, and one who answered three items of the first scale."""
    ids = tuple(item for scale in bank.scales for item in scale.items.item_ids)
    values = np.stack([np.ones(len(ids)), np.zeros(len(ids)), np.full(len(ids), np.nan)])
    values[2, :3] = [1, 0, 1]
    return ResponseMatrix(values, ("best", "worst", "short"), ids)


def test_flags_say_what_a_number_cannot(bank: ItemBank) -> None:
    scores = score_responses(bank, ones_and_zeros(bank))
    assert scores["flags"].tolist() == ["all_correct", "all_correct", "all_wrong", "all_wrong", "few_items", "no_items"]
    empty = scores.iloc[5]
    assert np.isnan([empty["accuracy"], empty["person_fit"]]).all()
    assert (empty["theta"], empty["percentile"]) == (pytest.approx(0, abs=1e-9), pytest.approx(50))
    # by maximum likelihood, all right is at its bound
    scores = score_responses(bank, ones_and_zeros(bank), ScoringSettings(method="ml"))
    assert scores["flags"].tolist()[:4] == ["all_correct;at_bound"] * 2 + ["all_wrong;at_bound"] * 2
    assert scores["theta"].tolist()[:4] == [BOUND, BOUND, -BOUND, -BOUND]
    assert scores["percentile"].tolist()[:4] == pytest.approx([100, 100, 0, 0], abs=1e-6)
    empty = scores.iloc[5]
    assert empty["flags"] == "no_items"
    assert np.isnan([empty["theta"], empty["percentile"]]).all()
    # the prior is the scale's population
    population = Quadrature(np.array([1.0, 2.0, 3.0]), np.log([0.25, 0.5, 0.25]))
    nothing = ResponseMatrix(np.full((1, 1), np.nan), ("r",), ("n01",))
    assert score_responses(replace(bank.scales[1], population=population), nothing)["theta"][0] == pytest.approx(2.0)


def test_unknown_items_are_an_error_that_names_five(bank: ItemBank) -> None:
    ids = ("n01", *(f"x{k}" for k in range(7)))
    responses = ResponseMatrix(np.ones((1, 8)), ("system",), ids)
    is_refused("items unknown to the bank: x0, x1, x2, x3, x4 and 2 more", score_responses, bank, responses)
    ignored = score_responses(bank, responses, unknown_items="ignore")
    pd.testing.assert_frame_equal(ignored, score_responses(bank, responses.select_items(["n01"])))


def test_answers_are_graded_by_the_banks_key(bank: ItemBank) -> None:
    rows = [("s", "e01", "entailment"), ("s", "e02", "neutral"), ("s", "n01", " neutral"), ("s", "n03", "Neutral")]
    answers = pd.DataFrame(rows, columns=["respondent_id", "item_id", "answer"])
    # items share keys, so that "Neutral" can only be the label "neutral"
    for grading in (None, GradingSettings(normalise=("strip", "casefold"))):
        scores = score_answers(bank, answers, grading).set_index("scale")
        assert scores["n_items"].to_dict() == {"entailment": 2, "neutral": 2}
        assert scores["n_correct"].to_dict() == {"entailment": 1, "neutral": 2}
    first = bank.scales[0]
    responses = ResponseMatrix(np.array([[1.0, 0.0]]), ("s",), ("e01", "e02"))
    assert scores["theta"]["entailment"] == pytest.approx(score_responses(first, responses)["theta"][0])
    keyless = replace(first, details=replace(first.details, key=(None, *first.details.key[1:])))
    is_refused("no key for item e01", score_answers, keyless, answers[:1])
    torn = ItemBank((first, replace(first, name="other", details=replace(first.details, key=("neutral",) * 20))))
    saying = "item e01 has the key entailment in one scale and neutral in other"
    is_refused(saying, score_answers, torn, answers[:1])


def test_settings_choose_the_estimator_the_norm_and_the_error(bank: ItemBank) -> None:
    scale = bank.scales[0]
    items = replace(scale.items, covariance=np.broadcast_to(np.diag([0.05, 0.05, 0]), (20, 3, 3)))
    norms = Norms(np.array([-1.0, 0.0, 1.0]), groups={"language": ("en", "en", "de")})
    scale = replace(scale, items=items, norms=norms)
    responses = simulate_responses([-1.0, 0.2, 1.4], items, rng=np.random.default_rng(0))
    group = ("language", "en")
    scores = score_responses(
        scale, responses, method="wle", item_error="delta", norm="smoothed", norm_group=group, level=0.8
    )
    known = estimate_ability(responses, items, method="wle", level=0.8)
    found = with_item_error(known, responses, items, item_error="delta")
    np.testing.assert_array_equal(scores["theta"], known.theta)
    np.testing.assert_allclose(scores["theta_upper"], found.upper)
    place = percentiles(found, norms.group(*group), norm="smoothed")
    np.testing.assert_allclose(scores["percentile_lower"], place.lower)
    np.testing.assert_allclose(scores["percentile_empirical"], [0, 50, 100])
    assert (scores["method"] == "wle").all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "mode"}, "method: expected 'eap', 'map', 'ml', 'wle' or 'eap_sum' but got 'mode'"),
        ({"item_error": "yes"}, "item_error: expected 'auto', 'none', 'delta', 'draw' or 'integrate' but got 'yes'"),
        ({"norm": "rank"}, "norm: expected 'normal', 'empirical' or 'smoothed' but got 'rank'"),
        ({"level": 95}, r"ScoringSettings.level: expected a number in \(0, 1\) but got 95"),
        ({"norm_group": ("language", "en")}, "expected empirical or smoothed for a group"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    is_refused(message, ScoringSettings, **settings)


def test_few_answers_of_many_items_are_scored_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scale = make_scale("wide", 300, norms=Norms(np.array([-1.0, 0.0, 1.0])))
    rng = np.random.default_rng(0)
    responses = simulate_responses(rng.normal(size=130), scale.items, rng=rng, missing=0.95)
    in_parts = score_responses(scale, responses)
    monkeypatch.setattr(scores, "SPARSE", 0.0)
    pd.testing.assert_frame_equal(in_parts, score_responses(scale, responses))
    assert in_parts["person_fit"].notna().sum() > 100


# --- a percentile is a place among people only where answers are like a person's, and enough ------------------------

RNG = np.random.default_rng(1)
ITEMS = ItemParameters.from_difficulty(RNG.lognormal(0.3, 0.2, 40), np.linspace(-2.5, 2.5, 40))
SCALE = scale_of(ITEMS, Norms(RNG.normal(size=400)))
EASY = np.where(np.arange(40) < 8, 1.0, np.nan)
REVERSED = (np.arange(40) >= 20).astype(float)
PERSON = (np.arange(40) < 22).astype(float)


def test_each_reason_by_itself() -> None:
    few = np.where((np.arange(40) >= 18) & (np.arange(40) < 22), [0.0, 1.0] * 20, np.nan)
    scores = score_responses(SCALE, [EASY, few, REVERSED, PERSON, [np.nan] * 40])
    found = scores["percentile_flags"].tolist()
    assert found == ["little_information", "few_items", "unlikely_pattern", "", "no_items"]
    assert scores["percentile"].notna().all()  # the table keeps the numbers
    bound = score_responses(SCALE, [[1.0] * 40], method="ml")
    assert bound["percentile_flags"].tolist() == ["little_information;at_bound"]
    linked = replace(SCALE, line=ScaleLine(1.0, 0.0, np.diag([0.0, 0.6])))
    assert score_responses(linked, [PERSON])["percentile_flags"][0] == "little_information"
    # 1 - .36 / 1, 1 - .36 / .72, and not below 0
    assert reliability(np.array([0.6, 1.2])).tolist() == pytest.approx([0.64, 0.0])
    assert reliability(np.array([0.6]), 0.72**0.5)[0] == pytest.approx(0.5)


def test_of_people_a_twentieth_is_refused_and_of_clickers_most() -> None:
    rng = np.random.default_rng(2)
    people = simulate_responses(rng.normal(size=4000), ITEMS, rng=rng)
    flags = score_responses(SCALE, people)["percentile_flags"]
    assert (flags == "").mean() == pytest.approx(0.955, abs=0.015)  # lz* is a little skewed
    clickers = score_responses(SCALE, (rng.random((500, 40)) < 0.5).astype(float))["percentile_flags"]
    assert clickers.str.contains("unlikely_pattern").mean() > 0.9


def test_the_command_refuses_the_sentence_and_says_why(tmp_path: Path) -> None:
    save_bank(ItemBank((SCALE,)), tmp_path / "bank.json")
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
