"""Norm groups: columns of the respondents from a study's files to the bank, and percentiles within each group."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from report_study import render_report

from builders.command_line import run
from builders.refusals import is_refused
from irtbench import InputError, ItemParameters, Study, load_bank, read_study, run_study, save_bank, simulate_responses
from irtbench.config import StudyFile
from irtbench.data.readers.respondents import read_respondents, respondents_of, weights_of
from irtbench.scoring.scores import score_responses

N = 200
STUDY = """
[data]
answers = "answers.csv"
content = "responses"
{data}
[pruning]
preset = "none"
[score]
systems = ["systems.csv"]
{score}
"""
WORKERS = 'respondents = "workers.csv"\nrespondent_columns = { respondent_id = "worker" }'
GROUPS = 'norm_groups = ["group"]'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 people: those of group able have abilities 1 higher; the last person's group is not known."""
    folder = tmp_path_factory.mktemp("groups")
    rng = np.random.default_rng(4)
    items = ItemParameters.from_difficulty(rng.uniform(1.2, 2, 12), rng.normal(size=12))
    able = np.arange(N) % 3 == 0
    responses = simulate_responses(rng.normal(able * 1.0 - 1 / 3, 1), items, rng=rng)
    people = pd.DataFrame({"worker": responses.respondent_ids, "group": np.where(able, "able", "<i>other")})
    people.loc[N - 1, "group"] = ""
    people["weight"] = np.where(able, 2, 1)
    people.iloc[::-1].to_csv(folder / "workers.csv", index=False)
    responses.to_long().to_csv(folder / "answers.csv", index=False)
    system = simulate_responses([0.0], items, rng=rng, respondent_ids=["sys<b>"])
    system.to_long().to_csv(folder / "systems.csv", index=False)
    return folder


def study_of(folder: Path, data: str, score: str) -> StudyFile:
    path = folder / "study.toml"
    path.write_text(STUDY.format(data=data, score=score))
    return read_study(path)


@pytest.fixture(scope="module")
def study(folder: Path) -> Study:
    return run_study(study_of(folder, WORKERS, f'{GROUPS}\nnorm_weight = "weight"\nnorm = "empirical"'))


def test_columns_reach_the_bank_in_the_order_of_its_respondents(study: Study, folder: Path, tmp_path: Path) -> None:
    norms = study.bank.scales[0].norms
    people = pd.read_csv(folder / "workers.csv", keep_default_na=False).set_index("worker")
    own = people.loc[list(study.scales[0].abilities.respondent_ids)]
    assert norms.groups["group"] == tuple(value or None for value in own["group"])
    assert norms.weights.tolist() == own["weight"].tolist()
    save_bank(study.bank, tmp_path / "bank.json")
    again = load_bank(tmp_path / "bank.json").scales[0].norms
    assert (again.groups, again.group("group", "able").n) == (norms.groups, 67)


def test_percentiles_within_groups_are_those_of_the_groups_alone(study: Study, folder: Path) -> None:
    found = study.group_percentiles
    assert found["value"].tolist() == ["<i>other", "able"]  # the larger first; the person without a group is in none
    assert found["n_people"].tolist() == [132, 67]
    columns, responses = ["percentile", "percentile_lower", "percentile_upper"], pd.read_csv(folder / "systems.csv")
    for _, row in found.iterrows():
        alone = score_responses(study.bank, responses, norm="empirical", norm_group=("group", row["value"])).loc[0]
        assert row[columns].tolist() == pytest.approx(alone[columns].tolist())
    other, able = found["percentile"]
    assert other - able > 15  # the same answers rank higher among less able people; planted difference of 1


def test_the_report_shows_groups_and_the_settings(study: Study) -> None:
    page = render_report(study)
    assert '<td class="words">&lt;i&gt;other</td>' in page
    assert "<i>other" not in page
    text = re.sub(r"\s+", " ", page)
    assert "is its rank among the screened respondents, weighted by weight;" in text
    row = study.group_percentiles.iloc[1]
    assert f"{row['percentile']:.1f} [{row['percentile_lower']:.1f}, {row['percentile_upper']:.1f}]" in page


