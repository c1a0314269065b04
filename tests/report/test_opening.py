"""The first screen of the report: systems among people or why not, what was removed, warnings, in words and links."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

import irtbench
from irtbench.building.prune_rules import Removal
from irtbench.diagnostics.internal_consistency import MORE_THAN_KEY
from irtbench.report import html, scoring_figures
from irtbench.report.drawing import figure_of
from irtbench.report.page import FigureOfPanels, Link, Sentence, item_anchor
from irtbench.report.prose import likeness
from irtbench.scoring.scores import ScoringSettings

ROW: dict[str, Any] = {
    "respondent_id": "s", "scale": "x", "n_items": 20, "theta": -0.2, "percentile": 43.2, "percentile_lower": 21.9,
    "percentile_upper": 66.0, "person_fit": 0.1, "percentile_flags": "",
}  # fmt: skip


def words(sentence: Sentence) -> str:
    return "".join(part if isinstance(part, str) else part.text for part in sentence)


def test_a_percentile_is_printed_with_its_interval_and_whom_it_refers_to() -> None:
    assert scoring_figures.place(ROW, ScoringSettings()) == "s on x is better than 43% [22, 66] of the people."
    by_group = ScoringSettings(norm="smoothed", norm_group=("country", "de"))
    said = scoring_figures.place(ROW, by_group)
    assert said.endswith("of the people that the norm sample represents with country de.")
    without = scoring_figures.place(ROW | {"percentile": np.nan}, ScoringSettings(norm="empirical"))
    assert without == "s on x: ability −0.20; no percentile without a norm sample."
    assert (
        scoring_figures.place(ROW, ScoringSettings(), "models") == "s on x is better than 43% [22, 66] of the models."
    )


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ("little_information", "the 20 items answered say too little about this ability"),
        ("unlikely_pattern", "the answers are unlike those of people of this ability (lz* −2.50, below"),
        ("no_items", "no item was answered"),
    ],
)
def test_a_percentile_that_is_refused_is_not_printed(flags: str, why: str) -> None:
    said = scoring_figures.place(ROW | {"percentile_flags": flags, "person_fit": -2.5}, ScoringSettings())
    assert said.startswith(f"s on x: no percentile is given: {why}")
    assert "better" not in said
    assert "43" not in said


def study(**parts: Any) -> irtbench.Study:
    return cast(irtbench.Study, SimpleNamespace(**parts))


def scale(name: str = "x", removals: tuple[Removal, ...] = (), **parts: Any) -> irtbench.ScaleStudy:
    items = irtbench.ItemParameters.from_difficulty([1.0, -0.5], [-1.0, 1.0], item_ids=["i1", "i2"])
    pruning = SimpleNamespace(
        removals=removals, rules=None, rejected=None, checks=None, kept=("i1", "i2"), not_available="", mended="",
        guessing=0.0, fit_after=None,
    )  # fmt: skip
    made: dict[str, Any] = {
        "name": name, "pruning": pruning, "scale": SimpleNamespace(items=items), "analysis": None, "doubts": (),
        "responses": SimpleNamespace(n_items=9, n_respondents=50), "converged": True,
        "fitted": None, "fits": {}, "n_respondents": 50, "not_normal": "",
    }  # fmt: skip
    return cast(irtbench.ScaleStudy, SimpleNamespace(**(made | parts)))


def test_of_many_systems_the_percentiles_are_drawn_and_those_without_one_are_named() -> None:
    rng = np.random.default_rng(1)
    rows = [
        ROW | {"respondent_id": f"s{k}", "scale": name, "theta": theta, "percentile": 4 * theta}
        | {"percentile_lower": 4 * theta - 1, "percentile_upper": 4 * theta + 2}
        for name in ("x", "y")
        for k, theta in enumerate(rng.permutation(25).tolist())
    ]  # fmt: skip
    refused = ROW | {"respondent_id": "unknown", "theta": np.nan, "percentile_flags": "no_items"}
    scores = pd.DataFrame([*rows, refused]).assign(percentile_empirical=np.nan)
    settings = SimpleNamespace(scoring=ScoringSettings())
    said = [words(sentence) for sentence in html.results_of(study(system_scores=scores, settings=settings, bank=None))]
    assert said == ["unknown on x: no percentile is given: no item was answered."]

    (block,) = scoring_figures.percentile_figures(scores, ScoringSettings())
    assert isinstance(block, FigureOfPanels)
    assert block.caption.startswith("Percentiles: the share of the people whom each system exceeds")
    assert block.caption.endswith("Shown are 20 of 25 systems, from the highest to the lowest.")
    (drawing,) = block.panels
    assert drawing.description.startswith(scoring_figures.place(rows[0], ScoringSettings()))
    with figure_of(drawing) as figure:
        (ax,) = figure.axes
        shown = [label.get_text() for label in ax.get_yticklabels()]
        means = scores[:-1].groupby("respondent_id")["percentile"].mean().sort_values(ascending=False, kind="stable")
        assert (means[shown].diff().dropna() <= 0).all()
        assert (means[shown[0]], means[shown[-1]]) == (means.max(), means.min())
        known = scores[:-1].set_index(["scale", "respondent_id"])["percentile"]
        for name, line in zip(("x", "y"), ax.lines, strict=True):
            assert line.get_xdata() == pytest.approx(known[name][shown].to_numpy())
        assert [text.get_text() for text in ax.get_legend().get_texts()] == ["x", "y"]
        assert "unknown" not in shown
    few = scores.head(3)
    assert scoring_figures.percentile_figures(few, ScoringSettings()) == []
    assert len(scoring_figures.places(few, ScoringSettings())) == 3


def test_items_that_the_data_or_the_prior_decide_about_are_named() -> None:
    found = {"prior_decides": ["i1"], "guessing_not_identified": ["i1", "i2"], "slope_not_identified": ["i2"]}
    fitted = SimpleNamespace(converged=True, summary=lambda: found | {"difficulty_not_identified": []})
    said = html.warnings([scale(fitted=fitted)], irtbench.FitSettings(kind="3pl"))
    assert [words(sentence) for sentence in said[:3]] == [
        "Scale x: slope not identified by the data: i2.",
        "Scale x: guessing not identified by the data: i1 and i2.",
        "Scale x: the prior of guessing decides about 1 item, estimated outside of the interval that the responses "
        "give: i1.",
    ]
    assert Link("i2", "item-i2") in said[0]
    assert not any(html._items_to_read(scale(fitted=fitted, scale=None), irtbench.FitSettings()).values())


def test_warnings_name_the_items_concerned() -> None:
    test = SimpleNamespace(item_ids=("i1", "i2"), p_adjusted=np.array([0.2, 0.01]))
    options = pd.DataFrame({"item_id": ["i1", "i2", "i2"], "flags": ["", "", f"chosen by nobody; {MORE_THAN_KEY}"]})
    warned = scale(analysis=SimpleNamespace(options=options), doubts=("the slopes are all alike",))
    warned.pruning.checks = SimpleNamespace(guessing=test)  # type: ignore[misc, assignment]
    said = html.warnings((warned,), irtbench.FitSettings())
    assert [words(sentence) for sentence in said] == [
        "Scale x: the slopes are all alike.",
        "Scale x: a guessing parameter would fit 1 item significantly better, and the model has none for each item "
        "(see the test of guessing): i2.",
        "Scale x: a wrong option goes with ability more than the key does, see the key: i2.",
        "Scale x: kept, though the able miss them more often: i2.",
    ]
    assert all(Link("i2", "item-i2") in sentence for sentence in said[1:])
    assert len(html.warnings((warned,), irtbench.FitSettings(kind="3pl"))) == 3


def test_scales_are_grouped_by_whether_the_answers_look_like_a_persons() -> None:
    fits = {"verbs": 0.5, "nouns": -4.0, "names": np.nan}
    scores = pd.DataFrame({"respondent_id": "s", "scale": list(fits), "n_items": 9, "person_fit": list(fits.values())})
    columns = ["respondent_id", "scale", "level", "difficulty_from", "difficulty_to", "n_items", "observed", "z"]
    said = likeness(scores, irtbench.Explanation(pd.DataFrame(), pd.DataFrame(columns=columns)), "s")
    assert "do not look like a person’s of its ability on nouns (lz* −4.00)" in said
    assert ". They look like a person’s on verbs (lz* 0.50)" in said
    assert said.endswith("Person fit is not defined on names.")


def test_addresses_differ_and_hold_nothing_to_be_escaped() -> None:
    ids = ["a", "A", "a b", "a~20b", 'x"><script>', "é", "e", "#", "%23", "\ud800", "", "~"]
    anchors = [item_anchor(item) for item in ids]
    assert len(set(anchors)) == len(ids)
    assert all(set(anchor) <= set(map(chr, range(33, 127))) - set("\"'<>&#%") for anchor in anchors)
