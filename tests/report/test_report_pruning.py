"""The part of the report that reads like the appendix of a paper: abilities, guessing, every removal."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from report_study import render_report
from study_parts import table_of

import irtbench
from irtbench.building.prune_rules import KEEP_ALL, LALOR2016, Exclusion, PruneRules
from irtbench.config import StudySettings, read_study
from irtbench.report import paper_tables, prose
from irtbench.report.formatting import decimal, p_value
from irtbench.report.item_details import pruning_table
from irtbench.study.run import run_study, study_dimensions

STUDY = """
[study]
factors = 2
[data]
answers = "responses.csv"
items = "items.csv"
content = "responses"
[pruning]
preset = "lalor2016"
exclude = [{ item_id = "l0", reason = "ambiguous <wording>" }]
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> irtbench.Study:
    """Two abilities with eight items each; one item twice, one reversed, one that all got right, one nobody."""
    folder = tmp_path_factory.mktemp("study")
    rng = np.random.default_rng(5)
    parts = []
    for name in "lr":
        items = irtbench.ItemParameters.from_difficulty(
            rng.uniform(1.2, 2, 8), rng.normal(0, 0.7, 8), item_ids=[f"{name}{j}" for j in range(8)]
        )
        parts.append(irtbench.simulate_responses(rng.normal(size=600), items, rng=rng).values)
    values = np.hstack(parts)
    values[:, 3] = 1 - values[:, 3]
    copied = rng.random(600) < 0.4
    values[copied, 13] = values[copied, 12]
    ids = [f"{name}{j}" for name in "lr" for j in range(8)]
    wide = pd.DataFrame(values.astype(int), columns=ids).assign(easy=1, hard=0)
    wide.insert(0, "respondent_id", [f"p{i}" for i in range(600)])
    wide.to_csv(folder / "responses.csv", index=False)
    labels = ["left"] * 8 + ["right"] * 10
    pd.DataFrame({"item_id": [*ids, "easy", "hard"], "label": labels}).to_csv(folder / "items.csv", index=False)
    (folder / "study.toml").write_text(STUDY)
    return run_study(read_study(folder / "study.toml"))


@pytest.mark.slow
def test_abilities_are_counted_and_turned_to_the_scales(study: irtbench.Study) -> None:
    counted, turned = prose.abilities(study.dimensions, study.no_dimensions)
    assert "all 16 items and 600 respondents counts 2 abilities" in counted
    assert "100% of the items load most" in turned or "these do not: l3." in turned
    assert study.dimensions is not None
    eigenvalues, models, loadings = paper_tables.tables_of_dimensions(study.dimensions).values()
    assert eigenvalues["ability"].tolist()[:3] == [True, True, False]
    assert models["model"].tolist() == ["1 factor", "2 factors"]
    assert models["df"][1] == 15
    assert models["likelihood_ratio"][1] > 300
    left = loadings.set_index("scale").loc["left"]
    assert left["loading_left"] > 0.4 > abs(left["loading_right"])


@pytest.mark.slow
def test_one_ability_and_two_are_next_to_each_other_with_the_test_of_guessing(study: irtbench.Study) -> None:
    table = table_of(paper_tables.two_abilities_table, study)
    assert table["model"].tolist() == ["one ability", "two abilities"] * 2
    right = study.scales[1].pruning
    assert table.loc[2, "cfi"] == right.fit_before.cfi
    assert table.loc[3, "likelihood_ratio"] == right.checks.two_against_one.statistic
    guessing = table_of(paper_tables.guessing_table, study).set_index("scale")
    assert guessing.loc["right", "p"] == right.checks.guessing.p.min()
    assert guessing["n_items"].tolist() == [7, 8]
    assert prose.guessing(study.scales).startswith("Each of 15 items was given a guessing parameter by itself")


def test_what_cannot_be_fitted_is_listed_before_any_model(study: irtbench.Study) -> None:
    before = table_of(paper_tables.before_fit_table, study).set_index("item_id")
    assert before["reason"].to_dict() == {
        "l0": "taken out beforehand: ambiguous <wording>",
        "easy": "everybody was right",
        "hard": "nobody was right",
    }
    in_file = pruning_table(study.scales).set_index("item_id")
    assert in_file.loc[["l0", "easy", "hard"], "round"].tolist() == [0, 0, 0]
    assert in_file.loc["easy", "explanation"] == "everybody was right: share correct = 1.000"
    assert in_file.loc["hard", "n_items"] == 10