@pytest.mark.parametrize(
    ("data", "score", "message"),
    [
        (WORKERS, "", "data.respondents: no column of it is asked for; expected score.norm_groups"),
        (WORKERS, 'norm_groups = ["land"]', "workers.csv: column 'land' missing; it has: worker, group, weight"),
        ("", GROUPS, "answers.csv: column 'group' missing"),
        (WORKERS, 'norm_group = { group = "none" }', "no screened respondent has group none; expected one of <i>other"),
        (WORKERS, 'norm_weight = "group"', "respondent r1 has the weight able; expected a positive number"),
        ('respondents = "workers.csv"', GROUPS, "column 'respondent_id' missing"),
        (WORKERS.replace("respondent_id", "id"), GROUPS, "unknown name id; expected respondent_id"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_fitted(
    folder: Path, data: str, score: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("irtbench.study.run.study_scale", lambda *_: pytest.fail("fitted"))
    is_refused(re.escape(message), run_study, study_of(folder, data, score))


def test_one_value_a_respondent(tmp_path: Path) -> None:
    table = pd.DataFrame({"respondent_id": ["a", "b", "a", "a"], "land": ["", "fr", "de", "de"]})
    assert respondents_of(table, ["land"], "t.csv")["land"].to_dict() == {"a": "de", "b": "fr"}
    with pytest.raises(InputError, match=r"t\.csv, column land: respondent a has both de and it; expected one value"):
        respondents_of(table.assign(land=["it", "fr", "", "de"]).iloc[::-1], ["land"], "t.csv")
    (tmp_path / "r.csv").write_text("who,land\n01,NA\n2,it\n")
    found = read_respondents(tmp_path / "r.csv", ["land"], columns={"respondent_id": "who"})
    assert found["land"].to_dict() == {"01": None, "2": "it"}
    is_refused("respondent 01 has no weight; expected a positive number", weights_of, found, "land", "r.csv")


def test_build_tells_the_scores_in_words_and_writes_the_groups(folder: Path, tmp_path: Path) -> None:
    study_of(folder, WORKERS, f'{GROUPS}\nmethod = "map"')
    done = run(f"build {folder}/study.toml -o {tmp_path}/out")
    (score,) = pd.read_csv(tmp_path / "out" / "scores.csv").query("role == 'system'").to_dict("records")
    assert score["method"] == "map"
    place = f"[{score['percentile_lower']:.0f}, {score['percentile_upper']:.0f}]"
    assert f"sys<b> on all: better than {score['percentile']:.0f}% of the crowd {place}" in done.out
    groups = pd.read_csv(tmp_path / "out" / "group_percentiles.csv")
    assert groups["value"].tolist() == ["<i>other", "able"]
    provenance = load_bank(tmp_path / "out" / "bank.json").scales[0].provenance
    assert (provenance["scoring"]["method"], provenance["scoring"]["norm_groups"]) == ("map", ["group"])
    assert "workers.csv" in provenance["data"]


def test_norms_of_a_study_are_weighted_to_margins(folder: Path) -> None:
    shares = 'norm_margins = { group = { able = 0.6, "<i>other" = 0.4 } }'
    (scale,) = run_study(study_of(folder, WORKERS, shares)).bank.scales
    able, weights = np.array(scale.norms.groups["group"], dtype=object) == "able", scale.norms.weights
    assert weights[able].sum() / weights[:-1].sum() == pytest.approx(0.6)
    assert scale.norms.effective_n < N
    told = scale.provenance["scoring"]
    assert (told["norm"], told["norm_margins"]["group"]["able"]) == ("smoothed", 0.6)
    wrong = study_of(folder, WORKERS, "norm_margins = { group = { able = 1.0 } }")
    is_refused("no share of group <i>other", run_study, wrong)
    saying = "norm_margins: the norm normal has no weights"
    is_refused(saying, study_of, folder, WORKERS, shares + '\nnorm = "normal"')
