"""The steps before anything is fitted: files, screening, division into scales, norm columns, provenance."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import irtbench
from builders.refusals import is_refused
from irtbench.config import StudyFile, read_study
from irtbench.data.input_error import InputError
from irtbench.study.person_screening import agreement_of_kept, screen_respondents
from irtbench.study.screening_effect import agreement_on
from irtbench.study.study_data import check_named_items, divide, read_data

STUDY = """
[data]
answers = "answers.csv"
items = "items.csv"
[screening]
min_responses = 3
[score]
norm_groups = ["country"]
norm_weight = "weight"
"""
N = 6


@pytest.fixture
def settings(tmp_path: Path) -> StudyFile:
    """Six people, of whom the last answered two items of four; a is always right, the others by turns."""
    rows: list[dict[str, object]] = [
        {"respondent_id": f"p{i}", "item_id": item, "answer": "y" if item == "a" or (i + k) % 2 else "n"}
        | {"country": "de" if i % 2 else "fr", "weight": 1 + i}
        for i in range(N)
        for k, item in enumerate("abcd")
        if i < N - 1 or k < 2
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "answers.csv", index=False)
    pd.DataFrame({"item_id": list("abcd"), "key": "y", "label": ["u", "u", "v", "v"]}).to_csv(
        tmp_path / "items.csv", index=False
    )
    (tmp_path / "study.toml").write_text(STUDY)
    return read_study(tmp_path / "study.toml")


def test_files_are_read_graded_screened_and_compared(settings: StudyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    data = read_data(settings)
    assert data.responses.to_matrix().values[0].tolist() == [1, 1, 0, 1]
    assert data.respondents is not None
    assert data.respondents.loc["p1"].tolist() == ["de", "2"]
    with pytest.raises(InputError, match=r"answers.csv: 5 respondents are left; expected at least \d+ to estimate"):
        screen_respondents(settings, data)
    monkeypatch.setattr("irtbench.study.person_screening.FEWEST_RESPONDENTS", 5)
    screening = screen_respondents(settings, data).last
    assert screening.reason == ("",) * 5 + ("too few responses",)
    overall, by_label = agreement_of_kept(settings, data, screening)
    assert overall is not None
    assert overall.n_answers == 20
    assert data.answers is not None
    own = data.answers[data.answers["respondent_id"] != "p5"]
    assert overall.fleiss_kappa == irtbench.agreement(own, items=data.items).fleiss_kappa
    assert by_label.keys() == {"u", "v"}
    assert agreement_of_kept(settings, replace(data, answers=None), screening) == (None, {})


def test_items_are_divided_and_unknown_ones_named(settings: StudyFile) -> None:
    items = read_data(settings).items
    parts = divide(items, settings)
    assert parts == {"u": ("a", "b"), "v": ("c", "d")}
    assert divide(items, replace(settings, scales=replace(settings.scales, by="none"))) == {"all": tuple("abcd")}
    half = replace(items, label=("u", None, "v", "v"))
    is_refused(r"scales.by: item b has no label", divide, half, settings)
    assert divide(irtbench.ItemTable.plain(("a", "b")), settings) == {"all": ("a", "b")}
    check_named_items(parts, settings)
    for part, wrong in (
        ("pruning", replace(settings.pruning, protect=("a", "z"))),
        ("model", replace(settings.model, by_item={"z": "3pl"})),
    ):
        with pytest.raises(InputError, match=rf"study.toml: {part}.*: unknown item z"):
            check_named_items(parts, replace(settings, **{part: wrong}))


def test_the_effect_of_screening_compares_answers_as_they_were_graded(settings: StudyFile) -> None:
    data = read_data(replace(settings, grading=irtbench.GradingSettings(normalise=("casefold",))))
    assert data.answers is not None
    shouted = data.answers.assign(answer=[a.upper() if k % 3 else a for k, a in enumerate(data.answers["answer"])])
    of = (data.items, data.responses.to_matrix())
    expected = agreement_on(data.answers, *of, irtbench.GradingSettings())["all"].fleiss_kappa
    assert agreement_on(shouted, *of, irtbench.GradingSettings(normalise=("casefold",)))["all"].fleiss_kappa == expected
    assert agreement_on(shouted, *of, irtbench.GradingSettings())["all"].fleiss_kappa < expected
    spaced = data.answers.assign(answer=[f"{a} " if k % 3 else a for k, a in enumerate(data.answers["answer"])])
    assert agreement_on(spaced, *of, irtbench.GradingSettings())["all"].fleiss_kappa == expected
