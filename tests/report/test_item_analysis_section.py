"""The report's section on the items as they were answered: reliability, classical statistics, options that mislead."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from report_study import render_report

import irtbench
from irtbench.report import item_details
from irtbench.report.item_details import items_of_study
from irtbench.report.page import item_anchor

STUDY = """
[data]
answers = "answers.csv"
items = "items.csv"
[pruning]
preset = "none"
"""


def study_of(folder: Path, more: str = "") -> irtbench.Study:
    """Ten items; of one, the able who miss it choose one and the same wrong option."""
    rng = np.random.default_rng(4)
    ids = [f"i{k}" for k in range(10)]
    items = irtbench.ItemParameters.from_difficulty(rng.uniform(1, 2, 10), np.linspace(-1.5, 1.5, 10), item_ids=ids)
    theta = rng.normal(size=500)
    responses = irtbench.simulate_responses(theta, items, rng=rng)
    table = responses.to_long()
    able = theta[pd.Index(responses.respondent_ids).get_indexer(table["respondent_id"])] > 0.3
    wrong = np.where((table["item_id"] == "i9") & able, "b", rng.choice(["b", "c", "d"], len(table)))
    answers = table.assign(answer=np.where(table["response"] == 1, "a", wrong)).drop(columns="response")
    answers.to_csv(folder / "answers.csv", index=False)
    pd.DataFrame({"item_id": ids, "key": "a "}).to_csv(folder / "items.csv", index=False)
    (folder / "study.toml").write_text(STUDY + more)
    return irtbench.run_study(irtbench.read_study(folder / "study.toml"))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> irtbench.Study:
    return study_of(tmp_path_factory.mktemp("misleading"))


def test_its_figures_are_those_of_the_functions(study: irtbench.Study) -> None:
    (scale,) = study.scales
    assert scale.analysis is not None
    classical = irtbench.classical_statistics(scale.responses)
    table = item_details.classical_table(study.scales).set_index("item_id")
    assert table["item_rest"].is_monotonic_increasing
    assert table.loc[list(classical.item_ids), "biserial"].tolist() == pytest.approx(classical.biserial.tolist())
    abilities = irtbench.estimate_ability(scale.responses, scale.scale.items)
    consistency = irtbench.internal_consistency(scale.responses)
    row = item_details.reliability_table(study.scales).iloc[0]
    assert row["alpha"] == consistency.alpha
    assert row["marginal"] == irtbench.measurement_precision(scale.scale.items).marginal_reliability
    assert row["empirical"] == pytest.approx(
        irtbench.empirical_reliability(abilities.theta, abilities.standard_error), abs=1e-6
    )
    assert row["n_items_spearman_brown"] == np.ceil(10 * irtbench.times_as_long(consistency.alpha, 0.9))


def test_an_option_that_draws_the_able_is_below_its_key(study: irtbench.Study) -> None:
    table = item_details.options_table(study.scales)
    mine = table[table["item_id"] == "i9"]
    assert mine["option"].tolist() == ["a", "b"]
    assert mine["is_key"].tolist() == [True, False]
    assert "able" in mine["remark"].iloc[1]
    assert "an option is flagged" in item_details.options_in_words(study.scales)
    (scale,) = study.scales  # and without raw answers there are no options
    assert scale.analysis is not None
    graded = (replace(scale, analysis=replace(scale.analysis, options=scale.analysis.options.iloc[:0])),)
    assert item_details.options_table(graded).empty
    assert item_details.options_in_words(graded) == ""


@pytest.mark.slow
def test_the_page_has_the_section(study: irtbench.Study) -> None:
    page = render_report(study)
    section = page[page.index("<h2>Items as they were answered") :]
    for words in ("Items as they were answered", "Wright map", "EAP of the sum score", "Spearman-Brown", "Upper third"):
        assert words in section
    assert render_report(study) == page


def test_options_of_removed_items_are_shown_where_their_row_is_opened(tmp_path: Path) -> None:
    found = study_of(tmp_path, 'exclude = [{ item_id = "i9", reason = "misleads" }]\n')
    analysis = found.scales[0].analysis
    assert set(analysis.options["item_id"]) == {f"i{k}" for k in range(9)}
    assert set(analysis.removed_options["item_id"]) == {"i9"}
    table, details = items_of_study(found.scales, found.items, set(found.items.item_ids))
    drawn = details["items"][item_anchor("i9")]["options"]  # type: ignore[index]
    assert [row[0] for row in drawn][:2] == ["a", "b"]
    assert "able" in drawn[1][-1]
    assert "a (key)" in table.loc[table["item_id"] == "i9", "answers_by_third"].iloc[0]
    # what is said of the scale is of the items kept
    assert "i9" not in set(item_details.options_table(found.scales).get("item_id", []))
