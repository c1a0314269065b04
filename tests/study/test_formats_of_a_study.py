"""A study file takes every format, a folder of logs, and the choices that these leave."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.harness_logs import write_logs
from builders.simulated import simulated
from irtbench.data.place import file_hash
from irtbench.study.study_data import read_data
from irtbench.study.systems import read_systems

N = 12
RESPONSES = simulated(N, 6, seed=3)[0]


def study(folder: Path, data: str) -> Path:
    (folder / "study.toml").write_text(f"[data]\n{data}\n")
    return folder / "study.toml"


def test_a_folder_of_logs_is_a_study(tmp_path: Path) -> None:
    write_logs(RESPONSES, range(N), tmp_path / "runs")
    settings = irtbench.read_study(
        study(tmp_path, 'answers = "runs"\nformat = "lm-eval"\ncontent = "responses"\nmetric = ["acc,strict"]')
    )
    data = read_data(settings)
    assert data.responses.item_ids == tuple(f"t/{item}" for item in RESPONSES.item_ids)
    order = [data.responses.respondent_ids.index(name) for name in RESPONSES.respondent_ids]
    np.testing.assert_array_equal(data.responses.to_matrix().values[order], RESPONSES.values)
    before = file_hash(settings.data.answers)
    next(settings.data.answers.rglob("*.jsonl")).write_text("{}\n")
    assert file_hash(settings.data.answers) != before


def test_a_choice_that_is_not_made_is_an_error(tmp_path: Path) -> None:
    write_logs(RESPONSES, range(N), tmp_path / "runs")
    with pytest.raises(irtbench.InputError, match=r"several .*acc_norm.*--metric"):
        read_data(irtbench.read_study(study(tmp_path, 'answers = "runs"\ncontent = "responses"')))
    with pytest.raises(irtbench.InputError, match=r"data.format: expected 'auto', 'long', .*'py-irt' but got 'excel'"):
        irtbench.read_study(study(tmp_path, 'answers = "runs"\nformat = "excel"'))


def test_a_system_may_be_of_another_format_than_the_crowd(tmp_path: Path) -> None:
    write_logs(RESPONSES, range(2), tmp_path / "runs")
    items = [f"t/{item}" for item in RESPONSES.item_ids]
    rows = [(f"w{i}", item, "yes" if (i + k) % 2 else "no") for i in range(N) for k, item in enumerate(items)]
    pd.DataFrame(rows, columns=["worker", "task", "label"]).to_csv(tmp_path / "crowd.csv", index=False)
    pd.DataFrame({"item_id": items, "key": ["no", "yes"] * 3}).to_csv(tmp_path / "items.csv", index=False)
    data = 'answers = "crowd.csv"\nitems = "items.csv"\nmetric = ["acc,strict"]\n[score]\nsystems = ["runs"]'
    settings = irtbench.read_study(study(tmp_path, data))
    read = read_data(settings)
    assert read.responses.n_respondents == N
    ((_, systems),) = read_systems(settings, read.items)
    assert set(systems.respondent_ids) == set(RESPONSES.respondent_ids[:2])
    order = [systems.respondent_ids.index(name) for name in RESPONSES.respondent_ids[:2]]
    np.testing.assert_array_equal(systems.values[order], RESPONSES.values[:2])


def test_submissions_that_prolific_does_not_count_are_left_out(tmp_path: Path) -> None:
    RESPONSES.to_long().to_csv(tmp_path / "r.csv", index=False)
    names = RESPONSES.respondent_ids
    people = pd.DataFrame(
        {
            "Submission id": range(N), "Participant id": names, "Status": ["RETURNED", *["APPROVED"] * (N - 1)],
            "Started at": "", "Completed at": "", "Time taken": "10", "Sex": ["Male", "Female"] * (N // 2),
        }
    )  # fmt: skip
    people.to_csv(tmp_path / "prolific.csv", index=False)
    data = 'answers = "r.csv"\ncontent = "responses"\nrespondents = "prolific.csv"'
    assert read_data(irtbench.read_study(study(tmp_path, data))).responses.respondent_ids == names[1:]
    read = read_data(irtbench.read_study(study(tmp_path, data + '\n[score]\nnorm_groups = ["Sex"]')))
    assert read.respondents is not None
    assert read.respondents["Sex"].tolist()[1] == "Female"