def test_every_round_says_what_left_and_why(study: irtbench.Study) -> None:
    table = table_of(paper_tables.removals_table, study)
    removals = {r.item_id: r for scale in study.scales for r in scale.pruning.removals if r.round}
    assert set(table["item_id"]) == {*removals, ""}
    assert removals["l3"].reason == "negative_slope"
    assert {"r4", "r5"} & set(removals)
    for scale in study.scales:
        own = table[table["scale"] == scale.name]
        assert own["n_in_round"].dropna().tolist() == [r.fitted.items.n_items for r in scale.pruning.rounds]
        assert own["cfi"].dropna().tolist() == [r.global_fit.cfi for r in scale.pruning.rounds]
        assert own["reason"].iloc[-1] == "nothing more to remove"
    (twin,) = {"r4", "r5"} & set(removals)
    removal = removals[twin]
    in_file = pruning_table(study.scales).set_index("item_id").loc[twin]
    assert in_file["explanation"] == (
        f"depends on {'r5' if twin == 'r4' else 'r4'}: LD-X² = {decimal(removal.value, 3)}, "
        f"p {p_value(removal.p)}, adjusted {p_value(removal.p_adjusted)}"
    )


@pytest.mark.slow
def test_the_page_shows_it_and_says_nothing_where_it_was_not_asked(study: irtbench.Study) -> None:
    page = render_report(study)
    for heading in ("Number of abilities and guessing", "Pruning, round by round", "Loading on left", "ambiguous &lt;"):
        assert heading in page
    bare = replace(
        study,
        dimensions=None,
        scales=tuple(replace(scale, pruning=replace(scale.pruning, checks=None)) for scale in study.scales),
    )
    assert "Number of abilities and guessing" not in render_report(bare)
    uncounted = replace(bare, no_dimensions="some two items were answered by nobody together")
    assert "was not counted, since some two items were answered by nobody together." in render_report(uncounted)


def test_rules_in_words_follow_the_rules() -> None:
    paper = prose.rules(LALOR2016)
    assert (
        paper.index("negative slope") < paper.index("S-X²") < paper.index("LD-X² if its p is at most 0.05 after Holm")
    )
    assert "a slope below 0.715" in paper
    own = prose.rules(
        PruneRules(
            order=("local_dependence", "item_fit"), at_once=3, min_items=12, min_per_group=2, protect=("a", "b"),
            exclude=(Exclusion("c", "typo"),),
        )
    )  # fmt: skip
    assert own.startswith("1 item taken out beforehand.")
    assert "slope" not in own
    assert own.index("LD-X², up to 3 times, if its p is at most 0.05 by a bootstrap of 99 samples") < own.index("S-X²")
    assert "fewer than 12 items, no content group with fewer than 2 and a and b are kept by request" in own
    assert "No rule removes other items." in prose.rules(KEEP_ALL)


def small(*, two_booklets: bool = False) -> irtbench.ResponseMatrix:
    rng = np.random.default_rng(2)
    items = irtbench.ItemParameters.from_difficulty(np.full(8, 1.6), np.linspace(-1, 1, 8))
    values = irtbench.simulate_responses(rng.normal(size=200), items, rng=rng).values.copy()
    if two_booklets:
        values[:100, :4] = values[100:, 4:] = np.nan
    return irtbench.ResponseMatrix(values, tuple(map(str, range(200))), items.item_ids)


@pytest.mark.slow
def test_abilities_are_counted_for_any_number_of_scales_or_the_reason_is_given() -> None:
    ids, wanted = small().item_ids, StudySettings(factors=3)
    one, none_said = study_dimensions(small(), {"all": ids}, wanted, None, print)
    assert (one.analysis.n_abilities, one.rotated, none_said) == (1, None, "")
    four, _ = study_dimensions(small(), {str(k): ids[2 * k : 2 * k + 2] for k in range(4)}, wanted, None, print)
    assert four.rotated is None  # more scales than factors
    assert four.models is not None
    for responses, why in (
        (small(two_booklets=True), "some two items were answered by nobody together"),
        (small().select_respondents(np.arange(200) < 5), "5 respondents and 8 items are too few"),
    ):
        assert study_dimensions(responses, {"all": ids}, wanted, None, print) == (None, why)
